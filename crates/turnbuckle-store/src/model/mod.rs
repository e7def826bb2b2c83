//! What a store takes and gives.

mod aside;
mod commit;
mod inbox;
mod list;
mod session;

pub use aside::{Blob, BlobPart, Captured, CapturedStatus, CapturedUpdate, NewCaptured};
pub use commit::{Commit, Committed, OpenTurn, TurnChange, TurnLog, TurnRecord, TurnStatus};
pub use inbox::{Card, CardAnswer, Delivery, InboxItem, Post, Posted, Receipt};
pub(crate) use list::page;
pub use list::{CardQuery, Cursor, NotACursor, Page, SessionQuery};
pub use session::{
    Claim, Fork, ForkAt, Lease, Loaded, NewSession, Release, Released, Session, SessionKey,
    SessionStatus,
};
