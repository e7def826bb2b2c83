//! Those who work at the desk, their groups, and the inboxes with who may use them.

use sqlx::SqliteConnection;

use super::{DAY, plain};
use crate::caller::Right;
use crate::error::Result;
use crate::query::Role;

/// What kind of work a member does, which decides their rights.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    All,
    Lead,
    Agent,
    Billing,
    Warehouse,
    Office,
    Contractor,
}

impl Work {
    fn rights(self) -> Vec<Right> {
        use Right::{
            ManageTasks, ReadInternalArticles, ReadMail, ReadOrders, RefundOrders, WriteMail,
            WriteTasks,
        };
        match self {
            Self::All => Right::ALL.to_vec(),
            Self::Lead => vec![
                ReadMail,
                WriteMail,
                WriteTasks,
                ManageTasks,
                ReadOrders,
                RefundOrders,
                ReadInternalArticles,
            ],
            Self::Agent => vec![ReadMail, WriteMail, WriteTasks, ReadOrders, ReadInternalArticles],
            Self::Billing => {
                vec![
                    ReadMail,
                    WriteMail,
                    WriteTasks,
                    ReadOrders,
                    RefundOrders,
                    ReadInternalArticles,
                ]
            }
            Self::Warehouse => vec![WriteTasks, ReadOrders, ReadInternalArticles],
            Self::Office => vec![ReadMail, WriteMail, WriteTasks, ReadInternalArticles],
            Self::Contractor => vec![ReadMail],
        }
    }
}

struct Person(&'static str, &'static str, Role, Work, &'static str, &'static [&'static str]);

const LONDON: &str = "Europe/London";
const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";

const PEOPLE: &[Person] = &[
    Person("Helen Okafor", "Founder", Role::Owner, Work::All, LONDON, &["leadership"]),
    Person(
        "Priya Raman",
        "Head of Support",
        Role::Admin,
        Work::Lead,
        LONDON,
        &["leadership", "second-line", "front-line", "billing"],
    ),
    Person(
        "Tomasz Zielinski",
        "Operations Manager",
        Role::Admin,
        Work::Lead,
        BERLIN,
        &["leadership", "logistics"],
    ),
    Person(
        "Dana Whitfield",
        "People Partner",
        Role::Admin,
        Work::Office,
        LONDON,
        &["people-ops", "leadership"],
    ),
    Person(
        "Mara Lindqvist",
        "Support Lead, Europe",
        Role::User,
        Work::Lead,
        BERLIN,
        &["front-line", "second-line"],
    ),
    Person(
        "Mara Castellanos",
        "Support Lead, Americas",
        Role::User,
        Work::Lead,
        NEW_YORK,
        &["front-line", "second-line"],
    ),
    Person("Jonas Becker", "Support Agent", Role::User, Work::Agent, BERLIN, &["front-line"]),
    Person("Aoife Brennan", "Support Agent", Role::User, Work::Agent, LONDON, &["front-line"]),
    Person("Luis Ferrer", "Support Agent", Role::User, Work::Agent, NEW_YORK, &["front-line"]),
    Person("Hannah Schreiber", "Support Agent", Role::User, Work::Agent, BERLIN, &["front-line"]),
    Person("Kwame Mensah", "Support Agent", Role::User, Work::Agent, LONDON, &["front-line"]),
    Person("Sofia Marchetti", "Support Agent", Role::User, Work::Agent, BERLIN, &["front-line"]),
    Person("Ben Atherton", "Support Agent", Role::User, Work::Agent, LONDON, &["front-line"]),
    Person("Rosa Delgado", "Support Agent", Role::User, Work::Agent, NEW_YORK, &["front-line"]),
    Person(
        "Yuki Tanabe",
        "Technical Specialist",
        Role::User,
        Work::Agent,
        LONDON,
        &["second-line", "workshop"],
    ),
    Person(
        "Erik Sandberg",
        "Technical Specialist",
        Role::User,
        Work::Agent,
        BERLIN,
        &["second-line", "workshop"],
    ),
    Person(
        "Nadia Haddad",
        "Technical Specialist",
        Role::User,
        Work::Agent,
        LONDON,
        &["second-line"],
    ),
    Person(
        "Colin Fairweather",
        "Workshop Technician",
        Role::User,
        Work::Agent,
        LONDON,
        &["workshop"],
    ),
    Person("Greta Vogel", "Workshop Technician", Role::User, Work::Agent, BERLIN, &["workshop"]),
    Person(
        "Samuel Adeyemi",
        "Logistics Coordinator",
        Role::User,
        Work::Agent,
        LONDON,
        &["logistics"],
    ),
    Person(
        "Ines Carvalho",
        "Logistics Coordinator",
        Role::User,
        Work::Agent,
        BERLIN,
        &["logistics"],
    ),
    Person(
        "Piotr Nowak",
        "Warehouse Lead",
        Role::User,
        Work::Warehouse,
        BERLIN,
        &["logistics-floor"],
    ),
    Person(
        "Tess Hallam",
        "Warehouse Associate",
        Role::User,
        Work::Warehouse,
        LONDON,
        &["logistics-floor"],
    ),
    Person("Victor Lang", "Billing Manager", Role::User, Work::Billing, BERLIN, &["billing"]),
    Person("Amelia Stone", "Billing Specialist", Role::User, Work::Billing, LONDON, &["billing"]),
    Person("Farid Nazari", "Wholesale Manager", Role::User, Work::Billing, LONDON, &["wholesale"]),
    Person(
        "Claire Dubois",
        "Wholesale Account Manager",
        Role::User,
        Work::Agent,
        BERLIN,
        &["wholesale"],
    ),
    Person(
        "Owen Prichard",
        "Wholesale Account Manager",
        Role::User,
        Work::Agent,
        NEW_YORK,
        &["wholesale"],
    ),
    Person(
        "Lena Fischer",
        "Content Editor",
        Role::User,
        Work::Office,
        BERLIN,
        &["knowledge", "press"],
    ),
    Person(
        "Marcus Bell",
        "Knowledge Manager",
        Role::User,
        Work::Office,
        LONDON,
        &["knowledge", "front-line"],
    ),
    Person("Ada Nkemelu", "Partnerships", Role::User, Work::Office, LONDON, &["press"]),
    Person("Simon Krause", "People Assistant", Role::User, Work::Office, BERLIN, &["people-ops"]),
    Person("Robin Teller", "Seasonal Helper", Role::User, Work::Contractor, LONDON, &["seasonal"]),
    Person("Ivy Marlow", "Seasonal Helper", Role::User, Work::Contractor, LONDON, &["seasonal"]),
];

/// One who left: their mail keeps their name, but they are nobody to assign to.
const FORMER: (&str, &str) = ("Oscar Lindgren", "Support Agent (left)");

struct Group(&'static str, &'static str, &'static str, &'static str);

const GROUPS: &[Group] = &[
    Group("front-line", "Front Line", "Answers customers first, in the order they wrote.", "open"),
    Group(
        "second-line",
        "Second Line",
        "Takes what needs a specialist: faults, part diagnosis, goodwill.",
        "open",
    ),
    Group("workshop", "Workshop", "Repairs machines and grinders that were sent in.", "open"),
    Group(
        "logistics",
        "Logistics",
        "Carriers, lost parcels, customs and stock between warehouses.",
        "open",
    ),
    Group("logistics-floor", "Warehouse Floor", "Picks and packs.", "open"),
    Group("billing", "Billing", "Invoices, payments, refunds and tax papers.", "open"),
    Group("wholesale", "Wholesale", "Cafés, offices and shops that buy from us.", "open"),
    Group("knowledge", "Knowledge Editors", "Keeps the help articles right.", "open"),
    Group("press", "Press and Partners", "Journalists, creators and sponsorship requests.", "open"),
    Group("seasonal", "Seasonal Helpers", "Read along in the busy weeks.", "open"),
    Group("people-ops", "People Operations", "Hiring, contracts and leave.", "private"),
    Group("leadership", "Leadership", "Legal matters and company decisions.", "private"),
];

struct Inbox(
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const INBOXES: &[Inbox] = &[
    Inbox(
        "support",
        "Customer Support",
        "support@bramling.example",
        "Questions about gear, coffee and accounts.",
        &[
            ("front-line", "write"),
            ("second-line", "write"),
            ("knowledge", "read"),
            ("seasonal", "read"),
            ("leadership", "read"),
        ],
    ),
    Inbox(
        "orders",
        "Orders and Shipping",
        "orders@bramling.example",
        "Where a parcel is, changes to orders, returns.",
        &[
            ("front-line", "write"),
            ("logistics", "write"),
            ("second-line", "read"),
            ("seasonal", "read"),
        ],
    ),
    Inbox(
        "repairs",
        "Repairs",
        "repairs@bramling.example",
        "Faults and machines sent to the workshop.",
        &[("workshop", "write"), ("second-line", "write"), ("front-line", "read")],
    ),
    Inbox(
        "billing",
        "Billing",
        "billing@bramling.example",
        "Invoices, payments and refunds.",
        &[("billing", "write"), ("leadership", "read")],
    ),
    Inbox(
        "wholesale",
        "Wholesale",
        "wholesale@bramling.example",
        "Orders and terms of business customers.",
        &[("wholesale", "write"), ("billing", "read")],
    ),
    Inbox(
        "press",
        "Press and Partners",
        "press@bramling.example",
        "Journalists, creators, sponsorships.",
        &[("press", "write")],
    ),
    Inbox(
        "people",
        "People and Hiring",
        "people@bramling.example",
        "Applications and staff matters.",
        &[("people-ops", "write")],
    ),
    Inbox(
        "legal",
        "Legal",
        "legal@bramling.example",
        "Claims, contracts and authorities.",
        &[("leadership", "write")],
    ),
];

/// The staff as the rest of the seed needs it.
pub(crate) struct Staff {
    /// Id, name and groups of every active member.
    members: Vec<(i64, &'static str, &'static [&'static str])>,
}

/// An inbox as the rest of the seed needs it.
#[derive(Clone, Copy)]
pub(crate) struct InboxRef {
    pub(crate) id: i64,
    pub(crate) address: &'static str,
}

impl Staff {
    /// Everyone, by id and name.
    pub(crate) fn all(&self) -> Vec<(i64, &'static str)> {
        self.members.iter().map(|(id, name, _)| (*id, *name)).collect()
    }

    /// Those who answer in an inbox, by id and name.
    pub(crate) fn writers(&self, slug: &str) -> Vec<(i64, &'static str)> {
        let grants = INBOXES.iter().find(|inbox| inbox.0 == slug).map_or(&[][..], |inbox| inbox.4);
        let writes = |groups: &[&str]| {
            grants.iter().any(|(group, level)| *level == "write" && groups.contains(group))
        };
        self.members
            .iter()
            .filter(|(_, _, groups)| writes(groups))
            .map(|(id, name, _)| (*id, *name))
            .collect()
    }

    /// Members of a group, by id and name.
    pub(crate) fn in_group(&self, slug: &str) -> Vec<(i64, &'static str)> {
        self.members
            .iter()
            .filter(|(_, _, groups)| groups.contains(&slug))
            .map(|(id, name, _)| (*id, *name))
            .collect()
    }
}

/// The inbox of a slug.
pub(crate) fn inbox(slug: &str) -> Option<InboxRef> {
    let (position, inbox) = INBOXES.iter().enumerate().find(|(_, inbox)| inbox.0 == slug)?;
    Some(InboxRef { id: number(position), address: inbox.2 })
}

/// Ids count from one.
pub(crate) fn number(position: usize) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX - 1) + 1
}

pub(crate) async fn write_staff(conn: &mut SqliteConnection, now: i64) -> Result<Staff> {
    let joined = now - 900 * DAY;
    let mut members = Vec::new();
    for (position, Person(name, title, role, work, zone, groups)) in PEOPLE.iter().enumerate() {
        let id = number(position);
        write_member(conn, id, (name, title, *role, zone), 1, joined + id * 11 * DAY).await?;
        for right in work.rights() {
            sqlx::query("INSERT INTO member_rights (member_id, right) VALUES (?, ?)")
                .bind(id)
                .bind(right.as_str())
                .execute(&mut *conn)
                .await?;
        }
        members.push((id, *name, *groups));
    }
    let former = number(PEOPLE.len());
    write_member(conn, former, (FORMER.0, FORMER.1, Role::User, LONDON), 0, joined).await?;

    for (position, Group(slug, name, description, visibility)) in GROUPS.iter().enumerate() {
        let id = number(position);
        sqlx::query(
            "INSERT INTO groups (id, slug, name, description, visibility) VALUES (?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(*slug)
        .bind(*name)
        .bind(*description)
        .bind(*visibility)
        .execute(&mut *conn)
        .await?;
        for (member, _, _) in members.iter().filter(|(_, _, groups)| groups.contains(slug)) {
            sqlx::query("INSERT INTO group_members (group_id, member_id) VALUES (?, ?)")
                .bind(id)
                .bind(*member)
                .execute(&mut *conn)
                .await?;
        }
    }
    for (position, Inbox(slug, name, address, description, grants)) in INBOXES.iter().enumerate() {
        let id = number(position);
        sqlx::query(
            "INSERT INTO inboxes (id, slug, name, address, description) VALUES (?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(*slug)
        .bind(*name)
        .bind(*address)
        .bind(*description)
        .execute(&mut *conn)
        .await?;
        for (group, level) in *grants {
            sqlx::query(
                "INSERT INTO inbox_grants (inbox_id, group_id, level)
                 SELECT ?, id, ? FROM groups WHERE slug = ?",
            )
            .bind(id)
            .bind(*level)
            .bind(*group)
            .execute(&mut *conn)
            .await?;
        }
    }
    Ok(Staff { members })
}

async fn write_member(
    conn: &mut SqliteConnection,
    id: i64,
    (name, title, role, zone): (&str, &str, Role, &str),
    active: i64,
    created_at: i64,
) -> Result<()> {
    let slug = plain(name).replace('.', "-");
    sqlx::query(
        "INSERT INTO members (id, slug, name, email, role, title, phone, time_zone, active, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id)
    .bind(slug)
    .bind(name)
    .bind(format!("{}@bramling.example", plain(name)))
    .bind(role.as_str())
    .bind(title)
    .bind(crate::phone::to_e164(&format!("020 7946 0{id:03}"), Some("GB")))
    .bind(zone)
    .bind(active)
    .bind(created_at)
    .execute(conn)
    .await?;
    Ok(())
}
