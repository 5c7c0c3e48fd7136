//! What is counted for each service. One that is gone is forgotten with the next page.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use swarmgate_core::fleet::Report;
use swarmgate_core::service::ServiceId;

use super::{OneMore, lock, number};

/// What is more than that is counted together, as [`OTHERS`].
pub(super) const MOST: usize = 1000;
pub(super) const OTHERS: &str = "other";

#[derive(Debug, Clone, Default)]
pub(super) struct Services(Arc<Mutex<BTreeMap<String, Counted>>>);

#[derive(Debug, Default)]
struct Counted {
    sessions: Counter,
    open: Gauge,
    changes: BTreeMap<&'static str, u64>,
}

/// By service, and by service and state.
type OfService<M> = Family<[(&'static str, String); 1], M>;
type OfState<M> = Family<[(&'static str, String); 2], M>;
type Seconds = Counter<f64, AtomicU64>;

impl Services {
    pub(super) fn joined(&self, service: &ServiceId) -> OneMore {
        self.count(service, |counted| {
            counted.sessions.inc();
            OneMore::of(counted.open.clone())
        })
    }

    pub(super) fn changed(&self, service: &ServiceId, to: &'static str) {
        self.count(service, |counted| *counted.changes.entry(to).or_default() += 1);
    }

    fn count<R>(&self, service: &ServiceId, act: impl FnOnce(&mut Counted) -> R) -> R {
        let mut all = lock(&self.0);
        let mut name = service.to_string();
        if all.len() >= MOST && !all.contains_key(&name) {
            OTHERS.clone_into(&mut name);
        }
        act(all.entry(name).or_default())
    }

    /// `known` are the services that there are.
    pub(super) fn register(&self, to: &mut Registry, known: &[Report]) {
        self.register_counted(to, known);
        register_shown(to, known.get(..MOST).unwrap_or(known));
    }

    fn register_counted(&self, to: &mut Registry, known: &[Report]) {
        let (sessions, open) = (OfService::<Counter>::default(), OfService::<Gauge>::default());
        let changes = OfState::<Counter>::default();
        let known: Vec<String> = known.iter().map(|report| report.face.service.to_string()).collect();
        let mut all = lock(&self.0);
        all.retain(|name, counted| name == OTHERS || counted.open.get() > 0 || known.contains(name));
        for (name, counted) in &*all {
            let label = [("service", name.clone())];
            sessions.get_or_create(&label).inc_by(counted.sessions.get());
            open.get_or_create(&label).set(counted.open.get());
            for (state, count) in &counted.changes {
                let label = [("service", name.clone()), ("to", (*state).to_owned())];
                changes.get_or_create(&label).inc_by(*count);
            }
        }
        drop(all);
        to.register("sessions", "Players relayed to a service", sessions);
        to.register("sessions_open", "Players relayed to a service now", open);
        to.register("state_changes", "Changes of a service's state", changes);
    }
}

fn register_shown(to: &mut Registry, known: &[Report]) {
    let (states, lived) = (OfState::<Gauge>::default(), OfState::<Seconds>::default());
    let (seats, players) = (OfService::<Gauge>::default(), OfService::<Gauge>::default());
    let problems = OfService::<Gauge>::default();
    let boots = OfService::<Gauge<f64, AtomicU64>>::default();
    for report in known {
        let name = || report.face.service.to_string();
        let (label, with) =
            ([("service", name())], |state: &str| [("service", name()), ("state", state.to_owned())]);
        states.get_or_create(&with(report.face.state.word())).set(1);
        for (state, time) in &report.lived {
            lived.get_or_create(&with(state)).inc_by(time.as_secs_f64());
        }
        seats.get_or_create(&label).set(number(report.seats));
        problems.get_or_create(&label).set(number(report.problems.len()));
        if let Some(online) = report.online {
            players.get_or_create(&label).set(online.into());
        }
        if let Some(boot) = report.face.learned.boot_time() {
            boots.get_or_create(&label).set(boot.as_secs_f64());
        }
    }
    to.register("service_state", "1 for the state that a service is in", states);
    to.register("service_state_seconds", "How long a service has been in each state, asleep for one", lived);
    to.register(
        "service_seats",
        "Connections that hold a seat in a service, those that wait included",
        seats,
    );
    to.register("service_players", "Players in a service, by the game's own count", players);
    to.register("service_problems", "What is wrong with a service beside its state", problems);
    to.register("service_usual_boot_seconds", "How long a service usually takes to start", boots);
}
