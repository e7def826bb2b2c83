//! The world around a turn: what models answer, tools do and people decide. Every answer is a function of who asks, so
//! that asking again after a crash gets the same one.

use super::build::*;
use serde_json::Value;
use std::collections::BTreeMap;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::ids::CallId;
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::*;
use turnbuckle_core::message::{ApprovalCard, Asks};

/// What a person or the front end does about a card.
#[derive(Clone, Debug)]
pub enum Act {
    Decide(Decision),
    Client(Result<Json, ToolError>),
    /// Leaves it; when nobody acts on any card, the run stands still there.
    Wait,
}

pub trait World {
    fn model(&self, effect: &Effect, call: &CallModel) -> Reply;
    fn check(&self, check: &PrepareCall) -> Verdict;
    fn execute(&self, run: &ExecuteCall) -> ExecuteResult;
    fn act(&self, card: &ApprovalCard) -> Act;
    /// What hooks make of what a call gave elsewhere.
    fn settle(&self, call: &SettleCall) -> ExecuteResult {
        gives(Value::clone(&call.output))
    }
    /// What a tool reports before it is done.
    fn progress(&self, _run: &ExecuteCall) -> Vec<Value> {
        Vec::new()
    }
    fn changes(&self) -> FinalChanges {
        FinalChanges::default()
    }
    /// What is done to the history before a model call, on its first attempt.
    fn compaction(&self, _call: &CallModel) -> Option<CompactionReport> {
        None
    }
    /// How the blocks of an answer are cut: bytes of each delta by block, in the order of arrival. Empty: not streamed.
    fn cuts(&self, _step: StepId, answer: &ModelAnswer) -> Vec<(u32, u32)> {
        whole_cuts(answer)
    }
}

/// Each block in one delta (calls in two).
pub fn whole_cuts(answer: &ModelAnswer) -> Vec<(u32, u32)> {
    use turnbuckle_core::model::Block;
    let mut cuts = Vec::new();
    for (index, block) in answer.response.blocks.iter().enumerate() {
        let index = index as u32;
        match block {
            Block::Text { text, .. } | Block::Thinking { text, .. } if !text.is_empty() => {
                cuts.push((index, text.len() as u32));
            }
            Block::ToolCall { arguments, .. } => {
                cuts.push((index, 0));
                if !arguments.is_empty() {
                    cuts.push((index, arguments.len() as u32));
                }
            }
            Block::Text { .. } | Block::Thinking { .. } | Block::Native { .. } => {}
        }
    }
    cuts
}

type Check = Box<dyn Fn(&PrepareCall) -> Verdict>;
type Execute = Box<dyn Fn(&ExecuteCall) -> ExecuteResult>;
type Settle = Box<dyn Fn(&SettleCall) -> ExecuteResult>;
type ActOn = Box<dyn Fn(&ApprovalCard) -> Act>;

/// A world told in advance.
pub struct Scripted {
    /// By agent path or agent name: the attempts of each of its model calls.
    replies: BTreeMap<String, Vec<Vec<Reply>>>,
    check: Check,
    execute: Execute,
    settle: Settle,
    act: ActOn,
    pub compaction: Option<CompactionReport>,
    pub changes: FinalChanges,
    pub progress: Vec<Value>,
}

impl Scripted {
    /// `main` answers like this; tools give `{"ok": true}`, calls may run, people approve and front ends succeed.
    pub fn new(replies: Vec<Reply>) -> Self {
        let act = |card: &ApprovalCard| match card.asks {
            Asks::Decision => Act::Decide(approve()),
            Asks::ClientResult => Act::Client(Ok(std::sync::Arc::new(fine()))),
        };
        let world = Self {
            replies: BTreeMap::new(),
            check: Box::new(run),
            execute: Box::new(|_| gives(fine())),
            settle: Box::new(|call| gives(Value::clone(&call.output))),
            act: Box::new(act),
            compaction: None,
            changes: FinalChanges::default(),
            progress: Vec::new(),
        };
        world.also("main", replies)
    }

    /// Another agent, by its name or its path.
    pub fn also(mut self, agent: &str, replies: Vec<Reply>) -> Self {
        self.replies.insert(agent.into(), replies.into_iter().map(|r| vec![r]).collect());
        self
    }

    /// The model call of that number of `main` is tried several times.
    pub fn attempts(mut self, at: usize, replies: Vec<Reply>) -> Self {
        self.replies.entry("main".into()).or_default().insert(at, replies);
        self
    }

    pub fn check(mut self, check: impl Fn(&PrepareCall) -> Verdict + 'static) -> Self {
        self.check = Box::new(check);
        self
    }

    pub fn execute(mut self, execute: impl Fn(&ExecuteCall) -> ExecuteResult + 'static) -> Self {
        self.execute = Box::new(execute);
        self
    }

    pub fn settle(mut self, settle: impl Fn(&SettleCall) -> ExecuteResult + 'static) -> Self {
        self.settle = Box::new(settle);
        self
    }

    pub fn act(mut self, act: impl Fn(&ApprovalCard) -> Act + 'static) -> Self {
        self.act = Box::new(act);
        self
    }
}

impl World for Scripted {
    fn model(&self, effect: &Effect, call: &CallModel) -> Reply {
        let by_path = self.replies.get(&*effect.path);
        let replies = by_path.or_else(|| self.replies.get(effect.agent.as_str()));
        let replies = replies.unwrap_or_else(|| panic!("nobody told {} what to say", effect.path));
        let attempts = replies
            .get(call.calls_made as usize)
            .unwrap_or_else(|| panic!("{} was called once too often: {call:?}", effect.path));
        attempts[(call.attempt as usize - 1).min(attempts.len() - 1)].clone()
    }

    fn check(&self, check: &PrepareCall) -> Verdict {
        (self.check)(check)
    }

    fn execute(&self, run: &ExecuteCall) -> ExecuteResult {
        (self.execute)(run)
    }

    fn settle(&self, call: &SettleCall) -> ExecuteResult {
        (self.settle)(call)
    }

    fn act(&self, card: &ApprovalCard) -> Act {
        (self.act)(card)
    }

    fn progress(&self, _run: &ExecuteCall) -> Vec<Value> {
        self.progress.clone()
    }

    fn changes(&self) -> FinalChanges {
        self.changes.clone()
    }

    fn compaction(&self, _call: &CallModel) -> Option<CompactionReport> {
        self.compaction.clone()
    }
}

/// The order in which calls began for real.
pub fn ids(calls: &[(CallId, ExecuteMode)]) -> Vec<&str> {
    calls.iter().map(|(id, _)| id.as_str()).collect()
}
