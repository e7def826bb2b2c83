//! Ending in an orderly way, and at once.

use crate::support::{
    Api, Database, Process, Script, Settings, Signal, Site, on_both, soon, until,
};
use reqwest::Method;
use std::time::Duration;
use tokio::net::TcpListener;
use turnbuckle::core::outcome::Outcome;
use turnbuckle::core::part::ToolCallStatus;

/// A lease that no test waits for: what is taken up was handed over.
const LONG: u64 = 600_000;

/// Waits until a process answers nobody new.
async fn until_nobody_is_let_in(client: &Api) {
    until("nobody is let in", async || {
        client.request(Method::GET, "/healthz").send().await.is_err().then_some(())
    })
    .await;
}

on_both!(what_can_end_in_time_ends_and_the_rest_is_handed_over);
async fn what_can_end_in_time_ends_and_the_rest_is_handed_over(database: Database) {
    let settings = Settings { lease_ms: Some(LONG), grace_ms: 1_500, ..Settings::default() };
    let site = Site::with(database, settings).await;
    let mut first = site.serve().await;
    let client = site.client(&first);
    let [quick, slow, deed] =
        [client.session().await, client.session().await, client.session().await];
    let quickly = Script::default().say_around("quick", "Quick", "ly done.");
    let slowly = Script::default().call(&[("pay", "bill")]).say_around("slow", "Slow", "ly done.");
    let acts = Script::default().call(&[("pay", "rent")]).say("Paid.");
    let rent = site.world.hold("rent");
    client.submit(&quick, &quickly).await;
    client.submit(&slow, &slowly).await;
    client.submit(&deed, &acts).await;
    site.model.wait_asked(&quickly, 1).await;
    site.model.wait_asked(&slowly, 2).await;
    site.world.wait_begun("rent", 1).await;
    let mut watch = client.watch(&slow, "0", None).await;
    watch.until("text-delta").await;
    let second = site.serve().await;

    first.signal(Signal::Terminate);
    // Its readers are told to come again, and nobody new is let in.
    watch.until("bye").await;
    until_nobody_is_let_in(&client).await;
    site.model.gate("quick").open();
    // The slow answer outlasts the time that turns have: its model call is given up. The tool is waited for.
    site.model.wait_abandoned(1).await;
    rent.open();
    let status = first.exit().await;
    assert_eq!(status.code(), Some(0), "{status}");

    let client = site.client(&second);
    site.model.wait_asked(&slowly, 3).await;
    site.model.gate("slow").open();
    let (quick, slow, deed) =
        (client.at_rest(&quick).await, client.at_rest(&slow).await, client.at_rest(&deed).await);
    assert_eq!((quick.answer().text(), quick.epochs()), ("Quickly done.".into(), 0));
    assert_eq!((slow.answer().text(), slow.epochs()), ("Slowly done.".into(), 1));
    assert_eq!(deed.ended("rent"), (ToolCallStatus::Completed, None));
    assert_eq!((deed.outcome(), deed.answer().text()), (Outcome::Completed, "Paid.".into()));
    assert_eq!((site.world.times("bill"), site.world.times("rent")), (1, 1));
}

#[tokio::test]
async fn what_is_told_to_end_before_it_serves_ends_well() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bus = format!("redis://{}", silent.local_addr().unwrap());
    let settings = Settings { bus: Some(bus), ..Settings::default() };
    let site = Site::with(Database::file(), settings).await;
    let mut process = Process::begin(site.command(&["serve"]));
    // It asks its bus, which says nothing.
    let _asked = soon("the bus is asked", silent.accept()).await.unwrap();
    process.signal(Signal::Terminate);
    let status = process.exit().await;
    assert_eq!(status.code(), Some(0), "{status}");
}

on_both!(a_second_signal_ends_at_once_and_loses_nothing);
async fn a_second_signal_ends_at_once_and_loses_nothing(database: Database) {
    let settings = Settings { grace_ms: LONG, tool_grace_ms: LONG, ..Settings::default() };
    let site = Site::with(database, settings).await;
    let mut first = site.serve().await;
    let client = site.client(&first);
    let (talk, deed) = (client.session().await, client.session().await);
    let talks = Script::default().call(&[("pay", "bill")]).say_around("half", "Half ", "done.");
    let acts = Script::default().call(&[("pay", "rent"), ("put", "cup")]).say("I am not sure.");
    let (_rent, _cup) = (site.world.hold("rent"), site.world.hold("cup"));
    client.submit(&talk, &talks).await;
    client.submit(&deed, &acts).await;
    site.model.wait_asked(&talks, 2).await;
    site.world.wait_begun("rent", 1).await;
    site.world.wait_begun("cup", 1).await;
    first.signal(Signal::Terminate);
    until_nobody_is_let_in(&client).await;
    first.signal(Signal::Terminate);
    let status = tokio::time::timeout(Duration::from_secs(10), first.exit()).await.unwrap();
    assert_eq!(status.code(), Some(130), "{status}");

    site.world.let_go("cup");
    let second = site.serve().await;
    let client = site.client(&second);
    site.model.wait_asked(&talks, 3).await;
    site.model.gate("half").open();
    let (talk, deed) = (client.at_rest(&talk).await, client.at_rest(&deed).await);
    assert_eq!((talk.outcome(), talk.answer().text()), (Outcome::Completed, "Half done.".into()));
    assert_eq!(deed.ended("rent"), (ToolCallStatus::Error, Some("outcome_unknown".into())));
    assert_eq!(deed.ended("cup"), (ToolCallStatus::Completed, None));
    assert_eq!((site.world.times("bill"), site.world.times("rent")), (1, 1));
}
