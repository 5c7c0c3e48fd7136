//! A service as JSON.

use serde::{Deserialize, Serialize};
use swarmgate_core::fleet::Report;
use swarmgate_core::learned::Pin;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::State;
use utoipa::ToSchema;

/// Times are in seconds from now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceView {
    pub name: String,
    /// `file`, `process`, …
    pub source: String,
    pub hosts: Vec<String>,
    pub default: bool,
    /// `asleep`, `starting`, `running`, `restarting`, `stopping`, `failed` or `unknown`.
    pub state: String,
    pub reason: Option<String>,
    /// How long it has been in this state.
    pub since_seconds: u64,
    /// Connections that hold a seat: players in it and players who wait.
    pub seats: usize,
    /// `none`, `awake` or `asleep`.
    pub pin: Pin,
    /// By the game's own count; `null` if it has not said.
    pub players: Option<u32>,
    /// Players who wait for it at this moment.
    #[serde(default)]
    pub waiting: usize,
    pub endpoints: Vec<String>,
    /// When it is put to sleep if nobody comes.
    pub sleeps_in_seconds: Option<u64>,
    /// When it is started again after a crash.
    pub restarts_in_seconds: Option<u64>,
    /// A start has been asked for and is not over; one that stops first is started once it has stopped.
    #[serde(default)]
    pub waking: bool,
    /// How much longer a start under way usually takes, or how long one takes.
    pub eta_seconds: Option<u64>,
    /// How long a start usually takes: the median of the last ones.
    #[serde(default)]
    pub boot_seconds: Option<u64>,
    /// Whether the gate can start and stop it.
    #[serde(default)]
    pub scalable: bool,
    /// Whether its owner keeps it awake now, by a pin or by its hours.
    #[serde(default)]
    pub kept_awake: bool,
    /// After a failed start: when a join may try again.
    #[serde(default)]
    pub retry_in_seconds: Option<u64>,
    pub last_failure: Option<String>,
    pub problems: Vec<String>,
}

impl ServiceView {
    pub fn of(report: &Report, waiting: usize, now: Moment) -> Self {
        let face = &report.face;
        let (endpoints, restarts) = match &face.state {
            State::Running(running) => (running.endpoints.as_slice(), None),
            State::Restarting { until, .. } => (&[][..], Some(now.until(*until).as_secs())),
            State::Asleep
            | State::Starting { .. }
            | State::Stopping
            | State::Failed { .. }
            | State::Unknown { .. } => (&[][..], None),
        };
        Self {
            name: face.service.name.to_string(),
            source: face.service.source.to_owned(),
            hosts: face.spec.hosts.iter().map(ToString::to_string).collect(),
            default: face.spec.default,
            state: face.state.word().to_owned(),
            reason: face.state.reason().map(str::to_owned),
            since_seconds: now.since(report.since).as_secs(),
            seats: report.seats,
            pin: report.pin,
            players: report.online,
            waiting,
            endpoints: endpoints.iter().map(ToString::to_string).collect(),
            sleeps_in_seconds: report.sleeps_at.map(|at| now.until(at).as_secs()),
            restarts_in_seconds: restarts,
            waking: report.waking,
            eta_seconds: face.eta(now).map(|eta| eta.as_secs()),
            boot_seconds: face.learned.boot_time().map(|time| time.as_secs()),
            scalable: report.scalable,
            kept_awake: report.kept_awake,
            retry_in_seconds: report.retry_in.map(|time| time.as_secs()),
            last_failure: report.last_failure.clone(),
            problems: report.problems.clone(),
        }
    }
}
