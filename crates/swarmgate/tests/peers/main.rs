//! The gate between clients, servers, pingers and proxies that nobody here wrote. `scripts/test` installs them;
//! without them each of these tests says that it is skipped.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "this is how a test fails"
)]

mod api;
#[path = "../common/mod.rs"]
mod common;
mod data;
mod metrics;
mod proxy;
mod status;
mod verified;
mod versions;
mod waiting;
