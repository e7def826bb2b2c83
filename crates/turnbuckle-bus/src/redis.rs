//! A bus over a stream of Redis, or of what speaks its protocol.
//!
//! A service has one stream, however many sessions it has. What was said lately is kept there, so that a connection that was
//! lost goes on where it ended, and nothing is missed. How much is kept is bounded by number and weight; when that was not
//! enough, or the stream is not the one it was, the last message of either side is not found any more, which is how a gap is
//! noticed.

use crate::error::Cause;
use crate::remote::{Carrier, Continuity};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult, cmd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// About so many bytes of messages are kept.
const KEPT: usize = 32 * 1024 * 1024;
/// However small they are, no more messages are kept.
const MOST: usize = 65_536;
/// So many messages are read at once. Fewer than are kept however large they are: only who reads this many can be so late that
/// something before them is gone.
const READ: usize = 64;
const _: () = assert!(READ < KEPT / Redis::MESSAGE);
/// How long a read waits for a message. Well below what the listener calls quiet, so that an empty answer comes before it asks.
const BLOCK: Duration = Duration::from_millis(500);
/// A stream nobody speaks to for so long is gone.
const FORGOTTEN: Duration = Duration::from_secs(60 * 60);

/// One stream of one server.
pub(crate) struct Redis {
    client: redis::Client,
    key: Arc<str>,
    said: Mark,
    heard: Mark,
}

/// The last message that was said or heard, from which the next connection goes on.
#[derive(Clone, Default)]
struct Mark(Arc<Mutex<Option<String>>>);

impl Mark {
    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, id: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(id);
    }
}

impl Redis {
    /// The stream of a channel.
    pub(crate) fn new(client: redis::Client, channel: &str) -> Self {
        let key = format!("{channel}:bus").into();
        Self { client, key, said: Mark::default(), heard: Mark::default() }
    }

    /// A connection without patience of its own: the listener and the speaker have theirs.
    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let config =
            AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }
}

fn cause(error: redis::RedisError) -> Cause {
    Arc::new(error)
}

/// A message as it is kept: its id, and names and values.
type Entry = (String, Vec<Vec<u8>>);

/// Whether a message is in the stream still. Then so is everything that was said after it, since the oldest goes first.
async fn holds(conn: &mut MultiplexedConnection, key: &str, id: &str) -> RedisResult<bool> {
    let found: Vec<Entry> = cmd("XRANGE").arg(key).arg(id).arg(id).query_async(conn).await?;
    Ok(!found.is_empty())
}

/// The last message of the stream; what precedes every message when there is none.
async fn newest(conn: &mut MultiplexedConnection, key: &str) -> RedisResult<String> {
    let mut last = cmd("XREVRANGE");
    last.arg(key).arg("+").arg("-").arg("COUNT").arg(1);
    let found: Vec<Entry> = last.query_async(conn).await?;
    Ok(found.into_iter().next().map_or_else(|| "0-0".to_owned(), |(id, _)| id))
}

/// A connection that adds to the stream.
pub(crate) struct Mouth {
    conn: MultiplexedConnection,
    key: Arc<str>,
    said: Mark,
    weight: Weight,
}

/// How many bytes a message had of late.
struct Weight(usize);

impl Weight {
    /// How many messages are kept once one of so many bytes is there.
    fn kept_with(&mut self, bytes: usize) -> usize {
        self.0 = (self.0 * 15 + bytes) / 16;
        (KEPT / self.0.max(1)).min(MOST)
    }
}

/// A connection that reads the stream.
pub(crate) struct Ear {
    conn: MultiplexedConnection,
    key: Arc<str>,
    heard: Mark,
}

impl Carrier for Redis {
    const NAME: &'static str = "Redis";
    /// Few events are larger, and many of these are kept.
    const MESSAGE: usize = 64 * 1024;
    type Mouth = Mouth;
    type Ear = Ear;

    async fn open_mouth(&self) -> Result<(Mouth, Continuity), Cause> {
        let mut conn = self.connect().await.map_err(cause)?;
        let continuity = match self.said.get() {
            // A server that took over may not have what the one before had confirmed.
            Some(id) => Continuity::when(holds(&mut conn, &self.key, &id).await.map_err(cause)?),
            None => Continuity::Whole,
        };
        let (key, said) = (Arc::clone(&self.key), self.said.clone());
        Ok((Mouth { conn, key, said, weight: Weight(1024) }, continuity))
    }

    async fn say(mouth: &mut Mouth, messages: Vec<String>) -> Result<Continuity, Cause> {
        // All of it or nothing: what is said again after a failure is not said in part before.
        let mut pipe = redis::pipe();
        pipe.atomic().cmd("EXISTS").arg(&*mouth.key);
        for message in messages {
            let kept = mouth.weight.kept_with(message.len());
            pipe.cmd("XADD").arg(&*mouth.key).arg("MAXLEN").arg("~").arg(kept);
            pipe.arg("*").arg("m").arg(message);
        }
        pipe.cmd("PEXPIRE").arg(&*mouth.key).arg(FORGOTTEN.as_millis() as u64).ignore();
        let answers: Vec<String> = pipe.query_async(&mut mouth.conn).await.map_err(cause)?;
        let was_there = answers.first().is_some_and(|exists| exists == "1");
        if let Some(id) = answers.into_iter().skip(1).last() {
            mouth.said.set(id);
        }
        // What the stream held before it was taken away, not everyone may have heard.
        Ok(Continuity::when(was_there))
    }

    async fn open_ear(&self) -> Result<(Ear, Continuity), Cause> {
        let mut conn = self.connect().await.map_err(cause)?;
        let continuity = match self.heard.get() {
            Some(id) => Continuity::when(holds(&mut conn, &self.key, &id).await.map_err(cause)?),
            None => Continuity::Gap,
        };
        if continuity == Continuity::Gap {
            self.heard.set(newest(&mut conn, &self.key).await.map_err(cause)?);
        }
        let (key, heard) = (Arc::clone(&self.key), self.heard.clone());
        Ok((Ear { conn, key, heard }, continuity))
    }

    async fn hear(ear: &mut Ear) -> Result<(Continuity, Vec<Vec<u8>>), Cause> {
        let from = ear.heard.get().unwrap_or_else(|| "0-0".to_owned());
        let mut read = cmd("XREAD");
        read.arg("COUNT").arg(READ).arg("BLOCK").arg(BLOCK.as_millis() as u64);
        read.arg("STREAMS").arg(&*ear.key).arg(&from);
        let answer: Option<Vec<(String, Vec<Entry>)>> =
            read.query_async(&mut ear.conn).await.map_err(cause)?;
        let entries: Vec<Entry> =
            answer.into_iter().flatten().flat_map(|(_key, entries)| entries).collect();
        let continuity = if entries.len() < READ {
            Continuity::Whole
        } else {
            Continuity::when(holds(&mut ear.conn, &ear.key, &from).await.map_err(cause)?)
        };
        // From here on nothing waits, so that what is dropped half-way is read once more.
        if let Some((id, _)) = entries.last() {
            ear.heard.set(id.clone());
        }
        let message = |(_id, fields): Entry| fields.into_iter().nth(1);
        Ok((continuity, entries.into_iter().filter_map(message).collect()))
    }

    async fn ask(ear: &mut Ear) -> Result<(), Cause> {
        cmd("PING").query_async::<String>(&mut ear.conn).await.map(drop).map_err(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    /// A stream of a test's own, when there is a server.
    async fn fresh(name: &str) -> Option<Redis> {
        const VARIABLE: &str = "TURNBUCKLE_TEST_REDIS";
        let url = std::env::var(VARIABLE).unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let client = redis::Client::open(url).unwrap();
        let redis = Redis::new(client, &format!("test_{now}_{}_{name}", std::process::id()));
        if let Err(error) = redis.connect().await {
            assert!(std::env::var_os("CI").is_none(), "no Redis ({error}); CI may not skip it");
            eprintln!("SKIPPED: there is no Redis ({error}); set {VARIABLE}");
            return None;
        }
        Some(redis)
    }

    impl Redis {
        async fn does(&self, name: &str, rest: &[&str]) -> i64 {
            let mut conn = self.connect().await.unwrap();
            cmd(name).arg(&*self.key).arg(rest).query_async(&mut conn).await.unwrap()
        }
    }

    async fn say(mouth: &mut Mouth, messages: &[&str]) -> Continuity {
        Redis::say(mouth, messages.iter().map(|m| (*m).to_owned()).collect()).await.unwrap()
    }

    async fn hear(ear: &mut Ear) -> (Continuity, Vec<String>) {
        let (continuity, messages) = Redis::hear(ear).await.unwrap();
        (continuity, messages.into_iter().map(|m| String::from_utf8(m).unwrap()).collect())
    }

    fn texts(messages: &[&str]) -> Vec<String> {
        messages.iter().map(|m| (*m).to_owned()).collect()
    }

    #[tokio::test]
    async fn a_new_connection_goes_on_where_the_last_one_ended() {
        let Some(redis) = fresh("goes_on").await else { return };
        let (mut mouth, _) = redis.open_mouth().await.unwrap();
        say(&mut mouth, &["before"]).await;
        let (mut ear, first) = redis.open_ear().await.unwrap();
        assert_eq!(first, Continuity::Gap, "nobody listened before");
        say(&mut mouth, &["a"]).await;
        assert_eq!(hear(&mut ear).await, (Continuity::Whole, texts(&["a"])));
        drop(ear);
        say(&mut mouth, &["b", "c"]).await;
        drop(mouth);
        let (mut mouth, again) = redis.open_mouth().await.unwrap();
        assert_eq!(again, Continuity::Whole);
        assert_eq!(say(&mut mouth, &["d"]).await, Continuity::Whole);
        let (mut ear, again) = redis.open_ear().await.unwrap();
        assert_eq!(again, Continuity::Whole);
        assert_eq!(hear(&mut ear).await, (Continuity::Whole, texts(&["b", "c", "d"])));
        assert_eq!(hear(&mut ear).await, (Continuity::Whole, texts(&[])), "and then it is quiet");
    }

    #[tokio::test]
    async fn what_was_trimmed_meanwhile_is_a_gap() {
        let Some(redis) = fresh("trimmed").await else { return };
        let (mut mouth, _) = redis.open_mouth().await.unwrap();
        let (mut ear, _) = redis.open_ear().await.unwrap();
        say(&mut mouth, &["a"]).await;
        assert_eq!(hear(&mut ear).await, (Continuity::Whole, texts(&["a"])));
        drop(ear);
        say(&mut mouth, &["b", "c"]).await;
        redis.does("XTRIM", &["MAXLEN", "1"]).await;
        let (mut ear, again) = redis.open_ear().await.unwrap();
        assert_eq!(again, Continuity::Gap);
        say(&mut mouth, &["d"]).await;
        assert_eq!(hear(&mut ear).await, (Continuity::Whole, texts(&["d"])));
    }

    #[tokio::test]
    async fn who_reads_too_late_hears_of_the_gap() {
        let Some(redis) = fresh("late").await else { return };
        let (mut mouth, _) = redis.open_mouth().await.unwrap();
        let (mut ear, _) = redis.open_ear().await.unwrap();
        say(&mut mouth, &["a"]).await;
        assert_eq!(hear(&mut ear).await, (Continuity::Whole, texts(&["a"])));
        let many = ["b"; READ + 1];
        say(&mut mouth, &many).await;
        let (continuity, messages) = hear(&mut ear).await;
        assert_eq!(
            (continuity, messages.len()),
            (Continuity::Whole, READ),
            "late, and not too late"
        );
        say(&mut mouth, &many).await;
        redis.does("XTRIM", &["MAXLEN", &READ.to_string()]).await;
        let (continuity, messages) = hear(&mut ear).await;
        assert_eq!((continuity, messages.len()), (Continuity::Gap, READ));
    }

    #[tokio::test]
    async fn who_speaks_notices_that_the_stream_was_taken_away() {
        let Some(redis) = fresh("taken").await else { return };
        let (mut mouth, _) = redis.open_mouth().await.unwrap();
        assert_eq!(say(&mut mouth, &["a"]).await, Continuity::Gap, "a new stream");
        assert_eq!(say(&mut mouth, &["b"]).await, Continuity::Whole);
        redis.does("DEL", &[]).await;
        assert_eq!(redis.open_mouth().await.unwrap().1, Continuity::Gap);
        assert_eq!(say(&mut mouth, &["c"]).await, Continuity::Gap);
        assert_eq!(say(&mut mouth, &["d"]).await, Continuity::Whole);
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_and_ends() {
        let mut weight = Weight(1024);
        for _ in 0..100 {
            weight.kept_with(100);
        }
        assert_eq!(weight.kept_with(100), MOST);
        let Some(redis) = fresh("bounded").await else { return };
        let (mut mouth, _) = redis.open_mouth().await.unwrap();
        let large = "x".repeat(Redis::MESSAGE);
        for _ in 0..100 {
            say(&mut mouth, &[&*large; 10]).await;
        }
        let kept = redis.does("XLEN", &[]).await;
        assert!((READ as i64..600).contains(&kept), "{kept}");
        assert!(redis.does("PTTL", &[]).await > 0);
        redis.does("DEL", &[]).await;
    }
}
