//! Scenes that change something, each after a person's word.

use serde_json::{Value, json};

use super::Call;
use super::lookups::best_article;
use super::scenes::{linked, list, text};
use super::sight::{Came, Sight};
use super::words::{amount, first_sentences, says, split_deadline, subject, thread_id, when};

/// Most reminders of one message.
const MOST_REMINDERS: usize = 4;

/// Reads the thread and the article that fits it, then writes.
pub(super) fn reply(sight: &Sight) -> Vec<Call> {
    if sight.has_made_any("reply_to_thread") {
        return Vec::new();
    }
    let Some(detail) = sight.gave("get_thread") else { return thread_to_answer(sight) };
    let Some(about) = text(detail, "thread.subject") else { return Vec::new() };
    let Some(found) = sight.gave("search_knowledge") else {
        let query = subject(about).unwrap_or_else(|| about.to_owned());
        let args = json!({"query": query, "audience": "public", "limit": 3});
        return vec![Call::new("search_knowledge", args)];
    };
    let article = best_article(sight, found);
    if !article.is_empty() {
        return article;
    }
    let Some(thread) = text(detail, "thread.id") else { return Vec::new() };
    let mut args = json!({"thread": thread, "body": draft(sight, detail)});
    if says(sight.ask(), &["draft"])
        && let Some(map) = args.as_object_mut()
    {
        map.insert("mode".to_owned(), json!("draft"));
    }
    vec![Call::new("reply_to_thread", args)]
}

fn thread_to_answer(sight: &Sight) -> Vec<Call> {
    if sight.has_made_any("get_thread") {
        return Vec::new();
    }
    let found = sight
        .gave("find_threads")
        .and_then(|found| text(list(found, "threads").first()?, "id").map(str::to_owned));
    // What the user names goes before what was spoken of.
    let named = thread_id(sight.ask());
    let words = subject(sight.ask());
    let newest = says(sight.ask(), &["newest", "latest"]);
    let spoken_of = || sight.thread().filter(|_| words.is_none() && !newest);
    let meant = named.or(found).or_else(spoken_of);
    if let Some(thread) = meant {
        return vec![Call::new("get_thread", json!({"thread": thread}))];
    }
    if sight.has_made_any("find_threads") {
        return Vec::new();
    }
    let args = match words {
        Some(query) => json!({"query": query, "limit": 3}),
        None => json!({"status": "open", "limit": 3}),
    };
    vec![Call::new("find_threads", args)]
}

/// A draft of real pieces: who wrote, what about, what the article says.
fn draft(sight: &Sight, detail: &Value) -> String {
    let messages = list(detail, "messages");
    let inbound = messages.iter().rev().find(|m| text(m, "direction") == Some("inbound"));
    let sender = inbound.or(messages.last()).and_then(|message| text(message, "from_name"));
    let first = sender.and_then(|name| name.split_whitespace().next()).unwrap_or("there");
    let about = text(detail, "thread.subject").unwrap_or("your message");
    let known = sight
        .gave("get_article")
        .and_then(|article| text(article, "body"))
        .map(|body| format!("{}\n\n", first_sentences(body, 360)))
        .unwrap_or_default();
    let caller = sight.caller().unwrap_or("The support desk");
    format!(
        "Hello {first},\n\nthank you for writing to us about “{about}”.\n\n{known}If that leaves anything open, just answer \
         this mail and we will look at it together.\n\nKind regards,\n{caller}\nBramling"
    )
}

pub(super) fn close_reply(sight: &Sight) -> Option<String> {
    let subject = sight
        .gave("get_thread")
        .and_then(|detail| {
            let thread = detail.get("thread")?;
            Some(linked(text(thread, "subject")?, text(thread, "id")?))
        })
        .unwrap_or_else(|| "the thread".to_owned());
    match sight.came("reply_to_thread") {
        Some(Came::Gave { value, changed }) => {
            if value.get("_captured").is_some() {
                return Some(format!("An answer to {subject} waits for review; nothing was sent."));
            }
            let to: Vec<&str> = list(value, "to").iter().filter_map(Value::as_str).collect();
            let to = to.join(", ");
            let what = match (text(value, "mode"), changed) {
                (Some("draft"), _) => {
                    format!("The answer to {subject} is kept as a draft, for {to}.")
                }
                (_, None) => format!("The answer to {subject} was approved and sent to {to}."),
                (_, Some(_)) => format!(
                    "The answer to {subject} was sent to {to}, as you changed it: “{}”",
                    first_sentences(text(value, "body").unwrap_or_default(), 200)
                ),
            };
            Some(what)
        }
        Some(Came::Rejected(why)) => {
            Some(format!("Nothing was sent to {subject}: the answer was not approved. {why}"))
        }
        Some(Came::Failed(_)) => Some(format!("Nothing was sent to {subject}.")),
        None if sight.gave("get_thread").is_some() => {
            Some(format!("{subject} was read, but no answer was written."))
        }
        None => sight.gave("find_threads").map(|found| {
            let hint = text(found, "suggestion").unwrap_or_default();
            format!("No thread was found to answer. {hint} Name one, such as “reply to thread 12”.")
        }),
    }
}

/// What is to be done, and by when; several things when a message names several.
fn wanted(ask: &str) -> Vec<(String, Option<String>)> {
    let lower = ask.to_lowercase();
    let starts =
        ["remind me to ", "remind me about ", "remind me ", "reminder to ", "task to ", "task: "];
    let start = starts.iter().find_map(|start| Some(lower.find(start)? + start.len()));
    let rest = start.and_then(|start| ask.get(start..)).unwrap_or(ask);
    rest.split(" and remind me to ").take(MOST_REMINDERS).map(one_wanted).collect()
}

fn one_wanted(text: &str) -> (String, Option<String>) {
    let (title, deadline) = split_deadline(text.trim().trim_end_matches(','));
    let mut letters = title.trim().chars();
    let title = letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect::<String>())
        .unwrap_or_else(|| "Look at this again".to_owned());
    (title, deadline)
}

pub(super) fn remind(sight: &Sight) -> Vec<Call> {
    let wanted = wanted(sight.ask());
    if sight.has_made_any("create_task") {
        return Vec::new();
    }
    if !sight.has_made_any("list_tasks") {
        return wanted
            .into_iter()
            .map(|(title, _)| Call::new("list_tasks", json!({"search": title, "limit": 3})))
            .collect();
    }
    let missing = wanted.into_iter().filter(|(title, _)| known_task(sight, title).is_none());
    missing.map(|(title, deadline)| creation(sight, &title, deadline)).collect()
}

fn creation(sight: &Sight, title: &str, deadline: Option<String>) -> Call {
    let mut args = json!({"title": title, "assignees": ["me"]});
    if let Some(map) = args.as_object_mut() {
        map.extend(deadline.map(|deadline| ("deadline".to_owned(), json!(deadline))));
        let thread = thread_id(sight.ask());
        map.extend(thread.map(|thread| ("links".to_owned(), json!([thread]))));
    }
    Call::new("create_task", args)
}

/// A task of that title, among those that were found.
fn known_task<'a>(sight: &'a Sight, title: &str) -> Option<&'a Value> {
    let found = all_came(sight, "list_tasks").filter_map(|came| match came {
        Came::Gave { value, .. } => Some(value),
        Came::Rejected(_) | Came::Failed(_) => None,
    });
    found
        .flat_map(|found| list(found, "tasks"))
        .find(|task| text(task, "title").is_some_and(|known| known.eq_ignore_ascii_case(title)))
}

fn all_came<'a>(sight: &'a Sight, tool: &'static str) -> impl Iterator<Item = &'a Came> {
    sight.done().iter().filter(move |done| done.tool == tool).map(|done| &done.came)
}

pub(super) fn close_remind(sight: &Sight) -> Option<String> {
    let known = wanted(sight.ask()).into_iter().filter_map(|(title, _)| {
        let task = known_task(sight, &title)?;
        Some(format!(
            "There is such a task already: {}. No second one was created.",
            linked(text(task, "title")?, text(task, "id")?)
        ))
    });
    let created = all_came(sight, "create_task").filter_map(close_creation);
    let all: Vec<String> = known.chain(created).collect();
    (!all.is_empty()).then(|| all.join("\n\n"))
}

fn close_creation(came: &Came) -> Option<String> {
    match came {
        Came::Gave { value, changed } => {
            let name = linked(text(value, "title")?, text(value, "id")?);
            if value.get("_captured").is_some() {
                return Some(format!("The task {name} waits for review; nothing was created."));
            }
            let due = text(value, "deadline")
                .map_or("without a deadline".to_owned(), |at| format!("due {}", when(at)));
            let how = if changed.is_some() { ", as you changed it" } else { "" };
            Some(format!("The task {name} was created{how}, {due}."))
        }
        Came::Rejected(why) => Some(format!("No task was created. {why}")),
        Came::Failed(_) => Some("No task was created.".to_owned()),
    }
}

pub(super) fn refund(sight: &Sight) -> Vec<Call> {
    if sight.has_made_any("refund_order") {
        return Vec::new();
    }
    let Some(found) = sight.gave("get_order") else {
        return match sight.order() {
            Some(order) if !sight.has_made_any("get_order") => {
                vec![Call::new("get_order", json!({"order": order}))]
            }
            Some(_) => Vec::new(),
            // None is guessed; recent ones are offered to choose from.
            None if sight.has_made_any("find_orders") => Vec::new(),
            None => vec![Call::new("find_orders", json!({"status": "delivered", "limit": 3}))],
        };
    };
    let left = text(found, "refundable").unwrap_or("0.00");
    let Some(number) = text(found, "order.number").filter(|_| left != "0.00") else {
        return Vec::new();
    };
    let ask = sight.ask();
    let lower = ask.to_lowercase();
    let because = lower.find("because ").and_then(|at| ask.get(at + "because ".len()..));
    let reason =
        because.map(|why| why.trim().trim_end_matches(['.', '!'])).filter(|why| !why.is_empty());
    let mut args = json!({"order": number, "reason": reason.unwrap_or("Asked for by the desk")});
    if let Some(map) = args.as_object_mut() {
        map.extend(amount(ask).map(|amount| ("amount".to_owned(), json!(amount))));
    }
    vec![Call::new("refund_order", args)]
}

pub(super) fn close_refund(sight: &Sight) -> Option<String> {
    let order = sight.gave("get_order");
    let name = order
        .and_then(|found| Some(linked(text(found, "order.number")?, text(found, "order.id")?)))
        .unwrap_or_else(|| "the order".to_owned());
    match sight.came("refund_order") {
        Some(Came::Gave { value, changed }) => {
            if value.get("_captured").is_some() {
                return Some(format!(
                    "A refund on {name} waits for review; no money was given back."
                ));
            }
            let how = if changed.is_some() { ", as you changed it" } else { "" };
            let currency = text(value, "currency").unwrap_or_default();
            Some(format!(
                "{} {currency} were given back on {name}{how}. {} {currency} could still be.",
                text(value, "amount")?,
                text(value, "refundable")?,
            ))
        }
        Some(Came::Rejected(why)) => {
            Some(format!("No money was given back on {name}: it was not approved. {why}"))
        }
        Some(Came::Failed(_)) => Some(format!("No money was given back on {name}.")),
        None => match order {
            Some(found) => Some(format!(
                "{name} is {}, and {} {} can be given back. No refund was made.",
                text(found, "order.status")?,
                text(found, "refundable")?,
                text(found, "order.currency")?,
            )),
            None => {
                let found = sight.gave("find_orders")?;
                let numbers: Vec<String> = list(found, "orders")
                    .iter()
                    .filter_map(|order| Some(linked(text(order, "number")?, text(order, "id")?)))
                    .collect();
                Some(format!("Which order? The latest that arrived are {}.", numbers.join(", ")))
            }
        },
    }
}
