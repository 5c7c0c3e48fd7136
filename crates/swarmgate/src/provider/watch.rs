//! The one loop that runs a source: list, tell the fleet, wait for a change or a request.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ear::Ear;
use super::{Begun, Source};
use crate::alarm::Alarm;
use crate::errors::chain;
use crate::fleet::{Fleet, Scale};

/// Waits between failed listings, doubling up to the second.
const RETRY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Runs `source` until `stop`, and gives it back. `unseen` is held until the fleet knows of a first look.
pub async fn run<S: Source>(
    mut source: S,
    fleet: Fleet,
    alarm: Alarm,
    mut unseen: Option<Arc<DropGuard>>,
    stop: CancellationToken,
) -> S {
    // Before the fleet knows of anything that it could want to scale.
    let mut requests = fleet.requests_for(source.id());
    let mut retry = RETRY.0;
    let mut complaint = String::new();
    let mut ear = Ear::default();
    loop {
        let healthy = list(&mut source, &fleet, &alarm, &mut complaint).await;
        drop(unseen.take());
        retry = if healthy { RETRY.0 } else { (retry * 2).min(RETRY.1) };
        tokio::select! {
            () = stop.cancelled() => return source,
            Some(scale) = requests.scales.recv() => carry_out(&mut source, &fleet, scale, &mut requests.scales).await,
            () = requests.doubts.next(), if healthy => source.look_closely(),
            () = changed(&mut source, &mut ear, &fleet), if healthy => {}
            () = tokio::time::sleep(retry), if !healthy => {}
        }
    }
}

/// Returns when something may have changed; until then it hears the servers that start. Cancel-safe.
async fn changed<S: Source>(source: &mut S, ear: &mut Ear, fleet: &Fleet) {
    loop {
        ear.hear(source, fleet);
        tokio::select! {
            () = source.changed() => return,
            () = ear.due() => {}
        }
    }
}

/// Tells the fleet; the log hears of a complaint once, and of its end.
async fn list<S: Source>(source: &mut S, fleet: &Fleet, alarm: &Alarm, complaint: &mut String) -> bool {
    let id = source.id();
    match source.list(fleet.now()).await {
        Ok(snapshot) => {
            if !std::mem::take(complaint).is_empty() {
                tracing::info!(source = id, "the source answers again");
            }
            fleet.observe(id, snapshot);
            if alarm.is_on() {
                alarm.saw(id, source.sights(), |run, lines| source.last_lines(&Begun::from(run), lines));
            }
            true
        }
        Err(error) => {
            let text = chain(&error);
            if *complaint != text {
                tracing::warn!(
                    source = id,
                    kind = error.kind(),
                    error = text,
                    "the source does not answer; what was known stands"
                );
            }
            fleet.lost(id, &text);
            alarm.lost(id, &text);
            *complaint = text;
            false
        }
    }
}

/// Does this request and those that wait behind it, so that one listing shows all their results.
async fn carry_out<S: Source>(
    source: &mut S,
    fleet: &Fleet,
    first: Scale,
    waiting: &mut mpsc::UnboundedReceiver<Scale>,
) {
    let mut next = Some(first);
    while let Some(Scale { service, up }) = next {
        let outcome = source.scale(&service.name, up, fleet.now()).await;
        let outcome = outcome.map_err(|error| {
            let (wanted, text) = (if up { "start" } else { "stop" }, chain(&error));
            tracing::warn!(%service, wanted, kind = error.kind(), error = text, "the source refused");
            text
        });
        fleet.with(|core, now| core.scaled(&service, up, outcome, now));
        next = waiting.try_recv().ok();
    }
}
