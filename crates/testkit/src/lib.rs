//! Test clients and servers, written from scratch against what is publicly known of the wire.
//!
//! This crate must not depend on the crates it tests: a client built from the server's own helpers can
//! only agree with itself.
//!
//! - [`client`]: a Minecraft client over real sockets; [`legacy`] for clients older than 1.7.
//! - [`player`]: a client that plays by the rules, as strict as the game's own ([`vanilla`]).
//! - [`backend`]: a Minecraft server inside the test, which records what reaches it.
//! - [`engine`]: a Docker engine inside the test, as the manager of a small Swarm, and a proxy before any.
//! - [`cloudflare`]: Cloudflare's API inside the test, strict and with a memory.
//! - [`sessions`]: a session server inside the test, which knows accounts; [`encryption`] is the client's side of it.
//! - [`messengers`]: Pushover, Discord, Slack, ntfy and webhooks, as strict as the real ones.
//! - [`process`]: child processes, among them `testserver`, the same server as a program of its own.
//! - [`peers`]: third-party clients, servers, pingers and proxies, where they are installed.
//! - [`lab`]: Docker Swarms of one or several nodes, with engines of their own.
//! - [`wait`]: waiting for a state with a limit, in place of sleeps.

pub mod backend;
pub mod client;
pub mod cloudflare;
pub mod encryption;
pub mod engine;
mod http;
pub mod lab;
pub mod legacy;
pub mod login;
pub mod messengers;
mod nbt;
pub mod peers;
pub mod player;
pub mod process;
pub mod proxy;
pub mod sessions;
pub mod text;
pub mod vanilla;
pub mod wait;
pub mod wire;
