//! Routes made over the API. They are kept in the store before anybody is told that they are made.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use swarmgate_core::api_routes::{self, ApiRoutes, Claim};
use swarmgate_core::config::{Config, Fault};
use swarmgate_core::fleet::Fleet as Core;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Endpoint, ServiceId, Snapshot, SourceId};
use tokio::sync::{Mutex, watch};

use super::{Source, SourceError};
use crate::fleet::Fleet;
use crate::store::{Store, StoreError};

pub const ID: SourceId = api_routes::ID;

/// How long a change may take to reach whoever joins before its answer waits no more for that.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(2);

/// Makes and removes routes. A cheap handle.
#[derive(Debug, Clone)]
pub struct RouteBook {
    routes: watch::Sender<Arc<ApiRoutes>>,
    store: Store,
    fleet: Fleet,
    config: watch::Receiver<Arc<Config>>,
    /// One change after the other, so that the store ends with what is in force.
    changing: Arc<Mutex<()>>,
}

/// Why a route was not made or removed.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    #[error("{field}: {what}; {fix}")]
    Field { field: &'static str, what: String, fix: String },
    #[error(
        "{claim} leads to {holder}, whose labels or table say so, and that goes before a route of the API; take it from there first"
    )]
    Taken { claim: String, holder: ServiceId },
    #[error(
        "{claim} leads to {holder}, which is no route of the API; take it from the labels or the table of that service"
    )]
    NotOurs { claim: String, holder: ServiceId },
    #[error("there is no route of the API for {0}")]
    NoSuchRoute(String),
    #[error("there are {most} routes of the API already; remove some", most = api_routes::MOST)]
    Full,
    #[error("the route could not be kept, so nothing was changed")]
    NotKept(#[from] StoreError),
}

impl RouteBook {
    /// With the routes of earlier runs.
    pub fn open(store: Store, fleet: Fleet, config: watch::Receiver<Arc<Config>>) -> Self {
        let mut routes = ApiRoutes::default();
        for (host, backend) in store.routes() {
            if let Err(why) = recall(&mut routes, &host, &backend) {
                tracing::warn!(host, backend, why, "a route that was kept is not usable; skipped");
            }
        }
        let routes = watch::Sender::new(Arc::new(routes));
        Self { routes, store, fleet, config, changing: Arc::default() }
    }

    /// Returns once players are led there. `host` and `backend` are as somebody has written them.
    pub async fn add(&self, host: &str, backend: &str) -> Result<(), RouteError> {
        let host = api_routes::host(host).map_err(|fault| field("serverAddress", fault))?;
        self.set(Claim::Host(host), backend).await
    }

    /// The same for hostnames that nobody claims.
    pub async fn set_default(&self, backend: &str) -> Result<(), RouteError> {
        self.set(Claim::Default, backend).await
    }

    pub async fn remove(&self, host: &str) -> Result<(), RouteError> {
        let host = api_routes::host(host).map_err(|fault| field("serverAddress", fault))?;
        self.unset(Claim::Host(host)).await
    }

    pub async fn remove_default(&self) -> Result<(), RouteError> {
        self.unset(Claim::Default).await
    }

    async fn set(&self, claim: Claim, backend: &str) -> Result<(), RouteError> {
        let listening = self.listening();
        let backend = api_routes::backend(backend, &listening).map_err(|fault| field("backend", fault))?;
        let _alone = self.changing.lock().await;
        if let Some(holder) = self.holder(&claim).filter(|holder| holder.source != ID) {
            return Err(RouteError::Taken { claim: claim.to_string(), holder });
        }
        let mut routes = ApiRoutes::clone(&self.routes.borrow());
        routes.set(claim.clone(), backend.clone()).map_err(|api_routes::Full| RouteError::Full)?;
        self.put(routes, claim, Some(backend)).await
    }

    async fn unset(&self, claim: Claim) -> Result<(), RouteError> {
        let _alone = self.changing.lock().await;
        let mut routes = ApiRoutes::clone(&self.routes.borrow());
        if !routes.remove(&claim) {
            let claim_text = claim.to_string();
            return Err(match self.holder(&claim) {
                Some(holder) => RouteError::NotOurs { claim: claim_text, holder },
                None => RouteError::NoSuchRoute(claim_text),
            });
        }
        self.put(routes, claim, None).await
    }

    async fn put(
        &self,
        routes: ApiRoutes,
        claim: Claim,
        backend: Option<Endpoint>,
    ) -> Result<(), RouteError> {
        let host = match &claim {
            Claim::Host(host) => host.to_string(),
            Claim::Default => String::new(),
        };
        let text = backend.as_ref().map(ToString::to_string);
        tokio::task::block_in_place(|| self.store.keep_route(&host, text.as_deref()))?;
        tracing::info!(route = %claim, backend = text.as_deref().unwrap_or("nowhere"), "a route of the API leads there now");
        self.routes.send_replace(Arc::new(routes));
        let mut view = self.fleet.view();
        let in_force = async {
            while !self.fleet.look(|core, now| is_in_force(core, &claim, backend.as_ref(), now)) {
                if view.changed().await.is_err() {
                    return;
                }
            }
        };
        // The source's loop is quick; if it is not, the route is made all the same.
        let _ = tokio::time::timeout(IN_FORCE_WITHIN, in_force).await;
        Ok(())
    }

    fn holder(&self, claim: &Claim) -> Option<ServiceId> {
        self.fleet.look(|core, _| match claim {
            Claim::Host(host) => core.routes().holder(host).cloned(),
            Claim::Default => core.routes().default_route().cloned(),
        })
    }

    fn listening(&self) -> Vec<SocketAddr> {
        self.config.borrow().listeners.iter().map(|listener| listener.address).collect()
    }
}

/// The fleet knows of it, whoever has the hostname.
fn is_in_force(core: &Core, claim: &Claim, backend: Option<&Endpoint>, now: Moment) -> bool {
    let claims = |spec: &swarmgate_core::service::Spec| match claim {
        Claim::Host(host) => spec.hosts.contains(host),
        Claim::Default => spec.default,
    };
    let reports = core.reports(now);
    let mut claimants = reports
        .iter()
        .filter(|report| report.face.service.source == ID && claims(&report.face.spec))
        .map(|report| &report.face.service);
    match backend.map(api_routes::service_of) {
        Some(wanted) => claimants.eq([&wanted]),
        None => claimants.next().is_none(),
    }
}

fn recall(routes: &mut ApiRoutes, host: &str, backend: &str) -> Result<(), String> {
    let told = |fault: Fault| fault.what;
    let claim = match host {
        "" => Claim::Default,
        host => Claim::Host(api_routes::host(host).map_err(told)?),
    };
    // Where the gate listens may have changed since; dialling tells.
    let backend = api_routes::backend(backend, &[]).map_err(told)?;
    routes.set(claim, backend).map_err(|api_routes::Full| "there are too many".to_owned())
}

fn field(field: &'static str, Fault { what, fix }: Fault) -> RouteError {
    RouteError::Field { field, what, fix }
}

/// The source `api`.
#[derive(Debug)]
pub struct ApiSource {
    routes: watch::Receiver<Arc<ApiRoutes>>,
    config: watch::Receiver<Arc<Config>>,
}

impl ApiSource {
    pub fn new(book: &RouteBook, config: watch::Receiver<Arc<Config>>) -> Self {
        Self { routes: book.routes.subscribe(), config }
    }
}

impl Source for ApiSource {
    fn id(&self) -> SourceId {
        ID
    }

    async fn list(&mut self, _now: Moment) -> Result<Snapshot, SourceError> {
        let defaults = Arc::clone(&self.config.borrow_and_update().defaults);
        Ok(self.routes.borrow_and_update().snapshot(&defaults))
    }

    async fn changed(&mut self) {
        tokio::select! {
            Ok(()) = self.routes.changed() => {}
            Ok(()) = self.config.changed() => {}
            else => std::future::pending().await,
        }
    }

    async fn scale(&mut self, service: &str, _up: bool, _now: Moment) -> Result<(), SourceError> {
        Err(SourceError::NotScalable(service.to_owned()))
    }
}
