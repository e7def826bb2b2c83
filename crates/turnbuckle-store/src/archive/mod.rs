//! A whole store as a stream of lines, and back, between any two stores; and whether a store is whole.
//!
//! Each line is a JSON object with a `kind`. The first says what the stream is and in which version, the last how much it held,
//! so that one that breaks off is not taken for whole:
//!
//! | kind | holds |
//! |---|---|
//! | `turnbuckle` | the version of the format |
//! | `session` | a session with its messages, turns, journals, events, captured actions, inbox and background tasks |
//! | `blob` | one large output or attachment of the session before it, as Base64 |
//! | `schedule` | a schedule |
//! | `job` | a job, those that have ended too |
//! | `usage` | what some model calls cost, in deleted sessions too |
//! | `allowance` | what a person allowed for good |
//! | `key` | an API key, by the hash of its secret |
//! | `audit` | an entry of the audit log |
//! | `end` | counts |
//!
//! Up to version 2 there was no usage: what the events of a session record counts where it is read.

mod annex;
mod check;
mod lists;
mod read;
mod write;

pub use annex::{Annex, AnnexError, AnnexFuture, AnnexItem, Annexed};
pub use check::{Checked, Flaw, check};
pub use read::import;
pub use write::export;

use crate::error::StoreError;
use crate::model::{Allowance, Export, Job, MeteredCall, Schedule};
use serde::{Deserialize, Serialize};
use turnbuckle_core::content::Base64;
use turnbuckle_core::ids::{SessionId, TenantId};

/// The version that is written; the versions up to it are read.
pub const VERSION: u32 = 3;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Turnbuckle { version: u32 },
    Session(Box<Export>),
    Blob { tenant: TenantId, session: SessionId, id: String, media_type: String, content: Base64 },
    Schedule(Box<Schedule>),
    Job(Box<Job>),
    Usage { calls: Vec<MeteredCall> },
    Allowance { tenant: TenantId, allowance: Box<Allowance> },
    Key(AnnexItem),
    Audit(AnnexItem),
    End(Counts),
}

/// How much was written or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Sessions.
    pub sessions: u64,
    /// Their messages.
    pub messages: u64,
    /// Their events.
    pub events: u64,
    /// Large outputs and attachments.
    pub blobs: u64,
    /// Schedules.
    pub schedules: u64,
    /// Jobs.
    pub jobs: u64,
    /// Model calls whose usage is kept.
    #[serde(default)]
    pub usage: u64,
    /// Allowances.
    #[serde(default)]
    pub allowances: u64,
    /// API keys.
    #[serde(default)]
    pub keys: u64,
    /// Entries of the audit log.
    #[serde(default)]
    pub audit: u64,
}

impl Counts {
    /// Counts what a line holds.
    fn add(&mut self, line: &Line) {
        let counted = match line {
            Line::Session(whole) => {
                self.messages += whole.messages.len() as u64;
                self.events += whole.events.len() as u64;
                &mut self.sessions
            }
            Line::Blob { .. } => &mut self.blobs,
            Line::Schedule(_) => &mut self.schedules,
            Line::Job(_) => &mut self.jobs,
            Line::Usage { calls } => {
                self.usage += calls.len() as u64;
                return;
            }
            Line::Allowance { .. } => &mut self.allowances,
            Line::Key(_) => &mut self.keys,
            Line::Audit(_) => &mut self.audit,
            Line::Turnbuckle { .. } | Line::End(_) => return,
        };
        *counted += 1;
    }
}

/// Is told how far it has come, after each item.
pub type Progress<'a> = &'a mut (dyn FnMut(&Counts) + Send);

/// An archive that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store's.
    #[error("{}", .0.report())]
    Store(#[from] StoreError),
    /// That of what is kept beside the sessions.
    #[error("{0}")]
    Annex(AnnexError),
    /// The stream's.
    #[error("the stream cannot be read or written: {0}")]
    Stream(#[from] std::io::Error),
    /// A line that is not one of an archive.
    #[error("line {line} is not what it should be: {cause}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// Why.
        cause: String,
    },
    /// It was written by a newer version.
    #[error(
        "the archive is of version {0}, and this build reads up to {VERSION}: use a newer build"
    )]
    TooNew(u32),
    /// It has no last line.
    #[error(
        "the archive breaks off after line {0}: it is not whole, and what is missing cannot be known"
    )]
    Broken(u64),
    /// An item of it cannot be stored.
    #[error("line {line}: {what} cannot be stored: {cause}")]
    Refused {
        /// The line, from 1.
        line: u64,
        /// What it holds.
        what: String,
        /// Why.
        cause: String,
    },
}
