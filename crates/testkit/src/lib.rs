//! Test clients and servers, written from scratch against what is publicly known of the wire.
//!
//! This crate must not depend on the crates it tests: a client built from the server's own helpers can
//! only agree with itself.
//!
//! - [`client`]: a Minecraft client over real sockets; [`legacy`] for clients older than 1.7.
//! - [`backend`]: a Minecraft server inside the test, which records what reaches it.
//! - [`engine`]: a Docker engine inside the test, as the manager of a small Swarm, and a proxy before any.
//! - [`process`]: child processes, among them `testserver`, the same server as a program of its own.
//! - [`peers`]: third-party clients, servers, pingers and proxies, where they are installed.
//! - [`lab`]: Docker Swarms of one or several nodes, with engines of their own.
//! - [`wait`]: waiting for a state with a limit, in place of sleeps.

pub mod backend;
pub mod client;
mod configuration;
pub mod engine;
pub mod lab;
pub mod legacy;
pub mod login;
pub mod peers;
pub mod process;
pub mod proxy;
pub mod text;
pub mod wait;
pub mod wire;
