//! An agent's tools: listed, or called by hand through the checks of any call.

use crate::chat::approval;
use crate::cli::ToolsCommand;
use crate::config::Settings;
use crate::error::CliError;
use crate::exit::Exit;
use crate::host::{Access, Host, now};
use crate::term::words::one_line;
use crate::term::{Screen, Style};
use serde_json::Value;
use std::io::BufRead;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use turnbuckle::TurnInfo;
use turnbuckle::core::context::SessionContext;
use turnbuckle::core::ids::{CallId, SessionId, TurnId};
use turnbuckle::core::json::Json;
use turnbuckle::core::machine::{
    ExecuteCall, ExecuteMode, ExecuteResult, PrepareCall, PrepareStage, Question, RunMode, Verdict,
};
use turnbuckle::core::message::{ApprovalCard, Asks, CardStatus, Surroundings};
use turnbuckle::core::tool::SideEffect;
use turnbuckle::pipeline::{self, Allowances, PipelineEnv};
use turnbuckle::runtime::{Choices, Runtime, Storage};
use turnbuckle::tool::{Approval, Category, ContextHandle, NoProgress, ToolContract};

/// Characters of a description in the list.
const DESCRIPTION: usize = 90;

/// Runs the command.
///
/// # Errors
/// When there is no such agent or tool, or the arguments are not JSON.
pub async fn run(settings: Settings, what: Option<ToolsCommand>) -> Result<Exit, CliError> {
    let host = Host::open(settings, Access::Guest).await?;
    let mut screen = Screen::stdout(host.settings.color);
    match what.unwrap_or(ToolsCommand::List) {
        ToolsCommand::List => list(&host, &mut screen),
        ToolsCommand::Call { name, arguments, yes, page } => {
            let args: Value = serde_json::from_str(&arguments).map_err(|e| {
                CliError::Usage(format!(
                    "the arguments are not JSON: {e}; give an object such as '{{\"limit\": 3}}'"
                ))
            })?;
            call(&host, &mut screen, &name, args, yes, page).await
        }
    }
}

fn list(host: &Host, screen: &mut Screen) -> Result<Exit, CliError> {
    let runtime = runtime(host, None)?;
    for (name, agent) in &runtime.agents {
        screen.line(Style::Bold, &format!("agent {name}"))?;
        for entry in agent.env.toolbox.entries() {
            let contract = entry.tool().contract();
            let line = format!(
                "  {:<26} {:<22} {}",
                contract.name().as_str(),
                kind(contract),
                one_line(&contract.description, DESCRIPTION)
            );
            screen.line(Style::Plain, &line)?;
        }
    }
    Ok(Exit::Completed)
}

fn kind(contract: &ToolContract) -> String {
    let effect = match contract.traits.effect {
        SideEffect::ReadOnly => "reads",
        SideEffect::Idempotent | SideEffect::AtMostOnce => "writes",
    };
    let asks = match contract.approval {
        Approval::Never => "",
        Approval::Always => ", asks",
        Approval::When(_) => ", may ask",
    };
    let system = match contract.category {
        Category::Capability => "",
        Category::Control | Category::System => ", system",
    };
    format!("{effect}{asks}{system}")
}

/// What a turn of the configured agent and person would run with.
fn runtime(host: &Host, page: Option<String>) -> Result<Runtime, CliError> {
    let settings = &host.settings;
    // The turn's id makes calls distinct, so that a repeated write is not taken for a repetition of the last one.
    let turn = format!("hand-{}-{}", now().as_millis(), std::process::id());
    let info = TurnInfo {
        tenant: settings.tenant.as_str().into(),
        user: host.user(),
        session: SessionId::from("none"),
        turn: TurnId::from(turn),
        agent: settings.agent.value.as_str().into(),
        mode: RunMode::Interactive,
        surroundings: Surroundings { page, ..Surroundings::default() },
        at: now(),
        account: None,
    };
    let domain_turn = Arc::from(host.engine.domain().open_turn(None, &info));
    let runtime = host.engine.assembler().assemble(Choices {
        info,
        model: None,
        session_model: None,
        storage: Storage::None,
        context: ContextHandle::new(SessionContext::new()),
        domain_turn,
        cancel: CancellationToken::new(),
        progress: Arc::new(NoProgress),
        taints: Arc::default(),
        allowances: Allowances::default(),
    });
    runtime.map_err(|e| CliError::Engine(e.into()))
}

async fn call(
    host: &Host,
    screen: &mut Screen,
    name: &str,
    args: Value,
    yes: bool,
    page: Option<String>,
) -> Result<Exit, CliError> {
    let runtime = runtime(host, page)?;
    let env = runtime
        .agents
        .values()
        .map(|agent| &agent.env)
        .find(|env| env.toolbox.get(name).is_some())
        .or_else(|| runtime.agents.values().map(|agent| &agent.env).next())
        .ok_or_else(|| CliError::Failed("the agent has no tools".to_owned()))?;
    let call: CallId = runtime.info.turn.call(0);
    let check =
        |args: Json, stage| PrepareCall { call: call.clone(), tool: name.into(), args, stage };
    let mut verdict = pipeline::prepare(env, &check(args.into(), PrepareStage::First)).await;
    if let Verdict::Ask { args, question, .. } = verdict {
        if !yes && !agrees(screen, &call, name, &args, *question)? {
            screen.line(Style::Bad, "Not carried out.")?;
            return Ok(Exit::Aborted);
        }
        let approved = PrepareStage::Approved { amendment: None };
        verdict = pipeline::prepare(env, &check(args, approved)).await;
    }
    match verdict {
        Verdict::Run { args, warnings } | Verdict::Ask { args, warnings, .. } => {
            let (tool, mode) = (name.into(), ExecuteMode::Real);
            execute(env, screen, ExecuteCall { call, tool, args, mode, reason: None, warnings })
                .await
        }
        Verdict::Client { .. } => Err(CliError::Failed(format!(
            "`{name}` runs in a front end and cannot be called from here"
        ))),
        Verdict::Refuse { error, .. } => Err(CliError::Failed(error.message)),
    }
}

fn agrees(
    screen: &mut Screen,
    call: &CallId,
    tool: &str,
    args: &Json,
    question: Question,
) -> Result<bool, CliError> {
    let card = ApprovalCard {
        call: call.clone(),
        message: call.card(),
        agent: None,
        asks: Asks::Decision,
        tool: tool.into(),
        title: question.title,
        args: args.clone(),
        digest: question.digest,
        reason: question.reason,
        editable: None,
        status: CardStatus::Pending,
        expires_at: question.expires_at,
        decided: None,
    };
    approval::show(screen, &card)?;
    screen.line(Style::Bold, "y carries it out; anything else does not (--yes does not ask)")?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

async fn execute(
    env: &PipelineEnv,
    screen: &mut Screen,
    run: ExecuteCall,
) -> Result<Exit, CliError> {
    match pipeline::execute(env, &run).await.result {
        ExecuteResult::Success { result, .. } => {
            let text = match &*result.output {
                Value::String(text) => text.clone(),
                other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
            };
            screen.raw(&(crate::term::screen::safe(&text) + "\n"))?;
            Ok(Exit::Completed)
        }
        ExecuteResult::Failure { error, .. } => Err(CliError::Failed(error.message)),
    }
}
