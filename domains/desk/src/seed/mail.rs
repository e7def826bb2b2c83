//! Tags, threads and their messages.

use sqlx::SqliteConnection;

use super::people::{InboxRef, Staff, inbox, number};
use super::rng::Rng;
use super::scenarios::{self, About, SPAM, Scenario, THANKS};
use super::trade::{Customer, OrderRef, PRODUCTS};
use super::{DAY, HOUR, MINUTE, SeedOptions, plain, put};
use crate::error::Result;

const TAGS: &[(&str, &str, &str)] = &[
    ("urgent", "#c62828", "Needs an answer today."),
    ("vip", "#6a1b9a", "A key account or a well-known name."),
    ("shipping-delay", "#ef6c00", "A parcel is late or lost."),
    ("damaged", "#d84315", "Something arrived broken or wrong."),
    ("returns", "#5d4037", "A return is asked for or under way."),
    ("order-change", "#00838f", "An order is to be changed before it ships."),
    ("customs", "#455a64", "Duties and papers at the border."),
    ("descaling", "#0277bd", "Scale, flow and water hardness."),
    ("grinder", "#4e342e", "Anything about grinders."),
    ("coffee", "#795548", "Taste, beans and recipes."),
    ("warranty", "#2e7d32", "Covered by the two-year warranty."),
    ("fault", "#b71c1c", "A machine does not work."),
    ("spare-parts", "#558b2f", "A part is asked for."),
    ("subscription", "#283593", "The monthly coffee box."),
    ("account", "#37474f", "Sign-in, addresses and data."),
    ("question", "#00695c", "Advice before or after buying."),
    ("feedback", "#ad1457", "Praise, complaint or idea."),
    ("invoice", "#1565c0", "Invoices and tax papers."),
    ("refund", "#9e9d24", "Money is to go back."),
    ("payment", "#827717", "A payment failed or doubled."),
    ("wholesale", "#4527a0", "Business customers."),
    ("press", "#c2185b", "Journalists and partners."),
    ("hiring", "#00796b", "Applications."),
    ("legal", "#212121", "Claims and authorities."),
    ("waiting-for-customer", "#757575", "We asked something and wait for the answer."),
];

/// A thread as the rest of the seed needs it.
pub(crate) struct ThreadRef {
    pub(crate) id: i64,
    pub(crate) inbox: &'static str,
    pub(crate) inbox_ref: InboxRef,
    pub(crate) subject: String,
    pub(crate) open: bool,
    pub(crate) last_at: i64,
    pub(crate) customer: Option<Customer>,
    pub(crate) order: Option<i64>,
    pub(crate) assignee: Option<(i64, &'static str)>,
}

/// Who writes in.
struct Sender {
    name: String,
    address: String,
    contact: Option<i64>,
}

/// A thread about to be written.
struct Plan<'a> {
    id: i64,
    scenario: &'static Scenario,
    inbox: InboxRef,
    sender: Sender,
    order: Option<&'a OrderRef>,
    agent: (i64, &'static str),
    start: i64,
    values: Vec<(&'static str, String)>,
}

pub(crate) async fn write_threads(
    conn: &mut SqliteConnection,
    options: &SeedOptions,
    staff: &Staff,
    customers: &[Customer],
    orders: &[OrderRef],
    now: i64,
) -> Result<Vec<ThreadRef>> {
    for (position, (slug, color, description)) in TAGS.iter().enumerate() {
        let name = slug.replace('-', " ");
        sqlx::query("INSERT INTO tags (id, slug, name, color, description) VALUES (?, ?, ?, ?, ?)")
            .bind(number(position))
            .bind(*slug)
            .bind(name)
            .bind(*color)
            .bind(*description)
            .execute(&mut *conn)
            .await?;
    }
    let mut rng = Rng::new(options.seed, "mail");
    let mut starts: Vec<i64> =
        (0..options.threads).map(|_| now - 10 * MINUTE - rng.recent(180 * DAY)).collect();
    starts.sort_unstable();
    let mut threads = Vec::with_capacity(starts.len());
    for (position, start) in starts.into_iter().enumerate() {
        let id = number(position);
        if rng.chance(4) {
            write_spam(conn, &mut rng, id, start).await?;
            continue;
        }
        let Some(plan) = plan(&mut rng, staff, customers, orders, id, start) else { continue };
        threads.push(write_thread(conn, &mut rng, plan, now).await?);
    }
    Ok(threads)
}

fn scenario(rng: &mut Rng, with_order: bool) -> Option<&'static Scenario> {
    let fitting =
        || scenarios::all().filter(move |scenario| with_order || scenario.about != About::Order);
    let mut left = rng.below(fitting().map(|scenario| scenario.weight).sum());
    for scenario in fitting() {
        if left < scenario.weight {
            return Some(scenario);
        }
        left -= scenario.weight;
    }
    None
}

/// An order placed in the weeks before a moment; people write about what is recent.
fn recent_order<'a>(rng: &mut Rng, orders: &'a [OrderRef], at: i64) -> Option<&'a OrderRef> {
    let first = orders.partition_point(|order| order.placed_at < at - 35 * DAY);
    let end = orders.partition_point(|order| order.placed_at < at - 6 * HOUR);
    rng.pick(orders.get(first..end)?)
}

fn plan<'a>(
    rng: &mut Rng,
    staff: &Staff,
    customers: &[Customer],
    orders: &'a [OrderRef],
    id: i64,
    start: i64,
) -> Option<Plan<'a>> {
    let near = recent_order(rng, orders, start);
    let scenario = scenario(rng, near.is_some())?;
    let order = near.filter(|_| scenario.about == About::Order);
    let agent = *rng.pick(&staff.writers(scenario.inbox))?;
    let customer = match (scenario.about, order) {
        (About::Stranger, _) => None,
        (_, Some(order)) => Some(order.customer.clone()),
        (_, None) => Some(rng.pick(customers)?.clone()),
    };
    let sender = match &customer {
        Some(customer) => Sender {
            name: customer.name.clone(),
            address: customer.email.clone(),
            contact: Some(customer.id),
        },
        None => {
            let name = format!(
                "{} {}",
                rng.text(&["Morgan", "Jamie", "Kim", "Sasha", "Alexis", "Robin"]),
                rng.text(&["Ashdown", "Velde", "Okoro", "Brandt", "Lemaire", "Stokes", "Aydin"])
            );
            let domain = rng.text(&[
                "tablemag.example",
                "brewcast.example",
                "counselhouse.example",
                "homepost.example",
            ]);
            Sender { address: format!("{}@{domain}", plain(&name)), name, contact: None }
        }
    };
    let product = order.map_or_else(
        || PRODUCTS.get(usize::try_from(rng.below(9)).unwrap_or(0)).map_or("", |product| product.1),
        |order| order.product,
    );
    let company = customer.as_ref().and_then(|customer| customer.company.as_ref());
    let values = vec![
        ("first", sender.name.split(' ').next().unwrap_or_default().to_owned()),
        ("product", product.to_owned()),
        ("order", order.map_or_else(String::new, |order| order.number.clone())),
        ("carrier", order.and_then(|order| order.carrier).unwrap_or("the carrier").to_owned()),
        (
            "tracking",
            order
                .and_then(|order| order.tracking.clone())
                .unwrap_or_else(|| "the parcel's number".to_owned()),
        ),
        ("city", customer.as_ref().map_or("town", |customer| customer.city).to_owned()),
        (
            "amount",
            order.map_or_else(String::new, |order| {
                format!("{}.{:02} EUR", order.total_cents / 100, order.total_cents % 100)
            }),
        ),
        ("company", company.map_or_else(|| "our company".to_owned(), |company| company.1.clone())),
        ("agent", agent.1.split(' ').next().unwrap_or_default().to_owned()),
    ];
    Some(Plan { id, scenario, inbox: inbox(scenario.inbox)?, sender, order, agent, start, values })
}

/// A message about to be written.
struct Line {
    inbound: bool,
    text: String,
    at: i64,
}

fn conversation(rng: &mut Rng, plan: &Plan<'_>, now: i64) -> Vec<Line> {
    let scenario = plan.scenario;
    let values: Vec<(&str, &str)> =
        plan.values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let turns: [(bool, &[&'static str]); 5] = [
        (true, scenario.openings),
        (false, scenario.answers),
        (true, scenario.follow_ups),
        (false, scenario.endings),
        (true, THANKS),
    ];
    let length = usize::try_from(rng.between(1, 5)).unwrap_or(1);
    let mut at = plan.start;
    let mut lines = Vec::new();
    for (inbound, texts) in turns.into_iter().take(length) {
        if at >= now {
            break;
        }
        let said = put(rng.text(texts), &values);
        lines.push(Line { inbound, text: letter(rng, plan, inbound, &said), at });
        at += if inbound { rng.between(25, 26 * 60) } else { rng.between(40, 60 * 60) } * MINUTE;
    }
    lines
}

/// Puts a greeting before and a name under what is said.
fn letter(rng: &mut Rng, plan: &Plan<'_>, inbound: bool, said: &str) -> String {
    let first = plan.sender.name.split(' ').next().unwrap_or_default();
    if inbound {
        let greeting =
            rng.text(&["Hello,", "Hi there,", "Good morning,", "Dear Bramling team,", "Hi,"]);
        let close = rng.text(&["Best,", "Kind regards,", "Thanks,", "Cheers,", "Many thanks,"]);
        let name = if rng.chance(50) { first } else { &plan.sender.name };
        format!("{greeting}\n\n{said}\n\n{close}\n{name}")
    } else {
        let greeting = rng.text(&["Hello", "Hi", "Dear"]);
        format!("{greeting} {first},\n\n{said}\n\nWith kind regards,\n{}\nBramling", plan.agent.1)
    }
}

async fn write_thread(
    conn: &mut SqliteConnection,
    rng: &mut Rng,
    plan: Plan<'_>,
    now: i64,
) -> Result<ThreadRef> {
    let values: Vec<(&str, &str)> =
        plan.values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let subject = put(rng.text(plan.scenario.subjects), &values);
    let lines = conversation(rng, &plan, now);
    let last_at = lines.last().map_or(plan.start, |line| line.at);
    let last_inbound = lines.last().is_some_and(|line| line.inbound);
    let age = now - last_at;
    let done = lines.len() >= 4 && age > DAY || age > 60 * DAY;
    let status = match (done, rng.below(100)) {
        (_, 0..=1) => "trash",
        (true, 2..=91) => "archived",
        (false, 2..=5) => "archived",
        _ => "open",
    };
    let open = status == "open";
    let assigned = lines.len() > 1 || rng.chance(45);
    let assignee = assigned.then_some(plan.agent);
    let unread = open && last_inbound && rng.chance(65);
    sqlx::query(
        "INSERT INTO threads (id, subject, inbox_id, status, assignee_id, contact_id, order_id, unread,
           message_count, created_at, last_message_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(plan.id)
    .bind(&subject)
    .bind(plan.inbox.id)
    .bind(status)
    .bind(assignee.map(|member| member.0))
    .bind(plan.sender.contact)
    .bind(plan.order.map(|order| order.id))
    .bind(i64::from(unread))
    .bind(i64::try_from(lines.len()).unwrap_or(0))
    .bind(plan.start)
    .bind(last_at)
    .execute(&mut *conn)
    .await?;
    for (position, line) in lines.iter().enumerate() {
        let subject = if position == 0 { subject.clone() } else { format!("Re: {subject}") };
        write_message(conn, &plan, line, &subject).await?;
    }
    let mut tags: Vec<&str> = plan.scenario.tags.to_vec();
    if open && last_inbound && rng.chance(14) {
        tags.push("urgent");
    }
    if rng.chance(5) {
        tags.push("vip");
    }
    if open && !last_inbound {
        tags.push("waiting-for-customer");
    }
    for tag in tags {
        sqlx::query(
            "INSERT INTO thread_tags (thread_id, tag_id) SELECT ?, id FROM tags WHERE slug = ?",
        )
        .bind(plan.id)
        .bind(tag)
        .execute(&mut *conn)
        .await?;
    }
    Ok(ThreadRef {
        id: plan.id,
        inbox: plan.scenario.inbox,
        inbox_ref: plan.inbox,
        subject,
        open,
        last_at,
        customer: plan.sender.contact.map(|id| Customer {
            id,
            name: plan.sender.name.clone(),
            email: plan.sender.address.clone(),
            city: "",
            company: None,
        }),
        order: plan.order.map(|order| order.id),
        assignee,
    })
}

async fn write_message(
    conn: &mut SqliteConnection,
    plan: &Plan<'_>,
    line: &Line,
    subject: &str,
) -> Result<()> {
    let (direction, from_name, from, to, member, contact) = if line.inbound {
        let sender = &plan.sender;
        (
            "inbound",
            sender.name.as_str(),
            sender.address.as_str(),
            plan.inbox.address,
            None,
            sender.contact,
        )
    } else {
        let to = plan.sender.address.as_str();
        ("outbound", plan.agent.1, plan.inbox.address, to, Some(plan.agent.0), None)
    };
    insert_message(
        conn,
        plan.id,
        (direction, member, contact),
        (from_name, from, to),
        (subject, &line.text),
        line.at,
    )
    .await
}

async fn insert_message(
    conn: &mut SqliteConnection,
    thread: i64,
    (direction, member, contact): (&str, Option<i64>, Option<i64>),
    (from_name, from, to): (&str, &str, &str),
    (subject, body): (&str, &str),
    at: i64,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO messages (thread_id, direction, member_id, contact_id, from_name, from_address,
           to_addresses, cc_addresses, subject, body, sent_at) VALUES (?, ?, ?, ?, ?, ?, ?, '[]', ?, ?, ?)",
    )
    .bind(thread)
    .bind(direction)
    .bind(member)
    .bind(contact)
    .bind(from_name)
    .bind(from)
    .bind(serde_json::to_string(&[to])?)
    .bind(subject)
    .bind(body)
    .bind(at)
    .execute(conn)
    .await?;
    Ok(())
}

async fn write_spam(conn: &mut SqliteConnection, rng: &mut Rng, id: i64, at: i64) -> Result<()> {
    let Some((name, address, subject, body)) = rng.pick(SPAM) else { return Ok(()) };
    let Some(to) = inbox(rng.text(&["support", "orders", "billing"])) else { return Ok(()) };
    sqlx::query(
        "INSERT INTO threads (id, subject, inbox_id, status, unread, message_count, created_at,
           last_message_at) VALUES (?, ?, ?, 'spam', 0, 1, ?, ?)",
    )
    .bind(id)
    .bind(*subject)
    .bind(to.id)
    .bind(at)
    .bind(at)
    .execute(&mut *conn)
    .await?;
    insert_message(
        conn,
        id,
        ("inbound", None, None),
        (name, address, to.address),
        (subject, body),
        at,
    )
    .await
}
