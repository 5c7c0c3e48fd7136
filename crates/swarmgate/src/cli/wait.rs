//! `wake --wait` and `sleep --wait`: until it is done, or cannot be any more.

use std::time::Duration;

use super::control::Control;
use super::output::{Failure, Output};
use super::services::doing;
use crate::api::ServiceView;
use crate::percent::encode;

const PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    Running,
    Asleep,
}

/// What `service` is at last; people are told of each change meanwhile.
pub async fn until(
    aim: Aim,
    mut service: ServiceView,
    control: &Control,
    output: Output,
) -> anyhow::Result<ServiceView> {
    let path = format!("/v1/services/{}", encode(&format!("{}/{}", service.source, service.name)));
    let mut stopped = false;
    loop {
        let told = doing(&service);
        stopped |= service.state == "stopping";
        if aim.is_reached(&service) {
            return Ok(service);
        }
        if aim.is_lost(&service, stopped) {
            let failure = Failure::new(aim.code(), format!("{} is {told}", service.name));
            return Err(failure.fix(service.problems.join("\n  ")).into());
        }
        output.notice(&format!("{} is {told}", service.name));
        while doing(&service) == told && !aim.is_reached(&service) && !aim.is_lost(&service, stopped) {
            tokio::time::sleep(PAUSE).await;
            service = control.get(&path).await?;
        }
    }
}

impl Aim {
    fn is_reached(self, service: &ServiceView) -> bool {
        match self {
            Self::Running => service.state == "running",
            Self::Asleep => !service.waking && matches!(&*service.state, "asleep" | "failed"),
        }
    }

    /// Whether the gate no longer works towards it.
    fn is_lost(self, service: &ServiceView, stopped: bool) -> bool {
        match self {
            // A server that crashes is started again until the gate, or its orchestrator, gives up.
            Self::Running => !service.waking && matches!(&*service.state, "asleep" | "failed"),
            Self::Asleep => service.waking || (stopped && service.state == "running"),
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Running => "not_started",
            Self::Asleep => "not_stopped",
        }
    }
}
