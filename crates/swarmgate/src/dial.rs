//! Opens connections to servers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use swarmgate_core::service::Endpoint;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout, timeout_at};

use crate::gateway::relay;

/// One address may keep us waiting this long: long enough for one lost SYN (1 s), short enough that a player
/// still gets an answer when it is dead.
const PER_ADDRESS: Duration = Duration::from_millis(1_500);

#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("it has no address to dial")]
    Nowhere,
    #[error("{endpoint} has no address")]
    Unresolved { endpoint: Endpoint, source: io::Error },
    #[error("{address} refuses connections")]
    Refused { address: SocketAddr },
    #[error("{address} does not answer")]
    TimedOut { address: SocketAddr },
    #[error("{address} cannot be reached")]
    Unreachable { address: SocketAddr, source: io::Error },
    #[error("the connection broke before the opening was sent")]
    Unprepared { source: io::Error },
}

/// Dials the endpoints in order, each at all its addresses, until one takes the connection or `within` is over.
/// Names are resolved anew each time. The error is the last one met.
pub async fn dial(endpoints: &[Endpoint], within: Duration) -> Result<TcpStream, DialError> {
    let deadline = Instant::now() + within;
    let mut last = DialError::Nowhere;
    for endpoint in endpoints {
        let addresses =
            match timeout_at(deadline, tokio::net::lookup_host((&*endpoint.host, endpoint.port))).await {
                Ok(Ok(addresses)) => addresses,
                Ok(Err(source)) => {
                    last = DialError::Unresolved { endpoint: endpoint.clone(), source };
                    continue;
                }
                Err(_) => {
                    let source = io::Error::from(io::ErrorKind::TimedOut);
                    return Err(DialError::Unresolved { endpoint: endpoint.clone(), source });
                }
            };
        for address in addresses {
            let patience = PER_ADDRESS.min(deadline.saturating_duration_since(Instant::now()));
            match timeout(patience, connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    last = DialError::Refused { address };
                }
                Ok(Err(source)) => last = DialError::Unreachable { address, source },
                Err(_) => last = DialError::TimedOut { address },
            }
        }
    }
    Err(last)
}

/// Tunes the socket first: once it is connected, each option would set a timer of the kernel anew. The last step of
/// the handshake waits for the opening, which follows at once, and travels with it: a packet less for each player.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    relay::tune(&socket)?;
    SockRef::from(&socket).set_tcp_quickack(false)?;
    socket.connect(address).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn endpoint(host: &str, port: u16) -> Endpoint {
        Endpoint { host: host.into(), port }
    }

    #[tokio::test]
    async fn the_second_of_two_is_used_when_the_first_is_down() {
        let up = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = up.local_addr().unwrap().port();
        let down = {
            let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
            closed.local_addr().unwrap().port()
        };
        let both = [endpoint("127.0.0.1", down), endpoint("127.0.0.1", port)];
        let stream = dial(&both, Duration::from_secs(5)).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap().port(), port);
        let error = dial(&both[..1], Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(error, DialError::Refused { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_name_is_tried_at_all_its_addresses() {
        // `localhost` is ::1 first on many machines; the server listens on IPv4 alone.
        let up = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = up.local_addr().unwrap().port();
        dial(&[endpoint("localhost", port)], Duration::from_secs(5)).await.unwrap();
    }

    #[tokio::test]
    async fn nowhere_to_dial_is_an_error_not_a_hang() {
        assert!(matches!(dial(&[], Duration::from_secs(5)).await, Err(DialError::Nowhere)));
    }
}
