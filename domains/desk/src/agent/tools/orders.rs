//! Orders, and giving money back.

use schemars::JsonSchema;
use serde_json::{Value, json};
use turnbuckle::core::error::ToolError;
use turnbuckle::tool;
use turnbuckle::tool::{FnTool, ToolContext};

use super::approved::{Trial, tried};
use super::digest::{list_digest, list_summary, pick};
use super::forgive::forgiving;
use crate::agent::members::{acting, told};
use crate::caller::Caller;
use crate::desk::Desk;
use crate::error::DeskError;
use crate::query::{Amount, FindOrders, GetOrder, Order, OrderList, Refund, RefundOrder};

pub(crate) fn find_orders() -> FnTool {
    forgiving(find())
        .digest(|output| list_digest(output, "orders", &["number"]))
        .summary(|output| list_summary(output, "orders", "orders", &["number"]))
}

/// Finds orders by number, product, customer, company, status, date and amount. Gives the page and how many match in
/// all, so it also counts.
#[tool(name = "find_orders", effect = "read_only", retention = "summary")]
async fn find(args: FindOrders, ctx: ToolContext) -> Result<OrderList, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.find_orders(&caller, &args).await.map_err(told)
}

pub(crate) fn get_order() -> FnTool {
    forgiving(order())
        .digest(|output| {
            pick(
                output,
                &[
                    ("number", "order.number"),
                    ("status", "order.status"),
                    ("total", "order.total"),
                    ("currency", "order.currency"),
                    ("customer", "order.contact.name"),
                    ("refundable", "refundable"),
                ],
            )
        })
        .summary(|output| {
            let order = output.get("order")?;
            let text = |field: &str| order.get(field).and_then(Value::as_str);
            Some(format!(
                "{} ({}), {}, {} {}",
                text("id")?,
                text("number")?,
                text("status")?,
                text("total")?,
                text("currency")?
            ))
        })
}

/// Reads one order: products, where it stands, carrier, refunds, what can still be given back, and threads about it.
#[tool(name = "get_order", effect = "read_only", retention = "summary")]
async fn order(args: GetOrder, ctx: ToolContext) -> Result<Order, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.get_order(&caller, &args).await.map_err(told)
}

pub(crate) fn refund_order() -> FnTool {
    tried::<RefundOrder>(refund())
        .digest_args(|args| {
            pick(args, &[("order", "order"), ("amount", "amount"), ("reason", "reason")])
        })
        .digest(|output| {
            pick(
                output,
                &[
                    ("order", "number"),
                    ("amount", "amount"),
                    ("currency", "currency"),
                    ("still_refundable", "refundable"),
                    ("reason", "reason"),
                ],
            )
        })
        .capture_mint(|args, index| {
            let given = |name: &str| args.get(name).cloned().unwrap_or_default();
            Some(json!({
                "id": format!("refund:temp_{index}"), "number": given("order"),
                "amount": given("amount"), "reason": given("reason"),
            }))
        })
}

/// What a person may change about a refund before it is made.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is read")]
struct RefundAmendment {
    /// How much, in the order's currency.
    amount: Amount,
    /// Why.
    reason: String,
}

/// Gives money back on an order, all that is left unless an amount is told. A person approves it first and may change
/// the amount. Read the order first.
#[tool(
    name = "refund_order",
    effect = "idempotent",
    approval = "always",
    amendable = RefundAmendment,
    exclusive
)]
async fn refund(args: RefundOrder, ctx: ToolContext) -> Result<Refund, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.refund_order(&caller, &args, Some(ctx.idempotency_key())).await.map_err(told)
}

impl Trial for RefundOrder {
    async fn attempt(
        &self,
        desk: &Desk,
        caller: &Caller,
    ) -> Result<Vec<(&'static str, Value)>, DeskError> {
        let refund = desk.try_refund_order(caller, self).await?;
        // The number is what people know an order by, and the amount must be on the card.
        Ok(vec![("order", json!(refund.number)), ("amount", json!(refund.amount))])
    }
}
