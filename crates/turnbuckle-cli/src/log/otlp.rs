//! Spans by the OpenTelemetry protocol, as protobuf over HTTP. Off unless a destination is set, by the standard environment
//! variables or the configuration.

use super::redact::redact;
use crate::config::Env;
use crate::error::CliError;
use async_trait::async_trait;
use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;
use turnbuckle::trace::TraceContent;

/// How long a batch of spans may take to be sent.
const PATIENCE: Duration = Duration::from_secs(10);
const SERVICE: &str = "turnbuckle";
/// An attribute that the conventions want as a list.
const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";

/// Traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// Where spans go: the address of a collector, without `/v1/traces`.
    pub otlp_endpoint: Option<String>,
    /// Whether spans hold what people, models and tools say.
    pub content: bool,
}

impl TelemetryConfig {
    /// The environment wins over the file.
    pub fn with_environment(mut self, env: Env<'_>) -> Self {
        if let Some(said) = env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT") {
            self.content = matches!(
                said.to_ascii_lowercase().as_str(),
                "true" | "1" | "span_only" | "span_and_event"
            );
        }
        self
    }

    /// Whether spans hold what is said.
    pub fn trace_content(&self) -> TraceContent {
        if self.content { TraceContent::Recorded } else { TraceContent::Withheld }
    }
}

/// What sends spans, when there is a destination.
///
/// # Errors
/// When it cannot be used.
pub fn provider(
    config: &TelemetryConfig,
    env: Env<'_>,
) -> Result<Option<SdkTracerProvider>, CliError> {
    let off = env("OTEL_SDK_DISABLED").is_some_and(|v| v.eq_ignore_ascii_case("true"))
        || env("OTEL_TRACES_EXPORTER").is_some_and(|v| v == "none");
    let standard = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    let by_environment = standard.iter().any(|name| env(name).is_some());
    if off || (!by_environment && config.otlp_endpoint.is_none()) {
        return Ok(None);
    }
    let wrong = |e: &dyn std::fmt::Display| {
        CliError::Usage(format!(
            "traces cannot be sent: {e}; check [telemetry] and the OTEL_EXPORTER_OTLP_* variables"
        ))
    };
    let http = reqwest::Client::builder().timeout(PATIENCE).build().map_err(|e| wrong(&e))?;
    let client = Client { http, runtime: Handle::current() };
    let mut builder = SpanExporter::builder().with_http().with_http_client(client);
    if let (false, Some(endpoint)) = (by_environment, &config.otlp_endpoint) {
        let endpoint = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        builder = builder.with_endpoint(endpoint);
    }
    let exporter = Careful(builder.build().map_err(|e| wrong(&e))?);
    let mut resource = Resource::builder();
    let named = env("OTEL_SERVICE_NAME").is_some()
        || env("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|v| v.contains("service.name="));
    if !named {
        resource = resource.with_service_name(SERVICE);
    }
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = resource.with_attribute(version).build();
    let provider = SdkTracerProvider::builder().with_resource(resource);
    Ok(Some(provider.with_batch_exporter(exporter).build()))
}

/// Turns the spans of this process into those that are sent.
pub fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(SERVICE))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
}

/// Sends by the client that everything else uses, from whichever thread asks.
#[derive(Clone, Debug)]
struct Client {
    http: reqwest::Client,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        let sent = self.runtime.spawn(async move {
            let answer = http.execute(request.try_into()?).await?;
            let mut response = Response::builder().status(answer.status());
            if let Some(headers) = response.headers_mut() {
                headers.clone_from(answer.headers());
            }
            Ok::<_, HttpError>(response.body(answer.bytes().await?)?)
        });
        sent.await?
    }
}

/// Sends spans without their secrets, and with lists where the conventions want lists.
#[derive(Debug)]
struct Careful<E>(E);

impl<E: opentelemetry_sdk::trace::SpanExporter> opentelemetry_sdk::trace::SpanExporter
    for Careful<E>
{
    fn export(&self, mut batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        batch.iter_mut().for_each(clean);
        self.0.export(batch)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn clean(span: &mut SpanData) {
    for attribute in &mut span.attributes {
        clean_value(&mut attribute.value);
        if attribute.key.as_str() == FINISH_REASONS
            && let Value::String(reason) = &attribute.value
        {
            attribute.value = Value::Array(Array::String(vec![reason.clone()]));
        }
    }
    for event in &mut span.events.events {
        if let Cow::Owned(name) = redact(&event.name) {
            event.name = name.into();
        }
        event.attributes.iter_mut().for_each(|attribute| clean_value(&mut attribute.value));
    }
    if let Status::Error { description } = &mut span.status
        && let Cow::Owned(clean) = redact(description)
    {
        *description = clean.into();
    }
}

fn clean_value(value: &mut Value) {
    if let Value::String(text) = value
        && let Cow::Owned(clean) = redact(text.as_str())
    {
        *value = Value::String(StringValue::from(clean));
    }
}
