//! What a durable step costs in a store, as a step alone and within whole turns of the engine, and whether it stays the same
//! when much is stored.
//!
//! `turnbuckle-bench-stores ADDRESS [--quick] [--only fill,flat,steps,turns]`: `sqlite:FOLDER` or `postgres://...`, where
//! schemas `bench_*` are made and dropped. Prints a JSON line per measurement, with times in milliseconds.
//!
//! | module | holds |
//! |---|---|
//! | `place` | two stores of a kind, one empty and one full |
//! | `fill` | what the full one is filled with |
//! | `steps` | steps through the store alone |
//! | `turns` | steps within turns of the engine |
//! | `flat` | the full store against the empty one |
//! | `took` | quantiles |

mod fill;
mod flat;
mod place;
mod steps;
mod took;
mod turns;

use place::Place;
use serde_json::Value;
use turnbuckle_bench::Error;

/// How much is done.
pub struct Extent {
    /// Sessions in the full store.
    pub sessions: usize,
    /// The tenants whose they are.
    pub tenants: usize,
    /// How long a measurement of steps lasts.
    pub seconds: u64,
    /// Tool rounds of the turns that come at their own pace.
    pub rounds: usize,
    /// Pairs of batches that are compared.
    pub pairs: usize,
}

const WHOLE: Extent =
    Extent { sessions: 100_000, tenants: 1_000, seconds: 15, rounds: 4, pairs: 20 };
const QUICK: Extent = Extent { sessions: 20_000, tenants: 1_000, seconds: 5, rounds: 2, pairs: 8 };

/// Turns that are under way at once.
const TURNS: usize = 1_000;
/// Steps a second of all of them together, when each comes at its own moment.
const RATE: usize = 300;

fn say(what: &str, store: &str, mut row: Value) {
    if let Some(row) = row.as_object_mut() {
        row.insert("what".to_owned(), what.into());
        row.insert("store".to_owned(), store.into());
    }
    println!("{row}");
}

async fn measure(place: &Place, extent: &Extent, only: &[String]) -> Result<(), Error> {
    let (name, wanted) = (place.name(), |what: &str| only.iter().any(|one| one == what));
    if wanted("fill") {
        say("filled", name, fill::run(place, extent).await?);
    }
    let pair = place.open().await?;
    let (empty, full) = (&pair.empty, &pair.full);
    if wanted("flat") {
        say("flat", name, flat::run(empty, full, extent.pairs).await?);
    }
    if wanted("steps") {
        let writers = steps::open(full, TURNS).await?;
        let (row, writers) = steps::paced(full, writers, RATE, extent.seconds).await?;
        say("steps-paced", name, row);
        say("steps-ceiling", name, steps::ceiling(full, writers, extent.seconds).await?);
    }
    if wanted("turns") {
        say("turns-paced", name, turns::paced(full, RATE, extent.rounds).await?);
        say("turns-ceiling", name, turns::ceiling(full).await?);
    }
    Ok(())
}

async fn run(place: Place, extent: Extent, only: Vec<String>) -> Result<(), Error> {
    place.clear().await?;
    let measured = measure(&place, &extent, &only).await;
    place.clear().await?;
    measured
}

fn main() -> Result<(), Error> {
    let (mut place, mut extent, mut only) = (None, WHOLE, "fill,flat,steps,turns".to_owned());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => extent = QUICK,
            "--only" => only = args.next().ok_or("--only lacks its value")?,
            address => place = Some(Place::at(address)?),
        }
    }
    let place = place.ok_or("the address of a store is missing")?;
    let only = only.split(',').map(str::to_owned).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move { tokio::spawn(run(place, extent, only)).await })?
}
