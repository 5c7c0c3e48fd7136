//! When a service is put to sleep.

use std::time::Duration;

use super::{Record, Sleep, Wanted};
use crate::fleet::CommandError;
use crate::learned::Pin;
use crate::moment::Moment;
use crate::service::{Players, State};

impl Record {
    pub(in crate::fleet) fn may_sleep_by_hand(&self, force: bool) -> Result<(), CommandError> {
        let id = || self.id.clone();
        if !self.scalable {
            return Err(CommandError::NotScalable(id()));
        }
        if self.stale.is_some() {
            return Err(CommandError::Stale(id()));
        }
        // What runs counts, not what is shown of it: a start that took too long still runs.
        let runs = match &self.believed {
            State::Starting { .. } | State::Running(_) | State::Restarting { .. } => true,
            State::Asleep | State::Failed { .. } => self.wake.is_some(),
            State::Stopping | State::Unknown { .. } => false,
        };
        if !runs || self.is_falling_asleep() {
            return Err(CommandError::NotNow(id(), self.shown.word()));
        }
        // It would be started again at once.
        if self.learned.pin == Pin::Awake {
            return Err(CommandError::PinnedAwake(id()));
        }
        if force { Ok(()) } else { self.nobody_in_it() }
    }

    /// Nobody would be thrown out if it stopped now. Not knowing is no yes.
    pub(in crate::fleet) fn nobody_in_it(&self) -> Result<(), CommandError> {
        let id = || self.id.clone();
        let may_run = matches!(self.believed, State::Running(_) | State::Unknown { .. });
        let uncounted = may_run && self.online.is_none() && !self.never_ready;
        let (seats, online) = (self.seats.len(), self.online.unwrap_or(0));
        if seats > 0 || online > 0 {
            Err(CommandError::Occupied { service: id(), seats, online })
        } else if uncounted && self.spec.players == Players::Game {
            Err(CommandError::UnknownPlayers(id()))
        } else {
            Ok(())
        }
    }

    pub(in crate::fleet) fn begin_sleep(&mut self, cause: &'static str) {
        self.cause = cause;
        self.wake = None;
        self.sleep = Sleep::Due;
    }

    /// Hands out the decision to sleep, once.
    pub(in crate::fleet) fn take_sleep(&mut self) -> bool {
        let due = self.sleep == Sleep::Due && !self.scaling && self.stale.is_none();
        if due {
            self.sleep = Sleep::Asked;
            self.scaling = true;
        }
        due
    }

    /// It has been empty for its whole idle time, or is to be kept down and never came up, and nothing speaks
    /// against sleep.
    ///
    /// With the game's own count, `idle_since` only stands between two answers of "nobody", and this is
    /// asked right after one: an old answer never puts a server to sleep.
    pub(in crate::fleet) fn due_sleep(&self, now: Moment) -> bool {
        let fresh = match self.spec.players {
            Players::Connections => true,
            Players::Game => self.empty_at == Some(now),
        };
        let unwanted = self.never_ready && self.wanted == Wanted::Asleep;
        let idle = self.idle_since.is_some_and(|since| now.since(since) >= self.idle_time());
        self.may_stop(now) && (unwanted || (self.is_ready() && fresh && idle))
    }

    pub(in crate::fleet) fn count(&mut self, online: Option<u32>, now: Moment) {
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

    fn may_stop(&self, now: Moment) -> bool {
        let asked = match self.sleep {
            Sleep::No => false,
            Sleep::RetryAt(at) => now < at,
            Sleep::Due | Sleep::Asked => true,
        };
        !asked
            && !self.scaling
            && self.present
            && self.scalable
            && self.is_let_sleep()
            && self.stale.is_none()
            && self.wake.is_none()
            && self.seats.is_empty()
    }

    /// When it sleeps by the gate's own count; the game's answers are decided on as they come.
    pub(in crate::fleet) fn sleep_deadline(&self) -> Option<Moment> {
        let idle = self.idle_since? + self.idle_time();
        let at = match self.sleep {
            Sleep::RetryAt(retry) => idle.max(retry),
            Sleep::No | Sleep::Due | Sleep::Asked => idle,
        };
        (self.spec.players == Players::Connections && self.may_stop(at) && self.is_ready()).then_some(at)
    }

    pub(in crate::fleet) fn sleeps_at(&self) -> Option<Moment> {
        let since = self.idle_since?;
        (self.is_let_sleep() && self.scalable && self.is_ready()).then(|| since + self.idle_time())
    }

    pub(in crate::fleet) fn is_let_sleep(&self) -> bool {
        match self.wanted {
            Wanted::Free => self.spec.sleep,
            Wanted::Awake => false,
            Wanted::Asleep => true,
        }
    }

    /// One that is pinned asleep goes as soon as it is known to be empty.
    pub(in crate::fleet) fn idle_time(&self) -> Duration {
        match self.wanted {
            Wanted::Free | Wanted::Awake => self.spec.idle,
            Wanted::Asleep => Duration::ZERO,
        }
    }

    /// It is down, or goes down, and no start has been asked for: nothing is left to put to sleep.
    pub(in crate::fleet) fn is_down(&self) -> bool {
        let down = matches!(self.believed, State::Asleep | State::Stopping | State::Failed { .. });
        (down || self.is_falling_asleep()) && self.wake.is_none() && self.stale.is_none()
    }

    pub(in crate::fleet) fn is_falling_asleep(&self) -> bool {
        matches!(self.sleep, Sleep::Due | Sleep::Asked)
    }
}
