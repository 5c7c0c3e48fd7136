//! A Minecraft server inside the test: it records what reaches it and behaves as told.
//!
//! ```no_run
//! # async fn example() {
//! use std::time::Duration;
//! use swarmgate_testkit::backend::{Backend, Behaviour, Login};
//!
//! let backend = Backend::start(Behaviour::default()).await;
//! // … a player joins through the gate …
//! let state = backend.wait_for("one player", Duration::from_secs(5), |state| state.online() == 1).await;
//! assert_eq!(state.connections[0].handshake.as_ref().unwrap().host, b"mc.example.com");
//! backend.set(|behaviour| behaviour.login = Login::Kick(r#""full""#.into()));
//! # }
//! ```
//!
//! After Login Success the connection is an echo: every byte comes back, so that a test can compare a
//! relayed stream byte for byte.

mod serve;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::login::LoginStart;
use crate::proxy;
use crate::wire::Handshake;

/// What the backend does; may be changed at any time and holds from the next request on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    pub status: Status,
    pub login: Login,
    pub motd: String,
    /// The version's name and protocol; no protocol: the client's own.
    pub version: (String, Option<i32>),
    /// The player count; `None`: the players who are in.
    pub players: Option<u32>,
    pub max_players: u32,
    /// A `data:image/png;base64,…` text.
    pub favicon: Option<String>,
    /// Whether to keep a [`Record`] of each connection. A server that runs for long should not.
    pub record: bool,
}

/// How a status request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// As the game does, from the fields of [`Behaviour`].
    Game,
    /// The same, but only after this long.
    Slow(Duration),
    /// With this text as the JSON, valid or not.
    Json(String),
    /// With these bytes in place of a packet.
    Raw(Vec<u8>),
    /// Not at all, nor any ping, legacy ones included; the connection stays open.
    Never,
    /// By closing.
    Close,
}

/// How a login is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// With Login Success; from then on every byte is echoed.
    Echo,
    /// With Login Success; from then on bytes are read and recorded, none sent.
    Sink,
    /// With these bytes (an encryption request, a Set Compression, nonsense), then as [`Login::Sink`].
    Raw(Vec<u8>),
    /// With this JSON text as the reason.
    Kick(String),
    /// Not at all; the connection stays open.
    Never,
    /// By closing.
    Close,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            status: Status::Game,
            login: Login::Echo,
            motd: "A test server".into(),
            version: ("testkit".into(), None),
            players: None,
            max_players: 20,
            favicon: None,
            record: true,
        }
    }
}

impl Behaviour {
    /// Accepts connections and says nothing: a server that hangs, or one that has not come far in its start.
    pub fn silent() -> Self {
        Self { status: Status::Never, login: Login::Never, ..Self::default() }
    }
}

/// Everything the backend has seen.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// In the order they were accepted; those that ended stay.
    pub connections: Vec<Record>,
    online: u32,
}

impl State {
    /// Players who are in now.
    pub fn online(&self) -> u32 {
        self.online
    }

    /// Connections that are open now.
    pub fn open(&self) -> usize {
        self.connections.iter().filter(|record| record.open).count()
    }

    /// Status requests seen so far.
    pub fn status_requests(&self) -> usize {
        self.connections.iter().map(|record| record.status_requests).sum()
    }

    /// Login starts seen so far.
    pub fn logins(&self) -> impl Iterator<Item = &LoginStart> {
        self.connections.iter().filter_map(|record| record.login.as_ref())
    }
}

/// One connection.
#[derive(Debug, Clone)]
pub struct Record {
    pub peer: SocketAddr,
    /// Every byte received, a PROXY header included.
    pub bytes: Vec<u8>,
    pub proxy: Option<proxy::Header>,
    pub handshake: Option<Handshake>,
    pub status_requests: usize,
    pub login: Option<LoginStart>,
    /// The client has said that it sends no more.
    pub half_closed: bool,
    pub open: bool,
    /// Why the connection ended, when it was not by an orderly close.
    pub error: Option<String>,
}

/// What a running backend tells whoever asked for [`Backend::events`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Joined(String),
    Left(String),
}

/// A running backend; dropping it closes everything.
#[derive(Debug)]
pub struct Backend {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: mpsc::UnboundedSender<Listening>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    behaviour: watch::Sender<Behaviour>,
    state: watch::Sender<State>,
    events: Mutex<Option<mpsc::UnboundedSender<Event>>>,
    orders: broadcast::Sender<Order>,
}

/// For all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Close,
    HalfClose,
    Reset,
}

#[derive(Debug)]
struct Listening {
    wanted: bool,
    done: oneshot::Sender<()>,
}

impl Backend {
    /// Listens on a port of 127.0.0.1 that the kernel chooses.
    pub async fn start(behaviour: Behaviour) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), behaviour).await
    }

    /// # Panics
    /// When the address cannot be listened on.
    pub async fn start_at(address: SocketAddr, behaviour: Behaviour) -> Self {
        let listener = listen(address).await;
        let address = listener.local_addr().expect("a listener's address");
        let shared = Arc::new(Shared {
            behaviour: watch::Sender::new(behaviour),
            state: watch::Sender::default(),
            events: Mutex::default(),
            orders: broadcast::Sender::new(16),
        });
        let (listening, orders) = mpsc::unbounded_channel();
        let task = tokio::spawn(accept(listener, orders, shared.clone()));
        Self { address, shared, listening, task }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn set(&self, change: impl FnOnce(&mut Behaviour)) {
        self.shared.behaviour.send_modify(change);
    }

    pub fn state(&self) -> State {
        self.shared.state.borrow().clone()
    }

    /// The state as soon as it satisfies `wanted`.
    ///
    /// # Panics
    /// When it has not within `limit`, naming `what` was waited for.
    pub async fn wait_for(&self, what: &str, limit: Duration, wanted: impl FnMut(&State) -> bool) -> State {
        let mut states = self.shared.state.subscribe();
        match timeout(limit, states.wait_for(wanted)).await {
            Ok(state) => state.expect("the backend holds the sender").clone(),
            Err(_) => panic!("waited {limit:?} for {what}; the backend has seen {:#?}", self.state()),
        }
    }

    /// Joins and leaves from now on, also without records. The last caller gets them.
    pub fn events(&self) -> mpsc::UnboundedReceiver<Event> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.shared.events.lock().expect("no panic while it is held") = Some(sender);
        receiver
    }

    /// Closes the port: from the return on, connections are refused. Those that are open stay.
    pub async fn refuse(&self) {
        self.listen_or_not(false).await;
    }

    /// Opens the same port again.
    pub async fn listen(&self) {
        self.listen_or_not(true).await;
    }

    async fn listen_or_not(&self, wanted: bool) {
        let (done, answer) = oneshot::channel();
        self.listening.send(Listening { wanted, done }).expect("the accept loop runs");
        answer.await.expect("the accept loop runs");
    }

    /// Closes all open connections in an orderly way.
    pub fn close(&self) {
        self.order(Order::Close);
    }

    /// On all open connections, sends no more but goes on reading.
    pub fn half_close(&self) {
        self.order(Order::HalfClose);
    }

    /// Ends all open connections with a reset.
    pub fn reset(&self) {
        self.order(Order::Reset);
    }

    fn order(&self, order: Order) {
        // Nobody connected is no error.
        _ = self.shared.orders.send(order);
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, mut orders: mpsc::UnboundedReceiver<Listening>, shared: Arc<Shared>) {
    let address = listener.local_addr().expect("a listener's address");
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = async { listener.as_ref().expect("checked").accept().await }, if listener.is_some() => {
                // A client that is already gone is no reason to stop.
                if let Ok((stream, peer)) = accepted {
                    connections.spawn(serve::connection(stream, peer, shared.clone()));
                }
            }
            order = orders.recv() => {
                let Some(Listening { wanted, done }) = order else { return };
                listener = match listener.take() {
                    Some(open) if wanted => Some(open),
                    None if wanted => Some(listen(address).await),
                    Some(_) | None => None,
                };
                _ = done.send(());
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn listen(address: SocketAddr) -> TcpListener {
    TcpListener::bind(address).await.unwrap_or_else(|error| panic!("cannot listen on {address}: {error}"))
}
