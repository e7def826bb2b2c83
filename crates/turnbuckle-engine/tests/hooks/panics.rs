//! Code of the product that panics: the person is told, nothing runs that should not, and the session goes on.

use super::*;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::event::CallResult;
use turnbuckle_core::machine::{ModelAnswer, Routes};
use turnbuckle_core::part::ToolCallPart;
use turnbuckle_core::transcript::TextView;
use turnbuckle_engine::agent::{Charge, Handled};
use turnbuckle_engine::pipeline::HookCall;
use turnbuckle_engine::tool::{Eventual, Tool};

/// Panics in one hook.
struct Breaks(&'static str);

impl Breaks {
    fn at(&self, hook: &str) {
        assert_ne!(self.0, hook, "as the test wants it");
    }
}

impl AgentHooks for Breaks {
    fn should_continue(&self, _: &StepView<'_>, _: &ModelResponse) -> Flow {
        self.at("should_continue");
        Flow::Continue
    }

    fn should_send_tools(&self, _: &StepView<'_>) -> SendTools {
        self.at("should_send_tools");
        SendTools::Yes
    }

    fn select_model(&self, _: &StepView<'_>) -> Option<ModelRef> {
        self.at("select_model");
        None
    }

    fn force_tool(&self, _: &StepView<'_>) -> Option<ToolName> {
        self.at("force_tool");
        None
    }

    fn on_no_tool_calls(
        &self,
        _: &StepView<'_>,
        _: NoToolCalls,
        _: &ModelResponse,
    ) -> OnNoToolCalls {
        self.at("on_no_tool_calls");
        OnNoToolCalls::Finish
    }

    fn process_tool_calls(&self, _: &StepView<'_>, _: &ModelResponse) -> Flow {
        self.at("process_tool_calls");
        Flow::Continue
    }

    fn on_tools_selected(&self, _: &StepView<'_>, _: &ModelResponse) {
        self.at("on_tools_selected");
    }

    fn preprocess_arguments<'a>(
        &'a self,
        _: HookCall<'a>,
    ) -> Eventual<'a, Result<Option<Value>, ToolError>> {
        self.at("preprocess_arguments");
        Eventual::Ready(Ok(None))
    }

    fn handle_result<'a>(&'a self, _: HookCall<'a>, result: CallResult) -> Eventual<'a, Handled> {
        self.at("handle_result");
        Eventual::Ready(result.into())
    }

    fn calculate_usage(&self, _: &StepView<'_>, _: &ModelAnswer) -> Option<Charge> {
        self.at("calculate_usage");
        None
    }
}

/// A turn with a hook that panics: its message, and what was done to the world.
async fn broken(hook: &'static str) -> (AssistantMessage, Vec<String>) {
    let bench = hooked(Breaks(hook), [looks_up("x"), text("Found.")]);
    let key = bench.session().await;
    bench.say(&key, "go").await;
    bench.check(&key).await;
    (bench.message(&key).await, bench.world.all())
}

fn failed(call: &ToolCallPart) -> Option<(ToolErrorCode, &str)> {
    call.error.as_ref().map(|error| (error.code, &*error.message))
}

#[tokio::test]
async fn a_hook_whose_word_is_needed_ends_the_turn_by_its_name_and_no_call_runs() {
    for hook in ["select_model", "should_send_tools", "force_tool"] {
        let (message, world) = broken(hook).await;
        let Outcome::Error { error: TurnError::Model(error) } = outcome(&message) else {
            panic!("{message:?}")
        };
        assert_eq!(error.kind, ModelErrorKind::Config);
        assert!(error.message.contains(&format!("`{hook}` of the agent `main`")), "{error}");
        assert_eq!((message.calls().count(), world.len()), (0, 0));
    }
    for (hook, done) in [("should_continue", 0), ("process_tool_calls", 0), ("on_no_tool_calls", 1)]
    {
        let (message, world) = broken(hook).await;
        let Outcome::Error { error: TurnError::Internal { message: why } } = outcome(&message)
        else {
            panic!("{message:?}")
        };
        assert!(why.contains(&format!("`{hook}` of the agent `main`")), "{why}");
        assert!(why.contains("as the test wants it"), "{why}");
        assert_eq!(world.len(), done);
        let expected = if done == 0 {
            Some((ToolErrorCode::Cancelled, "The call did not run: the turn failed."))
        } else {
            None
        };
        assert_eq!(failed(calls(&message)[0]), expected, "{hook}");
    }
}

#[tokio::test]
async fn a_hook_that_can_be_done_without_is_passed_over() {
    for hook in ["on_tools_selected", "calculate_usage", "none"] {
        let (message, world) = broken(hook).await;
        assert_eq!((outcome(&message), world.len()), (Outcome::Completed, 1));
        assert!(message.iterations.iter().all(|i| i.usage.output.is_some()));
    }
}

#[tokio::test]
async fn a_hook_of_one_call_fails_that_call() {
    let (message, world) = broken("preprocess_arguments").await;
    assert_eq!((outcome(&message), world.len()), (Outcome::Completed, 0));
    let (code, why) = failed(calls(&message)[0]).unwrap();
    assert_eq!(code, ToolErrorCode::Panicked);
    assert!(why.starts_with("The call could not be prepared, since the agent's check"), "{why}");
    let (message, world) = broken("handle_result").await;
    assert_eq!((outcome(&message), world.len()), (Outcome::Completed, 1));
    let (code, why) = failed(calls(&message)[0]).unwrap();
    assert_eq!(code, ToolErrorCode::Panicked);
    assert!(why.contains("Do not assume that it had no effect"), "{why}");
    assert_eq!(calls(&message)[0].output, None, "what should be hidden may not be shown");
}

/// A domain of which one part panics, until it is mended.
#[derive(Clone)]
struct Shaky {
    agents: Arc<Agents>,
    broken: Arc<Mutex<&'static str>>,
}

impl Shaky {
    fn at(&self, part: &str) {
        let broken = *self.broken.lock().unwrap();
        assert_ne!(broken, part, "as the test wants it");
    }
}

impl Domain for Shaky {
    fn agents(&self) -> &BTreeMap<AgentName, Arc<Agent>> {
        self.agents.agents()
    }

    fn resources(&self) -> Resources {
        self.agents.resources()
    }

    fn routes(&self, agent: &AgentName) -> Routes {
        self.at("routes");
        Routes::single(agent.clone())
    }

    fn extra_tools(&self, _: &AgentName, _: &TurnInfo) -> Vec<Arc<dyn Tool>> {
        self.at("extra_tools");
        Vec::new()
    }

    fn open_turn(&self, _: Option<&Value>, _: &TurnInfo) -> Box<dyn DomainTurn> {
        self.at("open_turn");
        Box::new(self.clone())
    }

    fn text_view(&self) -> Option<TextView> {
        let domain = self.clone();
        Some(Arc::new(move |text| {
            domain.at("text_view");
            text.to_owned()
        }))
    }
}

impl Hooks for Shaky {}

impl DomainTurn for Shaky {
    fn state(&self) -> Option<Value> {
        self.at("state");
        Some(json!({"seen": 1}))
    }

    fn ambient(&self) -> turnbuckle_core::context::Ambient {
        self.at("ambient");
        Default::default()
    }
}

fn shaky(part: &'static str, model: ScriptedModel) -> (Bench, Arc<Mutex<&'static str>>) {
    let (model, world) = (Arc::new(model), World::default());
    let agents = Agents::new([agent("main").build().unwrap()])
        .with_resources(Resources::new().with(world.clone()));
    let broken = Arc::new(Mutex::new(part));
    let domain = Shaky { agents: agents.into(), broken: broken.clone() };
    let engine = builder(model.clone(), &world, []).domain(domain).build().unwrap();
    let store = engine.store().clone();
    (Bench { engine, model, world, store }, broken)
}

#[tokio::test]
async fn a_domain_that_fails_to_prepare_a_turn_ends_it_and_the_next_one_works() {
    for part in ["open_turn", "ambient", "routes", "extra_tools"] {
        let (bench, broken) = shaky(part, ScriptedModel::new("m", [text("Here I am.")]));
        let key = bench.session().await;
        let events = bench.say(&key, "are you there?").await;
        let EventKind::TurnError { error: TurnError::Model(error), .. } = last_kind(&events) else {
            panic!("{events:?}")
        };
        assert!(error.message.contains("the product's own code failed"), "{error}");
        assert!(error.message.contains("as the test wants it"), "{error}");
        assert_eq!(bench.model.requests().len(), 0);
        *broken.lock().unwrap() = "";
        bench.say(&key, "and now?").await;
        assert_eq!(bench.message(&key).await.text(), "Here I am.");
        bench.check(&key).await;
    }
}

#[tokio::test]
async fn a_domain_that_cannot_give_its_state_keeps_the_last_one_and_the_turn() {
    let answers = [looks_up("x"), text("Found."), text("Again.")];
    let (bench, broken) = shaky("", ScriptedModel::new("m", answers));
    let key = bench.session().await;
    bench.say(&key, "go").await;
    let stored = async || bench.store.load(&key).await.unwrap().state.unwrap();
    let before = stored().await;
    assert!(before.contains("seen"), "{before}");
    *broken.lock().unwrap() = "state";
    bench.say(&key, "again").await;
    assert_eq!(bench.message(&key).await.text(), "Again.");
    assert_eq!(stored().await, before);
    bench.check(&key).await;
}

/// Whatever panics while a turn is driven, such as a model of the product's own, is a defect that ends the turn and no more.
#[tokio::test]
async fn a_panic_in_the_midst_of_a_turn_ends_it_with_what_it_did_and_the_session_goes_on() {
    let model = ScriptedModel::from_fn("m", |request| match answers(request) {
        0 => looks_up("x").into(),
        1 if user_texts(request).len() == 1 => panic!("as the test wants it"),
        _ => text("Still here.").into(),
    });
    let bench = Bench::new(model);
    let key = bench.session().await;
    let events = bench.say(&key, "go").await;
    let EventKind::TurnError { error: TurnError::Internal { message: why }, .. } =
        last_kind(&events)
    else {
        panic!("{events:?}")
    };
    assert!(why.contains("as the test wants it"), "{why}");
    let message = bench.message(&key).await;
    assert_eq!(made(&message), [("look_up", None)]);
    bench.check(&key).await;
    bench.say(&key, "are you there?").await;
    assert_eq!(bench.message(&key).await.text(), "Still here.");
    assert_eq!(bench.world.all(), ["look_up x"]);
    bench.check(&key).await;
}

/// Where no turn is open yet that could be ended: the reader is told, and whoever tries again finds the message.
#[tokio::test]
async fn a_panic_before_a_turn_is_open_leaves_the_session_to_whoever_comes_next() {
    let answers = [text("First."), text("Second.")];
    let (bench, broken) = shaky("", ScriptedModel::new("m", answers));
    let key = bench.session().await;
    bench.say(&key, "one").await;
    *broken.lock().unwrap() = "text_view";
    let events = bench.say(&key, "two").await;
    let EventKind::TurnError { error: TurnError::Internal { message: why }, .. } =
        last_kind(&events)
    else {
        panic!("{events:?}")
    };
    assert!(why.contains("as the test wants it"), "{why}");
    let session = bench.store.session(&key).await.unwrap();
    assert_eq!((session.lease, session.pending), (None, 1));
    *broken.lock().unwrap() = "";
    drain(bench.engine.work(&key).stream().unwrap()).await;
    assert_eq!(bench.message(&key).await.text(), "Second.");
    bench.check(&key).await;
}
