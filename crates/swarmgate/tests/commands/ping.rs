use swarmgate_testkit::backend::{Backend, Behaviour, Status};

use crate::run;

#[tokio::test]
async fn what_the_server_list_shows() {
    let backend = Backend::start(Behaviour {
        motd: "§aHello\nworld".into(),
        version: ("Test 1.20.4".into(), Some(765)),
        players: Some(3),
        favicon: Some("data:image/png;base64,AAAA".into()),
        ..Behaviour::default()
    })
    .await;
    let address = backend.address().to_string();
    let said = run(&["ping", &address]).await;
    assert_eq!((said.code, &*said.err), (0, ""));
    for line in
        ["  Hello", "  world", "version  Test 1.20.4 (protocol 765)", "players  3 of 20", "icon     yes"]
    {
        assert!(said.out.lines().any(|said| said.trim_start() == line.trim_start()), "{line}: {}", said.out);
    }
    assert!(!said.out.contains('\x1b') && said.out.contains(" ms"), "{}", said.out);

    let json = run(&["ping", &address, "--json"]).await.json();
    assert_eq!(json["address"], *address);
    assert_eq!(json["players"], serde_json::json!({"online": 3, "max": 20, "sample": []}));
    assert_eq!((&json["description"], &json["favicon"]), (&"Hello\nworld".into(), &true.into()));
    assert!(json["latency_ms"].as_f64().is_some_and(|ms| ms > 0.0 && ms < 5000.0));
}

#[tokio::test]
async fn every_version_says_itself_and_the_name_that_was_typed() {
    let backend = Backend::start(Behaviour::default()).await;
    let via = backend.address().to_string();
    for (given, protocol) in
        [("47", 47), ("1.12.2", 340), ("1.20.4", 765), ("26.2", 776), ("900", 900), ("-1", -1)]
    {
        let arguments = ["ping", "Mc.Example.com:25570", "--via", &via, "--json", "--protocol", given];
        let json = run(&arguments).await.json();
        assert_eq!(json["version"]["protocol"], protocol, "the backend echoes the protocol");
        let state = backend.state();
        let handshake = state.connections.last().unwrap().handshake.as_ref().unwrap();
        assert_eq!((&handshake.host[..], handshake.port), (&b"Mc.Example.com"[..], 25570));
    }
}

#[tokio::test]
async fn the_old_forms() {
    let behaviour = Behaviour { motd: "Old".into(), players: Some(2), ..Behaviour::default() };
    let backend = Backend::start(behaviour).await;
    let address = backend.address().to_string();
    for (form, version) in
        [("beta", serde_json::Value::Null), ("1.4", "testkit".into()), ("1.6", "testkit".into())]
    {
        let json = run(&["ping", &format!("--legacy={form}"), &address, "--json"]).await.json();
        assert_eq!((&json["version"]["name"], &json["description"]), (&version, &"Old".into()), "{form}");
        assert_eq!((&json["players"]["online"], &json["players"]["max"]), (&2.into(), &20.into()), "{form}");
    }
    assert_eq!(run(&["ping", "--legacy", &address]).await.code, 0);
}

#[tokio::test]
async fn an_answer_without_sense_is_no_answer() {
    let backend =
        Backend::start(Behaviour { status: Status::Json("<html>".into()), ..Behaviour::default() }).await;
    let said = run(&["ping", &backend.address().to_string()]).await;
    assert_eq!(said.code, 2);
    assert!(said.err.contains("not JSON"), "{}", said.err);
}
