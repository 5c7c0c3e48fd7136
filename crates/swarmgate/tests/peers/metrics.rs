//! A Prometheus server reads what the gate says of itself, and what there is for it in `examples/`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use swarmgate_testkit::peers;
use swarmgate_testkit::process::Process;
use swarmgate_testkit::wait::{free_port, until};

use crate::common::{Gate, LIMIT, get};

#[tokio::test]
async fn prometheus_understands_every_line() {
    let Some(mut prometheus) = peers::installed("prometheus") else { return };
    let gate = Gate::start("[server.survival]\nhosts = [\"mc.test\"]\naddress = \"127.0.0.1:1\"\n").await;

    let files = tempfile::tempdir().unwrap();
    let (config, data) = (files.path().join("prometheus.yml"), files.path().join("data"));
    let target = gate.http;
    std::fs::write(
        &config,
        format!(
            "global: {{scrape_interval: 1s}}\n\
             scrape_configs: [{{job_name: gate, static_configs: [{{targets: ['{target}']}}]}}]\n"
        ),
    )
    .unwrap();
    let api = SocketAddr::from(([127, 0, 0, 1], free_port()));
    prometheus.arg(format!("--config.file={}", config.display()));
    prometheus.arg(format!("--storage.tsdb.path={}", data.display()));
    let _prometheus = Process::start(prometheus.arg(format!("--web.listen-address={api}")));

    // One line that it does not understand, and it takes nothing of the page.
    let scraped = until("a scrape", LIMIT, async || {
        let targets = query(api, "/api/v1/targets").await?;
        let target = &targets["data"]["activeTargets"][0];
        (target["health"] != "unknown" && target.is_object()).then(|| target.clone())
    });
    assert_eq!(scraped.await["lastError"], "");
    let state = until("the state", LIMIT, async || {
        let found = query(api, "/api/v1/query?query=swarmgate_service_state").await?;
        found["data"]["result"].as_array().filter(|found| !found.is_empty()).cloned()
    });
    assert!(state.await.iter().any(|series| series["metric"]["job"] == "gate"));
    for expression in dashboard() {
        let path = format!("/api/v1/query?query={}", encoded(&expression));
        let answer = query(api, &path).await.unwrap();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
    }
}

#[tokio::test]
async fn the_examples_for_prometheus_are_right() {
    for arguments in [
        ["check", "config", "examples/prometheus.yml"],
        ["check", "rules", "examples/alerts.yml"],
        ["test", "rules", "tests/prometheus/alerts.yml"],
    ] {
        let Some(mut promtool) = peers::installed("promtool") else { return };
        let ended = promtool.args(arguments).current_dir(root()).output().await.unwrap();
        let said = [ended.stdout, ended.stderr].concat();
        assert!(ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }
}

/// What the dashboard asks for, about all gates and five minutes.
fn dashboard() -> Vec<String> {
    let text = fs::read_to_string(root().join("examples/grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let targets =
        dashboard["panels"].as_array().unwrap().iter().filter_map(|panel| panel["targets"].as_array());
    let expressions = targets.flatten().map(|target| target["expr"].as_str().unwrap());
    let expressions =
        expressions.map(|text| text.replace("$instance", ".*").replace("$__rate_interval", "5m"));
    let expressions: Vec<String> = expressions.collect();
    assert!(expressions.len() > 20, "{expressions:?}");
    expressions
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn query(api: SocketAddr, path: &str) -> Option<Value> {
    let (_, body) = get(api, path).await?;
    serde_json::from_str(&body).ok()
}
