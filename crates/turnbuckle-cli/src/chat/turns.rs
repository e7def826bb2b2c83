//! Following a turn to its end, over its cards.

use super::Chat;
use super::approval::{Answer, Asking};
use crate::error::CliError;
use crate::exit::Exit;
use crate::host::turn_events;
use crate::term::{Style, message};
use futures_util::StreamExt;
use std::ops::ControlFlow;
use turnbuckle::core::fold::fold;
use turnbuckle::core::message::{Message, SystemBody};
use turnbuckle::store::{Session, SessionKey};
use turnbuckle::{Submitted, TurnStream};

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

    /// Shows events as they come. The first Ctrl-C stops the turn, the second leaves.
    async fn follow(
        &mut self,
        key: &SessionKey,
        mut stream: TurnStream,
    ) -> Result<ControlFlow<Exit>, CliError> {
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                () = self.interrupts.next() => {
                    if stopping {
                        let line = format!(
                            "Left in the middle. What was done is stored: `turnbuckle chat --session {}` goes on.", key.id
                        );
                        self.view.screen()?.line(Style::Loud, &line)?;
                        self.session = None;
                        return Ok(ControlFlow::Break(Exit::Interrupted));
                    }
                    stopping = true;
                    stream.stop();
                    self.view.screen()?.line(Style::Dim, "Stopping… (Ctrl-C again quits)")?;
                }
                event = stream.next() => match event {
                    Some(event) => self.view.show(&event)?,
                    None => {
                        self.view.screen()?;
                        return Ok(ControlFlow::Continue(()));
                    }
                },
            }
        }
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
            let submitted = match answer {
                Answer::Later => return Ok(ControlFlow::Break(Exit::Paused)),
                Answer::Stop => self.host.engine.stop(key, by).await?,
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
