//! The fake model: it follows the script that stands in the user's message, whichever process asks and however often.

use super::soon;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use turnbuckle_testkit::chat::ChatAnswer;
use turnbuckle_testkit::{CapturedRequest, FakeModelServer, Gate, Reply};

/// What a model does in a turn, answer by answer. It travels in the user's message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Script(Vec<Step>);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Step {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pieces: Vec<Piece>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Piece {
    Text(String),
    /// Text of so many bytes.
    Much(usize),
    Gate(String),
}

impl Script {
    fn step(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }

    /// An answer.
    pub fn say(self, text: &str) -> Self {
        self.step(Step { pieces: vec![Piece::Text(text.into())], calls: Vec::new() })
    }

    /// An answer that is held back in its middle.
    pub fn say_around(self, gate: &str, before: &str, after: &str) -> Self {
        let pieces =
            vec![Piece::Text(before.into()), Piece::Gate(gate.into()), Piece::Text(after.into())];
        self.step(Step { pieces, calls: Vec::new() })
    }

    /// An answer of that many bytes.
    pub fn say_much(self, bytes: usize) -> Self {
        self.step(Step { pieces: vec![Piece::Much(bytes)], calls: Vec::new() })
    }

    /// An answer in pieces, each behind a gate of its own, with a call at its end.
    pub fn say_behind(self, gates: &[String], text: &str, call: Option<(&str, &str)>) -> Self {
        let pieces = gates
            .iter()
            .flat_map(|gate| [Piece::Gate(gate.clone()), Piece::Text(format!("{gate}: {text} "))]);
        let calls = call.into_iter().map(|(tool, id)| (tool.into(), id.into())).collect();
        self.step(Step { pieces: pieces.collect(), calls })
    }

    /// Calls of tools, each about a thing.
    pub fn call(self, calls: &[(&str, &str)]) -> Self {
        let calls = calls.iter().map(|(tool, id)| ((*tool).into(), (*id).into())).collect();
        self.step(Step { pieces: Vec::new(), calls })
    }

    /// As a message.
    pub fn message(&self) -> String {
        serde_json::to_string(self).unwrap()
    }
}

/// The model's server.
pub struct Model {
    server: FakeModelServer,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    gates: Mutex<BTreeMap<String, Gate>>,
    /// How often each message was asked about.
    asked: watch::Sender<BTreeMap<String, usize>>,
}

impl Model {
    pub async fn start() -> Self {
        let server = FakeModelServer::start().await;
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        server.otherwise(move |request| own.answer(request));
        Self { server, shared }
    }

    pub fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// The gate of that name, closed at first.
    pub fn gate(&self, name: &str) -> Gate {
        self.shared.gate(name)
    }

    /// A closed gate of that name from now on; answers under way keep the one they have.
    pub fn new_gate(&self, name: &str) -> Gate {
        let gate = Gate::new();
        self.shared.gates.lock().unwrap().insert(name.to_owned(), gate.clone());
        gate
    }

    /// Waits until the model was asked so often about a message.
    pub async fn wait_asked(&self, script: &Script, times: usize) {
        let message = script.message();
        let mut asked = self.shared.asked.subscribe();
        let enough =
            |asked: &BTreeMap<String, usize>| asked.get(&message).is_some_and(|n| *n >= times);
        soon("the model is asked", asked.wait_for(enough)).await.unwrap();
    }

    /// Waits until so many answers were given up by who asked.
    pub async fn wait_abandoned(&self, times: usize) {
        soon("an answer is given up", self.server.wait_for_abandoned(times)).await;
    }
}

impl Shared {
    fn gate(&self, name: &str) -> Gate {
        self.gates.lock().unwrap().entry(name.to_owned()).or_default().clone()
    }

    fn answer(&self, request: &CapturedRequest) -> Reply {
        let body = request.json();
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let is = |role: &'static str| move |message: &Value| message["role"] == role;
        let Some(last) = messages.iter().rposition(is("user")) else {
            return Reply::status(400).send("there is no message");
        };
        let text = match &messages[last]["content"] {
            Value::String(text) => text.clone(),
            parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
        };
        let Ok(script) = serde_json::from_str::<Script>(&text) else {
            return Reply::status(400).send(format!("this is no script: {text}"));
        };
        let done = messages[last..].iter().filter(|m| is("assistant")(m)).count();
        self.asked.send_modify(|asked| *asked.entry(text).or_default() += 1);
        match script.0.get(done) {
            Some(step) => self.play(step, done),
            None => ChatAnswer::new("test-model").text("There is nothing left to do.").stream(),
        }
    }

    fn play(&self, step: &Step, n: usize) -> Reply {
        let answer = ChatAnswer::new("test-model");
        let mut reply = Reply::status(200).header("content-type", "text/event-stream");
        for piece in &step.pieces {
            let texts = match piece {
                Piece::Gate(name) => {
                    reply = reply.gate(&self.gate(name));
                    continue;
                }
                Piece::Text(text) => vec![text.clone()],
                Piece::Much(bytes) => (0..bytes / 1000).map(|i| format!("{i:0>999} ")).collect(),
            };
            for text in texts {
                reply = reply.send(answer.clone().text(&text).frames().swap_remove(0));
            }
        }
        let calls = step.calls.iter().enumerate().fold(answer, |answer, (i, (tool, id))| {
            answer.call(&format!("c{n}-{i}"), tool, &serde_json::json!({"id": id}).to_string())
        });
        calls.frames().into_iter().fold(reply, Reply::send)
    }
}
