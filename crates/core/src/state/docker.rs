//! What a plain Docker container is doing, from what the engine says when it is inspected.
//!
//! A container is a service for as long as it exists, stopped or not. The engine does not tell that a container
//! has been told to stop, nor whether an end was meant: that is in [`Told`]. The states are described in
//! `docs/states.md`.

mod advice;
pub mod api;
pub mod ends;
pub mod network;
pub mod saved;

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use self::api::{Container, Listed};
use self::ends::End;
use self::network::{Choice, Place};
use super::swarm::reason;
use super::{Clocks, KILLED, KILLED_CODE, UNHEALTHY_BEGINS};
use crate::labels::{self, Labelled, Labels};
use crate::publish::{Published, Settings};
use crate::service::{Endpoint, Running, Service, ServiceId, SourceId, Spec, State};

pub const ID: SourceId = "docker";

/// By so much past its grace a container that still runs was not told to stop, or does not do it.
const LATE: SignedDuration = SignedDuration::from_secs(10);

/// What the gate knows beside the engine's answers.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// What containers ask for whose labels do not say.
    pub defaults: &'a Spec,
    /// On which network to dial those that have no label about it.
    pub network: Option<&'a str>,
    /// How long those may take to stop that have no label about it.
    pub grace: Duration,
    pub place: Place<'a>,
    /// The wall is the engine's.
    pub clocks: Clocks,
}

/// What the engine does not tell about a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Told {
    /// The gate is having it started.
    pub start: bool,
    /// When it was last told to stop, by whomever.
    pub stop: Option<Timestamp>,
    /// How it ended last, as far as that was heard.
    pub death: Option<Death>,
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    pub at: Timestamp,
    pub exit_code: i64,
}

/// One container with labels for the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub service: Service,
    /// The engine's own.
    pub id: String,
    /// Changes with every start.
    pub run: Arc<str>,
    /// By the engine's clock.
    pub started: Option<Timestamp>,
    /// How its last run ended, if nobody had asked for that.
    pub end: Option<End>,
    paused: bool,
    removed_when_stopped: bool,
    grace: Option<Duration>,
}

/// What to ask the engine for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Start,
    Unpause,
    /// With so many seconds between the stop signal and the kill; -1 for no kill at all.
    Stop {
        seconds: i64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine's answer about containers is not a list")]
pub struct NotAList;

/// The ids of the containers with labels for the gate, from the answer about all of them. Those of a Swarm's tasks
/// are the Swarm's.
pub fn labelled(list: &Value) -> Result<Vec<String>, NotAList> {
    Ok(listed(list)?.filter(Listed::is_ours).map(|listed| listed.id).collect())
}

/// The ids of those that are published and no game servers, from the same answer.
pub fn published_only(list: &Value) -> Result<Vec<String>, NotAList> {
    Ok(listed(list)?.filter(Listed::is_published_only).map(|listed| listed.id).collect())
}

/// What containers ask to be published, from the same answer. A container's name is good on every network it is on that
/// somebody made.
pub fn published(list: &Value, defaults: &Settings) -> Result<Vec<Published>, NotAList> {
    let published = listed(list)?.filter(Listed::is_on_its_own).filter_map(|listed| {
        let service = ServiceId::new(ID, listed.name());
        labels::publish::parse(&listed.labels, service, listed.name(), defaults)
    });
    Ok(published.collect())
}

fn listed(list: &Value) -> Result<impl Iterator<Item = Listed>, NotAList> {
    let list = match list {
        Value::Array(list) => list.as_slice(),
        // Go writes an empty list as null.
        Value::Null => &[],
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => return Err(NotAList),
    };
    Ok(list.iter().filter_map(|one| Listed::deserialize(one).ok()))
}

/// A game server, inspected; `None` if it is about to be gone.
pub fn read(inspected: &Value, told: Told, around: Surroundings<'_>) -> Option<Found> {
    let given = inspected.pointer("/Config/Labels").and_then(Value::as_object).into_iter().flatten();
    let given: Labels =
        given.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    found(inspected, labels::parse(&given, around.defaults)?, told, around)
}

/// The same of a container that players have nothing to do with: only whether it fares well counts.
pub fn watch(inspected: &Value, told: Told, around: Surroundings<'_>) -> Option<Found> {
    let spec = around.defaults.clone();
    let unlabelled = Labelled { spec, port: 0, network: None, grace: None, problems: Vec::new() };
    let mut found = found(inspected, unlabelled, told, around)?;
    // A kill at the end of its stop costs no world, and how it is reached is not the gate's business.
    found.service.problems.retain(|problem| problem.starts_with(UNHEALTHY_BEGINS));
    Some(found)
}

fn found(inspected: &Value, mut labelled: Labelled, told: Told, around: Surroundings<'_>) -> Option<Found> {
    let name = inspected.get("Name").and_then(Value::as_str).unwrap_or_default();
    let (container, not_understood) = match Container::deserialize(inspected) {
        Ok(container) => (container, None),
        Err(why) => (Container::default(), Some(why)),
    };
    if container.state.status == "removing" {
        return None;
    }
    if labelled.spec.hosts.is_empty() && !labelled.spec.default {
        // Nobody could wake it again.
        labelled.spec.sleep = false;
    }
    let choice = Choice { asked: labelled.network.as_deref().or(around.network), place: around.place };
    let grace = grace(labelled.grace.unwrap_or(around.grace), container.config.stop_timeout);
    let mut problems = labelled.problems;
    let state = match not_understood {
        Some(why) => {
            State::Unknown { reason: format!("the engine's answer about it is not understood: {why}") }
        }
        None => state(&container, told, grace, around.clocks, &mut problems),
    };
    let state = match state {
        State::Running(running) => {
            let endpoints = network::endpoints(&container, choice, labelled.port);
            let endpoints = endpoints.unwrap_or_else(|problem| {
                problems.push(problem);
                Vec::new()
            });
            State::Running(Running { endpoints, ..running })
        }
        state @ (State::Asleep
        | State::Starting { .. }
        | State::Restarting { .. }
        | State::Stopping
        | State::Failed { .. }
        | State::Unknown { .. }) => state,
    };
    problems.extend(advice::of(&container, grace, labelled.port));
    let end = End::of(&container, &state, told.death);
    let removed_when_stopped = container.host_config.auto_remove;
    Some(Found {
        run: run(&container),
        started: container.state.started_at,
        end,
        paused: container.state.status == "paused",
        removed_when_stopped,
        grace,
        service: Service {
            id: ServiceId::new(ID, name.trim_start_matches('/')),
            spec: Arc::new(labelled.spec),
            state,
            scalable: !removed_when_stopped,
            problems,
        },
        id: container.id,
    })
}

impl Found {
    /// What starts it, if it is not started already.
    ///
    /// # Errors
    /// Why it must not be started now, in a sentence.
    pub fn up(&self) -> Result<Option<Act>, String> {
        match &self.service.state {
            State::Asleep | State::Failed { .. } if self.paused => Ok(Some(Act::Unpause)),
            State::Asleep | State::Failed { .. } => Ok(Some(Act::Start)),
            State::Starting { .. } | State::Running(_) | State::Restarting { .. } => Ok(None),
            State::Stopping => Err("it is still stopping".to_owned()),
            State::Unknown { reason } => Err(reason.clone()),
        }
    }

    /// What stops it, if it is not stopped already.
    ///
    /// # Errors
    /// Why the gate does not stop it, in a sentence with the fix.
    pub fn down(&self) -> Result<Option<Act>, String> {
        if self.removed_when_stopped {
            return Err("it would be gone for good: create it without --rm".to_owned());
        }
        let seconds =
            self.grace.map_or(Some(-1), |grace| i64::try_from(grace.as_secs()).ok()).unwrap_or(i64::MAX);
        match &self.service.state {
            State::Running(_) | State::Starting { .. } | State::Restarting { .. } => {
                Ok(Some(Act::Stop { seconds }))
            }
            State::Asleep | State::Failed { .. } | State::Stopping => Ok(None),
            State::Unknown { reason } => Err(reason.clone()),
        }
    }
}

/// From the stop signal to the kill, when the gate stops it; `None`: it is never killed.
fn grace(ours: Duration, own: Option<i64>) -> Option<Duration> {
    match own.map(u64::try_from) {
        Some(Err(_)) => None,
        Some(Ok(seconds)) => Some(ours.max(Duration::from_secs(seconds))),
        None => Some(ours),
    }
}

fn run(container: &Container) -> Arc<str> {
    let started = container.state.started_at.map(|at| at.to_string()).unwrap_or_default();
    format!("{} {started}", container.id).into()
}

/// The table, top to bottom: the first row that fits is the state.
fn state(
    container: &Container,
    told: Told,
    grace: Option<Duration>,
    clocks: Clocks,
    problems: &mut Vec<String>,
) -> State {
    let now = &container.state;
    let told_to_stop = told.stop.filter(|stop| now.started_at.is_none_or(|started| started <= *stop));
    match now.status.as_str() {
        "running" if told_to_stop.is_some_and(|since| may_be_stopping(since, grace, clocks.wall)) => {
            State::Stopping
        }
        "running" if now.health() == "starting" => {
            State::Starting { reason: "waiting for its health check".to_owned() }
        }
        "running" => {
            problems.extend(unhealthy(now));
            State::Running(Running { run: run(container), endpoints: Vec::<Endpoint>::new() })
        }
        "restarting" => State::Restarting {
            until: clocks.moment_at(restart_at(container).unwrap_or(clocks.wall)),
            reason: outcome(now),
        },
        "paused" => State::Asleep,
        "created" | "exited" if told.start => State::Starting { reason: "Docker is starting it".to_owned() },
        "created" | "exited" => ended(container, told_to_stop.is_some(), problems),
        "dead" => State::Failed { reason: "Docker could not remove it: try `docker rm -f` again".to_owned() },
        other => {
            State::Unknown { reason: format!("it is in state {other:?}, which this version does not know") }
        }
    }
}

fn may_be_stopping(since: Timestamp, grace: Option<Duration>, now: Timestamp) -> bool {
    let Some(grace) = grace else { return true };
    let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
    now.duration_since(since) < grace.saturating_add(LATE)
}

fn unhealthy(now: &api::State) -> Option<String> {
    let health = now.health.as_ref().filter(|health| health.status == "unhealthy")?;
    let said = health.log.last().map(|check| check.output.trim()).filter(|said| !said.is_empty());
    let said: String = said.unwrap_or("it says nothing").chars().take(200).collect();
    Some(format!("{UNHEALTHY_BEGINS}: {said}"))
}

/// Down and staying so: was that meant?
fn ended(container: &Container, told: bool, problems: &mut Vec<String>) -> State {
    let now = &container.state;
    if !now.error.is_empty() {
        return State::Failed { reason: format!("Docker could not start it: {}", now.error) };
    }
    // Docker would have started it again, unless somebody stopped it.
    let meant = told || container.host_config.restart_policy.starts_again(now.exit_code);
    match now.exit_code {
        0 => State::Asleep,
        KILLED_CODE if meant => {
            problems.push(KILLED.to_owned());
            State::Asleep
        }
        _ if meant => State::Asleep,
        // Told to stop while the gate did not look: a program that ends on SIGINT or SIGTERM.
        130 | 143 => State::Asleep,
        _ => match container.restarts_used_up() {
            Some(times) => State::Failed {
                reason: format!("Docker gave up on it after {times} restarts: {}", outcome(now)),
            },
            None => State::Failed { reason: format!("it crashed: {}", outcome(now)) },
        },
    }
}

/// How it ended, with what its exit code means.
fn outcome(now: &api::State) -> String {
    let code = now.exit_code;
    if now.oom_killed && code != 0 {
        return format!(
            "exit code {code}: it ran out of memory; raise its memory limit, or lower what the game may take"
        );
    }
    if code == 0 { "it ended by itself (exit code 0)".to_owned() } else { exit(code) }
}

fn exit(code: i64) -> String {
    match reason::exit_code(code) {
        Some(meaning) => format!("exit code {code}: {meaning}"),
        None => format!("exit code {code}"),
    }
}

/// Docker waits 100 ms before the first restart and twice as long before each further one, up to a minute; a run of
/// 10 s begins anew (moby, `restartmanager`).
fn restart_at(container: &Container) -> Option<Timestamp> {
    const FIRST: SignedDuration = SignedDuration::from_millis(100);
    const LONGEST: SignedDuration = SignedDuration::from_mins(1);
    const STABLE: SignedDuration = SignedDuration::from_secs(10);
    let (started, finished) = (container.state.started_at?, container.state.finished_at?);
    let stable = finished.duration_since(started) >= STABLE;
    let doublings = if stable { 0 } else { container.restart_count.saturating_sub(1).min(10) };
    let delay = FIRST.saturating_mul(1_i32 << doublings).min(LONGEST);
    finished.checked_add(delay).ok()
}

#[cfg(test)]
mod tests;
