//! Which containers were told to stop, by the gate or by others, and how they ended: Docker forgets the one, and the
//! other as soon as it has started a container again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use swarmgate_core::state::docker::Death;

use crate::engine::events::Event;

/// SIGINT, SIGQUIT, SIGKILL and SIGTERM: what a container is stopped by. Others, such as SIGHUP, mean something else.
const STOP_SIGNALS: [&str; 4] = ["2", "3", "9", "15"];

/// What was heard of each container. Shared.
#[derive(Debug, Clone, Default)]
pub struct Stops {
    by_container: Arc<Mutex<BTreeMap<String, Heard>>>,
}

/// By the engine's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heard {
    /// When it was told to stop last.
    pub told: Option<Timestamp>,
    /// How it ended last.
    pub death: Option<Death>,
}

impl Stops {
    pub fn of(&self, id: &str) -> Heard {
        self.lock().get(id).copied().unwrap_or_default()
    }

    pub fn note(&self, id: &str, at: Timestamp) {
        self.lock().entry(id.to_owned()).or_default().told = Some(at);
    }

    /// A signal that somebody had sent to a container (SIGKILL follows SIGTERM where that was not enough), or its end.
    pub fn see(&self, event: &Event) {
        let (Some(at), "container") = (event.time, event.kind.as_str()) else { return };
        let attribute = |name| event.attributes.get(name).map(String::as_str).unwrap_or_default();
        match event.action.as_str() {
            "kill" if STOP_SIGNALS.contains(&attribute("signal")) => self.note(&event.id, at),
            "die" => {
                let death = attribute("exitCode").parse().ok().map(|exit_code| Death { at, exit_code });
                self.lock().entry(event.id.clone()).or_default().death = death;
            }
            _ => {}
        }
    }

    /// Forgets all but these.
    pub fn keep<'a>(&self, ids: impl Iterator<Item = &'a String>) {
        let ids: BTreeSet<&String> = ids.collect();
        self.lock().retain(|id, _| ids.contains(id));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Heard>> {
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
            assert_eq!(stops.of("c").told, time.filter(|_| is_a_stop), "{event:?}");
            stops.keep([].iter());
            assert_eq!(stops.of("c"), Heard::default());
        }
    }

    #[test]
    fn an_end_is_known_by_its_exit_code() {
        for (action, code, death) in
            [("die", "137", Some(137)), ("die", "0", Some(0)), ("die", "", None), ("start", "1", None)]
        {
            let (stops, at) = (Stops::default(), Timestamp::UNIX_EPOCH);
            let attributes = [("exitCode".to_owned(), code.to_owned())].into();
            let (kind, action) = ("container".into(), action.into());
            let event = Event { kind, action, id: "c".into(), time: Some(at), attributes };
            stops.see(&event);
            let death = death.map(|exit_code| Death { at, exit_code });
            assert_eq!(stops.of("c"), Heard { told: None, death }, "{event:?}");
        }
    }
}
