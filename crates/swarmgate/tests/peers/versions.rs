//! minecraft-protocol, mineflayer and botmine join through the gate, from 1.7.10 to 26.1.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::RangeInclusive;

use serde_json::{Value, json};
use swarmgate_testkit::peers;
use swarmgate_testkit::process::Process;
use swarmgate_testkit::wait::free_port;

use crate::common::{Gate, LIMIT, as_toml};

/// With the protocol number each must show on the wire.
const VERSIONS: [(&str, i32); 16] = [
    ("1.7.10", 5),
    ("1.8.9", 47),
    ("1.12.2", 340),
    ("1.13.2", 404),
    ("1.16.5", 754),
    ("1.18.2", 758),
    ("1.19.2", 760),
    ("1.19.4", 762),
    ("1.20.1", 763),
    ("1.20.2", 764),
    ("1.20.4", 765),
    ("1.20.6", 766),
    ("1.21.4", 769),
    ("1.21.8", 772),
    ("1.21.11", 774),
    ("26.1", 775),
];
/// Their server compresses from here on.
const COMPRESSED: RangeInclusive<i32> = 47..=775;
/// The transfer packet, and with it intent 3, came with 1.20.5.
const TRANSFERRED: [&str; 3] = ["1.20.6", "1.21.8", "26.1"];
/// What each generation of Forge puts behind the hostname, and a root dot as an SRV record leaves it.
const MODDED: [(&str, &str); 3] =
    [("1.12.2", "\\0FML\\0"), ("1.16.5", "\\0FML2\\0"), ("1.18.2", ".\\0FML3\\0")];
const BOTS: [&str; 5] = ["1.8.9", "1.16.5", "1.20.4", "1.21.8", "26.1"];
/// Its logins of 1.20.1 lack a byte.
const BOTMINES: [&str; 4] = ["1.20.2", "1.20.6", "1.21.8", "26.1"];

#[tokio::test]
async fn every_version_joins_a_running_server() {
    joins_running_servers(false).await;
}

#[tokio::test]
async fn every_version_joins_a_running_server_that_encrypts() {
    joins_running_servers(true).await;
}

async fn joins_running_servers(encrypted: bool) {
    let options: &[&str] = if encrypted { &["--online"] } else { &[] };
    let versions = VERSIONS.map(|(version, _)| version);
    let Some(mut servers) = Servers::start(options, &versions).await else { return };
    let gate = Gate::start(&servers.routes()).await;

    let joins = join(&gate, "{version}.test", &[], versions).await;
    for ((version, protocol), joined) in VERSIONS.iter().zip(joins) {
        let seen = json!({
            "event": joined["event"], "protocol": joined["protocol"], "echoed": joined["echoed"],
            "encrypted": joined["encrypted"], "compressed": joined["compressed"],
        });
        let expected = json!({
            "event": "joined", "protocol": protocol, "echoed": true,
            "encrypted": encrypted, "compressed": COMPRESSED.contains(protocol),
        });
        assert_eq!(seen, expected, "{joined}");
        let handshake = servers.event("handshake", version).await;
        let host = format!("{version}.test");
        assert_eq!(
            (&handshake["protocol"], &handshake["host"]),
            (&json!(protocol), &json!(host)),
            "{handshake}"
        );
    }
}

#[tokio::test]
async fn every_version_wakes_its_server_and_joins_it() {
    if peers::node("serve.js").is_none() {
        return;
    }
    let worlds = tempfile::tempdir().unwrap();
    let mut config = String::new();
    for (version, _) in VERSIONS {
        let (port, world) = (free_port(), worlds.path().join(version));
        std::fs::create_dir(&world).unwrap();
        let mut serve = peers::node("serve.js").unwrap();
        serve.arg(format!("{version}:{port}"));
        let name = version.replace('.', "-");
        let command = as_toml(&serve);
        writeln!(
            config,
            "[server.v{name}]\nhosts = [\"{version}.test\"]\naddress = \"127.0.0.1:{port}\"\n\
             directory = {world:?}\n{command}"
        )
        .unwrap();
    }
    let gate = Gate::start(&config).await;

    let joins = join(&gate, "{version}.test", &[], VERSIONS.map(|(version, _)| version)).await;
    for ((_, protocol), joined) in VERSIONS.iter().zip(joins) {
        assert_eq!((&joined["event"], &joined["protocol"]), (&json!("joined"), &json!(protocol)), "{joined}");
        assert_eq!(joined["echoed"], true, "{joined}");
    }
}

#[tokio::test]
async fn a_transferred_player_and_a_modded_one_reach_the_server_as_they_came() {
    let versions: Vec<_> = TRANSFERRED.into_iter().chain(MODDED.map(|(version, _)| version)).collect();
    let Some(mut servers) = Servers::start(&["--transfers"], &versions).await else { return };
    let gate = Gate::start(&servers.routes()).await;

    for joined in join(&gate, "{version}.test", &["--intent", "3"], TRANSFERRED).await {
        assert_eq!(joined["event"], "joined", "{joined}");
    }
    for version in TRANSFERRED {
        assert_eq!(servers.event("handshake", version).await["intent"], 3);
    }
    for (version, tail) in MODDED {
        let joined = join(&gate, &format!("{version}.TEST{tail}"), &[], [version]).await;
        assert_eq!(joined[0]["event"], "joined", "{}", joined[0]);
        let sent = format!("{version}.TEST{}", tail.replace("\\0", "\0"));
        assert_eq!(servers.event("handshake", version).await["host"], json!(sent));
    }
}

#[tokio::test]
async fn bots_spawn_in_the_world() {
    let (Some(servers), Some(mut bot)) = (Servers::start(&[], &BOTS).await, peers::node("bot.js")) else {
        return;
    };
    let gate = Gate::start(&servers.routes()).await;
    let address = gate.address.to_string();
    let mut bots = Process::start(bot.args(["--connect", &address, "--host", "{version}.test"]).args(BOTS));
    for spawned in ends(&mut bots, BOTS.len()).await {
        assert_eq!(spawned["event"], "spawned", "{spawned}");
    }
}

/// It says that it has the registries the server offers, and gets a server by the bare address.
#[tokio::test]
async fn botmine_joins_by_the_default_route() {
    let Some(servers) = Servers::start(&[], &BOTMINES).await else { return };
    for version in BOTMINES {
        let Some(mut join) = peers::python("join.py") else { return };
        let address = servers.address(version);
        let gate =
            Gate::start(&format!("[server.survival]\ndefault = true\naddress = \"{address}\"\n")).await;
        let mut botmine = Process::start(join.args([&gate.address.to_string(), version]));
        let joined = &ends(&mut botmine, 1).await[0];
        assert_eq!((&joined["event"], &joined["connected"]), (&json!("joined"), &json!(true)), "{joined}");
    }
}

/// One process with a server for each version.
struct Servers {
    process: Process,
    ports: HashMap<String, u64>,
}

impl Servers {
    async fn start(options: &[&str], versions: &[&str]) -> Option<Self> {
        let mut serve = peers::node("serve.js")?;
        let servers = versions.iter().map(|version| format!("{version}:0"));
        let mut process = Process::start(serve.arg("--until-eof").args(options).args(servers));
        let mut ports = HashMap::new();
        for &version in versions {
            let listening = peers::event(&mut process, "its port", LIMIT, |event| {
                event["event"] == "listening" && event["version"] == version
            });
            ports.insert(version.to_owned(), listening.await["port"].as_u64().unwrap());
        }
        Some(Self { process, ports })
    }

    fn address(&self, version: &str) -> String {
        format!("127.0.0.1:{}", self.ports[version])
    }

    /// Each under its version as the hostname: `1.7.10.test`.
    fn routes(&self) -> String {
        let route = |(version, port): (&String, &u64)| {
            let name = version.replace('.', "-");
            format!("[server.v{name}]\nhosts = [\"{version}.test\"]\naddress = \"127.0.0.1:{port}\"\n")
        };
        self.ports.iter().map(route).collect()
    }

    /// What the server of this version said of itself, the last time it said such a thing.
    async fn event(&mut self, name: &str, version: &str) -> Value {
        let find = |lines: &[String]| {
            peers::events(lines).filter(|event| event["event"] == name && event["version"] == version).last()
        };
        self.process.wait_for(name, LIMIT, find).await
    }
}

/// How the join of each version ended.
async fn join<const N: usize>(gate: &Gate, host: &str, options: &[&str], versions: [&str; N]) -> Vec<Value> {
    let mut join = peers::node("join.js").expect("as serve.js");
    let address = gate.address.to_string();
    let mut joins =
        Process::start(join.args(["--connect", &address, "--host", host]).args(options).args(versions));
    ends(&mut joins, N).await
}

async fn ends(clients: &mut Process, count: usize) -> Vec<Value> {
    clients
        .wait_for("every client's end", 4 * LIMIT, |lines| {
            let ends: Vec<_> = peers::events(lines).collect();
            (ends.len() == count).then_some(ends)
        })
        .await
}
