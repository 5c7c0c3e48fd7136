//! Publishes labelled services through a Cloudflare Tunnel.
//!
//! One loop writes, and nobody else. Events only say that something may have changed; then, and from time to time, all of it
//! is compared (`round`). The gate is the only one that is to write with its `instance`: where that is broken it says so.

mod apply;
pub mod asked;
pub mod client;
mod read;
mod round;
mod shown;
#[cfg(test)]
mod tests;
mod told;

use std::sync::Arc;
use std::time::Duration;

use swarmgate_core::config::{Cloudflare, Config, Use};
use swarmgate_core::publish::Published;
use swarmgate_core::publish::memory::Memory;
use swarmgate_core::publish::wanted::Wanted;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::asked::Asked;
use self::client::Client;
use self::round::{Hub, Report, Round, RoundError};
pub use self::shown::{PlanAnswer, Shown};
use self::told::Told;
use crate::alarm::Alarm;
use crate::errors::chain;
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::provider;
use crate::store::Store;

/// A source that has not answered by then may take a while.
const FIRST_LOOK: Duration = Duration::from_secs(30);
/// A stack comes service by service: this long nothing new, but at most the second.
const TOGETHER: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Waits after a failure, doubling up to the second.
const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(5 * 60));

/// The loop, not begun yet.
#[derive(Debug)]
pub struct Publisher {
    fleet: Fleet,
    configs: watch::Receiver<Arc<Config>>,
    asked: watch::Receiver<Asked>,
    store: Store,
    metrics: Metrics,
    show: watch::Sender<PlanAnswer>,
    questions: mpsc::Receiver<oneshot::Sender<PlanAnswer>>,
    memory: Memory,
    /// With the part of the configuration that it was made from.
    client: Option<(Cloudflare, Client)>,
    told: Told,
}

/// When the next round is due, whatever happens.
#[derive(Debug, Clone, Copy)]
struct Next {
    at: Instant,
    retry: Duration,
}

/// What was looked at last.
#[derive(Debug)]
struct Last {
    wanted: Option<Vec<Published>>,
    config: Option<Cloudflare>,
    next: Next,
}

impl Last {
    fn nothing() -> Self {
        Self { wanted: None, config: None, next: Next { at: Instant::now(), retry: RETRY.0 } }
    }
}

impl Publisher {
    pub fn new(
        fleet: Fleet,
        alarm: Alarm,
        configs: watch::Receiver<Arc<Config>>,
        store: Store,
        metrics: Metrics,
    ) -> (Self, Shown) {
        let (show, latest) = watch::channel(PlanAnswer::default());
        let (ask, questions) = mpsc::channel(8);
        let publisher = Self {
            asked: fleet.asked(),
            memory: store.publication(),
            told: Told::new(fleet.clone(), alarm),
            fleet,
            configs,
            store,
            metrics,
            show,
            questions,
            client: None,
        };
        (publisher, Shown { latest, ask })
    }

    /// Runs until `stop`; the call under way is finished first. Nothing is done before every source was looked at once, which
    /// `seen` tells, or has had time for it.
    pub async fn run(mut self, seen: CancellationToken, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = seen.cancelled() => {}
            () = tokio::time::sleep(FIRST_LOOK) => {}
        }
        let mut last = Last::nothing();
        while !stop.is_cancelled() {
            self.look(&mut last, &stop).await;
            tokio::select! {
                () = stop.cancelled() => {}
                Ok(()) = self.asked.changed() => self.quiet().await,
                Ok(()) = self.configs.changed() => {}
                Some(question) = self.questions.recv() => self.answer(last.config.as_ref(), question).await,
                () = tokio::time::sleep_until(last.next.at), if last.config.is_some() => {}
            }
        }
    }

    /// A round, if anything has changed since the last, or the time for it has come.
    async fn look(&mut self, last: &mut Last, stop: &CancellationToken) {
        let config = self.configs.borrow_and_update().cloudflare.clone();
        self.asked.mark_unchanged();
        let asked = self.asked();
        self.watch(&asked);
        self.tell_services(&asked);
        let wanted = asked.all();
        let changed = last.wanted.as_ref() != Some(&wanted) || last.config != config;
        match &config {
            None => self.is_off(&asked),
            Some(config) if changed || last.next.at <= Instant::now() => {
                last.next = self.round(config, &asked, last.next, stop).await;
            }
            Some(_) => {}
        }
        (last.wanted, last.config) = (Some(wanted), config);
    }

    fn asked(&self) -> Asked {
        let docker = self.configs.borrow().docker.clone();
        let sources = [(provider::swarm::ID, docker.swarm), (provider::docker::ID, docker.containers)];
        let off = sources.into_iter().filter(|(_, used)| *used == Use::Off);
        self.asked.borrow().clone().without(off.map(|(source, _)| source))
    }

    /// Returns once what services ask for has not changed for a moment.
    async fn quiet(&mut self) {
        let quiet = async {
            let mut next = tokio::time::timeout(TOGETHER.0, self.asked.changed()).await;
            while matches!(next, Ok(Ok(()))) {
                next = tokio::time::timeout(TOGETHER.0, self.asked.changed()).await;
            }
        };
        let _ = tokio::time::timeout(TOGETHER.1, quiet).await;
    }

    async fn round(
        &mut self,
        config: &Cloudflare,
        asked: &Asked,
        next: Next,
        stop: &CancellationToken,
    ) -> Next {
        let began = Instant::now();
        self.memory = std::mem::take(&mut self.memory).of(round::identity(config));
        let ended = match self.client(config) {
            Ok(client) => {
                let mut memory = self.memory.clone();
                let round = Round { config, client: &client, asked, now: self.fleet.now() };
                let ended =
                    round.run(&mut memory, Hub { fleet: &self.fleet, store: &self.store }, stop).await;
                self.memory = memory;
                ended
            }
            Err(error) => Err(error),
        };
        if stop.is_cancelled() {
            return next;
        }
        self.metrics.synced(ended.as_ref().is_ok_and(Report::is_whole), began.elapsed());
        if ended.as_ref().is_err_and(RoundError::is_unauthorized) {
            // The file with the secret is read again.
            self.client = None;
        }
        let wait = match &ended {
            Ok(report) => report.again_after,
            Err(error) => error.retry_after(),
        };
        self.tell(config, &ended);
        let timer =
            self.memory.next_departure(config.grace).map_or(config.every, |due| due.min(config.every));
        let timer = timer.max(Duration::from_secs(1));
        match wait {
            None => {
                Next { at: Instant::now() + if ended.is_ok() { timer } else { config.every }, retry: RETRY.0 }
            }
            Some(least) => {
                let wait = least.max(next.retry);
                Next { at: Instant::now() + wait, retry: (next.retry * 2).min(RETRY.1) }
            }
        }
    }

    fn client(&mut self, config: &Cloudflare) -> Result<Client, RoundError> {
        match &self.client {
            Some((of, client)) if of == config => Ok(client.clone()),
            Some(_) | None => {
                let client = round::client(config)?.measured(&self.metrics);
                self.client = Some((config.clone(), client.clone()));
                Ok(client)
            }
        }
    }

    /// For whoever asks what would be done now.
    async fn answer(&mut self, config: Option<&Cloudflare>, question: oneshot::Sender<PlanAnswer>) {
        let mut answer = self.show.borrow().clone();
        if let Some(config) = config {
            let memory = self.memory.clone().of(round::identity(config));
            let asked = self.asked();
            let previewed = match self.client(config) {
                Ok(client) => {
                    let round = Round { config, client: &client, asked: &asked, now: self.fleet.now() };
                    round.preview(&memory).await
                }
                Err(error) => Err(error),
            };
            match previewed {
                Ok(report) => answer = shown(config, &report, self.told.of_services()).after(&answer),
                Err(error) => answer.problem = Some(chain(&error)),
            }
        }
        let _ = question.send(answer);
    }

    fn is_off(&mut self, asked: &Asked) {
        self.show.send_if_modified(|shown| std::mem::take(shown) != PlanAnswer::default());
        self.told.unconfigured(!asked.all().is_empty());
    }

    /// Whether or not Cloudflare can be reached: who is back in between was not gone.
    fn watch(&mut self, asked: &Asked) {
        let wanted = Wanted::new(&asked.all(), |host| self.memory.holders(host));
        self.memory.watch(&wanted, &|source| asked.answers(source), self.fleet.now());
    }

    /// What is wrong with services.
    fn tell_services(&mut self, asked: &Asked) {
        let published = asked.all();
        let wanted = Wanted::new(&published, |host| self.memory.holders(host));
        let problems = published.into_iter().flat_map(|Published { service, problems, .. }| {
            problems.into_iter().map(move |problem| (service.clone(), problem))
        });
        self.told.services(problems.chain(wanted.conflicts));
    }

    fn tell(&mut self, config: &Cloudflare, ended: &Result<Report, RoundError>) {
        match ended {
            Ok(report) => {
                self.show.send_replace(shown(config, report, self.told.of_services()));
                self.metrics.published(&report.plan, report.tunnel_status.as_deref());
            }
            Err(error) => self.show.send_modify(|shown| {
                shown.configured = true;
                shown.problem = Some(chain(error));
                shown.problems = self.told.of_services();
            }),
        }
        self.told.round(ended);
    }
}

fn shown(config: &Cloudflare, report: &Report, problems: Vec<String>) -> PlanAnswer {
    PlanAnswer {
        configured: true,
        dry_run: config.dry_run,
        tunnel_status: report.tunnel_status.clone(),
        problem: None,
        steps: report.plan.lines(),
        hosts: report.plan.views(),
        problems,
    }
}
