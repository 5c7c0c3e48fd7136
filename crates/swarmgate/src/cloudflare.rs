//! Publishes labelled services through a Cloudflare Tunnel.

pub mod client;
