//! Waking and putting to sleep: read, decide again, change the least, send it back.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use swarmgate_core::moment::Moment;
use swarmgate_core::state::swarm::expect::Expected;
use swarmgate_core::state::swarm::scale::{self, Change};
use swarmgate_core::state::swarm::survey::{Survey, Surveyed};
use tokio::time::Instant;

use super::{SourceError, SwarmSource};
use crate::engine::access::Need;
use crate::engine::error::EngineError;

/// Whoever else updates the service wins a try, not all of them.
pub(super) const TRIES: u32 = 40;
/// Two gates that collided must not collide again for ever.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// A service as it is read for an update.
struct Look {
    raw: Value,
    read: Surveyed,
}

impl SwarmSource {
    /// Scales a service to one or to none, if that is what it still needs.
    pub(super) async fn write(&mut self, name: &str, up: bool, now: Moment) -> Result<(), SourceError> {
        let began = Instant::now();
        let (name, known) = self
            .known
            .get_key_value(name)
            .map(|(name, known)| (Arc::clone(name), known.clone()))
            .ok_or_else(|| SourceError::NoSuchService(name.to_owned()))?;
        // A write without an answer may have been made.
        let mut perhaps: Option<Expected> = None;
        for attempt in 0..TRIES {
            let at = now + began.elapsed();
            let look = self.look(&name, &known.id, at).await?;
            let Some(change) = self.decide(&look.read, &known, up)? else {
                self.expected.extend(perhaps.map(|expected| (name, expected)));
                return Ok(());
            };
            if up {
                self.wait_for_earlier(&name).await?;
            }
            let spec = look.raw.get("Spec").unwrap_or(&Value::Null);
            let edited =
                scale::edit(spec, change).map_err(|error| SourceError::Unwilling(error.to_string()))?;
            let Some(edited) = edited else { return Ok(()) };
            let expected = match up {
                true => Expected::start(look.read.tasks, at),
                false => Expected::stop(look.read.version, at),
            };
            let sent = self.engine.update_service(&known.id, look.read.version, &edited.spec, None).await;
            self.engine.access().note(Need::Update, &sent);
            match sent {
                Ok(()) => {
                    tracing::info!(service = %known.service.id, changes = edited.changes, "service updated");
                    self.expected.insert(name, expected);
                    return Ok(());
                }
                Err(EngineError::OutOfSequence { .. }) => {}
                Err(error @ EngineError::NoAnswer { .. }) if perhaps.is_none() => {
                    tracing::warn!(service = %known.service.id, %error, "no answer to an update; looking whether it was made");
                    perhaps = Some(expected);
                }
                Err(EngineError::NotThere { .. }) => {
                    return Err(SourceError::NoSuchService(name.to_string()));
                }
                Err(error @ (EngineError::Refused { .. } | EngineError::NoAnswer { .. })) => {
                    return Err(error.into());
                }
            }
            tokio::time::sleep(pause(attempt)).await;
        }
        Err(SourceError::Unwilling(format!(
            "it was changed by somebody else each of the {TRIES} times the gate tried; is another tool updating it \
             without end?"
        )))
    }

    async fn look(&self, name: &str, id: &str, now: Moment) -> Result<Look, SourceError> {
        let service = format!("/services/{id}");
        let filters = json!({"service": [id]}).to_string();
        let tasks = format!("/tasks?filters={}", crate::percent::encode(&filters));
        let (raw, tasks, nodes) =
            tokio::join!(self.engine.get(&service), self.engine.get(&tasks), self.nodes());
        self.engine.access().note(Need::Service, &raw);
        let gone = |error| match error {
            EngineError::NotThere { .. } => SourceError::NoSuchService(name.to_owned()),
            EngineError::OutOfSequence { .. }
            | EngineError::Refused { .. }
            | EngineError::NoAnswer { .. } => SourceError::Engine(error),
        };
        let (raw, tasks) = (raw.map_err(gone)?, tasks.map_err(gone)?);
        let survey = Survey::new(Value::Array(vec![raw.clone()]), tasks, nodes)
            .map_err(|error| SourceError::Unwilling(error.to_string()))?;
        let read = self.judge(&survey, None, now).pop();
        let read = read.ok_or_else(|| SourceError::NoSuchService(name.to_owned()))?;
        Ok(Look { raw, read })
    }

    /// Tasks of a service that was removed are only in the list of all tasks.
    async fn wait_for_earlier(&self, name: &str) -> Result<(), SourceError> {
        if !self.earlier.has(name) {
            return Ok(());
        }
        let (tasks, nodes) = tokio::join!(self.engine.get("/tasks"), self.nodes());
        let survey = Survey::new(Value::Null, tasks?, nodes)
            .map_err(|error| SourceError::Unwilling(error.to_string()))?;
        let why = self.earlier.may_still_run(name, &survey, self.engine.now());
        why.map_or(Ok(()), |why| Err(SourceError::Unwilling(why)))
    }

    fn decide(&self, read: &Surveyed, known: &Surveyed, up: bool) -> Result<Option<Change>, SourceError> {
        let Some(believed) = &read.believed else {
            let why = read.service.state.reason().unwrap_or_default();
            return Err(SourceError::Unwilling(why.to_owned()));
        };
        if up {
            return believed.up(self.engine.now()).map_err(SourceError::Unwilling);
        }
        // That nobody plays was said of the task that ran then.
        if known.run().is_some() && read.run().is_some() && known.run() != read.run() {
            return Err(SourceError::Unwilling(
                "another task of it runs now than when this was decided".into(),
            ));
        }
        believed.down().map_err(SourceError::Unwilling)
    }
}

pub(super) fn pause(attempt: u32) -> Duration {
    let (least, most) = PAUSE;
    let longest = (least * 2_u32.saturating_pow(attempt)).min(most);
    let dice = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    longest.mul_f64(0.5 + f64::from(dice % 1000) / 2000.0)
}
