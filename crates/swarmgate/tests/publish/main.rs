//! The gate with a Cloudflare inside the test: from labels and tables to what a visitor gets, and nothing else changed.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "this is how a test fails"
)]

#[path = "../common/mod.rs"]
mod common;
mod connector;
mod docker;
mod faults;
mod ownership;
mod preflight;
mod publishing;
mod site;
mod telling;
mod withdrawing;
