//! HTTP for people and programs: all of it on the control socket, which the file system guards; health and
//! metrics also on a TCP address.

mod serve;
mod socket;
mod view;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::rejection::{PathRejection, QueryRejection, StringRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use swarmgate_core::explain::{Explanation, Visitor, explain};
use swarmgate_core::fleet::CommandError;
use swarmgate_core::learned::Pin;
use swarmgate_core::service::ServiceId;
use swarmgate_minecraft::address::Address;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::cloudflare::{PlanAnswer, Shown};
use crate::fleet::Fleet;
use crate::gateway::door::Door;
use crate::metrics::Metrics;
use crate::provider::process::Consoles;

pub use socket::{ControlError, bind_control};
pub use view::ServiceView;

/// What the answers are made from.
#[derive(Debug, Clone)]
pub struct Api {
    fleet: Fleet,
    door: Arc<Door>,
    metrics: Metrics,
    consoles: Arc<Consoles>,
    publication: Shown,
    listening: Arc<AtomicBool>,
    draining: CancellationToken,
}

impl Api {
    pub fn new(
        fleet: Fleet,
        door: Arc<Door>,
        metrics: Metrics,
        consoles: Consoles,
        publication: Shown,
        draining: CancellationToken,
    ) -> Self {
        let (consoles, listening) = (Arc::new(consoles), Arc::default());
        Self { fleet, door, metrics, consoles, publication, listening, draining }
    }

    /// From now on the gate takes players.
    pub fn listening(&self) {
        self.listening.store(true, Ordering::Release);
    }
}

pub async fn serve_control(socket: UnixListener, api: Api, stop: CancellationToken) {
    serve::serve(socket, control(api), serve::Cost::default(), stop).await;
}

pub async fn serve_public(socket: TcpListener, api: Api, stop: CancellationToken) {
    serve::serve(socket, public(api), serve::Cost::default(), stop).await;
}

fn public(api: Api) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(no_such_page)
        .method_not_allowed_fallback(wrong_method)
        .with_state(api)
}

fn control(api: Api) -> Router {
    Router::new()
        .route("/v1/services", get(services))
        .route("/v1/services/{name}", get(service))
        .route("/v1/services/{name}/wake", post(wake))
        .route("/v1/services/{name}/sleep", post(sleep))
        .route("/v1/services/{name}/pin/{pin}", post(pin))
        .route("/v1/services/{name}/output", get(output))
        .route("/v1/services/{name}/console", post(console))
        .route("/v1/explain", get(explain_host))
        .route("/v1/plan", get(plan))
        .method_not_allowed_fallback(wrong_method)
        .with_state(api.clone())
        .merge(public(api))
}

/// Every error has a status, a stable code and a sentence.
#[derive(Debug)]
struct Refused {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let error = json!({"code": self.code, "message": self.message, "status": self.status.as_u16()});
        (self.status, Json(json!({ "error": error }))).into_response()
    }
}

impl From<CommandError> for Refused {
    fn from(error: CommandError) -> Self {
        let (status, code) = match &error {
            CommandError::NoSuchService { .. } => (StatusCode::NOT_FOUND, "no_such_service"),
            CommandError::Ambiguous(..) => (StatusCode::CONFLICT, "ambiguous_name"),
            CommandError::NotScalable(_) => (StatusCode::CONFLICT, "not_scalable"),
            CommandError::PinnedAsleep(_) => (StatusCode::CONFLICT, "pinned_asleep"),
            CommandError::NotNow(..) => (StatusCode::CONFLICT, "not_now"),
            CommandError::Occupied { .. } => (StatusCode::CONFLICT, "occupied"),
            CommandError::UnknownPlayers(_) => (StatusCode::CONFLICT, "unknown_players"),
            CommandError::Stale(_) => (StatusCode::SERVICE_UNAVAILABLE, "source_does_not_answer"),
        };
        Self { status, code, message: error.to_string() }
    }
}

impl Refused {
    fn bad_request(status: StatusCode, message: String) -> Self {
        Self { status, code: "bad_request", message }
    }
}

impl From<PathRejection> for Refused {
    fn from(error: PathRejection) -> Self {
        Self::bad_request(error.status(), error.body_text())
    }
}

impl From<QueryRejection> for Refused {
    fn from(error: QueryRejection) -> Self {
        Self::bad_request(error.status(), error.body_text())
    }
}

impl From<StringRejection> for Refused {
    fn from(error: StringRejection) -> Self {
        Self::bad_request(error.status(), error.body_text())
    }
}

/// A service's name in a path.
type Name = Result<Path<String>, PathRejection>;

/// The process lives.
async fn healthz() -> &'static str {
    "ok\n"
}

/// The gate takes players.
async fn readyz(State(api): State<Api>) -> (StatusCode, &'static str) {
    if api.draining.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    } else if api.listening.load(Ordering::Acquire) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting\n")
    }
}

async fn metrics(State(api): State<Api>) -> Response {
    let (reports, in_limbo) = api.fleet.look(|core, now| (core.reports(now), core.in_limbo()));
    match api.metrics.encode(&reports, &api.door, in_limbo) {
        Ok(page) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], page).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "the metrics cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn services(State(api): State<Api>) -> Json<Vec<ServiceView>> {
    Json(
        api.fleet
            .look(|core, now| core.reports(now).iter().map(|report| ServiceView::of(report, now)).collect()),
    )
}

async fn service(State(api): State<Api>, name: Name) -> Result<Json<ServiceView>, Refused> {
    let Path(name) = name?;
    let id = api.fleet.look(|core, _| core.named(&name))?;
    view(&api, &id)
}

async fn wake(State(api): State<Api>, name: Name) -> Result<Json<ServiceView>, Refused> {
    let Path(name) = name?;
    let id = api.fleet.with(|core, now| {
        let id = core.named(&name)?;
        core.wake(&id, now).map(|()| id)
    })?;
    view(&api, &id)
}

#[derive(Debug, Deserialize)]
struct SleepQuery {
    #[serde(default)]
    force: bool,
}

async fn sleep(
    State(api): State<Api>,
    name: Name,
    query: Result<Query<SleepQuery>, QueryRejection>,
) -> Result<Json<ServiceView>, Refused> {
    let (Path(name), Query(SleepQuery { force })) = (name?, query?);
    let id = api.fleet.with(|core, now| {
        let id = core.named(&name)?;
        core.sleep(&id, force, now).map(|()| id)
    })?;
    view(&api, &id)
}

async fn pin(
    State(api): State<Api>,
    Path((name, pin)): Path<(String, Pin)>,
) -> Result<Json<ServiceView>, Refused> {
    let id = api.fleet.with(|core, now| {
        let id = core.named(&name)?;
        core.pin(&id, pin, now).map(|()| id)
    })?;
    view(&api, &id)
}

fn view(api: &Api, id: &ServiceId) -> Result<Json<ServiceView>, Refused> {
    let view = api.fleet.look(|core, now| core.report(id, now).map(|report| ServiceView::of(&report, now)));
    view.map(Json).ok_or_else(|| CommandError::gone(id).into())
}

#[derive(Debug, Deserialize)]
struct OutputQuery {
    lines: Option<usize>,
}

/// The last lines a server of this machine has written.
async fn output(
    State(api): State<Api>,
    name: Name,
    query: Result<Query<OutputQuery>, QueryRejection>,
) -> Result<String, Refused> {
    let (Path(name), Query(OutputQuery { lines })) = (name?, query?);
    const USUAL: usize = 100;
    const MOST: usize = 10_000;
    let id = local(&api, &name)?;
    let lines = lines.unwrap_or(USUAL).min(MOST);
    let read = tokio::task::block_in_place(|| api.consoles.tail(&id.name, lines));
    let lines = read.map_err(|error| Refused {
        status: StatusCode::NOT_FOUND,
        code: "no_output",
        message: format!("{id} has no output that can be read: {error}"),
    })?;
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

/// One line for a server's console.
async fn console(
    State(api): State<Api>,
    name: Name,
    line: Result<String, StringRejection>,
) -> Result<StatusCode, Refused> {
    let (Path(name), line) = (name?, line?);
    let id = local(&api, &name)?;
    let sent = tokio::task::block_in_place(|| api.consoles.send(&id.name, line.trim_end()));
    sent.map_err(|error| Refused {
        status: StatusCode::CONFLICT,
        code: "no_console",
        message: format!("{id}: {error}"),
    })?;
    Ok(StatusCode::NO_CONTENT)
}

fn local(api: &Api, name: &str) -> Result<ServiceId, Refused> {
    let id = api.fleet.look(|core, _| core.named(name))?;
    if id.source == crate::provider::process::ID {
        return Ok(id);
    }
    Err(Refused {
        status: StatusCode::CONFLICT,
        code: "not_local",
        message: format!(
            "{id} is not run by the gate on this machine, so its console and output are not here"
        ),
    })
}

#[derive(Debug, Deserialize)]
struct ExplainQuery {
    host: String,
    name: Option<String>,
    uuid: Option<Uuid>,
    source: Option<IpAddr>,
}

async fn explain_host(
    State(api): State<Api>,
    query: Result<Query<ExplainQuery>, QueryRejection>,
) -> Result<Json<Explanation>, Refused> {
    let Query(ExplainQuery { host, name, uuid, source }) = query?;
    let visitor = Visitor { name, uuid, source };
    Ok(Json(api.fleet.look(|core, now| explain(core, Address::cut(&host).host, &visitor, now))))
}

#[derive(Debug, Deserialize)]
struct PlanQuery {
    /// As it was found last, without a call to Cloudflare.
    #[serde(default)]
    last: bool,
}

async fn plan(
    State(api): State<Api>,
    query: Result<Query<PlanQuery>, QueryRejection>,
) -> Result<Json<PlanAnswer>, Refused> {
    let Query(PlanQuery { last }) = query?;
    Ok(Json(if last { api.publication.latest() } else { api.publication.now().await }))
}

async fn wrong_method() -> Refused {
    Refused {
        status: StatusCode::METHOD_NOT_ALLOWED,
        code: "method_not_allowed",
        message: "this page takes another method".to_owned(),
    }
}

async fn no_such_page() -> Refused {
    Refused {
        status: StatusCode::NOT_FOUND,
        code: "no_such_page",
        message: "there is no such page".to_owned(),
    }
}
