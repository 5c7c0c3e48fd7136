//! The gate as a service of real Docker Swarms, in front of real tasks. Each test has engines of its own; without
//! root or without an engine it says that it is skipped.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "this is how a test fails"
)]

mod alerts;
mod commands;
mod failing;
mod limbo;
mod network;
mod nodes;
mod peers;
mod publishing;
mod rest;
mod site;
mod stack;
mod stopping;
mod updates;
mod waking;
