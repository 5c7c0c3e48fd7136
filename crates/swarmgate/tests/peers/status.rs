//! Every status pinger of npm and PyPI, against a server that runs and one that sleeps.

use serde_json::Value;
use swarmgate_testkit::peers;
use swarmgate_testkit::process::Process;
use tokio::process::Command;

use crate::common::{Gate, LIMIT};

/// Pings with no status request before it, and gets no text. minecraft-protocol's server leaves it unanswered.
const PING_ALONE: &str = "mcstatus ping";

#[tokio::test]
async fn a_running_server_answers_every_pinger_itself() {
    let Some(mut serve) = peers::node("serve.js") else { return };
    let mut server = Process::start(serve.args(["--until-eof", "--motd", "Wide awake", "1.21.8:0"]));
    let listening = peers::event(&mut server, "its port", LIMIT, |event| event["event"] == "listening").await;
    let port = &listening["port"];
    let gate = Gate::start(&format!(
        "[server.survival]\nhosts = [\"awake.test\"]\ndefault = true\naddress = \"127.0.0.1:{port}\"\n"
    ))
    .await;

    for answer in ask_everyone(&gate, "awake.test").await {
        let as_the_server = answer["ok"] == true && answer.to_string().contains("Wide awake");
        assert!(as_the_server || answer["pinger"] == PING_ALONE, "{answer}");
    }
}

#[tokio::test]
async fn the_gate_answers_every_pinger_for_a_sleeping_server_and_does_not_wake_it() {
    let world = tempfile::tempdir().unwrap();
    let gate = Gate::start(&format!(
        "[server.survival]\nhosts = [\"asleep.test\"]\ndefault = true\naddress = \"127.0.0.1:1\"\n\
         directory = {:?}\ncommand = [\"sh\", \"-c\", \"touch woken; exec sleep 600\"]\n\
         texts.asleep = \"Fast asleep\"\n",
        world.path()
    ))
    .await;

    for answer in ask_everyone(&gate, "asleep.test").await {
        assert_eq!(answer["ok"], true, "{answer}");
        assert!(answer.to_string().contains("Fast asleep") || answer["pinger"] == PING_ALONE, "{answer}");
        if ["craftping", "minecraft-status", "mcping-js"].contains(&answer["pinger"].as_str().unwrap()) {
            assert_eq!(
                answer["answer"]["version"]["protocol"], 772,
                "echoed, so that the entry can be joined"
            );
        }
    }
    assert!(!world.path().join("woken").exists(), "a ping woke the server");
}

/// What each pinger got, or nothing where none is installed.
async fn ask_everyone(gate: &Gate, host: &str) -> Vec<Value> {
    let target = format!("{host}:{}", gate.address.port());
    let mut answers = vec![];
    if let Some(mut status) = peers::node("status.js") {
        answers.extend(run(status.args(["--connect", &target, "--protocol", "772"]), 15).await);
    }
    if let Some(mut status) = peers::python("status.py") {
        answers.extend(run(status.arg(&target), 7).await);
    }
    answers
}

/// Fewer than `at_least` answers mean that the script itself has failed.
async fn run(pingers: &mut Command, at_least: usize) -> Vec<Value> {
    let mut pingers = Process::start(pingers);
    pingers
        .wait_for("every answer", LIMIT, |lines| {
            let answers: Vec<_> = peers::events(lines).collect();
            (answers.len() >= at_least).then_some(answers)
        })
        .await
}
