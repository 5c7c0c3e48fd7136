//! Services: what they do, and what their owner wants of them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use swarmgate_core::fleet::{CommandError, Report};
use swarmgate_core::learned::Pin;
use swarmgate_core::service::ServiceId;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::error::{Code, Refused};
use super::extract::{Path, Query, Text};
use super::{Api, ServiceView};

pub fn read() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(services)).routes(routes!(service))
}

pub fn operate() -> OpenApiRouter<Api> {
    OpenApiRouter::default()
        .routes(routes!(wake))
        .routes(routes!(sleep))
        .routes(routes!(pin))
        // It names players and their addresses.
        .routes(routes!(output))
        .routes(routes!(console))
}

/// A service by its name, or by `SOURCE/NAME` where several have it.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct Named {
    /// The service's name, or `SOURCE/NAME` (with `%2F` for the slash).
    name: String,
}

/// All services.
#[utoipa::path(get, path = "/v1/services", tag = "services", responses((status = 200, body = [ServiceView])))]
async fn services(State(api): State<Api>) -> Json<Vec<ServiceView>> {
    let waiting = api.fleet.seats().waiting();
    let waiting = |report: &Report| waiting.get(&report.face.service).copied().unwrap_or_default();
    Json(api.fleet.look(|core, now| {
        let reports = core.reports(now);
        reports.iter().map(|report| ServiceView::of(report, waiting(report), now)).collect()
    }))
}

/// One service.
#[utoipa::path(get, path = "/v1/services/{name}", tag = "services", params(Named),
    responses((status = 200, body = ServiceView)))]
async fn service(State(api): State<Api>, Path(Named { name }): Path<Named>) -> Answer {
    let id = api.fleet.look(|core, _| core.named(&name))?;
    view(&api, &id)
}

/// Starts a service. One that runs, or starts already, is left as it is.
#[utoipa::path(post, path = "/v1/services/{name}/wake", tag = "services", params(Named),
    responses((status = 200, body = ServiceView)))]
async fn wake(State(api): State<Api>, Path(Named { name }): Path<Named>) -> Answer {
    let id = api.fleet.with(|core, now| {
        let id = core.named(&name)?;
        core.wake(&id, now).map(|()| id)
    })?;
    view(&api, &id)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SleepQuery {
    /// Even if players are in it, or may be.
    #[serde(default)]
    #[param(required = false)]
    force: bool,
}

/// Puts a service to sleep. One that is down already, or goes down, is left as it is.
#[utoipa::path(post, path = "/v1/services/{name}/sleep", tag = "services", params(Named, SleepQuery),
    responses((status = 200, body = ServiceView)))]
async fn sleep(
    State(api): State<Api>,
    Path(Named { name }): Path<Named>,
    Query(SleepQuery { force }): Query<SleepQuery>,
) -> Answer {
    let id = api.fleet.with(|core, now| {
        let id = core.named(&name)?;
        let down = core.is_down(&id);
        if down { Ok(id) } else { core.sleep(&id, force, now).map(|()| id) }
    })?;
    view(&api, &id)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct NamedPin {
    /// The service's name, or `SOURCE/NAME` (with `%2F` for the slash).
    name: String,
    pin: Pin,
}

/// Keeps a service awake or asleep until further notice, over restarts; `none` ends that.
#[utoipa::path(post, path = "/v1/services/{name}/pin/{pin}", tag = "services", params(NamedPin),
    responses((status = 200, body = ServiceView)))]
async fn pin(State(api): State<Api>, Path(NamedPin { name, pin }): Path<NamedPin>) -> Answer {
    let id = api.fleet.with(|core, now| {
        let id = core.named(&name)?;
        core.pin(&id, pin, now).map(|()| id)
    })?;
    view(&api, &id)
}

type Answer = Result<Json<ServiceView>, Refused>;

fn view(api: &Api, id: &ServiceId) -> Answer {
    let waiting = api.fleet.seats().waiting().get(id).copied().unwrap_or_default();
    let view =
        api.fleet.look(|core, now| core.report(id, now).map(|report| ServiceView::of(&report, waiting, now)));
    view.map(Json).ok_or_else(|| CommandError::gone(id).into())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct OutputQuery {
    /// How many of the last lines, 10000 at most; 100 if it is not said.
    lines: Option<usize>,
}

/// The last lines that a server of the gate's own machine has written.
#[utoipa::path(get, path = "/v1/services/{name}/output", tag = "services", params(Named, OutputQuery),
    responses((status = 200, body = String)))]
async fn output(
    State(api): State<Api>,
    Path(Named { name }): Path<Named>,
    Query(OutputQuery { lines }): Query<OutputQuery>,
) -> Result<String, Refused> {
    const USUAL: usize = 100;
    const MOST: usize = 10_000;
    let id = local(&api, &name)?;
    let lines = lines.unwrap_or(USUAL).min(MOST);
    let read = tokio::task::block_in_place(|| api.consoles.tail(&id.name, lines));
    let lines = read.map_err(|error| {
        Refused::new(Code::NoOutput, format!("{id} has no output that can be read: {error}"))
    })?;
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

/// Types one line into the console of a server of the gate's own machine.
#[utoipa::path(post, path = "/v1/services/{name}/console", tag = "services", params(Named),
    request_body(content = String, content_type = "text/plain", description = "The line, such as `say hello`."),
    responses((status = 204, description = "It was typed; the output shows what comes of it.")))]
async fn console(
    State(api): State<Api>,
    Path(Named { name }): Path<Named>,
    Text(line): Text,
) -> Result<StatusCode, Refused> {
    let id = local(&api, &name)?;
    let sent = tokio::task::block_in_place(|| api.consoles.send(&id.name, line.trim_end()));
    sent.map_err(|error| Refused::new(Code::NoConsole, format!("{id}: {error}")))?;
    Ok(StatusCode::NO_CONTENT)
}

fn local(api: &Api, name: &str) -> Result<ServiceId, Refused> {
    let id = api.fleet.look(|core, _| core.named(name))?;
    if id.source == crate::provider::process::ID {
        return Ok(id);
    }
    let message =
        format!("{id} is not run by the gate on this machine, so its console and output are not here");
    Err(Refused::new(Code::NotLocal, message))
}
