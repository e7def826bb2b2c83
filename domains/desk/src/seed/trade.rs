//! Companies, contacts, products and orders.

use sqlx::SqliteConnection;

use super::people::{Staff, number};
use super::rng::Rng;
use super::{DAY, HOUR, SeedOptions, plain};
use crate::error::Result;
use crate::phone::to_e164;

/// Stock number, name, category, price in cents.
pub(crate) struct Product(pub(crate) &'static str, pub(crate) &'static str, &'static str, i64);

pub(crate) const PRODUCTS: &[Product] = &[
    Product("BR-E1", "Bramling One", "machine", 64_900),
    Product("BR-E2", "Bramling Duo", "machine", 129_000),
    Product("BR-E3", "Bramling Lever", "machine", 89_000),
    Product("BR-G1", "Fieldmill", "grinder", 32_900),
    Product("BR-G2", "Fieldmill Pro", "grinder", 54_900),
    Product("BR-G3", "Pocketmill", "grinder", 11_900),
    Product("BR-K1", "Longneck Kettle", "brewing", 14_900),
    Product("BR-S1", "Drip Scale", "brewing", 7_900),
    Product("BR-P1", "Pourstand", "accessory", 5_900),
    Product("BR-T1", "Level Tamper", "accessory", 4_500),
    Product("BR-F1", "Bottomless Portafilter", "accessory", 8_500),
    Product("BR-M1", "Milk Pitcher 450 ml", "accessory", 3_200),
    Product("BR-D1", "Descaling Kit", "care", 1_800),
    Product("BR-W1", "Water Filter, pack of three", "care", 2_400),
    Product("BR-C1", "Cleaning Tablets, 60", "care", 1_400),
    Product("BR-X1", "Gasket and Screen Kit", "care", 1_600),
    Product("BR-B1", "Harbour Blend 1 kg", "coffee", 2_800),
    Product("BR-B2", "Moorland Decaf 1 kg", "coffee", 3_000),
    Product("BR-B3", "Orchard Filter Roast 1 kg", "coffee", 3_100),
];

const FIRST: &[&str] = &[
    "Alice",
    "Noah",
    "Zoë",
    "Marta",
    "Ewan",
    "Fiona",
    "Karim",
    "Lotte",
    "Peter",
    "Ingrid",
    "Jorge",
    "Nina",
    "Oliver",
    "Beatriz",
    "Hugo",
    "Leila",
    "Stefan",
    "Grace",
    "Paul",
    "Annika",
    "Daniel",
    "Imogen",
    "Ravi",
    "Charlotte",
    "Mateo",
    "Saskia",
    "Theo",
    "Wanda",
    "Cormac",
    "Elif",
    "Gareth",
    "Helena",
    "Ismail",
    "José",
    "Katrin",
    "Liam",
    "Monique",
    "Niall",
    "Olga",
    "Quentin",
    "Ruth",
    "Sven",
    "Tamsin",
    "Ursula",
    "Vera",
    "Walter",
    "Xenia",
    "Yvonne",
];

const LAST: &[&str] = &[
    "Abbott",
    "Bianchi",
    "Clarke",
    "Dietrich",
    "Evans",
    "Fournier",
    "García",
    "Hughes",
    "Ivanov",
    "Jansen",
    "Kowalski",
    "Laurent",
    "Müller",
    "Nielsen",
    "O'Hara",
    "Petersen",
    "Quinn",
    "Rossi",
    "Schmidt",
    "Thornton",
    "Ueland",
    "Vermeer",
    "Walsh",
    "Yildiz",
    "Zimmermann",
    "Baptiste",
    "Carmichael",
    "Drummond",
    "Eriksen",
    "Fitzgerald",
    "Gallagher",
    "Hartmann",
    "Iqbal",
    "Jennings",
    "Keller",
    "Lombardi",
    "Moreau",
    "Novak",
    "Osborne",
    "Pereira",
    "Reinhardt",
    "Sorensen",
    "Turner",
];

const COMPANY_NAMES: &[&str] = &[
    "Alder",
    "Beacon",
    "Cinder",
    "Drover",
    "Elmstead",
    "Foxglove",
    "Granary",
    "Hollow",
    "Inkwell",
    "Juniper",
    "Kiln",
    "Lantern",
    "Meridian",
    "Northgate",
    "Oakline",
    "Paperbark",
    "Quayside",
    "Rookery",
    "Saltmarsh",
    "Tidewater",
    "Umber",
    "Vellum",
];

/// What the company is called after its name, and what it does.
const COMPANY_KINDS: &[(&str, &str)] = &[
    ("Coffee House", "café"),
    ("Studios", "design"),
    ("Bakery", "bakery"),
    ("Hotels", "hospitality"),
    ("Partners", "consulting"),
    ("Kitchen Supply", "retail"),
];

/// Country, cities, and how a national number begins.
struct Place(&'static str, &'static [&'static str], &'static str);

const PLACES: &[Place] = &[
    Place("GB", &["London", "Leeds", "Bristol", "Edinburgh", "Cardiff"], "07700 900"),
    Place("DE", &["Berlin", "Hamburg", "Köln", "Leipzig", "München"], "030 23125 "),
    Place("US", &["Boston", "Chicago", "Portland", "Austin"], "(212) 555-0"),
    Place("NL", &["Amsterdam", "Utrecht", "Rotterdam"], "020 555 0"),
    Place("FR", &["Paris", "Lyon", "Nantes"], "01 99 00 1 "),
    Place("IE", &["Dublin", "Cork", "Galway"], "020 912 0"),
];

const MAILBOXES: &[&str] =
    &["postbox.example", "fernmail.example", "inkpost.example", "lettr.example"];

/// A customer as the rest of the seed needs it.
#[derive(Clone)]
pub(crate) struct Customer {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) email: String,
    pub(crate) city: &'static str,
    pub(crate) company: Option<(i64, String)>,
}

impl Customer {
    pub(crate) fn first_name(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }
}

/// An order as the rest of the seed needs it.
pub(crate) struct OrderRef {
    pub(crate) id: i64,
    pub(crate) number: String,
    pub(crate) customer: Customer,
    pub(crate) product: &'static str,
    pub(crate) carrier: Option<&'static str>,
    pub(crate) tracking: Option<String>,
    pub(crate) total_cents: i64,
    pub(crate) placed_at: i64,
}

pub(crate) async fn write_customers(
    conn: &mut SqliteConnection,
    options: &SeedOptions,
    now: i64,
) -> Result<Vec<Customer>> {
    let mut rng = Rng::new(options.seed, "customers");
    let mut companies: Vec<(i64, String, String)> = Vec::new();
    for position in 0..options.companies {
        let id = number(position);
        let turn = position / COMPANY_NAMES.len();
        let name = COMPANY_NAMES.get(position % COMPANY_NAMES.len()).copied().unwrap_or_default();
        let (suffix, industry) =
            COMPANY_KINDS.get((position + turn) % COMPANY_KINDS.len()).copied().unwrap_or_default();
        // Names run out for very large desks; from there on they are numbered.
        let round = turn / COMPANY_KINDS.len();
        let name =
            if round == 0 { format!("{name} {suffix}") } else { format!("{name} {suffix} {id}") };
        let domain = format!("{}.example", plain(&name).replace('.', "-"));
        let Some(Place(country, cities, start)) = rng.pick(PLACES) else { continue };
        let city = rng.text(cities);
        let phone = to_e164(&format!("{start}{:03}", rng.between(100, 199)), Some(country));
        let tier = rng.text(&["standard", "standard", "standard", "plus", "key"]);
        sqlx::query(
            "INSERT INTO companies (id, name, domain, industry, city, country, phone, tier, created_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(&name)
        .bind(&domain)
        .bind(industry)
        .bind(city)
        .bind(*country)
        .bind(phone)
        .bind(tier)
        .bind(now - rng.between(400, 1_500) * DAY)
        .execute(&mut *conn)
        .await?;
        companies.push((id, name, domain));
    }
    let mut customers = Vec::with_capacity(options.contacts);
    for position in 0..options.contacts {
        let id = number(position);
        let name = format!("{} {}", rng.text(FIRST), rng.text(LAST));
        let company = if rng.chance(45) { rng.pick(&companies).cloned() } else { None };
        let domain = company.as_ref().map_or_else(|| rng.text(MAILBOXES), |company| &company.2);
        // The number keeps addresses apart where names meet.
        let email = format!("{}.{id}@{domain}", plain(&name));
        let Some(Place(country, cities, start)) = rng.pick(PLACES) else { continue };
        let city = rng.text(cities);
        let phone = if rng.chance(70) {
            to_e164(&format!("{start}{:03}", rng.between(100, 199)), Some(country))
        } else {
            None
        };
        sqlx::query(
            "INSERT INTO contacts (id, name, email, phone, company_id, city, country, created_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(&name)
        .bind(&email)
        .bind(phone)
        .bind(company.as_ref().map(|company| company.0))
        .bind(city)
        .bind(*country)
        .bind(now - rng.between(366, 1_000) * DAY)
        .execute(&mut *conn)
        .await?;
        let company = company.map(|(id, name, _)| (id, name));
        customers.push(Customer { id, name, email, city, company });
    }
    Ok(customers)
}

/// When an order was placed, sent and received, and the state that leaves it in.
struct Course {
    status: &'static str,
    placed: i64,
    shipped: Option<i64>,
    delivered: Option<i64>,
}

fn course(rng: &mut Rng, placed: i64, now: i64) -> Course {
    let shipped = placed + rng.between(8, 60) * HOUR;
    let delivered = shipped + rng.between(20, 130) * HOUR;
    let mut course = Course { status: "paid", placed, shipped: None, delivered: None };
    if rng.chance(5) {
        course.status = "cancelled";
    } else if delivered < now {
        course.status = "delivered";
        course.shipped = Some(shipped);
        course.delivered = Some(delivered);
    } else if shipped < now {
        course.status = "shipped";
        course.shipped = Some(shipped);
    } else if rng.chance(25) {
        course.status = "pending";
    }
    course
}

pub(crate) async fn write_orders(
    conn: &mut SqliteConnection,
    options: &SeedOptions,
    customers: &[Customer],
    staff: &Staff,
    now: i64,
) -> Result<Vec<OrderRef>> {
    for Product(sku, name, category, cents) in PRODUCTS {
        sqlx::query("INSERT INTO products (sku, name, category, unit_cents) VALUES (?, ?, ?, ?)")
            .bind(*sku)
            .bind(*name)
            .bind(*category)
            .bind(*cents)
            .execute(&mut *conn)
            .await?;
    }
    let mut rng = Rng::new(options.seed, "orders");
    let mut times: Vec<i64> =
        (0..options.orders).map(|_| now - HOUR - rng.recent(365 * DAY - HOUR)).collect();
    times.sort_unstable();
    let mut orders = Vec::with_capacity(times.len());
    for (position, placed) in times.into_iter().enumerate() {
        let id = 10_000 + number(position);
        let Some(customer) = rng.pick(customers) else { continue };
        let lines = lines(&mut rng);
        let total: i64 = lines.iter().map(|(product, quantity)| product.3 * quantity).sum();
        let course = course(&mut rng, placed, now);
        let sent = course.shipped.is_some();
        let carrier = sent.then(|| rng.text(&["DHL", "DPD", "UPS", "Royal Mail"]));
        let tracking = sent.then(|| format!("JD{:010}", rng.below(10_000_000_000)));
        let refunded = match course.status {
            "delivered" if rng.chance(8) => {
                if rng.chance(40) {
                    total
                } else {
                    total * rng.between(1, 5) / 10
                }
            }
            _ => 0,
        };
        let number = format!("BR-{id}");
        sqlx::query(
            "INSERT INTO orders (id, number, contact_id, company_id, status, currency, total_cents,
               refunded_cents, carrier, tracking_number, placed_at, shipped_at, delivered_at)
             VALUES (?, ?, ?, ?, ?, 'EUR', ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(&number)
        .bind(customer.id)
        .bind(customer.company.as_ref().map(|company| company.0))
        .bind(course.status)
        .bind(total)
        .bind(refunded)
        .bind(carrier)
        .bind(&tracking)
        .bind(course.placed)
        .bind(course.shipped)
        .bind(course.delivered)
        .execute(&mut *conn)
        .await?;
        for (line, (Product(sku, name, _, cents), quantity)) in lines.iter().enumerate() {
            sqlx::query(
                "INSERT INTO order_lines (order_id, position, sku, name, quantity, unit_cents)
                 VALUES (?, ?, ?, ?, ?, ?)",
            )
            .bind(id)
            .bind(super::people::number(line))
            .bind(*sku)
            .bind(*name)
            .bind(*quantity)
            .bind(*cents)
            .execute(&mut *conn)
            .await?;
        }
        if refunded > 0 {
            let by = rng.pick(&staff.in_group("billing")).map_or(1, |member| member.0);
            let at =
                (course.delivered.unwrap_or(placed) + rng.between(20, 200) * HOUR).min(now - HOUR);
            sqlx::query(
                "INSERT INTO refunds (order_id, member_id, amount_cents, reason, created_at)
                 VALUES (?, ?, ?, ?, ?)",
            )
            .bind(id)
            .bind(by)
            .bind(refunded)
            .bind(rng.text(&[
                "Arrived damaged, customer kept the item",
                "Returned within 30 days, unused",
                "Wrong item sent",
                "Lost by the carrier",
                "Goodwill for a late delivery",
            ]))
            .bind(at)
            .execute(&mut *conn)
            .await?;
        }
        orders.push(OrderRef {
            id,
            number,
            customer: customer.clone(),
            product: lines.first().map_or("order", |(product, _)| product.1),
            carrier,
            tracking,
            total_cents: total,
            placed_at: placed,
        });
    }
    Ok(orders)
}

/// One to three products, the dearest first.
fn lines(rng: &mut Rng) -> Vec<(&'static Product, i64)> {
    let mut lines: Vec<(&'static Product, i64)> = Vec::new();
    for _ in 0..rng.between(1, 3) {
        let Some(product) = rng.pick(PRODUCTS) else { continue };
        if lines.iter().any(|(chosen, _)| chosen.0 == product.0) {
            continue;
        }
        let quantity = if product.3 < 5_000 { rng.between(1, 4) } else { 1 };
        lines.push((product, quantity));
    }
    lines.sort_by_key(|(product, _)| std::cmp::Reverse(product.3));
    lines
}
