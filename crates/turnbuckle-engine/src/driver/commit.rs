//! Storing each step before the next one is taken.

use super::work::CapturedCall;
use super::{DriveError, Driver};
use crate::attachments;
use crate::session::SessionState;
use crate::tool::eventual::guarded;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use turnbuckle_core::allowance::{Remember, RememberFor};
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::{MessageId, TurnId, UserId};
use turnbuckle_core::machine::{ExecuteResult, Input, Recorded, Superseded};
use turnbuckle_core::message::{Message, SystemBody, SystemMessage};
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::part::Part;
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::{
    Allowance, Blob, Commit, Delivery, InboxItem, KeptModel, NewCaptured, OpenTurn, Posted,
    SessionKey, SessionStatus, Store, StoreError, StoreFuture, TurnChange, TurnStatus,
};

/// How often the store is asked again, for what can wait for another time.
pub(crate) const ATTEMPTS: u32 = 5;

/// How often a commit is tried while the store is away or full, two minutes in all, and how long the longest wait between two
/// tries is. What a tool did is known here alone until it is stored.
pub(crate) const COMMIT_ATTEMPTS: u32 = 32;
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Whether the session's own state may have changed since it was last stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    No,
    Maybe,
}

/// The session's own state during a turn: what tools and the domain change beside the message.
pub(crate) type SessionSide = Arc<SessionState>;

/// Collects what a commit holds and writes it.
pub(crate) struct Writer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: SessionKey,
    pub(crate) fence: u64,
    pub(crate) lease: Duration,
    pub(crate) side: SessionSide,
    pub(crate) journal: Vec<Recorded>,
    pub(crate) blobs: Vec<crate::pipeline::Blob>,
    pub(crate) consumed: Vec<u64>,
    pub(crate) state_changed: Changed,
    /// The turn to open with the first commit.
    pub(crate) open: Option<OpenTurn>,
    /// Steering messages told to the machine, with their place in the inbox. They leave the inbox when they enter the message.
    pub(crate) steering: BTreeMap<MessageId, u64>,
    /// The model that the session keeps from the next commit on.
    pub(crate) model: Option<KeptModel>,
    title: Option<String>,
    /// Cards whose decision holds for further calls, and who decided.
    remembered: Vec<(MessageId, Remember, Option<UserId>)>,
    captured: Vec<NewCaptured>,
    cards: BTreeSet<MessageId>,
    last_state: Option<String>,
    renew: Pin<Box<Sleep>>,
}

impl Writer {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        key: SessionKey,
        fence: u64,
        lease: Duration,
        side: SessionSide,
    ) -> Self {
        Self {
            store,
            key,
            fence,
            lease,
            side,
            journal: Vec::new(),
            blobs: Vec::new(),
            consumed: Vec::new(),
            state_changed: Changed::No,
            open: None,
            steering: BTreeMap::new(),
            model: None,
            title: None,
            remembered: Vec::new(),
            captured: Vec::new(),
            cards: BTreeSet::new(),
            last_state: None,
            renew: Box::pin(tokio::time::sleep(lease / 3)),
        }
    }

    /// What an event says beside the message: cards to store, steering that entered.
    pub(crate) fn note_event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::ApprovalRequired { card } | EventKind::ClientToolRequired { card } => {
                self.cards.insert(card.id.clone());
            }
            EventKind::ApprovalDecided { card, decided, .. } => {
                self.cards.insert(card.clone());
                if let Some(remember) = &decided.remember {
                    let by = decided.by.clone();
                    self.remembered.push((card.clone(), remember.clone(), by));
                }
            }
            EventKind::SessionTitleUpdated { title } => self.title = Some(title.clone()),
            EventKind::PartAdded { value, .. } => {
                if let Part::Input(input) = &**value
                    && let Some(id) = &input.message
                    && let Some(n) = self.steering.remove(id)
                {
                    self.consumed.push(n);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn note_captured(
        &mut self,
        turn: &TurnId,
        call: &CapturedCall,
        result: &ExecuteResult,
    ) {
        let ExecuteResult::Success { result, .. } = result else { return };
        let action = serde_json::json!({
            "call": call.call, "agent": call.agent, "tool": call.tool, "args": call.args,
            "index": call.index, "predicted": result.output, "digest": result.digest,
        });
        self.captured.push(NewCaptured {
            turn: turn.clone(),
            index: call.index,
            action: action.into(),
        });
    }

    pub(crate) fn poll_renew(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.renew.as_mut().poll(cx)
    }

    pub(crate) async fn renew(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let every = self.lease / 3;
        match self.store.renew(&self.key, self.fence, self.lease.as_millis() as u64, now).await {
            Ok(()) => self.renew.as_mut().reset(Instant::now() + every),
            // Trouble that passes: the lease has two thirds left, and nobody can take the session while nothing can be stored.
            Err(e) if passes(&e) => self.renew.as_mut().reset(Instant::now() + every / 8),
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

impl Driver {
    /// Writes what has come since the last commit. Nothing is forgotten when the store is away for a while: the same commit is
    /// tried again, and nothing else is done meanwhile.
    pub(super) async fn commit(&mut self, outcome: Option<&Outcome>) -> Result<(), DriveError> {
        let now = self.now();
        let messages = self.messages_to_store(outcome);
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut commit = Commit::new(writer.key.clone(), writer.fence, now);
        commit.messages = messages;
        commit.account = self.runtime.info.account.clone();
        commit.open_turn = writer.open.take();
        if commit.open_turn.is_some() {
            commit.session_status = Some(SessionStatus::Running);
        }
        commit.journal = std::mem::take(&mut writer.journal);
        commit.consumed = std::mem::take(&mut writer.consumed);
        commit.captured = std::mem::take(&mut writer.captured);
        commit.blobs = writer.blobs.drain(..).map(Into::into).collect();
        commit.model = writer.model.take();
        commit.title = writer.title.take();
        let remembered = std::mem::take(&mut writer.remembered);
        let cards = std::mem::take(&mut writer.cards);
        let all = &self.turn.messages().cards;
        commit.cards = all.iter().filter(|c| cards.contains(&c.id)).cloned().collect();
        let person = &self.runtime.info.user;
        let allowed = remembered.into_iter().filter_map(|(id, remember, by)| {
            let card = all.iter().find(|c| c.id == id)?;
            allowance(card, remember, by.unwrap_or_else(|| person.clone()), &writer.key)
        });
        commit.allowances = allowed.collect();
        if outcome.is_some() {
            writer.side.set_next_capture(self.turn.next_capture());
        }
        if writer.state_changed == Changed::Maybe || outcome.is_some() {
            let domain = guarded(|| self.runtime.domain_turn.state()).unwrap_or_else(|panic| {
                tracing::error!(turn = %self.id, %panic, "the domain's `state` panicked; the last one is kept");
                writer.side.domain()
            });
            let state = writer.side.snapshot(domain);
            if writer.last_state.as_ref() != Some(&state) {
                commit.state = Some(state.clone());
                writer.last_state = Some(state);
            }
            writer.state_changed = Changed::No;
        }
        if let Some(outcome) = outcome {
            let paused = *outcome == Outcome::Paused;
            let status = if paused { TurnStatus::Paused } else { TurnStatus::Finished };
            commit.turn =
                Some(TurnChange { id: self.id.clone(), status, outcome: Some(outcome.clone()) });
            commit.session_status =
                Some(if paused { SessionStatus::Paused } else { SessionStatus::Idle });
            commit.release = true;
        } else if self.resumed {
            self.resumed = false;
            commit.turn = Some(TurnChange {
                id: self.id.clone(),
                status: TurnStatus::Running,
                outcome: None,
            });
            commit.session_status = Some(SessionStatus::Running);
        }
        let (store, outlet) = (&*writer.store, &self.outlet);
        // The events lie in little room until they are written, for each try anew.
        let written = patient(COMMIT_ATTEMPTS, || {
            store.commit(Commit { events: outlet.kept(), ..commit.clone() })
        });
        let committed = self.work.meanwhile(written).await?;
        self.released = committed.released;
        self.outlet.set_committed(committed.next_seq.saturating_sub(1));
        if committed.pending > 0 {
            self.control.knock();
        }
        Ok(())
    }

    /// The user's message when the turn opens; the assistant's when it pauses or ends.
    fn messages_to_store(&self, outcome: Option<&Outcome>) -> Vec<Message> {
        let mut messages = Vec::new();
        if self.writer.as_ref().is_some_and(|w| w.open.is_some()) {
            messages.push(Message::User(self.turn.spec().user.clone()));
        }
        if let (Some(_), Some(message)) = (outcome, self.turn.message()) {
            messages.push(Message::Assistant(Box::new(message.clone())));
        }
        messages
    }

    /// Takes from the inbox what concerns the running turn. Queued messages wait for its end.
    pub(super) async fn read_inbox(&mut self) -> Result<(), DriveError> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let (store, key) = (writer.store.clone(), writer.key.clone());
        let items = match self.work.meanwhile(store.inbox(&key)).await {
            Ok(items) => items,
            // It is read again at the next commit.
            Err(e) if e.retryable() => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        for item in items {
            let known = self.writer.as_ref().is_some_and(|w| {
                w.consumed.contains(&item.n) || w.steering.values().any(|n| *n == item.n)
            });
            if !known {
                self.fetch_attached(&item.input).await?;
                self.take_item(item)?;
            }
        }
        Ok(())
    }

    /// The bytes of what is attached to a message that enters the turn.
    async fn fetch_attached(&mut self, input: &Posted) -> Result<(), DriveError> {
        let (Some(writer), Posted::Message { delivery: Delivery::Steer, message, .. }) =
            (&self.writer, input)
        else {
            return Ok(());
        };
        if message.content.has_media() {
            let (store, key) = (writer.store.clone(), writer.key.clone());
            // The message was held to its limits when it was posted.
            let contents = [&message.content];
            let more = attachments::gather(&*store, &key, &contents, u64::MAX);
            let more = self.work.meanwhile(more).await?;
            self.conversation.media_mut().extend(&more);
        }
        Ok(())
    }

    /// After a crash the machine may know steering messages already, from the journal.
    pub(crate) fn recall_steering(&mut self, inbox: &[InboxItem]) {
        let Some(writer) = &mut self.writer else { return };
        for item in inbox {
            if let Posted::Message { delivery: Delivery::Steer, message, .. } = &item.input
                && self.turn.knows_message(&message.id)
            {
                writer.steering.insert(message.id.clone(), item.n);
            }
        }
    }

    fn take_item(&mut self, item: InboxItem) -> Result<(), DriveError> {
        let n = item.n;
        let input = match item.input {
            Posted::Message { delivery: Delivery::Steer, message, .. }
                if self.turn.accepts_steering() =>
            {
                let id = message.id.clone();
                self.feed(Input::Steer { message })?;
                if let Some(writer) = &mut self.writer {
                    writer.steering.insert(id, n);
                }
                return Ok(());
            }
            Posted::Message { .. } => return Ok(()),
            Posted::Stop { turn, .. } => {
                if turn.is_none_or(|t| t == self.id) {
                    self.stop(Superseded::No)?;
                }
                None
            }
            input @ (Posted::Decision { .. } | Posted::ClientResult { .. }) => {
                crate::session::as_input(InboxItem { input, ..item }, self.turn.messages())
            }
        };
        if let Some(input) = input
            && let Err(e) = self.feed(input)
        {
            // The card was settled some other way meanwhile; the post's own receipt said what it was.
            tracing::info!(turn = %self.id, "an answer came too late: {e}");
        }
        if let Some(writer) = &mut self.writer {
            writer.consumed.push(n);
        }
        self.must_store = super::Store::Now;
        Ok(())
    }
}

/// What a decision allows for good.
fn allowance(
    card: &SystemMessage,
    remember: Remember,
    user: UserId,
    key: &SessionKey,
) -> Option<Allowance> {
    let SystemBody::Approval(body) = &card.body else { return None };
    Some(Allowance {
        id: card.id.clone(),
        user,
        session: match remember.scope {
            RememberFor::Session => Some(key.id.clone()),
            RememberFor::User => None,
        },
        agent: body.agent.clone()?,
        tool: body.tool.clone(),
        args: remember.args,
        at: body.decided.as_ref()?.at,
    })
}

impl From<crate::pipeline::Blob> for Blob {
    fn from(blob: crate::pipeline::Blob) -> Self {
        Self {
            id: blob.reference,
            media_type: blob.media_type.to_owned(),
            content: blob.text.into_bytes(),
        }
    }
}

/// Writes a commit, waiting for a store that is away. Repeating a commit is safe: the store knows the last one.
pub(crate) async fn write(
    store: &dyn Store,
    commit: Commit,
) -> Result<turnbuckle_store::Committed, StoreError> {
    patient(COMMIT_ATTEMPTS, || store.commit(commit.clone())).await
}

/// Whether to wait: a store that is away comes back, and somebody makes room on a full disk.
const fn passes(error: &StoreError) -> bool {
    error.retryable() || matches!(error, StoreError::Full { .. })
}

/// Tries again while the store is away or full for a moment.
pub(crate) async fn patient<'a, T>(
    attempts: u32,
    mut attempt: impl FnMut() -> StoreFuture<'a, T>,
) -> Result<T, StoreError> {
    let mut wait = Duration::from_millis(50);
    for _ in 1..attempts {
        match attempt().await {
            Err(e) if passes(&e) => {
                tracing::warn!("the store is tried again: {}", e.report());
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            done => return done,
        }
    }
    attempt().await
}
