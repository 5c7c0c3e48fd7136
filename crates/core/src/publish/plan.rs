//! From what is wanted, what is there and what the gate remembers: the ordered changes, and how every hostname stands.
//!
//! To publish, a hostname gets its Access application first, then its rules, then its DNS record; to withdraw it, the
//! other way round. Every step assumes that those before it have succeeded: the shell does the first, takes note of the
//! answer, and plans anew. Once there is nothing left to do a plan is empty.

mod access;
#[cfg(test)]
mod always;
#[cfg(test)]
mod contest;
mod dns;
#[cfg(test)]
mod foreign;
mod judge;
#[cfg(test)]
mod model;
mod round;
#[cfg(test)]
mod shared;
mod show;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use self::dns::zone_of;
use self::judge::{Go, Judge, Verdict};
pub use self::round::{begins, departures, ended, tampering};
pub use self::show::HostView;
use super::actual::{Actual, Step};
use super::ingress::{Change, Conflict, Edit, Ingress, NotUnderstood};
use super::marks::Marks;
use super::memory::Memory;
use super::rule::{Key, Rule};
use super::wanted::Wanted;
use crate::name::HostPattern;

/// What a plan is made of.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub terms: &'a Terms,
    pub wanted: &'a Wanted,
    pub actual: &'a Actual,
    pub memory: &'a Memory,
    /// Hostnames to withdraw, as [`Memory::observe`] has it.
    pub departed: &'a BTreeSet<HostPattern>,
    /// What could not be done in this round, and why: such a hostname is left as it is until the next.
    pub failed: &'a BTreeMap<HostPattern, String>,
}

impl<'a> Input<'a> {
    fn of(
        (terms, wanted, actual): (&'a Terms, &'a Wanted, &'a Actual),
        memory: &'a Memory,
        departed: &'a BTreeSet<HostPattern>,
        failed: &'a BTreeMap<HostPattern, String>,
    ) -> Self {
        Self { terms, wanted, actual, memory, departed, failed }
    }
}

/// What the configuration says about all hostnames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub marks: Marks,
    /// What records lead to: `f70ff985-….cfargotunnel.com`.
    pub content: String,
    pub team: Option<String>,
    pub exclusive: bool,
    /// For hostnames of which it is not known any more what was asked for them.
    pub delete_dns: bool,
    /// How long nobody asks for a hostname before it is withdrawn.
    pub grace: Duration,
}

impl Terms {
    pub fn new(tunnel: &str, instance: &str) -> Self {
        Self {
            marks: Marks::new(instance, tunnel),
            content: format!("{tunnel}.cfargotunnel.com"),
            team: None,
            exclusive: false,
            delete_dns: false,
            grace: Duration::from_secs(1800),
        }
    }
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// What [`Step::PutConfiguration`] changes, if it is among them.
    pub changes: Vec<Change>,
    pub hosts: BTreeMap<HostPattern, Stand>,
    /// The rules that are ours once all is done.
    pub rules: BTreeMap<Key, String>,
    /// The hostnames of which those are all.
    pub complete: BTreeSet<HostPattern>,
    /// The hostnames that nobody reaches without saying who they are, as they were read; `None` if they were not.
    pub protected: Option<BTreeSet<HostPattern>>,
}

/// How one hostname stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stand {
    pub service: Option<String>,
    pub standing: Standing,
    /// Worth knowing, each a sentence.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// As it should be.
    Published,
    /// This plan changes something about it.
    Changing,
    /// What somebody else made is in the way. In a sentence with the fix; nothing is changed.
    Conflict(String),
    /// It could not be done. In a sentence; it is tried again.
    Failed(String),
    /// What is asked for is not understood. In a sentence with the fix; nothing is changed.
    Held(String),
    /// No service asks for it any more.
    Leaving,
    /// This plan takes it away.
    Withdrawing,
}

impl Standing {
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Changing => "changing",
            Self::Conflict(_) => "conflict",
            Self::Failed(_) => "failed",
            Self::Held(_) => "held",
            Self::Leaving => "leaving",
            Self::Withdrawing => "withdrawing",
        }
    }

    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Conflict(why) | Self::Failed(why) | Self::Held(why) => Some(why),
            Self::Published | Self::Changing | Self::Leaving | Self::Withdrawing => None,
        }
    }
}

impl Plan {
    /// # Errors
    /// If the tunnel's configuration is in no form in which it could be changed without harm.
    pub fn new(input: Input<'_>) -> Result<Self, NotUnderstood> {
        let ingress = Ingress::read(input.actual.configuration.config.as_deref())?;
        let mut misfits = BTreeMap::new();
        loop {
            let judge = Judge { input, ingress: &ingress, misfits: &misfits };
            let draft = Draft::new(&judge);
            let mut edit = ingress.edit(&draft.ours, &draft.rules());
            let conflicts = std::mem::take(&mut edit.conflicts);
            if conflicts.is_empty() {
                let plan = draft.plan(input.actual.configuration.version, edit);
                return Ok(Self { protected: access::protected(&input), ..plan });
            }
            misfits.extend(conflicts.into_iter().map(misfit));
        }
    }
}

impl Plan {
    /// The first steps, which can be made one after the other; then what is left must be planned anew, because what is
    /// written into the tunnel depends on what Cloudflare has answered.
    pub fn batch(&self) -> &[Step] {
        let is_put = |step: &Step| matches!(step, Step::PutConfiguration { .. });
        let end = match self.steps.iter().position(is_put) {
            Some(0) => 1,
            Some(put) => put,
            None => self.steps.len(),
        };
        self.steps.get(..end).unwrap_or_default()
    }

    /// The rules that go.
    pub fn removed(&self) -> impl Iterator<Item = &Key> {
        let removed = self.changes.iter().filter(|change| matches!(change, Change::Remove { .. }));
        removed.map(Change::key)
    }

    /// The hostnames that lose something by `step`.
    fn removals(&self, step: &Step) -> Vec<HostPattern> {
        if matches!(step, Step::PutConfiguration { .. }) {
            return self.removed().map(|key| key.host.clone()).collect();
        }
        let host = step.host().filter(|_| step.removes());
        host.and_then(|host| HostPattern::parse(host).ok()).into_iter().collect()
    }
}

fn misfit(Conflict { key, behind, before }: Conflict) -> (HostPattern, String) {
    let what = format!(
        "{key} would have to stand before {behind} and after {before}, which is behind that; reorder those two rules"
    );
    (key.host, what)
}

/// What is decided of each hostname, before the rules have their places.
struct Draft {
    go: BTreeMap<HostPattern, Go>,
    withdrawals: BTreeMap<HostPattern, Go>,
    /// What is followed of those that stay as they are.
    policies: Vec<Step>,
    hosts: BTreeMap<HostPattern, Stand>,
    /// The rules that may be changed or removed.
    ours: BTreeSet<Key>,
    complete: BTreeSet<HostPattern>,
}

impl Draft {
    fn new(judge: &Judge<'_>) -> Self {
        let mut draft = Self {
            go: BTreeMap::new(),
            withdrawals: BTreeMap::new(),
            policies: Vec::new(),
            hosts: judge.leaving(),
            ours: BTreeSet::new(),
            complete: BTreeSet::new(),
        };
        let memory = judge.input.memory;
        let mut room = memory.room();
        for (host, want) in &judge.input.wanted.hosts {
            let (standing, notes) = match judge.judge(host, want) {
                Verdict::Go(mut go) => {
                    let idle = judge.idle_rules(host);
                    let mut keeps = memory.may_return(host, want);
                    if !keeps && (go.removes_something() || !idle.is_empty()) && !memory.is_counted(host) {
                        keeps = room == 0;
                        room = room.saturating_sub(1);
                        if keeps {
                            go.keep();
                        }
                    }
                    let notes = std::mem::take(&mut go.notes);
                    let kept = if keeps { idle } else { BTreeSet::new() };
                    draft.ours.extend(judge.own_rules(host).into_iter().filter(|key| !kept.contains(key)));
                    draft.complete.extend(kept.is_empty().then(|| host.clone()));
                    draft.go.insert(host.clone(), go);
                    (Standing::Published, notes)
                }
                Verdict::Stay(standing, policies) => {
                    draft.policies.extend(policies);
                    (standing, Vec::new())
                }
                Verdict::Shut(standing) => {
                    draft.ours.extend(judge.written_rules(host));
                    draft.complete.insert(host.clone());
                    let notes = vec!["it is not published while it is not protected".to_owned()];
                    (standing, notes)
                }
            };
            let service = Some(want.service.to_string());
            draft.hosts.insert(host.clone(), Stand { service, standing, notes });
        }
        for host in judge.input.departed {
            if judge.input.wanted.hosts.contains_key(host) {
                continue;
            }
            let standing = match judge.input.failed.get(host) {
                Some(why) => Standing::Failed(why.clone()),
                None => {
                    draft.may_change(judge, host);
                    let (standing, gone) = judge.withdraw(host);
                    draft.withdrawals.insert(host.clone(), gone);
                    standing
                }
            };
            let service = judge.input.memory.holder(host);
            draft.hosts.insert(host.clone(), Stand { service, standing, notes: Vec::new() });
        }
        draft
    }

    fn may_change(&mut self, judge: &Judge<'_>, host: &HostPattern) {
        self.ours.extend(judge.own_rules(host));
        self.complete.insert(host.clone());
    }

    fn rules(&self) -> Vec<Rule> {
        self.go.values().flat_map(|go| go.rules.iter().cloned()).collect()
    }

    fn plan(mut self, version: i64, edit: Edit) -> Plan {
        for (host, go) in &self.go {
            let in_tunnel = edit.changes.iter().any(|change| change.key().host == *host);
            if let Some(stand) = self.hosts.get_mut(host).filter(|_| in_tunnel || go.changes_something()) {
                stand.standing = Standing::Changing;
            }
        }
        let rules = self.rules().into_iter().map(|rule| (rule.key.clone(), rule.text())).collect();
        let Self { go, withdrawals, policies: mut steps, hosts, complete, .. } = self;
        let (mut records, mut after) = (Vec::new(), Vec::new());
        for go in go.into_values() {
            // One tag may be asked for by several.
            steps.extend(go.access.into_iter().filter(|step| !steps.contains(step)).collect::<Vec<_>>());
            records.extend(go.records);
            after.extend(go.after);
        }
        for gone in withdrawals.into_values() {
            steps.extend(gone.records);
            after.extend(gone.after);
        }
        steps.extend(edit.config.map(|config| Step::PutConfiguration { version, config }));
        steps.extend(records);
        steps.extend(after);
        Plan { steps, changes: edit.changes, hosts, rules, complete, protected: None }
    }
}
