//! When calls leave: after a refusal, under a limit that is known or stated, in which order. The clock stands still unless
//! everybody waits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use turnbuckle_models::endpoint::{LONGEST_HOLD, Pace, Stated, UNSAID_HOLD};
use turnbuckle_testkit::Quota;

const SECOND: Duration = Duration::from_secs(1);

/// Calls until it is accepted, as the retries of a turn do; gives the number of refusals.
async fn insist(pace: &Pace, quota: &Quota, who: &str, latency: Duration) -> usize {
    let mut refusals = 0;
    loop {
        let leave = pace.enter().await.unwrap();
        match quota.admit(who) {
            Ok(()) => {
                tokio::time::sleep(latency).await;
                pace.accepted(leave, None);
                return refusals;
            }
            Err(_) => {
                tokio::time::sleep(latency / 10).await;
                pace.refused(leave, Some(quota.rest()));
                refusals += 1;
            }
        }
    }
}

async fn storm(pace: Arc<Pace>, quota: &Quota, callers: usize, latency: Duration) -> Vec<usize> {
    let mut calls = JoinSet::new();
    for caller in 0..callers {
        let (pace, quota) = (pace.clone(), quota.clone());
        calls.spawn(async move { insist(&pace, &quota, &caller.to_string(), latency).await });
    }
    calls.join_all().await
}

/// Whatever the limit and however slow the answers: only what was in flight at the first refusal is too much.
#[tokio::test(start_paused = true)]
async fn after_the_first_refusal_no_window_sees_more_than_the_limit() {
    for (allowed, window, callers) in
        [(1, 1, 50), (5, 1, 200), (20, 1, 200), (20, 7, 150), (60, 60, 200)]
    {
        for latency in [0, 40, 900] {
            let case = format!("{allowed} in {window} s, answers after {latency} ms");
            let quota = Quota::new(allowed, SECOND * window);
            let pace = Arc::new(Pace::new(None));
            let begin = Instant::now();
            let refusals = storm(pace, &quota, callers, Duration::from_millis(latency)).await;
            let arrivals = quota.arrivals();
            assert_eq!(arrivals.iter().filter(|a| !a.refused).count(), callers, "{case}");
            let first = arrivals.iter().find(|a| a.refused).unwrap().at;
            assert!(quota.busiest(first + Duration::from_millis(100)) <= allowed, "{case}");
            assert_eq!(refusals.iter().max(), Some(&1), "{case}");
            // Nor does it take much longer than the limit demands.
            let least = SECOND.as_secs_f64() * f64::from(window) * callers as f64 / allowed as f64;
            let took = begin.elapsed().as_secs_f64();
            assert!(took < least * 1.25 + 3.0 * f64::from(window), "{case}: {took} s of {least} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_configured_limit_is_never_exceeded() {
    for per_minute in [1_u32, 7, 60, 600] {
        let quota = Quota::new(per_minute as usize, SECOND * 60);
        let pace = Arc::new(Pace::new(NonZeroU32::new(per_minute)));
        let begin = Instant::now();
        let refusals = storm(pace, &quota, per_minute as usize * 5, Duration::ZERO).await;
        assert!(refusals.iter().all(|n| *n == 0), "{per_minute} per minute");
        assert!(quota.busiest(begin) <= per_minute as usize, "{per_minute} per minute");
        assert!(begin.elapsed() < SECOND * 60 * 6, "{per_minute}: {:?}", begin.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_let_go_in_order_and_who_gives_up_leaves_no_gap() {
    let pace = Arc::new(Pace::new(None));
    pace.refused(pace.enter().await.unwrap(), Some(SECOND));
    let left = Arc::new(Mutex::new(Vec::new()));
    let mut calls = Vec::new();
    for caller in 0..9 {
        let (pace, left) = (pace.clone(), left.clone());
        calls.push(tokio::spawn(async move {
            pace.enter().await.unwrap();
            left.lock().unwrap().push(caller);
        }));
        tokio::task::yield_now().await;
    }
    // The one at the head of the line, one in the middle, and the last.
    for caller in [0, 4, 8] {
        calls[caller].abort();
    }
    let begin = Instant::now();
    for call in calls {
        let _ = call.await;
    }
    assert_eq!(*left.lock().unwrap(), [1, 2, 3, 5, 6, 7]);
    // Nothing was accepted before, so one call per second; five intervals of it.
    assert!(begin.elapsed() < SECOND * 7, "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_a_word_from_the_provider_nothing_waits() {
    let pace = Pace::new(None);
    let begin = Instant::now();
    for _ in 0..1_000 {
        let leave = pace.enter().await.unwrap();
        pace.accepted(leave, Some(Stated { limit: 500, remaining: 51, reset: SECOND * 50 }));
    }
    assert_eq!((begin.elapsed(), pace.held()), (Duration::ZERO, None));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_without_a_delay_holds_for_a_moment() {
    let pace = Pace::new(None);
    pace.refused(pace.enter().await.unwrap(), None);
    assert!(pace.held().unwrap() >= UNSAID_HOLD);
    let begin = Instant::now();
    pace.enter().await.unwrap();
    assert!(begin.elapsed() >= UNSAID_HOLD && begin.elapsed() < UNSAID_HOLD * 2);
    assert_eq!(pace.held(), None);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_too_long_fails_at_once_and_ends_in_time() {
    let pace = Pace::new(None);
    let asked = LONGEST_HOLD * 3;
    pace.refused(pace.enter().await.unwrap(), Some(asked));
    let begin = Instant::now();
    assert!(pace.enter().await.unwrap_err() >= asked);
    assert_eq!(begin.elapsed(), Duration::ZERO);
    tokio::time::advance(asked + asked / 10).await;
    pace.enter().await.unwrap();
    pace.enter().await.unwrap();
    assert_eq!(begin.elapsed(), asked + asked / 10, "such a hold says nothing about the rate");
}

/// A limit that fills up bit by bit, as OpenAI, Groq and Anthropic describe theirs, and state in every answer.
#[tokio::test(start_paused = true)]
async fn a_stated_limit_is_kept_without_a_single_refusal() {
    let (limit, per_second) = (50.0, 2.0);
    let pace = Pace::new(None);
    let (mut left, mut last) = (limit, Instant::now());
    let begin = Instant::now();
    for call in 0..300 {
        let leave = pace.enter().await.unwrap();
        let elapsed = last.elapsed().as_secs_f64();
        left = f64::min(limit, left + elapsed * per_second);
        last = Instant::now();
        assert!(left >= 1.0, "call {call} was over the limit");
        left -= 1.0;
        let reset = Duration::from_secs_f64((limit - left) / per_second);
        let stated = Stated { limit: limit as u64, remaining: left as u64, reset };
        pace.accepted(leave, Some(stated));
    }
    // 300 calls: 50 at once, the others at two per second.
    let took = begin.elapsed().as_secs_f64();
    assert!((125.0..150.0).contains(&took), "{took} s");
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_nobody_meets_again_is_forgotten() {
    let pace = Pace::new(None);
    pace.refused(pace.enter().await.unwrap(), Some(SECOND));
    tokio::time::advance(SECOND * 90).await;
    let begin = Instant::now();
    for _ in 0..50 {
        pace.enter().await.unwrap();
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_was_too_low_is_raised_and_one_that_is_too_high_lowered() {
    let pace = Pace::new(None);
    // One call per ten seconds, as far as can be told.
    pace.refused(pace.enter().await.unwrap(), Some(SECOND * 10));
    let mut left = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < SECOND * 600 {
        let leave = pace.enter().await.unwrap();
        pace.accepted(leave, None);
        left.push(begin.elapsed());
    }
    let gap = |at: usize| (left[at + 1] - left[at]).as_secs_f64();
    assert!(gap(0) >= 10.0 && gap(left.len() - 2) < 2.0, "{} then {}", gap(0), gap(left.len() - 2));
    // Refused once more, it goes back to what was let through before, and stays there.
    let fast = gap(left.len() - 2);
    pace.refused(pace.enter().await.unwrap(), Some(SECOND));
    pace.enter().await.unwrap();
    let begin = Instant::now();
    while begin.elapsed() < SECOND * 300 {
        let before = Instant::now();
        pace.accepted(pace.enter().await.unwrap(), None);
        assert!(before.elapsed().as_secs_f64() > fast, "{:?}", before.elapsed());
    }
}
