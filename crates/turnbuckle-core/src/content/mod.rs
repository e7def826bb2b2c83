//! What a message says: text, or text, images and files in the order in which they were put.
//!
//! | module | holds |
//! |---|---|
//! | `media` | the kinds of images and files that models take |
//! | `source` | where the bytes are: in the message, at a URL, or in the session's store |
//! | `check` | the limits, held before anything is stored |

mod base64;
mod check;
mod media;
mod source;

pub use base64::Base64;
pub use check::{ContentError, ContentLimits};
pub use media::{FileType, ImageType, MediaType};
pub use source::{BlobRef, Media, Source, WebUrl};

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// What a message says. Written as a string when it is text alone, else as a list of parts.
///
/// ```
/// use turnbuckle_core::content::{Content, ContentPart};
/// let text: Content = serde_json::from_str(r#""Hello""#).unwrap();
/// assert_eq!(text, "Hello");
/// let parts: Content = serde_json::from_str(
///     r#"[{"type": "text", "text": "What is this?"},
///         {"type": "image", "mime": "image/png", "source": {"url": "https://example.com/a.png"}}]"#,
/// ).unwrap();
/// assert!(matches!(&parts, Content::Parts(parts) if matches!(&parts[..], [ContentPart::Text { .. }, ContentPart::Image(_)])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text alone.
    Text(String),
    /// Parts in their order.
    Parts(Vec<ContentPart>),
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(Image),
    /// A document.
    File(File),
}

/// A picture for the model to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Image {
    /// Its kind.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub mime: ImageType,
    /// Where its bytes are.
    pub source: Source,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How closely the model should look, where a provider lets one choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// Its size, once somebody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<PixelSize>,
}

/// A document for the model to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct File {
    /// Its kind.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub mime: FileType,
    /// Where its bytes are.
    pub source: Source,
    /// Its file name.
    pub name: String,
}

/// How closely a model should look at a picture: it costs tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// At a small version.
    Low,
    /// At the whole.
    High,
    /// As the provider likes.
    Auto,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PixelSize {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
}

/// Why a model reads a line of text in the place of a picture or document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The model or its API takes nothing of the kind.
    NotTaken,
    /// The conversation did not fit the model's window.
    ToFit,
    /// Its bytes are gone.
    Lost,
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Content {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{Array, Object, OneOf, SchemaType, Type};
        OneOf::builder()
            .description(Some(
                "What a message says: a text, or texts, pictures and documents in their order.",
            ))
            .item(Object::with_type(SchemaType::Type(Type::String)))
            .item(Array::new(utoipa::openapi::Ref::from_schema_name("ContentPart")))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Content {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        use utoipa::PartialSchema;
        schemas.push(("ContentPart".to_owned(), ContentPart::schema()));
        ContentPart::schemas(schemas);
    }
}

impl Content {
    /// The list of parts; a single text becomes [`Content::Text`].
    pub fn from_parts(mut parts: Vec<ContentPart>) -> Self {
        match parts.as_mut_slice() {
            [ContentPart::Text { text }] => Content::Text(std::mem::take(text)),
            _ => Content::Parts(parts),
        }
    }

    /// The same with another part at the end.
    #[must_use]
    pub fn with(self, part: ContentPart) -> Self {
        let mut parts = match self {
            Content::Text(text) if text.is_empty() => Vec::new(),
            Content::Text(text) => vec![ContentPart::Text { text }],
            Content::Parts(parts) => parts,
        };
        parts.push(part);
        Content::from_parts(parts)
    }

    /// The text alone, its parts joined by a line break.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Content::Text(text) => Cow::Borrowed(text),
            Content::Parts(parts) => {
                let texts: Vec<&str> = parts.iter().filter_map(ContentPart::as_text).collect();
                Cow::Owned(texts.join("\n"))
            }
        }
    }

    /// The text when there is nothing else.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Content::Text(text) => Some(text),
            Content::Parts(_) => None,
        }
    }

    /// For people and for models that read only text: the texts, and a line for each picture and document.
    pub fn outline(&self) -> Cow<'_, str> {
        match self {
            Content::Text(text) => Cow::Borrowed(text),
            Content::Parts(parts) => {
                let lines: Vec<Cow<'_, str>> = parts
                    .iter()
                    .map(|part| match part {
                        ContentPart::Text { text } => Cow::Borrowed(text.as_str()),
                        ContentPart::Image(image) => Cow::Owned(format!("[{image}]")),
                        ContentPart::File(file) => Cow::Owned(format!("[{file}]")),
                    })
                    .collect();
                Cow::Owned(lines.join("\n"))
            }
        }
    }

    /// The pictures and documents.
    pub fn media(&self) -> impl Iterator<Item = &ContentPart> {
        let parts = match self {
            Content::Text(_) => &[],
            Content::Parts(parts) => parts.as_slice(),
        };
        parts.iter().filter(|part| part.source().is_some())
    }

    /// Whether there is a picture or document.
    pub fn has_media(&self) -> bool {
        self.media().next().is_some()
    }

    /// Whether there is a picture.
    pub fn has_images(&self) -> bool {
        self.media().any(|part| matches!(part, ContentPart::Image(_)))
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        match self {
            Content::Text(text) => text.is_empty(),
            Content::Parts(parts) => parts.is_empty(),
        }
    }

    /// The same with parts that `change` replaces; `None` when it replaces none.
    pub fn map_parts(
        &self,
        mut change: impl FnMut(&ContentPart) -> Option<ContentPart>,
    ) -> Option<Self> {
        let Content::Parts(parts) = self else { return None };
        let mut changed = false;
        let parts = parts
            .iter()
            .map(|part| match change(part) {
                Some(new) => {
                    changed = true;
                    new
                }
                None => part.clone(),
            })
            .collect();
        changed.then(|| Content::from_parts(parts))
    }
}

impl ContentPart {
    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            ContentPart::Text { text } => Some(text),
            ContentPart::Image(_) | ContentPart::File(_) => None,
        }
    }

    /// Where the bytes of a picture or document are.
    pub fn source(&self) -> Option<&Source> {
        match self {
            ContentPart::Text { .. } => None,
            ContentPart::Image(image) => Some(&image.source),
            ContentPart::File(file) => Some(&file.source),
        }
    }

    /// The kind of a picture or document.
    pub fn mime(&self) -> Option<MediaType> {
        match self {
            ContentPart::Text { .. } => None,
            ContentPart::Image(image) => Some(MediaType::Image(image.mime)),
            ContentPart::File(file) => Some(MediaType::File(file.mime)),
        }
    }

    /// A picture or document with its bytes elsewhere; text stays as it is.
    #[must_use]
    pub fn with_source(&self, source: Source) -> Self {
        match self {
            ContentPart::Text { .. } => self.clone(),
            ContentPart::Image(image) => ContentPart::Image(Image { source, ..image.clone() }),
            ContentPart::File(file) => ContentPart::File(File { source, ..file.clone() }),
        }
    }

    /// The line of text that stands for a picture or document, so that the model knows that there was one; text stays as it is.
    #[must_use]
    pub fn marker(&self, why: LeftOut) -> Self {
        let text = match self {
            ContentPart::Text { text } => text.clone(),
            ContentPart::Image(image) => format!("[{image}: {why}]"),
            ContentPart::File(file) => format!("[{file}: {why}]"),
        };
        ContentPart::Text { text }
    }

    /// A picture or document from its bytes: its kind is told from them, and from the name where the bytes are plain text.
    ///
    /// # Errors
    /// [`ContentError::Unknown`] when models take nothing of the kind.
    pub fn from_bytes(name: impl Into<String>, bytes: &[u8]) -> Result<Self, ContentError> {
        let name = name.into();
        let source = |bytes| Source::Data(Base64::encode(bytes));
        match MediaType::of(&name, bytes) {
            Some(MediaType::Image(mime)) => Ok(ContentPart::Image(Image {
                mime,
                source: source(bytes),
                name: Some(name),
                detail: None,
                size: None,
            })),
            Some(MediaType::File(mime)) => {
                Ok(ContentPart::File(File { mime, source: source(bytes), name }))
            }
            None => Err(ContentError::Unknown { name }),
        }
    }
}

impl fmt::Display for Image {
    /// Such as `image plan.png, image/png, 800x600`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("image")?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        write!(f, ", {}", self.mime)?;
        if let Some(size) = self.size {
            write!(f, ", {}x{}", size.width, size.height)?;
        }
        if let Source::Url(url) = &self.source {
            write!(f, ", at {url}")?;
        }
        Ok(())
    }
}

impl fmt::Display for File {
    /// Such as `file lease.pdf, application/pdf`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}, {}", self.name, self.mime)?;
        if let Source::Url(url) = &self.source {
            write!(f, ", at {url}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::NotTaken => "not shown, since this model cannot take it",
            LeftOut::ToFit => "left out to save space",
            LeftOut::Lost => "not shown, since it is no longer stored",
        })
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Content::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Content::Text(text.to_owned())
    }
}

impl PartialEq<str> for Content {
    fn eq(&self, other: &str) -> bool {
        self.as_text() == Some(other)
    }
}

impl PartialEq<&str> for Content {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Content::Text(text) => serializer.serialize_str(text),
            Content::Parts(parts) => parts.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Content, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(parts)).map(Content::from_parts)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn picture() -> ContentPart {
        ContentPart::Image(Image {
            mime: ImageType::Png,
            source: Source::Data(Base64::encode(b"\x89PNG\r\n\x1a\n")),
            name: Some("plan.png".into()),
            detail: Some(Detail::Low),
            size: Some(PixelSize { width: 800, height: 600 }),
        })
    }

    fn document() -> ContentPart {
        ContentPart::File(File {
            mime: FileType::Pdf,
            source: Source::Blob(BlobRef { id: "sha256-aa".into(), bytes: 9 }),
            name: "lease.pdf".into(),
        })
    }

    #[test]
    fn is_stored_as_one_would_write_it() {
        let content = Content::from("Which room?").with(picture()).with(document());
        let written = json!([
            {"type": "text", "text": "Which room?"},
            {"type": "image", "mime": "image/png", "source": {"data": "iVBORw0KGgo="}, "name": "plan.png",
                "detail": "low", "size": {"width": 800, "height": 600}},
            {"type": "file", "mime": "application/pdf", "source": {"blob": {"id": "sha256-aa", "bytes": 9}},
                "name": "lease.pdf"},
        ]);
        assert_eq!(serde_json::to_value(&content).unwrap(), written);
        assert_eq!(serde_json::from_value::<Content>(written).unwrap(), content);
    }

    #[test]
    fn one_text_is_a_string_however_it_comes() {
        let one: Content = serde_json::from_value(json!([{"type": "text", "text": "a"}])).unwrap();
        assert_eq!(one, Content::Text("a".into()));
        assert_eq!(serde_json::to_value(&one).unwrap(), json!("a"));
        assert_eq!(Content::from("").with(ContentPart::Text { text: "a".into() }), "a");
    }

    #[test]
    fn what_models_cannot_take_reads_as_a_line() {
        let content = Content::from("Which room?").with(picture()).with(document());
        let marked = content
            .map_parts(|part| part.source().map(|_| part.marker(LeftOut::NotTaken)))
            .unwrap();
        assert_eq!(
            marked.text(),
            "Which room?\n\
             [image plan.png, image/png, 800x600: not shown, since this model cannot take it]\n\
             [file lease.pdf, application/pdf: not shown, since this model cannot take it]"
        );
        assert_eq!(marked.map_parts(|_| None), None);
        assert_eq!(
            content.outline(),
            "Which room?\n[image plan.png, image/png, 800x600]\n[file lease.pdf, application/pdf]"
        );
        assert_eq!(content.text(), "Which room?");
    }

    #[test]
    fn a_kind_is_told_from_the_bytes() {
        let part = ContentPart::from_bytes("a.jpg", b"\x89PNG\r\n\x1a\n....").unwrap();
        assert_eq!(part.mime(), Some(MediaType::Image(ImageType::Png)));
        let part = ContentPart::from_bytes("notes.md", "# Ünter".as_bytes()).unwrap();
        assert_eq!(part.mime(), Some(MediaType::File(FileType::Markdown)));
        assert_eq!(
            ContentPart::from_bytes("a.zip", b"PK\x03\x04\0\0").unwrap_err(),
            ContentError::Unknown { name: "a.zip".into() }
        );
    }
}
