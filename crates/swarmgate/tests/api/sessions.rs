//! Who plays, who waits, where hostnames lead: what is told of it, and to whom.

use serde_json::{Value, json};
use swarmgate_testkit::wait::until;

use crate::common::LIMIT;
use crate::{OPERATE, READ, Site, play};

#[tokio::test]
async fn players_are_seen_and_named_to_those_who_operate_alone() {
    let site = Site::start().await;
    assert_eq!(site.get("/v1/sessions", OPERATE).await, json!([]));
    let ann = play(site.gate.address, "hub.example.com", "Ann").await;
    let bo = tokio::spawn({
        let gate = site.gate.address;
        async move { play(gate, "mc.example.com", "Bo").await }
    });
    // Bo waits for a server that starts, and then plays.
    let waiting = until("Bo to wait", LIMIT, async || {
        let sessions = site.get("/v1/sessions?kind=waiting", OPERATE).await;
        sessions.as_array().filter(|waiting| !waiting.is_empty()).cloned()
    });
    let waiting = waiting.await;
    assert_eq!(
        (waiting.len(), &waiting[0]["player"], &waiting[0]["rung"]),
        (1, &json!("Bo"), &json!("hold"))
    );
    let bo = bo.await.unwrap();
    let sessions = site.get("/v1/sessions", OPERATE).await;
    let expected = |id: &Value, service: &str, player: &str| json!({"id": id, "service": service, "kind": "playing", "rung": null, "player": player, "client": "127.0.0.1"});
    let shown: Vec<Value> = sessions.as_array().unwrap().iter().cloned().map(without_time).collect();
    assert_eq!(
        shown,
        [
            expected(&sessions[0]["id"], "file/hub", "Ann"),
            expected(&sessions[1]["id"], "process/survival", "Bo")
        ]
    );
    assert_ne!(sessions[0]["id"], sessions[1]["id"]);

    let anonymous = site.get("/v1/sessions", READ).await;
    assert_eq!((&anonymous[0]["player"], &anonymous[0]["client"]), (&Value::Null, &Value::Null));
    assert!(!anonymous.to_string().contains("Ann"), "{anonymous}");
    // A server's own words name its players, too.
    let output = site.ask("GET", "/v1/services/survival/output").token(READ).send().await;
    assert_eq!(output.code(), "not_allowed");
    let one = site.get("/v1/sessions?service=survival&kind=playing", OPERATE).await;
    assert_eq!((one.as_array().unwrap().len(), &one[0]["player"]), (1, &json!("Bo")));

    drop((ann, bo));
    until("all to have left", LIMIT, async || {
        (site.get("/v1/sessions", READ).await == json!([])).then_some(())
    })
    .await;
}

fn without_time(mut session: Value) -> Value {
    session.as_object_mut().unwrap().remove("since_seconds").expect("a time");
    session
}

#[tokio::test]
async fn a_service_tells_what_it_has_learned() {
    let site = Site::start().await;
    let service = site.get("/v1/services/survival", READ).await;
    assert_eq!((&service["state"], &service["boot_seconds"]), (&json!("asleep"), &Value::Null));
    assert_eq!(
        (&service["scalable"], &service["kept_awake"], &service["waiting"]),
        (&true.into(), &false.into(), &0.into())
    );
    let wake = site.ask("POST", "/v1/services/survival/wake").token(OPERATE).send().await;
    assert_eq!((wake.status, &wake.json()["state"]), (200, &json!("starting")));
    let running = until("a learned boot", LIMIT, async || {
        let service = site.get("/v1/services/survival", READ).await;
        (service["boot_seconds"].is_u64() && service["state"] == "running").then_some(service)
    });
    assert!(running.await["sleeps_in_seconds"].is_u64());
    let pinned = site.ask("POST", "/v1/services/survival/pin/awake").token(OPERATE).send().await.json();
    assert_eq!((&pinned["pin"], &pinned["kept_awake"]), (&json!("awake"), &true.into()));
    assert_eq!(site.get("/v1/services/hub", READ).await["scalable"], false);
}

#[tokio::test]
async fn routes_say_where_they_come_from() {
    let site = Site::start().await;
    let route = |host: Option<&str>, service: &str, origin: &str| json!({"host": host, "service": service, "origin": origin, "refused": []});
    assert_eq!(
        site.get("/v1/routes", READ).await,
        json!([
            route(Some("hub.example.com"), "file/hub", "file"),
            route(Some("mc.example.com"), "process/survival", "process"),
        ])
    );
    let publication = site.get("/v1/publication", READ).await;
    assert_eq!(
        publication,
        json!({"configured": false, "tunnel_status": null, "problem": null, "hosts": [], "problems": []})
    );
}
