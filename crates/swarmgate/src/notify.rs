//! Tells people, through the messengers that they have named.
//!
//! Each target has a bounded queue and a worker of its own, so that one that hangs delays no other. Nothing here waits
//! for a network but the workers: what does not fit into a queue is dropped and counted. What waits together is sent
//! together.

pub mod discord;
mod note;
pub mod ntfy;
pub mod pushover;
pub mod routes;
pub mod slack;
mod text;
pub mod webhook;
mod worker;

use std::sync::Arc;

use swarmgate_core::config::notify::{Format, Messenger, Target};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::note::{Note, Tone};
pub use self::worker::Pace;
use crate::http::{self, HttpError};
use crate::metrics::Metrics;

/// What one target may have waiting. More than this is not read by anybody.
const QUEUE: usize = 256;

/// A cheap handle. Empty, it tells nobody.
#[derive(Debug, Clone, Default)]
pub struct Notifier {
    lines: Arc<[Line]>,
    metrics: Metrics,
}

#[derive(Debug)]
struct Line {
    kind: &'static str,
    format: Option<Format>,
    queue: mpsc::Sender<Note>,
}

impl Notifier {
    /// Starts a worker for each of `targets`, which ends within [`Pace::drain`] after `stop`.
    ///
    /// # Errors
    /// When no HTTP client can be set up.
    pub fn start(
        targets: &[Target],
        pace: Pace,
        metrics: &Metrics,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<Self, HttpError> {
        if targets.is_empty() {
            return Ok(Self::default());
        }
        let client = http::client(pace.answer)?;
        let start = |target: &Target| {
            metrics.messenger(target.kind());
            let (send, receive) = mpsc::channel(QUEUE);
            let worker = worker::Worker::new(target.clone(), client.clone(), pace, metrics.clone());
            tasks.spawn(worker.run(receive, stop.clone()));
            let format = match target.messenger {
                Messenger::Webhook(format) => Some(format),
                Messenger::Pushover { .. }
                | Messenger::Discord
                | Messenger::Ntfy { .. }
                | Messenger::Slack => None,
            };
            Line { kind: target.kind(), format, queue: send }
        };
        Ok(Self { lines: targets.iter().map(start).collect(), metrics: metrics.clone() })
    }

    /// Whether anybody is told of alerts.
    pub fn is_on(&self) -> bool {
        self.lines.iter().any(|line| line.format != Some(Format::McRouter))
    }

    /// Whether anybody is told of players, and of routes.
    pub fn tells_of_players(&self) -> bool {
        self.lines.iter().any(|line| line.format == Some(Format::McRouter))
    }

    /// Returns at once, whatever becomes of it.
    pub fn tell(&self, note: &Note) {
        let wanted = |line: &&Line| match note {
            Note::Message { .. } => line.format != Some(Format::McRouter),
            Note::Player(_) => line.format == Some(Format::McRouter),
        };
        for line in self.lines.iter().filter(wanted) {
            match line.queue.try_send(note.clone()) {
                Ok(()) => self.metrics.note_queued(line.kind, 1),
                Err(_) => self.metrics.notified(line.kind, "dropped", 1),
            }
        }
    }
}
