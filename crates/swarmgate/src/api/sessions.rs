//! Who plays and who waits. Names and addresses are for those who may operate: a token that is for reading may stand
//! in a dashboard.

use std::net::IpAddr;

use axum::extract::{Extension, State};
use serde::{Deserialize, Serialize};
use swarmgate_core::config::Scope;
use swarmgate_core::ladder::Rung;
use swarmgate_core::moment::Moment;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::{Api, Asker};
use crate::seats::{How, Sitting};

pub fn read() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(sessions))
}

/// A player's connection that holds a seat in a service.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SessionView {
    /// Unique while the gate runs.
    pub id: u64,
    /// As `SOURCE/NAME`.
    pub service: String,
    pub kind: Kind,
    /// How the player waits; `null` for one who plays.
    pub rung: Option<Wait>,
    pub since_seconds: u64,
    /// The player's name, as the client says it. `null` for tokens with the scope `read`.
    pub player: Option<String>,
    /// The address from which the player comes. `null` for tokens with the scope `read`.
    #[schema(value_type = Option<String>)]
    pub client: Option<IpAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Playing,
    Waiting,
}

/// How a player waits: in an empty world, on a loading screen, on the open connection, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    World,
    Room,
    Hold,
    Disconnect,
}

impl SessionView {
    pub fn of(id: u64, sitting: &Sitting, asker: &Asker, now: Moment) -> Self {
        let (kind, rung) = match sitting.how {
            How::Playing => (Kind::Playing, None),
            How::Waiting(Rung::World) => (Kind::Waiting, Some(Wait::World)),
            How::Waiting(Rung::Room) => (Kind::Waiting, Some(Wait::Room)),
            How::Waiting(Rung::Hold) => (Kind::Waiting, Some(Wait::Hold)),
            How::Waiting(Rung::Disconnect) => (Kind::Waiting, Some(Wait::Disconnect)),
        };
        let personal = asker.scope == Scope::Operate;
        Self {
            id,
            service: sitting.service.to_string(),
            kind,
            rung,
            since_seconds: now.since(sitting.since).as_secs(),
            player: personal.then(|| sitting.player.to_string()),
            client: personal.then_some(sitting.client),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only those in this service.
    service: Option<String>,
    /// Only those who play, or only those who wait.
    kind: Option<Kind>,
}

/// The players who are connected, the longest first. What a proxy in front of the gate holds open counts as theirs.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", params(Which),
    responses((status = 200, body = [SessionView])))]
async fn sessions(
    State(api): State<Api>,
    Extension(asker): Extension<Asker>,
    Query(Which { service, kind }): Query<Which>,
) -> Result<axum::Json<Vec<SessionView>>, super::error::Refused> {
    let service = service.map(|name| api.fleet.look(|core, _| core.named(&name))).transpose()?;
    let now = api.fleet.now();
    let seats = api.fleet.seats().all().into_iter();
    let asked_for = seats.filter(|(_, sitting)| service.as_ref().is_none_or(|id| *id == sitting.service));
    let views = asked_for.map(|(id, sitting)| SessionView::of(id, &sitting, &asker, now));
    Ok(axum::Json(views.filter(|view| kind.is_none_or(|kind| kind == view.kind)).collect()))
}
