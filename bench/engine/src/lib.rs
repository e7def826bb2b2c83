//! What the programs of the benchmark have in common: the agent with its tool, and a model that answers at once.

pub mod instant;

use mockllm::job::history_text;
use std::time::Duration;
use turnbuckle::core::limits::AgentLimits;
use turnbuckle::core::model::Block;
use turnbuckle::core::transcript::{Item, Transcript};
use turnbuckle::tool::ToolContext;
use turnbuckle::{Agent, Agents, tool};

/// What goes wrong in a benchmark.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What the agent is told.
pub const SYSTEM: &str = "You are a helpful assistant. Use the lookup tool to read records.";
/// What it is asked.
pub const PROMPT: &str = "Look up the records and summarise them.";

/// How long the tool takes.
pub struct Delay(pub Duration);

/// The arguments of [`lookup`].
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Lookup {
    id: i64,
}

/// The result of [`lookup`].
#[derive(serde::Serialize)]
pub struct Record {
    id: i64,
    name: String,
    ok: bool,
}

/// Look up one record by its id.
#[tool(effect = "read_only")]
pub async fn lookup(
    args: Lookup,
    ctx: ToolContext,
) -> Result<Record, turnbuckle::core::error::ToolError> {
    let delay = ctx.resource::<Delay>()?.0;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    Ok(Record { id: args.id, name: format!("record {}", args.id), ok: true })
}

/// The agent `main`, which may call a model so many times in a turn.
///
/// # Errors
/// Never, as long as the agent is sound.
pub fn agents(calls: u32, delay: Duration) -> Result<Agents, Error> {
    let agent = Agent::builder("main")
        .instructions(SYSTEM)
        .tool(lookup())
        .limits(AgentLimits { max_iterations: calls, ..AgentLimits::default() })
        .build()?;
    let resources = turnbuckle::tool::Resources::new().with(Delay(delay));
    Ok(Agents::new([agent]).with_resources(resources))
}

/// A conversation of so many messages, the two sides in turn.
pub fn history(messages: usize) -> Transcript {
    let mut history = Transcript::default();
    for i in 0..messages {
        let text = history_text(i);
        history.push_item(match i % 2 {
            0 => Item::user(text),
            _ => Item::Assistant { blocks: vec![Block::Text { text, native: None }] },
        });
    }
    history
}
