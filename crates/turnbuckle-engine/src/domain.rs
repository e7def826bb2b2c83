//! Domains: what a product plugs in. The engine looks neither into their state nor into their tools.

use crate::agent::Agent;
use crate::pipeline::Hooks;
use crate::tool::{Resources, Tool};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::context::Ambient;
use turnbuckle_core::ids::{AgentName, SessionId, TenantId, TurnId, UserId};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{FinalChanges, Routes, RunMode};
use turnbuckle_core::message::{AssistantMessage, Surroundings};
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::time::Timestamp;
use turnbuckle_core::transcript::TextView;

/// Who and where a turn is for.
#[derive(Clone, Debug)]
pub struct TurnInfo {
    /// The organisation.
    pub tenant: TenantId,
    /// The person.
    pub user: UserId,
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The agent the session talks to.
    pub agent: AgentName,
    /// Whether a person is there.
    pub mode: RunMode,
    /// The page and the references: those of this message, or for a continuation those of the turn it continues.
    pub surroundings: Surroundings,
    /// When the turn began.
    pub at: Timestamp,
    /// What its model calls are booked to beside the person, such as the id of an API key.
    pub account: Option<Arc<str>>,
}

/// A product's agents with all that belongs to them.
pub trait Domain: Send + Sync {
    /// The agents by name.
    fn agents(&self) -> &BTreeMap<AgentName, Arc<Agent>>;

    /// Which agents run for a session that talks to `agent`.
    fn routes(&self, agent: &AgentName) -> Routes {
        Routes::single(agent.clone())
    }

    /// Tools that exist only here and now, such as those of a page. They come after the agent's own.
    fn extra_tools(&self, agent: &AgentName, info: &TurnInfo) -> Vec<Arc<dyn Tool>> {
        let _ = (agent, info);
        Vec::new()
    }

    /// Whether a tool of the agent is offered in this turn.
    fn offers(
        &self,
        tool: &dyn Tool,
        agent: &AgentName,
        info: &TurnInfo,
    ) -> crate::tool::toolbox::Offer {
        let _ = (tool, agent, info);
        crate::tool::toolbox::Offer::Offered
    }

    /// What its tools find by type.
    fn resources(&self) -> Resources {
        Resources::new()
    }

    /// Starts a turn on the state that the last one left. What it returns holds the domain's own state, in its own type.
    fn open_turn(&self, state: Option<&Value>, info: &TurnInfo) -> Box<dyn DomainTurn> {
        let _ = info;
        Box::new(PlainTurn(state.cloned()))
    }

    /// The model's cheaper view of stored text, such as reference cards as numbered lines.
    fn text_view(&self) -> Option<TextView> {
        None
    }
}

/// Who reads an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reader {
    /// Their audience, such as `member` or `customer`: sections of the prompt may be for one alone. Only the domain says it, since
    /// what a client claims must not show it the instructions of another.
    pub audience: Option<Arc<str>>,
    /// IANA name of their time zone, unless their message says another; UTC when nobody knows one.
    pub time_zone: Option<Arc<str>>,
}

/// A domain's part in one turn: its state, and its hooks on tool calls and on the end.
pub trait DomainTurn: Hooks + Send + Sync {
    /// The state to store; `None` when there is none.
    fn state(&self) -> Option<Value> {
        None
    }

    /// The record, ticket or person the turn is about.
    fn subject(&self) -> Option<Json> {
        None
    }

    /// Ambient values of the context store: `sys:` keys and what `field` references are read from.
    fn ambient(&self) -> Ambient {
        Ambient::default()
    }

    /// Facts about the person for the prompt.
    fn caller(&self) -> Option<Json> {
        None
    }

    /// Who reads the answer, for the sections of the prompt that depend on it.
    fn reader(&self) -> Reader {
        Reader::default()
    }

    /// Rewrites the final message: texts by part, snapshots for links.
    fn post_process(&self, message: &AssistantMessage) -> FinalChanges {
        let _ = message;
        FinalChanges::default()
    }

    /// Runs once per turn, before its terminal event, never on a pause. A panic is swallowed.
    fn on_turn_end(&self, outcome: &Outcome) {
        let _ = outcome;
    }
}

/// A turn of a domain without hooks. It keeps the state it was given.
#[derive(Clone, Debug, Default)]
pub struct PlainTurn(pub Option<Value>);

impl Hooks for PlainTurn {}

impl DomainTurn for PlainTurn {
    fn state(&self) -> Option<Value> {
        self.0.clone()
    }
}

/// A domain that is only a set of agents.
pub struct Agents {
    agents: BTreeMap<AgentName, Arc<Agent>>,
    resources: Resources,
}

impl Agents {
    /// A domain of these agents.
    pub fn new(agents: impl IntoIterator<Item = Agent>) -> Self {
        let agents = agents.into_iter().map(|a| (a.name().clone(), Arc::new(a))).collect();
        Self { agents, resources: Resources::new() }
    }

    /// What their tools find by type.
    #[must_use]
    pub fn with_resources(mut self, resources: Resources) -> Self {
        self.resources = resources;
        self
    }
}

impl Domain for Agents {
    fn agents(&self) -> &BTreeMap<AgentName, Arc<Agent>> {
        &self.agents
    }

    fn resources(&self) -> Resources {
        self.resources.clone()
    }
}
