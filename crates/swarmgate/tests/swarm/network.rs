//! Which address of a task is dialled.

use std::fs;

use serde_json::Value;
use swarmgate_testkit::client::Outcome;
use swarmgate_testkit::engine::proxy::Proxy;

use crate::rest::documented_calls;
use crate::site::{CONFIG, Site};

#[tokio::test]
async fn the_task_itself_is_dialled_on_a_network_that_the_gate_shares() {
    let Some(site) = Site::start(1).await else { return };
    site.lab.docker("network create --driver overlay elsewhere").await;
    // A network that comes first, and one whose load balancer this kernel may not have.
    site.service("vip", "--network elsewhere --endpoint-mode vip").await;
    site.service("dnsrr", "--network elsewhere --endpoint-mode dnsrr").await;
    site.service("named", "--network elsewhere --label swarmgate.network=minecraft").await;
    site.service("other-port", "--label swarmgate.port=25570 --env PORT=25570").await;
    let id = site.lab.get("/networks/minecraft").await["Id"].as_str().unwrap().to_owned();
    site.service("by-id", &format!("--network elsewhere --label swarmgate.network={id}")).await;
    let aliased = "--network name=elsewhere,alias=other --network name=minecraft,alias=games";
    site.bare_service("by-alias", &format!("{aliased} --label swarmgate.network=games")).await;
    let all = ["vip", "dnsrr", "named", "by-id", "by-alias"].map(|name| (name, 25565));
    for (name, port) in all.into_iter().chain([("other-port", 25570)]) {
        let player = site.play(name).await;
        let view = site.until_state(name, "running").await;
        let task = site.lab.until_running(name).await;
        assert_eq!(view["endpoints"][0], format!("{}:{port}", address(&task, "minecraft")), "{name}: {view}");
        drop(player);
    }

    // Neither is scaled: one has a task on each node, the other more than one.
    let version = |name| site.lab.version(name);
    for (name, options) in [("everywhere", "--mode global"), ("several", "--replicas 2")] {
        let labels = format!("--label swarmgate.host={name}.example.com --label swarmgate.idle=1s");
        let create = "service create --detach --network minecraft";
        site.lab.docker(&format!("{create} --name {name} {labels} {options} testserver")).await;
        drop(site.play(name).await);
        let before = version(name).await;
        let view =
            site.until_view(name, "idle for 3 s", |view| view["since_seconds"].as_u64() >= Some(3)).await;
        assert_eq!((&view["state"], &view["scalable"]), (&"running".into(), &false.into()), "{view}");
        assert_eq!(version(name).await, before, "{name}");
    }

    // Nowhere to be reached: said, and not dialled in vain.
    site.lab
        .docker(
            "service create --detach --name far --network elsewhere --label swarmgate.host=far.example.com testserver",
        )
        .await;
    site.lab.until_running("far").await;
    let far = site.until_view("far", "without an endpoint", |view| {
        view["endpoints"].as_array().is_some_and(Vec::is_empty)
            && view["problems"].to_string().contains("network")
    });
    let far = far.await["problems"].to_string();
    assert!(far.contains("none of its networks (elsewhere), but on: minecraft"), "{far}");
    let (outcome, _) = site.join("far").await;
    assert!(matches!(outcome, Outcome::Kicked(_)), "{outcome:?}");
}

/// The gate's program is static and has no system around it: names are its own to find, the engine's as well as those
/// of servers.
#[tokio::test]
async fn names_are_found_from_within_the_image() {
    let Some(site) = Site::without_gate(1, 1).await else { return };
    let node = site.lab.node(1);
    let address = format!("{}:2375", node.address()).parse().unwrap();
    let _proxy = Proxy::start_at(address, &node.socket(), documented_calls()).await;
    let server = "\n[server.lobby]\nhosts = [\"lobby.example.com\"]\naddress = \"tasks.by-name:25565\"\n";
    fs::write(site.lab.shared("config").join("swarmgate.toml"), CONFIG.to_owned() + server).unwrap();
    let engine = "--env DOCKER_HOST=tcp://socket-proxy:2375";
    site.start_gate(&format!("--host socket-proxy:{} {engine}", node.address())).await;
    // By the file of hosts: the engine. By the engine's name server: a task.
    site.service("survival", "").await;
    drop(site.play("survival").await);
    site.lab.docker("service create --detach --name by-name --network minecraft testserver").await;
    site.lab.until_running("by-name").await;
    drop(site.play("lobby").await);
}

/// Where a task is on the network of this name.
fn address(task: &Value, network: &str) -> String {
    let attachments = task["NetworksAttachments"].as_array().unwrap();
    let attachment =
        attachments.iter().find(|attachment| attachment["Network"]["Spec"]["Name"] == network).unwrap();
    attachment["Addresses"][0].as_str().unwrap().split('/').next().unwrap().to_owned()
}
