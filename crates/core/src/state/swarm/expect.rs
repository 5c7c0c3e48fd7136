//! What follows from a write before the engine's answers show it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::survey::Surveyed;
use crate::moment::Moment;
use crate::service::State;

/// Managers make and show a task within milliseconds; a loaded one may take seconds.
const SHOWS_WITHIN: Duration = Duration::from_secs(5);

/// A change that was accepted, and what is true because of it until the answers say so themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    what: What,
    until: Moment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    /// A task that is none of these.
    NewTask(BTreeSet<String>),
    /// A version of the service above this one.
    Stop(u64),
}

impl Expected {
    /// After a wake; `listed` are the tasks that were there before it.
    pub fn start(listed: BTreeSet<String>, now: Moment) -> Self {
        Self { what: What::NewTask(listed), until: now + SHOWS_WITHIN }
    }

    /// After a stop of the service at `version`.
    pub fn stop(version: u64, now: Moment) -> Self {
        Self { what: What::Stop(version), until: now + SHOWS_WITHIN }
    }

    /// Corrects what was read; false once there is nothing to correct any more.
    pub fn correct(&self, read: &mut Surveyed, now: Moment) -> bool {
        let state = &mut read.service.state;
        match &self.what {
            _ if now >= self.until => return false,
            What::NewTask(listed) if !read.tasks.is_subset(listed) => return false,
            What::NewTask(_) if matches!(state, State::Asleep | State::Failed { .. }) => {
                *state = State::Starting { reason: "Swarm has not made its task yet".to_owned() };
            }
            What::Stop(version) if read.version > *version => return false,
            What::Stop(_) if !matches!(state, State::Asleep | State::Unknown { .. }) => {
                *state = State::Stopping;
            }
            What::NewTask(_) | What::Stop(_) => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::service::{Running, Service, ServiceId, Spec};

    fn read(state: State, version: u64, tasks: &[&str]) -> Surveyed {
        let id = ServiceId::new("swarm", "mc");
        let spec = Arc::new(Spec::default());
        Surveyed {
            service: Service { id, spec, state, scalable: true, problems: Vec::new() },
            id: "s".into(),
            version,
            tasks: tasks.iter().map(|&id| id.to_owned()).collect(),
            stopping: BTreeMap::new(),
            killed: BTreeSet::new(),
            believed: None,
        }
    }

    #[test]
    fn an_old_answer_does_not_undo_a_write() {
        let at = |seconds| Moment::START + Duration::from_secs(seconds);
        let failed = || State::Failed { reason: "exit 1".into() };
        let running = || State::Running(Running { run: "a".into(), endpoints: vec![] });
        let wake = Expected::start(["a".to_owned()].into(), at(0));
        let stop = Expected::stop(7, at(0));
        for (expected, read, after, word, still) in [
            (&wake, read(State::Asleep, 8, &["a"]), 1, "starting", true),
            (&wake, read(State::Asleep, 8, &[]), 1, "starting", true),
            (&wake, read(failed(), 8, &["a"]), 1, "starting", true),
            (&wake, read(failed(), 8, &["a", "b"]), 1, "failed", false),
            (&wake, read(failed(), 8, &["a"]), 5, "failed", false),
            (&wake, read(State::Stopping, 8, &["a"]), 1, "stopping", true),
            (&stop, read(running(), 7, &["a"]), 1, "stopping", true),
            (&stop, read(State::Asleep, 7, &[]), 1, "asleep", true),
            (&stop, read(running(), 9, &["a"]), 1, "running", false),
            (&stop, read(running(), 7, &["a"]), 5, "running", false),
        ] {
            let mut read = read;
            let answer = expected.correct(&mut read, at(after));
            assert_eq!((read.service.state.word(), answer), (word, still), "{expected:?} {read:?}");
        }
    }
}
