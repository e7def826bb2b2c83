//! A section, when it applies, and what its text may depend on.

use crate::ids::ToolName;
use crate::json::Json;
use crate::message::Surroundings;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// How often a section's text changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// With the program.
    Static,
    /// With the organisation and its agents.
    Org,
    /// With each turn.
    Turn,
}

impl Tier {
    /// Whether the tier's block ends in a cache breakpoint.
    pub const fn is_cached(self) -> bool {
        match self {
            Self::Static | Self::Org => true,
            Self::Turn => false,
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "static",
            Self::Org => "org",
            Self::Turn => "turn",
        })
    }
}

/// Whether somebody reads along.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum RunMode {
    /// A person reads the answer and decides approvals.
    #[default]
    Interactive,
    /// Nobody does; a trigger started the run.
    Autonomous,
}

/// When a section applies. What is not named does not matter; of several values named, one must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    modes: BTreeSet<RunMode>,
    surfaces: BTreeSet<Arc<str>>,
    audiences: BTreeSet<Arc<str>>,
}

impl When {
    /// In every prompt.
    pub fn always() -> Self {
        Self::default()
    }

    /// In this run mode.
    #[must_use]
    pub fn mode(mut self, mode: RunMode) -> Self {
        self.modes.insert(mode);
        self
    }

    /// On this surface.
    #[must_use]
    pub fn surface(mut self, surface: impl Into<Arc<str>>) -> Self {
        self.surfaces.insert(surface.into());
        self
    }

    /// For this audience.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<Arc<str>>) -> Self {
        self.audiences.insert(audience.into());
        self
    }

    /// Whether it applies to `input`.
    pub fn admits(&self, input: &PromptInput) -> bool {
        fn one_of<T: Ord>(named: &BTreeSet<T>, value: &T) -> bool {
            named.is_empty() || named.contains(value)
        }
        one_of(&self.modes, &input.mode)
            && one_of(&self.surfaces, &input.surface)
            && one_of(&self.audiences, &input.audience)
    }
}

/// What a prompt may depend on. Fixed when a turn begins, so that its model calls share one prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptInput {
    /// Whether somebody reads along.
    pub mode: RunMode,
    /// Where the answer is shown, for instance `chat` or `email`.
    pub surface: Arc<str>,
    /// Who reads it, for instance `member` or `customer`.
    pub audience: Arc<str>,
    /// The tools that are on offer after all filtering.
    pub tools: BTreeSet<ToolName>,
    /// When the turn began.
    pub now: Timestamp,
    /// IANA name of the reader's time zone.
    pub time_zone: Arc<str>,
    /// The page and the references of the turn.
    pub surroundings: Surroundings,
    /// Who the agent talks to or acts for, as the domain describes people.
    pub caller: Option<Json>,
}

impl PromptInput {
    /// Whether a tool is on offer.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.contains(name)
    }
}

/// Computes a section's text; `None` leaves the section out.
pub type ComputeText = dyn Fn(&PromptInput) -> Option<String> + Send + Sync;

/// A section's text.
#[derive(Clone)]
pub enum SectionText {
    /// Always the same.
    Fixed(Arc<str>),
    /// Computed for each prompt. In the static and org tiers it must depend only on
    /// what changes as seldom as the tier, such as the tools; else the provider's cache is never hit.
    Computed(Arc<ComputeText>),
}

impl fmt::Debug for SectionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(text) => f.debug_tuple("Fixed").field(text).finish(),
            Self::Computed(_) => f.write_str("Computed"),
        }
    }
}

/// A named piece of the system prompt.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name, unique in a prompt.
    pub name: Arc<str>,
    /// How often it changes.
    pub tier: Tier,
    /// When it applies.
    pub when: When,
    /// Its text.
    pub text: SectionText,
}

impl Section {
    /// A section whose text never changes.
    pub fn fixed(tier: Tier, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        let text = SectionText::Fixed(text.into());
        Self { name: name.into(), tier, when: When::always(), text }
    }

    /// A section whose text is computed for each prompt.
    pub fn computed(
        tier: Tier,
        name: impl Into<Arc<str>>,
        text: impl Fn(&PromptInput) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let text = SectionText::Computed(Arc::new(text));
        Self { name: name.into(), tier, when: When::always(), text }
    }

    /// The same section, applying only then.
    #[must_use]
    pub fn when(mut self, when: When) -> Self {
        self.when = when;
        self
    }
}
