//! The fold of a chat answer.
//!
//! The terminal document says `done`. Calls come whole, each a call of its own whatever stands in its index.

use super::chunk::{Call, Chunk, Message, usage};
use crate::answer::{Answer, Origin, Sink};
use crate::errors;
use crate::fold::Fold;
use crate::lenient::{self, Count, Skip, Text};
use crate::lines::LineSplitter;
use crate::repeat::Repeat;
use crate::sse::Frame;
use serde_json::json;
use serde_json::value::RawValue;
use turnbuckle_core::error::ModelError;
use turnbuckle_core::model::Block;
use turnbuckle_core::usage::{FinishReason, Usage};

#[derive(Debug)]
pub(super) struct State {
    answer: Answer,
    prompt: Count,
    output: Count,
    spare: Vec<u8>,
    repeat: Repeat,
    /// What the text of a repeated document is.
    repeated: Said,
}

/// What a document says that says nothing else.
#[derive(Clone, Copy, Debug)]
enum Said {
    Text,
    Thinking,
}

impl State {
    pub fn new(origin: Origin) -> Self {
        Self {
            answer: Answer::new(origin),
            prompt: Count::default(),
            output: Count::default(),
            spare: Vec::new(),
            repeat: Repeat::default(),
            repeated: Said::Text,
        }
    }
}

impl Fold for State {
    type Splitter = LineSplitter;
    const NO_ANSWER: &'static str = "the answer is no message";
    const NO_END: &'static str = "the answer ended without `done`";

    fn frame(&mut self, frame: &Frame<'_>, sink: &mut Sink<'_>) -> Result<(), ModelError> {
        if self.answer.finish.is_some() {
            return Ok(());
        }
        let data = frame.data;
        if !frame.unterminated
            && let Some(text) = self.repeat.text(data)
        {
            match self.repeated {
                Said::Text => self.text(&text, sink),
                Said::Thinking => self.thinking(&text, sink),
            }
            return Ok(());
        }
        let mut spare = std::mem::take(&mut self.spare);
        spare.clear();
        let read = if self.answer.model.is_some() {
            lenient::read::<Chunk<'_, Skip>>(data, &mut spare).map(|chunk| {
                if let Some((said, text)) = said_alone(&chunk)
                    && self.repeat.keep(data, text, &[chunk.created_at])
                {
                    self.repeated = said;
                }
                self.chunk(&chunk, data, sink)
            })
        } else {
            lenient::read::<Chunk<'_, Text<'_>>>(data, &mut spare).map(|chunk| {
                self.answer.head(None, chunk.model.filled());
                self.chunk(&chunk, data, sink)
            })
        };
        self.spare = spare;
        self.answer.taken(read, data, frame.unterminated)
    }

    fn answer(&self) -> &Answer {
        &self.answer
    }

    fn answer_mut(&mut self) -> &mut Answer {
        &mut self.answer
    }

    fn usage(&self) -> Usage {
        usage(self.prompt, self.output)
    }

    fn decorate(&self, blocks: &mut [Block]) {
        for block in blocks {
            if let Block::Thinking { native, .. } = block {
                *native = Some(self.answer.origin.native(json!({})));
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.answer.finish.is_some()
    }
}

/// The text or the thinking of a document that says nothing else.
fn said_alone<'a>(chunk: &'a Chunk<'_, Skip>) -> Option<(Said, &'a str)> {
    let Chunk { model: Skip, created_at: _, message: Some(message), done: false, rare } = chunk
    else {
        return None;
    };
    // Counts and reasons count in the last document only.
    if rare.as_ref().is_some_and(|rare| rare.error.is_some()) {
        return None;
    }
    let rare = message.rare.as_deref();
    if rare.is_some_and(|rare| !rare.tool_calls.is_empty()) {
        return None;
    }
    match (message.content.filled(), rare.and_then(|rare| rare.thinking.filled())) {
        (Some(text), None) => Some((Said::Text, text)),
        (None, Some(text)) => Some((Said::Thinking, text)),
        _ => None,
    }
}

impl State {
    fn chunk<H>(
        &mut self,
        chunk: &Chunk<'_, H>,
        data: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<(), ModelError> {
        let rare = chunk.rare.as_deref();
        if rare.is_some_and(|rare| rare.error.is_some()) {
            return Err(errors::in_band(data));
        }
        match &chunk.message {
            Some(message) => {
                self.answer.begun = true;
                self.message(message, sink);
            }
            None if chunk.done => {}
            None => return errors::in_unknown_frame(data).map_or(Ok(()), Err),
        }
        if chunk.done {
            if let Some(rare) = rare {
                self.prompt = rare.prompt_eval_count;
                self.output = rare.eval_count;
            }
            self.answer.finish = Some(match rare.map_or("", |rare| rare.done_reason.or_empty()) {
                "" | "stop" => FinishReason::Stop,
                "length" => FinishReason::Length,
                other => FinishReason::Other(other.to_owned()),
            });
        }
        Ok(())
    }

    #[inline]
    fn message(&mut self, message: &Message<'_>, sink: &mut Sink<'_>) {
        let rare = message.rare.as_deref();
        if let Some(text) = rare.and_then(|rare| rare.thinking.filled()) {
            self.thinking(text, sink);
        }
        if let Some(text) = message.content.filled() {
            self.text(text, sink);
        }
        for call in rare.iter().flat_map(|rare| &rare.tool_calls) {
            self.call(call, sink);
        }
    }

    #[inline]
    fn thinking(&mut self, text: &str, sink: &mut Sink<'_>) {
        let at = match self.answer.blocks.last() {
            Some(Block::Thinking { .. }) => self.answer.blocks.len() - 1,
            _ => self.answer.open(Block::Thinking { text: String::new(), native: None }),
        };
        self.answer.append_thinking(at, text, sink);
    }

    #[inline]
    fn text(&mut self, text: &str, sink: &mut Sink<'_>) {
        let at = match self.answer.blocks.last() {
            Some(Block::Text { .. }) => self.answer.blocks.len() - 1,
            _ => self.answer.open(Block::Text { text: String::new(), native: None }),
        };
        self.answer.append_text(at, text, sink);
    }

    fn call(&mut self, call: &Call<'_>, sink: &mut Sink<'_>) {
        let Some(function) = &call.function.0 else { return };
        let at = self.answer.open(Block::ToolCall {
            wire_id: call.id.or_empty().to_owned(),
            name: function.name.or_empty().to_owned(),
            arguments: String::new(),
            native: None,
        });
        self.answer.announce(at, sink);
        let given = function.arguments.map(RawValue::get).unwrap_or_default();
        // Objects on this wire; imitations write them as text, as Chat Completions does.
        let text = serde_json::from_str::<String>(given);
        let arguments = match &text {
            Ok(text) => text.as_str(),
            Err(_) if given == "null" => "",
            Err(_) => given,
        };
        self.answer.append_arguments(at, arguments, sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Ollama, OllamaOptions};
    use proptest::prelude::*;
    use turnbuckle_core::error::ModelErrorKind;
    use turnbuckle_core::model::{ModelDelta, ModelResponse};

    fn state() -> State {
        let model = "m".to_owned();
        State::new(Origin { wire: "ollama", provider: "p".to_owned(), model })
    }

    fn document(time: &str, message: &str) -> String {
        format!(
            r#"{{"model":"m","created_at":{time},"message":{{"role":"assistant",{message}}},"done":false}}"#
        )
    }

    fn take(state: &mut State, document: &str) {
        let frame = Frame { event: b"", data: document.as_bytes(), unterminated: false };
        state.frame(&frame, &mut |_| {}).unwrap();
    }

    #[test]
    fn documents_that_differ_in_time_and_text_are_read_once() {
        for (at, message) in
            [r#""content":"TEXT""#, r#""content":"","thinking":"TEXT""#].iter().enumerate()
        {
            let mut state = state();
            let said = |time: &str, text: &str| document(time, &message.replace("TEXT", text));
            take(&mut state, &said(r#""2026-11-27T10:00:00.1Z""#, "a"));
            take(&mut state, &said(r#""2026-11-27T10:00:00.25Z""#, "b"));
            let next = said(r#""2026-11-27T10:00:00.375123Z""#, "c");
            assert_eq!(state.repeat.text(next.as_bytes()).as_deref(), Some("c"), "{at}");
            take(&mut state, &next);
            let all = match state.answer.blocks.as_slice() {
                [Block::Text { text, .. } | Block::Thinking { text, .. }] => text.as_str(),
                other => panic!("{other:?}"),
            };
            assert_eq!(all, "abc");
        }
    }

    #[derive(Debug, PartialEq)]
    enum Told {
        Text(usize, String),
        Thinking(usize, String),
        Call(usize, String),
    }

    /// What a stream told and came to.
    fn decode(documents: &[String]) -> (Vec<Told>, Result<ModelResponse, ModelErrorKind>) {
        let mut told = Vec::new();
        let mut sink = |delta: ModelDelta<'_>| match delta {
            ModelDelta::Text { block, text } => told.push(Told::Text(block, text.to_owned())),
            ModelDelta::Thinking { block, text } => {
                told.push(Told::Thinking(block, text.to_owned()));
            }
            ModelDelta::CallStart { block, name, .. } => {
                told.push(Told::Call(block, name.to_owned()));
            }
            ModelDelta::CallArguments { .. } => {}
        };
        let mut decoder = Ollama::new("p", OllamaOptions::default()).decoder("m");
        let fed =
            documents.iter().try_for_each(|d| decoder.feed(format!("{d}\n").as_bytes(), &mut sink));
        let end = fed.and_then(|()| decoder.finish(&mut sink)).map_err(|error| error.kind);
        (told, end)
    }

    /// The content of a string as it stands in the stream, seldom a sound one.
    fn content() -> impl Strategy<Value = String> {
        prop_oneof![
            6 => "[ a-z0-9é🎉]{0,6}",
            2 => Just(r#"a\n\"b\\"#.to_owned()),
            1 => Just(r#"","thinking":"x"#.to_owned()),
            1 => Just(r#"\ud83c\udf89"#.to_owned()),
        ]
    }

    fn time() -> impl Strategy<Value = String> {
        prop_oneof![
            8 => "\"2026-11-27T10:00:00[.][0-9]{1,9}Z\"",
            1 => Just(r#""\u0041""#.to_owned()),
            1 => Just(r#""","error":null,"at":"x""#.to_owned()),
            1 => Just("null".to_owned()),
            1 => Just("1750000000".to_owned()),
        ]
    }

    fn message() -> impl Strategy<Value = String> {
        prop_oneof![
            8 => content().prop_map(|text| format!(r#""content":"{text}""#)),
            4 => content().prop_map(|text| format!(r#""content":"","thinking":"{text}""#)),
            1 => content().prop_map(|text| format!(r#""content":"{text}","thinking":"t""#)),
            1 => content().prop_map(|text| format!(r#""content":"x","content":"{text}""#)),
            1 => content().prop_map(|text| format!(
                r#""content":"{text}","tool_calls":[{{"function":{{"name":"f","arguments":{{}}}}}}]"#
            )),
            1 => Just(r#""content":7"#.to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn what_is_taken_out_of_repeated_documents_is_what_reading_each_gives(
            said in proptest::collection::vec((time(), message()), 0..24),
            broken in proptest::option::weighted(0.1, 0usize..24),
        ) {
            let mut documents: Vec<String> =
                said.iter().map(|(time, message)| document(time, message)).collect();
            if let Some(document) = broken.and_then(|at| documents.get_mut(at)) {
                *document = document.replace("assistant", "\u{1}");
            }
            documents.push(r#"{"message":{"content":""},"done":true,"eval_count":9}"#.to_owned());
            // White space of another width in each, so that none repeats another.
            let each: Vec<String> = documents
                .iter()
                .enumerate()
                .map(|(at, d)| d.replacen('{', &format!("{{{}", " ".repeat(at)), 1))
                .collect();
            prop_assert_eq!(decode(&documents), decode(&each));
        }
    }
}
