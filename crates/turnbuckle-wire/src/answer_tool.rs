//! Structured answers where the wire has no form of its own for them, but tools can be forced: the answer's schema is
//! offered as one more tool, and its arguments come back as the text of the answer.
//!
//! Nobody behind the codec sees the tool. A model that has other tools, too, must call one of all, so that it works with
//! them first and answers by this one at last.

use crate::Decoder;
use crate::answer::Sink;
use bytes::Bytes;
use std::borrow::Cow;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::ids::ToolName;
use turnbuckle_core::model::{
    Block, ModelDelta, ModelRequest, ModelResponse, OutputSchema, RenderCache, ToolChoice,
};
use turnbuckle_core::tool::ToolSpec;
use turnbuckle_core::usage::FinishReason;

/// The tool's name.
pub(crate) const NAME: &str = "give_answer";

/// How a structured answer is asked for in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// By the wire's own means.
    Native,
    /// As a call of one more tool.
    Tool,
    /// In words; what comes is checked by whoever asked.
    Words,
}

impl Form {
    /// As a call, unless arguments cannot be such a value or a tool of that name is on offer already; then in words.
    pub fn tool(request: &ModelRequest) -> Self {
        let object = request
            .output
            .as_ref()
            .is_some_and(|output| output.schema.get("type") == Some(&"object".into()));
        let taken = request.tools.specs.iter().any(|spec| spec.name.as_str() == NAME);
        if object && !taken { Form::Tool } else { Form::Words }
    }
}

/// The tools of a request and which of them must be called; with the form [`Form::Tool`] the answer is one of them.
pub(crate) struct Offer<'r> {
    pub specs: Cow<'r, [ToolSpec]>,
    pub choice: ToolChoice,
    kept: Option<&'r RenderCache>,
}

impl<'r> Offer<'r> {
    pub fn of(request: &'r ModelRequest, form: Form) -> Self {
        match (&request.output, form) {
            (Some(output), Form::Tool) => {
                let mut specs = request.tools.specs.clone();
                specs.push(spec(output));
                Self { specs: specs.into(), choice: choice(request), kept: None }
            }
            _ => Self {
                specs: Cow::Borrowed(&request.tools.specs),
                choice: request.tool_choice.clone(),
                kept: Some(&request.tools.rendered),
            },
        }
    }

    /// The tools' bytes, kept where they are the request's own.
    ///
    /// # Errors
    /// Those of `render`.
    pub fn rendered(
        &self,
        key: u64,
        render: impl FnOnce(&[ToolSpec]) -> Result<Bytes, ModelError>,
    ) -> Result<Bytes, ModelError> {
        match self.kept {
            Some(kept) => kept.get_or_render(key, || render(&self.specs)),
            None => render(&self.specs),
        }
    }
}

fn spec(output: &OutputSchema) -> ToolSpec {
    ToolSpec {
        name: ToolName::from(NAME),
        description: "Gives the final answer. Call it once, when you know all that it needs."
            .to_owned(),
        input_schema: output.schema.clone(),
    }
}

/// A model with other tools calls one of all; a tool that is forced by name comes before the answer.
fn choice(request: &ModelRequest) -> ToolChoice {
    match &request.tool_choice {
        ToolChoice::Tool(name) => ToolChoice::Tool(name.clone()),
        ToolChoice::Auto | ToolChoice::Required if !request.tools.specs.is_empty() => {
            ToolChoice::Required
        }
        ToolChoice::Auto | ToolChoice::Required | ToolChoice::None => {
            ToolChoice::Tool(ToolName::from(NAME))
        }
    }
}

/// Turns calls of the tool back into text.
pub(crate) struct AnswerByTool {
    inner: Box<dyn Decoder>,
    /// The blocks that are the answer.
    answers: Vec<usize>,
}

impl AnswerByTool {
    pub fn new(inner: Box<dyn Decoder>) -> Self {
        Self { inner, answers: Vec::new() }
    }
}

impl Decoder for AnswerByTool {
    fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), ModelError> {
        let answers = &mut self.answers;
        self.inner.feed(bytes, &mut |delta| tell(answers, delta, sink))
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<ModelResponse, ModelError> {
        let answers = &mut self.answers;
        let response = self.inner.finish(&mut |delta| tell(answers, delta, sink))?;
        for (block, content) in response.blocks.iter().enumerate() {
            if is_empty_answer(content) {
                sink(ModelDelta::Text { block, text: NOTHING });
            }
        }
        Ok(as_text(response))
    }

    fn partial(&self) -> ModelResponse {
        as_text(self.inner.partial())
    }

    fn is_complete(&self) -> bool {
        self.inner.is_complete()
    }
}

/// What a call without arguments says. No text is empty.
const NOTHING: &str = "{}";

fn tell(answers: &mut Vec<usize>, delta: ModelDelta<'_>, sink: &mut Sink<'_>) {
    match delta {
        ModelDelta::CallStart { block, name, .. } if name == NAME => answers.push(block),
        ModelDelta::CallArguments { block, text } if answers.contains(&block) => {
            sink(ModelDelta::Text { block, text });
        }
        other => sink(other),
    }
}

fn is_empty_answer(block: &Block) -> bool {
    matches!(block, Block::ToolCall { name, arguments, .. } if name == NAME && arguments.is_empty())
}

fn as_text(mut response: ModelResponse) -> ModelResponse {
    let mut other_calls = false;
    for block in &mut response.blocks {
        let Block::ToolCall { name, arguments, .. } = block else { continue };
        if name != NAME {
            other_calls = true;
            continue;
        }
        let text = std::mem::take(arguments);
        let text = if text.is_empty() { NOTHING.to_owned() } else { text };
        *block = Block::Text { text, native: None };
    }
    if !other_calls && response.finish == FinishReason::ToolCalls {
        response.finish = FinishReason::Stop;
    }
    response
}
