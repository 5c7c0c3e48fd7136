//! `examples/` as a reader would deploy them, with stand-ins under the images' real names.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::site::Site;

/// A Swarm whose gate will be the one of the example stack.
async fn for_the_example() -> Option<Site> {
    let mut site = Site::without_gate(1, 1).await?;
    site.gate = "minecraft_gate";
    site.control = site.lab.node(1).volume("minecraft_gate").join("control.sock");
    Some(site)
}

#[tokio::test]
async fn the_example_stack_works_as_it_stands() {
    let Some(site) = for_the_example().await else { return };
    site.lab.testserver_image("itzg/minecraft-server:latest").await;
    deploy(&site, "stack.yml").await;
    site.until_answering().await;
    assert!(!site.log().contains("data_dir /data is"), "its volume has a name: {}", site.log());
    for name in ["minecraft_survival", "minecraft_creative"] {
        let view = site.until_state(name, "asleep").await;
        assert_eq!(view["problems"].as_array().unwrap().len(), 0, "{view}");
    }
    assert!(site.ping("survival").await.text.contains("asleep"));
    assert!(site.ping("creative").await.text.contains("Nobody is building"));
    let player = site.play("survival").await;
    assert_eq!(site.lab.states("minecraft_creative").await, Vec::<String>::new());

    // Deployed again while somebody plays: the file says that it sleeps, and who joins wakes it again.
    deploy(&site, "stack.yml").await;
    site.until_state("minecraft_survival", "stopping").await;
    drop(site.play("survival").await);
    drop(player);
    let log = site.log();
    let lost: Vec<&str> = log.lines().filter(|line| line.contains("somebody else stopped it")).collect();
    let [lost] = lost[..] else { panic!("told once: {lost:?}") };
    assert!(lost.contains("WARN") && lost.contains("minecraft_survival"), "{lost}");

    site.lab.docker("stack rm minecraft").await;
    site.lab
        .until("no trace of it", async || {
            let services = site.lab.docker("service ls --quiet").await;
            let containers = site.lab.docker("ps --quiet").await;
            let networks = site.lab.docker("network ls --quiet --filter name=minecraft_").await;
            (services + &containers + &networks).is_empty().then_some(())
        })
        .await;
    deploy(&site, "stack.yml").await;
    site.until_answering().await;
    site.until_state("minecraft_survival", "asleep").await;
    drop(site.play("survival").await);
}

#[tokio::test]
async fn servers_that_a_deploy_wakes_sleep_again() {
    let Some(site) = for_the_example().await else { return };
    site.lab.testserver_image("itzg/minecraft-server:latest").await;
    deploy(&site, "stack.yml").await;
    site.until_answering().await;
    let names = ["minecraft_survival", "minecraft_creative"];
    for name in names {
        site.until_state(name, "asleep").await;
    }
    // As the example warns: without the line, each deploy starts them all.
    let text = fs::read_to_string(example("stack.yml")).unwrap();
    let labels = "      labels:\n";
    let careless = text.replace("      replicas: 0\n", "").replace("        swarmgate.idle: 20m\n", "");
    let careless = careless.replace(labels, &format!("{labels}        swarmgate.idle: 3s\n"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stack.yml");
    fs::write(&file, careless).unwrap();
    for _ in 0..2 {
        deploy_all(&site, std::slice::from_ref(&file)).await;
        for name in names {
            site.lab.until_running(name).await;
        }
        for name in names {
            site.until_state(name, "asleep").await;
            assert_eq!(site.lab.service(name).await["Spec"]["Mode"]["Replicated"]["Replicas"], 0);
        }
    }
    assert!(!site.log().contains("somebody else stopped it"), "nobody played");
}

#[tokio::test]
async fn the_api_of_the_example_is_for_those_with_a_token() {
    let Some(site) = for_the_example().await else { return };
    let directory = tempfile::tempdir().unwrap();
    for file in ["stack.yml", "api.yml"] {
        fs::copy(example(file), directory.path().join(file)).unwrap();
    }
    let token = "0123456789abcdef0123456789abcdef";
    fs::write(directory.path().join("api-tokens"), format!("me operate {token}\n")).unwrap();
    let files = ["stack.yml", "api.yml"].map(|file| directory.path().join(file));
    deploy_all(&site, &files).await;
    site.until_answering().await;

    let containers = site.lab.docker("network inspect docker_gwbridge --format {{.Containers|json}}").await;
    let containers: Value = serde_json::from_str(&containers).unwrap();
    let id = site.lab.docker("ps --quiet --no-trunc --filter name=minecraft_gate").await;
    let address = containers[id.trim()]["IPv4Address"].as_str().unwrap().split('/').next().unwrap();
    for (path, token, status) in [
        ("/healthz", None, "200"),
        ("/v1/services", None, "401"),
        ("/v1/services", Some("ffffffffffffffffffffffffffffffff"), "401"),
        ("/v1/services", Some(token), "200"),
    ] {
        assert_eq!(status_of(&format!("{address}:9250"), path, token).await, status, "{path} {token:?}");
    }
    let logs = site.log();
    assert!(!logs.contains("everybody may read") && !logs.contains(token), "{logs}");
}

/// `swarmgate health` is the image's own health check: Swarm calls it running by that alone.
#[tokio::test]
async fn the_image_needs_no_more_than_itself() {
    let Some(mut site) = Site::without_gate(1, 1).await else { return };
    site.lab
        .docker("service create --detach --name bare --health-interval 200ms --health-retries 1000 swarmgate")
        .await;
    site.gate = "bare";
    site.lab.until_running("bare").await;
    let says = async || site.log().contains("data_dir /data is a volume without a name").then_some(());
    site.lab.until("a word about its volume", says).await;
    let mut alone = site.lab.command("docker");
    alone.args(["run", "--rm", "--network", "none", "swarmgate", "health"]);
    let alone = alone.output().await.unwrap();
    assert_eq!(alone.status.code(), Some(1), "where no gate runs: {alone:?}");
    let version =
        site.lab.docker("run --rm --network none --user 1234:1234 --read-only swarmgate --version").await;
    assert!(version.starts_with("swarmgate "), "{version}");
}

async fn status_of(address: &str, path: &str, token: Option<&str>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.0\r\nhost: gate\r\n{token}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

async fn deploy(site: &Site, file: &str) {
    deploy_all(site, &[example(file)]).await;
}

async fn deploy_all(site: &Site, files: &[PathBuf]) {
    let group = fs::metadata(site.lab.node(1).socket()).unwrap().gid();
    let mut deploy = site.lab.command("docker");
    deploy.env("DOCKER_GROUP", group.to_string());
    deploy.args(["stack", "deploy", "--resolve-image", "never"]);
    for file in files {
        deploy.arg("--compose-file").arg(file);
    }
    site.lab.run(deploy.arg("minecraft")).await;
}

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file)
}
