//! Where hostnames lead, and what is published.

use std::net::IpAddr;

use axum::Json;
use axum::extract::{Extension, State};
use serde::{Deserialize, Serialize};
use swarmgate_core::config::Scope;
use swarmgate_core::explain::{Explanation, Visitor, explain};
use swarmgate_core::publish::plan::HostView;
use swarmgate_core::routes::Routes;
use swarmgate_minecraft::address::Address;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::extract::Query;
use super::{Api, Asker};
use crate::cloudflare::PlanAnswer;

pub fn read() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(all))
        .routes(routes!(explain_host))
        .routes(routes!(plan))
        .routes(routes!(publication))
}

/// Which service a hostname leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
struct RouteView {
    /// `null` for the default route, which takes whatever leads nowhere else.
    host: Option<String>,
    service: String,
    /// Who says so: the service's source, such as `file`, `process`, `swarm` or `docker`.
    origin: String,
    /// The services that claim it, too, and do not get it.
    refused: Vec<String>,
}

/// All routes, by hostname.
#[utoipa::path(get, path = "/v1/routes", tag = "routes", responses((status = 200, body = [RouteView])))]
async fn all(State(api): State<Api>) -> Json<Vec<RouteView>> {
    Json(api.fleet.look(|core, _| views(core.routes())))
}

fn views(routes: &Routes) -> Vec<RouteView> {
    let default = routes.default_route().map(|id| (None, id));
    let named = routes.names().map(|(host, id)| (Some(host), id));
    let mut views: Vec<RouteView> = named
        .chain(default)
        .map(|(host, id)| {
            let claim = host.as_deref().unwrap_or(Routes::DEFAULT);
            let refused = routes.conflicts().iter().filter(|conflict| conflict.claim == claim);
            RouteView {
                service: id.to_string(),
                origin: id.source.to_owned(),
                refused: refused.map(|conflict| conflict.other.to_string()).collect(),
                host,
            }
        })
        .collect();
    views.sort();
    views
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ExplainQuery {
    /// The hostname, as a player types it.
    host: String,
    /// A player's name.
    name: Option<String>,
    /// A player's UUID.
    uuid: Option<Uuid>,
    /// The address from which the player comes.
    #[param(value_type = Option<String>)]
    source: Option<IpAddr>,
}

/// What would happen to a hostname now, and why.
#[utoipa::path(get, path = "/v1/explain", tag = "routes", params(ExplainQuery),
    responses((status = 200, body = Explanation)))]
async fn explain_host(
    State(api): State<Api>,
    Query(ExplainQuery { host, name, uuid, source }): Query<ExplainQuery>,
) -> Json<Explanation> {
    let visitor = Visitor { name, uuid, source };
    Json(api.fleet.look(|core, now| explain(core, Address::cut(&host).host, &visitor, now)))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PlanQuery {
    /// As it was found last, without a call to Cloudflare. A token with the scope `read` gets no other.
    #[serde(default)]
    #[param(required = false)]
    last: bool,
}

/// What would be changed at Cloudflare now.
#[utoipa::path(get, path = "/v1/plan", tag = "publication", params(PlanQuery),
    responses((status = 200, body = PlanAnswer)))]
async fn plan(
    State(api): State<Api>,
    Extension(asker): Extension<Asker>,
    Query(PlanQuery { last }): Query<PlanQuery>,
) -> Json<PlanAnswer> {
    // Cloudflare answers so many calls and no more: a dashboard must not use up what publishing needs.
    let anew = !last && asker.scope == Scope::Operate;
    Json(if anew { api.publication.now().await } else { api.publication.latest() })
}

/// How publication stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
struct Publication {
    /// Whether anything can be published: `[cloudflare]` is written.
    configured: bool,
    /// The tunnel's own word: `healthy`, `down`, …
    tunnel_status: Option<String>,
    /// Why nothing can be read or written at Cloudflare, if that is so.
    problem: Option<String>,
    hosts: Vec<HostView>,
    /// What is wrong with services, such as a label that is not understood, each with the service and the fix.
    problems: Vec<String>,
}

/// What is published, hostname by hostname, as it was found last.
#[utoipa::path(get, path = "/v1/publication", tag = "publication", responses((status = 200, body = Publication)))]
async fn publication(State(api): State<Api>) -> Json<Publication> {
    let PlanAnswer { configured, tunnel_status, problem, hosts, problems, .. } = api.publication.latest();
    Json(Publication { configured, tunnel_status, problem, hosts, problems })
}
