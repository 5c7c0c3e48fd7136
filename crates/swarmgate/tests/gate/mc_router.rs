//! Routes that programs make, as clients of mc-router make them.

use std::sync::Arc;

use serde_json::{Value, json};
use swarmgate_testkit::backend::{Backend, Behaviour};
use swarmgate_testkit::process::Signal;
use swarmgate_testkit::wait::until;

use crate::common::{Config, Gate, Home, LIMIT};
use crate::{assert_contains, fixed, join, play, reason};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn config(tables: &str) -> Config {
    Config::of(format!("[api]\ntoken = \"{TOKEN}\"\n{tables}"))
}

async fn start(tables: &str) -> (Arc<Home>, Gate) {
    let home = Home::new();
    home.write(&config(tables));
    let gate = home.start().await;
    (home, gate)
}

/// What the API answers to whoever has the token.
async fn ask(gate: &Gate, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let client = swarmgate::http::client(LIMIT).unwrap();
    let url = format!("http://{}{path}", gate.http);
    let request = client.request(method.parse().unwrap(), url).bearer_auth(TOKEN);
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() })
}

async fn add(gate: &Gate, host: &str, backend: &str) -> (u16, Value) {
    ask(gate, "POST", "/routes", Some(json!({"serverAddress": host, "backend": backend}))).await
}

async fn assert_nowhere(gate: &Gate, host: &str, name: &str) {
    assert_contains(&reason(&join(gate.address, host, name).await.0), "no server by this name");
}

/// Those who joined; the gate pings, too.
fn players(backend: &Backend) -> usize {
    backend.state().connections.iter().filter(|connection| connection.login.is_some()).count()
}

#[tokio::test]
async fn a_route_leads_there_at_once_and_after_a_kill_until_it_is_removed() {
    let (backend, other) =
        (Backend::start(Behaviour::default()).await, Backend::start(Behaviour::default()).await);
    let (home, gate) = start("").await;
    let address = backend.address().to_string();
    assert_nowhere(&gate, "lobby.example.com", "Ann").await;
    assert_eq!(add(&gate, "Lobby.example.com", &address).await, (201, Value::Null));
    play(gate.address, "lobby.example.com", "Ann").await;
    assert_eq!(add(&gate, "*.games.example.com", &address).await.0, 201);
    play(gate.address, "a.games.example.com", "Ann").await;

    let service = format!("api/{address}");
    let route = json!({"backend": address, "scalingTarget": "", "service": service, "origin": "api"});
    let expected = json!({"lobby.example.com": route, "*.games.example.com": route});
    assert_eq!(ask(&gate, "GET", "/routes", None).await, (200, expected.clone()));
    let view = gate.service(&address).await;
    assert_eq!((&view["source"], &view["state"]), (&json!("api"), &json!("running")));
    let (_, explained) = ask(&gate, "GET", "/v1/explain?host=lobby.example.com", None).await;
    assert_eq!(explained["service"], json!(service));

    gate.end(Signal::KILL).await;
    let gate = home.start().await;
    play(gate.address, "lobby.example.com", "Ann").await;
    assert_eq!(ask(&gate, "GET", "/routes", None).await.1, expected);

    // Made again, it leads elsewhere.
    assert_eq!(add(&gate, "lobby.example.com", &other.address().to_string()).await.0, 201);
    play(gate.address, "lobby.example.com", "Bo").await;
    assert_eq!(players(&other), 1);
    for host in ["LOBBY.example.com", "*.games.example.com"] {
        assert_eq!(ask(&gate, "DELETE", &format!("/routes/{host}"), None).await, (200, Value::Null));
    }
    assert_nowhere(&gate, "lobby.example.com", "Bo").await;
    let (status, error) = ask(&gate, "DELETE", "/routes/lobby.example.com", None).await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("no_such_route")));
}

#[tokio::test]
async fn the_default_route_is_set_and_removed() {
    let backend = Backend::start(Behaviour::default()).await;
    let (home, gate) = start("").await;
    let body = |backend: &str| Some(json!({ "backend": backend }));
    let address = backend.address().to_string();
    assert_eq!(ask(&gate, "POST", "/defaultRoute", body(&address)).await, (200, Value::Null));
    play(gate.address, "anything.example.com", "Ann").await;
    gate.end(Signal::KILL).await;
    let gate = home.start().await;
    play(gate.address, "anything.example.com", "Ann").await;
    assert_eq!(ask(&gate, "POST", "/defaultRoute", body("")).await, (200, Value::Null));
    assert_nowhere(&gate, "any.example.com", "Ann").await;
    assert_eq!(ask(&gate, "POST", "/defaultRoute", body("")).await.0, 404);
}

/// What an owner has written is not taken away by a program that does not know of it.
#[tokio::test]
async fn the_configuration_file_goes_first_and_the_loser_is_named() {
    let (of_file, of_api) =
        (Backend::start(Behaviour::default()).await, Backend::start(Behaviour::default()).await);
    let table = |host: &str| fixed("file", &[&of_file], &format!("hosts = [\"{host}\"]"));
    let (home, gate) = start(&table("file.example.com")).await;
    let address = of_api.address().to_string();
    for (method, path, body, code) in [
        ("POST", "/routes", json!({"serverAddress": "file.example.com", "backend": address}), "route_taken"),
        ("DELETE", "/routes/file.example.com", Value::Null, "not_an_api_route"),
    ] {
        let (status, error) = ask(&gate, method, path, Some(body)).await;
        assert_eq!((status, &error["error"]["code"]), (409, &json!(code)));
        assert_contains(error["error"]["message"].as_str().unwrap(), "file/file");
    }
    // One that was there before yields, and is there again once nobody else claims the hostname.
    assert_eq!(add(&gate, "api.example.com", &address).await.0, 201);
    let leads_to = async |service: &str| {
        until(&format!("api.example.com leads to {service}"), LIMIT, async || {
            let (_, routes) = ask(&gate, "GET", "/routes", None).await;
            (routes["api.example.com"]["service"] == service).then_some(())
        })
        .await;
    };
    home.write(&config(&table("api.example.com")));
    leads_to("file/file").await;
    play(gate.address, "api.example.com", "Ann").await;
    assert_eq!(players(&of_file), 1);
    let (_, explained) = ask(&gate, "GET", "/v1/explain?host=api.example.com", None).await;
    let problem = explained["problems"][0].as_str().unwrap();
    assert_contains(problem, &format!("api/{address} claims this name too"));
    assert_contains(problem, "labels and the configuration file go before routes of the API");
    home.write(&config(&table("file.example.com")));
    leads_to(&format!("api/{address}")).await;
}

#[tokio::test]
async fn what_is_no_route_names_the_field() {
    let (home, gate) = start("").await;
    let own = home.address.to_string();
    for (body, code, field) in [
        (json!({"serverAddress": "a b", "backend": "x:1"}), "bad_request", Some("serverAddress")),
        (json!({"serverAddress": "", "backend": "x:1"}), "bad_request", Some("serverAddress")),
        (json!({"serverAddress": "a.example", "backend": "x:0"}), "bad_request", Some("backend")),
        (json!({"serverAddress": "a.example", "backend": own}), "bad_request", Some("backend")),
        (json!({"serverAddress": "a.example"}), "bad_request", Some("backend")),
        (json!({"serverAddress": 1, "backend": "x:1"}), "bad_request", Some("serverAddress")),
        (json!({"serverAddress": "a", "backend": "x:1", "speed": 1}), "bad_request", Some("speed")),
        (json!([]), "bad_request", None),
        (json!({"serverAddress": "x".repeat(70_000), "backend": "x:1"}), "too_large", None),
    ] {
        let (status, error) = ask(&gate, "POST", "/routes", Some(body)).await;
        assert!((400..500).contains(&status), "{error}");
        assert_eq!(
            (&error["error"]["code"], error["error"]["field"].as_str()),
            (&json!(code), field),
            "{error}"
        );
    }
    // Go's clients write their fields so.
    let body = json!({"ServerAddress": "go.example", "Backend": "x:1"});
    assert_eq!(ask(&gate, "POST", "/routes", Some(body)).await.0, 201);
    let client = swarmgate::http::client(LIMIT).unwrap();
    // And some say of no body what it is.
    let untyped = client.post(format!("http://{}/routes", gate.http)).bearer_auth(TOKEN);
    let untyped =
        untyped.body(r#"{"serverAddress": "untyped.example", "backend": "x:1"}"#).send().await.unwrap();
    assert_eq!(untyped.status().as_u16(), 201);
    let bare = client.post(format!("http://{}/routes", gate.http)).json(&json!({})).send().await.unwrap();
    assert_eq!(bare.status().as_u16(), 401, "without a token");
}
