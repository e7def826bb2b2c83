//! What runs in a process under test: the binary's own `main`, with an agent whose tools report to the test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use turnbuckle::tool::{ToolContext, ToolOutput};
use turnbuckle::{Agent, Agents, tool};

/// The command line of the process, as a JSON array.
pub const ARGUMENTS: &str = "TURNBUCKLE_MATRIX_ARGUMENTS";
/// Where the test listens for calls of tools.
pub const WORLD: &str = "TURNBUCKLE_MATRIX_WORLD";

/// Not a test: what [`Process`](super::Process) starts by running this executable again.
#[test]
#[ignore = "a process of other tests"]
fn process() {
    let arguments = std::env::var(ARGUMENTS).expect("started by another test");
    let arguments: Vec<String> = serde_json::from_str(&arguments).unwrap();
    let agent = Agent::builder("main")
        .instructions("Do as you are told.")
        .tool(look())
        .tool(put())
        .tool(pay())
        .tool(ask())
        .tool(hire())
        .build()
        .unwrap();
    let code = turnbuckle_cli::main_with(arguments, Arc::new(Agents::new([agent])));
    // The test's exit code is the binary's.
    std::process::exit(if code == std::process::ExitCode::SUCCESS { 0 } else { 1 });
}

/// What every tool takes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct Thing {
    /// Which.
    id: String,
}

/// A call as the test hears of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// Which thing.
    pub id: String,
    /// The key under which the engine repeats this call, and no other.
    pub key: String,
    /// The process.
    pub pid: u32,
}

/// Looks at a thing.
#[tool(effect = "read_only")]
async fn look(thing: Thing, ctx: ToolContext) -> Result<Value, String> {
    act("look", thing, &ctx).await
}

/// Puts a thing in its place.
#[tool(effect = "idempotent")]
async fn put(thing: Thing, ctx: ToolContext) -> Result<Value, String> {
    act("put", thing, &ctx).await
}

/// Pays for a thing. Twice is one time too often.
#[tool(effect = "at_most_once")]
async fn pay(thing: Thing, ctx: ToolContext) -> Result<Value, String> {
    act("pay", thing, &ctx).await
}

/// Pays for a thing when a person says so.
#[tool(effect = "at_most_once", approval = "always", amendable = Thing)]
async fn ask(thing: Thing, ctx: ToolContext) -> Result<Value, String> {
    act("ask", thing, &ctx).await
}

/// Has somebody do something, who will tell when it is done.
#[tool(effect = "at_most_once")]
async fn hire(thing: Thing, ctx: ToolContext) -> Result<ToolOutput, String> {
    let id = thing.id.clone();
    Ok(ToolOutput::json(act("hire", thing, &ctx).await?).task("errand", id))
}

/// Tells the test, waits for its word, and tells it that the deed is done.
async fn act(tool: &str, thing: Thing, ctx: &ToolContext) -> Result<Value, String> {
    let world = std::env::var(WORLD).map_err(|e| e.to_string())?;
    let key = ctx.idempotency_key().to_owned();
    let call = Call { tool: tool.to_owned(), id: thing.id.clone(), key, pid: std::process::id() };
    tell(&world, &call).await.map_err(|e| format!("the world is gone: {e}"))?;
    Ok(json!({"done": thing.id}))
}

async fn tell(world: &str, call: &Call) -> std::io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(world).await?);
    stream.write_all(format!("{}\n", serde_json::to_string(call)?).as_bytes()).await?;
    let mut word = String::new();
    if stream.read_line(&mut word).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    stream.write_all(b"done\n").await
}
