//! How the API behaves. The binary reads it from `[server]` of `turnbuckle.toml`.

use crate::dto::{ModelInUse, RequestLimits};
use crate::quota::QuotaRule;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use turnbuckle_core::content::ContentLimits;

/// How the API behaves.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// The model that answers by default, as callers are told.
    pub model: ModelInUse,
    /// The agent of sessions whose creator names none.
    pub default_agent: Option<String>,
    /// Whether turns run in this process, as callers are told.
    pub worker: bool,
    /// What a request may hold.
    pub limits: Limits,
    /// How events are streamed.
    pub streams: StreamOptions,
    /// Pages of these origins may call the API; none but the server's own by default.
    pub cors: Vec<String>,
    /// Whether everyone who reaches the server may read the metrics at `/metrics`.
    pub open_metrics: bool,
    /// How much may be used.
    pub quotas: Vec<QuotaRule>,
    /// How long a deletion waits for a turn to stop.
    pub delete_wait: Duration,
}

impl ApiOptions {
    /// The usual behaviour with this model.
    pub fn new(model: ModelInUse) -> Self {
        Self {
            model,
            default_agent: None,
            worker: true,
            limits: Limits::default(),
            streams: StreamOptions::default(),
            cors: Vec::new(),
            open_metrics: false,
            quotas: Vec::new(),
            delete_wait: Duration::from_secs(10),
        }
    }
}

/// What a request may hold, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a request's body, messages apart.
    pub body_bytes: usize,
    /// What a message may hold.
    pub message: ContentLimits,
    /// References of a message.
    pub references: usize,
    /// Bytes of one reference.
    pub reference_bytes: usize,
    /// Tools that a front end may offer with a message.
    pub tools: usize,
    /// Bytes of the schema and the description of one of them.
    pub tool_bytes: usize,
    /// Event streams at once.
    pub streams: usize,
    /// Event streams of one user at once.
    pub streams_per_user: usize,
    /// Requests of one user per second, over some time.
    pub requests_per_second: u32,
    /// Requests of one user in a burst.
    pub burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            message: ContentLimits::default(),
            references: 32,
            reference_bytes: 64 * 1024,
            tools: 64,
            tool_bytes: 16 * 1024,
            streams: 10_000,
            streams_per_user: 64,
            requests_per_second: 50,
            burst: 200,
        }
    }
}

impl Limits {
    /// Bytes of a request that submits a message: its media in Base64, its text with every character escaped, its references,
    /// its tools.
    pub fn message_body_bytes(&self) -> usize {
        let message = &self.message;
        let media = message.max_total_bytes.saturating_mul(4) / 3;
        let text = message.max_text_bytes.saturating_mul(2);
        let references = self.references.saturating_mul(self.reference_bytes);
        let tools = self.tools.saturating_mul(self.tool_bytes);
        usize::try_from(media.saturating_add(text))
            .unwrap_or(usize::MAX)
            .saturating_add(references)
            .saturating_add(tools)
            .saturating_add(self.body_bytes)
    }
}

impl From<&Limits> for RequestLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            body_bytes: limits.body_bytes as u64,
            text_bytes: limits.message.max_text_bytes,
            parts: limits.message.max_parts as u64,
            image_bytes: limits.message.max_image_bytes,
            file_bytes: limits.message.max_file_bytes,
            total_bytes: limits.message.max_total_bytes,
            references: limits.references as u64,
            reference_bytes: limits.reference_bytes as u64,
            streams_per_user: limits.streams_per_user as u64,
        }
    }
}

/// How events are streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// The first event is written at once; what comes within this time of the last write is written together.
    pub gather: Duration,
    /// A comment is written after so much silence.
    pub keep_alive: Duration,
    /// A stream ends after this, and its reader connects again.
    pub longest: Duration,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            gather: Duration::from_millis(25),
            keep_alive: Duration::from_secs(15),
            longest: Duration::from_secs(3600),
        }
    }
}
