//! What to change about a service so that it wakes or sleeps, and when that must not be done.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::scale::Change;
use super::{Belief, Believed};
use crate::span;

/// A task on a node that is down may still run there. After this long it is taken as ended.
const LOST_AFTER: SignedDuration = SignedDuration::from_mins(10);

impl Believed {
    /// What starts it, if it is not started already.
    ///
    /// # Errors
    /// Why it must not be started now, in a sentence.
    pub fn up(&self, now: Timestamp) -> Result<Option<Change>, String> {
        match &self.belief {
            Belief::Unknown | Belief::Removed | Belief::Job => return Err(self.reason.clone()),
            Belief::Stopping
            | Belief::Asleep
            | Belief::Running
            | Belief::Waking
            | Belief::Pending
            | Belief::Starting
            | Belief::Replacing
            | Belief::RestartDelay { .. }
            | Belief::Transition
            | Belief::Finished
            | Belief::Failed
            | Belief::Stuck => {}
        }
        let change = self.wake();
        match self.may_still_run(now) {
            Some(why) if change.is_some() || self.belief == Belief::Stopping => Err(why),
            Some(_) | None => Ok(change),
        }
    }

    /// What stops it, if it is not stopped already.
    ///
    /// # Errors
    /// Why the gate does not stop it, in a sentence with the fix.
    pub fn down(&self) -> Result<Option<Change>, String> {
        match self.replicas {
            None => Err(format!("it cannot be scaled: {}", self.reason)),
            Some(0) => Ok(None),
            Some(1) => Ok(Some(Change::Down)),
            Some(count) => Err(format!(
                "it has {count} replicas, and the gate only stops services with one: set replicas to 1"
            )),
        }
    }

    /// Why a new task could run beside an old one on the same world. On a node that is down nobody can tell,
    /// so there it is taken as over after a while.
    pub fn may_still_run(&self, now: Timestamp) -> Option<String> {
        let stopping = self.stopping?;
        if !stopping.only_on_down_nodes() {
            return Some("its old task is still stopping".into());
        }
        let lost = stopping.since.map_or(SignedDuration::ZERO, |since| now.duration_since(since));
        let left = Duration::try_from(LOST_AFTER - lost).ok().filter(|left| !left.is_zero())?;
        let left = span::human(left);
        Some(format!("its old task may still run on a node that is down; it can be started in {left}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::swarm::Stopping;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn believed(belief: Belief, replicas: u64) -> Believed {
        let mut believed = Believed::without_tasks(belief, "because".into());
        believed.replicas = Some(replicas);
        believed
    }

    fn stopping(belief: Belief, tasks: usize, on_down_nodes: usize, since: &str) -> Believed {
        let since = Some(since.parse().unwrap());
        Believed { stopping: Some(Stopping { tasks, on_down_nodes, since }), ..believed(belief, 0) }
    }

    #[test]
    fn nothing_is_started_beside_what_may_still_run() {
        let minutes_ago_9 = "2026-01-01T11:51:00Z";
        let minutes_ago_10 = "2026-01-01T11:50:00Z";
        for (believed, expected) in [
            (believed(Belief::Asleep, 0), Ok(Some(Change::Up { force: false }))),
            (believed(Belief::Failed, 1), Ok(Some(Change::Force))),
            (believed(Belief::Starting, 1), Ok(None)),
            (believed(Belief::Unknown, 1), Err("because")),
            (stopping(Belief::Stopping, 1, 0, minutes_ago_10), Err("its old task is still stopping")),
            (stopping(Belief::Asleep, 0, 1, minutes_ago_9), Err("it can be started in 1m")),
            (stopping(Belief::Asleep, 0, 1, minutes_ago_10), Ok(Some(Change::Up { force: false }))),
            (stopping(Belief::Running, 1, 0, minutes_ago_9), Ok(None)),
        ] {
            match (believed.up(NOW.parse().unwrap()), expected) {
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                (found, expected) => assert_eq!(found, expected.map_err(str::to_owned), "{believed:?}"),
            }
        }
    }

    #[test]
    fn only_one_replica_is_stopped() {
        assert_eq!(believed(Belief::Asleep, 0).down(), Ok(None));
        assert_eq!(believed(Belief::Running, 1).down(), Ok(Some(Change::Down)));
        assert!(believed(Belief::Running, 2).down().unwrap_err().contains("set replicas to 1"));
        assert!(Believed::without_tasks(Belief::Running, "global".into()).down().is_err());
    }
}
