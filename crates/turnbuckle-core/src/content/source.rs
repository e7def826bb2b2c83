//! Where the bytes of a picture or document are.

use super::{Base64, Content, ContentError, LeftOut};
use crate::json::clip;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Where the bytes are. Written as `{"data": BASE64}`, `{"url": URL}` or `{"blob": {"id": ID, "bytes": N}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Here.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    Data(Base64),
    /// On the web; the provider fetches them, this process never does.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    Url(WebUrl),
    /// With the session, stored once.
    Blob(BlobRef),
}

/// Bytes in the session's store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BlobRef {
    /// The blob's id, unique in the session.
    pub id: Arc<str>,
    /// How many bytes it has.
    pub bytes: u64,
}

/// The address of something on the web. Only `https`: a model server may stand inside a private network, where plain
/// addresses mean machines that the sender of a message must not reach.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WebUrl(Arc<str>);

/// Bytes of a URL at the most.
const LONGEST_URL: usize = 4096;

impl WebUrl {
    /// From text.
    ///
    /// # Errors
    /// [`ContentError::Url`] when it is not an absolute `https` URL.
    pub fn parse(text: &str) -> Result<Self, ContentError> {
        let bad = |problem| Err(ContentError::Url { url: clip(text, 200).to_owned(), problem });
        if text.len() > LONGEST_URL {
            return bad("it is longer than 4096 bytes");
        }
        let Some(rest) = text.strip_prefix("https://") else {
            return bad("it must begin with https://");
        };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if host.is_empty() || host.contains('@') {
            return bad("it must name a host, and no user");
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) || text.contains(['"', '<', '>', '\\', '`'])
        {
            return bad("it holds characters that must be escaped");
        }
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for WebUrl {
    type Error = ContentError;
    fn try_from(text: String) -> Result<Self, ContentError> {
        Self::parse(&text)
    }
}

impl From<WebUrl> for String {
    fn from(url: WebUrl) -> String {
        url.as_str().to_owned()
    }
}

/// The bytes of blobs, at hand when a request is built. A copy costs nothing, and neither does an empty one.
#[derive(Clone, Debug, Default)]
pub struct Media(Option<Arc<Blobs>>);

/// The bytes of each blob; none where a request has no room for them.
type Blobs = BTreeMap<Arc<str>, Option<Base64>>;

impl Media {
    /// Adds the bytes of a blob.
    pub fn insert(&mut self, id: Arc<str>, data: Base64) {
        self.blobs_mut().insert(id, Some(data));
    }

    /// Says of a blob that a request has no room for it.
    pub fn leave_out(&mut self, id: Arc<str>) {
        self.blobs_mut().insert(id, None);
    }

    /// Adds all that another holds.
    pub fn extend(&mut self, other: &Media) {
        if let Some(blobs) = &other.0 {
            let added = blobs.iter().map(|(id, data)| (id.clone(), data.clone()));
            self.blobs_mut().extend(added);
        }
    }

    fn blobs_mut(&mut self) -> &mut Blobs {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    /// Whether anything was said of a blob.
    pub fn knows(&self, id: &str) -> bool {
        self.0.as_ref().is_some_and(|blobs| blobs.contains_key(id))
    }

    /// The content with the bytes in the place of references to them; what is not here reads as a line that says so. `None` when
    /// there is nothing to replace.
    pub fn fill(&self, content: &Content) -> Option<Content> {
        content.map_parts(|part| match part.source()? {
            Source::Data(_) | Source::Url(_) => None,
            Source::Blob(blob) => Some(match self.0.as_ref().and_then(|all| all.get(&blob.id)) {
                Some(Some(data)) => part.with_source(Source::Data(data.clone())),
                Some(None) => part.marker(LeftOut::ToFit),
                None => part.marker(LeftOut::Lost),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ContentPart, Image, ImageType};
    use super::*;

    #[test]
    fn only_plain_https_addresses_are_taken() {
        for good in ["https://example.com", "https://example.com:8443/a%20b.png?x=1#y"] {
            assert_eq!(WebUrl::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "http://example.com/a.png",
            "file:///etc/passwd",
            "https://",
            "https:///a",
            "https://me@example.com/",
            "https://example.com/a b",
            "https://example.com/\u{e4}",
            "data:image/png;base64,AAAA",
        ] {
            assert!(matches!(WebUrl::parse(bad), Err(ContentError::Url { .. })), "{bad}");
        }
        assert!(WebUrl::parse(&format!("https://example.com/{}", "a".repeat(5000))).is_err());
    }

    #[test]
    fn references_are_filled_and_what_is_missing_is_said() {
        let image = |source| {
            let name = Some("a.png".to_owned());
            let mime = ImageType::Png;
            ContentPart::Image(Image { mime, source, name, detail: None, size: None })
        };
        let blob = |id: &str| image(Source::Blob(BlobRef { id: id.into(), bytes: 3 }));
        let mut media = Media::default();
        media.insert("here".into(), Base64::encode(b"abc"));
        media.leave_out("large".into());
        let content = Content::Parts(vec![blob("here"), blob("large"), blob("gone")]);
        let line = |text: &str| ContentPart::Text { text: text.to_owned() };
        let filled = Content::Parts(vec![
            image(Source::Data(Base64::encode(b"abc"))),
            line("[image a.png, image/png: left out to save space]"),
            line("[image a.png, image/png: not shown, since it is no longer stored]"),
        ]);
        assert_eq!(media.fill(&content), Some(filled.clone()));
        assert_eq!(media.fill(&filled), None);
        assert_eq!(media.fill(&"text".into()), None);
    }
}
