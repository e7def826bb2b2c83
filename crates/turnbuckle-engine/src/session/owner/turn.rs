//! How a turn of a session comes to be driven: opened with a message, taken up after a crash, gone on with after a pause.

use super::{Owner, Paused, Row, StoredTurn, TurnOptions};
use crate::attachments;
use crate::domain::{DomainTurn, PlainTurn, TurnInfo};
use crate::driver::{ATTEMPTS, Conversation, DriveError, Driver, Untitled, Writer, patient};
use crate::pipeline::Allowances;
use crate::runtime::{Choices, Replaced, Runtime, RuntimeError, Storage};
use crate::session::recall::{self, Kept};
use crate::session::stored;
use crate::tool::ContextHandle;
use futures_util::FutureExt;
use std::sync::Arc;
use turnbuckle_core::content::{Content, Media};
use turnbuckle_core::context::Ambient;
use turnbuckle_core::machine::{Input, MachineError, RunMode, Turn};
use turnbuckle_core::message::{Message, UserMessage};
use turnbuckle_core::model::ModelRef;
use turnbuckle_core::title::first_message;
use turnbuckle_core::transcript::{Rules, Transcript};
use turnbuckle_store::{Delivery, KeptModel, OpenTurn, Posted, StoreError, TurnLog};

/// What a turn begins with.
struct Opening {
    turn: Turn,
    runtime: Runtime,
    open: OpenTurn,
    keep: Option<KeptModel>,
}

impl Owner {
    /// Opens a turn with a message.
    pub(super) async fn open(
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
    pub(super) async fn take_up(
        &mut self,
        log: TurnLog,
    ) -> Result<Option<Box<Driver>>, DriveError> {
        self.parts.control.next_turn();
        let Some(mut driver) = self.continued(&log, None).await? else { return Ok(None) };
        driver.recall_steering(&self.loaded.inbox);
        driver.feed(Input::Recover)?;
        tell_replaced(&mut driver)?;
        Ok(Some(driver))
    }

    /// A turn that waited goes on with an answer.
    pub(super) async fn resume(
        &mut self,
        log: TurnLog,
        input: Input,
        n: Option<u64>,
    ) -> Result<Option<Box<Driver>>, DriveError> {
        self.parts.control.next_turn();
        self.refresh().await?;
        let Some(mut driver) = self.continued(&log, n).await? else { return Ok(None) };
        driver.resumed = true;
        driver.recall_steering(&self.held);
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

    /// What drives a stored turn from here on, with the input that is used up with it; `None` when it cannot be rebuilt and is
    /// set aside.
    async fn continued(
        &mut self,
        log: &TurnLog,
        n: Option<u64>,
    ) -> Result<Option<Box<Driver>>, DriveError> {
        let (turn, runtime) = match self.rebuild(log) {
            Ok(rebuilt) => rebuilt,
            Err(why) => {
                self.set_aside(&log.turn.id, &why, n).await?;
                return Ok(None);
            }
        };
        let keep = self.keep_instead(&runtime);
        let mut driver = Box::pin(self.driver(turn, runtime)).await?;
        if let Some(writer) = &mut driver.writer {
            writer.consumed.extend(n);
            writer.model = keep;
        }
        Ok(Some(driver))
    }

    /// The machine of a stored turn, and what it runs with now.
    ///
    /// # Errors
    /// Why it cannot be rebuilt, in words.
    pub(super) fn rebuild(&self, log: &TurnLog) -> Result<(Turn, Runtime), String> {
        let stored = stored(log).map_err(|e| e.report())?;
        // The turn's own, which a process that ended in its midst may not have stored with the session yet.
        self.state.set_surroundings(stored.spec.user.surroundings.clone());
        let info = self.info(&stored.spec.user, stored.spec.mode, stored.account);
        let (turn, outputs) = recall::rebuild(stored.spec, &log.journal)
            .map_err(|e| format!("its journal does not fit what it began with: {e}"))?;
        let kept = stored.kept.or_else(|| self.kept_model());
        let mut wanted = Wanted { turn: stored.model.as_ref(), kept: kept.as_ref() };
        // What was asked for may be gone by now. That is no reason to lose a turn that has begun.
        if wanted.turn.is_some() && self.parts.assembler.models.resolve(wanted.turn).is_err() {
            wanted = Wanted { turn: None, kept: wanted.turn };
        }
        let runtime = self.runtime(info, wanted, Begin::Continued(outputs));
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

    fn runtime(&self, info: TurnInfo, wanted: Wanted<'_>, begin: Begin) -> Runtime {
        let assembler = &self.parts.assembler;
        let domain_state = self.state.domain();
        let (domain_turn, ambient, failed) = match assembler.open_turn(domain_state.as_ref(), &info)
        {
            Ok((turn, ambient)) => (turn, ambient, None),
            Err(e) => (
                Arc::new(PlainTurn(domain_state)) as Arc<dyn DomainTurn>,
                Ambient::default(),
                Some(e),
            ),
        };
        // What the turn read before counts for the workspace's rules from here on, too.
        let mut read = Vec::new();
        match begin {
            Begin::Fresh => self.state.begin_turn(ambient),
            Begin::Continued(outputs) => {
                read = outputs.iter().filter_map(|kept| kept.tool().cloned()).collect();
                self.state.resume_turn(ambient, outputs);
            }
        }
        if let Some(failed) = failed {
            return Runtime::broken(info, domain_turn, &failed);
        }
        let choices = Choices {
            model: wanted.turn,
            session_model: wanted.kept,
            storage: Storage::Session,
            context: ContextHandle::shared(self.state.context()),
            domain_turn: domain_turn.clone(),
            cancel: self.parts.control.cancel_token(),
            progress: self.parts.control.clone(),
            taints: Arc::default(),
            allowances: Allowances::Kept(self.parts.store.clone()),
            info: info.clone(),
        };
        match assembler.assemble(choices) {
            Ok(runtime) => {
                read.iter().for_each(|tool| runtime.taint(tool));
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
enum Begin {
    Fresh,
    /// With what its context store was told.
    Continued(Vec<Kept>),
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
