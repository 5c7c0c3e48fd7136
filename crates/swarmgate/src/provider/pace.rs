//! How often to look: often while something moves, seldom while nothing does.

use std::time::Duration;

use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Service, State};
use tokio::time::Instant;

/// Changes made by others come as events; this is for those that do not.
pub const AT_REST: Duration = Duration::from_secs(10);
/// What has not moved for a minute is looked at every second, and so on.
const MOVING: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
const SLOWER_BY: u32 = 60;
/// A container tells of its end up to 0.4 s before its task does (measured on engine 20.10): what is read at once
/// may be the state before.
const AFTER_A_HINT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Pace {
    states: Vec<State>,
    changed: Moment,
    hinted: Option<Instant>,
    next: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        Self { states: Vec::new(), changed: Moment::START, hinted: None, next: Instant::now() }
    }
}

impl Pace {
    pub fn hinted(&mut self) {
        self.hinted = Some(Instant::now());
    }

    pub fn saw<'a>(&mut self, found: impl Iterator<Item = &'a Service>, now: Moment) {
        let states: Vec<State> = found.map(|service| service.state.clone()).collect();
        if states != self.states {
            self.states = states;
            self.changed = now;
        }
        let pause = pause(&self.states, now.since(self.changed), now);
        let hinted = self.hinted.is_some_and(|at| at.elapsed() < AFTER_A_HINT);
        self.next = Instant::now() + if hinted { pause.min(MOVING.0) } else { pause };
    }

    /// Looks again no later than after this.
    pub fn within(&mut self, pause: Duration) {
        self.next = self.next.min(Instant::now() + pause);
    }

    pub fn next(&self) -> Instant {
        self.next
    }
}

fn pause(states: &[State], unchanged: Duration, now: Moment) -> Duration {
    let moving = (unchanged / SLOWER_BY).clamp(MOVING.0, MOVING.1);
    let pauses = states.iter().map(|state| match state {
        State::Starting { .. } | State::Stopping => moving,
        State::Restarting { until, .. } => now.until(*until).clamp(moving, AT_REST),
        State::Asleep | State::Running(_) | State::Failed { .. } | State::Unknown { .. } => AT_REST,
    });
    pauses.min().unwrap_or(AT_REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_moves_is_looked_at_often() {
        let now = Moment::after_start(Duration::from_secs(100));
        let starting = || State::Starting { reason: String::new() };
        let again = |seconds| State::Restarting {
            until: Moment::after_start(Duration::from_secs(seconds)),
            reason: String::new(),
        };
        for (states, unchanged, millis) in [
            (vec![], 0, 10_000),
            (vec![State::Asleep, State::Failed { reason: String::new() }], 0, 10_000),
            (vec![State::Asleep, starting()], 0, 250),
            (vec![State::Stopping], 60, 1_000),
            (vec![starting()], 3_600, 2_000),
            (vec![again(104)], 0, 4_000),
            (vec![again(90)], 0, 250),
            (vec![again(1_000)], 0, 10_000),
        ] {
            let found = pause(&states, Duration::from_secs(unchanged), now);
            assert_eq!(found, Duration::from_millis(millis), "{states:?} {unchanged}");
        }
    }
}
