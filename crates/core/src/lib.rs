//! What Swarmgate decides. No sockets, no clock, no environment: facts and the time come in, verdicts,
//! effects and views go out. The crate `swarmgate` acts on them.

pub mod alert;
pub mod api_routes;
pub mod config;
pub mod event;
pub mod explain;
pub mod fleet;
pub mod forwarded;
pub mod hours;
pub mod image;
pub mod knock;
pub mod labels;
pub mod ladder;
pub mod learned;
pub mod moment;
pub mod motd;
pub mod name;
pub mod news;
pub mod publish;
pub mod registry;
pub mod routes;
pub mod service;
pub mod span;
pub mod state;
pub mod throttle;
