//! What holds of every turn, whatever comes.

use crate::support::random::{Random, random_spec, wide};
use crate::support::rng::Rng;
use crate::support::*;
use proptest::prelude::*;
use turnbuckle_core::machine::{ExecuteMode, Input, Phase};
use turnbuckle_core::outcome::{AbortReason, Outcome};

/// A run with surprises from outside: steering, stops, faults, crashes, a clock that jumps.
fn wild_plan(seed: u64) -> Plan {
    let mut rng = Rng::of(seed, "plan");
    let at = |rng: &mut Rng| rng.below(60) as u32;
    Plan {
        order: if rng.percent(80) { Order::Random(seed) } else { Order::Oldest },
        cancel_at: rng.percent(20).then(|| at(&mut rng)),
        fault_at: rng.percent(5).then(|| at(&mut rng)),
        steer_at: (0..rng.below(3)).map(|_| at(&mut rng)).collect(),
        clock_jumps: rng.percent(30),
        ..Plan::default()
    }
}

/// So many cases; a multiple of it when the environment asks for a longer search.
fn cases(n: u32) -> ProptestConfig {
    let times = std::env::var("TURNBUCKLE_SEARCH").ok().and_then(|t| t.parse().ok()).unwrap_or(1);
    ProptestConfig { cases: n * times, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn every_turn_comes_to_rest_with_all_it_streamed_stored(seed in any::<u64>()) {
        check(&play_with(random_spec(seed), Random::new(seed), wild_plan(seed)));
    }

    #[test]
    fn a_turn_survives_any_number_of_crashes(seed in any::<u64>()) {
        let mut rng = Rng::of(seed, "crashes");
        let mut plan = wild_plan(seed);
        plan.crashes = (0..=rng.below(6)).map(|_| 1 + rng.below(200) as u32).collect();
        check(&play_with(random_spec(seed), Random::new(seed), plan));
    }
}

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn a_reloaded_turn_goes_on_as_if_nothing_had_happened(seed in any::<u64>()) {
        let plain = play_with(random_spec(seed), Random::new(seed), wild_plan(seed));
        let reloaded = play_with(
            random_spec(seed),
            Random::new(seed),
            Plan { reload: true, ..wild_plan(seed) },
        );
        assert_same(&plain.events, &reloaded.events, "events");
        assert_same(&plain.turn, &reloaded.turn, "turns");
    }

    #[test]
    fn a_crash_changes_nothing_but_times(seed in any::<u64>()) {
        let spec = wide(random_spec(seed));
        let calm = play(spec.clone(), Random::new(seed));
        let mut rng = Rng::of(seed, "crashes");
        let crashes = (0..=rng.below(4)).map(|_| 1 + rng.below(calm.tick as usize) as u32).collect();
        let shaken = play_with(spec, Random::new(seed), Plan { crashes, ..Plan::default() });
        check(&shaken);
        let unknown = shaken.runs.iter().any(|(_, mode)| *mode == ExecuteMode::Recover);
        if !unknown {
            assert_same(&timeless(&calm.turn), &timeless(&shaken.turn), "a crash changed the message");
        }
    }

    #[test]
    fn a_fault_at_any_moment_settles_everything(seed in any::<u64>(), at in 0_u32..60) {
        let plan = Plan { fault_at: Some(at), order: Order::Random(seed), ..Plan::default() };
        let sim = play_with(wide(random_spec(seed)), Random::new(seed), plan);
        check(&sim);
        if sim.journal.iter().any(|r| matches!(r.input, Input::Fault { .. })) {
            let failed = matches!(sim.turn.outcome(), Some(Outcome::Error { .. }));
            prop_assert!(failed, "{:?}", sim.turn.outcome());
        }
    }

    #[test]
    fn a_stop_at_any_moment_settles_everything(seed in any::<u64>(), at in 0_u32..40) {
        let plan = Plan { cancel_at: Some(at), order: Order::Random(seed), ..Plan::default() };
        let sim = play_with(wide(random_spec(seed)), Random::new(seed), plan);
        check(&sim);
        if sim.journal.iter().any(|r| matches!(r.input, Input::Cancel { .. })) {
            let outcome = Outcome::Aborted { reason: AbortReason::Stopped };
            assert_eq!(*sim.turn.phase(), Phase::Ended { outcome });
        }
    }
}
