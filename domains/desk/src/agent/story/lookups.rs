//! Scenes that only read.

use serde_json::{Value, json};

use super::Call;
use super::scenes::{linked, list, text};
use super::sight::Sight;
use super::words::{first_sentences, mentions, order_number, says, subject, when};

/// Rows quoted in an answer.
const QUOTED: usize = 3;

pub(super) fn overview(sight: &Sight) -> Vec<Call> {
    if !sight.has_made_any("find_threads") && !sight.has_made_any("find_orders") {
        let ask = sight.ask();
        let mut threads = json!({"status": "open", "limit": 5});
        let narrower = if mentions(ask, &["late", "delay", "parcel", "deliver", "shipping"]) {
            Some(("tags", json!(["shipping delay"])))
        } else if mentions(ask, &["unassigned"]) {
            Some(("assignee", json!("unassigned")))
        } else if says(ask, &["my", "mine", "me"]) {
            Some(("assignee", json!("me")))
        } else {
            None
        };
        if let (Some((name, value)), Some(map)) = (narrower, threads.as_object_mut()) {
            map.insert(name.to_owned(), value);
        }
        let orders =
            json!({"status": "shipped", "sort_by": "placed", "sort_direction": "asc", "limit": 5});
        return vec![Call::new("find_threads", threads), Call::new("find_orders", orders)];
    }
    first_thread(sight)
}

/// Reads the first thread that was found.
fn first_thread(sight: &Sight) -> Vec<Call> {
    if sight.has_made_any("get_thread") {
        return Vec::new();
    }
    let threads = sight.gave("find_threads").map(|found| list(found, "threads"));
    let first = threads.and_then(|threads| text(threads.first()?, "id"));
    first.map(|id| Call::new("get_thread", json!({"thread": id}))).into_iter().collect()
}

pub(super) fn close_overview(sight: &Sight) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(found) = sight.gave("find_threads") {
        parts.push(threads_found(found));
    }
    if let Some(detail) = sight.gave("get_thread") {
        parts.extend(newest_message(detail));
    }
    if let Some(found) = sight.gave("find_orders") {
        parts.push(orders_found(found));
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

fn total(found: &Value) -> u64 {
    found.get("total").and_then(Value::as_u64).unwrap_or(0)
}

fn threads_found(found: &Value) -> String {
    let threads = list(found, "threads");
    if threads.is_empty() {
        let hint = text(found, "suggestion").unwrap_or_default();
        return format!("No open thread matches. {hint}").trim_end().to_owned();
    }
    let lines: Vec<String> = threads
        .iter()
        .take(QUOTED)
        .filter_map(|thread| {
            let who = text(thread, "assignee.name").unwrap_or("nobody");
            Some(format!(
                "- {}, {}, last from {} on {}, assigned to {who}",
                linked(text(thread, "subject")?, text(thread, "id")?),
                text(thread, "inbox.name")?,
                text(thread, "last_sender")?,
                when(text(thread, "last_message_at")?),
            ))
        })
        .collect();
    format!("Open threads that match: {}. The newest:\n{}", total(found), lines.join("\n"))
}

fn newest_message(detail: &Value) -> Option<String> {
    let subject = text(detail, "thread.subject")?;
    let last = list(detail, "messages").last()?;
    Some(format!(
        "In “{subject}” {} wrote last: “{}”",
        text(last, "from_name")?,
        first_sentences(text(last, "body")?, 180)
    ))
}

fn orders_found(found: &Value) -> String {
    let orders = list(found, "orders");
    if orders.is_empty() {
        return "No order is under way.".to_owned();
    }
    let lines: Vec<String> = orders
        .iter()
        .take(QUOTED)
        .filter_map(|order| {
            let placed = text(order, "placed_at")?;
            Some(format!(
                "- {} for {}, with {} since {}, placed {}",
                linked(text(order, "number")?, text(order, "id")?),
                text(order, "contact.name")?,
                text(order, "carrier").unwrap_or("no carrier"),
                text(order, "shipped_at").map_or_else(|| "an unknown day".to_owned(), when),
                placed.get(..10).unwrap_or(placed),
            ))
        })
        .collect();
    format!("Orders under way: {}. Those that wait longest:\n{}", total(found), lines.join("\n"))
}

pub(super) fn suggestions(sight: &Sight) -> Option<Vec<String>> {
    let thread = list(sight.gave("find_threads")?, "threads").first()?;
    let id = text(thread, "id")?.replace(':', " ");
    let mut prompts = vec![format!("Reply to {id}")];
    prompts.push(format!("Remind me to look at {id} tomorrow"));
    if let Some(order) = sight.gave("find_orders").and_then(|found| list(found, "orders").first()) {
        prompts.extend(text(order, "number").map(|number| format!("What about {number}?")));
    }
    Some(prompts)
}

pub(super) fn order(sight: &Sight) -> Vec<Call> {
    let Some(order) = order_number(sight.ask()) else { return Vec::new() };
    if sight.has_made_any("get_order") {
        return first_thread(sight);
    }
    let mut calls = vec![Call::new("get_order", json!({"order": order}))];
    if order.starts_with("BR-") && sight.offers("find_threads") {
        calls.push(Call::new("find_threads", json!({"query": order, "limit": 5})));
    }
    calls
}

pub(super) fn close_order(sight: &Sight) -> Option<String> {
    let found = sight.gave("get_order")?;
    let order = found.get("order")?;
    let products: Vec<String> = list(found, "lines")
        .iter()
        .filter_map(|line| {
            Some(format!("{} × {}", line.get("quantity")?.as_u64()?, text(line, "name")?))
        })
        .collect();
    let mut parts = vec![format!(
        "{} of {} is {}: {} for {} {}, placed on {}.",
        linked(text(order, "number")?, text(order, "id")?),
        text(order, "contact.name")?,
        text(order, "status")?,
        products.join(", "),
        text(order, "total")?,
        text(order, "currency")?,
        when(text(order, "placed_at")?),
    )];
    if let (Some(carrier), Some(tracking)) =
        (text(order, "carrier"), text(order, "tracking_number"))
    {
        parts.push(format!("It travels with {carrier} under {tracking}."));
    }
    parts.push(format!(
        "{} {} can still be given back.",
        text(found, "refundable")?,
        text(order, "currency")?
    ));
    let threads: Vec<String> = list(found, "threads")
        .iter()
        .filter_map(|thread| Some(linked(text(thread, "name")?, text(thread, "id")?)))
        .collect();
    let mut out = parts.join(" ");
    if !threads.is_empty() {
        out.push_str(&format!("\n\nMail about it: {}.", threads.join(", ")));
    }
    if let Some(newest) = sight.gave("get_thread").and_then(newest_message) {
        out.push_str(&format!("\n\n{newest}"));
    }
    Some(out)
}

pub(super) fn knowledge(sight: &Sight) -> Vec<Call> {
    let Some(found) = sight.gave("search_knowledge") else {
        if sight.has_made_any("search_knowledge") {
            return Vec::new();
        }
        let query = subject(sight.ask()).unwrap_or_else(|| "shipping".to_owned());
        return vec![Call::new("search_knowledge", json!({"query": query, "limit": 3}))];
    };
    best_article(sight, found)
}

/// Reads the article that fits best.
pub(super) fn best_article(sight: &Sight, found: &Value) -> Vec<Call> {
    let first = list(found, "results").first().and_then(|article| text(article, "id"));
    first
        .filter(|_| !sight.has_made_any("get_article"))
        .map(|id| Call::new("get_article", json!({"article": id})))
        .into_iter()
        .collect()
}

pub(super) fn close_knowledge(sight: &Sight) -> Option<String> {
    let found = sight.gave("search_knowledge")?;
    let Some(article) = sight.gave("get_article") else {
        let hint = text(found, "suggestion").unwrap_or("No article was read.");
        return Some(format!("Nothing was found in the knowledge base. {hint}"));
    };
    let others: Vec<String> = list(found, "results")
        .iter()
        .skip(1)
        .filter_map(|other| Some(linked(text(other, "title")?, text(other, "id")?)))
        .collect();
    let mut out = format!(
        "{} ({}) says: “{}”",
        linked(text(article, "title")?, text(article, "id")?),
        text(article, "audience")?,
        first_sentences(text(article, "body")?, 320),
    );
    if !others.is_empty() {
        out.push_str(&format!("\n\nAlso near it: {}.", others.join(", ")));
    }
    Some(out)
}

pub(super) fn people(sight: &Sight) -> Vec<Call> {
    if sight.has_made_any("list_members") {
        return Vec::new();
    }
    let about = subject(sight.ask()).and_then(|about| {
        let telling = about.split(' ').find(|word| !["team", "member", "members"].contains(word));
        telling.map(str::to_owned)
    });
    let args = match about {
        Some(query) => json!({"query": query, "limit": 5}),
        None => json!({"limit": 5}),
    };
    vec![Call::new("list_members", args)]
}

pub(super) fn close_people(sight: &Sight) -> Option<String> {
    let found = sight.gave("list_members")?;
    let members = list(found, "items");
    if members.is_empty() {
        return Some(format!("Nobody matches. {}", text(found, "suggestion").unwrap_or_default()));
    }
    let lines: Vec<String> = members
        .iter()
        .filter_map(|member| {
            Some(format!(
                "- {}, {}, {}",
                linked(text(member, "name")?, text(member, "id")?),
                text(member, "title")?,
                text(member, "email")?
            ))
        })
        .collect();
    Some(format!("{} match:\n{}", total(found), lines.join("\n")))
}

pub(super) fn introduction(sight: &Sight) -> Vec<Call> {
    if sight.has_made_any("list_members") {
        return Vec::new();
    }
    vec![Call::new("list_members", json!({"limit": 3}))]
}

pub(super) fn close_introduction(sight: &Sight) -> Option<String> {
    let mut out = "I am the rehearsal model: a script, not a language model, so I do not understand what you write. The \
                   desk, its data, the tools and the approvals are real. I can play:\n\
                   - “What is open?”, “Which deliveries are late?”\n\
                   - “What about BR-10007?”\n\
                   - “Reply to thread 12” (you approve it, change it or reject it)\n\
                   - “Remind me to call the carrier tomorrow at 15:00”, or of several things: “… and remind me to count the stock in 3 days”\n\
                   - “Refund 12.50 of BR-10007 because it came late”\n\
                   - “Plan my morning”, then “Step 2 is done”\n\
                   - “How do I descale the Bramling One?”, “Who works in billing?”"
        .to_owned();
    if let Some(found) = sight.gave("list_members") {
        let names: Vec<&str> =
            list(found, "items").iter().filter_map(|member| text(member, "name")).collect();
        out.push_str(&format!(
            "\n\nReal, by way of proof: the desk has {} members, among them {}.",
            total(found),
            names.join(", ")
        ));
    }
    out.push_str("\n\nFor real answers, configure a model.");
    Some(out)
}
