//! What stops a loop that gets nowhere: identical calls, calls that find nothing, streaks of failures and of repetitions.

use crate::error::{ToolError, ToolErrorCode};
use crate::ids::ToolName;
use crate::json::{Json, canonical};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// How often each call was dispatched in the turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ledger {
    identical: BTreeMap<String, u32>,
    /// Calls that failed or found nothing, by their loose form.
    fruitless: BTreeMap<String, u32>,
    denied: BTreeSet<String>,
}

/// What the ledger says of a call about to be dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LedgerVerdict {
    Dispatch,
    Identical(u32),
    Fruitless(u32),
    Denied,
}

impl Ledger {
    /// Counts a call that is about to be dispatched, unless it has been often enough.
    pub(super) fn dispatch(&mut self, tool: &ToolName, args: &Value, max: u32) -> LedgerVerdict {
        let key = exact(tool, args);
        if self.denied.contains(&key) {
            return LedgerVerdict::Denied;
        }
        if let Some(count) = self.fruitless.get(&loose(tool, args)).filter(|n| **n >= max) {
            return LedgerVerdict::Fruitless(*count);
        }
        let count = self.identical.entry(key).or_default();
        if *count >= max {
            return LedgerVerdict::Identical(*count);
        }
        *count += 1;
        LedgerVerdict::Dispatch
    }

    /// A person said no to exactly this call.
    pub(super) fn deny(&mut self, tool: &ToolName, args: &Value) {
        self.denied.insert(exact(tool, args));
    }

    /// The call failed or found nothing.
    pub(super) fn fruitless(&mut self, tool: &ToolName, args: &Value) {
        *self.fruitless.entry(loose(tool, args)).or_default() += 1;
    }
}

fn exact(tool: &ToolName, args: &Value) -> String {
    format!("{tool}\u{0}{}", canonical(args))
}

/// The form in which reworded calls are alike: words of all strings, lower case, sorted, without punctuation.
fn loose(tool: &ToolName, args: &Value) -> String {
    let mut words = BTreeSet::new();
    collect_words(args, &mut words);
    let words: Vec<String> = words.into_iter().collect();
    format!("{tool}\u{0}{}", words.join(" "))
}

fn collect_words(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|v| collect_words(v, words)),
        Value::Object(map) => map.iter().for_each(|(key, v)| match v {
            Value::String(_) | Value::Array(_) | Value::Object(_) => collect_words(v, words),
            // A changed page or limit makes another call, so scalars count with their key.
            leaf => {
                words.insert(format!("{key}={leaf}"));
            }
        }),
        Value::String(text) => {
            let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
            words.extend(parts.map(str::to_lowercase));
        }
        leaf => {
            words.insert(leaf.to_string());
        }
    }
}

/// Whether a result found nothing: null, an empty string or list, or an object whose lists are all empty.
pub(super) fn is_empty_result(output: &Value) -> bool {
    match output {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => {
            let mut lists = map.values().filter_map(Value::as_array).peekable();
            map.is_empty() || (lists.peek().is_some() && lists.all(Vec::is_empty))
        }
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// One finished iteration, as the streaks see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct IterationShape {
    /// Tools of which no call succeeded, with each of their normalised errors.
    failures: BTreeSet<String>,
    /// The calls, when every one succeeded.
    successes: Option<BTreeSet<String>>,
    text: String,
}

impl IterationShape {
    /// From the settled calls of an iteration and its text.
    pub(super) fn new<'a>(
        calls: impl Iterator<Item = (&'a ToolName, Option<&'a Json>, Option<&'a ToolError>)>,
        text: &str,
    ) -> Self {
        let mut failed = Vec::new();
        let mut worked = BTreeSet::new();
        let mut successes = BTreeSet::new();
        for (tool, args, error) in calls {
            match error {
                Some(error) => failed.push((tool, normal_failure(error, args))),
                None => {
                    let args = args.map(|a| canonical(a)).unwrap_or_default();
                    successes.insert(format!("{tool}\u{0}{args}"));
                    worked.insert(tool);
                }
            }
        }
        let all = failed.is_empty() && !successes.is_empty();
        let failed = failed.into_iter().filter(|(tool, _)| !worked.contains(tool));
        Self {
            failures: failed.map(|(tool, error)| format!("{tool}\u{0}{error}")).collect(),
            successes: all.then_some(successes),
            text: normal_text(text),
        }
    }
}

/// Streaks over the iterations of one agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Streaks {
    last: Option<IterationShape>,
    /// How many iterations in a row each failure has come. Each tool counts for itself, whatever ran beside it.
    failures: BTreeMap<String, u32>,
    successes: u32,
}

/// What the streaks say after an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreakVerdict {
    GoOn,
    Failing,
    Repeating,
}

impl Streaks {
    /// Takes the next iteration into account.
    pub(super) fn observe(
        &mut self,
        shape: IterationShape,
        failure_limit: u32,
        success_limit: u32,
    ) -> StreakVerdict {
        let last = self.last.as_ref();
        let before = std::mem::take(&mut self.failures);
        let longer = |failure: &String| before.get(failure).map_or(1, |times| times + 1);
        self.failures = shape.failures.iter().map(|f| (f.clone(), longer(f))).collect();
        // Without words beside them, identical calls are a poll loop, which the repeat budget bounds.
        let repeats = !shape.text.is_empty()
            && shape.successes.is_some()
            && last.is_some_and(|l| l.successes == shape.successes && l.text == shape.text);
        self.successes =
            if repeats { self.successes + 1 } else { u32::from(shape.successes.is_some()) };
        self.last = Some(shape);
        if self.failures.values().any(|times| *times >= failure_limit) {
            StreakVerdict::Failing
        } else if self.successes >= success_limit {
            StreakVerdict::Repeating
        } else {
            StreakVerdict::GoOn
        }
    }
}

/// The shortest argument, in characters, that is looked for in the text of an error.
const SHORTEST_ECHO: usize = 3;

/// A failure without what changes when arguments are reworded.
fn normal_failure(error: &ToolError, args: Option<&Json>) -> String {
    // What the model wrote is all there is to tell such errors apart.
    if let ToolErrorCode::UnparsedArguments | ToolErrorCode::TruncatedArguments = error.code {
        return format!("{:?}", error.code);
    }
    let mut echoes = Vec::new();
    if let Some(args) = args {
        collect_texts(args, &mut echoes);
    }
    // The longest first, since one may be part of another.
    echoes.sort_by_key(|text| std::cmp::Reverse(text.len()));
    let mut message = error.message.clone();
    for text in echoes {
        if text.chars().count() >= SHORTEST_ECHO && message.contains(text) {
            message = message.replace(text, "\"\"");
        }
    }
    normal_error(&message)
}

fn collect_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|v| collect_texts(v, texts)),
        Value::Object(map) => map.values().for_each(|v| collect_texts(v, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// An error without quoted text, numbers, words that hold a number such as ids, and case.
fn normal_error(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut quote: Option<char> = None;
    let mut before = ' ';
    for c in message.chars() {
        // An apostrophe inside a word does not open a quotation.
        let inside_word = std::mem::replace(&mut before, c).is_alphanumeric();
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None => match c {
                '"' | '`' | '\'' if c != '\'' || !inside_word => {
                    quote = Some(c);
                    out.push('"');
                }
                '“' => {
                    quote = Some('”');
                    out.push('"');
                }
                c if c.is_ascii_digit() => {
                    // The word that it is in, as far as it has come.
                    let kept = out.trim_end_matches(is_of_id).len();
                    out.truncate(kept);
                    out.push('#');
                }
                // The rest of such a word.
                c if is_of_id(c) && out.ends_with('#') => {}
                c if c.is_whitespace() => {
                    if !out.ends_with(' ') {
                        out.push(' ');
                    }
                }
                c => out.extend(c.to_lowercase()),
            },
        }
    }
    out
}

/// Whether a character may be part of an id.
fn is_of_id(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '#')
}

/// Text without white space and emphasis, for telling repetitions.
pub(super) fn normal_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '*' | '_' | '`' | '~' => {}
            c if c.is_whitespace() => {
                if !out.is_empty() && !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c => out.push(c),
        }
    }
    out.trim_end().to_owned()
}

/// The shortest text, in characters, whose repetition is worth dropping.
const SHORTEST_RESTATED: usize = 20;

/// The indices of texts that a later one contains.
pub(super) fn restated(texts: &[(u32, &str)]) -> Vec<u32> {
    if texts.len() < 2 {
        return Vec::new();
    }
    let normal: Vec<(u32, String)> = texts.iter().map(|(i, t)| (*i, normal_text(t))).collect();
    let mut rest = normal.as_slice();
    let mut out = Vec::new();
    while let Some(((index, text), later)) = rest.split_first() {
        let long = text.chars().count() >= SHORTEST_RESTATED;
        if long && later.iter().any(|(_, l)| l.contains(text.as_str())) {
            out.push(*index);
        }
        rest = later;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reworded_searches_that_find_nothing_are_alike_but_paging_is_not() {
        let tool = ToolName::from("search");
        let a = loose(&tool, &json!({"query": "Late shipping, refunds"}));
        let b = loose(&tool, &json!({"query": "refunds late  SHIPPING!"}));
        let c = loose(&tool, &json!({"query": "late shipping refunds", "page": 2}));
        assert_eq!(a, b);
        assert_ne!(a, c);
    }

    #[test]
    fn the_fourth_identical_call_is_not_dispatched() {
        let tool = ToolName::from("search");
        let mut ledger = Ledger::default();
        let args = json!({"q": 1, "r": 2});
        let swapped = json!({"r": 2, "q": 1});
        let got: Vec<_> =
            [&args, &swapped, &args, &args].iter().map(|a| ledger.dispatch(&tool, a, 3)).collect();
        use LedgerVerdict::*;
        assert_eq!(got, [Dispatch, Dispatch, Dispatch, Identical(3)]);
    }

    #[test]
    fn errors_are_alike_when_only_quoted_values_and_numbers_differ() {
        assert_eq!(
            normal_error("no thread \"T-12\" in inbox 3"),
            normal_error("No thread \"T-9941\"  in inbox 17")
        );
        assert_ne!(normal_error("no such thread"), normal_error("no such task"));
        assert_eq!(
            normal_error("Order ORD-9f3a was not found."),
            normal_error("order ORD-77bc was not found.")
        );
        let uuids =
            ["018f6c1e-77aa-7c3e-9a52-b1c2d3e4f5a6", "b7d0a3f2-0000-4e11-8c9d-0a1b2c3d4e5f"];
        let [a, b] = uuids.map(|id| normal_error(&format!("{id}: no such row")));
        assert_eq!(a, b);
        assert_ne!(normal_error("order 5 is paid"), normal_error("order 5 is late"));
    }

    #[test]
    fn failures_are_alike_when_they_only_echo_other_arguments() {
        let failure = |code, message: &str, args: Value| {
            normal_failure(&ToolError::new(code, message), Some(&args.into()))
        };
        let failed = ToolErrorCode::Failed;
        assert_eq!(
            failure(failed, "nobody is called Anna Petrova here", json!({"name": "Anna Petrova"})),
            failure(failed, "nobody is called Bob here", json!({"name": "Bob", "team": "a"})),
        );
        assert_ne!(
            failure(failed, "nobody is called Bob here", json!({"name": "Bob"})),
            failure(failed, "Bob has left", json!({"name": "Bob"})),
        );
        let unparsed = ToolErrorCode::UnparsedArguments;
        assert_eq!(
            failure(unparsed, "not JSON. You wrote: {query: refund anna}", json!({})),
            failure(unparsed, "not JSON. You wrote: {query: money back}", json!({})),
        );
    }

    #[test]
    fn empty_results_are_told_from_answers() {
        for empty in
            [json!(null), json!(""), json!([]), json!({}), json!({"items": [], "total": 0})]
        {
            assert!(is_empty_result(&empty), "{empty}");
        }
        for full in [json!(0), json!(false), json!("x"), json!({"ok": true}), json!({"items": [1]})]
        {
            assert!(!is_empty_result(&full), "{full}");
        }
    }

    #[test]
    fn restated_text_needs_twenty_characters() {
        let long = "The order was shipped on Monday.";
        let later = "In short: *The order was*  shipped on Monday. Anything else?";
        assert_eq!(restated(&[(0, long), (2, later)]), [0]);
        assert_eq!(restated(&[(0, "Done."), (2, "Done. All of it.")]), [] as [u32; 0]);
    }
}
