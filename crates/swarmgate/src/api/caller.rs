//! Who asks: the owner of the control socket, or a peer on the network, whom a proxy may speak for.

use std::net::IpAddr;

use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use swarmgate_core::forwarded::{self, Real, Said};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// On the control socket: the rights of its file say who may.
    Owner,
    /// On the network, wherever it listens: nobody without a token.
    Peer(IpAddr),
}

impl From<tokio::net::unix::SocketAddr> for Caller {
    fn from(_: tokio::net::unix::SocketAddr) -> Self {
        Self::Owner
    }
}

impl From<std::net::SocketAddr> for Caller {
    fn from(address: std::net::SocketAddr) -> Self {
        Self::Peer(address.ip().to_canonical())
    }
}

/// Whom `peer` speaks for.
pub fn real(peer: IpAddr, headers: &HeaderMap, proxies: &[IpNet]) -> Real {
    // A line that is no text says nothing, but it is there.
    let lines = |name: HeaderName| {
        headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default()).collect()
    };
    forwarded::real(
        peer,
        &Said { x_forwarded_for: lines(X_FORWARDED_FOR), forwarded: lines(FORWARDED) },
        proxies,
    )
}
