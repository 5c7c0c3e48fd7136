//! swarmctl's endpoint for updates, with what it lacked.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use swarmgate_core::config::Fault;
use swarmgate_core::config::value;
use swarmgate_core::span;
use swarmgate_core::state::swarm::update::End;
use tokio::time::Instant;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::error::{Code, Refused};
use super::extract::{Path, Query};
use crate::api::serve::Connection;
use crate::engine::error::EngineError;
use crate::provider::swarm::update::{Ask, UpdateError, Updated};

/// A registry is asked, the service is written and, where somebody else was faster, written again.
const WITHOUT_WAITING: Duration = Duration::from_secs(150);
const USUAL_WAIT: Duration = Duration::from_secs(5 * 60);
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

pub fn operate() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(update))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct Updating {
    /// The name of a service of the Swarm, or its id.
    service: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct UpdateQuery {
    /// The new image, such as `ghcr.io/acme/web:1.2`. Without it: the image that it has, as new as its tag is now.
    image: Option<String>,
    /// Even if players are in it, or may be.
    #[serde(default)]
    #[param(required = false)]
    force: bool,
    /// Whether to answer only once as many tasks as are wanted run it, or once Swarm has given up.
    #[serde(default)]
    #[param(required = false)]
    wait: bool,
    /// How long to wait at most: `90s`; `5m` if it is not said, `1h` at most.
    timeout: Option<String>,
}

/// Gives a service of the Swarm another image, and changes nothing else of it. One that is asleep stays asleep.
#[utoipa::path(post, path = "/v1/update/{service}", tag = "services", params(Updating, UpdateQuery),
    responses((status = 200, body = Updated)))]
async fn update(
    State(api): State<Api>,
    Extension(connection): Extension<Connection>,
    Path(Updating { service }): Path<Updating>,
    Query(UpdateQuery { image, force, wait, timeout }): Query<UpdateQuery>,
) -> Result<Json<Updated>, Refused> {
    let limit = timeout.as_deref().map_or(Ok(USUAL_WAIT), limit)?;
    let wait = wait.then_some(limit);
    let lasting = connection.last().ok_or_else(|| {
        Refused::new(Code::TooManyStreams, "too many long answers are under way; try again")
    })?;
    lasting.for_another(WITHOUT_WAITING + wait.unwrap_or_default());
    let ask = Ask { service, image, force, wait };
    let lasting = Arc::new(lasting);
    // Not given up in the middle of a write if the client hangs up. It keeps its place among the long answers.
    let updating = tokio::spawn({
        let lasting = Arc::clone(&lasting);
        async move {
            let updated = counted(&api, &ask).await;
            drop(lasting);
            updated
        }
    });
    tokio::select! {
        updated = updating => {
            let updated = updated.map_err(|error| Refused::new(Code::Internal, error.to_string()))?;
            Ok(Json(updated?))
        }
        () = lasting.must_end() => {
            Err(Refused::new(Code::Stopping, "the gate stops; the update may have been made, and Swarm goes on with it"))
        }
    }
}

async fn counted(api: &Api, ask: &Ask) -> Result<Updated, UpdateError> {
    let began = Instant::now();
    let updated = api.updater.update(ask).await;
    let service = updated.as_ref().map_or_else(UpdateError::service, |updated| Some(&*updated.service));
    api.metrics.service_updated(service, updated.is_ok(), began.elapsed());
    updated
}

fn limit(text: &str) -> Result<Duration, Refused> {
    let refused = |Fault { what, fix }: Fault| {
        Refused::new(Code::BadRequest, format!("timeout: {what}; {fix}")).field("timeout")
    };
    let limit = value::duration(text).map_err(refused)?;
    if limit > LONGEST_WAIT {
        let most = span::human(LONGEST_WAIT);
        return Err(refused(Fault::new(format!("{text:?} is too long"), format!("wait {most} at most"))));
    }
    Ok(limit)
}

impl From<UpdateError> for Refused {
    fn from(error: UpdateError) -> Self {
        let code = match &error {
            UpdateError::NoSwarm => Code::NoSwarm,
            UpdateError::NoSuchService(_) => Code::NoSuchService,
            UpdateError::NotOfSwarm(_) => Code::NotASwarmService,
            UpdateError::NotLabelled(_) => Code::NotLabelled,
            UpdateError::BadImage(_) => {
                return Self::new(Code::BadRequest, error.to_string()).field("image");
            }
            UpdateError::ImageNotAllowed(_) => {
                return Self::new(Code::ImageNotAllowed, error.to_string()).field("image");
            }
            UpdateError::Occupied { .. } | UpdateError::IsTheGate { .. } => Code::Occupied,
            UpdateError::UnknownPlayers(_) => Code::UnknownPlayers,
            UpdateError::NoContainers(_) => Code::NotASwarmService,
            UpdateError::Raced(_) => Code::OutOfSequence,
            UpdateError::Ended { end: End::Paused, .. } => Code::UpdatePaused,
            UpdateError::Ended { end: End::RolledBack, .. } => Code::UpdateRolledBack,
            UpdateError::Ended { end: End::RollbackPaused, .. } => Code::RollbackPaused,
            UpdateError::Ended { end: End::Superseded, .. } => Code::UpdateSuperseded,
            UpdateError::NotConverged { .. } => Code::NotConverged,
            UpdateError::Engine(error) | UpdateError::Of { error, .. } => match error {
                EngineError::NotThere { .. } => Code::NoSuchService,
                EngineError::OutOfSequence { .. } => Code::OutOfSequence,
                EngineError::Refused { .. } => Code::EngineRefused,
                EngineError::NoAnswer { .. } => Code::SourceDoesNotAnswer,
            },
        };
        Self::new(code, error.to_string())
    }
}
