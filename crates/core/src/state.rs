//! From what an orchestrator says to one [`State`](crate::service::State): one pure function each.

pub mod docker;
pub mod output;
pub mod process;
mod sight;
pub mod swarm;

pub use sight::sight;

use std::time::Duration;

use jiff::Timestamp;

use crate::moment::Moment;

/// The exit code of a container that was ended by SIGKILL: 128 + 9.
const KILLED_CODE: i64 = 137;
/// A problem of a server that was told to stop and was killed.
const KILLED: &str = "was killed before it finished saving: the world may lack its last minutes; raise \
                      stop_grace_period if it was still saving";
/// How every such problem begins, and the one of a container whose health check fails.
const KILLED_BEGINS: &str = "was killed before it finished saving";
const UNHEALTHY_BEGINS: &str = "its health check fails";

/// The two clocks at one moment, to turn a time on the wall into one on the gate's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    pub moment: Moment,
    pub wall: Timestamp,
}

/// A network that the gate itself is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnNetwork {
    pub id: String,
    pub name: String,
}

/// `mc, web` for people.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "no network".to_owned() } else { names.join(", ") }
}

impl Clocks {
    /// `later` on the gate's own clock; now, if it has passed.
    fn moment_at(self, later: Timestamp) -> Moment {
        let left = later.duration_since(self.wall);
        self.moment + Duration::try_from(left).unwrap_or(Duration::ZERO)
    }
}
