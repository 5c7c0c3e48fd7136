//! Servers that were killed before they had stopped by themselves, and so perhaps before their worlds were saved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::survey::Surveyed;
use crate::state::KILLED;

/// Follows stops from one listing to the next: a task that was told to stop is gone from the lists a quarter of a
/// second after its end (measured on engines 20.10 and 29.7).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stops {
    /// The tasks that were stopping when they were listed last, and their services.
    stopping: BTreeMap<String, Arc<str>>,
    /// The services whose last run was killed.
    killed: BTreeSet<Arc<str>>,
}

impl Stops {
    /// Adds the problem to those of `found` that have it. `ended` are the tasks whose containers the engine has seen end
    /// by a kill since the last listing, told to stop or not; of those on other nodes it sees none.
    pub fn saw(&mut self, found: &mut [Surveyed], ended: &BTreeSet<String>) {
        let before = std::mem::take(&mut self.stopping);
        let waits = |name: &Arc<str>| {
            found.iter().any(|found| found.service.id.name == *name && found.run().is_none())
        };
        self.killed.retain(waits);
        for found in found {
            let name = Arc::clone(&found.service.id.name);
            let was_stopping = |task: &String| before.get(task) == Some(&name);
            let seen = ended.iter().any(|task| was_stopping(task) || found.stopping.contains(task));
            if seen || found.killed.iter().any(was_stopping) {
                self.killed.insert(Arc::clone(&name));
            }
            if self.killed.contains(&name) {
                found.service.problems.push(KILLED.to_owned());
            }
            self.stopping.extend(found.stopping.iter().map(|task| (task.clone(), Arc::clone(&name))));
        }
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
