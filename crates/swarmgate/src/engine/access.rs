//! Which calls the engine, or a proxy before it, allows, and what does not work without.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::EngineError;

/// A call that the gate makes. `docs/permissions.md` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    Services,
    Service,
    Tasks,
    Nodes,
    Events,
    OwnContainer,
    Update,
    Registry,
    Containers,
    Container,
    Start,
    Stop,
    Unpause,
    Logs,
}

impl Need {
    const fn call(self) -> &'static str {
        match self {
            Self::Services => "GET /services",
            Self::Service => "GET /services/{id}",
            Self::Tasks => "GET /tasks",
            Self::Nodes => "GET /nodes",
            Self::Events => "GET /events",
            Self::OwnContainer | Self::Container => "GET /containers/{id}/json",
            Self::Update => "POST /services/{id}/update",
            Self::Registry => "GET /distribution/{image}/json",
            Self::Containers => "GET /containers/json",
            Self::Start => "POST /containers/{id}/start",
            Self::Stop => "POST /containers/{id}/stop",
            Self::Unpause => "POST /containers/{id}/unpause",
            Self::Logs => "GET /tasks/{id}/logs and GET /containers/{id}/logs",
        }
    }

    /// What does not work without it.
    const fn without(self) -> &'static str {
        match self {
            Self::Services => "no service of the Swarm is known",
            Self::Service | Self::Update => "no service of the Swarm is woken, put to sleep or updated",
            Self::Tasks => "no state of a service is known, so none is routed, woken or put to sleep",
            Self::Nodes => {
                "a task that was stopping on a node that is lost keeps its service from being woken until that node \
                 is back"
            }
            Self::Events => "changes made by others are noticed some seconds late",
            Self::OwnContainer => {
                "the gate cannot tell which networks it is on, so it may dial a server on one that it is not on"
            }
            Self::Registry => {
                "an update over the API does not know which image a tag is now, and leaves it to each node"
            }
            Self::Containers => "no plain container is known",
            Self::Container => "no state of a container is known, so none is routed, started or stopped",
            Self::Start => "no container is started",
            Self::Stop => "no container is stopped",
            Self::Unpause => "no paused container is woken",
            Self::Logs => {
                "alerts come without the last lines of a server, and players who wait do not see what it says of its start"
            }
        }
    }
}

/// What is refused at present, so that each refusal is told once. Shared.
#[derive(Debug, Clone, Default)]
pub struct Access {
    refused: Arc<Mutex<BTreeMap<Need, bool>>>,
}

impl Access {
    pub fn is_tried(&self, need: Need) -> bool {
        self.lock().contains_key(&need)
    }

    pub fn is_refused(&self, need: Need) -> bool {
        self.lock().get(&need).copied().unwrap_or(false)
    }

    /// Takes in how a call went.
    pub fn note<T>(&self, need: Need, outcome: &Result<T, EngineError>) {
        let refused = match outcome {
            Ok(_) => None,
            Err(error) if error.is_forbidden() => Some(error),
            // Not a question of permission, and told by whoever needed the answer.
            Err(_) => return,
        };
        let before = self.lock().insert(need, refused.is_some()).unwrap_or(false);
        match refused {
            Some(error) if !before => {
                tracing::warn!(call = need.call(), without = need.without(), %error, "the engine refuses a call");
            }
            None if before => tracing::info!(call = need.call(), "the engine allows the call again"),
            Some(_) | None => {}
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Need, bool>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
