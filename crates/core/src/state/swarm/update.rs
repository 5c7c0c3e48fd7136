//! Giving a service another image: the smallest edit of its spec, and how far Swarm has come with it.

use serde_json::Value;

use super::api::TaskState;
use super::scale::{Edited, ScaleError, object, raise_force_update};
use super::survey::text;

const IMAGE: &str = "/TaskTemplate/ContainerSpec/Image";

/// The image that a spec asks for.
pub fn image(spec: &Value) -> &str {
    text(spec, IMAGE)
}

/// The spec with `image` and everything else as it was. `again`: Swarm replaces the tasks also if it is the image that
/// they have. `None` if there is nothing to change.
pub fn edit(spec: &Value, image: &str, again: bool) -> Result<Option<Edited>, ScaleError> {
    let before = self::image(spec).to_owned();
    let mut spec = spec.clone();
    let container = spec.pointer_mut("/TaskTemplate/ContainerSpec");
    let container = object(container, "TaskTemplate.ContainerSpec")?;
    if before != image {
        container.insert("Image".into(), image.into());
        return Ok(Some(Edited { spec, changes: format!("image {before} to {image}") }));
    }
    if !again {
        return Ok(None);
    }
    let changes = raise_force_update(&mut spec)?;
    Ok(Some(Edited { spec, changes }))
}

/// Whether Swarm has given up on the last update of the service and left it as it was then.
pub fn is_paused(service: &Value) -> bool {
    matches!(text(service, "/UpdateStatus/State"), "paused" | "rollback_paused")
}

/// Whether Swarm is still about the last update of the service.
pub fn is_under_way(service: &Value) -> bool {
    text(service, "/UpdateStatus/State") == "updating"
}

/// How far an update is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// What there is to wait for.
    Going(String),
    /// As many tasks as are asked for run it.
    Done,
    /// None is asked for: the next start runs it.
    Asleep,
    /// It will come no further.
    Ended(End, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Paused,
    RolledBack,
    RollbackPaused,
    /// Somebody else has updated the service since.
    Superseded,
}

/// How far a service is with `image`, by itself and its tasks as the engine tells of them now. `is_made`: its last update
/// was to this image, so how that ended counts.
pub fn progress(service: &Value, tasks: &[Value], image: &str, is_made: bool) -> Progress {
    let (state, message) = (text(service, "/UpdateStatus/State"), text(service, "/UpdateStatus/Message"));
    let spec = service.get("Spec").unwrap_or(&Value::Null);
    let told = |words: &str| told(words, message, failure(tasks, image));
    match state {
        "rollback_completed" if is_made => {
            return Progress::Ended(End::RolledBack, told("it was rolled back"));
        }
        "rollback_paused" => return Progress::Ended(End::RollbackPaused, told("its rollback is paused")),
        "rollback_started" => return Progress::Going(told("it is being rolled back")),
        _ => {}
    }
    if self::image(spec) != image {
        let what = format!("it asks for {} now", self::image(spec));
        return Progress::Ended(End::Superseded, what);
    }
    if state == "paused" {
        return Progress::Ended(End::Paused, told("it is paused"));
    }
    if is_asleep(spec) {
        return Progress::Asleep;
    }
    let wanted = wanted(spec, tasks);
    let running = tasks.iter().filter(|task| is_current(task, spec) && runs(task)).count();
    let running = u64::try_from(running).unwrap_or(u64::MAX);
    match state {
        // Until Swarm has watched the new tasks for a while.
        "updating" => Progress::Going(told(&format!("{running} of {wanted} tasks run it"))),
        _ if running >= wanted => Progress::Done,
        _ => Progress::Going(told(&format!("{running} of {wanted} tasks run it"))),
    }
}

pub fn is_asleep(spec: &Value) -> bool {
    spec.pointer("/Mode/Replicated/Replicas").and_then(Value::as_u64) == Some(0)
}

/// Whether one of these tasks runs in this container.
pub fn has_container(tasks: &[Value], container: &str) -> bool {
    tasks.iter().any(|task| text(task, "/Status/ContainerStatus/ContainerID").starts_with(container))
}

/// How many tasks there are to be. One per node that fits, for a global service: those that Swarm has made.
fn wanted(spec: &Value, tasks: &[Value]) -> u64 {
    if let Some(replicated) = spec.pointer("/Mode/Replicated") {
        return replicated.get("Replicas").and_then(Value::as_u64).unwrap_or(1);
    }
    let to_run = tasks.iter().filter(|task| text(task, "/DesiredState") == "running").count();
    u64::try_from(to_run).unwrap_or(u64::MAX)
}

/// Made for the spec as it is now, not before its image or its `ForceUpdate` changed.
fn is_current(task: &Value, spec: &Value) -> bool {
    let force = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or_default();
    text(task, "/Spec/ContainerSpec/Image") == image(spec)
        && force(task.pointer("/Spec/ForceUpdate")) == force(spec.pointer("/TaskTemplate/ForceUpdate"))
}

fn runs(task: &Value) -> bool {
    text(task, "/Status/State") == "running" && text(task, "/DesiredState") == "running"
}

/// Why the newest task of this image that has failed did so.
fn failure<'t>(tasks: &'t [Value], image: &str) -> Option<&'t str> {
    let failed = tasks.iter().filter(|task| {
        let state = TaskState::from(text(task, "/Status/State").to_owned());
        matches!(state, TaskState::Failed | TaskState::Rejected)
            && text(task, "/Spec/ContainerSpec/Image") == image
    });
    let newest = failed.max_by_key(|task| text(task, "/CreatedAt"))?;
    Some(text(newest, "/Status/Err")).filter(|why| !why.is_empty())
}

fn told(words: &str, message: &str, failure: Option<&str>) -> String {
    const ENOUGH: usize = 300;
    let parts = [Some(words), Some(message).filter(|message| !message.is_empty()), failure];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    text.chars().filter(|c| !c.is_control()).take(ENOUGH).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SPEC: &str = r#"{"Name":"web","TaskTemplate":{"ContainerSpec":{"Image":"web:1","Healthcheck":{"Test":["CMD","<&>"]},"Future":[null,18446744073709551615]},"ForceUpdate":3},"Mode":{"Replicated":{"Replicas":0}},"UpdateConfig":{"MaxFailureRatio":0.30000001192092896}}"#;

    #[test]
    fn the_image_changes_and_nothing_else() {
        let spec: Value = serde_json::from_str(SPEC).unwrap();
        let edited = edit(&spec, "web:2", true).unwrap().unwrap();
        assert_eq!(edited.spec.to_string(), SPEC.replace("web:1", "web:2"));
        assert_eq!(edited.changes, "image web:1 to web:2");
        assert_eq!(edit(&spec, "web:1", false), Ok(None));
        let again = edit(&spec, "web:1", true).unwrap().unwrap();
        assert_eq!(again.spec.to_string(), SPEC.replace(r#""ForceUpdate":3"#, r#""ForceUpdate":4"#));
        let plugin = json!({"TaskTemplate": {"PluginSpec": {}}});
        assert_eq!(edit(&plugin, "web:2", true), Err(ScaleError::Missing("TaskTemplate.ContainerSpec")));
    }

    fn task(image: &str, force: u64, state: &str, desired: &str, error: &str) -> Value {
        json!({
            "CreatedAt": "2026-01-01T00:00:00Z", "DesiredState": desired,
            "Spec": {"ContainerSpec": {"Image": image}, "ForceUpdate": force},
            "Status": {"State": state, "Err": error},
        })
    }

    #[test]
    fn how_far_an_update_is() {
        let new = || task("web:2", 3, "running", "running", "");
        let old = || task("web:1", 3, "running", "running", "");
        let forced_old = || task("web:2", 2, "running", "running", "");
        let bad = || task("web:2", 3, "rejected", "shutdown", "No such image: web:2");
        let going = |words: &str| Progress::Going(words.to_owned());
        let ended = |end, words: &str| Progress::Ended(end, words.to_owned());
        let cases = [
            (0, "", "web:2", vec![], Progress::Asleep),
            (0, "updating", "web:2", vec![old()], Progress::Asleep),
            (1, "", "web:2", vec![new(), old()], Progress::Done),
            (2, "completed", "web:2", vec![new(), new()], Progress::Done),
            (1, "", "web:2", vec![old()], going("0 of 1 tasks run it")),
            (1, "", "web:2", vec![forced_old()], going("0 of 1 tasks run it")),
            (1, "updating", "web:2", vec![new()], going("1 of 1 tasks run it; so it says")),
            (
                1,
                "updating",
                "web:2",
                vec![old(), bad()],
                going("0 of 1 tasks run it; so it says; No such image: web:2"),
            ),
            (2, "completed", "web:2", vec![new()], going("1 of 2 tasks run it; so it says")),
            (
                1,
                "paused",
                "web:2",
                vec![bad()],
                ended(End::Paused, "it is paused; so it says; No such image: web:2"),
            ),
            (1, "rollback_started", "web:1", vec![old()], going("it is being rolled back; so it says")),
            (
                1,
                "rollback_completed",
                "web:1",
                vec![old()],
                ended(End::RolledBack, "it was rolled back; so it says"),
            ),
            (
                1,
                "rollback_paused",
                "web:1",
                vec![],
                ended(End::RollbackPaused, "its rollback is paused; so it says"),
            ),
            (1, "", "web:3", vec![new()], ended(End::Superseded, "it asks for web:3 now")),
        ];
        for (replicas, state, image, tasks, expected) in cases {
            let status = match state {
                "" => Value::Null,
                state => json!({"State": state, "Message": "so it says"}),
            };
            let service = json!({
                "UpdateStatus": status,
                "Spec": {
                    "TaskTemplate": {"ContainerSpec": {"Image": image}, "ForceUpdate": 3},
                    "Mode": {"Replicated": {"Replicas": replicas}},
                },
            });
            assert_eq!(progress(&service, &tasks, "web:2", true), expected, "{service}");
        }
    }

    #[test]
    fn how_an_earlier_update_ended_does_not_count_for_what_runs_since() {
        let spec = json!({"TaskTemplate": {"ContainerSpec": {"Image": "web:1"}}, "Mode": {"Replicated": {}}});
        let service = json!({"Spec": spec, "UpdateStatus": {"State": "rollback_completed"}});
        let task = |state| [task("web:1", 0, state, "running", "")];
        assert!(matches!(
            progress(&service, &task("running"), "web:1", true),
            Progress::Ended(End::RolledBack, _)
        ));
        assert_eq!(progress(&service, &task("running"), "web:1", false), Progress::Done);
        assert!(matches!(progress(&service, &task("starting"), "web:1", false), Progress::Going(_)));
    }

    #[test]
    fn a_global_service_is_done_when_all_its_tasks_are() {
        let spec = json!({"TaskTemplate": {"ContainerSpec": {"Image": "web:2"}}, "Mode": {"Global": {}}});
        let service = json!({"Spec": spec});
        let [new, old] = ["web:2", "web:1"].map(|image| task(image, 0, "running", "running", ""));
        assert_eq!(progress(&service, &[new.clone(), new.clone()], "web:2", true), Progress::Done);
        let half = progress(&service, &[new, old], "web:2", true);
        assert_eq!(half, Progress::Going("1 of 2 tasks run it".into()));
    }
}
