//! The Minecraft edge: from an accepted connection to a relayed one.

mod asked;
pub mod door;
mod guest;
mod hold;
mod limbo;
pub mod listener;
mod opening;
pub mod pass;
pub mod proof;
pub mod quiet;
mod refuse;
pub mod relay;
mod session;
pub mod sessions;
pub mod status;
mod tell;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use swarmgate_core::config::{Config, Listener};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::notify::Notifier;
use door::Door;
use pass::Passes;
use proof::Keyring;
use quiet::Quiet;
use sessions::Sessions;
use status::Answers;

/// What all connections share.
#[derive(Debug)]
pub struct Gateway {
    pub fleet: Fleet,
    pub door: Arc<Door>,
    pub metrics: Metrics,
    pub config: watch::Receiver<Arc<Config>>,
    pub quiet: Quiet,
    pub passes: Passes,
    pub keyring: Keyring,
    pub sessions: Sessions,
    pub answers: Answers,
    pub notifier: Notifier,
    /// Cancelled when nobody new is let in.
    pub drain: CancellationToken,
    /// Cancelled when players must go, too.
    pub close: CancellationToken,
}

/// Accepts connections until the gateway drains, each served by a task of its own.
pub async fn run(socket: TcpListener, listener: Listener, gateway: Arc<Gateway>, connections: TaskTracker) {
    let mut listener = Arc::new(listener);
    loop {
        let accepted = tokio::select! {
            () = gateway.drain.cancelled() => return,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                gateway.metrics.connected();
                renew(&mut listener, &gateway.config.borrow());
                let Ok(open) = gateway.door.open() else {
                    gateway.metrics.refused(door::Full::Connections.kind());
                    continue;
                };
                let session = session::serve(stream, peer, Arc::clone(&listener), Arc::clone(&gateway), open);
                connections.spawn(session);
            }
            Err(error) => after_failed_accept(&error, &gateway.quiet).await,
        }
    }
}

/// Whom a listener trusts may change while it listens. One that is no longer configured stays as it was.
fn renew(listener: &mut Arc<Listener>, config: &Config) {
    let configured = config.listeners.iter().find(|configured| configured.address == listener.address);
    if let Some(configured) = configured.filter(|configured| **configured != **listener) {
        *listener = Arc::new(configured.clone());
    }
}

/// One client's fault is no reason to pause; a shortage of ours is.
async fn after_failed_accept(error: &io::Error, quiet: &Quiet) {
    const PAUSE: Duration = Duration::from_millis(100);
    let of_the_client = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    );
    if of_the_client {
        return;
    }
    if let Some(more) = quiet.allow("accept") {
        tracing::error!(%error, more, "connections cannot be accepted; is the limit of open files too low?");
    }
    tokio::time::sleep(PAUSE).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_listener_trusts_is_as_configured_now() {
        let listeners = |text: &str| swarmgate_core::config::parse(text, &[]).unwrap().config;
        let table = "[[listener]]\naddress = \"127.0.0.1:25565\"\nproxy_protocol = \"required\"\n";
        let before = listeners(&format!("{table}trusted = [\"10.0.0.1/32\"]"));
        let after = listeners(&format!("{table}trusted = [\"10.0.0.2/32\"]"));
        let mut listener = Arc::new(before.listeners[0].clone());
        let trusts = |listener: &Listener| listener::trusts(listener, "10.0.0.2".parse().unwrap());
        assert!(!trusts(&listener));
        renew(&mut listener, &after);
        assert!(trusts(&listener));
        renew(&mut listener, &listeners("listen = [\"127.0.0.1:25577\"]"));
        assert!(trusts(&listener), "one that is no longer configured stays as it was");
    }
}
