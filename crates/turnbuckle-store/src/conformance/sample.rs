//! Data for the suite.

use crate::error::{Conflict, StoreError};
use crate::model::{
    Claim, Commit, Committed, Delivery, NewSession, OpenTurn, Post, Posted, SessionKey,
    SessionStatus, TurnChange, TurnStatus,
};
use crate::store::Store;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::{MessageId, TurnId};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{Decision, Input, Recorded};
use turnbuckle_core::message::{
    ApprovalCard, Asks, AssistantMessage, CardStatus, ClientTool, MESSAGE_SCHEMA, Message,
    MessageState, Origin, Surroundings, SystemBody, SystemMessage, UserMessage,
};
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::part::{Part, TextPart};
use turnbuckle_core::time::Timestamp;

/// The store under test.
pub type Subject = Arc<dyn Store>;

/// `ms` after the beginning of the suite's time.
pub fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + ms)
}

/// A session of tenant `acme`.
pub fn key(id: &str) -> SessionKey {
    SessionKey::new("acme", id)
}

/// A session to create.
pub fn new_session(key: &SessionKey, now: Timestamp) -> NewSession {
    NewSession {
        key: key.clone(),
        user: "ann".into(),
        agent: "main".into(),
        title: Some("Ärger mit der Rechnung".to_owned()),
        model: Some("rehearsal".to_owned()),
        state: Some(r#"{"var":{}}"#.to_owned()),
        now,
    }
}

/// A user message that opens `turn`.
pub fn user_message(turn: &str, text: &str) -> UserMessage {
    let turn = TurnId::from(turn);
    UserMessage {
        id: turn.user_message(),
        turn,
        at: at(0),
        content: text.into(),
        author: Some("ann".into()),
        origin: Origin::Person,
        surroundings: Surroundings {
            page: Some("/mail/7".to_owned()),
            surface: Some("email".into()),
            time_zone: Some("Europe/Vienna".into()),
            references: vec![Arc::new(json!({"id": 7}))],
            tools: vec![ClientTool {
                name: "open_mail".into(),
                description: "Opens a mail.".to_owned(),
                input_schema: Arc::new(json!({"type": "object"})),
            }],
        },
        client_id: Some(format!("{text} as the page knows it")),
    }
}

/// The assistant message of `turn`.
pub fn assistant_message(turn: &str, text: &str, state: MessageState) -> Message {
    let turn = TurnId::from(turn);
    Message::Assistant(Box::new(AssistantMessage {
        schema: MESSAGE_SCHEMA,
        id: turn.assistant_message(),
        turn,
        agent: "main".into(),
        at: at(0),
        state,
        parts: vec![Part::Text(TextPart { iteration: 0, text: text.to_owned(), native: None })],
        iterations: Vec::new(),
        link_snapshots: BTreeMap::new(),
    }))
}

/// A card about call 0 of `turn`.
pub fn card(turn: &str, asks: Asks, status: CardStatus) -> SystemMessage {
    let turn = TurnId::from(turn);
    let call = turn.call(0);
    SystemMessage {
        id: call.card(),
        at: at(5),
        body: SystemBody::Approval(Box::new(ApprovalCard {
            call,
            message: turn.assistant_message(),
            agent: Some("main".into()),
            asks,
            tool: "reply".into(),
            title: "Reply".to_owned(),
            args: Arc::new(json!({"text": "Dear Ms \u{1F980}", "n": 1.5})),
            digest: None,
            reason: Some("it leaves the house".to_owned()),
            editable: None,
            status,
            expires_at: Some(at(10_000)),
            decided: None,
        })),
        turn,
    }
}

/// The id of the card that [`card`] makes for `turn`.
pub fn card_id(turn: &str) -> MessageId {
    TurnId::from(turn).call(0).card()
}

/// Journal entry `n`.
pub fn entry(n: u32) -> Recorded {
    Recorded {
        n,
        at: at(i64::from(n)),
        input: Input::Progress { step: n, data: Arc::new(json!({"note": "ö\n\"q\""})) },
    }
}

/// Event `seq` of `turn`.
pub fn event(key: &SessionKey, turn: &str, seq: u64) -> Event {
    let kind = EventKind::SessionTitleUpdated { title: format!("event {seq}") };
    Event {
        seq,
        epoch: 0,
        at: at(0),
        session: key.id.clone(),
        turn: turn.into(),
        agent: "main".into(),
        kind,
    }
}

/// A decision to post.
pub fn decision(key: &SessionKey, turn: &str, decision: Decision, by: &str) -> Post {
    let input = Posted::Decision { card: card_id(turn), decision, by: Some(by.into()) };
    Post { key: key.clone(), idempotency_key: None, input, now: at(20) }
}

/// Approves without changes.
pub fn approve() -> Decision {
    Decision::approve()
}

/// A user message to post.
pub fn message(key: &SessionKey, turn: &str, text: &str, idempotency_key: Option<&str>) -> Post {
    let message = Box::new(user_message(turn, text));
    let input = Posted::Message { delivery: Delivery::Queue, message, options: Json::default() };
    Post {
        key: key.clone(),
        idempotency_key: idempotency_key.map(str::to_owned),
        input,
        now: at(10),
    }
}

/// An owner at work on one session, who numbers its events and journal.
pub struct Owner {
    /// The store.
    pub store: Subject,
    /// The session.
    pub key: SessionKey,
    /// The fence of the claim.
    pub fence: u64,
    /// The next event.
    pub seq: u64,
    /// The next journal entry.
    pub n: u32,
}

impl Owner {
    /// Creates a session and claims it for 1,000 ms at time 0.
    pub async fn of_new(store: &Subject, key: &SessionKey) -> Self {
        store.create_session(new_session(key, at(0))).await.unwrap();
        Self::claim(store, key, "one", at(0)).await
    }

    /// Claims a session for 1,000 ms.
    pub async fn claim(store: &Subject, key: &SessionKey, owner: &str, now: Timestamp) -> Self {
        let Claim::Held { fence, session } = store.claim(key, owner, 1_000, now).await.unwrap()
        else {
            panic!("the session should be free");
        };
        Self { store: Arc::clone(store), key: key.clone(), fence, seq: session.next_seq, n: 0 }
    }

    /// A commit that changes nothing yet.
    pub fn commit(&self, now: Timestamp) -> Commit {
        Commit::new(self.key.clone(), self.fence, now)
    }

    /// A commit that opens a turn with its user message, one journal entry and two events.
    pub fn open(&mut self, turn: &str) -> Commit {
        let mut commit = self.commit(at(1));
        self.n = 0;
        commit.open_turn =
            Some(OpenTurn { id: turn.into(), spec: format!(r#"{{"turn":"{turn}"}}"#) });
        commit.messages.push(Message::User(user_message(turn, "Where is my parcel?")));
        commit.session_status = Some(SessionStatus::Running);
        self.step(&mut commit, turn, 1, 2);
        commit
    }

    /// Adds journal entries and events to a commit.
    pub fn step(&mut self, commit: &mut Commit, turn: &str, entries: u32, events: u64) {
        for _ in 0..entries {
            commit.journal.push(entry(self.n));
            self.n += 1;
        }
        for _ in 0..events {
            commit.events.push(&event(&self.key, turn, self.seq));
            self.seq += 1;
        }
    }

    /// A commit that finishes a turn with its assistant message.
    pub fn finish(&mut self, turn: &str) -> Commit {
        let mut commit = self.commit(at(2));
        let outcome = Outcome::Completed;
        let state = MessageState::Finished { outcome: outcome.clone() };
        commit.messages.push(assistant_message(turn, "It is on its way.", state));
        commit.turn = Some(TurnChange {
            id: turn.into(),
            status: TurnStatus::Finished,
            outcome: Some(outcome),
        });
        commit.session_status = Some(SessionStatus::Idle);
        self.step(&mut commit, turn, 1, 1);
        commit
    }

    /// Opens a turn and pauses it for a decision; gives the commit that ends it with the decision made.
    pub async fn approved(&mut self, turn: &str) -> Commit {
        let open = self.open(turn);
        self.write(open).await;
        let pause = self.pause(turn, Asks::Decision);
        self.write(pause).await;
        let mut finish = self.finish(turn);
        finish.cards.push(card(turn, Asks::Decision, CardStatus::Approved));
        finish
    }

    /// A commit that pauses a turn with a card.
    pub fn pause(&mut self, turn: &str, asks: Asks) -> Commit {
        let mut commit = self.commit(at(2));
        commit.messages.push(assistant_message(turn, "May I?", MessageState::Paused));
        commit.cards.push(card(turn, asks, CardStatus::Pending));
        commit.turn =
            Some(TurnChange { id: turn.into(), status: TurnStatus::Paused, outcome: None });
        commit.session_status = Some(SessionStatus::Paused);
        self.step(&mut commit, turn, 1, 1);
        commit
    }

    /// Commits.
    pub async fn write(&self, commit: Commit) -> Committed {
        self.store.commit(commit).await.unwrap()
    }

    /// A whole turn, from opening to end.
    pub async fn turn(&mut self, turn: &str) {
        let open = self.open(turn);
        self.write(open).await;
        let finish = self.finish(turn);
        self.write(finish).await;
    }
}

/// Everything that can be seen of a session, to prove that an operation changed nothing.
pub async fn everything(store: &Subject, key: &SessionKey) -> String {
    let loaded = store.load(key).await.unwrap();
    let events = store.events(key, 0, u32::MAX).await.unwrap();
    let turns = store.turns(key).await.unwrap();
    let captured = store.captured(key, None).await.unwrap();
    format!("{loaded:?}\n{events:?}\n{turns:?}\n{captured:?}")
}

/// The conflict of a refused operation.
pub fn conflict<T: std::fmt::Debug>(result: Result<T, StoreError>) -> Conflict {
    match result {
        Err(StoreError::Conflict { what }) => what,
        other => panic!("expected a conflict, not {other:?}"),
    }
}

/// Asserts that an operation found nothing.
pub fn missing<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(
        matches!(result, Err(StoreError::NotFound { .. })),
        "expected nothing to be found, not {result:?}"
    );
}
