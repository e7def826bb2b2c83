//! Turns without a session.

use super::{Engine, EngineError, Submission};
use crate::attachments;
use crate::domain::TurnInfo;
use crate::driver::{Control, Conversation, Driver, Outlet, TurnStream};
use crate::runtime::Storage;
use crate::session::SessionState;
use crate::trace;
use std::sync::Arc;
use tracing::Instrument;
use turnbuckle_core::content::Content;
use turnbuckle_core::ids::{AgentName, SessionId, TurnId};
use turnbuckle_core::machine::{Input, Turn};
use turnbuckle_core::message::UserMessage;
use turnbuckle_core::transcript::Transcript;

impl Engine {
    /// Runs one turn without a session: nothing is stored, and a pause is its end.
    ///
    /// # Errors
    /// When the agent or its model is not there.
    pub fn converse(
        &self,
        agent: impl Into<AgentName>,
        history: Transcript,
        submission: impl Into<Submission>,
    ) -> Result<TurnStream, EngineError> {
        let mut s = submission.into();
        self.0.content.check(&s.content)?;
        if let Content::Parts(parts) = s.content {
            let parts = parts.into_iter().map(attachments::measured).collect();
            s.content = Content::from_parts(parts);
        }
        let assembler = self.0.assembler.clone();
        let turn = TurnId::from(format!("t_{}", (self.0.ids)()));
        let now = assembler.clock.now();
        let info = TurnInfo {
            tenant: "local".into(),
            user: s.author.clone().unwrap_or_else(|| "local".into()),
            session: SessionId::from("none"),
            turn: turn.clone(),
            agent: agent.into(),
            mode: s.mode,
            surroundings: s.surroundings.clone(),
            at: now,
            account: s.account.clone(),
        };
        let control = Control::new();
        let state = SessionState::load(None);
        let models = (s.model.as_ref(), None);
        let runtime = self.assemble(info, models, Storage::None, &state, &control)?;
        let message = UserMessage {
            id: turn.user_message(),
            turn,
            at: now,
            content: s.content,
            author: s.author,
            origin: s.origin,
            surroundings: s.surroundings,
            client_id: s.client_id,
        };
        let machine = Turn::new(assembler.spec(&runtime, message, 0))?;
        let outlet = Outlet::default();
        let conversation = Conversation::new(history, None);
        let mut driver = Driver::new(
            assembler,
            Arc::new(runtime),
            machine,
            conversation,
            control.clone(),
            outlet.clone(),
            1,
        );
        driver.feed(Input::Begin)?;
        let drive = Box::pin(async move {
            let span = trace::turn(&driver.runtime.info, driver.turn.epoch());
            match driver.run().instrument(span.clone()).await {
                Ok(outcome) => trace::turn_ended(&span, &outcome, &driver.turn.meters().usage),
                Err(e) => tracing::error!("a turn without a session ended with a defect: {e}"),
            }
        });
        Ok(TurnStream::new(outlet, control, drive))
    }
}
