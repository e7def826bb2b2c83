//! Turns to write in other protocols: golden streams of the core.

use super::track::Track;
use crate::dto::TurnEnd;
use crate::live::{Dialect, Flow, Frames, Place, Reader, Told, Until, Wishes, begin, outcome_of};
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use turnbuckle_bus::{Bus, MemoryBus};
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::fold::TurnFold;
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::{MemoryStore, NewSession, SessionKey, Store};

/// A turn as it was streamed, and as it was stored.
#[derive(Clone, Deserialize)]
pub(crate) struct Golden {
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) events: Vec<Event>,
    pub(crate) stored: TurnFold,
}

/// All golden turns.
pub(crate) fn golden() -> Vec<Golden> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../web/test/fixtures/turns");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: &PathBuf| {
        let mut golden: Golden =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        golden.name = path.file_stem().unwrap().to_string_lossy().into_owned();
        golden
    };
    files.iter().map(read).collect()
}

/// What a dialect writes of events. A pause in the middle was answered already; one at the end was not.
pub(crate) fn play(dialect: &mut dyn Dialect, events: &[Event]) -> Vec<Value> {
    let mut frames = Frames::default();
    dialect.begin(&mut frames);
    for (i, event) in events.iter().enumerate() {
        let last = i + 1 == events.len();
        let flow = dialect.event(Place::stored(event.seq), &Told::stored(event), &mut frames);
        assert_eq!(flow, Flow::On);
        if let Some(outcome) = outcome_of(&event.kind) {
            let (turn, seq) = (event.turn.clone(), event.seq);
            let idle = last || outcome != Outcome::Paused;
            dialect.turn_end(&TurnEnd { turn, outcome, seq, idle }, &mut frames);
        }
    }
    read(&mut frames)
}

/// What a dialect writes when its turn never comes.
pub(crate) async fn without_its_turn(dialect: Box<dyn Dialect>) -> Vec<Value> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let key = SessionKey::new("acme", "s_1");
    let new = NewSession {
        key: key.clone(),
        user: "ada".into(),
        agent: "main".into(),
        title: None,
        model: None,
        state: None,
        now: Timestamp::from_millis(0),
    };
    store.create_session(new).await.unwrap();
    let watch = bus.watch(&key).await;
    let session = store.session(&key).await.unwrap();
    let follow = begin(&*store, &key, &session, Place::stored(0)).await.unwrap();
    let wishes = Wishes {
        until: Some(Until::Settled("t_never".into())),
        gather: Duration::ZERO,
        keep_alive: Duration::from_secs(60),
        longest: Duration::from_secs(3600),
    };
    let stop = CancellationToken::new();
    let mut reader = Reader::new(store, bus, watch, follow, wishes, dialect, stop);
    let mut bytes = Vec::new();
    while let Some(more) = reader.next().await {
        bytes.extend_from_slice(&more);
    }
    parse(std::str::from_utf8(&bytes).unwrap())
}

/// The data of frames.
pub(crate) fn read(frames: &mut Frames) -> Vec<Value> {
    parse(std::str::from_utf8(&frames.take(0)).unwrap())
}

fn parse(text: &str) -> Vec<Value> {
    let data = text.split("\n\n").filter(|frame| !frame.is_empty());
    let json = |frame: &str| {
        let data = frame.strip_prefix("data: ").unwrap();
        serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()))
    };
    data.map(json).collect()
}

/// The events of a turn whose owner dies after every text it streams: what it said then is taken back, and said anew.
pub(crate) fn with_deaths(events: &[Event]) -> Vec<Event> {
    let mut all = Vec::new();
    for event in events {
        if let EventKind::TextDelta { .. } | EventKind::ThinkingDelta { .. } = &event.kind {
            let mut void = event.clone();
            if let EventKind::TextDelta { text, .. } | EventKind::ThinkingDelta { text, .. } =
                &mut void.kind
            {
                *text = format!("{text} This was never so.");
            }
            all.push(void);
        }
        all.push(event.clone());
    }
    all
}

#[test]
fn what_is_taken_back_leaves_nothing_behind() {
    for golden in golden() {
        let mut track = Track::new(golden.events[0].turn.clone());
        for event in with_deaths(&golden.events) {
            // What was told before the last event is stored now and then.
            if event.seq % 3 == 0 {
                track.stored(event.seq - 1);
            }
            track.take(&event).unwrap();
        }
        assert_eq!(*track.messages(), golden.stored, "{}", golden.name);
    }
}
