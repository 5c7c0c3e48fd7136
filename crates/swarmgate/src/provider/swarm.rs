//! Services of a Docker Swarm, found by their labels.
//!
//! Each listing reads everything anew; events only say when to look. What is believed is decided in
//! [`swarmgate_core::state::swarm`]; this reads, and writes what was decided there.

mod access;
mod earlier;
mod hints;
mod pace;
mod told;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use swarmgate_core::config::Config;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Snapshot, SourceId};
use swarmgate_core::state::swarm::Clocks;
use swarmgate_core::state::swarm::api::Node;
use swarmgate_core::state::swarm::expect::Expected;
use swarmgate_core::state::swarm::survey::{self, Surroundings, Survey, Surveyed};
use tokio::sync::watch;
use tokio::time::Instant;

use self::access::{Access, Need};
use self::earlier::Earlier;
use self::hints::Hints;
use self::pace::Pace;
use self::told::Told;
use super::{Source, SourceError};
use crate::engine::Engine;

pub const ID: SourceId = survey::ID;

/// The source `swarm`.
#[derive(Debug)]
pub struct SwarmSource {
    engine: Engine,
    config: watch::Receiver<Arc<Config>>,
    hints: Hints,
    access: Access,
    own: Own,
    pace: Pace,
    told: Told,
    /// As listed last.
    known: BTreeMap<Arc<str>, Surveyed>,
    earlier: Earlier,
    /// Writes that the engine's answers need not show yet.
    expected: BTreeMap<Arc<str>, Expected>,
}

/// The container that the gate runs in.
#[derive(Debug)]
struct Own {
    /// `None`: the gate runs on the machine itself.
    container: Option<String>,
    /// The networks of a container that is no task of the Swarm.
    networks: Option<Vec<String>>,
    asked: Option<Instant>,
    /// The ports in the routing mesh that the owner has been told of.
    mesh: Vec<u64>,
}

impl Own {
    /// Limits and lists by address are blind behind the mesh; an owner should not find out from an attack.
    fn tell_mesh(&mut self, ports: Vec<u64>) {
        if !ports.is_empty() && ports != self.mesh {
            tracing::warn!(
                ?ports,
                "the gate's own service publishes through Swarm's routing mesh, which hides the addresses of players; publish with mode: host"
            );
        }
        self.mesh = ports;
    }
}

impl SwarmSource {
    /// `container` is the one that the gate runs in, if it runs in one. Must be called inside a runtime.
    pub fn new(engine: Engine, container: Option<String>, config: watch::Receiver<Arc<Config>>) -> Self {
        let access = Access::default();
        Self {
            hints: Hints::follow(engine.clone(), access.clone()),
            own: Own { container, networks: None, asked: None, mesh: Vec::new() },
            pace: Pace::default(),
            told: Told::default(),
            known: BTreeMap::new(),
            earlier: Earlier::default(),
            expected: BTreeMap::new(),
            engine,
            config,
            access,
        }
    }

    async fn survey(&mut self) -> Result<Survey, SourceError> {
        let (services, tasks, nodes, ()) = tokio::join!(
            self.engine.get("/services"),
            self.engine.get("/tasks"),
            self.nodes(),
            self.try_update(),
        );
        self.access.note(Need::Services, &services);
        self.access.note(Need::Tasks, &tasks);
        Survey::new(services?, tasks?, nodes).map_err(|error| SourceError::Unwilling(error.to_string()))
    }

    /// Empty if they are not to be had: then every node counts as up.
    async fn nodes(&self) -> Vec<Node> {
        let nodes = self.engine.get("/nodes").await;
        self.access.note(Need::Nodes, &nodes);
        nodes.ok().and_then(|nodes| serde_json::from_value(nodes).ok()).unwrap_or_default()
    }

    /// Once: a player should not be the first to find out.
    async fn try_update(&self) {
        if !self.access.is_tried(Need::Update) {
            self.access.note(Need::Update, &self.engine.try_update().await);
        }
    }

    /// The networks that the gate can dial on; `None` if that cannot be told.
    async fn shared(&mut self, survey: &Survey) -> Option<Vec<String>> {
        let container = self.own.container.clone()?;
        if let Some(networks) = survey.networks_of(&container) {
            self.own.tell_mesh(survey.mesh_ports_of(&container));
            return Some(networks);
        }
        if self.own.asked.is_none_or(|asked| asked.elapsed() >= pace::AT_REST) {
            self.own.asked = Some(Instant::now());
            let inspected = self.engine.get(&format!("/containers/{container}/json")).await;
            self.access.note(Need::OwnContainer, &inspected);
            if let Ok(inspected) = inspected {
                self.own.networks = Some(networks_of(&inspected));
            }
        }
        self.own.networks.clone()
    }

    /// What is believed about everything in `survey`, which was read since `began`, which was `now`.
    fn judge(&self, survey: &Survey, shared: Option<&[String]>, now: Moment) -> Vec<Surveyed> {
        let config = self.config.borrow();
        survey.services(Surroundings {
            defaults: &config.defaults,
            network: config.docker.network.as_deref(),
            shared,
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
        let survey = self.survey().await?;
        let shared = self.shared(&survey).await;
        let now = now + began.elapsed();
        let mut found = self.judge(&survey, shared.as_deref(), now);
        self.correct(&mut found, now);
        self.earlier.saw(&self.known, &mut found, &survey, self.engine.now());
        self.told.tell(&found);
        self.pace.saw(&found, now);
        let services = found.iter().map(|found| found.service.clone()).collect();
        self.known = found.into_iter().map(|found| (Arc::clone(&found.service.id.name), found)).collect();
        Ok(Snapshot { services })
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = self.hints.changed() => self.pace.hinted(),
            Ok(()) = self.config.changed() => {}
            () = tokio::time::sleep_until(self.pace.next()) => {}
        }
    }

    async fn scale(&mut self, service: &str, up: bool, now: Moment) -> Result<(), SourceError> {
        self.write(service, up, now).await
    }
}

/// As `GET /containers/{id}/json` has them.
fn networks_of(container: &Value) -> Vec<String> {
    let networks = container.pointer("/NetworkSettings/Networks").and_then(Value::as_object);
    let ids = networks.into_iter().flatten().filter_map(|(_, network)| network.get("NetworkID")?.as_str());
    ids.filter(|id| !id.is_empty()).map(str::to_owned).collect()
}
