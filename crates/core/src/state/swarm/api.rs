//! What is read of the Engine API's objects (Docker Engine API reference, services, tasks and nodes).
//!
//! Nearly every field may be missing or null, and words this version does not know are kept: an engine newer than
//! the gate must not blind it. These types are for reading only; what is written is edited in the raw JSON.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::advice::DEFAULT_GRACE;
use crate::state::KILLED_CODE;

/// What came back for a request: the object, or that it was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    Got(T),
    /// The engine answered with an error, or did not answer at all (`status` is 0).
    Refused {
        status: u16,
        message: String,
    },
}

/// Only its spec is required: without one it is some other object, an error message perhaps.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Service {
    #[serde(rename = "ID", default, deserialize_with = "nullable")]
    pub id: String,
    #[serde(default, deserialize_with = "nullable")]
    pub version: Version,
    #[serde(default, deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
    pub spec: ServiceSpec,
    #[serde(default, deserialize_with = "nullable")]
    pub update_status: UpdateStatus,
}

/// Sent back with an update; the engine refuses it if the service has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Version {
    #[serde(deserialize_with = "nullable")]
    pub index: u64,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ServiceSpec {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    pub task_template: TaskSpec,
    #[serde(deserialize_with = "nullable")]
    pub mode: BTreeMap<String, Value>,
    #[serde(deserialize_with = "nullable")]
    pub update_config: UpdateConfig,
    #[serde(deserialize_with = "nullable")]
    pub rollback_config: UpdateConfig,
    #[serde(deserialize_with = "nullable")]
    pub endpoint_spec: EndpointSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct UpdateConfig {
    /// `stop-first`, also if it is missing, or `start-first`.
    #[serde(deserialize_with = "nullable")]
    pub order: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EndpointSpec {
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<PublishedPort>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PublishedPort {
    #[serde(deserialize_with = "nullable")]
    pub target_port: u32,
    /// Missing while Swarm is still to choose one.
    #[serde(deserialize_with = "nullable")]
    pub published_port: u32,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskSpec {
    #[serde(deserialize_with = "nullable")]
    pub container_spec: ContainerSpec,
    pub restart_policy: Option<RestartPolicy>,
    #[serde(deserialize_with = "nullable")]
    pub networks: Vec<NetworkTarget>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ContainerSpec {
    #[serde(deserialize_with = "nullable")]
    pub image: String,
    /// `NAME=value`
    #[serde(deserialize_with = "nullable")]
    pub env: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    /// Nanoseconds between the stop signal and the kill. Missing: the engine's 10 s.
    pub stop_grace_period: Option<i64>,
    pub healthcheck: Option<Healthcheck>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Healthcheck {
    #[serde(deserialize_with = "nullable")]
    pub test: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RestartPolicy {
    /// Nanoseconds from a task's end to the start of the next. Missing: 5 s.
    pub delay: Option<i64>,
    /// Starts after the first. Missing or 0: no limit.
    pub max_attempts: Option<u64>,
}

/// A network that the service asks for, and the names the service goes by on it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NetworkTarget {
    #[serde(deserialize_with = "nullable")]
    pub target: String,
    #[serde(deserialize_with = "nullable")]
    pub aliases: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct UpdateStatus {
    #[serde(deserialize_with = "nullable")]
    pub state: String,
    #[serde(deserialize_with = "nullable")]
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Task {
    #[serde(rename = "ID", deserialize_with = "nullable")]
    pub id: String,
    #[serde(rename = "ServiceID", deserialize_with = "nullable")]
    pub service_id: String,
    #[serde(rename = "NodeID", deserialize_with = "nullable")]
    pub node_id: String,
    /// Which of the replicas it is. 0 for a global service's tasks.
    #[serde(deserialize_with = "nullable")]
    pub slot: u64,
    #[serde(deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
    pub spec: Option<TaskSpec>,
    #[serde(deserialize_with = "nullable")]
    pub status: TaskStatus,
    #[serde(deserialize_with = "nullable")]
    pub desired_state: TaskState,
    #[serde(deserialize_with = "nullable")]
    pub networks_attachments: Vec<NetworkAttachment>,
}

impl Task {
    /// Its managers want it to end.
    pub fn is_told_to_stop(&self) -> bool {
        matches!(self.desired_state, TaskState::Shutdown | TaskState::Remove)
    }

    /// Told to stop, and not known to have stopped.
    pub fn is_stopping(&self) -> bool {
        self.is_told_to_stop() && !self.status.state.is_terminal()
    }

    /// When one that is told to stop is killed at the earliest: its grace begins some time after it is told to.
    pub fn killed_from(&self) -> Option<Timestamp> {
        let grace = self.spec.as_ref().and_then(|spec| spec.container_spec.stop_grace_period);
        let grace = grace.map_or(SignedDuration::from_secs(DEFAULT_GRACE), SignedDuration::from_nanos);
        self.updated_at?.checked_add(grace).ok()
    }

    /// It was told to stop and took longer than its stop grace. One that crashes is `failed`.
    pub fn was_killed(&self) -> bool {
        self.status.state == TaskState::Shutdown
            && self.status.container_status.exit_code == Some(KILLED_CODE)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskStatus {
    #[serde(deserialize_with = "nullable")]
    pub state: TaskState,
    #[serde(deserialize_with = "nullable")]
    pub err: String,
    #[serde(deserialize_with = "nullable")]
    pub container_status: ContainerStatus,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ContainerStatus {
    /// Means something in terminal states only; a container that is being stopped shows -1.
    pub exit_code: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NetworkAttachment {
    #[serde(deserialize_with = "nullable")]
    pub network: Network,
    /// In CIDR notation. Missing on the host's own network.
    #[serde(deserialize_with = "nullable")]
    pub addresses: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Network {
    #[serde(rename = "ID", deserialize_with = "nullable")]
    pub id: String,
    #[serde(deserialize_with = "nullable")]
    pub spec: NetworkSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NetworkSpec {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub ingress: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Node {
    #[serde(rename = "ID", deserialize_with = "nullable")]
    pub id: String,
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
    #[serde(deserialize_with = "nullable")]
    pub description: NodeDescription,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDescription {
    #[serde(deserialize_with = "nullable")]
    pub hostname: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeSpec {
    /// `active`, `pause` or `drain`.
    #[serde(deserialize_with = "nullable")]
    pub availability: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeStatus {
    /// `unknown`, `down`, `ready` or `disconnected`. Only `down` means that its tasks are given up on.
    #[serde(deserialize_with = "nullable")]
    pub state: String,
}

/// Where a task is, or where its managers want it, in the order a task goes through them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub enum TaskState {
    /// A word of an engine newer than this gate.
    Other(String),
    New,
    Allocated,
    Pending,
    Assigned,
    Accepted,
    Preparing,
    Ready,
    Starting,
    Running,
    Complete,
    Shutdown,
    Failed,
    Rejected,
    Remove,
    Orphaned,
}

impl TaskState {
    /// Whether it will not run again. An unknown state may still run: believing otherwise could start a
    /// second server beside it.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Complete
            | Self::Shutdown
            | Self::Failed
            | Self::Rejected
            | Self::Remove
            | Self::Orphaned => true,
            Self::Other(_)
            | Self::New
            | Self::Allocated
            | Self::Pending
            | Self::Assigned
            | Self::Accepted
            | Self::Preparing
            | Self::Ready
            | Self::Starting
            | Self::Running => false,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Other(word) => word,
            Self::New => "new",
            Self::Allocated => "allocated",
            Self::Pending => "pending",
            Self::Assigned => "assigned",
            Self::Accepted => "accepted",
            Self::Preparing => "preparing",
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Shutdown => "shutdown",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Remove => "remove",
            Self::Orphaned => "orphaned",
        }
    }
}

impl From<String> for TaskState {
    fn from(word: String) -> Self {
        match word.as_str() {
            "new" => Self::New,
            "allocated" => Self::Allocated,
            "pending" => Self::Pending,
            "assigned" => Self::Assigned,
            "accepted" => Self::Accepted,
            "preparing" => Self::Preparing,
            "ready" => Self::Ready,
            "starting" => Self::Starting,
            "running" => Self::Running,
            "complete" => Self::Complete,
            "shutdown" => Self::Shutdown,
            "failed" => Self::Failed,
            "rejected" => Self::Rejected,
            "remove" => Self::Remove,
            "orphaned" => Self::Orphaned,
            _ => Self::Other(word),
        }
    }
}

impl Default for TaskState {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Go writes an empty list or object as null as often as it leaves it out.
pub(in crate::state) fn nullable<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A time that cannot be read is a time not given.
pub(in crate::state) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<String> = Option::deserialize(from)?;
    Ok(text.and_then(|text| text.parse().ok()))
}
