//! One session in memory.

use super::lease::give_back;
use crate::check::Standing;
use crate::error::{Conflict, StoreError};
use crate::model::{
    Blob, BlobInfo, Captured, CapturedStatus, Card, Commit, Committed, Consumed, CutTurn, Export,
    ExportedInput, ForkAt, InboxItem, Loaded, NewCaptured, Posted, Session, SessionStatus, TurnLog,
    TurnRecord, TurnStatus, View,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use turnbuckle_core::ids::{MessageId, TurnId};
use turnbuckle_core::machine::Recorded;
use turnbuckle_core::message::Message;
use turnbuckle_core::pack::Packed;
use turnbuckle_core::room;
use turnbuckle_core::time::Timestamp;

pub(super) struct Held {
    pub row: Session,
    pub state: Option<String>,
    pub messages: Vec<Message>,
    /// Positions by id.
    index: HashMap<MessageId, usize>,
    pub turns: Vec<Log>,
    pub events: Packed,
    pub captured: Vec<(Timestamp, Captured)>,
    pub inbox: Vec<Posting>,
    pub blobs: BTreeMap<String, Arc<Blob>>,
    /// The last commit that had a journal or events, to know a repetition.
    last: Option<Last>,
}

pub(super) struct Posting {
    pub item: InboxItem,
    pub key: Option<String>,
    pub waiting: bool,
}

/// A turn with its journal.
pub(super) struct Log {
    pub turn: TurnRecord,
    journal: Lines,
}

impl Log {
    pub(super) fn read(&self) -> Result<TurnLog, StoreError> {
        Ok(TurnLog { turn: self.turn.clone(), journal: self.journal.read()? })
    }
}

/// Entries of a journal, each as a line of JSON. They are read when a turn is taken up and at no other time, and as text they
/// take half the room. What came together lies together: one text that grew with each commit would have to be moved each time,
/// to where there is room for all of it.
#[derive(Default)]
pub(super) struct Lines {
    pieces: Vec<Box<str>>,
    count: usize,
}

impl Lines {
    pub(super) fn of(entries: &[Recorded]) -> Result<Self, StoreError> {
        let mut text = String::new();
        for entry in entries {
            let line = serde_json::to_string(entry).map_err(unreadable)?;
            room::append(&mut text, &line);
            room::append(&mut text, "\n");
        }
        let pieces = if text.is_empty() { Vec::new() } else { vec![text.into_boxed_str()] };
        Ok(Self { pieces, count: entries.len() })
    }

    fn extend(&mut self, more: Self) {
        for piece in more.pieces {
            room::push(&mut self.pieces, piece);
        }
        self.count += more.count;
    }

    fn ends_with(&self, last: &Self) -> bool {
        self.pieces.ends_with(&last.pieces)
    }

    fn read(&self) -> Result<Vec<Recorded>, StoreError> {
        let entry = |line| serde_json::from_str(line).map_err(unreadable);
        self.pieces.iter().flat_map(|piece| piece.lines()).map(entry).collect()
    }
}

fn unreadable(cause: serde_json::Error) -> StoreError {
    StoreError::Corrupt { what: "journal".to_owned(), cause: Arc::new(cause) }
}

/// Without room to spare.
fn compact(mut text: String) -> String {
    text.shrink_to_fit();
    text
}

/// What a commit added at the end of a turn's journal and of the session's events.
struct Last {
    turn: Option<TurnId>,
    entries: usize,
    events: usize,
}

/// What a fork takes along.
pub(super) struct Copy {
    messages: Vec<Message>,
    turns: Vec<TurnRecord>,
    blobs: BTreeMap<String, Arc<Blob>>,
}

impl Held {
    pub(super) fn new(row: Session, state: Option<String>) -> Self {
        Self {
            row,
            state,
            messages: Vec::new(),
            index: HashMap::new(),
            turns: Vec::new(),
            events: Packed::default(),
            captured: Vec::new(),
            inbox: Vec::new(),
            blobs: BTreeMap::new(),
            last: None,
        }
    }

    pub(super) fn load(&self) -> Result<Loaded, StoreError> {
        let turn = self.open().map(Log::read).transpose()?;
        Ok(Loaded {
            session: self.row.clone(),
            state: self.state.clone(),
            messages: self.messages.clone(),
            turn,
            unreadable: None,
            inbox: self.waiting(),
        })
    }

    pub(super) fn view(&self, last: u32) -> View {
        let running = self.row.turn.as_ref().filter(|_| self.row.status == SessionStatus::Running);
        let told = |message: &&Message| running != Some(message.turn());
        // A running turn's messages are the last ones.
        let end = self.messages.iter().take_while(told).count();
        let first = end.saturating_sub(last as usize);
        let last_seq = self.row.next_seq.saturating_sub(1);
        View {
            session: self.row.clone(),
            messages: self.messages.iter().take(end).skip(first).cloned().collect(),
            first: u32::try_from(first).unwrap_or(u32::MAX),
            after_seq: running.map_or(last_seq, |turn| self.since(turn)),
            inbox: self.waiting(),
        }
    }

    /// The number of the event before the turn's first.
    fn since(&self, turn: &TurnId) -> u64 {
        self.events.first_of(turn).unwrap_or(self.row.next_seq).saturating_sub(1)
    }

    pub(super) fn export(&self) -> Result<Export, StoreError> {
        let input = |posting: &Posting| ExportedInput {
            item: posting.item.clone(),
            key: posting.key.clone(),
            consumed: if posting.waiting { Consumed::No } else { Consumed::Yes },
        };
        let blob = |blob: &Arc<Blob>| BlobInfo {
            id: blob.id.clone(),
            media_type: blob.media_type.clone(),
            size: blob.content.len() as u64,
        };
        Ok(Export {
            session: Session { lease: None, ..self.row.clone() },
            state: self.state.clone(),
            messages: self.messages.clone(),
            turns: self.turns.iter().map(Log::read).collect::<Result<_, _>>()?,
            events: self.events.iter().collect(),
            captured: self.captured(None),
            inbox: self.inbox.iter().map(input).collect(),
            blobs: self.blobs.values().map(blob).collect(),
            tasks: Vec::new(),
        })
    }

    /// From an export that is [`coherent`](crate::export::coherent), with its journals as text.
    pub(super) fn import(export: Export, journals: Vec<Lines>) -> Self {
        let mut held = Self::new(Session { lease: None, ..export.session }, export.state);
        for message in export.messages {
            held.put(message);
        }
        let posting = |input: ExportedInput| Posting {
            item: input.item,
            key: input.key,
            waiting: input.consumed == Consumed::No,
        };
        held.inbox = export.inbox.into_iter().map(posting).collect();
        let logs = export.turns.into_iter().zip(journals);
        held.turns = logs.map(|(log, journal)| Log { turn: log.turn, journal }).collect();
        held.events = export.events.into_iter().collect();
        let at = held.row.updated;
        held.captured = export.captured.into_iter().map(|captured| (at, captured)).collect();
        held
    }

    /// The number of the next input.
    pub(super) fn next_input(&self) -> u64 {
        self.inbox.len() as u64 + 1
    }

    /// How many inputs from a number on wait.
    pub(super) fn waiting_from(&self, n: u64) -> u64 {
        self.inbox.iter().filter(|p| p.waiting && p.item.n >= n).count() as u64
    }

    pub(super) fn waiting(&self) -> Vec<InboxItem> {
        self.inbox.iter().filter(|p| p.waiting).map(|p| p.item.clone()).collect()
    }

    fn open(&self) -> Option<&Log> {
        let open = self.row.turn.as_ref()?;
        self.turns.iter().rev().find(|log| log.turn.id == *open)
    }

    pub(super) fn card(&self, id: &MessageId) -> Option<Card> {
        match self.messages.get(*self.index.get(id)?)? {
            Message::System(message) => Some(Card {
                session: self.row.key.clone(),
                message: message.clone(),
                answered_by: self.answering(id).map(|p| p.item.n),
            }),
            Message::User(_) | Message::Assistant(_) => None,
        }
    }

    fn answering(&self, card: &MessageId) -> Option<&Posting> {
        self.inbox.iter().find(|p| p.item.input.card() == Some(card))
    }

    /// The answer posted to a card.
    pub(super) fn answer(&self, card: &MessageId) -> Option<Posted> {
        self.answering(card).map(|p| p.item.input.clone())
    }

    pub(super) fn captured(&self, turn: Option<&TurnId>) -> Vec<Captured> {
        let order = |id: &TurnId| self.turns.iter().position(|log| log.turn.id == *id);
        let mut found: Vec<_> = self
            .captured
            .iter()
            .map(|(_, action)| action)
            .filter(|a| turn.is_none_or(|turn| a.turn == *turn))
            .cloned()
            .collect();
        found.sort_by_cached_key(|a| (order(&a.turn), a.turn.clone(), a.index));
        found
    }

    pub(super) fn standing(&self) -> Standing {
        let next_n = self.open().map_or(0, |log| log.journal.count);
        Standing {
            fence: self.row.fence,
            next_seq: self.row.next_seq,
            next_n: u32::try_from(next_n).unwrap_or(u32::MAX),
            turn: self.row.turn.clone(),
        }
    }

    pub(super) fn committed(&self) -> Committed {
        Committed {
            version: self.row.version,
            next_seq: self.row.next_seq,
            pending: self.row.pending,
            released: self.row.lease.is_none(),
        }
    }

    /// Whether the commit is the last one again.
    pub(super) fn repeats(&self, commit: &Commit) -> bool {
        let named =
            commit.open_turn.as_ref().map(|t| &t.id).or(commit.turn.as_ref().map(|t| &t.id));
        !(commit.journal.is_empty() && commit.events.is_empty())
            && self.last.as_ref().is_some_and(|last| {
                (named.is_none() || last.turn.as_ref() == named)
                    && (last.entries, last.events) == (commit.journal.len(), commit.events.len())
                    && self.ends_with(last, commit)
            })
    }

    /// Whether the last commit's journal and events are those of this one.
    fn ends_with(&self, last: &Last, commit: &Commit) -> bool {
        let log = self.turns.iter().rev().find(|log| Some(&log.turn.id) == last.turn.as_ref());
        let before = self.row.next_seq.saturating_sub(1 + last.events as u64);
        let empty = Lines::default();
        let journal = log.map_or(&empty, |log| &log.journal);
        self.events.after(before).eq(commit.events.iter())
            && Lines::of(&commit.journal).is_ok_and(|lines| journal.ends_with(&lines))
    }

    /// What only this session can tell of a commit.
    pub(super) fn check(&self, commit: &Commit) -> Result<(), StoreError> {
        if let Some(new) = &commit.open_turn
            && let Some(known) = self.turns.iter().find(|log| log.turn.id == new.id)
        {
            let open = known.turn.id.clone();
            return Err(Conflict::TurnOpen { refused: open.clone(), open }.into());
        }
        let waiting = |n: &u64| self.inbox.iter().any(|p| p.item.n == *n && p.waiting);
        let mut unique = commit.consumed.clone();
        unique.sort_unstable();
        unique.dedup();
        if unique.len() != commit.consumed.len() || !commit.consumed.iter().all(waiting) {
            return Err(Conflict::NotWaiting(commit.consumed.clone()).into());
        }
        Ok(())
    }

    /// Writes a commit that was checked, with its journal as text.
    pub(super) fn apply(&mut self, commit: Commit, journal: Lines) {
        let touched = commit.open_turn.is_some() || commit.turn.is_some() || commit.title.is_some();
        let row = &mut self.row;
        row.version += 1;
        row.next_seq += commit.events.len() as u64;
        row.pending -= commit.consumed.len() as u64;
        if touched {
            row.updated = commit.now;
        }
        if commit.open_turn.is_some() || commit.turn.is_some() {
            row.parked = None;
        }
        if let Some(status) = commit.session_status {
            row.status = status;
        }
        if row.title.is_none() {
            row.title = commit.title;
        }
        if let Some(kept) = commit.model
            && row.model == kept.instead_of
        {
            row.model = Some(kept.model);
        }
        if commit.state.is_some() {
            self.state = commit.state;
        }
        for posting in &mut self.inbox {
            if commit.consumed.contains(&posting.item.n) {
                posting.waiting = false;
            }
        }
        if let Some(new) = commit.open_turn {
            self.row.turn = Some(new.id.clone());
            let (status, started) = (TurnStatus::Running, commit.now);
            let turn = TurnRecord {
                id: new.id,
                spec: compact(new.spec),
                status,
                outcome: None,
                started,
                ended: None,
                queued_below: 0,
            };
            room::push(&mut self.turns, Log { turn, journal: Lines::default() });
        }
        if !(commit.journal.is_empty() && commit.events.is_empty()) {
            self.last = Some(Last {
                turn: self.row.turn.clone(),
                entries: commit.journal.len(),
                events: commit.events.len(),
            });
        }
        self.events.append(commit.events);
        self.events.shrink();
        let next_input = self.next_input();
        if let Some(id) = self.row.turn.clone()
            && let Some(log) = self.turns.iter_mut().rev().find(|log| log.turn.id == id)
        {
            log.journal.extend(journal);
            if let Some(change) = commit.turn {
                log.turn.status = change.status;
                log.turn.outcome = change.outcome;
                match change.status {
                    TurnStatus::Running => {}
                    TurnStatus::Paused => log.turn.queued_below = next_input,
                    TurnStatus::Finished => {
                        log.turn.ended = Some(commit.now);
                        self.row.turn = None;
                    }
                }
            }
        }
        let cards = commit.cards.into_iter().map(Message::System);
        for message in commit.messages.into_iter().chain(cards) {
            self.put(message);
        }
        for new in commit.captured {
            let mut actions = self.captured.iter_mut().map(|(_, action)| action);
            let known = actions.find(|a| a.turn == new.turn && a.index == new.index);
            match known {
                Some(known) => {
                    known.action = new.action;
                    known.revision += 1;
                }
                None => {
                    let (revision, status) = (1, CapturedStatus::Pending);
                    let NewCaptured { turn, index, action } = new;
                    let new = Captured { turn, index, revision, action, status, result: None };
                    self.captured.push((commit.now, new));
                }
            }
        }
        for blob in commit.blobs {
            self.blobs.insert(blob.id.clone(), Arc::new(blob));
        }
        if commit.release && self.row.pending == 0 {
            give_back(&mut self.row);
        }
    }

    fn put(&mut self, message: Message) {
        let known = self.index.get(message.id()).copied();
        match known.and_then(|at| self.messages.get_mut(at)) {
            Some(known) => *known = message,
            None => {
                self.index.insert(message.id().clone(), self.messages.len());
                room::push(&mut self.messages, message);
            }
        }
    }

    /// What a fork at a place takes along.
    pub(super) fn copy(&self, at: &ForkAt, now: Timestamp) -> Result<Copy, StoreError> {
        let mut copy = self.copy_finished(self.place(at)?);
        if let ForkAt::Step { turn, steps } = at {
            let messages = self.messages.iter().filter(|m| m.turn() == turn).cloned().collect();
            let cut = CutTurn::new(messages, *steps)?;
            copy.messages.extend(cut.messages);
            let log = self.turns.iter().find(|log| log.turn.id == *turn);
            copy.turns.extend(log.map(|log| TurnRecord {
                status: TurnStatus::Finished,
                outcome: Some(cut.outcome),
                queued_below: 0,
                ended: log.turn.ended.or(Some(now)),
                ..log.turn.clone()
            }));
        }
        Ok(copy)
    }

    /// The finished turns before a position.
    fn copy_finished(&self, end: usize) -> Copy {
        let open = self.row.turn.as_ref();
        let messages: Vec<Message> =
            self.messages.iter().take(end).filter(|m| open != Some(m.turn())).cloned().collect();
        let kept = |id: &TurnId| messages.iter().any(|m| m.turn() == id);
        let turns = self.turns.iter().map(|log| &log.turn).filter(|turn| kept(&turn.id));
        let turns = turns.map(|turn| TurnRecord { queued_below: 0, ..turn.clone() }).collect();
        Copy { messages, turns, blobs: self.blobs.clone() }
    }

    fn place(&self, at: &ForkAt) -> Result<usize, Conflict> {
        match at {
            ForkAt::End => Ok(self.messages.len()),
            ForkAt::Position(position) => {
                let (at, count) = (*position as usize, self.messages.len());
                if at > count {
                    return Err(Conflict::NoSuchPlace(format!("it has {count} messages")));
                }
                let turn = |at: usize| self.messages.get(at).map(Message::turn);
                match (at.checked_sub(1).and_then(turn), turn(at)) {
                    (Some(before), Some(after)) if before == after => Err(Conflict::NoSuchPlace(
                        format!("position {position} is inside turn {after}"),
                    )),
                    _ => Ok(at),
                }
            }
            ForkAt::Turn(id) => {
                let log = self.turns.iter().find(|log| log.turn.id == *id);
                let log =
                    log.ok_or_else(|| Conflict::NoSuchPlace(format!("it has no turn {id}")))?;
                if log.turn.status != TurnStatus::Finished {
                    return Err(Conflict::NoSuchPlace(format!("turn {id} is not finished")));
                }
                Ok(self.messages.iter().rposition(|m| m.turn() == id).map_or(0, |at| at + 1))
            }
            ForkAt::Step { turn, .. } => {
                let first = self.messages.iter().position(|m| m.turn() == turn);
                first.ok_or_else(|| Conflict::NoSuchPlace(format!("it has no turn {turn}")))
            }
        }
    }

    pub(super) fn fill(&mut self, copy: Copy) {
        for message in copy.messages {
            self.put(message);
        }
        self.turns =
            copy.turns.into_iter().map(|turn| Log { turn, journal: Lines::default() }).collect();
        self.blobs = copy.blobs;
    }
}
