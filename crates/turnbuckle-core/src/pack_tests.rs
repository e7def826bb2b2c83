use super::*;
use proptest::prelude::*;

/// What an event is of, out of few of each, so that neighbours often continue each other.
#[derive(Clone, Debug)]
struct Sort {
    kind: u8,
    epoch: u32,
    turn: u8,
    agent: u8,
    message: u8,
    part: u32,
    iteration: u32,
    text: String,
    /// Milliseconds since the event before.
    later: i64,
    /// Added to the offset at which the delta would continue.
    off: u32,
    /// Numbers left out before it.
    gap: u64,
}

fn mostly<T: Clone + std::fmt::Debug + 'static>(
    usual: T,
    other: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<T> {
    prop_oneof![9 => Just(usual), 1 => other].boxed()
}

fn sort() -> impl Strategy<Value = Sort> {
    let place = (mostly(0u32, 0..3u32), mostly(0u8, 0..3u8), mostly(0u8, 0..3u8));
    let inside = (mostly(0u8, 0..3u8), mostly(0u32, 0..3u32), mostly(0u32, 0..3u32));
    let text = prop_oneof![4 => "[a-z ]{1,9}", 1 => "[äé→🙂]{0,3}"];
    let later = mostly(20i64, prop_oneof![Just(-5), Just(5_000_000_000)]);
    let odd = (later, mostly(0u32, 1..9u32), mostly(0u64, 1..5u64));
    (mostly(0u8, 0..5u8), place, inside, text, odd).prop_map(
        |(kind, (epoch, turn, agent), (message, part, iteration), text, (later, off, gap))| Sort {
            kind,
            epoch,
            turn,
            agent,
            message,
            part,
            iteration,
            text,
            later,
            off,
            gap,
        },
    )
}

fn events(sorts: Vec<Sort>) -> Vec<Event> {
    let (mut seq, mut at, mut end) = (0, 1_000, 0);
    let event = |sort: Sort| {
        seq += 1 + sort.gap;
        at += sort.later;
        let Sort { kind, part, iteration, text, .. } = sort;
        let (message, offset) = (MessageId::from(format!("m{}", sort.message)), end + sort.off);
        let bytes = text.len() as u32;
        let call = CallId::from(format!("c{}", sort.message));
        let kind = match kind {
            0 | 1 => EventKind::TextDelta { message, part, offset, iteration, text },
            2 => EventKind::ThinkingDelta { message, part, offset, iteration, text },
            3 => EventKind::ToolCallArgsDelta { message, part, call, offset, text },
            _ => EventKind::TextReplaced { message, part, text },
        };
        end = offset + bytes;
        Event {
            seq,
            epoch: sort.epoch,
            at: Timestamp::from_millis(at),
            session: "s".into(),
            turn: format!("t{}", sort.turn).into(),
            agent: format!("a{}", sort.agent).into(),
            kind,
        }
    };
    sorts.into_iter().map(event).collect()
}

fn steady(count: usize) -> Vec<Event> {
    let sort = Sort {
        kind: 0,
        epoch: 0,
        turn: 0,
        agent: 0,
        message: 0,
        part: 0,
        iteration: 0,
        text: "word after word".into(),
        later: 40,
        off: 0,
        gap: 0,
    };
    events(vec![sort; count])
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_put_in(sorts in prop::collection::vec(sort(), 0..60)) {
        let events = events(sorts);
        let packed: Packed = events.iter().cloned().collect();
        prop_assert_eq!(packed.len(), events.len());
        prop_assert_eq!(packed.last_seq(), events.last().map(|event| event.seq));
        prop_assert_eq!(packed.iter().collect::<Vec<_>>(), events.clone());
        let mut pushed = Packed::default();
        for event in &events {
            pushed.push(event);
            pushed.shrink();
        }
        prop_assert_eq!(pushed.iter().collect::<Vec<_>>(), events.clone());
        for turn in ["t0", "t1", "t2"].map(TurnId::from) {
            let first = events.iter().find(|event| event.turn == turn).map(|event| event.seq);
            prop_assert_eq!(packed.first_of(&turn), first);
        }
    }

    #[test]
    fn what_is_put_together_reads_alike(
        sorts in prop::collection::vec(sort(), 0..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let events = events(sorts);
        let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(events.len() + 1)).collect();
        places.extend([0, events.len()]);
        places.sort_unstable();
        let mut packed = Packed::default();
        for place in places.windows(2) {
            packed.append(events[place[0]..place[1]].iter().cloned().collect());
        }
        prop_assert_eq!(packed.len(), events.len());
        prop_assert_eq!(packed.iter().collect::<Vec<_>>(), events.clone());
        prop_assert_eq!(
            serde_json::to_value(&packed).unwrap(),
            serde_json::to_value(&events).unwrap()
        );
        let seqs: Vec<_> = events.iter().map(|event| event.seq).collect();
        prop_assert_eq!(packed.seqs().collect::<Vec<_>>(), seqs);
        let of = |w: Whole<'_>| (w.turn.clone(), w.at, w.kind.clone());
        let wholes = events.iter().filter(|e| matches!(e.kind, EventKind::TextReplaced { .. }));
        let wholes: Vec<_> = wholes.map(|e| of(e.into())).collect();
        prop_assert_eq!(packed.wholes().map(of).collect::<Vec<_>>(), wholes);
        // As close as what was packed at once, or nearly so: time may run on where a run was cut.
        let at_once: Packed = events.into_iter().collect();
        prop_assert!(packed.entries.len() <= at_once.entries.len() + places.len());
    }

    #[test]
    fn a_reader_goes_on_behind_any_number(
        sorts in prop::collection::vec(sort(), 0..40),
        seq in 0..60u64,
    ) {
        let events = events(sorts);
        let later: Vec<_> = events.iter().filter(|event| event.seq > seq).cloned().collect();
        let mut packed: Packed = events.into_iter().collect();
        prop_assert_eq!(packed.after(seq).collect::<Vec<_>>(), later.clone());
        packed.drop_through(seq);
        prop_assert_eq!(packed.len(), later.len());
        prop_assert_eq!(packed.iter().collect::<Vec<_>>(), later);
    }
}

#[test]
fn what_continues_across_a_seam_lies_as_close_as_within() {
    let mut events = steady(100);
    let behind = events.split_off(40);
    let mut packed: Packed = events.into_iter().collect();
    packed.append(behind.into_iter().collect());
    assert_eq!(packed.entries.len(), 1);
    assert_eq!(packed.iter().collect::<Vec<_>>(), steady(100));
}

#[test]
fn a_delta_that_continues_another_takes_its_text_and_eight_bytes() {
    let packed: Packed = steady(1000).into_iter().collect();
    let [Entry::Run(run)] = packed.entries.as_slice() else { panic!("{packed:?}") };
    assert_eq!((run.pieces.len(), run.text.len()), (1000, 15_000));
    assert_eq!(size_of::<Piece>(), 8);
    assert!(run.pieces.capacity() <= 1250 && run.text.capacity() <= 19_000);
}
