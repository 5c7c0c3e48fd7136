//! The shell of Swarmgate: sockets, processes and clocks around what `swarmgate-core` decides.

pub mod alarm;
pub mod api;
pub mod app;
pub mod build;
pub mod cli;
pub mod clock;
pub mod cloudflare;
mod dial;
pub mod engine;
mod errors;
pub mod fleet;
pub mod gateway;
pub mod http;
pub mod keeper;
pub mod metrics;
mod news;
pub mod notify;
mod percent;
mod probe;
pub mod provider;
pub mod seats;
pub mod settings;
pub mod store;
pub mod telemetry;
