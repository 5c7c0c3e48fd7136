//! What people are told.

use std::fs;

use serde_json::Value;
use swarmgate_testkit::messengers::{Messenger, Receiver};

use crate::site::{CONFIG, ENGINE, Site};

/// On another node than the engine that the gate speaks to.
#[tokio::test]
async fn a_crash_loop_on_another_node_is_told_once_and_what_was_meant_is_not() {
    let Some(site) = Site::without_gate(2, 1).await else { return };
    let receiver = Receiver::start_at(Messenger::Webhook, &site.lab.node(1).address()).await;
    let config = format!("{CONFIG}\n[notify]\nurls = [\"{}\"]\n", receiver.url());
    fs::write(site.lab.shared("config").join("swarmgate.toml"), config).unwrap();
    site.start_gate(ENGINE).await;

    // The gate's own sleep, an update, and somebody's scale-down.
    site.service("calm", "--constraint node.hostname==node2").await;
    drop(site.play("calm").await);
    site.sleep("calm").await;
    site.until_state("calm", "asleep").await;
    site.lab.docker("service update --detach --replicas 1 calm").await;
    site.until_state("calm", "running").await;
    let before = site.lab.until_running("calm").await["ID"].clone();
    site.lab.docker("service update --detach --force calm").await;
    site.until_view("calm", "another run", |view| view["state"] == "running").await;
    site.lab
        .until("another task", async || {
            let task = site.lab.until_running("calm").await;
            (task["ID"] != before).then_some(())
        })
        .await;
    site.lab.docker("service update --detach --replicas 0 calm").await;
    site.until_state("calm", "asleep").await;

    site.service("crash", "--constraint node.hostname==node2 --env EXIT_AFTER_MS=300 --env EXIT_CODE=3")
        .await;
    site.lab.docker("service update --detach --replicas 1 crash").await;
    let alerts: Vec<Value> = site
        .lab
        .until("an alert", async || {
            let inbox = receiver.inbox();
            let all = inbox.messages.iter().flat_map(|message| message["alerts"].as_array().unwrap().clone());
            Some(all.collect::<Vec<_>>()).filter(|all| !all.is_empty())
        })
        .await;
    let crashes = |tasks: &[Value]| tasks.iter().filter(|task| task["Status"]["State"] == "failed").count();
    site.lab.until_tasks("crash", "more crashes", |tasks| (crashes(tasks) > 2).then_some(())).await;
    let titles: Vec<&str> = alerts.iter().map(|alert| alert["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["crash crashed"]);
    assert_eq!(alerts[0]["text"], "exit code 3, on node node2");
    assert_eq!(receiver.inbox().messages.len(), 1, "the others are counted, not told: {}", receiver.text());
}
