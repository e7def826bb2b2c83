//! Readers that come and go, never read, or are very many; turns and readers in different processes.

use crate::support::{Database, Frame, Script, Settings, Site, Sse, allow_many_files, soon};
use reqwest::Method;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::Barrier;
use turnbuckle::core::event::Event;

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// The events that a reader has, word for word, as long as no owner dies: each comes once, in order and without a gap.
#[derive(Default)]
struct Reader {
    lines: Vec<String>,
    /// Where to go on.
    place: String,
}

impl Reader {
    fn take(&mut self, frame: &Frame) {
        if let Some(id) = &frame.id {
            self.place.clone_from(id);
        }
        if frame.is_event() {
            let event: Event = serde_json::from_str(&frame.data).unwrap();
            assert_eq!(event.seq, self.lines.len() as u64 + 1, "{}", frame.data);
            self.lines.push(frame.data.clone());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_reconnects_two_hundred_times_during_one_turn() {
    const CALLS: usize = 8;
    const EACH: usize = 25;
    let Some(database) = Database::postgres().await else { return };
    let site = Site::on(database).await;
    let (_replicas, clients) = site.replicas().await;
    let session = clients[0].session().await;
    let gates: Vec<String> = (0..CALLS * EACH).map(|n| format!("g{n}")).collect();
    let text = "what a model says when it has time and a reader who comes and goes as they like";
    let script = gates.chunks(EACH).enumerate().fold(Script::default(), |script, (n, gates)| {
        let id = format!("thing-{n}");
        script.say_behind(gates, text, Some(("look", &id)))
    });
    clients[0].submit(&session, &script.say("That was all.")).await;
    let mut dice = Dice(7);
    let mut reader = Reader { place: "0".into(), ..Reader::default() };
    for (n, gate) in gates.iter().enumerate() {
        let client = &clients[n % 2];
        let mut stream = client.watch(&session, &reader.place, None).await;
        site.model.gate(gate).open();
        // Something new comes on every connection; how much of it is read before it drops is chance.
        let before = reader.lines.len();
        while reader.lines.len() == before {
            reader.take(&stream.next().await.expect("a frame"));
        }
        for _ in 0..dice.roll(4) {
            match stream.next_within(Duration::from_millis(dice.roll(20))).await {
                Some(frame) => reader.take(&frame),
                None => break,
            }
        }
    }
    let mut stream = clients[1].watch(&session, &reader.place, Some("idle")).await;
    while let Some(frame) = stream.next().await {
        reader.take(&frame);
    }
    let stored = clients[0].at_rest(&session).await;
    assert_eq!(reader.lines, stored.lines);
    assert_eq!(stored.answer().calls().count(), CALLS);
    assert_eq!(site.world.begun().len(), CALLS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_never_reads_does_not_hold_the_turn_up() {
    const MUCH: usize = 1_500_000;
    let Some(database) = Database::postgres().await else { return };
    // A step of such a size takes its time, and is not what this is about.
    let settings = Settings { lease_ms: Some(30_000), ..Settings::default() };
    let site = Site::with(database, settings).await;
    let (owner, other) = (site.serve().await, site.serve().await);
    let client = site.client(&owner);
    let session = client.session().await;
    // Two connections on which the answer is asked for and nothing is read: far more comes than the buffers take.
    let mut asleep = Vec::new();
    for process in [&owner, &other] {
        let at = process.base.strip_prefix("http://").unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(8_192).unwrap();
        let mut stream = socket.connect(at.parse().unwrap()).await.unwrap();
        let request = format!(
            "GET /v1/sessions/{session}/events?after=0 HTTP/1.1\r\nhost: {at}\r\naccept: text/event-stream\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        asleep.push(stream);
    }
    client.submit(&session, &Script::default().say_much(MUCH)).await;
    let stored = client.at_rest(&session).await;
    assert_eq!(stored.answer().text().len(), MUCH);
    // Whoever wakes up late gets all of it, each event once, from the store.
    for mut stream in asleep {
        let mut text = Vec::new();
        let whole = async {
            let mut buffer = vec![0; 1 << 20];
            while !text.ends_with(b"turn-end\n") && !contains(&text, b"event: turn-end") {
                let n = stream.read(&mut buffer).await.unwrap();
                assert!(n > 0, "the stream ended early");
                text.extend_from_slice(&buffer[..n]);
            }
        };
        soon("the whole answer", whole).await;
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> =
            text.lines().filter_map(|l| l.strip_prefix("data: {\"seq\"")).collect();
        let known: Vec<&str> =
            stored.lines.iter().map(|l| l.strip_prefix("{\"seq\"").unwrap()).collect();
        assert_eq!(lines.len(), known.len());
    }
}

/// Whether the end of a text has a word in it.
fn contains(text: &[u8], word: &[u8]) -> bool {
    let from = text.len().saturating_sub(4_096);
    text[from..].windows(word.len()).any(|w| w == word)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_readers_of_a_hundred_turns_miss_nothing() {
    const TURNS: usize = 100;
    const READERS: usize = 10;
    let Some(database) = Database::postgres().await else { return };
    // Each reader is an open file, here and there.
    allow_many_files();
    let site = Site::on(database).await;
    let (_replicas, clients) = site.replicas().await;
    let mut sessions = Vec::new();
    for n in 0..TURNS {
        sessions.push(clients[n % 2].session().await);
    }
    // Everybody watches before anything happens.
    let all_there = Arc::new(Barrier::new(TURNS * READERS + 1));
    let mut readers = Vec::new();
    for session in &sessions {
        for n in 0..READERS {
            let path = format!("/v1/sessions/{session}/events?after=0");
            let request = clients[n % 2].request(Method::GET, &path);
            let all_there = all_there.clone();
            readers.push(tokio::spawn(async move {
                let mut stream = Sse::open(request).await.unwrap();
                all_there.wait().await;
                let mut reader = Reader::default();
                loop {
                    let frame = stream.next().await.expect("a frame");
                    if frame.event.as_deref() == Some("turn-end") {
                        return reader.lines;
                    }
                    reader.take(&frame);
                }
            }));
        }
    }
    soon("everybody watches", all_there.wait()).await;
    let gates: Vec<String> = (0..4).map(|n| format!("g{n}")).collect();
    for (n, session) in sessions.iter().enumerate() {
        let id = format!("thing-{n}");
        let script =
            Script::default().say_behind(&gates, "a word", Some(("look", &id))).say("Done.");
        clients[n % 2].submit(session, &script).await;
    }
    for gate in &gates {
        site.model.gate(gate).open();
    }
    let mut lists = Vec::new();
    for reader in readers {
        lists.push(soon("a reader has all", reader).await.unwrap());
    }
    for (session, lists) in sessions.iter().zip(lists.chunks(READERS)) {
        let stored = clients[0].at_rest(session).await;
        let different: BTreeSet<&Vec<String>> = lists.iter().collect();
        assert_eq!(different.into_iter().collect::<Vec<_>>(), [&stored.lines]);
    }
}
