//! Waiting for a state, never for a while.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(5);

/// Asks until there is an answer.
///
/// # Panics
/// When `limit` has passed without one, naming `what` was waited for.
pub async fn until<T>(what: &str, limit: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(started.elapsed() < limit, "waited {limit:?} for {what}");
        tokio::time::sleep(INTERVAL).await;
    }
}

/// A port of 127.0.0.1 that nobody listens on and that the kernel gives to nobody else for a minute.
///
/// The trick: a connection closed by the listener's side stays in TIME_WAIT, which keeps the port from being
/// handed out, while a server (which sets `SO_REUSEADDR`) can still bind it by its number.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a listener");
    let address = listener.local_addr().expect("its address");
    let dialled = TcpStream::connect(address).expect("a connection to it");
    let (accepted, _) = listener.accept().expect("the same connection");
    drop(accepted);
    drop(dialled);
    address.port()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_answer_is_handed_out() {
        let mut tries = 0;
        let answer = until("three tries", Duration::from_secs(5), async || {
            tries += 1;
            (tries == 3).then_some(tries)
        });
        assert_eq!(answer.await, 3);
    }

    #[tokio::test]
    #[should_panic(expected = "waited 20ms for godot")]
    async fn the_panic_names_what_did_not_come() {
        until("godot", Duration::from_millis(20), async || None::<()>).await;
    }

    #[tokio::test]
    async fn free_ports_differ_and_can_be_bound() {
        let mut ports: Vec<_> = (0..20).map(|_| free_port()).collect();
        for port in &ports {
            // Without SO_REUSEADDR, as when the kernel chooses: taken.
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            assert_eq!(socket.bind(&address.into()).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
            tokio::net::TcpListener::bind(address).await.unwrap();
        }
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }
}
