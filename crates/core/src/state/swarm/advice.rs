//! How a service is set up against its world: said once when it is discovered, each with the fix.

use super::api::{ContainerSpec, ServiceSpec};
use super::picture::Mode;

/// Below this, a server with a large world is killed while it saves. As much as fits into [`UPDATES_WAIT`], of which
/// 3 s have passed when the task is told to stop (measured).
pub(in crate::state) const ENOUGH_TO_SAVE: i64 = 55;
/// An update that stops the old task first waits this long for it, whatever its grace (measured on engines
/// 20.10 and 29.7).
const UPDATES_WAIT: i64 = 60;
/// The engine's own stop grace.
pub(in crate::state) const DEFAULT_GRACE: i64 = 10;
const NANOS: i64 = 1_000_000_000;
/// Settings by which images of Minecraft servers pause or stop them on their own.
const ON_THEIR_OWN: [&str; 2] = ["ENABLE_AUTOPAUSE", "ENABLE_AUTOSTOP"];

/// What to change about a service whose game listens on `port`.
pub fn of(spec: &ServiceSpec, port: u16) -> Vec<String> {
    let container = &spec.task_template.container_spec;
    [grace(container), overlap(spec), replicas(spec)]
        .into_iter()
        .flatten()
        .chain(on_its_own(&container.env))
        .chain(bypasses(spec, port))
        .collect()
}

fn grace(container: &ContainerSpec) -> Option<String> {
    let seconds = container.stop_grace_period.map_or(DEFAULT_GRACE, |nanos| nanos / NANOS);
    if seconds < ENOUGH_TO_SAVE {
        Some(format!(
            "it is killed {seconds} s after it is told to stop, which may be before its world is saved: write \
             stop_grace_period: {ENOUGH_TO_SAVE}s"
        ))
    } else if seconds > UPDATES_WAIT {
        Some(format!(
            "it may take {seconds} s to stop, but an update starts the new task after {UPDATES_WAIT} s even if the \
             old one still runs on the same world: put it to sleep before an update, or write stop_grace_period: \
             {ENOUGH_TO_SAVE}s"
        ))
    } else {
        None
    }
}

fn overlap(spec: &ServiceSpec) -> Option<String> {
    let start_first = [&spec.update_config, &spec.rollback_config].iter().any(|c| c.order == "start-first");
    start_first.then(|| {
        "an update or rollback starts a second server on the same world before the first stops: write order: \
         stop-first"
            .into()
    })
}

fn replicas(spec: &ServiceSpec) -> Option<String> {
    let count = Mode::of(&spec.mode).replicas().filter(|count| *count > 1)?;
    Some(format!("it has {count} replicas, and players meet on the newest only: write replicas: 1"))
}

/// Of the environment, each `NAME=value`.
pub(in crate::state) fn on_its_own(env: &[String]) -> impl Iterator<Item = String> {
    let set = env.iter().filter_map(|entry| entry.split_once('='));
    let on = set.filter(|(name, value)| ON_THEIR_OWN.contains(name) && value.eq_ignore_ascii_case("true"));
    on.map(|(name, _)| format!("it pauses or stops on its own beside the gate: write {name}=false"))
}

fn bypasses(spec: &ServiceSpec, port: u16) -> impl Iterator<Item = String> {
    let games =
        spec.endpoint_spec.ports.iter().filter(move |published| published.target_port == u32::from(port));
    games.map(|published| {
        let at = published.published_port;
        format!(
            "players can reach it past the gate, unseen, by its published port {at}: take it out of ports"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn advice(spec: Value) -> Vec<String> {
        of(&serde_json::from_value(spec).unwrap(), 25565)
    }

    fn stops_within(seconds: i64) -> Value {
        json!({"ContainerSpec": {"StopGracePeriod": seconds * NANOS}})
    }

    #[test]
    fn a_careful_service_needs_no_advice() {
        let spec = json!({
            "TaskTemplate": {"ContainerSpec": {"StopGracePeriod": 55 * NANOS, "Env": ["ENABLE_AUTOPAUSE=false", "A"]}},
            "Mode": {"Replicated": {"Replicas": 1}}, "UpdateConfig": {"Order": "stop-first"},
            "EndpointSpec": {"Ports": [{"TargetPort": 8080, "PublishedPort": 80}]},
        });
        assert_eq!(advice(spec), Vec::<String>::new());
    }

    #[test]
    fn each_danger_to_a_world_is_named_with_its_fix() {
        let safe = || stops_within(60);
        let autostop =
            json!({"ContainerSpec": {"StopGracePeriod": 60 * NANOS, "Env": ["ENABLE_AUTOSTOP=TRUE"]}});
        let ports = json!({"Ports": [{"TargetPort": 25565, "PublishedPort": 25570}]});
        let cases = [
            (json!({}), "killed 10 s after"),
            (json!({"TaskTemplate": stops_within(54)}), "stop_grace_period: 55s"),
            (json!({"TaskTemplate": stops_within(61)}), "an update starts the new task after 60 s"),
            (json!({"TaskTemplate": safe(), "UpdateConfig": {"Order": "start-first"}}), "order: stop-first"),
            (
                json!({"TaskTemplate": safe(), "RollbackConfig": {"Order": "start-first"}}),
                "order: stop-first",
            ),
            (json!({"TaskTemplate": safe(), "Mode": {"Replicated": {"Replicas": 3}}}), "it has 3 replicas"),
            (json!({"TaskTemplate": autostop}), "ENABLE_AUTOSTOP=false"),
            (json!({"TaskTemplate": safe(), "EndpointSpec": ports}), "published port 25570"),
        ];
        for (spec, named) in cases {
            let advice = advice(spec.clone());
            assert!(advice.len() == 1 && advice[0].contains(named), "{spec}: {advice:?}");
        }
    }
}
