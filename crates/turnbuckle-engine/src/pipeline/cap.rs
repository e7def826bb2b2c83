//! Outputs that are too large for a message: the beginning stays in place, the whole is kept aside.

use serde_json::{Value, json};
use std::io::{self, Write};
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

/// The name under which the full output of a call can be asked for.
pub fn kept_reference(call: &CallId) -> String {
    format!("output:{call}")
}

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

/// The output as it is stored, and what must be kept aside if it was too large.
pub(super) fn cap_output(call: &CallId, output: Value, cap: usize) -> (Json, Option<Blob>) {
    if fits(&output, cap) {
        return (output.into(), None);
    }
    let reference = kept_reference(call);
    let (text, media_type) = text_of(output);
    let marker = marker(&text, cap, &reference);
    (marker, Some(Blob { call: call.clone(), reference, media_type, text }))
}

/// A view for the model, cut when it is too large. The stored output holds the whole.
pub(super) fn cap_view(call: &CallId, view: Value, cap: usize) -> Json {
    if fits(&view, cap) {
        return view.into();
    }
    marker(&text_of(view).0, cap, &kept_reference(call))
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
        "full_output": reference,
        "beginning": clip(text, cap / 2),
    })
    .into()
}
