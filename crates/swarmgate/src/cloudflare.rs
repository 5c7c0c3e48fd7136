//! Publishes labelled services through a Cloudflare Tunnel.

pub mod asked;
pub mod client;
