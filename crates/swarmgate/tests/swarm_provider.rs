//! The Swarm source against an engine over HTTP on a socket: what it believes, what it writes, and what it
//! does when the engine refuses, stumbles or ends.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use swarmgate::alarm::Alarm;
use swarmgate::clock::Clock;
use swarmgate::engine::Engine;
use swarmgate::provider::Source;
use swarmgate::provider::swarm::SwarmSource;
use swarmgate_core::config::{Config, EngineHost};
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Service, State};
use swarmgate_testkit::engine::proxy::Proxy;
use swarmgate_testkit::engine::{FakeEngine, Fault, Swarm, service};
use swarmgate_testkit::wait::until;
use tokio::sync::watch;

const LIMIT: Duration = Duration::from_secs(10);

/// An engine with one labelled service `mc`, and the source that reads it.
struct Lab {
    dir: tempfile::TempDir,
    engine: FakeEngine,
    source: SwarmSource,
    _config: watch::Sender<Arc<Config>>,
    start: Instant,
}

impl Lab {
    fn new(replicas: u64) -> Self {
        Self::with(replicas, None)
    }

    fn with(replicas: u64, container: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = FakeEngine::start(&dir.path().join("docker.sock"));
        engine
            .quietly(|swarm| swarm.create(service("mc", replicas, &json!({"mc-router.host": "mc.example"}))));
        let (source, config) = source(dir.path().join("docker.sock"), container);
        Self { dir, engine, source, _config: config, start: Instant::now() }
    }

    fn now(&self) -> Moment {
        Moment::after_start(self.start.elapsed())
    }

    fn swarm<R>(&self, act: impl FnOnce(&mut Swarm) -> R) -> R {
        self.engine.quietly(act)
    }

    async fn service(&mut self) -> Service {
        let now = self.now();
        let snapshot = self.source.list(now).await.unwrap();
        snapshot.services.into_iter().find(|service| &*service.id.name == "mc").unwrap()
    }

    async fn word(&mut self) -> &'static str {
        self.service().await.state.word()
    }

    async fn scale(&mut self, up: bool) -> Result<(), String> {
        let now = self.now();
        self.source.scale("mc", up, now).await.map_err(|error| error.to_string())
    }

    fn no_complaints(&self) {
        assert_eq!(self.swarm(|swarm| swarm.complaints.clone()), Vec::<String>::new());
    }
}

fn source(socket: PathBuf, container: Option<&str>) -> (SwarmSource, watch::Sender<Arc<Config>>) {
    let config = swarmgate_core::config::parse("", &[]).unwrap().config;
    let (send, receive) = watch::channel(Arc::new(config));
    let engine = Engine::new(EngineHost::Unix(socket));
    let alarm = Alarm::off(Clock::start());
    (SwarmSource::new(engine, container.map(str::to_owned), receive, alarm), send)
}

fn reason(service: &Service) -> String {
    service.state.reason().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_wake_changes_the_replicas_and_nothing_else() {
    let mut lab = Lab::new(0);
    assert_eq!(lab.word().await, "asleep");
    let before = lab.swarm(|swarm| swarm.service("mc")["Spec"].to_string());
    lab.scale(true).await.unwrap();
    let sent = lab.swarm(|swarm| swarm.updates.clone());
    assert_eq!(sent, [before.replace(r#""Replicas":0"#, r#""Replicas":1"#)], "text for text");
    assert_eq!(lab.word().await, "starting");
    lab.scale(true).await.unwrap();
    assert_eq!(lab.swarm(|swarm| swarm.updates.len()), 1, "it is on its way");

    lab.swarm(|swarm| swarm.reach("mc", "running"));
    let State::Running(running) = lab.service().await.state else { panic!("it runs") };
    assert_eq!((&*running.run, running.endpoints[0].to_string().as_str()), ("task1", "10.9.0.1:25565"));
    lab.no_complaints();
}

#[tokio::test]
async fn until_its_task_is_listed_a_woken_service_is_starting() {
    let mut lab = Lab::new(0);
    lab.word().await;
    lab.swarm(|swarm| {
        swarm.add_task("mc", "failed", "shutdown");
        // Long enough ago that its update tells nothing.
        swarm.clock_ahead = Duration::from_secs(3600);
    });
    lab.scale(true).await.unwrap();
    let new = lab.swarm(|swarm| swarm.tasks.pop().unwrap());
    lab.swarm(|swarm| swarm.clock_ahead = Duration::from_secs(7200));
    lab.word().await;
    assert_eq!(lab.word().await, "starting");
    let mut failed = new;
    failed["Status"]["State"] = "rejected".into();
    failed["DesiredState"] = "shutdown".into();
    lab.swarm(|swarm| swarm.tasks.push(failed));
    assert_eq!(lab.word().await, "failed", "its own task is believed at once");
}

#[tokio::test]
async fn a_service_that_gave_up_starts_again() {
    let mut lab = Lab::new(0);
    lab.swarm(|swarm| {
        swarm.add_task("mc", "failed", "shutdown");
        swarm.add_task("mc", "failed", "shutdown");
    });
    assert_eq!(lab.word().await, "asleep");
    lab.scale(true).await.unwrap();
    let forced = lab.swarm(|swarm| swarm.service("mc")["Spec"]["TaskTemplate"]["ForceUpdate"].clone());
    assert_eq!(forced, 4);
    assert_eq!(lab.word().await, "starting");
    assert_eq!(lab.swarm(|swarm| swarm.tasks.len()), 3);
    lab.no_complaints();
}

#[tokio::test]
async fn updates_by_others_are_read_and_decided_on_again() {
    let mut lab = Lab::new(0);
    lab.word().await;
    lab.swarm(|swarm| swarm.interfere = 7);
    lab.scale(true).await.unwrap();
    let (updates, labels) =
        lab.swarm(|swarm| (swarm.updates.len(), swarm.service("mc")["Spec"]["Labels"].clone()));
    assert_eq!((updates, labels["changed"].as_str()), (1, Some("again")), "theirs is kept");
    lab.no_complaints();

    lab.swarm(|swarm| swarm.reach("mc", "running"));
    assert_eq!(lab.word().await, "running");
    lab.swarm(|swarm| swarm.interfere = u32::MAX);
    let why = lab.scale(false).await.unwrap_err();
    assert!(why.contains("another tool"), "{why}");
}

#[tokio::test]
async fn an_update_without_an_answer_is_looked_after_not_made_twice() {
    let mut lab = Lab::new(0);
    lab.word().await;
    lab.swarm(|swarm| swarm.fail("POST /services/idmc/update", Fault::Cut));
    lab.scale(true).await.unwrap();
    assert_eq!(lab.swarm(|swarm| (swarm.updates.len(), swarm.tasks.len())), (1, 1));
    assert_eq!(lab.word().await, "starting");
}

#[tokio::test]
async fn nothing_starts_beside_a_task_that_is_stopping() {
    let mut lab = Lab::new(1);
    lab.swarm(|swarm| swarm.add_task("mc", "running", "running"));
    assert_eq!(lab.word().await, "running");
    lab.scale(false).await.unwrap();
    assert_eq!(lab.swarm(|swarm| swarm.replicas("mc")), 0);
    assert_eq!(lab.word().await, "stopping");
    let why = lab.scale(true).await.unwrap_err();
    assert!(why.contains("still stopping"), "{why}");
    lab.scale(false).await.unwrap();
    assert_eq!(lab.swarm(|swarm| swarm.updates.len()), 1);

    lab.swarm(|swarm| swarm.tasks.clear());
    assert_eq!(lab.word().await, "asleep");
    lab.scale(true).await.unwrap();
    assert_eq!(lab.swarm(|swarm| swarm.tasks.len()), 1);
    lab.no_complaints();
}

#[tokio::test]
async fn nothing_starts_beside_a_task_of_a_service_that_was_removed() {
    let mut lab = Lab::new(1);
    lab.swarm(|swarm| swarm.add_task("mc", "running", "running"));
    assert_eq!(lab.word().await, "running");
    lab.swarm(|swarm| swarm.remove("mc"));
    let now = lab.now();
    assert_eq!(lab.source.list(now).await.unwrap().services, []);
    lab.swarm(|swarm| swarm.create(service("mc", 0, &json!({"mc-router.host": "mc.example"}))));
    assert_eq!(lab.word().await, "stopping");
    let why = lab.scale(true).await.unwrap_err();
    assert!(why.contains("was removed"), "{why}");
    lab.swarm(|swarm| swarm.tasks.clear());
    lab.scale(true).await.unwrap();
    assert_eq!(lab.word().await, "starting");
    lab.no_complaints();
}

#[tokio::test]
async fn a_stop_is_for_the_task_it_was_decided_for() {
    let mut lab = Lab::new(1);
    lab.swarm(|swarm| swarm.add_task("mc", "running", "running"));
    lab.word().await;
    lab.swarm(|swarm| {
        swarm.reach("mc", "failed");
        swarm.add_task("mc", "running", "running");
    });
    let why = lab.scale(false).await.unwrap_err();
    assert!(why.contains("another task"), "{why}");
    assert_eq!(lab.word().await, "running");
    lab.scale(false).await.unwrap();
}

#[tokio::test]
async fn several_replicas_are_not_stopped() {
    let mut lab = Lab::new(2);
    assert!(!lab.service().await.scalable);
    let why = lab.scale(false).await.unwrap_err();
    assert!(why.contains("set replicas to 1"), "{why}");
    assert_eq!(lab.swarm(|swarm| swarm.updates.len()), 0);
}

#[tokio::test]
async fn a_service_that_is_gone_is_not_listed_and_not_scaled() {
    let mut lab = Lab::new(0);
    lab.word().await;
    lab.swarm(|swarm| swarm.remove("mc"));
    assert!(lab.scale(true).await.unwrap_err().contains("no service"));
    let now = lab.now();
    assert_eq!(lab.source.list(now).await.unwrap().services, []);
}

#[tokio::test]
async fn an_error_is_not_an_empty_swarm() {
    let mut lab = Lab::new(0);
    lab.word().await;
    let no_leader = "The swarm does not have a leader.";
    for (call, fault, part) in [
        ("GET /services", Fault::Status(500, no_leader.into()), no_leader),
        (
            "GET /tasks",
            Fault::Status(503, "This node is not a swarm manager. Use".into()),
            "docker swarm init",
        ),
        ("GET /tasks", Fault::Cut, "GET /tasks on unix://"),
    ] {
        lab.swarm(|swarm| swarm.fail(call, fault));
        let now = lab.now();
        let error = lab.source.list(now).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(lab.word().await, "asleep");
    lab.engine.stop();
    let now = lab.now();
    let error = lab.source.list(now).await.unwrap_err().to_string();
    assert!(error.contains("there is no such socket"), "{error}");
}

#[tokio::test]
async fn that_there_is_no_swarm_any_more_is_not_known_from_one_answer() {
    for earlier in [true, false] {
        let mut lab = Lab::new(0);
        lab.source = lab.source.with_earlier(earlier);
        let none = r#"This node is not a swarm manager. Use "docker swarm init" or "docker swarm join""#;
        let none = Fault::Status(503, none.into());
        lab.swarm(|swarm| swarm.fail("GET /services", none));
        let now = lab.now();
        assert_eq!(lab.source.list(now).await.is_err(), earlier);
    }
}

#[tokio::test]
async fn what_is_refused_costs_only_what_it_is_for() {
    let mut lab = Lab::new(0);
    lab.swarm(|swarm| ["GET /nodes", "GET /events", "POST "].iter().for_each(|call| swarm.forbid(call)));
    assert_eq!(lab.word().await, "asleep");
    let why = lab.scale(true).await.unwrap_err();
    assert!(why.contains("docs/permissions.md"), "{why}");
    lab.swarm(Swarm::allow_all);
    lab.scale(true).await.unwrap();
    lab.swarm(|swarm| swarm.forbid("GET /services"));
    let now = lab.now();
    assert!(lab.source.list(now).await.is_err());
}

#[tokio::test]
async fn nothing_is_written_while_nothing_happens() {
    let mut lab = Lab::new(0);
    lab.swarm(|swarm| {
        swarm.create(service("up", 1, &json!({"swarmgate.host": "up.example"})));
        swarm.add_task("up", "running", "running");
        swarm.create(service("broken", 1, &json!({"swarmgate.host": "broken.example"})));
        swarm.add_task("broken", "failed", "shutdown");
    });
    let versions = |swarm: &mut Swarm| ["mc", "up", "broken"].map(|name| swarm.version(name));
    let before = lab.swarm(versions);
    for _ in 0..5 {
        lab.word().await;
    }
    assert_eq!(lab.swarm(versions), before);
    let writes = lab.swarm(|swarm| swarm.calls.iter().filter(|call| !call.starts_with("GET ")).count());
    assert_eq!(writes, 1, "the one that tries whether updates are allowed");
    lab.no_complaints();
}

#[tokio::test]
async fn an_engine_without_a_swarm_is_no_trouble_until_there_was_one() {
    let mut lab = Lab::new(0);
    lab.swarm(|swarm| swarm.alone = true);
    let now = lab.now();
    assert_eq!(lab.source.list(now).await.unwrap().services, []);
    lab.swarm(|swarm| swarm.alone = false);
    assert_eq!(lab.word().await, "asleep");
    lab.swarm(|swarm| swarm.alone = true);
    assert!(lab.source.list(now).await.is_err(), "it was one, so its services still stand");
}

/// Waits for `changed` to return, and gives back whether it did in time.
async fn is_told(lab: &mut Lab) -> bool {
    tokio::time::timeout(Duration::from_secs(5), lab.source.changed()).await.is_ok()
}

async fn quiet(lab: &mut Lab) {
    until("the event stream", LIMIT, async || (lab.engine.streams() == 1).then_some(())).await;
    lab.word().await;
    while tokio::time::timeout(Duration::from_millis(200), lab.source.changed()).await.is_ok() {
        lab.word().await;
    }
}

#[tokio::test]
async fn events_are_hints_through_any_number_of_streams() {
    let mut lab = Lab::new(0);
    quiet(&mut lab).await;
    lab.engine
        .update("mc", |swarm| swarm.edit("mc", |spec| spec["Mode"]["Replicated"]["Replicas"] = 1.into()));
    assert!(is_told(&mut lab).await, "an event");
    assert_eq!(lab.word().await, "starting");
    lab.swarm(|swarm| swarm.edit("mc", |spec| spec["Mode"]["Replicated"]["Replicas"] = 0.into()));
    for _ in 0..3 {
        quiet(&mut lab).await;
        lab.engine.cut_streams();
        assert!(is_told(&mut lab).await, "the end of the stream");
    }
    quiet(&mut lab).await;
    lab.engine.stop();
    assert!(is_told(&mut lab).await, "the end of the engine");
    lab.engine.listen();
    quiet(&mut lab).await;
    lab.engine.update("mc", |_| {});
    assert!(is_told(&mut lab).await, "an event after the engine's return");
    assert_eq!(lab.engine.streams(), 1);
}

#[tokio::test]
async fn a_stream_that_is_always_cut_is_opened_ever_less_often() {
    let lab = Lab::new(0);
    let began = Instant::now();
    for _ in 0..5 {
        until("the event stream", LIMIT, async || (lab.engine.streams() == 1).then_some(())).await;
        lab.engine.cut_streams();
        until("its end", LIMIT, async || (lab.engine.streams() == 0).then_some(())).await;
    }
    // 0.25 s, 0.5 s, 1 s and 2 s.
    assert!(began.elapsed() > Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_moves_is_looked_at_without_events() {
    let mut lab = Lab::new(1);
    lab.swarm(|swarm| swarm.forbid("GET /events"));
    lab.swarm(|swarm| swarm.add_task("mc", "starting", "running"));
    assert_eq!(lab.word().await, "starting");
    lab.swarm(|swarm| swarm.reach("mc", "running"));
    assert!(is_told(&mut lab).await);
    assert_eq!(lab.word().await, "running");
}

#[tokio::test]
async fn after_its_grace_a_stop_is_looked_at_often_enough_to_see_a_kill() {
    let mut lab = Lab::new(0);
    quiet(&mut lab).await;
    lab.swarm(|swarm| swarm.add_task("mc", "running", "remove"));
    assert_eq!(lab.word().await, "stopping");
    // A minute later, by both clocks: the grace is the engine's 10 s.
    let minute = Duration::from_secs(60);
    lab.swarm(|swarm| {
        swarm.task("mc")["UpdatedAt"] =
            (jiff::Timestamp::now() + minute - Duration::from_secs(11)).to_string().into();
        swarm.clock_ahead = minute;
    });
    // A listing takes in the engine's clock at its end.
    lab.source.list(lab.now() + minute).await.unwrap();
    let began = Instant::now();
    let mut looks = 0;
    while began.elapsed() < Duration::from_secs(3) {
        lab.source.list(lab.now() + minute).await.unwrap();
        looks += 1;
        assert!(is_told(&mut lab).await);
    }
    assert!(looks > 12, "{looks} in 3 s");
}

#[tokio::test]
async fn the_engines_clock_counts() {
    let mut lab = Lab::new(1);
    lab.swarm(|swarm| {
        swarm.clock_ahead = Duration::from_secs(3600);
        swarm.add_task("mc", "failed", "shutdown");
        swarm.add_task("mc", "ready", "ready");
    });
    lab.word().await;
    let now = lab.now();
    let service = lab.service().await;
    let State::Restarting { until, .. } = service.state else { panic!("{service:?}") };
    let left = now.until(until);
    assert!(left > Duration::from_secs(2) && left < Duration::from_secs(7), "{left:?}");
}

#[tokio::test]
async fn the_gates_own_networks_are_found_by_its_task_or_its_container() {
    let on = |networks: Value| json!({"NetworkSettings": {"Networks": networks}});
    let elsewhere = on(json!({"bridge": {"NetworkID": "b1"}}));
    let here = on(json!({"bridge": {"NetworkID": "b1"}, "games": {"NetworkID": "net1"}}));
    for (container, reachable) in [(Some(elsewhere), false), (Some(here), true), (None, true)] {
        let mut lab = Lab::with(1, Some("abc"));
        lab.swarm(|swarm| {
            swarm.add_task("mc", "running", "running");
            swarm.containers.extend(container.clone().map(|container| ("abc".to_owned(), container)));
        });
        let service = lab.service().await;
        let State::Running(running) = &service.state else { panic!("{service:?}") };
        assert_eq!(running.endpoints.len(), usize::from(reachable), "{container:?} {:?}", service.problems);
    }
    let mut lab = Lab::with(1, Some("abc"));
    lab.swarm(|swarm| {
        swarm.create(service("gate", 1, &json!({})));
        swarm.add_task("gate", "running", "running");
        swarm.task("gate")["Status"]["ContainerStatus"]["ContainerID"] = "abcdef".into();
        swarm.task("gate")["NetworksAttachments"][0]["Network"]["ID"] = "net2".into();
        swarm.add_task("mc", "running", "running");
    });
    let service = lab.service().await;
    assert!(service.problems.iter().any(|problem| problem.contains("on none of its networks")));
    let asked = lab.swarm(|swarm| swarm.calls.iter().any(|call| call.starts_with("GET /containers")));
    assert!(!asked, "its task says it all");
}

/// The calls of the table for a Swarm in `docs/permissions.md`.
fn documented_calls() -> Vec<String> {
    let page = include_str!("../../../docs/permissions.md");
    let section = page.split("\n## ").find(|section| section.starts_with("For services of a Swarm"));
    let rows = section.unwrap().lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(call, _)| call.to_owned()).collect()
}

#[tokio::test]
async fn the_documented_calls_are_enough() {
    let mut lab = Lab::new(0);
    let (proxy_socket, engine) = (lab.dir.path().join("proxy.sock"), lab.dir.path().join("docker.sock"));
    let proxy = Proxy::start(&proxy_socket, &engine, documented_calls());
    (lab.source, lab._config) = source(proxy_socket, Some("abc"));
    quiet(&mut lab).await;
    lab.scale(true).await.unwrap();
    lab.swarm(|swarm| swarm.reach("mc", "running"));
    assert_eq!(lab.word().await, "running");
    lab.scale(false).await.unwrap();
    assert_eq!(lab.word().await, "stopping");
    assert_eq!(proxy.refused(), Vec::<String>::new());
    lab.no_complaints();
}

#[tokio::test]
async fn labels_on_the_container_are_named() {
    let mut lab = Lab::new(0);
    lab.swarm(|swarm| {
        swarm.edit("mc", |spec| {
            spec["TaskTemplate"]["ContainerSpec"]["Labels"] = json!({"swarmgate.idle": "1h"});
        });
    });
    let problems = lab.service().await.problems;
    assert!(problems.iter().any(|problem| problem.contains("move it to the service")), "{problems:?}");
    assert_eq!(reason(&lab.service().await), "");
}
