//! What people are told of publication: everything when it appears and when it changes, that it is over, and each once.

use std::collections::{BTreeMap, BTreeSet};

use swarmgate_core::alert::{Condition, Kind, Sight, Subject, Trouble, When};
use swarmgate_core::event::Event;
use swarmgate_core::publish::plan::{Stand, Standing};
use swarmgate_core::service::{ServiceId, SourceId};

use super::round::{Report, RoundError};
use crate::alarm::Alarm;
use crate::errors::chain;
use crate::fleet::Fleet;

/// As the alarm knows it.
const SOURCE: SourceId = "cloudflare";
const UNCONFIGURED: &str = "services ask to be published, and no tunnel is named; write a [cloudflare] with account, \
                            tunnel and token_file";

/// Tells, and remembers what was told last.
#[derive(Debug)]
pub struct Told {
    fleet: Fleet,
    alarm: Alarm,
    problem: Option<String>,
    hosts: BTreeMap<String, Host>,
    services: BTreeSet<(ServiceId, String)>,
    is_unconfigured: bool,
    sights: Vec<Sight>,
}

/// As a hostname was told of.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    state: &'static str,
    problem: Option<String>,
    notes: Vec<String>,
}

impl Told {
    pub const fn new(fleet: Fleet, alarm: Alarm) -> Self {
        Self {
            fleet,
            alarm,
            problem: None,
            hosts: BTreeMap::new(),
            services: BTreeSet::new(),
            is_unconfigured: false,
            sights: Vec::new(),
        }
    }

    /// Everything that is wrong with services now.
    pub fn services(&mut self, problems: impl Iterator<Item = (ServiceId, String)>) {
        let problems: BTreeSet<(ServiceId, String)> = problems.collect();
        for (service, problem) in problems.difference(&self.services).cloned() {
            self.fleet.tell(Event::Problem { service, problem });
        }
        self.services = problems;
    }

    /// The same, for whoever asks.
    pub fn of_services(&self) -> Vec<String> {
        self.services.iter().map(|(service, problem)| format!("{service}: {problem}")).collect()
    }

    /// There is no tunnel, whether or not one is `needed`.
    pub fn unconfigured(&mut self, needed: bool) {
        if needed && !std::mem::replace(&mut self.is_unconfigured, needed) {
            self.fleet.tell(Event::Publishing { problem: Some(UNCONFIGURED.to_owned()) });
        }
        self.is_unconfigured = needed;
    }

    /// How a round has ended.
    pub fn round(&mut self, ended: &Result<Report, RoundError>) {
        self.is_unconfigured = false;
        if let Ok(report) = ended {
            self.hosts(report);
        }
        let problem = ended.as_ref().err().map(|error| chain(error));
        let before = std::mem::replace(&mut self.problem, problem.clone());
        if before.as_deref().map(gist) != problem.as_deref().map(gist) {
            self.fleet.tell(Event::Publishing { problem });
        }
        if self.alarm.is_on() {
            self.raise(ended);
        }
    }

    fn hosts(&mut self, report: &Report) {
        let mut before = std::mem::take(&mut self.hosts);
        for (host, stand) in &report.plan.hosts {
            let (host, service) = (host.to_string(), stand.service.clone().unwrap_or_default());
            let now = Host::of(stand);
            let old = before.remove(&host);
            let known = old.as_ref().map_or(&[][..], |old| old.notes.as_slice());
            // How long one has been gone is news at every look.
            let told = |note: &&String| stand.standing == Standing::Leaving || known.contains(note);
            for note in now.notes.iter().filter(|note| !told(note)) {
                tracing::warn!(host, service, "{note}");
            }
            if old.is_none_or(|old| !old.reads_like(&now)) {
                let (host, state, problem) = (host.clone(), now.state, now.problem.clone());
                self.fleet.tell(Event::Publication { host, service, state, problem });
            }
            self.hosts.insert(host, now);
        }
        for host in before.into_keys() {
            let (service, state) = (String::new(), Standing::Withdrawing.word());
            self.fleet.tell(Event::Publication { host, service, state, problem: None });
        }
    }

    fn raise(&mut self, ended: &Result<Report, RoundError>) {
        let (conflict, forbidden) = match ended {
            Ok(report) => {
                self.sights =
                    report.plan.hosts.iter().map(|(host, stand)| sight(&host.to_string(), stand)).collect();
                (None, forbidden(report))
            }
            Err(error) if error.is_unauthorized() => (None, Some(chain(error))),
            Err(error) if error.is_conflict() => (Some(chain(error)), None),
            // That says nothing about any of it.
            Err(_) => return,
        };
        let all = [
            ("the tunnel", Kind::PublicationConflict, conflict),
            ("Cloudflare", Kind::PublicationForbidden, forbidden),
        ];
        let all = all.into_iter().map(|(subject, kind, what)| Sight {
            subject: Subject::Publication(subject.into()),
            condition: Condition::Well,
            troubles: what.map(|what| trouble(kind, what)).into_iter().collect(),
        });
        self.alarm.raise(SOURCE, self.sights.iter().cloned().chain(all).collect());
    }
}

impl Host {
    fn of(stand: &Stand) -> Self {
        let problem = stand.standing.problem().map(str::to_owned);
        Self { state: stand.standing.word(), problem, notes: stand.notes.clone() }
    }

    fn reads_like(&self, other: &Self) -> bool {
        self.state == other.state && self.problem.as_deref().map(gist) == other.problem.as_deref().map(gist)
    }
}

/// A time that runs out, or a count, does not make it another problem.
fn gist(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

fn sight(host: &str, stand: &Stand) -> Sight {
    let condition = match stand.standing {
        Standing::Published => Condition::Well,
        Standing::Leaving | Standing::Withdrawing => Condition::AtRest,
        Standing::Changing | Standing::Conflict(_) | Standing::Failed(_) | Standing::Held(_) => {
            Condition::Moving
        }
    };
    let conflict = match &stand.standing {
        Standing::Conflict(why) => Some(trouble(Kind::PublicationConflict, why.clone())),
        Standing::Published
        | Standing::Changing
        | Standing::Failed(_)
        | Standing::Held(_)
        | Standing::Leaving
        | Standing::Withdrawing => None,
    };
    let subject = Subject::Publication(host.into());
    Sight { subject, condition, troubles: conflict.into_iter().collect() }
}

const fn trouble(kind: Kind, what: String) -> Trouble {
    Trouble { kind, what, when: When::Lasting, run: None }
}

/// What the token may not do, and for which hostnames that is missed.
fn forbidden(report: &Report) -> Option<String> {
    const MOST: usize = 3;
    let first = report.denied.first()?;
    let stands = report.plan.hosts.iter();
    let missed = stands.filter(|(_, stand)| {
        stand.standing.problem().is_some_and(|why| report.denied.iter().any(|denied| why.contains(denied)))
    });
    let missed: Vec<String> = missed.map(|(host, _)| host.to_string()).collect();
    let named: Vec<&str> = missed.iter().take(MOST).map(String::as_str).collect();
    match missed.len() {
        // Nobody asks for what it is needed for.
        0 => None,
        count if count > MOST => Some(format!("{first} ({}, and {} more)", named.join(", "), count - MOST)),
        _ => Some(format!("{first} ({})", named.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_counts_down_is_no_other_problem() {
        let host =
            |state, problem: &str| Host { state, problem: Some(problem.to_owned()), notes: Vec::new() };
        assert!(host("failed", "the next in 59s").reads_like(&host("failed", "the next in 3s")));
        assert!(!host("failed", "the next in 59s").reads_like(&host("conflict", "the next in 59s")));
        assert!(!host("failed", "no answer").reads_like(&host("failed", "the next in 59s")));
    }
}
