//! What Prometheus is told. Labels come from configuration and from fixed words, never from strangers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use swarmgate_core::fleet::Report;
use swarmgate_core::ladder::{Landing, Rung};
use swarmgate_core::publish::plan::Plan;

use crate::gateway::door::{Door, Room};
use crate::gateway::relay::Counters;

#[derive(Debug, Default, Clone)]
pub struct Metrics {
    connections: Counter,
    openings_failed: Family<Kind, Counter>,
    verdicts: Family<VerdictLabel, Counter>,
    refusals: Family<Kind, Counter>,
    sessions: Family<ServiceLabel, Counter>,
    session_errors: Family<Kind, Counter>,
    waits: Family<RungLabel, Counter>,
    rungs_refused: Family<RefusedLabel, Counter>,
    limbo_ends: Family<EndLabel, Counter>,
    returns: Counter,
    proofs: Counter,
    state_changes: Family<ChangeLabel, Counter>,
    publication: Publication,
    notes: Family<NoteLabel, Counter>,
    notes_queued: Family<MessengerLabel, Gauge>,
    pub relayed: Arc<Counters>,
}

/// Of the publication through Cloudflare; its first two under the names that swarmctl gave them.
#[derive(Debug, Clone)]
struct Publication {
    syncs: Family<StatusLabel, Counter>,
    durations: Histogram,
    hosts: Family<StandingLabel, Gauge>,
    tunnel: Family<StatusText, Gauge>,
}

impl Default for Publication {
    fn default() -> Self {
        const SECONDS: [f64; 6] = [0.1, 0.5, 1.0, 2.5, 5.0, 10.0];
        Self {
            syncs: Family::default(),
            durations: Histogram::new(SECONDS),
            hosts: Family::default(),
            tunnel: Family::default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusText {
    status: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StandingLabel {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabel {
    verdict: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RungLabel {
    rung: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabel {
    rung: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabel {
    rung: &'static str,
    end: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServiceLabel {
    service: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    service: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChangeLabel {
    service: String,
    to: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoteLabel {
    messenger: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MessengerLabel {
    messenger: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabel {
    version: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

impl Metrics {
    pub fn connected(&self) {
        self.connections.inc();
    }

    pub fn opening_failed(&self, kind: &'static str) {
        self.openings_failed.get_or_create(&Kind { kind }).inc();
    }

    pub fn decided(&self, verdict: &'static str) {
        self.verdicts.get_or_create(&VerdictLabel { verdict }).inc();
    }

    pub fn refused(&self, kind: &'static str) {
        self.refusals.get_or_create(&Kind { kind }).inc();
    }

    pub fn joined(&self, service: String) {
        self.sessions.get_or_create(&ServiceLabel { service }).inc();
    }

    pub fn session_failed(&self, kind: &'static str) {
        self.session_errors.get_or_create(&Kind { kind }).inc();
    }

    /// A player begins to wait.
    pub fn waits(&self, landing: &Landing) {
        self.waits.get_or_create(&RungLabel { rung: landing.rung.word() }).inc();
        self.refused_rungs(landing);
    }

    /// Why each rung above was not for this player.
    pub fn refused_rungs(&self, landing: &Landing) {
        for (rung, reason) in &landing.refused {
            let label = RefusedLabel { rung: rung.word(), reason: reason.kind() };
            self.rungs_refused.get_or_create(&label).inc();
        }
    }

    pub fn limbo_ended(&self, rung: Rung, end: &'static str) {
        self.limbo_ends.get_or_create(&EndLabel { rung: rung.word(), end }).inc();
    }

    /// A player is back whom the gate sent back to itself.
    pub fn returned(&self) {
        self.returns.inc();
    }

    /// A player has proven its account.
    pub fn proven(&self) {
        self.proofs.inc();
    }

    pub fn changed(&self, service: String, to: &'static str) {
        self.state_changes.get_or_create(&ChangeLabel { service, to }).inc();
    }

    /// A comparison with Cloudflare has ended, and all that was due was done, or not.
    pub fn synced(&self, ok: bool, took: Duration) {
        let status = if ok { "success" } else { "error" };
        self.publication.syncs.get_or_create(&StatusLabel { status }).inc();
        self.publication.durations.observe(took.as_secs_f64());
    }

    /// How many hostnames stand how, and the tunnel's own word for its state.
    pub fn published(&self, plan: &Plan, tunnel: Option<&str>) {
        self.publication.hosts.clear();
        for stand in plan.hosts.values() {
            let state = stand.standing.word();
            self.publication.hosts.get_or_create(&StandingLabel { state }).inc();
        }
        self.publication.tunnel.clear();
        if let Some(status) = tunnel {
            let status = status.chars().take(32).collect();
            self.publication.tunnel.get_or_create(&StatusText { status }).set(1);
        }
    }

    /// What has become of messages to people: `sent`, `failed` or `dropped`.
    pub fn notified(&self, messenger: &'static str, outcome: &'static str, count: u64) {
        if count > 0 {
            self.notes.get_or_create(&NoteLabel { messenger, outcome }).inc_by(count);
        }
    }

    /// So many more of them wait, or fewer.
    pub fn note_queued(&self, messenger: &'static str, more: i64) {
        self.notes_queued.get_or_create(&MessengerLabel { messenger }).inc_by(more);
    }

    /// Everything in the text format that Prometheus and OpenMetrics share.
    pub fn encode(
        &self,
        services: &[Report],
        door: &Door,
        in_limbo: usize,
    ) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::default();
        let ours = registry.sub_registry_with_prefix("swarmgate");
        self.register_counters(ours);
        register_services(ours, services);
        register_door(ours, door, in_limbo);
        let hosts = self.publication.hosts.clone();
        ours.register("published_hosts", "Hostnames at Cloudflare, by how they stand", hosts);
        let tunnel = self.publication.tunnel.clone();
        ours.register("tunnel_status", "1 for the word that Cloudflare has for the tunnel's state", tunnel);
        let theirs = registry.sub_registry_with_prefix("swarmctl");
        let syncs = self.publication.syncs.clone();
        theirs.register("cloudflare_sync", "Comparisons with Cloudflare, by how they ended", syncs);
        let durations = self.publication.durations.clone();
        theirs.register("cloudflare_sync_duration_seconds", "How long they took", durations);
        let mut page = String::new();
        text::encode(&mut page, &registry)?;
        Ok(page)
    }

    fn register_counters(&self, registry: &mut Registry) {
        // Prometheus' own text format knows no type "info".
        let build = Family::<BuildLabel, Gauge>::default();
        build.get_or_create(&BuildLabel { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("build_info", "The running build", build);
        registry.register("connections", "Connections accepted", self.connections.clone());
        registry.register(
            "openings_failed",
            "Connections closed before they said what they want",
            self.openings_failed.clone(),
        );
        registry.register("verdicts", "Decisions about connections", self.verdicts.clone());
        registry.register("refusals", "Connections refused, by reason", self.refusals.clone());
        registry.register("sessions", "Players relayed to a service", self.sessions.clone());
        registry.register(
            "session_errors",
            "Sessions that did not end in good order",
            self.session_errors.clone(),
        );
        registry.register("waits", "Players who began to wait, by rung of the ladder", self.waits.clone());
        registry.register(
            "rungs_refused",
            "Rungs of the ladder that were not for a player, by reason",
            self.rungs_refused.clone(),
        );
        registry.register(
            "limbo_ends",
            "Waits in the world or the room that ended, by how",
            self.limbo_ends.clone(),
        );
        registry.register("returns", "Players who came back from a wait", self.returns.clone());
        registry.register(
            "proofs",
            "Players who proved their accounts to wake a service",
            self.proofs.clone(),
        );
        registry.register("state_changes", "Changes of a service's state", self.state_changes.clone());
        registry.register("notifications", "Messages to people, by what became of them", self.notes.clone());
        registry.register(
            "notifications_queued",
            "Messages to people that wait to be sent",
            self.notes_queued.clone(),
        );
        let relayed = Family::<Direction, Counter>::default();
        for (direction, count) in [("up", &self.relayed.up), ("down", &self.relayed.down)] {
            relayed.get_or_create(&Direction { direction }).inc_by(count.load(Ordering::Relaxed));
        }
        registry.register("relayed_bytes", "Bytes relayed, up to servers and down to players", relayed);
    }
}

fn register_services(registry: &mut Registry, services: &[Report]) {
    let states = Family::<StateLabel, Gauge>::default();
    let seats = Family::<ServiceLabel, Gauge>::default();
    let players = Family::<ServiceLabel, Gauge>::default();
    let problems = Family::<ServiceLabel, Gauge>::default();
    for report in services {
        let service = report.face.service.to_string();
        let label = ServiceLabel { service: service.clone() };
        states.get_or_create(&StateLabel { service, state: report.face.state.word() }).set(1);
        seats.get_or_create(&label).set(number(report.seats));
        problems.get_or_create(&label).set(number(report.problems.len()));
        if let Some(online) = report.online {
            players.get_or_create(&label).set(online.into());
        }
    }
    registry.register("service_state", "1 for the state each service is in", states);
    registry.register("service_seats", "Connections that hold a seat in a service", seats);
    registry.register("service_players", "Players in a service, by the game's own count", players);
    registry.register("service_problems", "What is wrong with a service beside its state", problems);
}

fn register_door(registry: &mut Registry, door: &Door, in_limbo: usize) {
    let gauge = |count| {
        let gauge = Gauge::<i64>::default();
        gauge.set(number(count));
        gauge
    };
    registry.register("connections_open", "Connections open now", gauge(door.connections()));
    registry.register(
        "connections_half_open",
        "Connections that have not said yet what they want",
        gauge(door.in_room(Room::HalfOpen)),
    );
    let held = gauge(door.in_room(Room::Held));
    registry.register("players_waiting", "Players who wait for a server on the open connection", held);
    let in_limbo = gauge(in_limbo);
    registry.register("players_in_limbo", "Players who wait for a server in the world or the room", in_limbo);
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
