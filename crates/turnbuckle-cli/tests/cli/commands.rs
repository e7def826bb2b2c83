//! Configuration, wires, and what needs no agent.

use crate::support::Place;
use serde_json::json;
use turnbuckle_testkit::chat::ChatAnswer;

#[test]
fn an_unknown_key_stops_everything_and_suggests_the_right_one() {
    let place = Place::rehearsal().config("modle = \"x\"\n");
    let ran = place.run(&["run", "hello"]).expect(1);
    assert!(
        ran.err.contains("turnbuckle.toml:1: there is no key `modle`; did you mean `model`?"),
        "{}",
        ran.err
    );
    assert_eq!(ran.err.lines().count(), 1);
    let doctor = place.run(&["doctor"]).expect(1);
    assert!(doctor.out.contains("did you mean `model`?"), "{}", doctor.out);
}

#[test]
fn init_writes_a_file_that_holds_and_overwrites_nothing() {
    let place = Place::rehearsal();
    place.run(&["init"]).expect(0);
    let ran = place.run(&["init"]).expect(1);
    assert!(ran.err.contains("--force"), "{}", ran.err);
    place.run(&["init", "--force"]).expect(0);
    place.run(&["run", "Who works in billing?"]).expect(0);
}

#[test]
fn a_named_configuration_that_is_not_there_is_an_error() {
    let place = Place::rehearsal();
    let ran = place.run(&["--config", "absent.toml", "sessions"]).expect(1);
    assert!(ran.err.contains("absent.toml cannot be read"), "{}", ran.err);
}

#[test]
fn decoding_says_by_its_exit_code_whether_the_end_was_proper() {
    let place = Place::empty();
    let answer =
        ChatAnswer::new("m").text("Hello").call("c1", "look", "{\"a\": 1}").usage(10, 4, 3);
    let stream = answer.stream().body();
    let args = ["wire", "decode", "--wire", "openai-chat"];
    let whole = place.run_with(&args, &stream).expect(0).json();
    assert_eq!(whole["blocks"][0], json!({"type": "text", "text": "Hello"}));
    assert_eq!(whole["blocks"][1]["arguments"], "{\"a\": 1}");
    assert_eq!(whole["finish"], "tool_calls");
    assert_eq!(whole["usage"], json!({"input": 6, "cache_read": 4, "output": 3}));
    assert_eq!(whole["events"][0], json!({"type": "text", "block": 0, "text": "Hello"}));
    assert_eq!(whole.get("error"), None);
    let plain = place.run_with(&args, answer.body().to_string()).expect(0).json();
    assert_eq!(plain["blocks"], whole["blocks"]);

    let cut = place.run_with(&args, &stream[..stream.len() / 3]).expect(3).json();
    assert_eq!(cut["error"]["kind"], "stream_cut");
    let inband =
        "data: {\"error\":{\"message\":\"busy\",\"type\":\"overloaded_error\",\"code\":529}}\n\n";
    let failed = place.run_with(&args, inband).expect(3).json();
    assert_eq!(failed["error"]["message"], "busy");

    place.run(&["wire", "decode", "--wire", "smoke"]).expect(2);
    place.run(&["wire", "decode", "--wire", "anthropic", "--profile", "ollama"]).expect(2);
    place.run(&["wire", "decode", "--wire", "openai-chat", "--profile", "nobody"]).expect(2);
}

#[test]
fn encoding_gives_the_request_of_a_session() {
    let place = Place::empty();
    let session = json!({
        "model": "m",
        "system": "Be brief.",
        "items": [
            {"role": "user", "text": "Hi"},
            {"role": "assistant", "blocks": [{"type": "tool_call", "wire_id": "c1", "name": "look", "arguments": "{}"}]},
            {"role": "tool_results", "results": [{"wire_id": "c1", "name": "look", "content": "seen"}]},
        ],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}],
    })
    .to_string();
    let chat =
        place.run_with(&["wire", "encode", "--wire", "openai-chat"], &session).expect(0).json();
    let roles: Vec<&str> =
        chat["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles.last(), Some(&"tool"));
    assert_eq!(chat["stream"], true);
    let args = ["wire", "encode", "--wire", "anthropic", "--whole"];
    let whole = place.run_with(&args, &session).expect(0).json();
    assert_eq!(whole["method"], "POST");
    assert_eq!(whole["body"]["messages"][0]["role"], "user");
    let bad = place.run_with(&["wire", "encode", "--wire", "gemini"], "{\"model\": 1}").expect(1);
    assert!(bad.err.contains("stdin is no session"), "{}", bad.err);
}

#[test]
fn the_catalogue_is_listed_with_windows_and_prices() {
    let place = Place::empty();
    let listed = place.run(&["models", "list", "gpt-5-mini"]).expect(0).out;
    assert!(
        listed.contains("openai:gpt-5-mini") && listed.contains("0.25 / 0.025 / 2"),
        "{listed}"
    );
    let shown = place.run(&["models", "show", "openai:gpt-5-mini"]).expect(0).out;
    assert!(shown.contains("catalogue of"), "{shown}");
}

#[test]
fn sessions_are_deleted_for_good() {
    let place = Place::rehearsal();
    let id = place.run(&["run", "Who works in billing?"]).expect(0).session();
    place.run(&["sessions", "delete", &id]).expect(0);
    let gone = place.run(&["sessions", "show", &id]).expect(1);
    assert!(gone.err.contains("there is no session"), "{}", gone.err);
    assert!(place.run(&["sessions"]).expect(0).out.contains("There are no sessions"));
}

#[test]
fn help_and_version_need_nothing() {
    let place = Place::empty();
    assert!(place.run(&["--version"]).expect(0).out.starts_with("turnbuckle "));
    assert!(place.run(&["--help"]).expect(0).out.contains("Exit codes:"));
    place.run(&["chat", "--nonsense"]).expect(2);
}
