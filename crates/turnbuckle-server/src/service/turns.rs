//! Submitting messages and stopping turns.

use super::sessions::model;
use crate::api::Api;
use crate::auth::access::Want;
use crate::auth::principal::Principal;
use crate::config::Limits;
use crate::dto::{NewClientTool, NewTurn, StopState, Stopped, Submitted, TurnList, TurnView};
use crate::live::first_of;
use crate::problem::{Answer, Problem};
use jiff::tz::TimeZone;
use serde_json::json;
use turnbuckle_core::ids::{SessionKey, TurnId};
use turnbuckle_core::message::{ClientTool, Origin, Surroundings};
use turnbuckle_engine::Submission;
use turnbuckle_engine::tool::{FnTool, RegisteredTool};
use turnbuckle_store::{Posted, Receipt, Session, TurnStatus};

/// Characters of a page's name.
const PAGE: usize = 500;
/// Characters of the name of where an answer is shown.
const SURFACE: usize = 64;
/// Characters of the name of a time zone; the longest there is has half as many.
const TIME_ZONE: usize = 64;
/// Characters of the id under which a front end knows its message.
const CLIENT_ID: usize = 200;
/// Characters of the name of a tool that a front end offers: the fewest that a provider takes.
const TOOL_NAME: usize = 64;

impl Api {
    /// Stores a message for a session; whoever owns the session works on it.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); when a field is wrong; the store's.
    pub async fn submit(
        &self,
        who: &Principal,
        id: &str,
        new: NewTurn,
        idempotency_key: Option<String>,
    ) -> Answer<Submitted> {
        let session = self.session(who, id, Want::Talk).await?;
        self.check(&new)?;
        self.within_quota(who).await?;
        let submission = Submission {
            content: new.content,
            author: Some(who.user.clone()),
            origin: Origin::Person,
            surroundings: Surroundings {
                page: new.page,
                surface: new.surface.map(Into::into),
                time_zone: new.time_zone.map(Into::into),
                references: new.references.into_iter().map(Into::into).collect(),
                tools: offered(new.tools, &self.options().limits)?,
            },
            model: model("model", new.model.as_deref())?,
            mode: new.mode.into(),
            delivery: new.delivery.into(),
            idempotency_key,
            account: who.key.as_deref().map(Into::into),
            client_id: new.client_id,
        };
        let receipt = self.engine().post_message(&session.key, submission).await?;
        self.bus().call(turnbuckle_bus::Call::Inbox { session: session.key.clone() });
        let (item, duplicate) = match receipt {
            Receipt::Accepted(item) => (item, false),
            Receipt::Duplicate(item) => (item, true),
        };
        let Posted::Message { message, .. } = item.input else {
            return Err(Problem::internal(&"a message was stored as something else"));
        };
        let after = match duplicate {
            false => session.next_seq.saturating_sub(1),
            true => self.before(&session.key, &message.turn).await?,
        };
        let after = after.to_string();
        Ok(Submitted { turn: message.turn, message: message.id, after, duplicate })
    }

    fn check(&self, new: &NewTurn) -> Answer<()> {
        let limits = &self.options().limits;
        if new.content.is_empty()
            || (!new.content.has_media() && new.content.text().trim().is_empty())
        {
            return Err(Problem::field("content", "must not be empty"));
        }
        limits.message.check(&new.content).map_err(|e| content_problem(&e))?;
        if let Some(id) = &new.client_id {
            crate::request::text("client_id", id, CLIENT_ID)?;
        }
        if let Some(page) = &new.page {
            crate::request::text("page", page, PAGE)?;
        }
        if let Some(surface) = &new.surface {
            crate::request::text("surface", surface, SURFACE)?;
        }
        if let Some(zone) = &new.time_zone {
            crate::request::text("time_zone", zone, TIME_ZONE)?;
            if TimeZone::get(zone).is_err() {
                let why = "must be the IANA name of a time zone, such as Europe/Vienna";
                return Err(Problem::field("time_zone", why));
            }
        }
        if new.references.len() > limits.references {
            let most = limits.references;
            return Err(Problem::too_large("references", format!("must be at most {most}")));
        }
        for (i, reference) in new.references.iter().enumerate() {
            if reference.to_string().len() > limits.reference_bytes {
                let (field, most) = (format!("references[{i}]"), limits.reference_bytes);
                return Err(Problem::too_large(field, format!("must have at most {most} bytes")));
            }
        }
        Ok(())
    }

    /// The number of the last event before a turn; for one that has not begun, of the last event there is.
    pub(crate) async fn before(&self, key: &SessionKey, turn: &TurnId) -> Answer<u64> {
        let session = self.store().session(key).await?;
        let first = first_of(&**self.store(), key, &session, turn).await?;
        Ok(first.unwrap_or(session.next_seq).saturating_sub(1))
    }

    /// A session's turns, oldest first.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); the store's.
    pub async fn turns(&self, who: &Principal, id: &str) -> Answer<TurnList> {
        let session = self.session(who, id, Want::Read).await?;
        let turns = self.store().turns(&session.key).await?;
        let view = |turn: turnbuckle_store::TurnRecord| TurnView {
            id: turn.id,
            status: turn.status.into(),
            outcome: turn.outcome,
            started: turn.started,
            ended: turn.ended,
        };
        Ok(TurnList { items: turns.into_iter().map(view).collect() })
    }

    /// Stops a turn, or whichever there is.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); not found for a turn that the session does not have; the store's.
    pub async fn stop(&self, who: &Principal, id: &str, turn: Option<&str>) -> Answer<Stopped> {
        let session = self.session(who, id, Want::Tend).await?;
        let open = session.turn.clone();
        let turn = match turn {
            // Without an open turn there may still be one that is about to open.
            None if open.is_none() && session.pending == 0 => {
                return Ok(Stopped { turn: None, state: StopState::Ended });
            }
            None => open,
            Some(turn) => {
                let turn = TurnId::from(turn);
                if open.as_ref() != Some(&turn) && self.has_ended(&session, &turn).await? {
                    return Ok(Stopped { turn: Some(turn), state: StopState::Ended });
                }
                Some(turn)
            }
        };
        let stop = Posted::Stop { turn: turn.clone(), by: Some(who.user.clone()) };
        self.post(&session.key, stop, None).await?;
        Ok(Stopped { turn, state: StopState::Stopping })
    }

    /// Whether a turn that is not open has ended; else it must be waiting to begin.
    async fn has_ended(&self, session: &Session, turn: &TurnId) -> Answer<bool> {
        let turns = self.store().turns(&session.key).await?;
        if let Some(record) = turns.iter().find(|record| record.id == *turn) {
            return Ok(record.status == TurnStatus::Finished);
        }
        let waiting = self.store().inbox(&session.key).await?;
        let waits = waiting.iter().any(
            |item| matches!(&item.input, Posted::Message { message, .. } if message.turn == *turn),
        );
        if waits { Ok(false) } else { Err(Problem::not_found()) }
    }
}

/// Tools of a front end, checked.
fn offered(tools: Vec<NewClientTool>, limits: &Limits) -> Answer<Vec<ClientTool>> {
    if tools.len() > limits.tools {
        return Err(Problem::too_large("tools", format!("must be at most {}", limits.tools)));
    }
    let mut checked: Vec<ClientTool> = Vec::with_capacity(tools.len());
    for (i, tool) in tools.into_iter().enumerate() {
        let field = |name: &str| format!("tools[{i}].{name}");
        let letters = tool.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if tool.name.is_empty() || tool.name.len() > TOOL_NAME || !letters {
            let what = format!("must be 1 to {TOOL_NAME} letters, digits, `_` or `-`");
            return Err(Problem::field(field("name"), what));
        }
        if checked.iter().any(|other| other.name == *tool.name) {
            return Err(Problem::field(field("name"), "must not be that of another tool"));
        }
        let schema = tool.input_schema.unwrap_or_else(|| json!({"type": "object"}));
        if tool.description.len() + schema.to_string().len() > limits.tool_bytes {
            let most = limits.tool_bytes;
            let what = format!("must have at most {most} bytes, its description included");
            return Err(Problem::too_large(field("input_schema"), what));
        }
        let tool = ClientTool {
            name: tool.name.into(),
            description: tool.description,
            input_schema: schema.into(),
        };
        RegisteredTool::new(FnTool::offered(&tool))
            .map_err(|e| Problem::field(field("input_schema"), e.to_string()))?;
        checked.push(tool);
    }
    Ok(checked)
}

fn content_problem(error: &turnbuckle_core::content::ContentError) -> Problem {
    use turnbuckle_core::content::ContentError as E;
    match error {
        E::TooMuchText { .. }
        | E::TooManyParts { .. }
        | E::TooLarge { .. }
        | E::TooLargeTogether { .. } => Problem::too_large("content", error.to_string()),
        _ => Problem::field("content", error.to_string()),
    }
}
