//! Outputs that are too large for a message: the beginning stays in place, the whole is kept aside.

use serde_json::{Value, json};
use std::io::{self, Write};
use turnbuckle_core::event::CallResult;
use turnbuckle_core::ids::CallId;
use turnbuckle_core::json::{Json, clip};

/// A full output to keep aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The call it came from.
    pub call: CallId,
    /// What the marker in the message calls it; see [`kept_reference`].
    pub reference: String,
    /// `text/plain` for an output that is one text, else `application/json`.
    pub media_type: &'static str,
    /// The output.
    pub text: String,
}

/// The name under which the model can ask for the whole of what it was shown of a call.
pub fn kept_reference(call: &CallId) -> String {
    format!("output:{call}")
}

/// The name of a full output that the model may not read, since it was shown something else.
fn hidden_reference(call: &CallId) -> String {
    format!("whole:{call}")
}

/// Where a marker names what is kept.
const FULL_OUTPUT: &str = "full_output";

/// Whether a value takes at most `cap` bytes as JSON. Stops counting once it does not.
pub(super) fn fits(value: &Value, cap: usize) -> bool {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    // Quoting only makes text longer, so long texts need not be looked at.
    let obvious = value.as_str().is_some_and(|text| text.len() > cap);
    !obvious && serde_json::to_writer(Count(cap), value).is_ok()
}

/// The output as it is stored and the view that the model has instead of it, if any; what is too large of them goes aside.
pub(super) fn cap_outputs(
    call: &CallId,
    output: Value,
    view: Option<Value>,
    of: KeptOf,
    cap: usize,
) -> (Json, Option<Json>, Vec<Blob>) {
    let mut aside = Vec::new();
    let reference = match of {
        KeptOf::Output => kept_reference(call),
        KeptOf::View => hidden_reference(call),
    };
    let output = cap_output(call, output, cap, reference, &mut aside);
    let view = view.map(|view| cap_output(call, view, cap, kept_reference(call), &mut aside));
    (output, view, aside)
}

fn cap_output(
    call: &CallId,
    output: Value,
    cap: usize,
    reference: String,
    aside: &mut Vec<Blob>,
) -> Json {
    if fits(&output, cap) {
        return output.into();
    }
    let (text, media_type) = text_of(output);
    let marker = marker(&text, cap, &reference);
    aside.push(Blob { call: call.clone(), reference, media_type, text });
    marker
}

/// Takes from the model what is kept aside for it: hooks made something else of what it was to see. A view of the tool's own was
/// for the model alone and goes; an output stays, for people.
pub(super) fn hide(result: &mut CallResult, call: &CallId, of: KeptOf, aside: &mut Vec<Blob>) {
    let kept = kept_reference(call);
    let Some(at) = aside.iter().position(|blob| blob.reference == kept) else { return };
    let names_it = |value: &Json| value.get(FULL_OUTPUT).is_some_and(|named| *named == *kept);
    let shown = result.model_view.as_ref().unwrap_or(&result.output);
    if names_it(shown) {
        let mut without = Value::clone(shown);
        if let Some(map) = without.as_object_mut() {
            map.remove(FULL_OUTPUT);
        }
        result.model_view = Some(without.into());
    }
    let mut blob = aside.swap_remove(at);
    if of == KeptOf::View {
        return;
    }
    blob.reference = hidden_reference(call);
    if names_it(&result.output) {
        let mut renamed = Value::clone(&result.output);
        if let Some(name) = renamed.get_mut(FULL_OUTPUT) {
            *name = blob.reference.clone().into();
        }
        result.output = renamed.into();
    }
    aside.push(blob);
}

/// What the model may read again: what it was shown the beginning of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptOf {
    /// The output itself.
    Output,
    /// The view that the tool gave for it.
    View,
}

fn text_of(value: Value) -> (String, &'static str) {
    match value {
        Value::String(text) => (text, "text/plain"),
        other => (other.to_string(), "application/json"),
    }
}

/// Quoting makes text longer, so half the cap is shown.
fn marker(text: &str, cap: usize, reference: &str) -> Json {
    json!({
        "truncated": true,
        "bytes": text.len(),
        FULL_OUTPUT: reference,
        "beginning": clip(text, cap / 2),
    })
    .into()
}
