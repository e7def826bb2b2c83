//! What the binary says of itself: the log on stderr, and traces over OTLP.
//!
//! | module | holds |
//! |---|---|
//! | [`lines`] | how an event becomes a line of text or of JSON |
//! | [`redact`] | what takes secrets out of every line and every exported span |
//! | [`otlp`] | spans by the OpenTelemetry protocol |
//!
//! With neither set there is no subscriber, and the places that would speak cost one look at a static.

mod lines;
mod otlp;
mod redact;

pub use otlp::TelemetryConfig;

use crate::config::{Settings, process_env};
use crate::error::CliError;
use lines::{Fields, JsonLines};
use opentelemetry_sdk::trace::SdkTracerProvider;
use redact::RedactedStderr;
use serde::Deserialize;
use std::sync::OnceLock;
use std::time::Duration;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

/// How long the last spans may take to be sent when the process ends.
const LAST_SPANS: Duration = Duration::from_secs(5);

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for machines.
    Json,
}

impl std::str::FromStr for LogFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(()),
        }
    }
}

static TRACES: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Starts the log and the traces, as configured. To be called within the runtime.
///
/// # Errors
/// When the level is none, or the traces' destination cannot be used.
pub fn start(settings: &Settings) -> Result<(), CliError> {
    let level: LevelFilter = settings.log.parse().map_err(|_| {
        CliError::Usage(format!(
            "the log level is `{}`; it must be off, error, warn, info, debug or trace",
            settings.log
        ))
    })?;
    let mut layers: Vec<Box<dyn Layer<Registry> + Send + Sync>> = Vec::new();
    if level != LevelFilter::OFF {
        layers.push(log_layer(settings.log_format, level));
    }
    if let Some(provider) = otlp::provider(&settings.telemetry, &process_env)? {
        let wanted = Targets::new()
            .with_target(turnbuckle::trace::TARGET, LevelFilter::INFO)
            .with_target("turnbuckle", LevelFilter::WARN);
        layers.push(otlp::layer(&provider).with_filter(wanted).boxed());
        // The first of the process stays; there is never another.
        let _ = TRACES.set(provider);
    }
    if !layers.is_empty() {
        tracing_subscriber::registry().with(layers).init();
    }
    Ok(())
}

fn log_layer(format: LogFormat, level: LevelFilter) -> Box<dyn Layer<Registry> + Send + Sync> {
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(RedactedStderr);
    match format {
        LogFormat::Text => layer.fmt_fields(Fields::Text).with_filter(level).boxed(),
        LogFormat::Json => {
            layer.fmt_fields(Fields::Json).event_format(JsonLines).with_filter(level).boxed()
        }
    }
}

/// Sends the spans that are still here. To be called at the end, within the runtime.
pub async fn finish() {
    let Some(provider) = TRACES.get() else { return };
    // It waits for the exporter, which needs the runtime.
    let done = tokio::task::spawn_blocking(|| provider.shutdown_with_timeout(LAST_SPANS)).await;
    if let Ok(Err(e)) = done {
        tracing::warn!("the last spans could not be sent: {e}");
    }
}
