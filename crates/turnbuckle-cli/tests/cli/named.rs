//! A provider that the environment or the configuration names is used, or the reason is told; the rehearsal stands in for none.

use crate::provider::{answer, beside};
use crate::support::{Place, Ran};
use serde_json::json;
use turnbuckle_testkit::{FakeModelServer, Reply};

/// Nobody listens there.
const NOBODY: &str = "http://127.0.0.1:1/v1";

/// A command that must not have been played by the rehearsal.
fn refused(ran: Ran, reasons: &[&str]) {
    let ran = ran.expect(1);
    for reason in reasons {
        assert!(ran.err.contains(reason), "{reason} is not in {}", ran.err);
    }
    for wrong in ["REHEARSAL", "no key is set"] {
        assert!(!(ran.out.clone() + &ran.err).contains(wrong), "{}\n{}", ran.out, ran.err);
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_told_with_its_url() {
    let place = Place::empty().env("OPENAI_BASE_URL", NOBODY);
    let reasons = ["OPENAI_BASE_URL", NOBODY, "no connection"];
    refused(place.run(&["run", "hi"]), &reasons);
    refused(place.run_with(&["chat"], "hi\n"), &reasons);
    refused(place.run(&["serve", "--port", "0"]), &reasons);
    let doctor = place.run(&["doctor"]).expect(1).out;
    assert!(doctor.contains("✗ model") && !doctor.contains("REHEARSAL"), "{doctor}");
    assert!(reasons.iter().all(|reason| doctor.contains(reason)), "{doctor}");
}

#[test]
fn a_url_that_is_none_is_told_whether_a_model_is_asked_for_or_not() {
    let place = Place::empty().env("OPENAI_BASE_URL", "not-a-url");
    let reasons = ["OPENAI_BASE_URL", "`not-a-url` is not an http or https URL"];
    refused(place.run(&["run", "hi"]), &reasons);
    refused(place.run(&["run", "-m", "ok", "hi"]), &reasons);
    refused(place.run(&["run", "-m", "openai:ok", "hi"]), &reasons[1..]);
}

#[test]
fn a_configured_provider_is_never_played_by_the_rehearsal() {
    let at = |name: &str| format!("[providers.{name}]\nbase_url = \"{NOBODY}\"\n");
    let run = |config: &str| Place::empty().config(config).run(&["run", "hi"]);
    refused(run(&at("mine")), &["mine is configured", NOBODY, "no connection"]);
    refused(run(&at("ollama")), &["ollama is configured", NOBODY, "no connection"]);
    let keyless = "[providers.openai]\nmax_concurrency = 3\n";
    refused(run(keyless), &["openai is configured", "set OPENAI_API_KEY"]);
    // Asked for by name, it plays all the same.
    let place = Place::rehearsal().config(&at("mine"));
    let ran = place.run(&["run", "Who works in billing?"]).expect(0);
    assert!(ran.err.contains("REHEARSAL"), "{}", ran.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_without_its_key_steps_back_for_one_that_can_be_called() {
    let server = FakeModelServer::start().await;
    server.otherwise(|request| match request.body.is_empty() {
        true => Reply::json(200, &json!({"data": [{"id": "served"}]})),
        false => answer().text("Hello.").stream(),
    });
    let mine = format!("[providers.mine]\nbase_url = \"{}\"\n", server.base_url());
    let keyless = "[providers.openai]\nmax_concurrency = 3\n";
    beside(move || {
        let place = Place::empty().config(&format!("{mine}{keyless}"));
        assert_eq!(place.run(&["run", "hi"]).expect(0).out, "Hello.\n");
        // A wrong address is no missing key: what was meant for it goes to nobody else.
        let place = place.env("OPENAI_BASE_URL", NOBODY);
        refused(place.run(&["run", "hi"]), &[NOBODY, "no connection"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_models_is_told() {
    let server = FakeModelServer::start().await;
    server.otherwise(|_| Reply::json(200, &json!({"data": []})));
    let place = Place::empty().env("OPENAI_BASE_URL", &server.base_url());
    let url = server.base_url();
    beside(move || {
        refused(place.run(&["run", "hi"]), &[&url, "lists no model", "--model"]);
    })
    .await;
}

#[test]
fn a_provider_that_nobody_knows_is_told_as_that() {
    let place = Place::empty().config("local_servers = false\n");
    let ran = place.run(&["run", "-m", "nosuch:model", "hi"]).expect(1);
    assert!(ran.err.contains("`nosuch` is no known provider"), "{}", ran.err);
    assert!(!ran.err.contains("write it as provider:model"), "{}", ran.err);
    let ran = place.run(&["run", "-m", "model", "hi"]).expect(1);
    assert!(ran.err.contains("write it as provider:model"), "{}", ran.err);
    // With nothing configured and nothing asked for, the rehearsal plays at once.
    let place = place.env("TURNBUCKLE_REHEARSAL_PACE_MS", "0");
    let ran = place.run(&["run", "Who works in billing?"]).expect(0);
    assert!(ran.err.contains("REHEARSAL: no model answers"), "{}", ran.err);
}

/// A key that stands where the name of its variable belongs is not told on.
#[test]
fn a_key_in_the_place_of_its_variable_is_refused_and_not_shown() {
    let place = Place::empty().config(&format!(
        "[providers.mine]\nbase_url = \"{NOBODY}\"\napi_key_env = \"sk-very-secret\"\n"
    ));
    for args in [&["run", "hi"][..], &["run", "-m", "mine:m", "hi"], &["doctor"]] {
        let ran = place.run(args).expect(1);
        let told = ran.out + &ran.err;
        assert!(!told.contains("very-secret"), "{told}");
        assert!(told.contains("`api_key_env` is to name a variable"), "{told}");
    }
}
