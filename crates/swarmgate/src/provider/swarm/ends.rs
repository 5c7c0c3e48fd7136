//! What the engine tells of the ends of tasks on its own node, and the lists do not or no longer say.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use swarmgate_core::state::swarm::ends::Hints;

use crate::engine::events::Event;

/// The ids of their tasks. Shared.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    seen: Arc<Mutex<Seen>>,
}

/// What has been seen since it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Ended by a kill.
    pub killed: BTreeSet<String>,
    pub hints: Hints,
}

impl Ends {
    /// Told of one thing, and not asked for yet, at most.
    const MOST: usize = 1_000;

    pub fn see(&self, event: &Event) {
        let attribute = |name| event.attributes.get(name).map(String::as_str);
        let Some(task) = attribute("com.docker.swarm.task.id").filter(|_| event.kind == "container") else {
            return;
        };
        let mut seen = self.lock();
        let tasks = match event.action.as_str() {
            "die" if attribute("exitCode") == Some("137") => &mut seen.killed,
            "oom" => &mut seen.hints.out_of_memory,
            "health_status: unhealthy" => &mut seen.hints.unhealthy,
            _ => return,
        };
        if tasks.len() < Self::MOST {
            tasks.insert(task.to_owned());
        }
    }

    /// What has been seen since the last call.
    pub fn take(&self) -> Seen {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_how_a_task_ends_counts() {
        let none = Seen::default;
        let t1 = || BTreeSet::from(["t1".to_owned()]);
        let hints = |hints: Hints| Seen { hints, ..none() };
        for (action, code, of_a_task, expected) in [
            ("die", "137", true, Seen { killed: t1(), ..none() }),
            ("die", "0", true, none()),
            ("die", "137", false, none()),
            ("kill", "137", true, none()),
            ("oom", "", true, hints(Hints { out_of_memory: t1(), ..Hints::default() })),
            ("health_status: unhealthy", "", true, hints(Hints { unhealthy: t1(), ..Hints::default() })),
            ("health_status: healthy", "", true, none()),
        ] {
            let ends = Ends::default();
            let mut attributes = std::collections::BTreeMap::from([("exitCode".to_owned(), code.to_owned())]);
            if of_a_task {
                attributes.insert("com.docker.swarm.task.id".to_owned(), "t1".to_owned());
            }
            let (kind, id) = ("container".to_owned(), "c".to_owned());
            ends.see(&Event { kind, action: action.into(), id, time: None, attributes });
            assert_eq!(ends.take(), expected, "{action} {code} {of_a_task}");
            assert_eq!(ends.take(), none(), "each once");
        }
    }
}
