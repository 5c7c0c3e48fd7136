//! What the engine has been asked to do and has not answered yet: it answers when a container has stopped, which
//! takes as long as its world takes to save.

use std::collections::BTreeMap;
use std::time::Duration;

use swarmgate_core::state::docker::Act;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use crate::engine::Engine;
use crate::engine::access::Need;
use crate::engine::error::EngineError;

/// A refusal comes at once. Whatever takes longer is under way.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);
/// Beyond the grace of a stop. A start that waits for a volume or a device may take a while, too.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Orders {
    /// By container. The engine goes on with what it was asked for even if this is dropped.
    under_way: BTreeMap<String, Order>,
}

#[derive(Debug)]
struct Order {
    act: Act,
    carried_out: AbortOnDropHandle<()>,
}

impl Orders {
    /// Returns when the engine has done it or is doing it.
    pub async fn give(&mut self, engine: &Engine, id: &str, act: Act) -> Result<(), EngineError> {
        let (tell, told) = oneshot::channel();
        let carried_out = tokio::spawn(carry_out(engine.clone(), id.to_owned(), act, tell));
        let order = Order { act, carried_out: AbortOnDropHandle::new(carried_out) };
        match tokio::time::timeout(REFUSED_WITHIN, told).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) | Err(_) => {
                self.under_way.insert(id.to_owned(), order);
                Ok(())
            }
        }
    }

    pub fn is_starting(&self, id: &str) -> bool {
        let order = self.under_way.get(id).filter(|order| !order.carried_out.is_finished());
        order.is_some_and(|order| match order.act {
            Act::Start | Act::Unpause => true,
            Act::Stop { .. } => false,
        })
    }

    /// Forgets those that are over.
    pub fn reap(&mut self) {
        self.under_way.retain(|_, order| !order.carried_out.is_finished());
    }
}

/// Tells how it went, or the log if nobody waits for that any more.
async fn carry_out(engine: Engine, id: String, act: Act, tell: oneshot::Sender<Result<(), EngineError>>) {
    let (need, action, limit) = match act {
        Act::Start => (Need::Start, "start".to_owned(), ANSWERED_WITHIN),
        Act::Unpause => (Need::Unpause, "unpause".to_owned(), ANSWERED_WITHIN),
        Act::Stop { seconds } => {
            let grace = u64::try_from(seconds).map_or(Duration::MAX, Duration::from_secs);
            (Need::Stop, format!("stop?t={seconds}"), grace.saturating_add(ANSWERED_WITHIN))
        }
    };
    let outcome = engine.act(&id, &action, limit).await;
    engine.access().note(need, &outcome);
    if let Err(Err(error)) = tell.send(outcome) {
        tracing::warn!(container = id, ?act, %error, "the engine did not do what it was asked for");
    }
}
