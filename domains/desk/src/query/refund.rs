//! Giving money back. What was refunded never exceeds what was paid, whoever refunds at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::args::{Amount, stamp, text};
use super::attempt::Attempt;
use super::orders::{refundable, row};
use super::resolve;
use super::thread_update::log;
use super::words::OrderStatus;
use crate::caller::{Caller, Right};
use crate::desk::Desk;
use crate::error::{DeskError, Result};
use crate::ids::{Kind, OrderId, RefundId};

/// Money to give back.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefundOrder {
    /// The order: id, order number or tracking number.
    pub order: String,
    /// How much, in the order's currency; all that is left unless told.
    #[serde(default)]
    pub amount: Option<Amount>,
    /// Why.
    pub reason: String,
}

/// Money that was given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// The refund's id.
    pub id: RefundId,
    /// The order's id.
    pub order: OrderId,
    /// The order's number.
    pub number: String,
    /// How much was given back.
    pub amount: Amount,
    /// What can still be given back.
    pub refundable: Amount,
    /// The currency of the amounts.
    pub currency: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: String,
}

impl Desk {
    /// Refunds an order in part or whole.
    ///
    /// # Errors
    /// When the order was not paid, less is left than asked, or without the right to refund.
    pub async fn refund_order(
        &self,
        caller: &Caller,
        args: &RefundOrder,
        idempotency_key: Option<&str>,
    ) -> Result<Refund> {
        self.refund_order_as(caller, args, Attempt::Keep(idempotency_key)).await
    }

    /// What [`Desk::refund_order`] would give, without giving anything back.
    ///
    /// # Errors
    /// As [`Desk::refund_order`].
    pub async fn try_refund_order(&self, caller: &Caller, args: &RefundOrder) -> Result<Refund> {
        self.refund_order_as(caller, args, Attempt::Try).await
    }

    async fn refund_order_as(
        &self,
        caller: &Caller,
        args: &RefundOrder,
        attempt: Attempt<'_>,
    ) -> Result<Refund> {
        const ACTION: &str = "refund_order";
        let mut tx = self.write().await?;
        if let Some(done) = attempt.earlier(&mut tx, caller, ACTION).await? {
            return Ok(done);
        }
        let id = resolve::one(&mut tx, caller, Kind::Order, "order", &args.order).await?;
        caller.require(Right::RefundOrders)?;
        let reason = text("reason", &args.reason, 1_000)?;
        let order = row(&mut tx, caller, id).await?;
        let left = refundable(order.status, order.total.cents, order.refunded.cents);
        if matches!(order.status, OrderStatus::Pending | OrderStatus::Cancelled) {
            let status = order.status.as_str();
            let message =
                format!("{} is {status}, so there is no payment to give back", order.number);
            return Err(DeskError::invalid("order", message));
        }
        if left.cents <= 0 {
            let message = format!("{} is refunded in full already", order.number);
            return Err(DeskError::invalid("order", message));
        }
        let amount = args.amount.unwrap_or(left);
        if amount.cents <= 0 || amount > left {
            let message = format!(
                "{amount} is out of range; 0.01 to {left} {} can be given back",
                order.currency
            );
            return Err(DeskError::invalid("amount", message));
        }
        let now = self.now();
        sqlx::query("UPDATE orders SET refunded_cents = refunded_cents + ? WHERE id = ?")
            .bind(amount.cents)
            .bind(id)
            .execute(&mut *tx)
            .await?;
        let refund = sqlx::query(
            "INSERT INTO refunds (order_id, member_id, amount_cents, reason, created_at)
             VALUES (?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(caller.member.0)
        .bind(amount.cents)
        .bind(reason)
        .bind(now.as_second())
        .execute(&mut *tx)
        .await?
        .last_insert_rowid();
        let detail = serde_json::json!({ "amount": amount, "reason": reason }).to_string();
        log(&mut tx, caller, (Kind::Order, id), (ACTION, &detail), now.as_second()).await?;
        let refund = Refund {
            id: RefundId(refund),
            order: order.id,
            number: order.number,
            amount,
            refundable: Amount { cents: left.cents - amount.cents },
            currency: order.currency,
            reason: reason.to_owned(),
            at: stamp(now.as_second(), &caller.zone),
        };
        attempt.settle(tx, caller, ACTION, &refund, now).await?;
        Ok(refund)
    }
}
