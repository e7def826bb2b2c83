//! A bus over NATS, without JetStream: nothing is kept there.

use crate::error::Cause;
use crate::remote::{Carrier, Continuity};
use async_nats::client::RequestErrorKind;
use async_nats::{Client, ConnectOptions, Event, ServerAddr, Subscriber};
use futures_util::StreamExt;
use futures_util::future::ready;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// One subject of a server or a cluster.
pub(crate) struct Nats {
    servers: Vec<ServerAddr>,
    subject: String,
}

impl Nats {
    pub(crate) fn new(servers: Vec<ServerAddr>, subject: String) -> Self {
        Self { servers, subject }
    }

    /// Opens a connection. The client mends a lost one by itself and tells nobody; what it missed meanwhile must be known, so
    /// that the first sign of trouble is the end of the connection here.
    async fn connect(&self) -> Result<Line, Cause> {
        let trouble = Arc::new(Notify::new());
        let tell = Arc::clone(&trouble);
        let options = ConnectOptions::new()
            .connection_timeout(Duration::from_secs(2))
            .name("turnbuckle")
            .no_echo()
            .event_callback(move |event| {
                if !matches!(event, Event::Connected) {
                    // One permit is kept for who is not waiting now.
                    tell.notify_one();
                }
                ready(())
            });
        match options.connect(self.servers.clone()).await {
            Ok(client) => Ok(Line { client, trouble }),
            Err(error) => Err(Arc::new(error)),
        }
    }
}

/// A connection, until the first trouble.
struct Line {
    client: Client,
    trouble: Arc<Notify>,
}

impl Line {
    /// Does something, unless the connection is or gets into trouble.
    async fn run<T>(&self, work: impl Future<Output = Result<T, Cause>>) -> Result<T, Cause> {
        tokio::select! {
            biased;
            () = self.trouble.notified() => {
                // Whoever asks next finds the same.
                self.trouble.notify_one();
                Err(lost())
            }
            done = work => done,
        }
    }

    /// A round trip: everything that was sent before has reached the server when it is done.
    async fn round_trip(&self) -> Result<(), Cause> {
        let nobody = self.client.request("turnbuckle.nobody-answers", Default::default());
        match nobody.await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(()),
            Err(error) => Err(Arc::new(error)),
        }
    }
}

fn lost() -> Cause {
    Arc::new(std::io::Error::other("the connection was lost"))
}

/// A connection and the subject it speaks to.
pub(crate) struct Mouth {
    line: Line,
    subject: String,
}

/// A connection that has subscribed.
pub(crate) struct Ear {
    line: Line,
    subscriber: Subscriber,
}

impl Carrier for Nats {
    const NAME: &'static str = "NATS";
    /// Servers take 1 MiB unless told otherwise.
    const MESSAGE: usize = 256 * 1024;
    type Mouth = Mouth;
    type Ear = Ear;

    async fn open_mouth(&self) -> Result<(Mouth, Continuity), Cause> {
        let mouth = Mouth { line: self.connect().await?, subject: self.subject.clone() };
        Ok((mouth, Continuity::Gap))
    }

    async fn say(mouth: &mut Mouth, messages: Vec<String>) -> Result<Continuity, Cause> {
        let Mouth { line, subject } = mouth;
        let publish = async {
            for message in messages {
                if let Err(error) = line.client.publish(subject.clone(), message.into()).await {
                    return Err(Arc::new(error) as Cause);
                }
            }
            line.client.flush().await.map_err(|error| Arc::new(error) as Cause)
        };
        line.run(publish).await.map(|()| Continuity::Whole)
    }

    async fn open_ear(&self) -> Result<(Ear, Continuity), Cause> {
        let line = self.connect().await?;
        let subscriber = match line.client.subscribe(self.subject.clone()).await {
            Ok(subscriber) => subscriber,
            Err(error) => return Err(Arc::new(error)),
        };
        line.round_trip().await?;
        Ok((Ear { line, subscriber }, Continuity::Gap))
    }

    async fn hear(ear: &mut Ear) -> Result<(Continuity, Vec<Vec<u8>>), Cause> {
        let Ear { line, subscriber } = ear;
        let next = async { subscriber.next().await.ok_or_else(lost) };
        Ok((Continuity::Whole, vec![line.run(next).await?.payload.to_vec()]))
    }

    async fn ask(ear: &mut Ear) -> Result<(), Cause> {
        ear.line.run(ear.line.round_trip()).await
    }
}
