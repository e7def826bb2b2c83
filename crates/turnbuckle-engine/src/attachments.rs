//! Images and files of messages: stored once with their session, referred to by messages and events, and read back when a
//! request is built.

use crate::engine::EngineError;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use turnbuckle_core::content::{
    Base64, BlobRef, Content, ContentError, ContentLimits, ContentPart, Image, Media, Source,
};
use turnbuckle_core::message::Message;
use turnbuckle_core::part::Part;
use turnbuckle_models::tokens::pixel_size;
use turnbuckle_store::{Blob, BlobPart, SessionKey, Store, StoreError};

/// Tells attachments from other blobs of a session, which a message must not refer to.
const PREFIX: &str = "sha256-";

/// What was attached to a message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its kind, such as `image/png`.
    pub media_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The message as it is stored: bytes go into the session's store under their hash, so that the same bytes are kept once.
///
/// # Errors
/// What is wrong with the message, and those of the store.
pub(crate) async fn keep(
    store: &dyn Store,
    key: &SessionKey,
    content: Content,
    limits: &ContentLimits,
) -> Result<Content, EngineError> {
    limits.check(&content)?;
    let Content::Parts(parts) = content else { return Ok(content) };
    let mut kept = Vec::with_capacity(parts.len());
    for part in parts {
        let part = measured(part);
        kept.push(match part.source() {
            None | Some(Source::Url(_)) => part,
            Some(Source::Data(data)) => {
                let blob = put(store, key, &part, data).await?;
                part.with_source(Source::Blob(blob))
            }
            Some(Source::Blob(blob)) => {
                let blob = known(store, key, &part, blob).await?;
                part.with_source(Source::Blob(blob))
            }
        });
    }
    let content = Content::from_parts(kept);
    // What was referred to counts as it is stored, not as the message says.
    limits.check(&content)?;
    Ok(content)
}

/// With the size of an image whose bytes are here; what a message says of it does not count.
pub(crate) fn measured(part: ContentPart) -> ContentPart {
    match part {
        ContentPart::Image(image) if matches!(image.source, Source::Data(_)) => {
            ContentPart::Image(Image { size: pixel_size(&image.source), ..image })
        }
        other => other,
    }
}

async fn put(
    store: &dyn Store,
    key: &SessionKey,
    part: &ContentPart,
    data: &Base64,
) -> Result<BlobRef, EngineError> {
    let content = data.decode();
    let bytes = content.len() as u64;
    let mut id = PREFIX.to_owned();
    for byte in Sha256::digest(&content) {
        let _ = write!(id, "{byte:02x}");
    }
    let media_type = part.mime().map(|m| m.as_str().to_owned()).unwrap_or_default();
    let there = store.get_blob(key, &id, 0..0).await;
    if !matches!(there, Ok(BlobPart { media_type: kept, .. }) if kept == media_type) {
        store.put_blob(key, Blob { id: id.clone(), media_type, content }).await?;
    }
    Ok(BlobRef { id: id.into(), bytes })
}

/// What a message refers to, checked against the store.
async fn known(
    store: &dyn Store,
    key: &SessionKey,
    part: &ContentPart,
    blob: &BlobRef,
) -> Result<BlobRef, EngineError> {
    let missing =
        || ContentError::NoBlob { id: turnbuckle_core::json::clip(&blob.id, 100).to_owned() };
    if !blob.id.starts_with(PREFIX) {
        return Err(missing().into());
    }
    let kept = match store.get_blob(key, &blob.id, 0..0).await {
        Ok(kept) => kept,
        Err(StoreError::NotFound { what: "blob" }) => return Err(missing().into()),
        Err(e) => return Err(e.into()),
    };
    if part.mime().is_none_or(|mime| mime.as_str() != kept.media_type) {
        let what = match part {
            ContentPart::Image(image) => image.to_string(),
            ContentPart::File(file) => file.to_string(),
            ContentPart::Text { .. } => String::new(),
        };
        return Err(ContentError::Disguised { what }.into());
    }
    Ok(BlobRef { id: blob.id.clone(), bytes: kept.size })
}

/// An attachment of a session, for whoever shows its messages.
///
/// # Errors
/// Those of the store; `NotFound` also for what is in the session's store but no attachment.
pub(crate) async fn read(
    store: &dyn Store,
    key: &SessionKey,
    id: &str,
) -> Result<Attachment, StoreError> {
    if !id.starts_with(PREFIX) {
        return Err(StoreError::NotFound { what: "attachment" });
    }
    let blob = store.get_blob(key, id, 0..u64::MAX).await?;
    Ok(Attachment { media_type: blob.media_type, bytes: blob.content })
}

/// The bytes that messages refer to, newest message first, as far as a request may carry them; what is too much reads as left
/// out.
///
/// # Errors
/// Those of the store. What is not there any more is no error: models read a line that says so.
pub(crate) async fn gather(
    store: &dyn Store,
    key: &SessionKey,
    contents: &[&Content],
    limit: u64,
) -> Result<Media, StoreError> {
    let mut media = Media::default();
    let mut room = limit;
    for content in contents {
        for blob in content.media().filter_map(as_blob) {
            if media.knows(&blob.id) {
                continue;
            }
            let Some(left) = room.checked_sub(blob.bytes) else {
                media.leave_out(blob.id.clone());
                continue;
            };
            match read(store, key, &blob.id).await {
                Ok(found) => media.insert(blob.id.clone(), Base64::encode(&found.bytes)),
                Err(StoreError::NotFound { .. }) => continue,
                Err(e) => return Err(e),
            }
            room = left;
        }
    }
    Ok(media)
}

/// What people said in a message, the last first.
pub(crate) fn contents(message: &Message) -> impl Iterator<Item = &Content> {
    let (user, parts) = match message {
        Message::User(m) => (Some(&m.content), &[][..]),
        Message::Assistant(m) => (None, m.parts.as_slice()),
        Message::System(_) => (None, &[][..]),
    };
    user.into_iter().chain(entered(parts))
}

/// What people said while a turn ran, the last first.
pub(crate) fn entered(parts: &[Part]) -> impl Iterator<Item = &Content> {
    parts.iter().rev().filter_map(|part| match part {
        Part::Input(input) => Some(&input.content),
        _ => None,
    })
}

fn as_blob(part: &ContentPart) -> Option<&BlobRef> {
    match part.source()? {
        Source::Blob(blob) => Some(blob),
        Source::Data(_) | Source::Url(_) => None,
    }
}
