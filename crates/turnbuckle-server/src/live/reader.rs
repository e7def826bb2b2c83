//! A reader at work: store, bus and connection.

use super::dialect::{Dialect, Flow, Told};
use super::follow::{Follow, Take};
use super::frame::Frames;
use crate::dto::TurnEnd;
use bytes::Bytes;
use futures_util::FutureExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use turnbuckle_bus::{Bus, Call, Heard, Live, Notice, Watch};
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::part::Part;
use turnbuckle_store::{Posted, Session, SessionKey, SessionStatus, Store, StoreError, TurnStatus};

/// Stored events read at once.
const PAGE: u32 = 256;
/// Bytes that are written without waiting for more.
const ENOUGH: usize = 64 * 1024;
/// How often a reader asks for what it missed, at the most.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How often a reader that waits for rest looks whether there is rest: an input may leave the inbox without any event.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Where a stream ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// With this turn, or with the turn that this turn's message entered.
    Turn(TurnId),
    /// As [`Turn`](Self::Turn), but a pause that somebody has answered already is not the end.
    Settled(TurnId),
    /// When nothing runs and nothing waits.
    Idle,
}

/// How a reader wants it.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Where the stream ends; absent for never.
    pub until: Option<Until>,
    /// What comes within this time of the last write is written together.
    pub gather: Duration,
    /// A comment is written after so much silence.
    pub keep_alive: Duration,
    /// The stream ends after this, and the reader comes again.
    pub longest: Duration,
}

/// What the reader knows of the session's title. Titles that a turn gives are events. Those that people give are not, since the
/// numbers of events are the owner's to give: they are read from the session's row.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Title {
    /// It is told as soon as the row is read, whichever it is.
    Due,
    /// What the row says first is what the reader has.
    Had,
    /// It was told this one, or has it.
    Is(Option<String>),
}

/// Reads a session for one connection.
pub struct Reader {
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    key: SessionKey,
    watch: Watch,
    follow: Follow,
    wishes: Wishes,
    dialect: Box<dyn Dialect>,
    frames: Frames,
    shutdown: CancellationToken,
    last_write: Option<Instant>,
    end: Instant,
    asked: Option<Instant>,
    /// Whether the store has more than was given.
    behind: bool,
    /// Whether what was given and is not stored may be void.
    doubt: bool,
    /// Whether the store was read to its end once.
    caught_up: bool,
    /// When to look again whether nothing waits any more.
    look_again: Option<Instant>,
    title: Title,
    /// The turn that ended last, until it is told.
    ended: Option<(TurnId, Outcome, u64)>,
    done: bool,
    /// Whether the dialect knows that it is done.
    closed: bool,
}

impl Reader {
    /// A reader. The watch must have begun before the session's row was read that `follow` stems from.
    pub fn new(
        store: Arc<dyn Store>,
        bus: Arc<dyn Bus>,
        watch: Watch,
        follow: Follow,
        wishes: Wishes,
        mut dialect: Box<dyn Dialect>,
        shutdown: CancellationToken,
    ) -> Self {
        let mut frames = Frames::default();
        dialect.begin(&mut frames);
        let end = Instant::now() + wishes.longest;
        // A stream without an end is taken up again behind breaks, in which somebody may have given a title.
        let title = if wishes.until.is_none() { Title::Due } else { Title::Had };
        Self {
            store,
            bus,
            key: watch.session().clone(),
            watch,
            follow,
            wishes,
            dialect,
            frames,
            shutdown,
            last_write: None,
            end,
            asked: None,
            behind: true,
            doubt: false,
            caught_up: false,
            look_again: None,
            title,
            ended: None,
            done: false,
            closed: false,
        }
    }

    /// The frames that stand before all events.
    pub fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// What is to be written next; `None` at the end.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.behind && !self.done && self.frames.len() < ENOUGH {
                if let Err(e) = self.read_store().await {
                    self.give_up(&e);
                }
                self.tell_end().await;
                continue;
            }
            let due = self.last_write.map_or_else(Instant::now, |at| at + self.wishes.gather);
            let full = self.done || self.frames.len() >= ENOUGH || due <= Instant::now();
            if full && !self.frames.is_empty() {
                self.last_write = Some(Instant::now());
                return Some(self.frames.take(self.follow.sure()));
            }
            if self.done {
                if std::mem::replace(&mut self.closed, true) {
                    return None;
                }
                self.dialect.done(&mut self.frames);
                continue;
            }
            let wake = if self.frames.is_empty() {
                self.last_write.unwrap_or_else(Instant::now) + self.wishes.keep_alive
            } else {
                due
            };
            let look_again = self.look_again.unwrap_or(self.end);
            let heard = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => {
                    self.leave("the server shuts down");
                    continue;
                }
                heard = self.watch.next() => heard,
                () = sleep_until(wake.min(self.end).min(look_again)) => {
                    let now = Instant::now();
                    if self.end <= now {
                        self.leave("the stream is old");
                    } else if look_again <= now {
                        self.look_again = None;
                        self.behind = true;
                        self.caught_up = false;
                    } else if self.frames.is_empty() {
                        self.frames.keep_alive();
                        self.last_write = None;
                    }
                    continue;
                }
            };
            self.hear(heard);
            while self.frames.len() < ENOUGH
                && !self.done
                && let Some(heard) = self.watch.next().now_or_never()
            {
                self.hear(heard);
            }
            self.tell_end().await;
        }
    }

    fn leave(&mut self, why: &'static str) {
        self.dialect.bye(why, &mut self.frames);
        self.done = true;
    }

    fn give_up(&mut self, error: &StoreError) {
        match error {
            StoreError::NotFound { .. } => self.dialect.deleted(&mut self.frames),
            other => {
                tracing::warn!(session = %self.key.id, "a stream ends: {}", other.report());
                self.dialect.bye("the database cannot be read", &mut self.frames);
            }
        }
        self.done = true;
    }

    fn hear(&mut self, heard: Option<Heard<Notice>>) {
        match heard {
            None => self.leave("the server shuts down"),
            Some(Heard::Lagged) => {
                self.behind = true;
                self.caught_up = false;
            }
            Some(Heard::Told(Notice::Events(live))) => self.live(&live),
            Some(Heard::Told(Notice::Committed { seq })) => {
                if self.follow.committed(seq) {
                    self.behind = true;
                }
            }
            Some(Heard::Told(Notice::Titled)) => {
                self.title = Title::Due;
                self.behind = true;
                self.caught_up = false;
            }
            Some(Heard::Told(Notice::Deleted)) => {
                self.dialect.deleted(&mut self.frames);
                self.done = true;
            }
            // A notice of a newer version.
            Some(Heard::Told(_)) => {}
        }
    }

    fn live(&mut self, live: &Live) {
        for (i, event) in live.events().iter().enumerate() {
            if self.done {
                return;
            }
            // What is missing comes from the store.
            if self.behind && event.seq > self.follow.at() + 1 {
                return;
            }
            match self.follow.live(event) {
                Take::Give => self.give(&Told::live(event, live, i)),
                Take::Skip => {}
                Take::Gap => return self.ask(),
                Take::Doubt => {
                    self.behind = true;
                    self.caught_up = false;
                    self.doubt = true;
                    return;
                }
            }
        }
    }

    /// Asks the owner for what is not stored yet.
    fn ask(&mut self) {
        let now = Instant::now();
        if self.asked.is_none_or(|at| at + ASK_AGAIN <= now) {
            self.asked = Some(now);
            self.bus.call(Call::Recall { session: self.key.clone() });
        }
    }

    async fn read_store(&mut self) -> Result<(), StoreError> {
        let events = self.store.events(&self.key, self.follow.sure(), PAGE).await?;
        for event in &events {
            match self.follow.stored(event) {
                Take::Give => {
                    self.give(&Told::stored(event));
                    if self.done {
                        return Ok(());
                    }
                }
                Take::Skip => {}
                Take::Gap | Take::Doubt => {
                    let (key, seq) = (&self.key.id, event.seq);
                    tracing::error!(session = %key, "the stored events have a gap before {seq}");
                    return Ok(());
                }
            }
        }
        if events.len() < PAGE as usize {
            self.behind = false;
            if std::mem::take(&mut self.doubt) {
                self.follow.forget();
            }
            if !std::mem::replace(&mut self.caught_up, true) {
                self.at_the_end_of_the_store().await?;
            }
        }
        Ok(())
    }

    /// The reader has all that is stored. It may wait for something that has been long ago, and what happens now may have begun
    /// before it came.
    async fn at_the_end_of_the_store(&mut self) -> Result<(), StoreError> {
        let session = self.store.session(&self.key).await?;
        if session.next_seq > self.follow.sure() + 1 {
            self.behind = true;
            self.caught_up = false;
            return Ok(());
        }
        self.compare_title(&session);
        if session.status == SessionStatus::Running {
            self.ask();
        }
        if self.ended.is_some() {
            return Ok(());
        }
        match self.wishes.until.clone() {
            None => {}
            Some(Until::Idle) => self.done = self.is_idle(&session).await?,
            Some(Until::Turn(turn) | Until::Settled(turn)) => self.look_for(&turn).await?,
        }
        // What runs tells its end; what only waits may go without a word.
        if self.wishes.until.is_some() && session.status != SessionStatus::Running {
            self.look_again = Some(Instant::now() + LOOK_AGAIN);
        }
        Ok(())
    }

    /// Tells the session's title when it is not the one that the reader has.
    fn compare_title(&mut self, session: &Session) {
        let told = match &self.title {
            Title::Due => None,
            Title::Had => session.title.as_ref(),
            Title::Is(title) => title.as_ref(),
        };
        if let Some(title) = session.title.as_ref().filter(|title| told != Some(title)) {
            self.dialect.title(title, &mut self.frames);
        }
        self.title = Title::Is(session.title.clone());
    }

    /// Whether a turn that is waited for has ended before the reader came, or never comes. The inbox is read first: what has
    /// left it by then is in what is read after it.
    async fn look_for(&mut self, turn: &TurnId) -> Result<(), StoreError> {
        let inbox = self.store.inbox(&self.key).await?;
        let waits = inbox.iter().any(
            |item| matches!(&item.input, Posted::Message { message, .. } if message.turn == *turn),
        );
        if waits {
            return Ok(());
        }
        let turns = self.store.turns(&self.key).await?;
        let session = self.store.session(&self.key).await?;
        let Some(record) = turns.iter().find(|record| record.id == *turn) else {
            // Its message entered a turn that still runs; else there is nothing to wait for.
            match session.status {
                SessionStatus::Running => self.wishes.until = Some(Until::Idle),
                SessionStatus::Idle | SessionStatus::Paused => self.done = true,
            }
            return Ok(());
        };
        // What happened since is on its way.
        if session.next_seq > self.follow.at() + 1 {
            return Ok(());
        }
        let outcome = match record.status {
            TurnStatus::Running => return Ok(()),
            TurnStatus::Paused if !self.is_idle(&session).await? => return Ok(()),
            TurnStatus::Paused => Outcome::Paused,
            TurnStatus::Finished => record.outcome.clone().unwrap_or(Outcome::Completed),
        };
        self.ended = Some((record.id.clone(), outcome, self.follow.at()));
        Ok(())
    }

    fn give(&mut self, told: &Told<'_>) {
        let event = told.event;
        // Something stands behind the turn that ended last.
        if let Some((turn, outcome, seq)) = self.ended.take() {
            self.end_of(TurnEnd { turn, outcome, seq, idle: false });
            if self.done {
                return;
            }
        }
        self.dialect.stored(self.follow.sure());
        let flow = self.dialect.event(self.follow.place(), told, &mut self.frames);
        if flow == Flow::End {
            self.done = true;
            return;
        }
        if let Some(Until::Turn(turn) | Until::Settled(turn)) = &mut self.wishes.until
            && entered(event, turn)
        {
            *turn = event.turn.clone();
        }
        if let EventKind::SessionTitleUpdated { title } = &event.kind {
            self.title = Title::Is(Some(title.clone()));
        }
        self.ended = outcome_of(&event.kind).map(|o| (event.turn.clone(), o, event.seq));
    }

    async fn tell_end(&mut self) {
        let Some((turn, outcome, seq)) = self.ended.take() else { return };
        let idle = match self.store.session(&self.key).await {
            Ok(session) if session.next_seq == seq + 1 => {
                // A title that a person gave at the last moment has the better of one that the turn gave.
                self.compare_title(&session);
                self.is_idle(&session).await
            }
            Ok(_) => Ok(false),
            Err(e) => Err(e),
        };
        match idle {
            Ok(idle) => self.end_of(TurnEnd { turn, outcome, seq, idle }),
            Err(e) => {
                self.end_of(TurnEnd { turn, outcome, seq, idle: false });
                if !self.done {
                    self.give_up(&e);
                }
            }
        }
    }

    /// Whether nothing runs and nothing waits to run. Messages that were queued behind a pause wait for people, too.
    async fn is_idle(&self, session: &Session) -> Result<bool, StoreError> {
        match session.status {
            SessionStatus::Running => Ok(false),
            _ if session.pending == 0 => Ok(true),
            SessionStatus::Idle => Ok(false),
            SessionStatus::Paused => {
                let waiting = self.store.inbox(&self.key).await?;
                if !waiting.iter().all(|item| item.n < session.kept_below) {
                    return Ok(false);
                }
                // What waited may have been taken up between the two.
                let now = self.store.session(&self.key).await?;
                let still = |s: &Session| (s.status, s.next_seq, s.pending);
                Ok(still(&now) == still(session))
            }
        }
    }

    fn end_of(&mut self, end: TurnEnd) {
        self.dialect.turn_end(&end, &mut self.frames);
        match &self.wishes.until {
            Some(Until::Turn(turn)) if *turn == end.turn => self.done = true,
            Some(Until::Settled(turn))
                if *turn == end.turn && (end.outcome != Outcome::Paused || end.idle) =>
            {
                self.done = true;
            }
            Some(Until::Idle) if end.idle => self.done = true,
            Some(_) => self.look_again = Some(Instant::now() + LOOK_AGAIN),
            None => {}
        }
    }
}

/// Whether the message that was to open `turn` entered another one.
fn entered(event: &Event, turn: &TurnId) -> bool {
    match &event.kind {
        EventKind::PartAdded { value, .. } => match &**value {
            Part::Input(input) => input.message.as_ref() == Some(&turn.user_message()),
            _ => false,
        },
        _ => false,
    }
}

/// How a turn ended, when the event says that it did.
pub fn outcome_of(kind: &EventKind) -> Option<Outcome> {
    match kind {
        EventKind::TurnCompleted { .. } => Some(Outcome::Completed),
        EventKind::TurnPaused { .. } => Some(Outcome::Paused),
        EventKind::TurnExhausted { reason, .. } => Some(Outcome::Exhausted { reason: *reason }),
        EventKind::TurnError { error, .. } => Some(Outcome::Error { error: error.clone() }),
        EventKind::TurnAborted { reason, .. } => Some(Outcome::Aborted { reason: *reason }),
        _ => None,
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
