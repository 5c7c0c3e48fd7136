//! Plain Docker containers, found by their labels.
//!
//! Each listing reads everything anew; events say when to look, and that a container was told to stop, which the
//! engine says nowhere else. What is believed is decided in [`swarmgate_core::state::docker`].

mod orders;
mod stops;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use serde_json::{Value, json};
use swarmgate_core::alert::Sight;
use swarmgate_core::config::Config;
use swarmgate_core::labels;
use swarmgate_core::moment::Moment;
use swarmgate_core::publish::Published;
use swarmgate_core::service::{Snapshot, SourceId, State};
use swarmgate_core::state::Clocks;
use swarmgate_core::state::docker::ends::Ends;
use swarmgate_core::state::docker::network::Place;
use swarmgate_core::state::docker::{self, Act, Found, Surroundings, Told};
use tokio::sync::watch;
use tokio::time::Instant;

use self::orders::Orders;
use self::stops::Stops;
use super::pace::Pace;
use super::told::Told as ToldToPeople;
use super::{Begun, Source, SourceError};
use crate::alarm::Alarm;
use crate::engine::Engine;
use crate::engine::access::Need;
use crate::engine::error::EngineError;
use crate::engine::events::Event;
use crate::engine::hints::Hints;
use crate::engine::own::{Network, Own};

pub const ID: SourceId = docker::ID;

/// The source `docker`.
#[derive(Debug)]
pub struct DockerSource {
    engine: Engine,
    config: watch::Receiver<Arc<Config>>,
    hints: Hints,
    own: Own,
    pace: Pace,
    told: ToldToPeople,
    stops: Stops,
    orders: Orders,
    alarm: Alarm,
    ends: Ends,
    sights: Vec<Sight>,
    /// As listed last.
    known: BTreeMap<Arc<str>, Found>,
}

/// What the list of all containers says of those with labels for the gate: the ids of the game servers and of the others,
/// and what is to be published.
struct Labelled {
    servers: Vec<String>,
    published_only: Vec<String>,
    published: Vec<Published>,
}

type Read = fn(&Value, Told, Surroundings<'_>) -> Option<Found>;

impl DockerSource {
    /// `container` is the one that the gate runs in, if it runs in one. Must be called inside a runtime.
    pub fn new(
        engine: Engine,
        container: Option<String>,
        config: watch::Receiver<Arc<Config>>,
        alarm: Alarm,
    ) -> Self {
        let stops = Stops::default();
        let seen = stops.clone();
        let news = move |event: &Event| {
            seen.see(event);
            is_about_a_server(event)
        };
        Self {
            hints: Hints::follow(engine.clone(), wanted(), news),
            own: Own::new(container),
            pace: Pace::default(),
            told: ToldToPeople::default(),
            orders: Orders::default(),
            ends: Ends::default(),
            alarm,
            sights: Vec::new(),
            known: BTreeMap::new(),
            stops,
            engine,
            config,
        }
    }

    async fn labelled(&self) -> Result<Labelled, SourceError> {
        let list = self.engine.get("/containers/json?all=1").await;
        self.engine.access().note(Need::Containers, &list);
        let (list, defaults) = (list?, self.config.borrow().publish_defaults());
        let read = || {
            Ok(Labelled {
                servers: docker::labelled(&list)?,
                published_only: docker::published_only(&list)?,
                published: docker::published(&list, &defaults)?,
            })
        };
        read().map_err(|error: docker::NotAList| SourceError::Unwilling(error.to_string()))
    }

    /// How those fare that are no game servers. What cannot be read of one of them is no trouble to players.
    async fn watched(&self, ids: &[String], began: Instant, now: Moment) -> Vec<Found> {
        let mut watched = Vec::new();
        for id in ids {
            let looked = self.look(id, docker::watch, began, now).await;
            watched.extend(looked.ok().flatten());
        }
        watched
    }

    /// One container as it is now; `None` if it is gone.
    async fn look(
        &self,
        id: &str,
        read: Read,
        began: Instant,
        now: Moment,
    ) -> Result<Option<Found>, SourceError> {
        let inspected = self.engine.get(&format!("/containers/{id}/json")).await;
        self.engine.access().note(Need::Container, &inspected);
        let inspected = match inspected {
            Err(EngineError::NotThere { .. }) => return Ok(None),
            inspected => inspected?,
        };
        let heard = self.stops.of(id);
        let told = Told { start: self.orders.is_starting(id), stop: heard.told, death: heard.death };
        let config = self.config.borrow();
        let around = Surroundings {
            defaults: &config.defaults,
            network: config.docker.network.as_deref(),
            grace: config.docker.grace,
            place: match self.own.last() {
                Network::Machine => Place::Machine,
                Network::Networks(networks) => Place::Container(Some(networks)),
                Network::Unknown => Place::Container(None),
            },
            clocks: Clocks { moment: now + began.elapsed(), wall: self.engine.now() },
        };
        Ok(read(&inspected, told, around))
    }

    /// The one that the engine cannot tell about now, as it was known, so that the others need not suffer.
    fn unknown(&self, id: &str, reason: String) -> Option<Found> {
        let mut found = self.known.values().find(|found| found.id == id)?.clone();
        found.service.state = State::Unknown { reason };
        Some(found)
    }

    /// Once: a player should not be the first to find out.
    async fn try_calls(&self) {
        for (need, action) in [(Need::Start, "start"), (Need::Stop, "stop"), (Need::Unpause, "unpause")] {
            if !self.engine.access().is_tried(need) {
                self.engine.access().note(need, &self.engine.try_act(action).await);
            }
        }
    }

    /// Looks once more, decides, and has it done.
    async fn write(&mut self, name: &str, up: bool, now: Moment) -> Result<(), SourceError> {
        let gone = || SourceError::NoSuchService(name.to_owned());
        let known = self.known.get(name).ok_or_else(gone)?;
        let found = self.look(&known.id, docker::read, Instant::now(), now).await?.ok_or_else(gone)?;
        let act = if up { found.up() } else { found.down() };
        let Some(act) = act.map_err(SourceError::Unwilling)? else { return Ok(()) };
        if !up && found.run != known.run {
            // That nobody plays was said of the run before.
            return Err(SourceError::Unwilling("it has been started anew since this was decided".to_owned()));
        }
        let sent = self.engine.now();
        match self.orders.give(&self.engine, &found.id, act).await {
            Ok(()) => {
                tracing::info!(service = %found.service.id, act = ?act, "told the engine");
                if matches!(act, Act::Stop { .. }) {
                    self.stops.note(&found.id, found.started.map_or(sent, |started| started.max(sent)));
                }
                Ok(())
            }
            Err(EngineError::NotThere { .. }) => Err(gone()),
            Err(error @ EngineError::NoAnswer { .. }) => {
                // It may have been done all the same.
                match self.look(&found.id, docker::read, Instant::now(), now).await {
                    Ok(Some(after)) if up && after.up() == Ok(None) => Ok(()),
                    Ok(_) | Err(_) => Err(error.into()),
                }
            }
            Err(error @ (EngineError::Refused { .. } | EngineError::OutOfSequence { .. })) => {
                Err(error.into())
            }
        }
    }
}

impl Source for DockerSource {
    fn id(&self) -> SourceId {
        ID
    }

    async fn list(&mut self, now: Moment) -> Result<Snapshot, SourceError> {
        let began = Instant::now();
        self.config.mark_unchanged();
        let Labelled { servers: ids, published_only, published } = self.labelled().await?;
        if !ids.is_empty() {
            self.try_calls().await;
            self.own.network(&self.engine).await;
        }
        self.stops.keep(ids.iter().chain(&published_only));
        self.orders.reap();
        let mut found = Vec::new();
        for id in &ids {
            match self.look(id, docker::read, began, now).await {
                Err(SourceError::Engine(error @ EngineError::Refused { .. })) if !error.is_forbidden() => {
                    found.extend(self.unknown(id, error.to_string()));
                }
                looked => found.extend(looked?),
            }
        }
        if self.alarm.is_on() {
            let watched = self.watched(&published_only, began, now).await;
            self.sights = self.ends.saw(found.iter().chain(&watched));
        }
        self.told.tell(found.iter().map(|found| &found.service));
        self.pace.saw(found.iter().map(|found| &found.service), now + began.elapsed());
        let services = found.iter().map(|found| found.service.clone()).collect();
        self.known = found.into_iter().map(|found| (Arc::clone(&found.service.id.name), found)).collect();
        Ok(Snapshot { services, published })
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = self.hints.changed() => {}
            Ok(()) = self.config.changed() => {}
            () = tokio::time::sleep_until(self.pace.next()) => {}
        }
    }

    fn sights(&mut self) -> Vec<Sight> {
        std::mem::take(&mut self.sights)
    }

    fn begun(&self, service: &str) -> Option<Begun> {
        let found = self.known.get(service)?;
        let has_begun = matches!(found.service.state, State::Starting { .. } | State::Running(_));
        let may_ask = !self.engine.access().is_refused(Need::Logs);
        (has_begun && may_ask).then(|| Begun { run: found.id.clone(), since: found.started })
    }

    fn last_lines(&self, run: &Begun, lines: usize) -> impl Future<Output = Vec<String>> + Send + use<> {
        let (engine, path, since) = (self.engine.clone(), format!("/containers/{}", run.run), run.since);
        async move { engine.last_lines(path, since, lines).await }
    }

    fn look_closely(&mut self) {
        self.pace.hinted();
    }

    async fn scale(&mut self, service: &str, up: bool, now: Moment) -> Result<(), SourceError> {
        self.write(service, up, now).await
    }
}

/// Health checks run all the time, so their `exec` events are not asked for.
fn wanted() -> Value {
    json!({
        "type": ["container", "network"],
        "event": [
            "create", "start", "kill", "die", "pause", "unpause", "update", "rename", "destroy", "health_status",
            "connect", "disconnect",
        ],
    })
}

/// An event of a container has its labels among its attributes.
fn is_about_a_server(event: &Event) -> bool {
    event.kind != "container" || event.attributes.keys().any(|key| labels::is_ours(key))
}
