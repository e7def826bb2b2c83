//! What a store takes and gives.

mod aside;
mod commit;
mod inbox;
mod job;
mod list;
mod schedule;
mod session;
mod task;
mod usage;
mod view;

pub use aside::{
    Allowance, Blob, BlobInfo, BlobPart, Captured, CapturedIn, CapturedStatus, CapturedUpdate,
    KeptAllowance, NewCaptured,
};
pub use commit::{
    Commit, Committed, KeptModel, OpenTurn, TurnChange, TurnLog, TurnRecord, TurnStatus,
};
pub use inbox::{Card, CardAnswer, Delivery, InboxItem, Post, Posted, Receipt};
pub use job::{
    Enqueued, Job, JobKey, JobQuery, JobStatus, NewJob, QueueDepth, Retry, TakeJobs, Tick,
};
pub(crate) use list::{CapturedPlace, page};
pub use list::{CapturedQuery, CardQuery, CardStanding, Cursor, NotACursor, Page, SessionQuery};
pub use schedule::{
    Advance, Advanced, GRACE_MS, Missed, NewSchedule, Schedule, ScheduleKey, ScheduleQuery,
    ScheduleState,
};
pub(crate) use session::CutTurn;
pub use session::{
    Claim, Fork, ForkAt, Lease, Loaded, NewSession, Parked, Release, Released, Session, SessionKey,
    SessionStatus,
};
pub use task::{Notified, Task, TaskEnded, TaskKey, TaskQuery, TaskStatus};
pub use usage::{ImportedUsage, KeptUsage, MeteredCall, UsageBy, UsageGroup, UsageQuery, UsageSum};
pub(crate) use usage::{metered, metered_calls};
pub use view::{Consumed, Export, ExportedInput, View};
