//! `examples/compose.yml` as a reader would use it, with stand-ins under the images' real names.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Map, Value, json};
use swarmgate_testkit::client::{Client, Outcome};
use swarmgate_testkit::lab::{LIMIT, Lab};
use swarmgate_testkit::wire::Handshake;

use crate::site::join;

const PROJECT: &str = "minecraft";

#[tokio::test]
async fn the_example_works_as_it_stands() {
    let Some(lab) = Lab::start(1).await else { return };
    lab.docker("swarm leave --force").await;
    lab.gate_image("swarmgate").await;
    lab.testserver_image("itzg/minecraft-server:latest").await;
    let group = fs::metadata(lab.node(1).socket()).unwrap().gid().to_string();
    create(&lab, &group).await;
    lab.docker("start minecraft-gate-1").await;

    let _inside = lab.node(1).enter();
    let gate = format!("{}:25565", lab.node(1).address()).parse().unwrap();
    for (name, text) in [("survival", "is asleep"), ("creative", "Nobody is building")] {
        let ping = Handshake::status(767, &format!("{name}.example.com"));
        lab.until(&format!("{name} asleep"), async || {
            let status = Client::to(gate).status(&ping, LIMIT).await.ok()?;
            status.text.contains(text).then_some(())
        })
        .await;
        let (outcome, _) = join(gate, name).await;
        assert!(matches!(outcome, Outcome::Joined { .. }), "{name}: {outcome:?}");
    }
    let logs = lab.command("docker").args(["logs", "minecraft-gate-1"]).output().await.unwrap();
    let logs = String::from_utf8_lossy(&[logs.stdout, logs.stderr].concat()).into_owned();
    assert!(!logs.contains("WARN") && !logs.contains("ERROR"), "{logs}");
}

/// `docker compose create`, or the same by hand where there is no compose.
async fn create(lab: &Lab, group: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/compose.yml");
    let mut compose = lab.command("docker");
    compose
        .args(["compose", "--project-name", PROJECT, "--file"])
        .arg(&file)
        .args(["create", "--pull", "never"]);
    if compose.env("DOCKER_GROUP", group).output().await.unwrap().status.success() {
        return;
    }
    let text = fs::read_to_string(file).unwrap().replace("${DOCKER_GROUP:?}", group);
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    for network in file["networks"].as_object().unwrap().keys() {
        lab.docker(&format!("network create {PROJECT}_{network}")).await;
    }
    for (name, service) in file["services"].as_object().unwrap() {
        let path = format!("/containers/create?name={PROJECT}-{name}-1");
        lab.node(1).post(&path, &container(service)).await.success();
    }
}

/// A service of the file as the engine wants it. A key that is not known here fails the test.
fn container(service: &Value) -> Value {
    let mut created = json!({"Labels": {}, "HostConfig": {}});
    created["Labels"]["com.docker.compose.project"] = PROJECT.into();
    for (key, value) in service.as_object().unwrap() {
        match key.as_str() {
            "image" => created["Image"] = value.clone(),
            "user" => created["User"] = value.clone(),
            "environment" => {
                let set = value.as_object().unwrap().iter();
                created["Env"] = set.map(|(name, value)| format!("{name}={}", text(value))).collect();
            }
            "labels" => created["Labels"].as_object_mut().unwrap().extend(value.as_object().unwrap().clone()),
            "restart" => created["HostConfig"]["RestartPolicy"] = json!({"Name": value}),
            "stop_grace_period" => {
                created["StopTimeout"] = text(value).trim_end_matches('s').parse::<u64>().unwrap().into();
            }
            "ports" => {
                for port in value.as_array().unwrap() {
                    let (host, inside) = text(port).split_once(':').unwrap();
                    let inside = format!("{inside}/tcp");
                    created["ExposedPorts"][&inside] = Map::new().into();
                    created["HostConfig"]["PortBindings"][inside] = json!([{"HostPort": host}]);
                }
            }
            "networks" => {
                created["HostConfig"]["NetworkMode"] = format!("{PROJECT}_{}", text(&value[0])).into();
            }
            "volumes" => {
                let named = |volume: &Value| match text(volume) {
                    path if path.starts_with('/') => path.to_owned(),
                    name => format!("{PROJECT}_{name}"),
                };
                created["HostConfig"]["Binds"] = value.as_array().unwrap().iter().map(named).collect();
            }
            other => panic!("{other} is not known here"),
        }
    }
    created
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
