//! What of the labelled services is to be reachable through a Cloudflare Tunnel, and the ordered changes that make it
//! so.

pub mod actual;
