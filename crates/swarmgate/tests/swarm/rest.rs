//! A Swarm in which nothing happens, and a gate that may do little.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use swarmgate_testkit::engine::proxy::Proxy;

use crate::site::{ENGINE, Site, playing};

#[tokio::test]
async fn at_rest_nothing_is_written() {
    let Some(site) = Site::start(1).await else { return };
    let names = ["asleep", "played", "failed", "ended"];
    site.service("asleep", "").await;
    site.service("played", "").await;
    site.service("failed", "--restart-condition none --env READY_DELAY_MS=60000 --env EXIT_AFTER_MS=100")
        .await;
    site.service("ended", "--restart-condition none --env EXIT_AFTER_JOIN_MS=500 --env EXIT_CODE=0").await;
    let (mut player, mut ended, _) =
        tokio::join!(site.play("played"), site.enter("ended"), site.join("failed"));
    ended.read_to_end(swarmgate_testkit::lab::LIMIT).await.unwrap();
    site.until_state("failed", "failed").await;
    site.until_state("ended", "asleep").await;
    let before = settled(&site, names).await;
    // Two more looks, so that a whole pause of the gate between two is in it.
    let first = site.looks().await;
    let two_more = async || (site.looks().await >= first + 2).then_some(());
    playing(&mut player, site.lab.until("two more looks", two_more)).await;
    for (name, (service, tasks)) in names.into_iter().zip(before) {
        assert_eq!(site.lab.service(name).await, service);
        assert_eq!(site.lab.tasks(name).await, tasks, "{name}");
    }
}

/// The services and their tasks once Swarm has left them alone for a while: it goes on writing after an update that
/// forced a start, and to a task that has ended.
async fn settled<const N: usize>(site: &Site, names: [&str; N]) -> Vec<(Value, Vec<Value>)> {
    const WHILE: Duration = Duration::from_secs(5);
    let mut last = (Instant::now(), vec![]);
    site.lab
        .until("Swarm to leave the services alone", async || {
            let mut now = vec![];
            for name in names {
                now.push((site.lab.service(name).await, site.lab.tasks(name).await));
            }
            if now != last.1 {
                last = (Instant::now(), now);
            }
            (last.0.elapsed() >= WHILE).then(|| last.1.clone())
        })
        .await
}

/// Only the calls of `docs/permissions.md`, through a proxy before a real engine.
#[tokio::test]
async fn the_documented_calls_are_enough_for_a_real_engine() {
    let Some(site) = Site::without_gate(1, 1).await else { return };
    let (proxy, options) = behind(&site, documented_calls());
    site.start_gate(&options).await;
    site.service("survival", "").await;
    drop(site.play("survival").await);
    site.sleep("survival").await;
    site.until_state("survival", "asleep").await;
    assert_eq!(proxy.refused(), Vec::<String>::new());
    assert!(!site.log().contains("the engine refuses a call"), "what it rejects, it allows");
}

/// A proxy before the manager's engine, and the options for a gate that finds it.
fn behind(site: &Site, allowed: Vec<String>) -> (Proxy, String) {
    let proxied = site.lab.shared("proxied");
    let socket = proxied.join("docker.sock");
    let proxy = Proxy::start(&socket, &site.lab.node(1).socket(), allowed);
    chown(&socket, Some(65532), Some(65532)).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    let mount = format!("--mount type=bind,src={},dst=/proxied", proxied.display());
    (proxy, format!("{mount} --env DOCKER_HOST=unix:///proxied/docker.sock"))
}

/// Nothing is allowed: the log names each call, and what it is for.
#[tokio::test]
async fn each_refused_call_is_named_with_what_will_not_work() {
    let Some(site) = Site::without_gate(1, 1).await else { return };
    let (_proxy, options) = behind(&site, vec![]);
    site.start_gate_unready(&options).await;
    for (call, without) in [
        ("GET /services", "no service of the Swarm is known"),
        ("GET /services/{id}", "no service of the Swarm is woken, put to sleep or updated"),
        ("GET /tasks", "no state of a service is known"),
        ("GET /nodes", "keeps its service from being woken until that node is back"),
        ("GET /events", "changes made by others are noticed some seconds late"),
        ("POST /services/{id}/update", "no service of the Swarm is woken, put to sleep or updated"),
        ("GET /distribution/{image}/json", "does not know which image a tag is now"),
    ] {
        site.lab
            .until(&format!("{call} in the log"), async || {
                let log = site.log();
                let named = |line: &&str| line.contains(&format!("call=\"{call}\""));
                let line = log.lines().find(named)?;
                assert!(line.contains("WARN") && line.contains(without), "{line}");
                assert!(line.contains("docs/permissions.md"), "{line}");
                Some(())
            })
            .await;
    }
}

#[tokio::test]
async fn on_a_worker_the_error_is_the_fix() {
    let Some(site) = Site::without_gate(2, 2).await else { return };
    site.start_gate_unready(ENGINE).await;
    let complaint = async || {
        let log = site.log();
        log.lines().find(|line| line.contains("the source does not answer")).map(str::to_owned)
    };
    let complaint = site.lab.until("a complaint", complaint).await;
    assert!(
        complaint.contains("this engine is a worker of its Swarm; run the gate on a manager"),
        "{complaint}"
    );
    assert!(complaint.contains("docker node promote"), "{complaint}");
}

/// Where the gate's service is published through the routing mesh, all players have the same address.
#[tokio::test]
async fn a_gate_in_the_routing_mesh_warns_of_it() {
    let Some(mut site) = Site::without_gate(1, 1).await else { return };
    site.publish = "ingress";
    site.start_gate(ENGINE).await;
    let warning = async || {
        let log = site.log();
        log.lines().find(|line| line.contains("routing mesh")).map(str::to_owned)
    };
    let warning = site.lab.until("a warning", warning).await;
    for part in ["WARN", "25565", "hides the addresses of players", "mode: host"] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
    site.service("survival", "").await;
    assert_eq!(site.log().matches("routing mesh").count(), 1, "once");
}

pub fn documented_calls() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/permissions.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("For services of a Swarm")).unwrap();
    let calls = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    calls.map(str::to_owned).collect()
}
