//! Serves HTTP to whoever connects, at a bounded cost: so many connections at one time, each for one request and
//! for a short while. A client that sends or reads byte by byte gets no more of it than any other. An answer that is
//! meant to last gives its place to others, and is one of fewer.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use swarmgate_core::throttle::Source;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::caller::Caller;

/// What clients of one listener may cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Connections at one time; the others wait in the kernel's queue.
    pub connections: usize,
    /// Of those, how many of one source on the network; the others are closed.
    pub per_source: usize,
    /// How long a client may take to say what it asks for.
    pub head: Duration,
    /// How long a connection may last, its answer included.
    pub time: Duration,
    /// Connections at one time, besides, whose answers last.
    pub lasting: usize,
    /// And of those who listen to what happens.
    pub listeners: usize,
    /// Of those, how many with one token.
    pub per_token: usize,
}

impl Default for Cost {
    /// Nothing else that is served here takes a second.
    fn default() -> Self {
        Self {
            connections: 64,
            per_source: 16,
            head: Duration::from_secs(3),
            time: Duration::from_secs(10),
            lasting: 32,
            listeners: 32,
            per_token: 8,
        }
    }
}

/// The connection that a request came by, among the request's extensions.
#[derive(Debug, Clone)]
pub struct Connection {
    deadline: watch::Sender<Instant>,
    place: Place,
    lasting: Arc<Semaphore>,
    listeners: Listeners,
    stop: CancellationToken,
}

/// Those who listen, in all and by the names of their tokens.
#[derive(Debug, Clone)]
struct Listeners {
    places: Arc<Semaphore>,
    tokens: Counts<Arc<str>>,
    per_token: usize,
}

/// One among those that are served, until it is given up.
type Place = Arc<Mutex<Option<(OwnedSemaphorePermit, Option<Counted<Source>>)>>>;

/// How many places each has.
#[derive(Debug, Clone)]
struct Counts<K: Eq + Hash>(Arc<Mutex<HashMap<K, usize>>>);

/// A place of somebody, until it is dropped.
#[derive(Debug)]
struct Counted<K: Eq + Hash>(Counts<K>, K);

impl<K: Eq + Hash + Clone> Counts<K> {
    fn new() -> Self {
        Self(Arc::default())
    }

    /// `None` for who has as many as it may.
    fn count(&self, who: K, most: usize) -> Option<Counted<K>> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(who.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Counted(self.clone(), who))
    }
}

impl<K: Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

/// An answer that lasts, until it is dropped.
#[derive(Debug)]
pub struct Lasting {
    deadline: watch::Sender<Instant>,
    _places: (OwnedSemaphorePermit, Option<Counted<Arc<str>>>),
    stop: CancellationToken,
}

impl Connection {
    /// For an answer that takes long; `None` while there are as many as there may be.
    pub fn last(&self) -> Option<Lasting> {
        let place = Arc::clone(&self.lasting).try_acquire_owned().ok()?;
        Some(self.lasts((place, None)))
    }

    /// For an answer without an end to whoever has this token; `None` while as many listen as may.
    pub fn listen(&self, token: &Arc<str>) -> Option<Lasting> {
        let Listeners { places, tokens, per_token } = &self.listeners;
        let counted = tokens.count(Arc::clone(token), *per_token)?;
        let place = Arc::clone(places).try_acquire_owned().ok()?;
        Some(self.lasts((place, Some(counted))))
    }

    fn lasts(&self, places: (OwnedSemaphorePermit, Option<Counted<Arc<str>>>)) -> Lasting {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        Lasting { deadline: self.deadline.clone(), _places: places, stop: self.stop.clone() }
    }

    /// The listener has been told to stop: an answer that lasts has a moment to end.
    fn hurry(&self) {
        const LAST_WORDS: Duration = Duration::from_secs(1);
        let lasts = self.place.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        if lasts {
            self.deadline.send_replace(Instant::now() + LAST_WORDS);
        }
    }
}

impl Lasting {
    /// The connection is cut when this is over, unless it is said again before.
    pub fn for_another(&self, time: Duration) {
        if !self.stop.is_cancelled() {
            self.deadline.send_replace(Instant::now() + time);
        }
    }

    /// Returns when the answer must come to its end.
    pub async fn must_end(&self) {
        self.stop.cancelled().await;
    }
}

/// Serves `pages` until `stop`, and then those who are being answered.
pub async fn serve<L>(mut listener: L, pages: Router, cost: Cost, stop: CancellationToken)
where
    L: Listener,
    L::Addr: Into<Caller>,
{
    let places = Arc::new(Semaphore::new(cost.connections));
    let (lasting, sources) = (Arc::new(Semaphore::new(cost.lasting)), Counts::new());
    let listeners = Listeners {
        places: Arc::new(Semaphore::new(cost.listeners)),
        tokens: Counts::new(),
        per_token: cost.per_token,
    };
    let connections = TaskTracker::new();
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place.ok())
        };
        let ((stream, address), place) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accepted => accepted,
        };
        let caller = address.into();
        let counted = match caller {
            Caller::Owner => None,
            Caller::Peer(peer) => match sources.count(Source::from(peer), cost.per_source) {
                None => continue,
                counted => counted,
            },
        };
        let accepted = Instant::now();
        let connection = Connection {
            deadline: watch::Sender::new(accepted + cost.head.min(cost.time)),
            place: Arc::new(Mutex::new(place.map(|place| (place, counted)))),
            lasting: Arc::clone(&lasting),
            listeners: listeners.clone(),
            stop: stop.clone(),
        };
        let pages = pages.clone();
        connections.spawn(async move {
            let overdue = overdue(connection.deadline.subscribe());
            let place = Arc::clone(&connection.place);
            tokio::select! {
                () = answer(stream, pages, caller, connection, accepted + cost.time) => {}
                // Whoever is not done by then, or breaks the rules of HTTP, has lost the answer.
                () = overdue => {}
            }
            place.lock().unwrap_or_else(PoisonError::into_inner).take();
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn overdue(mut deadline: watch::Receiver<Instant>) {
    loop {
        let at = *deadline.borrow_and_update();
        tokio::select! {
            () = sleep_until(at) => return,
            // Once nobody can move it any more, it stands.
            Ok(()) = deadline.changed() => {}
        }
    }
}

async fn answer<S>(stream: S, pages: Router, caller: Caller, connection: Connection, end: Instant)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let own = connection.clone();
    let pages = TowerToHyperService::new(pages);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        connection.deadline.send_replace(end);
        request.extensions_mut().insert(caller);
        request.extensions_mut().insert(connection.clone());
        pages.call(request)
    });
    let served = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    let mut served = std::pin::pin!(served);
    let served = tokio::select! {
        served = &mut served => served,
        () = own.stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            own.hurry();
            served.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a client of the HTTP pages was not answered");
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::Extension;
    use axum::body::Body;
    use axum::routing::{get, post};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    struct Site {
        address: SocketAddr,
        stop: CancellationToken,
        served: tokio::task::JoinHandle<()>,
    }

    async fn site(connections: usize, time: Duration) -> Site {
        site_of(Cost {
            connections,
            per_source: connections,
            head: time,
            time,
            lasting: 1,
            ..Cost::default()
        })
        .await
    }

    async fn site_of(cost: Cost) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let long = "x".repeat(8 << 20);
        let pages = Router::new()
            .route("/", get(|| async { "here" }))
            .route("/long", get(|| async { long }))
            .route("/echo", post(|body: String| async { body }))
            .route("/lasting", get(lasting));
        let served = tokio::spawn(serve(listener, pages, cost, stop.clone()));
        Site { address, stop, served }
    }

    /// Says so, and then nothing until it must end.
    async fn lasting(Extension(connection): Extension<Connection>) -> Body {
        let Some(lasting) = connection.last() else { return Body::from("no place") };
        lasting.for_another(LIMIT);
        let (send, body) = tokio::sync::mpsc::channel::<Result<&str, std::convert::Infallible>>(1);
        send.try_send(Ok("here")).unwrap();
        tokio::spawn(async move {
            lasting.must_end().await;
            drop(send);
        });
        Body::from_stream(futures_util::stream::unfold(body, |mut body| async {
            Some((body.recv().await?, body))
        }))
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
    async fn who_does_not_say_what_it_asks_for_is_cut_sooner() {
        let head = Duration::from_millis(300);
        let site = site_of(Cost { head, time: LIMIT * 2, ..Cost::default() }).await;
        let mut asks = site.send("POST /echo HTTP/1.1\r\nhost: gate\r\ncontent-length: 9\r\n\r\nabc").await;
        for said in ["", "GET / HTTP/1.1\r\nhost: ga"] {
            let mut silent = site.send(said).await;
            let _ = timeout(LIMIT, silent.read_to_end(&mut Vec::new())).await.expect("an end");
        }
        asks.write_all(b"defghi").await.unwrap();
        let mut answer = String::new();
        timeout(LIMIT, asks.read_to_string(&mut answer)).await.expect("an end").unwrap();
        assert!(answer.ends_with("abcdefghi"), "{answer}");
    }

    #[tokio::test]
    async fn one_source_does_not_keep_the_others_out() {
        let site =
            site_of(Cost { connections: 4, per_source: 2, head: LIMIT, time: LIMIT, ..Cost::default() })
                .await;
        let mut dawdlers = [site.send("").await, site.send("").await];
        let (from, limit) = ("127.0.0.2:0".parse().unwrap(), Duration::from_secs(5));
        let mut third = site.send("GET / HTTP/1.1\r\nhost: gate\r\n\r\n").await;
        let mut said = String::new();
        // A reset is an end, too.
        let _ = timeout(limit, third.read_to_string(&mut said)).await.expect("an end");
        assert_eq!(said, "", "closed, not answered");
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(from).unwrap();
        let mut other = socket.connect(site.address).await.unwrap();
        other.write_all(b"GET / HTTP/1.1\r\nhost: gate\r\n\r\n").await.unwrap();
        timeout(limit, other.read_to_string(&mut said)).await.expect("an end").unwrap();
        assert!(said.ends_with("here"), "{said}");
        // Whoever goes gives its place back.
        for dawdler in &mut dawdlers {
            dawdler.write_all(b"GET / HTTP/1.1\r\nhost: gate\r\n\r\n").await.unwrap();
            said.clear();
            timeout(limit, dawdler.read_to_string(&mut said)).await.expect("an end").unwrap();
            assert!(said.ends_with("here"), "{said}");
        }
        let until = swarmgate_testkit::wait::until("a place", LIMIT, async || {
            let mut said = String::new();
            let mut again = site.send("GET / HTTP/1.1\r\nhost: gate\r\n\r\n").await;
            timeout(limit, again.read_to_string(&mut said)).await.ok()?.ok()?;
            said.ends_with("here").then_some(())
        });
        until.await;
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

    async fn read_until(stream: &mut TcpStream, end: &str) -> String {
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains(end) {
            assert_ne!(timeout(LIMIT, stream.read_buf(&mut said)).await.expect("words").unwrap(), 0);
        }
        String::from_utf8_lossy(&said).into_owned()
    }

    #[tokio::test]
    async fn an_answer_that_lasts_takes_nobodys_place_and_outlives_the_time() {
        let time = Duration::from_millis(500);
        let site = site(1, time).await;
        let ask = "GET /lasting HTTP/1.1\r\nhost: gate\r\n\r\n";
        let mut first = site.send(ask).await;
        read_until(&mut first, "here").await;
        let started = Instant::now();
        read_until(&mut site.send(ask).await, "no place").await;
        // The one place for short answers is free; this one is cut for dawdling, after the time.
        let mut dawdler = site.send("").await;
        let _ = timeout(LIMIT, dawdler.read(&mut [0])).await.expect("an end");
        assert!(started.elapsed() >= time);
        assert!(first.try_read(&mut [0; 9]).is_err(), "it is neither over nor has it said more");
        site.stop.cancel();
        let mut rest = String::new();
        timeout(LIMIT, first.read_to_string(&mut rest)).await.expect("an end").unwrap();
        assert!(rest.ends_with("0\r\n\r\n"), "a whole answer: {rest:?}");
        timeout(LIMIT, site.served).await.expect("an end").unwrap();
    }
}
