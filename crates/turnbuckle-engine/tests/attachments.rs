//! Images and files through the whole engine: stored once, referred to by messages and events, shown to the model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::*;
use serde_json::{Value, json};
use turnbuckle_core::content::{
    Base64, Content, ContentError, ContentLimits, ContentPart, FileType, Image, ImageType,
    PixelSize, Source,
};
use turnbuckle_core::message::Message;
use turnbuckle_core::part::{InputKind, Part};
use turnbuckle_core::transcript::Item;
use turnbuckle_engine::{EngineError, Submission, drain};
use turnbuckle_models::scripted::{calls as calling, text};
use turnbuckle_store::{Blob, StoreError};

/// The head of a PNG of that size, and enough after it to be told from others.
fn png(width: u32, height: u32, filling: usize) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend([8, 6, 0, 0, 0]);
    bytes.extend(std::iter::repeat_n(7, filling));
    bytes
}

fn part(name: &str, bytes: &[u8]) -> ContentPart {
    ContentPart::from_bytes(name, bytes).unwrap()
}

fn image(part: &ContentPart) -> &Image {
    let ContentPart::Image(image) = part else { panic!("{part:?}") };
    image
}

/// The parts of the n-th user message that a model read.
fn seen(request: &turnbuckle_core::model::ModelRequest, n: usize) -> Vec<ContentPart> {
    let mut users = items(request).into_iter().filter_map(|item| match item {
        Item::User { content } => Some(content),
        _ => None,
    });
    match users.nth(n).unwrap() {
        Content::Parts(parts) => parts,
        Content::Text(text) => vec![ContentPart::Text { text }],
    }
}

#[tokio::test]
async fn bytes_are_stored_once_and_shown_in_every_turn() {
    let bench = Bench::script([text("A plan."), text("The same."), text("As I said.")]);
    let key = bench.session().await;
    let plan = png(640, 480, 5_000);
    let say = |words: &str| Submission::new(words).attach(part("plan.png", &plan));
    let events = drain_of(&bench, &key, say("What is this?")).await;
    drain_of(&bench, &key, say("And this?")).await;

    let stored = messages(&*bench.store, &key).await;
    let Message::User(user) = &stored[0] else { panic!("{stored:?}") };
    let Content::Parts(parts) = &user.content else { panic!("{user:?}") };
    let kept = image(&parts[1]);
    assert_eq!(kept.size, Some(PixelSize { width: 640, height: 480 }));
    let Source::Blob(blob) = &kept.source else { panic!("{kept:?}") };
    assert_eq!(blob.bytes, plan.len() as u64);
    // The second message refers to the same bytes, and nothing else that is stored or streamed holds them.
    let Message::User(second) = &stored[2] else { panic!("{stored:?}") };
    assert_eq!(second.content.media().next(), Some(&parts[1]));
    let encoded = Base64::encode(&plan);
    for text in [
        serde_json::to_string(&events).unwrap(),
        serde_json::to_string(&bench.store.turns(&key).await.unwrap()).unwrap(),
        bench.store.journal(&key, &user.turn).await.unwrap().turn.spec,
    ] {
        assert!(!text.contains(encoded.as_str().get(..100).unwrap()));
    }
    let read = bench.engine.attachment(&key, &blob.id).await.unwrap();
    assert_eq!((read.media_type.as_str(), &read.bytes), ("image/png", &plan));

    // Every request carries the bytes, in another process, too.
    let other = builder(bench.model.clone(), &bench.world, [agent("main").build().unwrap()])
        .shared_store(bench.store.clone())
        .ids(|| "other".to_owned())
        .name("two")
        .build()
        .unwrap();
    say_to(&other, &key, "Really?").await;
    bench.check(&key).await;
    let requests = bench.model.requests();
    check_prefixes(&requests);
    for (request, n) in [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)] {
        let parts = seen(&requests[request], n);
        assert_eq!(image(&parts[1]).source, Source::Data(encoded.clone()), "{request} {n}");
    }
}

async fn say_to(
    engine: &turnbuckle_engine::Engine,
    key: &turnbuckle_store::SessionKey,
    words: &str,
) {
    drain(engine.submit(key, words).await.unwrap().stream().unwrap()).await;
}

async fn drain_of(
    bench: &Bench,
    key: &turnbuckle_store::SessionKey,
    submission: Submission,
) -> Vec<turnbuckle_core::event::Event> {
    drain(bench.engine.submit(key, submission).await.unwrap().stream().unwrap()).await
}

#[tokio::test]
async fn the_order_of_words_images_and_files_stays() {
    let bench = Bench::script([text("They differ.")]);
    let key = bench.session().await;
    let submission = Submission::new("Is this")
        .attach(part("a.png", &png(1, 1, 0)))
        .attach(ContentPart::Text { text: "what this says?".into() })
        .attach(part("b.md", b"# A room"));
    drain_of(&bench, &key, submission).await;
    let kinds: Vec<_> = seen(&bench.last_request(), 0)
        .iter()
        .map(|part| part.as_text().map_or_else(|| part.mime().unwrap().to_string(), str::to_owned))
        .collect();
    assert_eq!(kinds, ["Is this", "image/png", "what this says?", "text/markdown"]);
}

#[tokio::test]
async fn an_image_enters_a_running_turn_with_its_steering() {
    let bench = Bench::script([calling(&[("w", "wait", "{}")]), text("In that blue, then.")]);
    let key = bench.session().await;
    let mut stream = bench.engine.submit(&key, "paint it").await.unwrap().stream().unwrap();
    until(&mut stream, runs).await;
    let blue = png(2, 2, 10);
    let steering = Submission::new("like this").attach(part("blue.png", &blue)).steering();
    assert!(bench.engine.submit(&key, steering).await.unwrap().stream().is_none());
    bench.world.gate.open();
    drain(stream).await;
    bench.check(&key).await;
    let message = bench.message(&key).await;
    let Part::Input(entered) = &message.parts[1] else { panic!("{message:#?}") };
    assert_eq!((entered.kind, &*entered.content.text()), (InputKind::Steering, "like this"));
    assert!(matches!(image(entered.content.media().next().unwrap()).source, Source::Blob(_)));
    let parts = seen(&bench.last_request(), 1);
    assert_eq!(image(&parts[1]).source, Source::Data(Base64::encode(&blue)));
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused_before_anything_is_stored() {
    let bench = Bench::script([text("Never said.")]);
    let key = bench.session().await;
    // What a tool's result left aside is no attachment.
    let aside = Blob { id: "out-1".into(), media_type: "image/png".into(), content: png(1, 1, 0) };
    bench.store.put_blob(&key, aside).await.unwrap();
    let with = |parts: Value| Submission::new(serde_json::from_value::<Content>(parts).unwrap());
    let disguised = Base64::encode(b"<html>");
    let image = |source: Value| json!([{"type": "image", "mime": "image/png", "source": source}]);
    let cases = [
        (
            with(image(json!({"data": disguised}))),
            ContentError::Disguised { what: "image, image/png".into() },
        ),
        (
            with(image(json!({"blob": {"id": "out-1", "bytes": 1}}))),
            ContentError::NoBlob { id: "out-1".into() },
        ),
        (
            with(image(json!({"blob": {"id": "sha256-00", "bytes": 1}}))),
            ContentError::NoBlob { id: "sha256-00".into() },
        ),
        (
            Submission::new("x".repeat(5 << 20)),
            ContentError::TooMuchText { bytes: 5 << 20, limit: 4 << 20 },
        ),
    ];
    for (submission, expected) in cases {
        let Err(EngineError::Content(error)) = bench.engine.post_message(&key, submission).await
        else {
            panic!("{expected:?} was taken")
        };
        assert_eq!(error, expected);
    }
    assert_eq!(bench.store.inbox(&key).await.unwrap(), []);
    let read = bench.engine.attachment(&key, "out-1").await;
    assert!(matches!(read, Err(EngineError::Store(StoreError::NotFound { .. }))));
}

#[tokio::test]
async fn a_reference_counts_as_it_is_stored() {
    let limits = ContentLimits { max_image_bytes: 1_000, ..ContentLimits::default() };
    let bench = Bench::script([text("Never said.")]);
    let key = bench.session().await;
    let plan = part("plan.png", &png(1, 1, 5_000));
    bench.engine.post_message(&key, Submission::new("a").attach(plan)).await.unwrap();
    let inbox = bench.store.inbox(&key).await.unwrap();
    let turnbuckle_store::Posted::Message { message, .. } = &inbox[0].input else { panic!() };
    let Some(Source::Blob(blob)) = message.content.media().next().unwrap().source() else {
        panic!("{message:?}")
    };
    let refer = |mime: &str, bytes: u64| {
        let parts = json!([{"type": "image", "mime": mime,
            "source": {"blob": {"id": blob.id, "bytes": bytes}}}]);
        Submission::new(serde_json::from_value::<Content>(parts).unwrap())
    };
    let strict = builder(bench.model.clone(), &bench.world, [agent("main").build().unwrap()])
        .shared_store(bench.store.clone())
        .content_limits(limits)
        .build()
        .unwrap();
    let size = blob.bytes;
    let refused = strict.post_message(&key, refer("image/png", 1)).await;
    assert!(
        matches!(&refused, Err(EngineError::Content(ContentError::TooLarge { bytes, .. })) if *bytes == size),
        "{refused:?}"
    );
    let refused = bench.engine.post_message(&key, refer("image/jpeg", size)).await;
    assert!(matches!(refused, Err(EngineError::Content(ContentError::Disguised { .. }))));
    bench.engine.post_message(&key, refer("image/png", 1)).await.unwrap();
}

#[tokio::test]
async fn a_session_cannot_refer_to_what_was_attached_in_another() {
    let bench = Bench::script([text("I see.")]);
    let (mine, theirs) = (bench.session().await, bench.session().await);
    let plan = part("plan.png", &png(1, 1, 9));
    drain_of(&bench, &theirs, Submission::new("a").attach(plan)).await;
    let stored = messages(&*bench.store, &theirs).await;
    let Message::User(user) = &stored[0] else { panic!("{stored:?}") };
    let refused = bench.engine.post_message(&mine, Submission::new(user.content.clone())).await;
    assert!(matches!(refused, Err(EngineError::Content(ContentError::NoBlob { .. }))));
}

#[tokio::test]
async fn a_request_carries_the_newest_and_names_the_rest() {
    let limits = ContentLimits {
        max_image_bytes: 3_000,
        max_request_bytes: 5_000,
        ..ContentLimits::default()
    };
    let bench = Bench::with(common::by_request(vec![text("One."), text("Two.")]), |b| {
        b.content_limits(limits)
    });
    let key = bench.session().await;
    let image_of = |filling| part("plan.png", &png(64, 32, filling));
    drain_of(&bench, &key, Submission::new("first").attach(image_of(2_900))).await;
    drain_of(&bench, &key, Submission::new("second").attach(image_of(2_800))).await;
    let request = bench.last_request();
    assert_eq!(
        seen(&request, 0)[1].as_text(),
        Some("[image plan.png, image/png, 64x32: left out to save space]")
    );
    assert!(matches!(image(&seen(&request, 1)[1]).source, Source::Data(_)));
}

#[tokio::test]
async fn a_turn_without_a_session_shows_images_too() {
    let bench = Bench::script([text("A dot.")]);
    let dot = png(1, 1, 0);
    let submission = Submission::new("What is it?").attach(part("dot.png", &dot));
    let stream = bench
        .engine
        .converse("main", turnbuckle_core::transcript::Transcript::default(), submission)
        .unwrap();
    drain(stream).await;
    let parts = seen(&bench.last_request(), 0);
    let expected = Image {
        mime: ImageType::Png,
        source: Source::Data(Base64::encode(&dot)),
        name: Some("dot.png".into()),
        detail: None,
        size: Some(PixelSize { width: 1, height: 1 }),
    };
    assert_eq!(image(&parts[1]), &expected);
    let page = part("a.pdf", b"%PDF-1.7\n");
    assert_eq!(page.mime().unwrap().as_str(), FileType::Pdf.as_str());
}
