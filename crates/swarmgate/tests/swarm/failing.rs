//! Servers that crash, end by themselves or cannot be started.

use std::time::{Duration, Instant};

use serde_json::Value;
use swarmgate_testkit::client::Outcome;
use swarmgate_testkit::lab::{LIMIT, has_ended, is};

use crate::site::Site;

const KILLED: &str = "killed before it finished saving";

#[tokio::test]
async fn what_cannot_start_says_why_and_starts_again_when_asked() {
    let Some(site) = Site::start(1).await else { return };
    tokio::join!(
        gives_up(&site, "crash"),
        ends_by_itself(&site, "done"),
        has_no_image(&site),
        fits_on_no_node(&site),
    );
}

#[tokio::test]
async fn the_length_of_the_task_history_changes_nothing() {
    let Some(site) = Site::start(1).await else { return };
    for limit in [0, 50] {
        site.lab.docker(&format!("swarm update --task-history-limit {limit}")).await;
        let (crash, done) = (format!("crash{limit}"), format!("done{limit}"));
        tokio::join!(gives_up(&site, &crash), ends_by_itself(&site, &done));
    }
}

/// On another node than the engine that the gate speaks to, whose events tell nothing of it: the player's connection
/// does.
#[tokio::test]
async fn a_crash_is_noticed_at_once_and_its_countdown_is_told() {
    // Sooner than the gate looks at a Swarm in which nothing moves.
    const AT_ONCE: Duration = Duration::from_secs(8);
    let Some(site) = Site::start(2).await else { return };
    site.service(
        "gone",
        "--constraint node.hostname==node2 --restart-condition none --env EXIT_AFTER_JOIN_MS=100",
    )
    .await;
    site.enter("gone").await.read_to_end(LIMIT).await.unwrap();
    let crashed = Instant::now();
    site.until_state("gone", "failed").await;
    assert!(crashed.elapsed() < AT_ONCE, "{:?}", crashed.elapsed());

    site.service(
        "back",
        "--constraint node.hostname==node2 --restart-delay 20s --env EXIT_AFTER_JOIN_MS=100",
    )
    .await;
    site.enter("back").await.read_to_end(LIMIT).await.unwrap();
    let crashed = Instant::now();
    let restarting = site.until_state("back", "restarting").await;
    assert!(crashed.elapsed() < AT_ONCE, "{:?}", crashed.elapsed());
    // What the gate says is when Swarm starts it.
    let told = Instant::now() + Duration::from_secs(restarting["restarts_in_seconds"].as_u64().unwrap());
    site.lab
        .until_tasks("back", "the next run", |tasks| {
            tasks.iter().any(|task| task["DesiredState"] == "running").then_some(())
        })
        .await;
    let now = Instant::now();
    let off = now.saturating_duration_since(told).max(told.saturating_duration_since(now));
    assert!(off < Duration::from_secs(8), "off by {off:?}");
}

#[tokio::test]
async fn a_crash_loop_counts_down_in_the_server_list_and_then_tells_its_failure() {
    let Some(site) = Site::start(1).await else { return };
    let texts = "--label mc-router.auto-scale-restart-delay-motd=Back-in-{duration}! \
                 --label mc-router.auto-scale-failed-motd=Broken!";
    for (name, texts) in [("own", texts), ("usual", "")] {
        site.service(
            name,
            &format!(
                "--restart-max-attempts 1 --restart-delay 20s --env READY_DELAY_MS=60000 --env EXIT_AFTER_MS=300 \
                 --env EXIT_CODE=3 {texts}"
            ),
        )
        .await;
        site.wake(name).await;
    }
    let shown = async |name: &str, what: &str| {
        let shows = async || Some(site.ping(name).await.text).filter(|text| text.contains(what));
        site.lab.until(&format!("{what} of {name}"), shows).await
    };
    let left = |text: &str| {
        let left = text.split("Back-in-").nth(1)?.split("s!").next()?;
        Some(left.parse::<u64>().unwrap_or_else(|_| panic!("{text}")))
    };
    let first = left(&shown("own", "Back-in-").await).unwrap();
    assert!((1..=20).contains(&first), "{first}");
    let usual = shown("usual", "stopped unexpectedly").await;
    assert!(usual.contains("It starts again in") && !usual.contains("{countdown}"), "{usual}");
    site.lab
        .until("a countdown that goes down", async || {
            let next = left(&site.ping("own").await.text).expect("still a countdown");
            (next < first).then_some(())
        })
        .await;
    shown("own", "Broken!").await;
    let failed = shown("usual", "Server failed to start.").await;
    assert!(failed.contains("exit (3)"), "{failed}");
}

#[tokio::test]
async fn a_server_that_is_killed_while_it_saves_is_reported() {
    let Some(site) = Site::start(2).await else { return };
    for node in ["node1", "node2"] {
        let constraint = format!("--constraint node.hostname=={node}");
        site.service(node, &format!("{constraint} --env STOP_DELAY_MS=60000 --stop-grace-period 1s")).await;
        for _ in 0..2 {
            drop(site.play(node).await);
            let running = site.until_state(node, "running").await;
            assert!(!running["problems"].to_string().contains(KILLED), "{running}");
            site.sleep(node).await;
            let killed = site.until_state(node, "asleep").await;
            assert!(killed["problems"].to_string().contains(KILLED), "{killed}");
        }
        let log = site.log();
        let told = |line: &&str| line.contains("WARN") && line.contains(node) && line.contains(KILLED);
        assert_eq!(log.lines().filter(told).count(), 2, "each time: {log}");
    }
}

/// Only a look within the quarter of a second after its end can see it there.
#[tokio::test]
async fn a_kill_after_a_long_grace_on_another_node_is_seen() {
    let Some(site) = Site::start(2).await else { return };
    let options = "--constraint node.hostname==node2 --env STOP_DELAY_MS=90000 --stop-grace-period 55s";
    site.service("long", options).await;
    let rounds = if std::env::var_os("SWARMGATE_LONG").is_some() { 4 } else { 1 };
    for round in 0..rounds {
        drop(site.play("long").await);
        site.sleep("long").await;
        site.until_state("long", "stopping").await;
        let killed = site.until_state("long", "asleep").await;
        assert!(killed["problems"].to_string().contains(KILLED), "round {round}: {killed}");
    }
}

/// A crash loop whose attempts are used up: Swarm never starts it again, unless it is forced.
async fn gives_up(site: &Site, name: &str) {
    site.service(
        name,
        "--restart-max-attempts 1 --restart-delay 1s --env READY_DELAY_MS=60000 --env EXIT_AFTER_MS=300 --env EXIT_CODE=3",
    )
    .await;
    let (outcome, _) = site.join(name).await;
    let Outcome::Kicked(reason) = outcome else { panic!("{outcome:?}") };
    let failed = site.until_state(name, "failed").await;
    assert!(told(&failed).contains('3'), "{failed} {reason}");
    let runs = site.lab.tasks(name).await;
    assert!(runs.iter().all(|task| is(task, "failed", "shutdown")), "{:?}", site.lab.states(name).await);
    let status = site.ping(name).await;
    assert!(status.text.contains('3'), "{}", status.text);

    // Again, also after it was put to sleep with its dead tasks in place.
    for again in ["as it is", "asleep"] {
        if again == "asleep" {
            site.lab.docker(&format!("service update --detach --replicas 0 {name}")).await;
            site.until_state(name, "asleep").await;
        }
        let before = ids(&site.lab.tasks(name).await);
        // A join during the cooldown is refused, and no start: each try makes another.
        site.lab
            .until(&format!("another run of {name}, {again}"), async || {
                _ = site.join(name).await;
                ids(&site.lab.tasks(name).await).iter().any(|id| !before.contains(id)).then_some(())
            })
            .await;
        site.until_state(name, "failed").await;
    }
}

/// `/stop` in the game: it ended well, and a join starts it again.
async fn ends_by_itself(site: &Site, name: &str) {
    site.service(name, "--restart-condition on-failure --env EXIT_AFTER_JOIN_MS=100 --env EXIT_CODE=0").await;
    for _ in 0..2 {
        let mut player = site.enter(name).await;
        player.read_to_end(LIMIT).await.unwrap();
        site.until_state(name, "asleep").await;
        assert_eq!(site.lab.service(name).await["Spec"]["Mode"]["Replicated"]["Replicas"], 1);
        assert!(site.lab.tasks(name).await.iter().all(has_ended));
    }
}

async fn has_no_image(site: &Site) {
    site.service("missing", "--restart-max-attempts 1").await;
    site.lab.docker("service update --detach --image nowhere/nothing:1 missing").await;
    let (outcome, _) = site.join("missing").await;
    assert!(matches!(outcome, Outcome::Kicked(_)), "{outcome:?}");
    let failed = site.until_state("missing", "failed").await;
    assert!(told(&failed).contains("nowhere/nothing"), "{failed}");
    // Once there is one, a join is enough.
    site.lab.testserver_image("nowhere/nothing:1").await;
    site.lab
        .until("a join", async || {
            matches!(site.join("missing").await.0, Outcome::Joined { .. }).then_some(())
        })
        .await;
}

async fn fits_on_no_node(site: &Site) {
    site.service("picky", "--constraint node.labels.disk==fast").await;
    let join = site.join("picky");
    let told = async {
        let starting =
            site.until_view("picky", "without a node", |view| told(view).contains("no suitable node")).await;
        assert_eq!(starting["state"], "starting", "{starting}");
        // The player who waits gets in as soon as there is one.
        site.lab.docker("node update --label-add disk=fast node1").await;
    };
    let ((outcome, _), ()) = tokio::join!(join, told);
    assert!(matches!(outcome, Outcome::Joined { .. }), "{outcome:?}");
}

fn told(view: &Value) -> String {
    view["reason"].as_str().unwrap_or_default().to_owned()
}

fn ids(tasks: &[Value]) -> Vec<Value> {
    tasks.iter().map(|task| task["ID"].clone()).collect()
}
