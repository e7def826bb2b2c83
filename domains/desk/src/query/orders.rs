//! Orders: finding them and reading one with its lines, refunds and the threads about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::args::{
    Amount, Named, Range, contains, count, filled, limit, offset, past_range, stamp,
};
use super::resolve;
use super::words::{Direction, OrderStatus, stored};
use crate::caller::{Caller, Right};
use crate::desk::Desk;
use crate::error::{DeskError, Result};
use crate::ids::{Kind, OrderId, RefundId};

/// What orders are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrderSort {
    /// When it was placed.
    #[default]
    Placed,
    /// What it cost.
    Total,
}

/// Which orders to find; all filters named apply.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FindOrders {
    /// Part of an order number, tracking number, product name or SKU.
    pub query: Option<String>,
    /// Who placed it: id, e-mail or name.
    pub contact: Option<String>,
    /// The company it was placed for: id, domain or name.
    pub company: Option<String>,
    /// Only this status.
    pub status: Option<OrderStatus>,
    /// Placed on or after this date or time.
    pub placed_after: Option<String>,
    /// Placed before this date (that day not included) or time.
    pub placed_before: Option<String>,
    /// Costing at least this.
    pub min_total: Option<Amount>,
    /// Costing at most this.
    pub max_total: Option<Amount>,
    /// How many at most; 10 unless told, never more than 25.
    pub limit: Option<i64>,
    /// How many to pass over.
    pub offset: Option<i64>,
    /// What to sort by; when it was placed unless told.
    pub sort_by: Option<OrderSort>,
    /// Which end first; newest or most expensive unless told.
    pub sort_direction: Option<Direction>,
}

/// An order in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRow {
    /// The order's id.
    pub id: OrderId,
    /// Its number as customers know it.
    pub number: String,
    /// Where it stands.
    pub status: OrderStatus,
    /// Who placed it.
    pub contact: Named,
    /// The company it was placed for.
    pub company: Option<Named>,
    /// What it cost.
    pub total: Amount,
    /// What was given back.
    pub refunded: Amount,
    /// The currency of all amounts.
    pub currency: String,
    /// When it was placed.
    pub placed_at: String,
    /// When it was handed to the carrier.
    pub shipped_at: Option<String>,
    /// When it arrived.
    pub delivered_at: Option<String>,
    /// Who carries it.
    pub carrier: Option<String>,
    /// The carrier's number for it.
    pub tracking_number: Option<String>,
}

/// Orders found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderList {
    /// The page.
    pub orders: Vec<OrderRow>,
    /// How many match in all.
    pub total: u64,
    /// The offset of the next page, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// What to try when none matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// Which order to read.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetOrder {
    /// The order: id, order number or tracking number.
    pub order: String,
}

/// One product of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderLine {
    /// The product's stock number.
    pub sku: String,
    /// Its name.
    pub name: String,
    /// How many.
    pub quantity: u64,
    /// The price of one.
    pub unit_price: Amount,
}

/// Money given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundRow {
    /// The refund's id.
    pub id: RefundId,
    /// How much.
    pub amount: Amount,
    /// Why.
    pub reason: String,
    /// Who gave it.
    pub by: Named,
    /// When.
    pub at: String,
}

/// An order with everything about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The order.
    pub order: OrderRow,
    /// What can still be given back.
    pub refundable: Amount,
    /// What was bought.
    pub lines: Vec<OrderLine>,
    /// What was given back, oldest first.
    pub refunds: Vec<RefundRow>,
    /// Threads about it that the caller may read, newest first.
    pub threads: Vec<Named>,
}

#[derive(sqlx::FromRow)]
struct StoredOrder {
    id: i64,
    number: String,
    status: String,
    contact_id: i64,
    contact_name: String,
    company_id: Option<i64>,
    company_name: Option<String>,
    total_cents: i64,
    refunded_cents: i64,
    currency: String,
    placed_at: i64,
    shipped_at: Option<i64>,
    delivered_at: Option<i64>,
    carrier: Option<String>,
    tracking_number: Option<String>,
}

/// What can be given back of an order in this state.
pub(crate) fn refundable(status: OrderStatus, total: i64, refunded: i64) -> Amount {
    match status {
        OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Delivered => {
            Amount { cents: total - refunded }
        }
        OrderStatus::Pending | OrderStatus::Cancelled => Amount { cents: 0 },
    }
}

impl Desk {
    /// Orders by filters.
    ///
    /// # Errors
    /// When a filter is empty, unknown or impossible, or without the right to read orders.
    pub async fn find_orders(&self, caller: &Caller, args: &FindOrders) -> Result<OrderList> {
        caller.require(Right::ReadOrders)?;
        let mut tx = self.read().await?;
        let pattern = filled("query", args.query.as_deref())?.map(contains);
        let contact = match filled("contact", args.contact.as_deref())? {
            None => None,
            Some(given) => {
                Some(resolve::one(&mut tx, caller, Kind::Contact, "contact", given).await?)
            }
        };
        let company = match filled("company", args.company.as_deref())? {
            None => None,
            Some(given) => {
                Some(resolve::one(&mut tx, caller, Kind::Company, "company", given).await?)
            }
        };
        let after = ("placed_after", args.placed_after.as_deref());
        let before = ("placed_before", args.placed_before.as_deref());
        let Range { from, until } = past_range(after, before, caller, self.now())?;
        if let (Some(least), Some(most)) = (args.min_total, args.max_total)
            && least > most
        {
            let message =
                format!("must not be less than min_total ({least}), or nothing can be found");
            return Err(DeskError::invalid("max_total", message));
        }
        let condition = |sql: &mut QueryBuilder<Sqlite>| {
            sql.push(" WHERE 1 = 1");
            for (column, value) in [
                ("o.contact_id = ", contact),
                ("o.company_id = ", company),
                ("o.placed_at >= ", from),
                ("o.placed_at < ", until),
                ("o.total_cents >= ", args.min_total.map(|amount| amount.cents)),
                ("o.total_cents <= ", args.max_total.map(|amount| amount.cents)),
            ] {
                if let Some(value) = value {
                    sql.push(" AND ").push(column).push_bind(value);
                }
            }
            if let Some(status) = args.status {
                sql.push(" AND o.status = ").push_bind(status.as_str());
            }
            if let Some(pattern) = &pattern {
                sql.push(" AND (o.number LIKE ").push_bind(pattern.clone());
                sql.push(" ESCAPE '\\' OR o.tracking_number LIKE ").push_bind(pattern.clone());
                sql.push(
                    " ESCAPE '\\' OR o.id IN (SELECT order_id FROM order_lines WHERE name LIKE ",
                );
                sql.push_bind(pattern.clone()).push(" ESCAPE '\\' OR sku LIKE ");
                sql.push_bind(pattern.clone()).push(" ESCAPE '\\'))");
            }
        };
        let mut counting = QueryBuilder::<Sqlite>::new("SELECT count(*) FROM orders o");
        condition(&mut counting);
        let total: i64 = counting.build_query_scalar().fetch_one(&mut *tx).await?;
        let mut paging = QueryBuilder::<Sqlite>::new("SELECT o.id FROM orders o");
        condition(&mut paging);
        let column = match args.sort_by.unwrap_or_default() {
            OrderSort::Placed => "o.placed_at",
            OrderSort::Total => "o.total_cents",
        };
        let direction = args.sort_direction.unwrap_or(Direction::Desc).as_str();
        let offset = offset(args.offset);
        paging.push(format_args!(" ORDER BY {column} {direction}, o.id {direction} LIMIT "));
        paging.push_bind(limit(args.limit, 10, 25)).push(" OFFSET ").push_bind(offset);
        let ids: Vec<i64> = paging.build_query_scalar().fetch_all(&mut *tx).await?;
        let mut orders = Vec::with_capacity(ids.len());
        for id in &ids {
            orders.push(row(&mut tx, caller, *id).await?);
        }
        let seen = offset.saturating_add(i64::try_from(ids.len()).unwrap_or(0));
        let suggestion = orders.is_empty().then(|| {
            "No order matches all of these filters; try fewer of them or a longer span of time."
                .to_owned()
        });
        Ok(OrderList {
            next_offset: (seen < total && !orders.is_empty()).then(|| count(seen)),
            total: count(total),
            orders,
            suggestion,
        })
    }

    /// One order.
    ///
    /// # Errors
    /// When no order answers to the reference, or without the right to read orders.
    pub async fn get_order(&self, caller: &Caller, args: &GetOrder) -> Result<Order> {
        let mut tx = self.read().await?;
        let id = resolve::one(&mut tx, caller, Kind::Order, "order", &args.order).await?;
        let order = row(&mut tx, caller, id).await?;
        let lines: Vec<(String, String, i64, i64)> = sqlx::query_as(
            "SELECT sku, name, quantity, unit_cents FROM order_lines WHERE order_id = ? ORDER BY position",
        )
        .bind(id)
        .fetch_all(&mut *tx)
        .await?;
        let refunds: Vec<(i64, i64, String, i64, String, i64)> = sqlx::query_as(
            "SELECT r.id, r.amount_cents, r.reason, m.id, m.name, r.created_at FROM refunds r
             JOIN members m ON m.id = r.member_id WHERE r.order_id = ? ORDER BY r.created_at, r.id",
        )
        .bind(id)
        .fetch_all(&mut *tx)
        .await?;
        let threads: Vec<(i64, String)> = if caller.rights.has(Right::ReadMail) {
            sqlx::query_as(
                "SELECT id, subject FROM threads WHERE order_id = ? AND inbox_id IN
                   (SELECT inbox_id FROM inbox_access WHERE member_id = ?)
                 ORDER BY last_message_at DESC, id DESC LIMIT 10",
            )
            .bind(id)
            .bind(caller.member.0)
            .fetch_all(&mut *tx)
            .await?
        } else {
            Vec::new()
        };
        Ok(Order {
            refundable: refundable(order.status, order.total.cents, order.refunded.cents),
            order,
            lines: lines
                .into_iter()
                .map(|(sku, name, quantity, cents)| OrderLine {
                    sku,
                    name,
                    quantity: count(quantity),
                    unit_price: Amount { cents },
                })
                .collect(),
            refunds: refunds
                .into_iter()
                .map(|(id, cents, reason, member, name, at)| RefundRow {
                    id: RefundId(id),
                    amount: Amount { cents },
                    reason,
                    by: Named::new(Kind::Member, member, name),
                    at: stamp(at, &caller.zone),
                })
                .collect(),
            threads: threads
                .into_iter()
                .map(|(id, subject)| Named::new(Kind::Thread, id, subject))
                .collect(),
        })
    }
}

/// One order for a list.
pub(crate) async fn row(conn: &mut SqliteConnection, caller: &Caller, id: i64) -> Result<OrderRow> {
    let order: StoredOrder = sqlx::query_as(
        "SELECT o.id, o.number, o.status, c.id AS contact_id, c.name AS contact_name,
           y.id AS company_id, y.name AS company_name, o.total_cents, o.refunded_cents, o.currency,
           o.placed_at, o.shipped_at, o.delivered_at, o.carrier, o.tracking_number
         FROM orders o JOIN contacts c ON c.id = o.contact_id
         LEFT JOIN companies y ON y.id = o.company_id WHERE o.id = ?",
    )
    .bind(id)
    .fetch_one(conn)
    .await?;
    let zone = &caller.zone;
    Ok(OrderRow {
        id: OrderId(order.id),
        number: order.number,
        status: stored(&order.status)?,
        contact: Named::new(Kind::Contact, order.contact_id, order.contact_name),
        company: Named::maybe(Kind::Company, order.company_id, order.company_name),
        total: Amount { cents: order.total_cents },
        refunded: Amount { cents: order.refunded_cents },
        currency: order.currency,
        placed_at: stamp(order.placed_at, zone),
        shipped_at: order.shipped_at.map(|at| stamp(at, zone)),
        delivered_at: order.delivered_at.map(|at| stamp(at, zone)),
        carrier: order.carrier,
        tracking_number: order.tracking_number,
    })
}
