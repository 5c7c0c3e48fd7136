//! Metrics under the names that swarmctl gave them, so that its dashboards go on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::services::{MOST, OTHERS};
use super::{Count, OneMore, lock};

/// Services of the Swarm need not be the gate's: a name of which nothing was heard for this long is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const ACTIONS: [&str; 3] = ["create", "update", "remove"];
const STATUSES: [&str; 2] = ["success", "error"];

type Owned<const N: usize> = [(&'static str, String); N];
type Timed<const N: usize> = Family<Owned<N>, Histogram, fn() -> Histogram>;

#[derive(Debug, Clone)]
pub(super) struct Swarmctl {
    requests: Family<Owned<3>, Counter>,
    request_seconds: Timed<2>,
    answering: Gauge,
    pub(super) auth_failures: Counter,
    pub(super) rate_limited: Counter,
    names: Arc<Mutex<BTreeMap<String, Instant>>>,
    updates: Family<Owned<2>, Counter>,
    update_seconds: Timed<1>,
    events: Family<Owned<2>, Counter>,
    syncs: Count<1>,
    sync_seconds: Histogram,
    notes: Count<1>,
    pushover: Count<1>,
    recent: Gauge,
}

impl Default for Swarmctl {
    fn default() -> Self {
        let request = || Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        let update = || Histogram::new([0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]);
        Self {
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(request),
            answering: Gauge::default(),
            auth_failures: Counter::default(),
            rate_limited: Counter::default(),
            names: Arc::default(),
            updates: Family::default(),
            update_seconds: Family::new_with_constructor(update),
            events: Family::default(),
            syncs: Family::default(),
            sync_seconds: Histogram::new([0.1, 0.5, 1.0, 2.5, 5.0, 10.0]),
            notes: Family::default(),
            pushover: Family::default(),
            recent: Gauge::default(),
        }
    }
}

impl Swarmctl {
    pub(super) fn answering(&self) -> OneMore {
        OneMore::of(self.answering.clone())
    }

    pub(super) fn answered(&self, method: &str, endpoint: &str, status: u16, took: Duration) {
        let method = known(&METHODS, method, "OTHER");
        let labels = [("method", method.to_owned()), ("endpoint", endpoint.to_owned())];
        self.request_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        let [method, endpoint] = labels;
        self.requests.get_or_create(&[method, endpoint, ("status_code", status.to_string())]).inc();
    }

    pub(super) fn updated(&self, service: Option<&str>, ok: bool, took: Duration, now: Instant) {
        let service = service.map_or_else(|| OTHERS.to_owned(), |service| self.name(service, now));
        let labels = [("service_name", service.clone()), ("status", status(ok).to_owned())];
        self.updates.get_or_create(&labels).inc();
        self.update_seconds.get_or_create(&[("service_name", service)]).observe(took.as_secs_f64());
    }

    pub(super) fn event(&self, action: &str, service: &str, now: Instant) {
        let action = known(&ACTIONS, action, OTHERS);
        let labels = [("event_type", action.to_owned()), ("service_name", self.name(service, now))];
        self.events.get_or_create(&labels).inc();
    }

    pub(super) fn synced(&self, ok: bool, took: Duration) {
        self.syncs.get_or_create(&[("status", status(ok))]).inc();
        self.sync_seconds.observe(took.as_secs_f64());
    }

    pub(super) fn notified(&self, messenger: &'static str, ok: bool, count: u64) {
        let labels = [("status", status(ok))];
        self.notes.get_or_create(&labels).inc_by(count);
        if messenger == "pushover" {
            self.pushover.get_or_create(&labels).inc_by(count);
        }
    }

    pub(super) fn recent_events(&self, count: i64) {
        self.recent.set(count);
    }

    /// What stands for a service in a label.
    fn name(&self, service: &str, now: Instant) -> String {
        let mut names = lock(&self.names);
        if names.len() >= MOST && !names.contains_key(service) {
            return OTHERS.to_owned();
        }
        names.insert(service.to_owned(), now);
        service.to_owned()
    }

    fn forget(&self, now: Instant) {
        let old = |heard: &Instant| now.saturating_duration_since(*heard) >= FORGOTTEN;
        for (service, _) in lock(&self.names).extract_if(.., |_, heard| old(heard)) {
            let service = ("service_name", service);
            for status in STATUSES {
                self.updates.remove(&[service.clone(), ("status", status.to_owned())]);
            }
            for action in ACTIONS.iter().chain(&[OTHERS]) {
                self.events.remove(&[("event_type", (*action).to_owned()), service.clone()]);
            }
            self.update_seconds.remove(&[service]);
        }
    }

    pub(super) fn register(&self, to: &mut Registry, now: Instant) {
        self.forget(now);
        to.register(
            "http_requests",
            "HTTP requests answered, those for metrics aside",
            self.requests.clone(),
        );
        let seconds = self.request_seconds.clone();
        to.register("http_request_duration_seconds", "How long their answers took", seconds);
        let answering = self.answering.clone();
        to.register("active_connections", "HTTP requests that are being answered", answering);
        let failures = self.auth_failures.clone();
        to.register("auth_failures", "HTTP requests without a token, or with a wrong one", failures);
        let limited = self.rate_limited.clone();
        to.register("rate_limited_requests", "HTTP requests that came too often", limited);
        to.register("docker_service_updates", "Changes of a service's image over HTTP", self.updates.clone());
        let seconds = self.update_seconds.clone();
        to.register("docker_service_update_duration_seconds", "How long they took", seconds);
        to.register("docker_events", "Events of services of the Swarm", self.events.clone());
        to.register("cloudflare_sync", "Comparisons with Cloudflare, by how they ended", self.syncs.clone());
        let seconds = self.sync_seconds.clone();
        to.register("cloudflare_sync_duration_seconds", "How long they took", seconds);
        to.register("notifications", "Messages to people, by how that ended", self.notes.clone());
        let pushover = self.pushover.clone();
        to.register("pushover_notifications", "Those of them that went to Pushover", pushover);
        let recent = self.recent.clone();
        to.register(
            "recent_events_count",
            "Troubles that are remembered, so as not to be told again",
            recent,
        );
    }
}

const fn status(ok: bool) -> &'static str {
    let [success, error] = STATUSES;
    if ok { success } else { error }
}

fn known(words: &[&'static str], word: &str, otherwise: &'static str) -> &'static str {
    words.iter().find(|known| **known == word).copied().unwrap_or(otherwise)
}
