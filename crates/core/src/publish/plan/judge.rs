//! What is to be done about one hostname, if anything may be.

use std::collections::{BTreeMap, BTreeSet};

use super::{Input, Stand, Standing, access, dns};
use crate::name::HostPattern;
use crate::publish::actual::Step;
use crate::publish::ingress::Ingress;
use crate::publish::rule::{Key, Rule};
use crate::publish::wanted::Host;

/// What every decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct Judge<'a> {
    pub input: Input<'a>,
    pub ingress: &'a Ingress,
    /// Hostnames with a rule that fits nowhere, and why.
    pub misfits: &'a BTreeMap<HostPattern, String>,
}

pub enum Verdict {
    /// It is made what it should be.
    Go(Go),
    /// Nothing is changed about it.
    Stay(Standing),
    /// Its rules go: it is to be protected, and is not.
    Shut(Standing),
}

/// What makes a hostname what it should be.
#[derive(Debug, Default)]
pub struct Go {
    /// Before its rules.
    pub access: Vec<Step>,
    pub rules: Vec<Rule>,
    /// After its rules; of one that is withdrawn, before they go.
    pub records: Vec<Step>,
    /// After everything else.
    pub after: Vec<Step>,
    pub notes: Vec<String>,
}

impl Go {
    pub fn changes_something(&self) -> bool {
        !(self.access.is_empty() && self.records.is_empty() && self.after.is_empty())
    }
}

impl Judge<'_> {
    pub fn judge(&self, host: &HostPattern, want: &Host) -> Verdict {
        self.decide(host, want).map_or_else(
            |standing| {
                let exposed = !want.access.is_empty() && !access::is_protected(&self.input, host);
                if exposed { Verdict::Shut(standing) } else { Verdict::Stay(standing) }
            },
            Verdict::Go,
        )
    }

    /// How it leaves: what is ours of it, and nothing else.
    pub fn withdraw(&self, host: &HostPattern) -> Go {
        let delete = self.input.memory.deletes_dns(host).unwrap_or(self.input.terms.delete_dns);
        let records = dns::withdraw(&self.input, host, delete);
        Go { records, after: access::remove(&self.input, host), ..Go::default() }
    }

    /// The rules of this hostname that are the gate's to change.
    pub fn own_rules(&self, host: &HostPattern) -> BTreeSet<Key> {
        let keys = self.ingress.rules().iter().filter_map(|rule| rule.key.as_ref());
        keys.filter(|key| key.host == *host && self.owns(key)).cloned().collect()
    }

    /// Those that no service asks for, and whose time has not come.
    pub fn leaving(&self) -> BTreeMap<HostPattern, Stand> {
        let stand = |service: Option<&str>| Stand {
            service: service.map(str::to_owned),
            standing: Standing::Leaving,
            notes: Vec::new(),
        };
        self.input.memory.absences().map(|(host, _, service)| (host, stand(service))).collect()
    }

    fn decide(&self, host: &HostPattern, want: &Host) -> Result<Go, Standing> {
        if let Some(why) = self.input.failed.get(host) {
            return Err(Standing::Failed(why.clone()));
        }
        if let Some(why) = &want.held {
            return Err(Standing::Held(why.clone()));
        }
        if let Some(why) = self.misfits.get(host) {
            return Err(Standing::Conflict(why.clone()));
        }
        let mut go = Go::default();
        if want.dns {
            dns::publish(&self.input, host, want, &mut go)?;
        } else {
            go.after = dns::withdraw(&self.input, host, want.delete_dns);
        }
        let aud = access::publish(&self.input, host, want, &mut go)?;
        for rule in &want.rules {
            let mut rule = rule.clone();
            if let (Some(team), Some(aud)) = (&self.input.terms.team, &aud) {
                rule.require_token(team, aud);
            }
            if let Some(note) = self.is_made_by_another(&rule)? {
                go.notes.push(note);
            } else {
                go.rules.push(rule);
            }
        }
        Ok(go)
    }

    /// A foreign rule that does the same is left to whoever made it.
    fn is_made_by_another(&self, rule: &Rule) -> Result<Option<String>, Standing> {
        let key = &rule.key;
        let there = self.ingress.rules().iter().find(|there| there.key.as_ref() == Some(key));
        match there.filter(|_| !self.owns(key)) {
            None => Ok(None),
            Some(there) if there.does(rule) => Ok(Some(format!(
                "somebody else made the tunnel's rule for {key}, which does what is asked for; it is not removed with the service unless it is adopted"
            ))),
            Some(there) => Err(Standing::Conflict(format!(
                "somebody else made the tunnel's rule for {key}, which leads to {}; remove it, or adopt it",
                there.service
            ))),
        }
    }

    /// Whether a rule with this key, if there is one, is the gate's to change.
    fn owns(&self, key: &Key) -> bool {
        let Input { terms, wanted, memory, .. } = self.input;
        let want = wanted.hosts.get(&key.host);
        let is_asked_for = want.is_some_and(|want| want.rules.iter().any(|rule| rule.key == *key));
        let adopted = is_asked_for && want.is_some_and(|want| want.adopt);
        // Of a marked hostname the gate made the rule for all paths, unless somebody asks for others.
        let by_mark = || (key.path.is_none() || is_asked_for) && is_marked(&self.input, &key.host);
        terms.exclusive || adopted || memory.owns(key) || by_mark()
    }
}

/// The hostnames with anything of the gate's own: what it may have to withdraw one day.
pub fn owned(input: &Input<'_>, ingress: &Ingress) -> BTreeSet<HostPattern> {
    let rules = ingress.rules().iter().filter_map(|rule| rule.key.as_ref());
    let rules =
        rules.filter(|key| input.terms.exclusive || input.memory.owns(key)).map(|key| key.host.clone());
    rules.chain(dns::owned(input)).chain(access::owned(input)).collect()
}

fn is_marked(input: &Input<'_>, host: &HostPattern) -> bool {
    dns::owned(input).any(|owned| owned == *host) || access::owned(input).any(|owned| owned == *host)
}
