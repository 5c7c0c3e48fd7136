//! Waking and putting to sleep: the smallest possible edit of a service's spec as the engine gave it.
//!
//! The spec is edited as JSON, never through types: a type that does not know a field would drop it, and a
//! key that was not there before (even an empty one) can make Swarm restart the task.

use serde_json::{Map, Value};

/// What to change in a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// From zero replicas to one; `force` where ended tasks would keep Swarm from starting another.
    Up { force: bool },
    /// Replicas stay; a raised `ForceUpdate` makes Swarm try again.
    Force,
    /// To zero replicas.
    Down,
}

/// A spec to send back, and what was changed in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Edited {
    pub spec: Value,
    /// For people: `replicas 0 to 1, ForceUpdate 3 to 4`.
    pub changes: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    #[error("the spec has no {0}, as the spec of every replicated service has")]
    Missing(&'static str),
    #[error("{0} is {1}, which is not a count")]
    NotACount(&'static str, Value),
}

/// The spec with `change` made and everything else as it was; `None` if it already is as wanted.
pub fn edit(spec: &Value, change: Change) -> Result<Option<Edited>, ScaleError> {
    let mut spec = spec.clone();
    let replicas = read(replicated(&mut spec)?, REPLICAS, 1)?;
    let changes = match (change, replicas) {
        (Change::Up { force: false }, 0) => set_replicas(&mut spec, replicas, 1)?,
        (Change::Up { force: true }, 0) => {
            format!("{}, {}", set_replicas(&mut spec, replicas, 1)?, raise_force_update(&mut spec)?)
        }
        (Change::Force, 1..) => raise_force_update(&mut spec)?,
        (Change::Down, 1..) => set_replicas(&mut spec, replicas, 0)?,
        (Change::Up { .. }, 1..) | (Change::Force | Change::Down, 0) => return Ok(None),
    };
    Ok(Some(Edited { spec, changes }))
}

const REPLICAS: &str = "Replicas";
const FORCE_UPDATE: &str = "ForceUpdate";

fn set_replicas(spec: &mut Value, from: u64, to: u64) -> Result<String, ScaleError> {
    replicated(spec)?.insert(REPLICAS.into(), to.into());
    Ok(format!("replicas {from} to {to}"))
}

/// Swarm compares it for change only, so it may wrap.
pub(super) fn raise_force_update(spec: &mut Value) -> Result<String, ScaleError> {
    let template = object(spec.get_mut("TaskTemplate"), "TaskTemplate")?;
    let from = read(template, FORCE_UPDATE, 0)?;
    let to = from.wrapping_add(1);
    template.insert(FORCE_UPDATE.into(), to.into());
    Ok(format!("{FORCE_UPDATE} {from} to {to}"))
}

fn replicated(spec: &mut Value) -> Result<&mut Map<String, Value>, ScaleError> {
    let mode = spec.get_mut("Mode").and_then(|mode| mode.get_mut("Replicated"));
    object(mode, "Mode.Replicated")
}

pub(super) fn object<'a>(
    value: Option<&'a mut Value>,
    name: &'static str,
) -> Result<&'a mut Map<String, Value>, ScaleError> {
    value.and_then(Value::as_object_mut).ok_or(ScaleError::Missing(name))
}

/// A count that the engine may leave out when it is the default.
fn read(object: &Map<String, Value>, key: &'static str, default: u64) -> Result<u64, ScaleError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(count) => count.as_u64().ok_or_else(|| ScaleError::NotACount(key, count.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Keys in the engine's order, with what typed clients are known to drop or change.
    const SPEC: &str = r#"{"Name":"mc","Labels":{"z":"1","a":"<&>"},"TaskTemplate":{"ContainerSpec":{"Image":"i@sha256:0f","Healthcheck":{"Test":["CMD","true"],"Interval":1000000000},"Secrets":[{"SecretID":"s","File":{"Name":"rcon","Mode":292}}],"Future":{"Key":[1,null]}},"Resources":{"Limits":{"MemoryBytes":9223372036854775807,"NanoCPUs":-9223372036854775808}},"Networks":[{"Target":"n"}],"ForceUpdate":3,"Runtime":"container"},"Mode":{"Replicated":{"Replicas":0}},"UpdateConfig":{"MaxFailureRatio":0.30000001192092896,"Odd":18446744073709551615}}"#;

    fn spec() -> Value {
        serde_json::from_str(SPEC).unwrap()
    }

    fn edited(spec: &Value, change: Change) -> Edited {
        edit(spec, change).unwrap().unwrap()
    }

    #[test]
    fn only_the_counts_change() {
        let up = r#""Replicas":1"#;
        let cases = [
            (Change::Up { force: false }, SPEC.replace(r#""Replicas":0"#, up), "replicas 0 to 1"),
            (
                Change::Up { force: true },
                SPEC.replace(r#""Replicas":0"#, up).replace(r#""ForceUpdate":3"#, r#""ForceUpdate":4"#),
                "replicas 0 to 1, ForceUpdate 3 to 4",
            ),
        ];
        for (change, text, changes) in cases {
            let edited = edited(&spec(), change);
            assert_eq!(edited.spec.to_string(), text);
            assert_eq!(edited.changes, changes);
        }
    }

    #[test]
    fn force_leaves_the_replicas_and_down_leaves_the_rest() {
        let awake = SPEC.replace(r#""Replicas":0"#, r#""Replicas":2"#);
        let value: Value = serde_json::from_str(&awake).unwrap();
        let force = edited(&value, Change::Force);
        assert_eq!(force.spec.to_string(), awake.replace(r#""ForceUpdate":3"#, r#""ForceUpdate":4"#));
        let down = edited(&value, Change::Down);
        assert_eq!(down.spec.to_string(), SPEC);
        assert_eq!(down.changes, "replicas 2 to 0");
    }

    #[test]
    fn nothing_to_change_is_nothing_to_send() {
        let awake: Value = serde_json::from_str(&SPEC.replace(r#""Replicas":0"#, r#""Replicas":2"#)).unwrap();
        assert_eq!(edit(&awake, Change::Up { force: true }), Ok(None), "two must not become one");
        assert_eq!(edit(&spec(), Change::Down), Ok(None));
        assert_eq!(edit(&spec(), Change::Force), Ok(None), "asleep: a wake is Up");
    }

    #[test]
    fn a_count_left_out_is_its_default() {
        let spec = json!({"TaskTemplate": {}, "Mode": {"Replicated": {}}});
        let down = edited(&spec, Change::Down).spec;
        assert_eq!(down, json!({"TaskTemplate": {}, "Mode": {"Replicated": {"Replicas": 0}}}));
        let force = edited(&spec, Change::Force).spec;
        assert_eq!(force, json!({"TaskTemplate": {"ForceUpdate": 1}, "Mode": {"Replicated": {}}}));
    }

    #[test]
    fn what_cannot_be_scaled_is_an_error() {
        let cases = [
            (json!({"TaskTemplate": {}, "Mode": {"Global": {}}}), ScaleError::Missing("Mode.Replicated")),
            (json!(null), ScaleError::Missing("Mode.Replicated")),
            (json!({"Mode": {"Replicated": {"Replicas": 1}}}), ScaleError::Missing("TaskTemplate")),
            (json!({"Mode": {"Replicated": {"Replicas": -1}}}), ScaleError::NotACount("Replicas", json!(-1))),
        ];
        for (spec, error) in cases {
            assert_eq!(edit(&spec, Change::Force), Err(error), "{spec}");
        }
    }
}
