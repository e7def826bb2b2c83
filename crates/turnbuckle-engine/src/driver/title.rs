//! Giving a session its title at the end of its first completed turn.
//!
//! The title is part of how the turn ends: the machine is told it with what the domain's end-of-turn hooks changed, so it is in
//! the journal, its event has its number, and a call for it is metered on the message. It is made from what the person wrote
//! first, never from an answer.

use super::bill::Beside;
use super::work::TitleWork;
use super::{Driver, MachineError};
use crate::runtime::Titles;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use turnbuckle_core::machine::{FinalChanges, Input, NewTitle, StepId};
use turnbuckle_core::model::{Block, ModelRequest, SystemBlock};
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::title::title_of;
use turnbuckle_core::transcript::{Item, Transcript};
use turnbuckle_core::usage::Purpose;
use turnbuckle_models::Model;
use turnbuckle_store::{SessionKey, Store};

const ASK: &str = "Write a title of at most six words, in the language of the message, for a conversation that begins with \
                   the message of the user. Answer with the title alone, without quotation marks.";
/// Enough for a title, and for a model that thinks first.
const TOKENS: u32 = 400;
/// Bytes of the message that the model reads.
const SHOWN: usize = 2000;
/// How long the end of a turn waits for a title that a model writes.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session without a title.
pub(crate) struct Untitled {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: SessionKey,
    /// What the person wrote first.
    pub(crate) first: String,
}

impl Driver {
    /// Ends the turn with these changes, and with a title when the session is to get one.
    pub(super) fn finalize_with(
        &mut self,
        step: StepId,
        outcome: &Outcome,
        mut changes: FinalChanges,
    ) -> Result<(), MachineError> {
        let given = changes.title.take();
        let untitled = match outcome {
            Outcome::Completed if given.is_some() || self.runtime.titles != Titles::Off => {
                self.untitled.take()
            }
            _ => None,
        };
        match untitled {
            None => self.feed(Input::Finalized { step, changes: Box::new(changes) }),
            Some(untitled) => {
                let model = if given.is_none() { self.title_model() } else { None };
                let agent = self.runtime.info.agent.clone();
                let beside =
                    model.map(|model| self.beside(model, &agent, step, Purpose::Title, None));
                let plain = given.or_else(|| plain(&untitled.first));
                let future = title(untitled, plain.clone(), beside.clone());
                self.work.title = Some(TitleWork { step, changes, plain, beside, future });
                Ok(())
            }
        }
    }

    /// The model that writes titles, when one is to and the turn can afford it.
    fn title_model(&self) -> Option<Arc<dyn Model>> {
        let Titles::Model(wanted) = &self.runtime.titles else { return None };
        if self.turn.model_calls_left() == 0 {
            return None;
        }
        match self.assembler.models.resolve(Some(wanted)) {
            Ok(model) => Some(model),
            Err(e) => {
                tracing::warn!("titles are made without a model: {e}");
                None
            }
        }
    }

    /// The end waits no longer: the title is what can be had at once.
    pub(super) fn settle_title(&mut self) -> Result<(), MachineError> {
        match self.work.title.take() {
            None => Ok(()),
            Some(work) => {
                let plain = work.plain.clone();
                self.titled(work, plain)
            }
        }
    }

    pub(super) fn titled(
        &mut self,
        work: TitleWork,
        title: Option<NewTitle>,
    ) -> Result<(), MachineError> {
        let TitleWork { step, changes, beside, .. } = work;
        if let Some(beside) = beside {
            self.forgo_beside(step, Purpose::Title, &beside)?;
        }
        let changes = Box::new(FinalChanges { title, ..changes });
        self.feed(Input::Finalized { step, changes })
    }
}

/// The title, unless somebody has given one meanwhile.
fn title(
    untitled: Untitled,
    plain: Option<NewTitle>,
    beside: Option<Beside>,
) -> BoxFuture<'static, Option<NewTitle>> {
    Box::pin(async move {
        // While this cannot be known, one is made: the store keeps what a person gave in any case.
        if untitled.store.session(&untitled.key).await.is_ok_and(|s| s.title.is_some()) {
            return None;
        }
        let Some(beside) = beside else { return plain };
        match tokio::time::timeout(PATIENCE, ask(&beside, &untitled.first)).await {
            Ok(Some(written)) => Some(written),
            Ok(None) | Err(_) => plain,
        }
    })
}

async fn ask(beside: &Beside, first: &str) -> Option<NewTitle> {
    let mut transcript = Transcript::default();
    transcript.push_item(Item::user(turnbuckle_core::json::clip(first, SHOWN)));
    let mut request = ModelRequest::new(beside.model().id().model.clone(), transcript);
    request.system = vec![SystemBlock::new(ASK)];
    request.settings.max_output_tokens = Some(TOKENS);
    let answer = match beside.call(request).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!("a title could not be written: {error}");
            return None;
        }
    };
    let text: String = answer
        .response
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let quotes = |c: char| matches!(c, '"' | '\'' | '“' | '”' | '„' | '«' | '»' | '.');
    let title = title_of(&text).map(|t| t.trim_matches(quotes).to_owned());
    // What was paid for is metered even when it is of no use.
    match title.filter(|t| !t.is_empty()).or_else(|| title_of(first)) {
        Some(title) => Some(NewTitle { title, call: Some(Box::new(answer)) }),
        None => {
            beside.forgo(answer);
            None
        }
    }
}

fn plain(first: &str) -> Option<NewTitle> {
    title_of(first).map(|title| NewTitle { title, call: None })
}
