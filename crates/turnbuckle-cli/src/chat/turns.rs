//! Following a turn to its end, over its cards.

use super::approval::{self, Answer, Asking};
use super::commands::{self, Slash};
use super::{Chat, NextInterrupt};
use crate::error::CliError;
use crate::exit::Exit;
use crate::host::turn_events;
use crate::term::{Style, message};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use turnbuckle::core::event::{Event, EventKind};
use turnbuckle::core::fold::fold;
use turnbuckle::core::message::{Message, SystemBody};
use turnbuckle::store::{Delivery, Session, SessionKey};
use turnbuckle::{Engine, EngineError, Submission, Submitted, TurnStream};

/// What became of a line that was typed while a turn runs.
enum Typed {
    /// It is seen to.
    Seen,
    /// The turn is to stop.
    Stop,
}

/// The next event of what runs; waits for ever when nothing does.
async fn next_event(running: &mut VecDeque<TurnStream>) -> Option<Event> {
    match running.front_mut() {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

/// Messages on their way to the store, one after the other. A turn goes on only while its stream is read, and may hold the store
/// meanwhile, so they are sent beside it.
#[derive(Default)]
struct Outbox(VecDeque<BoxFuture<'static, Sent>>);

/// What to say of a message that is stored, and what that set in motion.
type Sent = (String, Result<Submitted, EngineError>);

impl Outbox {
    fn put(&mut self, engine: Engine, key: SessionKey, submission: Submission, line: String) {
        self.0.push_back(Box::pin(async move { (line, engine.submit(&key, submission).await) }));
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What became of the next one; waits for ever when there is none.
    async fn sent(&mut self) -> Sent {
        match self.0.front_mut() {
            Some(sending) => {
                let sent = sending.await;
                self.0.pop_front();
                sent
            }
            None => std::future::pending().await,
        }
    }
}

impl Chat {
    /// Follows what runs, and then asks about its cards until none is left.
    pub(super) async fn follow_all(
        &mut self,
        key: &SessionKey,
        submitted: Submitted,
    ) -> Result<ControlFlow<Exit>, CliError> {
        let Some(stream) = submitted.stream() else {
            let line = "The session is at work already; what you sent waits for its turn.";
            self.view.screen()?.line(Style::Dim, line)?;
            return Ok(ControlFlow::Continue(()));
        };
        if let ControlFlow::Break(exit) = self.follow(key, stream).await? {
            return Ok(ControlFlow::Break(exit));
        }
        self.settle_cards(key).await
    }

    /// Shows events as they come, and takes what is typed meanwhile. The first Ctrl-C stops the turn, the second leaves.
    async fn follow(
        &mut self,
        key: &SessionKey,
        stream: TurnStream,
    ) -> Result<ControlFlow<Exit>, CliError> {
        let mut running = VecDeque::from([stream]);
        let mut outbox = Outbox::default();
        let mut stopping = false;
        // Between a turn's last event and the end of its stream there is nothing to stop: a Ctrl-C is then for the prompt.
        let mut over = false;
        self.input.listen();
        loop {
            if running.is_empty() && outbox.is_empty() {
                self.view.screen()?;
                for line in self.input.hush().await {
                    self.typed(key, &line, &mut outbox)?;
                }
                if outbox.is_empty() {
                    return Ok(ControlFlow::Continue(()));
                }
                self.input.listen();
            }
            tokio::select! {
                biased;
                () = self.interrupts.next(), if !over => {
                    if stopping {
                        let line = format!(
                            "Left in the middle. What was done is stored: `turnbuckle chat --session {}` goes on.", key.id
                        );
                        self.view.screen()?.line(Style::Loud, &line)?;
                        self.session = None;
                        return Ok(ControlFlow::Break(Exit::Interrupted));
                    }
                    stopping = true;
                    running.iter().for_each(TurnStream::stop);
                    self.stopped_by_interrupt()?;
                }
                (line, sent) = outbox.sent() => match sent {
                    Ok(submitted) => {
                        self.view.aside(Style::Dim, &line)?;
                        running.extend(submitted.stream());
                    }
                    Err(error) => self.view.aside(Style::Bad, &CliError::from(error).line())?,
                },
                line = self.input.typed() => {
                    if let Typed::Stop = self.typed(key, &line, &mut outbox)? {
                        stopping = true;
                        running.iter().for_each(TurnStream::stop);
                        self.view.aside(Style::Dim, "Stopping…")?;
                    }
                }
                event = next_event(&mut running) => match event {
                    Some(event) => {
                        over = event.kind.is_terminal();
                        self.show(&event)?;
                    }
                    None => {
                        running.pop_front();
                        over = false;
                    }
                },
            }
        }
    }

    /// Shows an event. A message that was not typed right before its turn is shown where that begins.
    fn show(&mut self, event: &Event) -> Result<(), CliError> {
        if let EventKind::TurnStarted { message, .. } = &event.kind
            && !self.said.remove(&message.id)
        {
            let line = format!("> {}", message.content.outline());
            self.view.screen()?.line(Style::Bold, &line)?;
        }
        Ok(self.view.show(event)?)
    }

    /// Takes a line that was typed while a turn runs.
    fn typed(
        &mut self,
        key: &SessionKey,
        line: &str,
        outbox: &mut Outbox,
    ) -> Result<Typed, CliError> {
        let line = line.trim();
        let behind = self.input.keeps_any();
        let (text, delivery, how) = match commands::parse(line) {
            _ if line.is_empty() => return Ok(Typed::Seen),
            Some(Slash::Stop) if !behind => return Ok(Typed::Stop),
            Some(Slash::Steer(text)) => (text, Delivery::Steer, "steering"),
            None if !behind && (self.input.is_terminal() || !approval::is_answer(line)) => {
                (line.to_owned(), Delivery::Queue, "queued")
            }
            _ => {
                self.input.keep(line.to_owned());
                self.view.aside(Style::Dim, &format!("  later: {line}"))?;
                return Ok(Typed::Seen);
            }
        };
        let submission = Submission { delivery, ..self.submission(&text) };
        outbox.put(self.host.engine.clone(), key.clone(), submission, format!("  {how}: {text}"));
        Ok(Typed::Seen)
    }

    /// Asks about each open card and follows what the answer sets in motion.
    pub(super) async fn settle_cards(
        &mut self,
        key: &SessionKey,
    ) -> Result<ControlFlow<Exit>, CliError> {
        loop {
            let Some(first) = self.host.pending_cards(key).await?.into_iter().next() else {
                return Ok(ControlFlow::Continue(()));
            };
            let SystemBody::Approval(card) = &first.body else {
                return Ok(ControlFlow::Continue(()));
            };
            self.view.know_call(&card.call, card.tool.as_str(), first.at);
            let mut asking = Asking {
                screen: self.view.screen()?,
                input: &mut self.input,
                interrupts: &mut self.interrupts,
                settings: &self.host.settings,
            };
            let answer = asking.ask(card).await?;
            let by = Some(self.host.user());
            if answer == Answer::Interrupt {
                self.stopped_by_interrupt()?;
            }
            let submitted = match answer {
                Answer::Later => return Ok(ControlFlow::Break(Exit::Paused)),
                Answer::Stop | Answer::Interrupt => self.host.engine.stop(key, by).await?,
                Answer::Decide(decision) => {
                    self.host.engine.decide(key, &first.id, decision, by).await?
                }
            };
            if let Some(stream) = submitted.stream()
                && let ControlFlow::Break(exit) = self.follow(key, stream).await?
            {
                return Ok(ControlFlow::Break(exit));
            }
        }
    }

    /// Ctrl-C stops the turn. The next one quits, also when the turn has ended by then.
    fn stopped_by_interrupt(&mut self) -> Result<(), CliError> {
        self.next_interrupt = NextInterrupt::Leaves;
        Ok(self.view.screen()?.line(Style::Dim, "Stopping… (Ctrl-C again quits)")?)
    }

    /// Stops a turn that waits for people; one that runs is stopped by Ctrl-C.
    pub(super) async fn stop_waiting(&mut self) -> Result<ControlFlow<Exit>, CliError> {
        let Some(key) = self.session.clone() else {
            self.tell("Nothing runs.")?;
            return Ok(ControlFlow::Continue(()));
        };
        if self.host.pending_cards(&key).await?.is_empty() {
            self.tell("Nothing runs. Ctrl-C stops a running turn.")?;
            return Ok(ControlFlow::Continue(()));
        }
        let submitted = self.host.engine.stop(&key, Some(self.host.user())).await?;
        self.follow_all(&key, submitted).await
    }

    /// Goes on with a turn that an earlier process left in the middle: shows what is stored of it, then the rest as it comes.
    pub(super) async fn take_up(
        &mut self,
        session: &Session,
    ) -> Result<ControlFlow<Exit>, CliError> {
        let key = session.key.clone();
        if let Some(turn) = &session.turn {
            let events = turn_events(&**self.host.store(), &key, turn).await?;
            // What was stored of the turn so far; the machine judges it anew, so a gap here only costs the display.
            let stored = fold(&events).ok().and_then(|turn| turn.assistant);
            let titles = self.view.titles().clone();
            if let Some(stored) = stored {
                for call in stored.calls().filter(|call| !call.status.is_settled()) {
                    let since = call.started_at.unwrap_or(stored.at);
                    self.view.know_call(&call.id, call.name.as_str(), since);
                }
                let shown = Message::Assistant(Box::new(stored));
                message::show(self.view.screen()?, &titles, &shown)?;
            }
        }
        self.view.screen()?.line(Style::Loud, "This turn was left in the middle; it goes on.")?;
        let submitted = self.host.engine.work(&key);
        self.follow_all(&key, submitted).await
    }
}
