//! From what an orchestrator says to one [`State`](crate::service::State): one pure function each.

pub mod docker;
pub mod process;
pub mod swarm;

use std::time::Duration;

use jiff::Timestamp;

use crate::moment::Moment;

/// The two clocks at one moment, to turn a time on the wall into one on the gate's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    pub moment: Moment,
    pub wall: Timestamp,
}

impl Clocks {
    /// `later` on the gate's own clock; now, if it has passed.
    fn moment_at(self, later: Timestamp) -> Moment {
        let left = later.duration_since(self.wall);
        self.moment + Duration::try_from(left).unwrap_or(Duration::ZERO)
    }
}
