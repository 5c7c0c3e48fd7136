//! Routes as mc-router's API has them (github.com/itzg/mc-router, README, "REST API"), so that its clients go on working.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use swarmgate_core::fleet::{Fleet as Core, Report};
use swarmgate_core::moment::Moment;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::{Code, Refused};
use super::extract::{Json as Body, Path};
use crate::provider::api::RouteError;

pub fn read() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(list))
}

pub fn operate() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(add)).routes(routes!(set_default)).routes(routes!(remove))
}

/// Where a hostname leads. Fields beside mc-router's two are ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Route {
    /// Where the server can be reached now; empty while it does not run.
    backend: String,
    /// The same for a server that the gate starts and stops, and otherwise empty.
    scaling_target: String,
    /// The service, as in `/v1/services`.
    service: String,
    /// Who says so: `api` for those that were made here.
    origin: String,
}

/// All hostnames and where they lead, in the words of mc-router.
#[utoipa::path(get, path = "/routes", tag = "mc-router",
    responses((status = 200, body = BTreeMap<String, Route>)))]
async fn list(State(api): State<Api>) -> Json<BTreeMap<String, Route>> {
    Json(api.fleet.look(routes_of))
}

fn routes_of(core: &Core, now: Moment) -> BTreeMap<String, Route> {
    let route = |(host, id)| Some((host, route(&core.report(id, now)?)));
    core.routes().names().filter_map(route).collect()
}

fn route(report: &Report) -> Route {
    let backend = report.face.state.endpoint().map(ToString::to_string).unwrap_or_default();
    let service = &report.face.service;
    Route {
        scaling_target: if report.scalable { backend.clone() } else { String::new() },
        backend,
        service: service.to_string(),
        origin: service.source.to_owned(),
    }
}

// The names that Go takes, too: clients in Go write their fields' names as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewRoute {
    /// The hostname, as players type it, or `*.example.com`.
    #[serde(rename = "serverAddress", alias = "ServerAddress", alias = "serveraddress")]
    #[schema(min_length = 1, max_length = 300)]
    server_address: String,
    /// Where it leads: `host:port`.
    #[serde(alias = "Backend")]
    #[schema(min_length = 1, max_length = 300)]
    backend: String,
}

/// Leads a hostname to an address, over restarts. Another route of the API for it is replaced.
#[utoipa::path(post, path = "/routes", tag = "mc-router", request_body = NewRoute,
    responses((status = 201, description = "It leads there.")))]
async fn add(
    State(api): State<Api>,
    Body(NewRoute { server_address, backend }): Body<NewRoute>,
) -> Result<StatusCode, Refused> {
    api.routes.add(&server_address, &backend).await?;
    Ok(StatusCode::CREATED)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewDefault {
    /// Where it leads: `host:port`. Empty: nowhere any more.
    #[serde(alias = "Backend")]
    backend: String,
}

/// Leads hostnames that nobody claims to an address, over restarts.
#[utoipa::path(post, path = "/defaultRoute", tag = "mc-router", request_body = NewDefault,
    responses((status = 200, description = "They lead there.")))]
async fn set_default(
    State(api): State<Api>,
    Body(NewDefault { backend }): Body<NewDefault>,
) -> Result<StatusCode, Refused> {
    if backend.is_empty() {
        api.routes.remove_default().await?;
    } else {
        api.routes.set_default(&backend).await?;
    }
    Ok(StatusCode::OK)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct Host {
    /// The hostname.
    #[serde(rename = "serverAddress")]
    server_address: String,
}

/// Removes a route of the API.
#[utoipa::path(delete, path = "/routes/{serverAddress}", tag = "mc-router", params(Host),
    responses((status = 200, description = "It is gone.")))]
async fn remove(
    State(api): State<Api>,
    Path(Host { server_address }): Path<Host>,
) -> Result<StatusCode, Refused> {
    api.routes.remove(&server_address).await?;
    Ok(StatusCode::OK)
}

impl From<RouteError> for Refused {
    fn from(error: RouteError) -> Self {
        let message = crate::errors::chain(&error);
        match error {
            RouteError::Field { field, .. } => Self::new(Code::BadRequest, message).field(field),
            RouteError::Taken { .. } => Self::new(Code::RouteTaken, message),
            RouteError::NotOurs { .. } => Self::new(Code::NotAnApiRoute, message),
            RouteError::NoSuchRoute(_) => Self::new(Code::NoSuchRoute, message),
            RouteError::Full => Self::new(Code::TooManyRoutes, message),
            RouteError::NotKept(_) => Self::new(Code::NotKept, message),
        }
    }
}
