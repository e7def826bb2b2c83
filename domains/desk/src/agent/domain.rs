//! The domain: the desk's agents with their tools, prompts and routes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;
use turnbuckle::agent::AgentError;
use turnbuckle::core::ids::{AgentName, UserId};
use turnbuckle::core::machine::Routes;
use turnbuckle::core::prompt::Section;
use turnbuckle::core::transcript::TextView;
use turnbuckle::tool::toolbox::Offer;
use turnbuckle::tool::{Resources, Tool};
use turnbuckle::{Agent, Domain, DomainTurn, TurnInfo};

use super::capability::{Registry, RegistryError};
use super::members::{Directory, Users, right_for};
use super::prefill::referred;
use super::references::text_view;
use super::snapshots::Seen;
use super::turn::DeskTurn;
use super::{AGENT, MAIL_PAGE, PAGES, capabilities, prompt};
use crate::desk::Desk;
use crate::error::DeskError;

/// A domain that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum DeskAgentError {
    /// The desk could not be read.
    #[error(transparent)]
    Desk(#[from] DeskError),
    /// The capabilities do not fit together.
    #[error(transparent)]
    Capabilities(#[from] RegistryError),
    /// A tool or a prompt is not sound.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// The agents of the pipeline beside the one that a session talks to.
const SUPERVISOR: &str = "supervisor";
const PLANNER: &str = "planner";
const EXECUTOR: &str = "executor";
const RESPONDER: &str = "responder";

const CHOOSING: &str = "Your job here: choose who works on the user's message. `conversational`: greetings, thanks and \
questions about you, nothing to look up. `simple`: one look-up answers it. `search`: several look-ups, then a summary. \
`action`: something is to be changed, sent, created or refunded. `multi-step`: three steps or more that depend on each \
other.";

const PLANNING: &str = "Your job here: plan the work, do not do it. Make a plan of the fewest steps that answer the user's \
message; another agent works through it. Write no answer to the user beyond one sentence.";

const EXECUTING: &str = "Your job here: do the work. If there is a plan, keep to it and keep its steps up to date. Gather \
what the answer needs and act where the user asked for it.";

const RESPONDING: &str = "Your job here: write the answer for the user, from what was found and done before. You have no \
tools of your own; where something is missing, say so.";

/// Which configuration it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// One agent owns the turn.
    Single,
    /// A supervisor chooses among routes of several agents.
    Pipeline,
}

/// The desk as a domain of the engine.
pub struct DeskDomain {
    desk: Desk,
    shape: Shape,
    registry: Arc<Registry>,
    directory: RwLock<Arc<Directory>>,
    users: Users,
    default_page: Option<String>,
    agents: BTreeMap<AgentName, Arc<Agent>>,
}

impl DeskDomain {
    /// One agent, [`AGENT`], that owns the turn.
    ///
    /// # Errors
    /// When the desk cannot be read.
    pub async fn new(desk: Desk) -> Result<Self, DeskAgentError> {
        Self::build(desk, Shape::Single).await
    }

    /// A supervisor that chooses a route, and a planner, an executor and a responder who work on it. Sessions talk to
    /// [`AGENT`] all the same.
    ///
    /// # Errors
    /// When the desk cannot be read.
    pub async fn pipeline(desk: Desk) -> Result<Self, DeskAgentError> {
        Self::build(desk, Shape::Pipeline).await
    }

    async fn build(desk: Desk, shape: Shape) -> Result<Self, DeskAgentError> {
        let directory = Arc::new(Directory::read(desk.pool()).await?);
        let registry = Arc::new(Registry::new(&PAGES, capabilities::all())?);
        let mut agents = vec![agent(
            AGENT,
            prompt::sections(&registry, &directory),
            tools(&registry, |_| true),
        )?];
        if shape == Shape::Pipeline {
            let sections = |job| prompt::sections_for(job, &registry, &directory);
            agents.push(agent(SUPERVISOR, sections(CHOOSING), Vec::new())?);
            let plans = tools(&registry, |name| name.starts_with("plan_"));
            agents.push(agent(PLANNER, sections(PLANNING), plans)?);
            agents.push(agent(EXECUTOR, sections(EXECUTING), tools(&registry, |_| true))?);
            agents.push(agent(RESPONDER, sections(RESPONDING), Vec::new())?);
        }
        Ok(Self {
            desk,
            shape,
            registry,
            directory: RwLock::new(directory),
            users: Users::new(),
            default_page: Some(MAIL_PAGE.to_owned()),
            agents: agents
                .into_iter()
                .map(|agent| (agent.name().clone(), Arc::new(agent)))
                .collect(),
        })
    }

    /// Which member a session's user is, where that is not plain from the user's id.
    #[must_use]
    pub fn with_users(mut self, users: Users) -> Self {
        self.users = users;
        self
    }

    /// The page of messages that come without one, as from a terminal; [`MAIL_PAGE`] unless told.
    #[must_use]
    pub fn with_default_page(mut self, page: Option<String>) -> Self {
        self.default_page = page;
        self
    }

    /// Reads again who the members are and what they may do. Until then a change shows in what tools do, which always
    /// look, but not in what the model is told and offered. Catalogues in the prompt stay as they were at the start.
    ///
    /// # Errors
    /// When the desk cannot be read.
    pub async fn refresh(&self) -> Result<(), DeskError> {
        let directory = Arc::new(Directory::read(self.desk.pool()).await?);
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = directory;
        Ok(())
    }

    /// The desk underneath.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// What it can do, by page.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    fn directory(&self) -> Arc<Directory> {
        self.directory.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn page<'a>(&'a self, info: &'a TurnInfo) -> Option<&'a str> {
        info.surroundings.page.as_deref().or(self.default_page.as_deref())
    }

    fn may_use(&self, tool: &str, user: &UserId) -> bool {
        let Some(right) = right_for(tool) else { return true };
        let directory = self.directory();
        // Whoever is not known here is told so by the tools, in more words than a missing tool could.
        directory.person(&self.users, user).is_none_or(|person| person.rights.has(right))
    }
}

fn agent(
    name: &str,
    sections: Vec<Section>,
    tools: Vec<Arc<dyn Tool>>,
) -> Result<Agent, AgentError> {
    let builder =
        sections.into_iter().fold(Agent::builder(name), |agent, section| agent.section(section));
    tools.into_iter().fold(builder, |agent, tool| agent.shared_tool(tool)).build()
}

fn tools(registry: &Registry, wanted: impl Fn(&str) -> bool) -> Vec<Arc<dyn Tool>> {
    let all = registry.capabilities().iter().flat_map(|capability| &capability.tools);
    all.filter(|tool| wanted(tool.contract().name().as_str())).cloned().collect()
}

impl Domain for DeskDomain {
    fn agents(&self) -> &BTreeMap<AgentName, Arc<Agent>> {
        &self.agents
    }

    fn routes(&self, agent: &AgentName) -> Routes {
        if self.shape == Shape::Single || *agent != AGENT {
            return Routes::single(agent.clone());
        }
        let route = |name: &str, agents: &[&str]| {
            (name.to_owned(), agents.iter().copied().map(AgentName::from).collect())
        };
        Routes {
            supervisor: Some(SUPERVISOR.into()),
            routes: BTreeMap::from([
                route("conversational", &[RESPONDER]),
                route("simple", &[EXECUTOR]),
                route("search", &[EXECUTOR, RESPONDER]),
                route("action", &[EXECUTOR, RESPONDER]),
                route("multi-step", &[PLANNER, EXECUTOR, RESPONDER]),
            ]),
            default: "simple".to_owned(),
        }
    }

    fn offers(&self, tool: &dyn Tool, _: &AgentName, info: &TurnInfo) -> Offer {
        let name = tool.contract().name().as_str();
        if !self.registry.admits(name, self.page(info)) {
            return Offer::Withheld;
        }
        if !self.may_use(name, &info.user) {
            return Offer::SwitchedOff;
        }
        Offer::Offered
    }

    fn resources(&self) -> Resources {
        Resources::new().with(self.desk.clone()).with(self.users.clone())
    }

    fn open_turn(&self, state: Option<&Value>, info: &TurnInfo) -> Box<dyn DomainTurn> {
        let directory = self.directory();
        Box::new(DeskTurn {
            registry: self.registry.clone(),
            page: self.page(info).map(str::to_owned),
            person: directory.person(&self.users, &info.user).map(|person| person.to_json()),
            references: referred(&info.surroundings.references),
            info: info.clone(),
            seen: Mutex::new(Seen::carried(state)),
        })
    }

    fn text_view(&self) -> Option<TextView> {
        Some(Arc::new(text_view))
    }
}
