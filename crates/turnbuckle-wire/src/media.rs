//! Images and files as wires take them, and the text that stands for what a wire does not take.

use crate::render::Json;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use turnbuckle_core::content::{Base64, ContentPart, File, LeftOut, Source};

/// In which form a server takes images or files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaForm {
    /// By their bytes and by their address.
    #[default]
    Any,
    /// By their bytes alone.
    Data,
    /// Not at all.
    None,
}

/// Where the server finds the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Data(&'a Base64),
    Url(&'a str),
}

impl MediaForm {
    /// Where the server finds the bytes, when it takes them from there.
    pub(crate) fn place(self, source: &Source) -> Option<Place<'_>> {
        match (self, source) {
            (MediaForm::Any | MediaForm::Data, Source::Data(data)) => Some(Place::Data(data)),
            (MediaForm::Any, Source::Url(url)) => Some(Place::Url(url.as_str())),
            (MediaForm::None | MediaForm::Data, _) | (MediaForm::Any, Source::Blob(_)) => None,
        }
    }
}

/// The text for what a wire does not take: a text document as itself between tags, anything else as one line that says what it
/// was. Text goes as it is.
pub(crate) fn as_text(part: &ContentPart) -> Cow<'_, str> {
    match part {
        ContentPart::Text { text } => Cow::Borrowed(text),
        ContentPart::File(file) => match document_text(file) {
            Some(text) => Cow::Owned(tagged(file, &text)),
            None => Cow::Owned(marker(part, &file.source)),
        },
        ContentPart::Image(image) => Cow::Owned(marker(part, &image.source)),
    }
}

/// A text document's text, when its bytes are here.
pub(crate) fn document_text(file: &File) -> Option<String> {
    match &file.source {
        Source::Data(data) if file.mime.is_text() => {
            Some(String::from_utf8_lossy(&data.decode()).into_owned())
        }
        Source::Data(_) | Source::Url(_) | Source::Blob(_) => None,
    }
}

fn tagged(file: &File, text: &str) -> String {
    let name: String =
        file.name.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '<' | '>')).collect();
    format!("<file name=\"{name}\" type=\"{}\">\n{text}\n</file>", file.mime)
}

fn marker(part: &ContentPart, source: &Source) -> String {
    let why = match source {
        Source::Data(_) | Source::Url(_) => LeftOut::NotTaken,
        Source::Blob(_) => LeftOut::Lost,
    };
    part.marker(why).as_text().unwrap_or_default().to_owned()
}

/// `"data:MIME;base64,DATA"`, quotes included.
pub(crate) fn data_url(mime: &str, data: &Base64, out: &mut Json) {
    out.0.reserve(data.as_str().len() + 64);
    out.raw("\"data:").raw(mime).raw(";base64,").raw(data.as_str()).raw("\"");
}

/// Base64 as a JSON string; it holds nothing that would have to be escaped.
pub(crate) fn base64(data: &Base64, out: &mut Json) {
    out.0.reserve(data.as_str().len() + 8);
    out.raw("\"").raw(data.as_str()).raw("\"");
}
