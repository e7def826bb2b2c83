//! The system prompt: an ordered list of sections, from what never changes to what changes with each turn.
//!
//! A [`Section`] has a [`Tier`] and says [`When`] it applies. [`Prompt::new`] checks once, at start, that tiers come in
//! order (static, org, turn) and that names are unique. [`Prompt::assemble`] then gives at most one block per tier:
//! texts are trimmed, empty ones left out, the rest joined by a blank line. The static and the org block end in a cache
//! breakpoint, so that a provider keeps what sessions share, and what one organisation's sessions share.
//!
//! ```
//! use turnbuckle_core::model::SystemBlock;
//! use turnbuckle_core::prompt::{Prompt, PromptInput, Section, Tier, clock_section};
//! use turnbuckle_core::time::Timestamp;
//! let prompt = Prompt::new(vec![
//!     Section::fixed(Tier::Static, "identity", "You help a support team."),
//!     Section::computed(Tier::Static, "search", |input| {
//!         input.has_tool("search").then(|| "Search before you answer.".to_owned())
//!     }),
//!     clock_section(),
//! ])?;
//! let input = PromptInput { now: Timestamp::from_millis(0), ..PromptInput::default() };
//! assert_eq!(prompt.assemble(&input), [
//!     SystemBlock { text: "You help a support team.".into(), cache: true },
//!     SystemBlock::new("It is now Thursday, 1 January 1970, 00:00 (UTC)."),
//! ]);
//! # Ok::<(), turnbuckle_core::prompt::PromptError>(())
//! ```

mod clock;
mod section;

pub use clock::clock_section;
pub use section::{ComputeText, PromptInput, RunMode, Section, SectionText, Tier, When};

use crate::model::SystemBlock;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A list of sections that cannot make a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// A section comes after one of a later tier.
    #[error(
        "prompt section `{section}` is of the {tier} tier but comes after `{after}` of the {later} tier; order sections static, org, turn"
    )]
    TierOrder {
        /// The section.
        section: Arc<str>,
        /// Its tier.
        tier: Tier,
        /// The section before it.
        after: Arc<str>,
        /// The tier of the section before it.
        later: Tier,
    },
    /// Two sections have one name.
    #[error("two prompt sections are called `{0}`; rename one")]
    DuplicateName(Arc<str>),
}

/// A checked list of sections.
#[derive(Clone, Debug, Default)]
pub struct Prompt {
    sections: Arc<[Section]>,
}

impl Prompt {
    /// Checks the order of tiers and that names are unique.
    ///
    /// # Errors
    /// Names the first section at fault.
    pub fn new(sections: Vec<Section>) -> Result<Self, PromptError> {
        let mut names = BTreeSet::new();
        let mut before: Option<&Section> = None;
        for section in &sections {
            if let Some(before) = before.filter(|b| b.tier > section.tier) {
                return Err(PromptError::TierOrder {
                    section: section.name.clone(),
                    tier: section.tier,
                    after: before.name.clone(),
                    later: before.tier,
                });
            }
            if !names.insert(&section.name) {
                return Err(PromptError::DuplicateName(section.name.clone()));
            }
            before = Some(section);
        }
        Ok(Self { sections: sections.into() })
    }

    /// The sections in order.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The texts of the sections that apply, not yet joined.
    pub fn render(&self, input: &PromptInput) -> RenderedPrompt {
        let rendered = self.sections.iter().filter(|section| section.when.admits(input));
        let rendered = rendered.filter_map(|section| {
            let text = match &section.text {
                SectionText::Fixed(text) => trimmed(text),
                SectionText::Computed(compute) => trimmed(&compute(input)?.into()),
            };
            let (name, tier) = (section.name.clone(), section.tier);
            (!text.is_empty()).then_some(RenderedSection { name, tier, text })
        });
        RenderedPrompt { sections: rendered.collect() }
    }

    /// The blocks of the system prompt.
    pub fn assemble(&self, input: &PromptInput) -> Vec<SystemBlock> {
        self.render(input).blocks()
    }
}

/// The text without white space around it, shared where there is none.
fn trimmed(text: &Arc<str>) -> Arc<str> {
    let trimmed = text.trim();
    if trimmed.len() == text.len() { text.clone() } else { trimmed.into() }
}

/// A section that applies, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedSection {
    /// Its name.
    pub name: Arc<str>,
    /// Its tier.
    pub tier: Tier,
    /// Its trimmed text; never empty.
    pub text: Arc<str>,
}

/// The sections that apply, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedPrompt {
    /// The sections.
    pub sections: Vec<RenderedSection>,
}

/// How much of a prompt is of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierSize {
    /// Sections.
    pub sections: usize,
    /// Bytes of the tier's block.
    pub bytes: usize,
}

const BETWEEN: &str = "\n\n";

impl RenderedPrompt {
    /// One block per tier that has sections.
    pub fn blocks(&self) -> Vec<SystemBlock> {
        let tiers = self.sections.chunk_by(|a, b| a.tier == b.tier);
        let blocks = tiers.filter_map(|sections| {
            let (first, rest) = sections.split_first()?;
            let text = if rest.is_empty() {
                first.text.clone()
            } else {
                sections.iter().map(|s| &*s.text).collect::<Vec<_>>().join(BETWEEN).into()
            };
            Some(SystemBlock { text, cache: first.tier.is_cached() })
        });
        blocks.collect()
    }

    /// How much of the prompt is of a tier.
    pub fn size(&self, tier: Tier) -> TierSize {
        let texts = self.sections.iter().filter(|s| s.tier == tier).map(|s| s.text.len());
        let (sections, bytes) = texts.fold((0, 0), |(n, bytes), len| (n + 1, bytes + len));
        TierSize { sections, bytes: bytes + BETWEEN.len() * sections.saturating_sub(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Surroundings;
    use serde_json::json;

    fn fixed(tier: Tier, name: &str) -> Section {
        Section::fixed(tier, name, name)
    }

    fn texts(prompt: &Prompt, input: &PromptInput) -> Vec<String> {
        prompt.assemble(input).into_iter().map(|block| block.text.to_string()).collect()
    }

    #[test]
    fn tiers_out_of_order_are_refused_at_start() {
        use Tier::*;
        for (tiers, at) in [
            (vec![Org, Static], 1),
            (vec![Turn, Static], 1),
            (vec![Turn, Org], 1),
            (vec![Static, Org, Static], 2),
            (vec![Static, Turn, Turn, Org, Turn], 3),
        ] {
            let section = |i: usize| Section::fixed(tiers[i], format!("s{i}"), "text");
            let error = Prompt::new((0..tiers.len()).map(section).collect()).unwrap_err();
            let expected = PromptError::TierOrder {
                section: section(at).name,
                tier: tiers[at],
                after: section(at - 1).name,
                later: tiers[at - 1],
            };
            assert_eq!(error, expected);
        }
        let error = Prompt::new(vec![fixed(Turn, "clock"), fixed(Org, "persona")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "prompt section `persona` is of the org tier but comes after `clock` of the turn tier; order sections static, org, turn"
        );
    }

    #[test]
    fn names_are_unique() {
        let twice = vec![fixed(Tier::Static, "a"), fixed(Tier::Org, "b"), fixed(Tier::Turn, "a")];
        assert_eq!(Prompt::new(twice).unwrap_err(), PromptError::DuplicateName("a".into()));
    }

    #[test]
    fn one_block_per_tier_and_breakpoints_after_static_and_org() {
        use Tier::*;
        let cached = |text: &str| SystemBlock { text: text.into(), cache: true };
        let plain = |text: &str| SystemBlock::new(text);
        for (sections, expected) in [
            (vec![], vec![]),
            (vec![(Static, "a")], vec![cached("a")]),
            (vec![(Turn, "a"), (Turn, "b")], vec![plain("a\n\nb")]),
            (vec![(Org, "a"), (Turn, "b")], vec![cached("a"), plain("b")]),
            (
                vec![
                    (Static, "a"),
                    (Static, "b"),
                    (Org, "c"),
                    (Org, "d"),
                    (Turn, "e"),
                    (Turn, "f"),
                ],
                vec![cached("a\n\nb"), cached("c\n\nd"), plain("e\n\nf")],
            ),
        ] {
            let sections = sections.into_iter().map(|(tier, name)| fixed(tier, name)).collect();
            let prompt = Prompt::new(sections).unwrap();
            assert_eq!(prompt.assemble(&PromptInput::default()), expected);
        }
    }

    #[test]
    fn texts_are_trimmed_and_empty_ones_leave_no_trace() {
        let prompt = Prompt::new(vec![
            Section::fixed(Tier::Static, "a", "\n  one\n\n  two \n"),
            Section::fixed(Tier::Static, "b", " \n"),
            Section::computed(Tier::Static, "c", |_| None),
            Section::computed(Tier::Static, "d", |_| Some("  three\t".to_owned())),
            Section::fixed(Tier::Org, "e", ""),
            Section::computed(Tier::Turn, "f", |_| Some("\n".to_owned())),
        ])
        .unwrap();
        let expected = SystemBlock { text: "one\n\n  two\n\nthree".into(), cache: true };
        assert_eq!(prompt.assemble(&PromptInput::default()), [expected]);
    }

    #[test]
    fn mode_surface_and_audience_select_sections() {
        let section = |name: &str, when| fixed(Tier::Static, name).when(when);
        let prompt = Prompt::new(vec![
            fixed(Tier::Static, "always"),
            section("interactive", When::always().mode(RunMode::Interactive)),
            section("autonomous", When::always().mode(RunMode::Autonomous)),
            section("both", When::always().mode(RunMode::Autonomous).mode(RunMode::Interactive)),
            section("chat-or-email", When::always().surface("chat").surface("email")),
            section("customer", When::always().audience("customer")),
            section(
                "audit",
                When::always().mode(RunMode::Autonomous).surface("email").audience("member"),
            ),
        ])
        .unwrap();
        for (mode, surface, audience, expected) in [
            (RunMode::Interactive, "chat", "member", "always interactive both chat-or-email"),
            (RunMode::Interactive, "builder", "customer", "always interactive both customer"),
            (RunMode::Autonomous, "email", "member", "always autonomous both chat-or-email audit"),
            (RunMode::Autonomous, "chat", "member", "always autonomous both chat-or-email"),
            (RunMode::Autonomous, "", "", "always autonomous both"),
        ] {
            let input = PromptInput {
                mode,
                surface: surface.into(),
                audience: audience.into(),
                ..PromptInput::default()
            };
            assert_eq!(texts(&prompt, &input), [expected.replace(' ', "\n\n")]);
        }
    }

    #[test]
    fn a_section_that_does_not_apply_is_not_computed() {
        let never = |_: &PromptInput| -> Option<String> { panic!("computed") };
        let when = When::always().mode(RunMode::Autonomous);
        let prompt =
            Prompt::new(vec![Section::computed(Tier::Turn, "a", never).when(when)]).unwrap();
        assert_eq!(prompt.assemble(&PromptInput::default()), []);
    }

    #[test]
    fn sections_see_tools_place_and_caller() {
        let prompt = Prompt::new(vec![
            Section::computed(Tier::Static, "tools", |input| {
                let tools: Vec<_> = input.tools.iter().map(|tool| tool.as_str()).collect();
                Some(format!("tools: {}", tools.join(" ")))
            }),
            Section::computed(Tier::Turn, "page", |input| {
                input.surroundings.page.as_ref().map(|page| format!("page: {page}"))
            }),
            Section::computed(Tier::Turn, "references", |input| {
                let references = &input.surroundings.references;
                (!references.is_empty()).then(|| format!("references: {}", references.len()))
            }),
            Section::computed(Tier::Turn, "caller", |input| {
                Some(format!("caller: {}", input.caller.as_ref()?.get("name")?.as_str()?))
            }),
        ])
        .unwrap();
        assert_eq!(texts(&prompt, &PromptInput::default()), ["tools:"]);
        let input = PromptInput {
            tools: ["write".into(), "read".into()].into(),
            surroundings: Surroundings {
                page: Some("mail".to_owned()),
                references: vec![json!({"thread": 1}).into()],
                ..Surroundings::default()
            },
            caller: Some(json!({"name": "Ada"}).into()),
            ..PromptInput::default()
        };
        assert_eq!(
            texts(&prompt, &input),
            ["tools: read write", "page: mail\n\nreferences: 1\n\ncaller: Ada"]
        );
        assert!(input.has_tool("read") && !input.has_tool("rea"));
    }

    #[test]
    fn what_changes_with_the_turn_leaves_the_cached_blocks_alone() {
        let prompt = Prompt::new(vec![
            fixed(Tier::Static, "identity"),
            fixed(Tier::Org, "persona"),
            clock_section(),
        ])
        .unwrap();
        let at = |ms| {
            let now = crate::time::Timestamp::from_millis(ms);
            prompt.assemble(&PromptInput { now, ..PromptInput::default() })
        };
        let (early, late) = (at(0), at(3_600_000));
        assert_eq!(early[..2], late[..2]);
        assert_ne!(early[2], late[2]);
    }

    #[test]
    fn sizes_are_those_of_the_blocks() {
        let prompt = Prompt::new(vec![
            Section::fixed(Tier::Static, "a", " größe "),
            Section::fixed(Tier::Static, "b", "two"),
            Section::fixed(Tier::Static, "c", " "),
            Section::fixed(Tier::Turn, "d", "three"),
        ])
        .unwrap();
        let rendered = prompt.render(&PromptInput::default());
        assert_eq!(rendered.size(Tier::Static), TierSize { sections: 2, bytes: 12 });
        assert_eq!(rendered.size(Tier::Org), TierSize { sections: 0, bytes: 0 });
        assert_eq!(rendered.size(Tier::Turn), TierSize { sections: 1, bytes: 5 });
        let blocks: usize = rendered.blocks().iter().map(|block| block.text.len()).sum();
        assert_eq!(blocks, 17);
    }
}
