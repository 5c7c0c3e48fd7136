//! Who may come in at all, and how often.

use std::net::Ipv4Addr;
use std::time::Duration;

use swarmgate_testkit::backend::{Backend, Behaviour};
use swarmgate_testkit::client::{Client, Outcome};
use swarmgate_testkit::process::Signal;
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::Handshake;

use crate::common::{Config, Home, LIMIT, Server};
use crate::{PROTOCOL, assert_contains, assert_in, fixed, join_from, refusal};

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
    let mut gate = home.start().await;
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
    gate.process.wait_for_line("configuration read", LIMIT).await;
    let from = |last| Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, last));
    assert_in(&join_from(&from(4), "open.example.com", "Ann").await.0);
    assert_contains(&refusal(&from(6), "open.example.com", "Ann").await, "may not join from your address");

    // A denied address may not even ask; the signal makes the gate read at once.
    home.write(&tables(""));
    gate.process.signal(Signal::HUP);
    until("an open door", LIMIT, async || {
        matches!(join_from(&from(6), "open.example.com", "Ann").await.0, Outcome::Joined { .. }).then_some(())
    })
    .await;
    assert_contains(&refusal(&from(5), "asleep.example.com", "Ann").await, "may not join from your address");
}

#[tokio::test]
async fn joins_and_pings_of_one_source_have_rates_of_their_own() {
    let backend = Backend::start(Behaviour::default()).await;
    let table = fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#);
    let limits = "login_rate = \"1/h\"\nlogin_burst = 3\nstatus_rate = \"1/h\"\nstatus_burst = 2";
    let gate = crate::common::Gate::with(&Config::of(table).limits(limits)).await;
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
    let gate = crate::common::Gate::with(&Config::of(table).limits(limits)).await;
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
    let held = "swarmgate_players_waiting";
    until("three who wait", LIMIT, async || (gate.metric(held).await == 3).then_some(())).await;
    assert_contains(&refusal(&from(2), "mc.example.com", "Di").await, "mc starts, come back in");
    drop(waiting);
    until("nobody who waits", LIMIT, async || (gate.metric(held).await == 0).then_some(())).await;
}
