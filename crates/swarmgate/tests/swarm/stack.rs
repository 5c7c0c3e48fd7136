//! `examples/` as a reader would deploy them, with stand-ins under the images' real names.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::site::Site;

#[tokio::test]
async fn the_example_stack_works_as_it_stands() {
    let Some(mut site) = Site::without_gate(1, 1).await else { return };
    site.lab.testserver_image("itzg/minecraft-server:latest").await;
    site.gate = "minecraft_gate";
    site.control = site.lab.node(1).volume("minecraft_gate").join("control.sock");
    deploy(&site, "stack.yml").await;
    site.until_answering().await;
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

    site.lab.docker("stack rm minecraft").await;
    site.lab
        .until("no trace of it", async || {
            let services = site.lab.docker("service ls --quiet").await;
            let containers = site.lab.docker("ps --quiet").await;
            let networks = site.lab.docker("network ls --quiet --filter name=minecraft_minecraft").await;
            (services + &containers + &networks).is_empty().then_some(())
        })
        .await;
    deploy(&site, "stack.yml").await;
    site.until_answering().await;
    site.until_state("minecraft_survival", "asleep").await;
    drop(site.play("survival").await);
}

/// `swarmgate health` is the image's own health check: Swarm calls it running by that alone.
#[tokio::test]
async fn the_image_needs_no_more_than_itself() {
    let Some(site) = Site::without_gate(1, 1).await else { return };
    site.lab
        .docker("service create --detach --name bare --health-interval 200ms --health-retries 1000 swarmgate")
        .await;
    site.lab.until_running("bare").await;
    let mut alone = site.lab.command("docker");
    alone.args(["run", "--rm", "--network", "none", "swarmgate", "health"]);
    let alone = alone.output().await.unwrap();
    assert_eq!(alone.status.code(), Some(1), "where no gate runs: {alone:?}");
    let version =
        site.lab.docker("run --rm --network none --user 1234:1234 --read-only swarmgate --version").await;
    assert!(version.starts_with("swarmgate "), "{version}");
}

async fn deploy(site: &Site, file: &str) {
    let group = fs::metadata(site.lab.node(1).socket()).unwrap().gid();
    let mut deploy = site.lab.command("docker");
    deploy.env("DOCKER_GROUP", group.to_string());
    deploy.args(["stack", "deploy", "--resolve-image", "never", "--compose-file"]);
    site.lab.run(deploy.arg(example(file)).arg("minecraft")).await;
}

fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file)
}
