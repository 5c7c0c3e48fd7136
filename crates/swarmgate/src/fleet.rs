//! The one lock around [`core::Fleet`](swarmgate_core::fleet::Fleet): carries out its effects and publishes
//! its view.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use swarmgate_core::event::Event;
use swarmgate_core::fleet::{Effect, Fleet as Core, Policy, Probe, View};
use swarmgate_core::knock::{Knock, Seat, Verdict};
use swarmgate_core::moment::Moment;
use swarmgate_core::name::HostName;
use swarmgate_core::service::{ServiceId, Snapshot, SourceId};
use swarmgate_core::span;
use tokio::sync::{Notify, broadcast, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::cloudflare::asked::Asked;
use crate::probe;
use crate::seats::{How, Seats};
use crate::store::Store;

/// A cheap handle, shared by everybody who asks or tells the fleet something.
#[derive(Debug, Clone)]
pub struct Fleet {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    core: Mutex<Core>,
    clock: Clock,
    view: watch::Sender<Arc<View>>,
    events: broadcast::Sender<Event>,
    /// The timer must look at the next deadline again.
    due: Notify,
    sources: Mutex<HashMap<SourceId, Line>>,
    asked: watch::Sender<Asked>,
    seats: Seats,
    store: Store,
    tasks: TaskTracker,
}

/// A request to a source, whose loop tells the core how it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    pub service: ServiceId,
    pub up: bool,
}

/// What a source is asked for.
#[derive(Debug)]
pub struct Requests {
    pub scales: mpsc::UnboundedReceiver<Scale>,
    pub doubts: Doubts,
}

/// The other end of [`Requests`].
#[derive(Debug)]
struct Line {
    /// As far as is known.
    answers: bool,
    scales: mpsc::UnboundedSender<Scale>,
    doubt: Arc<Notify>,
}

/// Reasons to look whether what ran still runs.
#[derive(Debug)]
pub struct Doubts {
    raised: Arc<Notify>,
    last: Option<Instant>,
}

impl Doubts {
    /// A server that ends ends all its connections.
    const TOGETHER: Duration = Duration::from_millis(20);
    /// Strangers who ping a server that does not answer must not keep its source busy.
    const AT_MOST_EVERY: Duration = Duration::from_secs(1);

    /// Returns when there is one.
    pub async fn next(&mut self) {
        self.raised.notified().await;
        let soon = Instant::now() + Self::TOGETHER;
        let at = self.last.map_or(soon, |last| soon.max(last + Self::AT_MOST_EVERY));
        tokio::time::sleep_until(at).await;
        self.last = Some(at);
    }
}

/// A [`Seat`] that gives itself back.
#[derive(Debug)]
pub struct TakenSeat {
    seat: Seat,
    fleet: Fleet,
    /// It is kept for a player who is to come back.
    kept: bool,
}

impl TakenSeat {
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Leaves the seat to the player who knocked and is about to be told to come back, to `host`.
    pub fn keep_for_return(mut self, knock: &Knock, host: Option<HostName>) {
        self.kept = true;
        self.fleet.with(|core, now| core.sent_back(&self.seat, knock, host, now));
    }

    pub fn service(&self) -> &ServiceId {
        &self.seat.service
    }

    /// How its player waits or plays now.
    pub fn moved(&self, how: How) {
        self.fleet.shared.seats.moved(self.seat.serial(), how);
    }

    /// The server, not the player, has ended the connection.
    pub fn was_ended(self) {
        self.fleet.doubt(&self.seat.service);
    }
}

impl Drop for TakenSeat {
    fn drop(&mut self) {
        self.fleet.shared.seats.leave(self.seat.serial());
        if !self.kept {
            self.fleet.with(|core, now| core.release(&self.seat, now));
        }
    }
}

impl Fleet {
    /// Events that a slow listener may fall behind by before it loses the oldest.
    const EVENTS_KEPT: usize = 256;

    pub fn new(policy: Policy, clock: Clock, store: Store, tasks: TaskTracker) -> Self {
        let mut core = Core::new(policy);
        for (service, learned) in store.learned() {
            core.recall(service, learned);
        }
        let shared = Shared {
            core: Mutex::new(core),
            clock,
            view: watch::Sender::new(Arc::default()),
            events: broadcast::Sender::new(Self::EVENTS_KEPT),
            due: Notify::new(),
            sources: Mutex::new(HashMap::new()),
            asked: watch::Sender::default(),
            seats: Seats::default(),
            store,
            tasks,
        };
        Self { shared: Arc::new(shared) }
    }

    pub fn now(&self) -> Moment {
        self.shared.clock.now()
    }

    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    pub fn view(&self) -> watch::Receiver<Arc<View>> {
        self.shared.view.subscribe()
    }

    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.shared.events.subscribe()
    }

    /// Who holds a seat.
    pub fn seats(&self) -> &Seats {
        &self.shared.seats
    }

    /// What services ask to be published.
    pub fn asked(&self) -> watch::Receiver<Asked> {
        self.shared.asked.subscribe()
    }

    /// All services of `source`.
    pub fn observe(&self, source: SourceId, snapshot: Snapshot) {
        self.answers(source, true);
        self.shared.asked.send_if_modified(|asked| asked.saw(source, &snapshot.published));
        self.with(|core, now| core.observe(source, snapshot, now));
    }

    /// `source` does not answer; what was known stands.
    pub fn lost(&self, source: SourceId, why: &str) {
        self.answers(source, false);
        self.shared.asked.send_if_modified(|asked| asked.lost(source));
        self.with(|core, now| core.lost(source, why, now));
    }

    fn answers(&self, source: SourceId, answers: bool) {
        if let Some(line) = lock(&self.shared.sources).get_mut(source) {
            line.answers = answers;
        }
    }

    /// All sources, each with whether it answers.
    pub fn sources(&self) -> Vec<(SourceId, bool)> {
        lock(&self.shared.sources).iter().map(|(source, line)| (*source, line.answers)).collect()
    }

    /// Whether what is to be kept is kept, if anything is.
    pub fn is_kept(&self) -> Option<bool> {
        self.shared.store.is_well()
    }

    /// Has everybody hear of it who listens.
    pub fn tell(&self, event: Event) {
        log(&event);
        // Nobody listening is fine.
        let _ = self.shared.events.send(event);
    }

    /// Where the loop of `source` hears what to do.
    pub fn requests_for(&self, source: SourceId) -> Requests {
        // Unbounded by type, bounded in fact: one scale per service is in flight.
        let (send, scales) = mpsc::unbounded_channel();
        let doubt = Arc::new(Notify::new());
        let doubts = Doubts { raised: Arc::clone(&doubt), last: None };
        lock(&self.shared.sources).insert(source, Line { answers: false, scales: send, doubt });
        Requests { scales, doubts }
    }

    /// A service that runs, as far as is known, ends connections or takes none: its source looks now, not when it
    /// would have.
    pub fn doubt(&self, service: &ServiceId) {
        if let Some(source) = lock(&self.shared.sources).get(service.source) {
            source.doubt.notify_one();
        }
    }

    /// Decides about a knock, with a seat that is given back when it is dropped.
    pub fn admit(&self, knock: &Knock) -> (Verdict, Option<TakenSeat>) {
        let now = self.now();
        let mut core = lock(&self.shared.core);
        let verdict = core.admit(knock, now);
        let effects = core.take_effects();
        let seat = match &verdict {
            Verdict::Relay(seat, _) => Some((seat.clone(), How::Playing)),
            Verdict::Wait(seat, waiting) => Some((seat.clone(), How::Waiting(waiting.landing.rung))),
            Verdict::Answer(_) | Verdict::Forward(_) | Verdict::Refuse(_) | Verdict::Prove(_) => None,
        };
        // Only a join that waits, or starts something, changes anything to publish or to be reminded of.
        let quiet = effects.is_empty() && !matches!(verdict, Verdict::Wait(..));
        if !quiet {
            self.publish(&mut core);
        }
        drop(core);
        if !quiet {
            self.carry_out(effects);
            self.shared.due.notify_one();
        }
        let taken = seat.map(|(seat, how)| {
            self.shared.seats.take(seat.serial(), &seat.service, knock, how, now);
            TakenSeat { seat, fleet: self.clone(), kept: false }
        });
        (verdict, taken)
    }

    /// Asks or tells the fleet something, and does what follows from it.
    pub fn with<R>(&self, act: impl FnOnce(&mut Core, Moment) -> R) -> R {
        let result = self.act(act);
        self.shared.due.notify_one();
        result
    }

    /// Looks without changing anything.
    pub fn look<R>(&self, ask: impl FnOnce(&Core, Moment) -> R) -> R {
        let now = self.now();
        ask(&lock(&self.shared.core), now)
    }

    /// Ticks the fleet whenever something is due.
    pub async fn run(&self, stop: CancellationToken) {
        // Every release moves a deadline; looking at most this often keeps a busy gate from doing little else.
        const PAUSE: Duration = Duration::from_millis(20);
        const AT_LEAST_EVERY: Duration = Duration::from_secs(60);
        while !stop.is_cancelled() {
            // Unannounced: the timer would only wake itself.
            self.act(|core, now| {
                core.set_wall(now, jiff::Timestamp::now());
                core.tick(now);
            });
            let latest = self.now() + AT_LEAST_EVERY;
            let deadline = self.look(|core, _| core.next_deadline()).map_or(latest, |due| due.min(latest));
            let pause = tokio::time::sleep(PAUSE);
            let due = tokio::time::sleep_until(self.shared.clock.instant(deadline));
            tokio::select! {
                () = stop.cancelled() => break,
                () = async { pause.await; tokio::select! { () = due => {}, () = self.shared.due.notified() => {} } } => {}
            }
        }
    }

    fn act<R>(&self, act: impl FnOnce(&mut Core, Moment) -> R) -> R {
        let now = self.now();
        let mut core = lock(&self.shared.core);
        let result = act(&mut core, now);
        let effects = core.take_effects();
        self.publish(&mut core);
        drop(core);
        self.carry_out(effects);
        result
    }

    /// Under the lock, so that views are published in the order they came to be.
    fn publish(&self, core: &mut Core) {
        if let Some(view) = core.take_view() {
            self.shared.view.send_replace(Arc::new(view));
        }
    }

    fn carry_out(&self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Scale { service, up } => self.scale(Scale { service, up }),
                Effect::Probe(probe) => self.probe(probe),
                Effect::Remember { service, learned } => self.shared.store.remember(&service, &learned),
                Effect::Tell(event) => self.tell(event),
            }
        }
    }

    fn scale(&self, scale: Scale) {
        let sent = lock(&self.shared.sources)
            .get(scale.service.source)
            .map(|source| source.scales.send(scale.clone()));
        if !matches!(sent, Some(Ok(()))) {
            let (fleet, Scale { service, up }) = (self.clone(), scale);
            self.shared.tasks.spawn(async move {
                fleet.with(|core, now| {
                    core.scaled(&service, up, Err("its source has stopped".to_owned()), now)
                });
            });
        }
    }

    fn probe(&self, probe: Probe) {
        let fleet = self.clone();
        self.shared.tasks.spawn(async move {
            let found = probe::run(&probe).await;
            fleet.with(|core, now| core.probed(&probe.service, &probe.run, found, now));
        });
    }
}

fn log(event: &Event) {
    match event {
        Event::Changed { service, from, to, why } => {
            tracing::info!(%service, from, to, why = why.as_str(), "state changed");
        }
        Event::Woken { service, waited, booted } => {
            let (waited, booted) = (span::human(*waited), span::human(*booted));
            tracing::info!(%service, waited, booted, "woken");
        }
        Event::Problem { service, problem } => tracing::warn!(%service, "{problem}"),
        Event::StoppedWithPlayers { service, seats, online } => {
            tracing::warn!(%service, seats, online, "somebody else stopped it while players were in it");
        }
        Event::Publication { host, service, state, problem: Some(problem) } => {
            tracing::warn!(host, service, state, "{problem}");
        }
        Event::Publication { host, service, state, problem: None } => {
            tracing::info!(host, service, state, "publication")
        }
        Event::Publishing { problem: Some(problem) } => tracing::warn!("publishing: {problem}"),
        Event::Publishing { problem: None } => {
            tracing::info!("publishing: Cloudflare and the gate agree again")
        }
        Event::Tampered { rules } => tracing::warn!(
            rules = rules.join(", "),
            "somebody else has changed rules of the tunnel that are the gate's; they are written again. One gate at most may have this `instance`"
        ),
        Event::RouteConflict(conflict) => tracing::warn!(
            claim = conflict.claim.as_str(),
            holder = %conflict.holder,
            other = %conflict.other,
            "two services claim one route; {}",
            conflict.rule()
        ),
    }
}

/// A panic elsewhere must not take the fleet down with it: its data is consistent between calls.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_idle_fleet_does_not_tick() {
        let policy = swarmgate_core::config::parse("", &[]).unwrap().config.policy();
        let fleet = Fleet::new(policy, Clock::start(), Store::in_memory(), TaskTracker::new());
        fleet.with(|_, _| ());
        let mut run = std::pin::pin!(fleet.run(CancellationToken::new()));
        let mut polls = 0;
        let counted = std::future::poll_fn(|context| {
            polls += 1;
            run.as_mut().poll(context)
        });
        let ended = tokio::time::timeout(Duration::from_millis(300), counted).await;
        assert!(ended.is_err(), "it runs until it is stopped");
        // The first look, the one that it was told of, and what timers round to.
        assert!(polls <= 6, "woken {polls} times within 300 ms");
    }
}
