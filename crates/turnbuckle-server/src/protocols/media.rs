//! Pictures and documents as other protocols send them.

use crate::problem::{Answer, Problem};
use serde_json::json;
use turnbuckle_core::content::ContentPart;

/// Where the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytes<'a> {
    /// In Base64.
    Data(&'a str),
    /// At an address, which may be a `data:` URL.
    Url(&'a str),
}

/// A picture or a document; `field` is where it stands in the request.
pub(crate) fn part(
    field: &str,
    mime: Option<&str>,
    name: Option<&str>,
    bytes: Bytes<'_>,
) -> Answer<ContentPart> {
    let (mime, bytes) = match bytes {
        Bytes::Url(url) if url.starts_with("data:") => {
            let wrong = || Problem::field(field, "must be a `data:` URL in Base64");
            let (head, data) = url.trim_start_matches("data:").split_once(',').ok_or_else(wrong)?;
            let kind = head.strip_suffix(";base64").ok_or_else(wrong)?;
            let kind = kind.split(';').next().filter(|kind| !kind.is_empty());
            (mime.or(kind), Bytes::Data(data))
        }
        other => (mime, other),
    };
    let Some(mime) = mime else {
        return Err(Problem::field(field, "must say its media type"));
    };
    let source = match bytes {
        Bytes::Data(data) => json!({"data": data}),
        Bytes::Url(url) => json!({"url": url}),
    };
    let value = match mime.starts_with("image/") {
        true => json!({"type": "image", "mime": mime, "source": source, "name": name}),
        false => {
            json!({"type": "file", "mime": mime, "source": source, "name": name.unwrap_or("file")})
        }
    };
    serde_json::from_value(value).map_err(|e| Problem::field(field, e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnbuckle_core::content::{Content, MediaType};

    #[test]
    fn what_is_sent_is_a_picture_or_a_document_or_refused_with_its_place() {
        let mime = |mime, bytes| part("at", mime, None, bytes).map(|part| part.mime());
        let png = MediaType::Image("image/png".to_owned().try_into().unwrap());
        let pdf = MediaType::File("application/pdf".to_owned().try_into().unwrap());
        assert_eq!(mime(Some("image/png"), Bytes::Data("iVBORw0KGgo=")), Ok(Some(png)));
        let url = "data:image/png;base64,iVBORw0KGgo=";
        assert_eq!(mime(None, Bytes::Url(url)), Ok(Some(png)));
        let url = Bytes::Url("https://example.com/a.pdf");
        assert_eq!(mime(Some("application/pdf"), url), Ok(Some(pdf)));
        for (kind, bytes) in [
            (None, Bytes::Data("iVBORw0KGgo=")),
            (None, Bytes::Url("data:image/png,x")),
            (Some("image/png"), Bytes::Url("http://10.0.0.1/a.png")),
            (Some("audio/mpeg"), Bytes::Data("AAAA")),
            (Some("image/png"), Bytes::Data("not base64!")),
        ] {
            let problem = part("at", kind, None, bytes).unwrap_err();
            assert_eq!(problem.errors.first().map(|e| &*e.field), Some("at"), "{problem:?}");
        }
        let named = part("at", Some("text/plain"), Some("a.txt"), Bytes::Data("aGk=")).unwrap();
        assert!(Content::from_parts(vec![named]).outline().contains("a.txt"));
    }
}
