//! What can be asked of the desk and done at it, one file per subject. Each argument struct
//! refuses unknown fields when it is read from JSON and carries a JSON schema; each result has
//! stable field names and ids of the form `thread:123`.

mod args;
mod attempt;
mod directory;
mod drafts;
mod knowledge;
mod notes;
mod orders;
mod recipients;
mod refund;
mod reply;
pub(crate) mod resolve;
mod tags;
mod task_writes;
mod tasks;
mod thread_detail;
mod thread_update;
mod threads;
mod words;

pub use args::{Amount, Named};
pub use directory::{GroupList, GroupRow, ListGroups, ListMembers, MemberList, MemberRow};
pub use drafts::{DraftList, DraftRow, ListDrafts};
pub use knowledge::{
    Article, ArticleHit, GetArticle, KnowledgeMatch, KnowledgeResults, SearchKnowledge,
};
pub use notes::{CreateNote, ListNotes, Note, NoteList};
pub use orders::{
    FindOrders, GetOrder, Order, OrderLine, OrderList, OrderRow, OrderSort, RefundRow,
};
pub use refund::{Refund, RefundOrder};
pub use reply::{ReplyMode, ReplyToThread, SentReply, StartConversation};
pub use tags::{ListTags, TagList, TagRow};
pub use task_writes::{CompleteOutcome, CompleteTask, CompletedTask, CreateTask};
pub use tasks::{ListTasks, Task, TaskList, TaskState};
pub use thread_detail::{GetThread, Message, ThreadDetail};
pub use thread_update::{Change, ThreadUpdate, UpdateThread};
pub use threads::{FindThreads, ThreadList, ThreadRow, ThreadSort};
pub use words::{Audience, Direction, MessageDirection, OrderStatus, Priority, Role, ThreadStatus};
