//! Who asks: the owner of the control socket, or a peer on the network, whom a proxy may speak for.

use std::net::IpAddr;

use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;
use swarmgate_core::forwarded::{self, Real, Said};
use swarmgate_core::name::{HostName, HostPattern};

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

/// Whether a header `Host` names this machine: by an address, as `localhost`, or by one of these names.
pub fn is_here(host: &str, names: &[HostPattern]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() && !host.ends_with(']') => name,
        Some(_) | None => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if address.parse::<IpAddr>().is_ok() {
        return true;
    }
    let Ok(name) = HostName::parse(name) else { return false };
    let is_local = name.as_str() == "localhost" || name.as_str().ends_with(".localhost");
    is_local || names.iter().any(|pattern| pattern.matches(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_by_its_addresses_and_its_own_names() {
        let names = ["Gate.example.com", "*.lan"].map(|name| HostPattern::parse(name).unwrap());
        for host in [
            "localhost",
            "LOCALHOST:9250",
            "gate.localhost",
            "127.0.0.1:9250",
            "[::1]:9250",
            "[::1]",
            "192.0.2.1",
            "gate.example.com:9250",
            "gate.example.com.",
            "nas.lan",
        ] {
            assert!(is_here(host, &names), "{host}");
        }
        for host in [
            "",
            "evil.example.com",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "notlocalhost",
            "lan",
            "a b",
            "ä",
            "localhost@evil.example.com",
            "[::1].example.com",
        ] {
            assert!(!is_here(host, &names), "{host}");
        }
    }
}
