//! Where services come from.

pub mod api;
pub mod docker;
mod ear;
pub mod file;
mod pace;
pub mod process;
pub mod swarm;
mod told;
pub mod watch;

use std::future::Future;
use std::io;

use jiff::Timestamp;
use swarmgate_core::alert::Sight;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Snapshot, SourceId};

use crate::engine::error::EngineError;

/// An orchestrator: it knows services and can start and stop them.
pub trait Source: Send + 'static {
    fn id(&self) -> SourceId;

    /// All services now; never blocks for long.
    fn list(&mut self, now: Moment) -> impl Future<Output = Result<Snapshot, SourceError>> + Send;

    /// Returns when something may have changed: the caller lists again. Cancel-safe.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// What the last listing has shown that may be worth telling a person; of everything there is, each once.
    fn sights(&mut self) -> Vec<Sight> {
        Vec::new()
    }

    /// The run of `service` that has begun, where its output is to be had by asking for [`Self::last_lines`].
    fn begun(&self, _service: &str) -> Option<Begun> {
        None
    }

    /// The last lines of the output of a run that a sight has named, or that has begun, oldest first; none if they are
    /// not to be had.
    fn last_lines(
        &self,
        _run: &Begun,
        _lines: usize,
    ) -> impl Future<Output = Vec<String>> + Send + use<Self> {
        std::future::ready(Vec::new())
    }

    /// Something that runs does not behave as if it did: what the orchestrator says next may be of the time before.
    fn look_closely(&mut self) {}

    /// Asks for one (`up`) or no instance of a service. Returns once the request is accepted, not when it is
    /// done. Asking again for what is on its way changes nothing.
    fn scale(
        &mut self,
        service: &str,
        up: bool,
        now: Moment,
    ) -> impl Future<Output = Result<(), SourceError>> + Send;
}

/// A run with output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub run: String,
    /// By the orchestrator's clock, where the output of earlier runs stands before its own.
    pub since: Option<Timestamp>,
}

impl From<&str> for Begun {
    fn from(run: &str) -> Self {
        Self { run: run.to_owned(), since: None }
    }
}

/// Why a source could not answer or act. Never a statement about its services.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("there is no service {0:?}")]
    NoSuchService(String),
    #[error("{0} cannot be started or stopped by this source")]
    NotScalable(String),
    /// Why it is not done, in a sentence.
    #[error("{0}")]
    Unwilling(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{what}")]
    Io {
        what: String,
        #[source]
        source: io::Error,
    },
}

impl SourceError {
    /// For metric labels.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NoSuchService(_) => "no_such_service",
            Self::NotScalable(_) => "not_scalable",
            Self::Unwilling(_) => "unwilling",
            Self::Engine(error) => error.kind(),
            Self::Io { .. } => "io",
        }
    }
}
