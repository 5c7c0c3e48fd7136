//! What the log has heard about services: each thing once.

use std::collections::{BTreeMap, BTreeSet};

use swarmgate_core::service::{Service, ServiceId};

#[derive(Debug, Default)]
pub struct Told {
    problems: BTreeMap<ServiceId, BTreeSet<String>>,
}

impl Told {
    pub fn tell<'a>(&mut self, found: impl Iterator<Item = &'a Service>) {
        let mut told = std::mem::take(&mut self.problems);
        for service in found {
            let before = told.remove(&service.id);
            if before.is_none() {
                let hosts: Vec<String> = service.spec.hosts.iter().map(ToString::to_string).collect();
                let (hosts, default) = (hosts.join(", "), service.spec.default);
                tracing::info!(service = %service.id, hosts, default, "a labelled service");
            }
            let mut problems = before.unwrap_or_default();
            for problem in &service.problems {
                if problems.insert(problem.clone()) {
                    tracing::warn!(service = %service.id, "{problem}");
                }
            }
            self.problems.insert(service.id.clone(), problems);
        }
        for (service, _) in told {
            tracing::info!(%service, "the service is gone, or has no labels for the gate any more");
        }
    }
}
