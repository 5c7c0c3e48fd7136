//! The gate in front of plain containers of real engines. Each test has an engine of its own; without root or
//! without an engine it says that it is skipped.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "this is how a test fails"
)]

mod access;
#[path = "../common/mod.rs"]
mod common;
mod compose;
mod image;
mod publishing;
mod site;

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use swarmgate_testkit::client::Outcome;
use swarmgate_testkit::lab::Lab;
use swarmgate_testkit::process::Signal;

use crate::site::{Site, join};

#[tokio::test]
async fn a_join_starts_it_and_an_idle_one_gets_all_the_time_it_needs_to_save() {
    let Some(site) = Site::start().await else { return };
    let (world, options) = site.world("world");
    // Longer than the engine itself would wait.
    site.container("survival", &format!("{options} --env STOP_DELAY_MS=12000 --label swarmgate.idle=2s"))
        .await;
    let before = site.inspect("survival").await;
    assert_eq!(site.ping("survival").await.json["version"]["protocol"], 763);
    assert_eq!(site.inspect("survival").await["State"], before["State"], "a ping starts nothing");
    // How the gate finds out that it may: asked once, because the engine knows no such container.
    assert_eq!(site.lab.node(1).ask("POST", "/containers/-/start", None).await.status, 404);

    drop(site.play("survival").await);
    let told = site.until_state("survival", "stopping").await;
    let stopping = Instant::now();
    assert!(told["problems"].to_string().contains("stop_grace_period: 55s"), "{told}");
    site.until_state("survival", "asleep").await;
    assert!(stopping.elapsed() > Duration::from_secs(10), "{:?}", stopping.elapsed());
    assert!(world.join("save-end").exists(), "it was not killed");
    assert_eq!(site.inspect("survival").await["State"]["ExitCode"], 0);

    drop(site.play("survival").await);
    assert!(!world.join("world-corrupted").exists());
}

#[tokio::test]
async fn the_route_is_there_for_as_long_as_the_container_is() {
    let Some(site) = Site::start().await else { return };
    site.container("survival", "--restart unless-stopped").await;
    site.lab.docker("start survival").await;
    site.until_state("survival", "running").await;
    drop(site.play("survival").await);

    // By others.
    site.lab.docker("stop survival").await;
    site.until_state("survival", "asleep").await;
    drop(site.play("survival").await);
    site.lab.docker("kill survival").await;
    let killed = site.until_state("survival", "asleep").await;
    assert!(killed["problems"].to_string().contains("killed before it finished saving"), "{killed}");

    drop(site.play("survival").await);
    let started = site.inspect("survival").await["State"]["StartedAt"].clone();
    site.lab.docker("pause survival").await;
    site.until_state("survival", "asleep").await;
    drop(site.play("survival").await);
    let state = site.inspect("survival").await["State"].clone();
    assert_eq!((&state["StartedAt"], &state["Paused"]), (&started, &false.into()), "it went on");

    site.lab.docker("rename survival creative").await;
    site.until_state("creative", "running").await;
    site.lab.docker("rm --force creative").await;
    site.lab.until("no route", async || site.view("creative").await.is_none().then_some(())).await;
}

#[tokio::test]
async fn a_stop_is_seen_while_it_lasts_and_a_join_meanwhile_waits_for_the_next_start() {
    let Some(site) = Site::start().await else { return };
    let (world, options) = site.world("world");
    site.container("survival", &format!("{options} --env STOP_DELAY_MS=3000")).await;
    drop(site.play("survival").await);
    let stop = site.lab.docker("stop --time 60 survival");
    let join = async {
        site.until_state("survival", "stopping").await;
        site.play("survival").await
    };
    let (_, player) = tokio::join!(stop, join);
    drop(player);
    let log = std::fs::read_to_string(world.join("world.log")).unwrap();
    assert!(log.contains("saved") && !world.join("world-corrupted").exists(), "{log}");
}

#[tokio::test]
async fn a_crash_is_told_with_what_it_means_and_a_join_tries_again() {
    let Some(site) = Site::start().await else { return };
    site.container("crash", "--env EXIT_AFTER_MS=1 --env EXIT_CODE=3").await;
    site.lab.docker("start crash").await;
    let failed = site.until_state("crash", "failed").await;
    assert!(failed["reason"].to_string().contains("exit code 3"), "{failed}");
    let shown = site.ping("crash").await.json.to_string();
    assert!(shown.contains("failed to start") && shown.contains("exit code 3"), "{shown}");

    // Docker starts it again by itself, and waits longer each time.
    site.container("loop", "--restart always --env EXIT_AFTER_MS=1 --env EXIT_CODE=3").await;
    site.lab.docker("start loop").await;
    let again = site.until_state("loop", "restarting").await;
    assert!(again["problems"].to_string().contains("restart: unless-stopped"), "{again}");
    site.lab.docker("stop loop").await;
    site.until_state("loop", "asleep").await;

    site.container("limited", "--restart on-failure:2 --env EXIT_AFTER_MS=1 --env EXIT_CODE=3").await;
    site.lab.docker("start limited").await;
    let gave_up = site.until_state("limited", "failed").await;
    assert!(gave_up["reason"].to_string().contains("after 2 restarts: exit code 3"), "{gave_up}");

    // One that does not even start: the engine says why.
    site.container("taken", "--entrypoint /nothing").await;
    let (status, _) = site.gate.control("POST", "/v1/services/taken/wake", "").await;
    assert!(status < 300, "{status}");
    let failed = site.until_state("taken", "failed").await;
    assert!(failed["reason"].to_string().contains("/nothing"), "{failed}");
}

#[tokio::test]
async fn an_engine_restarts_and_nothing_is_forgotten() {
    let Some(mut site) = Site::start().await else { return };
    site.container("survival", "--restart unless-stopped").await;
    site.container("creative", "").await;
    for signal in [Signal::TERM, Signal::KILL] {
        drop(site.play("survival").await);
        let started = site.inspect("survival").await["State"]["StartedAt"].clone();
        site.lab.restart_engine(signal).await;
        // Docker may start it again or not (after a SIGKILL 28.2 does not). Until the gate has seen what is, it goes
        // by what it knew.
        site.lab
            .until("a player in it", async || {
                matches!(site.join("survival").await.0, Outcome::Joined { .. }).then_some(())
            })
            .await;
        assert_ne!(site.inspect("survival").await["State"]["StartedAt"], started);
        site.until_state("creative", "asleep").await;
    }
    drop(site.play("creative").await);
}

#[tokio::test]
async fn on_a_manager_each_container_is_listed_once() {
    let Some(site) = Site::start_on_a_manager().await else { return };
    site.container("plain", "").await;
    site.lab.docker("network create --driver overlay --attachable minecraft").await;
    let labels = "--label swarmgate.host=task.example.com --container-label swarmgate.idle=1h";
    site.lab
        .docker(&format!("service create --detach --name task --network minecraft {labels} testserver"))
        .await;
    site.lab.until_running("task").await;
    // From the machine it cannot be dialled, but it is known, and so is its container to the engine.
    site.until_view("task", "listed", |_| true).await;
    let (_, services) = site.gate.control("GET", "/v1/services", "").await;
    let services: serde_json::Value = serde_json::from_str(&services).unwrap();
    let list = services.as_array().unwrap_or_else(|| panic!("{services}"));
    assert_eq!(list.len(), 2, "{services}");
    drop(site.play("plain").await);
}

#[tokio::test]
async fn in_a_container_it_dials_on_the_networks_that_both_are_on() {
    let Some(lab) = Lab::start(1).await else { return };
    lab.docker("swarm leave --force").await;
    lab.testserver_image("testserver").await;
    lab.gate_image("swarmgate").await;
    for (server, network) in [("near", "games"), ("far", "elsewhere")] {
        lab.docker(&format!("network create {network}")).await;
        let host = format!("--label swarmgate.host={server}.example.com");
        lab.docker(&format!("run --detach --name {server} --network {network} {host} testserver")).await;
    }
    let group = std::fs::metadata(lab.node(1).socket()).unwrap().gid();
    let socket = "--volume /var/run/docker.sock:/var/run/docker.sock";
    // Without the cue of a host name.
    let run = "run --detach --name gate --hostname gate --network games";
    lab.docker(&format!("{run} --user 65532:{group} {socket} swarmgate")).await;
    let complaint = "the gate is on none of its networks (elsewhere), but on: games";
    lab.until("both in the log", async || {
        let logs = lab.command("docker").args(["logs", "gate"]).output().await.unwrap();
        let logs = String::from_utf8_lossy(&[logs.stdout, logs.stderr].concat()).into_owned();
        (logs.contains("docker/near") && logs.contains(complaint)).then_some(())
    })
    .await;
    let gate = lab.get("/containers/gate/json").await;
    let address = gate["NetworkSettings"]["Networks"]["games"]["IPAddress"].as_str().unwrap();
    let _inside = lab.node(1).enter();
    let (outcome, _) = join(format!("{address}:25565").parse().unwrap(), "near").await;
    assert!(matches!(outcome, Outcome::Joined { .. }), "{outcome:?}");
}
