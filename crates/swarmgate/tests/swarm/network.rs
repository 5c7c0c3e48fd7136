//! Which address of a task is dialled.

use serde_json::Value;
use swarmgate_testkit::client::Outcome;

use crate::site::Site;

#[tokio::test]
async fn the_task_itself_is_dialled_on_a_network_that_the_gate_shares() {
    let Some(site) = Site::start(1).await else { return };
    site.lab.docker("network create --driver overlay elsewhere").await;
    // A network that comes first, and one whose load balancer this kernel may not have.
    site.service("vip", "--network elsewhere --endpoint-mode vip").await;
    site.service("dnsrr", "--network elsewhere --endpoint-mode dnsrr").await;
    site.service("named", "--network elsewhere --label swarmgate.network=minecraft").await;
    site.service("other-port", "--label swarmgate.port=25570 --env PORT=25570").await;
    for (name, port) in [("vip", 25565), ("dnsrr", 25565), ("named", 25565), ("other-port", 25570)] {
        let player = site.play(name).await;
        let view = site.until_state(name, "running").await;
        let task = site.lab.until_running(name).await;
        assert_eq!(view["endpoints"][0], format!("{}:{port}", address(&task, "minecraft")), "{name}: {view}");
        drop(player);
    }

    // Nowhere to be reached: said, and not dialled in vain.
    site.lab
        .docker(
            "service create --detach --name far --network elsewhere --label swarmgate.host=far.example.com testserver",
        )
        .await;
    site.lab.until_running("far").await;
    let far = site.until_view("far", "without an endpoint", |view| {
        view["endpoints"].as_array().is_some_and(Vec::is_empty)
            && view["problems"].to_string().contains("network")
    });
    assert!(far.await["problems"].to_string().contains("elsewhere"));
    let (outcome, _) = site.join("far").await;
    assert!(matches!(outcome, Outcome::Kicked(_)), "{outcome:?}");
}

/// Where a task is on the network of this name.
fn address(task: &Value, network: &str) -> String {
    let attachments = task["NetworksAttachments"].as_array().unwrap();
    let attachment =
        attachments.iter().find(|attachment| attachment["Network"]["Spec"]["Name"] == network).unwrap();
    attachment["Addresses"][0].as_str().unwrap().split('/').next().unwrap().to_owned()
}
