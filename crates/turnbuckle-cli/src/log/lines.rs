//! How an event becomes a line. Fields that only traces need (`otel.`, `gen_ai.` and the like) are left out, so that spans may
//! carry them without making every line long.

use serde_json::{Map, Value};
use std::fmt::{self, Debug, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// How the fields of spans and events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// As `name=value`.
    Text,
    /// As members of an object.
    Json,
}

/// Whether a field is for traces alone.
fn is_for_traces(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["otel.", "gen_ai.", "error.", "http."];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

struct TextFields<'w> {
    writer: Writer<'w>,
    first: bool,
    result: fmt::Result,
}

impl TextFields<'_> {
    fn put(&mut self, name: &str, value: fmt::Arguments<'_>) {
        if is_for_traces(name) || self.result.is_err() {
            return;
        }
        let space = if std::mem::take(&mut self.first) { "" } else { " " };
        self.result = match name {
            "message" => write!(self.writer, "{space}{value}"),
            name => write!(self.writer, "{space}{name}={value}"),
        };
    }
}

impl Visit for TextFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field.name(), format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.put("message", format_args!("{value}")),
            name => self.put(name, format_args!("{value:?}")),
        }
    }
}

#[derive(Default)]
struct JsonFields(Map<String, Value>);

impl JsonFields {
    fn put(&mut self, field: &Field, value: Value) {
        if !is_for_traces(field.name()) {
            self.0.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for JsonFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

impl<'writer> FormatFields<'writer> for Fields {
    fn format_fields<R: RecordFields>(
        &self,
        mut writer: Writer<'writer>,
        fields: R,
    ) -> fmt::Result {
        match self {
            Fields::Text => {
                let mut text = TextFields { writer, first: true, result: Ok(()) };
                fields.record(&mut text);
                text.result
            }
            Fields::Json => {
                let mut json = JsonFields::default();
                fields.record(&mut json);
                write!(writer, "{}", Value::Object(json.0))
            }
        }
    }

    fn add_fields(
        &self,
        current: &'writer mut FormattedFields<Self>,
        fields: &tracing::span::Record<'_>,
    ) -> fmt::Result {
        match self {
            Fields::Text => {
                let mut added = String::new();
                self.format_fields(Writer::new(&mut added), fields)?;
                let space = if current.fields.is_empty() || added.is_empty() { "" } else { " " };
                write!(current.fields, "{space}{added}")
            }
            Fields::Json => {
                let mut json = JsonFields(object(&current.fields));
                fields.record(&mut json);
                current.fields = Value::Object(json.0).to_string();
                Ok(())
            }
        }
    }
}

fn object(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Events as JSON: `timestamp`, `level`, `target`, `message`, `span`, and the fields of the event and of the spans around it,
/// of which the inner ones win.
#[derive(Clone, Copy, Debug)]
pub struct JsonLines;

impl<S> FormatEvent<S, Fields> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, Fields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let meta = event.metadata();
        let mut line = Map::new();
        for span in ctx.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            line.insert("span".to_owned(), span.name().into());
            if let Some(fields) = span.extensions().get::<FormattedFields<Fields>>() {
                line.extend(object(&fields.fields));
            }
        }
        let mut own = JsonFields::default();
        event.record(&mut own);
        line.extend(own.0);
        line.insert("timestamp".to_owned(), jiff::Timestamp::now().to_string().into());
        line.insert("level".to_owned(), meta.level().as_str().into());
        line.insert("target".to_owned(), meta.target().into());
        writeln!(writer, "{}", Value::Object(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(fields: Fields) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .fmt_fields(fields);
        let layer = match fields {
            Fields::Text => layer.without_time().boxed(),
            Fields::Json => layer.event_format(JsonLines).boxed(),
        };
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let turn = tracing::info_span!(
                "turn",
                session = %"s_1",
                turn = "t_1",
                gen_ai.agent.name = "main",
                outcome = tracing::field::Empty
            );
            turn.record("outcome", "completed");
            let _in = turn.enter();
            tracing::info!(tokens = 7_u64, step = 2, otel.kind = "x", "said \"hello\"");
        });
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn lines_of_text_tell_session_turn_and_step_and_nothing_for_traces() {
        let line = logged(Fields::Text);
        assert_eq!(
            line.trim(),
            "INFO turn{session=s_1 turn=\"t_1\" outcome=\"completed\"}: \
             turnbuckle_cli::log::lines::tests: said \"hello\" tokens=7 step=2"
        );
    }

    #[test]
    fn lines_of_json_hold_the_fields_of_the_spans_around() {
        let line = logged(Fields::Json);
        assert_eq!(line.lines().count(), 1);
        let mut value: Value = serde_json::from_str(&line).unwrap();
        let at = value["timestamp"].take();
        assert!(at.as_str().unwrap().ends_with('Z'), "{at}");
        assert_eq!(
            value,
            serde_json::json!({
                "timestamp": null, "level": "INFO", "target": "turnbuckle_cli::log::lines::tests",
                "span": "turn", "session": "s_1", "turn": "t_1", "outcome": "completed",
                "message": "said \"hello\"", "tokens": 7, "step": 2,
            })
        );
    }
}
