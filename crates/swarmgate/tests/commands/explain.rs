//! `explain --from`, with files as somebody would attach them to a report: what real engines answered.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Said, run};

const CRASH_LOOP: &str = "20.10.24/03a-crash-loop-max3";
const START: &str = "29.7.2/01-scale-0-1";

/// What the engine had answered so many milliseconds after the beginning of a recording.
fn recorded(recording: &str, at: u64) -> Value {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/fixtures/swarm");
    let text = std::fs::read_to_string(directory.join(format!("{recording}.jsonl"))).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let started: Timestamp = lines.next().unwrap()["started"].as_str().unwrap().parse().unwrap();
    let mut seen = json!({});
    for line in lines.take_while(|line| line["at"].as_u64().unwrap() <= at) {
        merge(&mut seen, &line["merge"]);
    }
    let one = &seen["services"]["only"];
    let tasks: Vec<Value> = one["tasks"].as_object().unwrap().values().cloned().collect();
    let now = started + Duration::from_millis(at);
    json!({"service": one["service"], "tasks": tasks, "now": now.to_string()})
}

/// A JSON merge patch (RFC 7396); of nothing, nothing.
fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return };
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.as_object_mut().unwrap().remove(key)),
            Value::Object(_) if target[key].is_object() => merge(&mut target[key], value),
            Value::Object(_) => {
                target[key] = json!({});
                merge(&mut target[key], value);
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                target[key] = value.clone()
            }
        }
    }
}

struct File(tempfile::TempDir);

impl File {
    fn new(text: &str) -> Self {
        let file = Self(tempfile::tempdir().unwrap());
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("saved.json")
    }

    async fn explain(&self, more: &[&str]) -> Said {
        let path = self.path().display().to_string();
        run(&[&["explain", "--from", &path], more].concat()).await
    }
}

async fn explained(saved: &Value) -> (Value, String) {
    let file = File::new(&saved.to_string());
    let (json, text) = (file.explain(&["--json"]).await, file.explain(&[]).await);
    assert_eq!((json.code, text.code), (0, 0), "{}{}", json.err, text.err);
    (json.json(), text.out)
}

#[tokio::test]
async fn a_saved_answer_is_explained_to_people_and_to_programs() {
    let running = recorded(START, 2419);
    let address = running.pointer("/tasks/0/NetworksAttachments/0/Addresses/0").and_then(Value::as_str);
    let address = format!("{}:25565", address.unwrap().split('/').next().unwrap());
    for (saved, state, reason, endpoint) in [
        (recorded(START, 1018), "asleep", "scaled to zero", None),
        (recorded(START, 2219), "starting", "starting", None),
        (running, "running", "is running", Some(&*address)),
        (recorded(CRASH_LOOP, 2958), "restarting", "non-zero exit (1)", None),
        (recorded(CRASH_LOOP, 24_558), "failed", "Swarm gave up on it", None),
    ] {
        let (json, text) = explained(&saved).await;
        assert_eq!((&json["state"], &json["endpoint"]), (&json!(state), &json!(endpoint)), "{json}");
        let why = json["reason"].as_str().unwrap();
        assert!(why.contains(reason), "{why}");
        let name = saved["service"]["Spec"]["Name"].as_str().unwrap();
        assert_eq!(text.lines().next(), Some(&*format!("{name} is {state}: {why}")));
        let dialled = text.lines().find(|line| line.contains("players go to:"));
        assert_eq!(dialled.map(|line| line.ends_with(&address)), endpoint.map(|_| true), "{text}");
    }
    let (json, _) = explained(&recorded(CRASH_LOOP, 2958)).await;
    let (until, now) = (json["restart_at"].as_str().unwrap(), recorded(CRASH_LOOP, 2958)["now"].clone());
    let (until, now): (Timestamp, Timestamp) =
        (until.parse().unwrap(), now.as_str().unwrap().parse().unwrap());
    let left = until.duration_since(now).as_secs_f64();
    assert!((4.5..5.0).contains(&left), "{left} s");
}

#[tokio::test]
async fn refusals_are_answers_too_and_nodes_may_be_missing_or_known() {
    for (key, refusal, state, reason) in [
        ("service", json!({"http": 503}), "unknown", "503"),
        ("tasks", json!({"http": 503}), "unknown", "503"),
        ("service", json!({"http": 0, "body": "connection refused"}), "unknown", "connection refused"),
        ("service", json!({"http": 404, "body": {"message": "service s01 not found"}}), "gone", "not found"),
        ("nodes", json!({"http": 403}), "running", "is running"),
        ("nodes", json!([]), "running", "is running"),
    ] {
        let mut saved = recorded(START, 2419);
        saved[key] = refusal.clone();
        let (json, text) = explained(&saved).await;
        assert_eq!(json["state"], state, "{key} {refusal}: {json}");
        assert!(json["reason"].as_str().unwrap().contains(reason), "{key} {refusal}: {json}");
        assert_eq!(json["endpoint"].is_null(), state != "running", "{key} {refusal}: {json}");
        assert!(text.contains(&format!(" is {state}: ")), "{key} {refusal}: {text}");
    }
    // With its node down, the task that stops there may run for good.
    let mut lost = recorded(START, 2419);
    lost["service"]["Spec"]["Mode"]["Replicated"]["Replicas"] = 0.into();
    lost["tasks"][0]["DesiredState"] = "remove".into();
    assert_eq!(explained(&lost).await.0["state"], "stopping");
    lost["nodes"] = json!([{"ID": lost["tasks"][0]["NodeID"], "Status": {"State": "down"}}]);
    let (json, _) = explained(&lost).await;
    assert_eq!((&json["state"], &json["stopping"]["on_down_nodes"]), (&json!("asleep"), &json!(1)), "{json}");
}

#[tokio::test]
async fn what_cannot_be_explained_names_the_file_and_the_place() {
    let good = recorded(START, 2419);
    let with = |pointer: &str, value: Value| {
        let mut saved = good.clone();
        *saved.pointer_mut(pointer).unwrap() = value;
        saved.to_string()
    };
    for (text, place) in [
        ("{\n  \"service\": nothing\n}".to_owned(), "line 2 column 15"),
        ("[]".to_owned(), "it is not an object with `service`, `tasks`, `now`"),
        ("{}".to_owned(), "it has no `service`"),
        (with("/tasks", Value::Null), "it has no `tasks`"),
        (with("/now", json!("yesterday")), "its `now` is not a time such as 2026-01-01T12:00:00Z"),
        (with("/service/Spec/TaskTemplate", json!("?")), "its `service` is not what the Engine API gives"),
        (with("/tasks/0/Slot", json!("one")), "its `tasks` is not what the Engine API gives"),
    ] {
        let file = File::new(&text);
        let named = file.path().display().to_string();
        let said = file.explain(&[]).await;
        assert_eq!((said.code, &*said.out), (1, ""), "{text}");
        assert!(said.err.contains(&named) && said.err.contains(place), "{text}: {}", said.err);
        let error = file.explain(&["--json"]).await.error();
        assert!(error["message"].as_str().unwrap().contains(place), "{text}: {error}");
    }
}
