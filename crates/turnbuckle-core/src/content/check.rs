//! The limits of what a message may hold. Pure: whoever takes messages in calls it before anything is stored.

use super::{Content, ContentPart, FileType, ImageType, Source};
use serde::{Deserialize, Serialize};

/// What a message may hold at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContentLimits {
    /// Bytes of all its text.
    pub max_text_bytes: u64,
    /// Parts.
    pub max_parts: usize,
    /// Bytes of one picture; vendors refuse more than about this.
    pub max_image_bytes: u64,
    /// Bytes of one document.
    pub max_file_bytes: u64,
    /// Bytes of all pictures and documents of one message.
    pub max_total_bytes: u64,
    /// Bytes of all pictures and documents that one request carries, those of earlier messages included: the newest stay. Vendors
    /// refuse requests of more than about this.
    pub max_request_bytes: u64,
}

impl Default for ContentLimits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            max_text_bytes: 4 * MIB,
            max_parts: 32,
            max_image_bytes: 5 * MIB,
            max_file_bytes: 16 * MIB,
            max_total_bytes: 20 * MIB,
            max_request_bytes: 20 * MIB,
        }
    }
}

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// Too much text.
    #[error(
        "the message has {bytes} bytes of text; at most {limit} are taken: attach it as a file, or shorten it"
    )]
    TooMuchText {
        /// How many there are.
        bytes: u64,
        /// How many may be.
        limit: u64,
    },
    /// Too many parts.
    #[error(
        "the message has {count} parts; at most {limit} are taken: send some in another message"
    )]
    TooManyParts {
        /// How many there are.
        count: usize,
        /// How many may be.
        limit: usize,
    },
    /// A picture or document is too large.
    #[error("{what} has {bytes} bytes; at most {limit} are taken: make it smaller")]
    TooLarge {
        /// Which.
        what: String,
        /// How many it has.
        bytes: u64,
        /// How many it may have.
        limit: u64,
    },
    /// All of them together are too large.
    #[error(
        "what is attached has {bytes} bytes together; at most {limit} are taken: send some in another message"
    )]
    TooLargeTogether {
        /// How many there are.
        bytes: u64,
        /// How many may be.
        limit: u64,
    },
    /// Nothing in it.
    #[error("{what} is empty")]
    Empty {
        /// Which.
        what: String,
    },
    /// A kind that models do not take.
    #[error("`{mime}` is not taken here; {} are", known())]
    Mime {
        /// The kind, as it was given.
        mime: String,
    },
    /// The bytes are of a kind that models do not take.
    #[error("`{name}` is neither a picture nor a PDF nor text; {} are taken", known())]
    Unknown {
        /// The file's name.
        name: String,
    },
    /// The bytes are not what they are said to be.
    #[error("{what} does not hold what its type says; give the type that fits its content")]
    Disguised {
        /// Which.
        what: String,
    },
    /// Not Base64.
    #[error("the data of an attachment is not standard, padded Base64: {cause}")]
    NotBase64 {
        /// What is wrong with it.
        cause: String,
    },
    /// Not a usable address.
    #[error("`{url}` cannot be given to a model: {problem}")]
    Url {
        /// The address, its beginning.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The session has no such blob.
    #[error("the session has nothing stored under `{id}`; send the bytes with the message")]
    NoBlob {
        /// What was asked for.
        id: String,
    },
}

fn known() -> String {
    let images = ImageType::ALL.iter().map(|t| t.as_str());
    let files = FileType::ALL.iter().map(|t| t.as_str());
    images.chain(files).collect::<Vec<_>>().join(", ")
}

impl ContentLimits {
    /// Checks a message before it is stored. What is in the session's store already counts by its size; that it is there, and is
    /// what it should be, only the store can tell.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, content: &Content) -> Result<(), ContentError> {
        let parts = match content {
            Content::Text(text) => return self.check_text(text.len() as u64),
            Content::Parts(parts) => parts,
        };
        if parts.len() > self.max_parts {
            return Err(ContentError::TooManyParts { count: parts.len(), limit: self.max_parts });
        }
        self.check_text(
            parts.iter().filter_map(ContentPart::as_text).map(|t| t.len() as u64).sum(),
        )?;
        let mut together = 0_u64;
        for part in parts {
            together = together.saturating_add(self.check_part(part)?);
        }
        let limit = self.max_total_bytes;
        if together > limit {
            return Err(ContentError::TooLargeTogether { bytes: together, limit });
        }
        Ok(())
    }

    fn check_text(&self, bytes: u64) -> Result<(), ContentError> {
        let limit = self.max_text_bytes;
        if bytes > limit { Err(ContentError::TooMuchText { bytes, limit }) } else { Ok(()) }
    }

    /// The part's bytes, when it may stay.
    fn check_part(&self, part: &ContentPart) -> Result<u64, ContentError> {
        let (what, limit) = match part {
            ContentPart::Text { .. } => return Ok(0),
            ContentPart::Image(image) => (image.to_string(), self.max_image_bytes),
            ContentPart::File(file) => (file.to_string(), self.max_file_bytes),
        };
        let bytes = match part.source() {
            None | Some(Source::Url(_)) => return Ok(0),
            Some(Source::Blob(blob)) => blob.bytes,
            Some(Source::Data(data)) => data.bytes(),
        };
        if bytes == 0 {
            return Err(ContentError::Empty { what });
        }
        if bytes > limit {
            return Err(ContentError::TooLarge { what, bytes, limit });
        }
        let honest = match (part, part.source()) {
            (ContentPart::Image(image), Some(Source::Data(data))) => {
                ImageType::of(&data.head(16)) == Some(image.mime)
            }
            (ContentPart::File(file), Some(Source::Data(data))) => file.mime.fits(&data.decode()),
            _ => true,
        };
        if honest { Ok(bytes) } else { Err(ContentError::Disguised { what }) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Base64, BlobRef, File, Image};
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and so on";

    fn image(source: Source) -> ContentPart {
        let mime = ImageType::Png;
        ContentPart::Image(Image { mime, source, name: None, detail: None, size: None })
    }

    fn file(mime: FileType, bytes: &[u8]) -> ContentPart {
        let source = Source::Data(Base64::encode(bytes));
        ContentPart::File(File { mime, source, name: "a".into() })
    }

    fn checked(parts: Vec<ContentPart>) -> Result<(), ContentError> {
        let limits = ContentLimits {
            max_text_bytes: 10,
            max_parts: 3,
            max_image_bytes: 20,
            max_file_bytes: 30,
            max_total_bytes: 40,
            max_request_bytes: 40,
        };
        limits.check(&Content::Parts(parts))
    }

    #[test]
    fn every_limit_holds() {
        let png = || image(Source::Data(Base64::encode(PNG)));
        let blob = |bytes| image(Source::Blob(BlobRef { id: "b".into(), bytes }));
        let text = |n: usize| ContentPart::Text { text: "x".repeat(n) };
        let named = || "image, image/png".to_owned();
        assert_eq!(checked(vec![text(10), png(), blob(20)]), Ok(()));
        assert_eq!(
            checked(vec![text(6), text(6)]),
            Err(ContentError::TooMuchText { bytes: 12, limit: 10 })
        );
        assert_eq!(
            checked(vec![text(1), text(1), text(1), text(1)]),
            Err(ContentError::TooManyParts { count: 4, limit: 3 })
        );
        assert_eq!(
            checked(vec![blob(21)]),
            Err(ContentError::TooLarge { what: named(), bytes: 21, limit: 20 })
        );
        assert_eq!(
            checked(vec![blob(20), blob(20), png()]),
            Err(ContentError::TooLargeTogether { bytes: 58, limit: 40 })
        );
        assert_eq!(checked(vec![blob(0)]), Err(ContentError::Empty { what: named() }));
    }

    #[test]
    fn bytes_must_be_what_they_are_said_to_be() {
        let page = b"<html><script>";
        assert_eq!(
            checked(vec![image(Source::Data(Base64::encode(page)))]),
            Err(ContentError::Disguised { what: "image, image/png".into() })
        );
        assert_eq!(checked(vec![file(FileType::Html, page)]), Ok(()));
        assert_eq!(checked(vec![file(FileType::Pdf, b"%PDF-1.7\n")]), Ok(()));
        for (mime, bytes) in [
            (FileType::Pdf, page.as_slice()),
            (FileType::Plain, b"\xff\xfe"),
            (FileType::Plain, b"a\0b"),
        ] {
            assert!(
                matches!(checked(vec![file(mime, bytes)]), Err(ContentError::Disguised { .. })),
                "{mime}"
            );
        }
    }

    #[test]
    fn what_is_not_taken_is_said_with_what_is() {
        let error = "audio/mpeg".parse::<super::super::MediaType>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`audio/mpeg` is not taken here; image/png, image/jpeg, image/gif, image/webp, application/pdf, text/plain, \
             text/markdown, text/csv, text/html, text/xml, application/json are"
        );
        assert!("text/x-rust; charset=utf-8".parse::<super::super::MediaType>().is_ok());
    }
}
