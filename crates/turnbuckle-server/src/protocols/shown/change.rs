//! What is told to a protocol of a turn, and what it may answer.

use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::ids::{CallId, MessageId};
use turnbuckle_core::json::Json;
use turnbuckle_core::message::{ApprovalCard, AssistantMessage};
use turnbuckle_core::part::{InputPart, ToolCallPart};

/// A message with its place among the agents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// The message.
    pub(crate) message: &'a AssistantMessage,
    /// The call that runs the agent, and the message that holds the call; absent for the outermost.
    pub(crate) inside: Option<(&'a ToolCallPart, &'a Scope<'a>)>,
}

/// Text for the reader, or the model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prose {
    /// Text.
    Text,
    /// Reasoning.
    Thinking,
}

/// Which text or reasoning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProseId {
    /// The model call that made it.
    pub(crate) iteration: u32,
    /// How many of its kind that call made before.
    pub(crate) nth: usize,
    /// Which kind.
    pub(crate) kind: Prose,
}

/// What is new.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// A model call begins to show.
    StepBegan,
    /// All of it has been shown.
    StepEnded,
    /// A text begins, or goes on after it was closed.
    Began(ProseId),
    /// More of it.
    More(ProseId, &'a str),
    /// It ends.
    Ended(ProseId),
    /// A call begins.
    CallBegan(&'a ToolCallPart),
    /// More of its arguments as the model writes them.
    ArgsMore(&'a ToolCallPart, &'a str),
    /// The model has written them all, or they are taken back.
    ArgsEnded(&'a CallId),
    /// The arguments that run, known now or changed since.
    Input(&'a ToolCallPart, &'a Json),
    /// A running call reports.
    Progress(&'a ToolCallPart, &'a Json),
    /// A card asks about a call.
    Asked(&'a ToolCallPart, &'a MessageId, &'a ApprovalCard),
    /// A card has its answer.
    Decided(&'a ToolCallPart, &'a MessageId, &'a ApprovalCard),
    /// A call has its result.
    Settled(&'a ToolCallPart),
    /// A person wrote in the middle.
    Steered(&'a InputPart),
}

/// How what was shown is brought in line with what is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mend {
    /// The client has been told otherwise, or cannot be told: all that there is counts as shown.
    Adopt,
    /// Nothing of the step that is open counts as shown any more.
    RedoStep,
}

/// A protocol's side.
pub(crate) trait Sink {
    /// Something is new in a message.
    fn change(&mut self, scope: &Scope<'_>, change: Change<'_>);

    /// What was shown is not what is. Nothing is open any more when this is called.
    fn broken(&mut self, turn: &TurnFold, step: BrokenAt) -> Mend;
}

/// Where what was shown differs from what is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokenAt {
    /// In the outermost message's open step, and not before.
    OpenStep,
    /// Before, or in a nested message.
    Earlier,
}

/// Whether a text may be open while another part grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// It is closed when the next part begins, and opened again when it goes on.
    Never,
    /// It is closed when its model call is done.
    Free,
}

/// A sink that hears nothing.
pub(crate) struct Unheard;

impl Sink for Unheard {
    fn change(&mut self, _: &Scope<'_>, _: Change<'_>) {}

    fn broken(&mut self, _: &TurnFold, _: BrokenAt) -> Mend {
        Mend::Adopt
    }
}
