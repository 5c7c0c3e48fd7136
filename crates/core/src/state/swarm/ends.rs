//! How tasks end, on whatever node: crashes and failed starts, told apart from every end that was asked for.
//!
//! A task that is to stop is told so before it ends, and ends as `shutdown`; one that ends by itself is `complete`,
//! `failed` or `rejected` (seen on engines 20.10 to 29.7). So updates, scale-downs, removals and the gate's own sleeps
//! are no crashes, whatever the exit code.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::api::{self, Node, Task, TaskState};
use super::survey::{ID, Survey, Surveyed, labels, text};
use super::{Belief, Believed, of_both, reason};
use crate::alert::{Condition, Kind, Sight, Subject, Trouble};
use crate::labels::is_ours;
use crate::service::ServiceId;
use crate::state::KILLED_CODE;
use crate::state::sight::of_problems;

/// Swarm's words for a task on a node that its service's constraints leave out since.
const NO_LONGER_FITS: &str = "no longer meets constraints";

/// Follows the ends of tasks from one listing to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ends {
    /// Of the tasks that were listed last, those whose end is no news: they had ended, or were told to. `None` before the
    /// first listing.
    settled: Option<BTreeSet<String>>,
    /// Of tasks that have not ended yet, as far as the lists say.
    hints: Hints,
}

/// What the engine has told of containers on its own node and the lists do not say: the ids of their tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hints {
    pub out_of_memory: BTreeSet<String>,
    pub unhealthy: BTreeSet<String>,
}

impl Ends {
    /// Every service of `survey`, or those with labels for the gate only, with what has happened since the last one.
    /// What was over before the first is not told.
    pub fn saw(&mut self, survey: &Survey, hints: Hints, all: bool, now: Timestamp) -> Vec<Sight> {
        self.hints.out_of_memory.extend(hints.out_of_memory);
        self.hints.unhealthy.extend(hints.unhealthy);
        let before = self.settled.take();
        let mut settled = BTreeSet::new();
        let mut live = BTreeSet::new();
        let mut tasks: BTreeMap<&str, Vec<Task>> = BTreeMap::new();
        for raw in &survey.tasks {
            let Ok(task) = Task::deserialize(raw) else { continue };
            if task.status.state.is_terminal() || task.is_told_to_stop() {
                settled.insert(task.id.clone());
            }
            if !task.status.state.is_terminal() {
                live.insert(task.id.clone());
            }
            tasks.entry(text(raw, "/ServiceID")).or_default().push(task);
        }
        let services = survey.services.iter().filter(|raw| all || has_labels(raw));
        let is_new = |task: &Task| before.as_ref().is_some_and(|before| !before.contains(&task.id));
        let sight = |raw| {
            let tasks = tasks.get(text(raw, "/ID")).map(Vec::as_slice).unwrap_or_default();
            sight(raw, tasks, &survey.nodes, &self.hints, now, &is_new)
        };
        let sights = services.map(sight).collect();
        self.settled = Some(settled);
        self.hints.out_of_memory.retain(|task| live.contains(task));
        self.hints.unhealthy.retain(|task| live.contains(task));
        sights
    }
}

fn has_labels(raw: &Value) -> bool {
    labels(raw, "/Spec/Labels").keys().any(|key| is_ours(key))
}

fn sight(
    raw: &Value,
    tasks: &[Task],
    nodes: &[Node],
    hints: &Hints,
    now: Timestamp,
    is_new: &dyn Fn(&Task) -> bool,
) -> Sight {
    let subject = Subject::Service(ServiceId::new(ID, text(raw, "/Spec/Name")));
    let Ok(service) = api::Service::deserialize(raw) else {
        return Sight { subject, condition: Condition::Moving, troubles: Vec::new() };
    };
    let believed = of_both(&service, tasks, nodes, now);
    let new = tasks.iter().filter(|task| task.status.state.is_terminal() && is_new(task));
    let ends = new.filter_map(|task| end(task, tasks, nodes, hints));
    Sight { subject, condition: condition(&believed), troubles: ends.chain(lasting(&believed)).collect() }
}

/// A global service without a node that may run it: drained, or without the label it asks for. That was meant.
fn has_no_node(believed: &Believed) -> bool {
    match believed.belief {
        Belief::Stuck => believed.replicas.is_none(),
        Belief::Failed => believed.replicas.is_none() && believed.reason.contains(NO_LONGER_FITS),
        Belief::Removed
        | Belief::Unknown
        | Belief::Job
        | Belief::Stopping
        | Belief::Asleep
        | Belief::Running
        | Belief::Waking
        | Belief::Pending
        | Belief::Starting
        | Belief::Replacing
        | Belief::RestartDelay { .. }
        | Belief::Transition
        | Belief::Finished => false,
    }
}

fn condition(believed: &Believed) -> Condition {
    match believed.belief {
        _ if has_no_node(believed) => Condition::AtRest,
        Belief::Running => Condition::Well,
        // A job that does not run is done.
        Belief::Asleep | Belief::Finished | Belief::Removed | Belief::Job => Condition::AtRest,
        Belief::Unknown
        | Belief::Stopping
        | Belief::Waking
        | Belief::Pending
        | Belief::Starting
        | Belief::Replacing
        | Belief::RestartDelay { .. }
        | Belief::Transition
        | Belief::Failed
        | Belief::Stuck => Condition::Moving,
    }
}

fn lasting(believed: &Believed) -> Option<Trouble> {
    let kind = match believed.belief {
        _ if has_no_node(believed) => return None,
        Belief::Failed | Belief::Stuck => Kind::GaveUp,
        Belief::Pending => Kind::CannotBePlaced,
        Belief::Removed
        | Belief::Unknown
        | Belief::Job
        | Belief::Stopping
        | Belief::Asleep
        | Belief::Running
        | Belief::Waking
        | Belief::Starting
        | Belief::Replacing
        | Belief::RestartDelay { .. }
        | Belief::Transition
        | Belief::Finished => return None,
    };
    Some(Trouble::lasting(kind, believed.reason.clone()))
}

/// Adds what is wrong with those that have labels for the gate beside what their tasks say.
pub fn add_problems(sights: &mut [Sight], found: &[Surveyed]) {
    let problems: BTreeMap<Subject, &[String]> = found
        .iter()
        .map(|found| (Subject::Service(found.service.id.clone()), found.service.problems.as_slice()))
        .collect();
    for sight in sights {
        let problems = problems.get(&sight.subject).copied().unwrap_or_default();
        sight.troubles.extend(of_problems(problems));
    }
}

/// What is to be told of a task that has ended, if anything.
fn end(task: &Task, tasks: &[Task], nodes: &[Node], hints: &Hints) -> Option<Trouble> {
    let (err, code) = (task.status.err.as_str(), task.status.container_status.exit_code.unwrap_or_default());
    let unhealthy = hints.unhealthy.contains(&task.id) || err.contains("unhealthy");
    let (kind, what) = match task.status.state {
        TaskState::Failed | TaskState::Complete if unhealthy => {
            (Kind::Unhealthy, "its health check failed, so its container was stopped".to_owned())
        }
        TaskState::Failed if hints.out_of_memory.contains(&task.id) => {
            let fix = "raise its memory limit, or lower what the game may take";
            (Kind::OutOfMemory, format!("exit code {code}: it ran out of memory; {fix}"))
        }
        TaskState::Failed if err.contains("starting container failed") => (Kind::CannotStart, err.to_owned()),
        TaskState::Failed => (Kind::Crashed, crash(err, code)),
        // Somebody took a label from its node: it was meant, and is placed anew.
        TaskState::Rejected if err.contains(NO_LONGER_FITS) => return None,
        TaskState::Rejected if err.contains("No such image") => {
            let why = "is not on the node, and could not be pulled";
            (Kind::CannotStart, format!("{err}: its image {why}"))
        }
        TaskState::Rejected => (Kind::CannotStart, reason::outcome(task)),
        TaskState::Complete
        | TaskState::Shutdown
        | TaskState::Remove
        | TaskState::Orphaned
        | TaskState::Other(_)
        | TaskState::New
        | TaskState::Allocated
        | TaskState::Pending
        | TaskState::Assigned
        | TaskState::Accepted
        | TaskState::Preparing
        | TaskState::Ready
        | TaskState::Starting
        | TaskState::Running => return None,
    };
    let details = [Some(what), on_node(task, nodes), attempt(task, tasks)];
    let what = details.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Some(Trouble::once(kind, what).of_run(&task.id))
}

/// It had not been told to stop, so what kills it is not the end of its stop grace.
fn crash(err: &str, code: i64) -> String {
    let meaning = match code {
        KILLED_CODE => Some("killed (SIGKILL), by whom is not told: most often it ran out of memory"),
        143 => Some("ended on SIGTERM, which did not come from Swarm: by hand, or with its engine"),
        code => reason::exit_code(code),
    };
    match (code, meaning) {
        (0, _) if err.contains("No such container") => {
            "its container is gone: its engine was restarted, or somebody removed it".to_owned()
        }
        (0, _) if err.is_empty() => "it failed, and its node does not say how".to_owned(),
        (0, _) => err.to_owned(),
        (code, Some(meaning)) => format!("exit code {code}: {meaning}"),
        (code, None) => format!("exit code {code}"),
    }
}

fn on_node(task: &Task, nodes: &[Node]) -> Option<String> {
    let node = nodes.iter().find(|node| node.id == task.node_id);
    let name = node.map(|node| node.description.hostname.as_str()).filter(|name| !name.is_empty());
    let name = name.unwrap_or(&task.node_id);
    (!name.is_empty()).then(|| format!("on node {name}"))
}

/// `run 2 of 4` where Swarm starts it so often only: then it keeps the records of those runs whatever its history limit.
/// Without a limit it has forgotten the first ones of a long loop, and nothing is said of the very first.
fn attempt(task: &Task, tasks: &[Task]) -> Option<String> {
    let policy = task.spec.as_ref().and_then(|spec| spec.restart_policy.as_ref());
    let most = policy.and_then(|policy| policy.max_attempts).filter(|most| *most > 0);
    // A global service has one task a node instead of numbered ones.
    let place = |task: &Task| if task.slot == 0 { task.node_id.clone() } else { task.slot.to_string() };
    let ended_by_itself =
        |state: &TaskState| matches!(state, TaskState::Failed | TaskState::Rejected | TaskState::Complete);
    let is_run = |other: &&Task| {
        let state = &other.status.state;
        place(other) == place(task)
            // Otherwise it is of an earlier version of the service.
            && other.spec == task.spec
            && ended_by_itself(state)
            && other.created_at <= task.created_at
    };
    let run = u64::try_from(tasks.iter().filter(is_run).count()).ok()?;
    match most {
        Some(most) if run <= most + 1 => Some(format!("run {run} of {}", most + 1)),
        Some(_) | None if run > 1 => Some(format!("run {run} at least")),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::alert::When;
    use crate::state::swarm::survey::tests::{host, service, task};

    fn survey(replicas: u64, tasks: Vec<Value>) -> Survey {
        let node = json!({"ID": "n1", "Status": {"State": "ready"}, "Description": {"Hostname": "node2"}});
        let services = json!([service("mc", replicas, host()), service("web", 0, json!({}))]);
        Survey::new(services, tasks.into(), vec![serde_json::from_value(node).unwrap()]).unwrap()
    }

    fn saw(ends: &mut Ends, hints: Hints, all: bool, survey: &Survey) -> Vec<Sight> {
        ends.saw(survey, hints, all, "2026-01-01T12:00:00Z".parse().unwrap())
    }

    /// What is told of a task that ended so, seen running before.
    fn told(state: &str, code: i64, err: &str, hints: Hints) -> Option<(Kind, String)> {
        let mut ends = Ends::default();
        saw(&mut ends, hints, true, &survey(1, vec![task("mc", "running", "running")]));
        let mut task = task("mc", state, "shutdown");
        task["Status"]["Err"] = err.into();
        task["Status"]["ContainerStatus"]["ExitCode"] = code.into();
        task["Spec"] = json!({"RestartPolicy": {"MaxAttempts": 3}});
        let sights = saw(&mut ends, Hints::default(), true, &survey(1, vec![task]));
        let trouble = sights[0].troubles.iter().find(|trouble| trouble.when == When::Since(1));
        trouble.map(|trouble| (trouble.kind, trouble.what.clone()))
    }

    #[test]
    fn an_end_is_explained_with_its_node_and_its_run() {
        let none = Hints::default;
        let (oom, sick) = (
            Hints { out_of_memory: ["t-mc".to_owned()].into(), ..none() },
            Hints { unhealthy: ["t-mc".to_owned()].into(), ..none() },
        );
        let exit = |code: i64| format!("task: non-zero exit ({code})");
        for (state, code, err, hints, kind, says) in [
            ("failed", 1, exit(1), none(), Kind::Crashed, "exit code 1, on node node2, run 1 of 4"),
            ("failed", 137, exit(137), none(), Kind::Crashed, "exit code 137: killed (SIGKILL), by whom"),
            ("failed", 143, exit(143), none(), Kind::Crashed, "which did not come from Swarm"),
            ("failed", 137, exit(137), oom.clone(), Kind::OutOfMemory, "raise its memory limit"),
            ("complete", 0, String::new(), sick.clone(), Kind::Unhealthy, "its health check failed"),
            ("failed", 143, exit(143), sick, Kind::Unhealthy, "its health check failed"),
            (
                "failed",
                127,
                "starting container failed: x".into(),
                none(),
                Kind::CannotStart,
                "starting container failed: x, on",
            ),
            ("failed", 0, "No such container: mc.1".into(), none(), Kind::Crashed, "its container is gone"),
            (
                "rejected",
                0,
                "No such image: game:9".into(),
                none(),
                Kind::CannotStart,
                "game:9: its image is not on the node",
            ),
        ] {
            let (found, what) = told(state, code, &err, hints).unwrap();
            assert!(found == kind && what.contains(says), "{state} {code}: {found:?} {what}");
        }
        for (state, code, err, hints) in [
            ("complete", 0, "", none()),
            ("shutdown", 137, "", oom),
            ("shutdown", 1, "", none()),
            ("orphaned", 0, "", none()),
            ("rejected", 0, "assigned node no longer meets constraints", none()),
        ] {
            assert_eq!(told(state, code, err, hints), None, "{state} {code}");
        }
    }

    #[test]
    fn a_run_is_counted_among_those_of_its_place_and_version() {
        let run = |id: &str, state: &str, at: u32, attempts: Value| {
            let mut run = task("mc", state, "shutdown");
            run["ID"] = id.into();
            run["CreatedAt"] = format!("2026-01-01T11:00:{at:02}Z").into();
            run["Status"]["ContainerStatus"]["ExitCode"] = 1.into();
            run["Spec"] =
                json!({"RestartPolicy": {"MaxAttempts": attempts}, "ContainerSpec": {"Image": "game"}});
            run
        };
        for (attempts, says) in
            [(json!(3), ", run 2 of 4"), (json!(0), ", run 2 at least"), (json!(null), ", run 2 at least")]
        {
            let mut earlier = run("earlier", "failed", 1, attempts.clone());
            earlier["Spec"]["ContainerSpec"]["Image"] = "another".into();
            let mut elsewhere = run("elsewhere", "failed", 2, attempts.clone());
            elsewhere["Slot"] = 7.into();
            let runs = vec![
                earlier,
                elsewhere,
                run("updated", "shutdown", 3, attempts.clone()),
                run("first", "failed", 4, attempts.clone()),
            ];
            let mut ends = Ends::default();
            saw(&mut ends, Hints::default(), true, &survey(1, runs.clone()));
            let second = [runs, vec![run("second", "failed", 5, attempts.clone())]].concat();
            let sights = saw(&mut ends, Hints::default(), true, &survey(1, second));
            let crash = sights[0].troubles.iter().find(|trouble| trouble.kind == Kind::Crashed).unwrap();
            assert!(crash.what.ends_with(says), "{attempts}: {}", crash.what);
        }
    }

    #[test]
    fn what_was_over_before_is_no_news_and_each_end_is_told_once() {
        let crashed = || survey(1, vec![task("mc", "failed", "shutdown")]);
        let mut ends = Ends::default();
        let since = |sights: &[Sight]| {
            sights
                .iter()
                .flat_map(|sight| &sight.troubles)
                .filter(|trouble| trouble.when != When::Lasting)
                .count()
        };
        assert_eq!(since(&saw(&mut ends, Hints::default(), true, &crashed())), 0);
        saw(&mut ends, Hints::default(), true, &survey(1, vec![task("mc", "running", "running")]));
        assert_eq!(since(&saw(&mut ends, Hints::default(), true, &crashed())), 1);
        assert_eq!(since(&saw(&mut ends, Hints::default(), true, &crashed())), 0);
    }

    #[test]
    fn a_global_service_rests_where_every_node_is_drained_or_without_its_label() {
        let evicted = |state: &str, err: &str| {
            let mut task = task("mc", state, "shutdown");
            task["Status"]["Err"] = err.into();
            vec![task]
        };
        for (tasks, rests) in [
            (vec![], true),
            (evicted("shutdown", ""), true),
            (evicted("rejected", "assigned node no longer meets constraints"), true),
            (evicted("failed", "task: non-zero exit (1)"), false),
        ] {
            let mut survey = survey(1, tasks.clone());
            survey.services[0]["Spec"]["Mode"] = json!({"Global": {}});
            let sight = saw(&mut Ends::default(), Hints::default(), true, &survey).remove(0);
            let at_rest = (sight.condition, sight.troubles.len()) == (Condition::AtRest, 0);
            assert_eq!(at_rest, rests, "{tasks:?}: {sight:?}");
        }
    }

    #[test]
    fn services_without_labels_count_if_that_is_asked_for() {
        let names = |all| -> Vec<String> {
            let sights = saw(&mut Ends::default(), Hints::default(), all, &survey(0, vec![]));
            sights.iter().map(|sight| sight.subject.to_string()).collect()
        };
        assert_eq!(names(true), ["mc", "web"]);
        assert_eq!(names(false), ["mc"]);
    }
}
