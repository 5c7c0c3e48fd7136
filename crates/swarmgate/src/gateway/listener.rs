//! The sockets players connect to.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use swarmgate_core::config::{Listener, ProxyProtocol};
use tokio::net::TcpListener;

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{0} is in use by another program; stop that one, or listen on another address")]
    InUse(SocketAddr),
    #[error(
        "not allowed to listen on {0}: ports below 1024 need root or CAP_NET_BIND_SERVICE; use a port above, such as 25565"
    )]
    Forbidden(SocketAddr),
    #[error("{0} is not an address of this machine; use 0.0.0.0 or [::] for all of them")]
    NotOurs(SocketAddr),
    #[error("cannot listen on {address}")]
    Other { address: SocketAddr, source: io::Error },
}

impl ListenError {
    /// A short name for programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::InUse(_) => "address_in_use",
            Self::Forbidden(_) => "address_forbidden",
            Self::NotOurs(_) => "address_not_ours",
            Self::Other { .. } => "address_unusable",
        }
    }
}

/// Whether `listener` believes a PROXY header from `peer`.
pub fn trusts(listener: &Listener, peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    listener.proxy_protocol != ProxyProtocol::Off && listener.trusted.iter().any(|net| net.contains(&peer))
}

/// Binds with a deep queue, IPv4 included where the address is `[::]`.
pub fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    const BACKLOG: i32 = 4096;
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        super::relay::tune(&socket)?;
        TcpListener::from_std(socket.into())
    };
    bind().map_err(|source| {
        let kind = source.kind();
        if kind == io::ErrorKind::AddrInUse {
            ListenError::InUse(address)
        } else if kind == io::ErrorKind::PermissionDenied {
            ListenError::Forbidden(address)
        } else if kind == io::ErrorKind::AddrNotAvailable {
            ListenError::NotOurs(address)
        } else {
            ListenError::Other { address, source }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_in_use_is_named() {
        let held = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = held.local_addr().unwrap();
        let error = bind(address).unwrap_err();
        assert!(matches!(error, ListenError::InUse(named) if named == address), "{error}");
        let error = bind("192.0.2.77:25565".parse().unwrap()).unwrap_err();
        assert!(matches!(error, ListenError::NotOurs(_)), "{error}");
    }

    #[test]
    fn trust_is_for_listed_peers_of_listeners_that_want_headers() {
        let listener = |proxy_protocol| Listener {
            address: "[::]:25565".parse().unwrap(),
            proxy_protocol,
            trusted: vec!["10.0.0.0/8".parse().unwrap()],
        };
        assert!(trusts(&listener(ProxyProtocol::Optional), "::ffff:10.1.2.3".parse().unwrap()));
        assert!(!trusts(&listener(ProxyProtocol::Required), "192.0.2.1".parse().unwrap()));
        assert!(!trusts(&listener(ProxyProtocol::Off), "10.1.2.3".parse().unwrap()));
    }
}
