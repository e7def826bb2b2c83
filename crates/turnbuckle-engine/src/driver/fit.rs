//! Making requests fit the model's window, and holding structured answers to their schema.

use super::bill::Beside;
use super::request::{Fitted, led_by, summary_entry, summary_in};
use super::work::{CompactionWork, ModelWork};
use super::{Driver, commit::Changed};
use crate::runtime::AgentRuntime;
use crate::session::Overlay;
use futures_util::FutureExt;
use std::sync::Arc;
use turnbuckle_core::compaction::{
    Digest, cut, digest, drop_old_media, drop_old_results, trim_large,
};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::machine::{
    AnswerDirectives, CallModel, CompactionReport, Effect, ModelAnswer,
};
use turnbuckle_core::model::{Block, ModelRequest, ModelResponse, SystemBlock};
use turnbuckle_core::outcome::TurnError;
use turnbuckle_core::part::{InputKind, Part};
use turnbuckle_core::transcript::{Entry, Item, Transcript};
use turnbuckle_core::usage::Purpose;
use turnbuckle_models::tokens::{Fit, PromptCount};
use turnbuckle_models::{CallFailure, Model, TokenMeter};

/// The answer's share of the window when nothing says how long it may be, as a divisor.
const ANSWER_SHARE: u32 = 4;
/// Texts are not shortened to fewer tokens than this.
const SHORTEST: u32 = 64;
/// Tokens of a summary at the most.
const SUMMARY_TOKENS: u32 = 1024;
/// What a summary is made of: two attempts in a turn, the second much smaller. The same prompt would fail again, and a model
/// that can summarise nothing must not be asked before every step.
const SUMMARY_SIZES: [SummarySize; 2] =
    [SummarySize { each: 4000, per_token: 2 }, SummarySize { each: 600, per_token: 1 }];
/// How the summary is asked for.
const SUMMARISE: &str = "Summarise the conversation below for the assistant that will carry it on. Keep every fact, \
decision, name, number, identifier and open question that may matter later, and what tools found. Leave out pleasantries. \
Write plain text, no preamble.";
/// How the earlier summary is passed on to the model that writes the next.
const EARLIER: &str = "Earlier summary, which yours replaces, so keep all that it says:\n\n";
/// What stands between it and what followed.
const SINCE: &str = "\n\nThe conversation since then:\n\n";
/// How a structured answer is asked for again. The text before the colon marks the repair in the message.
const REPAIR: &str = "Your answer does not satisfy the required schema";

impl Driver {
    /// The request's tokens as far as they were counted, and the work that makes it fit when it does not.
    pub(super) fn fit(
        &self,
        model: &Arc<dyn Model>,
        request: &ModelRequest,
        effect: &Effect,
        call: &CallModel,
    ) -> (Option<PromptCount>, Option<CompactionWork>) {
        let meter = self.assembler.meter(model);
        let budget = budget(&**model, request);
        match meter.fit(request, budget) {
            Fit::Certain => (None, None),
            Fit::Fits(count) => (Some(count), None),
            Fit::Exceeds(count) => {
                let tight = Tight { budget, before: count.tokens, refused: None };
                (Some(count), Some(self.make_room(model, request, effect, call, tight)))
            }
        }
    }

    /// The work that makes a request shorter which the provider refused as too long, though by what is known of the model it
    /// fits: a server may have been started with a smaller window. What it takes nobody knows, so half of the conversation has
    /// to go. That is tried once for each call; the machine hears of the refusal when it comes to nothing. Nothing is learned
    /// for other conversations: a refusal that was about something else must not shorten them all.
    pub(super) fn shorten_refused(
        &mut self,
        work: &ModelWork,
        failure: &CallFailure,
    ) -> Option<CompactionWork> {
        let ModelWork { effect, call, model, request, meter, .. } = work;
        let said = failure.partial.is_some() || self.partial_of(work).is_some();
        if failure.error.kind != ModelErrorKind::ContextOverflow
            || said
            || self.turn.model_calls_left() == 0
            || !self.conversation.note_refused(&call.message, effect.step)
        {
            return None;
        }
        let whole = meter.count(request);
        let bare = ModelRequest { transcript: self.examples(effect, model), ..(**request).clone() };
        let fixed = meter.count(&bare).at_most();
        tracing::warn!(
            "a request of about {} tokens was refused as too long, and the window of `{}` is said to be {}; it is made shorter",
            whole.tokens,
            model.id().model,
            model.info().context_window
        );
        let tight = Tight {
            budget: fixed + whole.at_most().saturating_sub(fixed) / 2,
            before: whole.tokens,
            refused: Some(failure.error.clone()),
        };
        Some(self.make_room(model, request, effect, call, tight))
    }

    fn make_room(
        &self,
        model: &Arc<dyn Model>,
        request: &ModelRequest,
        effect: &Effect,
        call: &CallModel,
        tight: Tight,
    ) -> CompactionWork {
        let nested = self.nested.of(&effect.path);
        let beside =
            self.beside(model.clone(), &effect.agent, effect.step, Purpose::Summary, nested);
        let sizes = self.summary_sizes();
        let work = Compaction {
            beside: beside.clone(),
            meter: self.assembler.meter(model),
            request: request.clone(),
            examples: self.examples(effect, model),
            history: self.conversation.of(&call.message),
            tight,
            sizes,
            overlay: None,
        };
        let future = work.run(call.message.clone()).boxed();
        CompactionWork { effect: effect.clone(), beside, tries: sizes.len() as u32, future }
    }

    fn examples(&self, effect: &Effect, model: &Arc<dyn Model>) -> Transcript {
        let agent = self.runtime.agents.get(&effect.agent);
        agent.map(|a| a.agent.examples.of(&model.id().model).clone()).unwrap_or_default()
    }

    /// How a summary may still be tried in this turn: none of the ways that came to nothing, and no more calls than the turn
    /// has left. What works under way beside this one may use is theirs.
    fn summary_sizes(&self) -> &'static [SummarySize] {
        let reserved: u32 = self.work.compactions.iter().map(|work| work.tries).sum();
        let lost = self.turn.meters().lost_summaries.saturating_add(reserved);
        let left = self.turn.model_calls_left().saturating_sub(reserved);
        let sizes = SUMMARY_SIZES.get(lost as usize..).unwrap_or_default();
        sizes.get(..left as usize).unwrap_or(sizes)
    }

    /// What was summarised is kept with the session, so that a later turn does not summarise it again.
    pub(super) fn note_overlay(&mut self, overlay: Option<Overlay>) {
        if let (Some(writer), Some(overlay)) = (&mut self.writer, overlay) {
            writer.side.set_overlay(overlay);
            writer.state_changed = Changed::Maybe;
        }
    }

    /// Validates a structured answer; one that fails is asked for once more, then the turn fails. There is never a made-up value.
    pub(super) fn check_output(
        &self,
        agent: &AgentRuntime,
        call: &CallModel,
        answer: &ModelResponse,
        out: &mut AnswerDirectives,
    ) {
        let Some(schema) = &agent.agent.output else { return };
        if call.purpose != Purpose::Step || out.nudge.is_some() || out.stop.is_some() {
            return;
        }
        let Err(problem) = check(&schema.schema, answer) else { return };
        let message = self.turn.messages().get(&call.message);
        // Agents of a route share a message, and each may repair its own answer.
        let first = call.iteration.saturating_sub(call.calls_made);
        let repaired = message.is_some_and(|m| {
            m.parts.iter().any(|part| match part {
                Part::Input(p) => {
                    p.iteration >= first
                        && p.kind == InputKind::Nudge
                        && p.content.text().starts_with(REPAIR)
                }
                _ => false,
            })
        });
        if repaired {
            out.fail = Some(TurnError::InvalidOutput { message: problem });
        } else {
            out.nudge = Some(format!(
                "{REPAIR}: {problem}. Answer again with JSON that does, and nothing else. The schema: {}",
                schema.schema
            ));
        }
    }
}

/// The value of a structured answer; a fence around it is forgiven.
///
/// # Errors
/// What is wrong with it.
pub fn structured(text: &str) -> Result<serde_json::Value, String> {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|t| t.strip_suffix("```"));
    let body = inner.map_or(text, |t| t.trim_start_matches(|c: char| c.is_ascii_alphabetic()));
    serde_json::from_str(body.trim()).map_err(|e| format!("it is not JSON: {e}"))
}

fn check(schema: &serde_json::Value, answer: &ModelResponse) -> Result<(), String> {
    let text: String = answer
        .blocks
        .iter()
        .filter_map(|b| match b {
            Block::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let value = structured(&text)?;
    let validator = crate::tool::schema::compile(schema)?;
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .take(3)
        .map(|e| format!("{} at `{}`", e, e.instance_path()))
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

/// Tokens that the request may have.
fn budget(model: &dyn Model, request: &ModelRequest) -> u32 {
    let info = model.info();
    let answer = request.settings.max_output_tokens.unwrap_or(info.max_output_tokens);
    info.context_window.saturating_sub(answer.min(info.context_window / ANSWER_SHARE))
}

/// What a request must be made to fit.
struct Tight {
    /// Tokens that it may have.
    budget: u32,
    /// Those that it has.
    before: u32,
    /// How the provider refused it, if it did.
    refused: Option<ModelError>,
}

struct Compaction {
    beside: Beside,
    meter: Arc<TokenMeter>,
    request: ModelRequest,
    /// What the request begins with, which is no part of the history and stays as it is.
    examples: Transcript,
    /// What is made to fit.
    history: Transcript,
    tight: Tight,
    /// See [`SUMMARY_SIZES`].
    sizes: &'static [SummarySize],
    /// The summary that was made, with what it covers.
    overlay: Option<Overlay>,
}

/// How much a summary is made of.
#[derive(Clone, Copy)]
struct SummarySize {
    /// Bytes of each message at the most.
    each: usize,
    /// Bytes of all of them for each token that the request may have. One is never too many.
    per_token: usize,
}

/// A history of which the older part was summarised.
struct Summarised {
    history: Transcript,
    overlay: Option<Overlay>,
    note: &'static str,
}

impl Compaction {
    async fn run(mut self, message: MessageId) -> Fitted {
        let result = self.make_fit().await;
        let overlay = self.overlay;
        Fitted { message, result, overlay }
    }

    /// The history that fits. The call for a summary is held by [`Beside`].
    async fn make_fit(&mut self) -> Result<(Transcript, CompactionReport), ModelError> {
        let mut notes = Vec::new();
        // A single text may take half of what there is.
        let mut largest = self.tight.budget / 2;
        let mut shortened = self.shorten(largest);
        if !self.sizes.is_empty() && !self.fits(&self.history) {
            match self.summarise().await {
                Ok(made) => {
                    self.history = made.history;
                    self.overlay = made.overlay;
                    notes.push(made.note);
                }
                Err(error) if error.kind == ModelErrorKind::Cancelled => return Err(error),
                Err(error) => {
                    tracing::warn!("the history could not be summarised: {error}");
                    notes.push("a summary could not be made");
                }
            }
        }
        if !self.fits(&self.history) {
            let fits = |t: &Transcript| self.fits(t);
            if let Some(marked) = drop_old_media(&self.history, &fits) {
                self.history = marked;
                notes.push("the oldest images and files were left out");
            }
        }
        if !self.fits(&self.history) {
            let fits = |t: &Transcript| self.fits(t);
            if let Some(dropped) = drop_old_results(&self.history, &fits) {
                self.history = dropped;
                notes.push("the oldest tool results were left out");
            }
        }
        // What is left is the newest, and too long together.
        while largest > SHORTEST && !self.fits(&self.history) {
            largest /= 2;
            shortened |= self.shorten(largest);
        }
        if shortened {
            notes.insert(0, "very long texts were shortened");
        }
        if !self.fits(&self.history) {
            if let Some(refused) = self.tight.refused.take() {
                return Err(refused);
            }
            let message = format!(
                "the request has about {} tokens and the model takes {}, even after everything that can go was left out",
                self.meter.count(&self.with(&self.history)).tokens,
                self.tight.budget
            );
            return Err(ModelError::new(ModelErrorKind::ContextOverflow, message));
        }
        let after = u64::from(self.meter.count(&self.with(&self.history)).tokens);
        let done = format!("To fit the model's window, {}.", notes.join(", and "));
        let note = match self.tight.refused {
            Some(_) => format!("The provider found the request too long. {done}"),
            None => done,
        };
        let report = CompactionReport {
            note,
            before: u64::from(self.tight.before),
            after,
            summary_call: None,
        };
        Ok((self.history.clone(), report))
    }

    /// Shortens single texts to so many tokens. Says whether there were any.
    fn shorten(&mut self, tokens: u32) -> bool {
        let count = |text: &str| self.meter.text_at_most(text);
        let Some(trimmed) = trim_large(&self.history, tokens, &count) else {
            return false;
        };
        self.history = trimmed;
        true
    }

    fn fits(&self, history: &Transcript) -> bool {
        self.meter.fit(&self.with(history), self.tight.budget).fits()
    }

    /// Tokens that are left for the history.
    fn room(&self) -> u32 {
        let fixed = self.meter.count(&self.with(&Transcript::default())).at_most();
        self.tight.budget.saturating_sub(fixed)
    }

    /// The request with another history.
    fn with(&self, history: &Transcript) -> ModelRequest {
        let transcript = led_by(&self.examples, history.clone());
        ModelRequest { transcript, ..self.request.clone() }
    }

    async fn summarise(&self) -> Result<Summarised, ModelError> {
        let counter = self.meter.counter().clone();
        let tokens = |e: &Entry| e.tokens(counter.key(), |i| counter.count_item(i));
        let entries = self.history.entries();
        let at = cut(entries, &tokens, self.room() / 3).unwrap_or(0);
        let (old, recent) = entries.split_at(at);
        let earlier = old.first().and_then(|entry| summary_in(entry));
        let since = old.get(usize::from(earlier.is_some())..).unwrap_or_default();
        if since.is_empty() {
            let message = "there is nothing that could be summarised";
            return Err(ModelError::new(ModelErrorKind::ContextOverflow, message));
        }
        let mut failure = None;
        for size in self.sizes {
            let most = (self.tight.budget as usize).saturating_mul(size.per_token);
            let (text, note) = to_summarise(earlier, since, size.each, most);
            match self.ask_for_summary(text).await {
                Ok(answer) => {
                    let summary = text_of(&answer.response);
                    self.beside.hold(answer);
                    let mut history = Transcript::default();
                    history.push(summary_entry(&summary));
                    for entry in recent {
                        history.push(entry.clone());
                    }
                    let last = old.iter().rev().find_map(|e| e.source.clone());
                    let overlay = last.map(|until| Overlay { until, summary });
                    return Ok(Summarised { history, overlay, note });
                }
                Err(error) if error.kind == ModelErrorKind::ContextOverflow => {
                    failure = Some(error)
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure
            .unwrap_or_else(|| ModelError::new(ModelErrorKind::ContextOverflow, "no summary")))
    }

    async fn ask_for_summary(&self, text: String) -> Result<ModelAnswer, ModelError> {
        let mut transcript = Transcript::default();
        transcript.push_item(Item::user(text));
        let mut request = ModelRequest::new(self.request.model.clone(), transcript);
        request.system = vec![SystemBlock::new(SUMMARISE)];
        request.settings.max_output_tokens = Some(SUMMARY_TOKENS);
        let answer = self.beside.call(request).await?;
        if text_of(&answer.response).trim().is_empty() {
            self.beside.forgo(answer);
            return Err(ModelError::new(ModelErrorKind::Protocol, "the summary is empty"));
        }
        Ok(answer)
    }
}

/// What a summary is made of, and what people are told of it. The earlier summary is passed on whole: it is all that is left
/// of what it stands for, and the new one takes its place for good.
fn to_summarise(
    earlier: Option<&str>,
    since: &[Arc<Entry>],
    each: usize,
    most: usize,
) -> (String, &'static str) {
    let before = earlier.map_or_else(String::new, |text| format!("{EARLIER}{text}{SINCE}"));
    let room = most.saturating_sub(before.len()).max(most / 2);
    let Digest { text, left_out } = digest(since, each, room);
    let note = match left_out {
        0 => "the older part of the conversation was summarised",
        _ => "the older part of the conversation was summarised without all of its middle",
    };
    (before + &text, note)
}

fn text_of(response: &ModelResponse) -> String {
    let texts = response.blocks.iter().filter_map(|b| match b {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
