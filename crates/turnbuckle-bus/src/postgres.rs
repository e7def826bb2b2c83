//! A bus over Postgres' NOTIFY: nothing to install beside the database.
//!
//! Notifications are for up to some thousand bundles a second, and of at most 8,000 bytes: an event that is larger is missed
//! by other processes, and read from the store once it is committed.

use crate::error::Cause;
use crate::remote::{Carrier, Continuity};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{ConnectOptions, PgConnection};
use std::sync::Arc;

/// One channel of one database.
pub(crate) struct Postgres {
    options: PgConnectOptions,
    channel: String,
}

impl Postgres {
    pub(crate) fn new(options: PgConnectOptions, channel: String) -> Self {
        Self { options: options.disable_statement_logging(), channel }
    }
}

fn cause(error: sqlx::Error) -> Cause {
    Arc::new(error)
}

/// A connection and the channel it speaks to.
pub(crate) struct Mouth {
    conn: PgConnection,
    channel: String,
}

impl Carrier for Postgres {
    const NAME: &'static str = "Postgres";
    /// A payload must be shorter than 8,000 bytes.
    const MESSAGE: usize = 7_900;
    type Mouth = Mouth;
    type Ear = PgListener;

    async fn open_mouth(&self) -> Result<(Mouth, Continuity), Cause> {
        let conn = self.options.connect().await.map_err(cause)?;
        Ok((Mouth { conn, channel: self.channel.clone() }, Continuity::Gap))
    }

    async fn say(mouth: &mut Mouth, messages: Vec<String>) -> Result<Continuity, Cause> {
        // `WITH ORDINALITY` keeps the order; a transaction's notifications are delivered in the order in which it made them.
        sqlx::query("SELECT pg_notify($1, m) FROM unnest($2::text[]) WITH ORDINALITY AS t (m, n) ORDER BY n")
            .bind(&mouth.channel)
            .bind(messages)
            .execute(&mut mouth.conn)
            .await
            .map(|_| Continuity::Whole)
            .map_err(cause)
    }

    async fn open_ear(&self) -> Result<(PgListener, Continuity), Cause> {
        // The listener wants a pool to reconnect by itself; a lost connection is seen as an error here, and a new ear opened.
        let pool = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let pool = pool.connect_with(self.options.clone()).await.map_err(cause)?;
        let mut listener = PgListener::connect_with(&pool).await.map_err(cause)?;
        listener.eager_reconnect(false);
        listener.listen(&self.channel).await.map_err(cause)?;
        Ok((listener, Continuity::Gap))
    }

    async fn hear(listener: &mut PgListener) -> Result<(Continuity, Vec<Vec<u8>>), Cause> {
        match listener.try_recv().await.map_err(cause)? {
            Some(notification) => {
                Ok((Continuity::Whole, vec![notification.payload().as_bytes().to_vec()]))
            }
            None => Err(Arc::new(std::io::Error::other("the connection was lost"))),
        }
    }

    async fn ask(listener: &mut PgListener) -> Result<(), Cause> {
        sqlx::query("SELECT 1").execute(listener).await.map(drop).map_err(cause)
    }
}
