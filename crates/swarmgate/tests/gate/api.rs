//! What the gate tells people and programs.

use serde_json::{Value, json};
use swarmgate_testkit::backend::{Backend, Behaviour};

use crate::common::{Config, Gate, Home, Server, get};
use crate::{assert_contains, fixed, play};

async fn set_up() -> (Backend, Server, Gate) {
    let backend = Backend::start(Behaviour::default()).await;
    let home = Home::new();
    let server = Server::new(&home, "mc", &[], "");
    let table = fixed("fixed", &[&backend], "hosts = [\"fixed.example.com\"]\ndefault = true");
    home.write(&Config::of(table + &server.table));
    let gate = home.start().await;
    (backend, server, gate)
}

#[tokio::test]
async fn health_and_metrics_are_served_and_nothing_else() {
    let (_backend, _server, gate) = set_up().await;
    play(gate.address, "fixed.example.com", "Ann").await;
    play(gate.address, "mc.example.com", "Bo").await;
    assert_eq!(get(gate.http, "/healthz").await, Some((200, "ok\n".into())));
    assert_eq!(get(gate.http, "/readyz").await, Some((200, "ok\n".into())));
    let page = gate.metrics().await;
    for line in [
        "swarmgate_sessions_total{service=\"file/fixed\"} 1",
        "swarmgate_sessions_total{service=\"process/mc\"} 1",
        "swarmgate_service_state{service=\"process/mc\",state=\"running\"} 1",
        "swarmgate_verdicts_total{verdict=\"relay\"} 1",
        "swarmgate_verdicts_total{verdict=\"wait\"} 1",
        "swarmgate_wake_seconds_count 1",
        "swarmgate_source_up{source=\"process\"} 1",
        "swarmctl_http_requests_total{method=\"GET\",endpoint=\"/healthz\",status_code=\"200\"} 1",
    ] {
        assert!(page.lines().any(|known| known == line), "{line} is not in\n{page}");
    }
    // What asks and commands the gate is for the control socket, and for those with tokens.
    for (path, status, error) in [
        ("/v1/services", 403, "api_closed"),
        ("/v1/explain?host=a", 403, "api_closed"),
        ("/v1/nonsense", 404, "no_such_page"),
        ("/", 404, "no_such_page"),
        ("/metrics/", 404, "no_such_page"),
    ] {
        let (code, body) = get(gate.http, path).await.unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, &body["error"]["code"]), (status, &json!(error)), "{path}");
    }
    assert_eq!(gate.control("GET", "/metrics", "").await.0, 200);
}

#[tokio::test]
async fn a_service_is_shown_whole() {
    let (backend, server, gate) = set_up().await;
    let asleep = gate.service("mc").await;
    let expected = json!({
        "name": "mc", "source": "process", "hosts": ["mc.example.com"], "default": false, "state": "asleep",
        "reason": null, "pin": "none", "since_seconds": asleep["since_seconds"], "seats": 0, "players": null, "waiting": 0, "endpoints": [],
        "sleeps_in_seconds": null, "restarts_in_seconds": null, "waking": false, "eta_seconds": null, "boot_seconds": null, "scalable": true,
        "kept_awake": false, "retry_in_seconds": null, "last_failure": null,
        "problems": [],
    });
    assert_eq!(asleep, expected);
    let _player = play(gate.address, "mc.example.com", "Ann").await;
    let running = gate.until("mc", "its player", |service| service["players"] == 1).await;
    assert_eq!((&running["state"], &running["seats"]), (&json!("running"), &json!(1)));
    assert_eq!(running["endpoints"], json!([server.address.to_string()]));
    let fixed = gate.service("file%2Ffixed").await;
    assert_eq!((&fixed["state"], &fixed["default"]), (&json!("running"), &json!(true)));
    assert_eq!(fixed["endpoints"], json!([backend.address().to_string()]));

    // The command shows the same.
    let mut command = gate.home().command(&["services", "--json"]);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let services: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = services.iter().map(|service| service["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fixed", "mc"]);
    let human = gate.home().command(&["services"]).output().await.unwrap();
    assert_contains(&String::from_utf8_lossy(&human.stdout), "mc.example.com");
}

#[tokio::test]
async fn every_refusal_has_a_code_and_a_sentence() {
    let (_backend, _server, gate) = set_up().await;
    let _player = play(gate.address, "mc.example.com", "Ann").await;
    gate.until("mc", "its player", |service| service["players"] == 1).await;
    for (method, path, status, code) in [
        ("GET", "/v1/services/nobody", 404, "no_such_service"),
        ("POST", "/v1/services/nobody/wake", 404, "no_such_service"),
        ("POST", "/v1/services/nobody/sleep", 404, "no_such_service"),
        ("POST", "/v1/services/nobody/console", 404, "no_such_service"),
        ("GET", "/v1/services/nobody/output", 404, "no_such_service"),
        ("POST", "/v1/services/fixed/wake", 409, "not_scalable"),
        ("POST", "/v1/services/fixed/sleep", 409, "not_scalable"),
        ("POST", "/v1/services/fixed/console", 409, "not_local"),
        ("GET", "/v1/services/fixed/output", 409, "not_local"),
        ("POST", "/v1/services/mc/sleep", 409, "occupied"),
        ("GET", "/v1/nonsense", 404, "no_such_page"),
        ("GET", "/v1/services/mc/wake", 405, "method_not_allowed"),
        ("GET", "/v1/explain", 400, "bad_request"),
        ("POST", "/v1/services/mc/sleep?force=perhaps", 400, "bad_request"),
        ("GET", "/v1/services/mc/output?lines=many", 400, "bad_request"),
    ] {
        let (answered, body) = gate.control(method, path, "").await;
        let body: Value =
            serde_json::from_str(&body).unwrap_or_else(|_| panic!("{method} {path}: {answered} {body:?}"));
        let error = &body["error"];
        assert_eq!((answered, &error["code"]), (status, &json!(code)), "{method} {path}: {body}");
        assert_eq!(error["status"], status);
        assert!(error["message"].as_str().unwrap().len() > 10, "{error}");
    }
    let output = gate.home().command(&["wake", "nobody"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_contains(&String::from_utf8_lossy(&output.stderr), "there is no service called 'nobody'");
    let output = gate.home().command(&["wake", "nobody", "--json"]).output().await.unwrap();
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((&error["error"]["code"], output.stdout.len()), (&json!("no_such_service"), 0), "{error}");
    let typed = ["console", "--json", "mc", "say", "hello", "--all"];
    let output = gate.home().command(&typed).output().await.unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer, json!({"name": "mc", "sent": "say hello --all"}));
    // Twice is as good as once.
    assert_eq!(gate.control("POST", "/v1/services/mc/wake", "").await.0, 200);
    assert_eq!(gate.control("POST", "/v1/services/mc/wake", "").await.0, 200);
}

#[tokio::test]
async fn what_a_running_gate_would_do_is_explained() {
    let (_backend, _server, gate) = set_up().await;
    let mut ask =
        gate.home().command(&["explain", "--json", "MC.example.com.", "--config", "swarmgate.toml"]);
    let output = ask.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["service"], &said["state"]), (&json!("process/mc"), &json!("asleep")));
    assert_eq!(said["normal"], "mc.example.com");
}
