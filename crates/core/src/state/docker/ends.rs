//! How containers end that nobody told to stop.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::api::Container;
use super::{Death, Found, exit, outcome};
use crate::alert::{Kind, Sight, Trouble, When};
use crate::service::State;
use crate::state::sight;

/// How long after an end Docker may tell of it.
const TOLD_WITHIN: SignedDuration = SignedDuration::from_secs(5);

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    kind: Kind,
    what: String,
    at: Option<Timestamp>,
    /// How often Docker has started it again since somebody started it.
    restarts: u64,
}

impl End {
    /// What the state does not call an end of its own is one that was asked for, or none.
    pub(super) fn of(container: &Container, state: &State, death: Option<Death>) -> Option<Self> {
        let now = &container.state;
        let (kind, what, at) = match state {
            State::Restarting { .. } | State::Failed { .. } => match (now.error.as_str(), now.exit_code) {
                ("", 0) => return None,
                ("", _) if now.oom_killed => (Kind::OutOfMemory, outcome(now), now.finished_at),
                ("", _) => (Kind::Crashed, outcome(now), now.finished_at),
                (error, _) => {
                    (Kind::CannotStart, format!("Docker could not start it: {error}"), now.finished_at)
                }
            },
            // Docker has started it again already, and with that forgotten how it ended. Its count begins anew when
            // somebody starts it.
            State::Running(_) | State::Starting { .. } if container.restart_count > 0 => {
                let finished = now.finished_at?;
                let of_this_end = |death: &Death| death.at.duration_since(finished).abs() <= TOLD_WITHIN;
                let death = death.filter(of_this_end).filter(|death| death.exit_code != 0)?;
                (Kind::Crashed, exit(death.exit_code), Some(finished))
            }
            State::Asleep
            | State::Starting { .. }
            | State::Running(_)
            | State::Stopping
            | State::Unknown { .. } => return None,
        };
        let is_started_again = !matches!(state, State::Failed { .. });
        let what = format!("{what}, {}", container.last_run(is_started_again));
        Some(Self { kind, what, at, restarts: container.restart_count })
    }
}

/// Follows the ends of containers from one listing to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ends {
    /// The last end of each container, by id; `None` before the first listing.
    known: Option<BTreeMap<String, End>>,
}

impl Ends {
    /// All of `found`, with what has happened since the last one. What was over before the first is not told.
    pub fn saw<'a>(&mut self, found: impl IntoIterator<Item = &'a Found>) -> Vec<Sight> {
        let before = self.known.take();
        let mut known = BTreeMap::new();
        let mut sights = Vec::new();
        for found in found {
            let last = before.as_ref().and_then(|before| before.get(&found.id));
            let new = found
                .end
                .as_ref()
                .filter(|end| before.is_some() && last.is_none_or(|last| last.at != end.at));
            sights.push(sight(&found.service, new.map(|end| end.trouble(last).of_run(&found.id))));
            // A run between two ends does not make the earlier one news again.
            if let Some(end) = found.end.as_ref().or(last) {
                known.insert(found.id.clone(), end.clone());
            }
        }
        self.known = Some(known);
        sights
    }
}

impl End {
    /// Docker may have started it more than once since it ended at `last`.
    fn trouble(&self, last: Option<&Self>) -> Trouble {
        let more = last.and_then(|last| self.restarts.checked_sub(last.restarts)).unwrap_or(1).max(1);
        let times = u32::try_from(more).unwrap_or(u32::MAX);
        Trouble { when: When::Since(times), ..Trouble::once(self.kind, self.what.clone()) }
    }
}
