//! A plan for people and for programs.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Plan, Stand, Standing};
use crate::publish::actual::{NewRecord, Step};

/// One hostname as the API gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostView {
    pub host: String,
    pub service: Option<String>,
    /// `published`, `changing`, `conflict`, `failed`, `held`, `leaving` or `withdrawing`.
    pub state: String,
    pub problem: Option<String>,
    pub notes: Vec<String>,
}

impl HostView {
    /// Whether anything about it is to be changed.
    pub fn is_due(&self) -> bool {
        [Standing::Changing, Standing::Withdrawing].iter().any(|due| due.word() == self.state)
    }
}

impl Plan {
    /// One line for each change, with `+`, `~` or `-` in front; in order.
    pub fn lines(&self) -> Vec<String> {
        self.to_string().lines().map(str::to_owned).collect()
    }

    pub fn views(&self) -> Vec<HostView> {
        self.hosts.iter().map(|(host, stand)| HostView::of(host.to_string(), stand)).collect()
    }
}

impl HostView {
    fn of(host: String, stand: &Stand) -> Self {
        Self {
            host,
            service: stand.service.clone(),
            state: stand.standing.word().to_owned(),
            problem: stand.standing.problem().map(str::to_owned),
            notes: stand.notes.clone(),
        }
    }
}

/// As a diff: a line for each change, nothing if there is none.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                Step::PutConfiguration { .. } => {
                    self.changes.iter().try_for_each(|change| writeln!(f, "{}", change.in_tunnel()))?;
                }
                Step::CreateTag { .. }
                | Step::CreateApp { .. }
                | Step::UpdateApp { .. }
                | Step::DeleteApp { .. }
                | Step::CreateRecord { .. }
                | Step::UpdateRecord { .. }
                | Step::DeleteRecord { .. } => writeln!(f, "{step}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateTag { name } => write!(f, "+ access  tag {name}"),
            Self::CreateApp { host, policies, .. } => write!(f, "+ access  {host} (policies: {policies})"),
            Self::UpdateApp { host, policies, .. } => write!(f, "~ access  {host} (policies: {policies})"),
            Self::DeleteApp { host, .. } => write!(f, "- access  {host}"),
            Self::PutConfiguration { version, .. } => write!(f, "~ tunnel  after version {version}"),
            Self::CreateRecord { record, .. } => write!(f, "+ dns     {record}"),
            Self::UpdateRecord { record, .. } => write!(f, "~ dns     {record}"),
            Self::DeleteRecord { name, .. } => write!(f, "- dns     {name}"),
        }
    }
}

impl fmt::Display for NewRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CNAME {} ({})", self.name, self.content, self.comment)
    }
}
