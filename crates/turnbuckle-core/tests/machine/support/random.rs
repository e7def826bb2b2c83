//! A world that answers at random, the same every time for the same question.

use super::build::*;
use super::rng::Rng;
use super::world::{Act, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::allowance::{Remember, RememberFor};
use turnbuckle_core::error::{ModelError, ModelErrorKind, ToolError, ToolErrorCode};
use turnbuckle_core::event::CallResult;
use turnbuckle_core::limits::AgentLimits;
use turnbuckle_core::machine::*;
use turnbuckle_core::message::{ApprovalCard, Asks};
use turnbuckle_core::model::Block;
use turnbuckle_core::part::{Native, NativeBlock};
use turnbuckle_core::usage::{FinishReason, Purpose, Usage};

pub struct Random {
    seed: u64,
}

const WORDS: [&str; 9] = [
    "Done.",
    "I look it up.",
    "The **order** was shipped on Monday.",
    "The order was shipped on Monday. Anything else?",
    "Größe ✓ — naïve café, schön.",
    "Once more, from the start and with all details.",
    " ",
    "日本語のテキスト",
    "Let me check the inbox first, then I answer.",
];

const TOOLS: [&str; 13] = [
    "find",
    "find",
    "get",
    "note",
    "send",
    "save",
    "solo",
    "pay",
    "ui",
    "close",
    "helper",
    "functions.find",
    "nowhere",
];

pub fn random_spec(seed: u64) -> TurnSpec {
    let mut rng = Rng::of(seed, "spec");
    let own = || {
        let plain = [read("find"), read("get"), free("note"), write("send"), put("save")];
        let special = [exclusive("solo"), write("pay"), client("ui"), ends("close")];
        plain.into_iter().chain(special).collect::<Vec<_>>()
    };
    let mut spec = spec(own().into_iter().chain([sub("helper", "helper")]).collect());
    let helper = agent(own().into_iter().chain([sub("helper", "deep")]).collect());
    let mut agents = BTreeMap::from([
        ("helper".into(), helper),
        ("deep".into(), agent(own())),
        ("closer".into(), agent(own())),
        ("boss".into(), agent(Vec::new())),
    ]);
    spec.agents.append(&mut agents);
    for agent in spec.agents.values_mut() {
        agent.limits = AgentLimits {
            max_iterations: 2 + rng.below(6) as u32,
            min_tool_calls: if rng.percent(15) { 2 } else { 0 },
        };
        if rng.percent(12) {
            agent.policy = random_policy(&mut rng);
        }
    }
    spec.routes.routes.insert("pair".into(), vec!["main".into(), "closer".into()]);
    if rng.percent(20) {
        spec.routes.supervisor = Some("boss".into());
    }
    if rng.percent(20) {
        spec.routes.default = "pair".into();
    }
    if rng.percent(20) {
        spec.mode = RunMode::Capture;
        spec.first_capture = rng.below(5) as u32;
    }
    let limits = &mut spec.limits;
    limits.max_model_calls = 2 + rng.below(20) as u32;
    limits.max_tokens = 40 + rng.below(2_000) as u64;
    limits.max_approvals = rng.below(5) as u32;
    limits.max_tool_calls = 3 + rng.below(30) as u32;
    limits.tool_concurrency = 1 + rng.below(6);
    limits.max_cost_micros = rng.percent(20).then(|| 1 + rng.below(300) as u64);
    if rng.percent(10) {
        limits.max_wall_ms = 50 + rng.below(400) as u64;
    }
    spec
}

/// Limits that are not in the way.
pub fn wide(mut spec: TurnSpec) -> TurnSpec {
    spec.limits = turnbuckle_core::limits::TurnLimits {
        max_wall_ms: u64::MAX,
        max_identical_calls: 1_000,
        max_approvals: 1_000,
        max_tool_calls: 10_000,
        max_model_calls: 500,
        max_tokens: u64::MAX,
        max_cost_micros: None,
        ..spec.limits
    };
    spec
}

fn random_policy(rng: &mut Rng) -> DataPolicy {
    let some = |rng: &mut Rng| match rng.below(3) {
        0 => KeepTools::All,
        1 => KeepTools::Only(["find".into(), "helper".into()].into()),
        _ => KeepTools::Except(["send".into(), "helper".into()].into()),
    };
    let text = if rng.percent(30) { Keep::No } else { Keep::Yes };
    DataPolicy { text, calls: some(rng), results: some(rng) }
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    fn rng(&self, name: &str) -> Rng {
        Rng::of(self.seed, name)
    }

    fn random_call(&self, rng: &mut Rng) -> Block {
        let name = *rng.pick(&TOOLS);
        let wire = *rng.pick(&["", "", "call_1", "call_1", "w1", "w2", "w3"]);
        let args = match rng.below(20) {
            0 => "{\"a\":".to_owned(),
            1 => String::new(),
            2 => "[1]".to_owned(),
            3 => "{'a': 1}".to_owned(),
            n => json!({"q": word(rng), "n": n % 3}).to_string(),
        };
        raw_call(wire, name, &args)
    }

    fn random_answer(&self, rng: &mut Rng, call: &CallModel) -> ModelAnswer {
        let mut blocks = Vec::new();
        if rng.percent(30) {
            let quiet = rng.percent(30);
            let native = (quiet || rng.percent(30)).then(signature);
            let text = if quiet { String::new() } else { word(rng).to_owned() };
            blocks.push(Block::Thinking { text, native });
        }
        if rng.percent(50) {
            blocks.push(text(word(rng)));
        }
        let calm = call.iteration as usize + usize::from(call.task.is_some());
        if rng.below(8) > calm {
            for _ in 0..=rng.below(4) {
                blocks.push(self.random_call(rng));
            }
            if rng.percent(10) {
                blocks.push(text(word(rng)));
            }
        } else if rng.percent(90) {
            blocks.push(text(word(rng)));
        }
        if rng.percent(5) {
            let at = rng.below(blocks.len() + 1);
            blocks.insert(at, Block::Native { native: signature() });
        }
        let mut answer = answer(blocks);
        match rng.below(30) {
            0 => answer.response.finish = FinishReason::Length,
            1 => answer.response.finish = FinishReason::Pause,
            2 => answer.response.finish = FinishReason::Refusal,
            3 if rng.percent(30) => answer.response.finish = FinishReason::ContentFilter,
            4 => answer.response.finish = FinishReason::Other("eos".into()),
            _ => {}
        }
        let n = |rng: &mut Rng| rng.percent(80).then(|| rng.below(60) as u64);
        let (input, cache_read, cache_write, output) = (n(rng), n(rng), n(rng), n(rng));
        answer.response.usage = Usage { input, cache_read, cache_write, output, reasoning: None };
        answer.cost_micros = rng.percent(50).then(|| rng.below(30) as u64);
        match rng.below(60) {
            0 => answer.directives.nudge = Some("Say more.".into()),
            1 => answer.directives.stop = Some(StopHere),
            2 => {
                let message = "not valid".into();
                answer.directives.fail =
                    Some(turnbuckle_core::outcome::TurnError::InvalidOutput { message });
            }
            3 => answer.directives.tools = Tools::Withheld,
            _ => {}
        }
        // Drawn apart, since few answers are like this.
        let mut rng = self.rng(&format!("wrap {} {}", call.message, call.iteration));
        if rng.percent(4) {
            answer.response.blocks = wrapped(answer.response.blocks);
        }
        if answer.directives.tools == Tools::Withheld && rng.percent(50) {
            answer.directives.nudge = Some("Say it in words.".into());
        }
        answer
    }

    fn route(&self, rng: &mut Rng) -> ModelAnswer {
        let words = match rng.below(5) {
            0 => "I would say the pair.".to_owned(),
            1 => json!({"route": "moon"}).to_string(),
            2 => "```json\n{\"route\": \"pair\", \"reasoning\": \"two\"}\n```".to_owned(),
            _ => json!({"route": "default", "reasoning": "simple"}).to_string(),
        };
        answer(vec![text(&words)])
    }
}

/// With every call that can be in one wrapper for all of them.
fn wrapped(blocks: Vec<Block>) -> Vec<Block> {
    let mut uses = Vec::new();
    let mut rest = Vec::new();
    for block in blocks {
        match &block {
            Block::ToolCall { name, arguments, .. } => match serde_json::from_str(arguments) {
                Ok(Value::Object(args)) => {
                    uses.push(json!({"recipient_name": name, "parameters": args}));
                }
                _ => rest.push(block),
            },
            _ => rest.push(block),
        }
    }
    let uses = json!({ "tool_uses": uses }).to_string();
    rest.push(raw_call("", "multi_tool_use.parallel", &uses));
    rest
}

fn word(rng: &mut Rng) -> &'static str {
    WORDS[rng.below(WORDS.len())]
}

fn signature() -> Native {
    Native::from(NativeBlock {
        wire: "w".into(),
        provider: "p".into(),
        model: "m".into(),
        data: Arc::new(json!({"signature": "abc"})),
    })
}

fn random_output(rng: &mut Rng) -> Value {
    match rng.below(8) {
        0 => Value::Null,
        1 => json!([]),
        2 => json!({"items": [], "total": 0}),
        3 => json!(1.1 * rng.next() as f64),
        4 => json!("plain words"),
        _ => json!({"n": rng.below(1_000), "é": "ü"}),
    }
}

impl World for Random {
    fn model(&self, _effect: &Effect, call: &CallModel) -> Reply {
        let name = format!("model {} {} {}", call.message, call.iteration, call.attempt);
        let mut rng = self.rng(&name);
        let answer = match call.purpose {
            Purpose::Route => self.route(&mut rng),
            _ => self.random_answer(&mut rng, call),
        };
        if rng.percent(12) {
            let kind = *rng.pick(&[
                ModelErrorKind::StreamCut,
                ModelErrorKind::Overloaded,
                ModelErrorKind::Server,
                ModelErrorKind::BadRequest,
            ]);
            let mut error = ModelError::new(kind, "no luck");
            error.code = rng.percent(50).then(|| "e_42".into());
            let partial = rng.percent(70).then_some(answer);
            return Reply::Fail { error, partial };
        }
        Reply::Done(answer)
    }

    fn check(&self, check: &PrepareCall) -> Verdict {
        let mut rng = self.rng(&format!("check {} {:?}", check.call, check.stage));
        let args = check.args.clone();
        if rng.percent(8) {
            let error = ToolError::invalid(format!("`q` of {} is not known", check.call));
            return Verdict::Refuse { error, args: rng.percent(50).then_some(args) };
        }
        match check.tool.as_str() {
            "pay" => ask(check),
            "ui" if check.stage == PrepareStage::First && rng.percent(30) => ask(check),
            "ui" => at_front_end(check),
            "helper" if rng.percent(20) => ask(check),
            _ => run(check),
        }
    }

    fn execute(&self, run: &ExecuteCall) -> ExecuteResult {
        let mut rng = self.rng(&format!("execute {}", run.call));
        if rng.percent(20) {
            let output = rng.percent(40).then(|| Arc::new(random_output(&mut rng)));
            return ExecuteResult::Failure { error: ToolError::failed("It broke."), output };
        }
        let mut result =
            CallResult { output: Arc::new(random_output(&mut rng)), ..Default::default() };
        if rng.percent(20) {
            result.model_view = Some(Arc::new(random_output(&mut rng)));
            result.digest = Some(Arc::new(random_output(&mut rng)));
            result.summary = Some("short".into());
        }
        let mut directives = Directives::default();
        if rng.percent(10) {
            directives.add_context.push("Mind the gap.".into());
        }
        if rng.percent(5) {
            directives.force_tool = Some("find".into());
            directives.plan = Some(Arc::new(random_output(&mut rng)));
        }
        ExecuteResult::Success { result, directives }
    }

    fn settle(&self, call: &SettleCall) -> ExecuteResult {
        let mut rng = self.rng(&format!("settle {}", call.call));
        match rng.below(10) {
            0 => ExecuteResult::Failure { error: ToolError::failed("It is hidden."), output: None },
            1 => gives(random_output(&mut rng)),
            2 => {
                let add_context = vec!["Somebody was at the screen.".into()];
                let directives = Directives { add_context, ..Directives::default() };
                gives_with(Value::clone(&call.output), directives)
            }
            _ => gives(Value::clone(&call.output)),
        }
    }

    fn act(&self, card: &ApprovalCard) -> Act {
        let mut rng = self.rng(&format!("act {} {:?}", card.call, card.asks));
        if rng.percent(8) {
            return Act::Wait;
        }
        match (card.asks, rng.below(10)) {
            (_, 0) => Act::Decide(Decision::Expire),
            (_, 1 | 2) => Act::Decide(reject("not now")),
            (Asks::Decision, 3) => Act::Decide(Decision::Approve {
                amendment: Some(Arc::new(json!({"n": 7, "null": null}))),
                reason: Some("with care".into()),
                remember: Some(Remember::of(RememberFor::Session)),
            }),
            (Asks::Decision, _) => Act::Decide(approve()),
            (Asks::ClientResult, 3) => {
                Act::Client(Err(ToolError::new(ToolErrorCode::Failed, "The page is gone.")))
            }
            (Asks::ClientResult, _) => Act::Client(Ok(Arc::new(random_output(&mut rng)))),
        }
    }

    fn progress(&self, run: &ExecuteCall) -> Vec<Value> {
        let mut rng = self.rng(&format!("progress {}", run.call));
        (0..rng.below(3).saturating_sub(1)).map(|i| json!({"step": i})).collect()
    }

    fn changes(&self) -> FinalChanges {
        let mut rng = self.rng("changes");
        let mut changes = FinalChanges::default();
        if rng.percent(20) {
            changes.texts.push((rng.below(3) as u32, "Rewritten.".into()));
            changes.link_snapshots.insert("thread:1".into(), Arc::new(json!({"title": "Hi"})));
        }
        if rng.percent(30) {
            let call = rng.percent(50).then(|| Box::new(answer(vec![text("Parcels")])));
            changes.title = Some(NewTitle { title: "Parcels".into(), call });
        }
        changes
    }

    fn compaction(&self, call: &CallModel) -> Option<CompactionReport> {
        let mut rng = self.rng(&format!("fit {} {}", call.message, call.iteration));
        rng.percent(5).then(|| CompactionReport {
            note: "The middle was summarised.".into(),
            before: 900,
            after: 100,
            summary_call: rng.percent(50).then(|| Box::new(answer(vec![text("Earlier: …")]))),
        })
    }

    fn cuts(&self, step: StepId, answer: &ModelAnswer) -> Vec<(u32, u32)> {
        let mut rng = self.rng(&format!("cuts {step}"));
        if rng.percent(10) {
            return Vec::new();
        }
        let mut cuts = Vec::new();
        for (index, block) in answer.response.blocks.iter().enumerate() {
            let body = match block {
                Block::Text { text, .. } | Block::Thinking { text, .. } => text.as_str(),
                Block::ToolCall { arguments, .. } => {
                    cuts.push((index as u32, 0));
                    arguments.as_str()
                }
                Block::Native { .. } => "",
            };
            let mut from = 0;
            for (at, _) in body.char_indices().skip(1) {
                if rng.percent(15) {
                    cuts.push((index as u32, (at - from) as u32));
                    from = at;
                }
            }
            // The end of an answer may come with its last event only.
            if from < body.len() && rng.percent(90) {
                cuts.push((index as u32, (body.len() - from) as u32));
            }
        }
        cuts
    }
}
