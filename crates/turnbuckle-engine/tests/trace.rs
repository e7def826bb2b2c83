//! Spans of turns: what lies in what.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod common;

use common::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_default;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use turnbuckle_core::event::EventKind;
use turnbuckle_core::model::ModelRequest;
use turnbuckle_core::transcript::Item;
use turnbuckle_engine::tool::{FnTool, ToolContract};
use turnbuckle_engine::{Agent, drain};
use turnbuckle_models::scripted::{ScriptedModel, calls as calling, text};

/// A span with its fields, and the number of the one it lies in.
#[derive(Clone, Debug, Default)]
struct Seen {
    within: Option<usize>,
    fields: BTreeMap<String, String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}").replace('"', ""));
    }
}

/// Every span, in the order in which they began.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Seen>>>);

/// A span's place among them.
struct Number(usize);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let span = ctx.span(id).unwrap();
        let outer = span.parent();
        let within = outer.map(|outer| outer.extensions().get::<Number>().unwrap().0);
        let mut seen = Seen { within, ..Seen::default() };
        attributes.record(&mut seen);
        let mut all = self.0.lock().unwrap();
        span.extensions_mut().insert(Number(all.len()));
        all.push(seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        let number = ctx.span(id).unwrap().extensions().get::<Number>().unwrap().0;
        values.record(&mut self.0.lock().unwrap()[number]);
    }
}

impl Spans {
    /// Each as a path of names from the outermost one.
    fn paths(&self) -> Vec<String> {
        let all = self.0.lock().unwrap();
        let path = |own: usize| {
            let outwards = std::iter::successors(Some(own), |at| all[*at].within);
            let mut names: Vec<&str> =
                outwards.map(|at| all[at].fields["otel.name"].as_str()).collect();
            names.reverse();
            names.join(" > ")
        };
        (0..all.len()).map(path).collect()
    }

    /// A field of each `invoke_agent`, with the agent.
    fn agents(&self, field: &str) -> Vec<(String, String)> {
        let all = self.0.lock().unwrap();
        let agents = all.iter().filter(|span| span.fields.contains_key("epoch"));
        let value = |span: &Seen| span.fields.get(field).cloned().unwrap_or_default();
        agents.map(|span| (span.fields["gen_ai.agent.name"].clone(), value(span))).collect()
    }
}

fn first_text(request: &ModelRequest) -> String {
    let first = request.transcript.entries().iter().find_map(|entry| match &entry.item {
        Item::User { content } => Some(content.text().into_owned()),
        _ => None,
    });
    first.unwrap()
}

fn asks(agent: &str) -> FnTool {
    let schema = json!({"type": "object", "properties": {"task": {"type": "string"}}});
    let contract = ToolContract::new(format!("ask_{agent}")).description("Hands on a task.");
    FnTool::elsewhere(contract.input_schema(schema).on_agent(agent))
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[tokio::test]
async fn a_nested_agent_has_a_span_of_its_own_around_what_it_does() {
    let model = ScriptedModel::from_fn("m", |request| {
        let answer = match (first_text(request).as_str(), answers(request)) {
            ("pay it", 0) => calling(&[("a", "ask_researcher", r#"{"task": "have it paid"}"#)]),
            ("pay it", _) => text("It is paid."),
            ("have it paid", 0) => calling(&[("b", "ask_clerk", r#"{"task": "pay 7"}"#)]),
            ("have it paid", _) => text("The clerk paid."),
            ("pay 7", 0) => calling(&[("l", "look_up", r#"{"key": "tea"}"#)]),
            ("pay 7", 1) => calling(&[("c", "pay", r#"{"amount": 7}"#)]),
            ("pay 7", _) => text("I paid."),
            (other, _) => panic!("{other}"),
        };
        answer.into()
    });
    let agents = [
        Agent::builder("main").tool(asks("researcher")).build().unwrap(),
        agent("researcher").tool(asks("clerk")).build().unwrap(),
        agent("clerk").build().unwrap(),
    ];
    let bench = Bench::of(model, agents, |b| b);
    let key = bench.session().await;
    let spans = Spans::default();
    let _listening = set_default(Registry::default().with(spans.clone()));

    let events = bench.say(&key, "pay it").await;
    assert!(matches!(last_kind(&events), EventKind::TurnPaused { .. }), "{events:?}");
    let (main, researcher) = ("invoke_agent main", "invoke_agent main > invoke_agent researcher");
    let clerk = format!("{researcher} > invoke_agent clerk");
    let chat = |within: &str| format!("{within} > chat m");
    assert_eq!(
        spans.paths(),
        [
            main.to_owned(),
            chat(main),
            researcher.to_owned(),
            chat(researcher),
            clerk.clone(),
            chat(&clerk),
            format!("{clerk} > execute_tool look_up"),
            chat(&clerk),
        ]
    );
    let paused = [("main", "paused"), ("researcher", "paused"), ("clerk", "paused")];
    assert_eq!(spans.agents("outcome"), owned(&paused));

    // The turn goes on in a span of its own, and so does each agent.
    spans.0.lock().unwrap().clear();
    let cards = pending_cards(&*bench.store, &key).await;
    let decided =
        bench.engine.decide(&key, &cards[0], amend(json!({"amount": 6})), None).await.unwrap();
    drain(decided.stream().unwrap()).await;
    assert_eq!(
        spans.paths(),
        [
            main.to_owned(),
            researcher.to_owned(),
            clerk.clone(),
            format!("{clerk} > execute_tool pay"),
            chat(&clerk),
            chat(researcher),
            chat(main),
        ]
    );
    let done = [("main", "completed"), ("researcher", "completed"), ("clerk", "completed")];
    assert_eq!(spans.agents("outcome"), owned(&done));
    // Ten tokens for each call: an agent's own and those of the agents that it called on.
    let tokens = [("main", "70"), ("researcher", "50"), ("clerk", "30")];
    assert_eq!(spans.agents("gen_ai.usage.input_tokens"), owned(&tokens));
    let calls = spans.agents("call");
    assert!(calls[0].1.is_empty() && !calls[1].1.is_empty() && !calls[2].1.is_empty(), "{calls:?}");
}
