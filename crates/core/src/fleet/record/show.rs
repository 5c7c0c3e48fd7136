//! What everybody is told of a service.

use std::sync::Arc;

use super::{Failure, Lost, Record, Step, Wanted};
use crate::event::Event;
use crate::fleet::Report;
use crate::knock::{Face, Target};
use crate::moment::Moment;
use crate::service::{Players, State};

/// Unanswered probes in a row before the game counts as silent.
pub(super) const SILENCE: u32 = 3;

impl Record {
    /// Works out what to show; an event if that changed and is worth a line.
    pub(in crate::fleet) fn refresh(&mut self, now: Moment) -> Option<Event> {
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
        let lived = now.since(self.shown_since);
        if !lived.is_zero() {
            *self.lived.entry(before.word()).or_default() += lived;
        }
        self.shown_since = now;
        Some(Event::Changed {
            service: self.id.clone(),
            from: before.word(),
            to: self.shown.word(),
            why: self.why(),
        })
    }

    /// Tells once of players who were in it when somebody else stopped it.
    pub(in crate::fleet) fn take_lost(&mut self) -> Option<Event> {
        let Lost { seats, online } = self.lost.take()?;
        Some(Event::StoppedWithPlayers { service: self.id.clone(), seats, online })
    }

    pub(in crate::fleet) fn take_woken(&mut self) -> Option<Event> {
        self.woken.take()
    }

    pub(in crate::fleet) fn take_problems(&mut self) -> impl Iterator<Item = Event> + use<> {
        let service = self.id.clone();
        let untold = std::mem::take(&mut self.untold).into_iter();
        untold.map(move |problem| Event::Problem { service: service.clone(), problem })
    }

    /// Why it is in the state it has just come to.
    fn why(&mut self) -> String {
        let cause = std::mem::take(&mut self.cause);
        let hint = self.after_failure().map(|hint| format!("; {hint}")).unwrap_or_default();
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
        if cause.is_empty() { format!("{reason}{hint}") } else { format!("{cause}: {reason}{hint}") }
    }

    /// Where its owner finds out more of a failed start, and what is left of it.
    fn after_failure(&self) -> Option<String> {
        let is_failed = |state: &State| matches!(state, State::Failed { .. });
        // Where its source says that it failed, it says why.
        if !is_failed(&self.shown) || is_failed(&self.believed) {
            return None;
        }
        let name = &self.id.name;
        let runs = matches!(self.believed, State::Running(_));
        let stop = runs.then(|| format!("it still runs; `swarmgate sleep {name}` stops it"));
        let see = self.id.is_local().then(|| format!("see `swarmgate output {name}`"));
        let hints: Vec<String> = stop.into_iter().chain(see).collect();
        (!hints.is_empty()).then(|| hints.join("; "))
    }

    pub(in crate::fleet) fn target(&self) -> Option<Target> {
        let State::Running(running) = &self.shown else { return None };
        (!running.endpoints.is_empty()).then(|| Target {
            service: self.id.clone(),
            spec: Arc::clone(&self.spec),
            endpoints: running.endpoints.clone(),
        })
    }

    pub(in crate::fleet) fn face(&self) -> Face {
        let started = self.wake.as_ref().filter(|wake| wake.step != Step::Queued).map(|wake| wake.asked);
        Face {
            service: self.id.clone(),
            spec: Arc::clone(&self.spec),
            state: self.shown.clone(),
            started,
            learned: Arc::clone(&self.learned),
            wakes: self.spec.wake,
        }
    }

    pub(in crate::fleet) fn report(&self, now: Moment) -> Report {
        let mut problems = self.problems.clone();
        problems.extend(self.stale.as_ref().map(|why| {
            format!("its orchestrator does not answer ({why}); the last known state stands, nothing is started or stopped")
        }));
        if self.silent >= SILENCE && self.is_ready() {
            let awake = self.scalable && self.spec.players == Players::Game;
            let so = if awake { ", so it is kept awake" } else { "" };
            problems.push(format!("the game does not answer a status ping ({}){so}", self.silence));
        }
        problems.extend(self.after_failure());
        problems.extend(self.unstopped.as_ref().map(|why| format!("it could not be stopped: {why}")));
        if matches!(&self.believed, State::Running(running) if running.endpoints.is_empty()) {
            problems.push("it runs, but at no address the gate can reach".to_owned());
        }
        let mut lived = self.lived.clone();
        *lived.entry(self.shown.word()).or_default() += now.since(self.shown_since);
        Report {
            face: self.face(),
            since: self.shown_since,
            lived,
            seats: self.seats.len(),
            online: self.online,
            scalable: self.scalable,
            pin: self.learned.pin,
            kept_awake: self.wanted == Wanted::Awake,
            awake: self.counts_as_awake(),
            waking: self.wake.is_some(),
            retry_in: self.retry_in(now),
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
                let usual = || "it runs, the game does not answer yet".to_owned();
                State::Starting { reason: self.news.clone().unwrap_or_else(usual) }
            }
            State::Starting { reason } => {
                State::Starting { reason: self.news.as_ref().unwrap_or(reason).clone() }
            }
            state @ (State::Running(_)
            | State::Asleep
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
}
