//! What the gate remembers of its own changes and of how long what it published has been gone, over restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ingress::Ingress;
use super::plan::Plan;
use super::rule::{Key, Written};
use super::wanted::Wanted;
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
}

/// For whom the gate remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Identity {
    pub tunnel: String,
    pub instance: String,
    /// Of the program.
    pub build: String,
}

/// What is known of one hostname that the gate published.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Known {
    /// As it is displayed: `swarm/shop_web`.
    service: Option<String>,
    delete_dns: Option<bool>,
    /// Nobody came to it without saying who they are when that was last seen.
    protected: bool,
    /// Its rules by their paths; empty for every path.
    rules: BTreeMap<String, Texts>,
    /// How long no service has asked for it, continuously.
    absent: Option<Duration>,
}

/// What a rule of ours says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Texts {
    /// When it was last seen.
    seen: Option<String>,
    /// As it was to be written, whether or not that came to pass.
    meant: Option<String>,
}

/// When hostnames that nobody asks for any more are withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    pub grace: Duration,
    /// So many at a time.
    pub most: usize,
}

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

    /// Whether a whole comparison was made by this build of the gate.
    pub const fn is_settled(&self) -> bool {
        self.settled
    }

    /// The service that asked for `host` last.
    pub fn holder(&self, host: &HostPattern) -> Option<String> {
        self.hosts.get(&host.to_string())?.service.clone()
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
            Some((HostPattern::parse(host).ok()?, known.absent?, known.service.as_deref()))
        })
    }

    /// Takes note of who asks for what, and says which hostnames have been asked for by nobody for long enough.
    ///
    /// `ours` are the hostnames with anything of ours. Of a service whose source (`swarm`, …) is not among `answering`
    /// nothing is known, so nothing of it counts as gone.
    pub fn observe(
        &mut self,
        wanted: &Wanted,
        ours: &BTreeSet<HostPattern>,
        answering: &dyn Fn(Option<&str>) -> bool,
        patience: Patience,
        now: Moment,
    ) -> BTreeSet<HostPattern> {
        let since = self.measured.replace(now).map_or(Duration::ZERO, |last| now.since(last));
        self.hosts.retain(|host, _| {
            HostPattern::parse(host)
                .is_ok_and(|host| ours.contains(&host) || wanted.hosts.contains_key(&host))
        });
        for host in ours.iter().chain(wanted.hosts.keys()) {
            self.hosts.entry(host.to_string()).or_default();
        }
        // One that was never published is not remembered.
        for (host, known) in &mut self.hosts {
            known.is_asked_for(host, wanted);
        }
        let unclear: BTreeSet<String> = wanted.unclear.iter().map(ToString::to_string).collect();
        for (host, known) in &mut self.hosts {
            if HostPattern::parse(host).is_ok_and(|host| wanted.hosts.contains_key(&host)) {
                continue;
            }
            let service = known.service.as_deref();
            let source = service.and_then(|service| service.split_once('/')).map(|(source, _)| source);
            if answering(source) && !service.is_some_and(|service| unclear.contains(service)) {
                known.absent =
                    Some(known.absent.map_or(Duration::ZERO, |absent| absent.saturating_add(since)));
            }
        }
        if !self.settled {
            return BTreeSet::new();
        }
        let mut due: Vec<_> = self.absences().filter(|(_, absent, _)| *absent >= patience.grace).collect();
        due.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        due.into_iter().take(patience.most).map(|(host, ..)| host).collect()
    }

    /// Before the rules are written: if the gate ends in between, the next one still knows whose they are.
    pub fn intend(&mut self, rules: &BTreeMap<Key, String>, wanted: &Wanted) {
        for (key, text) in rules {
            self.texts_mut(key, wanted).meant = Some(text.clone());
        }
    }

    /// A rule that is ours by what stands beside it, of which the gate has lost its memory.
    pub fn recall(&mut self, key: &Key, text: &str, wanted: &Wanted) {
        self.texts_mut(key, wanted).seen = Some(text.to_owned());
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
            *self.texts_mut(key, wanted) = Texts { seen: Some(text.clone()), meant: None };
        }
        if let Some(protected) = &plan.protected {
            self.saw_protected(protected);
        }
    }

    /// After a round in which everything was compared.
    pub fn settle(&mut self) {
        self.settled = true;
    }

    /// The rules of ours that somebody else has changed or removed since the gate wrote them.
    pub fn tampered(&self, ingress: &Ingress, version: i64) -> Vec<Key> {
        if self.version.is_none_or(|left| left == version) {
            return Vec::new();
        }
        let mut keys = Vec::new();
        for (host, known) in &self.hosts {
            let Ok(host) = HostPattern::parse(host) else { continue };
            let seen = known.rules.iter().filter_map(|(path, texts)| Some((path, texts.seen.as_ref()?)));
            for (path, text) in seen {
                let key = Key { host: host.clone(), path: (!path.is_empty()).then(|| path.clone()) };
                let there = ingress.rules().iter().find(|rule| rule.key.as_ref() == Some(&key));
                if there.is_none_or(|rule| !rule.says(text)) {
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

impl Known {
    fn is_asked_for(&mut self, host: &str, wanted: &Wanted) {
        let asked = HostPattern::parse(host).ok().and_then(|host| wanted.hosts.get(&host));
        if let Some(asked) = asked {
            self.service = Some(asked.service.to_string());
            self.delete_dns = Some(asked.delete_dns);
            self.absent = None;
        }
    }
}
