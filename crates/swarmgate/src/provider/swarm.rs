//! Services of a Docker Swarm, found by their labels.
//!
//! Each listing reads everything anew; events only say when to look. What is believed is decided in
//! [`swarmgate_core::state::swarm`]; this reads, and writes what was decided there.

mod earlier;
mod ends;
pub mod update;
mod write;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use serde_json::{Value, json};
use swarmgate_core::alert::Sight;
use swarmgate_core::config::{Config, Use};
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Snapshot, SourceId};
use swarmgate_core::state::swarm::api::Node;
use swarmgate_core::state::swarm::ends::{Ends as Troubles, add_problems};
use swarmgate_core::state::swarm::expect::Expected;
use swarmgate_core::state::swarm::killed::Stops;
use swarmgate_core::state::swarm::survey::{self, Surroundings, Survey, Surveyed};
use swarmgate_core::state::{Clocks, OwnNetwork};
use tokio::sync::watch;
use tokio::time::Instant;

use self::earlier::Earlier;
use self::ends::Ends;
use super::pace::Pace;
use super::told::Told;
use super::{Begun, Source, SourceError};
use crate::alarm::Alarm;
use crate::engine::Engine;
use crate::engine::access::Need;
use crate::engine::error::EngineError;
use crate::engine::events::Event;
use crate::engine::hints::Hints;
use crate::engine::own::{Network, Own};

pub const ID: SourceId = survey::ID;

/// The source `swarm`.
#[derive(Debug)]
pub struct SwarmSource {
    engine: Engine,
    config: watch::Receiver<Arc<Config>>,
    hints: Hints,
    own: Own,
    mesh: Mesh,
    pace: Pace,
    told: Told,
    /// The engine is in a Swarm, as far as is known.
    is_there: bool,
    /// It once was in one for sure.
    was_seen: bool,
    /// As listed last.
    known: BTreeMap<Arc<str>, Surveyed>,
    earlier: Earlier,
    ends: Ends,
    stops: Stops,
    alarm: Alarm,
    troubles: Troubles,
    sights: Vec<Sight>,
    /// Writes that the engine's answers need not show yet.
    expected: BTreeMap<Arc<str>, Expected>,
}

/// The ports in the routing mesh that the owner has been told of.
#[derive(Debug, Default)]
struct Mesh(Vec<u64>);

impl Mesh {
    /// Limits and lists by address are blind behind the mesh; an owner should not find out from an attack.
    fn tell(&mut self, ports: Vec<u64>) {
        if !ports.is_empty() && ports != self.0 {
            tracing::warn!(
                ?ports,
                "the gate's own service publishes through Swarm's routing mesh, which hides the addresses of players; publish with mode: host"
            );
        }
        self.0 = ports;
    }
}

impl SwarmSource {
    /// `container` is the one that the gate runs in, if it runs in one. Must be called inside a runtime.
    pub fn new(
        engine: Engine,
        container: Option<String>,
        config: watch::Receiver<Arc<Config>>,
        alarm: Alarm,
    ) -> Self {
        let ends = Ends::default();
        let (seen, metrics) = (ends.clone(), engine.metrics().clone());
        let news = move |event: &Event| {
            if let ("service", Some(name)) = (event.kind.as_str(), event.attributes.get("name")) {
                metrics.service_event(&event.action, name);
            }
            seen.see(event);
            is_about_a_service(event)
        };
        Self {
            hints: Hints::follow(engine.clone(), wanted(), news),
            own: Own::new(container),
            mesh: Mesh::default(),
            pace: Pace::default(),
            told: Told::default(),
            known: BTreeMap::new(),
            earlier: Earlier::default(),
            ends,
            stops: Stops::default(),
            alarm,
            troubles: Troubles::default(),
            sights: Vec::new(),
            expected: BTreeMap::new(),
            is_there: true,
            was_seen: false,
            engine,
            config,
        }
    }

    /// Whether there was a Swarm here before this run: then that there is none says nothing about its services.
    pub fn with_earlier(self, was_seen: bool) -> Self {
        Self { was_seen, ..self }
    }

    async fn survey(&mut self) -> Result<Survey, SourceError> {
        let (services, tasks, nodes, ()) = tokio::join!(
            self.engine.get("/services"),
            self.engine.get("/tasks"),
            self.nodes(),
            self.try_calls(),
        );
        self.engine.access().note(Need::Services, &services);
        self.engine.access().note(Need::Tasks, &tasks);
        Survey::new(services?, tasks?, nodes).map_err(|error| SourceError::Unwilling(error.to_string()))
    }

    /// Nobody asked for a Swarm, and none was ever seen.
    fn may_be_absent(&self, error: &EngineError) -> bool {
        self.config.borrow().docker.swarm == Use::Auto && !self.was_seen && error.is_without_swarm()
    }

    fn no_swarm(&mut self, now: Moment) -> Snapshot {
        if std::mem::replace(&mut self.is_there, false) {
            tracing::info!("this engine is in no Swarm; if it becomes the manager of one, that is noticed");
        }
        self.pace.saw(std::iter::empty(), now);
        Snapshot::default()
    }

    /// Empty if they are not to be had: then every node counts as up.
    async fn nodes(&self) -> Vec<Node> {
        let nodes = self.engine.get("/nodes").await;
        self.engine.access().note(Need::Nodes, &nodes);
        nodes.ok().and_then(|nodes| serde_json::from_value(nodes).ok()).unwrap_or_default()
    }

    /// Once: a player should not be the first to find out.
    async fn try_calls(&self) {
        let access = self.engine.access();
        if !access.is_tried(Need::Service) {
            access.note(Need::Service, &self.engine.try_service().await);
        }
        if !access.is_tried(Need::Update) {
            access.note(Need::Update, &self.engine.try_update().await);
        }
        if !access.is_tried(Need::Registry) {
            access.note(Need::Registry, &self.engine.try_digest().await);
        }
    }

    /// The networks that the gate can dial on; `None` if that cannot be told.
    async fn own_networks(&mut self, survey: &Survey) -> Option<Vec<OwnNetwork>> {
        let container = self.own.container()?;
        if let Some(networks) = survey.networks_of(container) {
            self.mesh.tell(survey.mesh_ports_of(container));
            return Some(networks);
        }
        match self.own.network(&self.engine).await {
            Network::Networks(networks) => Some(networks.clone()),
            Network::Machine | Network::Unknown => None,
        }
    }

    /// What is believed about everything in `survey`, which was read since `began`, which was `now`.
    fn judge(&self, survey: &Survey, own: Option<&[OwnNetwork]>, now: Moment) -> Vec<Surveyed> {
        let config = self.config.borrow();
        survey.services(Surroundings {
            defaults: &config.defaults,
            network: config.docker.network.as_deref(),
            own,
            clocks: Clocks { moment: now, wall: self.engine.now() },
        })
    }

    fn correct(&mut self, found: &mut [Surveyed], now: Moment) {
        self.expected.retain(|name, expected| {
            let service = found.iter_mut().find(|found| found.service.id.name == *name);
            service.is_some_and(|service| expected.correct(service, now))
        });
    }
}

impl Source for SwarmSource {
    fn id(&self) -> SourceId {
        ID
    }

    async fn list(&mut self, now: Moment) -> Result<Snapshot, SourceError> {
        let began = Instant::now();
        self.config.mark_unchanged();
        let survey = match self.survey().await {
            Err(SourceError::Engine(error)) if self.may_be_absent(&error) => return Ok(self.no_swarm(now)),
            Err(SourceError::Engine(error)) if self.was_seen && error.is_without_swarm() => {
                return Err(SourceError::Unwilling(
                    "this engine was in a Swarm and is in none now; if that is meant, write docker.swarm = \"off\""
                        .to_owned(),
                ));
            }
            survey => survey?,
        };
        (self.is_there, self.was_seen) = (true, true);
        let own = self.own_networks(&survey).await;
        let now = now + began.elapsed();
        let mut found = self.judge(&survey, own.as_deref(), now);
        self.correct(&mut found, now);
        self.earlier.saw(&self.known, &mut found, &survey, self.engine.now());
        let ends = self.ends.take();
        self.stops.saw(&mut found, &ends.killed);
        if self.alarm.is_on() {
            let all = self.alarm.watches_all();
            self.sights = self.troubles.saw(&survey, ends.hints, all, self.engine.now());
            add_problems(&mut self.sights, &found);
        }
        self.told.tell(found.iter().map(|found| &found.service));
        self.pace.saw(found.iter().map(|found| &found.service), now);
        if let Some(soon) = self.stops.look_within(self.engine.now()) {
            self.pace.within(soon);
        }
        let services = found.iter().map(|found| found.service.clone()).collect();
        self.known = found.into_iter().map(|found| (Arc::clone(&found.service.id.name), found)).collect();
        let published = survey.published(&self.config.borrow().publish_defaults());
        Ok(Snapshot { services, published })
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = self.hints.changed() => self.pace.hinted(),
            Ok(()) = self.config.changed() => {}
            () = tokio::time::sleep_until(self.pace.next()) => {}
        }
    }

    fn sights(&mut self) -> Vec<Sight> {
        std::mem::take(&mut self.sights)
    }

    fn begun(&self, service: &str) -> Option<Begun> {
        if self.engine.access().is_refused(Need::Logs) {
            return None;
        }
        self.known.get(service)?.run_or_start().map(Begun::from)
    }

    fn last_lines(&self, run: &Begun, lines: usize) -> impl Future<Output = Vec<String>> + Send + use<> {
        let (engine, path, since) = (self.engine.clone(), format!("/tasks/{}", run.run), run.since);
        async move { engine.last_lines(path, since, lines).await }
    }

    fn look_closely(&mut self) {
        self.pace.hinted();
    }

    async fn scale(&mut self, service: &str, up: bool, now: Moment) -> Result<(), SourceError> {
        self.write(service, up, now).await
    }
}

/// Tasks have no events of their own, but containers on the engine's own node tell of theirs before the
/// managers do. Health checks run all the time, so their `exec` events are not asked for.
fn wanted() -> Value {
    json!({
        "type": ["service", "node", "container"],
        "event": ["create", "update", "remove", "start", "kill", "die", "oom", "health_status"],
    })
}

fn is_about_a_service(event: &Event) -> bool {
    event.kind != "container" || event.attributes.contains_key("com.docker.swarm.service.id")
}
