//! The labs themselves, without a gate: what the other tests take for granted.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use swarmgate_testkit::client::Client;
use swarmgate_testkit::lab::{Lab, container, is, task_address};
use swarmgate_testkit::process::{Process, Signal};
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::Handshake;
use tokio::process::Command;

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_service_answers_on_its_overlay_scales_and_fails() {
    let Some(lab) = Lab::start(1).await else { return };
    lab.testserver_image("testserver").await;
    lab.docker("network create --driver overlay minecraft").await;
    let world = lab.shared("world");
    let mount = format!("--mount type=bind,src={},dst=/world --env WORLD=/world", world.display());
    lab.docker(&format!("service create --detach --name survival --network minecraft {mount} testserver"))
        .await;
    let task = lab.until_running("survival").await;
    assert_eq!(lab.states("survival").await, ["running/running"]);
    assert_eq!(status(&lab, 1, &task, &task).await["version"]["protocol"], 767);

    let before = lab.version("survival").await;
    lab.docker("service update --detach --replicas 0 survival").await;
    assert_ne!(lab.version("survival").await, before);
    lab.until_at_rest("survival").await;
    assert!(world.join("save-end").exists(), "it was stopped in an orderly way");

    // A second server on the same world is noticed, whatever container it is in.
    lab.docker("service update --detach --replicas 2 survival").await;
    let marker = world.join("world-corrupted");
    until("two servers on one world", LIMIT, async || marker.exists().then_some(())).await;
    lab.docker("service rm survival").await;
    lab.until_tasks("survival", "no trace", |tasks| tasks.is_empty().then_some(())).await;

    lab.docker("service create --detach --name crash --restart-condition none --env EXIT_AFTER_MS=1 --env EXIT_CODE=3 testserver")
        .await;
    let failed = lab.until_tasks("crash", "a failure", |tasks| {
        tasks.iter().find(|task| is(task, "failed", "shutdown")).cloned()
    });
    assert_eq!(failed.await["Status"]["ContainerStatus"]["ExitCode"], 3);
}

#[tokio::test]
async fn a_health_check_holds_a_task_back_and_an_engine_restarts() {
    let Some(mut lab) = Lab::start(1).await else { return };
    lab.testserver_image("testserver").await;
    lab.docker(
        "service create --detach --name survival --restart-delay 100ms --env READY_DELAY_MS=1500 \
         --health-cmd /testserver --health-interval 200ms --health-retries 99 testserver",
    )
    .await;
    // The image has no shell, which `--health-cmd` wants: the check never succeeds.
    lab.until_tasks("survival", "a start", |tasks| {
        tasks.iter().find(|task| is(task, "starting", "running")).cloned()
    })
    .await;
    lab.docker("service update --detach --no-healthcheck survival").await;
    for signal in [Signal::TERM, Signal::KILL] {
        let running = lab.until_running("survival").await;
        lab.restart_engine(signal).await;
        lab.until_tasks("survival", "another run", |tasks| {
            tasks.iter().find(|task| is(task, "running", "running") && task["ID"] != running["ID"]).cloned()
        })
        .await;
    }
}

#[tokio::test]
async fn two_nodes_share_an_overlay_and_lose_each_other() {
    let Some(mut lab) = Lab::start(2).await else { return };
    lab.testserver_image("testserver").await;
    lab.docker("network create --driver overlay minecraft").await;
    for (name, node) in [("here", 1), ("there", 2)] {
        lab.docker(&format!(
            "service create --detach --name {name} --network minecraft --constraint node.hostname==node{node} testserver"
        ))
        .await;
    }
    let (here, there) = (lab.until_running("here").await, lab.until_running("there").await);
    assert_eq!(status(&lab, 1, &here, &there).await["version"]["protocol"], 767);

    lab.docker("node update --availability drain node2").await;
    lab.until_tasks("there", "no node for it", |tasks| {
        tasks[0]["Status"]["Err"]
            .as_str()
            .is_some_and(|error| error.contains("no suitable node"))
            .then_some(())
    })
    .await;
    lab.docker("node update --availability active node2").await;
    lab.until_running("there").await;

    lab.cut(2).await;
    until_node2(&lab, "down").await;
    lab.heal(2).await;
    until_node2(&lab, "ready").await;
    lab.node_mut(2).power_off();
    until_node2(&lab, "down").await;
}

/// Not a test: the process that the next test kills.
#[tokio::test]
async fn lab_to_be_killed() {
    if std::env::var_os("LAB_TO_BE_KILLED").is_none() {
        return;
    }
    let Some(lab) = Lab::start(1).await else { return };
    println!("up {}", lab.node(1).socket().display());
    std::future::pending().await
}

#[tokio::test]
async fn a_killed_test_leaves_nothing_that_runs() {
    let Some(lab) = Lab::start(1).await else { return };
    drop(lab);
    let mut child = Process::start(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lab_to_be_killed", "--nocapture"])
            .env("LAB_TO_BE_KILLED", "1"),
    );
    let up = child.wait_for_line("up ", LIMIT).await;
    let socket = Path::new(up.rsplit(' ').next().unwrap()).to_owned();
    let lab = socket.parent().and_then(Path::parent).unwrap().to_owned();
    let has_engines = || processes_with(lab.file_name().unwrap().to_str().unwrap()) > 0;
    assert!(has_engines());
    child.signal(Signal::KILL);
    until("the end of its engine", LIMIT, async || (!has_engines()).then_some(())).await;
    // What is left is a directory, which the next lab sweeps away.
    child.wait_exit(LIMIT).await;
    assert!(lab.exists());
    drop(Lab::start(1).await);
    assert!(!lab.exists());
}

/// What the server of `to` answers to somebody in the network of `from`, which runs on a node.
async fn status(lab: &Lab, node: usize, from: &Value, to: &Value) -> Value {
    let address = SocketAddr::new(task_address(to), 25565);
    let _inside = lab.node(node).enter_container(&container(from)).await;
    let handshake = Handshake::status(767, "mc.example.com");
    until("an answer", LIMIT, async || Client::to(address).status(&handshake, LIMIT).await.ok()).await.json
}

async fn until_node2(lab: &Lab, state: &str) {
    lab.until(&format!("node2 {state}"), async || {
        (lab.get("/nodes/node2").await["Status"]["State"] == state).then_some(())
    })
    .await;
}

/// How many processes have this text among their arguments.
fn processes_with(text: &str) -> usize {
    let commands = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    commands.filter(|command| String::from_utf8_lossy(command).contains(text)).count()
}
