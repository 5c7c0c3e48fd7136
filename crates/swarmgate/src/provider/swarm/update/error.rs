//! Why a service was not updated, or is not done.

use swarmgate_core::fleet::CommandError;
use swarmgate_core::image::ImageError;
use swarmgate_core::service::ServiceId;
use swarmgate_core::state::swarm::update::End;

use super::TRIES;
use crate::engine::error::EngineError;

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
        "{0}: it is not known how many players it has, and unknown is not empty; force=true updates it all the same"
    )]
    UnknownPlayers(ServiceId),
    #[error(
        "{service} is the gate itself, and an update would disconnect all who play through it ({seats}); force=true does it all the same"
    )]
    IsTheGate { service: String, seats: usize },
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
    #[error("{service}: {error}")]
    Of { service: String, error: EngineError },
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl UpdateError {
    /// The service that it is about, if there is one.
    pub fn service(&self) -> Option<&str> {
        match self {
            Self::Occupied { service, .. } | Self::UnknownPlayers(service) => Some(&service.name),
            Self::NotLabelled(service)
            | Self::IsTheGate { service, .. }
            | Self::NoContainers(service)
            | Self::Raced(service)
            | Self::Ended { service, .. }
            | Self::NotConverged { service, .. }
            | Self::Of { service, .. } => Some(service),
            Self::NoSwarm
            | Self::NoSuchService(_)
            | Self::NotOfSwarm(_)
            | Self::BadImage(_)
            | Self::ImageNotAllowed(_)
            | Self::Engine(_) => None,
        }
    }
}
