//! What servers of an engine say while they start reaches those who wait, and nobody asks for it otherwise.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use swarmgate::alarm::Alarm;
use swarmgate::clock::Clock;
use swarmgate::engine::Engine;
use swarmgate::fleet::{Fleet, TakenSeat};
use swarmgate::provider::docker::DockerSource;
use swarmgate::provider::swarm::SwarmSource;
use swarmgate::provider::{Source, watch};
use swarmgate::store::Store;
use swarmgate_core::config::EngineHost;
use swarmgate_core::knock::{Knock, Player, Purpose};
use swarmgate_core::ladder::Client;
use swarmgate_core::name::HostName;
use swarmgate_core::service::ServiceId;
use swarmgate_testkit::engine::{FakeEngine, Swarm, container, service};
use swarmgate_testkit::wait::until;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const LIMIT: Duration = Duration::from_secs(10);
const SOME: &str = "[12:00:01] [Worker-Main-1/INFO]: Preparing spawn area: 42%";
const MORE: &str = "[12:00:02] [Worker-Main-1/INFO]: Preparing spawn area: 77%";

/// An engine with one server `mc`, and a fleet that knows of it by a source.
struct Lab {
    _dir: tempfile::TempDir,
    engine: FakeEngine,
    fleet: Fleet,
    service: ServiceId,
    stop: CancellationToken,
}

impl Lab {
    async fn start<S: Source>(
        create: impl FnOnce(&mut Swarm),
        source: impl FnOnce(Engine, tokio::sync::watch::Receiver<Arc<swarmgate_core::config::Config>>) -> S,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("docker.sock");
        let engine = FakeEngine::start(&socket);
        engine.quietly(create);
        let config = swarmgate_core::config::parse("", &[]).unwrap().config;
        let fleet = Fleet::new(config.policy(), Clock::start(), Store::in_memory(), TaskTracker::new());
        let (send, receive) = tokio::sync::watch::channel(Arc::new(config));
        let source = source(Engine::new(EngineHost::Unix(socket)), receive);
        let service = ServiceId::new(source.id(), "mc");
        let stop = CancellationToken::new();
        let (of_loop, its) = (fleet.clone(), stop.clone());
        tokio::spawn(async move {
            watch::run(source, of_loop, Alarm::off(Clock::start()), None, its).await;
            drop(send);
        });
        let lab = Self { _dir: dir, engine, fleet, service, stop };
        lab.until_shown("a server that sleeps", "asleep", None).await;
        lab
    }

    async fn swarm() -> Self {
        let create =
            |swarm: &mut Swarm| swarm.create(service("mc", 0, &json!({"swarmgate.host": "mc.example"})));
        Self::start(create, |engine, config| {
            SwarmSource::new(engine, None, config, Alarm::off(Clock::start()))
        })
        .await
    }

    async fn until_shown(&self, what: &str, word: &str, reason: Option<&str>) {
        until(what, LIMIT, async || {
            let face = self.fleet.look(|core, _| core.face(&self.service))?;
            (face.state.word() == word && reason.is_none_or(|reason| face.state.reason() == Some(reason)))
                .then_some(())
        })
        .await;
    }

    fn join(&self) -> TakenSeat {
        let player = Player { name: "Ann".into(), uuid: None };
        let client =
            Client { protocol: 767, modded: false, proxied: false, addressed: true, transferred: false };
        let knock = Knock {
            host: HostName::parse("mc.example").ok(),
            purpose: Purpose::Login(player, client),
            source: "192.0.2.1".parse().unwrap(),
            pass: None,
            account: None,
        };
        self.fleet.admit(&knock).1.unwrap()
    }

    fn says(&self, run: &str, ago: u32, line: &str) {
        let at = Timestamp::now() - SignedDuration::from_secs(ago.into());
        self.engine
            .quietly(|swarm| swarm.said.entry(run.to_owned()).or_default().push((at, line.to_owned())));
    }

    /// How often lines were asked for.
    fn asked(&self) -> usize {
        self.calls(|call| call.ends_with("/logs"))
    }

    fn calls(&self, is: impl Fn(&str) -> bool) -> usize {
        self.engine.quietly(|swarm| swarm.calls.iter().filter(|call| is(call)).count())
    }

    /// Several looks later.
    async fn looks(&self, call: &str) {
        let before = self.calls(|called| called == call);
        until("looks", LIMIT, async || (self.calls(|called| called == call) >= before + 6).then_some(()))
            .await;
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test]
async fn a_task_is_heard_before_its_health_check_passes_while_somebody_waits() {
    let lab = Lab::swarm().await;
    assert_eq!(lab.asked(), 0);
    let seat = lab.join();
    until("a task", LIMIT, async || lab.engine.quietly(|swarm| (swarm.tasks.len() == 1).then_some(()))).await;
    lab.engine.update("mc", |swarm| swarm.reach("mc", "starting"));
    lab.says("task1", 0, SOME);
    lab.until_shown("its words", "starting", Some("Preparing spawn area: 42%")).await;
    lab.says("task1", 0, MORE);
    lab.says("task1", 0, "[12:00:02] [Server thread/INFO]: of no interest");
    lab.until_shown("its next words", "starting", Some("Preparing spawn area: 77%")).await;

    drop(seat);
    // One question may be under way.
    lab.looks("GET /tasks").await;
    let before = lab.asked();
    lab.looks("GET /tasks").await;
    assert_eq!(lab.asked(), before, "nobody waits");
    let seat = lab.join();
    // It runs now, and its game answers nobody: the source itself has no reason to look.
    lab.engine.update("mc", |swarm| swarm.reach("mc", "running"));
    lab.says("task1", 0, "[12:00:03] [Worker-Main-1/INFO]: Preparing spawn area: 99%");
    lab.until_shown("its last words", "starting", Some("Preparing spawn area: 99%")).await;
    drop(seat);
}

#[tokio::test]
async fn where_lines_are_refused_they_are_asked_for_once_and_the_rest_works() {
    let lab = Lab::swarm().await;
    lab.engine.quietly(|swarm| swarm.forbid("GET /tasks/"));
    let _seat = lab.join();
    until("a task", LIMIT, async || lab.engine.quietly(|swarm| (swarm.tasks.len() == 1).then_some(()))).await;
    lab.engine.update("mc", |swarm| swarm.reach("mc", "starting"));
    lab.says("task1", 0, SOME);
    until("a question", LIMIT, async || (lab.asked() > 0).then_some(())).await;
    lab.looks("GET /tasks").await;
    lab.looks("GET /tasks").await;
    assert_eq!(lab.asked(), 1);
    lab.until_shown("its state", "starting", Some("starting: waiting for the health check")).await;
}

#[tokio::test]
async fn of_a_container_only_what_it_has_said_since_its_start_counts() {
    let create = |swarm: &mut Swarm| {
        swarm.alone = true;
        swarm.create_container(container("mc", &json!({"swarmgate.host": "mc.example"})));
    };
    let lab = Lab::start(create, |engine, config| {
        DockerSource::new(engine, None, config, Alarm::off(Clock::start()))
    })
    .await;
    lab.says("cmc", 3600, "[11:00:00] [Server thread/INFO]: Done (1s)! For help, type \"help\"");
    let _seat = lab.join();
    until("a question", LIMIT, async || (lab.asked() > 1).then_some(())).await;
    lab.until_shown("no words", "starting", Some("it runs, the game does not answer yet")).await;
    lab.says("cmc", 0, SOME);
    lab.until_shown("its words", "starting", Some("Preparing spawn area: 42%")).await;
    assert!(lab.engine.quietly(|swarm| swarm.complaints.is_empty()));
}
