//! Explains a saved answer of the engine about a container, as `docker inspect` prints it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::Container;
use super::network::Place;
use super::{Act, Found, Surroundings, Told, read};
use crate::config::DOCKER_GRACE;
use crate::moment::Moment;
use crate::service::{Endpoint, Spec, State};
use crate::state::Clocks;

/// What the gate would believe and do, were it on the container's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    pub name: String,
    /// In the lexicon's words; `gone` for one that is being removed.
    pub state: &'static str,
    pub reason: String,
    pub endpoint: Option<Endpoint>,
    pub restart_at: Option<Timestamp>,
    /// What a wake would do; `None`: nothing.
    pub wake: Option<&'static str>,
    pub problems: Vec<String>,
}

/// Reads what the engine says of one container, or a list of one; `None` if it is something else.
///
/// A file does not say what time it was. It is taken as saved at the last moment that it tells of.
pub fn explain(text: &str) -> Option<Explained> {
    let saved: Value = serde_json::from_str(text).ok()?;
    let inspected = match saved.as_array().map(Vec::as_slice) {
        Some([only]) => only,
        _ => &saved,
    };
    inspected.get("Config")?;
    let state = Container::deserialize(inspected).map(|container| container.state).unwrap_or_default();
    let wall = state.started_at.max(state.finished_at).unwrap_or(Timestamp::UNIX_EPOCH);
    let around = Surroundings {
        defaults: &Spec::default(),
        network: None,
        grace: DOCKER_GRACE,
        place: Place::Machine,
        clocks: Clocks { moment: Moment::START, wall },
    };
    Some(match read(inspected, Told::default(), around) {
        Some(found) => Explained::of(&found, wall),
        None => Explained::without_a_state(inspected, &state.status),
    })
}

impl Explained {
    fn of(found: &Found, wall: Timestamp) -> Self {
        let service = &found.service;
        let (mut endpoint, mut restart_at) = (None, None);
        let reason = match &service.state {
            State::Running(running) => {
                endpoint = running.endpoints.first().cloned();
                "it runs".to_owned()
            }
            State::Restarting { until, reason } => {
                let left = SignedDuration::try_from(until.since(Moment::START)).unwrap_or_default();
                restart_at = wall.checked_add(left).ok();
                reason.clone()
            }
            State::Asleep => "it does not run".to_owned(),
            State::Stopping => "it was told to stop".to_owned(),
            State::Starting { reason } | State::Failed { reason } | State::Unknown { reason } => {
                reason.clone()
            }
        };
        let wake = found.up().ok().flatten().and_then(|act| match act {
            Act::Start => Some("start it"),
            Act::Unpause => Some("unpause it"),
            Act::Stop { .. } => None,
        });
        Self {
            name: service.id.name.to_string(),
            state: service.state.word(),
            reason,
            endpoint,
            restart_at,
            wake,
            problems: service.problems.clone(),
        }
    }

    fn without_a_state(inspected: &Value, status: &str) -> Self {
        let name = inspected.get("Name").and_then(Value::as_str).unwrap_or_default();
        let (state, reason) = match status {
            "removing" => ("gone", "it is being removed"),
            _ => ("gone", "it has no labels for the gate, such as swarmgate.host"),
        };
        Self {
            name: name.trim_start_matches('/').to_owned(),
            state,
            reason: reason.to_owned(),
            endpoint: None,
            restart_at: None,
            wake: None,
            problems: Vec::new(),
        }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "service": self.name,
            "state": self.state,
            "reason": self.reason,
            "endpoint": self.endpoint.as_ref().map(Endpoint::to_string),
            "restart_at": self.restart_at.map(|at| at.to_string()),
            "wake": self.wake,
            "problems": self.problems,
        })
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} is {}: {}", self.name, self.state, self.reason)?;
        if let Some(at) = self.restart_at {
            writeln!(f, "  restart at:      {at}")?;
        }
        if let Some(endpoint) = &self.endpoint {
            writeln!(f, "  players go to:   {endpoint}")?;
        }
        writeln!(f, "  a wake would:    {}", self.wake.unwrap_or("do nothing"))?;
        self.problems.iter().try_for_each(|problem| writeln!(f, "  problem:         {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(state: Value) -> Value {
        json!([{
            "Id": "c", "Name": "/mc", "State": state,
            "Config": {"Labels": {"swarmgate.host": "mc.example.com"}, "StopTimeout": 60},
            "HostConfig": {"RestartPolicy": {"Name": "unless-stopped"}},
            "NetworkSettings": {"Networks": {"games": {"NetworkID": "n", "IPAddress": "10.1.0.9"}}},
        }])
    }

    #[test]
    fn what_docker_inspect_prints_is_explained() {
        let started = "2026-01-01T12:00:00Z";
        for (state, word, reason, endpoint, wake) in [
            (
                json!({"Status": "running", "StartedAt": started}),
                "running",
                "it runs",
                json!("10.1.0.9:25565"),
                json!(null),
            ),
            (
                json!({"Status": "exited", "ExitCode": 0}),
                "asleep",
                "it does not run",
                json!(null),
                json!("start it"),
            ),
            (
                json!({"Status": "paused", "StartedAt": started}),
                "asleep",
                "it does not run",
                json!(null),
                json!("unpause it"),
            ),
            (json!({"Status": "removing"}), "gone", "it is being removed", json!(null), json!(null)),
            (
                json!({"Status": "exited", "Error": "no such file"}),
                "failed",
                "Docker could not start it: no such file",
                json!(null),
                json!("start it"),
            ),
        ] {
            let json = explain(&saved(state.clone()).to_string()).unwrap().to_json();
            let found = (&json["state"], &json["reason"], &json["endpoint"], &json["wake"]);
            assert_eq!(found, (&json!(word), &json!(reason), &endpoint, &wake), "{state}");
        }
        let text = explain(&saved(json!({"Status": "running"}))[0].to_string()).unwrap().to_string();
        assert!(text.starts_with("mc is running: it runs\n  players go to:   10.1.0.9:25565\n"), "{text}");
    }

    #[test]
    fn a_restart_has_its_time() {
        let state = json!({"Status": "restarting", "ExitCode": 1, "StartedAt": "2026-01-01T12:00:00Z",
            "FinishedAt": "2026-01-01T12:01:00Z"});
        let json = explain(&saved(state).to_string()).unwrap().to_json();
        assert_eq!(
            (&json["state"], &json["restart_at"]),
            (&json!("restarting"), &json!("2026-01-01T12:01:00.1Z"))
        );
    }

    #[test]
    fn without_labels_it_is_none_of_the_gates() {
        let mut unlabelled = saved(json!({"Status": "running"}));
        unlabelled[0]["Config"]["Labels"] = json!({});
        let explained = explain(&unlabelled.to_string()).unwrap();
        assert!(explained.reason.contains("no labels for the gate"), "{explained}");
    }

    #[test]
    fn other_files_are_for_others() {
        for text in ["{", "[]", "{}", r#"{"service": {}, "tasks": [], "now": ""}"#] {
            assert_eq!(explain(text), None, "{text}");
        }
    }
}
