//! Assembling a turn: which agents may run, and what each runs with.

use super::models::{Role, Wishes, choose};
use super::{AgentRuntime, Assembler, Choices, Replaced, Runtime, RuntimeError};
use crate::domain::{DomainTurn, Reader, TurnInfo};
use crate::pipeline::{Allowances, PipelineEnv};
use crate::tool::eventual::guarded;
use crate::tool::{Identity, ToolScope};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use turnbuckle_core::context::Ambient;
use turnbuckle_core::ids::{AgentName, ToolName};
use turnbuckle_core::machine::{AgentSpec, Routes, RunMode, TurnSpec};
use turnbuckle_core::message::{Surroundings, UserMessage};
use turnbuckle_core::prompt::{self, PromptInput};
use turnbuckle_core::tool::{Retention, RunsOn};
use turnbuckle_core::transcript::{Rules, ThinkingRule};

/// Where answers are shown when nobody says otherwise.
const SURFACE: &str = "chat";

impl Assembler {
    /// Assembles what a turn runs with.
    ///
    /// # Errors
    /// When an agent or a model of the route is not there, or the domain panics.
    pub fn assemble(&self, choices: Choices<'_>) -> Result<Runtime, RuntimeError> {
        guarded(|| self.put_together(choices))?
    }

    /// The domain's part in a turn, and what its context store has around it.
    ///
    /// # Errors
    /// When the domain panics.
    pub(crate) fn open_turn(
        &self,
        state: Option<&Value>,
        info: &TurnInfo,
    ) -> Result<(Arc<dyn DomainTurn>, Ambient), RuntimeError> {
        Ok(guarded(|| {
            let turn = self.domain.open_turn(state, info);
            let ambient = turn.ambient();
            (turn.into(), ambient)
        })?)
    }

    fn put_together(&self, choices: Choices<'_>) -> Result<Runtime, RuntimeError> {
        let routes = self.domain.routes(&choices.info.agent);
        let lead = lead(&routes, &choices.info.agent);
        let names = self.reachable(&routes)?;
        let mut agents: BTreeMap<AgentName, Box<AgentRuntime>> = BTreeMap::new();
        let mut replaced = None;
        for name in names {
            let role = if name == lead { Role::Lead } else { Role::Other };
            let (runtime, gone) = self.assemble_agent(&name, role, &choices)?;
            if role == Role::Lead {
                replaced = gone;
            }
            agents.insert(name, Box::new(runtime));
        }
        let leader: Option<&AgentRuntime> = agents.get(&lead).map(|agent| &**agent);
        let model = leader.map(|l| l.model.id().clone());
        let titles = leader.and_then(|l| l.agent.titles.clone());
        let titles = titles.unwrap_or_else(|| self.titles.clone());
        let mut retention: BTreeMap<ToolName, Retention> = BTreeMap::new();
        // Those of other agents, too: a session may have been theirs before.
        let own = self.tools.values().flat_map(|own| &own.registered);
        let here = agents.values().flat_map(|agent| agent.env.toolbox.contracts());
        for contract in own.map(|tool| tool.tool().contract()).chain(here) {
            let traits = &contract.traits;
            if traits.retention != Retention::Keep && !retention.contains_key(&traits.name) {
                retention.insert(traits.name.clone(), traits.retention);
            }
        }
        let text_view = self.domain.text_view();
        let history =
            Rules { thinking: ThinkingRule::Drop, retention, text_view, ..Rules::default() };
        let (info, domain_turn) = (choices.info, choices.domain_turn);
        Ok(Runtime {
            info,
            agents,
            routes,
            domain_turn,
            model,
            replaced,
            titles,
            history,
            broken: None,
        })
    }

    /// The agents that routes may run, with their sub-agents.
    fn reachable(&self, routes: &Routes) -> Result<BTreeSet<AgentName>, RuntimeError> {
        let mut open: Vec<AgentName> = routes.routes.values().flatten().cloned().collect();
        open.extend(routes.supervisor.clone());
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            let agents = self.domain.agents();
            let agent = agents.get(&name).ok_or_else(|| RuntimeError::NoAgent(name.clone()))?;
            for tool in agent.tools() {
                if let RunsOn::Agent(sub) = &tool.tool().contract().traits.runs_on {
                    open.push(sub.clone());
                }
            }
        }
        Ok(seen)
    }

    fn assemble_agent(
        &self,
        name: &AgentName,
        role: Role,
        choices: &Choices<'_>,
    ) -> Result<(AgentRuntime, Option<Replaced>), RuntimeError> {
        let agents = self.domain.agents();
        let agent = agents.get(name).ok_or_else(|| RuntimeError::NoAgent(name.clone()))?.clone();
        let info = &choices.info;
        let toolbox = self.toolbox(name, choices)?;
        let scope = Arc::new(ToolScope {
            identity: Identity {
                tenant: info.tenant.clone(),
                user: info.user.clone(),
                session: info.session.clone(),
                turn: info.turn.clone(),
                agent: name.clone(),
                path: name.as_str().into(),
            },
            subject: choices.domain_turn.subject(),
            context: choices.context.clone(),
            clock: self.clock.clone(),
            cancel: choices.cancel.clone(),
            resources: self.resources.clone(),
            progress: choices.progress.clone(),
        });
        let offered = self.offered(name, &toolbox, &scope);
        let Reader { audience, time_zone } = choices.domain_turn.reader();
        let Surroundings { surface, time_zone: written_in, .. } = &info.surroundings;
        let system = agent.prompt.assemble(&PromptInput {
            mode: match info.mode {
                RunMode::Interactive => prompt::RunMode::Interactive,
                RunMode::Capture => prompt::RunMode::Autonomous,
            },
            surface: surface.clone().unwrap_or_else(|| SURFACE.into()),
            audience: audience.unwrap_or_default(),
            tools: offered.specs.iter().map(|s| s.name.clone()).collect(),
            now: info.at,
            // Where somebody is now counts before where they are at home.
            time_zone: written_in.clone().or(time_zone).unwrap_or_default(),
            surroundings: info.surroundings.clone(),
            caller: choices.domain_turn.caller(),
        });
        let wishes = Wishes {
            turn: choices.model,
            session: choices.session_model,
            agent: agent.model.as_ref(),
            role,
        };
        let (model, replaced) = choose(&*self.models, wishes)?;
        let mut env = PipelineEnv::new(toolbox, scope);
        env.policy = self.policy.clone();
        env.agent = agent.hooks.clone();
        env.hooks = choices.domain_turn.clone();
        env.taints = choices.taints.clone();
        // Nobody answers for a person where there is none.
        env.allowances = match info.mode {
            RunMode::Interactive => choices.allowances.clone(),
            RunMode::Capture => Allowances::None,
        };
        Ok((AgentRuntime { model, system, offered, env, agent }, replaced))
    }

    /// What the machine decides by.
    pub(crate) fn spec(
        &self,
        runtime: &Runtime,
        user: UserMessage,
        first_capture: u32,
    ) -> TurnSpec {
        let mut agents: BTreeMap<AgentName, Box<AgentSpec>> = runtime
            .agents
            .iter()
            .map(|(name, agent)| {
                let tools = agent.env.toolbox.traits();
                // Both are in the toolbox's order.
                let mut offered = agent.offered.specs.iter().peekable();
                let withheld =
                    tools.iter().filter(|t| offered.next_if(|o| o.name == t.name).is_none());
                let spec = AgentSpec {
                    limits: agent.agent.limits.clone(),
                    withheld: withheld.map(|t| t.name.clone()).collect(),
                    tools,
                    policy: agent.agent.policy.clone(),
                };
                (name.clone(), Box::new(spec))
            })
            .collect();
        if runtime.broken.is_some() {
            let agent = runtime.info.agent.clone();
            let nothing = AgentSpec {
                limits: Default::default(),
                tools: Vec::new(),
                withheld: Vec::new(),
                policy: Default::default(),
            };
            agents.insert(agent, Box::new(nothing));
        }
        TurnSpec {
            session: runtime.info.session.clone(),
            turn: runtime.info.turn.clone(),
            user,
            mode: runtime.info.mode,
            limits: self.limits.clone(),
            agents,
            routes: runtime.routes.clone(),
            first_capture,
        }
    }
}

/// The agent whose model a session with `agent` keeps: itself, or the first of its default route when it only names one.
fn lead(routes: &Routes, agent: &AgentName) -> AgentName {
    if routes.routes.values().flatten().any(|a| a == agent) {
        return agent.clone();
    }
    let first = routes.routes.get(&routes.default).and_then(|route| route.first());
    first.unwrap_or(agent).clone()
}
