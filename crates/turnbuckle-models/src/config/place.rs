//! Where in a cloud a provider is: the region, the project, the resource that its URL names.
//!
//! A preset's URL and options hold `{names}`. Each is filled from the configuration's `place`, else from the environment, else
//! by the preset's own rule.

use super::{ConfigError, Environment, Preset};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How one name of a preset is filled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlaceRule {
    /// The variables that may hold it.
    pub env: Vec<String>,
    /// Another name whose value decides, by `cases`.
    pub by: Option<String>,
    /// What it is when the other name has that value.
    pub cases: BTreeMap<String, String>,
    /// What it is otherwise. May name other places.
    #[serde(rename = "else")]
    pub otherwise: Option<String>,
}

/// Rules may lead to rules; a preset whose rules lead in a circle would never end.
const DEEPEST: usize = 4;

/// The places of one provider.
pub(super) struct Places<'a> {
    pub(super) provider: &'a str,
    pub(super) preset: &'a Preset,
    pub(super) given: &'a BTreeMap<String, String>,
    pub(super) env: Environment<'a>,
}

impl Places<'_> {
    /// `text` with its names filled in; what is no name of the preset stays.
    pub(super) fn fill(&self, text: &str) -> Result<String, ConfigError> {
        self.fill_within(text, DEEPEST)
    }

    /// Options with every text in them filled in.
    pub(super) fn fill_options(
        &self,
        options: &Map<String, Value>,
    ) -> Result<Map<String, Value>, ConfigError> {
        options
            .iter()
            .map(|(name, value)| {
                let filled = match value {
                    Value::String(text) => Value::String(self.fill(text)?),
                    other => other.clone(),
                };
                Ok((name.clone(), filled))
            })
            .collect()
    }

    /// A place that was given or stands in the environment or follows from another.
    pub(super) fn value(&self, name: &str) -> Result<String, ConfigError> {
        match self.preset.places.get(name) {
            Some(rule) => self.by_rule(name, rule, DEEPEST),
            None => Err(self.missing(name, &PlaceRule::default())),
        }
    }

    fn fill_within(&self, text: &str, depth: usize) -> Result<String, ConfigError> {
        let mut filled = text.to_owned();
        for (name, rule) in &self.preset.places {
            let hole = format!("{{{name}}}");
            if filled.contains(&hole) {
                filled = filled.replace(&hole, &self.by_rule(name, rule, depth)?);
            }
        }
        Ok(filled)
    }

    fn by_rule(&self, name: &str, rule: &PlaceRule, depth: usize) -> Result<String, ConfigError> {
        let Some(deeper) = depth.checked_sub(1) else { return Err(self.missing(name, rule)) };
        let said = self.given.get(name).cloned();
        let said = said.or_else(|| rule.env.iter().find_map(|variable| (self.env)(variable)));
        if let Some(value) = said {
            return self.checked(name, value);
        }
        if let Some(other) = &rule.by
            && let Some(of_other) = self.preset.places.get(other)
            && let Some(case) = rule.cases.get(&self.by_rule(other, of_other, deeper)?)
        {
            return self.fill_within(case, deeper);
        }
        match &rule.otherwise {
            Some(text) => self.fill_within(text, deeper),
            None => Err(self.missing(name, rule)),
        }
    }

    /// Names become parts of a URL, and must not lead it elsewhere; an endpoint is a URL itself and is checked as one later.
    fn checked(&self, name: &str, value: String) -> Result<String, ConfigError> {
        let value = value.trim().trim_end_matches('/').to_owned();
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
        let fits = value.contains("://") || (!value.is_empty() && value.chars().all(part));
        if fits {
            return Ok(value);
        }
        Err(ConfigError::BadPlace {
            provider: self.provider.to_owned(),
            place: name.to_owned(),
            value,
        })
    }

    fn missing(&self, name: &str, rule: &PlaceRule) -> ConfigError {
        let variables = rule.env.iter().map(|v| format!(", or {v}")).collect();
        ConfigError::NoPlace {
            provider: self.provider.to_owned(),
            place: name.to_owned(),
            variables,
        }
    }
}
