//! How what happens is gathered into writes, on a clock that moves only when everything waits.

use super::*;
use crate::config::StreamOptions;
use crate::live::{Native, Place, begin};
use turnbuckle_bus::MemoryBus;
use turnbuckle_core::time::Timestamp;
use turnbuckle_store::{MemoryStore, NewSession};

/// A session whose events happen as the test says, and its reader.
struct Scene {
    bus: Arc<dyn Bus>,
    key: SessionKey,
    reader: Reader,
}

/// Timers have a grain.
const GRAIN: Duration = Duration::from_millis(1);

impl Scene {
    async fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
        let key = SessionKey::new("acme", "s");
        let new = NewSession {
            key: key.clone(),
            user: "ada".into(),
            agent: "main".into(),
            title: None,
            model: None,
            state: None,
            now: Timestamp::default(),
        };
        let session = store.create_session(new).await.unwrap();
        let watch = bus.watch(&key).await;
        let follow = begin(&*store, &key, &session, Place::stored(0)).await.unwrap();
        let StreamOptions { gather, keep_alive, longest } = StreamOptions::default();
        let wishes = Wishes { until: None, gather, keep_alive, longest };
        let stop = CancellationToken::new();
        let reader = Reader::new(store, bus.clone(), watch, follow, wishes, Box::new(Native), stop);
        let mut scene = Self { bus, key, reader };
        assert_eq!(scene.next().await, ["retry: 1000"]);
        scene
    }

    /// Events happen.
    fn tell(&self, events: std::ops::RangeInclusive<u64>) {
        tell(&*self.bus, &self.key, events, "");
    }

    /// An event happens after a while.
    fn tell_in(&self, wait: Duration, seq: u64) {
        let (bus, key) = (self.bus.clone(), self.key.clone());
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            tell(&*bus, &key, seq..=seq, "");
        });
    }

    /// The places of the next write.
    async fn next(&mut self) -> Vec<String> {
        let bytes = self.reader.next().await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let heads = text.split("\n\n").filter(|frame| !frame.is_empty());
        heads.map(|frame| frame.lines().next().unwrap().to_owned()).collect()
    }
}

fn tell(bus: &dyn Bus, key: &SessionKey, events: std::ops::RangeInclusive<u64>, more: &str) {
    for seq in events {
        let event = Event {
            seq,
            epoch: 0,
            at: Timestamp::default(),
            session: key.id.clone(),
            turn: "t".into(),
            agent: "main".into(),
            kind: EventKind::AgentStarted { name: format!("main{more}").as_str().into() },
        };
        bus.publish(key, Notice::Events(Arc::new(event.into())));
    }
}

fn places(events: std::ops::RangeInclusive<u64>) -> Vec<String> {
    events.map(|seq| format!("id: {seq}.0.t")).collect()
}

/// Long enough to be one write and short enough not to be seen.
#[test]
fn the_usual_time_is_short() {
    let gather = StreamOptions::default().gather;
    assert!((Duration::from_millis(15)..=Duration::from_millis(50)).contains(&gather));
}

#[tokio::test(start_paused = true)]
async fn the_first_event_is_written_at_once_and_what_follows_together() {
    let mut scene = Scene::new().await;
    let gather = scene.reader.wishes.gather;
    tokio::time::advance(gather).await;

    let quiet = Instant::now();
    scene.tell(1..=1);
    assert_eq!(scene.next().await, places(1..=1));
    assert_eq!(quiet.elapsed(), Duration::ZERO);

    // Within the time since the last write: together, and no later than it ends.
    scene.tell(2..=3);
    scene.tell_in(gather / 2, 4);
    scene.tell_in(gather - GRAIN, 5);
    scene.tell_in(gather + 2 * GRAIN, 6);
    assert_eq!(scene.next().await, places(2..=5));
    let took = quiet.elapsed();
    assert!((gather..=gather + GRAIN).contains(&took), "{took:?}");

    // The next one waits anew, from that write on.
    let written = Instant::now();
    assert_eq!(scene.next().await, places(6..=6));
    let took = written.elapsed();
    assert!((gather..=gather + GRAIN).contains(&took), "{took:?}");

    // After as much silence nothing waits.
    scene.tell_in(4 * gather, 7);
    let written = Instant::now();
    assert_eq!(scene.next().await, places(7..=7));
    let took = written.elapsed();
    assert!((4 * gather..=4 * gather + GRAIN).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn much_is_written_without_waiting_for_more() {
    let mut scene = Scene::new().await;
    let written = Instant::now();
    tell(&*scene.bus, &scene.key, 1..=2, &"x".repeat(ENOUGH / 2));
    tell(&*scene.bus, &scene.key, 3..=3, "");
    assert_eq!(scene.next().await, places(1..=2));
    assert_eq!(written.elapsed(), Duration::ZERO);
    assert_eq!(scene.next().await, places(3..=3));
    let took = written.elapsed();
    let gather = scene.reader.wishes.gather;
    assert!((gather..=gather + GRAIN).contains(&took), "{took:?}");
}
