//! One comparison of what is wanted with what is there, and everything that follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use swarmgate_core::config::{Cloudflare, Credential, Secret};
use swarmgate_core::event::Event;
use swarmgate_core::moment::Moment;
use swarmgate_core::name::HostPattern;
use swarmgate_core::publish::actual::{Actual, Step};
use swarmgate_core::publish::ingress::NotUnderstood;
use swarmgate_core::publish::memory::{Identity, Memory, Patience};
use swarmgate_core::publish::plan::{
    Input, Plan, Stand, Standing, Terms, begins, departures, ended, tampering,
};
use swarmgate_core::publish::wanted::Wanted;
use swarmgate_core::span;
use tokio_util::sync::CancellationToken;

use super::apply::{Outcome, apply};
use super::asked::Asked;
use super::client::error::{ApiError, Class};
use super::client::{Client, Credentials, NoClient, Target};
use super::read::{Read, ReadError, Scope, read};
use crate::build;
use crate::fleet::Fleet;
use crate::store::Store;

/// Why a round ended before everything was compared.
#[derive(Debug, thiserror::Error)]
pub enum RoundError {
    #[error("{} cannot be read", .0.display())]
    Secret(std::path::PathBuf, #[source] std::io::Error),
    #[error(transparent)]
    Client(#[from] NoClient),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Write(ApiError),
    #[error(transparent)]
    Odd(#[from] NotUnderstood),
    #[error("somebody else keeps writing the tunnel's configuration; one gate at most may write it")]
    Contended,
    #[error("what Cloudflare says is done is not there afterwards, again and again")]
    InVain,
}

impl RoundError {
    /// Whether another secret might do.
    pub const fn is_unauthorized(&self) -> bool {
        match self {
            Self::Read(ReadError::Api(error)) | Self::Write(error) => error.is_unauthorized(),
            Self::Read(ReadError::Token(_) | ReadError::UnknownToken | ReadError::OtherAccount { .. }) => {
                true
            }
            Self::Secret(..)
            | Self::Client(_)
            | Self::Odd(_)
            | Self::Read(_)
            | Self::Contended
            | Self::InVain => false,
        }
    }

    /// Whether somebody else's doing is in the way.
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Contended)
    }

    /// How long to wait at least; `None` if only somebody's doing can help.
    pub fn retry_after(&self) -> Option<Duration> {
        let api = match self {
            Self::Read(ReadError::Api(error)) | Self::Write(error) => error,
            Self::Contended => return Some(Duration::ZERO),
            Self::Secret(..) | Self::Client(_) | Self::Odd(_) | Self::Read(_) | Self::InVain => return None,
        };
        match api.class() {
            Class::Permanent => None,
            Class::Conflict | Class::Transient => Some(api.retry_after().unwrap_or_default()),
        }
    }
}

/// What a round came to.
#[derive(Debug, Default)]
pub struct Report {
    /// What is left to do, and how all hostnames stand.
    pub plan: Plan,
    pub tunnel_status: Option<String>,
    /// Something of one hostname failed that may go better by itself, and how long to wait for that at least.
    pub again_after: Option<Duration>,
    /// What the token may not do, in words that are part of the hostnames' problems.
    pub denied: BTreeSet<String>,
}

impl Report {
    /// Whether nothing failed.
    pub fn is_whole(&self) -> bool {
        let failed = |stand: &Stand| matches!(stand.standing, Standing::Failed(_));
        self.again_after.is_none() && !self.plan.hosts.values().any(failed)
    }
}

/// The circumstances of a round.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    pub config: &'a Cloudflare,
    pub client: &'a Client,
    pub asked: &'a Asked,
    pub now: Moment,
}

/// More calls than this to write one configuration, and others are writing as well.
const MOST_OUTDATED: usize = 4;
/// A round needs three, and one for each kind of failure.
const MOST_PLANS: usize = 20;
/// A gate that is told to stop waits so long for the call under way: what came of it is seen at the next start.
const LAST_STEP: Duration = Duration::from_secs(10);
/// So many calls without an answer, and none of those after will have one.
const MOST_UNANSWERED: usize = 2;

pub fn identity(config: &Cloudflare) -> Identity {
    Identity {
        tunnel: config.tunnel.clone(),
        instance: config.instance.clone(),
        build: build::BOTH.to_owned(),
    }
}

/// Read anew whenever there is a new client: a secret may have been changed.
pub fn client(config: &Cloudflare) -> Result<Client, RoundError> {
    let secret = |secret: &Secret| match secret {
        Secret::Text(text) => Ok(text.clone()),
        Secret::File(path) => std::fs::read_to_string(path)
            .map(|text| text.trim().to_owned())
            .map_err(|error| RoundError::Secret(path.clone(), error)),
    };
    let credentials = match &config.credential {
        Credential::Token(token) => Credentials::Token(secret(token)?),
        Credential::Key { email, key } => Credentials::Key { email: email.clone(), key: secret(key)? },
    };
    let (api, account, tunnel) = (config.api.clone(), config.account.clone(), config.tunnel.clone());
    Ok(Client::new(&Target { api, account, tunnel, credentials })?)
}

/// Whom a round tells what it finds, and where it keeps what must outlive it.
#[derive(Debug, Clone, Copy)]
pub struct Hub<'a> {
    pub fleet: &'a Fleet,
    pub store: &'a Store,
}

/// A round under way.
#[derive(Debug)]
struct Course<'a> {
    memory: &'a mut Memory,
    terms: Terms,
    wanted: Wanted,
    departed: BTreeSet<HostPattern>,
    actual: Actual,
    now: Moment,
    failed: BTreeMap<HostPattern, String>,
    outdated: usize,
    unanswered: usize,
    report: Report,
}

impl Round<'_> {
    /// Makes everything what it should be, step by step, until nothing is left to do or `stop`.
    pub async fn run(
        &self,
        memory: &mut Memory,
        hub: Hub<'_>,
        stop: &CancellationToken,
    ) -> Result<Report, RoundError> {
        let mut course = tokio::select! {
            () = stop.cancelled() => return Ok(Report::default()),
            begun = self.begin(memory) => begun?,
        };
        course.tell_tampering(hub)?;
        keep(hub.store, course.memory).await;
        course.report.plan = course.plan()?;
        let mut plans = 0;
        while !course.report.plan.steps.is_empty() {
            if self.config.dry_run {
                return Ok(course.report);
            }
            plans += 1;
            if plans > MOST_PLANS {
                return Err(RoundError::InVain);
            }
            let mut made = Vec::new();
            for step in course.report.plan.batch().to_vec() {
                if stop.is_cancelled() {
                    return Ok(course.report);
                }
                if course.is_left(&step) {
                    continue;
                }
                match in_time(course.make(self.client, &step, hub), stop).await.transpose()? {
                    Some(is_made) => made.extend(is_made.then_some(step)),
                    None => {
                        let limit = span::human(LAST_STEP);
                        tracing::warn!(%step, limit, "Cloudflare has not answered; stopping without");
                        return Ok(course.report);
                    }
                }
            }
            let plan = course.plan()?;
            course.report.plan = course.unless_in_vain(&made, plan)?;
        }
        let Course { memory, terms, wanted, actual, report, .. } = course;
        ended(memory, (&terms, &wanted, &actual), &report.plan);
        // Everything was compared. What is refused for good would be refused in the next round, too.
        if report.again_after.is_none() {
            memory.settle();
        }
        keep(hub.store, memory).await;
        Ok(report)
    }

    /// What would be done, without doing it or taking note of anything.
    pub async fn preview(&self, memory: &Memory) -> Result<Report, RoundError> {
        let mut memory = memory.clone();
        let mut course = self.begin(&mut memory).await?;
        course.report.plan = course.plan()?;
        Ok(course.report)
    }

    async fn begin<'m>(&self, memory: &'m mut Memory) -> Result<Course<'m>, RoundError> {
        let (terms, wanted) = (self.terms(), Wanted::new(&self.asked.all(), |host| memory.holders(host)));
        let hosts = wanted.hosts.keys().cloned().chain(memory.hosts()).collect();
        let zones = wanted.hosts.values().filter_map(|want| want.zone.clone()).collect();
        let elsewhere = match (self.config.exclusive, memory.is_settled()) {
            (true, _) => Some(("content.exact", terms.content.clone())),
            (false, false) => Some(("comment.exact", terms.marks.comment.clone())),
            (false, true) => None,
        };
        let read = read(self.client, &Scope { hosts, zones, elsewhere }).await?;
        let Read { tunnel, actual, again_after, denied } = read;
        let departed = self.departed(memory, (&terms, &wanted, &actual))?;
        let report = Report { tunnel_status: tunnel.status, again_after, denied, ..Report::default() };
        let (now, failed) = (self.now, BTreeMap::new());
        Ok(Course {
            memory,
            terms,
            wanted,
            departed,
            actual,
            now,
            failed,
            outdated: 0,
            unanswered: 0,
            report,
        })
    }

    fn terms(&self) -> Terms {
        Terms {
            team: self.config.team.clone(),
            exclusive: self.config.exclusive,
            delete_dns: self.config.delete_dns,
            grace: self.config.grace,
            ..Terms::new(&self.config.tunnel, &self.config.instance)
        }
    }

    fn departed(
        &self,
        memory: &mut Memory,
        facts: (&Terms, &Wanted, &Actual),
    ) -> Result<BTreeSet<HostPattern>, NotUnderstood> {
        let patience = Patience { grace: self.config.grace, most: self.config.max_deletions };
        departures(memory, facts, &|source| self.asked.answers(source), patience, self.now)
    }
}

impl Course<'_> {
    fn plan(&self) -> Result<Plan, NotUnderstood> {
        Plan::new(Input {
            terms: &self.terms,
            wanted: &self.wanted,
            actual: &self.actual,
            memory: self.memory,
            departed: &self.departed,
            failed: &self.failed,
        })
    }

    /// Makes one step, and says whether that is done. What fails for one hostname leaves that one alone until the next
    /// round.
    async fn make(&mut self, client: &Client, step: &Step, hub: Hub<'_>) -> Result<bool, RoundError> {
        if begins(self.memory, &self.report.plan, step, &self.wanted, self.now) {
            keep(hub.store, self.memory).await;
        }
        let is_put = matches!(step, Step::PutConfiguration { .. });
        tracing::info!("{}", if is_put { diff(&self.report.plan) } else { step.to_string() });
        let answer = match apply(client, step).await {
            Ok(Outcome::Done(answer)) => answer,
            Ok(Outcome::Overwrote(answer, version)) => {
                let problem = format!(
                    "somebody else wrote the tunnel's configuration at the same time (it is at version {version} now); if a rule of theirs is missing, write it again"
                );
                hub.fleet.tell(Event::Publishing { problem: Some(problem) });
                answer
            }
            Ok(Outcome::Outdated(configuration)) => {
                self.outdated += 1;
                self.actual.configuration = configuration;
                self.tell_tampering(hub)?;
                return if self.outdated > MOST_OUTDATED { Err(RoundError::Contended) } else { Ok(false) };
            }
            Err(error) => return self.failed(step, error).map(|()| false),
        };
        self.actual.absorb(step, answer);
        Ok(true)
    }

    /// What somebody else has changed of what the gate had left.
    fn tell_tampering(&mut self, hub: Hub<'_>) -> Result<(), NotUnderstood> {
        let rules = tampering(self.memory, (&self.terms, &self.wanted, &self.actual), self.now)?;
        if !rules.is_empty() {
            hub.fleet.tell(Event::Tampered { rules });
        }
        Ok(())
    }

    /// Whether it is for a hostname alone that is left as it is in this round.
    fn is_left(&self, step: &Step) -> bool {
        let hosts = self.concerned(step).unwrap_or_default();
        !hosts.is_empty() && hosts.iter().all(|host| self.failed.contains_key(host))
    }

    /// `plan`, which was made after the steps `made`; if any of them is due again, what comes of leaving it.
    fn unless_in_vain(&mut self, made: &[Step], plan: Plan) -> Result<Plan, RoundError> {
        let mut in_vain = BTreeMap::new();
        for step in made {
            let is_put = matches!(step, Step::PutConfiguration { .. });
            let hosts = if is_put && plan.changes == self.report.plan.changes {
                plan.changes.iter().map(|change| change.key().host.clone()).collect()
            } else if plan.steps.contains(step) {
                self.concerned(step).unwrap_or_default()
            } else {
                BTreeSet::new()
            };
            in_vain.extend(hosts.into_iter().map(|host| (host, step.to_string())));
        }
        if in_vain.is_empty() {
            return Ok(plan);
        }
        let why = |step| format!("Cloudflare says that it is done, and it is not ({step})");
        self.failed.extend(in_vain.into_iter().map(|(host, step)| (host, why(step))));
        Ok(self.plan()?)
    }

    fn failed(&mut self, step: &Step, error: ApiError) -> Result<(), RoundError> {
        self.unanswered += usize::from(matches!(error, ApiError::NoAnswer { .. }));
        let is_away = matches!(error, ApiError::Limited { .. }) || self.unanswered > MOST_UNANSWERED;
        let hosts = match step {
            // The rules of those that are to be protected must go all the same.
            Step::CreateTag { .. } | Step::CreateApp { .. } | Step::UpdateApp { .. } if is_away => {
                Some(self.protected())
            }
            Step::PutConfiguration { .. }
            | Step::CreateTag { .. }
            | Step::CreateApp { .. }
            | Step::UpdateApp { .. }
            | Step::DeleteApp { .. }
            | Step::CreateRecord { .. }
            | Step::UpdateRecord { .. }
            | Step::DeleteRecord { .. } => self.concerned(step).filter(|_| !is_away),
        };
        let Some(hosts) = hosts else { return Err(RoundError::Write(error)) };
        if error.class() != Class::Permanent {
            let after = error.retry_after().unwrap_or_default();
            self.report.again_after = self.report.again_after.max(Some(after));
        }
        if error.is_unauthorized() {
            self.report.denied.insert(error.to_string());
        }
        self.failed.extend(hosts.into_iter().map(|host| (host, error.to_string())));
        Ok(())
    }

    /// The hostnames that are to be protected.
    fn protected(&self) -> BTreeSet<HostPattern> {
        let protected = self.wanted.hosts.iter().filter(|(_, want)| !want.access.is_empty());
        protected.map(|(host, _)| host.clone()).collect()
    }

    /// The hostnames that a step is for; `None` if it is for all of them.
    fn concerned(&self, step: &Step) -> Option<BTreeSet<HostPattern>> {
        match step {
            Step::PutConfiguration { .. } => None,
            Step::CreateTag { .. } => Some(self.protected()),
            Step::CreateApp { .. }
            | Step::UpdateApp { .. }
            | Step::DeleteApp { .. }
            | Step::CreateRecord { .. }
            | Step::UpdateRecord { .. }
            | Step::DeleteRecord { .. } => Some([HostPattern::parse(step.host()?).ok()?].into()),
        }
    }
}

/// `None` if the gate is to stop and it takes longer than it may then.
async fn in_time<T>(step: impl Future<Output = T>, stop: &CancellationToken) -> Option<T> {
    let too_late = async {
        stop.cancelled().await;
        tokio::time::sleep(LAST_STEP).await;
    };
    tokio::select! {
        done = step => Some(done),
        () = too_late => None,
    }
}

fn diff(plan: &Plan) -> String {
    plan.changes
        .iter()
        .map(swarmgate_core::publish::ingress::Change::in_tunnel)
        .collect::<Vec<_>>()
        .join("; ")
}

async fn keep(store: &Store, memory: &Memory) {
    let (store, memory) = (store.clone(), memory.clone());
    if let Err(error) = tokio::task::spawn_blocking(move || store.keep_publication(&memory)).await {
        tracing::error!(%error, "the store panicked");
    }
}
