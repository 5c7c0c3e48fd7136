//! What the server list shows, whatever a server is doing.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use swarmgate_testkit::backend::{Backend, Behaviour, Status as Answer};
use swarmgate_testkit::client::{Client, Status};
use swarmgate_testkit::legacy::{self, Ping};
use swarmgate_testkit::process::Signal;
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::{Body, Handshake, ping, status_request};

use crate::common::{Config, Gate, Home, LIMIT, Server, tables};
use crate::{PROTOCOL, assert_contains, assert_within, fixed, motd};

async fn status(gate: SocketAddr, protocol: i32, host: &str) -> Status {
    Client::to(gate).status(&Handshake::status(protocol, host), LIMIT).await.expect("a status")
}

/// The seconds in `… starts again in 24s`.
fn countdown(text: &str) -> u64 {
    let words: Vec<_> = text.split_whitespace().collect();
    let seconds = words.last().and_then(|word| word.trim_end_matches('.').strip_suffix('s'));
    seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("no seconds in {text:?}"))
}

#[tokio::test]
async fn each_state_has_its_own_answer() {
    let home = Home::new();
    let asleep = Server::new(&home, "asleep", &[], "");
    let starting = Server::new(&home, "starting", &["START_DELAY_MS=60000"], "grace = \"1s\"");
    let keys = "restart_delay = \"40s\"\nmax_restarts = 3";
    let restarting = Server::new(&home, "restarting", &["EXIT_AFTER_MS=100"], keys);
    let stopping = Server::new(&home, "stopping", &["STOP_DELAY_MS=20000"], "grace = \"40s\"");
    let failed = Server::new(&home, "failed", &["EXIT_AFTER_MS=1", "EXIT_CODE=3"], "max_restarts = 0");
    let all = [&asleep, &starting, &restarting, &stopping, &failed];
    home.write(&Config { limits: "waking_at_once = 9".into(), ..Config::of(tables(&all)) });
    let gate = home.start().await;
    for name in ["starting", "restarting", "stopping", "failed"] {
        let (code, body) = gate.control("POST", &format!("/v1/services/{name}/wake"), "").await;
        assert_eq!(code, 200, "{body}");
    }
    gate.until_state("stopping", "running").await;
    gate.control("POST", "/v1/services/stopping/sleep?force=true", "").await;
    for (name, part) in [
        ("asleep", "asleep sleeps"),
        ("starting", "starting starts, ready in a few minutes"),
        ("restarting", "restarting crashed, starts again in"),
        ("stopping", "stopping saves its world"),
        ("failed", "failed failed: it crashed: exit code 3."),
    ] {
        gate.until_state(name, name).await;
        let host = format!("{name}.example.com");
        let asked = Instant::now();
        let answer = status(gate.address, PROTOCOL, &host).await;
        assert_within(asked, Duration::from_secs(3));
        assert!(answer.ponged, "{name}");
        assert_contains(&motd(gate.address, &host).await, part);
        let old = legacy::Status::parse(
            &Client::to(gate.address)
                .legacy_ping(&Ping::Full { protocol: 78, host, port: 25565 }, LIMIT)
                .await
                .unwrap(),
        );
        assert_contains(&old.unwrap().motd.replace('§', ""), name);
    }
    // The countdown moves, and it does not start again.
    let first = countdown(&motd(gate.address, "restarting.example.com").await);
    assert!((1..=40).contains(&first), "{first}");
    let later = until("a countdown that moves", LIMIT, async || {
        let now = countdown(&motd(gate.address, "restarting.example.com").await);
        (now != first).then_some(now)
    });
    assert!(later.await < first);
    assert_eq!(asleep.starts(), 0);
}

#[tokio::test]
async fn a_sleeping_server_speaks_the_client_s_version_and_answers_every_shape_of_ping() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &[], "");
    let limits = "trusted_sources = [\"127.0.0.0/8\"]\nopening_deadline = \"1s\"";
    home.write(&Config::of(&server.table).limits(limits));
    let gate = home.start().await;
    for protocol in [4, 47, 340, 763, 767, 776, i32::MAX] {
        let answer = status(gate.address, protocol, "mc.example.com").await;
        assert_eq!(answer.json["version"]["protocol"], protocol);
        assert_eq!(answer.json["players"], json!({"online": 0, "max": 0}));
        assert!(answer.json.get("favicon").is_none());
    }
    // "Any version" is no version to show.
    assert!(status(gate.address, -1, "mc.example.com").await.json["version"]["protocol"].as_i64() >= Some(0));

    let handshake = Handshake::status(PROTOCOL, "mc.example.com").packet();
    let connect = async || Client::to(gate.address).connect(LIMIT).await.unwrap();
    // The ping before the answer was read.
    let mut connection = connect().await;
    connection.send(&[handshake.clone(), status_request(), ping(-5)].concat()).await.unwrap();
    connection.read_status(LIMIT).await.unwrap();
    assert_eq!(connection.read_pong(LIMIT).await.unwrap(), Some(-5));
    assert_eq!(connection.read_to_end(LIMIT).await.unwrap(), b"");
    // A ping alone.
    let mut connection = connect().await;
    connection.send(&[handshake.clone(), ping(i64::MAX)].concat()).await.unwrap();
    assert_eq!(connection.read_pong(LIMIT).await.unwrap(), Some(i64::MAX));
    // No ping at all, or a handshake alone: closed when the time is over.
    for rest in [status_request(), vec![]] {
        let mut connection = connect().await;
        connection.send(&[handshake.clone(), rest].concat()).await.unwrap();
        let started = Instant::now();
        connection.read_to_end(LIMIT).await.unwrap();
        assert_within(started, Duration::from_secs(10));
    }
    assert_eq!(server.starts(), 0);
}

#[tokio::test]
async fn what_a_server_showed_last_is_shown_while_it_sleeps_even_by_the_next_gate() {
    let home = Home::new();
    let settings = ["MOTD=A fine world", "ICON=1", "VERSION=Paper 1.21", "PROTOCOL=767", "MAX_PLAYERS=7"];
    let keys = "texts.asleep = \"Zzz, {max} places\"";
    let server = Server::new(&home, "mc", &settings, keys);
    home.write(&Config { on_exit: "keep", ..Config::of(&server.table) });
    let gate = home.start().await;
    gate.control("POST", "/v1/services/mc/wake", "").await;
    gate.until_state("mc", "running").await;
    let running = status(gate.address, 47, "mc.example.com").await.json;
    assert_eq!(
        running["description"]["text"].as_str().or(running["description"].as_str()),
        Some("A fine world")
    );
    assert_eq!(running["version"], json!({"name": "Paper 1.21", "protocol": 767}));
    gate.end(Signal::KILL).await;

    let gate = home.start().await;
    gate.until("mc", "its players", |service| service["players"] == 0).await;
    gate.control("POST", "/v1/services/mc/sleep", "").await;
    gate.until_state("mc", "asleep").await;
    assert_shown(&gate, &running).await;
    gate.end(Signal::KILL).await;
    let gate = home.start().await;
    assert_shown(&gate, &running).await;
    assert_eq!(server.starts(), 1);
}

async fn assert_shown(gate: &Gate, running: &Value) {
    let sleeping = status(gate.address, 47, "mc.example.com").await.json;
    assert_eq!(sleeping["favicon"], running["favicon"]);
    assert_eq!(sleeping["version"], json!({"name": "Paper 1.21", "protocol": 47}));
    assert_eq!(sleeping["players"]["max"], 7);
    assert_eq!(sleeping["players"]["online"], 0);
    assert_contains(&sleeping["description"].to_string(), "Zzz, 7 places");
}

#[tokio::test]
async fn a_running_server_s_answer_is_relayed_byte_for_byte() {
    let backend = Backend::start(Behaviour::default()).await;
    let gate = Gate::start(&fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#)).await;
    let long = format!(r#"{{"description":"{}","forgeData":{{"mods":[]}}}}"#, "é§".repeat(40_000));
    let trailing = [Body::new().string("{}").raw(b"more").packet(0), b"and more".to_vec()].concat();
    for answer in [
        Answer::Game,
        Answer::Json("not JSON at all".into()),
        Answer::Json(r#"{"description":{"translate":"x"},"players":null,"version":{"protocol":-1}}"#.into()),
        Answer::Json(r#" [ 1 , {"a":1,"a":2} ] "#.into()),
        Answer::Json(String::new()),
        Answer::Json(long),
        Answer::Raw(b"\xff\xff\xff\xff\xff\xff".to_vec()),
        Answer::Raw(trailing),
        Answer::Slow(Duration::from_millis(1_500)),
        Answer::Close,
    ] {
        backend.set(|behaviour| behaviour.status = answer.clone());
        let mut heard = vec![];
        for address in [backend.address(), gate.address] {
            let mut connection = Client::to(address).connect(LIMIT).await.unwrap();
            let request = [Handshake::status(PROTOCOL, "mc.example.com").packet(), status_request(), ping(1)];
            connection.send(&request.concat()).await.unwrap();
            connection.half_close().await.unwrap();
            heard.push(connection.read_to_end(LIMIT).await.unwrap());
        }
        assert_eq!(heard[0], heard[1], "{answer:?}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_answered_for_soon() {
    // A full queue: the kernel drops what comes, as a dead machine does.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let hole = full.local_addr().unwrap().as_socket().unwrap();
    let _fills_it = std::net::TcpStream::connect(hole).unwrap();

    let refuses = Backend::start(Behaviour::default()).await;
    refuses.refuse().await;
    let gate = Gate::start(&format!(
        "[server.hole]\naddress = \"{hole}\"\nhosts = [\"hole.example.com\"]\n{}",
        fixed("down", &[&refuses], r#"hosts = ["down.example.com"]"#)
    ))
    .await;
    for host in ["down.example.com", "hole.example.com"] {
        let asked = Instant::now();
        let answer = status(gate.address, PROTOCOL, host).await;
        assert_within(asked, Duration::from_secs(4));
        assert_contains(&answer.text, "is out of reach");
        assert_eq!((&answer.json["version"]["protocol"], answer.ponged), (&json!(PROTOCOL), true));
    }
}

#[tokio::test]
async fn a_list_of_many_entries_is_refreshed_at_once() {
    let backend = Backend::start(Behaviour::default()).await;
    let home = Home::new();
    let server = Server::new(&home, "asleep", &[], "");
    let table = fixed("awake", &[&backend], r#"hosts = ["awake.example.com"]"#) + &server.table;
    // Everyone's limits, with no exception for the test.
    home.write(&Config::of(table).limits(""));
    let gate = home.start().await;
    let ask = |host: &'static str| {
        let address = gate.address;
        tokio::spawn(async move { motd(address, host).await })
    };
    let pings: Vec<_> = (0..20).map(|n| ask(["asleep.example.com", "awake.example.com"][n % 2])).collect();
    for (n, answer) in pings.into_iter().enumerate() {
        assert_contains(&answer.await.unwrap(), ["asleep sleeps", "A test server"][n % 2]);
    }
}
