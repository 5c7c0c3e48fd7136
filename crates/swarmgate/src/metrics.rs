//! What Prometheus is told. Labels come from fixed words and from the names of services, never from strangers.

mod calls;
mod process;
mod services;
mod swarmctl;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use swarmgate_core::fleet::Report;
use swarmgate_core::ladder::{Landing, Rung};
use swarmgate_core::publish::plan::Plan;
use swarmgate_core::service::{ServiceId, SourceId};

use self::calls::Calls;
use self::process::Process;
use self::services::Services;
use self::swarmctl::Swarmctl;
use crate::build;
use crate::gateway::door::{Door, Room};
use crate::gateway::relay::Counters;

/// Labels that are words of this program.
type Words<const N: usize> = [(&'static str, &'static str); N];
type Count<const N: usize> = Family<Words<N>, Counter>;
type Level<const N: usize> = Family<Words<N>, Gauge>;

/// A cheap handle.
#[derive(Debug, Default, Clone)]
pub struct Metrics {
    connections: Counter,
    openings_failed: Count<1>,
    verdicts: Count<1>,
    refusals: Count<1>,
    session_errors: Count<1>,
    waits: Count<1>,
    waiting: Level<1>,
    rungs_refused: Count<2>,
    limbo_ends: Count<2>,
    returns: Counter,
    proofs: Counter,
    services: Services,
    wakes: Wakes,
    publication: Arc<Mutex<Publication>>,
    engine: Calls,
    cloudflare: Calls,
    notes: Count<2>,
    notes_queued: Level<1>,
    swarmctl: Swarmctl,
    process: Process,
    pub relayed: Arc<Counters>,
}

/// What is looked at when the page is written.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    pub services: &'a [Report],
    /// Each with whether it answers.
    pub sources: &'a [(SourceId, bool)],
    /// Whether what is to be kept is kept, if anything is.
    pub kept: Option<bool>,
    pub door: &'a Door,
    pub in_limbo: usize,
}

/// One more of something, until it is dropped.
#[derive(Debug)]
pub struct OneMore(Gauge);

impl OneMore {
    fn of(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for OneMore {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Debug, Clone)]
struct Wakes {
    waited: Histogram,
    booted: Histogram,
}

impl Default for Wakes {
    /// From a small server on a fast disk to a large modpack.
    fn default() -> Self {
        const SECONDS: [f64; 14] =
            [1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0];
        Self { waited: Histogram::new(SECONDS), booted: Histogram::new(SECONDS) }
    }
}

/// How hostnames stood and the tunnel was when Cloudflare was looked at last.
#[derive(Debug, Default)]
struct Publication {
    hosts: BTreeMap<&'static str, i64>,
    tunnel: Option<String>,
}

impl Metrics {
    pub fn connected(&self) {
        self.connections.inc();
    }

    pub fn opening_failed(&self, kind: &'static str) {
        self.openings_failed.get_or_create(&[("kind", kind)]).inc();
    }

    pub fn decided(&self, verdict: &'static str) {
        self.verdicts.get_or_create(&[("verdict", verdict)]).inc();
    }

    pub fn refused(&self, kind: &'static str) {
        self.refusals.get_or_create(&[("kind", kind)]).inc();
    }

    /// A player is in `service` for as long as what this gives is kept.
    pub fn joined(&self, service: &ServiceId) -> OneMore {
        self.services.joined(service)
    }

    pub fn session_failed(&self, kind: &'static str) {
        self.session_errors.get_or_create(&[("kind", kind)]).inc();
    }

    /// A player begins to wait.
    pub fn waits(&self, landing: &Landing) {
        self.waits.get_or_create(&[("rung", landing.rung.word())]).inc();
        self.refused_rungs(landing);
    }

    /// A player waits on `rung` for as long as what this gives is kept.
    pub fn waiting(&self, rung: Rung) -> OneMore {
        OneMore::of(self.waiting.get_or_create_owned(&[("rung", rung.word())]))
    }

    /// Why each rung above was not for this player.
    pub fn refused_rungs(&self, landing: &Landing) {
        for (rung, reason) in &landing.refused {
            let labels = [("rung", rung.word()), ("reason", reason.kind())];
            self.rungs_refused.get_or_create(&labels).inc();
        }
    }

    pub fn limbo_ended(&self, rung: Rung, end: &'static str) {
        self.limbo_ends.get_or_create(&[("rung", rung.word()), ("end", end)]).inc();
    }

    /// A player is back whom the gate sent back to itself.
    pub fn returned(&self) {
        self.returns.inc();
    }

    /// A player has proven its account.
    pub fn proven(&self) {
        self.proofs.inc();
    }

    pub fn changed(&self, service: &ServiceId, to: &'static str) {
        self.services.changed(service, to);
    }

    /// A service takes players, so long after it was asked for and after it was told to start.
    pub fn woken(&self, waited: Duration, booted: Duration) {
        self.wakes.waited.observe(waited.as_secs_f64());
        self.wakes.booted.observe(booted.as_secs_f64());
    }

    /// A call to a Docker engine, and the word for how it ended.
    pub fn asked_engine(&self, endpoint: &'static str, outcome: &'static str, took: Duration) {
        self.engine.made(endpoint, outcome, took);
    }

    /// The same to Cloudflare.
    pub fn asked_cloudflare(&self, endpoint: &'static str, outcome: &'static str, took: Duration) {
        self.cloudflare.made(endpoint, outcome, took);
    }

    /// A comparison with Cloudflare has ended, and all that was due was done, or not.
    pub fn synced(&self, ok: bool, took: Duration) {
        self.swarmctl.synced(ok, took);
    }

    /// How many hostnames stand how, and the tunnel's own word for its state.
    pub fn published(&self, plan: &Plan, tunnel: Option<&str>) {
        let mut hosts = BTreeMap::new();
        for stand in plan.hosts.values() {
            *hosts.entry(stand.standing.word()).or_default() += 1;
        }
        let tunnel = tunnel.map(|status| status.chars().take(32).collect());
        *lock(&self.publication) = Publication { hosts, tunnel };
    }

    /// There is such a messenger.
    pub fn messenger(&self, messenger: &'static str) {
        drop(self.notes_queued.get_or_create(&[("messenger", messenger)]));
        for outcome in ["sent", "failed", "dropped"] {
            drop(self.notes.get_or_create(&[("messenger", messenger), ("outcome", outcome)]));
        }
    }

    /// What has become of messages to people: `sent`, `failed` or `dropped`.
    pub fn notified(&self, messenger: &'static str, outcome: &'static str, count: u64) {
        if count > 0 {
            let labels = [("messenger", messenger), ("outcome", outcome)];
            self.notes.get_or_create(&labels).inc_by(count);
            self.swarmctl.notified(messenger, outcome == "sent", count);
        }
    }

    /// So many more of them wait, or fewer.
    pub fn note_queued(&self, messenger: &'static str, more: i64) {
        self.notes_queued.get_or_create(&[("messenger", messenger)]).inc_by(more);
    }

    /// So many troubles are remembered now.
    pub fn troubles(&self, count: usize) {
        self.swarmctl.recent_events(number(count));
    }

    /// An HTTP request of somebody is being answered for as long as what this gives is kept.
    pub fn answering(&self) -> OneMore {
        self.swarmctl.answering()
    }

    /// It has been answered; `endpoint` is a route of this program.
    pub fn answered(&self, method: &str, endpoint: Option<&str>, status: u16, took: Duration) {
        self.swarmctl.answered(method, endpoint.unwrap_or("unmatched"), status, took);
    }

    /// It had no token, or a wrong one.
    pub fn unauthorized(&self) {
        self.swarmctl.auth_failures.inc();
    }

    /// It came too often.
    pub fn rate_limited(&self) {
        self.swarmctl.rate_limited.inc();
    }

    /// The image of a service was changed over HTTP, or could not be. `None`: there is no such service.
    pub fn service_updated(&self, service: Option<&str>, ok: bool, took: Duration) {
        self.swarmctl.updated(service, ok, took, Instant::now());
    }

    /// The engine says that something has happened to a service of the Swarm.
    pub fn service_event(&self, action: &str, service: &str) {
        self.swarmctl.event(action, service, Instant::now());
    }

    /// Everything in Prometheus' text format, which is of [`CONTENT_TYPE`].
    pub fn encode(&self, scene: Scene<'_>) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::default();
        let ours = registry.sub_registry_with_prefix("swarmgate");
        register_build(ours);
        self.register_players(ours, &scene);
        self.services.register(ours, scene.services);
        self.register_rest(ours, &scene);
        self.swarmctl.register(registry.sub_registry_with_prefix("swarmctl"), Instant::now());
        self.process.register(registry.sub_registry_with_prefix("process"));
        let mut page = String::new();
        encode(&mut page, &registry)?;
        Ok(page)
    }

    fn register_players(&self, to: &mut Registry, scene: &Scene<'_>) {
        to.register("connections", "Connections accepted", self.connections.clone());
        to.register("connections_open", "Connections open now", level(scene.door.connections()));
        let half_open = level(scene.door.in_room(Room::HalfOpen));
        to.register("connections_half_open", "Those that have not said yet what they want", half_open);
        let failed = self.openings_failed.clone();
        to.register("openings_failed", "Connections that ended before they said what they want", failed);
        to.register("verdicts", "Decisions about connections", self.verdicts.clone());
        to.register("refusals", "Connections refused", self.refusals.clone());
        let errors = self.session_errors.clone();
        to.register("session_errors", "Sessions that did not end in good order", errors);
        to.register("waits", "Players who began to wait", self.waits.clone());
        to.register("players_waiting", "Players who wait for a service now", self.waiting.clone());
        let in_limbo = level(scene.in_limbo);
        to.register(
            "players_in_limbo",
            "Places of limits.limbo_total taken, those of players on their way back included",
            in_limbo,
        );
        let refused = self.rungs_refused.clone();
        to.register(
            "rungs_refused",
            "Rungs of the ladder that were not for a player who had to wait",
            refused,
        );
        to.register("limbo_ends", "Waits in the world or the room that ended", self.limbo_ends.clone());
        to.register("returns", "Players who came back from a wait", self.returns.clone());
        to.register("proofs", "Players who proved their accounts to wake a service", self.proofs.clone());
        let relayed = Count::<1>::default();
        for (direction, count) in [("up", &self.relayed.up), ("down", &self.relayed.down)] {
            relayed.get_or_create(&[("direction", direction)]).inc_by(count.load(Ordering::Relaxed));
        }
        to.register("relayed_bytes", "Bytes relayed, up to servers and down to players", relayed);
    }

    fn register_rest(&self, to: &mut Registry, scene: &Scene<'_>) {
        let (waited, booted) = (self.wakes.waited.clone(), self.wakes.booted.clone());
        to.register("wake_seconds", "From when a service was asked for to when it took players", waited);
        to.register("boot_seconds", "From when a service was told to start to when it took players", booted);
        let sources = Level::<1>::default();
        for (source, answers) in scene.sources {
            sources.get_or_create(&[("source", source)]).set(i64::from(*answers));
        }
        to.register("source_up", "Whether a source of services answers", sources);
        if let Some(kept) = scene.kept {
            let kept = level(usize::from(kept));
            to.register(
                "store_ok",
                "Whether what outlives the gate can be written, as far as is known",
                kept,
            );
        }
        let engine = self.engine.seconds();
        to.register("engine_call_seconds", "Calls to the Docker engine", engine);
        let cloudflare = self.cloudflare.seconds();
        to.register("cloudflare_call_seconds", "Calls to Cloudflare", cloudflare);
        lock(&self.publication).register(to);
        to.register("notifications", "Messages to people, by what became of them", self.notes.clone());
        let queued = self.notes_queued.clone();
        to.register("notifications_queued", "Messages to people that wait to be sent", queued);
    }
}

impl Publication {
    fn register(&self, to: &mut Registry) {
        let (hosts, tunnel) = (Level::<1>::default(), Family::<[(&str, String); 1], Gauge>::default());
        for (state, count) in &self.hosts {
            hosts.get_or_create(&[("state", state)]).set(*count);
        }
        if let Some(status) = &self.tunnel {
            tunnel.get_or_create(&[("status", status.clone())]).set(1);
        }
        to.register("published_hosts", "Hostnames at Cloudflare, by how they stand", hosts);
        to.register("tunnel_status", "1 for the word that Cloudflare has for the tunnel's state", tunnel);
    }
}

fn register_build(to: &mut Registry) {
    let build = Level::<2>::default();
    build.get_or_create(&[("version", build::VERSION), ("commit", build::COMMIT)]).set(1);
    to.register("build_info", "The running build", build);
}

fn level(count: usize) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(number(count));
    gauge
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What is counted is consistent between any two of its changes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
