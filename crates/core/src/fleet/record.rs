//! One service as the fleet knows it: what its source says, who sits in it, and what is under way.

mod idle;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use self::show::SILENCE;
use super::{Probe, Probed};
use crate::event::Event;
use crate::learned::{Learned, Pin};
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
/// A wake that waits for a lost source or for an old process is remembered this long after its players left.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Problems that people are told of, for each run.
const MOST_TOLD: usize = 50;
/// After a failed attempt to stop a service.
const SLEEP_RETRY: Duration = Duration::from_secs(30);

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
    /// How long it was in each state, by its word, before the one that is shown.
    lived: BTreeMap<&'static str, Duration>,
    problems: Vec<String>,
    /// Problems that people have been told of.
    told: BTreeSet<String>,
    /// Problems that they are still to be told of.
    untold: Vec<String>,
    seats: BTreeSet<u64>,
    /// Since when what runs is known.
    run_since: Moment,
    /// The run that has answered.
    ready_run: Option<Arc<str>>,
    /// The gate started what runs, and it did not become ready in its time: nobody can be in it.
    never_ready: bool,
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
    /// How far its start has come, in its own words.
    news: Option<String>,
    /// Why it could not be stopped when it should have been.
    unstopped: Option<String>,
    /// What its owner wants of it now, whoever joins.
    wanted: Wanted,
    /// The players who were in it when it stopped without the gate's doing.
    lost: Option<Lost>,
    /// A wake that has led to players getting in, to be told of.
    woken: Option<Event>,
    /// Its face differs from the one published last.
    pub changed: bool,
    /// Why the next change of state happens, where the state itself does not say.
    cause: &'static str,
}

#[derive(Debug)]
pub(super) struct Wake {
    pub asked: Moment,
    /// The same before it left the queue.
    began: Moment,
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
        Self { asked: now, began: now, step: Step::Queued, deadline: now, ours: false, restart: None }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// As players come and go.
    Free,
    Awake,
    Asleep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lost {
    seats: usize,
    online: u32,
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
            lived: BTreeMap::new(),
            problems: Vec::new(),
            told: BTreeSet::new(),
            untold: Vec::new(),
            seats: BTreeSet::new(),
            run_since: now,
            ready_run: None,
            never_ready: false,
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
            news: None,
            unstopped: None,
            wanted: Wanted::Free,
            lost: None,
            woken: None,
            changed: true,
            cause: "",
        }
    }

    pub fn observe(&mut self, service: Service, now: Moment) {
        self.present = true;
        if self.spec != service.spec {
            self.changed = true;
            self.ask_soon(now);
        }
        if self.spec.players != service.spec.players {
            // Who counts has changed: what the other one counted does not go over.
            let by_seats = service.spec.players == Players::Connections && self.seats.is_empty();
            self.idle_since = by_seats.then_some(now);
        }
        self.spec = service.spec;
        self.scalable = service.scalable;
        self.note_problems(service.problems);
        if let State::Unknown { reason } = service.state {
            self.stale = Some(reason);
            return;
        }
        self.stale = None;
        let first = matches!(self.believed, State::Unknown { .. });
        let before = std::mem::replace(&mut self.believed, service.state);
        if has_begun(&before) && !has_begun(&self.believed) {
            self.news = None;
        }
        if run_of(&before) != run_of(&self.believed) {
            self.note_lost(&before);
            if run_of(&before).is_some() {
                self.news = None;
                self.never_ready = false;
            }
            self.forget_run(now);
        }
        // What comes up after that may be somebody else's start.
        self.never_ready &= self.is_up_or_coming();
        if run_of(&self.believed).is_some_and(|run| run_of(&before) != Some(run)) {
            // What the runs before had and this one has not is news if it comes back.
            self.told.retain(|told| self.problems.contains(told));
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
        self.changed = true;
        self.present = false;
        self.wake = None;
        self.sleep = Sleep::No;
        self.stale = None;
        self.believed = State::Unknown { reason: "its source no longer lists it".to_owned() };
        self.ready_run = None;
        self.never_ready = false;
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
                // The idle time starts with the game's own "nobody".
                Players::Game => self.ask_soon(now),
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
            (false, Ok(())) => {
                self.sleep = Sleep::No;
                self.unstopped = None;
                // What failed is put away: it need not cool down.
                if let Some(failure) = &mut self.failure {
                    failure.until = now;
                }
            }
            (false, Err(reason)) => {
                self.sleep = Sleep::RetryAt(now + SLEEP_RETRY);
                self.unstopped = Some(reason);
                // While it was to stop nobody asked whether it is ready.
                self.run_since = now;
            }
        }
        // What was believed before the scale no longer holds; the listing that follows says what does.
        if !up && self.sleep == Sleep::No && self.present {
            self.believed = State::Stopping;
            self.never_ready = false;
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

    /// Somebody has found that it takes no connections: it is as good as silent until it answers again.
    pub fn unreached(&mut self, why: String, now: Moment) {
        if self.is_ready() {
            self.silent = self.silent.max(SILENCE);
            self.silence = why;
            self.ask_soon(now);
        }
    }

    /// What it says itself while it starts.
    pub fn heard(&mut self, news: String) {
        let starts = match self.believed {
            State::Starting { .. } | State::Running(_) => true,
            // Its source is slower to tell of it than the server itself.
            State::Asleep | State::Failed { .. } => self.wake.is_some(),
            State::Restarting { .. } | State::Stopping | State::Unknown { .. } => false,
        };
        if starts && !self.is_ready() {
            self.news = Some(news);
        }
    }

    /// Works out what its owner wants of it at this time of the week.
    pub fn plan(&mut self, wall: Option<Timestamp>) {
        let warm = || wall.is_some_and(|wall| self.spec.awake.iter().any(|hours| hours.cover(wall)));
        self.wanted = match self.learned.pin {
            Pin::Asleep => Wanted::Asleep,
            Pin::Awake => Wanted::Awake,
            Pin::None if warm() => Wanted::Awake,
            Pin::None => Wanted::Free,
        };
    }

    pub fn learned(&self) -> Arc<Learned> {
        Arc::clone(&self.learned)
    }

    pub fn is_pinned_asleep(&self) -> bool {
        self.wanted == Wanted::Asleep
    }

    pub fn pin(&mut self, pin: Pin, now: Moment) -> Arc<Learned> {
        Arc::make_mut(&mut self.learned).pin = pin;
        self.changed = true;
        self.ask_soon(now);
        Arc::clone(&self.learned)
    }

    /// It sleeps though its owner wants it awake. One that failed is not hammered: a start is tried again
    /// when the failure is forgotten.
    pub fn due_wake(&self) -> bool {
        self.wanted == Wanted::Awake
            && self.shown == State::Asleep
            && self.believed == State::Asleep
            && self.scalable
            && self.present
            && self.stale.is_none()
            && self.wake.is_none()
    }

    pub fn begin_wake(&mut self, cause: &'static str, now: Moment) {
        self.failure = None;
        self.news = None;
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
            self.changed = true;
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
        let under_way = self.is_up_or_coming();
        if under_way {
            self.advance_wake(Step::Accepted, now);
        }
        under_way
    }

    fn is_up_or_coming(&self) -> bool {
        match self.believed {
            State::Starting { .. } | State::Running(_) | State::Restarting { .. } => true,
            State::Asleep | State::Failed { .. } | State::Stopping | State::Unknown { .. } => false,
        }
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

    /// Hands out the decision to start.
    pub fn take_wake(&mut self, now: Moment) {
        self.advance_wake(Step::Asked, now);
        self.scaling = true;
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
        if self.forgotten_at().is_some_and(|at| now >= at) {
            self.wake = None;
        }
        let too_late = [self.wake_deadline(), self.overdue_at()].into_iter().flatten();
        if too_late.min().is_some_and(|deadline| now >= deadline) {
            let ours = self.wake.as_ref().is_some_and(|wake| wake.ours);
            self.never_ready |= ours && self.is_up_or_coming();
            let mut reason = format!("it was not ready after {}", span::human(self.spec.start_timeout));
            if self.silent > 0 {
                reason = format!("{reason}: {}", self.silence);
            }
            self.fail(reason, now);
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
        [probe, self.wake_deadline(), self.overdue_at(), self.forgotten_at(), cooled, self.sleep_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn fail(&mut self, reason: String, now: Moment) {
        self.wake = None;
        self.failure = Some(Failure { reason, until: now + self.spec.cooldown.max(SHORTEST_COOLDOWN) });
    }

    /// The game answered: the run is ready. True if a boot time was learned.
    fn answered(&mut self, now: Moment) -> bool {
        self.silent = 0;
        self.news = None;
        if self.is_ready() {
            return false;
        }
        self.ready_run = run_of(&self.believed).cloned();
        self.never_ready = false;
        self.failure = None;
        if self.spec.players == Players::Connections && self.seats.is_empty() {
            self.idle_since = Some(now);
        }
        match self.wake.take() {
            Some(wake) if wake.ours => {
                let (waited, booted) = (now.since(wake.began), now.since(wake.asked));
                Arc::make_mut(&mut self.learned).booted_in(booted);
                self.woken = Some(Event::Woken { service: self.id.clone(), waited, booted });
                true
            }
            Some(_) | None => false,
        }
    }

    /// One that comes and goes is told once; of those that are worded anew each time some are enough.
    fn note_problems(&mut self, problems: Vec<String>) {
        for problem in &problems {
            if self.told.len() < MOST_TOLD && self.told.insert(problem.clone()) {
                self.untold.push(problem.clone());
            }
        }
        self.problems = problems;
    }

    /// A stop that nobody here asked for, with players in it, is worth a loud word.
    fn note_lost(&mut self, before: &State) {
        // Into one that was not up yet nobody has got.
        let ran = run_of(before).is_some_and(|run| self.ready_run.as_ref() == Some(run));
        let ended = matches!(self.believed, State::Stopping | State::Asleep);
        let (seats, online) = (self.seats.len(), self.online.unwrap_or(0));
        if ran && ended && self.scalable && !self.is_falling_asleep() && (seats > 0 || online > 0) {
            self.lost = Some(Lost { seats, online });
        }
    }

    fn forget_run(&mut self, now: Moment) {
        self.unstopped = None;
        self.ready_run = None;
        self.idle_since = None;
        self.online = None;
        self.silent = 0;
        self.probing = false;
        self.probe_at = now;
        self.run_since = now;
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

    /// A wake that could not begin and that nobody waits for any more is not kept for ever.
    fn forgotten_at(&self) -> Option<Moment> {
        let wake = self.wake.as_ref().filter(|wake| wake.step == Step::Queued)?;
        self.seats.is_empty().then_some(wake.asked + FORGOTTEN)
    }

    /// A start that is being stopped fails when that is over, so that those who wait can see it.
    fn wake_deadline(&self) -> Option<Moment> {
        let runs = |wake: &&Wake| wake.step != Step::Queued && self.believed != State::Stopping;
        self.wake.as_ref().filter(runs).map(|wake| wake.deadline)
    }

    /// When a run that nobody waits for counts as one that never came up, such as one that was found at the start. Its
    /// time begins when it is shown to be starting: until then it may have been about to stop.
    fn overdue_at(&self) -> Option<Moment> {
        let State::Running(running) = &self.believed else { return None };
        let comes_up = self.wants_probe(running) && !self.is_ready() && self.stale.is_none();
        let is_told = matches!(self.shown, State::Starting { .. });
        (comes_up && is_told && self.wake.is_none() && self.failure.is_none())
            .then(|| self.run_since.max(self.shown_since) + self.spec.start_timeout)
    }

    /// What was planned to be asked later has become pressing.
    fn ask_soon(&mut self, now: Moment) {
        self.probe_at = self.probe_at.min(now + READY_POLL);
    }

    fn wants_probe(&self, running: &Running) -> bool {
        self.present && !running.endpoints.is_empty() && !self.is_falling_asleep()
    }

    fn probe_interval(&self, now: Moment) -> Duration {
        if !self.is_ready() {
            return READY_POLL;
        }
        if !self.scalable || !self.is_let_sleep() {
            return WATCH_POLL;
        }
        let (least, most) = PLAYER_POLL;
        let usual = (self.idle_time() / 4).clamp(least, most);
        match self.idle_since {
            Some(since) => usual.min(now.until(since + self.idle_time())).max(Duration::from_millis(100)),
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

    fn wake_is(&self, step: Step) -> bool {
        self.wake.as_ref().is_some_and(|wake| wake.step == step)
    }
}

/// Something is there that may say how far it is.
const fn has_begun(state: &State) -> bool {
    matches!(state, State::Starting { .. } | State::Running(_))
}

fn run_of(state: &State) -> Option<&Arc<str>> {
    state.running().map(|running| &running.run)
}
