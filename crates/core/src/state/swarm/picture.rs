//! The facts of one service, put in order for the decision: each question the table asks is one method.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Stopping;
use super::api::{Node, RestartPolicy, Service, Task, TaskSpec, TaskState};

/// Swarm's default for `RestartPolicy.Delay` (Engine API, service create).
const DEFAULT_RESTART_DELAY: SignedDuration = SignedDuration::from_secs(5);
/// Tasks follow a service update within milliseconds; after this, none is coming.
const TASK_FOLLOWS_WITHIN: SignedDuration = SignedDuration::from_secs(3);
/// A service's `UpdatedAt` is bumped up to 2.7 ms after the creation of the task it led to (measured).
const UPDATE_LAGS_BY: SignedDuration = SignedDuration::from_millis(10);

pub struct Picture<'a> {
    pub service: &'a Service,
    pub mode: Mode,
    /// Its own tasks, oldest first.
    pub tasks: Vec<&'a Task>,
    nodes: BTreeMap<&'a str, &'a Node>,
    now: Timestamp,
}

/// How many tasks Swarm is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    Replicated(u64),
    Global,
    Job,
    Unknown(String),
}

impl Mode {
    pub fn of(mode: &BTreeMap<String, Value>) -> Self {
        // A service created without a mode or a count has one replica.
        let Some((name, content)) = mode.iter().find(|(_, content)| !content.is_null()) else {
            return Self::Replicated(1);
        };
        match (name.as_str(), content.get("Replicas")) {
            ("Replicated", None | Some(Value::Null)) => Self::Replicated(1),
            ("Replicated", Some(count)) => count
                .as_u64()
                .map_or_else(|| Self::Unknown(format!("its replicas are {count}")), Self::Replicated),
            ("Global", _) => Self::Global,
            ("ReplicatedJob" | "GlobalJob", _) => Self::Job,
            _ => Self::Unknown(format!("its mode {name} is not known to this version")),
        }
    }

    pub fn replicas(&self) -> Option<u64> {
        match self {
            Self::Replicated(count) => Some(*count),
            Self::Global | Self::Job | Self::Unknown(_) => None,
        }
    }
}

impl<'a> Picture<'a> {
    pub fn new(service: &'a Service, tasks: &'a [Task], nodes: &'a [Node], now: Timestamp) -> Self {
        let mut tasks: Vec<&Task> = tasks.iter().filter(|task| belongs(task, service)).collect();
        tasks.sort_by_key(|task| (task.created_at, &task.id));
        let nodes = nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        Self { service, mode: Mode::of(&service.spec.mode), tasks, nodes, now }
    }

    /// Two can be seen during a start-first update; the newest is the one that stays.
    pub fn running(&self) -> Option<&'a Task> {
        self.newest(|task| is(task, TaskState::Running) && wants(task, TaskState::Running))
    }

    /// Alive, and its state or desired state is a word this version does not know.
    pub fn strange(&self) -> Option<&'a Task> {
        self.newest(|task| {
            let unknown_state = matches!(task.status.state, TaskState::Other(_)) && !task.is_told_to_stop();
            let known_wish =
                task.is_told_to_stop() || wants(task, TaskState::Running) || wants(task, TaskState::Ready);
            is_live(task) && (unknown_state || !known_wish)
        })
    }

    /// The task furthest along of those that shall run.
    pub fn coming_up(&self) -> Option<&'a Task> {
        let shall_run = |task: &&&Task| is_live(task) && wants(task, TaskState::Running);
        self.tasks.iter().filter(shall_run).max_by_key(|task| &task.status.state).copied()
    }

    /// A task that Swarm holds back. It may have failed while it was prepared.
    pub fn held(&self) -> Option<&'a Task> {
        self.newest(|task| wants(task, TaskState::Ready))
    }

    /// Ended while it should run: between its end and Swarm's decision.
    pub fn undecided(&self) -> Option<&'a Task> {
        self.newest(|task| !is_live(task) && wants(task, TaskState::Running))
    }

    /// How many were told to stop and still run on a node that answers.
    pub fn dying(&self) -> usize {
        self.tasks.iter().filter(|task| self.is_dying(task)).count()
    }

    /// How many were told to stop on nodes that are down.
    pub fn on_down_nodes(&self) -> usize {
        self.tasks.iter().filter(|task| self.is_lost(task)).count()
    }

    /// Whether any task may run or come up on a node that answers, whatever Swarm has told it so far.
    pub fn any_may_run(&self) -> bool {
        self.tasks.iter().any(|task| {
            let will_be_told = is_live(task) && !task.is_told_to_stop() && !self.is_on_down_node(task);
            self.is_dying(task) || will_be_told
        })
    }

    pub fn stopping(&self) -> Option<Stopping> {
        let of_interest = |task: &&&Task| self.is_dying(task) || self.is_lost(task);
        let since = self.tasks.iter().filter(of_interest).filter_map(|task| task.updated_at).max();
        let stopping = Stopping { tasks: self.dying(), on_down_nodes: self.on_down_nodes(), since };
        (stopping.tasks + stopping.on_down_nodes > 0).then_some(stopping)
    }

    pub fn has_older_dying(&self, held: &Task) -> bool {
        self.older_in_slot(held).any(|task| self.is_dying(task))
    }

    /// The task whose end `held` follows. It may be gone from the history.
    pub fn predecessor(&self, held: &Task) -> Option<&'a Task> {
        self.older_in_slot(held).last()
    }

    /// When Swarm lets `held` run: the ended task's own delay counts from the creation of the next.
    pub fn restart_at(&self, held: &Task, last: Option<&Task>) -> Timestamp {
        let spec = last.and_then(|task| task.spec.as_ref()).or(held.spec.as_ref());
        let delay = if last.is_some_and(|task| self.is_on_drained_node(task)) {
            SignedDuration::ZERO
        } else {
            restart_delay(spec)
        };
        let from = held.created_at.unwrap_or(self.now);
        from.checked_add(delay).unwrap_or(Timestamp::MAX)
    }

    /// Whether the service changed a moment ago and no task shows it yet.
    pub fn just_updated(&self) -> bool {
        let Some(updated) = self.service.updated_at else { return false };
        let newest = self.tasks.iter().filter_map(|task| task.created_at).max();
        let behind = newest.is_none_or(|created| updated.duration_since(created) > UPDATE_LAGS_BY);
        behind && self.now.duration_since(updated) < TASK_FOLLOWS_WITHIN
    }

    /// The newest task that has ended.
    pub fn last_ended(&self) -> Option<&'a Task> {
        self.newest(|task| !is_live(task))
    }

    fn newest(&self, fits: impl Fn(&Task) -> bool) -> Option<&'a Task> {
        self.tasks.iter().rfind(|task| fits(task)).copied()
    }

    fn older_in_slot<'s>(&'s self, held: &'s Task) -> impl Iterator<Item = &'a Task> + 's {
        self.tasks.iter().take_while(|task| task.id != held.id).filter(|task| same_slot(task, held)).copied()
    }

    /// Told to stop, and not known to have stopped. Without a node it never ran.
    fn is_dying(&self, task: &Task) -> bool {
        task.is_stopping() && !task.node_id.is_empty() && !self.is_on_down_node(task)
    }

    fn is_lost(&self, task: &Task) -> bool {
        let told = task.is_told_to_stop() || self.mode == Mode::Replicated(0);
        is_live(task) && told && self.is_on_down_node(task)
    }

    /// A node that is not listed was removed, and its tasks' fate is as unknown as on one that is down.
    fn is_on_down_node(&self, task: &Task) -> bool {
        let gone = || self.nodes.get(task.node_id.as_str()).is_none_or(|node| node.status.state == "down");
        !task.node_id.is_empty() && !self.nodes.is_empty() && gone()
    }

    fn is_on_drained_node(&self, task: &Task) -> bool {
        self.nodes.get(task.node_id.as_str()).is_some_and(|node| node.spec.availability == "drain")
    }
}

fn belongs(task: &Task, service: &Service) -> bool {
    task.service_id.is_empty() || service.id.is_empty() || task.service_id == service.id
}

fn is(task: &Task, state: TaskState) -> bool {
    task.status.state == state
}

fn wants(task: &Task, state: TaskState) -> bool {
    task.desired_state == state
}

fn is_live(task: &Task) -> bool {
    !task.status.state.is_terminal()
}

/// A global service has one task a node instead of numbered ones.
fn same_slot(task: &Task, held: &Task) -> bool {
    task.slot == held.slot && (held.slot != 0 || task.node_id == held.node_id)
}

fn restart_delay(spec: Option<&TaskSpec>) -> SignedDuration {
    let policy: Option<&RestartPolicy> = spec.and_then(|spec| spec.restart_policy.as_ref());
    policy.and_then(|policy| policy.delay).map_or(DEFAULT_RESTART_DELAY, SignedDuration::from_nanos)
}
