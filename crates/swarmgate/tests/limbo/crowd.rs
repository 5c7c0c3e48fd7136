//! Many who wait at once.

use swarmgate_testkit::wait::until;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::common::{Gate, Home, LIMIT};
use crate::{follow, gate, player, server, waiting};

const CROWD: usize = 500;
/// Bytes of memory that one waiting player may cost.
const SHARE: usize = 64 * 1024;

#[tokio::test]
async fn five_hundred_wait_cheaply_and_all_get_in() {
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

#[tokio::test]
async fn a_crowd_gets_in_together() {
    let home = Home::new();
    let mc = server(&home, "mc", &["START_DELAY_MS=6000"]);
    let gate = gate(&home, &[&mc]).await;
    let journeys: Vec<_> = (0..60)
        .map(|number| {
            let passport = player(&gate, 766 + number % 10, "mc.example.com", &format!("P{number}"));
            tokio::spawn(async move { follow(waiting(&passport).await, LIMIT).await })
        })
        .collect();
    let mut playing = vec![];
    for journey in journeys {
        playing.push(journey.await.unwrap());
    }
    assert_eq!(mc.starts(), 1);
    drop(playing);
    gate.until("mc", "no seat", |service| service["seats"] == 0).await;
}

/// Bytes of memory that the gate has.
fn resident(gate: &Gate) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
}
