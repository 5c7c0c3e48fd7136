//! Listens to local servers while they start, and tells the fleet how far they say they have come.

use std::collections::HashMap;

use swarmgate_core::news;
use swarmgate_core::service::{ServiceId, State};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::fleet::Fleet;
use crate::keeper::output::Follow;
use crate::provider::process::{Consoles, ID};

/// Of a longer line, what stands in front is all that could be of interest.
const LONGEST_LINE: usize = 1024;

pub async fn run(fleet: Fleet, consoles: Consoles, stop: CancellationToken) {
    let mut view = fleet.view();
    let mut listening = HashMap::new();
    // Whoever listens stops when this is dropped.
    let mut listeners = JoinSet::new();
    loop {
        while listeners.try_join_next().is_some() {}
        let seen = view.borrow_and_update().clone();
        let starts = |id: &ServiceId| {
            id.source == ID && seen.get(id).is_some_and(|face| matches!(face.state, State::Starting { .. }))
        };
        listening.retain(|id, listener: &mut tokio::task::AbortHandle| {
            let on = starts(id) && !listener.is_finished();
            if !on {
                listener.abort();
            }
            on
        });
        for id in seen.keys().filter(|id| starts(id)) {
            listening.entry(id.clone()).or_insert_with(|| {
                listeners.spawn(listen(fleet.clone(), id.clone(), consoles.follow(&id.name)))
            });
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = view.changed() => if changed.is_err() { return },
        }
    }
}

async fn listen(fleet: Fleet, service: ServiceId, mut output: Follow) {
    let mut line = Vec::new();
    let mut told = None;
    while let Ok(bytes) = output.next().await {
        for byte in bytes {
            if byte != b'\n' {
                if line.len() < LONGEST_LINE {
                    line.push(byte);
                }
                continue;
            }
            let heard = news::of_line(&String::from_utf8_lossy(&line));
            line.clear();
            if heard.is_some() && heard != told {
                told.clone_from(&heard);
                fleet.with(|core, now| heard.into_iter().for_each(|news| core.heard(&service, news, now)));
            }
        }
    }
}
