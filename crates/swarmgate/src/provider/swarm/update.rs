//! Giving services of the Swarm another image, because a program has asked for it over the API.

mod error;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use swarmgate_core::config::{Config, Updatable};
use swarmgate_core::fleet::CommandError;
use swarmgate_core::image::Image;
use swarmgate_core::labels;
use swarmgate_core::registry::Registries;
use swarmgate_core::service::ServiceId;
use swarmgate_core::span;
use swarmgate_core::state::swarm::update::{self, Progress};
use tokio::sync::watch;
use tokio::time::Instant;
use utoipa::ToSchema;

pub use self::error::UpdateError;
use super::ID;
use super::write::{TRIES, pause};
use crate::engine::Engine;
use crate::engine::access::Need;
use crate::engine::error::EngineError;
use crate::fleet::Fleet;
use crate::percent::encode;

/// Between two looks at how far an update is.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Where the Swarm's engine can be found once one is known. A cheap handle.
pub type SwarmEngine = Arc<OnceLock<Engine>>;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// A service's name or id.
    pub service: String,
    /// `None`: the image that it has, as new as it is now.
    pub image: Option<String>,
    /// Although players are in it, or may be.
    pub force: bool,
    /// How long to wait for Swarm to have done it; `None`: not at all.
    pub wait: Option<Duration>,
}

/// What was done. Its first three fields are those of swarmctl's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Updated {
    pub success: bool,
    pub old_version: u64,
    pub new_version: u64,
    pub service: String,
    pub old_image: String,
    pub new_image: String,
    pub old_digest: Option<String>,
    pub new_digest: Option<String>,
    /// `unchanged`, `asleep` (the next start runs it), `updating` or `converged`.
    pub state: String,
    pub warnings: Vec<String>,
}

/// Updates services. A cheap handle.
#[derive(Debug, Clone)]
pub struct Updater {
    engine: SwarmEngine,
    fleet: Fleet,
    config: watch::Receiver<Arc<Config>>,
    /// The container that the gate runs in.
    container: Option<String>,
}

/// The image that a service is to have.
#[derive(Debug, Clone)]
struct Target {
    image: String,
    /// Its tasks are replaced also if it is the image that they have.
    again: bool,
    warnings: Vec<String>,
}

/// What registries have said so far, so that a retry does not ask again.
type Asked = Option<(String, Result<String, EngineError>)>;

impl Updater {
    pub fn new(engine: SwarmEngine, fleet: Fleet, config: watch::Receiver<Arc<Config>>) -> Self {
        Self { engine, fleet, config, container: None }
    }

    /// `container` is the one that the gate runs in, if it runs in one.
    pub fn in_container(self, container: Option<String>) -> Self {
        Self { container, ..self }
    }

    /// Changes the image of a service and nothing else of it. One that is asleep stays asleep.
    pub async fn update(&self, ask: &Ask) -> Result<Updated, UpdateError> {
        let image = ask.image.as_deref().map(Image::parse).transpose().map_err(UpdateError::BadImage)?;
        self.check_image(image.as_ref())?;
        let engine = self.engine.get().ok_or_else(|| self.without_swarm(&ask.service))?;
        let (id, mut updated) = self.change(engine, ask, image.as_ref()).await?;
        if let Some(limit) = ask.wait.filter(|_| updated.state != "asleep") {
            let end = converge(engine, &id, &updated, limit).await?;
            if updated.state == "updating" {
                updated.state = end.to_owned();
            }
        }
        Ok(updated)
    }

    fn check_image(&self, image: Option<&Image>) -> Result<(), UpdateError> {
        match image {
            Some(image) if !image.is_among(&self.config.borrow().update.images) => {
                Err(UpdateError::ImageNotAllowed(image.to_string()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reads, edits and writes until nobody else was faster. Gives back the service's id, too.
    async fn change(
        &self,
        engine: &Engine,
        ask: &Ask,
        image: Option<&Image>,
    ) -> Result<(String, Updated), UpdateError> {
        let mut asked: Asked = None;
        let mut name = ask.service.clone();
        // A write without an answer may have been made.
        let mut perhaps: Option<(Value, Updated)> = None;
        for attempt in 0..TRIES {
            let service = self.look(engine, &ask.service).await?;
            let spec = service.get("Spec").unwrap_or(&Value::Null);
            let id = service.get("ID").and_then(Value::as_str).unwrap_or_default().to_owned();
            let tasks = |spec: &Value| spec.get("TaskTemplate").cloned();
            if let Some((_, mut made)) = perhaps.take_if(|(sent, _)| tasks(sent) == tasks(spec)) {
                made.new_version = version(&service);
                made.state = state(spec);
                return Ok((id, made));
            }
            let (auth, no_auth) = self.credentials(&service, image);
            let auth = auth.as_deref();
            let mut target = target(engine, &service, image, auth, &mut asked).await;
            target.warnings.extend(no_auth);
            let mut updated = describe(&service, &target);
            let edited = update::edit(spec, &target.image, target.again);
            let edited = edited.map_err(|_| UpdateError::NoContainers(updated.service.clone()))?;
            let Some(edited) = edited else {
                if update::is_under_way(&service) {
                    // Who waits wants to know how it ends, whoever has begun it.
                    updated.state = "updating".to_owned();
                }
                return Ok((id, updated));
            };
            if !ask.force {
                self.check_players(engine, &service, &updated.service).await?;
            }
            updated.state = state(spec);
            name = updated.service.clone();
            let sent = engine.update_service(&id, updated.old_version, &edited.spec, auth).await;
            engine.access().note(Need::Update, &sent);
            match sent {
                Ok(()) => {
                    tracing::info!(
                        service = updated.service,
                        changes = edited.changes,
                        "service updated over the API"
                    );
                    let version_now = engine.get(&format!("/services/{id}")).await;
                    updated.new_version =
                        version_now.map_or(updated.new_version, |service| version(&service));
                    return Ok((id, updated));
                }
                Err(EngineError::OutOfSequence { .. }) => {}
                Err(error @ EngineError::NoAnswer { .. }) if perhaps.is_none() => {
                    tracing::warn!(service = updated.service, %error, "no answer to an update; looking whether it was made");
                    perhaps = Some((edited.spec, updated));
                }
                Err(error) => return Err(UpdateError::Of { service: name, error }),
            }
            tokio::time::sleep(pause(attempt)).await;
        }
        Err(UpdateError::Raced(name))
    }

    /// For the registry of the image that it is to have, and why there are none where there should be.
    fn credentials(&self, service: &Value, image: Option<&Image>) -> (Option<String>, Option<String>) {
        let Some(file) = self.config.borrow().update.registries_file.clone() else { return (None, None) };
        let current = Image::parse(update::image(service.get("Spec").unwrap_or(&Value::Null))).ok();
        let Some(image) = image.or(current.as_ref()) else { return (None, None) };
        let read = std::fs::read_to_string(&file).map_err(|error| error.to_string());
        let header = read.and_then(|text| {
            let header = Registries::parse(&text).and_then(|registries| registries.header(image));
            header.map_err(|error| error.to_string())
        });
        match header {
            Ok(header) => (header, None),
            Err(why) => {
                let path = file.display();
                (None, Some(format!("update.registries_file: {path} is not used: {why}")))
            }
        }
    }

    /// The service of this name or id, if it may be updated.
    async fn look(&self, engine: &Engine, name: &str) -> Result<Value, UpdateError> {
        let service = match engine.get(&format!("/services/{}", encode(name))).await {
            Err(EngineError::NotThere { .. }) => return Err(self.not_found(name)),
            Err(error) if error.is_without_swarm() => return Err(self.without_swarm(name)),
            service => service?,
        };
        let text = |pointer| service.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        // The engine takes the beginning of an id, too; a name of one letter must not be one.
        if ![text("/Spec/Name"), text("/ID")].contains(&name) {
            return Err(self.not_found(name));
        }
        let is_labelled = has_label(&service, labels::is_ours);
        match self.config.borrow().update.services {
            Updatable::Labelled if !is_labelled => {
                Err(UpdateError::NotLabelled(text("/Spec/Name").to_owned()))
            }
            Updatable::Labelled | Updatable::All => Ok(service),
        }
    }

    fn without_swarm(&self, name: &str) -> UpdateError {
        match self.fleet.look(|core, _| core.named(name)) {
            Ok(id) if id.source != ID => UpdateError::NotOfSwarm(id),
            Ok(_) | Err(_) => UpdateError::NoSwarm,
        }
    }

    fn not_found(&self, name: &str) -> UpdateError {
        match self.fleet.look(|core, _| core.named(name)) {
            Ok(id) if id.source != ID => UpdateError::NotOfSwarm(id),
            Ok(id) => UpdateError::NoSuchService(CommandError::gone(&id)),
            Err(error) => UpdateError::NoSuchService(error),
        }
    }

    /// An update disconnects everybody. What is no game has no players, and what has no tasks none to lose.
    async fn check_players(&self, engine: &Engine, service: &Value, name: &str) -> Result<(), UpdateError> {
        let id = ServiceId::new(ID, name);
        let is_asleep = service.get("Spec").is_some_and(update::is_asleep);
        match self.fleet.look(|core, _| core.nobody_in(&id)) {
            Err(CommandError::Occupied { service, seats, online }) => {
                return Err(UpdateError::Occupied { service, seats, online });
            }
            Err(CommandError::NoSuchService { .. }) if !has_label(service, labels::is_for_a_game) => {}
            Err(_) if !is_asleep => return Err(UpdateError::UnknownPlayers(id)),
            Err(_) | Ok(()) => {}
        }
        let seats = self.fleet.seats().all().len();
        let of = |error| UpdateError::Of { service: name.to_owned(), error };
        if seats > 0 && self.is_the_gate(engine, service).await.map_err(of)? {
            return Err(UpdateError::IsTheGate { service: name.to_owned(), seats });
        }
        Ok(())
    }

    /// Everybody plays through the gate, whatever server they are in.
    async fn is_the_gate(&self, engine: &Engine, service: &Value) -> Result<bool, EngineError> {
        let Some(container) = &self.container else { return Ok(false) };
        let id = service.get("ID").and_then(Value::as_str).unwrap_or_default();
        let tasks = engine.get(&tasks_of(id)).await?;
        Ok(update::has_container(tasks.as_array().map(Vec::as_slice).unwrap_or_default(), container))
    }
}

fn has_label(service: &Value, is_meant: fn(&str) -> bool) -> bool {
    let labels = service.pointer("/Spec/Labels").and_then(Value::as_object);
    labels.is_some_and(|labels| labels.keys().any(|key| is_meant(key)))
}

/// Where the engine has the tasks of a service.
fn tasks_of(id: &str) -> String {
    format!("/tasks?filters={}", encode(&json!({"service": [id]}).to_string()))
}

/// What an update of it begins.
fn state(spec: &Value) -> String {
    if update::is_asleep(spec) { "asleep" } else { "updating" }.to_owned()
}

/// What the service is to have: `image`, or else what it has, with the digest that its tag has now.
async fn target(
    engine: &Engine,
    service: &Value,
    image: Option<&Image>,
    auth: Option<&str>,
    asked: &mut Asked,
) -> Target {
    let current = update::image(service.get("Spec").unwrap_or(&Value::Null));
    // After Swarm has given up, whoever asks again wants it tried again.
    let again = update::is_paused(service);
    if let Some(fixed) = image.filter(|image| image.digest().is_some()) {
        return Target { image: fixed.to_string(), again, warnings: Vec::new() };
    }
    let parsed = Image::parse(current).ok();
    let Some(moving) = image.or(parsed.as_ref()).and_then(Image::moving) else {
        let warning = format!("{current} is one image for good, so there is none newer");
        return Target { image: current.to_owned(), again, warnings: vec![warning] };
    };
    let reference = moving.to_string();
    let known = asked.take().filter(|(of, _)| *of == reference).map(|(_, answer)| answer);
    let answer = match known {
        Some(answer) => answer,
        None => engine.digest(&reference, auth).await,
    };
    let pinned = answer.as_ref().map(|digest| moving.pinned(digest));
    let target = match pinned {
        Ok(Some(pinned)) => Target { image: pinned.to_string(), again, warnings: Vec::new() },
        Ok(None) => unresolved(&reference, "what its registry has answered is no digest"),
        Err(error) => unresolved(&reference, &error.to_string()),
    };
    *asked = Some((reference, answer));
    target
}

/// As `docker service update --no-resolve-image`: each node finds out by itself.
fn unresolved(reference: &str, why: &str) -> Target {
    let warning = format!(
        "which image {reference} is now could not be found out ({why}); each node asks for it when it starts a task, and \
         nodes may come to different images"
    );
    Target { image: reference.to_owned(), again: true, warnings: vec![warning] }
}

/// As it is before the update.
fn describe(service: &Value, target: &Target) -> Updated {
    let text = |pointer| service.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let old_image = update::image(service.get("Spec").unwrap_or(&Value::Null)).to_owned();
    Updated {
        success: true,
        old_version: version(service),
        new_version: version(service),
        service: text("/Spec/Name").to_owned(),
        old_digest: digest(&old_image),
        new_digest: digest(&target.image),
        old_image,
        new_image: target.image.clone(),
        state: "unchanged".to_owned(),
        warnings: target.warnings.clone(),
    }
}

fn digest(image: &str) -> Option<String> {
    image.split_once('@').map(|(_, digest)| digest.to_owned())
}

fn version(service: &Value) -> u64 {
    service.pointer("/Version/Index").and_then(Value::as_u64).unwrap_or_default()
}

/// Returns once as many tasks as are wanted run the image, with the state that this is.
async fn converge(
    engine: &Engine,
    id: &str,
    updated: &Updated,
    limit: Duration,
) -> Result<&'static str, UpdateError> {
    let until = Instant::now() + limit;
    let path = format!("/services/{id}");
    let (of_it, is_made) = (tasks_of(id), updated.state == "updating");
    loop {
        let (service, tasks) = tokio::join!(engine.get(&path), engine.get(&of_it));
        let why = match (service, tasks) {
            (Ok(service), Ok(tasks)) => {
                let tasks = tasks.as_array().map(Vec::as_slice).unwrap_or_default();
                match update::progress(&service, tasks, &updated.new_image, is_made) {
                    Progress::Done => return Ok("converged"),
                    Progress::Asleep => return Ok("asleep"),
                    Progress::Ended(end, why) => {
                        return Err(UpdateError::Ended { service: updated.service.clone(), end, why });
                    }
                    Progress::Going(why) => why,
                }
            }
            (Err(error @ EngineError::NotThere { .. }), _)
            | (_, Err(error @ EngineError::NotThere { .. })) => {
                return Err(UpdateError::Of { service: updated.service.clone(), error });
            }
            // A manager may be away for a moment.
            (Err(error), _) | (_, Err(error)) => error.to_string(),
        };
        if Instant::now() >= until {
            let (service, waited) = (updated.service.clone(), span::human(limit));
            return Err(UpdateError::NotConverged { service, waited, why });
        }
        tokio::time::sleep_until((Instant::now() + LOOK_EVERY).min(until)).await;
    }
}
