//! Conversations that clients name themselves, and what clients send about them.
//!
//! A client of another protocol makes up the id of its conversation and sends its whole transcript each time. The conversation
//! is a session of the caller, whose id follows from the caller, the agent and the client's id, so that nobody can reach another's
//! by its name; the id of a session of the caller names that session. Of the transcript only what is new counts: what the
//! session has is never taken from the client.

use crate::api::Api;
use crate::auth::access::{Want, may, needs};
use crate::auth::principal::Principal;
use crate::digest::digest;
use crate::dto::{NewDecision, NewSession, NewToolResult, NewTurn, Role, Verdict};
use crate::problem::{Answer, Code, Problem};
use crate::request::{Caller, text};
use serde_json::json;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::ids::{MessageId, TurnId};
use turnbuckle_core::message::{Asks, CardStatus, Message, Origin, SystemBody, UserMessage};
use turnbuckle_store::{Card, CardQuery, CardStanding, Posted, Session, SessionStatus, StoreError};

/// Characters of a client's id.
const ID: usize = 200;
/// Messages at the end of a session among which a message of a client is looked for; older ones are found by their key.
const RECENT: u32 = 32;
/// Cards of a session that may wait at once.
const CARDS: u32 = 200;

/// A protocol's name for a conversation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thread<'a> {
    pub(crate) protocol: &'static str,
    pub(crate) agent: &'a str,
    pub(crate) id: &'a str,
}

/// Where a turn's events begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begins {
    pub(crate) turn: TurnId,
    /// The place before its first event.
    pub(crate) after: String,
}

/// When a message was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Now,
    /// So long ago that it was not found among the last messages.
    Before,
}

/// An answer to a card.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Decision(NewDecision),
    Result(NewToolResult),
}

impl Thread<'_> {
    fn key(&self) -> String {
        format!("{}/{}/{}", self.protocol, self.agent, self.id)
    }

    /// The session; `None` when there is none yet.
    ///
    /// # Errors
    /// Not found for whoever talks to no agent, and for an agent that is not there; when the id is wrong; the store's.
    pub(crate) async fn find(&self, api: &Api, who: &Principal) -> Answer<Option<Session>> {
        needs(who, Role::User)?;
        if !api.engine().domain().agents().contains_key(self.agent) {
            return Err(Problem::not_found());
        }
        text("id", self.id, ID)?;
        for id in [self.id.to_owned(), api.session_id(who, &self.key())] {
            match api.store().session(&who.session(&id)).await {
                Ok(session) if !may(who, &session.user, Want::Talk) => {}
                Ok(session) if session.agent.as_str() == self.agent => return Ok(Some(session)),
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(None)
    }

    /// Makes the session that [`find`](Self::find) has not found.
    ///
    /// # Errors
    /// When it was deleted; the store's.
    pub(crate) async fn open(&self, api: &Api, who: &Principal) -> Answer<Session> {
        let new = NewSession { agent: Some(self.agent.to_owned()), ..NewSession::default() };
        let session = api.create_session(who, new, Some(&self.key())).await?;
        api.session(who, session.id.as_str(), Want::Talk).await
    }
}

/// A message of a client that the session has already.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) message: UserMessage,
    /// Its place among the session's messages; `None` while its turn runs or it waits.
    pub(crate) place: Option<u32>,
    /// Whether a person has written more since.
    pub(crate) standing: Standing,
}

/// Where a message stands among those of people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is the last one.
    Last,
    /// There are later ones.
    Earlier,
}

impl Api {
    /// A message of a client that the session has already, waiting or not.
    pub(crate) async fn known(&self, session: &Session, id: &str) -> Answer<Option<Known>> {
        let view = self.store().view(&session.key, RECENT).await?;
        let running = match (view.session.status, &view.session.turn) {
            (SessionStatus::Running, Some(turn)) => self.opening(session, turn).await?,
            _ => None,
        };
        let is = |message: &UserMessage| {
            message.client_id.as_deref() == Some(id) || message.id.as_str() == id
        };
        let stored =
            (view.first..).zip(view.messages).filter_map(|(place, message)| match message {
                Message::User(message) => Some((Some(place), message)),
                _ => None,
            });
        let waiting = view.inbox.into_iter().filter_map(|item| match item.input {
            Posted::Message { message, .. } => Some(*message),
            _ => None,
        });
        let unsettled = running.into_iter().chain(waiting).map(|message| (None, message));
        let mut all = stored.chain(unsettled);
        let Some((place, message)) = all.find(|(_, message)| is(message)) else { return Ok(None) };
        let standing = match all.any(|(_, later)| later.origin == Origin::Person) {
            true => Standing::Earlier,
            false => Standing::Last,
        };
        Ok(Some(Known { message, place, standing }))
    }

    /// The message that opened a turn. While that runs, it is only in the turn's first event.
    pub(crate) async fn opening(
        &self,
        session: &Session,
        turn: &TurnId,
    ) -> Answer<Option<UserMessage>> {
        let before = self.before(&session.key, turn).await?;
        let first = self.store().events(&session.key, before, 1).await?.into_iter().next();
        Ok(first.and_then(|event| match event.kind {
            EventKind::TurnStarted { message, .. } if event.turn == *turn => Some(*message),
            _ => None,
        }))
    }

    /// Submits a message of a client that is not [`known`](Self::known).
    pub(crate) async fn submit_new(
        &self,
        who: &Principal,
        session: &Session,
        id: &str,
        new: NewTurn,
    ) -> Answer<(Begins, Taken)> {
        text("messages.id", id, ID)?;
        let new = NewTurn { client_id: Some(id.to_owned()), ..new };
        let key = once(&["message", id]);
        let submitted = self.submit(who, session.key.id.as_str(), new, Some(key)).await?;
        let taken = if submitted.duplicate { Taken::Before } else { Taken::Now };
        Ok((Begins { turn: submitted.turn, after: submitted.after }, taken))
    }

    /// Whether other turns have followed a turn.
    pub(crate) async fn is_past(&self, session: &Session, turn: &TurnId) -> Answer<bool> {
        let turns = self.store().turns(&session.key).await?;
        let place = turns.iter().position(|record| record.id == *turn);
        Ok(place.is_some_and(|place| place + 1 < turns.len()))
    }

    /// Where a turn begins.
    pub(crate) async fn begins(&self, session: &Session, turn: TurnId) -> Answer<Begins> {
        let after = self.before(&session.key, &turn).await?.to_string();
        Ok(Begins { turn, after })
    }

    /// The turn that is at work, or else the next one that will be; `None` when nothing moves.
    pub(crate) async fn moving(&self, session: &Session) -> Answer<Option<Begins>> {
        if session.status == SessionStatus::Running
            && let Some(turn) = session.turn.clone()
        {
            return Ok(Some(self.begins(session, turn).await?));
        }
        if session.pending == 0 {
            return Ok(None);
        }
        for item in self.store().inbox(&session.key).await? {
            match item.input {
                Posted::Message { message, .. } if session.turn.is_none() => {
                    return Ok(Some(self.begins(session, message.turn).await?));
                }
                Posted::Decision { .. } | Posted::ClientResult { .. } | Posted::Stop { .. } => {
                    if let Some(turn) = session.turn.clone() {
                        return Ok(Some(self.begins(session, turn).await?));
                    }
                }
                Posted::Message { .. } => {}
            }
        }
        Ok(None)
    }

    /// The cards of a session that nobody has answered.
    pub(crate) async fn open_cards(&self, session: &Session) -> Answer<Vec<Card>> {
        let query = CardQuery {
            session: Some(session.key.id.clone()),
            standing: CardStanding::Pending,
            limit: CARDS,
            ..CardQuery::of(session.key.tenant.clone())
        };
        let cards = self.store().cards(query).await?.items;
        Ok(cards.into_iter().filter(|card| card.answered_by.is_none()).collect())
    }

    /// A card of this session, whatever became of it.
    pub(crate) async fn card_of(&self, session: &Session, id: &MessageId) -> Answer<Option<Card>> {
        match self.store().card(&session.key.tenant, id).await {
            Ok(card) if card.session == session.key => Ok(Some(card)),
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Answers a card once: the same answer again changes nothing.
    ///
    /// # Errors
    /// `already_decided` for another answer; those of [`decide`](Self::decide) and [`result_of_card`](Self::result_of_card).
    pub(crate) async fn reply(&self, caller: &Caller, card: &Card, reply: Reply) -> Answer<()> {
        let id = card.message.id.as_str();
        let SystemBody::Approval(body) = &card.message.body else {
            return Err(Problem::not_found());
        };
        match (reply, body.asks) {
            (Reply::Decision(new), Asks::Decision) => {
                let key = once(&["decision", id, &json!(new).to_string()]);
                match self.decide_on_record(caller, id, new.clone(), Some(key)).await {
                    Err(problem) if problem.code == Code::AlreadyDecided && says(body, &new) => {
                        Ok(())
                    }
                    answered => answered.map(drop),
                }
            }
            (Reply::Result(new), Asks::ClientResult) => {
                let key = once(&["result", id, &json!(new).to_string()]);
                self.result_of_card(&caller.who, &card.message.id, new, Some(key)).await.map(drop)
            }
            _ => Err(Problem::new(Code::WrongAnswer, "The card asks for something else.")),
        }
    }
}

/// Whether a card's decision, once it has taken effect, is this one.
fn says(card: &turnbuckle_core::message::ApprovalCard, new: &NewDecision) -> bool {
    let Some(decided) = &card.decided else { return false };
    let amended = |amendment: &Option<serde_json::Map<_, _>>| {
        amendment.clone().filter(|fields| !fields.is_empty()).map(serde_json::Value::Object)
    };
    match (card.status, new.decision) {
        (CardStatus::Approved, Verdict::Approve) => {
            decided.amendment.as_deref().cloned() == amended(&new.amendment)
        }
        (CardStatus::Rejected, Verdict::Reject) => decided.reason == new.reason,
        _ => false,
    }
}

/// An idempotency key of whatever length its parts have.
fn once(parts: &[&str]) -> String {
    format!("protocol-{}", digest(parts))
}
