//! The commands where the gate runs, as a person reads them and as a program does.

use serde_json::{Value, json};
use swarmgate_testkit::lab::task_address;

use crate::site::Site;

/// The lines of a text, without the blanks that make columns of them.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

async fn listed(site: &Site, name: &str) -> Value {
    let all = site.json("services").await;
    all.as_array().unwrap().iter().find(|service| service["name"] == name).cloned().unwrap()
}

async fn replicas(site: &Site, name: &str) -> Value {
    site.lab.service(name).await["Spec"]["Mode"]["Replicated"]["Replicas"].clone()
}

#[tokio::test]
async fn a_service_is_woken_explained_and_put_to_sleep_by_command() {
    let Some(site) = Site::start(1).await else { return };
    site.service("survival", "").await;
    let asleep = listed(&site, "survival").await;
    assert_eq!((&asleep["source"], &asleep["state"]), (&json!("swarm"), &json!("asleep")));
    assert_eq!(asleep["hosts"], json!(["survival.example.com"]));
    assert_eq!(asleep["endpoints"], json!([]));
    let explained = site.json("explain survival.example.com").await;
    assert_eq!((&explained["service"], &explained["matched"]), (&json!("swarm/survival"), &json!("exact")));
    assert_eq!((&explained["state"], &explained["endpoint"]), (&json!("asleep"), &Value::Null));
    assert!(explained["join"].as_str().unwrap().starts_with("starts it; "), "{explained}");

    let woken = site.json("wake survival").await;
    assert_eq!((&woken["name"], &woken["waking"]), (&json!("survival"), &json!(true)));
    let running = site.until_state("survival", "running").await;
    assert_eq!(replicas(&site, "survival").await, 1);
    let address = format!("{}:25565", task_address(&site.lab.until_running("survival").await));
    assert_eq!(running["endpoints"], json!([address]));
    let shown = listed(&site, "survival").await;
    assert_eq!((&shown["state"], &shown["endpoints"]), (&json!("running"), &json!([address])));
    let explained = site.json("explain survival.example.com").await;
    assert_eq!((&explained["state"], &explained["endpoint"]), (&json!("running"), &json!(address)));
    assert_eq!(explained["join"], format!("is relayed to {address}"));
    let told = lines(&site.command("explain survival.example.com").await.out);
    for line in [
        "survival.example.com".to_owned(),
        "service swarm/survival".to_owned(),
        "state running".to_owned(),
        format!("a join is relayed to {address}"),
    ] {
        assert!(told.contains(&line), "{line}: {told:?}");
    }
    let table = lines(&site.command("services").await.out);
    assert_eq!(table[0], "NAME STATE SINCE PLAYERS SLEEPS IN HOSTS");
    assert!(table[1].starts_with("survival running "), "{table:?}");
    assert!(table[1].ends_with(" survival.example.com"), "{table:?}");

    // Not under a player, unless one insists.
    let player = site.play("survival").await;
    let refused = site.command("sleep survival --json").await;
    let error: Value = serde_json::from_str(&refused.err).unwrap();
    assert!(!refused.ok && refused.out.is_empty(), "{}", refused.out);
    assert!(
        error["error"]["message"].as_str().unwrap().contains("swarm/survival has players in it"),
        "{error}"
    );
    assert_eq!(replicas(&site, "survival").await, 1);
    let forced = site.command("sleep survival --force").await;
    assert!(forced.ok && forced.out.starts_with("survival is "), "{}{}", forced.out, forced.err);
    drop(player);
    site.until_state("survival", "asleep").await;
    assert_eq!(replicas(&site, "survival").await, 0);

    let woken = site.command("wake survival").await;
    assert!(woken.ok && woken.out.starts_with("survival is "), "{}{}", woken.out, woken.err);
    site.until_state("survival", "running").await;
    let slept = site.json("sleep survival").await;
    assert_eq!(slept["name"], "survival");
    site.until_state("survival", "asleep").await;
    assert_eq!(replicas(&site, "survival").await, 0);
    let told = lines(&site.command("explain survival.example.com").await.out);
    assert!(told.contains(&"state asleep".to_owned()), "{told:?}");

    // Each step is a line, and leads on from the one before.
    let log = site.log();
    let mut last = "unknown";
    for line in log.lines().filter(|line| line.contains("state changed service=swarm/survival")) {
        let step =
            |what: &str| line.split(&format!("{what}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        assert!(line.contains(" INFO ") && step("why").is_some(), "{line}");
        assert_eq!(step("from"), Some(last), "{line}");
        last = step("to").unwrap();
    }
    assert!(last == "asleep" && log.contains("to=\"running\"") && log.contains("to=\"stopping\""), "{log}");

    let unknown = site.command("wake survivla").await;
    assert!(!unknown.ok && unknown.err.contains("survivla"), "{}", unknown.err);
}

#[tokio::test]
async fn what_failed_says_why_by_every_command() {
    let Some(site) = Site::start(1).await else { return };
    site.service(
        "broken",
        "--restart-condition none --env READY_DELAY_MS=60000 --env EXIT_AFTER_MS=100 --env EXIT_CODE=3",
    )
    .await;
    site.json("wake broken").await;
    site.until_state("broken", "failed").await;
    let why = |value: &Value| value["reason"].as_str().unwrap_or_default().to_owned();
    let shown = listed(&site, "broken").await;
    let explained = site.json("explain broken.example.com").await;
    for json in [&shown, &explained] {
        assert_eq!(json["state"], "failed", "{json}");
        assert!(why(json).contains("exit (3)"), "{json}");
    }
    let reason = why(&shown);
    let table = lines(&site.command("services").await.out);
    assert!(table.iter().any(|line| line.starts_with(&format!("broken failed ({reason}) "))), "{table:?}");
    let told = lines(&site.command("explain broken.example.com").await.out);
    assert!(told.contains(&format!("state failed: {reason}")), "{told:?}");
}

/// Each in the log, in `explain` and in `services`.
#[tokio::test]
async fn what_is_wrong_with_labels_is_told_in_all_three_places() {
    let Some(site) = Site::start(1).await else { return };
    let create = "service create --detach --network minecraft --label swarmgate.host";
    for (name, options, problem) in [
        ("unknown", "--label swarmgate.hots=x testserver", "swarmgate.host"),
        ("value", "--label swarmgate.idle=soon testserver", "swarmgate.idle"),
        ("alias", "--label mc-router.port=many testserver", "mc-router.port"),
        ("quoted", "--label swarmgate.network=\"minecraft\" testserver", "quotes"),
        ("inside", "--container-label swarmgate.idle=1h testserver", "move it to the service"),
        ("global", "--mode global testserver", "deploy it in replicated mode"),
        ("several", "--replicas 2 testserver", "write replicas: 1"),
        ("elsewhere", "--label swarmgate.network=nowhere testserver", "\"nowhere\""),
    ] {
        site.lab.docker(&format!("{create}={name}.example.com --name {name} {options}")).await;
        let told = |view: &Value| {
            let problems = view["problems"].as_array().unwrap();
            problems.iter().filter_map(Value::as_str).find(|told| told.contains(problem)).map(str::to_owned)
        };
        let view = site.until_view(name, "problem", |view| told(view).is_some()).await;
        let problem = told(&view).unwrap();
        let services = site.command("services").await.out;
        assert!(services.contains(&format!("\n{name}: {problem}")), "{problem}: {services}");
        let explained = site.command(&format!("explain {name}.example.com")).await.out;
        assert!(explained.contains(&format!("  problem  {problem}")), "{problem}: {explained}");
        let logged = format!("WARN {problem} service=swarm/{name}");
        site.lab
            .until(&format!("{logged} in the log"), async || site.log().contains(&logged).then_some(()))
            .await;
    }
}
