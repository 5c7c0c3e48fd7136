//! Schemathesis, which reads the OpenAPI document and asks for all of it, well and badly.

use std::time::Duration;

use serde_json::json;
use swarmgate_testkit::cloudflare::{ACCOUNT, FakeCloudflare, TOKEN as CLOUDFLARE, TUNNEL};
use swarmgate_testkit::engine::{FakeEngine, service};
use swarmgate_testkit::peers;
use swarmgate_testkit::process::Process;
use tokio::sync::broadcast::error::RecvError;

use crate::common::{Config, Gate, Home, Server, tables};

const TOKEN: &str = "operate-0123456789abcdef";

#[tokio::test]
async fn the_api_keeps_what_its_document_promises() {
    if peers::python("api.py").is_none() {
        return;
    }
    let home = Home::new();
    let socket = home.path().join("docker.sock");
    let engine = FakeEngine::start(&socket);
    engine.quietly(|swarm| {
        swarm.may_update_images = true;
        let labels = json!({"swarmgate.publish.host": "web.example.com", "swarmgate.publish.port": "80"});
        swarm.create(service("web", 1, &labels));
        swarm.add_task("web", "running", "running");
    });
    let cloudflare = FakeCloudflare::start().await;
    cloudflare.with(|account| {
        account.add_zone("example.com");
    });
    let survival = Server::new(&home, "survival", &[], "");
    let rest = format!(
        "[api]\ntoken = \"{TOKEN}\"\n[server.hub]\naddress = \"127.0.0.1:1\"\nhosts = [\"hub.example.com\"]\n\
         [cloudflare]\naccount = \"{ACCOUNT}\"\ntunnel = \"{TUNNEL}\"\ntoken = \"{CLOUDFLARE}\"\napi = \"{}\"\n",
        cloudflare.url()
    );
    let docker = format!("swarm = \"on\"\ncontainers = \"off\"\nhost = \"unix://{}\"", socket.display());
    home.write(&Config { docker, ..Config::of(format!("{rest}{}", tables(&[&survival]))) });
    let gate = home.start().await;
    // Its nodes do as they are told, at every change.
    let mut changes = engine.listen_in();
    let nodes = tokio::spawn(async move {
        while !matches!(changes.recv().await, Err(RecvError::Closed)) {
            engine.quietly(|swarm| {
                for task in &mut swarm.tasks {
                    let runs = task["DesiredState"] == "running";
                    task["Status"]["State"] = if runs { "running" } else { "shutdown" }.into();
                }
            });
        }
    });
    ask(&gate, "", 20).await;
    // Of what there is: names that nobody would guess.
    ask(&gate, "[parameters]\n\"path.service\" = \"web\"\n\"path.name\" = \"survival\"\n", 20).await;
    nodes.abort();
    let updated = "swarmctl_docker_service_updates_total{service_name=\"web\",status=\"success\"}";
    assert!(gate.metric(updated).await > 0, "{}", gate.metrics().await);
    let published = gate.control("GET", "/v1/publication", "").await.1;
    assert!(published.contains("web.example.com"), "{published}");
}

/// `settings` are those of a `schemathesis.toml`.
async fn ask(gate: &Gate, settings: &str, at_least: u32) {
    const LIMIT: Duration = Duration::from_secs(240);
    // It keeps notes where it runs.
    let notes = tempfile::tempdir().unwrap();
    std::fs::write(notes.path().join("schemathesis.toml"), settings).unwrap();
    let mut schemathesis = peers::python("api.py").unwrap();
    schemathesis.arg(format!("http://{}", gate.http)).arg(TOKEN).current_dir(&notes);
    let mut run = Process::start(&mut schemathesis);
    let status = run.wait_exit(LIMIT).await;
    let said = run.lines().join("\n");
    assert!(status.success(), "{said}");
    let tested = said.split("Tested: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    assert!(
        tested.and_then(|count| count.parse().ok()).is_some_and(|count: u32| count >= at_least),
        "{said}"
    );
}
