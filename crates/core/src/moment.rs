//! Monotonic time as an argument.

use std::ops::Add;
use std::time::Duration;

/// A point on the shell's monotonic clock, as the time since the gate started.
///
/// Wall clocks jump; idle periods and deadlines must not. Sources turn wall-clock times into moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(Duration);

impl Moment {
    pub const START: Self = Self(Duration::ZERO);

    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long ago `earlier` was; zero if it is still to come.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// How long until `later`; zero if it has passed.
    pub const fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}
