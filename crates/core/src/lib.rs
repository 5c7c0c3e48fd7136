//! What Swarmgate decides. No sockets, no clock, no environment: facts and the time come in, verdicts,
//! effects and views go out. The crate `swarmgate` acts on them.

pub mod moment;
pub mod name;
pub mod service;
pub mod state;
