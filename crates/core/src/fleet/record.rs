//! One service as the fleet knows it: what its source says, who sits in it, and what is under way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{CommandError, Probe, Probed, Report};
use crate::event::Event;
use crate::knock::{Face, Target};
use crate::learned::Learned;
use crate::moment::Moment;
use crate::service::{Players, Ready, Running, Service, ServiceId, Spec, State};
use crate::span;

/// While a start is under way, the game is asked this often whether it is ready.
const READY_POLL: Duration = Duration::from_secs(1);
/// A game that may be put to sleep is asked for its players within these bounds, more often the shorter
/// its idle time.
const PLAYER_POLL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Games that are never put to sleep are still looked at, so that people can be told.
const WATCH_POLL: Duration = Duration::from_secs(60);
/// Without any cooldown a failure would be over before those who wait can read of it.
const SHORTEST_COOLDOWN: Duration = Duration::from_secs(1);
/// After a failed attempt to stop a service.
const SLEEP_RETRY: Duration = Duration::from_secs(30);
/// Unanswered probes in a row before the game counts as silent.
const SILENCE: u32 = 3;

#[derive(Debug)]
pub(super) struct Record {
    pub id: ServiceId,
    pub spec: Arc<Spec>,
    pub scalable: bool,
    pub arrived: u64,
    /// Its source lists it. One that is gone stays while somebody sits in it or a scale is out.
    pub present: bool,
    /// The last state its source was sure of.
    believed: State,
    /// Why the source is not to be trusted now.
    pub stale: Option<String>,
    pub wake: Option<Wake>,
    /// What everybody is told.
    pub shown: State,
    shown_since: Moment,
    problems: Vec<String>,
    seats: BTreeSet<u64>,
    /// The run that has answered.
    ready_run: Option<Arc<str>>,
    sleep: Sleep,
    /// A scale has been handed out and not reported yet: there is never a second one.
    scaling: bool,
    failure: Option<Failure>,
    /// Since when every look found it empty.
    idle_since: Option<Moment>,
    /// When the game last said that nobody is in it.
    empty_at: Option<Moment>,
    online: Option<u32>,
    silent: u32,
    silence: String,
    probing: bool,
    probe_at: Moment,
    learned: Arc<Learned>,
    /// Its face differs from the one published last.
    pub changed: bool,
    /// Why the next change of state happens, where the state itself does not say.
    cause: &'static str,
}

#[derive(Debug)]
pub(super) struct Wake {
    pub asked: Moment,
    step: Step,
    /// Counts from when it leaves the queue.
    deadline: Moment,
    /// The gate started it, so the time it takes is a boot time.
    ours: bool,
    /// The restart whose delay the deadline already allows for.
    restart: Option<Moment>,
}

impl Wake {
    fn queued(now: Moment) -> Self {
        Self { asked: now, step: Step::Queued, deadline: now, ours: false, restart: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Waits for the old process to end, for the source to answer or for other starts to finish.
    Queued,
    /// The source has been told; it has not confirmed.
    Asked,
    /// Under way.
    Accepted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sleep {
    No,
    /// Decided; the effect is still to be taken.
    Due,
    Asked,
    RetryAt(Moment),
}

#[derive(Debug)]
struct Failure {
    reason: String,
    /// When a join may try again.
    until: Moment,
}

impl Record {
    pub fn new(id: ServiceId, spec: Arc<Spec>, arrived: u64, learned: Arc<Learned>, now: Moment) -> Self {
        let unknown = State::Unknown { reason: "not looked at yet".to_owned() };
        Self {
            id,
            spec,
            scalable: false,
            arrived,
            present: true,
            believed: unknown.clone(),
            stale: None,
            wake: None,
            shown: unknown,
            shown_since: now,
            problems: Vec::new(),
            seats: BTreeSet::new(),
            ready_run: None,
            sleep: Sleep::No,
            scaling: false,
            failure: None,
            idle_since: None,
            empty_at: None,
            online: None,
            silent: 0,
            silence: String::new(),
            probing: false,
            probe_at: now,
            learned,
            changed: true,
            cause: "",
        }
    }

    pub fn observe(&mut self, service: Service, now: Moment) {
        self.present = true;
        self.changed |= self.spec != service.spec;
        if self.spec.players != service.spec.players {
            // Who counts has changed: what the other one counted does not go over.
            let by_seats = service.spec.players == Players::Connections && self.seats.is_empty();
            self.idle_since = by_seats.then_some(now);
        }
        self.spec = service.spec;
        self.scalable = service.scalable;
        self.problems = service.problems;
        if let State::Unknown { reason } = service.state {
            self.stale = Some(reason);
            return;
        }
        self.stale = None;
        let first = matches!(self.believed, State::Unknown { .. });
        let before = std::mem::replace(&mut self.believed, service.state);
        if run_of(&before) != run_of(&self.believed) {
            self.forget_run(now);
        }
        let news = !matches!(before, State::Failed { .. });
        match (&self.believed, self.wake.as_ref().map(|wake| wake.step)) {
            (State::Failed { reason }, None) if first => {
                self.failure = Some(Failure { reason: reason.clone(), until: now });
            }
            (State::Failed { reason }, None) if news => self.fail(reason.clone(), now),
            (State::Failed { reason }, Some(Step::Accepted)) => self.fail(reason.clone(), now),
            (State::Asleep, Some(Step::Accepted)) => {
                self.fail("it ended by itself before players could join".to_owned(), now);
            }
            (State::Restarting { until, .. }, _) => self.allow_for_restart(*until, now),
            // A wake that has not been carried out yet is not answered by what was before it.
            (State::Failed { .. } | State::Asleep, _)
            | (State::Starting { .. } | State::Running(_) | State::Stopping | State::Unknown { .. }, _) => {}
        }
    }

    /// Its source no longer lists it.
    pub fn vanish(&mut self) {
        self.present = false;
        self.wake = None;
        self.sleep = Sleep::No;
        self.stale = None;
        self.believed = State::Unknown { reason: "its source no longer lists it".to_owned() };
        self.ready_run = None;
    }

    pub fn is_over(&self) -> bool {
        !self.present && self.seats.is_empty() && !self.scaling
    }

    pub fn sit(&mut self, serial: u64) {
        self.seats.insert(serial);
        self.idle_since = None;
    }

    pub fn leave(&mut self, serial: u64, now: Moment) {
        if self.seats.remove(&serial) && self.seats.is_empty() {
            match self.spec.players {
                Players::Connections => self.idle_since = Some(now),
                // The idle time starts with the game's own "nobody": ask soon.
                Players::Game => self.probe_at = self.probe_at.min(now + READY_POLL),
            }
        }
    }

    pub fn scaled(&mut self, up: bool, outcome: Result<(), String>, now: Moment) {
        self.scaling = false;
        // It may answer a wake or a sleep that has been given up since.
        match (up, outcome) {
            (true, Ok(())) if self.wake_is(Step::Asked) => self.advance_wake(Step::Accepted, now),
            (true, Err(reason)) if self.wake_is(Step::Asked) => self.fail(reason, now),
            (true, Ok(()) | Err(_)) => {}
            (false, Ok(())) => self.sleep = Sleep::No,
            (false, Err(reason)) => {
                self.sleep = Sleep::RetryAt(now + SLEEP_RETRY);
                self.problems.push(format!("it could not be stopped: {reason}"));
            }
        }
        // What was believed before the scale no longer holds; the listing that follows says what does.
        if !up && self.sleep == Sleep::No && self.present {
            self.believed = State::Stopping;
            self.forget_run(now);
        }
    }

    /// Takes in a probe's result; returns what is worth keeping.
    pub fn probed(&mut self, run: &str, found: Probed, now: Moment) -> Option<Arc<Learned>> {
        // Of an earlier run: the probe of this one is still out.
        if run_of(&self.believed).is_none_or(|current| **current != *run) {
            return None;
        }
        self.probing = false;
        let mut keep = false;
        match found {
            Probed::Silent { reason } => {
                self.silent = self.silent.saturating_add(1);
                self.silence = reason;
                if self.spec.players == Players::Game {
                    self.idle_since = None;
                    self.online = None;
                }
            }
            Probed::Accepted => keep = self.answered(now),
            Probed::Answered { online, status } => {
                keep = self.answered(now);
                keep |= Arc::make_mut(&mut self.learned).saw_status(status);
                self.count(online, now);
            }
        }
        self.probe_at = now + self.probe_interval(now);
        self.changed |= keep;
        keep.then(|| Arc::clone(&self.learned))
    }

    pub fn begin_wake(&mut self, cause: &'static str, now: Moment) {
        self.failure = None;
        self.cause = cause;
        self.wake.get_or_insert_with(|| Wake::queued(now));
    }

    /// Somebody waits for a start the gate did not make: it ends for them as one of the gate's own would.
    pub fn follow_start(&mut self, now: Moment) {
        if self.wake.is_none() {
            self.wake = Some(Wake::queued(now));
            self.join_start_under_way(now);
        }
    }

    fn advance_wake(&mut self, step: Step, now: Moment) {
        let timeout = self.spec.start_timeout;
        let Some(wake) = &mut self.wake else { return };
        let leaves_the_queue = wake.step == Step::Queued;
        wake.ours |= step == Step::Asked;
        wake.step = step;
        if leaves_the_queue {
            wake.asked = now;
            wake.deadline = now + timeout;
            if let State::Restarting { until, .. } = self.believed {
                self.allow_for_restart(until, now);
            }
        }
    }

    /// A wake that waits and whose service the source can answer for.
    pub fn may_start(&self) -> bool {
        let startable = match self.believed {
            State::Stopping | State::Unknown { .. } => false,
            State::Asleep
            | State::Failed { .. }
            | State::Starting { .. }
            | State::Running(_)
            | State::Restarting { .. } => true,
        };
        startable
            && self.wake_is(Step::Queued)
            && self.stale.is_none()
            && !self.is_falling_asleep()
            && !self.scaling
    }

    /// Somebody else has started it already: the wake just goes along.
    pub fn join_start_under_way(&mut self, now: Moment) -> bool {
        let under_way = match self.believed {
            State::Starting { .. } | State::Running(_) | State::Restarting { .. } => true,
            State::Asleep | State::Failed { .. } | State::Stopping | State::Unknown { .. } => false,
        };
        if under_way {
            self.advance_wake(Step::Accepted, now);
        }
        under_way
    }

    /// A start is under way that the cap counts.
    pub fn is_waking(&self) -> bool {
        self.wake_is(Step::Asked) || self.wake_is(Step::Accepted)
    }

    pub fn counts_as_awake(&self) -> bool {
        self.scalable
            && (self.wake.is_some()
                || match self.believed {
                    State::Starting { .. }
                    | State::Running(_)
                    | State::Restarting { .. }
                    | State::Stopping => true,
                    State::Asleep | State::Failed { .. } | State::Unknown { .. } => false,
                })
    }

    /// How long until a join may try a failed service again; `None` if it may now.
    pub fn retry_in(&self, now: Moment) -> Option<Duration> {
        let left = self.failure.as_ref().map(|failure| now.until(failure.until));
        left.filter(|left| !left.is_zero())
    }

    pub fn may_sleep_by_hand(&self, force: bool) -> Result<(), CommandError> {
        let id = || self.id.clone();
        if !self.scalable {
            return Err(CommandError::NotScalable(id()));
        }
        if self.stale.is_some() {
            return Err(CommandError::Stale(id()));
        }
        match (&self.shown, force) {
            (State::Asleep | State::Stopping | State::Unknown { .. }, _) => {
                Err(CommandError::NotNow(id(), self.shown.word()))
            }
            (State::Failed { .. }, _) if !matches!(self.believed, State::Running(_)) => {
                Err(CommandError::NotNow(id(), self.shown.word()))
            }
            (_, true) => Ok(()),
            (State::Running(_), false) if self.spec.players == Players::Game && self.online.is_none() => {
                Err(CommandError::UnknownPlayers(id()))
            }
            (
                State::Starting { .. } | State::Running(_) | State::Restarting { .. } | State::Failed { .. },
                false,
            ) => {
                let (seats, online) = (self.seats.len(), self.online.unwrap_or(0));
                if seats == 0 && online == 0 {
                    Ok(())
                } else {
                    Err(CommandError::Occupied { service: id(), seats, online })
                }
            }
        }
    }

    pub fn begin_sleep(&mut self, cause: &'static str) {
        self.cause = cause;
        self.wake = None;
        self.sleep = Sleep::Due;
    }

    /// Hands out the decision to sleep, once.
    pub fn take_sleep(&mut self) -> bool {
        let due = self.sleep == Sleep::Due && !self.scaling && self.stale.is_none();
        if due {
            self.sleep = Sleep::Asked;
            self.scaling = true;
        }
        due
    }

    /// Hands out the decision to start.
    pub fn take_wake(&mut self, now: Moment) {
        self.advance_wake(Step::Asked, now);
        self.scaling = true;
    }

    /// It has been empty for its whole idle time, and nothing speaks against sleep.
    ///
    /// With the game's own count, `idle_since` only stands between two answers of "nobody", and this is
    /// asked right after one: an old answer never puts a server to sleep.
    pub fn due_sleep(&self, now: Moment) -> bool {
        let fresh = match self.spec.players {
            Players::Connections => true,
            Players::Game => self.empty_at == Some(now),
        };
        self.may_sleep(now)
            && fresh
            && self.idle_since.is_some_and(|since| now.since(since) >= self.spec.idle)
    }

    pub fn due_probe(&mut self, now: Moment) -> Option<Probe> {
        let State::Running(running) = &self.believed else { return None };
        if self.probing || now < self.probe_at || !self.wants_probe(running) {
            return None;
        }
        self.probing = true;
        Some(Probe {
            service: self.id.clone(),
            run: Arc::clone(&running.run),
            endpoints: running.endpoints.clone(),
            how: if self.is_ready() { Ready::Status } else { self.spec.ready },
            proxy: self.spec.send_proxy,
        })
    }

    /// What time alone changes.
    pub fn expire(&mut self, now: Moment) {
        if self.wake_deadline().is_some_and(|deadline| now >= deadline) {
            let limit = self.spec.start_timeout;
            self.fail(format!("it was not ready after {}", span::human(limit)), now);
        }
    }

    pub fn next_deadline(&self) -> Option<Moment> {
        let probe = match &self.believed {
            State::Running(running) if !self.probing && self.wants_probe(running) => Some(self.probe_at),
            State::Running(_)
            | State::Asleep
            | State::Starting { .. }
            | State::Restarting { .. }
            | State::Stopping
            | State::Failed { .. }
            | State::Unknown { .. } => None,
        };
        let cooling = matches!((&self.believed, &self.shown), (State::Asleep, State::Failed { .. }));
        let cooled = self.failure.as_ref().filter(|_| cooling).map(|failure| failure.until);
        [probe, self.wake_deadline(), cooled, self.sleep_deadline()].into_iter().flatten().min()
    }

    /// Works out what to show; an event if that changed and is worth a line.
    pub fn refresh(&mut self, now: Moment) -> Option<Event> {
        // A wake during the way to sleep is for the next run, not for this one.
        let arrived = self.is_ready() && !self.is_falling_asleep();
        if arrived && self.wake.as_ref().is_some_and(|wake| wake.step != Step::Asked) {
            self.wake = None;
        }
        let shown = self.show(now);
        if shown == self.shown {
            return None;
        }
        self.changed = true;
        let before = std::mem::replace(&mut self.shown, shown);
        if before.word() == self.shown.word() {
            return None;
        }
        self.shown_since = now;
        Some(Event::Changed {
            service: self.id.clone(),
            from: before.word(),
            to: self.shown.word(),
            why: self.why(),
        })
    }

    /// Why it is in the state it has just come to.
    fn why(&mut self) -> String {
        let cause = std::mem::take(&mut self.cause);
        let reason = match &self.shown {
            State::Running(_) if self.scalable => "the game answers",
            State::Running(_) => "it has an address",
            State::Asleep => "it is not running",
            State::Stopping => "it was told to stop",
            state @ (State::Starting { .. }
            | State::Restarting { .. }
            | State::Failed { .. }
            | State::Unknown { .. }) => state.reason().unwrap_or_default(),
        };
        if cause.is_empty() { reason.to_owned() } else { format!("{cause}: {reason}") }
    }

    pub fn target(&self) -> Option<Target> {
        let State::Running(running) = &self.shown else { return None };
        (!running.endpoints.is_empty()).then(|| Target {
            service: self.id.clone(),
            spec: Arc::clone(&self.spec),
            endpoints: running.endpoints.clone(),
        })
    }

    pub fn face(&self, now: Moment) -> Face {
        let usual = self.learned.boot_time();
        let eta = match &self.wake {
            Some(wake) if wake.step != Step::Queued => {
                usual.map(|usual| usual.saturating_sub(now.since(wake.asked)))
            }
            Some(_) | None => usual,
        };
        Face {
            service: self.id.clone(),
            spec: Arc::clone(&self.spec),
            state: self.shown.clone(),
            eta: eta.filter(|eta| !eta.is_zero()),
            learned: Arc::clone(&self.learned),
        }
    }

    pub fn report(&self, now: Moment) -> Report {
        let mut problems = self.problems.clone();
        problems.extend(self.stale.as_ref().map(|why| {
            format!("its orchestrator does not answer ({why}); the last known state stands, nothing is started or stopped")
        }));
        if self.silent >= SILENCE && self.is_ready() {
            problems.push(format!(
                "the game does not answer a status ping ({}), so it is kept awake",
                self.silence
            ));
        }
        if matches!(&self.believed, State::Running(running) if running.endpoints.is_empty()) {
            problems.push("it runs, but at no address the gate can reach".to_owned());
        }
        Report {
            face: self.face(now),
            since: self.shown_since,
            seats: self.seats.len(),
            online: self.online,
            scalable: self.scalable,
            sleeps_at: self.sleeps_at(),
            last_failure: self.failure.as_ref().map(|failure| failure.reason.clone()),
            problems,
        }
    }

    fn show(&self, now: Moment) -> State {
        if self.is_falling_asleep() {
            return State::Stopping;
        }
        if let Some(wake) = &self.wake
            && matches!(self.believed, State::Asleep | State::Failed { .. })
        {
            let reason = match wake.step {
                Step::Queued => "waiting for its turn",
                Step::Asked | Step::Accepted => "told to start",
            };
            return State::Starting { reason: reason.to_owned() };
        }
        if let (Some(failure), None) = (&self.failure, &self.wake)
            && self.shows_failure(failure, now)
        {
            return State::Failed { reason: failure.reason.clone() };
        }
        match &self.believed {
            State::Running(_) if !self.is_ready() => {
                State::Starting { reason: "it runs, the game does not answer yet".to_owned() }
            }
            state @ (State::Running(_)
            | State::Asleep
            | State::Starting { .. }
            | State::Restarting { .. }
            | State::Stopping
            | State::Failed { .. }
            | State::Unknown { .. }) => state.clone(),
        }
    }

    /// A failed start is shown until something better is known, or until a join may try again.
    fn shows_failure(&self, failure: &Failure, now: Moment) -> bool {
        match &self.believed {
            State::Asleep => now < failure.until,
            State::Failed { .. } | State::Starting { .. } | State::Restarting { .. } => true,
            State::Running(_) => !self.is_ready(),
            State::Stopping | State::Unknown { .. } => false,
        }
    }

    fn fail(&mut self, reason: String, now: Moment) {
        self.wake = None;
        self.failure = Some(Failure { reason, until: now + self.spec.cooldown.max(SHORTEST_COOLDOWN) });
    }

    /// The game answered: the run is ready. True if a boot time was learned.
    fn answered(&mut self, now: Moment) -> bool {
        self.silent = 0;
        if self.is_ready() {
            return false;
        }
        self.ready_run = run_of(&self.believed).cloned();
        self.failure = None;
        if self.spec.players == Players::Connections && self.seats.is_empty() {
            self.idle_since = Some(now);
        }
        match self.wake.take() {
            Some(wake) if wake.ours => {
                Arc::make_mut(&mut self.learned).booted_in(now.since(wake.asked));
                true
            }
            Some(_) | None => false,
        }
    }

    fn count(&mut self, online: Option<u32>, now: Moment) {
        self.online = online;
        if self.spec.players == Players::Connections {
            return;
        }
        match online {
            Some(0) if self.seats.is_empty() => {
                self.idle_since.get_or_insert(now);
                self.empty_at = Some(now);
            }
            Some(_) | None => self.idle_since = None,
        }
    }

    fn forget_run(&mut self, now: Moment) {
        self.ready_run = None;
        self.idle_since = None;
        self.online = None;
        self.silent = 0;
        self.probing = false;
        self.probe_at = now;
    }

    fn allow_for_restart(&mut self, until: Moment, now: Moment) {
        const SAME: Duration = Duration::from_secs(1);
        if let Some(wake) = &mut self.wake
            && wake.step != Step::Queued
            && wake.restart.is_none_or(|known| until.since(known) > SAME)
        {
            wake.restart = Some(until);
            wake.deadline = wake.deadline + now.until(until);
        }
    }

    fn may_sleep(&self, now: Moment) -> bool {
        let asked = match self.sleep {
            Sleep::No => false,
            Sleep::RetryAt(at) => now < at,
            Sleep::Due | Sleep::Asked => true,
        };
        !asked
            && !self.scaling
            && self.present
            && self.scalable
            && self.spec.sleep
            && self.stale.is_none()
            && self.wake.is_none()
            && self.seats.is_empty()
            && self.is_ready()
    }

    /// A start that is being stopped fails when that is over, so that those who wait can see it.
    fn wake_deadline(&self) -> Option<Moment> {
        let runs = |wake: &&Wake| wake.step != Step::Queued && self.believed != State::Stopping;
        self.wake.as_ref().filter(runs).map(|wake| wake.deadline)
    }

    /// When it sleeps by the gate's own count; the game's answers are decided on as they come.
    fn sleep_deadline(&self) -> Option<Moment> {
        let idle = self.idle_since? + self.spec.idle;
        let at = match self.sleep {
            Sleep::RetryAt(retry) => idle.max(retry),
            Sleep::No | Sleep::Due | Sleep::Asked => idle,
        };
        (self.spec.players == Players::Connections && self.may_sleep(at)).then_some(at)
    }

    fn sleeps_at(&self) -> Option<Moment> {
        let since = self.idle_since?;
        (self.spec.sleep && self.scalable && self.is_ready()).then(|| since + self.spec.idle)
    }

    fn wants_probe(&self, running: &Running) -> bool {
        self.present && !running.endpoints.is_empty() && !self.is_falling_asleep()
    }

    fn probe_interval(&self, now: Moment) -> Duration {
        if !self.is_ready() {
            return READY_POLL;
        }
        if !self.scalable || !self.spec.sleep {
            return WATCH_POLL;
        }
        let (least, most) = PLAYER_POLL;
        let usual = (self.spec.idle / 4).clamp(least, most);
        match self.idle_since {
            Some(since) => usual.min(now.until(since + self.spec.idle)).max(Duration::from_millis(100)),
            None => usual,
        }
    }

    /// A service that only has an address is taken as ready: nothing boots it, and dialling tells.
    fn is_ready(&self) -> bool {
        match run_of(&self.believed) {
            Some(run) => !self.scalable || self.ready_run.as_ref() == Some(run),
            None => false,
        }
    }

    fn is_falling_asleep(&self) -> bool {
        matches!(self.sleep, Sleep::Due | Sleep::Asked)
    }

    fn wake_is(&self, step: Step) -> bool {
        self.wake.as_ref().is_some_and(|wake| wake.step == step)
    }
}

fn run_of(state: &State) -> Option<&Arc<str>> {
    match state {
        State::Running(running) => Some(&running.run),
        State::Asleep
        | State::Starting { .. }
        | State::Restarting { .. }
        | State::Stopping
        | State::Failed { .. }
        | State::Unknown { .. } => None,
    }
}
