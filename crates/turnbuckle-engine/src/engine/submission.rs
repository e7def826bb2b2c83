//! Messages to agents, and what becomes of them.

use crate::driver::TurnStream;
use std::sync::Arc;
use turnbuckle_core::content::{Content, ContentPart};
use turnbuckle_core::ids::UserId;
use turnbuckle_core::machine::RunMode;
use turnbuckle_core::message::{Origin, Surroundings};
use turnbuckle_core::model::ModelRef;
use turnbuckle_store::Delivery;

/// A message to an agent.
#[derive(Clone, Debug)]
pub struct Submission {
    /// What it says.
    pub content: Content,
    /// Who wrote it.
    pub author: Option<UserId>,
    /// Whether a person wrote it.
    pub origin: Origin,
    /// Where it was written.
    pub surroundings: Surroundings,
    /// The model for this turn.
    pub model: Option<ModelRef>,
    /// Whether a person is there.
    pub mode: RunMode,
    /// Whether it may enter a running turn.
    pub delivery: Delivery,
    /// Submitting twice under one key starts one turn.
    pub idempotency_key: Option<String>,
    /// What the turn's model calls are booked to beside the person, such as the id of an API key.
    pub account: Option<Arc<str>>,
    /// The id under which the front end that sends it knows it.
    pub client_id: Option<String>,
}

impl Submission {
    /// A person's message.
    pub fn new(content: impl Into<Content>) -> Self {
        Self {
            content: content.into(),
            author: None,
            origin: Origin::Person,
            surroundings: Surroundings::default(),
            model: None,
            mode: RunMode::Interactive,
            delivery: Delivery::Queue,
            idempotency_key: None,
            account: None,
            client_id: None,
        }
    }

    /// Without a person: what needs approval is captured for review.
    #[must_use]
    pub fn captured(mut self) -> Self {
        self.mode = RunMode::Capture;
        self
    }

    /// With an image or file, after what it says so far.
    #[must_use]
    pub fn attach(mut self, part: ContentPart) -> Self {
        self.content = self.content.with(part);
        self
    }

    /// The model for this turn.
    #[must_use]
    pub fn model(mut self, model: ModelRef) -> Self {
        self.model = Some(model);
        self
    }

    /// May enter a running turn at its next step.
    #[must_use]
    pub fn steering(mut self) -> Self {
        self.delivery = Delivery::Steer;
        self
    }
}

impl From<&str> for Submission {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// What became of something posted to a session.
pub enum Submitted {
    /// The events of what it set in motion, from here on.
    Running(TurnStream),
    /// The session is at work here already; its own stream goes on with it.
    Queued,
}

impl Submitted {
    /// The stream; `None` when another one carries on.
    pub fn stream(self) -> Option<TurnStream> {
        match self {
            Submitted::Running(stream) => Some(stream),
            Submitted::Queued => None,
        }
    }
}
