//! One specification, run against every store.

use super::store::DropCause;
use super::*;
use crate::ids::{CallId, ToolName};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

fn get(store: &impl ContextStore, text: &str) -> Option<Value> {
    store.get(&reference(text)).map(Cow::into_owned)
}

fn set(store: &mut impl ContextStore, text: &str, value: Value) -> Option<Dropped> {
    store.set(&reference(text), value).unwrap()
}

fn capture(
    store: &mut impl ContextStore,
    call: &str,
    tool: &str,
    output: Value,
) -> Option<Dropped> {
    store.capture(&CallId::from(call), &ToolName::from(tool), Arc::new(output))
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

/// The specification. `new` makes an empty store with a cap in bytes.
fn contract<S: ContextStore>(new: impl Fn(usize) -> S) {
    variables(new(DEFAULT_CAP));
    outputs(new(DEFAULT_CAP));
    turns(new(DEFAULT_CAP));
    ambient(new(DEFAULT_CAP));
    read_only(new(DEFAULT_CAP));
    cap_on_capture(new(100));
    cap_on_set(new(100));
    output_larger_than_the_cap(new(100));
    variables_larger_than_the_cap(new(40));
    depth(new(DEFAULT_CAP));
}

fn variables(mut s: impl ContextStore) {
    assert_eq!(get(&s, "var:cart"), None);
    assert_eq!(set(&mut s, "var:cart.total", json!(12)), None);
    assert_eq!(set(&mut s, "var:cart.lines", json!([{"n": 1}, {"n": 2}])), None);
    assert_eq!(set(&mut s, "var:cart.lines[-1].n", json!(3)), None);
    assert_eq!(get(&s, "var:cart"), Some(json!({"total": 12, "lines": [{"n": 1}, {"n": 3}]})));
    assert_eq!(get(&s, "var:cart.lines[*].n"), Some(json!([1, 3])));
    assert_eq!(get(&s, "var:cart.lines[2]"), None);
    let problem = WriteError::NoElement { segment: Segment::Index(9), len: 2 };
    let refused = reference("var:cart.lines[9]");
    assert_eq!(
        s.set(&refused, json!(0)),
        Err(ContextError::Path { reference: refused.clone(), problem })
    );
    let refused = reference("var:new[0]");
    let problem = WriteError::NotAPlace(Segment::Index(0));
    assert_eq!(
        s.set(&refused, json!(0)),
        Err(ContextError::Path { reference: refused.clone(), problem })
    );
    assert_eq!(s.vars().keys().collect::<Vec<_>>(), ["cart"]);
}

fn outputs(mut s: impl ContextStore) {
    assert_eq!(get(&s, "tool:search"), None);
    assert_eq!(get(&s, "tool:search[]"), None);
    assert_eq!(capture(&mut s, "t1-0", "search", json!({"items": [{"id": "a"}]})), None);
    assert_eq!(capture(&mut s, "t1-1", "read", json!("text")), None);
    assert_eq!(
        capture(&mut s, "t1-2", "search", json!({"items": [{"id": "b"}, {"id": "c"}]})),
        None
    );
    assert_eq!(capture(&mut s, "t1-3", "search", json!({"failed": true})), None);
    assert_eq!(get(&s, "tool:search"), Some(json!({"failed": true})));
    assert_eq!(get(&s, "tool:search[0].items[0].id"), Some(json!("a")));
    assert_eq!(get(&s, "tool:search[-2].items.last.id"), Some(json!("c")));
    assert_eq!(get(&s, "tool:search[3]"), None);
    assert_eq!(get(&s, "tool:search[-4]"), None);
    assert_eq!(get(&s, "tool:search[-9223372036854775808]"), None);
    assert_eq!(get(&s, "tool:search[].items[*].id"), Some(json!([["a"], ["b", "c"]])));
    assert_eq!(get(&s, "tool:read[*]"), Some(json!(["text"])));
    assert_eq!(get(&s, "call:t1-2.items[1].id"), Some(json!("c")));
    assert_eq!(get(&s, "call:t1-9"), None);
    assert_eq!(capture(&mut s, "t1-0", "search", json!("again")), None);
    assert_eq!(get(&s, "tool:search[0]"), Some(json!("again")), "in its first place");
    assert_eq!(get(&s, "tool:search"), Some(json!({"failed": true})));
}

fn turns(mut s: impl ContextStore) {
    let _ = set(&mut s, "var:plan", json!(["one"]));
    let _ = capture(&mut s, "t1-0", "search", json!(1));
    s.begin_turn();
    assert_eq!(get(&s, "var:plan"), Some(json!(["one"])));
    assert_eq!(get(&s, "tool:search"), None);
    assert_eq!(get(&s, "call:t1-0"), None);
    let _ = capture(&mut s, "t2-0", "search", json!(2));
    assert_eq!(get(&s, "tool:search[0]"), Some(json!(2)), "positions begin anew");
    assert_eq!(get(&s, "tool:search[]"), Some(json!([2])));
}

fn ambient(mut s: impl ContextStore) {
    assert_eq!(get(&s, "email"), None);
    assert_eq!(get(&s, "sys:userId"), None);
    s.set_ambient(Ambient {
        sys: [("userId".to_owned(), json!("u1").into())].into(),
        subject: Some(json!({"email": "a@example.org", "owner": {"name": "Ada"}}).into()),
    });
    s.begin_turn();
    assert_eq!(get(&s, "sys:userId"), Some(json!("u1")));
    assert_eq!(get(&s, "sys:tenantId"), None);
    assert_eq!(get(&s, "email"), Some(json!("a@example.org")));
    assert_eq!(get(&s, "owner.name"), Some(json!("Ada")));
    s.set_ambient(Ambient::default());
    assert_eq!(get(&s, "sys:userId"), None, "another caller, another identity");
    assert_eq!(get(&s, "email"), None);
}

fn read_only(mut s: impl ContextStore) {
    for text in
        ["sys:userId", "tool:search", "tool:search[0].x", "call:t1-0", "email", "owner.name"]
    {
        let reference = reference(text);
        assert_eq!(s.set(&reference, json!(1)), Err(ContextError::ReadOnly(reference.clone())));
        assert_eq!(s.get(&reference), None);
    }
}

fn cap_on_capture(mut s: impl ContextStore) {
    // "k" takes 3 + 22 + 2 bytes; an output of 10 characters takes 12 + 2 + 1.
    let _ = set(&mut s, "var:k", json!("12345678901234567890"));
    let ten = || json!("1234567890");
    for call in ["c0", "c1", "c2", "c3"] {
        assert_eq!(capture(&mut s, call, "s", ten()), None);
    }
    let cause = DropCause::Size { bytes: 27 + 5 * 15, cap: 100 };
    assert_eq!(capture(&mut s, "c4", "s", ten()), Some(Dropped { outputs: 4, cause }));
    assert_eq!(get(&s, "var:k"), Some(json!("12345678901234567890")));
    assert_eq!(get(&s, "call:c3"), None);
    assert_eq!(get(&s, "tool:s"), Some(ten()), "the newest fits alone");
    assert_eq!(get(&s, "tool:s[-1]"), Some(ten()));
    assert_eq!(get(&s, "tool:s[0]"), None, "the first call is not the fifth");
    assert_eq!(get(&s, "tool:s[4]"), Some(ten()));
    assert_eq!(get(&s, "tool:s[]"), None, "all can no longer be had");
}

fn cap_on_set(mut s: impl ContextStore) {
    let _ = capture(&mut s, "c0", "s", json!("1234567890"));
    let cause = DropCause::Size { bytes: 15 + 3 + 92 + 2, cap: 100 };
    let large = json!("x".repeat(90));
    assert_eq!(set(&mut s, "var:k", large.clone()), Some(Dropped { outputs: 1, cause }));
    assert_eq!(get(&s, "var:k"), Some(large));
    assert_eq!(get(&s, "tool:s"), None);
}

fn output_larger_than_the_cap(mut s: impl ContextStore) {
    let _ = capture(&mut s, "c0", "s", json!(1));
    let cause = DropCause::Size { bytes: 4 + 205, cap: 100 };
    let dropped = capture(&mut s, "c1", "s", json!("x".repeat(200)));
    assert_eq!(dropped, Some(Dropped { outputs: 2, cause }));
    assert_eq!(get(&s, "tool:s"), None);
    let _ = capture(&mut s, "c2", "s", json!(3));
    assert_eq!(get(&s, "tool:s[2]"), Some(json!(3)));
    assert_eq!(get(&s, "tool:s[0]"), None);
}

fn variables_larger_than_the_cap(mut s: impl ContextStore) {
    let _ = set(&mut s, "var:k", json!("1234567890"));
    let _ = capture(&mut s, "c0", "s", json!(1));
    let new = reference("var:big");
    let refused = s.set(&new, json!("x".repeat(40)));
    assert_eq!(
        refused,
        Err(ContextError::TooLarge { reference: new.clone(), bytes: 17 + 5 + 42 + 2, cap: 40 })
    );
    let grown = reference("var:k");
    let refused = s.set(&grown, json!("x".repeat(40)));
    assert_eq!(
        refused,
        Err(ContextError::TooLarge { reference: grown.clone(), bytes: 17 - 12 + 42, cap: 40 })
    );
    assert_eq!(get(&s, "var:k"), Some(json!("1234567890")));
    assert_eq!(get(&s, "tool:s"), Some(json!(1)), "a refused write drops nothing");
    assert_eq!(set(&mut s, "var:k", json!("x".repeat(29))), None, "exactly the room there is");
    assert_eq!(set(&mut s, "var:k", Value::Null), None);
}

fn depth(mut s: impl ContextStore) {
    let deep = reference("var:deep.er");
    assert_eq!(s.set(&deep, nested(100)), Err(ContextError::TooDeep("var:deep.er".into())));
    assert_eq!(set(&mut s, "var:deep.er", nested(99)), None);
    let _ = capture(&mut s, "c0", "s", json!(1));
    let dropped = capture(&mut s, "c1", "s", nested(101));
    assert_eq!(dropped, Some(Dropped { outputs: 2, cause: DropCause::Depth }));
    assert_eq!(get(&s, "tool:s"), None);
}

#[test]
fn sessions_keep_the_contract() {
    contract(|cap| SessionContext::new().with_cap(cap));
}

#[test]
fn workflow_runs_keep_the_contract() {
    contract(|cap| WorkflowContext::new().with_cap(cap));
}

#[test]
fn works_behind_a_pointer() {
    let mut store: Box<dyn ContextStore> = Box::new(SessionContext::new());
    store.set(&reference("var:a"), json!(1)).unwrap();
    assert_eq!(store.get(&reference("var:a")).as_deref(), Some(&json!(1)));
}

fn lived_in() -> SessionContext {
    let mut context = SessionContext::new();
    let _ = set(&mut context, "var:b.c", json!([1]));
    let _ = set(&mut context, "var:a", json!(null));
    let _ = capture(&mut context, "t1-0", "search", json!({"id": 7}));
    context.set_ambient(Ambient {
        sys: [("userId".into(), json!("u1").into())].into(),
        subject: None,
    });
    context
}

#[test]
fn a_pause_keeps_outputs_and_a_turn_does_not() {
    let context = lived_in();
    let paused = json!({
        "version": 1,
        "vars": {"a": null, "b": {"c": [1]}},
        "calls": [{"call": "t1-0", "tool": "search", "output": {"id": 7}}],
    });
    assert_eq!(context.snapshot(SnapshotScope::Turn), paused);
    assert_eq!(serde_json::to_value(&context).unwrap(), paused);
    let between = json!({"version": 1, "vars": {"a": null, "b": {"c": [1]}}});
    assert_eq!(context.snapshot(SnapshotScope::Vars), between);

    let mut resumed: SessionContext = serde_json::from_value(paused).unwrap();
    assert_eq!(get(&resumed, "tool:search.id"), Some(json!(7)));
    assert_eq!(get(&resumed, "sys:userId"), None, "identity is never restored");
    resumed.restore(&between).unwrap();
    assert_eq!(get(&resumed, "tool:search.id"), None);
    assert_eq!(get(&resumed, "var:b.c[0]"), Some(json!(1)));
}

#[test]
fn what_was_dropped_stays_known_over_a_pause() {
    let mut context = SessionContext::new().with_cap(30);
    for call in ["c0", "c1", "c2"] {
        let _ = capture(&mut context, call, "s", json!("1234567890"));
    }
    let text = serde_json::to_string(&context).unwrap();
    let resumed: SessionContext = serde_json::from_str(&text).unwrap();
    assert_eq!(get(&resumed, "tool:s[0]"), None);
    assert_eq!(get(&resumed, "tool:s[2]"), Some(json!("1234567890")));
}

#[test]
fn the_deepest_that_is_kept_can_be_read_back() {
    let mut context = SessionContext::new();
    let _ = set(&mut context, "var:deep", nested(100));
    let _ = capture(&mut context, "c0", "s", nested(100));
    let mut run = WorkflowContext::new();
    run.record_node(&"r-0".into(), &"n".into(), nested(100).into()).unwrap();
    let context: SessionContext =
        serde_json::from_str(&serde_json::to_string(&context).unwrap()).unwrap();
    let run: WorkflowContext = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!(get(&context, "var:deep"), Some(nested(100)));
    assert_eq!(get(&context, "tool:s"), Some(nested(100)));
    assert_eq!(get(&run, "tool:n"), Some(nested(100)));
}

#[test]
fn garbage_is_ignored_with_an_error() {
    for garbage in [
        json!(null),
        json!("text"),
        json!([]),
        json!({}),
        json!({"vars": {}}),
        json!({"version": "1", "vars": {}}),
        json!({"version": 1, "vars": []}),
        json!({"version": 1, "vars": {}, "calls": [{"call": 1}]}),
    ] {
        let mut context = lived_in();
        let before = context.snapshot(SnapshotScope::Turn);
        assert!(matches!(context.restore(&garbage), Err(RestoreError::Malformed(_))), "{garbage}");
        assert_eq!(context.snapshot(SnapshotScope::Turn), before);
        assert_eq!(get(&context, "sys:userId"), Some(json!("u1")));
    }
    let newer = SessionContext::new().restore(&json!({"version": 2, "vars": {}})).unwrap_err();
    assert_eq!(newer, RestoreError::Version(2));
    assert_eq!(
        newer.to_string(),
        "the stored context was ignored: it has version 2, and this program reads up to 1; update the program"
    );
}

#[test]
fn node_outputs_outlive_turns_and_yield_to_tools_of_the_turn() {
    let mut run = WorkflowContext::new();
    run.record_node(&"r-0".into(), &"fetch".into(), json!({"n": 1}).into()).unwrap();
    run.record_node(&"r-1".into(), &"fetch".into(), json!({"n": 2}).into()).unwrap();
    let _ = capture(&mut run, "t1-0", "fetch", json!({"n": 9}));
    assert_eq!(get(&run, "tool:fetch[].n"), Some(json!([9])));
    assert_eq!(get(&run, "tool:fetch[1]"), None, "a call of the turn, not the node");
    assert_eq!(get(&run, "call:r-0.n"), Some(json!(1)));
    assert_eq!(get(&run, "call:t1-0.n"), Some(json!(9)));
    run.begin_turn();
    assert_eq!(get(&run, "tool:fetch[].n"), Some(json!([1, 2])));
    run.record_node(&"r-0".into(), &"fetch".into(), json!({"n": 5}).into()).unwrap();
    let run: WorkflowContext = serde_json::from_value(serde_json::to_value(&run).unwrap()).unwrap();
    assert_eq!(get(&run, "tool:fetch[].n"), Some(json!([5, 2])));
    let mut run = run;
    let deep = run.record_node(&"r-2".into(), &"fetch".into(), nested(101).into());
    assert_eq!(deep, Err(ContextError::TooDeep("tool:fetch".into())));
}

#[test]
fn node_outputs_do_not_count_towards_the_cap() {
    let mut run = WorkflowContext::new().with_cap(50);
    run.record_node(&"r-0".into(), &"fetch".into(), json!("x".repeat(500)).into()).unwrap();
    assert_eq!(capture(&mut run, "c0", "s", json!(1)), None);
    assert_eq!(get(&run, "tool:fetch"), Some(json!("x".repeat(500))));
}

#[test]
fn the_notice_reads_well() {
    let dropped = Dropped { outputs: 3, cause: DropCause::Size { bytes: 300, cap: 200 } };
    assert_eq!(
        dropped.to_string(),
        "3 tool outputs can no longer be referred to in this turn: the context took 300 bytes and may take 200"
    );
}
