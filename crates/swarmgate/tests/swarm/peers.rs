//! Clients and a server that nobody here wrote.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::{Value, json};
use swarmgate_testkit::lab::LIMIT;
use swarmgate_testkit::peers;
use swarmgate_testkit::process::Process;
use tokio::process::Command;

use crate::site::Site;

/// Each with a server of its own, which sleeps.
const VERSIONS: [&str; 2] = ["1.8.9", "1.21.8"];

#[tokio::test]
async fn minecraft_protocol_wakes_and_joins_a_server_of_minecraft_protocol() {
    let Some(serve) = peers::node("serve.js") else { return };
    let mut join = peers::node("join.js").unwrap();
    let Some(site) = Site::start(1).await else { return };
    for version in VERSIONS {
        let service = service(&serve, version);
        let name = service["Name"].as_str().unwrap().to_owned();
        site.lab.node(1).post("/services/create", &service).await.success();
        site.until_state(&name, "asleep").await;
    }
    let gate = format!("{}:25565", site.lab.node(1).address());
    join.args(["--connect", &gate, "--host", "{version}.example.com", "--limit", "120"]).args(VERSIONS);
    let mut join = Process::start(&mut join);
    for version in VERSIONS {
        let joined = peers::event(&mut join, version, LIMIT, |event| event["version"] == version).await;
        assert_eq!((&joined["event"], &joined["echoed"]), (&json!("joined"), &json!(true)), "{joined}");
    }
}

/// Its image is only a place for Node.js, whose libraries are the machine's.
fn service(serve: &Command, version: &str) -> Value {
    let serve = serve.as_std();
    let text = |text: &OsStr| text.to_str().unwrap().to_owned();
    let mut arguments: Vec<String> = serve.get_args().map(text).collect();
    let modules = serve.get_envs().find_map(|(name, value)| (name == "NODE_PATH").then_some(value?)).unwrap();
    let scripts = Path::new(&arguments[0]).parent().unwrap().to_str().unwrap().to_owned();
    let libraries = ["/lib", "/lib64", "/usr/lib"].into_iter().filter(|path| Path::new(path).exists());
    let mounts = libraries.map(str::to_owned).chain([text(modules), scripts]);
    let mounts: Vec<Value> = mounts
        .map(|path| json!({"Type": "bind", "Source": path, "Target": path, "ReadOnly": true}))
        .collect();
    arguments.extend(["--address".to_owned(), "0.0.0.0".to_owned(), format!("{version}:25565")]);
    json!({
        "Name": format!("v{}", version.replace('.', "-")),
        "Labels": {"swarmgate.host": format!("{version}.example.com")},
        "TaskTemplate": {
            "ContainerSpec": {
                "Image": "testserver",
                "Command": [text(serve.get_program())],
                "Args": arguments,
                "Env": [format!("NODE_PATH={}", text(modules))],
                "Mounts": mounts,
                "StopGracePeriod": 60_000_000_000_u64,
            },
            "Networks": [{"Target": "minecraft"}],
        },
        "Mode": {"Replicated": {"Replicas": 0}},
    })
}
