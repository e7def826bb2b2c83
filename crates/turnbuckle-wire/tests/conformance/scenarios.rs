//! The table.

use crate::harness::{B, Expect, Seen};
use turnbuckle_core::error::ModelErrorKind;
use turnbuckle_core::usage::{FinishReason, Usage};

/// What a wire must be able to express for a scenario to make sense on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// Calls may come without an index.
    NoIndex,
    /// The first index may be 1.
    IndexFromOne,
    /// Two calls may share an index.
    SharedIndex,
    /// Ids may be given again with each piece.
    RepeatedIds,
    /// Ids may be missing altogether.
    NoIds,
    /// Names may come in pieces or again.
    PiecedNames,
    /// Arguments come in pieces.
    PiecedArguments,
    /// Pieces of several calls may alternate.
    Interleaving,
    /// Thinking may carry a signature.
    Signatures,
    /// Text may be followed by a call and then by more text.
    TextBetweenCalls,
    /// A refusal has a place of its own.
    Refusals,
    /// Citations.
    Citations,
    /// Blocks of tools that the provider runs.
    ServerTools,
    /// The wire has ping events.
    Pings,
    /// Usage may come in a frame of its own after the finish reason.
    SeparateUsage,
    /// A long run may pause.
    Pauses,
    /// A filter may cut the answer.
    Filters,
    /// Cache reads are accounted for.
    CacheReads,
    /// Cache writes are accounted for.
    CacheWrites,
    /// There is a terminal event apart from the finish reason.
    TerminalEvent,
    /// Reasoning tokens are accounted for.
    ReasoningTokens,
    /// A call without arguments may come with no text at all for them.
    EmptyArguments,
}

#[derive(Clone, Debug)]
pub enum Step {
    Text(String),
    Think(String),
    /// The signature of the thinking before it.
    Sign(&'static str),
    Call {
        slot: usize,
        id: &'static str,
        name: &'static str,
    },
    Args {
        slot: usize,
        piece: String,
    },
    Refuse(&'static str),
    /// A citation on the text before it.
    Cite(&'static str),
    /// A search the provider ran: the request and its result.
    ServerTool,
    Ping,
    Unknown,
    /// An error frame: the provider's word and what it says.
    Error {
        overloaded: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexStyle {
    Usual,
    None,
    FromOne,
    AllZero,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdStyle {
    Once,
    Repeated,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameStyle {
    Once,
    Pieces,
    Repeated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageStyle {
    None,
    Last,
    Separate,
    Twice,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub needs: Vec<Cap>,
    pub steps: Vec<Step>,
    pub index: IndexStyle,
    pub ids: IdStyle,
    pub names: NameStyle,
    pub usage_style: UsageStyle,
    /// The tokens in our terms.
    pub usage: Usage,
    /// `None`: the stream has no finish reason.
    pub finish: Option<FinishReason>,
    /// Whether the terminal event comes.
    pub terminal: bool,
    pub fails: Option<ModelErrorKind>,
}

fn scenario(name: &'static str, steps: Vec<Step>) -> Scenario {
    let calls = steps.iter().any(|s| matches!(s, Step::Call { .. }));
    Scenario {
        name,
        needs: Vec::new(),
        steps,
        index: IndexStyle::Usual,
        ids: IdStyle::Once,
        names: NameStyle::Once,
        usage_style: UsageStyle::Last,
        usage: Usage { input: Some(100), output: Some(20), ..Usage::default() },
        finish: Some(if calls { FinishReason::ToolCalls } else { FinishReason::Stop }),
        terminal: true,
        fails: None,
    }
}

impl Scenario {
    fn needs(mut self, caps: &[Cap]) -> Self {
        self.needs.extend(caps);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The answer the steps amount to.
    pub fn blocks(&self) -> Vec<B> {
        let mut blocks: Vec<B> = Vec::new();
        let mut slots = std::collections::BTreeMap::new();
        for step in &self.steps {
            match step {
                Step::Text(text) | Step::Think(text) if text.is_empty() => {}
                Step::Text(text) => match blocks.last_mut() {
                    Some(B::Text(known)) => known.push_str(text),
                    _ => blocks.push(B::Text(text.clone())),
                },
                Step::Refuse(text) => blocks.push(B::Text((*text).to_owned())),
                Step::Think(text) => match blocks.last_mut() {
                    Some(B::Think(known)) => known.push_str(text),
                    _ => blocks.push(B::Think(text.clone())),
                },
                Step::Sign(_) => {
                    if !matches!(blocks.last(), Some(B::Think(_))) {
                        blocks.push(B::Think(String::new()));
                    }
                }
                Step::Call { slot, id, name } => {
                    slots.insert(*slot, blocks.len());
                    let id = if self.ids == IdStyle::Never { "" } else { id };
                    blocks.push(B::Call {
                        id: id.to_owned(),
                        name: (*name).to_owned(),
                        arguments: String::new(),
                    });
                }
                Step::Args { slot, piece } => {
                    if let B::Call { arguments, .. } = &mut blocks[slots[slot]] {
                        arguments.push_str(piece);
                    }
                }
                Step::ServerTool => blocks.extend([B::Native, B::Native]),
                Step::Error { .. } => break,
                Step::Cite(_) | Step::Ping | Step::Unknown => {}
            }
        }
        blocks
    }

    pub fn expect(&self) -> Expect {
        match self.fails {
            Some(kind) => Expect::Failure { kind, blocks: self.blocks() },
            None => Expect::Answer(Seen {
                blocks: self.blocks(),
                finish: self.finish.clone().unwrap_or(FinishReason::Stop),
                usage: if self.usage_style == UsageStyle::None {
                    Usage::default()
                } else {
                    self.usage
                },
            }),
        }
    }
}

fn text(t: &str) -> Step {
    Step::Text(t.to_owned())
}

fn think(t: &str) -> Step {
    Step::Think(t.to_owned())
}

fn call(slot: usize, id: &'static str, name: &'static str) -> Step {
    Step::Call { slot, id, name }
}

fn args(slot: usize, piece: &str) -> Step {
    Step::Args { slot, piece: piece.to_owned() }
}

fn two_calls() -> Vec<Step> {
    vec![
        call(0, "call_a", "lookup"),
        args(0, "{\"id\":"),
        args(0, "1}"),
        call(1, "call_b", "search"),
        args(1, "{\"q\":"),
        args(1, "\"x\"}"),
    ]
}

fn one_call() -> Vec<Step> {
    vec![call(0, "call_a", "lookup"), args(0, "{\"id\":"), args(0, "1}")]
}

/// Every scenario.
pub fn table() -> Vec<Scenario> {
    use Cap::*;
    let long = format!("{{\"body\":\"{}\"}}", "0123456789abcdef".repeat(10_000));
    let long_pieces =
        long.as_bytes().chunks(4000).map(|c| args(0, std::str::from_utf8(c).unwrap()));
    let bytes = "{\"q\":\"a \\\"quoted\\\" word\"}";
    vec![
        scenario("plain text", vec![text("Hel"), text("lo")]),
        scenario(
            "text with escapes and every script",
            vec![text("a\n\"b\"\\ \u{e9} 漢字 \u{1F600}"), text("\t</x>")],
        ),
        scenario("a call", one_call()).needs(&[PiecedArguments]),
        scenario(
            "a call whose arguments come as one blob",
            vec![call(0, "call_a", "lookup"), args(0, "{\"id\":1}")],
        ),
        scenario("arguments one byte at a time", {
            let mut steps = vec![call(0, "call_a", "lookup")];
            steps.extend(bytes.chars().map(|c| args(0, &c.to_string())));
            steps
        })
        .needs(&[PiecedArguments]),
        scenario("a call without arguments", vec![call(0, "call_a", "now")])
            .needs(&[EmptyArguments]),
        scenario(
            "two calls without arguments",
            vec![call(0, "call_a", "now"), call(1, "call_b", "now")],
        )
        .needs(&[EmptyArguments]),
        scenario("parallel calls", two_calls()).needs(&[PiecedArguments]),
        scenario(
            "parallel calls that alternate",
            vec![
                call(0, "call_a", "lookup"),
                call(1, "call_b", "search"),
                args(0, "{\"id\":"),
                args(1, "{\"q\":"),
                args(0, "1}"),
                args(1, "\"x\"}"),
            ],
        )
        .needs(&[Interleaving, PiecedArguments]),
        scenario(
            "parallel calls, each as one blob",
            vec![
                call(0, "call_a", "lookup"),
                args(0, "{\"id\":1}"),
                call(1, "call_b", "lookup"),
                args(1, "{\"id\":2}"),
                call(2, "call_c", "lookup"),
                args(2, "{\"id\":3}"),
            ],
        ),
        scenario("calls without index", two_calls())
            .needs(&[NoIndex, PiecedArguments])
            .with(|s| s.index = IndexStyle::None),
        scenario("calls without index, ids repeated", two_calls())
            .needs(&[NoIndex, RepeatedIds, PiecedArguments])
            .with(|s| (s.index, s.ids) = (IndexStyle::None, IdStyle::Repeated)),
        scenario("calls indexed from 1", two_calls())
            .needs(&[IndexFromOne, PiecedArguments])
            .with(|s| s.index = IndexStyle::FromOne),
        scenario("calls that share index 0", two_calls())
            .needs(&[SharedIndex, PiecedArguments])
            .with(|s| s.index = IndexStyle::AllZero),
        scenario("calls that share index 0, ids repeated", two_calls())
            .needs(&[SharedIndex, RepeatedIds, PiecedArguments])
            .with(|s| (s.index, s.ids) = (IndexStyle::AllZero, IdStyle::Repeated)),
        scenario("calls whose id comes with every piece", two_calls())
            .needs(&[RepeatedIds, PiecedArguments])
            .with(|s| s.ids = IdStyle::Repeated),
        scenario("calls without ids", two_calls())
            .needs(&[NoIds, PiecedArguments])
            .with(|s| s.ids = IdStyle::Never),
        scenario("calls without ids that share index 0", two_calls())
            .needs(&[NoIds, SharedIndex, PiecedArguments])
            .with(|s| (s.index, s.ids) = (IndexStyle::AllZero, IdStyle::Never)),
        scenario("calls without ids or index", two_calls())
            .needs(&[NoIds, NoIndex, PiecedArguments])
            .with(|s| (s.index, s.ids) = (IndexStyle::None, IdStyle::Never)),
        scenario(
            "equal calls without ids or index",
            vec![
                call(0, "", "lookup"),
                args(0, "{\"id\":1}"),
                call(1, "", "lookup"),
                args(1, "{\"id\":1}"),
            ],
        )
        .needs(&[NoIds, NoIndex])
        .with(|s| (s.index, s.ids) = (IndexStyle::None, IdStyle::Never)),
        scenario("a name in pieces", two_calls())
            .needs(&[PiecedNames, PiecedArguments])
            .with(|s| s.names = NameStyle::Pieces),
        scenario("a name given again with every piece", two_calls())
            .needs(&[PiecedNames, PiecedArguments])
            .with(|s| s.names = NameStyle::Repeated),
        scenario("names and ids given again with every piece", two_calls())
            .needs(&[PiecedNames, RepeatedIds, PiecedArguments])
            .with(|s| (s.names, s.ids) = (NameStyle::Repeated, IdStyle::Repeated)),
        scenario(
            "names with dots and prefixes",
            vec![call(0, "call_a", "functions.files.read:0"), args(0, "{}")],
        ),
        scenario(
            "a call after text",
            vec![text("Let me look."), call(0, "call_a", "lookup"), args(0, "{\"id\":1}")],
        ),
        scenario(
            "text between calls",
            vec![
                text("First."),
                call(0, "call_a", "lookup"),
                args(0, "{\"id\":1}"),
                text("Second."),
                call(1, "call_b", "lookup"),
                args(1, "{\"id\":2}"),
            ],
        )
        .needs(&[TextBetweenCalls]),
        scenario(
            "empty text before a call",
            vec![text(""), call(0, "call_a", "lookup"), args(0, "{}")],
        ),
        scenario("thinking, then text", vec![think("Hm. "), think("Yes."), text("Done.")]),
        scenario(
            "signed thinking, then a call",
            vec![
                think("I need the record."),
                Step::Sign("sig-1=="),
                call(0, "call_a", "lookup"),
                args(0, "{\"id\":1}"),
            ],
        )
        .needs(&[Signatures]),
        scenario(
            "a signature without visible thinking",
            vec![Step::Sign("sig-1=="), text("Done.")],
        )
        .needs(&[Signatures]),
        scenario(
            "thinking between calls",
            vec![
                think("One."),
                call(0, "call_a", "lookup"),
                args(0, "{\"id\":1}"),
                think("Two."),
                call(1, "call_b", "lookup"),
                args(1, "{\"id\":2}"),
            ],
        )
        .needs(&[TextBetweenCalls]),
        scenario("no usage", vec![text("Hi")]).with(|s| s.usage_style = UsageStyle::None),
        scenario("usage in a frame of its own", vec![text("Hi")])
            .needs(&[SeparateUsage])
            .with(|s| s.usage_style = UsageStyle::Separate),
        scenario("usage twice", vec![text("Hi")]).with(|s| s.usage_style = UsageStyle::Twice),
        scenario("cached usage", vec![text("Hi")])
            .needs(&[CacheReads])
            .with(|s| s.usage.cache_read = Some(900)),
        scenario("usage with cache reads and writes", vec![text("Hi")])
            .needs(&[CacheWrites])
            .with(|s| (s.usage.cache_read, s.usage.cache_write) = (Some(900), Some(50))),
        scenario("reasoning tokens are part of the output", vec![think("Hm."), text("Hi")])
            .needs(&[ReasoningTokens])
            .with(|s| s.usage.reasoning = Some(7)),
        scenario("an error frame", vec![text("Hel"), Step::Error { overloaded: false }])
            .with(|s| s.fails = Some(ModelErrorKind::RateLimited)),
        scenario(
            "an overload told inside the stream",
            vec![text("Hel"), Step::Error { overloaded: true }],
        )
        .with(|s| s.fails = Some(ModelErrorKind::Overloaded)),
        scenario("an error before anything else", vec![Step::Error { overloaded: true }])
            .with(|s| s.fails = Some(ModelErrorKind::Overloaded)),
        scenario("pings", vec![Step::Ping, text("Hel"), Step::Ping, text("lo"), Step::Ping])
            .needs(&[Pings]),
        scenario(
            "unknown events",
            vec![Step::Unknown, text("Hel"), Step::Unknown, text("lo"), Step::Unknown],
        ),
        scenario("no finish reason", vec![text("Hel")])
            .needs(&[TerminalEvent])
            .with(|s| (s.finish, s.fails) = (None, Some(ModelErrorKind::StreamCut))),
        scenario("no finish reason and no terminal event", vec![text("Hel")]).with(|s| {
            (s.finish, s.terminal, s.fails) = (None, false, Some(ModelErrorKind::StreamCut));
        }),
        scenario("160 kB of arguments", {
            let mut steps = vec![call(0, "call_a", "write")];
            steps.extend(long_pieces);
            steps
        })
        .needs(&[PiecedArguments]),
        scenario(
            "160 kB of arguments as one blob",
            vec![call(0, "call_a", "write"), args(0, &long)],
        ),
        scenario("cut by the output limit", vec![text("Hel")])
            .with(|s| s.finish = Some(FinishReason::Length)),
        scenario(
            "a call cut by the output limit",
            vec![call(0, "call_a", "lookup"), args(0, "{\"id\":")],
        )
        .needs(&[PiecedArguments])
        .with(|s| s.finish = Some(FinishReason::Length)),
        scenario("a refusal", vec![Step::Refuse("I cannot help with that.")])
            .needs(&[Refusals])
            .with(|s| s.finish = Some(FinishReason::Refusal)),
        scenario("cut by the content filter", vec![text("Hel")])
            .needs(&[Filters])
            .with(|s| s.finish = Some(FinishReason::ContentFilter)),
        scenario("an unknown finish reason", vec![text("Hel")])
            .with(|s| s.finish = Some(FinishReason::Other("phase_of_the_moon".into()))),
        scenario("a pause", vec![text("Hel")])
            .needs(&[Pauses])
            .with(|s| s.finish = Some(FinishReason::Pause)),
        scenario("citations", vec![text("As they say."), Step::Cite("https://example.com/a")])
            .needs(&[Citations]),
        scenario("server tool blocks", vec![text("Searching."), Step::ServerTool, text("Found.")])
            .needs(&[ServerTools]),
        scenario("an empty answer", vec![]),
    ]
}
