//! Updates of services of the Swarm, as far as HTTP has a part in them.

use serde_json::json;
use swarmgate_testkit::engine::{FakeEngine, service};
use swarmgate_testkit::wait::until;

use crate::common::{Config, LIMIT};
use crate::{OPERATE, READ, Site};

#[tokio::test]
async fn who_hangs_up_ends_no_update_and_only_services_that_there_are_have_a_metric() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("docker.sock");
    let engine = FakeEngine::start(&socket);
    engine.quietly(|swarm| {
        swarm.may_update_images = true;
        swarm.create(service("web", 1, &json!({"cloudflared.tunnel.enabled": "true"})));
        swarm.add_task("web", "running", "running");
    });
    let docker = format!("swarm = \"on\"\ncontainers = \"off\"\nhost = \"unix://{}\"", socket.display());
    let site = Site::with("", |config| Config { docker, ..config }).await;
    for name in ["nothing", "nobody"] {
        let path = format!("/v1/update/{name}");
        assert_eq!(site.ask("POST", &path).token(OPERATE).send().await.code(), "no_such_service");
    }

    let path = "/v1/update/idweb?image=acme/web:2&wait=true&timeout=60s";
    let asked = site.ask("POST", path).token(OPERATE).open().await;
    until("the update", LIMIT, async || engine.quietly(|swarm| (!swarm.updates.is_empty()).then_some(())))
        .await;
    drop(asked);
    // A page that is answered after that: the gate has seen who is gone.
    assert_eq!(site.ask("GET", "/healthz").send().await.status, 200);
    engine.quietly(|swarm| swarm.reach("web", "running"));
    let counted = |page: &str| {
        let updates = page.lines().filter(|line| line.starts_with("swarmctl_docker_service_updates_total"));
        updates.map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = until("its end", LIMIT, async || {
        let page = site.ask("GET", "/metrics").token(READ).send().await.body;
        Some(counted(&page)).filter(|lines| lines.iter().any(|line| line.contains("web")))
    });
    let mut lines = lines.await;
    lines.sort();
    let line = |name: &str, status: &str, count: u32| {
        format!(
            "swarmctl_docker_service_updates_total{{service_name=\"{name}\",status=\"{status}\"}} {count}"
        )
    };
    assert_eq!(lines, [line("other", "error", 2), line("web", "success", 1)]);
}
