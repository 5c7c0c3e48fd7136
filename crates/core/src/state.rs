//! From what an orchestrator says to one [`State`](crate::service::State): one pure function each.

pub mod process;
pub mod swarm;
