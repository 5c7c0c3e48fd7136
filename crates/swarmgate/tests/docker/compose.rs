//! `examples/compose.yml` as a reader would use it, with stand-ins under the images' real names.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
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
    create(&lab, &group, &["compose.yml"]).await;
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

#[tokio::test]
async fn the_api_is_laid_over_it_for_those_with_a_token() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let Some(lab) = Lab::start(1).await else { return };
    lab.docker("swarm leave --force").await;
    lab.gate_image("swarmgate").await;
    lab.testserver_image("itzg/minecraft-server:latest").await;
    // As the file itself says: for the gate's user alone.
    let tokens = lab.shared("compose").join("api-tokens");
    fs::write(&tokens, format!("me operate {TOKEN}\n")).unwrap();
    chown(&tokens, Some(65532), Some(65532)).unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o400)).unwrap();
    let group = fs::metadata(lab.node(1).socket()).unwrap().gid().to_string();
    create(&lab, &group, &["compose.yml", "api.yml"]).await;
    lab.docker("start minecraft-gate-1").await;

    let _inside = lab.node(1).enter();
    let gate = lab.get("/containers/minecraft-gate-1/json").await;
    let address = gate["NetworkSettings"]["Networks"]["minecraft_minecraft"]["IPAddress"].as_str().unwrap();
    let status = async |path: &str, token: &str| {
        let mut curl = lab.command("curl");
        curl.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--header"]);
        curl.arg(format!("Authorization: Bearer {token}")).arg(format!("http://{address}:9250{path}"));
        String::from_utf8(curl.output().await.unwrap().stdout).unwrap()
    };
    lab.until("a gate", async || (status("/readyz", TOKEN).await == "200").then_some(())).await;
    assert_eq!(status("/v1/services", TOKEN).await, "200");
    assert_eq!(status("/v1/services", "ffffffffffffffffffffffffffffffff").await, "401");
    let logs = lab.command("docker").args(["logs", "minecraft-gate-1"]).output().await.unwrap();
    let logs = String::from_utf8_lossy(&[logs.stdout, logs.stderr].concat()).into_owned();
    assert!(!logs.contains("everybody on this machine") && !logs.contains(TOKEN), "{logs}");
}

/// `docker compose create` of examples that are laid one over the other, or the same by hand where there is no compose.
async fn create(lab: &Lab, group: &str, names: &[&str]) {
    let directory = lab.shared("compose");
    let mut compose = lab.command("docker");
    compose.args(["compose", "--project-name", PROJECT]);
    let mut all = json!({});
    for name in names {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        let text = fs::read_to_string(example).unwrap();
        fs::write(directory.join(name), &text).unwrap();
        compose.arg("--file").arg(directory.join(name));
        let file = serde_saphyr::from_str(&text.replace("${DOCKER_GROUP:?}", group)).unwrap();
        lay_over(&mut all, file);
    }
    compose.args(["create", "--pull", "never"]);
    if compose.env("DOCKER_GROUP", group).output().await.unwrap().status.success() {
        return;
    }
    for network in all["networks"].as_object().unwrap().keys() {
        lab.docker(&format!("network create {PROJECT}_{network}")).await;
    }
    for (name, service) in all["services"].as_object().unwrap() {
        let path = format!("/containers/create?name={PROJECT}-{name}-1");
        let mut created = container(service);
        for secret in service["secrets"].as_array().into_iter().flatten() {
            let source = text(&secret["source"]);
            let file = directory.join(text(&all["secrets"][source]["file"]));
            let bind = format!("{}:/run/secrets/{source}:ro", file.display());
            created["HostConfig"]["Binds"].as_array_mut().unwrap().push(bind.into());
        }
        lab.node(1).post(&path, &created).await.success();
    }
}

/// As compose does with maps; of anything else the later one counts.
fn lay_over(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                lay_over(below.entry(key).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
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
            // Of the machine's files, which this does not see.
            "secrets" => {}
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
