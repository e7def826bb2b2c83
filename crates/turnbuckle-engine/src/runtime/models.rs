//! Which model answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::ModelRef;
use turnbuckle_models::Model;

/// Finds models by name.
pub trait ModelSource: Send + Sync {
    /// The model of that name, or the default one.
    ///
    /// # Errors
    /// When there is none of that name; the message lists what there is.
    fn resolve(&self, wanted: Option<&ModelRef>) -> Result<Arc<dyn Model>, ModelError>;
}

/// A fixed set of models, the first of which is the default.
#[derive(Clone)]
pub struct Models {
    default: Arc<dyn Model>,
    by_name: BTreeMap<String, Arc<dyn Model>>,
}

impl Models {
    /// One model.
    pub fn new(default: Arc<dyn Model>) -> Self {
        let by_name = BTreeMap::from([(default.id().to_string(), default.clone())]);
        Self { default, by_name }
    }

    /// Adds another.
    #[must_use]
    pub fn and(mut self, model: Arc<dyn Model>) -> Self {
        self.by_name.insert(model.id().to_string(), model);
        self
    }
}

impl ModelSource for Models {
    fn resolve(&self, wanted: Option<&ModelRef>) -> Result<Arc<dyn Model>, ModelError> {
        let Some(wanted) = wanted else { return Ok(self.default.clone()) };
        if wanted == self.default.id() {
            return Ok(self.default.clone());
        }
        self.by_name.get(&wanted.to_string()).cloned().ok_or_else(|| {
            let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            let message = format!("there is no model `{wanted}`; there are {}", names.join(", "));
            ModelError::new(ModelErrorKind::Config, message)
        })
    }
}

/// Which models may answer for an agent, by what they come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes<'a> {
    /// The one asked for in this turn.
    pub(crate) turn: Option<&'a ModelRef>,
    /// The one the session keeps.
    pub(crate) session: Option<&'a ModelRef>,
    /// The agent's own.
    pub(crate) agent: Option<&'a ModelRef>,
    /// Whether the session talks to this agent, or it only works for that one.
    pub(crate) role: Role,
}

/// An agent's place in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The session talks to it, and keeps its model.
    Lead,
    /// It has a part in the lead's turns.
    Other,
}

/// The model the session kept is not to be had any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The model that is gone.
    pub from: ModelRef,
    /// The one that answers.
    pub to: ModelRef,
    /// Why, in the words of the configuration.
    pub reason: String,
}

/// Chooses the model of an agent: the turn's, the agent's, then the default of the engine. Once a session has answered, the lead
/// keeps the model it answered with, and agents without one of their own follow it, whatever is configured since.
///
/// A kept model that is gone is passed over, since a session must not die of a change of the configuration.
pub(crate) fn choose(
    source: &dyn ModelSource,
    wishes: Wishes<'_>,
) -> Result<(Arc<dyn Model>, Option<Replaced>), ModelError> {
    let kept = wishes.session.filter(|_| wishes.role == Role::Lead || wishes.agent.is_none());
    let (None, Some(kept)) = (wishes.turn, kept) else {
        let wanted = wishes.turn.or(wishes.agent);
        return Ok((source.resolve(wanted)?, None));
    };
    match source.resolve(Some(kept)) {
        Ok(model) => Ok((model, None)),
        Err(gone) => {
            let model = source.resolve(wishes.agent)?;
            let (from, to) = (kept.clone(), model.id().clone());
            Ok((model, Some(Replaced { from, to, reason: gone.message })))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnbuckle_models::scripted::ScriptedModel;

    fn model(name: &str) -> ModelRef {
        ModelRef::new("scripted", name)
    }

    fn source() -> Models {
        let models = ["default", "a", "b", "c"]
            .map(|name| ScriptedModel::new(name, [] as [turnbuckle_models::scripted::Scripted; 0]));
        let [default, rest @ ..] = models.map(|m| Arc::new(m) as Arc<dyn Model>);
        rest.into_iter().fold(Models::new(default), Models::and)
    }

    #[test]
    fn the_turn_comes_first_then_what_the_session_keeps_then_the_agent_then_the_default() {
        let [a, b, c] = ["a", "b", "c"].map(model);
        let (lead, other) = (Role::Lead, Role::Other);
        for (turn, session, agent, role, expected) in [
            (Some(&a), Some(&b), Some(&c), lead, "a"),
            (None, Some(&b), Some(&c), lead, "b"),
            (None, Some(&b), None, lead, "b"),
            (None, None, Some(&c), lead, "c"),
            (None, None, None, lead, "default"),
            (Some(&a), Some(&b), Some(&c), other, "a"),
            (None, Some(&b), Some(&c), other, "c"),
            (None, Some(&b), None, other, "b"),
        ] {
            let (chosen, replaced) =
                choose(&source(), Wishes { turn, session, agent, role }).unwrap();
            assert_eq!((&*chosen.id().model, replaced), (expected, None));
        }
    }

    #[test]
    fn a_kept_model_that_is_gone_is_replaced_and_a_wish_that_cannot_be_met_is_an_error() {
        let (gone, c) = (model("gone"), model("c"));
        let wishes = Wishes { turn: None, session: Some(&gone), agent: Some(&c), role: Role::Lead };
        let (chosen, replaced) = choose(&source(), wishes).unwrap();
        assert_eq!(*chosen.id(), c);
        let replaced = replaced.unwrap();
        assert_eq!((&replaced.from, &replaced.to), (&gone, &c));
        assert!(
            replaced.reason.starts_with("there is no model `scripted:gone`"),
            "{}",
            replaced.reason
        );
        assert!(choose(&source(), Wishes { turn: Some(&gone), ..wishes }).is_err());
        assert!(choose(&source(), Wishes { session: None, agent: Some(&gone), ..wishes }).is_err());
    }
}
