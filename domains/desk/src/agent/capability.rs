//! What an agent can do, and where. A capability belongs to a page or to all of them; on a page it
//! may hide tools of the rest of the product, but never those of another page's capability.
//!
//! The registry is checked once, at the start: a tool that two capabilities bring, a page that does
//! not exist and an exclusion that hides nothing are mistakes of its author.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use turnbuckle::TurnInfo;
use turnbuckle::core::ids::ToolName;
use turnbuckle::core::outcome::Outcome;
use turnbuckle::tool::Tool;

/// The text a capability adds to the prompt, given the tools of its own that are on offer.
pub type CapabilityText = Arc<dyn Fn(&BTreeSet<ToolName>) -> String + Send + Sync>;

/// Runs when a turn on the capability's page has ended.
pub type OnTurnEnd = Arc<dyn Fn(&TurnInfo, &Outcome) + Send + Sync>;

/// Something an agent can do.
#[derive(Clone)]
pub struct Capability {
    /// Its name, unique.
    pub name: &'static str,
    /// The page it belongs to; everywhere when there is none.
    pub page: Option<&'static str>,
    /// The tools it brings.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What the prompt says about it.
    pub prompt: Option<CapabilityText>,
    /// What people are told it can do, one line.
    pub summary: &'static str,
    /// Tools of global capabilities that do not exist on its page: names, or `prefix_*`.
    pub excludes: Vec<&'static str>,
    /// Runs at the end of each turn in which it was active.
    pub on_turn_end: Option<OnTurnEnd>,
}

impl Capability {
    /// A capability of every page.
    pub fn global(name: &'static str, summary: &'static str) -> Self {
        Self {
            name,
            page: None,
            tools: Vec::new(),
            prompt: None,
            summary,
            excludes: Vec::new(),
            on_turn_end: None,
        }
    }

    /// A capability of one page.
    pub fn on_page(name: &'static str, page: &'static str, summary: &'static str) -> Self {
        Self { page: Some(page), ..Self::global(name, summary) }
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// What the prompt says, given the capability's tools that are on offer.
    #[must_use]
    pub fn prompt(
        mut self,
        text: impl Fn(&BTreeSet<ToolName>) -> String + Send + Sync + 'static,
    ) -> Self {
        self.prompt = Some(Arc::new(text));
        self
    }

    /// Hides a global tool on this page: a name, or `prefix_*`.
    #[must_use]
    pub fn exclude(mut self, pattern: &'static str) -> Self {
        self.excludes.push(pattern);
        self
    }

    /// Runs at the end of each turn in which it was active.
    #[must_use]
    pub fn on_turn_end(
        mut self,
        run: impl Fn(&TurnInfo, &Outcome) + Send + Sync + 'static,
    ) -> Self {
        self.on_turn_end = Some(Arc::new(run));
        self
    }

    fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.iter().map(|tool| tool.contract().name())
    }
}

impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capability")
            .field("name", &self.name)
            .field("page", &self.page)
            .field("tools", &self.names().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Capabilities that do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two have one name.
    #[error("two capabilities are called `{0}`; rename one")]
    DuplicateCapability(&'static str),
    /// Two bring a tool of the same name.
    #[error(
        "`{first}` and `{second}` both bring a tool `{tool}`; rename it, or take it out of one"
    )]
    DuplicateTool {
        /// The tool.
        tool: ToolName,
        /// The capability that brought it first.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },
    /// The page is none of the product's.
    #[error(
        "`{capability}` belongs to a page `{page}`, which does not exist; the pages are {pages}"
    )]
    UnknownPage {
        /// The capability.
        capability: &'static str,
        /// The page it names.
        page: &'static str,
        /// The pages there are.
        pages: String,
    },
    /// A global capability hides tools, which would hide them everywhere.
    #[error("`{0}` is global and excludes tools; only the capability of a page can")]
    GlobalExclusion(&'static str),
    /// An exclusion hides nothing.
    #[error("`{capability}` excludes `{pattern}`, but no global capability brings such a tool")]
    IdleExclusion {
        /// The capability.
        capability: &'static str,
        /// What it excludes.
        pattern: &'static str,
    },
}

/// The capabilities of a product, checked.
#[derive(Clone, Debug)]
pub struct Registry {
    capabilities: Vec<Capability>,
    owners: BTreeMap<ToolName, usize>,
}

impl Registry {
    /// Checks that the capabilities fit together and that their pages exist.
    ///
    /// # Errors
    /// Names the first mistake.
    pub fn new(pages: &[&str], capabilities: Vec<Capability>) -> Result<Self, RegistryError> {
        let mut owners: BTreeMap<ToolName, usize> = BTreeMap::new();
        let mut names: Vec<&'static str> = Vec::new();
        for (index, capability) in capabilities.iter().enumerate() {
            if names.contains(&capability.name) {
                return Err(RegistryError::DuplicateCapability(capability.name));
            }
            if let Some(page) = capability.page.filter(|page| !pages.contains(page)) {
                let pages = pages.join(", ");
                return Err(RegistryError::UnknownPage {
                    capability: capability.name,
                    page,
                    pages,
                });
            }
            for tool in capability.names() {
                if let Some(first) = owners.insert(tool.clone(), index) {
                    return Err(RegistryError::DuplicateTool {
                        tool: tool.clone(),
                        first: names.get(first).copied().unwrap_or(capability.name),
                        second: capability.name,
                    });
                }
            }
            names.push(capability.name);
        }
        let registry = Self { capabilities, owners };
        registry.check_exclusions()?;
        Ok(registry)
    }

    fn check_exclusions(&self) -> Result<(), RegistryError> {
        for capability in self.capabilities.iter().filter(|c| !c.excludes.is_empty()) {
            if capability.page.is_none() {
                return Err(RegistryError::GlobalExclusion(capability.name));
            }
            for pattern in &capability.excludes {
                let hides = |c: &Capability| c.names().any(|name| matches(pattern, name.as_str()));
                if !self.capabilities.iter().filter(|c| c.page.is_none()).any(hides) {
                    return Err(RegistryError::IdleExclusion {
                        capability: capability.name,
                        pattern,
                    });
                }
            }
        }
        Ok(())
    }

    /// All of them, in order.
    pub fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    /// Those of a page: the global ones, then the page's own. A page nobody knows has the global ones.
    pub fn active(&self, page: Option<&str>) -> impl Iterator<Item = &Capability> {
        let global = self.capabilities.iter().filter(|c| c.page.is_none());
        let own = self.capabilities.iter().filter(move |c| c.page.is_some() && c.page == page);
        global.chain(own)
    }

    /// Whether a tool exists on a page. Tools no capability brings are not this registry's business.
    pub fn admits(&self, tool: &str, page: Option<&str>) -> bool {
        let Some(owner) = self.owners.get(tool).and_then(|index| self.capabilities.get(*index))
        else {
            return true;
        };
        match owner.page {
            Some(own) => Some(own) == page,
            None => {
                !self.active(page).any(|c| c.excludes.iter().any(|pattern| matches(pattern, tool)))
            }
        }
    }

    /// What an agent can do on a page, for people: a line for each capability that has a tool left.
    pub fn summaries(&self, page: Option<&str>) -> Vec<&'static str> {
        self.active(page)
            .filter(|c| c.names().any(|name| self.admits(name.as_str(), page)))
            .map(|c| c.summary)
            .collect()
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnbuckle::tool::{FnTool, ToolContract};

    const PAGES: [&str; 2] = ["mail", "tasks"];

    fn tool(name: &str) -> FnTool {
        FnTool::elsewhere(ToolContract::new(name).description("Does it."))
    }

    fn everywhere() -> Capability {
        Capability::global("everywhere", "sees all").tool(tool("list_all")).tool(tool("plan_it"))
    }

    fn mail() -> Capability {
        Capability::on_page("mail", "mail", "reads mail").tool(tool("read"))
    }

    fn names(registry: &Registry, page: Option<&str>) -> Vec<&'static str> {
        ["list_all", "plan_it", "read"].into_iter().filter(|t| registry.admits(t, page)).collect()
    }

    #[test]
    fn a_page_has_the_global_tools_and_its_own() {
        let registry = Registry::new(&PAGES, vec![mail(), everywhere()]).unwrap();
        assert_eq!(names(&registry, Some("mail")), ["list_all", "plan_it", "read"]);
        for elsewhere in [Some("tasks"), Some("nowhere"), None] {
            assert_eq!(names(&registry, elsewhere), ["list_all", "plan_it"], "{elsewhere:?}");
        }
        assert_eq!(registry.summaries(Some("mail")), ["sees all", "reads mail"]);
        assert_eq!(registry.summaries(Some("tasks")), ["sees all"]);
    }

    #[test]
    fn a_page_hides_global_tools_but_never_its_own() {
        let hiding = mail().exclude("plan_*").tool(tool("plan_mail"));
        let registry = Registry::new(&PAGES, vec![everywhere(), hiding]).unwrap();
        assert_eq!(names(&registry, Some("mail")), ["list_all", "read"]);
        assert!(registry.admits("plan_mail", Some("mail")));
        assert_eq!(names(&registry, Some("tasks")), ["list_all", "plan_it"]);
        assert!(registry.admits("of_somebody_else", Some("mail")));
    }

    #[test]
    fn what_does_not_fit_together_fails_at_the_start() {
        let refused = |capabilities| Registry::new(&PAGES, capabilities).unwrap_err().to_string();
        assert_eq!(refused(vec![mail(), mail()]), "two capabilities are called `mail`; rename one");
        assert_eq!(
            refused(vec![everywhere(), mail().tool(tool("plan_it"))]),
            "`everywhere` and `mail` both bring a tool `plan_it`; rename it, or take it out of one"
        );
        assert_eq!(
            refused(vec![mail().tool(tool("read"))]),
            "`mail` and `mail` both bring a tool `read`; rename it, or take it out of one"
        );
        assert_eq!(
            refused(vec![Capability::on_page("x", "Mail", "")]),
            "`x` belongs to a page `Mail`, which does not exist; the pages are mail, tasks"
        );
        assert_eq!(
            refused(vec![everywhere().exclude("read")]),
            "`everywhere` is global and excludes tools; only the capability of a page can"
        );
        assert_eq!(
            refused(vec![everywhere(), mail().exclude("lst_*")]),
            "`mail` excludes `lst_*`, but no global capability brings such a tool"
        );
    }
}
