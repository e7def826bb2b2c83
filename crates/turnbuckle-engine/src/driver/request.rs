//! Building the request of a model call from recorded inputs: the prompt of the agent, the history, the turn so far.

use super::Driver;
use super::hooks::wanted;
use super::start::config_error;
use super::work::CompactionWork;
use crate::agent::SendTools;
use crate::runtime::AgentRuntime;
use crate::session::Overlay;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::content::{Content, Media};
use turnbuckle_core::error::ModelError;
use turnbuckle_core::ids::MessageId;
use turnbuckle_core::machine::{CallModel, CompactionReport, Effect, StepId};
use turnbuckle_core::model::{ModelRequest, OutputSchema, SystemBlock, ToolChoice, ToolSet};
use turnbuckle_core::transcript::{Entry, Item, Rules, Transcript};
use turnbuckle_core::usage::Purpose;
use turnbuckle_models::Model;
use turnbuckle_models::tokens::PromptCount;

/// The conversation as it goes to models: the history, and for each message of the turn what was already added of it.
#[derive(Default)]
pub(crate) struct Conversation {
    history: Transcript,
    overlay: Option<Overlay>,
    media: Media,
    messages: BTreeMap<MessageId, Added>,
}

struct Added {
    transcript: Transcript,
    iterations: u32,
    /// The step whose request a provider refused as too long, so that it is made shorter once.
    refused: Option<StepId>,
}

impl Conversation {
    /// `overlay` stands for the beginning of the history, which may reach into the turn itself.
    pub(crate) fn new(history: Transcript, overlay: Option<Overlay>) -> Self {
        Self { history, overlay, media: Media::default(), messages: BTreeMap::new() }
    }

    /// With the bytes that messages of the turn refer to.
    pub(crate) fn with_media(self, media: Media) -> Self {
        Self { media, ..self }
    }

    /// The bytes that messages refer to.
    pub(crate) fn media_mut(&mut self) -> &mut Media {
        &mut self.media
    }

    /// What models read of a message of the turn, after their examples.
    pub(crate) fn of(&self, message: &MessageId) -> Transcript {
        self.messages.get(message).map(|added| added.transcript.clone()).unwrap_or_default()
    }

    /// Notes that the request of a step was refused as too long. Says whether that is the first time.
    pub(super) fn note_refused(&mut self, message: &MessageId, step: StepId) -> bool {
        let added = self.messages.get_mut(message);
        added.is_some_and(|added| added.refused.replace(step) != Some(step))
    }

    /// Replaces what models read of a message of the turn, after it was made to fit.
    pub(crate) fn replace(&mut self, message: &MessageId, transcript: Transcript) {
        if let Some(added) = self.messages.get_mut(message) {
            added.transcript = transcript;
        }
    }
}

/// A request ready to be sent, or the work that makes it fit first.
pub(crate) struct Built {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) request: ModelRequest,
    pub(crate) counted: Option<PromptCount>,
    pub(crate) compaction: Option<CompactionWork>,
}

/// A history that was made to fit.
pub(crate) struct Fitted {
    pub(crate) message: MessageId,
    pub(crate) result: Result<(Transcript, CompactionReport), ModelError>,
    /// The summary that was made on the way, even where it was not enough: the next turn can begin with it.
    pub(crate) overlay: Option<Overlay>,
}

impl Driver {
    pub(super) fn build_request(
        &mut self,
        effect: &Effect,
        call: &CallModel,
    ) -> Result<Built, ModelError> {
        if let Some(error) = &self.runtime.broken {
            return Err(config_error(error.clone()));
        }
        let runtime = self.runtime.clone();
        let agent = runtime.agents.get(&effect.agent);
        let agent =
            agent.ok_or_else(|| config_error(format!("there is no agent `{}`", effect.agent)))?;
        let wanted = wanted(agent, effect, call)?;
        let model = match wanted.model {
            Some(wanted) => self.assembler.models.resolve(Some(&wanted))?,
            None => agent.model.clone(),
        };
        let route = call.purpose == Purpose::Route;
        let tools = match wanted.tools {
            SendTools::Yes => agent.offered.clone(),
            SendTools::No => Arc::<ToolSet>::default(),
        };
        let tool_choice = match wanted.force_tool {
            Some(tool) if tools.specs.iter().any(|s| s.name == tool) => ToolChoice::Tool(tool),
            _ => ToolChoice::Auto,
        };
        let (system, output) = if route { self.route_prompt(agent) } else { step_prompt(agent) };
        let history = self.transcript(call);
        let transcript = led_by(agent.agent.examples.of(&model.id().model), history);
        let mut request = ModelRequest::new(model.id().model.clone(), transcript);
        request.system = system;
        request.tools = tools;
        request.tool_choice = tool_choice;
        request.output = output;
        request.settings = agent.agent.settings.clone();
        request.cache_key = Some(self.session.as_str().into());
        let (counted, compaction) = self.fit(&model, &request, effect, call);
        Ok(Built { model, request, counted, compaction })
    }

    /// The conversation of a message up to a model call. Only what is new is converted.
    fn transcript(&mut self, call: &CallModel) -> Transcript {
        let added = self.conversation.messages.entry(call.message.clone()).or_insert_with(|| {
            let mut transcript = Transcript::default();
            match &call.task {
                // A sub-agent knows its task and nothing else.
                Some(task) => transcript.push_item(Item::user(task.clone())),
                None => {
                    for entry in self.conversation.history.entries() {
                        transcript.push(entry.clone());
                    }
                    let user =
                        turnbuckle_core::message::Message::User(self.turn.spec().user.clone());
                    let media = self.conversation.media.clone();
                    transcript.push_message(&user, &Rules { media, ..Rules::default() });
                }
            }
            Added { transcript, iterations: 0, refused: None }
        });
        if let Some(message) = self.turn.messages().get(&call.message) {
            let rules = Rules {
                text_view: self.runtime.history.text_view.clone(),
                media: self.conversation.media.clone(),
                ..Rules::default()
            };
            while added.iterations < call.iteration {
                added.transcript.push_iteration(message, added.iterations, &rules);
                added.iterations += 1;
            }
        }
        if call.task.is_none()
            && let Some(overlay) = self.conversation.overlay.take()
        {
            added.transcript = with_overlay(&added.transcript, &overlay);
        }
        added.transcript.clone()
    }

    fn route_prompt(&self, agent: &AgentRuntime) -> (Vec<SystemBlock>, Option<OutputSchema>) {
        let routes = &self.turn.spec().routes;
        let names: Vec<&str> = routes.routes.keys().map(String::as_str).collect();
        let mut system = agent.system.clone();
        let text = format!(
            "Choose the route that fits the user's last message. Answer with a JSON object with the fields `route` (one of {}) \
             and `reasoning` (one sentence), and nothing else.",
            names.join(", ")
        );
        system.push(SystemBlock::new(text));
        let schema = serde_json::json!({
            "type": "object",
            "properties": {"route": {"type": "string", "enum": names}, "reasoning": {"type": "string"}},
            "required": ["route", "reasoning"],
            "additionalProperties": false,
        });
        (system, Some(OutputSchema { name: "route".into(), schema: schema.into() }))
    }
}

fn step_prompt(agent: &AgentRuntime) -> (Vec<SystemBlock>, Option<OutputSchema>) {
    (agent.system.clone(), agent.agent.output.clone())
}

/// The conversation after the examples of whoever reads it. They are no part of it: agents that share a conversation have
/// each their own, and nobody said them, so that no summary may tell of them.
pub(crate) fn led_by(examples: &Transcript, history: Transcript) -> Transcript {
    if examples.entries().is_empty() {
        return history;
    }
    let mut all = examples.clone();
    history.entries().iter().for_each(|entry| all.push(entry.clone()));
    all
}

/// The conversation with the summary in the place of what it covers.
fn with_overlay(whole: &Transcript, overlay: &Overlay) -> Transcript {
    let covered = whole.entries().iter().rposition(|e| e.source.as_ref() == Some(&overlay.until));
    let Some(last) = covered else { return whole.clone() };
    let mut out = Transcript::default();
    out.push(summary_entry(&overlay.summary));
    for entry in whole.entries().iter().skip(last + 1) {
        out.push(entry.clone());
    }
    out
}

/// How an entry begins that stands for what was summarised.
const SUMMARY: &str = "Summary of the conversation before this point, made to save space:\n\n";

/// An entry that stands for what was summarised.
pub(crate) fn summary_entry(text: &str) -> Arc<Entry> {
    Entry::new(Item::user(format!("{SUMMARY}{text}")), None)
}

/// The summary, where an entry stands for what was summarised.
pub(crate) fn summary_in(entry: &Entry) -> Option<&str> {
    match (&entry.item, &entry.source) {
        (Item::User { content: Content::Text(text) }, None) => text.strip_prefix(SUMMARY),
        _ => None,
    }
}
