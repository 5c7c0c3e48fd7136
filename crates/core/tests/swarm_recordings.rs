//! Replays recordings of real engines and compares what is believed with what was true, at every line.

#![allow(clippy::disallowed_methods, reason = "a test reads its fixtures")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use swarmgate_core::alert::{Alerts, Stage, When};
use swarmgate_core::moment::Moment;
use swarmgate_core::state::swarm::api::{Answer, Node, Service, Task, TaskState};
use swarmgate_core::state::swarm::ends::{Ends, Hints};
use swarmgate_core::state::swarm::scale::Change;
use swarmgate_core::state::swarm::survey::Survey;
use swarmgate_core::state::swarm::{self, Belief, Believed};

#[derive(Debug, Deserialize)]
struct Header {
    started: Timestamp,
}

#[derive(Debug, Deserialize)]
struct Line {
    /// Milliseconds since the start.
    at: i64,
    /// What changed, as a JSON merge patch (RFC 7396) on everything seen so far.
    #[serde(default)]
    merge: Value,
    /// What is true from here on, by service.
    #[serde(default)]
    expect: BTreeMap<String, Expected>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    belief: String,
    /// The state of the task that comes up, in Swarm's word.
    #[serde(default)]
    phase: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    seconds_left: Option<f64>,
    #[serde(default)]
    also_stopping: usize,
    #[serde(default)]
    on_down_nodes: usize,
    #[serde(default)]
    force: bool,
}

/// What the engine said about one service at one moment.
#[derive(Debug, Clone)]
struct Facts {
    service: Answer<Service>,
    tasks: Answer<Vec<Task>>,
    nodes: Vec<Node>,
    now: Timestamp,
}

#[test]
fn what_is_believed_was_true() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for path in recordings() {
        replay(&path, |name, facts, expected, changed| {
            compared += 1;
            if let Err(why) = compare(&believe(facts), facts, expected, changed) {
                wrong.push(format!("{name}: {why}\n    expected {expected:?}"));
            }
        });
    }
    assert!(wrong.is_empty(), "{} of {compared} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 1250, "only {compared} compared");
}

#[test]
fn the_order_of_the_lists_does_not_matter() {
    for path in recordings() {
        replay(&path, |name, facts, _, _| {
            let mut turned = facts.clone();
            turned.nodes.reverse();
            let Answer::Got(mut tasks) = facts.tasks.clone() else { return };
            for _ in 0..tasks.len() {
                tasks.rotate_left(1);
                let middle = tasks.len() / 2;
                tasks.swap(0, middle);
                turned.tasks = Answer::Got(tasks.clone());
                assert_eq!(believe(&turned), believe(facts), "{name}");
            }
        });
    }
}

/// A Swarm keeps as much of a slot's history as its operator likes. Only the last end of a service at rest is
/// always there.
#[test]
fn older_history_does_not_matter() {
    let mut shortened = 0;
    for path in recordings() {
        replay(&path, |name, facts, _, _| {
            let Answer::Got(tasks) = &facts.tasks else { return };
            let old =
                |task: &Task| task.status.state.is_terminal() && task.desired_state == TaskState::Shutdown;
            let Some(last) = tasks.iter().filter(|task| old(task)).filter_map(|task| task.created_at).max()
            else {
                return;
            };
            let mut short = facts.clone();
            if let Answer::Got(tasks) = &mut short.tasks {
                tasks.retain(|task| !old(task) || task.created_at == Some(last));
                shortened += 1;
            }
            let (short, whole) = (believe(&short), believe(facts));
            assert_eq!((&short.belief, &short.reason), (&whole.belief, &whole.reason), "{name}");
            assert_eq!(short.wake(), whole.wake(), "{name}");
        });
    }
    assert!(shortened > 300, "only {shortened} had a history");
}

/// Every end that nobody had asked for, by scenario, over whole histories; where nothing is named, nothing was told:
/// not of updates, rollbacks, drained nodes, scale-downs and removals.
#[test]
fn only_ends_that_nobody_asked_for_are_told() {
    let expected: BTreeMap<&str, &str> = TOLD.into_iter().collect();
    let mut wrong = Vec::new();
    for path in recordings() {
        let engine = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
        let scenario = path.file_stem().unwrap().to_str().unwrap();
        let number = scenario.split('-').next().unwrap();
        let told = told(&path);
        let expected = expected
            .get(number)
            .or(expected.get(format!("{engine}/{number}").as_str()))
            .copied()
            .unwrap_or_default();
        if told != expected {
            wrong.push(format!("{engine}/{scenario}: {told:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// By the number of the scenario, with the engine where that makes a difference.
const TOLD: [(&str, &str); 28] = [
    ("03a", "crashed 4, gave_up 1"),
    ("03b", "crashed 3"),
    ("03c", "crashed 6"),
    ("03d", "crashed 2"),
    ("03e", "crashed 4, gave_up 1"),
    ("03f", "crashed 3, gave_up 1"),
    ("03g", "crashed 2"),
    ("04b", "crashed 2, gave_up 1"),
    ("04e", "crashed 2, gave_up 1"),
    ("05a", "cannot_start 4"),
    ("05b", "cannot_start 3, gave_up 1"),
    ("05c", "cannot_start 3, gave_up 1"),
    ("14c", "crashed 2"),
    // Its engine was restarted, which Swarm does not tell; with a newer one it has ended well.
    ("20.10.24/15a", "crashed 1"),
    ("15c", "crashed 2, gave_up 1"),
    ("15d", "crashed 2"),
    // Updates to what does not run.
    ("17a", "crashed 3"),
    ("17b", "crashed 1"),
    ("17c", "cannot_start 8"),
    ("19", "crashed 3, gave_up 1"),
    ("19b", "crashed 3, gave_up 1"),
    ("20a", "crashed 1"),
    ("20b", "crashed 1"),
    ("25a", "crashed 3, gave_up 1"),
    ("25b", "crashed 4, gave_up 1"),
    ("25d", "crashed 1"),
    ("25f", "cannot_start 2"),
    ("27", "crashed 2"),
];

/// What a gate would tell that had watched from the start: each kind with how often it happened, lasting ones once.
fn told(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap()).unwrap();
    let (mut seen, mut ends, mut alerts) = (Value::Null, Ends::default(), Alerts::default());
    let mut told: BTreeMap<&str, u32> = BTreeMap::new();
    ends.saw(&Survey::default(), Hints::default(), true, header.started);
    for line in lines {
        let line: Line = serde_json::from_str(line).unwrap();
        merge(&mut seen, &line.merge);
        let at = Moment::after_start(Duration::from_millis(line.at.try_into().unwrap()));
        let wall = header.started + SignedDuration::from_millis(line.at);
        let new = match survey(&seen) {
            Some(survey) => {
                let sights = ends.saw(&survey, Hints::default(), true, wall);
                for trouble in sights.iter().flat_map(|sight| &sight.troubles) {
                    if let When::Since(times) = trouble.when {
                        *told.entry(trouble.kind.word()).or_default() += times;
                    }
                }
                alerts.saw("swarm", sights, at)
            }
            None => alerts.lost("swarm", "no answer", at),
        };
        for alert in new {
            if let Stage::First(kind) = alert.stage {
                told.entry(kind.word()).or_insert(1);
            }
        }
    }
    let told: Vec<String> = told.iter().map(|(kind, times)| format!("{kind} {times}")).collect();
    told.join(", ")
}

/// Everything the engine said; `None` if it refused any of it.
fn survey(seen: &Value) -> Option<Survey> {
    let all = seen["services"].as_object().into_iter().flatten();
    let (mut services, mut tasks) = (Vec::new(), Vec::new());
    for (_, said) in all {
        let refused = [&said["service"], &said["tasks"]].into_iter().find_map(|said| said["http"].as_u64());
        match refused {
            Some(404) => continue,
            Some(_) => return None,
            None => {}
        }
        services.push(said["service"].clone());
        tasks.extend(said["tasks"].as_object().into_iter().flatten().map(|(_, task)| task.clone()));
    }
    let nodes = seen["nodes"].as_object().into_iter().flatten();
    let nodes =
        nodes.map(|(id, node)| Node { id: id.clone(), ..serde_json::from_value(node.clone()).unwrap() });
    Some(Survey::new(services.into(), tasks.into(), nodes.collect()).unwrap())
}

fn believe(facts: &Facts) -> Believed {
    swarm::of(&facts.service, &facts.tasks, &facts.nodes, facts.now)
}

fn compare(believed: &Believed, facts: &Facts, expected: &Expected, changed: bool) -> Result<(), String> {
    let differ = |what: &str| Err(format!("the {what} differs: {believed:?}"));
    let reason = believed.reason.as_str();
    let stopping = believed.stopping.map_or((0, 0), |s| (s.tasks, s.on_down_nodes));
    let counted_elsewhere = matches!(expected.belief.as_str(), "Stopping" | "Replacing" | "Pending");
    if name(&believed.belief) != expected.belief {
        differ("belief")
    } else if !counted_elsewhere && stopping != (expected.also_stopping, expected.on_down_nodes) {
        differ("number of stopping tasks")
    } else if !reason.contains(&expected.text) || !reason.contains(&expected.phase) {
        differ("reason")
    } else if expected.force && believed.wake() != Some(Change::Up { force: true }) {
        differ("wake")
    } else if changed && left(believed, facts.now) != expected.seconds_left {
        differ("end of the restart delay")
    } else {
        Ok(())
    }
}

/// In tenths of a second, as the truth was noted.
fn left(believed: &Believed, now: Timestamp) -> Option<f64> {
    let Belief::RestartDelay { until } = believed.belief else { return None };
    let left = until.duration_since(now).as_secs_f64();
    Some((left * 10.0).round() / 10.0)
}

fn name(belief: &Belief) -> &'static str {
    match belief {
        Belief::Removed => "Removed",
        Belief::Unknown => "Unknown",
        Belief::Job => "NotRoutable",
        Belief::Stopping => "Stopping",
        Belief::Asleep => "Asleep",
        Belief::Running => "Running",
        Belief::Waking => "Waking",
        Belief::Pending => "Pending",
        Belief::Starting => "Starting",
        Belief::Replacing => "Replacing",
        Belief::RestartDelay { .. } => "RestartDelay",
        Belief::Transition => "Transition",
        Belief::Finished => "Finished",
        Belief::Failed => "Failed",
        Belief::Stuck => "Stuck",
    }
}

fn recordings() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/swarm");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files = |folder: PathBuf| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = folders.flat_map(files).collect();
    all.sort();
    all
}

/// Calls `check` for every service at every line for which something is expected: with the facts, what is
/// true, and whether it became true at this line.
fn replay(path: &Path, mut check: impl FnMut(&str, &Facts, &Expected, bool)) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap()).unwrap();
    let mut seen = Value::Null;
    let mut truth: BTreeMap<String, Expected> = BTreeMap::new();
    for line in lines {
        let line: Line = serde_json::from_str(line).unwrap();
        merge(&mut seen, &line.merge);
        truth.extend(line.expect.clone());
        if line.merge.is_null() && line.expect.is_empty() {
            continue;
        }
        let now = header.started + SignedDuration::from_millis(line.at);
        for (id, expected) in &truth {
            let engine = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
            let name = format!("{engine}/{} at {}", path.file_stem().unwrap().to_str().unwrap(), line.at);
            let facts = Facts::of(&seen, id, now);
            check(&name, &facts, expected, line.expect.contains_key(id));
        }
    }
}

impl Facts {
    fn of(seen: &Value, id: &str, now: Timestamp) -> Self {
        let said = &seen["services"][id];
        let nodes = seen["nodes"].as_object().into_iter().flatten();
        let node = |(id, node): (&String, &Value)| {
            let mut node: Node = serde_json::from_value(node.clone()).unwrap();
            node.id = id.clone();
            node
        };
        Self {
            service: answer(&said["service"], |value| serde_json::from_value(value.clone()).unwrap()),
            tasks: answer(&said["tasks"], |value| {
                let tasks = value.as_object().into_iter().flatten();
                tasks.map(|(_, task)| serde_json::from_value(task.clone()).unwrap()).collect()
            }),
            nodes: nodes.map(node).collect(),
            now,
        }
    }
}

fn answer<T>(value: &Value, read: impl Fn(&Value) -> T) -> Answer<T> {
    match value["http"].as_u64() {
        Some(status) => {
            let message = value["body"]["message"].as_str().or(value["body"].as_str()).unwrap_or_default();
            Answer::Refused { status: status.try_into().unwrap(), message: message.to_owned() }
        }
        None => Answer::Got(read(value)),
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else { return };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.remove(key)),
            Value::Object(_) => merge(target.entry(key).or_insert(Value::Null), value),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                drop(target.insert(key.clone(), value.clone()));
            }
        }
    }
}
