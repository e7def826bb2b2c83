//! A network that can be cut: passes bytes between loopback and a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Passes connections on until it is cut, and again once it is mended.
pub struct Relay {
    url: String,
    down: Arc<AtomicBool>,
    cut: Arc<Notify>,
    _task: JoinSet<()>,
}

impl Relay {
    /// A relay to the host and port of an address.
    ///
    /// # Panics
    /// When there is no port for it, or the address has no scheme.
    #[allow(clippy::expect_used, reason = "a test without its network cannot go on")]
    pub async fn to(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let port = listener.local_addr().expect("a bound address").port();
        let (scheme, rest) = url.split_once("://").expect("an address with a scheme");
        let (authority, path) = rest.split_once('/').map_or((rest, None), |(a, p)| (a, Some(p)));
        let (user, target) =
            authority.split_once('@').map_or((None, authority), |(u, t)| (Some(u), t));
        let user = user.map(|user| format!("{user}@")).unwrap_or_default();
        let path = path.map(|path| format!("/{path}")).unwrap_or_default();
        let url = format!("{scheme}://{user}127.0.0.1:{port}{path}");
        let (down, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let mut task = JoinSet::new();
        task.spawn(serve(listener, target.to_owned(), Arc::clone(&down), Arc::clone(&cut)));
        Self { url, down, cut, _task: task }
    }

    /// The address through the relay.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Breaks every connection and takes no more.
    pub fn cut(&self) {
        self.down.store(true, Ordering::SeqCst);
        self.cut.notify_waiters();
    }

    /// Takes connections again.
    pub fn mend(&self) {
        self.down.store(false, Ordering::SeqCst);
    }
}

async fn serve(listener: TcpListener, target: String, down: Arc<AtomicBool>, cut: Arc<Notify>) {
    let mut all = JoinSet::new();
    loop {
        let Ok((mut near, _)) = listener.accept().await else { return };
        let (target, down, cut) = (target.clone(), Arc::clone(&down), Arc::clone(&cut));
        all.spawn(async move {
            let cut = cut.notified();
            if down.load(Ordering::SeqCst) {
                return;
            }
            // Where nobody listens, this end is closed as well.
            let Ok(mut far) = TcpStream::connect(&target).await else { return };
            tokio::select! {
                () = cut => {}
                _ = copy_bidirectional(&mut near, &mut far) => {}
            }
        });
    }
}
