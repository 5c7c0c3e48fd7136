//! Servers that were killed before they had stopped by themselves, and so perhaps before their worlds were saved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::survey::Surveyed;
use crate::state::KILLED;

/// A task that was told to stop is gone from the lists a quarter of a second after its end (measured on engines 20.10
/// and 29.7), and on another node than the engine's nothing else tells how it ended.
const OFTEN: Duration = Duration::from_millis(100);
/// A grace begins up to 3.1 s after the task is told to stop (measured), later where the machine is busy.
const LATE: SignedDuration = SignedDuration::from_secs(10);

/// Follows stops from one listing to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stops {
    /// The tasks that were stopping when they were listed last, and their services.
    stopping: BTreeMap<String, Arc<str>>,
    /// The services whose last run was killed.
    killed: BTreeSet<Arc<str>>,
    /// When those that are stopping are killed at the earliest.
    due: BTreeSet<Timestamp>,
}

impl Stops {
    /// Adds the problem to those of `found` that have it. `ended` are the tasks whose containers the engine has seen end
    /// by a kill since the last listing, told to stop or not; of those on other nodes it sees none.
    pub fn saw(&mut self, found: &mut [Surveyed], ended: &BTreeSet<String>) {
        let before = std::mem::take(&mut self.stopping);
        self.due = found.iter().flat_map(|found| found.stopping.values().copied()).flatten().collect();
        let waits = |name: &Arc<str>| {
            found.iter().any(|found| found.service.id.name == *name && found.run().is_none())
        };
        self.killed.retain(waits);
        for found in found {
            let name = Arc::clone(&found.service.id.name);
            let was_stopping = |task: &String| before.get(task) == Some(&name);
            let seen = ended.iter().any(|task| was_stopping(task) || found.stopping.contains_key(task));
            if seen || found.killed.iter().any(was_stopping) {
                self.killed.insert(Arc::clone(&name));
            }
            if self.killed.contains(&name) {
                found.service.problems.push(KILLED.to_owned());
            }
            self.stopping.extend(found.stopping.keys().map(|task| (task.clone(), Arc::clone(&name))));
        }
    }

    /// How soon to look again so as to see a kill.
    pub fn look_within(&self, now: Timestamp) -> Option<Duration> {
        let left = self.due.iter().map(|due| due.duration_since(now)).find(|left| *left > -LATE)?;
        Some(Duration::try_from(left).unwrap_or_default().max(OFTEN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::swarm::survey::tests::{host, one, service, task};
    use serde_json::json;

    /// What is found of a service whose task `t-mc` is so, and whether it has the problem after a listing.
    fn look(stops: &mut Stops, state: &str, desired: &str, code: i64, ended: &[&str]) -> bool {
        let mut task = task("mc", state, desired);
        task["Status"]["ContainerStatus"]["ExitCode"] = json!(code);
        let tasks = if state.is_empty() { json!([]) } else { json!([task]) };
        let replicas = u64::from(desired == "running");
        let mut found = [one(service("mc", replicas, host()), tasks)];
        stops.saw(&mut found, &ended.iter().map(|&task| task.to_owned()).collect());
        found[0].service.problems.iter().any(|problem| problem == KILLED)
    }

    #[test]
    fn a_kill_that_ends_a_stop_is_known_until_the_next_run() {
        let mut stops = Stops::default();
        assert!(!look(&mut stops, "running", "running", 0, &[]));
        assert!(!look(&mut stops, "running", "remove", -1, &[]));
        assert!(look(&mut stops, "shutdown", "remove", 137, &[]));
        assert!(look(&mut stops, "", "", 0, &[]), "still, when the task is gone");
        assert!(look(&mut stops, "starting", "running", 0, &[]));
        assert!(!look(&mut stops, "running", "running", 0, &[]));
    }

    #[test]
    fn the_engine_tells_of_one_whose_end_was_not_listed() {
        for listed in ["running", ""] {
            let mut stops = Stops::default();
            look(&mut stops, "running", "remove", -1, &[]);
            assert!(look(&mut stops, listed, "remove", -1, &["t-mc"]), "{listed}");
        }
        let mut stops = Stops::default();
        look(&mut stops, "running", "running", 0, &[]);
        assert!(look(&mut stops, "running", "remove", -1, &["t-mc"]), "told and killed between two looks");
    }

    #[test]
    fn near_the_end_of_a_grace_each_look_may_be_the_one_that_sees_it() {
        let mut stops = Stops::default();
        let mut stopping = task("mc", "running", "remove");
        stopping["Spec"] = json!({"ContainerSpec": {"StopGracePeriod": 55_000_000_000_i64}});
        stops.saw(&mut [one(service("mc", 0, host()), json!([stopping.clone()]))], &BTreeSet::new());
        // It was told to stop at 11:59:00.
        for (now, millis) in [
            ("11:59:00", Some(55_000)),
            ("11:59:54", Some(1_000)),
            ("11:59:55", Some(100)),
            ("12:00:04", Some(100)),
            ("12:00:05", None),
        ] {
            let now: Timestamp = format!("2026-01-01T{now}Z").parse().unwrap();
            assert_eq!(stops.look_within(now), millis.map(Duration::from_millis), "{now}");
        }
        stopping["Status"]["State"] = json!("shutdown");
        stops.saw(&mut [one(service("mc", 0, host()), json!([stopping]))], &BTreeSet::new());
        assert_eq!(stops.look_within("2026-01-01T12:00:00Z".parse().unwrap()), None, "it has ended");
    }

    #[test]
    fn nothing_else_is_a_kill() {
        for (state, desired, code, ended) in
            [("shutdown", "remove", 0, &[][..]), ("shutdown", "remove", 143, &[]), ("", "", 0, &["t-other"])]
        {
            let mut stops = Stops::default();
            look(&mut stops, "running", "remove", -1, &[]);
            assert!(!look(&mut stops, state, desired, code, ended), "{state} {code}");
        }
        let mut stops = Stops::default();
        assert!(!look(&mut stops, "shutdown", "shutdown", 137, &[]), "of the time before the gate");
        look(&mut stops, "running", "running", 0, &[]);
        assert!(
            !look(&mut stops, "failed", "shutdown", 137, &["t-mc"]),
            "a crash: nobody had told it to stop"
        );
    }
}
