//! Whom a proxy of HTTP speaks for.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

/// What a request says of the way it came, each line as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said<'a> {
    /// The lines of `X-Forwarded-For`, in order.
    pub x_forwarded_for: Vec<&'a str>,
    /// The lines of `Forwarded` (RFC 7239), in order.
    pub forwarded: Vec<&'a str>,
}

/// Who is counted for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Real {
    pub address: IpAddr,
    /// False for a proxy that speaks for somebody without saying for whom: a client can bring that about.
    pub is_known: bool,
}

/// Whom `peer` speaks for, if it is one of the `proxies`: the last address in its header that is not one of them.
/// What does not say an address, and two headers that differ, are not believed: one of them is the client's own.
pub fn real(peer: IpAddr, said: &Said<'_>, proxies: &[IpNet]) -> Real {
    let peer = peer.to_canonical();
    let chain = Chain { peer, proxies };
    let says_nothing = said.x_forwarded_for.is_empty() && said.forwarded.is_empty();
    if says_nothing || !chain.is_proxy(peer) {
        return Real { address: peer, is_known: true };
    }
    let address = chain.speaks_for(said);
    Real { address, is_known: !chain.is_proxy(address) }
}

struct Chain<'a> {
    peer: IpAddr,
    proxies: &'a [IpNet],
}

impl Chain<'_> {
    fn speaks_for(&self, said: &Said<'_>) -> IpAddr {
        let one = self.client(&said.x_forwarded_for, address);
        let other = self.client(&said.forwarded, forwarded_for);
        match (one, other) {
            (Some(one), Some(other)) if one != other => self.peer,
            (Some(client), _) | (None, Some(client)) => client,
            (None, None) => self.peer,
        }
    }

    /// From the last element, which `peer` wrote, as far as the word of proxies goes; `None` without the header.
    fn client(&self, lines: &[&str], read: fn(&str) -> Option<IpAddr>) -> Option<IpAddr> {
        if lines.is_empty() {
            return None;
        }
        let mut known = self.peer;
        for element in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
            match read(element) {
                Some(address) if self.is_proxy(address) => known = address,
                Some(address) => return Some(address),
                None => return Some(known),
            }
        }
        Some(known)
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(&address))
    }
}

/// The `for` of one element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    address(value.trim().trim_matches('"'))
}

/// An address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || Some(text.parse::<SocketAddr>().ok()?.ip());
    text.parse().ok().or_else(bare).or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "10.0.0.1";

    fn real_of(peer: &str, x_forwarded_for: &[&str], forwarded: &[&str]) -> String {
        let proxies = ["10.0.0.0/8", "2001:db8:1::/48"].map(|network| network.parse().unwrap());
        let said = Said { x_forwarded_for: x_forwarded_for.to_vec(), forwarded: forwarded.to_vec() };
        let Real { address, is_known } = real(peer.parse().unwrap(), &said, &proxies);
        let is_proxy = proxies.iter().any(|network| network.contains(&address));
        assert_eq!(is_known, !is_proxy || (x_forwarded_for.is_empty() && forwarded.is_empty()), "{said:?}");
        address.to_string()
    }

    #[test]
    fn the_last_address_that_is_no_proxy_counts_and_only_proxies_are_believed() {
        for (peer, x_forwarded_for, real) in [
            (PROXY, &[][..], PROXY),
            ("192.0.2.9", &["192.0.2.1"], "192.0.2.9"),
            (PROXY, &["192.0.2.1"], "192.0.2.1"),
            ("::ffff:10.0.0.1", &["::ffff:192.0.2.1"], "192.0.2.1"),
            // What stands before it is what the client says of itself.
            (PROXY, &["203.0.113.1, 192.0.2.1 ,10.0.0.2"], "192.0.2.1"),
            (PROXY, &["203.0.113.1", "192.0.2.1:4711"], "192.0.2.1"),
            (PROXY, &["192.0.2.1", "10.0.0.2"], "192.0.2.1"),
            (PROXY, &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            (PROXY, &["192.0.2.1, unknown"], PROXY),
            (PROXY, &["192.0.2.1, unknown, 10.0.0.2"], "10.0.0.2"),
            (PROXY, &[""], PROXY),
            ("2001:db8:1::1", &["[2001:db8::8]"], "2001:db8::8"),
        ] {
            assert_eq!(real_of(peer, x_forwarded_for, &[]), real, "{peer} {x_forwarded_for:?}");
        }
        for (peer, forwarded, real) in [
            ("192.0.2.9", "for=192.0.2.1", "192.0.2.9"),
            (PROXY, "for=192.0.2.1;proto=https, For=\"[2001:db8::7]:80\"", "2001:db8::7"),
            (PROXY, "for=192.0.2.1;by=x, for=10.0.0.2", "192.0.2.1"),
            (PROXY, "for=_hidden", PROXY),
            (PROXY, "by=192.0.2.1", PROXY),
        ] {
            assert_eq!(real_of(peer, &[], &[forwarded]), real, "{peer} {forwarded}");
        }
    }

    #[test]
    fn of_two_headers_that_differ_neither_is_believed() {
        assert_eq!(real_of(PROXY, &["192.0.2.1"], &["for=192.0.2.1"]), "192.0.2.1");
        // The proxy writes one of them and lets the client's other through.
        assert_eq!(real_of(PROXY, &["192.0.2.1"], &["for=192.0.2.2"]), PROXY);
        assert_eq!(real_of(PROXY, &["192.0.2.1"], &["for=_hidden"]), PROXY);
    }
}
