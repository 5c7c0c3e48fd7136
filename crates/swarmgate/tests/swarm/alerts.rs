//! What people are told, and what they are not, by messengers of three kinds that fail now and then.

use std::fs;

use serde_json::Value;
use swarmgate_testkit::lab::container;
use swarmgate_testkit::messengers::{Answer, Messenger, Receiver};

use crate::site::{CONFIG, ENGINE, Site};

/// On the node of the engine that the gate speaks to, and on another.
const NODES: [usize; 2] = [1, 2];

#[tokio::test]
async fn crashes_on_every_node_are_told_and_what_was_meant_is_not() {
    let Some(site) = Site::without_gate(2, 1).await else { return };
    let address = site.lab.node(1).address();
    let (pushover, discord, webhook) = (
        Receiver::start_at(Messenger::Pushover, &address).await,
        Receiver::start_at(Messenger::Discord, &address).await,
        Receiver::start_at(Messenger::Webhook, &address).await,
    );
    let urls = [pushover.url(), discord.url(), webhook.url()];
    let config = format!("{CONFIG}\n[notify]\nurls = {urls:?}\n");
    fs::write(site.lab.shared("config").join("swarmgate.toml"), config).unwrap();
    pushover.inbox().answers = [Answer::Status(500), Answer::Cut].into();
    discord.inbox().answers = [Answer::TooMany(0.3), Answer::Status(503)].into();
    webhook.inbox().answers = [Answer::Hang, Answer::Status(500)].into();
    site.start_gate(ENGINE).await;

    tokio::join!(
        what_is_meant(&site, 1),
        what_is_meant(&site, 2),
        a_stack_that_is_removed(&site),
        killed_while_saving(&site, "save", 1),
    );
    for node in NODES {
        let limit = if node == 1 { "" } else { "--restart-max-attempts 50" };
        let loops =
            format!("{} {limit} --env BOOT_LOG=1 --env EXIT_AFTER_MS=300 --env EXIT_CODE=3", on(node));
        site.service(&format!("crash{node}"), &loops).await;
        site.lab.docker(&format!("service update --detach --replicas 1 crash{node}")).await;
    }
    let crashes = |tasks: &[Value]| tasks.iter().filter(|task| task["Status"]["State"] == "failed").count();
    for node in NODES {
        site.lab
            .until_tasks(&format!("crash{node}"), "a loop", |tasks| (crashes(tasks) > 2).then_some(()))
            .await;
    }

    // What was meant came before; what is told of it would be among these.
    let expected = ["crash1 crashed", "crash2 crashed", "save was killed while it was stopping"];
    for receiver in [&pushover, &discord, &webhook] {
        site.lab
            .until("all alerts", async || {
                let text = receiver.text();
                expected.iter().all(|title| text.contains(title)).then_some(())
            })
            .await;
        assert_eq!(receiver.inbox().complaints, Vec::<String>::new());
        let text = receiver.text();
        for title in expected {
            assert_eq!(text.matches(title).count(), 1, "told once, then counted: {text}");
        }
        for node in NODES {
            assert!(text.contains(&format!("exit code 3, on node node{node}")), "{text}");
        }
        assert!(!text.contains("meant"), "{text}");
        assert_eq!(text.matches("For help, type").count(), 2, "the last words of each: {text}");
    }
    let messages = webhook.inbox().messages.clone();
    let alerts: Vec<&Value> =
        messages.iter().flat_map(|message| message["alerts"].as_array().unwrap()).collect();
    let mut titles: Vec<&str> = alerts.iter().map(|alert| alert["title"].as_str().unwrap()).collect();
    titles.sort_unstable();
    // What starts anew twice a second may find its network not ready yet. That is told, and true.
    titles.retain(|title| !title.starts_with("crash") || title.ends_with("crashed"));
    assert_eq!(titles, expected);
    let of = |title: &str| *alerts.iter().find(|alert| alert["title"] == title).unwrap();
    let text = of("crash2 crashed")["text"].as_str().unwrap();
    assert!(text.contains(", run ") && text.ends_with(" of 51"), "{text}");
    assert_eq!(of("crash1 crashed")["kind"], "crashed");
    assert_eq!(of("save was killed while it was stopping")["kind"], "killed_saving");
}

fn on(node: usize) -> String {
    format!("--constraint node.hostname==node{node}")
}

/// The gate's own sleep, an update and somebody's scale-down, of a server that ends badly when it is told to.
async fn what_is_meant(site: &Site, node: usize) {
    let name = format!("meant{node}");
    site.service(&name, &format!("{} --env STOP_CODE=1", on(node))).await;
    drop(site.play(&name).await);
    site.sleep(&name).await;
    site.until_state(&name, "asleep").await;
    site.lab.docker(&format!("service update --detach --replicas 1 {name}")).await;
    site.until_state(&name, "running").await;
    let before = site.lab.until_running(&name).await["ID"].clone();
    site.lab.docker(&format!("service update --detach --env-add UPDATED=1 {name}")).await;
    site.lab
        .until("another task", async || {
            let task = site.lab.until_running(&name).await;
            (task["ID"] != before).then_some(())
        })
        .await;
    site.until_state(&name, "running").await;
    site.lab.docker(&format!("service update --detach --replicas 0 {name}")).await;
    site.until_state(&name, "asleep").await;
}

/// With a server on each node, which ends badly when it is told to.
async fn a_stack_that_is_removed(site: &Site) {
    let file = site.lab.shared("stack").join("stack.yml");
    let service = |node: usize| {
        format!(
            "  server{node}:\n    image: testserver\n    environment: {{STOP_CODE: \"1\"}}\n    networks: [minecraft]\n    deploy:\n      \
             labels: {{swarmgate.host: server{node}.example.com}}\n      placement: {{constraints: [node.hostname == node{node}]}}\n"
        )
    };
    let services = NODES.map(service).concat();
    fs::write(
        &file,
        format!("version: \"3.8\"\nservices:\n{services}networks:\n  minecraft: {{external: true}}\n"),
    )
    .unwrap();
    let file = file.display();
    site.lab.docker(&format!("stack deploy --resolve-image never --compose-file {file} meant")).await;
    for node in NODES {
        site.until_state(&format!("meant_server{node}"), "running").await;
    }
    site.lab.docker("stack rm meant").await;
    for node in NODES {
        let name = format!("meant_server{node}");
        site.lab.until_tasks(&name, "no task", |tasks| tasks.is_empty().then_some(())).await;
        site.lab.until("no service", async || site.view(&name).await.is_none().then_some(())).await;
    }
}

/// It would have had the time; somebody has none.
async fn killed_while_saving(site: &Site, name: &str, node: usize) {
    let slow = format!("{} --env STOP_DELAY_MS=60000 --stop-grace-period 120s", on(node));
    let (world, mount) = site.world(name);
    site.service(name, &format!("{slow} {mount}")).await;
    drop(site.play(name).await);
    let container = container(&site.lab.until_running(name).await);
    site.sleep(name).await;
    site.until_state(name, "stopping").await;
    site.lab.until("a save", async || world.join("save-begin").exists().then_some(())).await;
    let mut kill = site.lab.node(node).command("docker");
    site.lab.run(kill.args(["kill", "--signal", "KILL", &container])).await;
    let view = site.until_state(name, "asleep").await;
    assert!(view["problems"].to_string().contains("killed before it finished saving"), "{view}");
    assert!(!world.join("save-end").exists());
}
