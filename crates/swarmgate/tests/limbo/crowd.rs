//! Many who wait at once.

use std::collections::BTreeSet;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use swarmgate_testkit::wait::until;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::common::{Gate, Home, LIMIT};
use crate::{follow, gate, player, rungs, server, waiting};

const CROWD: usize = 500;
/// Bytes of memory that one waiting player may cost.
const SHARE: usize = 64 * 1024;

#[tokio::test]
async fn five_hundred_wait_cheaply() {
    let home = Home::new();
    let mc = server(&home, "mc", &["START_DELAY_MS=600000"]);
    let gate = gate(&home, &[&mc]).await;
    // What the first costs is the gate's own: code, tables, the packets of the world.
    let mut first = waiting(&player(&gate, 775, "mc.example.com", "First")).await;
    let before = resident(&gate);
    let (ready, mut readies) = mpsc::unbounded_channel();
    let mut crowd = JoinSet::new();
    crowd.spawn(async move { first.until_ended(20 * LIMIT).await });
    for number in 0..CROWD {
        let protocol = 766 + i32::try_from(number % 10).unwrap();
        let (passport, ready) =
            (player(&gate, protocol, "mc.example.com", &format!("P{number}")), ready.clone());
        crowd.spawn(async move {
            let mut player = waiting(&passport).await;
            ready.send(()).unwrap();
            player.until_ended(20 * LIMIT).await
        });
        // So many at once are on their way in.
        if number >= 20 {
            readies.recv().await.unwrap();
        }
    }
    let all = until("everybody in the world", 5 * LIMIT, async || {
        assert!(crowd.try_join_next().is_none(), "somebody was sent away");
        (gate.metric("swarmgate_players_in_limbo").await == 1 + u64::try_from(CROWD).unwrap()).then_some(())
    });
    all.await;
    let share = resident(&gate).saturating_sub(before) / CROWD;
    println!("{share} bytes of memory for each of {CROWD}");
    assert!(share < SHARE, "{share} bytes for each waiting player");
    // All of them leave at once.
    drop(crowd);
    gate.until("mc", "no seat", |service| service["seats"] == 0).await;
}

/// All of them are in limbo when the server comes up: each is transferred, comes back, and is in the game.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_gets_in_together() {
    // A player has one end here, and so has the server's side of it.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let (home, backend, config) = rungs::site("wait = \"world\"").await;
    let config = config.limits("trusted_sources = [\"127.0.0.0/8\"]\nlimbo_per_source = 999");
    let gate = rungs::start(&home, &config).await;
    let (ready, mut readies) = mpsc::unbounded_channel();
    let mut journeys = JoinSet::new();
    for number in 0..CROWD {
        let protocol = 766 + i32::try_from(number % 10).unwrap();
        let (passport, ready) =
            (player(&gate, protocol, "mc.example.com", &format!("P{number}")), ready.clone());
        journeys.spawn(async move {
            let player = waiting(&passport).await;
            ready.send(()).unwrap();
            follow(player, 2 * LIMIT).await
        });
        // So many at once are on their way in.
        if number >= 20 {
            readies.recv().await.unwrap();
        }
    }
    until("everybody in the world", 5 * LIMIT, async || {
        assert!(journeys.try_join_next().is_none(), "somebody was sent away");
        (gate.metric("swarmgate_players_in_limbo").await == u64::try_from(CROWD).unwrap()).then_some(())
    })
    .await;
    rungs::is_up(&home, &backend).await;
    let playing = journeys.join_all().await;
    assert_eq!(playing.len(), CROWD);
    let names: BTreeSet<String> = backend.state().logins().map(|login| login.name.clone()).collect();
    assert_eq!(names.len(), CROWD, "each is on it");
    drop(playing);
    gate.until("mc", "no seat", |service| service["seats"] == 0).await;
}

/// Bytes of memory that the gate has.
fn resident(gate: &Gate) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
}
