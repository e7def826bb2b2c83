//! The owner of a session: claims it, takes up what an earlier process left, works through the inbox, gives it back.

use super::SessionState;
use super::recall::Kept;
use crate::attachments;
use crate::domain::TurnInfo;
use crate::driver::{
    ATTEMPTS, Control, Conversation, DriveError, Driver, Outlet, Untitled, Writer, patient, write,
};
use crate::pipeline::{Allowances, Taints};
use crate::runtime::{Assembler, Choices, Replaced, Runtime, RuntimeError, Storage};
use crate::tool::ContextHandle;
use crate::trace;
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;
use turnbuckle_core::content::{Content, Media};
use turnbuckle_core::event::{Event, EventKind};
use turnbuckle_core::ids::TurnId;
use turnbuckle_core::machine::{Input, MachineError, RunMode, Superseded, Turn, TurnSpec};
use turnbuckle_core::message::{AssistantMessage, Message, UserMessage};
use turnbuckle_core::model::ModelRef;
use turnbuckle_core::outcome::Outcome;
use turnbuckle_core::part::ToolCallStatus;
use turnbuckle_core::title::first_message;
use turnbuckle_core::transcript::{Rules, Transcript};
use turnbuckle_store::{
    Claim, Commit, Delivery, InboxItem, KeptModel, Loaded, OpenTurn, Posted, Release, Released,
    SessionKey, Store, StoreError, TurnLog, TurnStatus,
};

/// What an owner is made of.
#[derive(Clone)]
pub(crate) struct OwnerParts {
    pub(crate) assembler: Arc<Assembler>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: SessionKey,
    /// This process, by name.
    pub(crate) name: Arc<str>,
    pub(crate) lease: Duration,
    /// Bytes of images and files that a request may carry.
    pub(crate) media_limit: u64,
    pub(crate) control: Arc<Control>,
    pub(crate) outlet: Outlet,
}

impl OwnerParts {
    fn lease_ms(&self) -> u64 {
        self.lease.as_millis() as u64
    }
}

/// What the store keeps of a turn beside its journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredTurn {
    pub(crate) spec: TurnSpec,
    /// The model asked for in this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelRef>,
    /// The model that the session keeps as of this turn; what is chosen while it waits is for the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<ModelRef>,
    /// What its model calls are booked to beside the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<Arc<str>>,
}

/// Choices for one turn, as they travel with its message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TurnOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelRef>,
    #[serde(skip_serializing_if = "is_interactive")]
    pub(crate) mode: RunMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) account: Option<Arc<str>>,
}

fn is_interactive(mode: &RunMode) -> bool {
    *mode == RunMode::Interactive
}

/// An owner at work.
pub(crate) struct Owner {
    pub(super) parts: OwnerParts,
    pub(super) fence: u64,
    loaded: Loaded,
    row: Row,
    state: Arc<SessionState>,
    pub(super) history: Vec<Message>,
    pub(super) next_seq: u64,
    /// A turn that waits for people.
    pub(super) paused: Option<Paused>,
    /// What was queued before that turn paused, and waits with it.
    held: Vec<InboxItem>,
    /// The turn at work, and how often it was taken up.
    pub(super) at: Option<(TurnId, u32)>,
    /// Whether the session was given back with the end of a turn.
    released: bool,
}

/// Whether the session's row may have changed since it was read: others give titles and choose models at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Fresh,
    Stale,
}

/// What a turn begins with.
struct Opening {
    turn: Turn,
    runtime: Runtime,
    open: OpenTurn,
    keep: Option<KeptModel>,
}

/// A turn that waits for people.
pub(super) enum Paused {
    /// As it was loaded.
    Log(Box<TurnLog>),
    /// As this owner left it; its log is read when it is needed.
    Id(TurnId),
}

impl Owner {
    /// Works until nothing waits, then gives the session back. Problems end the work; what is stored stays.
    pub(crate) async fn run(parts: OwnerParts) {
        let session = parts.key.id.clone();
        let fence = match claim(&parts).await {
            Ok(Some(fence)) => fence,
            Ok(None) => {
                tracing::debug!(%session, "somebody else works on the session");
                return;
            }
            Err(e) => return tell_failure(&parts, None, 0, &DriveError::Store(e)),
        };
        let loaded = Self::load(parts.clone(), fence).await.map(Box::new);
        let (place, error) = match loaded {
            Ok(mut owner) => match owner.work().await {
                Ok(()) => return,
                Err(e) => ((owner.at.take(), owner.next_seq), e),
            },
            Err(e) => ((None, 0), DriveError::Store(e)),
        };
        if matches!(error, DriveError::Store(StoreError::Fenced { .. })) {
            parts.outlet.set_lost();
        }
        if matches!(error, DriveError::Parked) {
            tracing::info!(%session, "the session is left for another process");
        } else {
            tracing::error!(%session, "the session is left as it is stored: {error}");
            tell_failure(&parts, place.0, place.1, &error);
        }
        // So that another process need not wait for the lease. If this fails too, the lease runs out.
        let _ = parts.store.release(&parts.key, fence, Release::HandOver).await;
    }

    async fn load(parts: OwnerParts, fence: u64) -> Result<Self, StoreError> {
        let mut loaded = patient(ATTEMPTS, || parts.store.load(&parts.key)).await?;
        let state = Arc::new(SessionState::load(loaded.state.as_deref()));
        let active = loaded.turn.as_ref().map(|t| t.turn.id.clone());
        let messages = std::mem::take(&mut loaded.messages);
        let history = messages.into_iter().filter(|m| Some(m.turn()) != active.as_ref()).collect();
        let next_seq = loaded.session.next_seq;
        Ok(Self {
            parts,
            fence,
            loaded,
            row: Row::Fresh,
            state,
            history,
            next_seq,
            paused: None,
            held: Vec::new(),
            at: None,
            released: false,
        })
    }

    /// Takes one input after the other. What comes before a turn runs is boxed: this future lasts as long as the turn, and has
    /// room for what that needs.
    async fn work(&mut self) -> Result<(), DriveError> {
        if let Some(log) = self.loaded.turn.take() {
            match (log.turn.status, self.loaded.unreadable.take()) {
                (_, Some(why)) => {
                    Box::pin(self.set_aside(&log.turn.id, &why, None)).await?;
                    self.read_inbox().await?;
                }
                (TurnStatus::Paused, None) => self.paused = Some(Paused::Log(Box::new(log))),
                (TurnStatus::Running, None) => {
                    let driver = Box::pin(self.take_up(log)).await?;
                    self.drive(driver).await?;
                    if !self.released {
                        self.read_inbox().await?;
                    }
                }
                (TurnStatus::Finished, None) => {}
            }
        }
        if self.released {
            return Ok(());
        }
        loop {
            if self.parts.control.is_parked() {
                return Err(DriveError::Parked);
            }
            let waiting = std::mem::take(&mut self.loaded.inbox);
            let several = waiting.len() > 1;
            if let Some(item) = Box::pin(self.next_item(waiting)).await? {
                let message = matches!(item.input, Posted::Message { .. });
                let supersedes = message && self.paused.is_some();
                let driver = Box::pin(self.take_item(item)).await?;
                self.drive(driver).await?;
                if self.released {
                    return Ok(());
                }
                // A running turn takes what concerns it by itself, so what else was there may be gone. What ended a turn that
                // waited is still there.
                if several || supersedes {
                    self.read_inbox().await?;
                    continue;
                }
            }
            match Box::pin(self.release()).await {
                Ok(Released::StillPending(_)) => {
                    let (lease, now) = (self.parts.lease_ms(), self.parts.assembler.clock.now());
                    let (parts, fence) = (&self.parts, self.fence);
                    patient(ATTEMPTS, || parts.store.renew(&parts.key, fence, lease, now)).await?;
                    self.read_inbox().await?;
                }
                Ok(Released::Released) => return Ok(()),
                // All is stored, and the lease runs out by itself.
                Err(e) => {
                    tracing::warn!("a session could not be given back: {}", e.report());
                    return Ok(());
                }
            }
        }
    }

    async fn release(&self) -> Result<Released, StoreError> {
        let (parts, fence) = (&self.parts, self.fence);
        let when = match self.held.last() {
            Some(last) if self.paused.is_some() => Release::Keeping { below: last.n + 1 },
            _ => Release::WhenDrained,
        };
        patient(ATTEMPTS, || parts.store.release(&parts.key, fence, when)).await
    }

    async fn read_inbox(&mut self) -> Result<(), StoreError> {
        let parts = &self.parts;
        self.loaded.inbox = patient(ATTEMPTS, || parts.store.inbox(&parts.key)).await?;
        Ok(())
    }

    /// The turn that waits for people, with its journal.
    async fn take_paused(&mut self) -> Result<Option<TurnLog>, StoreError> {
        match self.paused.take() {
            None => Ok(None),
            Some(Paused::Log(log)) => Ok(Some(*log)),
            Some(Paused::Id(id)) => {
                let parts = &self.parts;
                patient(ATTEMPTS, || parts.store.journal(&parts.key, &id)).await.map(Some)
            }
        }
    }

    /// The input to see to next. While a turn waits for people, a message that was queued before it paused is none: it is for
    /// after the turn. Only a message written in view of the cards takes their place.
    async fn next_item(
        &mut self,
        waiting: Vec<InboxItem>,
    ) -> Result<Option<InboxItem>, DriveError> {
        self.held.clear();
        if waiting.is_empty() {
            return Ok(None);
        }
        let Some(log) = self.take_paused().await? else { return Ok(waiting.into_iter().next()) };
        let below = log.turn.queued_below;
        self.paused = Some(Paused::Log(Box::new(log)));
        let mut next = None;
        for item in waiting {
            let queued = matches!(item.input, Posted::Message { .. });
            if queued && item.n < below {
                self.held.push(item);
            } else {
                next = next.or(Some(item));
            }
        }
        Ok(next)
    }

    /// Sees to an input; gives the turn that is to run now.
    async fn take_item(&mut self, item: InboxItem) -> Result<Option<Box<Driver>>, DriveError> {
        let paused = self.take_paused().await?;
        match (item.input, paused) {
            (Posted::Message { message, options, .. }, paused) => {
                if let Some(log) = paused {
                    // Nothing dangles: what waited for a decision is settled before the new turn begins.
                    let cancel = Input::Cancel { superseded: Superseded::ByMessage };
                    let driver = Box::pin(self.resume(log, cancel, None)).await?;
                    // What was queued before comes first; this message is still in the inbox behind it.
                    if driver.is_some() || !self.held.is_empty() {
                        return Ok(driver);
                    }
                }
                let options = TurnOptions::deserialize(&*options).unwrap_or_default();
                self.open(message, options, item.n).await.map(Some)
            }
            (Posted::Stop { turn, .. }, Some(log))
                if turn.as_ref().is_none_or(|t| *t == log.turn.id) =>
            {
                let cancel = Input::Cancel { superseded: Superseded::No };
                Box::pin(self.resume(log, cancel, Some(item.n))).await
            }
            (input @ (Posted::Decision { .. } | Posted::ClientResult { .. }), Some(log)) => {
                let answer = InboxItem { n: item.n, at: item.at, input };
                let input = match self.input_of(answer, &log) {
                    Ok(input) => input,
                    Err(why) => {
                        Box::pin(self.set_aside(&log.turn.id, &why, Some(item.n))).await?;
                        return Ok(None);
                    }
                };
                match input {
                    Some(input) => Box::pin(self.resume(log, input, Some(item.n))).await,
                    None => {
                        self.paused = Some(Paused::Log(Box::new(log)));
                        Box::pin(self.consume(item.n)).await?;
                        Ok(None)
                    }
                }
            }
            (_, paused) => {
                self.paused = paused.map(|log| Paused::Log(Box::new(log)));
                Box::pin(self.consume(item.n)).await?;
                Ok(None)
            }
        }
    }

    /// What an answer is to the turn that waits; nothing, when it does not wait for it any more.
    ///
    /// # Errors
    /// Why the turn cannot be rebuilt, in words.
    fn input_of(&self, answer: InboxItem, log: &TurnLog) -> Result<Option<Input>, String> {
        self.rebuild(log).map(|(turn, _)| super::as_input(answer, turn.messages()))
    }

    /// An input that has nothing to do any more leaves the inbox.
    async fn consume(&mut self, n: u64) -> Result<(), DriveError> {
        let now = self.parts.assembler.clock.now();
        let mut commit = Commit::new(self.parts.key.clone(), self.fence, now);
        commit.consumed = vec![n];
        write(&*self.parts.store, commit).await?;
        Ok(())
    }

    /// Opens a turn with a message.
    async fn open(
        &mut self,
        message: Box<UserMessage>,
        options: TurnOptions,
        n: u64,
    ) -> Result<Box<Driver>, DriveError> {
        self.parts.control.next_turn();
        self.refresh().await?;
        let Opening { turn, runtime, open, keep } = self.opening(*message, options)?;
        let mut driver = Box::pin(self.driver(turn, runtime)).await?;
        if let Some(writer) = &mut driver.writer {
            writer.open = Some(open);
            writer.consumed.push(n);
            writer.model = keep;
        }
        driver.feed(Input::Begin)?;
        tell_replaced(&mut driver)?;
        Ok(driver)
    }

    /// What a turn begins with. Apart from [`Owner::open`], so that what it is made of takes no room while the turn runs.
    fn opening(&self, message: UserMessage, options: TurnOptions) -> Result<Opening, DriveError> {
        self.state.set_surroundings(message.surroundings.clone());
        let info = self.info(&message, options.mode, options.account.clone());
        let kept = self.kept_model();
        let wanted = Wanted { turn: options.model.as_ref(), kept: kept.as_ref() };
        let mut runtime = self.runtime(info, wanted, Begin::Fresh);
        let assembler = self.parts.assembler.clone();
        let first_capture = self.state.next_capture();
        let mut spec = assembler.spec(&runtime, message.clone(), first_capture);
        let turn = match Turn::new(spec.clone()) {
            Ok(turn) => turn,
            // Whoever wrote the message is told in its turn; else it would stay in the inbox and fail for ever.
            Err(unsound) => {
                let (info, domain_turn) = (runtime.info.clone(), runtime.domain_turn.clone());
                runtime = Runtime::broken(info, domain_turn, &RuntimeError::Spec(unsound));
                spec = assembler.spec(&runtime, message, first_capture);
                Turn::new(spec.clone())?
            }
        };
        let open = spec.turn.clone();
        let kept = match &runtime.replaced {
            Some(replaced) => Some(replaced.to.clone()),
            None => kept.or_else(|| runtime.model.clone()),
        };
        let keep = self.keep(kept.as_ref());
        let stored = StoredTurn { spec, model: options.model, kept, account: options.account };
        let open = OpenTurn {
            id: open,
            spec: serde_json::to_string(&stored).map_err(|e| corrupt("turn", e))?,
        };
        Ok(Opening { turn, runtime, open, keep })
    }

    /// A turn that was running when its process ended.
    async fn take_up(&mut self, log: TurnLog) -> Result<Option<Box<Driver>>, DriveError> {
        self.parts.control.next_turn();
        let (turn, runtime) = match self.rebuild(&log) {
            Ok(rebuilt) => rebuilt,
            Err(why) => {
                self.set_aside(&log.turn.id, &why, None).await?;
                return Ok(None);
            }
        };
        let keep = self.keep_instead(&runtime);
        let mut driver = Box::pin(self.driver(turn, runtime)).await?;
        driver.recall_steering(&self.loaded.inbox);
        if let Some(writer) = &mut driver.writer {
            writer.model = keep;
        }
        driver.feed(Input::Recover)?;
        tell_replaced(&mut driver)?;
        Ok(Some(driver))
    }

    /// A turn that waited goes on with an answer.
    async fn resume(
        &mut self,
        log: TurnLog,
        input: Input,
        n: Option<u64>,
    ) -> Result<Option<Box<Driver>>, DriveError> {
        self.parts.control.next_turn();
        self.refresh().await?;
        let (turn, runtime) = match self.rebuild(&log) {
            Ok(rebuilt) => rebuilt,
            Err(why) => {
                self.set_aside(&log.turn.id, &why, n).await?;
                return Ok(None);
            }
        };
        let keep = self.keep_instead(&runtime);
        let mut driver = Box::pin(self.driver(turn, runtime)).await?;
        driver.resumed = true;
        driver.recall_steering(&self.held);
        if let Some(writer) = &mut driver.writer {
            writer.consumed.extend(n);
            writer.model = keep;
        }
        if let Err(e) = driver.feed(input) {
            tracing::info!(turn = %log.turn.id, "an answer does not fit any more: {e}");
            self.paused = Some(Paused::Log(Box::new(log)));
            if let Some(n) = n {
                self.consume(n).await?;
            }
            return Ok(None);
        }
        tell_replaced(&mut driver)?;
        Ok(Some(driver))
    }

    /// The machine of a stored turn, and what it runs with now.
    ///
    /// # Errors
    /// Why it cannot be rebuilt, in words.
    fn rebuild(&self, log: &TurnLog) -> Result<(Turn, Runtime), String> {
        let stored: StoredTurn =
            serde_json::from_str(&log.turn.spec).map_err(|e| corrupt("turn", e).report())?;
        let info = self.info(&stored.spec.user, stored.spec.mode, stored.account);
        let (turn, outputs) = super::recall::rebuild(stored.spec, &log.journal)
            .map_err(|e| format!("its journal does not fit what it began with: {e}"))?;
        let kept = stored.kept.or_else(|| self.kept_model());
        let mut wanted = Wanted { turn: stored.model.as_ref(), kept: kept.as_ref() };
        // What was asked for may be gone by now. That is no reason to lose a turn that has begun.
        if wanted.turn.is_some() && self.parts.assembler.models.resolve(wanted.turn).is_err() {
            wanted = Wanted { turn: None, kept: wanted.turn };
        }
        let runtime = self.runtime(info, wanted, Begin::Continued(turn.message(), outputs));
        Ok((turn, runtime))
    }

    /// Reads the session's row again, once turns have run since it was read.
    async fn refresh(&mut self) -> Result<(), StoreError> {
        if self.row == Row::Stale {
            let parts = &self.parts;
            self.loaded.session = patient(ATTEMPTS, || parts.store.session(&parts.key)).await?;
            self.row = Row::Fresh;
        }
        Ok(())
    }

    /// The model that the session keeps.
    fn kept_model(&self) -> Option<ModelRef> {
        self.loaded.session.model.as_deref().and_then(ModelRef::parse)
    }

    /// What to store, when the session is to keep another model from now on.
    fn keep(&self, kept: Option<&ModelRef>) -> Option<KeptModel> {
        let model = kept?.to_string();
        let instead_of = self.loaded.session.model.clone();
        (instead_of.as_ref() != Some(&model)).then_some(KeptModel { instead_of, model })
    }

    /// As [`Owner::keep`], for a turn that goes on without the model that the session kept.
    fn keep_instead(&self, runtime: &Runtime) -> Option<KeptModel> {
        let replaced = runtime.replaced.as_ref()?;
        let gone = self.kept_model().is_some_and(|kept| kept == replaced.from);
        if gone { self.keep(Some(&replaced.to)) } else { None }
    }

    fn info(&self, message: &UserMessage, mode: RunMode, account: Option<Arc<str>>) -> TurnInfo {
        let session = &self.loaded.session;
        TurnInfo {
            tenant: session.key.tenant.clone(),
            user: message.author.clone().unwrap_or_else(|| session.user.clone()),
            session: session.key.id.clone(),
            turn: message.turn.clone(),
            agent: session.agent.clone(),
            mode,
            surroundings: self.state.surroundings(),
            at: message.at,
            account,
        }
    }

    fn runtime(&self, info: TurnInfo, wanted: Wanted<'_>, begin: Begin<'_>) -> Runtime {
        let assembler = &self.parts.assembler;
        let domain_state = self.state.domain();
        let domain_turn: Arc<dyn crate::domain::DomainTurn> =
            Arc::from(assembler.domain.open_turn(domain_state.as_ref(), &info));
        let message = match begin {
            Begin::Fresh => {
                self.state.begin_turn(domain_turn.ambient());
                None
            }
            Begin::Continued(message, outputs) => {
                self.state.resume_turn(domain_turn.ambient(), outputs);
                message
            }
        };
        let taints: Arc<Taints> = Arc::default();
        let choices = Choices {
            model: wanted.turn,
            session_model: wanted.kept,
            storage: Storage::Session,
            context: ContextHandle::shared(self.state.context()),
            domain_turn: domain_turn.clone(),
            cancel: self.parts.control.cancel_token(),
            progress: self.parts.control.clone(),
            taints: taints.clone(),
            allowances: Allowances::Kept(self.parts.store.clone()),
            info: info.clone(),
        };
        match assembler.assemble(choices) {
            Ok(runtime) => {
                if let Some(message) = message {
                    taint(&runtime, &taints, message);
                }
                runtime
            }
            Err(e) => Runtime::broken(info, domain_turn, &e),
        }
    }

    /// Boxed, as is its making: an owner's futures hold it once, however often they hand it on.
    async fn driver(&self, turn: Turn, runtime: Runtime) -> Result<Box<Driver>, StoreError> {
        let media = self.media(&turn).await?;
        let rules = Rules { media: media.clone(), ..runtime.history.clone() };
        let history = history(&self.history, &rules);
        let mut driver = Box::new(Driver::new(
            self.parts.assembler.clone(),
            Arc::new(runtime),
            turn,
            Conversation::new(history, self.state.overlay()).with_media(media),
            self.parts.control.clone(),
            self.parts.outlet.clone(),
            self.next_seq,
        ));
        let parts = &self.parts;
        if self.loaded.session.title.is_none() && self.row == Row::Fresh {
            let first = first_message(&self.history).unwrap_or(&driver.turn.spec().user);
            driver.untitled = Some(Untitled {
                store: parts.store.clone(),
                key: parts.key.clone(),
                first: first.content.text().into_owned(),
            });
        }
        driver.writer = Some(Writer::new(
            parts.store.clone(),
            parts.key.clone(),
            self.fence,
            parts.lease,
            self.state.clone(),
        ));
        Ok(driver)
    }

    /// What the turn's requests carry of attached bytes, the newest first.
    async fn media(&self, turn: &Turn) -> Result<Media, StoreError> {
        let waiting = self.loaded.inbox.iter().chain(&self.held);
        let posted = waiting.filter_map(|item| match &item.input {
            Posted::Message { delivery: Delivery::Steer, message, .. } => Some(&message.content),
            _ => None,
        });
        let parts = turn.message().map(|m| m.parts.as_slice()).unwrap_or_default();
        let entered = attachments::entered(parts);
        let before = self.history.iter().rev().flat_map(attachments::contents);
        let all = posted.chain(entered).chain([&turn.spec().user.content]).chain(before);
        let all: Vec<&Content> = all.filter(|content| content.has_media()).collect();
        if all.is_empty() {
            return Ok(Media::default());
        }
        let (store, key, limit) = (&*self.parts.store, &self.parts.key, self.parts.media_limit);
        patient(ATTEMPTS, || attachments::gather(store, key, &all, limit).boxed()).await
    }

    async fn drive(&mut self, driver: Option<Box<Driver>>) -> Result<(), DriveError> {
        let Some(mut driver) = driver else { return Ok(()) };
        let span = trace::turn(&driver.runtime.info, driver.turn.epoch());
        let outcome = driver.run().instrument(span.clone()).await;
        self.row = Row::Stale;
        self.released = driver.released;
        self.next_seq = driver.next_seq;
        self.at = Some((driver.id.clone(), driver.turn.epoch()));
        let outcome = outcome?;
        trace::turn_ended(&span, &outcome, &driver.turn.meters().usage);
        self.at = None;
        if outcome == Outcome::Paused {
            self.paused = Some(Paused::Id(driver.id.clone()));
        } else {
            self.history.push(Message::User(driver.turn.spec().user.clone()));
            if let Some(message) = driver.turn.message() {
                self.history.push(Message::Assistant(Box::new(message.clone())));
            }
        }
        Ok(())
    }
}

/// Takes the session; `None` when another process has it. A claim of this process that is still in force is a leftover, such
/// as of a claim whose answer was lost: within a process only one owner works on a session.
async fn claim(parts: &OwnerParts) -> Result<Option<u64>, StoreError> {
    let (store, key, lease) = (&*parts.store, &parts.key, parts.lease_ms());
    let now = parts.assembler.clock.now();
    match patient(ATTEMPTS, || store.claim(key, &parts.name, lease, now)).await? {
        Claim::Held { fence, .. } => Ok(Some(fence)),
        Claim::Busy { owner, .. } if *owner == *parts.name => {
            let fence = patient(ATTEMPTS, || store.session(key)).await?.fence;
            match patient(ATTEMPTS, || store.renew(key, fence, lease, now)).await {
                Ok(()) => Ok(Some(fence)),
                Err(StoreError::Fenced { .. }) => Ok(None),
                Err(e) => Err(e),
            }
        }
        Claim::Busy { .. } => Ok(None),
    }
}

/// What the turn read before it paused still counts for the workspace's rules.
fn taint(runtime: &Runtime, taints: &Taints, message: &AssistantMessage) {
    for call in message.calls() {
        if call.status == ToolCallStatus::Completed {
            let entries =
                runtime.agents.values().filter_map(|a| a.env.toolbox.get(call.name.as_str()));
            entries.for_each(|entry| taints.add(&entry.tool().contract().taints));
        }
        if let Some(child) = &call.child {
            taint(runtime, taints, child);
        }
    }
}

/// Which models a turn may run with.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    /// What was asked for in it.
    turn: Option<&'a ModelRef>,
    /// What the session keeps.
    kept: Option<&'a ModelRef>,
}

/// Tells the person when another model takes the place of the one that the session kept.
fn tell_replaced(driver: &mut Driver) -> Result<(), DriveError> {
    let Some(replaced) = driver.runtime.replaced.clone() else { return Ok(()) };
    let Replaced { from, to, reason } = replaced;
    let (from, to) = (from.to_string(), to.to_string());
    match driver.feed(Input::ModelReplaced { from, to, reason }) {
        // It ended at once, and no model answers any more.
        Ok(()) | Err(MachineError::Ended) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// How a turn's runtime comes to be.
enum Begin<'a> {
    Fresh,
    /// With its message so far, and what its context store was told.
    Continued(Option<&'a AssistantMessage>, Vec<Kept>),
}

/// The conversation before the turn, as models read it.
fn history(messages: &[Message], rules: &Rules) -> Transcript {
    let mut all = Transcript::default();
    for message in messages {
        all.push_message(message, rules);
    }
    all
}

fn corrupt(what: &str, cause: serde_json::Error) -> StoreError {
    StoreError::Corrupt { what: what.to_owned(), cause: Arc::new(cause) }
}

/// The reader is told why the stream ends, even where nothing can be stored.
fn tell_failure(parts: &OwnerParts, at: Option<(TurnId, u32)>, seq: u64, error: &DriveError) {
    let kind = EventKind::TurnError { error: error.as_turn_error(), usage: Box::default() };
    let (turn, epoch) = at.unwrap_or_else(|| (TurnId::from("none"), 0));
    parts.outlet.push_all(vec![Event {
        seq,
        epoch,
        at: parts.assembler.clock.now(),
        session: parts.key.id.clone(),
        turn,
        agent: "engine".into(),
        kind,
    }]);
}
