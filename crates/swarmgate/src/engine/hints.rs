//! Events as hints: something may have changed, look.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::Engine;
use super::access::Need;
use super::events::Event;

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
    /// Listens to the events that fit `filters` (Engine API, JSON); those that are `news` are worth a look.
    pub fn follow(engine: Engine, filters: Value, news: impl FnMut(&Event) -> bool + Send + 'static) -> Self {
        let notify = Arc::new(Notify::new());
        let follower = tokio::spawn(follow(engine, filters, news, Arc::clone(&notify)));
        Self { notify, _follower: AbortOnDropHandle::new(follower) }
    }

    /// Returns when something may have changed since it last did.
    pub async fn changed(&self) {
        self.notify.notified().await;
        tokio::time::sleep(TOGETHER).await;
    }
}

/// The engine drops events of a listener that is slow, so nothing is done here but to take them.
async fn follow(
    engine: Engine,
    filters: Value,
    mut news: impl FnMut(&Event) -> bool + Send,
    look: Arc<Notify>,
) {
    let mut retry = RETRY.0;
    let mut complained = false;
    loop {
        let opened = engine.events(&filters).await;
        engine.access().note(Need::Events, &opened);
        match opened {
            Ok(mut events) => {
                tracing::debug!(engine = %engine.host(), "listening to the engine's events");
                let since = Instant::now();
                complained = false;
                // Whatever happened before the stream was open is found by looking now.
                look.notify_one();
                while let Some(events) = events.next().await {
                    // Each is looked at: what one says may be needed, worth a look or not.
                    if events.iter().filter(|event| news(event)).count() > 0 {
                        look.notify_one();
                    }
                }
                tracing::debug!(engine = %engine.host(), "the engine's events have ended");
                // One that is always cut at once is not opened any faster for that.
                if since.elapsed() > RETRY.1 {
                    retry = RETRY.0;
                }
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
