//! Serves HTTP to whoever connects, at a bounded cost: so many connections at one time, each for one request and
//! for a short while. A client that sends or reads byte by byte gets no more of it than any other.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What clients of one listener may cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Connections at one time; the others wait in the kernel's queue.
    pub connections: usize,
    /// How long a connection may last, its answer included.
    pub time: Duration,
}

impl Default for Cost {
    /// Nothing that is served here takes a second.
    fn default() -> Self {
        Self { connections: 64, time: Duration::from_secs(10) }
    }
}

/// Serves `pages` until `stop`, and then those who are being answered.
pub async fn serve<L: Listener>(mut listener: L, pages: Router, cost: Cost, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(cost.connections));
    let connections = TaskTracker::new();
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await.0, place)
        };
        let (stream, place) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accepted => accepted,
        };
        let (pages, stop) = (pages.clone(), stop.clone());
        connections.spawn(async move {
            // Whoever is not done by then, or breaks the rules of HTTP, has lost the answer.
            let _ = timeout(cost.time, answer(stream, pages, stop)).await;
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn answer<S>(stream: S, pages: Router, stop: CancellationToken)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(pages);
    let connection = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = &mut connection => served,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a client of the HTTP pages was not answered");
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Instant;

    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    struct Site {
        address: SocketAddr,
        stop: CancellationToken,
        served: tokio::task::JoinHandle<()>,
    }

    async fn site(connections: usize, time: Duration) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let long = "x".repeat(8 << 20);
        let pages = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/long", get(|| async { long }))
            .route("/echo", post(|body: String| async { body }));
        let served = tokio::spawn(serve(listener, pages, Cost { connections, time }, stop.clone()));
        Site { address, stop, served }
    }

    impl Site {
        async fn send(&self, bytes: &str) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(bytes.as_bytes()).await.unwrap();
            stream
        }

        async fn get(&self) -> String {
            let mut answer = String::new();
            let mut stream = self.send("GET / HTTP/1.1\r\nhost: gate\r\n\r\n").await;
            timeout(LIMIT, stream.read_to_string(&mut answer)).await.expect("an end").unwrap();
            answer
        }
    }

    #[tokio::test]
    async fn those_who_dawdle_are_cut_and_the_next_is_served() {
        let time = Duration::from_millis(500);
        let site = site(4, time).await;
        let started = Instant::now();
        let dawdlers = [
            site.send("").await,
            site.send("GET / HTTP/1.1\r\nhost: ga").await,
            site.send("POST /echo HTTP/1.1\r\nhost: gate\r\ncontent-length: 9\r\n\r\nabc").await,
            // Asks for more than the sockets hold, and does not read it.
            site.send("GET /long HTTP/1.1\r\nhost: gate\r\n\r\n").await,
        ];
        // All places are taken; the fifth waits for one of them.
        assert!(site.get().await.ends_with("here"));
        assert!(started.elapsed() >= time, "{:?}", started.elapsed());
        for mut dawdler in dawdlers {
            let mut said = Vec::new();
            let _ = timeout(LIMIT, dawdler.read_to_end(&mut said)).await.expect("an end");
            assert!(said.len() < 8 << 20);
        }
    }

    #[tokio::test]
    async fn bytes_that_trickle_in_do_not_move_the_end() {
        let site = site(1, Duration::from_millis(500)).await;
        let mut stream = site.send("GET / HTTP/1.1\r\n").await;
        let started = Instant::now();
        let trickle = async {
            // Paced by reading: there is nothing to read until the end.
            let mut byte = [0];
            while timeout(Duration::from_millis(20), stream.read(&mut byte)).await.is_err() {
                if stream.write_all(b"a: b\r\n").await.is_err() {
                    break;
                }
            }
        };
        timeout(LIMIT, trickle).await.expect("an end");
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert!(site.get().await.ends_with("here"));
    }

    #[tokio::test]
    async fn a_connection_is_for_one_request() {
        let site = site(1, LIMIT).await;
        let twice = "GET / HTTP/1.1\r\nhost: gate\r\n\r\n".repeat(2);
        let mut answer = String::new();
        let _ = timeout(LIMIT, site.send(&twice).await.read_to_string(&mut answer)).await.expect("an end");
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }

    #[tokio::test]
    async fn an_end_does_not_wait_for_those_who_have_said_nothing() {
        let site = site(2, LIMIT).await;
        let _silent = site.send("").await;
        assert!(site.get().await.ends_with("here"));
        site.stop.cancel();
        let told = Instant::now();
        timeout(LIMIT, site.served).await.expect("an end").unwrap();
        assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
    }
}
