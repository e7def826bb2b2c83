//! Which scene a message asks for.

use serde_json::Value;

use super::Call;
use super::sight::Sight;
use super::words::{mentions, order_number, says, subject};
use super::{actions, lookups, plans};

/// What is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// Open threads and orders under way.
    Overview,
    /// One order.
    Order,
    /// The knowledge base.
    Knowledge,
    /// Who works here.
    People,
    /// An answer to a thread.
    Reply,
    /// A task.
    Remind,
    /// Money back.
    Refund,
    /// A plan.
    Plan,
    /// A step of the plan.
    Step,
    /// Anything else.
    Introduction,
}

impl Scene {
    pub(super) fn of(sight: &Sight) -> Self {
        let ask = sight.ask();
        if says(ask, &["step"]) && plans::step(ask).is_some() {
            return Self::Step;
        }
        if says(ask, &["plan"]) {
            return Self::Plan;
        }
        if mentions(ask, &["refund"]) && !mentions(ask, &["policy", "rule", "how", "who"]) {
            return Self::Refund;
        }
        if says(ask, &["remind", "reminder"])
            || says(ask, &["task", "todo"]) && says(ask, &["create", "add", "make", "new"])
        {
            return Self::Remind;
        }
        if says(ask, &["reply", "answer", "respond", "draft"]) {
            return Self::Reply;
        }
        if mentions(ask, &["policy", "article", "warrant", "knowledge", "guide", "rule"]) {
            return Self::Knowledge;
        }
        if order_number(ask).is_some() {
            return Self::Order;
        }
        let overview = [
            "thread",
            "order",
            "late",
            "delay",
            "parcel",
            "deliver",
            "inbox",
            "mail",
            "open",
            "waiting",
            "unassigned",
            "shipping",
            "ticket",
        ];
        if mentions(ask, &overview) {
            return Self::Overview;
        }
        if says(ask, &["who", "member", "members", "team", "colleague", "colleagues"]) {
            return Self::People;
        }
        if says(ask, &["how", "why", "what", "when", "descale", "can"]) && subject(ask).is_some() {
            return Self::Knowledge;
        }
        Self::Introduction
    }

    /// The route of the pipeline that fits.
    pub(super) const fn route(self) -> &'static str {
        match self {
            Self::Overview | Self::Order => "search",
            Self::Knowledge | Self::People | Self::Step => "simple",
            Self::Reply | Self::Remind | Self::Refund => "action",
            Self::Plan => "multi-step",
            Self::Introduction => "conversational",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Overview => "what is open",
            Self::Order => "an order",
            Self::Knowledge => "something the knowledge base may know",
            Self::People => "people of the desk",
            Self::Reply => "an answer to a customer",
            Self::Remind => "a reminder",
            Self::Refund => "a refund",
            Self::Plan => "a plan",
            Self::Step => "a step of the plan",
            Self::Introduction => "nothing a scene is written for",
        }
    }

    /// What is said with the first calls.
    pub(super) const fn opening(self) -> &'static str {
        match self {
            Self::Overview => "Looking at the mail and at the orders under way, side by side.",
            Self::Order => "Looking the order up, and the mail about it.",
            Self::Knowledge => "Searching the knowledge base.",
            Self::People => "Looking through the directory.",
            Self::Reply => "Reading before writing.",
            Self::Remind => "Looking whether there is such a task already.",
            Self::Refund => "Reading the order first.",
            Self::Plan => "Making a plan first.",
            Self::Step => "Updating the plan.",
            Self::Introduction => "A small look at the desk, to have something real to show.",
        }
    }

    /// The calls that come next; none when it is time to close.
    pub(super) fn next(self, sight: &Sight) -> Vec<Call> {
        match self {
            Self::Overview => lookups::overview(sight),
            Self::Order => lookups::order(sight),
            Self::Knowledge => lookups::knowledge(sight),
            Self::People => lookups::people(sight),
            Self::Reply => actions::reply(sight),
            Self::Remind => actions::remind(sight),
            Self::Refund => actions::refund(sight),
            Self::Plan => plans::plan(sight),
            Self::Step => plans::update(sight),
            Self::Introduction => lookups::introduction(sight),
        }
    }

    /// The last words, from what is there; `None` when nothing is.
    pub(super) fn close(self, sight: &Sight) -> Option<String> {
        match self {
            Self::Overview => lookups::close_overview(sight),
            Self::Order => lookups::close_order(sight),
            Self::Knowledge => lookups::close_knowledge(sight),
            Self::People => lookups::close_people(sight),
            Self::Reply => actions::close_reply(sight),
            Self::Remind => actions::close_remind(sight),
            Self::Refund => actions::close_refund(sight),
            Self::Plan | Self::Step => plans::close(sight),
            Self::Introduction => lookups::close_introduction(sight),
        }
    }

    /// What the user might say next, once the scene has closed.
    pub(super) fn suggestions(self, sight: &Sight) -> Option<Vec<String>> {
        match self {
            Self::Overview => lookups::suggestions(sight),
            _ => None,
        }
    }
}

/// A text within a result, by its path such as `thread.subject`.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    path.split('.').try_fold(value, |value, step| value.get(step))?.as_str()
}

/// A list within a result.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// `desk://thread/12` with a label.
pub(super) fn linked(label: &str, id: &str) -> String {
    match id.split_once(':') {
        Some((kind @ ("thread" | "task" | "article" | "member"), number)) => {
            format!("[{label}](desk://{kind}/{number})")
        }
        _ => format!("[{label}](desk://record/{id})"),
    }
}
