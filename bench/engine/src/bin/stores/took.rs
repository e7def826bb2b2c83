//! How long many things took.

use serde_json::{Value, json};
use std::time::Duration;

/// The value below which `share` of them lie; in milliseconds.
pub fn quantile(took: &mut [Duration], share: f64) -> f64 {
    took.sort_unstable();
    let last = took.len().saturating_sub(1);
    took.get((last as f64 * share) as usize).map_or(f64::NAN, |t| t.as_secs_f64() * 1e3)
}

/// How many there were a second, and how long they took.
pub fn row(mut took: Vec<Duration>, wall: Duration) -> Value {
    json!({
        "count": took.len(),
        "per_second": took.len() as f64 / wall.as_secs_f64(),
        "ms_p50": quantile(&mut took, 0.5),
        "ms_p99": quantile(&mut took, 0.99),
        "ms_max": quantile(&mut took, 1.0),
    })
}
