//! A Docker engine inside the test: the manager of a small Swarm, with plain containers beside it, over HTTP on
//! a Unix socket.
//!
//! It answers as engines 20.10 to 29.7 were seen to answer, is strict about what it is sent, and moves its
//! tasks only when told to, so that a test can look at every moment. See [`proxy`] for what stands before one.

mod containers;
pub mod proxy;
mod swarm;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

pub use self::containers::{container, killed};
pub use self::swarm::{Swarm, service};
use crate::http;

/// What happens to a call instead of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An error with this status and message.
    Status(u16, String),
    /// Nothing, for as long as the client waits.
    Hang,
    /// The connection ends. A write is made before.
    Cut,
}

/// The engine. It stops listening when it is dropped.
#[derive(Debug)]
pub struct FakeEngine {
    socket: PathBuf,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    swarm: Mutex<Swarm>,
    events: broadcast::Sender<Value>,
    /// Changes when all event streams are to end.
    cut: watch::Sender<u64>,
}

impl FakeEngine {
    /// Listens at `socket`, with a Swarm of one node and no services.
    pub fn start(socket: &Path) -> Self {
        let (events, _) = broadcast::channel(256);
        let shared = Shared { swarm: Mutex::default(), events, cut: watch::Sender::new(0) };
        let mut engine = Self { socket: socket.to_owned(), shared: Arc::new(shared), listening: None };
        engine.listen();
        engine
    }

    /// Listens again after [`Self::stop`].
    pub fn listen(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
        let listener = UnixListener::bind(&self.socket).expect("the socket can be bound");
        let shared = Arc::clone(&self.shared);
        self.listening = Some(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        }));
    }

    /// Stops listening and ends every event stream, as dockerd does when it ends. What it knows stays.
    pub fn stop(&mut self) {
        if let Some(listening) = self.listening.take() {
            listening.abort();
        }
        let _ = std::fs::remove_file(&self.socket);
        self.cut_streams();
    }

    pub fn cut_streams(&self) {
        self.shared.cut.send_modify(|cut| *cut += 1);
    }

    /// How many event streams are open.
    pub fn streams(&self) -> usize {
        self.shared.events.receiver_count()
    }

    /// What it tells, as those who listen hear it.
    pub fn listen_in(&self) -> broadcast::Receiver<Value> {
        self.shared.events.subscribe()
    }

    /// Changes what there is as another client or a node would, without an event.
    pub fn quietly<R>(&self, act: impl FnOnce(&mut Swarm) -> R) -> R {
        act(&mut lock(&self.shared.swarm))
    }

    /// Changes what there is, and sends the event of an update of `service`.
    pub fn update<R>(&self, service: &str, act: impl FnOnce(&mut Swarm) -> R) -> R {
        let result = self.quietly(act);
        self.tell(updated(service));
        result
    }

    /// Sends this event.
    pub fn tell(&self, event: Value) {
        let _ = self.shared.events.send(event);
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn serve(mut stream: UnixStream, shared: Arc<Shared>) {
    let Some(request) = http::read(&mut stream).await else { return };
    let (fault, ahead) = {
        let mut swarm = lock(&shared.swarm);
        (swarm.take_fault(&request), swarm.clock_ahead)
    };
    if let Some(Fault::Status(status, message)) = &fault {
        let body = json!({"message": message}).to_string();
        return http::answer(&mut stream, *status, &body, ahead).await;
    }
    if fault == Some(Fault::Hang) {
        return http::until_closed(&mut stream).await;
    }
    if request.path == "/events" {
        return events(stream, &shared, ahead).await;
    }
    let (status, body, event) = lock(&shared.swarm).answer(&request);
    if fault.is_none() {
        http::answer(&mut stream, status, &body, ahead).await;
    }
    if let Some(service) = event {
        let _ = shared.events.send(updated(&service));
    }
}

async fn events(mut stream: UnixStream, shared: &Shared, ahead: Duration) {
    let (mut events, mut cut) = (shared.events.subscribe(), shared.cut.subscribe());
    http::open(&mut stream, ahead).await;
    let (mut gone, mut send) = stream.split();
    loop {
        tokio::select! {
            event = events.recv() => {
                let Ok(event) = event else { return };
                if http::chunk(&mut send, &format!("{event}\n")).await.is_err() {
                    return;
                }
            }
            _ = cut.changed() => break,
            () = http::until_closed(&mut gone) => return,
        }
    }
    let _ = send.write_all(b"0\r\n\r\n").await;
}

fn updated(service: &str) -> Value {
    json!({"Type": "service", "Action": "update", "Actor": {"ID": service, "Attributes": {"name": service}}})
}

fn lock(swarm: &Mutex<Swarm>) -> MutexGuard<'_, Swarm> {
    swarm.lock().unwrap_or_else(PoisonError::into_inner)
}
