//! What the gate remembers of its own changes and of how long what it published has been gone, over restarts.

mod known;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::known::{Asking, Known, Texts};
use super::ingress::Ingress;
use super::plan::Plan;
use super::rule::{Key, Written};
use super::wanted::{Host, Wanted};
use crate::moment::Moment;
use crate::name::HostPattern;

/// Survives in the store as JSON. Without it the gate knows only the marks on records and applications.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Of what all this is: the tunnel, the gate's instance, and the build of the gate.
    of: Identity,
    /// A whole comparison was made since it began.
    settled: bool,
    /// Of the configuration as the gate left it.
    version: Option<i64>,
    /// By hostname.
    hosts: BTreeMap<String, Known>,
    /// When absences were last measured, in this run.
    #[serde(skip)]
    measured: Option<Moment>,
    /// When removals were begun lately, in this run, and how many more may be.
    #[serde(skip)]
    removals: Vec<Moment>,
    #[serde(skip)]
    room: usize,
}

/// For whom the gate remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Identity {
    pub tunnel: String,
    pub instance: String,
    /// Of the program.
    pub build: String,
}

/// When what nobody asks for any more is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    pub grace: Duration,
    /// So many hostnames lose something within five minutes.
    pub most: usize,
}

/// Whose something of a hostname is, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose<T> {
    Ours(T),
    /// It bears the mark of another gate.
    AnotherGates,
    /// It is not there, or bears no gate's mark.
    Nobodys,
    /// It could not be read.
    Unknown,
}

/// Of a hostname: its record, and its application with the policies.
pub type Marked<'a> = dyn Fn(&HostPattern) -> (Whose<()>, Whose<Vec<String>>) + 'a;

/// Removals within this time count as one batch.
const TOGETHER: Duration = Duration::from_secs(300);
/// A service that is made anew is back long before this. Until then nobody else gets what it had.
const MADE_ANEW: Duration = Duration::from_secs(120);

impl Memory {
    /// As it is for the gate that is `of`. What belongs to another tunnel or instance is forgotten; a new build of the
    /// program first looks once without withdrawing anything.
    pub fn of(self, of: Identity) -> Self {
        let same = (&self.of.tunnel, &self.of.instance) == (&of.tunnel, &of.instance);
        let settled = self.settled && self.of == of;
        if same { Self { of, settled, ..self } } else { Self { of, ..Self::default() } }
    }

    /// The hostnames that it is about.
    pub fn hosts(&self) -> impl Iterator<Item = HostPattern> {
        self.hosts.keys().filter_map(|host| HostPattern::parse(host).ok())
    }

    /// The sources of services that have anything published.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        let services = self.hosts.values().flat_map(|known| known.services.keys());
        services.filter_map(|service| source_of(service))
    }

    /// Whether a whole comparison was made by this build of the gate.
    pub const fn is_settled(&self) -> bool {
        self.settled
    }

    /// The service that asked for `host` last.
    pub fn holder(&self, host: &HostPattern) -> Option<String> {
        self.hosts.get(&host.to_string())?.service.clone()
    }

    /// The services that have `host`, or had it and may be being made anew; who had it first goes first.
    pub fn holders(&self, host: &HostPattern) -> Vec<String> {
        let Some(known) = self.hosts.get(&host.to_string()) else { return Vec::new() };
        let is_back_soon =
            |asking: &Asking| !asking.is_gone || asking.absent.is_none_or(|absent| absent < MADE_ANEW);
        let holders = known.services.iter().filter(|(name, asking)| !name.is_empty() && is_back_soon(asking));
        let mut holders: Vec<String> = holders.map(|(name, _)| name.clone()).collect();
        holders.sort_by_key(|name| known.service.as_ref() != Some(name));
        holders
    }

    /// Whether something of a wanted hostname may be asked for although it is not now: nothing of it is removed then.
    pub fn may_return(&self, host: &HostPattern, want: &Host) -> bool {
        let away = |known: &Known| known.services.keys().any(|service| !want.services.contains(service));
        !self.settled || self.hosts.get(&host.to_string()).is_some_and(away)
    }

    /// Whether anything is remembered of it.
    pub fn knows(&self, host: &HostPattern) -> bool {
        self.hosts.contains_key(&host.to_string())
    }

    /// Whether `rule` is what the gate wrote, and nobody has changed it since.
    pub fn wrote(&self, rule: &Written) -> bool {
        let texts = rule.key.as_ref().and_then(|key| self.texts(key));
        texts.is_some_and(|texts| texts.seen.iter().chain(&texts.meant).any(|text| rule.says(text)))
    }

    /// Whether a rule with this key was there that the gate wrote.
    pub fn has_seen(&self, key: &Key) -> bool {
        self.texts(key).is_some_and(|texts| texts.seen.is_some())
    }

    fn texts(&self, key: &Key) -> Option<&Texts> {
        let path = key.path.as_deref().unwrap_or_default();
        self.hosts.get(&key.host.to_string())?.rules.get(path)
    }

    /// Whether nobody came to it without saying who they are when that was last seen.
    pub fn was_protected(&self, host: &HostPattern) -> bool {
        self.hosts.get(&host.to_string()).is_some_and(|known| known.protected)
    }

    /// What its service asked for last, if that is known.
    pub fn deletes_dns(&self, host: &HostPattern) -> Option<bool> {
        self.hosts.get(&host.to_string())?.delete_dns
    }

    /// How long each hostname has been asked for by nobody.
    pub fn absences(&self) -> impl Iterator<Item = (HostPattern, Duration, Option<&str>)> {
        self.hosts.iter().filter_map(|(host, known)| {
            Some((HostPattern::parse(host).ok()?, known.absent()?, known.service.as_deref()))
        })
    }

    /// Takes note of who asks for what. To be called whenever that changes, so that no absence seems longer than it was.
    ///
    /// Of a service whose source (`swarm`, …) is not among `answering` nothing is known, so nothing of it counts as gone.
    pub fn watch(&mut self, wanted: &Wanted, answering: &dyn Fn(Option<&str>) -> bool, now: Moment) {
        let since = self.measured.replace(now).map_or(Duration::ZERO, |last| now.since(last));
        let unclear: BTreeSet<String> = wanted.unclear.iter().map(ToString::to_string).collect();
        let sources: BTreeSet<String> = self.sources().map(str::to_owned).collect();
        let all_answer = answering(None) && sources.iter().all(|source| answering(Some(source)));
        for (host, known) in &mut self.hosts {
            known.is_asked_for(host, wanted);
            let want = HostPattern::parse(host).ok().and_then(|host| wanted.hosts.get(&host));
            for (service, asking) in &mut known.services {
                let answers = source_of(service).map_or(all_answer, |source| answering(Some(source)));
                let asks = want.is_some_and(|want| want.services.contains(service));
                let is_gone = !asks && answers && !unclear.contains(service);
                let was_gone = std::mem::replace(&mut asking.is_gone, is_gone);
                if is_gone {
                    let more = if was_gone { since } else { Duration::ZERO };
                    asking.absent = Some(asking.absent.unwrap_or_default().saturating_add(more));
                }
            }
        }
    }

    /// The hostnames that have been asked for by nobody for long enough. `ours` are those with anything of ours.
    pub fn observe(
        &mut self,
        wanted: &Wanted,
        ours: &BTreeSet<HostPattern>,
        answering: &dyn Fn(Option<&str>) -> bool,
        patience: Patience,
        now: Moment,
    ) -> BTreeSet<HostPattern> {
        self.hosts.retain(|host, _| {
            HostPattern::parse(host)
                .is_ok_and(|host| ours.contains(&host) || wanted.hosts.contains_key(&host))
        });
        // One that was never published is not remembered beyond that it is asked for.
        for host in wanted.hosts.keys() {
            self.hosts.entry(host.to_string()).or_default();
        }
        // Of one that is ours somebody asked for it, even if that is not remembered.
        for host in ours {
            let known = self.hosts.entry(host.to_string()).or_default();
            if known.services.is_empty() {
                known.services.insert(String::new(), Asking::default());
            }
        }
        self.watch(wanted, answering, now);
        for (_, known) in self
            .hosts
            .iter_mut()
            .filter(|(host, _)| HostPattern::parse(host).is_ok_and(|host| wanted.hosts.contains_key(&host)))
        {
            let stays = |asking: &Asking| {
                !asking.is_gone || asking.absent.is_none_or(|absent| absent < patience.grace)
            };
            known.services.retain(|_, asking| stays(asking));
        }
        self.count(patience, now);
        let mut departed = BTreeSet::new();
        for host in if self.settled { self.due(patience) } else { Vec::new() } {
            if self.is_counted(&host) || self.room > 0 {
                self.removes(&host, now);
                departed.insert(host);
            }
        }
        departed
    }

    /// Of those whose grace is over, and which nobody is known to ask for now, as many as may be withdrawn; first those
    /// that have not been tried.
    fn due(&mut self, patience: Patience) -> Vec<HostPattern> {
        let due = self.hosts.iter().filter_map(|(host, known)| {
            let absent = known.absent().filter(|absent| *absent >= patience.grace && known.is_gone())?;
            Some((known.removed, Reverse(absent), HostPattern::parse(host).ok()?))
        });
        let mut due: Vec<_> = due.collect();
        due.sort();
        due.into_iter().map(|(_, _, host)| host).collect()
    }

    fn count(&mut self, patience: Patience, now: Moment) {
        self.removals.retain(|began| now.since(*began) < TOGETHER);
        self.room = patience.most.saturating_sub(self.removals.len());
        for known in self.hosts.values_mut() {
            known.is_counted = known.removed.is_some_and(|began| now.since(began) < TOGETHER);
            known.strife.look(now);
        }
    }

    /// How many hostnames may lose something, beside those that [`Self::is_counted`].
    pub const fn room(&self) -> usize {
        self.room
    }

    /// Whether the hostname may lose something now, because it is doing so already.
    pub fn is_counted(&self, host: &HostPattern) -> bool {
        self.hosts.get(&host.to_string()).is_some_and(|known| known.is_counted)
    }

    /// Before something of the hostname is removed.
    pub fn removes(&mut self, host: &HostPattern, now: Moment) {
        let known = self.hosts.entry(host.to_string()).or_default();
        if !std::mem::replace(&mut known.is_counted, true) {
            known.removed = Some(now);
            self.removals.push(now);
            self.room = self.room.saturating_sub(1);
        }
    }

    /// Before the rules are written: if the gate ends in between, the next one still knows whose they are.
    pub fn intend(&mut self, plan: &Plan, wanted: &Wanted) {
        for (key, text) in &plan.rules {
            self.texts_mut(key, wanted).meant = Some(text.clone());
        }
        for key in plan.removed() {
            let path = key.path.as_deref().unwrap_or_default();
            let known = self.hosts.get_mut(&key.host.to_string());
            if let Some(texts) = known.and_then(|known| known.rules.get_mut(path)) {
                texts.meant = Some(String::new());
            }
        }
    }

    /// A rule that is ours by what stands beside it, of which the gate has lost its memory.
    pub fn recall(&mut self, key: &Key, text: &str, wanted: &Wanted) {
        self.texts_mut(key, wanted).seen = Some(text.to_owned());
        // Others may have had it, too.
        self.known(&key.host, wanted).services.insert(String::new(), Asking::default());
    }

    /// After it was read whose records and applications are. Those of which somebody has changed the application since
    /// the gate left it.
    pub fn saw(&mut self, whose: &Marked<'_>) -> Vec<HostPattern> {
        let mut changed = Vec::new();
        for (name, known) in &mut self.hosts {
            let Ok(host) = HostPattern::parse(name) else { continue };
            let (record, policies) = whose(&host);
            known.record = match record {
                Whose::Ours(()) => true,
                Whose::Nobodys => false,
                Whose::AnotherGates | Whose::Unknown => known.record,
            };
            let policies = match policies {
                Whose::Ours(policies) => Some(policies),
                Whose::Nobodys => None,
                Whose::AnotherGates | Whose::Unknown => continue,
            };
            if known.policies.is_some() && known.policies != policies {
                changed.push(host);
            }
            known.policies = policies;
        }
        changed
    }

    /// Before the gate changes the application itself. Whether anything was known of it.
    pub fn changes_app(&mut self, host: &HostPattern) -> bool {
        self.hosts.get_mut(&host.to_string()).is_some_and(|known| known.policies.take().is_some())
    }

    /// Whether its record was the gate's; if another gate's mark is on it, that one has taken it over.
    pub fn had_record(&self, host: &HostPattern) -> bool {
        self.hosts.get(&host.to_string()).is_some_and(|known| known.record)
    }

    /// The same of its application.
    pub fn had_app(&self, host: &HostPattern) -> bool {
        self.hosts.get(&host.to_string()).is_some_and(|known| known.policies.is_some())
    }

    /// Somebody else has changed what the gate left there.
    pub fn lost(&mut self, host: &HostPattern, now: Moment) {
        if let Some(known) = self.hosts.get_mut(&host.to_string()) {
            known.strife.lost(now);
        }
    }

    /// Whether somebody has changed it so often that the gate leaves it for a while.
    pub fn is_contended(&self, host: &HostPattern) -> bool {
        self.hosts.get(&host.to_string()).is_some_and(|known| known.strife.is_on)
    }

    /// After it was read who is asked who they are.
    pub fn saw_protected(&mut self, protected: &BTreeSet<HostPattern>) {
        for (host, known) in &mut self.hosts {
            known.protected = HostPattern::parse(host).is_ok_and(|host| protected.contains(&host));
        }
    }

    /// After the rules of `hosts` were written, or found to be what they should be.
    pub fn written(&mut self, plan: &Plan, wanted: &Wanted, version: i64) {
        self.version = Some(version);
        for host in &plan.complete {
            if let Some(known) = self.hosts.get_mut(&host.to_string()) {
                known.rules.clear();
            }
        }
        for (key, text) in &plan.rules {
            *self.texts_mut(key, wanted) = Texts { seen: Some(text.clone()), ..Texts::default() };
        }
        if let Some(protected) = &plan.protected {
            self.saw_protected(protected);
        }
    }

    /// After a round in which everything was compared.
    pub fn settle(&mut self) {
        self.settled = true;
    }

    /// The rules of ours that somebody else has changed or removed since the gate wrote them, each change once.
    pub fn tampered(&mut self, ingress: &Ingress, version: i64) -> Vec<Key> {
        if self.version.is_none_or(|left| left == version) {
            return Vec::new();
        }
        let mut keys = Vec::new();
        for (host, known) in &mut self.hosts {
            let Ok(host) = HostPattern::parse(host) else { continue };
            for (path, texts) in &mut known.rules {
                let Some(seen) = &texts.seen else { continue };
                let key = Key { host: host.clone(), path: (!path.is_empty()).then(|| path.clone()) };
                let there = ingress.rules().iter().find(|rule| rule.key.as_ref() == Some(&key));
                let found = there.map(|rule| rule.text.clone()).unwrap_or_default();
                // The answer to a change of the gate's own may have been lost.
                let says = |text: &String| there.map_or(text.is_empty(), |rule| rule.says(text));
                let is_own = says(seen) || texts.meant.as_ref().is_some_and(says);
                if !is_own && texts.lost.as_ref() != Some(&found) {
                    texts.lost = Some(found);
                    keys.push(key);
                }
            }
        }
        keys
    }

    fn texts_mut(&mut self, key: &Key, wanted: &Wanted) -> &mut Texts {
        self.known(&key.host, wanted).rules.entry(key.path.clone().unwrap_or_default()).or_default()
    }

    fn known(&mut self, host: &HostPattern, wanted: &Wanted) -> &mut Known {
        let host = host.to_string();
        let known = self.hosts.entry(host.clone()).or_default();
        known.is_asked_for(&host, wanted);
        known
    }

    /// How long until the grace of the next hostname is over, if nobody asks for it until then.
    pub fn next_departure(&self, grace: Duration) -> Option<Duration> {
        self.absences()
            .filter_map(|(_, absent, _)| grace.checked_sub(absent))
            .filter(|left| !left.is_zero())
            .min()
    }
}

/// `swarm` of `swarm/shop_web`.
fn source_of(service: &str) -> Option<&str> {
    service.split_once('/').map(|(source, _)| source)
}
