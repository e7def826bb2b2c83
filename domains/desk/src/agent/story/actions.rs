//! Scenes that change something, each after a person's word.

use serde_json::{Value, json};

use super::Call;
use super::lookups::best_article;
use super::scenes::{linked, list, text};
use super::sight::{Came, Sight};
use super::words::{amount, first_sentences, says, split_deadline, subject, thread_id, when};

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
    let meant = named.or(found).or_else(|| sight.thread().filter(|_| words.is_none()));
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

/// What is to be done, by when, and what it is about.
fn wanted(ask: &str) -> (String, Option<String>) {
    let lower = ask.to_lowercase();
    let starts =
        ["remind me to ", "remind me about ", "remind me ", "reminder to ", "task to ", "task: "];
    let start = starts.iter().find_map(|start| Some(lower.find(start)? + start.len()));
    let rest = start.and_then(|start| ask.get(start..)).unwrap_or(ask);
    let (title, deadline) = split_deadline(rest);
    let mut letters = title.trim().chars();
    let title = letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect::<String>())
        .unwrap_or_else(|| "Look at this again".to_owned());
    (title, deadline)
}

pub(super) fn remind(sight: &Sight) -> Vec<Call> {
    let (title, deadline) = wanted(sight.ask());
    if sight.has_made_any("create_task") {
        return Vec::new();
    }
    let Some(found) = sight.gave("list_tasks") else {
        return vec![Call::new("list_tasks", json!({"search": title, "limit": 3}))];
    };
    if same_task(found, &title).is_some() {
        return Vec::new();
    }
    let mut args = json!({"title": title, "assignees": ["me"]});
    if let Some(map) = args.as_object_mut() {
        map.extend(deadline.map(|deadline| ("deadline".to_owned(), json!(deadline))));
        let thread = thread_id(sight.ask());
        map.extend(thread.map(|thread| ("links".to_owned(), json!([thread]))));
    }
    vec![Call::new("create_task", args)]
}

fn same_task<'a>(found: &'a Value, title: &str) -> Option<&'a Value> {
    list(found, "tasks")
        .iter()
        .find(|task| text(task, "title").is_some_and(|known| known.eq_ignore_ascii_case(title)))
}

pub(super) fn close_remind(sight: &Sight) -> Option<String> {
    let (title, _) = wanted(sight.ask());
    match sight.came("create_task") {
        Some(Came::Gave { value, changed }) => {
            let name = linked(text(value, "title")?, text(value, "id")?);
            if value.get("_captured").is_some() {
                return Some(format!("The task {name} waits for review; nothing was created."));
            }
            let due = text(value, "deadline")
                .map_or("without a deadline".to_owned(), |at| format!("due {}", when(at)));
            let how = if changed.is_some() { ", as you changed it" } else { "" };
            Some(format!("The task {name} was created{how}, {due}."))
        }
        Some(Came::Rejected(why)) => Some(format!("No task was created. {why}")),
        Some(Came::Failed(_)) => Some("No task was created.".to_owned()),
        None => {
            let found = sight.gave("list_tasks")?;
            let known = same_task(found, &title)?;
            Some(format!(
                "There is such a task already: {}. No second one was created.",
                linked(text(known, "title")?, text(known, "id")?)
            ))
        }
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
