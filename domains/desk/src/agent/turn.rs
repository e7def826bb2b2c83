//! The desk's part in one turn: who it is for, what the page and mentions fill in, what its answer
//! shows.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use turnbuckle::core::context::Ambient;
use turnbuckle::core::error::ToolError;
use turnbuckle::core::json::Json;
use turnbuckle::core::machine::FinalChanges;
use turnbuckle::core::message::AssistantMessage;
use turnbuckle::core::outcome::Outcome;
use turnbuckle::pipeline::{HookCall, Hooks};
use turnbuckle::tool::Eventual;
use turnbuckle::{DomainTurn, Reader, TurnInfo};

use super::capability::Registry;
use super::prefill::{self, Referred};
use super::references::enrich;
use super::snapshots::Seen;

/// One turn at the desk.
pub(super) struct DeskTurn {
    pub(super) registry: Arc<Registry>,
    pub(super) info: TurnInfo,
    /// The page the turn is on.
    pub(super) page: Option<String>,
    /// Who the prompt says the agent acts for.
    pub(super) person: Option<Value>,
    pub(super) references: Vec<Referred>,
    /// The records that earlier turns saw, and in the end those of this one as well.
    pub(super) seen: Mutex<Seen>,
}

impl Hooks for DeskTurn {
    fn transform_tool_input<'a>(
        &'a self,
        call: HookCall<'a>,
    ) -> Eventual<'a, Result<Option<Value>, ToolError>> {
        let tool = call.contract.name().as_str();
        Eventual::Ready(prefill::fill(tool, call.args, &self.references))
    }
}

impl DomainTurn for DeskTurn {
    fn state(&self) -> Option<Value> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).to_carry()
    }

    fn ambient(&self) -> Ambient {
        let mut ambient = Ambient::default();
        ambient.sys.insert("userId".to_owned(), json!(self.info.user).into());
        if let Some(page) = &self.page {
            ambient.sys.insert("page".to_owned(), json!(page).into());
        }
        if let Some(id) = self.person.as_ref().and_then(|person| person.get("id")) {
            ambient.sys.insert("memberId".to_owned(), id.clone().into());
        }
        ambient
    }

    fn caller(&self) -> Option<Json> {
        self.person.clone().map(Json::from)
    }

    fn reader(&self) -> Reader {
        let zone = self.person.as_ref().and_then(|person| person.get("time_zone")?.as_str());
        Reader { time_zone: zone.map(Into::into), ..Reader::default() }
    }

    fn post_process(&self, message: &AssistantMessage) -> FinalChanges {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.add_message(message);
        let mut changes = FinalChanges::default();
        for (index, part) in message.parts.iter().enumerate() {
            let (Some(text), Ok(index)) = (part.as_text(), u32::try_from(index)) else { continue };
            let enriched = enrich(text, &seen);
            changes.texts.extend(enriched.text.map(|text| (index, text)));
            changes.link_snapshots.extend(enriched.links);
        }
        changes
    }

    fn on_turn_end(&self, outcome: &Outcome) {
        for capability in self.registry.active(self.page.as_deref()) {
            if let Some(run) = &capability.on_turn_end {
                run(&self.info, outcome);
            }
        }
    }
}
