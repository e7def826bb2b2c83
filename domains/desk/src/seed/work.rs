//! What members keep beside the mail: drafts, tasks and notes.

use sqlx::SqliteConnection;

use super::mail::ThreadRef;
use super::people::{Staff, number};
use super::rng::Rng;
use super::trade::{Customer, OrderRef};
use super::{DAY, HOUR, put};
use crate::error::Result;

const DRAFTS: &[&str] = &[
    "Hello {first},\n\nthank you for your patience. I have asked the workshop and will",
    "Hello {first},\n\nI looked into it once more and can offer you two ways forward:\n\n1. a replacement, sent today\n2. your money back\n\nWhich would you prefer?",
    "Dear {first},\n\nthe part is back in stock next week. Shall I reserve one for you?",
    "Hi {first},\n\njust to let you know that the carrier has answered. They ask for a photo of the box.",
    "Hello {first},\n\nto find out what is wrong, please tell me:\n- the serial number\n- when it happened first\n- whether the light blinks",
];

const TASKS: &[(&str, &str)] = &[
    (
        "Call {first} about \"{subject}\"",
        "They asked for a call. Try in the afternoon and note the outcome on the thread.",
    ),
    ("Check with the carrier: \"{subject}\"", "Ask for the last scan and the driver's statement."),
    ("Send return label to {first}", "Free label, 30 days. Tell them to keep the receipt."),
    ("Confirm refund with billing: \"{subject}\"", "Amount and reason are on the thread."),
    ("Follow up with {first} in case they stay silent", "One friendly reminder, then archive."),
    (
        "Ask the workshop for a date: \"{subject}\"",
        "Customer wants to know when the machine is back.",
    ),
    (
        "Write down the fix for the help article",
        "The answer on this thread should be in the knowledge base.",
    ),
];

const CHORES: &[(&str, &str)] = &[
    ("Update the holiday reply", "Dates and the emergency address."),
    ("Review open threads without an assignee", "Every morning before ten."),
    (
        "Count the Gasket and Screen Kits",
        "The stock on the shelf and the stock in the list differ.",
    ),
    ("Prepare numbers for the support meeting", "Answer times, reopened threads, refunds."),
    ("Translate the descaling article into German", "Marcus has the glossary."),
    ("Renew the contract with DPD", "Compare the new price list first."),
    ("Order packing material", "Corner pads are nearly out."),
    ("Train the seasonal helpers on returns", "One hour, with the three example threads."),
];

const NOTES: &[&str] = &[
    "Prefers to be called after 17:00.",
    "Has two machines at home and knows them well; skip the basics.",
    "Was very patient during the lost parcel in spring. Goodwill voucher given.",
    "Asked for invoices as PDF to the accounts address.",
    "Very hard water at this address. Recommend the filter pack.",
    "Speaks German and English, prefers German.",
    "Do not offer a replacement again before the carrier has answered.",
    "Agreed on a partial refund by phone, see the thread.",
    "Delivery only at the back entrance, before noon.",
    "Interested in a second grinder; remind in the autumn sale.",
];

pub(crate) async fn write_drafts(
    conn: &mut SqliteConnection,
    seed: u64,
    staff: &Staff,
    threads: &[ThreadRef],
    now: i64,
) -> Result<()> {
    let mut rng = Rng::new(seed, "drafts");
    for thread in threads.iter().filter(|thread| thread.open) {
        let Some(customer) = &thread.customer else { continue };
        if !rng.chance(28) {
            continue;
        }
        let author = thread.assignee.or_else(|| rng.pick(&staff.writers(thread.inbox)).copied());
        let Some((author, _)) = author else { continue };
        let body = put(rng.text(DRAFTS), &[("first", customer.first_name())]);
        sqlx::query(
            "INSERT INTO drafts (thread_id, inbox_id, author_id, subject, to_addresses, cc_addresses,
               body, updated_at) VALUES (?, ?, ?, ?, ?, '[]', ?, ?)",
        )
        .bind(thread.id)
        .bind(thread.inbox_ref.id)
        .bind(author)
        .bind(format!("Re: {}", thread.subject))
        .bind(serde_json::to_string(&[&customer.email])?)
        .bind(body)
        .bind((thread.last_at + rng.between(1, 30) * HOUR).min(now - 60))
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

/// A task about to be written.
struct Plan {
    title: String,
    description: &'static str,
    creator: i64,
    assignee: Option<i64>,
    links: Vec<(&'static str, i64)>,
    created: i64,
}

pub(crate) async fn write_tasks(
    conn: &mut SqliteConnection,
    seed: u64,
    staff: &Staff,
    threads: &[ThreadRef],
    orders: &[OrderRef],
    now: i64,
) -> Result<()> {
    let mut rng = Rng::new(seed, "tasks");
    let mut plans = Vec::new();
    for thread in threads {
        let (Some(customer), true) = (&thread.customer, rng.chance(32)) else { continue };
        let writers = staff.writers(thread.inbox);
        let Some((creator, _)) = thread.assignee.or_else(|| rng.pick(&writers).copied()) else {
            continue;
        };
        let Some((title, description)) = rng.pick(TASKS) else { continue };
        let values = [("first", customer.first_name()), ("subject", thread.subject.as_str())];
        let mut links = vec![("thread", thread.id), ("contact", customer.id)];
        links.extend(thread.order.map(|order| ("order", order)));
        plans.push(Plan {
            title: put(title, &values),
            description,
            creator,
            assignee: if rng.chance(60) {
                Some(creator)
            } else {
                rng.pick(&writers).map(|member| member.0)
            },
            links,
            created: (thread.last_at + HOUR).min(now - 600),
        });
    }
    let everyone = staff.all();
    for (position, (title, description)) in CHORES.iter().enumerate() {
        let Some((creator, _)) = rng.pick(&everyone) else { continue };
        let assignee =
            if rng.chance(75) { rng.pick(&everyone).map(|member| member.0) } else { None };
        let link = orders.get(position).map(|order| ("order", order.id));
        plans.push(Plan {
            title: (*title).to_owned(),
            description,
            creator: *creator,
            assignee,
            links: if rng.chance(15) { link.into_iter().collect() } else { Vec::new() },
            created: now - rng.between(1, 20) * DAY,
        });
    }
    for (position, plan) in plans.into_iter().enumerate() {
        write_task(conn, &mut rng, number(position), plan, now).await?;
    }
    Ok(())
}

async fn write_task(
    conn: &mut SqliteConnection,
    rng: &mut Rng,
    id: i64,
    plan: Plan,
    now: i64,
) -> Result<()> {
    // Deadlines are the last second of a day, as they are when one is named in words.
    let day = plan.created - plan.created.rem_euclid(DAY) + rng.between(1, 16) * DAY;
    let deadline = rng.chance(85).then_some(day + DAY - 1);
    let completed = if now - plan.created > 5 * DAY && rng.chance(72) {
        Some((plan.created + rng.between(2, 100) * HOUR).min(now - 300))
    } else {
        None
    };
    sqlx::query(
        "INSERT INTO tasks (id, title, description, priority, deadline, created_by, created_at,
           completed_by, completed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id)
    .bind(plan.title)
    .bind(plan.description)
    .bind(rng.text(&["low", "normal", "normal", "normal", "high", "urgent"]))
    .bind(deadline)
    .bind(plan.creator)
    .bind(plan.created)
    .bind(completed.map(|_| plan.assignee.unwrap_or(plan.creator)))
    .bind(completed)
    .execute(&mut *conn)
    .await?;
    if let Some(assignee) = plan.assignee {
        sqlx::query("INSERT INTO task_assignees (task_id, member_id) VALUES (?, ?)")
            .bind(id)
            .bind(assignee)
            .execute(&mut *conn)
            .await?;
    }
    for (kind, target) in plan.links {
        sqlx::query("INSERT INTO task_links (task_id, kind, target_id) VALUES (?, ?, ?)")
            .bind(id)
            .bind(kind)
            .bind(target)
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}

pub(crate) async fn write_notes(
    conn: &mut SqliteConnection,
    seed: u64,
    staff: &Staff,
    customers: &[Customer],
    threads: &[ThreadRef],
    orders: &[OrderRef],
    now: i64,
) -> Result<()> {
    let mut rng = Rng::new(seed, "notes");
    let front_line = staff.in_group("front-line");
    let mut targets = Vec::new();
    for customer in customers {
        if rng.chance(22) {
            targets.push(("contact", customer.id, front_line.clone()));
        }
        if let Some(company) = customer.company.as_ref().filter(|_| rng.chance(18)) {
            targets.push(("company", company.0, front_line.clone()));
        }
    }
    for thread in threads.iter().filter(|_| rng.chance(14)) {
        // Only who answers in an inbox can have written a note there.
        targets.push(("thread", thread.id, staff.writers(thread.inbox)));
    }
    for order in orders.iter().filter(|_| rng.chance(8)) {
        targets.push(("order", order.id, front_line.clone()));
    }
    for (kind, target, authors) in targets {
        let Some((author, _)) = rng.pick(&authors) else { continue };
        sqlx::query("INSERT INTO notes (kind, target_id, author_id, body, created_at) VALUES (?, ?, ?, ?, ?)")
            .bind(kind)
            .bind(target)
            .bind(*author)
            .bind(rng.text(NOTES))
            .bind(now - HOUR - rng.recent(200 * DAY))
            .execute(&mut *conn)
            .await?;
    }
    Ok(())
}
