//! An empty server is put to sleep, and never under a player.

use std::time::{Duration, Instant};

use swarmgate_testkit::client::Client;
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::Handshake;

use crate::common::{Config, Gate, Home, LIMIT, Server, tables};
use crate::{PROTOCOL, assert_in, assert_playing, motd, play};

/// Ten times in every run; a hundred with `SWARMGATE_LONG=1`.
fn rounds() -> usize {
    if std::env::var_os("SWARMGATE_LONG").is_some() { 20 } else { 2 }
}

#[tokio::test]
async fn an_idle_time_shorter_than_the_boot_never_stops_a_server_under_a_player() {
    let home = Home::new();
    let servers: Vec<_> = (0..5)
        .map(|n| Server::new(&home, &format!("s{n}"), &["START_DELAY_MS=1300"], "idle = \"300ms\""))
        .collect();
    let all: Vec<_> = servers.iter().collect();
    let limits = "trusted_sources = [\"127.0.0.0/8\"]\nwaking_at_once = 9";
    home.write(&Config::of(tables(&all)).limits(limits));
    let gate = home.start().await;
    for round in 1..=rounds() {
        let address = gate.address;
        let games: Vec<_> = (0..servers.len())
            .map(|n| {
                tokio::spawn(async move {
                    let mut player = play(address, &format!("s{n}.example.com"), "Ann").await;
                    // Far longer in the game than it may be idle.
                    let joined = Instant::now();
                    while joined.elapsed() < Duration::from_millis(1_500) {
                        assert_playing(&mut player).await;
                    }
                })
            })
            .collect();
        for game in games {
            game.await.unwrap();
        }
        for (n, server) in servers.iter().enumerate() {
            gate.until_state(&format!("s{n}"), "asleep").await;
            assert_eq!(server.history(), ["start", "stop", "saved"].repeat(round), "s{n}");
            assert!(!server.is_corrupted());
        }
    }
}

/// It has been running for so long, in seconds.
async fn running_for(gate: &Gate, name: &str, seconds: u64) {
    gate.until(name, "a long run", |service| {
        assert!(["running", "starting", "asleep"].contains(&service["state"].as_str().unwrap()), "{service}");
        service["state"] == "running" && service["since_seconds"].as_u64() >= Some(seconds)
    })
    .await;
}

#[tokio::test]
async fn players_the_gate_does_not_see_keep_a_server_awake_and_pings_do_not() {
    let home = Home::new();
    let direct = Server::new(&home, "direct", &[], "idle = \"1s\"");
    let hanging = Server::new(&home, "hanging", &[], "idle = \"1s\"");
    let never = Server::new(&home, "never", &[], "idle = \"1s\"\nsleep = false");
    let pinged = Server::new(&home, "pinged", &[], "idle = \"2s\"");
    let limits = "trusted_sources = [\"127.0.0.0/8\"]\nwaking_at_once = 9";
    home.write(&Config::of(tables(&[&direct, &hanging, &never, &pinged])).limits(limits));
    let gate = home.start().await;
    for name in ["never", "pinged"] {
        gate.control("POST", &format!("/v1/services/{name}/wake"), "").await;
    }
    let through = play(gate.address, "direct.example.com", "Ann").await;
    let (outcome, inside) =
        crate::join_from(&Client::to(direct.address), "direct.example.com", "Direct").await;
    assert_in(&outcome);
    drop(through);
    // A game that does not answer may have players in it.
    let hung = play(gate.address, "hanging.example.com", "Ann").await;
    assert_eq!(gate.control("POST", "/v1/services/hanging/console", "hang").await.0, 204);
    drop(hung);

    // Refreshing the list all the time.
    until("a sleep in spite of pings", LIMIT, async || {
        motd(gate.address, "pinged.example.com").await;
        (gate.service("pinged").await["state"] == "asleep").then_some(())
    })
    .await;
    assert_eq!(pinged.history(), ["start", "stop", "saved"]);

    for name in ["direct", "hanging", "never"] {
        running_for(&gate, name, 5).await;
    }
    let report = gate.service("direct").await;
    assert_eq!((&report["seats"], &report["players"]), (&0.into(), &1.into()));
    gate.until("hanging", "the problem", |service| {
        service["problems"].to_string().contains("does not answer a status ping")
    })
    .await;
    drop(inside);
    gate.until_state("direct", "asleep").await;
    assert_eq!(hanging.history(), ["start"]);
    assert_eq!(never.history(), ["start"]);
}

#[tokio::test]
async fn with_connections_alone_the_gate_s_own_count_decides() {
    let home = Home::new();
    // The game says that there are always three; only the seats can tell.
    let server = Server::new(&home, "mc", &["PLAYERS=3"], "idle = \"1s\"\nplayers = \"connections\"");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    let mut player = play(gate.address, "mc.example.com", "Ann").await;
    running_for(&gate, "mc", 3).await;
    assert_playing(&mut player).await;
    drop(player);
    gate.until_state("mc", "asleep").await;
    assert_eq!(server.history(), ["start", "stop", "saved"]);
}

#[tokio::test]
async fn a_login_that_is_never_finished_keeps_nothing_awake() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &[], "idle = \"1s\"");
    let limits = "trusted_sources = [\"127.0.0.0/8\"]\nopening_deadline = \"60s\"";
    home.write(&Config::of(&server.table).limits(limits));
    let gate = home.start().await;
    drop(play(gate.address, "mc.example.com", "Ann").await);
    let mut half = Client::to(gate.address).connect(LIMIT).await.unwrap();
    half.send(&Handshake::login(PROTOCOL, "mc.example.com").packet()).await.unwrap();
    gate.until_state("mc", "asleep").await;
    assert_eq!(gate.metric("swarmgate_connections_half_open").await, 1);
}
