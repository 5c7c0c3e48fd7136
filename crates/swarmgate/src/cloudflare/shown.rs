//! How publication stands, for those who ask.

use serde::{Deserialize, Serialize};
use swarmgate_core::publish::plan::HostView;
use tokio::sync::{mpsc, oneshot, watch};
use utoipa::ToSchema;

/// As the API gives it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct PlanAnswer {
    /// Whether anything can be published: `[cloudflare]` is written.
    pub configured: bool,
    /// Whether the changes below are made, or only told.
    pub dry_run: bool,
    /// The tunnel's own word: `healthy`, `down`, …
    pub tunnel_status: Option<String>,
    /// Why nothing can be read or written, if that is so: what is below is of the time before.
    pub problem: Option<String>,
    /// The changes that are due, as a diff.
    pub steps: Vec<String>,
    pub hosts: Vec<HostView>,
    /// What is wrong with services, such as a label that is not understood, each with the service and the fix.
    #[serde(default)]
    pub problems: Vec<String>,
}

impl PlanAnswer {
    /// A plan with what kept the last round, `before`, from making its changes.
    pub(super) fn after(mut self, before: &Self) -> Self {
        for host in self.hosts.iter_mut().filter(|host| host.is_due() && host.problem.is_none()) {
            let last = before.hosts.iter().find(|before| before.host == host.host);
            host.problem = last.and_then(|last| last.problem.clone()).or_else(|| before.problem.clone());
        }
        self
    }
}

/// Asks the loop for a plan of this moment.
#[derive(Debug, Clone)]
pub struct Shown {
    pub(super) latest: watch::Receiver<PlanAnswer>,
    pub(super) ask: mpsc::Sender<oneshot::Sender<PlanAnswer>>,
}

impl Shown {
    /// As it was after the last round.
    pub fn latest(&self) -> PlanAnswer {
        self.latest.borrow().clone()
    }

    /// As it is now; without an answer in time, as it was.
    pub async fn now(&self) -> PlanAnswer {
        // Below what a client of the control socket waits for.
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(8);
        let (send, answer) = oneshot::channel();
        let asked = async {
            self.ask.send(send).await.ok()?;
            answer.await.ok()
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Some(answer)) => answer,
            Ok(None) | Err(_) => self.latest(),
        }
    }
}
