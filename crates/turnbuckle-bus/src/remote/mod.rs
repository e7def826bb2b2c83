//! A bus between processes, whatever carries it.
//!
//! Every process speaks on one channel, in bundles, and hears everything; what nobody here listens to is dropped unread. So
//! the work per process grows with what all say, which one channel of any backend carries for many thousand events a second,
//! and in exchange a watch begins without asking anyone. What anyone watches is said as well, so that an owner whose session
//! nobody watches can keep its events to itself.
//!
//! | module | holds |
//! |---|---|
//! | `frame` | what is said, as text |
//! | `outbox` | what waits to be said |
//! | `health` | whether others can be reached |
//! | `interest` | what others watch |
//! | this one | the two tasks: one speaks, one hears |

mod frame;
mod health;
mod interest;
mod outbox;

use crate::bus::{Bus, BusFuture};
use crate::error::{BusError, Cause};
use crate::hub::{Calls, Hub, Watch};
use crate::mailbox::Limits;
use crate::notice::{Call, Notice};
use frame::{Frame, Said, bundle, read};
use futures_util::FutureExt;
use futures_util::future::ready;
use health::Health;
use interest::{Interest, SAY};
use outbox::Outbox;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use turnbuckle_core::ids::SessionKey;

/// Who hears nothing for so long asks whether the other side is there still.
const QUIET: Duration = Duration::from_secs(1);
/// How long opening a connection, asking or saying something may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// As long as nothing can be heard, listeners are told so this often.
const TELL_LAG: Duration = Duration::from_secs(1);
/// How long a new bus waits for its first connection before it starts alone.
const FIRST: Duration = Duration::from_secs(2);

/// Whether nothing is missing between what was said or heard before and what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continuity {
    /// Nothing is.
    Whole,
    /// Something may be.
    Gap,
}

impl Continuity {
    /// Whole on that condition.
    #[cfg(feature = "redis")]
    pub(crate) fn when(whole: bool) -> Self {
        if whole { Self::Whole } else { Self::Gap }
    }
}

/// What carries a bus from process to process. One that keeps what was said for a while lets a new connection go on where the
/// one before it ended.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// Its name, for people.
    const NAME: &'static str;
    /// How many bytes one message may have.
    const MESSAGE: usize;
    /// A connection to speak.
    type Mouth: Send;
    /// A connection to hear.
    type Ear: Send;

    /// Opens a connection to speak, and tells whether all that was said before it reaches those who listen.
    fn open_mouth(&self) -> impl Future<Output = Result<(Self::Mouth, Continuity), Cause>> + Send;

    /// Says messages in order, and tells whether what was said before them has reached those who listen, or will. What failed
    /// may be said again, and then be heard twice.
    fn say(
        mouth: &mut Self::Mouth,
        messages: Vec<String>,
    ) -> impl Future<Output = Result<Continuity, Cause>> + Send;

    /// Opens a connection to hear, and tells whether it hears what was said since the one before; whatever is said after it is
    /// open is heard.
    fn open_ear(&self) -> impl Future<Output = Result<(Self::Ear, Continuity), Cause>> + Send;

    /// The next messages, and whether nothing is missing before them; none after a while in which nothing was said. Dropping
    /// the future loses nothing.
    fn hear(
        ear: &mut Self::Ear,
    ) -> impl Future<Output = Result<(Continuity, Vec<Vec<u8>>), Cause>> + Send;

    /// Whether the other side is there still.
    fn ask(ear: &mut Self::Ear) -> impl Future<Output = Result<(), Cause>> + Send;
}

/// A bus between processes.
pub(crate) struct Remote {
    name: &'static str,
    hub: Arc<Hub>,
    outbox: Arc<Outbox>,
    health: Arc<Health>,
    interest: Arc<Interest>,
    /// The tasks end with the bus.
    _tasks: JoinSet<()>,
}

impl Remote {
    /// Starts a bus. When nobody can be reached it starts alone, and goes on trying.
    pub(crate) async fn start<C: Carrier>(carrier: C, limits: Limits) -> Self {
        let carrier = Arc::new(carrier);
        let hub = Arc::new(Hub::new(limits));
        let outbox = Arc::new(Outbox::new());
        let health = Arc::new(Health::new());
        let interest = Arc::new(Interest::new());
        let state = RandomState::new();
        // Who says it, so that nobody hears themselves.
        let from = state.hash_one(std::process::id());
        let mut tasks = JoinSet::new();
        let hears = Hears {
            hub: Arc::clone(&hub),
            health: Arc::clone(&health),
            interest: Arc::clone(&interest),
            from,
        };
        let ear = Arc::clone(&carrier);
        tasks.spawn(async move { listen(&*ear, &hears).await });
        let mouth = (carrier, Arc::clone(&outbox), Arc::clone(&health));
        tasks.spawn(async move { speak(&*mouth.0, &mouth.1, &mouth.2, from).await });
        let says = (Arc::clone(&hub), Arc::clone(&outbox), Arc::clone(&interest));
        tasks.spawn(async move { say_what_is_watched(&says.0, &says.1, &says.2).await });
        let _may_be_later = timeout(FIRST, health.both()).await;
        Self { name: C::NAME, hub, outbox, health, interest, _tasks: tasks }
    }
}

impl Bus for Remote {
    fn wanted(&self, session: &SessionKey) -> bool {
        self.hub.watched(session) || self.interest.may_be(session, Instant::now())
    }

    fn publish(&self, session: &SessionKey, notice: Notice) {
        self.outbox.push(Frame::Notice(session.clone(), notice.clone()));
        self.hub.publish(session, notice);
    }

    fn call(&self, call: Call) {
        self.outbox.push(Frame::Call(call.clone()));
        self.hub.call(call);
    }

    fn watch<'a>(&'a self, session: &'a SessionKey) -> BusFuture<'a, Watch> {
        self.outbox.push(Frame::Watching(session.clone()));
        ready(self.hub.watch(session)).boxed()
    }

    fn attend(&self) -> BusFuture<'_, Calls> {
        ready(self.hub.attend()).boxed()
    }

    fn check(&self) -> BusFuture<'_, Result<(), BusError>> {
        let state = self.health.state();
        ready(state.map_err(|cause| BusError::Unavailable { backend: self.name, cause })).boxed()
    }

    fn close(&self) -> BusFuture<'_, ()> {
        async move {
            self.outbox.close();
            if self.health.state().is_ok() {
                let _as_far_as_possible = timeout(PATIENCE, self.outbox.said()).await;
            }
            self.hub.close();
        }
        .boxed()
    }
}

/// Waits a little longer after every failure.
struct Backoff(Duration);

impl Backoff {
    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(2);

    fn reset(&mut self) {
        self.0 = Self::SHORTEST;
    }

    fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(Self::LONGEST);
        now
    }
}

/// Within the time one may take.
async fn soon<T>(work: impl Future<Output = Result<T, Cause>>) -> Result<T, Cause> {
    match timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(late) => Err(Arc::new(late)),
    }
}

async fn speak<C: Carrier>(carrier: &C, outbox: &Outbox, health: &Health, from: u64) {
    let mut backoff = Backoff(Backoff::SHORTEST);
    let lost = || bundle(from, vec![Frame::Lost(None)], C::MESSAGE);
    let mut unsaid: Vec<String> = Vec::new();
    let mut broken = false;
    loop {
        let (mut mouth, continuity) = match soon(carrier.open_mouth()).await {
            Ok(opened) => opened,
            Err(cause) => {
                health.mouth(Some(cause));
                sleep(backoff.next()).await;
                continue;
            }
        };
        health.mouth(None);
        if std::mem::take(&mut broken) && continuity == Continuity::Gap {
            // What was said last may have died with the connection.
            unsaid.splice(0..0, lost());
        }
        loop {
            if unsaid.is_empty() {
                let Some(frames) = outbox.take().await else { return };
                unsaid = bundle(from, frames, C::MESSAGE);
            }
            match soon(C::say(&mut mouth, unsaid.clone())).await {
                Ok(continuity) => {
                    unsaid.clear();
                    backoff.reset();
                    outbox.done();
                    if continuity == Continuity::Gap {
                        unsaid = lost();
                    }
                }
                Err(cause) => {
                    tracing::warn!("the {} bus cannot be spoken to: {cause}", C::NAME);
                    health.mouth(Some(cause));
                    broken = true;
                    break;
                }
            }
        }
        sleep(backoff.next()).await;
    }
}

async fn say_what_is_watched(hub: &Hub, outbox: &Outbox, interest: &Interest) {
    loop {
        sleep(SAY).await;
        for session in hub.sessions() {
            outbox.push(Frame::Watching(session));
        }
        interest.sweep(Instant::now());
    }
}

/// What hearing needs.
struct Hears {
    hub: Arc<Hub>,
    health: Arc<Health>,
    interest: Arc<Interest>,
    /// Who this process is.
    from: u64,
}

async fn listen<C: Carrier>(carrier: &C, hears: &Hears) {
    let Hears { hub, health, interest, .. } = hears;
    let mut pause = Duration::ZERO;
    loop {
        let (mut ear, continuity) = while_deaf(hub, open_ear(carrier, health, pause)).await;
        health.ear(None);
        interest.hears(Some(Instant::now()));
        if continuity == Continuity::Gap {
            hub.lag_all();
        }
        let cause = loop {
            match timeout(QUIET, C::hear(&mut ear)).await {
                Ok(Ok((continuity, messages))) => {
                    if continuity == Continuity::Gap {
                        hub.lag_all();
                    }
                    for message in &messages {
                        deliver(hears, message);
                    }
                }
                Ok(Err(cause)) => break cause,
                Err(_quiet) => {
                    if let Err(cause) = soon(C::ask(&mut ear)).await {
                        break cause;
                    }
                }
            }
        };
        tracing::warn!("the {} bus cannot be heard: {cause}", C::NAME);
        health.ear(Some(cause));
        interest.hears(None);
        pause = Backoff::SHORTEST;
    }
}

/// After a pause, tries until a connection to hear is open.
async fn open_ear<C: Carrier>(
    carrier: &C,
    health: &Health,
    pause: Duration,
) -> (C::Ear, Continuity) {
    sleep(pause).await;
    let mut backoff = Backoff(Backoff::SHORTEST);
    loop {
        match soon(carrier.open_ear()).await {
            Ok(opened) => return opened,
            Err(cause) => health.ear(Some(cause)),
        }
        sleep(backoff.next()).await;
    }
}

/// Tells every listener that it may miss something, as long as `work` takes.
async fn while_deaf<T>(hub: &Hub, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        match timeout(TELL_LAG, &mut work).await {
            Ok(done) => return done,
            Err(_still_deaf) => hub.lag_all(),
        }
    }
}

fn deliver(hears: &Hears, message: &[u8]) {
    let hub = &hears.hub;
    for line in message.split(|byte| *byte == b'\n') {
        match read(line, hears.from, |session| hub.watched(session)) {
            Said::Nothing => {}
            Said::Frame(Frame::Notice(session, notice)) => hub.publish(&session, notice),
            Said::Frame(Frame::Call(call)) => hub.call(call),
            Said::Frame(Frame::Watching(session)) => hears.interest.heard(session, Instant::now()),
            Said::Frame(Frame::Lost(Some(session))) => hub.lag(&session),
            Said::Frame(Frame::Lost(None)) => hub.lag_all(),
        }
    }
}
