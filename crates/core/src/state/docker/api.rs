//! What is read of the Engine API's containers (Docker Engine API reference, `ContainerList`, `ContainerInspect`).
//!
//! Nearly every field may be missing or null, and words this version does not know are kept.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use crate::labels;
use crate::state::swarm::api::{nullable, time};

/// As `GET /containers/json` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Listed {
    #[serde(deserialize_with = "nullable")]
    pub id: String,
    #[serde(deserialize_with = "nullable")]
    pub names: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
}

/// As `GET /containers/{id}/json` has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Container {
    #[serde(deserialize_with = "nullable")]
    pub id: String,
    #[serde(deserialize_with = "nullable")]
    pub state: State,
    /// Since it was last started by somebody.
    #[serde(deserialize_with = "nullable")]
    pub restart_count: u64,
    #[serde(deserialize_with = "nullable")]
    pub config: Config,
    #[serde(deserialize_with = "nullable")]
    pub host_config: HostConfig,
    #[serde(deserialize_with = "nullable")]
    pub network_settings: NetworkSettings,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct State {
    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited` or `dead`.
    #[serde(deserialize_with = "nullable")]
    pub status: String,
    #[serde(rename = "OOMKilled", deserialize_with = "nullable")]
    pub oom_killed: bool,
    /// Of the last run.
    #[serde(deserialize_with = "nullable")]
    pub exit_code: i64,
    /// Why it could not be started.
    #[serde(deserialize_with = "nullable")]
    pub error: String,
    #[serde(deserialize_with = "time")]
    pub started_at: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    pub finished_at: Option<Timestamp>,
    /// `None` without a health check.
    pub health: Option<Health>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Health {
    /// `none`, `starting`, `healthy` or `unhealthy`.
    #[serde(deserialize_with = "nullable")]
    pub status: String,
    /// The last few checks, the newest last.
    #[serde(deserialize_with = "nullable")]
    pub log: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Check {
    #[serde(deserialize_with = "nullable")]
    pub output: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Config {
    /// `NAME=value`
    #[serde(deserialize_with = "nullable")]
    pub env: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    /// Seconds between the stop signal and the kill; negative: it is not killed. Missing: the engine's 10.
    pub stop_timeout: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct HostConfig {
    /// `bridge`, `host`, `none`, `container:ID` or a network's name.
    #[serde(deserialize_with = "nullable")]
    pub network_mode: String,
    #[serde(deserialize_with = "nullable")]
    pub restart_policy: RestartPolicy,
    /// Created with `--rm`.
    #[serde(deserialize_with = "nullable")]
    pub auto_remove: bool,
    /// By port and protocol, `25565/tcp`; also while it does not run.
    #[serde(deserialize_with = "nullable")]
    pub port_bindings: BTreeMap<String, Option<Vec<PortBinding>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RestartPolicy {
    /// `no` or empty, `always`, `unless-stopped` or `on-failure`.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Of `on-failure`; 0: no limit.
    #[serde(deserialize_with = "nullable")]
    pub maximum_retry_count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PortBinding {
    /// Empty or unspecified: every address of the machine.
    #[serde(deserialize_with = "nullable")]
    pub host_ip: String,
    #[serde(deserialize_with = "nullable")]
    pub host_port: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NetworkSettings {
    /// By name.
    #[serde(deserialize_with = "nullable")]
    pub networks: BTreeMap<String, Attachment>,
    /// What is published now, by port and protocol.
    #[serde(deserialize_with = "nullable")]
    pub ports: BTreeMap<String, Option<Vec<PortBinding>>>,
}

/// On one network. The addresses are empty while it does not run, and on the networks `host` and `none`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Attachment {
    #[serde(rename = "NetworkID", deserialize_with = "nullable")]
    pub network: String,
    #[serde(deserialize_with = "nullable")]
    pub aliases: Vec<String>,
    #[serde(rename = "IPAddress", deserialize_with = "nullable")]
    pub ipv4: String,
    #[serde(rename = "GlobalIPv6Address", deserialize_with = "nullable")]
    pub ipv6: String,
}

impl Listed {
    /// Whether it is a game server.
    pub(super) fn is_ours(&self) -> bool {
        self.is_on_its_own() && self.labels.keys().any(|key| labels::is_for_a_game(key))
    }

    /// Whether it asks to be published and is no game server.
    pub(super) fn is_published_only(&self) -> bool {
        self.is_on_its_own() && !self.is_ours() && self.labels.keys().any(|key| labels::is_ours(key))
    }

    /// Neither a task of a Swarm nor about to be another's.
    pub(super) fn is_on_its_own(&self) -> bool {
        !self.labels.contains_key("com.docker.swarm.service.id") && !self.is_a_replacement()
    }

    pub(super) fn name(&self) -> &str {
        self.names.first().map(|name| name.trim_start_matches('/')).unwrap_or_default()
    }

    /// Compose calls a container so while the one that it replaces still exists: for that moment there are two of
    /// one server.
    fn is_a_replacement(&self) -> bool {
        let is_hex = |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let by_compose = self.labels.contains_key("com.docker.compose.project");
        by_compose && self.name().split_once('_').is_some_and(|(prefix, _)| is_hex(prefix))
    }
}

impl Container {
    /// How often Docker has started it again, if it may not once more.
    pub(super) fn restarts_used_up(&self) -> Option<u64> {
        let most = self.host_config.restart_policy.maximum_retry_count;
        (most > 0 && self.restart_count >= most).then_some(self.restart_count)
    }

    /// Which run the last one was since somebody started it. Docker counts a restart as soon as it has decided on it.
    pub(super) fn last_run(&self, is_started_again: bool) -> String {
        let run = if is_started_again { self.restart_count } else { self.restart_count.saturating_add(1) };
        match self.host_config.restart_policy.maximum_retry_count {
            0 => format!("run {run}"),
            most => format!("run {run} of {}", most.saturating_add(1)),
        }
    }

    pub(super) fn compose_project(&self) -> Option<&str> {
        self.config.labels.get("com.docker.compose.project").map(String::as_str)
    }
}

impl State {
    pub(super) fn health(&self) -> &str {
        self.health.as_ref().map(|health| health.status.as_str()).unwrap_or_default()
    }
}

impl RestartPolicy {
    /// Whether Docker starts a container again that ends so, however often.
    pub(super) fn starts_again(&self, exit_code: i64) -> bool {
        match self.name.as_str() {
            "always" | "unless-stopped" => true,
            "on-failure" => exit_code != 0 && self.maximum_retry_count == 0,
            _ => false,
        }
    }
}
