//! The tools of one agent, ready to be called.
//!
//! A tool and its schemas are checked once, when it is registered; what differs by agent, workspace and turn
//! is a thin layer around it.

use super::checker::Checker;
use super::context::ToolScope;
use super::eventual::guarded;
use super::schema::known_names;
use super::{Tool, ToolContract};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use turnbuckle_core::context::{InputBinding, effective, project_schema};
use turnbuckle_core::error::{ToolError, ToolErrorCode};
use turnbuckle_core::ids::ToolName;
use turnbuckle_core::json::Json;
use turnbuckle_core::tool::{ToolSpec, ToolTraits};

/// A tool whose contract has been checked.
pub struct RegisteredTool {
    tool: Arc<dyn Tool>,
    input: Checker,
    amendment: Option<Checker>,
    known: Option<Vec<String>>,
    required: Vec<String>,
    null_allowed: Vec<String>,
}

/// A tool that cannot be registered. These are mistakes of its author or of the workspace, found at the start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// The name is empty.
    #[error("a tool has an empty name; give it one that the model can write")]
    NoName,
    /// A schema is not one.
    #[error("the {which} schema of tool `{tool}` is not a JSON Schema: {problem}")]
    Schema {
        /// The tool.
        tool: ToolName,
        /// Which schema.
        which: &'static str,
        /// What is wrong, and where.
        problem: String,
    },
    /// A schema of arguments is not that of an object.
    #[error(
        "the {which} schema of tool `{tool}` must describe an object; wrap the value in a struct"
    )]
    NotAnObject {
        /// The tool.
        tool: ToolName,
        /// Which schema.
        which: &'static str,
    },
    /// An argument is bound or amendable that the tool does not have.
    #[error("tool `{tool}` has no argument `{argument}`, which its {by} names; it has {names}")]
    NoSuchArgument {
        /// The tool.
        tool: ToolName,
        /// The argument.
        argument: String,
        /// What names it.
        by: &'static str,
        /// The arguments there are.
        names: String,
    },
    /// Two tools have one name.
    #[error("two tools are named `{0}`; rename one, or leave it out")]
    Duplicate(ToolName),
}

impl RegisteredTool {
    /// Checks the contract and the schemas.
    ///
    /// # Errors
    /// When the contract contradicts itself.
    pub fn new(tool: impl Tool + 'static) -> Result<Arc<Self>, ToolboxError> {
        Self::shared(Arc::new(tool))
    }

    /// As [`RegisteredTool::new`], for a tool that is shared already.
    ///
    /// # Errors
    /// When the contract contradicts itself.
    pub fn shared(tool: Arc<dyn Tool>) -> Result<Arc<Self>, ToolboxError> {
        let contract = tool.contract();
        let name = contract.name();
        if name.as_str().is_empty() {
            return Err(ToolboxError::NoName);
        }
        let input = object_schema(name, "input", &contract.input_schema)?;
        let amendment = match &contract.amendment_schema {
            Some(schema) => {
                let fields = schema.get("properties").and_then(Value::as_object);
                for argument in fields.into_iter().flat_map(|f| f.keys()) {
                    check_argument(name, &contract.input_schema, argument, "amendment schema")?;
                }
                Some(object_schema(name, "amendment", schema)?)
            }
            None => None,
        };
        for binding in &contract.bindings {
            check_argument(name, &contract.input_schema, &binding.argument, "binding")?;
        }
        let schema = &contract.input_schema;
        let known = known_names(schema).map(|names| names.into_iter().map(str::to_owned).collect());
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<String> = required.filter_map(Value::as_str).map(str::to_owned).collect();
        let null_allowed =
            required.iter().filter(|name| names_null(schema, name)).cloned().collect();
        Ok(Arc::new(Self { input, amendment, known, required, null_allowed, tool }))
    }

    /// The tool.
    pub fn tool(&self) -> &Arc<dyn Tool> {
        &self.tool
    }

    pub(crate) fn input(&self) -> &Checker {
        &self.input
    }

    /// The names the arguments may have; `None` when any will do.
    pub(crate) fn known(&self) -> Option<&[String]> {
        self.known.as_deref()
    }

    /// The names the arguments must have.
    pub(crate) fn required(&self) -> &[String] {
        &self.required
    }

    /// Whether null is a value of a required argument, because its schema says so in as many words.
    pub(crate) fn takes_null(&self, name: &str) -> bool {
        self.null_allowed.iter().any(|n| n == name)
    }

    pub(crate) fn amendment(&self) -> Option<&Checker> {
        self.amendment.as_ref()
    }
}

impl fmt::Debug for RegisteredTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredTool").field(self.tool.contract().name()).finish()
    }
}

/// Whether an argument's schema lists null among its types.
fn names_null(schema: &Value, argument: &str) -> bool {
    let property = schema.get("properties").and_then(|p| p.get(argument));
    let types = property.and_then(|p| p.get("type")).and_then(Value::as_array);
    types.is_some_and(|types| types.iter().any(|t| t == "null"))
}

fn object_schema(
    tool: &ToolName,
    which: &'static str,
    schema: &Json,
) -> Result<Checker, ToolboxError> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(ToolboxError::NotAnObject { tool: tool.clone(), which });
    }
    Checker::new(schema).map_err(|problem| ToolboxError::Schema {
        tool: tool.clone(),
        which,
        problem,
    })
}

fn check_argument(
    tool: &ToolName,
    schema: &Value,
    argument: &str,
    by: &'static str,
) -> Result<(), ToolboxError> {
    match known_names(schema) {
        Some(names) if !names.contains(&argument) => Err(ToolboxError::NoSuchArgument {
            tool: tool.clone(),
            argument: argument.to_owned(),
            by,
            names: quoted(&names),
        }),
        _ => Ok(()),
    }
}

/// Whether the model is offered a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// It is, unless the tool itself says that it is off for this user.
    #[default]
    Offered,
    /// Not in this run, for instance because it belongs to another page.
    Withheld,
    /// Switched off for this user.
    SwitchedOff,
}

/// A tool as one agent has it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The tool.
    pub registered: Arc<RegisteredTool>,
    /// The bindings in force.
    pub bindings: Arc<[InputBinding]>,
    /// As the model sees it.
    pub spec: ToolSpec,
    /// Whether the model is offered it.
    pub offer: Offer,
}

impl Entry {
    /// The tool.
    pub fn tool(&self) -> &dyn Tool {
        &*self.registered.tool
    }

    fn is_on(&self, scope: &ToolScope) -> bool {
        guarded(|| self.tool().should_use(scope)).unwrap_or(false)
    }
}

/// The tools of one agent.
#[derive(Clone, Debug, Default)]
pub struct Toolbox {
    entries: Vec<Entry>,
}

impl Toolbox {
    /// No tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool with its author's bindings.
    ///
    /// # Errors
    /// When there is one of that name.
    pub fn add(&mut self, tool: Arc<RegisteredTool>) -> Result<(), ToolboxError> {
        self.add_bound(tool, &[])
    }

    /// Adds a tool with the workspace's bindings, which replace its author's for the same arguments.
    ///
    /// # Errors
    /// When there is one of that name, or it has no such argument.
    pub fn add_bound(
        &mut self,
        tool: Arc<RegisteredTool>,
        workspace: &[InputBinding],
    ) -> Result<(), ToolboxError> {
        let contract = tool.tool.contract();
        let name = contract.name();
        if self.entries.iter().any(|e| e.spec.name == *name) {
            return Err(ToolboxError::Duplicate(name.clone()));
        }
        for binding in workspace {
            check_argument(name, &contract.input_schema, &binding.argument, "binding")?;
        }
        let bindings = effective(&contract.bindings, workspace);
        let input_schema: Json = match bindings.is_empty() {
            true => contract.input_schema.clone(),
            false => project_schema(&contract.input_schema, &bindings).into(),
        };
        let description = contract.description.clone();
        let spec = ToolSpec { name: name.clone(), description, input_schema };
        self.entries.push(Entry {
            bindings: bindings.into(),
            spec,
            offer: Offer::Offered,
            registered: tool,
        });
        Ok(())
    }

    /// Changes whether a tool is offered. Unknown names are ignored.
    pub fn set_offer(&mut self, name: &str, offer: Offer) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.spec.name == *name) {
            entry.offer = offer;
        }
    }

    /// All tools in their stable order, offered or not.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What the machine must know of all tools.
    pub fn traits(&self) -> Vec<ToolTraits> {
        self.contracts().map(|contract| contract.traits.clone()).collect()
    }

    /// What every tool declares, offered or not.
    pub fn contracts(&self) -> impl Iterator<Item = &ToolContract> {
        self.entries.iter().map(|e| e.tool().contract())
    }

    /// The tools the model is offered, in their stable order.
    pub fn offered<'a>(&'a self, scope: &'a ToolScope) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(|e| e.offer == Offer::Offered && e.is_on(scope))
    }

    /// The tool of that name, offered or not. A name the model decorated, such as `functions.search`, is understood.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        let exact = |wanted: &str| self.entries.iter().find(|e| e.spec.name == *wanted);
        exact(name.trim()).or_else(|| {
            let (_, last) = name.trim().rsplit_once(['.', ':', '/'])?;
            exact(last)
        })
    }

    /// The tool of that name, if it may be called.
    ///
    /// # Errors
    /// When there is none, it is not offered, or it is switched off; worded for the model.
    pub fn find(&self, name: &str, scope: &ToolScope) -> Result<&Entry, ToolError> {
        let Some(entry) = self.get(name) else {
            let mut text =
                format!("There is no tool `{}`.", turnbuckle_core::json::clip(name, 100));
            if let Some(near) = nearest(name, self.offered(scope).map(|e| e.spec.name.as_str())) {
                text.push_str(&format!(" Did you mean `{near}`?"));
            }
            return Err(ToolError::new(ToolErrorCode::UnknownTool, text + &self.list(scope)));
        };
        match entry.offer {
            Offer::Offered if entry.is_on(scope) => Ok(entry),
            Offer::Withheld => {
                let text = format!("The tool `{}` is not available here.", entry.spec.name);
                Err(ToolError::new(ToolErrorCode::NotAdvertised, text + &self.list(scope)))
            }
            Offer::Offered | Offer::SwitchedOff => {
                let text = format!(
                    "TOOL_NOT_ENABLED: `{}` is switched off for this user.",
                    entry.spec.name
                );
                Err(ToolError::new(ToolErrorCode::NotEnabled, text + &self.list(scope)))
            }
        }
    }

    fn list(&self, scope: &ToolScope) -> String {
        const SHOWN: usize = 50;
        let names: Vec<&str> = self.offered(scope).map(|e| e.spec.name.as_str()).collect();
        match names.get(..SHOWN) {
            _ if names.is_empty() => " No tools can be called now; answer in text.".to_owned(),
            Some(first) if names.len() > SHOWN => {
                format!(" Among the tools you can call are {}.", quoted(first))
            }
            _ => format!(" The tools you can call are {}.", quoted(&names)),
        }
    }
}

/// Names for a sentence.
pub(crate) fn quoted(names: &[&str]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

/// The name most like a misspelt one, when one is close.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = turnbuckle_core::json::clip(name, 100);
    names
        .map(|n| (strsim::jaro_winkler(name, n), n))
        .filter(|(likeness, _)| *likeness > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, n)| n)
}
