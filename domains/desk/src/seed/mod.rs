//! A desk to work on: Bramling, an invented maker of home espresso gear, its people, customers,
//! orders, mail and knowledge. The same seed and present give the same rows, byte for byte; all of
//! it is written in one transaction, once.

mod articles;
mod mail;
mod people;
mod rng;
mod scenarios;
mod trade;
mod work;

use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::desk::{Clock, Desk};
use crate::error::Result;

/// How a new desk is filled.
#[derive(Debug, Clone)]
pub struct SeedOptions {
    /// Where all variety comes from.
    pub seed: u64,
    /// The moment all dates lead up to; the clock's present unless told.
    pub now: Option<Timestamp>,
    /// Where the desk takes the present from while it runs.
    pub clock: Clock,
    /// How many threads.
    pub threads: usize,
    /// How many companies.
    pub companies: usize,
    /// How many contacts.
    pub contacts: usize,
    /// How many orders.
    pub orders: usize,
}

impl Default for SeedOptions {
    fn default() -> Self {
        Self {
            seed: 20_260_117,
            now: None,
            clock: Clock::System,
            threads: 460,
            companies: 64,
            contacts: 340,
            orders: 580,
        }
    }
}

impl SeedOptions {
    /// A desk that stands still at a moment.
    pub fn at(now: Timestamp) -> Self {
        Self { now: Some(now), clock: Clock::Fixed(now), ..Self::default() }
    }
}

/// Fills the desk unless it was filled before.
pub(crate) async fn fill(desk: &Desk, options: &SeedOptions) -> Result<()> {
    // The write lock is taken before looking, so that two processes starting at once fill it once.
    let mut tx = desk.write().await?;
    let filled: Option<String> =
        sqlx::query_scalar("SELECT value FROM meta WHERE key = 'seeded_at'")
            .fetch_optional(&mut *tx)
            .await?;
    if filled.is_some() {
        return Ok(());
    }
    let now = options.now.unwrap_or_else(|| desk.now());
    write(&mut tx, options, now.as_second()).await?;
    sqlx::query("INSERT INTO meta (key, value) VALUES ('seeded_at', ?), ('seed', ?)")
        .bind(now.to_string())
        .bind(options.seed.to_string())
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(())
}

async fn write(conn: &mut SqliteConnection, options: &SeedOptions, now: i64) -> Result<()> {
    let staff = people::write_staff(conn, now).await?;
    let customers = trade::write_customers(conn, options, now).await?;
    let orders = trade::write_orders(conn, options, &customers, &staff, now).await?;
    let threads = mail::write_threads(conn, options, &staff, &customers, &orders, now).await?;
    work::write_drafts(conn, options.seed, &staff, &threads, now).await?;
    work::write_tasks(conn, options.seed, &staff, &threads, &orders, now).await?;
    work::write_notes(conn, options.seed, &staff, &customers, &threads, &orders, now).await?;
    articles::write(conn, options.seed, now).await
}

/// Seconds of a minute, an hour and a day.
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Puts values in for `{names}` in a text.
fn put(text: &str, values: &[(&str, &str)]) -> String {
    values
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// A name in the letters of an address.
fn plain(name: &str) -> String {
    name.to_lowercase()
        .chars()
        .filter_map(|letter| match letter {
            'á' | 'à' | 'ä' | 'â' => Some('a'),
            'é' | 'è' | 'ë' | 'ê' => Some('e'),
            'í' | 'ï' => Some('i'),
            'ó' | 'ö' | 'ø' => Some('o'),
            'ú' | 'ü' => Some('u'),
            'ñ' => Some('n'),
            'ł' => Some('l'),
            'ş' => Some('s'),
            ' ' => Some('.'),
            letter if letter.is_ascii_alphanumeric() || letter == '-' || letter == '.' => {
                Some(letter)
            }
            _ => None,
        })
        .collect()
}
