//! Event streams of random turns with the messages they fold to, for readers in other languages.
//!
//! `TURNBUCKLE_WRITE_FIXTURES=1 cargo nextest run -p turnbuckle-core golden` writes them anew.

use crate::support::random::{Random, random_spec};
use crate::support::rng::Rng;
use crate::support::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use turnbuckle_core::event::Event;
use turnbuckle_core::fold::TurnFold;

/// Turns that are looked at.
const SEEDS: u64 = 300;
/// Longer turns show nothing that shorter ones do not, and would fill the repository.
const MOST_EVENTS: usize = 140;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../web/test/fixtures/turns")
}

fn turn(seed: u64) -> (Vec<Event>, TurnFold) {
    let mut rng = Rng::of(seed, "golden");
    let plan = Plan {
        order: Order::Random(seed),
        cancel_at: rng.percent(15).then(|| rng.below(40) as u32),
        steer_at: (0..rng.below(2)).map(|_| rng.below(30) as u32).collect(),
        crashes: (0..rng.below(3)).map(|_| 1 + rng.below(60) as u32).collect(),
        ..Plan::default()
    };
    let sim = play_with(random_spec(seed), Random::new(seed), plan);
    (sim.events, sim.turn.messages().clone())
}

/// What a reader must cope with: kinds of events, of parts, statuses, codes, nested messages, later epochs.
fn traits(events: &[Event], stored: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for event in events {
        let value = serde_json::to_value(event).unwrap();
        let kind = value["type"].as_str().unwrap();
        found.insert(format!("event {kind}"));
        found.insert(format!("{kind} epoch {}", event.epoch.min(1)));
        found.insert(format!("{kind} nested {}", event.agent.contains('/')));
    }
    note(stored, &mut found);
    found
}

fn note(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, item) in map {
                let named = ["type", "kind", "status", "state", "code", "finish"];
                if let (true, Some(text)) = (named.contains(&key.as_str()), item.as_str()) {
                    found.insert(format!("{key} {text}"));
                }
                if matches!(key.as_str(), "child" | "native" | "amendment" | "progress" | "cached")
                {
                    found.insert(format!("has {key}"));
                }
                note(item, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| note(item, found)),
        _ => {}
    }
}

/// The fewest turns, in order of their seeds, that show everything the first of them do.
fn golden() -> Vec<(String, Vec<Event>, Value)> {
    let mut seen = BTreeSet::new();
    let mut chosen = Vec::new();
    for seed in 0..SEEDS {
        let (events, stored) = turn(seed);
        let stored = serde_json::to_value(&stored).unwrap();
        let shows = traits(&events, &stored);
        if events.len() <= MOST_EVENTS && !shows.is_subset(&seen) {
            seen.extend(shows);
            chosen.push((format!("turn-{seed:03}.json"), events, stored));
        }
    }
    chosen
}

#[test]
fn golden_streams_are_what_turns_stream_today() {
    let folder = folder();
    let golden = golden();
    if std::env::var_os("TURNBUCKLE_WRITE_FIXTURES").is_some() {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, events, stored) in &golden {
            let mut text = "{\"events\": [\n".to_owned();
            for (i, event) in events.iter().enumerate() {
                let comma = if i + 1 < events.len() { "," } else { "" };
                writeln!(text, "{}{comma}", serde_json::to_string(event).unwrap()).unwrap();
            }
            writeln!(text, "],\n\"stored\": {stored}}}").unwrap();
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let names: Vec<String> = golden.iter().map(|(name, ..)| name.clone()).collect();
    assert_eq!(files, names, "write the fixtures anew: TURNBUCKLE_WRITE_FIXTURES=1");
    for (name, events, stored) in golden {
        let text = std::fs::read_to_string(folder.join(&name)).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({"events": events, "stored": stored});
        assert_eq!(file, expected, "{name}: write the fixtures anew: TURNBUCKLE_WRITE_FIXTURES=1");
    }
}
