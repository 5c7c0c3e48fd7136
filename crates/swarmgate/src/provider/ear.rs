//! Hears how far servers say they have come while they start, where that has to be asked for.

use std::time::Duration;

use swarmgate_core::news;
use swarmgate_core::service::{ServiceId, State};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::Source;
use crate::fleet::Fleet;

/// As often as what a waiting player sees moves.
const EVERY: Duration = Duration::from_secs(1);
const WITHIN: Duration = Duration::from_secs(3);
/// Servers with mods say much else.
const LINES: usize = 50;

/// One source's. Nothing is asked for unless somebody waits, and one server after another.
#[derive(Debug, Default)]
pub struct Ear {
    asking: Option<AbortOnDropHandle<()>>,
    /// While anything starts.
    next: Option<Instant>,
}

impl Ear {
    /// Asks, if it is time to.
    pub fn hear<S: Source>(&mut self, source: &S, fleet: &Fleet) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        let starting = starting(source.id(), fleet);
        self.next = (!starting.is_empty()).then(|| now + EVERY);
        if starting.is_empty() || self.asking.as_ref().is_some_and(|asking| !asking.is_finished()) {
            return;
        }
        let waiting = fleet.seats().waiting();
        let waited_for = starting.into_iter().filter(|service| waiting.contains_key(service));
        let asked = waited_for.filter_map(|service| {
            let lines = source.last_lines(&source.begun(&service.name)?, LINES);
            Some((service, lines))
        });
        let (asked, fleet): (Vec<_>, _) = (asked.collect(), fleet.clone());
        if asked.is_empty() {
            return;
        }
        self.asking = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            for (service, lines) in asked {
                let lines = timeout(WITHIN, lines).await.unwrap_or_default();
                if let Some(heard) = lines.iter().rev().find_map(|line| news::of_line(line)) {
                    fleet.with(|core, now| core.heard(&service, heard, now));
                }
            }
        })));
    }

    /// When to try again; never, as long as nothing starts.
    pub async fn due(&self) {
        match self.next {
            Some(next) => sleep_until(next).await,
            None => std::future::pending().await,
        }
    }
}

/// What the fleet knows to be starting: a server that runs and does not answer is.
fn starting(source: &str, fleet: &Fleet) -> Vec<ServiceId> {
    let view = fleet.view().borrow().clone();
    let starting =
        view.iter().filter(|(id, face)| id.source == source && matches!(face.state, State::Starting { .. }));
    starting.map(|(id, _)| id.clone()).collect()
}
