//! Static backends: servers of the configuration that only have an address, and what else it says is published.

use std::sync::Arc;

use swarmgate_core::config::{Config, Kind, PublishedAddress, Server};
use swarmgate_core::moment::Moment;
use swarmgate_core::publish::Published;
use swarmgate_core::service::{Running, Service, ServiceId, Snapshot, SourceId, State};
use tokio::sync::watch;

use super::{Source, SourceError};

pub const ID: SourceId = "file";

#[derive(Debug)]
pub struct FileSource {
    config: watch::Receiver<Arc<Config>>,
}

impl FileSource {
    pub fn new(config: watch::Receiver<Arc<Config>>) -> Self {
        Self { config }
    }
}

impl Source for FileSource {
    fn id(&self) -> SourceId {
        ID
    }

    async fn list(&mut self, _now: Moment) -> Result<Snapshot, SourceError> {
        let config = self.config.borrow_and_update().clone();
        let services = config.servers.iter().filter_map(service).collect();
        Ok(Snapshot { services, published: config.published.iter().map(published).collect() })
    }

    async fn changed(&mut self) {
        if self.config.changed().await.is_err() {
            // The configuration is settled for good; nothing will change any more.
            std::future::pending().await
        }
    }

    async fn scale(&mut self, service: &str, _up: bool, _now: Moment) -> Result<(), SourceError> {
        Err(SourceError::NotScalable(service.to_owned()))
    }
}

/// Always running as far as the gate is concerned: whether it answers, dialling tells.
fn service(server: &Server) -> Option<Service> {
    let Kind::File { endpoints } = &server.kind else { return None };
    let addresses: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let running = Running { run: addresses.join(",").into(), endpoints: endpoints.clone() };
    Some(Service {
        id: ServiceId::new(ID, &server.name),
        spec: Arc::clone(&server.spec),
        state: State::Running(running),
        scalable: false,
        problems: Vec::new(),
    })
}

fn published(address: &PublishedAddress) -> Published {
    Published {
        service: ServiceId::new(ID, &address.name),
        publications: vec![address.publication.clone()],
        unclear: false,
        problems: Vec::new(),
    }
}
