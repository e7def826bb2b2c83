//! A desk that stands still on Wednesday, 18 November 2026, 09:30 UTC.
#![allow(dead_code)]

use desk::{Caller, Desk, DeskError, SeedOptions};
use jiff::Timestamp;

pub fn now() -> Timestamp {
    "2026-11-18T09:30:00Z".parse().unwrap()
}

pub async fn desk() -> Desk {
    Desk::in_memory(SeedOptions::at(now())).await.unwrap()
}

/// Head of Support: reads and writes support, orders and billing; may refund and manage tasks.
pub async fn priya(desk: &Desk) -> Caller {
    desk.caller("priya.raman@bramling.example").await.unwrap()
}

/// Support agent: reads and writes support and orders, reads repairs; may not refund.
pub async fn jonas(desk: &Desk) -> Caller {
    desk.caller("jonas-becker").await.unwrap()
}

/// Seasonal helper: reads support and orders, nothing else.
pub async fn robin(desk: &Desk) -> Caller {
    desk.caller("Robin Teller").await.unwrap()
}

pub async fn count(desk: &Desk, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(desk.pool()).await.unwrap()
}

pub async fn text(desk: &Desk, sql: &'static str) -> String {
    sqlx::query_scalar(sql).fetch_one(desk.pool()).await.unwrap()
}

pub async fn ids(desk: &Desk, sql: &'static str) -> Vec<i64> {
    sqlx::query_scalar(sql).fetch_all(desk.pool()).await.unwrap()
}

/// The field and message of an `Invalid` error.
pub fn invalid<T: std::fmt::Debug>(result: Result<T, DeskError>) -> (&'static str, String) {
    match result.unwrap_err() {
        DeskError::Invalid { field, message, .. } => (field, message),
        other => panic!("{other:?}"),
    }
}
