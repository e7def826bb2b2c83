use super::*;
use proptest::prelude::*;
use turnbuckle_core::event::EventKind;
use turnbuckle_core::time::Timestamp;

fn event(seq: u64, turn: &str, epoch: u32) -> Event {
    Event {
        seq,
        epoch,
        at: Timestamp::default(),
        session: "s".into(),
        turn: turn.into(),
        agent: "main".into(),
        kind: EventKind::SessionTitleUpdated { title: format!("{turn} {epoch} {seq}") },
    }
}

#[test]
fn a_place_reads_back_as_it_is_written() {
    let marked = Place { seq: 57, mark: Some(Mark { epoch: 2, turn: "t_9.x".into() }) };
    for (place, text) in [(Place::stored(57), "57"), (marked, "57.2.t_9.x")] {
        assert_eq!(place.to_string(), text);
        assert_eq!(text.parse(), Ok(place));
    }
    for wrong in ["", "x", "-1", "57.", "57.0", "57.0.", "57.x.t", "99999999999999999999999"] {
        assert_eq!(wrong.parse::<Place>(), Err(NotAPlace), "{wrong}");
    }
}

#[test]
fn what_comes_twice_is_given_once() {
    let mut reader = Follow::new(Place::stored(4), 4);
    assert_eq!(reader.live(&event(5, "a", 0)), Take::Give);
    assert_eq!(reader.live(&event(5, "a", 0)), Take::Skip);
    assert_eq!(reader.live(&event(7, "a", 0)), Take::Gap);
    assert!(!reader.committed(5));
    assert!(reader.committed(7));
    assert_eq!(reader.stored(&event(6, "a", 0)), Take::Give);
    assert_eq!(reader.stored(&event(7, "a", 0)), Take::Give);
    assert_eq!(reader.live(&event(7, "a", 0)), Take::Skip);
    assert_eq!(reader.place(), Place::stored(7));
}

#[test]
fn a_successor_takes_back_what_its_predecessor_had_not_stored() {
    let mut reader = Follow::new(Place::stored(4), 4);
    for seq in 5..=8 {
        assert_eq!(reader.live(&event(seq, "a", 0)), Take::Give);
    }
    assert!(!reader.committed(5));
    assert_eq!(reader.place().to_string(), "8.0.a");
    assert_eq!(reader.live(&event(6, "a", 1)), Take::Give);
    assert_eq!(reader.place().to_string(), "6.1.a");
    // An owner whose beginning was missed: the store must be asked.
    assert_eq!(reader.live(&event(7, "a", 2)), Take::Doubt);
    // The dead owner was only slow.
    assert_eq!(reader.live(&event(6, "a", 0)), Take::Skip);
    assert_eq!(reader.live(&event(7, "a", 1)), Take::Give);
}

#[test]
fn the_store_corrects_a_reader_that_missed_the_change_of_owner() {
    let mut reader = Follow::new("8.0.a".parse().unwrap(), 5);
    assert!(!reader.committed(5));
    assert!(reader.committed(6), "that they are stored says nothing of those it has");
    assert_eq!(reader.stored(&event(6, "a", 0)), Take::Skip);
    assert_eq!(reader.stored(&event(7, "a", 1)), Take::Give);
    assert_eq!(reader.stored(&event(8, "b", 0)), Take::Give);
    assert_eq!(reader.place(), Place::stored(8));
}

#[test]
fn a_reader_that_says_only_a_number_is_believed() {
    let mut reader = Follow::new(Place::stored(8), 5);
    assert_eq!(reader.stored(&event(6, "a", 1)), Take::Skip);
    assert_eq!(reader.live(&event(8, "a", 1)), Take::Skip);
    assert_eq!(reader.live(&event(9, "a", 1)), Take::Give);
}

#[test]
fn the_last_valid_event_is_of_the_readers_own_epoch_or_before() {
    let stored =
        [event(3, "a", 0), event(4, "a", 1), event(5, "a", 2), event(6, "b", 0), event(7, "b", 0)];
    let mark = |epoch, turn: &str| Mark { epoch, turn: turn.into() };
    assert_eq!(last_valid(&mark(0, "a"), &stored), Some(3));
    assert_eq!(last_valid(&mark(1, "a"), &stored), Some(4));
    assert_eq!(last_valid(&mark(0, "b"), &stored), Some(7));
    assert_eq!(last_valid(&mark(0, "z"), &stored), None);
}

/// What happens to a session, and to what is told about it.
#[derive(Clone, Debug)]
enum Step {
    /// The owner streams events; each is told, unless it is lost.
    Stream { count: u8, lost: bool },
    /// The owner stores what it streamed, and tells, unless that is lost.
    Commit { lost: bool },
    /// The owner dies; another takes the turn up.
    Crash,
    /// The turn ends and another begins.
    NextTurn,
    /// The reader breaks off and comes back with its place, as it would over HTTP.
    Reconnect,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1u8..5, prop::bool::weighted(0.15)).prop_map(|(count, lost)| Step::Stream { count, lost }),
        3 => prop::bool::weighted(0.15).prop_map(|lost| Step::Commit { lost }),
        1 => Just(Step::Crash),
        1 => Just(Step::NextTurn),
        2 => Just(Step::Reconnect),
    ];
    prop::collection::vec(step, 1..60)
}

/// A reader over a lossy bus, with what it holds: an event given at a number takes the place of what it held from there on.
struct Reader {
    follow: Follow,
    holds: Vec<Event>,
    lagged: bool,
}

impl Reader {
    fn give(&mut self, event: &Event) {
        self.holds.truncate(event.seq as usize - 1);
        assert_eq!(self.holds.len() as u64, event.seq - 1, "a gap before {event:?}");
        self.holds.push(event.clone());
    }

    /// As the server does with an event that is told; `loose` is what the owner has not stored yet, this event included.
    fn hear(&mut self, event: &Event, store: &[Event], loose: &[Event]) {
        match self.follow.live(event) {
            Take::Give => return self.give(event),
            Take::Skip => return,
            Take::Gap => {}
            Take::Doubt => {
                self.catch_up(store);
                self.follow.forget();
            }
        }
        for again in loose {
            if self.follow.live(again) == Take::Give {
                self.give(again);
            }
        }
    }

    fn catch_up(&mut self, store: &[Event]) {
        for event in store.iter().skip(self.follow.sure() as usize) {
            match self.follow.stored(event) {
                Take::Give => self.give(event),
                Take::Skip => {}
                Take::Gap | Take::Doubt => panic!("the store has no gaps"),
            }
        }
    }

    /// As the server does with an `after`.
    fn reconnect(&mut self, store: &[Event]) {
        let place: Place = self.follow.place().to_string().parse().unwrap();
        let committed = store.len() as u64;
        let sure = match &place.mark {
            None => committed,
            Some(mark) => {
                last_valid(mark, &store[..committed.min(place.seq) as usize]).unwrap_or(0)
            }
        };
        self.follow = Follow::new(place, sure);
        self.lagged = false;
        self.catch_up(store);
    }
}

proptest! {
    #[test]
    fn whatever_is_lost_a_reader_ends_with_what_is_stored(steps in steps()) {
        let mut store: Vec<Event> = Vec::new();
        let mut loose: Vec<Event> = Vec::new();
        let (mut turn, mut epoch) = (0, 0);
        let mut reader =
            Reader { follow: Follow::new(Place::stored(0), 0), holds: Vec::new(), lagged: false };
        for step in steps {
            match step {
                Step::Stream { count, lost } => for _ in 0..count {
                    let seq = (store.len() + loose.len()) as u64 + 1;
                    let event = event(seq, &format!("t{turn}"), epoch);
                    loose.push(event.clone());
                    if lost {
                        reader.lagged = true;
                    } else {
                        reader.hear(&event, &store, &loose);
                    }
                },
                Step::Commit { lost } => {
                    store.append(&mut loose);
                    if lost {
                        reader.lagged = true;
                    } else if std::mem::take(&mut reader.lagged)
                        || reader.follow.committed(store.len() as u64) {
                        reader.catch_up(&store);
                    }
                }
                // A turn is stored when it opens, before anything of it is told.
                Step::Crash if store.last().is_none_or(|e| *e.turn.as_str() != *format!("t{turn}")) => {}
                Step::Crash => {
                    loose.clear();
                    epoch += 1;
                }
                Step::NextTurn => {
                    // A turn ends with an event.
                    let seq = (store.len() + loose.len()) as u64 + 1;
                    let end = event(seq, &format!("t{turn}"), epoch);
                    loose.push(end.clone());
                    reader.hear(&end, &store, &loose);
                    store.append(&mut loose);
                    turn += 1;
                    epoch = 0;
                    if std::mem::take(&mut reader.lagged)
                        || reader.follow.committed(store.len() as u64) {
                        reader.catch_up(&store);
                    }
                }
                Step::Reconnect => {
                    reader.reconnect(&store);
                }
            }
        }
        // In the end the owner says something that reaches the reader, as it does at the end of every turn.
        let last = event((store.len() + loose.len()) as u64 + 1, &format!("t{turn}"), epoch);
        loose.push(last.clone());
        reader.hear(&last, &store, &loose);
        store.append(&mut loose);
        if reader.lagged || reader.follow.committed(store.len() as u64) {
            reader.catch_up(&store);
        }
        prop_assert_eq!(&reader.holds, &store);
    }
}
