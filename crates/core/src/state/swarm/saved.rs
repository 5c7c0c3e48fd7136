//! Explains a saved answer of the engine: for bug reports, and for tests without an engine.

use std::fmt;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::advice;
use super::api::{Answer, Node, Service, Task};
use super::network::{self, Choice};
use super::scale::{self, ScaleError};
use super::{Belief, Believed};
use crate::config::value::MINECRAFT_PORT;
use crate::labels;
use crate::service::{Endpoint, Spec};

/// What the gate would believe and do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    pub name: String,
    pub believed: Believed,
    pub endpoint: Option<Endpoint>,
    /// What a wake would change in the spec; `None`: nothing.
    pub wake: Option<String>,
    pub problems: Vec<String>,
    /// What about its set-up endangers its world.
    pub advice: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    #[error("it is not JSON: {0}")]
    NotJson(serde_json::Error),
    #[error("it is not an object with `service`, `tasks`, `now` and perhaps `nodes`")]
    NotAnObject,
    #[error("it has no `{0}`")]
    Missing(&'static str),
    #[error("its `{key}` is not what the Engine API gives: {why}")]
    NotUnderstood { key: &'static str, why: serde_json::Error },
    #[error("its `now` is not a time such as 2026-01-01T12:00:00Z")]
    BadTime,
}

/// Reads `{"service": …, "tasks": […], "nodes": […], "now": "…"}`.
///
/// `nodes` may be missing. Each may be a refusal, `{"http": 503}`; `service` may be in a list of one, as
/// `docker service inspect` gives it.
pub fn explain(text: &str) -> Result<Explained, SavedError> {
    let saved: Value = serde_json::from_str(text).map_err(SavedError::NotJson)?;
    let saved = saved.as_object().ok_or(SavedError::NotAnObject)?;
    let raw = unwrapped(required(saved, "service")?);
    let service: Answer<Service> = answer("service", raw)?;
    let tasks: Answer<Vec<Task>> = match (&service, saved.get("tasks")) {
        (Answer::Refused { .. }, None | Some(Value::Null)) => Answer::Got(Vec::new()),
        _ => answer("tasks", required(saved, "tasks")?)?,
    };
    let nodes = saved.get("nodes").filter(|nodes| !nodes.is_null());
    let nodes: Vec<Node> = match nodes.map(|nodes| answer("nodes", nodes)).transpose()? {
        Some(Answer::Got(nodes)) => nodes,
        Some(Answer::Refused { .. }) | None => Vec::new(),
    };
    let now = required(saved, "now")?.as_str().and_then(|now| now.parse().ok()).ok_or(SavedError::BadTime)?;
    Ok(Explained::of(raw, &service, &tasks, &nodes, now))
}

impl Explained {
    fn of(
        raw: &Value,
        service: &Answer<Service>,
        tasks: &Answer<Vec<Task>>,
        nodes: &[Node],
        now: Timestamp,
    ) -> Self {
        let believed = super::of(service, tasks, nodes, now);
        let mut problems = believed.problems.clone();
        let (mut name, mut endpoint, mut advice) = (String::new(), None, Vec::new());
        if let Answer::Got(service) = service {
            let labelled = labels::parse(&service.spec.labels, &Spec::default());
            let port = labelled.as_ref().map_or(MINECRAFT_PORT, |labelled| labelled.port);
            let asked = labelled.as_ref().and_then(|labelled| labelled.network.as_deref());
            name.clone_from(&service.spec.name);
            endpoint = dialled(&believed, service, asked, port).unwrap_or_else(|problem| {
                problems.push(problem);
                None
            });
            problems.extend(labelled.into_iter().flat_map(|labelled| labelled.problems));
            problems.extend(labels::misplaced(&service.spec.task_template.container_spec.labels));
            advice = advice::of(&service.spec, port);
        }
        let wake = wake(raw, &believed).unwrap_or_else(|error| {
            problems.push(format!("it could not be woken: {error}"));
            None
        });
        Self { name, believed, endpoint, wake, problems, advice }
    }

    pub fn to_json(&self) -> Value {
        let stopping = self.believed.stopping.map(|stopping| {
            json!({
                "tasks": stopping.tasks,
                "on_down_nodes": stopping.on_down_nodes,
                "since": stopping.since.map(|since| since.to_string()),
            })
        });
        json!({
            "service": self.name,
            "state": self.believed.belief.word(),
            "reason": self.believed.reason,
            "endpoint": self.endpoint.as_ref().map(Endpoint::to_string),
            "restart_at": self.restart_at().map(|at| at.to_string()),
            "stopping": stopping,
            "wake": self.wake,
            "problems": self.problems,
            "advice": self.advice,
        })
    }

    fn restart_at(&self) -> Option<Timestamp> {
        if let Belief::RestartDelay { until } = self.believed.belief { Some(until) } else { None }
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "the service" } else { &self.name };
        writeln!(f, "{name} is {}: {}", self.believed.belief.word(), self.believed.reason)?;
        if let Some(at) = self.restart_at() {
            writeln!(f, "  restart at:         {at}")?;
        }
        if let Some(endpoint) = &self.endpoint {
            writeln!(f, "  players go to:      {endpoint}")?;
        }
        if let Some(stopping) = self.believed.stopping {
            let (tasks, lost) = (stopping.tasks, stopping.on_down_nodes);
            writeln!(f, "  still stopping:     {tasks} ({lost} more on nodes that are down)")?;
        }
        let wake = self.wake.as_deref().unwrap_or("nothing");
        writeln!(f, "  a wake would write: {wake}")?;
        self.problems.iter().try_for_each(|problem| writeln!(f, "  problem:            {problem}"))?;
        self.advice.iter().try_for_each(|advice| writeln!(f, "  advice:             {advice}"))
    }
}

/// Where players go while it runs. On which networks the gate is, a file does not say.
fn dialled(
    believed: &Believed,
    service: &Service,
    asked: Option<&str>,
    port: u16,
) -> Result<Option<Endpoint>, String> {
    let Some(instance) = &believed.instance else { return Ok(None) };
    let choice = Choice { asked, own: None };
    let endpoints = network::endpoints(instance, &service.spec, choice, port)?;
    Ok(endpoints.into_iter().next())
}

fn wake(raw: &Value, believed: &Believed) -> Result<Option<String>, ScaleError> {
    let (Some(change), Some(spec)) = (believed.wake(), raw.get("Spec")) else { return Ok(None) };
    Ok(scale::edit(spec, change)?.map(|edited| edited.changes))
}

fn required<'a>(saved: &'a Map<String, Value>, key: &'static str) -> Result<&'a Value, SavedError> {
    saved.get(key).filter(|value| !value.is_null()).ok_or(SavedError::Missing(key))
}

fn unwrapped(service: &Value) -> &Value {
    match service.as_array().map(Vec::as_slice) {
        Some([only]) => only,
        _ => service,
    }
}

fn answer<T: DeserializeOwned>(key: &'static str, value: &Value) -> Result<Answer<T>, SavedError> {
    if let Some((status, message)) = refusal(value) {
        return Ok(Answer::Refused { status, message });
    }
    let got = T::deserialize(value).map_err(|why| SavedError::NotUnderstood { key, why })?;
    Ok(Answer::Got(got))
}

/// `{"http": 503, "body": {"message": "…"}}`, or the engine's error as it stands, `{"message": "…"}`.
fn refusal(value: &Value) -> Option<(u16, String)> {
    let status = match (value.get("http"), value.get("message")) {
        (Some(status), _) => status.as_u64()?,
        (None, Some(_)) => 0,
        (None, None) => return None,
    };
    let body = value.get("body").unwrap_or(value);
    let message = body.get("message").unwrap_or(body).as_str().unwrap_or_default();
    Some((u16::try_from(status).unwrap_or(u16::MAX), message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn running() -> Value {
        json!({
            "service": {
                "ID": "s", "UpdatedAt": "2026-01-01T12:00:00Z",
                "Spec": {
                    "Name": "mc", "Labels": {"mc-router.host": "mc.example.com", "mc-router.port": "25570"},
                    "TaskTemplate": {"ForceUpdate": 3}, "Mode": {"Replicated": {"Replicas": 1}},
                },
            },
            "tasks": [{
                "ID": "t", "ServiceID": "s", "NodeID": "n", "Slot": 1, "CreatedAt": "2026-01-01T12:00:01Z",
                "Status": {"State": "running"}, "DesiredState": "running",
                "NetworksAttachments": [
                    {"Network": {"ID": "i", "Spec": {"Name": "ingress"}}, "Addresses": ["10.0.0.4/24"]},
                    {"Network": {"ID": "m", "Spec": {"Name": "mc"}}, "Addresses": ["10.0.1.4/24"]},
                ],
            }],
            "nodes": [{"ID": "n", "Status": {"State": "ready"}}],
            "now": "2026-01-01T12:10:00+00:00",
        })
    }

    /// `running` with the value at each pointer replaced.
    fn with(changes: &[(&str, Value)]) -> Value {
        let mut saved = running();
        for (pointer, value) in changes {
            *saved.pointer_mut(pointer).unwrap() = value.clone();
        }
        saved
    }

    fn explained(saved: &Value) -> Value {
        explain(&saved.to_string()).unwrap().to_json()
    }

    #[test]
    fn says_the_state_the_reason_and_where_players_go() {
        let json = explained(&running());
        assert_eq!((&json["state"], &json["endpoint"]), (&json!("running"), &json!("10.0.1.4:25570")));
        assert_eq!((&json["wake"], &json["problems"]), (&Value::Null, &json!([])));
        let text = explain(&running().to_string()).unwrap().to_string();
        assert!(text.starts_with("mc is running: task t is running\n"), "{text}");
        assert!(text.contains("advice:             it is killed 10 s after"), "{text}");
        assert!(text.contains("players go to:      10.0.1.4:25570\n"), "{text}");
    }

    #[test]
    fn each_state_by_its_word() {
        let (state, desired) = ("/tasks/0/Status/State", "/tasks/0/DesiredState");
        let replicas = "/service/Spec/Mode/Replicated/Replicas";
        let none = ("/tasks", json!([]));
        let cases = [
            ("asleep", vec![(replicas, json!(0)), none.clone()], json!("replicas 0 to 1")),
            (
                "asleep",
                vec![(replicas, json!(0)), (state, json!("failed")), (desired, json!("shutdown"))],
                json!("replicas 0 to 1, ForceUpdate 3 to 4"),
            ),
            (
                "asleep",
                vec![(state, json!("complete")), (desired, json!("shutdown"))],
                json!("ForceUpdate 3 to 4"),
            ),
            ("starting", vec![(state, json!("preparing"))], Value::Null),
            ("restarting", vec![(state, json!("ready")), (desired, json!("ready"))], Value::Null),
            ("stopping", vec![(replicas, json!(0)), (desired, json!("remove"))], Value::Null),
            (
                "failed",
                vec![(state, json!("failed")), (desired, json!("shutdown"))],
                json!("ForceUpdate 3 to 4"),
            ),
            ("unknown", vec![("/service", json!({"http": 503}))], Value::Null),
            ("unknown", vec![("/tasks", json!({"http": 0, "body": "refused"}))], Value::Null),
            (
                "unknown",
                vec![("/service", json!({"message": "This node is not a swarm manager."}))],
                Value::Null,
            ),
            ("gone", vec![("/service", json!({"http": 404})), ("/tasks", Value::Null)], Value::Null),
        ];
        for (word, changes, wake) in cases {
            let json = explained(&with(&changes));
            assert_eq!((&json["state"], &json["wake"]), (&json!(word), &wake), "{changes:?}");
            assert_eq!(json["endpoint"], Value::Null, "{changes:?}");
            assert!(!json["reason"].as_str().unwrap().is_empty(), "{changes:?}");
        }
    }

    #[test]
    fn a_restart_has_its_time_and_a_network_that_is_not_there_is_named() {
        let held = [("/tasks/0/Status/State", json!("ready")), ("/tasks/0/DesiredState", json!("ready"))];
        assert_eq!(explained(&with(&held))["restart_at"], json!("2026-01-01T12:00:06Z"));
        let elsewhere = [(
            "/service/Spec/Labels",
            json!({"swarmgate.host": "mc.example.com", "swarmgate.network": "other"}),
        )];
        let json = explained(&with(&elsewhere));
        assert_eq!((&json["state"], &json["endpoint"]), (&json!("running"), &Value::Null));
        assert!(json["problems"][0].as_str().unwrap().contains("\"other\""), "{json}");
    }

    #[test]
    fn the_refusal_of_the_nodes_is_not_knowing_them() {
        for nodes in [json!({"http": 403}), Value::Null, json!([])] {
            assert_eq!(explained(&with(&[("/nodes", nodes)]))["state"], "running");
        }
    }

    #[test]
    fn docker_inspect_gives_a_list_of_one() {
        let mut saved = running();
        saved["service"] = json!([saved["service"]]);
        assert_eq!(explained(&saved)["state"], "running");
    }

    #[test]
    fn a_bad_file_says_what_is_wrong() {
        let cases = [
            ("{".to_owned(), "it is not JSON: "),
            ("[]".to_owned(), "it is not an object with"),
            ("{}".to_owned(), "it has no `service`"),
            (with(&[("/tasks", Value::Null)]).to_string(), "it has no `tasks`"),
            (with(&[("/now", Value::Null)]).to_string(), "it has no `now`"),
            (with(&[("/now", json!("yesterday"))]).to_string(), "its `now` is not a time such as"),
            (
                with(&[("/service", json!("mc"))]).to_string(),
                "its `service` is not what the Engine API gives",
            ),
            (
                with(&[("/tasks/0/Slot", json!("one"))]).to_string(),
                "its `tasks` is not what the Engine API gives",
            ),
        ];
        for (text, error) in cases {
            let found = explain(&text).unwrap_err().to_string();
            assert!(found.starts_with(error), "{found}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let odd = ["", "running", "9999-12-31T23:59:59Z", "-009999-01-02T00:00:00Z", "10.0.0.1/24", "\u{7f}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            prop::sample::select(odd.to_vec()).prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            let keys =
                prop::sample::select(vec!["ID", "Spec", "Status", "State", "Replicated", "http", "Delay"]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((keys, inner), 0..4)
                    .prop_map(|all| all.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_json_panics(value in any_json(), at in any::<prop::sample::Index>()) {
            let held = [("/tasks/0/Status/State", json!("ready")), ("/tasks/0/DesiredState", json!("ready"))];
            for mut saved in [running(), with(&held)] {
                let places = pointers(&saved);
                let place: &String = at.get(&places);
                *saved.pointer_mut(place).unwrap() = value.clone();
                if let Ok(explained) = explain(&saved.to_string()) {
                    let _ = (explained.to_json(), explained.to_string());
                }
            }
        }
    }

    fn pointers(value: &Value) -> Vec<String> {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(object) => object.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Value::Array(list) => list.iter().enumerate().map(|(i, value)| (i.to_string(), value)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        let below = children.into_iter().flat_map(|(key, child)| {
            pointers(child).into_iter().map(move |rest| format!("/{}{rest}", key.replace('/', "~1")))
        });
        std::iter::once(String::new()).chain(below).collect()
    }
}
