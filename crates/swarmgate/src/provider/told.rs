//! Which services the log has heard of.

use std::collections::BTreeSet;

use swarmgate_core::service::{Service, ServiceId};

#[derive(Debug, Default)]
pub struct Told(BTreeSet<ServiceId>);

impl Told {
    pub fn tell<'a>(&mut self, found: impl Iterator<Item = &'a Service>) {
        let mut before = std::mem::take(&mut self.0);
        for service in found {
            if !before.remove(&service.id) {
                let hosts: Vec<String> = service.spec.hosts.iter().map(ToString::to_string).collect();
                let (hosts, default) = (hosts.join(", "), service.spec.default);
                tracing::info!(service = %service.id, hosts, default, "a labelled service");
            }
            self.0.insert(service.id.clone());
        }
        for service in before {
            tracing::info!(%service, "the service is gone, or has no labels for the gate any more");
        }
    }
}
