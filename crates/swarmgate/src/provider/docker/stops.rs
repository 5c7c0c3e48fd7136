//! Which containers were told to stop, by the gate or by others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::engine::events::Event;

/// SIGINT, SIGQUIT, SIGKILL and SIGTERM: what a container is stopped by. Others, such as SIGHUP, mean something else.
const STOP_SIGNALS: [&str; 4] = ["2", "3", "9", "15"];

/// When each was told to stop last, by the engine's clock. Shared.
#[derive(Debug, Clone, Default)]
pub struct Stops {
    by_container: Arc<Mutex<BTreeMap<String, Timestamp>>>,
}

impl Stops {
    pub fn of(&self, id: &str) -> Option<Timestamp> {
        self.lock().get(id).copied()
    }

    pub fn note(&self, id: &str, at: Timestamp) {
        self.lock().insert(id.to_owned(), at);
    }

    /// A signal that somebody had sent to a container; SIGKILL follows SIGTERM where that was not enough.
    pub fn see(&self, event: &Event) {
        let signal = event.attributes.get("signal").map(String::as_str).unwrap_or_default();
        let is_a_stop = event.kind == "container" && event.action == "kill" && STOP_SIGNALS.contains(&signal);
        if let Some(time) = event.time.filter(|_| is_a_stop) {
            self.note(&event.id, time);
        }
    }

    /// Forgets all but these.
    pub fn keep(&self, ids: &[String]) {
        self.lock().retain(|id, _| ids.contains(id));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.by_container.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_stops_is_a_stop() {
        for (kind, action, signal, is_a_stop) in [
            ("container", "kill", "15", true),
            ("container", "kill", "9", true),
            ("container", "kill", "1", false),
            ("container", "die", "15", false),
            ("network", "kill", "15", false),
        ] {
            let stops = Stops::default();
            let time = Some(Timestamp::UNIX_EPOCH);
            let attributes = [("signal".to_owned(), signal.to_owned())].into();
            let event = Event { kind: kind.into(), action: action.into(), id: "c".into(), time, attributes };
            stops.see(&event);
            assert_eq!(stops.of("c"), time.filter(|_| is_a_stop), "{event:?}");
            stops.keep(&[]);
            assert_eq!(stops.of("c"), None);
        }
    }
}
