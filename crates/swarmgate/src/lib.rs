//! The shell of Swarmgate: sockets, processes and clocks around what `swarmgate-core` decides.

pub mod gateway;
pub mod keeper;
pub mod provider;
