//! The image of the gate, as `Dockerfile` makes it; in long runs from what `scripts/image` optimises for minutes.

use std::path::{Path, PathBuf};

use serde_json::json;
use swarmgate_testkit::lab::{Lab, static_program};

const TAG: &str = "swarmgate:release";
const BUDGET: u64 = 20 * 1024 * 1024;

#[tokio::test]
async fn the_image_is_one_program_that_needs_no_root_and_nothing_beside_it() {
    let Some(lab) = Lab::start(1).await else { return };
    let program = if std::env::var_os("SWARMGATE_LONG").is_some() {
        released(&lab).await
    } else {
        lab.gate_image(TAG).await;
        static_program("swarmgate", "swarmgate")
    };
    let image = lab.get(&format!("/images/{TAG}/json")).await;
    assert_eq!(image["Config"]["User"], "65532:65532");
    assert_eq!(image["Config"]["Healthcheck"]["Test"], json!(["CMD", "/swarmgate", "health"]));

    lab.docker(&format!("run --detach --name gate --network none --read-only --cap-drop ALL {TAG}")).await;
    lab.until("a healthy gate", async || {
        let gate = lab.get("/containers/gate/json").await;
        (gate["State"]["Health"]["Status"] == "healthy").then_some(())
    })
    .await;
    let program = std::fs::read(program).unwrap();
    assert!(contains(&program, "ISRG Root X1"), "the certificates are inside");
}

/// The program in the image that `scripts/image` makes.
async fn released(lab: &Lab) -> PathBuf {
    let mut script = lab.command("./scripts/image");
    let said = lab.run(script.arg(TAG).current_dir(workspace())).await;
    assert!(said.contains(&format!("The image {TAG} has")), "{said}");
    let image = lab.get(&format!("/images/{TAG}/json")).await;
    assert!(image["Size"].as_u64().unwrap() <= BUDGET, "{}", image["Size"]);
    let label = |name: &str| {
        let label = &image["Config"]["Labels"][format!("org.opencontainers.image.{name}")];
        label.as_str().unwrap().to_owned()
    };
    let version = lab.docker(&format!("run --rm --network none --read-only {TAG} --version")).await;
    assert_eq!(version, format!("swarmgate {} ({})", label("version"), label("revision")));
    let program = workspace().join("target/image/swarmgate");
    assert!(contains(&std::fs::read(&program).unwrap(), "<jemalloc>"), "its allocator");
    program
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn contains(program: &[u8], part: &str) -> bool {
    program.windows(part.len()).any(|bytes| bytes == part.as_bytes())
}
