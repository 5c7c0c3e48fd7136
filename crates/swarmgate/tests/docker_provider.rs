//! The source of plain containers against an engine over HTTP on a socket: what it believes, what it asks the engine
//! to do, and what it does when the engine refuses, stumbles or ends.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use swarmgate::alarm::Alarm;
use swarmgate::clock::Clock;
use swarmgate::engine::Engine;
use swarmgate::provider::Source;
use swarmgate::provider::docker::DockerSource;
use swarmgate_core::config::{Config, EngineHost};
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Service, State};
use swarmgate_testkit::engine::proxy::Proxy;
use swarmgate_testkit::engine::{FakeEngine, Fault, Swarm, container, killed};
use swarmgate_testkit::wait::until;
use tokio::sync::watch;

const LIMIT: Duration = Duration::from_secs(10);

fn labels() -> Value {
    json!({"swarmgate.host": "mc.example"})
}

/// An engine in no Swarm, with one labelled container `mc`, and the source that reads it.
struct Lab {
    dir: tempfile::TempDir,
    engine: FakeEngine,
    source: DockerSource,
    _config: watch::Sender<Arc<Config>>,
    start: Instant,
}

impl Lab {
    fn new() -> Self {
        Self::inside(None)
    }

    /// With the gate in this container.
    fn inside(gate: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engine = FakeEngine::start(&dir.path().join("docker.sock"));
        engine.quietly(|engine| {
            engine.alone = true;
            engine.create_container(container("mc", &labels()));
        });
        let (source, config) = source(dir.path().join("docker.sock"), gate);
        Self { dir, engine, source, _config: config, start: Instant::now() }
    }

    fn now(&self) -> Moment {
        Moment::after_start(self.start.elapsed())
    }

    fn engine<R>(&self, act: impl FnOnce(&mut Swarm) -> R) -> R {
        self.engine.quietly(act)
    }

    async fn services(&mut self) -> Vec<Service> {
        let now = self.now();
        self.source.list(now).await.unwrap().services
    }

    async fn service(&mut self) -> Service {
        self.services().await.into_iter().find(|service| &*service.id.name == "mc").unwrap()
    }

    async fn word(&mut self) -> &'static str {
        self.service().await.state.word()
    }

    async fn scale(&mut self, up: bool) -> Result<(), String> {
        let now = self.now();
        self.source.scale("mc", up, now).await.map_err(|error| error.to_string())
    }

    fn acts(&self) -> Vec<String> {
        self.engine(|engine| engine.acts.clone())
    }

    fn no_complaints(&self) {
        assert_eq!(self.engine(|engine| engine.complaints.clone()), Vec::<String>::new());
    }

    /// Lists until nothing more is heard.
    async fn quiet(&mut self) {
        until("the event stream", LIMIT, async || (self.engine.streams() == 1).then_some(())).await;
        self.word().await;
        while tokio::time::timeout(Duration::from_millis(200), self.source.changed()).await.is_ok() {
            self.word().await;
        }
    }

    async fn is_told(&mut self) -> bool {
        tokio::time::timeout(Duration::from_secs(5), self.source.changed()).await.is_ok()
    }
}

fn source(socket: PathBuf, gate: Option<&str>) -> (DockerSource, watch::Sender<Arc<Config>>) {
    let config = swarmgate_core::config::parse("", &[]).unwrap().config;
    let (send, receive) = watch::channel(Arc::new(config));
    let engine = Engine::new(EngineHost::Unix(socket));
    let alarm = Alarm::off(Clock::start());
    (DockerSource::new(engine, gate.map(str::to_owned), receive, alarm), send)
}

#[tokio::test]
async fn a_container_is_started_and_stopped_once_and_with_its_grace() {
    let mut lab = Lab::new();
    assert_eq!(lab.word().await, "asleep");
    for _ in 0..2 {
        lab.scale(true).await.unwrap();
    }
    let State::Running(running) = lab.service().await.state else { panic!("it runs") };
    assert_eq!(running.endpoints[0].to_string(), "10.9.1.1:25565");
    for _ in 0..2 {
        lab.scale(false).await.unwrap();
    }
    assert_eq!(lab.word().await, "asleep", "143 after its own stop is no crash");
    assert_eq!(lab.acts(), ["start mc", "stop mc 90"]);
    lab.no_complaints();
}

#[tokio::test]
async fn while_it_stops_it_is_stopping_and_nothing_starts() {
    let mut lab = Lab::new();
    lab.engine(|engine| {
        engine.run_container("mc");
        engine.fail("POST /containers/cmc/stop", Fault::Hang);
    });
    assert_eq!(lab.word().await, "running");
    lab.scale(false).await.unwrap();
    assert_eq!(lab.word().await, "stopping");
    assert!(lab.scale(true).await.unwrap_err().contains("still stopping"));
    lab.scale(false).await.unwrap();
    lab.engine(|engine| engine.exit_container("mc", 137));
    let service = lab.service().await;
    assert_eq!(service.state, State::Asleep);
    assert!(service.problems.iter().any(|problem| problem.contains("killed before it finished saving")));
    lab.scale(true).await.unwrap();
    assert_eq!(lab.word().await, "running", "another run, which nobody has told to stop");
    assert_eq!(lab.acts(), ["start mc"], "one stop, that hung");
}

#[tokio::test]
async fn a_stop_by_others_is_seen_while_it_lasts_and_keeps_the_route() {
    let mut lab = Lab::new();
    lab.engine(|engine| engine.run_container("mc"));
    lab.quiet().await;
    for (signal, word) in [(1, "running"), (15, "stopping")] {
        lab.engine.tell(killed("mc", &labels(), signal));
        assert!(lab.is_told().await, "an event");
        assert_eq!(lab.word().await, word, "signal {signal}");
    }
    lab.engine(|engine| engine.exit_container("mc", 1));
    assert_eq!(lab.word().await, "asleep", "whatever its code");
    lab.engine(|engine| engine.run_container("mc"));
    lab.engine(|engine| engine.exit_container("mc", 1));
    assert_eq!(lab.word().await, "failed", "that run was not told to stop");
    lab.engine(|engine| engine.containers.clear());
    assert_eq!(lab.services().await, []);
    assert!(lab.scale(true).await.unwrap_err().contains("no service"));
}

#[tokio::test]
async fn a_stop_is_for_the_run_it_was_decided_for() {
    let mut lab = Lab::new();
    lab.engine(|engine| engine.run_container("mc"));
    lab.word().await;
    lab.engine(|engine| engine.run_container("mc"));
    assert!(lab.scale(false).await.unwrap_err().contains("started anew"));
    assert_eq!(lab.word().await, "running");
    lab.scale(false).await.unwrap();
    assert_eq!(lab.acts(), ["stop mc 90"]);
}

#[tokio::test]
async fn a_paused_one_is_asleep_and_woken_where_it_was() {
    let mut lab = Lab::new();
    lab.engine(|engine| {
        engine.run_container("mc");
        engine.container("mc")["State"]["Status"] = "paused".into();
    });
    assert_eq!(lab.word().await, "asleep");
    lab.scale(true).await.unwrap();
    assert_eq!((lab.word().await, lab.acts()), ("running", vec!["unpause mc".to_owned()]));
}

#[tokio::test]
async fn a_start_that_is_refused_says_why_and_one_that_takes_its_time_is_starting() {
    let mut lab = Lab::new();
    lab.word().await;
    let start = "POST /containers/cmc/start";
    lab.engine(|engine| engine.fail(start, Fault::Status(500, "port is already allocated".into())));
    assert!(lab.scale(true).await.unwrap_err().contains("port is already allocated"));
    lab.engine(|engine| engine.fail(start, Fault::Hang));
    lab.scale(true).await.unwrap();
    assert_eq!(lab.word().await, "starting");
    lab.scale(true).await.unwrap();
    assert_eq!(lab.acts(), Vec::<String>::new(), "it was asked for, once");
}

#[tokio::test]
async fn an_answer_that_was_lost_is_looked_after() {
    let mut lab = Lab::new();
    lab.word().await;
    lab.engine(|engine| engine.fail("POST /containers/cmc/start", Fault::Cut));
    lab.scale(true).await.unwrap();
    assert_eq!((lab.word().await, lab.acts()), ("running", vec!["start mc".to_owned()]));
}

#[tokio::test]
async fn an_error_is_not_an_empty_engine_and_one_container_s_is_its_own() {
    let mut lab = Lab::new();
    lab.engine(|engine| engine.create_container(container("other", &labels())));
    lab.services().await;
    lab.engine(|engine| engine.fail("GET /containers/json", Fault::Status(500, "no".into())));
    let now = lab.now();
    assert!(lab.source.list(now).await.is_err());
    lab.engine(|engine| engine.fail("GET /containers/cmc/json", Fault::Status(500, "layer is gone".into())));
    let states: Vec<State> = lab.services().await.into_iter().map(|service| service.state).collect();
    assert_eq!(states[1], State::Asleep);
    assert!(states[0].reason().unwrap().contains("layer is gone"), "{states:?}");
    lab.engine.stop();
    let error = lab.source.list(now).await.unwrap_err().to_string();
    assert!(error.contains("there is no such socket"), "{error}");
}

#[tokio::test]
async fn what_the_swarm_runs_is_the_swarms() {
    let mut lab = Lab::new();
    let of_a_task = json!({"swarmgate.host": "mc.example", "com.docker.swarm.service.id": "s1"});
    lab.engine(|engine| engine.create_container(container("mc.1.t1", &of_a_task)));
    let names: Vec<String> = lab.services().await.iter().map(|service| service.id.to_string()).collect();
    assert_eq!(names, ["docker/mc"]);
}

#[tokio::test]
async fn nothing_is_done_while_nothing_happens() {
    let mut lab = Lab::new();
    lab.engine(|engine| {
        engine.create_container(container("up", &labels()));
        engine.run_container("up");
        engine.create_container(container("broken", &labels()));
        engine.exit_container("broken", 1);
    });
    for _ in 0..5 {
        lab.services().await;
    }
    assert_eq!(lab.acts(), Vec::<String>::new());
    let is_a_try = |call: &&String| call.starts_with("POST /containers/-/");
    let (tries, writes) = lab.engine(|engine| {
        let writes: Vec<_> = engine.calls.iter().filter(|call| !call.starts_with("GET ")).collect();
        (writes.iter().copied().filter(is_a_try).count(), writes.len())
    });
    assert_eq!((tries, writes), (3, 3), "those that try whether they are allowed");
    lab.no_complaints();
}

#[tokio::test]
async fn events_are_hints_through_any_number_of_streams() {
    let mut lab = Lab::new();
    lab.quiet().await;
    for _ in 0..2 {
        lab.engine.cut_streams();
        assert!(lab.is_told().await, "the end of the stream");
        lab.quiet().await;
    }
    lab.engine.stop();
    assert!(lab.is_told().await, "the end of the engine");
    lab.engine.listen();
    lab.quiet().await;
    let started =
        json!({"Type": "container", "Action": "start", "Actor": {"ID": "cmc", "Attributes": labels()}});
    lab.engine.tell(started);
    assert!(lab.is_told().await, "an event after the engine's return");
    assert_eq!(lab.engine.streams(), 1);
}

#[tokio::test]
async fn where_the_gate_is_decides_where_a_container_is_dialled() {
    let on = |id: &str| json!({"HostConfig": {"NetworkMode": "x"}, "NetworkSettings": {"Networks": {"x": {"NetworkID": id}}}});
    let on_the_machine = json!({"HostConfig": {"NetworkMode": "host"}});
    let published = json!({"25565/tcp": [{"HostIp": "127.0.0.1", "HostPort": "25570"}]});
    for (gate, own, endpoints) in [
        (None, None, vec!["10.9.1.1:25565", "127.0.0.1:25570"]),
        (Some("gate"), Some(on_the_machine), vec!["10.9.1.1:25565", "127.0.0.1:25570"]),
        (Some("gate"), Some(on("net1")), vec!["10.9.1.1:25565"]),
        (Some("gate"), Some(on("net2")), vec![]),
    ] {
        let mut lab = Lab::inside(gate);
        lab.engine(|engine| {
            engine.run_container("mc");
            engine.container("mc")["NetworkSettings"]["Ports"] = published.clone();
            engine.containers.extend(own.map(|own| ("gate".to_owned(), own)));
        });
        let service = lab.service().await;
        let State::Running(running) = &service.state else { panic!("{service:?}") };
        let found: Vec<String> = running.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(found, endpoints, "{gate:?}");
        let complains = service.problems.iter().any(|problem| problem.contains("on none of its networks"));
        assert_eq!(complains, endpoints.is_empty());
    }
}

/// The calls of the table for plain containers in `docs/permissions.md`.
fn documented_calls() -> Vec<String> {
    let page = include_str!("../../../docs/permissions.md");
    let section = page.split("\n## ").find(|section| section.starts_with("For plain containers"));
    let rows = section.unwrap().lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(call, _)| call.to_owned()).collect()
}

#[tokio::test]
async fn the_documented_calls_are_enough() {
    let mut lab = Lab::new();
    let (proxy_socket, engine) = (lab.dir.path().join("proxy.sock"), lab.dir.path().join("docker.sock"));
    let proxy = Proxy::start(&proxy_socket, &engine, documented_calls());
    (lab.source, lab._config) = source(proxy_socket, Some("gate"));
    lab.quiet().await;
    lab.scale(true).await.unwrap();
    assert_eq!(lab.word().await, "running");
    lab.scale(false).await.unwrap();
    assert_eq!(lab.word().await, "asleep");
    lab.engine(|engine| engine.container("mc")["State"]["Status"] = "paused".into());
    lab.scale(true).await.unwrap();
    assert_eq!(proxy.refused(), Vec::<String>::new());
    lab.no_complaints();
}

#[tokio::test]
async fn what_is_refused_costs_only_what_it_is_for() {
    let mut lab = Lab::new();
    lab.engine(|engine| ["GET /events", "POST "].iter().for_each(|call| engine.forbid(call)));
    assert_eq!(lab.word().await, "asleep");
    assert!(lab.scale(true).await.unwrap_err().contains("docs/permissions.md"));
    lab.engine(Swarm::allow_all);
    lab.scale(true).await.unwrap();
    assert_eq!(lab.word().await, "running");
    lab.engine(|engine| engine.forbid("GET /containers/cmc"));
    let now = lab.now();
    assert!(lab.source.list(now).await.is_err());
}
