//! What a Docker Swarm service is doing, from its service object, its tasks and its nodes.
//!
//! Swarm keeps no "state" of a service: it follows from the replicas asked for and from the tasks, each with
//! an actual state (`Status.State`, written by its node) and a desired one (written by the managers, first
//! and at once). [`of`] reads them from top to bottom through one table, described in `docs/states.md` and
//! held against recordings of real engines.

pub mod advice;
pub mod api;
pub mod ends;
pub mod expect;
mod intent;
pub mod killed;
pub mod network;
mod picture;
pub(super) mod reason;
pub mod saved;
pub mod scale;
pub mod survey;
pub mod update;

use std::sync::Arc;

use jiff::Timestamp;

use self::api::{Answer, NetworkAttachment, Node, Service, Task, TaskState};
use self::picture::{Mode, Picture};
use self::scale::Change;
use super::Clocks;
use crate::service::{Endpoint, Running, State};

/// What to believe about a service, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Believed {
    pub belief: Belief,
    /// For people: Swarm's own words where it has any, exit codes explained.
    pub reason: String,
    /// The task to dial. `Some` exactly when the belief is [`Belief::Running`].
    pub instance: Option<Instance>,
    /// The task that a node is starting: it may have output. `Some` only when the belief is [`Belief::Starting`].
    pub starting: Option<Arc<str>>,
    /// Tasks that were told to stop and may still run.
    pub stopping: Option<Stopping>,
    /// The replicas asked for; `None` if the service cannot be scaled or is not known.
    pub replicas: Option<u64>,
    /// An ended task is listed. It can keep Swarm from starting another until `ForceUpdate` is raised.
    pub dead_tasks: bool,
    /// What is wrong beside the state, each with the fix.
    pub problems: Vec<String>,
}

/// The rows of the table, finer than the states that players and people see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Belief {
    /// There is no such service.
    Removed,
    /// The engine did not answer, or not in words this version knows. The last belief stands.
    Unknown,
    /// A job, not a server.
    Job,
    /// Scaled to zero, and a task is still stopping on a node that answers.
    Stopping,
    /// Scaled to zero.
    Asleep,
    /// A task runs. Whether the game answers is for a status ping to find out.
    Running,
    /// Swarm is about to make or to place a task.
    Waking,
    /// No node can take the task; it starts as soon as one can.
    Pending,
    /// A node has the task and is starting it.
    Starting,
    /// A new task waits for an old one to stop: an update, a rollback, a drained node. Not a failure.
    Replacing,
    /// The last task ended; the next starts at `until`.
    RestartDelay { until: Timestamp },
    /// A task has ended and Swarm has not yet decided what follows.
    Transition,
    /// It ended by itself with exit code 0 and is not started again.
    Finished,
    /// Swarm gave up on it.
    Failed,
    /// Swarm should have made a task and did not.
    Stuck,
}

/// The task to dial, and where it can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub task: Arc<str>,
    pub node: Arc<str>,
    /// In the order of the service's spec, Swarm's own ingress network first if it has one.
    pub attachments: Vec<Attachment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    pub network: String,
    pub name: String,
    /// Swarm's own network for published ports, which containers cannot be dialled on.
    pub ingress: bool,
    /// Without the length of the network prefix. Empty on the host's own network.
    pub addresses: Vec<String>,
}

/// Tasks that were told to stop. While there are any on a node that answers, a second must not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopping {
    /// On nodes that answer.
    pub tasks: usize,
    /// On nodes that are down: they may still run, and nobody can tell.
    pub on_down_nodes: usize,
    /// When the last of them changed, which is when it was told to stop or began to.
    pub since: Option<Timestamp>,
}

/// What to believe about a service at `now` (the managers' clock).
///
/// `tasks` may hold tasks of other services; `nodes` may be empty when they are not known, and then every
/// node counts as up. The order of the lists does not matter.
pub fn of(service: &Answer<Service>, tasks: &Answer<Vec<Task>>, nodes: &[Node], now: Timestamp) -> Believed {
    let (service, tasks) = match (service, tasks) {
        (Answer::Got(service), Answer::Got(tasks)) => (service, tasks),
        (Answer::Refused { status: 404, message }, _)
        | (Answer::Got(_), Answer::Refused { status: 404, message }) => {
            return Believed::without_tasks(Belief::Removed, reason::removed(message));
        }
        (Answer::Refused { status, message }, _) | (_, Answer::Refused { status, message }) => {
            return Believed::without_tasks(Belief::Unknown, reason::refused(*status, message));
        }
    };
    of_both(service, tasks, nodes, now)
}

fn of_both(service: &Service, tasks: &[Task], nodes: &[Node], now: Timestamp) -> Believed {
    let picture = Picture::new(service, tasks, nodes, now);
    let (belief, why) = decide(&picture);
    let running = picture.running().filter(|_| belief == Belief::Running);
    let starting = picture.coming_up().filter(|_| belief == Belief::Starting);
    Believed {
        reason: reason::with_update(why, &belief, service),
        instance: running.map(Instance::of),
        starting: starting.map(|task| task.id.as_str().into()),
        stopping: picture.stopping(),
        replicas: picture.mode.replicas(),
        dead_tasks: picture.tasks.iter().any(|task| task.status.state.is_terminal()),
        problems: problems(&picture.mode),
        belief,
    }
}

/// The table, top to bottom: the first row that fits is the belief.
fn decide(picture: &Picture<'_>) -> (Belief, String) {
    match &picture.mode {
        Mode::Unknown(why) => return (Belief::Unknown, why.clone()),
        Mode::Job => return (Belief::Job, "it is a job, not a server".into()),
        Mode::Replicated(0) if picture.any_may_run() => {
            return (Belief::Stopping, "scaled to zero; its task is still stopping".into());
        }
        Mode::Replicated(0) if picture.on_down_nodes() > 0 => {
            return (Belief::Asleep, "scaled to zero; a copy may still run on a node that is down".into());
        }
        Mode::Replicated(0) => return (Belief::Asleep, "scaled to zero".into()),
        Mode::Replicated(_) | Mode::Global => {}
    }
    if let Some(task) = picture.running() {
        (Belief::Running, reason::running(task, picture.dying()))
    } else if let Some(task) = picture.strange() {
        (Belief::Unknown, reason::strange(task))
    } else if let Some(task) = picture.coming_up() {
        coming_up(task, picture)
    } else if let Some(held) = picture.held() {
        held_back(held, picture)
    } else if let Some(task) = picture.undecided() {
        (Belief::Transition, format!("{}; Swarm is deciding what follows", reason::outcome(task)))
    } else if picture.dying() > 0 {
        (Belief::Replacing, "the old task is still stopping".into())
    } else if picture.just_updated() {
        (Belief::Waking, "Swarm has not made its task yet".into())
    } else {
        at_rest(picture)
    }
}

/// Desired running, not there yet.
fn coming_up(task: &Task, picture: &Picture<'_>) -> (Belief, String) {
    let state = &task.status.state;
    let belief = if *state > TaskState::Pending {
        Belief::Starting
    } else if task.status.err.is_empty() {
        Belief::Waking
    } else {
        Belief::Pending
    };
    (belief, reason::coming_up(task, picture.service))
}

/// Desired ready: Swarm has prepared a task and holds it back.
fn held_back(held: &Task, picture: &Picture<'_>) -> (Belief, String) {
    if picture.has_older_dying(held) {
        return (Belief::Replacing, "a new task waits for the old one to stop".into());
    }
    if held.status.state == TaskState::Pending && !held.status.err.is_empty() {
        return (Belief::Pending, reason::coming_up(held, picture.service));
    }
    let last = picture.predecessor(held);
    let until = picture.restart_at(held, last);
    (Belief::RestartDelay { until }, reason::restart(held, last))
}

/// Nothing runs, nothing is about to.
fn at_rest(picture: &Picture<'_>) -> (Belief, String) {
    let Some(last) = picture.last_ended() else {
        return (Belief::Stuck, "Swarm has made no task for it".into());
    };
    match last.status.state {
        TaskState::Complete => (Belief::Finished, "it ended by itself (exit code 0)".into()),
        TaskState::Failed | TaskState::Rejected | TaskState::Orphaned => {
            (Belief::Failed, format!("Swarm gave up on it: {}", reason::outcome(last)))
        }
        TaskState::Shutdown
        | TaskState::Remove
        | TaskState::Other(_)
        | TaskState::New
        | TaskState::Allocated
        | TaskState::Pending
        | TaskState::Assigned
        | TaskState::Accepted
        | TaskState::Preparing
        | TaskState::Ready
        | TaskState::Starting
        | TaskState::Running => {
            (Belief::Stuck, "its last task was shut down and Swarm has made no other".into())
        }
    }
}

fn problems(mode: &Mode) -> Vec<String> {
    let mut problems = Vec::new();
    match mode {
        Mode::Job => problems.push("it is a job: only replicated and global services are routed".into()),
        Mode::Global => problems.push(
            "a global service cannot be scaled: it is routed, but never woken or put to sleep; \
             deploy it in replicated mode for that"
                .into(),
        ),
        Mode::Replicated(_) | Mode::Unknown(_) => {}
    }
    problems
}

impl Believed {
    fn without_tasks(belief: Belief, reason: String) -> Self {
        Self {
            belief,
            reason,
            instance: None,
            starting: None,
            stopping: None,
            replicas: None,
            dead_tasks: false,
            problems: Vec::new(),
        }
    }

    /// The state in the gate's own words, dialled at `endpoints` while it runs; `None` if the service is gone.
    pub fn state(&self, endpoints: Vec<Endpoint>, now: Clocks) -> Option<State> {
        let reason = self.reason.clone();
        Some(match &self.belief {
            Belief::Removed => return None,
            Belief::Unknown | Belief::Job => State::Unknown { reason },
            Belief::Stopping => State::Stopping,
            Belief::Asleep | Belief::Finished => State::Asleep,
            Belief::Running => State::Running(Running { run: self.run(), endpoints }),
            Belief::Waking | Belief::Pending | Belief::Starting | Belief::Replacing | Belief::Transition => {
                State::Starting { reason }
            }
            Belief::RestartDelay { until } => State::Restarting { until: now.moment_at(*until), reason },
            Belief::Failed | Belief::Stuck => State::Failed { reason },
        })
    }

    /// What a wake has to change, if anything.
    ///
    /// It says what Swarm needs, not whether it is safe now: with [`Believed::stopping`] on down nodes only,
    /// the caller waits out a bound first, because a second server on one world must never start lightly.
    pub fn wake(&self) -> Option<Change> {
        self.replicas?;
        match self.belief {
            Belief::Asleep => Some(Change::Up { force: self.dead_tasks }),
            Belief::Finished | Belief::Failed | Belief::Stuck => Some(Change::Force),
            Belief::Removed
            | Belief::Unknown
            | Belief::Job
            | Belief::Stopping
            | Belief::Running
            | Belief::Waking
            | Belief::Pending
            | Belief::Starting
            | Belief::Replacing
            | Belief::RestartDelay { .. }
            | Belief::Transition => None,
        }
    }

    fn run(&self) -> Arc<str> {
        self.instance.as_ref().map_or_else(|| "".into(), |instance| Arc::clone(&instance.task))
    }
}

impl Belief {
    /// The state's name in the lexicon, in lower case; `gone` for a service that is not there.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Removed => "gone",
            Self::Unknown | Self::Job => "unknown",
            Self::Stopping => "stopping",
            Self::Asleep | Self::Finished => "asleep",
            Self::Running => "running",
            Self::Waking | Self::Pending | Self::Starting | Self::Replacing | Self::Transition => "starting",
            Self::RestartDelay { .. } => "restarting",
            Self::Failed | Self::Stuck => "failed",
        }
    }
}

impl Stopping {
    /// Nobody can tell whether these still run.
    pub fn only_on_down_nodes(&self) -> bool {
        self.tasks == 0
    }
}

impl Instance {
    fn of(task: &Task) -> Self {
        Self {
            task: task.id.as_str().into(),
            node: task.node_id.as_str().into(),
            attachments: task.networks_attachments.iter().map(Attachment::of).collect(),
        }
    }
}

impl Attachment {
    fn of(attachment: &NetworkAttachment) -> Self {
        let network = &attachment.network;
        Self {
            network: network.id.clone(),
            name: network.spec.name.clone(),
            // Engines before 17.06 had no flag; the name is reserved.
            ingress: network.spec.ingress || network.spec.name == "ingress",
            addresses: attachment.addresses.iter().map(|cidr| without_prefix(cidr).to_owned()).collect(),
        }
    }
}

fn without_prefix(cidr: &str) -> &str {
    cidr.split_once('/').map_or(cidr, |(address, _)| address)
}

#[cfg(test)]
mod tests;
