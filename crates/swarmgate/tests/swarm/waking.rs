//! From asleep to a player in the game, and back.

use serde_json::{Value, json};

use crate::site::{Site, echoes};

/// Nearly everything a service can have, so that a wake could lose it.
fn rich(secret: &Value) -> Value {
    let second = 1_000_000_000_u64;
    json!({
        "Name": "survival",
        "Labels": {
            "swarmgate.host": "survival.example.com",
            "swarmgate.idle": "3s",
            "com.example.other": "kept",
        },
        "TaskTemplate": {
            "ContainerSpec": {
                "Image": "testserver",
                "Labels": {"com.example.container": "kept"},
                "Env": ["START_DELAY_MS=300", "READY_DELAY_MS=700"],
                "Healthcheck": {"Test": ["CMD", "/testserver", "health"], "Interval": second / 2, "Retries": 100},
                "StopGracePeriod": 90 * second,
                "Init": true,
                "Hosts": ["192.0.2.1 elsewhere"],
                "DNSConfig": {"Options": ["timeout:3"]},
                "Sysctls": {"net.ipv4.ip_unprivileged_port_start": "0"},
                "CapabilityAdd": ["CAP_NET_RAW"],
                "Ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 2048}],
                "Secrets": [{
                    "File": {"Name": "rcon", "UID": "0", "GID": "0", "Mode": 0o400},
                    "SecretID": secret["ID"],
                    "SecretName": "rcon",
                }],
                "Mounts": [{"Type": "tmpfs", "Target": "/scratch", "TmpfsOptions": {"SizeBytes": 1_048_576}}],
            },
            "Resources": {
                "Limits": {"MemoryBytes": 500_000_000, "Pids": 100},
                "Reservations": {"MemoryBytes": 10_000_000},
            },
            "RestartPolicy": {"Condition": "on-failure", "Delay": second, "MaxAttempts": 3, "Window": 120 * second},
            "Placement": {
                "Constraints": ["node.role==manager"],
                "Preferences": [{"Spread": {"SpreadDescriptor": "node.id"}}],
            },
            "Networks": [{"Target": "minecraft", "Aliases": ["world"]}],
            "LogDriver": {"Name": "json-file", "Options": {"max-size": "1m"}},
        },
        "Mode": {"Replicated": {"Replicas": 0}},
        "UpdateConfig": {"Parallelism": 1, "Delay": second, "FailureAction": "rollback", "Order": "stop-first"},
        "RollbackConfig": {"Parallelism": 1, "FailureAction": "pause"},
    })
}

#[tokio::test]
async fn pings_change_nothing_a_join_one_number_and_sleep_changes_it_back() {
    let Some(site) = Site::start(1).await else { return };
    let secret = site.lab.node(1).post("/secrets/create", &json!({"Name": "rcon", "Data": "c2VjcmV0"})).await;
    site.lab.node(1).post("/services/create", &rich(&secret.success())).await.success();
    site.until_state("survival", "asleep").await;
    let asleep = site.lab.service("survival").await;
    for _ in 0..20 {
        let status = site.ping("survival").await;
        assert!(status.text.contains("asleep"), "{}", status.text);
    }
    assert_eq!(site.lab.service("survival").await, asleep);
    assert_eq!(site.lab.states("survival").await, Vec::<String>::new());

    let mut player = site.play("survival").await;
    let mut awake = site.lab.service("survival").await;
    assert_eq!(awake["Spec"]["Mode"]["Replicated"]["Replicas"], 1);
    awake["Spec"]["Mode"]["Replicated"]["Replicas"] = 0.into();
    assert_eq!(awake["Spec"], asleep["Spec"]);
    let version = site.lab.version("survival").await;
    assert_eq!(site.ping("survival").await.json["players"]["online"], 1);

    // Longer than it may be empty: somebody is in it.
    let view = site
        .until_view("survival", "with a player for 4 s", |view| view["since_seconds"].as_u64() >= Some(4));
    assert_eq!(view.await["state"], "running");
    assert!(echoes(&mut player).await);
    assert_eq!(site.lab.version("survival").await, version);
    drop(player);
    site.until_state("survival", "asleep").await;
    assert_eq!(site.lab.service("survival").await["Spec"], asleep["Spec"]);
    site.lab.until_at_rest("survival").await;
}

/// Two writers, one of them `docker` itself, and in every second round a third who starts the service, too.
#[tokio::test]
async fn others_may_write_to_a_service_while_it_wakes() {
    let Some(site) = Site::start(1).await else { return };
    let rounds = if std::env::var_os("SWARMGATE_LONG").is_some() { 100 } else { 6 };
    for round in 0..rounds {
        let name = format!("world{round}");
        site.service(&name, "").await;
        let by_api = async {
            for count in 1..=10_u32 {
                site.update(&name, |spec| spec["Labels"]["first"] = count.to_string().into()).await;
            }
        };
        let by_command = async {
            for count in 1..=5 {
                until_done(&site, &format!("service update --detach --label-add second={count} {name}"))
                    .await;
            }
        };
        let started = async {
            if round % 2 == 1 {
                until_done(&site, &format!("service scale --detach {name}=1")).await;
            }
        };
        let (player, (), (), ()) = tokio::join!(site.play(&name), by_api, by_command, started);
        let service = site.lab.service(&name).await;
        assert_eq!(service["Spec"]["Mode"]["Replicated"]["Replicas"], 1, "round {round}");
        assert_eq!(service["Spec"]["Labels"]["first"], "10", "round {round}");
        assert_eq!(service["Spec"]["Labels"]["second"], "5", "round {round}");
        assert_eq!(site.lab.states(&name).await, ["running/running"], "one task ever, round {round}");
        drop(player);
        site.lab.docker(&format!("service rm {name}")).await;
    }
}

/// A command of `docker` that changes a service, again whenever somebody else was faster.
async fn until_done(site: &Site, words: &str) {
    site.lab
        .until(words, async || {
            let output = site.lab.command("docker").args(words.split(' ')).output().await.unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() || said.contains("out of sequence"), "{words}: {said}");
            output.status.success().then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_service_created_anew_under_its_name_is_the_same_to_its_players() {
    let Some(site) = Site::start(1).await else { return };
    let (world, options) = site.world("world");
    site.service("survival", &format!("{options} --env STOP_DELAY_MS=2000 --stop-grace-period 30s")).await;
    let mut player = site.play("survival").await;
    site.lab.docker("service rm survival").await;
    // Nobody told the server's players yet: its container stops only seconds later.
    assert!(echoes(&mut player).await);
    site.lab
        .until("that the gate has let go of it", async || site.view("survival").await.is_none().then_some(()))
        .await;
    site.lab.until("the end of its container", async || world.join("save-end").exists().then_some(())).await;
    site.service("survival", &options).await;
    let mut player = site.play("survival").await;
    assert!(echoes(&mut player).await);
    assert!(!world.join("world-corrupted").exists());
}
