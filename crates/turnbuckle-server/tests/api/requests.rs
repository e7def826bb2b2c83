//! Bad requests, credentials, the description, probes, pages.

use crate::support::*;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use turnbuckle_models::scripted::text;
use turnbuckle_server::dto::Role;

#[tokio::test]
async fn bad_input_is_refused_with_the_field_that_is_wrong() {
    let site = site([text("")]).start().await;
    let session = site.session().await;
    let turns = format!("/v1/sessions/{session}/turns");
    let cases = [
        ("/v1/sessions", json!({"agent": "nobody"}), 422, "agent"),
        ("/v1/sessions", json!({"agnet": "main"}), 422, "agnet"),
        ("/v1/sessions", json!({"model": "gpt"}), 422, "model"),
        ("/v1/sessions", json!({"title": "  "}), 422, "title"),
        (&turns, json!({"content": " "}), 422, "content"),
        (&turns, json!({"content": "x", "mode": "wild"}), 422, "mode"),
        (&turns, json!({"content": "x", "page": "a\nb"}), 422, "page"),
        (&turns, json!({"content": "x", "surface": ""}), 422, "surface"),
        (&turns, json!({"content": "x", "time_zone": "Europe/Nowhere"}), 422, "time_zone"),
        (&turns, json!({"content": "x", "time_zone": "../../etc/passwd"}), 422, "time_zone"),
        (&turns, json!({"content": "x".repeat(5_000_000)}), 413, "content"),
        (&turns, json!({"content": "x", "references": vec![json!({}); 33]}), 413, "references"),
        (&turns, json!({"content": "x", "references": ["y".repeat(70_000)]}), 413, "references[0]"),
    ];
    for (path, body, status, field) in cases {
        let (got, problem) = site.post(path, body).await;
        assert_eq!(
            (got.as_u16(), &problem["errors"][0]["field"]),
            (status, &json!(field)),
            "{problem}"
        );
    }
    let send = |body: &'static str, kind: &'static str| {
        let request = site.request(Method::POST, "/v1/sessions").header("content-type", kind);
        answer(request.body(body))
    };
    for (body, kind, status, code) in [
        ("{", "application/json", 400, "malformed_body"),
        ("{} x", "application/json", 400, "malformed_body"),
        ("{}", "text/plain", 415, "unsupported_media_type"),
    ] {
        let (got, problem) = send(body, kind).await;
        assert_eq!((got.as_u16(), &problem["code"]), (status, &json!(code)));
    }
    for (path, code) in [
        ("/v1/sessions?limit=0", "invalid_request"),
        ("/v1/sessions?limit=x", "malformed_query"),
        ("/v1/sessions?lmit=1", "malformed_query"),
        ("/v1/sessions?cursor=x", "invalid_request"),
        ("/v1/nothing", "not_found"),
    ] {
        assert_eq!(site.get(path).await["code"], code, "{path}");
    }
    let (status, problem) = answer(site.request(Method::PUT, "/v1/sessions")).await;
    assert_eq!((status.as_u16(), &problem["code"]), (405, &json!("method_not_allowed")));
    let large = "x".repeat(2_000_000);
    let (status, problem) = site.post("/v1/sessions", json!({"title": large})).await;
    assert_eq!((status.as_u16(), &problem["code"]), (413, &json!("too_large")));
    let key = site.request(Method::POST, "/v1/sessions").header("idempotency-key", "with space");
    assert_eq!(answer(key.json(&json!({}))).await.1["code"], "malformed_header");
}

#[tokio::test]
async fn other_sites_may_call_where_that_is_configured_and_hear_nothing_of_it_elsewhere() {
    let (app, other) = ("https://app.example", "https://evil.example");
    let ours = site([text("")]).with_keys().start().await;
    let theirs =
        site([text("")]).with_keys().options(|o| o.cors = vec![app.to_owned()]).start().await;
    let preflight = async |site: &Site, origin: &str| {
        let ask = site.request(Method::OPTIONS, "/v1/sessions").header("origin", origin);
        let ask = ask.header("access-control-request-method", "POST");
        ask.header("access-control-request-headers", "authorization").send().await.unwrap()
    };
    let allowed = |response: &reqwest::Response| {
        let origin = response.headers().get("access-control-allow-origin");
        origin.map(|value| value.to_str().unwrap().to_owned())
    };
    let asked = preflight(&theirs, app).await;
    assert_eq!((asked.status(), allowed(&asked).as_deref()), (StatusCode::OK, Some(app)));
    let headers = asked.headers()["access-control-allow-headers"].to_str().unwrap();
    assert!(headers.contains("authorization") && headers.contains("idempotency-key"), "{headers}");
    assert_eq!(allowed(&preflight(&theirs, other).await), None);
    let asked = preflight(&ours, app).await;
    assert_eq!((asked.status(), allowed(&asked)), (StatusCode::METHOD_NOT_ALLOWED, None));
    // What an answer says of it.
    for (site, origin) in [(&theirs, Some(app)), (&ours, None)] {
        let key = site.key("acme", "ada", &[Role::User]).await;
        let call = site.request(Method::GET, "/v1/whoami").bearer_auth(key).header("origin", app);
        let answer = call.send().await.unwrap();
        assert_eq!((answer.status(), allowed(&answer).as_deref()), (StatusCode::OK, origin));
        let exposed = answer.headers().contains_key("access-control-expose-headers");
        assert_eq!(
            (exposed, answer.headers().contains_key("vary")),
            (origin.is_some(), origin.is_some())
        );
    }
}

#[tokio::test]
async fn keys_work_until_they_are_revoked() {
    let site = site([text("")]).with_keys().start().await;
    let admin = site.key("acme", "root", &[Role::Admin]).await;
    let new = json!({"name": "ci", "user": "ada", "roles": ["user"]});
    let create = site.request(Method::POST, "/v1/keys").bearer_auth(&admin).json(&new);
    let (status, created) = answer(create).await;
    assert_eq!(status, StatusCode::CREATED);
    let secret = created["secret"].as_str().unwrap();
    let who = || answer(site.request(Method::GET, "/v1/whoami").bearer_auth(secret));
    assert_eq!(
        who().await.1,
        json!({"tenant": "acme", "user": "ada", "roles": ["user"], "auth": "key", "key": created["id"]})
    );
    let list = answer(site.request(Method::GET, "/v1/keys").bearer_auth(&admin)).await.1;
    assert!(!list.to_string().contains("tbk_"), "{list}");
    let path = format!("/v1/keys/{}", created["id"].as_str().unwrap());
    let revoke = site.request(Method::DELETE, &path).bearer_auth(&admin);
    assert_eq!(answer(revoke).await.0, StatusCode::NO_CONTENT);
    let (status, problem) = who().await;
    assert_eq!((status, &problem["code"]), (StatusCode::UNAUTHORIZED, &json!("unauthenticated")));
}

#[tokio::test]
async fn without_authentication_only_this_machine_and_its_own_pages_are_served() {
    let site = site([text("")]).start().await;
    let (status, problem) =
        answer(site.request(Method::GET, "/v1/whoami").header("origin", "http://evil.example"))
            .await;
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("origin_refused")));
    let (status, _) =
        answer(site.request(Method::GET, "/v1/whoami").header("host", "evil.example")).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn the_description_and_the_routes_are_the_same() {
    let site = site([text("")]).start().await;
    let document = site.get("/openapi.json").await;
    let mut operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations += 1;
            assert!(
                operation["summary"].is_string() || operation["description"].is_string(),
                "{path}"
            );
            let method: Method = method.to_uppercase().parse().unwrap();
            let url = path.replace(['{', '}'], "");
            let (status, problem) = answer(site.request(method, &url).json(&json!({}))).await;
            // The route is there: what is missing is the thing it names, if anything.
            assert_ne!(status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
            assert_ne!(problem["detail"], "no such route", "{path}");
        }
    }
    assert!(operations >= 25, "{operations}");
    let served = served(&site).await;
    assert_eq!(served.len(), operations);
    for (path, method) in served {
        let operation = &document["paths"][&path][method.as_str().to_lowercase()];
        assert!(operation.is_object(), "{method} {path} is served, and not described");
    }
    let refs = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for part in refs.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}

/// What the router serves to those who show who they are. What it serves to anyone has no place among the API's own paths.
async fn served(site: &Site) -> Vec<(String, Method)> {
    // A router names its paths nowhere else.
    let router = format!("{:?}", turnbuckle_server::router(&site.api));
    let paths: BTreeSet<&str> = router.split('"').filter(|text| text.starts_with('/')).collect();
    let locked = crate::support::site([text("")]).with_keys().start().await;
    let mut served = Vec::new();
    for path in paths.into_iter().filter(|path| !path.contains("__private")) {
        let url = path.replace(['{', '}'], "");
        for method in
            [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::TRACE]
        {
            let request = locked.request(method.clone(), &url);
            match request.send().await.unwrap().status() {
                StatusCode::METHOD_NOT_ALLOWED => {}
                StatusCode::UNAUTHORIZED => served.push((path.to_owned(), method)),
                _ => {
                    let own = ["/v1/", "/ag-ui/", "/ai-sdk/"];
                    assert!(!own.iter().any(|own| path.starts_with(own)), "{path} is open to all");
                }
            }
        }
    }
    served
}

#[tokio::test]
async fn probes_and_pages_answer_without_credentials() {
    let site = site([text("")]).with_keys().start().await;
    let text = async |path: &str| {
        let response = site.request(Method::GET, path).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    };
    assert_eq!(text("/healthz").await, (StatusCode::OK, "ok\n".to_owned()));
    let (status, ready) = text("/readyz").await;
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!((status, ready), (StatusCode::OK, json!({"ready": true, "problems": []})));
    for path in ["/", "/docs", "/docs/page.js", "/some/place/in/the/ui"] {
        let response = site.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    }
    let response = site.request(Method::GET, "/").send().await.unwrap();
    assert!(
        response.headers()["content-security-policy"]
            .to_str()
            .unwrap()
            .contains("default-src 'none'")
    );
}
