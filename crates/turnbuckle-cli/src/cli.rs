//! The command line.

use crate::exit;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Talks to agents, runs them headless, and looks into what they did.
///
/// Without any key or configuration a rehearsal plays: a scripted stand-in for a model that drives real tools on a real
/// database, so that everything can be seen offline. `turnbuckle doctor` says what is configured and what to set.
#[derive(Debug, Parser)]
#[command(name = "turnbuckle", version, arg_required_else_help = true, after_help = exit::HELP)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Default, Args)]
pub struct Global {
    /// The configuration file. Otherwise TURNBUCKLE_CONFIG, then turnbuckle.toml in this folder, then the one in the
    /// platform's configuration folder.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data folder, made on first use. Otherwise TURNBUCKLE_DATA, then the configuration, then the platform's data
    /// folder.
    #[arg(long, global = true, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// Where sessions are kept: postgres://..., sqlite:PATH or memory:. Otherwise TURNBUCKLE_STORE, which is the place for
    /// an address with a password, then the configuration, then the data folder.
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub store: Option<String>,
    /// How much to log to stderr: off, error, warn, info, debug or trace. Otherwise TURNBUCKLE_LOG, then the
    /// configuration.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log: Option<String>,
}

/// What a command that runs an agent takes.
#[derive(Clone, Debug, Default, Args)]
pub struct Run {
    /// The model, as `provider:model`, a model's name alone, or `rehearsal`. Otherwise TURNBUCKLE_MODEL, then the
    /// configuration, then whichever provider is found.
    #[arg(long, short, value_name = "NAME")]
    pub model: Option<String>,
    /// The agent. Otherwise TURNBUCKLE_AGENT, then the configuration.
    #[arg(long, short, value_name = "NAME")]
    pub agent: Option<String>,
    /// The person the agent works for. Otherwise TURNBUCKLE_USER, then the configuration.
    #[arg(long, short, value_name = "USER")]
    pub user: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Talk to an agent.
    ///
    /// Type a message, or /help. Approvals are asked as y, n (with a reason, if you like) or e to edit first. Ctrl-C stops
    /// the turn; a second one quits, and what was done is stored. Input may be piped: each line is a message, a command or
    /// an answer to a question.
    Chat(ChatArgs),
    /// Serve the HTTP API and the web UI, and drive the turns.
    ///
    /// Everything is stored, so the process may end at any moment: turns go on where they were when it is back. The first
    /// Ctrl-C or SIGTERM lets turns come to their end for a while and leaves the rest; the second one ends at once.
    Serve(crate::serve::ServeArgs),
    /// Drive turns for servers elsewhere; the same as `serve --worker-only`.
    Work(Run),
    /// Print the OpenAPI document of the HTTP API.
    ///
    /// A server gives the same at /openapi.json. Clients are generated from it.
    Openapi,
    /// Make, list or revoke API keys.
    Keys {
        #[command(subcommand)]
        what: crate::serve::keys::KeysCommand,
    },
    /// Bring the store up to date, check it, or take it elsewhere.
    Db {
        #[command(subcommand)]
        what: crate::db::DbCommand,
    },
    /// Run one turn without a conversation.
    ///
    /// The message is the argument or stdin. The answer goes to stdout, everything else to stderr. A turn that needs an
    /// approval pauses with exit code 3, unless --capture sets such actions aside.
    #[command(after_help = exit::HELP)]
    Run(RunArgs),
    /// List, show or delete sessions.
    Sessions {
        #[command(subcommand)]
        what: Option<SessionsCommand>,
    },
    /// List, show or apply actions that were captured instead of carried out.
    Captured {
        #[command(subcommand)]
        what: CapturedCommand,
    },
    /// List an agent's tools, or try one.
    Tools {
        #[command(flatten)]
        run: Run,
        #[command(subcommand)]
        what: Option<ToolsCommand>,
    },
    /// Play a stored turn again, without model or tools, and compare.
    ///
    /// Feeds the stored journal to a fresh machine and compares every event and the final message with what is stored.
    /// Exit code 1 when anything differs.
    Replay(ReplayArgs),
    /// Say what is configured, what is reachable and what to set.
    ///
    /// Exit code 1 when something is broken.
    Doctor(Run),
    /// List, show or try models.
    Models {
        #[command(subcommand)]
        what: Option<ModelsCommand>,
    },
    /// Decode a provider's recorded answer, or encode a request.
    Wire {
        #[command(subcommand)]
        what: WireCommand,
    },
    /// Write a commented turnbuckle.toml.
    Init {
        /// Where; turnbuckle.toml in this folder otherwise.
        file: Option<PathBuf>,
        /// Overwrite what is there.
        #[arg(long)]
        force: bool,
    },
}

/// Whether a command is done when whoever reads its output has had enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// It only shows what there is: `| head` is no failure.
    MayLeave,
    /// It does something, or its exit code says something: that the output went nowhere is worth a word.
    MustStay,
}

impl Command {
    /// Whether its reader may leave in the middle.
    pub const fn reader(&self) -> Reader {
        use {CapturedCommand as C, ModelsCommand as M, SessionsCommand as S, ToolsCommand as T};
        match self {
            Self::Openapi
            | Self::Sessions { what: None | Some(S::List { .. } | S::Show { .. }) }
            | Self::Captured { what: C::List { .. } | C::Show { .. } }
            | Self::Tools { what: None | Some(T::List), .. }
            | Self::Models { what: None | Some(M::List { .. } | M::Show { .. }) } => {
                Reader::MayLeave
            }
            _ => Reader::MustStay,
        }
    }
}

#[derive(Debug, Args)]
pub struct ChatArgs {
    #[command(flatten)]
    pub run: Run,
    /// Go on with this session.
    #[arg(long, short, value_name = "ID")]
    pub session: Option<String>,
    /// Go on with the last session, an unfinished turn first.
    #[arg(long = "continue", short, conflicts_with = "session")]
    pub go_on: bool,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub run: Run,
    /// The message; stdin otherwise.
    pub message: Option<String>,
    /// Show the model a picture, a PDF or a text file: a path, or an https address. Can be given several times.
    #[arg(long, value_name = "FILE")]
    pub attach: Vec<String>,
    /// One event per line, as JSON, instead of text.
    #[arg(long)]
    pub json: bool,
    /// Set actions that need approval aside instead of asking; they are listed at the end.
    #[arg(long)]
    pub capture: bool,
    /// In this session instead of a new one.
    #[arg(long, short, value_name = "ID")]
    pub session: Option<String>,
    /// Finish what is unfinished in the session instead of sending a message.
    #[arg(long, requires = "session", conflicts_with_all = ["message", "attach", "capture"])]
    pub resume: bool,
}

#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List sessions, last used first.
    List {
        /// Only those with this text in their title.
        filter: Option<String>,
        /// At most so many.
        #[arg(long, default_value_t = 30)]
        limit: u32,
    },
    /// Show a session's messages.
    Show {
        /// The session.
        id: String,
        /// As JSON, one message per line.
        #[arg(long)]
        json: bool,
    },
    /// Delete a session and all that belongs to it.
    Delete {
        /// The session.
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum CapturedCommand {
    /// List captured actions of a session, or of all.
    List {
        /// The session.
        session: Option<String>,
    },
    /// Show one in full.
    Show {
        /// The session.
        session: String,
        /// Its number in the session, as the list gives it.
        number: u32,
    },
    /// Carry captured actions out, in their order; ids that were predicted are replaced by real ones.
    ///
    /// Each is checked again first. One whose subject has changed since is left pending. Applying twice does nothing. Exit
    /// code 1 when any was not carried out.
    Apply {
        /// The session.
        session: String,
        /// Their numbers, as the list gives them.
        #[arg(required_unless_present = "all")]
        numbers: Vec<u32>,
        /// All that are pending.
        #[arg(long, conflicts_with = "numbers")]
        all: bool,
        /// Reject them instead.
        #[arg(long)]
        reject: bool,
        /// Even if their subject has changed since.
        #[arg(long, conflicts_with = "reject")]
        even_if_stale: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// List the agent's tools.
    List,
    /// Call a tool through the same checks an agent's call goes through.
    Call {
        /// The tool.
        name: String,
        /// Its arguments, a JSON object.
        #[arg(default_value = "{}")]
        arguments: String,
        /// Do not ask, even if the tool needs approval.
        #[arg(long, short)]
        yes: bool,
        /// The page the call is made on, for tools that exist only there.
        #[arg(long)]
        page: Option<String>,
    },
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The session.
    pub session: String,
    /// Which of its turns, from 1; all otherwise.
    #[arg(long, value_name = "N")]
    pub turn: Option<usize>,
    /// Print only whether everything is the same.
    #[arg(long)]
    pub verify: bool,
}

#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// List known models with window and prices (US dollars per million tokens).
    List {
        /// Only those with this text in their name.
        filter: Option<String>,
    },
    /// Show what is known of a model, and where from.
    Show {
        /// `provider:model`, or a model's name alone.
        name: String,
    },
    /// Ask a model something, without any agent.
    Try {
        /// `provider:model`.
        name: String,
        /// What to ask.
        prompt: String,
    },
}

#[derive(Clone, Debug, Args)]
pub struct WireArgs {
    /// The wire: openai-chat, openai-responses, anthropic, gemini or ollama.
    #[arg(long)]
    pub wire: String,
    /// The server's profile, for openai-chat: deepseek, ollama, openrouter and so on.
    #[arg(long)]
    pub profile: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum WireCommand {
    /// Decode a recorded answer from stdin: an event stream or plain JSON.
    ///
    /// Prints JSON with `blocks`, `finish`, `usage`, `provider`, `model`, `id`, `events` and, if it is no proper end,
    /// `error`. Exit code 0 for a proper end, 3 for an answer that was cut or carries an error.
    Decode {
        #[command(flatten)]
        wire: WireArgs,
        /// The model that was asked, for replayable blocks.
        #[arg(long, default_value = "recorded")]
        model: String,
    },
    /// Encode a session from stdin into the request's JSON.
    ///
    /// The session is a JSON object:
    ///   model        the provider's name of the model (required)
    ///   items        the conversation (required), a list of
    ///                {"role": "user", "content": TEXT or [{"type": "text" | "image" | "file", ...}]},
    ///                {"role": "system", "text": ...},
    ///                {"role": "assistant", "blocks": [...]} with the blocks that `decode` prints, and
    ///                {"role": "tool_results", "results": [{"wire_id", "name", "content", "is_error"}]}
    ///   system       the system prompt: a text, or a list of {"text", "cache"}
    ///   tools        a list of {"name", "description", "input_schema"}
    ///   tool_choice  "auto", "none", "required" or {"tool": NAME}
    ///   output       {"name", "schema"} of a structured answer
    ///   settings     max_output_tokens, temperature, top_p, seed, reasoning_effort, parallel_tool_calls
    ///   cache_key    groups requests that share a prefix
    ///   stream       whether the answer is streamed (true)
    #[command(verbatim_doc_comment)]
    Encode {
        #[command(flatten)]
        wire: WireArgs,
        /// Print method, path and headers around the body.
        #[arg(long)]
        whole: bool,
    },
}
