//! Who asks: the owner of the control socket, or a peer on the network, whom a proxy may speak for.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;

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

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Whom `peer` speaks for, if it is one of the `proxies`: the last address in its header that is not one of them.
/// What does not say an address, and two headers that differ, are not believed: one of them is the client's own.
pub fn real(peer: IpAddr, headers: &HeaderMap, proxies: &[IpNet]) -> IpAddr {
    let is_proxy = |address: IpAddr| proxies.iter().any(|network| network.contains(&address));
    if !is_proxy(peer) {
        return peer;
    }
    let last = |said: Vec<Option<IpAddr>>| {
        let mut known = peer;
        for address in said.into_iter().rev() {
            let Some(address) = address else { return known };
            known = address;
            if !is_proxy(address) {
                return known;
            }
        }
        known
    };
    let said = |name: &HeaderName, read: fn(&str) -> Option<IpAddr>| {
        let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default());
        let said: Vec<Option<IpAddr>> = lines.flat_map(|line| line.split(',')).map(read).collect();
        (!said.is_empty()).then(|| last(said))
    };
    match (said(&X_FORWARDED_FOR, address), said(&header::FORWARDED, forwarded_for)) {
        (Some(one), Some(other)) if one != other => peer,
        (Some(said), _) | (None, Some(said)) => said,
        (None, None) => peer,
    }
}

/// The `for` of one element of `Forwarded` (RFC 7239).
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    address(value.trim().trim_matches('"'))
}

/// An address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || Some(text.parse::<std::net::SocketAddr>().ok()?.ip());
    text.parse().ok().or_else(bare).or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "10.0.0.1";

    fn real_of(peer: &str, lines: &[(&str, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let proxies = ["10.0.0.0/8", "2001:db8:1::/48"].map(|network| network.parse().unwrap());
        let Caller::Peer(peer) = Caller::from(std::net::SocketAddr::new(peer.parse().unwrap(), 1)) else {
            panic!("a peer");
        };
        real(peer, &headers, &proxies).to_string()
    }

    #[test]
    fn the_last_address_that_is_no_proxy_counts_and_only_proxies_are_believed() {
        for (peer, lines, real) in [
            (PROXY, vec![], PROXY),
            ("192.0.2.9", vec![("x-forwarded-for", "192.0.2.1")], "192.0.2.9"),
            ("192.0.2.9", vec![("forwarded", "for=192.0.2.1")], "192.0.2.9"),
            (PROXY, vec![("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
            ("::ffff:10.0.0.1", vec![("x-forwarded-for", "::ffff:192.0.2.1")], "192.0.2.1"),
            // What stands before it is what the client says of itself.
            (PROXY, vec![("x-forwarded-for", "203.0.113.1, 192.0.2.1 ,10.0.0.2")], "192.0.2.1"),
            (
                PROXY,
                vec![("x-forwarded-for", "203.0.113.1"), ("x-forwarded-for", "192.0.2.1:4711")],
                "192.0.2.1",
            ),
            (PROXY, vec![("x-forwarded-for", "10.0.0.3, 10.0.0.2")], "10.0.0.3"),
            (PROXY, vec![("x-forwarded-for", "192.0.2.1, unknown")], PROXY),
            (PROXY, vec![("x-forwarded-for", "192.0.2.1, unknown, 10.0.0.2")], "10.0.0.2"),
            (PROXY, vec![("x-forwarded-for", "")], PROXY),
            (
                PROXY,
                vec![("forwarded", "for=192.0.2.1;proto=https, For=\"[2001:db8::7]:80\"")],
                "2001:db8::7",
            ),
            (PROXY, vec![("forwarded", "for=192.0.2.1;by=x, for=10.0.0.2")], "192.0.2.1"),
            (PROXY, vec![("forwarded", "for=_hidden")], PROXY),
            ("2001:db8:1::1", vec![("x-forwarded-for", "[2001:db8::8]")], "2001:db8::8"),
            (PROXY, vec![("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.1")], "192.0.2.1"),
            // The proxy writes one of them and lets the client's other through.
            (PROXY, vec![("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.2")], PROXY),
        ] {
            assert_eq!(real_of(peer, &lines), real, "{peer} {lines:?}");
        }
    }
}
