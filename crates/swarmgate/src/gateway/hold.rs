//! Waits on a player's open socket until the service is ready.

use std::io;
use std::time::Duration;

use swarmgate_core::fleet::View;
use swarmgate_core::knock::Target;
use swarmgate_core::service::{ServiceId, State};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::fleet::Fleet;

/// A client has nothing to say until it is answered. What it says all the same is kept for the server, up to
/// this much.
const MOST_BUFFERED: usize = 64 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Ready(Target),
    /// The player left. The wake goes on.
    Left,
    Failed,
    /// The service is no longer there.
    Gone,
    /// The time is over.
    Over,
}

/// Waits at most `time`; whatever the client sends meanwhile is appended to `raw`.
pub async fn until_ready(
    stream: &TcpStream,
    raw: &mut Vec<u8>,
    service: &ServiceId,
    time: Duration,
    fleet: &Fleet,
) -> Outcome {
    let mut view = fleet.view();
    let over = tokio::time::sleep_until(Instant::now() + time);
    tokio::pin!(over);
    loop {
        if let Some(outcome) = decided(&view.borrow_and_update(), service) {
            return outcome;
        }
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return Outcome::Over },
            () = &mut over => return Outcome::Over,
            () = gone(stream, raw) => return Outcome::Left,
        }
    }
}

pub fn decided(view: &View, service: &ServiceId) -> Option<Outcome> {
    let Some(face) = view.get(service) else { return Some(Outcome::Gone) };
    match &face.state {
        State::Running(running) => Some(Outcome::Ready(Target {
            service: face.service.clone(),
            spec: face.spec.clone(),
            endpoints: running.endpoints.clone(),
        })),
        State::Failed { .. } => Some(Outcome::Failed),
        // Whoever waits had it started, so somebody has put it back to sleep since.
        State::Asleep => Some(Outcome::Over),
        State::Starting { .. } | State::Restarting { .. } | State::Stopping | State::Unknown { .. } => None,
    }
}

/// Ready when the client has closed, or says more than it may. Cancel-safe: what is read is kept.
async fn gone(stream: &TcpStream, raw: &mut Vec<u8>) {
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        let mut chunk = [0; 1024];
        match stream.try_read(&mut chunk) {
            Ok(0) => return,
            Ok(read) if raw.len() + read > MOST_BUFFERED => return,
            Ok(read) => raw.extend(chunk.iter().take(read)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
