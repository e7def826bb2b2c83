//! The kinds of images and files that models take, and how they are told from their bytes.

use super::ContentError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of picture that every vendor with eyes takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum ImageType {
    /// `image/png`.
    Png,
    /// `image/jpeg`.
    Jpeg,
    /// `image/gif`; models see its first frame.
    Gif,
    /// `image/webp`.
    Webp,
}

/// A kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum FileType {
    /// `application/pdf`.
    Pdf,
    /// `text/plain`, and any other text.
    Plain,
    /// `text/markdown`.
    Markdown,
    /// `text/csv`.
    Csv,
    /// `text/html`.
    Html,
    /// `text/xml`.
    Xml,
    /// `application/json`.
    Json,
}

/// A kind of picture or document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaType {
    /// A picture.
    Image(ImageType),
    /// A document.
    File(FileType),
}

/// How far into a PDF its mark may come; readers have always looked that far.
const PDF_MARK_WITHIN: usize = 1024;

impl ImageType {
    /// Every kind.
    pub const ALL: [ImageType; 4] =
        [ImageType::Png, ImageType::Jpeg, ImageType::Gif, ImageType::Webp];

    /// As in a `Content-Type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ImageType::Png => "image/png",
            ImageType::Jpeg => "image/jpeg",
            ImageType::Gif => "image/gif",
            ImageType::Webp => "image/webp",
        }
    }

    /// The kind that bytes begin as.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some(ImageType::Png)
        } else if bytes.starts_with(b"\xFF\xD8\xFF") {
            Some(ImageType::Jpeg)
        } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
            Some(ImageType::Gif)
        } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            Some(ImageType::Webp)
        } else {
            None
        }
    }
}

impl FileType {
    /// Every kind.
    pub const ALL: [FileType; 7] = [
        FileType::Pdf,
        FileType::Plain,
        FileType::Markdown,
        FileType::Csv,
        FileType::Html,
        FileType::Xml,
        FileType::Json,
    ];

    /// As in a `Content-Type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            FileType::Pdf => "application/pdf",
            FileType::Plain => "text/plain",
            FileType::Markdown => "text/markdown",
            FileType::Csv => "text/csv",
            FileType::Html => "text/html",
            FileType::Xml => "text/xml",
            FileType::Json => "application/json",
        }
    }

    /// Whether its bytes are text that a model can read as such.
    pub const fn is_text(self) -> bool {
        !matches!(self, FileType::Pdf)
    }

    /// Whether the bytes can be of this kind.
    pub fn fits(self, bytes: &[u8]) -> bool {
        if self.is_text() { is_text(bytes) } else { is_pdf(bytes) }
    }
}

impl MediaType {
    /// As in a `Content-Type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            MediaType::Image(image) => image.as_str(),
            MediaType::File(file) => file.as_str(),
        }
    }

    /// The kind of bytes of that name: by their beginning, and by the name where they are text.
    pub fn of(name: &str, bytes: &[u8]) -> Option<Self> {
        if let Some(image) = ImageType::of(bytes) {
            return Some(MediaType::Image(image));
        }
        if is_pdf(bytes) {
            return Some(MediaType::File(FileType::Pdf));
        }
        if !is_text(bytes) {
            return None;
        }
        let extension = name.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
        Some(MediaType::File(match extension.as_deref() {
            Some("md" | "markdown") => FileType::Markdown,
            Some("csv") => FileType::Csv,
            Some("html" | "htm") => FileType::Html,
            Some("xml") => FileType::Xml,
            Some("json") => FileType::Json,
            _ => FileType::Plain,
        }))
    }
}

fn is_pdf(bytes: &[u8]) -> bool {
    let head = bytes.get(..bytes.len().min(PDF_MARK_WITHIN)).unwrap_or_default();
    head.windows(5).any(|w| w == b"%PDF-")
}

fn is_text(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok()
}

impl FromStr for MediaType {
    type Err = ContentError;

    /// From a `Content-Type`; its parameters are passed over.
    fn from_str(text: &str) -> Result<Self, ContentError> {
        let mime = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let image = ImageType::ALL.into_iter().find(|t| t.as_str() == mime);
        let file = FileType::ALL.into_iter().find(|t| t.as_str() == mime);
        match (image, file, mime.as_str()) {
            (Some(image), ..) => Ok(MediaType::Image(image)),
            (_, Some(file), _) => Ok(MediaType::File(file)),
            (.., "image/jpg") => Ok(MediaType::Image(ImageType::Jpeg)),
            (.., "application/xml") => Ok(MediaType::File(FileType::Xml)),
            (.., text) if text.starts_with("text/") => Ok(MediaType::File(FileType::Plain)),
            _ => Err(ContentError::Mime { mime: crate::json::clip(&mime, 100).to_owned() }),
        }
    }
}

impl TryFrom<String> for ImageType {
    type Error = ContentError;
    fn try_from(text: String) -> Result<Self, ContentError> {
        match text.parse()? {
            MediaType::Image(image) => Ok(image),
            MediaType::File(file) => Err(ContentError::Mime { mime: file.as_str().to_owned() }),
        }
    }
}

impl TryFrom<String> for FileType {
    type Error = ContentError;
    fn try_from(text: String) -> Result<Self, ContentError> {
        match text.parse()? {
            MediaType::File(file) => Ok(file),
            MediaType::Image(image) => Err(ContentError::Mime { mime: image.as_str().to_owned() }),
        }
    }
}

impl From<ImageType> for &'static str {
    fn from(image: ImageType) -> Self {
        image.as_str()
    }
}

impl From<FileType> for &'static str {
    fn from(file: FileType) -> Self {
        file.as_str()
    }
}

impl fmt::Display for ImageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
