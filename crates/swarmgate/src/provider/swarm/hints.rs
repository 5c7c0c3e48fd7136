//! Events as hints: something may have changed, look.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::access::{Access, Need};
use crate::engine::Engine;
use crate::engine::events::Event;

/// Waits between attempts to open the stream, doubling up to the second.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// Events come in bunches; one look is enough for those that come together.
const TOGETHER: Duration = Duration::from_millis(20);

/// Follows the event stream until it is dropped.
#[derive(Debug)]
pub struct Hints {
    notify: Arc<Notify>,
    _follower: AbortOnDropHandle<()>,
}

impl Hints {
    pub fn follow(engine: Engine, access: Access) -> Self {
        let notify = Arc::new(Notify::new());
        let follower = tokio::spawn(follow(engine, access, Arc::clone(&notify)));
        Self { notify, _follower: AbortOnDropHandle::new(follower) }
    }

    /// Returns when something may have changed since it last did.
    pub async fn changed(&self) {
        self.notify.notified().await;
        tokio::time::sleep(TOGETHER).await;
    }
}

/// The engine drops events of a listener that is slow, so nothing is done here but to take them.
async fn follow(engine: Engine, access: Access, look: Arc<Notify>) {
    let mut retry = RETRY.0;
    let mut complained = false;
    loop {
        let opened = engine.events(&wanted()).await;
        access.note(Need::Events, &opened);
        match opened {
            Ok(mut events) => {
                tracing::debug!(engine = %engine.host(), "listening to the engine's events");
                retry = RETRY.0;
                complained = false;
                // Whatever happened before the stream was open is found by looking now.
                look.notify_one();
                while let Some(events) = events.next().await {
                    if events.iter().any(is_about_a_service) {
                        look.notify_one();
                    }
                }
                tracing::debug!(engine = %engine.host(), "the engine's events have ended");
                look.notify_one();
            }
            Err(error) if !complained && !error.is_forbidden() => {
                complained = true;
                tracing::debug!(%error, "the engine's events cannot be had; trying again");
            }
            Err(_) => {}
        }
        tokio::time::sleep(retry).await;
        retry = (retry * 2).min(RETRY.1);
    }
}

/// Tasks have no events of their own, but containers on the engine's own node tell of theirs before the
/// managers do. Health checks run all the time, so their `exec` events are not asked for.
fn wanted() -> Value {
    json!({
        "type": ["service", "node", "container"],
        "event": ["create", "update", "remove", "start", "kill", "die", "health_status"],
    })
}

fn is_about_a_service(event: &Event) -> bool {
    event.kind != "container" || event.attributes.contains_key("com.docker.swarm.service.id")
}
