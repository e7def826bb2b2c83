//! Who the caller is, and what there is to talk to.

use crate::api::Api;
use crate::dto::{
    AgentList, AgentView, Info, ToolApproval, ToolEffect, ToolPlace, ToolView, WhoAmI,
};
use crate::problem::Answer;
use crate::request::Caller;
use axum::Json;
use axum::extract::State;
use turnbuckle_core::tool::{RunsOn, SideEffect};
use turnbuckle_engine::tool::{Approval, ToolContract};

/// Who the request is.
#[utoipa::path(get, path = "/v1/whoami", tag = "account", responses((status = 200, body = WhoAmI)))]
pub async fn whoami(caller: Caller) -> Json<WhoAmI> {
    Json((&*caller.who).into())
}

/// What the server is and how it is set up.
#[utoipa::path(get, path = "/v1/info", tag = "account", responses((status = 200, body = Info)))]
pub async fn info(State(api): State<Api>, _: Caller) -> Json<Info> {
    let options = api.options();
    Json(Info {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        model: options.model.clone(),
        default_agent: options.default_agent.clone(),
        worker: options.worker,
        limits: (&options.limits).into(),
    })
}

/// The agents with their tools.
#[utoipa::path(get, path = "/v1/agents", tag = "account", responses((status = 200, body = AgentList)))]
pub async fn list_agents(State(api): State<Api>, _: Caller) -> Answer<Json<AgentList>> {
    let agents = api.engine().domain().agents().values();
    let items = agents.map(|agent| AgentView {
        name: agent.name().to_string(),
        tools: agent.tools().map(|tool| view(tool.tool().contract())).collect(),
    });
    Ok(Json(AgentList { items: items.collect() }))
}

fn view(contract: &ToolContract) -> ToolView {
    ToolView {
        name: contract.name().to_string(),
        title: contract.title.clone(),
        description: contract.description.clone(),
        effect: match contract.traits.effect {
            SideEffect::ReadOnly => ToolEffect::ReadOnly,
            SideEffect::Idempotent => ToolEffect::Idempotent,
            SideEffect::AtMostOnce => ToolEffect::AtMostOnce,
        },
        approval: match contract.approval {
            Approval::Never => ToolApproval::Never,
            Approval::Always => ToolApproval::Always,
            _ => ToolApproval::Depends,
        },
        runs_on: match contract.traits.runs_on {
            RunsOn::Server => ToolPlace::Server,
            RunsOn::Client => ToolPlace::Client,
            RunsOn::Agent(_) => ToolPlace::Agent,
        },
        input_schema: (*contract.input_schema).clone(),
    }
}
