//! What needs no token: whether the gate lives, what it is, and its numbers, unless those are to be kept from others.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::{Code, Refused};
use crate::build::{COMMIT, VERSION};
use crate::metrics::{CONTENT_TYPE, Scene};

pub fn open() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(ping))
        .routes(routes!(version))
}

pub fn metrics() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(numbers))
}

/// The process lives.
#[utoipa::path(get, path = "/healthz", tag = "gate", responses((status = 200, body = String)))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// The gate takes players.
#[utoipa::path(get, path = "/readyz", tag = "gate", responses(
    (status = 200, body = String),
    (status = 503, body = String, description = "It is starting, or stopping."),
))]
async fn readyz(State(api): State<Api>) -> (StatusCode, &'static str) {
    if api.draining.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else if api.listening.load(Ordering::Acquire) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting\n")
    }
}

/// A dot: the gate answers.
#[utoipa::path(get, path = "/ping", tag = "gate", responses((status = 200, body = String)))]
async fn ping() -> &'static str {
    "."
}

/// What runs here, a line for each thing.
#[utoipa::path(get, path = "/version", tag = "gate", responses((status = 200, body = String)))]
async fn version() -> String {
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("Version: {VERSION}\nCommit: {COMMIT}\nOS/Arch: {system}/{machine}\n")
}

/// The gate's numbers, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "gate", responses(
    (status = 200, body = String, content_type = "text/plain"),
))]
async fn numbers(State(api): State<Api>) -> Result<impl IntoResponse, Refused> {
    let (services, in_limbo) = api.fleet.look(|core, now| (core.reports(now), core.in_limbo()));
    let (sources, kept) = (api.fleet.sources(), api.fleet.is_kept());
    let scene = Scene { services: &services, sources: &sources, kept, door: &api.door, in_limbo };
    match api.metrics.encode(scene) {
        Ok(page) => Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], page)),
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written");
            Err(Refused::new(Code::Internal, "the metrics cannot be written"))
        }
    }
}
