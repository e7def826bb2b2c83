//! What all encoders share: writing JSON, tool call ids that a wire accepts, and keeping rendered bytes.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::{Block, Delivery, ModelRequest};
use turnbuckle_core::part::Native;
use turnbuckle_core::transcript::{Entry, Item};

/// JSON text in the making. Commas and braces are the caller's.
#[derive(Default)]
pub(crate) struct Json(pub Vec<u8>);

impl Json {
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Text that is JSON already.
    pub fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// A value. Strings, numbers and trees always serialize.
    pub fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> &mut Self {
        // Writing to memory cannot fail and the types written here have string keys.
        let _ = serde_json::to_writer(&mut self.0, value);
        self
    }

    /// `,"name":value` (without the comma after an opening brace).
    pub fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> &mut Self {
        self.name(name).value(value)
    }

    /// `,"name":`.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.comma();
        self.value(name).raw(":")
    }

    /// A comma, unless nothing of this object or list has been written.
    pub fn comma(&mut self) -> &mut Self {
        if !matches!(self.0.last(), None | Some(b'{' | b'[' | b':' | b',')) {
            self.0.push(b',');
        }
        self
    }

    /// A large piece that is JSON already.
    pub fn piece(&mut self, piece: &[u8]) -> &mut Self {
        // Room for it and for what is small behind it; doubling would take as much again, for each request under way.
        self.0.reserve_exact(piece.len() + 512);
        self.0.extend_from_slice(piece);
        self
    }

    /// Pieces that are JSON already, as elements of the list that is open.
    pub fn elements(&mut self, pieces: &[Bytes]) -> &mut Self {
        // They are most of a request and its end, so nothing is gained by room for as much again.
        self.0.reserve_exact(pieces.iter().map(|p| p.len() + 1).sum::<usize>() + 64);
        for piece in pieces {
            self.comma();
            self.0.extend_from_slice(piece);
        }
        self
    }

    pub fn finish(self) -> Bytes {
        Bytes::from(self.0)
    }

    /// For what is kept as long as its conversation: without room to grow.
    pub fn kept(self) -> Bytes {
        Bytes::from(self.0.into_boxed_slice())
    }
}

/// A setting as it was written: `0.9` and not the nearest number of twice the width.
pub(crate) fn float(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// A configuration error.
pub(crate) fn config(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Config, message)
}

/// A stable key over everything that decides how entries render. Only compared within a process.
pub(crate) fn key(parts: &[&str]) -> u64 {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// The headers of every request. `streamed` is what a streamed answer comes as.
pub(crate) fn headers(delivery: Delivery, streamed: &str) -> Vec<(&'static str, String)> {
    let accept = match delivery {
        Delivery::Stream => streamed,
        Delivery::Whole => "application/json",
    };
    vec![("content-type", "application/json".to_owned()), ("accept", accept.to_owned())]
}

/// What streams of events are called.
pub(crate) const EVENTS: &str = "text/event-stream";

/// The messages of a request, each rendered once by `item` and kept. Entries that render to nothing are left out. Where the
/// wire wants a user to begin, `opening` stands before an answer that comes first.
pub(crate) fn render_entries(
    request: &ModelRequest,
    form: IdForm,
    key: u64,
    opening: Option<&'static str>,
    item: impl Fn(&Item, EntryIds<'_>, &mut Json),
) -> Vec<Bytes> {
    let entries = request.transcript.entries();
    let plan = IdPlan::of(entries, form);
    let mut messages = Vec::with_capacity(entries.len() + 1);
    for (at, entry) in entries.iter().enumerate() {
        let render = |ids: Option<&[String]>| -> Bytes {
            let mut out = Json::default();
            item(&entry.item, EntryIds::new(form, ids), &mut out);
            out.kept()
        };
        let bytes = match plan.of_entry(at) {
            Some(ids) => render(Some(ids)),
            None => entry
                .rendered
                .get_or_render(key, || Ok::<_, Infallible>(render(None)))
                .unwrap_or_else(|never| match never {}),
        };
        if bytes.is_empty() {
            continue;
        }
        if let (true, Item::Assistant { .. }, Some(opening)) =
            (messages.is_empty(), &entry.item, opening)
        {
            messages.push(Bytes::from_static(opening.as_bytes()));
        }
        messages.push(bytes);
    }
    messages
}

/// A system message in the midst of a conversation, for wires that know none there: the user says it.
pub(crate) fn system_note(text: &str) -> String {
    format!("<system_note>\n{text}\n</system_note>")
}

/// What a payload may be replayed to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub wire: &'a str,
    pub provider: &'a str,
    pub model: &'a str,
}

impl Target<'_> {
    /// Whether the payload came from this wire and provider.
    pub fn made(&self, native: &Native) -> bool {
        native.wire == self.wire && native.provider == self.provider
    }

    /// The payload, when it came from this wire, provider and model.
    pub fn own_model<'n>(&self, native: Option<&'n Native>) -> Option<&'n Value> {
        native.filter(|n| self.made(n) && n.model == self.model).map(|n| &*n.data)
    }

    /// The payload, when it came from this wire and provider.
    pub fn own<'n>(&self, native: Option<&'n Native>) -> Option<&'n Value> {
        native.filter(|n| self.made(n)).map(|n| &*n.data)
    }
}

/// The ids a wire accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdForm {
    /// Any text of at most so many bytes.
    AtMost(usize),
    /// Letters, digits, `_` and `-`, at most so many.
    Word(usize),
    /// Exactly nine letters and digits.
    Nine,
}

impl IdForm {
    /// `id` as the wire takes it: itself where it can be, else one derived from it alone.
    pub fn of<'i>(self, id: &'i str) -> Cow<'i, str> {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let (fits, limit) = match self {
            IdForm::AtMost(limit) => (true, limit),
            IdForm::Word(limit) => (id.chars().all(word), limit),
            IdForm::Nine => {
                if id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()) {
                    return Cow::Borrowed(id);
                }
                return Cow::Owned(digest(id));
            }
        };
        if fits && id.len() <= limit {
            return Cow::Borrowed(id);
        }
        let kept: String = id.chars().filter(|c| word(*c)).take(limit.saturating_sub(10)).collect();
        Cow::Owned(format!("{kept}-{}", digest(id)))
    }
}

/// Nine letters and digits derived from `text` (FNV-1a, base 62).
fn digest(text: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut out = String::with_capacity(9);
    for _ in 0..9 {
        let digit = DIGITS.get((hash % 62) as usize).copied().unwrap_or(b'0');
        out.push(char::from(digit));
        hash /= 62;
    }
    out
}

/// The ids of the entries that cannot simply use the form of their own: repeated ones and empty ones.
///
/// The choice depends on what precedes an entry only, so that prefixes stay stable.
#[derive(Debug, Default)]
pub(crate) struct IdPlan(HashMap<usize, Vec<String>>);

impl IdPlan {
    pub fn of(entries: &[Arc<Entry>], form: IdForm) -> Self {
        let mut plan = HashMap::new();
        let mut used: HashSet<Cow<'_, str>> = HashSet::new();
        let mut ordinal = 0usize;
        // The calls of the latest answer with the ids chosen for them, when any is not its own form.
        let mut renamed: Vec<(&str, String)> = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            match &entry.item {
                Item::Assistant { blocks } => {
                    renamed.clear();
                    let mut differs = false;
                    for block in blocks {
                        let Block::ToolCall { wire_id, .. } = block else { continue };
                        ordinal += 1;
                        let own = form.of(wire_id);
                        if !wire_id.is_empty() && used.insert(own.clone()) {
                            renamed.push((wire_id, own.into_owned()));
                            continue;
                        }
                        differs = true;
                        let stem = if wire_id.is_empty() {
                            format!("call_{ordinal}")
                        } else {
                            format!("{wire_id}_{ordinal}")
                        };
                        let mut chosen = form.of(&stem).into_owned();
                        let mut again = 1;
                        while !used.insert(Cow::Owned(chosen.clone())) {
                            again += 1;
                            chosen = form.of(&format!("{stem}_{again}")).into_owned();
                        }
                        renamed.push((wire_id, chosen));
                    }
                    if differs {
                        plan.insert(at, renamed.iter().map(|(_, id)| id.clone()).collect());
                    } else {
                        renamed.clear();
                    }
                }
                Item::ToolResults { results } if !renamed.is_empty() => {
                    let mut open = std::mem::take(&mut renamed);
                    let ids = results
                        .iter()
                        .map(|r| match open.iter().position(|(id, _)| *id == &*r.wire_id) {
                            Some(i) => open.remove(i).1,
                            None => form.of(&r.wire_id).into_owned(),
                        })
                        .collect();
                    plan.insert(at, ids);
                }
                _ => {}
            }
        }
        Self(plan)
    }

    /// The ids of the entry's calls or results, when they are not their own form.
    pub fn of_entry(&self, at: usize) -> Option<&[String]> {
        self.0.get(&at).map(Vec::as_slice)
    }
}

/// The ids of one entry while it is rendered.
pub(crate) struct EntryIds<'a> {
    form: IdForm,
    planned: Option<&'a [String]>,
    next: usize,
}

impl<'a> EntryIds<'a> {
    pub fn new(form: IdForm, planned: Option<&'a [String]>) -> Self {
        Self { form, planned, next: 0 }
    }

    /// The id for the next call or result, whose own id is `id`.
    pub fn next<'i>(&mut self, id: &'i str) -> Cow<'i, str>
    where
        'a: 'i,
    {
        let at = self.next;
        self.next += 1;
        match self.planned.and_then(|p| p.get(at)) {
            Some(chosen) => Cow::Borrowed(chosen),
            None => self.form.of(id),
        }
    }
}

/// Arguments as an object: themselves, `{}` for none, and anything else wrapped so that the server takes it and the model
/// sees what it wrote.
pub(crate) fn arguments_object(arguments: &str) -> Cow<'_, str> {
    let trimmed = arguments.trim();
    if trimmed.is_empty() {
        return Cow::Borrowed("{}");
    }
    if trimmed.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(trimmed).is_ok() {
        return Cow::Borrowed(trimmed);
    }
    Cow::Owned(serde_json::json!({ "malformed_arguments": arguments }).to_string())
}

/// A tool name as wires take it: letters, digits, `_` and `-`, at most 64. History may hold other names, since models
/// make some up and sessions change provider.
pub(crate) fn tool_name(name: &str) -> Cow<'_, str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(word) {
        return Cow::Borrowed(name);
    }
    let mapped: String = name.chars().map(|c| if word(c) { c } else { '_' }).take(64).collect();
    Cow::Owned(if mapped.is_empty() { "unnamed".to_owned() } else { mapped })
}

/// Refuses to offer a tool under a name that would come back changed.
pub(crate) fn offered_name(name: &str) -> Result<&str, ModelError> {
    match tool_name(name) {
        Cow::Borrowed(_) => Ok(name),
        Cow::Owned(_) => Err(config(format!(
            "the tool name `{name}` is not accepted by model providers: use 1 to 64 letters, digits, `_` or `-`"
        ))),
    }
}

/// The instruction that stands in for native structured output.
pub(crate) fn schema_instruction(schema: &Value) -> String {
    format!(
        "Answer with one JSON object and nothing else. It must satisfy this JSON Schema:\n{schema}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use turnbuckle_core::transcript::ToolResult;

    fn calls(ids: &[&str]) -> Arc<Entry> {
        let blocks = ids
            .iter()
            .map(|id| Block::ToolCall {
                wire_id: id.to_string(),
                name: "t".into(),
                arguments: String::new(),
                native: None,
            })
            .collect();
        Entry::new(Item::Assistant { blocks }, None)
    }

    fn results(ids: &[&str]) -> Arc<Entry> {
        let results = ids
            .iter()
            .map(|id| ToolResult {
                wire_id: (*id).into(),
                name: "t".into(),
                content: String::new(),
                is_error: false,
            })
            .collect();
        Entry::new(Item::ToolResults { results }, None)
    }

    #[test]
    fn repeated_and_empty_ids_become_unique_and_stay_paired() {
        let entries = [
            calls(&["a", "b"]),
            results(&["a", "b"]),
            calls(&["a", "", "a"]),
            results(&["a", "", "a"]),
        ];
        let plan = IdPlan::of(&entries, IdForm::AtMost(40));
        assert_eq!((plan.of_entry(0), plan.of_entry(1)), (None, None));
        let expected = ["a_3".to_owned(), "call_4".to_owned(), "a_5".to_owned()];
        assert_eq!(plan.of_entry(2), Some(&expected[..]));
        assert_eq!(plan.of_entry(3), Some(&expected[..]));
    }

    #[test]
    fn ids_take_the_form_of_the_wire() {
        assert_eq!(IdForm::Nine.of("abcDEF123"), "abcDEF123");
        assert_eq!(IdForm::Nine.of("call_1").len(), 9);
        assert_ne!(IdForm::Nine.of("call_1"), IdForm::Nine.of("call_2"));
        assert_eq!(IdForm::Word(64).of("toolu_01-x"), "toolu_01-x");
        let odd = IdForm::Word(64).of("functions.get:0");
        assert!(odd.starts_with("functionsget0-"), "{odd}");
        assert_eq!(IdForm::AtMost(40).of(&"x".repeat(90)).len(), 40);
    }

    #[test]
    fn arguments_that_are_no_object_are_wrapped() {
        assert_eq!(arguments_object(""), "{}");
        assert_eq!(arguments_object(" {\"a\": 1} "), "{\"a\": 1}");
        assert_eq!(arguments_object("{\"a\":"), r#"{"malformed_arguments":"{\"a\":"}"#);
        assert_eq!(arguments_object("[1]"), r#"{"malformed_arguments":"[1]"}"#);
    }

    proptest! {
        #[test]
        fn every_form_holds_and_depends_on_the_id_alone(id in "\\PC{0,100}") {
            for form in [IdForm::AtMost(40), IdForm::Word(64), IdForm::Nine] {
                let shaped = form.of(&id).into_owned();
                prop_assert_eq!(&form.of(&shaped), &shaped);
                let limit = match form { IdForm::AtMost(n) | IdForm::Word(n) => n, IdForm::Nine => 9 };
                prop_assert!(shaped.len() <= limit);
            }
        }
    }
}
