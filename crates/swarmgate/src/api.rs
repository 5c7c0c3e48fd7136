//! HTTP for people and programs: all of it on the control socket, which the file system guards, and over TCP to those
//! with a token. Health, version and metrics are for everybody.
//!
//! An endpoint is a handler with `#[utoipa::path]`, registered by [`routes!`](utoipa_axum::routes) in the `read` or
//! `operate` of its module: the document, the token and the scope follow from that.

mod caller;
pub mod error;
mod events;
pub mod extract;
mod guard;
mod mc_router;
mod measure;
mod openapi;
mod pages;
mod routes;
pub mod serve;
mod services;
mod sessions;
mod socket;
pub mod tokens;
mod updates;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::{Extension, Router};
use swarmgate_core::config::{Config, Scope};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;

use self::error::{Code, Refused};
use self::guard::Guard;
use self::openapi::Document;
use self::serve::Cost;
use self::tokens::Tokens;
use crate::alarm::Alarm;
use crate::cloudflare::Shown;
use crate::fleet::Fleet;
use crate::gateway::door::Door;
use crate::metrics::Metrics;
use crate::provider::api::RouteBook;
use crate::provider::process::Consoles;
use crate::provider::swarm::update::Updater;

pub use guard::Asker;
pub use socket::{ControlError, bind_control};
pub use view::ServiceView;

/// What the answers are made from.
#[derive(Debug, Clone)]
pub struct Api {
    pub fleet: Fleet,
    pub door: Arc<Door>,
    pub metrics: Metrics,
    pub consoles: Arc<Consoles>,
    pub publication: Shown,
    pub alarm: Alarm,
    pub configs: watch::Receiver<Arc<Config>>,
    pub tokens: watch::Receiver<Arc<Tokens>>,
    pub routes: RouteBook,
    pub updater: Updater,
    /// Whether the gate takes players.
    pub listening: Arc<AtomicBool>,
    pub draining: CancellationToken,
}

impl Api {
    /// From now on the gate takes players.
    pub fn listening(&self) {
        self.listening.store(true, Ordering::Release);
    }

    /// All pages, with what guards them.
    pub fn pages(self) -> Router {
        let guard = Arc::new(Guard::new(self.configs.clone(), self.tokens.clone(), self.fleet.clock()));
        let measure = from_fn_with_state(self.metrics.clone(), measure::measure);
        let scoped = |endpoints: OpenApiRouter<Self>, scope| {
            let layer = from_fn_with_state((Arc::clone(&guard), scope), guard::require);
            described(endpoints.route_layer(layer), &[Some(scope)])
        };
        let named = from_fn_with_state(Arc::clone(&guard), guard::require_name);
        let if_set = from_fn_with_state(Arc::clone(&guard), guard::require_for_metrics);
        let (pages, document) = OpenApiRouter::with_openapi(openapi::frame())
            .merge(described(pages::open().route_layer(named), &[]))
            .merge(described(pages::metrics().route_layer(if_set), &[None, Some(Scope::Read)]))
            .merge(scoped(read(), Scope::Read))
            .merge(scoped(operate(), Scope::Operate))
            .split_for_parts();
        let document = Document(document.to_json().unwrap_or_default().into());
        pages
            .fallback(no_such_page)
            .method_not_allowed_fallback(wrong_method)
            .layer(from_fn_with_state(guard, guard::limit))
            .layer(DefaultBodyLimit::max(guard::LARGEST_BODY))
            .layer(Extension(document))
            .layer(measure)
            .with_state(self)
    }
}

/// What whoever has a token may ask.
fn read() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .merge(openapi::read())
        .merge(services::read())
        .merge(sessions::read())
        .merge(routes::read())
        .merge(mc_router::read())
        .merge(events::read())
}

/// What needs a token that may operate.
fn operate() -> OpenApiRouter<Api> {
    OpenApiRouter::default().merge(services::operate()).merge(mc_router::operate()).merge(updates::operate())
}

fn described(mut endpoints: OpenApiRouter<Api>, access: &[Option<Scope>]) -> OpenApiRouter<Api> {
    openapi::complete(endpoints.get_openapi_mut(), access);
    endpoints
}

pub async fn serve_control(socket: UnixListener, api: Api, stop: CancellationToken) {
    serve::serve(socket, api.pages(), Cost::default(), stop).await;
}

pub async fn serve_public(socket: TcpListener, api: Api, stop: CancellationToken) {
    serve::serve(socket, api.pages(), Cost::default(), stop).await;
}

async fn wrong_method() -> Refused {
    Refused::new(Code::MethodNotAllowed, "this page takes another method")
}

async fn no_such_page() -> Refused {
    Refused::new(Code::NoSuchPage, "there is no such page")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// axum shows the paths of a router in its debug form, those of its fallback among them.
    fn paths(router: &Router<Api>) -> BTreeSet<String> {
        let shown = format!("{router:?}");
        let quoted = shown.split('"').skip(1).step_by(2);
        let own =
            quoted.filter(|text| text.starts_with('/') && *text != "/" && !text.contains("axum_fallback"));
        own.map(str::to_owned).collect()
    }

    #[test]
    fn every_page_is_in_the_document() {
        let all = pages::open().merge(pages::metrics()).merge(read()).merge(operate());
        let (router, document) = all.split_for_parts();
        let documented: BTreeSet<String> = document.paths.paths.keys().cloned().collect();
        assert_eq!(paths(&router), documented);
        assert!(documented.len() > 10, "{documented:?}");
        let sneaked = router.route("/sneaked", axum::routing::get(|| async {}));
        assert_ne!(paths(&sneaked), documented);
    }

    #[test]
    fn every_endpoint_says_what_it_is_and_who_may() {
        let mut operate = described(operate(), &[Some(Scope::Operate)]);
        let document = serde_json::to_value(operate.get_openapi_mut()).unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let said = |what: &str| operation[what].as_str().is_some_and(|text| !text.is_empty());
                assert!(said("summary") && said("operationId"), "{method} {path}: {operation}");
                assert_eq!(operation["security"], serde_json::json!([{"token": ["operate"]}]), "{path}");
                assert_ne!(operation["responses"]["default"], Value::Null, "{path}");
            }
        }
    }
}
