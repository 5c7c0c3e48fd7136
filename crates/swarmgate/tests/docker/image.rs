//! `scripts/image`: what is released.

use std::path::Path;

use serde_json::json;
use swarmgate_testkit::lab::Lab;

const TAG: &str = "swarmgate:release";
const BUDGET: u64 = 20 * 1024 * 1024;

/// Minutes of optimising, so in long runs only.
#[tokio::test]
async fn the_image_of_a_release_is_one_small_program_that_needs_no_root() {
    if std::env::var_os("SWARMGATE_LONG").is_none() {
        return;
    }
    let Some(lab) = Lab::start(1).await else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut script = lab.command("./scripts/image");
    let said = lab.run(script.arg(TAG).current_dir(&root)).await;
    assert!(said.contains("The image swarmgate:release has"), "{said}");

    let image = lab.get(&format!("/images/{TAG}/json")).await;
    assert!(image["Size"].as_u64().unwrap() <= BUDGET, "{}", image["Size"]);
    let config = &image["Config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Healthcheck"]["Test"], json!(["CMD", "/swarmgate", "health"]));
    let version = lab.docker(&format!("run --rm --network none --read-only {TAG} --version")).await;
    let (label, commit) = (
        |name: &str| {
            config["Labels"][format!("org.opencontainers.image.{name}")].as_str().unwrap().to_owned()
        },
        version.split(['(', ')']).nth(1).unwrap(),
    );
    assert_eq!(version, format!("swarmgate {} ({commit})", label("version")));
    assert_eq!(label("revision"), commit);

    // It runs, and says so by its own health check.
    lab.docker(&format!("run --detach --name gate --network none --read-only --cap-drop ALL {TAG}")).await;
    lab.until("a healthy gate", async || {
        let gate = lab.get("/containers/gate/json").await;
        (gate["State"]["Health"]["Status"] == "healthy").then_some(())
    })
    .await;

    // Certificates and the allocator are in the program: there is nothing beside it.
    let target = root.join("target/image/swarmgate");
    let program = std::fs::read(target).unwrap();
    for part in ["ISRG Root X1", "<jemalloc>"] {
        let there = program.windows(part.len()).any(|bytes| bytes == part.as_bytes());
        assert!(there, "{part}");
    }
}
