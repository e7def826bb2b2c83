//! A connection that the runtime watches, or leaves alone.
//!
//! While nobody wants what comes, being told of it is all that it costs: each piece wakes the runtime, which then has nobody to
//! wake. So a connection that is left alone is taken out of what the runtime watches. What comes lies in the kernel, and is
//! read when somebody looks; whoever looks in vain waits, and it is watched again.

use std::io::{self, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;

/// The connection that an answer is read from.
#[derive(Debug)]
pub(super) enum Connection {
    /// The runtime is told when something comes.
    Watched(TcpStream),
    /// Nobody is told.
    Left(std::net::TcpStream),
    /// The runtime could not let go of it or take it back, for this reason.
    Lost(io::Error),
}

impl Connection {
    /// Takes it out of what the runtime watches.
    pub(super) fn leave(&mut self) {
        self.change(|connection| match connection {
            Self::Watched(stream) => stream.into_std().map_or_else(Self::Lost, Self::Left),
            other => other,
        });
    }

    /// Lets the runtime watch it again, if it can.
    pub(super) fn watched(mut self) -> Option<TcpStream> {
        self.watch();
        match self {
            Self::Watched(stream) => Some(stream),
            Self::Left(_) | Self::Lost(_) => None,
        }
    }

    fn watch(&mut self) {
        self.change(|connection| match connection {
            Self::Left(stream) => {
                TcpStream::from_std(stream).map_or_else(Self::Lost, Self::Watched)
            }
            other => other,
        });
    }

    fn change(&mut self, into: impl FnOnce(Self) -> Self) {
        let now = std::mem::replace(self, Self::Lost(lost()));
        *self = into(now);
    }

    /// Reads what has come, which is nothing at its end, or waits for it. Must be called in the runtime.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self {
                Self::Watched(stream) => return Pin::new(stream).poll_read(cx, into),
                Self::Left(stream) => match stream.read(into.initialize_unfilled()) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.watch(),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    read => return Poll::Ready(read.map(|came| into.advance(came))),
                },
                Self::Lost(cause) => return Poll::Ready(Err(std::mem::replace(cause, lost()))),
            }
        }
    }
}

fn lost() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::io::Write as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A connection, and the server's end of it, which writes at once.
    async fn pair() -> (Connection, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nodelay(true).unwrap();
        (Connection::Watched(stream), server)
    }

    fn poll(connection: &mut Connection, cx: &mut Context<'_>) -> Poll<io::Result<String>> {
        let mut room = [0; 64];
        let mut into = ReadBuf::new(&mut room);
        let read = connection.poll_read(cx, &mut into);
        read.map_ok(|()| String::from_utf8(into.filled().to_vec()).unwrap())
    }

    async fn read(connection: &mut Connection) -> io::Result<String> {
        poll_fn(|cx| poll(connection, cx)).await
    }

    async fn woken(wakes: &Wakes) {
        while wakes.0.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_comes_while_it_is_left_wakes_nobody_and_is_there_when_somebody_looks() {
        let (mut connection, mut server) = pair().await;
        let (wakes, others) = (Arc::<Wakes>::default(), Arc::<Wakes>::default());
        let waker = wakes.clone().into();
        assert!(poll(&mut connection, &mut Context::from_waker(&waker)).is_pending());
        connection.leave();
        let (mut other, mut other_server) = pair().await;
        let others_waker = others.clone().into();
        assert!(poll(&mut other, &mut Context::from_waker(&others_waker)).is_pending());
        for word in ["one", " two", " three"] {
            server.write_all(word.as_bytes()).unwrap();
        }
        // By the time the runtime is told of this it would have been told of those.
        other_server.write_all(b"this one is watched").unwrap();
        woken(&others).await;
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
        assert_eq!(read(&mut connection).await.unwrap(), "one two three");
        // It is left alone until somebody looks in vain.
        assert!(matches!(connection, Connection::Left(_)));
        assert!(poll(&mut connection, &mut Context::from_waker(&waker)).is_pending());
        server.write_all(b" four").unwrap();
        woken(&wakes).await;
        assert_eq!(read(&mut connection).await.unwrap(), " four");
    }

    #[tokio::test]
    async fn what_came_before_it_is_watched_again_is_told_of() {
        let (mut connection, mut server) = pair().await;
        for _ in 0..3 {
            connection.leave();
            connection.leave();
            server.write_all(b"before").unwrap();
            connection = Connection::Watched(connection.watched().unwrap());
            assert_eq!(read(&mut connection).await.unwrap(), "before");
        }
    }

    #[tokio::test]
    async fn its_end_and_a_reset_are_seen_when_somebody_looks() {
        let (mut connection, server) = pair().await;
        connection.leave();
        drop(server);
        assert_eq!(read(&mut connection).await.unwrap(), "");

        let (mut connection, server) = pair().await;
        connection.leave();
        socket2::SockRef::from(&server).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(server);
        assert_eq!(read(&mut connection).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }
}
