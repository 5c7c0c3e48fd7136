//! Who may come in at all, and how often.

use std::net::Ipv4Addr;
use std::time::Duration;

use swarmgate_testkit::backend::{Backend, Behaviour};
use swarmgate_testkit::client::{Client, Outcome};
use swarmgate_testkit::process::{Process, Signal};
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::Handshake;

use crate::common::{Config, Gate, Home, LIMIT, Server, tables};
use crate::{PROTOCOL, assert_contains, assert_in, assert_playing, fixed, join_from, play, refusal};

#[tokio::test]
async fn lists_of_addresses_hold_and_are_reloaded() {
    let backend = Backend::start(Behaviour::default()).await;
    let home = Home::new();
    let asleep = Server::new(&home, "asleep", &[], "clients.deny = [\"127.0.0.5\"]");
    let tables = |clients: &str| {
        let open = fixed("open", &[&backend], r#"hosts = ["open.example.com"]"#);
        Config::of(format!("[clients]\n{clients}\n{open}{}", asleep.table))
    };
    home.write(&tables("deny = [\"127.0.0.4/31\"]"));
    let gate = home.start().await;
    let from = |last| Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, last));
    for (source, host) in [(4, "open.example.com"), (5, "open.example.com"), (5, "asleep.example.com")] {
        assert_contains(&refusal(&from(source), host, "Ann").await, "may not join from your address");
        // The list shows nothing either.
        let status = from(source).status(&Handshake::status(PROTOCOL, host), LIMIT).await;
        assert!(status.is_err(), "{status:?}");
    }
    assert_eq!(asleep.starts(), 0);
    assert_in(&join_from(&from(6), "open.example.com", "Ann").await.0);

    home.write(&tables("allow = [\"127.0.0.4\"]"));
    let joins = async |last| {
        let client = Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, last));
        matches!(join_from(&client, "open.example.com", "Ann").await.0, Outcome::Joined { .. }).then_some(())
    };
    until("the new list", LIMIT, async || joins(4).await).await;
    assert_contains(&refusal(&from(6), "open.example.com", "Ann").await, "may not join from your address");

    // A denied address may not even ask; the signal makes the gate read at once.
    home.write(&tables(""));
    gate.process.signal(Signal::HUP);
    until("an open door", LIMIT, async || joins(6).await).await;
    assert_contains(&refusal(&from(5), "asleep.example.com", "Ann").await, "may not join from your address");
}

#[tokio::test]
async fn joins_and_pings_of_one_source_have_rates_of_their_own() {
    let backend = Backend::start(Behaviour::default()).await;
    let table = fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#);
    let limits = "login_rate = \"1/h\"\nlogin_burst = 3\nstatus_rate = \"1/h\"\nstatus_burst = 2";
    let gate = Gate::with(&Config::of(table).limits(limits)).await;
    let from = |last| Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, last));
    let handshake = Handshake::status(PROTOCOL, "mc.example.com");
    for source in [2, 3] {
        for _ in 0..3 {
            assert_in(&join_from(&from(source), "mc.example.com", "Ann").await.0);
        }
        let said = refusal(&from(source), "mc.example.com", "Ann").await;
        assert_contains(&said, "You are joining too often.");
        for _ in 0..2 {
            from(source).status(&handshake, LIMIT).await.unwrap();
        }
        assert!(from(source).status(&handshake, LIMIT).await.is_err());
    }
    assert_eq!(gate.metric("swarmgate_refusals_total{kind=\"login_rate\"}").await, 2);
    assert_eq!(gate.metric("swarmgate_refusals_total{kind=\"status_rate\"}").await, 2);
}

#[tokio::test]
async fn connections_that_say_nothing_are_few_per_source_and_short() {
    let backend = Backend::start(Behaviour::default()).await;
    let table = fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#);
    let limits = "half_open_per_source = 3\nopening_deadline = \"2s\"";
    let gate = Gate::with(&Config::of(table).limits(limits)).await;
    let from = |last| Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, last));
    let mut silent = vec![];
    for _ in 0..3 {
        silent.push(from(2).connect(LIMIT).await.unwrap());
    }
    let half_open = "swarmgate_connections_half_open";
    until("three half-open", LIMIT, async || (gate.metric(half_open).await == 3).then_some(())).await;
    let mut fourth = from(2).connect(LIMIT).await.unwrap();
    assert!(fourth.read_to_end(Duration::from_secs(1)).await.is_ok_and(|said| said.is_empty()));
    // Nobody else notices.
    assert_in(&join_from(&from(3), "mc.example.com", "Ann").await.0);
    for mut connection in silent {
        assert_eq!(connection.read_to_end(LIMIT).await.unwrap(), b"");
    }
    assert_in(&join_from(&from(2), "mc.example.com", "Ann").await.0);
    assert_eq!(gate.metric(half_open).await, 0);
    assert_eq!(gate.metric("swarmgate_refusals_total{kind=\"half_open_per_source\"}").await, 1);
    assert_eq!(gate.metric("swarmgate_openings_failed_total{kind=\"silent\"}").await, 3);
}

#[tokio::test]
async fn players_who_wait_are_counted_per_source() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &["START_DELAY_MS=60000"], "grace = \"1s\"");
    home.write(&Config::of(&server.table).limits("held_per_source = 2"));
    let gate = home.start().await;
    let from = |last| Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, last));
    let mut waiting = vec![];
    for (source, name) in [(2, "Ann"), (2, "Bo"), (3, "Cy")] {
        let mut connection = from(source).connect(LIMIT).await.unwrap();
        connection.send(&crate::login("mc.example.com", name)).await.unwrap();
        waiting.push(connection);
    }
    let held = "swarmgate_players_waiting{rung=\"hold\"}";
    until("three who wait", LIMIT, async || (gate.metric(held).await == 3).then_some(())).await;
    assert_contains(&refusal(&from(2), "mc.example.com", "Di").await, "mc starts, come back in");
    drop(waiting);
    until("nobody who waits", LIMIT, async || (gate.metric(held).await == 0).then_some(())).await;
}

#[tokio::test]
async fn connections_of_all_kinds_are_limited_in_number() {
    let backend = Backend::start(Behaviour::default()).await;
    let table = fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#);
    let limits = "connections_total = 3\ntrusted_sources = [\"127.0.0.0/8\"]";
    let gate = Gate::with(&Config::of(table).limits(limits)).await;
    let mut players = vec![];
    for name in ["Ann", "Bo"] {
        players.push(play(gate.address, "mc.example.com", name).await);
    }
    let silent = Client::to(gate.address).connect(LIMIT).await.unwrap();
    let open = "swarmgate_connections_open";
    until("three of them", LIMIT, async || (gate.metric(open).await == 3).then_some(())).await;
    let mut fourth = Client::to(gate.address).connect(LIMIT).await.unwrap();
    assert!(fourth.read_to_end(LIMIT).await.is_ok_and(|said| said.is_empty()));
    assert_eq!(gate.metric("swarmgate_refusals_total{kind=\"connections_total\"}").await, 1);
    // Those who are in notice nothing, and a place that is free again is taken again.
    for player in &mut players {
        assert_playing(player).await;
    }
    drop(silent);
    until("a free place", LIMIT, async || (gate.metric(open).await == 2).then_some(())).await;
    play(gate.address, "mc.example.com", "Cy").await;
}

#[tokio::test]
async fn players_who_wait_are_counted_in_all() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &["START_DELAY_MS=60000"], "grace = \"1s\"");
    home.write(&Config::of(&server.table).limits("held_total = 2\ntrusted_sources = [\"127.0.0.0/8\"]"));
    let gate = home.start().await;
    let from = |last| Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, last));
    let mut waiting = vec![];
    for (source, name) in [(2, "Ann"), (3, "Bo")] {
        let mut connection = from(source).connect(LIMIT).await.unwrap();
        connection.send(&crate::login("mc.example.com", name)).await.unwrap();
        waiting.push(connection);
    }
    let held = "swarmgate_players_waiting{rung=\"hold\"}";
    until("two who wait", LIMIT, async || (gate.metric(held).await == 2).then_some(())).await;
    assert_contains(&refusal(&from(4), "mc.example.com", "Di").await, "mc starts, come back in");
    assert_eq!(gate.metric("swarmgate_refusals_total{kind=\"held_total\"}").await, 1);
    // Whoever was sent away holds no seat.
    gate.until("mc", "two seats", |service| service["seats"] == 2).await;
    waiting.pop();
    until("one who waits", LIMIT, async || (gate.metric(held).await == 1).then_some(())).await;
    let mut next = from(4).connect(LIMIT).await.unwrap();
    next.send(&crate::login("mc.example.com", "Di")).await.unwrap();
    until("two who wait", LIMIT, async || (gate.metric(held).await == 2).then_some(())).await;
}

#[tokio::test]
async fn joins_start_no_more_servers_than_may_be_awake_and_owners_do() {
    let home = Home::new();
    let servers = [
        Server::new(&home, "one", &[], ""),
        Server::new(&home, "two", &[], ""),
        Server::new(&home, "owned", &[], ""),
    ];
    let limits = "awake_at_once = 1\ntrusted_sources = [\"127.0.0.0/8\"]";
    home.write(&Config::of(tables(&servers.each_ref())).limits(limits));
    let gate = home.start().await;
    let _ann = play(gate.address, "one.example.com", "Ann").await;
    let client = Client::to(gate.address);
    let said = refusal(&client, "two.example.com", "Ann").await;
    assert_contains(&said, "two is not running, and as many servers are up as this machine takes.");
    assert_eq!(gate.metric("swarmgate_refusals_total{kind=\"too_many_awake\"}").await, 1);
    let asked = ["explain", "two.example.com", "--as", "Ann", "--source", "127.0.0.1"];
    let explained = gate.home().command(&asked).output().await.unwrap();
    assert_contains(&String::from_utf8_lossy(&explained.stdout), "limits.awake_at_once");
    // What runs is joined by anybody, and its owner starts what he likes; that counts, too.
    play(gate.address, "one.example.com", "Bo").await;
    assert_eq!(gate.control("POST", "/v1/services/owned/pin/awake", "").await.0, 200);
    gate.until_state("owned", "running").await;
    assert_eq!(gate.control("POST", "/v1/services/one/sleep?force=true", "").await.0, 200);
    gate.until_state("one", "asleep").await;
    assert_contains(&refusal(&client, "two.example.com", "Ann").await, "as many servers are up");
    assert_eq!(gate.control("POST", "/v1/services/owned/pin/asleep", "").await.0, 200);
    gate.until_state("owned", "asleep").await;
    play(gate.address, "two.example.com", "Ann").await;
    assert_eq!(servers.map(|server| server.starts()), [1, 1, 1]);
}

#[tokio::test]
async fn servers_start_one_after_another_and_nobody_is_sent_away() {
    let home = Home::new();
    let servers = ["one", "two", "three"].map(|name| Server::new(&home, name, &["START_DELAY_MS=700"], ""));
    let limits = "waking_at_once = 1\ntrusted_sources = [\"127.0.0.0/8\"]";
    home.write(&Config::of(tables(&servers.each_ref())).limits(limits));
    let gate = home.start().await;
    let mut joins = vec![];
    for name in ["one", "two", "three"] {
        let address = gate.address;
        joins.push(tokio::spawn(async move { play(address, &format!("{name}.example.com"), "Ann").await }));
        gate.until(name, "a player who waits", |service| service["seats"] == 1).await;
    }
    // The last one waits for the others, and while it does its process is not there.
    let until_last = until("the last one running", LIMIT, async || {
        let (_, body) = gate.control("GET", "/v1/services", "").await;
        let services: Vec<serde_json::Value> = serde_json::from_str(&body).unwrap();
        let starting = |service: &&serde_json::Value| {
            service["state"] == "starting" && service["reason"] != "waiting for its turn"
        };
        let at_once = services.iter().filter(starting).count();
        assert!(at_once <= 1, "{at_once} are starting at once: {body}");
        (gate.service("three").await["state"] == "running").then_some(())
    });
    until_last.await;
    for join in joins {
        join.await.unwrap();
    }
    assert_eq!(servers.map(|server| server.starts()), [1, 1, 1]);
}

#[tokio::test]
async fn a_low_limit_of_open_files_is_said_and_a_soft_one_is_raised() {
    for (soft, hard, said) in [(200, 600, true), (200, 2_000, false)] {
        let home = Home::new();
        home.write(&Config::default().limits("connections_total = 500"));
        let limits = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
        let mut command = tokio::process::Command::new("sh");
        let gate = home.command(&["run", "--config", "swarmgate.toml"]);
        command.arg("-c").arg(limits).arg(gate.as_std().get_program()).args(gate.as_std().get_args());
        let mut process = Process::start(command.current_dir(home.path()));
        process.wait_for_line("listening for players", LIMIT).await;
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.pid())).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let current = line.split_whitespace().nth(3).unwrap();
        assert_eq!(current, hard.to_string(), "{line}");
        let log = process.lines().join("\n");
        assert_eq!(
            log.contains("admits fewer connections than limits.connections_total (500)"),
            said,
            "{log}"
        );
        process.signal(Signal::TERM);
        assert_eq!(process.wait_exit(LIMIT).await.code(), Some(0));
    }
}
