//! How an alert reads.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Alert, Condition, Kind, Open, Stage, Subject};
use crate::moment::Moment;
use crate::span;

/// `survival crashed`
pub(super) fn first(subject: &Subject, open: &Open) -> Alert {
    let kind = open.last.kind;
    let text = match open.times {
        0 | 1 => open.last.what.clone(),
        times => format!("{}; {} at once", open.last.what, count(kind, times)),
    };
    Alert {
        subject: subject.clone(),
        stage: Stage::First(kind),
        title: format!("{subject} {}", predicate(kind)),
        text,
        run: open.last.run.clone(),
    }
}

/// `survival: 12 crashes in 10m`
pub(super) fn again(subject: &Subject, open: &Open, now: Moment) -> Alert {
    let (kind, times) = (open.last.kind, open.untold);
    let (within, since) = (span::human(now.since(open.told)), span::human(now.since(open.first)));
    Alert {
        subject: subject.clone(),
        stage: Stage::Again { kind, times },
        title: format!("{subject}: {} in {within}", count(kind, times)),
        text: format!(
            "The last: {}. {} since it began {since} ago.",
            open.last.what,
            count(kind, open.times)
        ),
        run: open.last.run.clone(),
    }
}

/// `survival has recovered`; `None` if there was nothing that can be mended.
pub(super) fn over(
    subject: &Subject,
    open: &BTreeMap<Kind, Open>,
    condition: Condition,
    peace: Duration,
    now: Moment,
) -> Option<Alert> {
    let mended: Vec<&Open> = open.values().filter(|open| open.last.kind.can_be_over()).collect();
    let began = mended.iter().map(|open| open.first).min()?;
    let counts: Vec<String> = mended.iter().map(|open| count(open.last.kind, open.times)).collect();
    let (peace, before) = (span::human(peace), span::human(now.since(began)));
    let (title, state) = match (condition, subject) {
        (Condition::AtRest, Subject::Publication(_)) => {
            (format!("{subject} is not asked for any more"), format!("Nobody has asked for it for {peace}"))
        }
        (Condition::AtRest, Subject::Service(_) | Subject::Source(_)) => {
            (format!("{subject} is at rest"), format!("It has not been asked to run for {peace}"))
        }
        (Condition::Well | Condition::Moving, Subject::Source(_)) => {
            (format!("{subject} answers again"), format!("It has answered for {peace}"))
        }
        (Condition::Well | Condition::Moving, Subject::Service(_) | Subject::Publication(_)) => {
            (format!("{subject} has recovered"), format!("All has been well for {peace}"))
        }
    };
    Some(Alert {
        subject: subject.clone(),
        stage: Stage::Over,
        title,
        text: format!("{state}. Since it began {before} ago: {}.", counts.join(", ")),
        run: None,
    })
}

const fn predicate(kind: Kind) -> &'static str {
    match kind {
        Kind::Crashed => "crashed",
        Kind::OutOfMemory => "ran out of memory",
        Kind::Unhealthy => "is unhealthy",
        Kind::CannotStart => "cannot be started",
        Kind::CannotBePlaced => "fits on no node",
        Kind::GaveUp => "is down and is not started again",
        Kind::KilledSaving => "was killed while it was stopping",
        Kind::SourceLost => "does not answer",
        Kind::PublicationConflict => "is in conflict with what somebody else made",
        Kind::PublicationForbidden => "refuses what the token may not do",
    }
}

fn count(kind: Kind, times: u32) -> String {
    let (one, many) = match kind {
        Kind::Crashed => ("crash", "crashes"),
        Kind::OutOfMemory => ("time out of memory", "times out of memory"),
        Kind::Unhealthy => ("time unhealthy", "times unhealthy"),
        Kind::CannotStart => ("failed start", "failed starts"),
        Kind::CannotBePlaced => ("time without a node", "times without a node"),
        Kind::GaveUp => ("time given up", "times given up"),
        Kind::KilledSaving => ("kill while stopping", "kills while stopping"),
        Kind::SourceLost => ("time without an answer", "times without an answer"),
        Kind::PublicationConflict => ("conflict", "conflicts"),
        Kind::PublicationForbidden => ("refusal", "refusals"),
    };
    format!("{times} {}", if times == 1 { one } else { many })
}

/// As a person would call it.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(service) => f.write_str(&service.name),
            Self::Source(source) => write!(f, "the source {source}"),
            Self::Publication(host) => f.write_str(host),
        }
    }
}
