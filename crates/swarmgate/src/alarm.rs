//! Tells of troubles: what sources see goes into [`Alerts`], and what is worth telling out to the messengers.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use swarmgate_core::alert::{Alert, Alerts, Sight, Stage};
use swarmgate_core::config::Notify;
use swarmgate_core::config::notify::Watched;
use swarmgate_core::event::Event;
use swarmgate_core::service::SourceId;
use swarmgate_core::span;
use tokio::sync::{Notify as Signal, broadcast};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::notify::{Note, Notifier};

/// A server's last lines are worth so much of a delay.
const LINES_WITHIN: Duration = Duration::from_secs(3);

/// A cheap handle. Whoever watches something tells it what it sees; [`Alarm::raise`] is for those that are no sources
/// of services, such as publications.
#[derive(Debug, Clone)]
pub struct Alarm {
    is_on: bool,
    shared: Arc<Shared>,
    metrics: Metrics,
}

#[derive(Debug)]
struct Shared {
    alerts: Mutex<Alerts>,
    clock: Clock,
    /// The timer must look at the next deadline again.
    due: Signal,
    notifier: Notifier,
    config: Notify,
    /// For those who listen over the API.
    told: broadcast::Sender<Alert>,
}

impl Alarm {
    /// Alerts that a slow listener may fall behind by before it loses the oldest.
    const ALERTS_KEPT: usize = 64;

    pub fn new(notifier: Notifier, config: Notify, clock: Clock) -> Self {
        let told = broadcast::Sender::new(Self::ALERTS_KEPT);
        let shared = Shared { alerts: Mutex::default(), clock, due: Signal::new(), notifier, config, told };
        Self { is_on: true, shared: Arc::new(shared), metrics: Metrics::default() }
    }

    /// Counts what is remembered.
    pub fn measured(self, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// Nobody is told anything, not even over the API.
    pub fn off(clock: Clock) -> Self {
        Self { is_on: false, ..Self::new(Notifier::default(), Notify::default(), clock) }
    }

    /// Whether anybody may want to know, be it over the API only; if not, nobody need look.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// What people are told from now on.
    pub fn alerts(&self) -> broadcast::Receiver<Alert> {
        self.shared.told.subscribe()
    }

    pub fn notifier(&self) -> &Notifier {
        &self.shared.notifier
    }

    /// Whether services without labels are of interest.
    pub fn watches_all(&self) -> bool {
        self.shared.config.services == Watched::All
    }

    /// Everything that `source` holds now. `last_lines` asks for the end of the output of a run.
    pub fn saw<F>(&self, source: SourceId, sights: Vec<Sight>, last_lines: impl Fn(&str, usize) -> F)
    where
        F: Future<Output = Vec<String>> + Send + 'static,
    {
        let alerts = self.lock().saw(source, sights, self.shared.clock.now());
        for alert in alerts {
            let reads_lines = self.shared.notifier.is_on() && self.shared.config.lines > 0;
            let run = alert.run.clone().filter(|_| reads_lines);
            match (run, alert.stage) {
                (Some(run), Stage::First(_)) => {
                    let (alarm, lines) = (self.clone(), last_lines(&run, self.shared.config.lines));
                    tokio::spawn(async move {
                        let lines = tokio::time::timeout(LINES_WITHIN, lines).await.unwrap_or_default();
                        alarm.tell(&alert, lines);
                    });
                }
                (Some(_) | None, Stage::First(_) | Stage::Again { .. } | Stage::Over) => {
                    self.tell(&alert, Vec::new());
                }
            }
        }
        self.shared.due.notify_one();
    }

    /// The same for what has no output.
    pub fn raise(&self, source: SourceId, sights: Vec<Sight>) {
        self.saw(source, sights, |_, _| std::future::ready(Vec::new()));
    }

    /// `source` does not answer.
    pub fn lost(&self, source: SourceId, why: &str) {
        if self.is_on() {
            let alerts = self.lock().lost(source, why, self.shared.clock.now());
            alerts.iter().for_each(|alert| self.tell(alert, Vec::new()));
            self.shared.due.notify_one();
        }
    }

    /// Tells what is due, and of servers that are ready, until `stop`.
    pub async fn run(self, fleet: Fleet, stop: CancellationToken) {
        const AT_LEAST_EVERY: Duration = Duration::from_secs(3600);
        if !self.is_on() {
            return;
        }
        let mut events = fleet.events();
        loop {
            let now = self.shared.clock.now();
            let alerts = self.lock().tick(now);
            alerts.iter().for_each(|alert| self.tell(alert, Vec::new()));
            let latest = now + AT_LEAST_EVERY;
            self.metrics.troubles(self.lock().count());
            let next = self.lock().next_deadline().map_or(latest, |due| due.min(latest));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(self.shared.clock.instant(next)) => {}
                () = self.shared.due.notified() => {}
                event = events.recv() => match event {
                    Ok(event) => self.heard(&event),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        }
    }

    /// Whoever has woken a server wants to know that it is up.
    fn heard(&self, event: &Event) {
        let Event::Woken { service, waited, .. } = event else { return };
        if self.shared.config.ready {
            let title = format!("{} is ready", service.name);
            let text = format!("It takes players now, {} after it was woken.", span::human(*waited));
            let details = json!({"subject": service.to_string(), "stage": "ready"});
            self.shared.notifier.tell(&Note::good(title, text, details));
        }
    }

    fn tell(&self, alert: &Alert, lines: Vec<String>) {
        tracing::info!(about = %alert.subject, "alert: {}", alert.title);
        // Nobody listening is fine.
        let _ = self.shared.told.send(alert.clone());
        self.shared.notifier.tell(&Note::of_alert(alert, lines, Timestamp::now()));
    }

    fn lock(&self) -> MutexGuard<'_, Alerts> {
        self.shared.alerts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
