//! What is worth telling a person about services, sources and publications, and when.
//!
//! Whole states come in: each look at a source says of everything in it how it is and what is wrong ([`Sight`]). Told is
//! the first trouble of a kind at once; those that follow are folded into one count, ever more seldom; and when there
//! has been peace for a while, that it is over. A subject whose troubles come back has to keep the peace for longer each
//! time, so that whatever it does, a person hears of it a few times an hour at most.

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::moment::Moment;
use crate::service::{ServiceId, SourceId};

/// From the first alert to the first count of those that followed, from there to the next, and so on.
const FOLDS: [Duration; 2] = [Duration::from_secs(10 * 60), Duration::from_secs(60 * 60)];
const LAST_FOLD: Duration = Duration::from_secs(6 * 60 * 60);
/// A subject that has kept the peace for so long has no history.
const FORGIVEN_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// The peace asked for doubles with each relapse, so often at most.
const MOST_DOUBLINGS: u32 = 6;

/// What an alert is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Service(ServiceId),
    Source(SourceId),
    /// A hostname that is, or should be, published, or what all of them need: `the tunnel`, `Cloudflare`.
    Publication(Arc<str>),
}

/// What kind of trouble it is. Each is told and folded on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It ended by itself, and not well.
    Crashed,
    OutOfMemory,
    /// Its health check failed.
    Unhealthy,
    /// It ended before it ran: no image, no such command.
    CannotStart,
    /// No node can take it.
    CannotBePlaced,
    /// Its orchestrator does not start it again.
    GaveUp,
    /// It was told to stop and was killed before it had.
    KilledSaving,
    /// An orchestrator does not answer.
    SourceLost,
    /// Somebody else's rule or record stands where one of the gate's should.
    PublicationConflict,
    /// The token may not do what publications need. Told once for all of them.
    PublicationForbidden,
}

/// One subject, as a look at its source has shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    pub subject: Subject,
    pub condition: Condition,
    pub troubles: Vec<Trouble>,
}

/// How a subject is, whatever its troubles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It does what it should.
    Well,
    /// It does nothing, and should not: asleep, scaled to zero, removed.
    AtRest,
    /// On its way from one to the other, or not known.
    Moving,
}

/// Something that is wrong with a subject, or has happened to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub kind: Kind,
    /// For people, without the subject's name: `exit code 1, on node2`.
    pub what: String,
    pub when: When,
    /// The run whose last lines may say more, in its source's words.
    pub run: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// So often since the look before.
    Since(u32),
    /// Now, and until a look no longer shows it.
    Lasting,
}

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    pub subject: Subject,
    pub stage: Stage,
    /// One line, with the subject's name.
    pub title: String,
    pub text: String,
    /// The run whose last lines may say more.
    pub run: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    First(Kind),
    /// So often since it was last told.
    Again {
        kind: Kind,
        times: u32,
    },
    /// None of what was told about the subject is so any more.
    Over,
}

/// Remembers what has been told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Alerts {
    cases: BTreeMap<Subject, Case>,
    /// The sources that have been looked at.
    seen: BTreeSet<SourceId>,
}

/// All troubles of one subject.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Case {
    /// Whose looks show it.
    source: SourceId,
    /// Troubles that are there now, told yet or not.
    lasting: BTreeMap<Kind, Lasting>,
    /// Those that were told and are not over.
    open: BTreeMap<Kind, Open>,
    /// Since when it is as it should be, and how.
    peace: Option<(Moment, Condition)>,
    /// How often it was told that all is over, and when last.
    relapses: u32,
    closed: Option<Moment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Lasting {
    since: Moment,
    counted: bool,
    trouble: Trouble,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Open {
    first: Moment,
    told: Moment,
    /// How many counts have been told.
    folds: usize,
    times: u32,
    untold: u32,
    last: Trouble,
}

impl Alerts {
    /// Everything there is in `source`, as a look has shown it. What is not there is gone, and what the first look shows
    /// to be over was so before.
    pub fn saw(&mut self, source: SourceId, sights: Vec<Sight>, now: Moment) -> Vec<Alert> {
        let answers =
            Sight { subject: Subject::Source(source), condition: Condition::Well, troubles: vec![] };
        let shown: BTreeSet<Subject> = sights.iter().map(|sight| sight.subject.clone()).collect();
        let of_it = self.cases.iter().filter(|(_, case)| case.source == source);
        let gone: Vec<Sight> = of_it
            .filter(|(subject, _)| !shown.contains(subject) && **subject != answers.subject)
            .map(|(subject, _)| Sight {
                subject: subject.clone(),
                condition: Condition::AtRest,
                troubles: vec![],
            })
            .collect();
        let first = self.seen.insert(source);
        let mut alerts = Vec::new();
        for sight in sights.into_iter().chain(gone).chain([answers]) {
            alerts.extend(self.note(source, sight, first, now));
        }
        alerts.extend(self.tick(now));
        alerts
    }

    /// `source` does not answer: what it was known to hold is in no better a state for that.
    pub fn lost(&mut self, source: SourceId, why: &str, now: Moment) -> Vec<Alert> {
        for case in self.cases.values_mut().filter(|case| case.source == source) {
            case.peace = None;
        }
        let (kind, what) = (Kind::SourceLost, why.to_owned());
        let lost = Trouble { kind, what, when: When::Lasting, run: None };
        let (subject, condition) = (Subject::Source(source), Condition::Moving);
        let sight = Sight { subject, condition, troubles: vec![lost] };
        let mut alerts = self.note(source, sight, false, now);
        alerts.extend(self.tick(now));
        alerts
    }

    /// What is due at `now`. Call it at [`Self::next_deadline`].
    pub fn tick(&mut self, now: Moment) -> Vec<Alert> {
        let alerts = self.cases.iter_mut().flat_map(|(subject, case)| case.tick(subject, now)).collect();
        self.cases.retain(|_, case| !case.is_forgotten(now));
        alerts
    }

    /// Subjects that are in trouble, or were a while ago.
    pub fn count(&self) -> usize {
        self.cases.len()
    }

    pub fn next_deadline(&self) -> Option<Moment> {
        self.cases.values().filter_map(Case::next_deadline).min()
    }

    fn note(&mut self, source: SourceId, sight: Sight, first: bool, now: Moment) -> Vec<Alert> {
        match self.cases.get_mut(&sight.subject) {
            Some(case) => case.note(sight, first, now),
            None if sight.troubles.is_empty() => Vec::new(),
            None => {
                let case = self.cases.entry(sight.subject.clone()).or_insert(Case::new(source));
                case.note(sight, first, now)
            }
        }
    }
}

impl Case {
    fn new(source: SourceId) -> Self {
        Self {
            source,
            lasting: BTreeMap::new(),
            open: BTreeMap::new(),
            peace: None,
            relapses: 0,
            closed: None,
        }
    }

    /// `first`: nobody has looked before, so that what is over counts as told.
    fn note(
        &mut self,
        Sight { subject, condition, troubles }: Sight,
        first: bool,
        now: Moment,
    ) -> Vec<Alert> {
        self.peace = match condition {
            Condition::Well | Condition::AtRest if troubles.is_empty() => {
                let kept = self.peace.filter(|(_, before)| *before == condition);
                let since = self.peace.map_or(now, |(since, _)| since);
                Some(kept.unwrap_or((since, condition)))
            }
            Condition::Well | Condition::AtRest | Condition::Moving => None,
        };
        self.lasting.retain(|kind, _| troubles.iter().any(|trouble| trouble.kind == *kind));
        let mut alerts = Vec::new();
        for trouble in troubles {
            match trouble.when {
                When::Since(times) => alerts.extend(self.happened(&subject, trouble, times, now)),
                When::Lasting => {
                    let kind = trouble.kind;
                    let counted = first && kind.is_an_end();
                    let new = || Lasting { since: now, counted, trouble: trouble.clone() };
                    self.lasting.entry(kind).or_insert_with(new).trouble = trouble.clone();
                }
            }
        }
        alerts
    }

    fn happened(&mut self, subject: &Subject, trouble: Trouble, times: u32, now: Moment) -> Option<Alert> {
        if let Some(open) = self.open.get_mut(&trouble.kind) {
            open.times = open.times.saturating_add(times);
            open.untold = open.untold.saturating_add(times);
            open.last = trouble;
            return None;
        }
        let open = Open { first: now, told: now, folds: 0, times, untold: 0, last: trouble };
        let alert = words::first(subject, &open);
        self.open.insert(open.last.kind, open);
        Some(alert)
    }

    fn tick(&mut self, subject: &Subject, now: Moment) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let mut due = Vec::new();
        for lasting in self.lasting.values_mut() {
            if !lasting.counted && now.since(lasting.since) >= lasting.trouble.kind.patience() {
                lasting.counted = true;
                due.push(lasting.trouble.clone());
            }
        }
        for trouble in due {
            alerts.extend(self.happened(subject, trouble, 1, now));
        }
        for open in self.open.values_mut().filter(|open| open.is_due(now)) {
            alerts.push(words::again(subject, open, now));
            (open.told, open.untold, open.folds) = (now, 0, open.folds + 1);
        }
        if let Some((since, condition)) = self.peace
            && !self.open.is_empty()
            && now.since(since) >= self.peace_asked_for()
        {
            alerts.extend(words::over(subject, &self.open, condition, now.since(since), now));
            self.open.clear();
            self.relapses = self.relapses.saturating_add(1);
            self.closed = Some(now);
        }
        alerts
    }

    fn next_deadline(&self) -> Option<Moment> {
        let uncounted = self.lasting.values().filter(|lasting| !lasting.counted);
        let patience = uncounted.map(|lasting| lasting.since + lasting.trouble.kind.patience());
        let folds = self.open.values().filter(|open| open.untold > 0).map(Open::due);
        let over = self.peace.filter(|_| !self.open.is_empty());
        patience.chain(folds).chain(over.map(|(since, _)| since + self.peace_asked_for())).min()
    }

    fn peace_asked_for(&self) -> Duration {
        let longest = self.open.keys().map(|kind| kind.peace()).max().unwrap_or_default();
        longest.saturating_mul(1 << self.relapses.min(MOST_DOUBLINGS))
    }

    fn is_forgotten(&self, now: Moment) -> bool {
        let forgiven = self.closed.is_none_or(|closed| now.since(closed) >= FORGIVEN_AFTER);
        self.open.is_empty() && self.lasting.is_empty() && forgiven
    }
}

impl Open {
    fn due(&self) -> Moment {
        self.told + FOLDS.get(self.folds).copied().unwrap_or(LAST_FOLD)
    }

    fn is_due(&self, now: Moment) -> bool {
        self.untold > 0 && now >= self.due()
    }
}

impl Kind {
    pub const ALL: [Self; 10] = [
        Self::Crashed,
        Self::OutOfMemory,
        Self::Unhealthy,
        Self::CannotStart,
        Self::CannotBePlaced,
        Self::GaveUp,
        Self::KilledSaving,
        Self::SourceLost,
        Self::PublicationConflict,
        Self::PublicationForbidden,
    ];

    /// A short name for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Crashed => "crashed",
            Self::OutOfMemory => "out_of_memory",
            Self::Unhealthy => "unhealthy",
            Self::CannotStart => "cannot_start",
            Self::CannotBePlaced => "cannot_be_placed",
            Self::GaveUp => "gave_up",
            Self::KilledSaving => "killed_saving",
            Self::SourceLost => "source_lost",
            Self::PublicationConflict => "publication_conflict",
            Self::PublicationForbidden => "publication_forbidden",
        }
    }

    /// How long it must last before it is told. An election of managers takes 20 s, a node's restart a minute.
    const fn patience(self) -> Duration {
        match self {
            Self::CannotBePlaced => Duration::from_secs(30),
            Self::SourceLost => Duration::from_secs(60),
            Self::Crashed
            | Self::OutOfMemory
            | Self::Unhealthy
            | Self::CannotStart
            | Self::GaveUp
            | Self::KilledSaving
            | Self::PublicationConflict
            | Self::PublicationForbidden => Duration::ZERO,
        }
    }

    /// Whether a look shows it of a run that may have ended long ago.
    const fn is_an_end(self) -> bool {
        match self {
            Self::GaveUp | Self::KilledSaving => true,
            Self::Crashed
            | Self::OutOfMemory
            | Self::Unhealthy
            | Self::CannotStart
            | Self::CannotBePlaced
            | Self::SourceLost
            | Self::PublicationConflict
            | Self::PublicationForbidden => false,
        }
    }

    /// How long there must be peace before it is over.
    const fn peace(self) -> Duration {
        match self {
            Self::SourceLost | Self::PublicationConflict | Self::PublicationForbidden => {
                Duration::from_secs(60)
            }
            Self::Crashed
            | Self::OutOfMemory
            | Self::Unhealthy
            | Self::CannotStart
            | Self::CannotBePlaced
            | Self::GaveUp
            | Self::KilledSaving => Duration::from_secs(5 * 60),
        }
    }

    /// Whether it can be mended: minutes of a world that are lost stay lost.
    const fn can_be_over(self) -> bool {
        match self {
            Self::KilledSaving => false,
            Self::Crashed
            | Self::OutOfMemory
            | Self::Unhealthy
            | Self::CannotStart
            | Self::CannotBePlaced
            | Self::GaveUp
            | Self::SourceLost
            | Self::PublicationConflict
            | Self::PublicationForbidden => true,
        }
    }
}

impl Subject {
    /// For programs: `swarm/mc`.
    pub fn id(&self) -> String {
        match self {
            Self::Service(service) => service.to_string(),
            Self::Source(source) => format!("source/{source}"),
            Self::Publication(host) => format!("publication/{host}"),
        }
    }
}

impl Trouble {
    /// Something that has happened once.
    pub fn once(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), when: When::Since(1), run: None }
    }

    /// Something that is so.
    pub fn lasting(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), when: When::Lasting, run: None }
    }

    pub fn of_run(self, run: &str) -> Self {
        Self { run: Some(run.into()), ..self }
    }
}

#[cfg(test)]
mod tests;
