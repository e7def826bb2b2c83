//! The second configuration: a supervisor, then the agents of the route it chose.

use crate::rig::{Played, Rig, approve, desk, rehearsal};
use desk::agent::{DEFAULT_USER, DeskDomain};
use turnbuckle::core::event::EventKind;

async fn rig() -> Rig {
    let desk = desk().await;
    let domain = DeskDomain::pipeline(desk.clone()).await.unwrap();
    Rig::with(desk, domain, rehearsal(), DEFAULT_USER).await
}

fn route(played: &Played) -> String {
    let chosen = played.events.iter().find_map(|event| match &event.kind {
        EventKind::RouteSelected { route, .. } => Some(route.clone()),
        _ => None,
    });
    chosen.unwrap()
}

fn agents(played: &Played) -> Vec<String> {
    let begun = played.events.iter().filter_map(|event| match &event.kind {
        EventKind::AgentStarted { name } => Some(name.to_string()),
        _ => None,
    });
    begun.filter(|name| name != "supervisor").collect()
}

#[tokio::test]
async fn a_look_up_runs_the_executor_alone() {
    let played = rig().await.say("Who works in billing?").await;
    assert_eq!(route(&played), "simple");
    assert_eq!(agents(&played), ["executor"]);
    assert!(played.text().contains("Victor Lang"));
}

#[tokio::test]
async fn a_plan_goes_through_all_three() {
    let played = rig().await.say("Plan my morning").await;
    assert_eq!(route(&played), "multi-step");
    assert_eq!(agents(&played), ["planner", "executor", "responder"]);
    assert!(played.text().contains("See which tasks are due"));
    assert_eq!(played.names()[0], "plan_create");
    assert!(played.names().contains(&"list_tasks".to_owned()));
}

#[tokio::test]
async fn a_pause_in_a_route_goes_on_with_the_remaining_agents() {
    let rig = rig().await;
    let played = rig.say("Remind me to call the carrier tomorrow").await;
    assert_eq!(route(&played), "action");
    let played = rig.decide(&played.card().0, approve(None)).await;
    assert!(agents(&played).contains(&"responder".to_owned()));
    assert!(played.text().contains("Call the carrier"));
    assert_eq!(rig.count("SELECT count(*) FROM tasks WHERE title = 'Call the carrier'").await, 1);
}
