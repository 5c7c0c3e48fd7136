//! Several nodes, and engines that end.

use serde_json::Value;
use swarmgate_testkit::lab::{Lab, container, is};
use swarmgate_testkit::process::Signal;

use crate::site::{ENGINE, Site, echoes, playing};

#[tokio::test]
async fn a_service_and_its_gate_outlive_their_engine() {
    let Some(mut site) = Site::start(1).await else { return };
    let (world, options) = site.world("world");
    site.service("survival", &format!("{options} --stop-grace-period 60s")).await;
    for signal in [Signal::TERM, Signal::KILL] {
        let mut player = site.play("survival").await;
        assert!(echoes(&mut player).await);
        let before = site.lab.service("survival").await["Spec"].clone();
        site.lab.restart_engine(signal).await;
        // All containers of the node end with its engine, the gate's too; Swarm starts them again.
        site.until_gate_ready().await;
        site.play("survival").await;
        assert_eq!(site.lab.service("survival").await["Spec"], before, "nothing was written");
        assert!(!world.join("world-corrupted").exists());
    }
}

/// Gate and server on a worker, while the manager's engine, which the gate speaks to, comes and goes.
#[tokio::test]
async fn a_game_goes_on_while_the_manager_is_away() {
    let Some(mut site) = Site::without_gate(2, 2).await else { return };
    let engine = site.lab.node(1).socket();
    let engine = engine.parent().unwrap();
    site.start_gate(&format!(
        "--mount type=bind,src={},dst=/engine --env DOCKER_HOST=unix:///engine/docker.sock",
        engine.display()
    ))
    .await;
    site.service("survival", "--constraint node.hostname==node2").await;
    site.service("creative", "--constraint node.hostname==node2").await;
    let mut player = site.play("survival").await;
    let gate = container(&site.lab.until_running("gate").await);
    for (earlier, signal) in [Signal::TERM, Signal::KILL].into_iter().enumerate() {
        let before = site.lab.service("survival").await["Spec"].clone();
        let run = site.lab.until_running("survival").await["ID"].clone();
        site.lab.node_mut(1).stop_engine(signal).await;
        let noticed = async || {
            let logs = site.lab.node(2).command("docker").args(["logs", &gate]).output().await.unwrap();
            let logs = String::from_utf8_lossy(&[logs.stdout, logs.stderr].concat()).into_owned();
            (logs.matches("the source does not answer").count() > earlier).then_some(())
        };
        // The gate has noticed, and its routes stand.
        playing(&mut player, site.lab.until("a gate that has noticed", noticed)).await;
        assert!(echoes(&mut site.play("survival").await).await);
        site.lab.node_mut(1).start_engine().await;
        site.lab
            .until("the Swarm", async || {
                (site.lab.get("/nodes/node2").await["Status"]["State"] == "ready").then_some(())
            })
            .await;
        assert!(echoes(&mut player).await);
        assert_eq!(site.lab.until_running("survival").await["ID"], run);
        assert_eq!(site.lab.service("survival").await["Spec"], before);
    }
    // And it can be written to again.
    drop(site.play("creative").await);
}

#[tokio::test]
async fn a_drained_node_and_a_lost_one_are_no_reason_to_write() {
    let Some(site) = Site::start(2).await else { return };
    site.lab.docker("node update --label-add worlds=1 node2").await;
    site.service("survival", "--constraint node.labels.worlds==1").await;
    site.service("creative", "--constraint node.hostname==node1 --label swarmgate.idle=5s").await;
    drop(site.play("survival").await);
    let mut stays = site.play("creative").await;
    let awake = site.lab.service("survival").await["Spec"].clone();
    let other = site.lab.version("creative").await;
    let lost = playing(&mut stays, async {
        site.lab.docker("node update --availability drain node2").await;
        let told = site.until_view("survival", "without a node", |view| {
            view["state"] == "starting" && view["reason"].to_string().contains("no suitable node")
        });
        told.await;
        site.lab.docker("node update --availability active node2").await;
        let mut player = site.play("survival").await;
        let lost = site.lab.until_running("survival").await;

        // The other node takes over once Swarm has noticed.
        site.lab.docker("node update --label-add worlds=1 node1").await;
        site.lab.cut(2).await;
        let another = site.lab.until_tasks("survival", "another run", |tasks| {
            let new = |task: &&Value| is(task, "running", "running") && task["ID"] != lost["ID"];
            tasks.iter().find(new).cloned()
        });
        assert_ne!(another.await["NodeID"], lost["NodeID"]);
        drop(site.play("survival").await);
        assert!(!echoes(&mut player).await, "its server is out of reach");
        site.lab.heal(2).await;
        site.lab
            .until("the end of the lost copy", async || {
                let states = site.lab.states("survival").await;
                (states.iter().filter(|state| state.starts_with("running/")).count() == 1).then_some(())
            })
            .await;
        drop(site.play("survival").await);
        lost
    })
    .await;
    assert_eq!(site.lab.service("survival").await["Spec"], awake, "nothing was written");
    assert_ne!(site.lab.until_running("survival").await["ID"], lost["ID"]);
    assert_eq!(site.lab.version("creative").await, other, "and nothing to what was out of it all");
    runs_since_it_ran(&site, "creative").await;
}

/// The gate speaks to one of three managers, and it is another that dies: their leader.
#[tokio::test]
async fn a_leader_that_dies_takes_no_server_and_no_player_with_it() {
    let Some(lab) = Lab::start_managers(3).await else { return };
    let mut site = Site::of(lab, 2).await;
    site.start_gate(ENGINE).await;
    site.service("survival", "--constraint node.hostname==node3 --label swarmgate.idle=5s").await;
    site.service("creative", "--constraint node.hostname!=node1").await;
    let mut player = site.play("survival").await;
    let spec = site.lab.service("survival").await["Spec"].clone();
    let run = site.lab.until_running("survival").await["ID"].clone();
    assert_eq!(leader(&site).await.as_deref(), Some("node1"));

    playing(&mut player, async {
        site.lab.node_mut(1).power_off();
        site.lab.ask_through(2);
        // Until the others have elected one of them, no manager answers. What runs is known, and what sleeps starts
        // when one does.
        assert!(echoes(&mut site.play("survival").await).await);
        assert!(echoes(&mut site.play("creative").await).await);
        site.lab.until("another leader", async || leader(&site).await.filter(|name| name != "node1")).await;
    })
    .await;
    runs_since_it_ran(&site, "survival").await;
    assert_eq!(site.lab.until_running("survival").await["ID"], run);
    assert_eq!(site.lab.service("survival").await["Spec"], spec, "nothing was written");
}

/// The gate has believed nothing else of it since.
async fn runs_since_it_ran(site: &Site, name: &str) {
    let id = format!("swarm/{name}");
    let is_about_it = |line: &&str| line.contains("state changed") && line.contains(&id);
    // While a node is gone, Swarm may say that it cannot get all the lines, and give none.
    let logged = async || Some(site.log()).filter(|log| log.lines().any(|line| is_about_it(&line)));
    let log = site.lab.until("the gate's log", logged).await;
    let ran = log.lines().filter(is_about_it).skip_while(|line| !line.contains("to=\"running\""));
    let since: Vec<&str> = ran.skip(1).collect();
    assert_eq!(since, Vec::<&str>::new());
}

/// What the leader of the managers is called, if it can be told.
async fn leader(site: &Site) -> Option<String> {
    let nodes = site.lab.manager().ask("GET", "/nodes", None).await;
    let leads = |node: &&Value| node["ManagerStatus"]["Leader"] == true;
    let leader = nodes.body.as_array()?.iter().find(leads)?;
    leader["Description"]["Hostname"].as_str().map(str::to_owned)
}
