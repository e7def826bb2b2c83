//! What can be told of a commit before looking at what is stored.

use crate::error::Conflict;
use crate::model::{Commit, TurnStatus};
use turnbuckle_core::ids::TurnId;

/// A commit that is sound in itself, with the numbers it must meet in the store.
pub(crate) struct Checked<'a> {
    /// The first event's number.
    pub first_seq: Option<u64>,
    /// The first journal entry's number.
    pub first_n: Option<u32>,
    /// Which turn must be open before the commit.
    pub expects: Expects<'a>,
    /// Whether the turn ends.
    pub finishes: bool,
}

/// Which turn must be open before a commit.
#[derive(Clone, Copy)]
pub(crate) enum Expects<'a> {
    /// It does not matter.
    Any,
    /// None: the commit opens one.
    None,
    /// Some turn: there are journal entries for it.
    Some,
    /// This one: the commit says where it stands.
    This(&'a TurnId),
}

/// Checks what needs no store.
pub(crate) fn check(commit: &Commit) -> Result<Checked<'_>, Conflict> {
    let first_seq = run(commit.events.seqs(), "event")?;
    let first_n = run(commit.journal.iter().map(|r| u64::from(r.n)), "journal entry")?;
    let expects = match (&commit.open_turn, &commit.turn) {
        (Some(open), Some(change)) if open.id != change.id => {
            let (open, named) = (Some(open.id.clone()), Some(change.id.clone()));
            return Err(Conflict::NotTheOpenTurn { open, named });
        }
        (Some(_), _) => match first_n {
            Some(n) if n > 0 => {
                return Err(Conflict::Gap { what: "journal entry", expected: 0, got: n });
            }
            _ => Expects::None,
        },
        (None, Some(change)) => Expects::This(&change.id),
        (None, None) if first_n.is_some() => Expects::Some,
        (None, None) => Expects::Any,
    };
    let finishes = matches!(&commit.turn, Some(change) if change.status == TurnStatus::Finished);
    let first_n = commit.journal.first().map(|r| r.n);
    Ok(Checked { first_seq, first_n, expects, finishes })
}

/// The first of numbers that follow each other.
fn run(numbers: impl Iterator<Item = u64>, what: &'static str) -> Result<Option<u64>, Conflict> {
    let (mut first, mut next) = (None, None);
    for got in numbers {
        match next {
            Some(expected) if expected != got => return Err(Conflict::Gap { what, expected, got }),
            _ => next = Some(got.saturating_add(1)),
        }
        first.get_or_insert(got);
    }
    Ok(first)
}

/// What is stored of a session, as far as a commit can contradict it.
pub(crate) struct Standing {
    pub fence: u64,
    pub next_seq: u64,
    pub next_n: u32,
    pub turn: Option<TurnId>,
}

impl Checked<'_> {
    /// In which way the commit contradicts what is stored, the fence apart.
    pub(crate) fn against(&self, commit: &Commit, stored: &Standing) -> Result<(), Conflict> {
        let not_open = |named: Option<&TurnId>| {
            let (open, named) = (stored.turn.clone(), named.cloned());
            Err(Conflict::NotTheOpenTurn { open, named })
        };
        match (self.expects, &stored.turn) {
            (Expects::None, Some(open)) => {
                let refused = commit.open_turn.as_ref().map(|t| t.id.clone());
                return Err(Conflict::TurnOpen {
                    open: open.clone(),
                    refused: refused.unwrap_or_else(|| open.clone()),
                });
            }
            (Expects::Some, None) => return not_open(None),
            (Expects::This(id), open) if open.as_ref() != Some(id) => return not_open(Some(id)),
            _ => {}
        }
        match self.first_seq {
            Some(got) if got != stored.next_seq => {
                return Err(Conflict::Gap { what: "event", expected: stored.next_seq, got });
            }
            _ => {}
        }
        match self.first_n {
            Some(got) if commit.open_turn.is_none() && got != stored.next_n => {
                let (expected, got) = (u64::from(stored.next_n), u64::from(got));
                Err(Conflict::Gap { what: "journal entry", expected, got })
            }
            _ => Ok(()),
        }
    }
}
