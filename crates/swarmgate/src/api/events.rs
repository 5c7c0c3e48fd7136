//! What happens, as it happens, over server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::response::IntoResponse;
use axum::response::sse::{Event as Sent, Sse};
use futures_util::stream;
use jiff::Timestamp;
use serde::Serialize;
use swarmgate_core::alert::{Alert, Stage};
use swarmgate_core::event::Event;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::error::{Code, Refused};
use super::serve::{Connection, Lasting};
use super::sessions::SessionView;
use super::tokens::{Known, Tokens};
use super::{Api, Asker};
use crate::fleet::Fleet;
use crate::seats::{News, What};

/// So that whoever listens, and what stands between, knows that there is still somebody.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A reader that takes nothing for so long is cut off.
const STALL: Duration = Duration::from_secs(60);

pub fn read() -> OpenApiRouter<Api> {
    OpenApiRouter::default().routes(routes!(events))
}

/// One event. The SSE field `event` is the same as `event` here.
#[derive(Debug, Serialize, ToSchema)]
struct Told {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    #[serde(flatten)]
    what: Happened,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Happened {
    /// A service went from one state to another.
    State { service: String, from: String, to: String, why: String },
    /// A service that the gate has started takes players: how long after it was asked for, and after it was told to.
    Woken { service: String, waited_seconds: f64, booted_seconds: f64 },
    /// Something is wrong with a service beside its state.
    Problem { service: String, problem: String },
    /// Two services claim one route.
    RouteConflict { claim: String, holder: String, other: String },
    /// Somebody else stopped a service while players were in it.
    StoppedWithPlayers { service: String, seats: usize, online: u32 },
    /// A hostname is published, withdrawn, in conflict, …
    Publication { host: String, service: String, state: String, problem: Option<String> },
    /// Nothing can be published, or it can be again.
    Publishing { problem: Option<String> },
    /// Somebody else changed rules of the tunnel that are the gate's.
    Tampered { rules: Vec<String> },
    /// A player is let in, to play or to wait.
    SessionOpened { session: SessionView },
    /// A player who waited plays, or waits in another way.
    SessionMoved { session: SessionView },
    /// A player's connection is over.
    SessionClosed { session: SessionView },
    /// What the messengers of `[notify]` are told.
    Alert {
        subject: String,
        stage: String,
        kind: Option<String>,
        times: Option<u32>,
        title: String,
        text: String,
    },
    /// So many events were lost, because they were not read in time. What matters now is at the other endpoints.
    Lagged { missed: u64 },
}

/// What happens from now on: an endless answer in server-sent events, with a comment now and then when nothing does.
/// It begins with nothing: ask how things are after it is open, and again after `lagged`.
#[utoipa::path(get, path = "/v1/events", tag = "events",
    responses((status = 200, body = Told, content_type = "text/event-stream")))]
async fn events(
    State(api): State<Api>,
    Extension(asker): Extension<Asker>,
    Extension(connection): Extension<Connection>,
) -> Result<impl IntoResponse, Refused> {
    let Some(lasting) = connection.listen(&asker.name) else {
        let message = "as many listen already as there may be; try again later";
        return Err(Refused::new(Code::TooManyStreams, message).retry_after(HEARTBEAT));
    };
    let listener = Listener {
        events: api.fleet.events(),
        seats: api.fleet.seats().news(),
        alerts: api.alarm.alerts(),
        fleet: api.fleet,
        tokens: api.tokens,
        asker,
    };
    let first = Ok::<_, Infallible>(Sent::default().comment("here"));
    let rest = stream::unfold((listener, lasting), |(mut listener, lasting)| async {
        let sent = listener.next(&lasting).await?;
        Some((Ok(sent), (listener, lasting)))
    });
    Ok(Sse::new(stream::StreamExt::chain(stream::iter([first]), rest)))
}

struct Listener {
    events: Receiver<Event>,
    seats: Receiver<News>,
    alerts: Receiver<Alert>,
    fleet: Fleet,
    tokens: watch::Receiver<Arc<Tokens>>,
    asker: Asker,
}

impl Listener {
    /// `None` at the end.
    async fn next(&mut self, lasting: &Lasting) -> Option<Sent> {
        // Asked for only when the reader has taken what was there before.
        lasting.for_another(STALL);
        let mut tokens = self.tokens.clone();
        let token = self.asker.token.clone();
        let what = tokio::select! {
            biased;
            () = lasting.must_end() => return None,
            () = withdrawn(&mut tokens, token.as_ref()) => return None,
            () = tokio::time::sleep(HEARTBEAT) => return Some(Sent::default().comment("still here")),
            heard = self.hear() => heard?,
        };
        let name = what.word();
        let told = Told { at: Timestamp::now(), what };
        Some(Sent::default().event(name).json_data(told).unwrap_or_default())
    }

    /// What happens next, or how much has happened that was not read in time.
    async fn hear(&mut self) -> Option<Happened> {
        let heard = tokio::select! {
            event = self.events.recv() => event.map(of_event),
            news = self.seats.recv() => news.map(|news| self.of_seat(news)),
            alert = self.alerts.recv() => alert.map(of_alert),
        };
        match heard {
            Ok(what) => Some(what),
            Err(RecvError::Lagged(missed)) => Some(Happened::Lagged { missed }),
            Err(RecvError::Closed) => None,
        }
    }

    fn of_seat(&self, News { what, seat, sitting }: News) -> Happened {
        let session = SessionView::of(seat, &sitting, &self.asker, self.fleet.now());
        match what {
            What::Opened => Happened::SessionOpened { session },
            What::Moved => Happened::SessionMoved { session },
            What::Closed => Happened::SessionClosed { session },
        }
    }
}

/// Returns when the token is good no more for what it was; the control socket needs none.
async fn withdrawn(tokens: &mut watch::Receiver<Arc<Tokens>>, token: Option<&Known>) {
    let Some(token) = token else { return std::future::pending().await };
    let _ = tokens.wait_for(|tokens| !tokens.has(token)).await;
}

impl Happened {
    const fn word(&self) -> &'static str {
        match self {
            Self::State { .. } => "state",
            Self::Woken { .. } => "woken",
            Self::Problem { .. } => "problem",
            Self::RouteConflict { .. } => "route_conflict",
            Self::StoppedWithPlayers { .. } => "stopped_with_players",
            Self::Publication { .. } => "publication",
            Self::Publishing { .. } => "publishing",
            Self::Tampered { .. } => "tampered",
            Self::SessionOpened { .. } => "session_opened",
            Self::SessionMoved { .. } => "session_moved",
            Self::SessionClosed { .. } => "session_closed",
            Self::Alert { .. } => "alert",
            Self::Lagged { .. } => "lagged",
        }
    }
}

fn of_event(event: Event) -> Happened {
    match event {
        Event::Changed { service, from, to, why } => {
            Happened::State { service: service.to_string(), from: from.to_owned(), to: to.to_owned(), why }
        }
        Event::Woken { service, waited, booted } => Happened::Woken {
            service: service.to_string(),
            waited_seconds: waited.as_secs_f64(),
            booted_seconds: booted.as_secs_f64(),
        },
        Event::Problem { service, problem } => Happened::Problem { service: service.to_string(), problem },
        Event::RouteConflict(conflict) => Happened::RouteConflict {
            claim: conflict.claim,
            holder: conflict.holder.to_string(),
            other: conflict.other.to_string(),
        },
        Event::StoppedWithPlayers { service, seats, online } => {
            Happened::StoppedWithPlayers { service: service.to_string(), seats, online }
        }
        Event::Publication { host, service, state, problem } => {
            Happened::Publication { host, service, state: state.to_owned(), problem }
        }
        Event::Publishing { problem } => Happened::Publishing { problem },
        Event::Tampered { rules } => Happened::Tampered { rules },
    }
}

fn of_alert(alert: Alert) -> Happened {
    let (stage, kind, times) = match alert.stage {
        Stage::First(kind) => ("first", Some(kind), None),
        Stage::Again { kind, times } => ("again", Some(kind), Some(times)),
        Stage::Over => ("over", None, None),
    };
    Happened::Alert {
        subject: alert.subject.id(),
        stage: stage.to_owned(),
        kind: kind.map(|kind| kind.word().to_owned()),
        times,
        title: alert.title,
        text: alert.text,
    }
}

#[cfg(test)]
mod tests {
    use swarmgate_core::config::{self, Scope};
    use tokio::sync::broadcast;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::clock::Clock;
    use crate::store::Store;

    #[tokio::test]
    async fn a_slow_reader_hears_how_much_it_has_missed_and_goes_on() {
        let policy = config::parse("", &[]).unwrap().config.policy();
        let fleet = Fleet::new(policy, Clock::start(), Store::in_memory(), TaskTracker::new());
        let (send, events) = broadcast::channel(2);
        let (_alarm, alerts) = broadcast::channel(1);
        let asker = Asker { name: "reader".into(), scope: Scope::Read, token: None };
        let (_tokens, tokens) = watch::channel(Arc::default());
        let mut listener = Listener { events, seats: fleet.seats().news(), alerts, fleet, tokens, asker };
        for n in 0..5 {
            send.send(Event::Publishing { problem: Some(n.to_string()) }).unwrap();
        }
        assert!(matches!(listener.hear().await, Some(Happened::Lagged { missed: 3 })));
        for n in ["3", "4"] {
            let Some(Happened::Publishing { problem }) = listener.hear().await else { panic!("an event") };
            assert_eq!(problem.as_deref(), Some(n));
        }
        drop(send);
        assert!(listener.hear().await.is_none());
    }
}
