//! Waiting inside the game: the limbo as a client as strict as the game's own meets it.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "this is how a test fails"
)]

mod session;
