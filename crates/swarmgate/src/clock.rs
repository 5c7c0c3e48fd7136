//! The shell's clocks: the only place that reads them. They are tokio's, so that a test can wind them on.

use swarmgate_core::moment::Moment;
use tokio::time::Instant;

/// Monotonic time since the gate started.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub fn now(self) -> Moment {
        Moment::after_start(self.start.elapsed())
    }

    /// The same moment on tokio's clock.
    pub fn instant(self, moment: Moment) -> Instant {
        self.start + moment.since_start()
    }
}
