//! Containers of tasks that ended by a kill, as the engine tells it of its own node: their tasks may be gone from the
//! lists before anybody looks.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::events::Event;

/// The ids of their tasks. Shared.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    killed: Arc<Mutex<BTreeSet<String>>>,
}

impl Ends {
    /// Told of, and not asked for yet, at most.
    const MOST: usize = 1_000;

    pub fn see(&self, event: &Event) {
        let attribute = |name| event.attributes.get(name).map(String::as_str);
        let is_a_kill =
            event.kind == "container" && event.action == "die" && attribute("exitCode") == Some("137");
        if let Some(task) = attribute("com.docker.swarm.task.id").filter(|_| is_a_kill) {
            let mut killed = self.lock();
            if killed.len() < Self::MOST {
                killed.insert(task.to_owned());
            }
        }
    }

    /// Those that have been seen since the last call.
    pub fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.killed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kill_of_a_task_counts() {
        for (action, code, of_a_task, counts) in [
            ("die", "137", true, true),
            ("die", "0", true, false),
            ("die", "137", false, false),
            ("kill", "137", true, false),
        ] {
            let ends = Ends::default();
            let mut attributes = std::collections::BTreeMap::from([("exitCode".to_owned(), code.to_owned())]);
            if of_a_task {
                attributes.insert("com.docker.swarm.task.id".to_owned(), "t1".to_owned());
            }
            let (kind, id) = ("container".to_owned(), "c".to_owned());
            ends.see(&Event { kind, action: action.into(), id, time: None, attributes });
            assert_eq!(ends.take().contains("t1"), counts, "{action} {code} {of_a_task}");
            assert_eq!(ends.take(), BTreeSet::new(), "each once");
        }
    }
}
