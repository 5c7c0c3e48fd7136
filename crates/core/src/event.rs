//! What is worth telling a person.

use std::time::Duration;

use crate::routes::Conflict;
use crate::service::ServiceId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A service went from one state to another; `from` and `to` are the lexicon's words.
    Changed {
        service: ServiceId,
        from: &'static str,
        to: &'static str,
        why: String,
    },
    /// A service that the gate has started takes players.
    Woken {
        service: ServiceId,
        /// Since it was asked for.
        waited: Duration,
        /// Since it was told to start.
        booted: Duration,
    },
    /// Something is wrong with it beside its state: a sentence with the fix. Each is told once a run.
    Problem {
        service: ServiceId,
        problem: String,
    },
    RouteConflict(Conflict),
    /// Somebody else stopped it while players were in it.
    StoppedWithPlayers {
        service: ServiceId,
        seats: usize,
        online: u32,
    },
    /// A hostname is published, withdrawn, in conflict, … or no longer: `state` is a word of
    /// [`Standing`](crate::publish::plan::Standing).
    Publication {
        host: String,
        service: String,
        state: &'static str,
        /// A sentence with the fix.
        problem: Option<String>,
    },
    /// Nothing can be published, in a sentence with the fix; or it can be again.
    Publishing {
        problem: Option<String>,
    },
    /// Somebody else changed rules of a tunnel that are the gate's own.
    Tampered {
        /// Each as `hostname path`.
        rules: Vec<String>,
    },
}
