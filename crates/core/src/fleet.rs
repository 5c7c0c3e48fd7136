//! The fleet: every known service, who sits in it, and when it wakes and sleeps.
//!
//! All of it is decided here, in plain calls with the time as an argument. The caller holds one lock around
//! the [`Fleet`], carries out the [`Effect`]s it takes, and reports back what became of them.

mod admission;
mod guests;
mod record;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::api_routes;
use crate::config::value::nearest;
use crate::event::Event;
use crate::knock::Face;
use crate::learned::{Learned, Pin};
use crate::moment::Moment;
use crate::name::HostName;
use crate::routes::{Match, Routes};
use crate::service::{Clients, Endpoint, ProxyVersion, Ready, ServiceId, Snapshot, SourceId, State};
use crate::throttle::{Rate, Source, Throttle};
pub use guests::Caps;
use guests::Guests;
use record::Record;

/// What holds for all services together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub clients: Clients,
    /// Starts under way at one time; the others queue.
    pub waking_at_once: usize,
    /// Servers awake at one time; `None` for no limit.
    pub awake_at_once: Option<usize>,
    /// How often one source may wake a sleeping server.
    pub wake_rate: Rate,
    /// How many may wait in limbo at one time.
    pub limbo: Caps,
    /// Sources that no limit per source applies to.
    pub trusted: Vec<ipnet::IpNet>,
}

/// What the shell has to do. Each scale and each probe is answered by exactly one report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Report with [`Fleet::scaled`], before the next [`Fleet::observe`] that shows its result, and list
    /// the source again after it.
    Scale {
        service: ServiceId,
        up: bool,
    },
    /// Report with [`Fleet::probed`].
    Probe(Probe),
    /// Keep this over restarts.
    Remember {
        service: ServiceId,
        learned: Arc<Learned>,
    },
    Tell(Event),
}

/// One look at a running game.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub service: ServiceId,
    pub run: Arc<str>,
    pub endpoints: Vec<Endpoint>,
    pub how: Ready,
    pub proxy: Option<ProxyVersion>,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    /// The game answered a status ping. `online` is `None` if the answer does not say.
    Answered {
        online: Option<u32>,
        status: serde_json::Value,
    },
    /// The port took a connection.
    Accepted,
    Silent {
        reason: String,
    },
}

/// What everybody may know: the state of each service, as published on every change.
pub type View = BTreeMap<ServiceId, Face>;

/// One service, in full, for people and programs that ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub face: Face,
    pub since: Moment,
    /// How long it was in each state since the gate knows it, by the state's word.
    pub lived: BTreeMap<&'static str, Duration>,
    pub seats: usize,
    pub online: Option<u32>,
    pub scalable: bool,
    pub pin: Pin,
    /// Pinned awake, or in its warm hours.
    pub kept_awake: bool,
    /// Counts where the number of servers awake is limited.
    pub awake: bool,
    /// A start has been asked for and is not over: whoever joins waits for it.
    pub waking: bool,
    /// While a failure is fresh: how long until a join may try again.
    pub retry_in: Option<Duration>,
    /// When it will be put to sleep if nobody comes.
    pub sleeps_at: Option<Moment>,
    pub last_failure: Option<String>,
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("there is no service called '{name}'{}", near.as_ref().map(|near| format!("; did you mean '{near}'?")).unwrap_or_default())]
    NoSuchService { name: String, near: Option<String> },
    #[error("several services are called '{0}': {1}")]
    Ambiguous(String, String),
    #[error("{0} cannot be started or stopped by the gate: it has only an address")]
    NotScalable(ServiceId),
    #[error("{0} is pinned asleep; `swarmgate pin {name} none` ends that", name = .0.name)]
    PinnedAsleep(ServiceId),
    #[error("{0} is pinned awake; `swarmgate pin {name} none` ends that", name = .0.name)]
    PinnedAwake(ServiceId),
    #[error("{0} is {1}")]
    NotNow(ServiceId, &'static str),
    #[error("{service} has players in it ({seats} through the gate, {online} by the game's count); `swarmgate sleep {} --force` stops it all the same", service.name)]
    Occupied { service: ServiceId, seats: usize, online: u32 },
    #[error("{0}: the game did not say how many players it has, and unknown is not empty; `swarmgate sleep {name} --force` stops it all the same", name = .0.name)]
    UnknownPlayers(ServiceId),
    #[error("{0}: its orchestrator does not answer, so nothing is started or stopped")]
    Stale(ServiceId),
}

impl CommandError {
    /// For a service that was there a moment ago.
    pub fn gone(service: &ServiceId) -> Self {
        Self::NoSuchService { name: service.to_string(), near: None }
    }
}

#[derive(Debug)]
pub struct Fleet {
    policy: Policy,
    records: BTreeMap<ServiceId, Record>,
    /// What is remembered of services that are not there.
    recalled: BTreeMap<String, Arc<Learned>>,
    routes: Routes,
    throttle: Throttle,
    guests: Guests,
    /// What the wall clock said, and when: warm hours are the only thing that depends on it.
    wall: Option<(Moment, Timestamp)>,
    effects: Vec<Effect>,
    arrivals: u64,
    seats_taken: u64,
    changed: bool,
}

impl Fleet {
    /// Sources remembered by the wake limit, at most.
    const SOURCES_REMEMBERED: usize = 65_536;

    pub fn new(policy: Policy) -> Self {
        Self {
            throttle: Throttle::new(policy.wake_rate, Self::SOURCES_REMEMBERED),
            policy,
            records: BTreeMap::new(),
            recalled: BTreeMap::new(),
            routes: Routes::default(),
            guests: Guests::default(),
            wall: None,
            effects: Vec::new(),
            arrivals: 0,
            seats_taken: 0,
            changed: true,
        }
    }

    pub fn set_policy(&mut self, policy: Policy, now: Moment) {
        self.throttle.set_rate(policy.wake_rate);
        self.policy = policy;
        self.settle(now);
    }

    /// Gives back what an earlier run of the gate learned; `service` is a displayed [`ServiceId`].
    pub fn recall(&mut self, service: String, learned: Learned) {
        self.recalled.insert(service, Arc::new(learned));
    }

    /// All services of `source`, listed after every scale that was reported before.
    pub fn observe(&mut self, source: SourceId, snapshot: Snapshot, now: Moment) {
        let mut gone: Vec<ServiceId> =
            self.records.keys().filter(|id| id.source == source).cloned().collect();
        for service in snapshot.services {
            gone.retain(|id| *id != service.id);
            let record = self.records.entry(service.id.clone()).or_insert_with(|| {
                self.arrivals += 1;
                let learned = self.recalled.remove(&service.id.to_string()).unwrap_or_default();
                Record::new(service.id.clone(), Arc::clone(&service.spec), self.arrivals, learned, now)
            });
            record.observe(service, now);
        }
        for id in gone {
            if let Some(record) = self.records.get_mut(&id) {
                record.vanish();
            }
        }
        self.reroute();
        self.settle(now);
    }

    /// `source` does not answer: its services stay what they were, and nothing is scaled.
    pub fn lost(&mut self, source: SourceId, reason: &str, now: Moment) {
        for record in self.records.values_mut().filter(|record| record.id.source == source) {
            record.stale = Some(reason.to_owned());
        }
        self.settle(now);
    }

    /// What became of [`Effect::Scale`].
    pub fn scaled(&mut self, service: &ServiceId, up: bool, outcome: Result<(), String>, now: Moment) {
        if let Some(record) = self.records.get_mut(service) {
            record.scaled(up, outcome, now);
            self.forget_if_over(service);
            self.settle(now);
        }
    }

    /// What became of [`Effect::Probe`].
    pub fn probed(&mut self, service: &ServiceId, run: &str, found: Probed, now: Moment) {
        let Some(record) = self.records.get_mut(service) else { return };
        if let Some(learned) = record.probed(run, found, now) {
            self.effects.push(Effect::Remember { service: service.clone(), learned });
        }
        self.settle(now);
    }

    /// A running service takes no connections: `why`.
    pub fn unreached(&mut self, service: &ServiceId, why: String, now: Moment) {
        if let Some(record) = self.records.get_mut(service) {
            record.unreached(why, now);
            self.settle(now);
        }
    }

    /// What a service has said of its own start, as [`news`](crate::news) reads it.
    pub fn heard(&mut self, service: &ServiceId, news: String, now: Moment) {
        if let Some(record) = self.records.get_mut(service) {
            record.heard(news);
            self.settle(now);
        }
    }

    /// What the wall clock says at `now`. Without it no hours are warm.
    pub fn set_wall(&mut self, now: Moment, wall: Timestamp) {
        self.wall = Some((now, wall));
    }

    /// Does what is due at `now`. Call it at [`Self::next_deadline`], and at least once a minute, so that warm
    /// hours begin and end in time.
    pub fn tick(&mut self, now: Moment) {
        self.settle(now);
    }

    pub fn next_deadline(&self) -> Option<Moment> {
        self.records.values().filter_map(Record::next_deadline).chain(self.guests.next_deadline()).min()
    }

    /// Starts a service because a person said so. Limits for strangers do not apply.
    pub fn wake(&mut self, service: &ServiceId, now: Moment) -> Result<(), CommandError> {
        let record = self.record_mut(service)?;
        if !record.scalable {
            return Err(CommandError::NotScalable(service.clone()));
        }
        if record.stale.is_some() {
            return Err(CommandError::Stale(service.clone()));
        }
        if record.is_pinned_asleep() {
            return Err(CommandError::PinnedAsleep(service.clone()));
        }
        match record.shown.clone() {
            State::Asleep | State::Failed { .. } | State::Stopping | State::Unknown { .. } => {
                record.begin_wake("asked by an operator", now);
            }
            State::Starting { .. } | State::Running(_) | State::Restarting { .. } => {}
        }
        self.settle(now);
        Ok(())
    }

    /// Puts a service to sleep because a person said so; with players in it only if `force` is set.
    pub fn sleep(&mut self, service: &ServiceId, force: bool, now: Moment) -> Result<(), CommandError> {
        let record = self.record_mut(service)?;
        record.may_sleep_by_hand(force)?;
        record.begin_sleep("asked by an operator");
        self.settle(now);
        Ok(())
    }

    /// Whether [`Self::sleep`] has nothing to do.
    pub fn is_down(&self, service: &ServiceId) -> bool {
        self.records.get(service).is_some_and(Record::is_down)
    }

    /// Whether anybody would be thrown out if it stopped now. What was last known to be asleep may run by now while its
    /// source does not answer.
    pub fn nobody_in(&self, service: &ServiceId) -> Result<(), CommandError> {
        let record = self.records.get(service).ok_or_else(|| CommandError::gone(service))?;
        record.nobody_in_it()?;
        match record.stale {
            Some(_) if !matches!(record.shown, State::Running(_)) => {
                Err(CommandError::UnknownPlayers(service.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Keeps a service awake or asleep until further notice, over restarts and redeployments. Players in a
    /// service that is pinned asleep may stay; joins do not wake it.
    pub fn pin(&mut self, service: &ServiceId, pin: Pin, now: Moment) -> Result<(), CommandError> {
        let record = self.record_mut(service)?;
        if !record.scalable && pin != Pin::None {
            return Err(CommandError::NotScalable(service.clone()));
        }
        let learned = record.pin(pin, now);
        self.effects.push(Effect::Remember { service: service.clone(), learned });
        self.settle(now);
        Ok(())
    }

    /// The services called `name`: by their full id or by their bare name.
    pub fn named(&self, name: &str) -> Result<ServiceId, CommandError> {
        let called: Vec<&ServiceId> =
            self.records.keys().filter(|id| &*id.name == name || id.to_string() == name).collect();
        match called.as_slice() {
            [] => Err(CommandError::NoSuchService {
                name: name.to_owned(),
                near: self.near(name).map(str::to_owned),
            }),
            [id] => Ok((*id).clone()),
            several => {
                let all: Vec<String> = several.iter().map(ToString::to_string).collect();
                Err(CommandError::Ambiguous(name.to_owned(), all.join(", ")))
            }
        }
    }

    /// The service that was most likely meant: by what a stack put before its name, or by a typo.
    fn near(&self, name: &str) -> Option<&str> {
        let names = || self.records.values().filter(|record| record.present).map(|record| &*record.id.name);
        let of_a_stack = |full: &&str| full.strip_suffix(name).is_some_and(|stack| stack.ends_with('_'));
        names().find(of_a_stack).or_else(|| nearest(name, names()))
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// As many servers are awake as joins may have awake.
    pub fn is_full(&self) -> bool {
        let awake = || self.records.values().filter(|record| record.counts_as_awake()).count();
        self.policy.awake_at_once.is_some_and(|most| awake() >= most)
    }

    /// As many servers are starting as may at one time: the next one queues.
    pub fn is_busy(&self) -> bool {
        self.under_way() >= self.policy.waking_at_once.max(1)
    }

    /// How long until a join from there may start a server again; `None` if it may now.
    pub fn wakes_again_in(&self, source: IpAddr, now: Moment) -> Option<Duration> {
        let taken = || self.throttle.look(Source::from(source), now).err();
        if self.policy.trusts(source) { None } else { taken() }
    }

    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    pub fn face(&self, service: &ServiceId) -> Option<Face> {
        self.records.get(service).map(|record| record.face())
    }

    pub fn report(&self, service: &ServiceId, now: Moment) -> Option<Report> {
        self.records.get(service).map(|record| record.report(now))
    }

    pub fn reports(&self, now: Moment) -> Vec<Report> {
        self.records.values().filter(|record| record.present).map(|record| record.report(now)).collect()
    }

    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The view, if it is not the one taken last.
    pub fn take_view(&mut self) -> Option<View> {
        std::mem::take(&mut self.changed)
            .then(|| self.records.values().filter(|record| record.present))
            .map(|present| present.map(|record| (record.id.clone(), record.face())).collect())
    }

    fn record_mut(&mut self, service: &ServiceId) -> Result<&mut Record, CommandError> {
        self.records.get_mut(service).ok_or_else(|| CommandError::gone(service))
    }

    fn forget_if_over(&mut self, service: &ServiceId) {
        if self.records.get(service).is_some_and(Record::is_over)
            && let Some(record) = self.records.remove(service)
        {
            // What is known of it, and what its owner has said of it, outlives a redeployment.
            self.recalled.insert(service.to_string(), record.learned());
            self.changed = true;
        }
    }

    fn reroute(&mut self) {
        let over = self.records.iter().filter(|(_, record)| record.is_over());
        let over: Vec<ServiceId> = over.map(|(id, _)| id.clone()).collect();
        for id in over {
            self.forget_if_over(&id);
        }
        let mut claims: Vec<&Record> = self.records.values().filter(|record| record.present).collect();
        claims.sort_by_key(|record| (record.id.source == api_routes::ID, record.arrived));
        let routes = Routes::new(claims.iter().map(|record| (&record.id, &*record.spec)));
        if routes == self.routes {
            return;
        }
        let known = self.routes.conflicts();
        for conflict in routes.conflicts().iter().filter(|conflict| !known.contains(conflict)) {
            self.effects.push(Effect::Tell(Event::RouteConflict(conflict.clone())));
        }
        self.routes = routes;
        self.changed = true;
    }

    /// Brings every service to where it belongs at `now` and publishes what changed. The only place that
    /// pushes scales and probes.
    fn settle(&mut self, now: Moment) {
        let wall = self.wall.and_then(|(at, wall)| wall.checked_add(now.since(at)).ok());
        for ticket in self.guests.expire(now) {
            self.give_up(&ticket, now);
        }
        for record in self.records.values_mut() {
            record.plan(wall);
            record.expire(now);
            if let Some(probe) = record.due_probe(now) {
                self.effects.push(Effect::Probe(probe));
            }
            if record.due_sleep(now) {
                let pinned = record.is_pinned_asleep();
                record.begin_sleep(if pinned { "pinned asleep" } else { "empty for its whole idle time" });
            }
            if record.due_wake() {
                record.begin_wake("its owner wants it awake now", now);
            }
            if record.take_sleep() {
                self.effects.push(Effect::Scale { service: record.id.clone(), up: false });
            }
        }
        self.start_queued(now);
        for record in self.records.values_mut() {
            let news = record.take_problems().chain(record.take_lost());
            let news = news.chain(record.refresh(now)).chain(record.take_woken());
            self.effects.extend(news.map(Effect::Tell));
            self.changed |= std::mem::take(&mut record.changed);
        }
    }

    /// Starts queued wakes in the order they were asked for, as many as the cap allows.
    fn start_queued(&mut self, now: Moment) {
        let mut room = self.policy.waking_at_once.max(1).saturating_sub(self.under_way());
        let mut queued: Vec<&mut Record> =
            self.records.values_mut().filter(|record| record.may_start()).collect();
        queued.sort_by_key(|record| record.wake.as_ref().map(|wake| wake.asked));
        for record in queued {
            if record.join_start_under_way(now) {
                continue;
            }
            if room == 0 {
                break;
            }
            room -= 1;
            record.take_wake(now);
            self.effects.push(Effect::Scale { service: record.id.clone(), up: true });
        }
    }

    fn under_way(&self) -> usize {
        self.records.values().filter(|record| record.is_waking()).count()
    }

    /// Which service a hostname leads to, and how it was found.
    pub fn find(&self, host: Option<&HostName>) -> Option<(ServiceId, Match)> {
        self.routes.find(host).map(|(id, how)| (id.clone(), how))
    }
}

#[cfg(test)]
#[path = "fleet/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "fleet/model.rs"]
mod model;
