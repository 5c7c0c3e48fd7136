//! Services that were removed while a task of theirs goes on: one that is created under the same name has, as
//! like as not, the same world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use swarmgate_core::service::State;
use swarmgate_core::state::swarm::survey::{Survey, Surveyed};

/// The ids that names had before, as long as tasks of them may run.
#[derive(Debug, Default)]
pub struct Earlier {
    ids: BTreeMap<Arc<str>, BTreeSet<String>>,
}

impl Earlier {
    /// Takes in what was `known` and is `found` now, where players wait for an earlier task as for any stop.
    pub fn saw(
        &mut self,
        known: &BTreeMap<Arc<str>, Surveyed>,
        found: &mut [Surveyed],
        survey: &Survey,
        now: Timestamp,
    ) {
        for (name, before) in known {
            if !found.iter().any(|found| found.id == before.id) {
                self.ids.entry(Arc::clone(name)).or_default().insert(before.id.clone());
            }
        }
        self.ids.retain(|name, ids| {
            ids.retain(|id| survey.may_still_run(id, now).is_some());
            if let Some(found) = found.iter_mut().find(|found| found.service.id.name == *name) {
                ids.remove(&found.id);
                if !ids.is_empty() && found.service.state == State::Asleep {
                    found.service.state = State::Stopping;
                }
            }
            !ids.is_empty()
        });
    }

    /// Whether services of this name were removed while their tasks went on.
    pub fn has(&self, name: &str) -> bool {
        self.ids.contains_key(name)
    }

    /// Why none may be started now under this name.
    pub fn may_still_run(&self, name: &str, survey: &Survey, now: Timestamp) -> Option<String> {
        self.ids.get(name)?.iter().find_map(|id| survey.may_still_run(id, now))
    }
}
