//! Images for models that are known to take none.
//!
//! Whether a model sees is known from the configuration or the catalogue; a model of which neither says anything is tried.

use std::borrow::Cow;
use turnbuckle_core::content::{Content, ContentPart, LeftOut};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::ModelRequest;
use turnbuckle_core::transcript::{Entry, Item, Transcript};

/// Whether a model sees images, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It does, or nobody knows.
    Maybe,
    /// It is known not to.
    Blind,
}

/// The request as a model can take it. Images of earlier messages become text for one that takes none, so that a
/// conversation can change its model; an image in the newest message is what the question is about.
///
/// # Errors
/// [`Config`](ModelErrorKind::Config) when the newest message holds an image and the model is known to take none.
pub(crate) fn shown<'r>(
    request: &'r ModelRequest,
    sight: Sight,
) -> Result<Cow<'r, ModelRequest>, ModelError> {
    if request.transcript.size().media == 0 || sight == Sight::Maybe {
        return Ok(Cow::Borrowed(request));
    }
    let entries = request.transcript.entries();
    let newest = entries.iter().rposition(|e| matches!(e.item, Item::User { .. }));
    let mut transcript = Transcript::default();
    for (at, entry) in entries.iter().enumerate() {
        match &entry.item {
            Item::User { content } if content.has_images() => {
                if Some(at) == newest {
                    return Err(blind(request, content));
                }
                let marked = content.map_parts(|part| match part {
                    ContentPart::Image(_) => Some(part.marker(LeftOut::NotTaken)),
                    ContentPart::Text { .. } | ContentPart::File(_) => None,
                });
                let content = marked.unwrap_or_else(|| content.clone());
                transcript.push(Entry::new(Item::User { content }, entry.source.clone()));
            }
            _ => transcript.push(entry.clone()),
        }
    }
    Ok(Cow::Owned(ModelRequest { transcript, ..request.clone() }))
}

fn blind(request: &ModelRequest, content: &Content) -> ModelError {
    let image = content.media().find(|part| matches!(part, ContentPart::Image(_)));
    let what = match image {
        Some(ContentPart::Image(image)) => image.to_string(),
        _ => "an image".to_owned(),
    };
    let message = format!(
        "the model {} takes no images, and the message holds {what}: choose a model that does, or send the message without it; \
         if the model does take images, say so with `capabilities.images` in its configuration",
        request.model
    );
    ModelError::new(ModelErrorKind::Config, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnbuckle_core::content::{Image, ImageType, Source, WebUrl};

    fn looking(text: &str) -> Item {
        let url = WebUrl::parse("https://example.com/a.png").unwrap();
        let image = Image {
            mime: ImageType::Png,
            source: Source::Url(url),
            name: Some("a.png".into()),
            detail: None,
            size: None,
        };
        Item::User { content: Content::from(text).with(ContentPart::Image(image)) }
    }

    fn request(items: &[Item]) -> ModelRequest {
        let mut transcript = Transcript::default();
        items.iter().for_each(|item| transcript.push_item(item.clone()));
        ModelRequest::new("m", transcript)
    }

    #[test]
    fn a_model_that_is_known_to_be_blind_is_not_asked_to_look() {
        let error = shown(&request(&[looking("What is this?")]), Sight::Blind).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Config);
        assert!(error.message.contains("image a.png, image/png"), "{}", error.message);
    }

    #[test]
    fn what_was_shown_earlier_becomes_text() {
        let request = request(&[looking("What is this?"), Item::user("And now?")]);
        let shown = shown(&request, Sight::Blind).unwrap();
        let items: Vec<_> = shown.transcript.entries().iter().map(|e| e.item.clone()).collect();
        let Item::User { content } = &items[0] else { panic!("{items:?}") };
        assert_eq!(
            content.text(),
            "What is this?\n[image a.png, image/png, at https://example.com/a.png: not shown, since this model cannot take it]"
        );
        assert_eq!((shown.transcript.size().media, &items[1]), (0, &Item::user("And now?")));
    }

    #[test]
    fn a_model_that_may_see_is_asked() {
        let request = request(&[looking("What is this?")]);
        assert!(matches!(shown(&request, Sight::Maybe), Ok(Cow::Borrowed(_))));
    }
}
