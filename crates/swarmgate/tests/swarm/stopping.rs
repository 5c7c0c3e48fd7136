//! A server that stops: who is in it stays for as long as it lets them, and nothing starts beside it.

use std::time::{Duration, Instant};

use serde_json::Value;
use swarmgate_testkit::lab::{has_ended, is};

use crate::site::{Site, echoes};

#[tokio::test]
async fn players_keep_a_stopping_server_for_its_whole_grace_and_new_ones_wait() {
    let Some(site) = Site::start(1).await else { return };
    let grace = if std::env::var_os("SWARMGATE_LONG").is_some() { 30 } else { 10 };
    let (world, options) = site.world("world");
    let stubborn = format!("{options} --env IGNORE_SIGTERM=1 --stop-grace-period {grace}s");
    site.service("survival", &stubborn).await;
    let mut player = site.play("survival").await;
    let first = site.lab.until_running("survival").await;

    site.lab.docker("service update --detach --replicas 0 survival").await;
    let told = Instant::now();
    site.until_state("survival", "stopping").await;
    let stay = async {
        while echoes(&mut player).await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        told.elapsed()
    };
    let mut other = Box::pin(site.join("survival"));
    // Joins again when it is told to: the grace may be longer than a client can be held.
    let mut join_until_in = async || loop {
        let (outcome, connection) = other.as_mut().await;
        if matches!(outcome, swarmgate_testkit::client::Outcome::Joined { .. }) {
            return connection;
        }
        other.set(site.join("survival"));
    };
    let watch = async {
        site.lab
            .until_tasks("survival", "another run, never two at once", |tasks| {
                let alive: Vec<_> = tasks.iter().filter(|task| !has_ended(task)).collect();
                assert!(alive.len() <= 1, "{alive:?}");
                alive.first().filter(|task| task["ID"] != first["ID"]).map(|_| ())
            })
            .await;
    };
    let (stayed, mut second, ()) = tokio::join!(stay, join_until_in(), watch);
    assert!(stayed >= Duration::from_secs(grace), "cut after {stayed:?}");
    assert!(echoes(&mut second).await);
    assert!(!world.join("world-corrupted").exists());
}

#[tokio::test]
async fn a_join_at_any_moment_of_a_stop_starts_no_second_server() {
    let Some(site) = Site::start(1).await else { return };
    let (world, options) = site.world("world");
    site.service("survival", &format!("{options} --env STOP_DELAY_MS=1000 --stop-grace-period 60s")).await;
    let rounds = if std::env::var_os("SWARMGATE_LONG").is_some() { 30 } else { 4 };
    let saves = |what: &str| world.join(what).exists();
    for round in 0..rounds {
        drop(site.play("survival").await);
        site.sleep("survival").await;
        match round % 4 {
            0 => {}
            1 => {
                let told = |tasks: &[Value]| is(tasks.first()?, "running", "remove").then_some(());
                site.lab.until_tasks("survival", "the order to stop", told).await;
            }
            2 => site.lab.until("a save", async || saves("save-begin").then_some(())).await,
            _ => site.lab.until("the end of a save", async || saves("save-end").then_some(())).await,
        }
        drop(site.play("survival").await);
        assert!(!world.join("world-corrupted").exists(), "round {round}");
    }
    let log = std::fs::read_to_string(world.join("world.log")).unwrap();
    let count = |what: &str| log.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!(count("start") - count("saved"), 1, "{log}");
}
