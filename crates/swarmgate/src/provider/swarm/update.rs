//! Giving services of the Swarm another image, because a program has asked for it over the API.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use swarmgate_core::config::{Config, Updatable};
use swarmgate_core::fleet::CommandError;
use swarmgate_core::image::{Image, ImageError};
use swarmgate_core::labels;
use swarmgate_core::service::ServiceId;
use swarmgate_core::span;
use swarmgate_core::state::swarm::update::{self, End, Progress};
use tokio::sync::watch;
use tokio::time::Instant;
use utoipa::ToSchema;

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

#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    #[error("the gate knows no Swarm to update services of; see docker.swarm and docker.host")]
    NoSwarm,
    #[error("{0}")]
    NoSuchService(CommandError),
    #[error("{0} is not a service of a Swarm, so it has no image that the gate could change")]
    NotOfSwarm(ServiceId),
    #[error(
        "{0} has no labels for the gate, so its owner has not said that the gate may touch it; update.services = \"all\" allows it"
    )]
    NotLabelled(String),
    #[error("image: {0}; write it as \"ghcr.io/acme/web:1.2\"")]
    BadImage(ImageError),
    #[error("image: {0} is not among update.images")]
    ImageNotAllowed(String),
    #[error(
        "{service} has players in it ({seats} through the gate, {online} by the game's count), whom an update would disconnect; force=true does it all the same"
    )]
    Occupied { service: ServiceId, seats: usize, online: u32 },
    #[error(
        "{0}: the game did not say how many players it has, and unknown is not empty; force=true updates it all the same"
    )]
    UnknownPlayers(ServiceId),
    #[error("{0} runs no containers")]
    NoContainers(String),
    #[error(
        "{0} was changed by somebody else each of the {TRIES} times the gate tried; is another tool updating it without end?"
    )]
    Raced(String),
    #[error("{service}: Swarm did not take the update: {why}")]
    Ended { service: String, end: End, why: String },
    #[error("{service} is updated, and was not done after {waited}: {why}; Swarm goes on with it")]
    NotConverged { service: String, waited: String, why: String },
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Updates services. A cheap handle.
#[derive(Debug, Clone)]
pub struct Updater {
    engine: SwarmEngine,
    fleet: Fleet,
    config: watch::Receiver<Arc<Config>>,
}

/// The image that a service is to have.
#[derive(Debug, Clone)]
struct Target {
    image: String,
    /// Its tasks are replaced also if it is the image that they have.
    again: bool,
    warning: Option<String>,
}

/// What registries have said so far, so that a retry does not ask again.
type Asked = Option<(String, Result<String, EngineError>)>;

impl Updater {
    pub fn new(engine: SwarmEngine, fleet: Fleet, config: watch::Receiver<Arc<Config>>) -> Self {
        Self { engine, fleet, config }
    }

    /// Changes the image of a service and nothing else of it. One that is asleep stays asleep.
    pub async fn update(&self, ask: &Ask) -> Result<Updated, UpdateError> {
        let image = ask.image.as_deref().map(Image::parse).transpose().map_err(UpdateError::BadImage)?;
        self.check_image(image.as_ref())?;
        let engine = self.engine.get().ok_or_else(|| self.without_swarm(&ask.service))?;
        let (id, mut updated) = self.change(engine, ask, image.as_ref()).await?;
        if let Some(limit) = ask.wait.filter(|_| updated.state == "updating") {
            converge(engine, &id, &updated, limit).await?;
            updated.state = "converged".to_owned();
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
        // A write without an answer may have been made.
        let mut perhaps: Option<(Value, Updated)> = None;
        for attempt in 0..TRIES {
            let service = self.look(engine, &ask.service).await?;
            let spec = service.get("Spec").unwrap_or(&Value::Null);
            let id = service.get("ID").and_then(Value::as_str).unwrap_or_default().to_owned();
            if let Some((_, mut made)) = perhaps.take_if(|(sent, _)| sent == spec) {
                made.new_version = version(&service);
                return Ok((id, made));
            }
            let target = target(engine, &service, image, &mut asked).await;
            let mut updated = describe(&service, &target);
            let edited = update::edit(spec, &target.image, target.again);
            let edited = edited.map_err(|_| UpdateError::NoContainers(ask.service.clone()))?;
            let Some(edited) = edited else {
                if update::is_under_way(&service) {
                    // Who waits wants to know how it ends, whoever has begun it.
                    updated.state = "updating".to_owned();
                }
                return Ok((id, updated));
            };
            self.check_players(&updated.service, ask.force)?;
            updated.state = if update::is_asleep(spec) { "asleep" } else { "updating" }.to_owned();
            let sent = engine.update_service(&id, updated.old_version, &edited.spec).await;
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
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(pause(attempt)).await;
        }
        Err(UpdateError::Raced(ask.service.clone()))
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
        let own = service.pointer("/Spec/Labels").and_then(Value::as_object);
        let is_labelled = own.is_some_and(|labels| labels.keys().any(|key| labels::is_ours(key)));
        match self.config.borrow().update.services {
            Updatable::Labelled if !is_labelled => Err(UpdateError::NotLabelled(name.to_owned())),
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

    /// An update disconnects everybody. What is no game has no seats.
    fn check_players(&self, name: &str, force: bool) -> Result<(), UpdateError> {
        let id = ServiceId::new(ID, name);
        let nobody = self.fleet.look(|core, _| core.nobody_in(&id));
        match nobody {
            Err(_) if force => Ok(()),
            Err(CommandError::Occupied { service, seats, online }) => {
                Err(UpdateError::Occupied { service, seats, online })
            }
            Err(_) => Err(UpdateError::UnknownPlayers(id)),
            Ok(()) => Ok(()),
        }
    }
}

/// What the service is to have: `image`, or else what it has, with the digest that its tag has now.
async fn target(engine: &Engine, service: &Value, image: Option<&Image>, asked: &mut Asked) -> Target {
    let current = update::image(service.get("Spec").unwrap_or(&Value::Null));
    // After Swarm has given up, whoever asks again wants it tried again.
    let again = update::is_paused(service);
    if let Some(fixed) = image.filter(|image| image.digest().is_some()) {
        return Target { image: fixed.to_string(), again, warning: None };
    }
    let parsed = Image::parse(current).ok();
    let Some(moving) = image.or(parsed.as_ref()).and_then(Image::moving) else {
        let warning = format!("{current} is one image for good, so there is none newer");
        return Target { image: current.to_owned(), again, warning: Some(warning) };
    };
    let reference = moving.to_string();
    let known = asked.take().filter(|(of, _)| *of == reference).map(|(_, answer)| answer);
    let answer = match known {
        Some(answer) => answer,
        None => engine.digest(&reference).await,
    };
    let pinned = answer.as_ref().map(|digest| moving.pinned(digest));
    let target = match pinned {
        Ok(Some(pinned)) => Target { image: pinned.to_string(), again, warning: None },
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
    Target { image: reference.to_owned(), again: true, warning: Some(warning) }
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
        warnings: target.warning.iter().cloned().collect(),
    }
}

fn digest(image: &str) -> Option<String> {
    image.split_once('@').map(|(_, digest)| digest.to_owned())
}

fn version(service: &Value) -> u64 {
    service.pointer("/Version/Index").and_then(Value::as_u64).unwrap_or_default()
}

/// Returns once as many tasks as are wanted run the image.
async fn converge(engine: &Engine, id: &str, updated: &Updated, limit: Duration) -> Result<(), UpdateError> {
    let until = Instant::now() + limit;
    let path = format!("/services/{id}");
    let filters = json!({"service": [id]}).to_string();
    let of_it = format!("/tasks?filters={}", encode(&filters));
    loop {
        let (service, tasks) = tokio::join!(engine.get(&path), engine.get(&of_it));
        let why = match (service, tasks) {
            (Ok(service), Ok(tasks)) => {
                let tasks = tasks.as_array().map(Vec::as_slice).unwrap_or_default();
                match update::progress(&service, tasks, &updated.new_image) {
                    Progress::Done => return Ok(()),
                    Progress::Ended(end, why) => {
                        return Err(UpdateError::Ended { service: updated.service.clone(), end, why });
                    }
                    Progress::Going(why) => why,
                }
            }
            (Err(error @ EngineError::NotThere { .. }), _)
            | (_, Err(error @ EngineError::NotThere { .. })) => {
                return Err(error.into());
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
