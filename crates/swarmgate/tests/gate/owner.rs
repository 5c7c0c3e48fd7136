//! What an owner starts and stops by hand.

use std::process::Output;

use crate::assert_contains;
use crate::common::{Config, Gate, Home, LIMIT, Server};

async fn command(gate: &Gate, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        tokio::time::timeout(LIMIT, gate.home().command(arguments).output()).await.unwrap().unwrap();
    (
        status.code(),
        String::from_utf8_lossy(&stdout).into_owned(),
        String::from_utf8_lossy(&stderr).into_owned(),
    )
}

#[tokio::test]
async fn who_wakes_or_stops_by_hand_can_wait_until_it_is_done() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &["START_DELAY_MS=800", "STOP_DELAY_MS=800"], "");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;

    let (code, out, err) = command(&gate, &["wake", "mc", "--wait"]).await;
    assert_eq!((code, &*out), (Some(0), "mc is running\n"), "{err}");
    assert_contains(&err, "mc is starting");
    assert_eq!(gate.service("mc").await["state"], "running");
    // One that runs is left as it is.
    assert_eq!(command(&gate, &["wake", "mc", "--wait"]).await.1, "mc is running\n");

    let (code, out, err) = command(&gate, &["sleep", "mc", "--wait", "--force"]).await;
    assert_eq!((code, &*out), (Some(0), "mc is asleep\n"), "{err}");
    assert_contains(&err, "mc is stopping");
    // And so is one that sleeps.
    let (code, out, err) = command(&gate, &["sleep", "mc"]).await;
    assert_eq!((code, &*out, &*err), (Some(0), "mc is asleep\n", ""));
    assert_eq!(server.history(), ["start", "stop", "saved"]);

    let (code, out, err) = command(&gate, &["wake", "mc", "--wait", "--json"]).await;
    let service: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &service["state"], &*err), (Some(0), &"running".into(), ""));
}

#[tokio::test]
async fn who_waits_for_a_start_that_fails_is_told_why() {
    let home = Home::new();
    let keys = "max_restarts = 0\ncooldown = \"60s\"";
    let server = Server::new(&home, "mc", &["START_DELAY_MS=60000", "EXIT_AFTER_MS=50", "EXIT_CODE=3"], keys);
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    let (code, out, err) = command(&gate, &["wake", "mc", "--wait"]).await;
    assert_eq!((code, &*out), (Some(1), ""));
    assert_contains(&err, "swarmgate: mc is failed (it crashed: exit code 3");
    // Nothing is left to put to sleep.
    assert_eq!(command(&gate, &["sleep", "mc", "--wait"]).await.0, Some(0));
}

#[tokio::test]
async fn who_waits_for_a_stop_is_told_that_somebody_starts_it_again() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &["STOP_DELAY_MS=2000"], "");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    command(&gate, &["wake", "mc", "--wait"]).await;
    let stopped = command(&gate, &["sleep", "mc", "--wait", "--force"]);
    let woken = async {
        gate.until_state("mc", "stopping").await;
        command(&gate, &["wake", "mc"]).await
    };
    let ((code, _, err), woken) = tokio::join!(stopped, woken);
    assert_eq!(woken.0, Some(0), "{}", woken.2);
    assert_eq!(code, Some(1));
    assert_contains(&err, "swarmgate: mc is stopping (it starts again once it has stopped)");
}
