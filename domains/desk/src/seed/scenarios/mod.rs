//! What people write about. A scenario is a conversation that makes sense at every length: an
//! opening, a first answer, what the customer says to it, and how it ends.

mod business;
mod gear;
mod parcels;

/// Whether a scenario is about an order, and so is told with one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// One of the customer's orders.
    Order,
    /// A product they have.
    Product,
    /// A sender who is no customer.
    Stranger,
}

/// A kind of conversation. Texts take `{first}`, `{product}`, `{order}`, `{carrier}`, `{tracking}`,
/// `{city}`, `{agent}`, `{amount}` and `{company}`.
pub(crate) struct Scenario {
    pub(crate) inbox: &'static str,
    pub(crate) about: About,
    /// How often it comes, against the others.
    pub(crate) weight: u64,
    pub(crate) tags: &'static [&'static str],
    pub(crate) subjects: &'static [&'static str],
    pub(crate) openings: &'static [&'static str],
    pub(crate) answers: &'static [&'static str],
    pub(crate) follow_ups: &'static [&'static str],
    pub(crate) endings: &'static [&'static str],
}

/// Every scenario.
pub(crate) fn all() -> impl Iterator<Item = &'static Scenario> + Clone {
    parcels::SCENARIOS.iter().chain(gear::SCENARIOS).chain(business::SCENARIOS)
}

/// How a conversation that was answered well ends.
pub(crate) const THANKS: &[&str] = &[
    "Perfect, that did it. Thanks for the quick help!",
    "Thank you, {agent}. All sorted on my side.",
    "Great, appreciate it. You can close this one.",
    "That works, thanks. Enjoying the coffee again already.",
    "Many thanks for your patience with my questions.",
];

/// Mail nobody asked for: sender, address, subject, body.
pub(crate) const SPAM: &[(&str, &str, &str, &str)] = &[
    (
        "Rank Rocket",
        "growth@rankrocket.example",
        "Get your shop to page one in 14 days",
        "Dear owner, we reviewed your site and found 37 critical ranking problems. Reply YES and our experts will fix them for a one-time fee.",
    ),
    (
        "Parcel Notice",
        "notice@track-update.example",
        "Your delivery is on hold",
        "A payment of 1.99 is outstanding for your parcel. Follow the link within 24 hours to avoid return to sender.",
    ),
    (
        "Bulk Beans Export",
        "sales@bulkbeans.example",
        "Green coffee at unbeatable price",
        "Dear sir or madam, we offer first grade green coffee by the container. Please advise quantity and nearest port.",
    ),
    (
        "Invoice Desk",
        "accounts@pay-docs.example",
        "Overdue invoice attached",
        "Please find attached the overdue invoice. Open the document and enable editing to view it.",
    ),
];
