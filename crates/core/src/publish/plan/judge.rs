//! What is to be done about one hostname, if anything may be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Input, Stand, Standing, access, dns};
use crate::name::HostPattern;
use crate::publish::actual::Step;
use crate::publish::ingress::Ingress;
use crate::publish::rule::{Key, Rule, Written};
use crate::publish::wanted::Host;
use crate::span;

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
    /// Nothing is changed about it but the policies of its application.
    Stay(Standing, Vec<Step>),
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

    pub fn removes_something(&self) -> bool {
        self.after.iter().any(Step::removes)
    }

    /// What it would remove is left for later.
    pub fn keep(&mut self) {
        self.after.retain(|step| !step.removes());
        self.notes.push("something of it is removed later: `max_deletions` are under way".to_owned());
    }
}

impl Judge<'_> {
    pub fn judge(&self, host: &HostPattern, want: &Host) -> Verdict {
        self.decide(host, want).map_or_else(
            |(standing, policies)| {
                let exposed = !want.access.is_empty() && !access::is_protected(&self.input, host);
                if exposed { Verdict::Shut(standing) } else { Verdict::Stay(standing, policies) }
            },
            Verdict::Go,
        )
    }

    /// How it leaves: what is ours of it, and nothing else.
    pub fn withdraw(&self, host: &HostPattern) -> (Standing, Go) {
        let delete = self.input.memory.deletes_dns(host).unwrap_or(self.input.terms.delete_dns);
        let records = dns::withdraw(&self.input, host, delete);
        let after = access::remove(&self.input, host);
        let standing = match self.foreign_rule(host).filter(|_| !after.is_empty()) {
            None => return (Standing::Withdrawing, Go { records, after, ..Go::default() }),
            Some(rule) => Standing::Conflict(format!(
                "its Access application stays, because somebody else made a rule that it protects, too: {}; remove that, or give the application another tag",
                rule.text
            )),
        };
        (standing, Go { records, ..Go::default() })
    }

    /// The rules of this hostname that are the gate's to change.
    pub fn own_rules(&self, host: &HostPattern) -> BTreeSet<Key> {
        self.rules_if(host, |rule| self.owns(rule))
    }

    /// Of the hostname's own rules those that no service asks for.
    pub fn idle_rules(&self, host: &HostPattern) -> BTreeSet<Key> {
        self.rules_if(host, |rule| self.owns(rule) && self.asked(rule).is_none())
    }

    /// Those that it wrote itself.
    pub fn written_rules(&self, host: &HostPattern) -> BTreeSet<Key> {
        self.rules_if(host, |rule| self.wrote(rule))
    }

    fn rules_if(&self, host: &HostPattern, is_ours: impl Fn(&Written) -> bool) -> BTreeSet<Key> {
        let foreign: BTreeSet<_> =
            self.rules_of(host).filter(|rule| !is_ours(rule)).map(|rule| &rule.key).collect();
        let ours = self.rules_of(host).filter(|rule| !foreign.contains(&rule.key));
        ours.filter_map(|rule| rule.key.clone()).collect()
    }

    fn rules_of(&self, host: &HostPattern) -> impl Iterator<Item = &Written> {
        self.ingress.rules().iter().filter(move |rule| rule.key.as_ref().is_some_and(|key| key.host == *host))
    }

    fn foreign_rule(&self, host: &HostPattern) -> Option<&Written> {
        self.rules_of(host).find(|rule| !self.owns(rule))
    }

    /// Those that no service asks for, and whose time has not come.
    pub fn leaving(&self) -> BTreeMap<HostPattern, Stand> {
        let stand = |absent: Duration, service: Option<&str>| Stand {
            service: service.map(str::to_owned),
            standing: Standing::Leaving,
            notes: vec![self.how_long(absent)],
        };
        self.input.memory.absences().map(|(host, absent, service)| (host, stand(absent, service))).collect()
    }

    fn how_long(&self, absent: Duration) -> String {
        let (since, left) = (span::human(absent), self.input.terms.grace.saturating_sub(absent));
        match left.is_zero() {
            true => format!(
                "nobody has asked for it for {since}; it is withdrawn as soon as that is certain and `max_deletions` allows it"
            ),
            false => format!(
                "nobody has asked for it for {since}; it is withdrawn in {} if nobody does",
                span::human(left)
            ),
        }
    }

    /// What stands in the way, and which policies are followed all the same.
    fn decide(&self, host: &HostPattern, want: &Host) -> Result<Go, (Standing, Vec<Step>)> {
        if let Some(why) = self.input.failed.get(host) {
            return Err((Standing::Failed(why.clone()), Vec::new()));
        }
        if let Some(why) = &want.held {
            return Err((Standing::Held(why.clone()), Vec::new()));
        }
        let mut go = Go::default();
        let record = if want.dns {
            dns::publish(&self.input, host, want, &mut go)
        } else {
            go.after = dns::withdraw(&self.input, host, want.delete_dns);
            Ok(())
        };
        let shared = self.foreign_rule(host).map(|rule| rule.text.as_str());
        let aud = access::publish(&self.input, host, want, shared, &mut go);
        let aud = aud.map_err(|standing| (standing, Vec::new()))?;
        let misfit = self.misfits.get(host).map_or(Ok(()), |why| Err(Standing::Conflict(why.clone())));
        if let Err(standing) = misfit.and(record).and_then(|()| self.rules(want, aud.as_deref(), &mut go)) {
            let is_there = go.access.iter().any(|step| matches!(step, Step::UpdateApp { .. }));
            return Err((standing, if is_there { go.access } else { Vec::new() }));
        }
        if self.input.memory.may_return(host, want) {
            go.after.clear();
        }
        Ok(go)
    }

    fn rules(&self, want: &Host, aud: Option<&str>, go: &mut Go) -> Result<(), Standing> {
        for rule in &want.rules {
            let mut rule = rule.clone();
            if let (Some(team), Some(aud)) = (&self.input.terms.team, aud) {
                rule.require_token(team, aud);
            }
            if let Some(note) = self.is_made_by_another(&rule)? {
                go.notes.push(note);
            } else if self.input.memory.is_contended(&rule.key.host) && !self.is_there(&rule) {
                return Err(contended(&format!("the tunnel's rule for {}", rule.key)));
            } else {
                go.notes.extend(self.not_understood(&rule.key));
                go.rules.push(rule);
            }
        }
        Ok(())
    }

    /// A foreign rule that does the same is left to whoever made it.
    fn is_made_by_another(&self, rule: &Rule) -> Result<Option<String>, Standing> {
        let key = &rule.key;
        let mut there = self.ingress.rules().iter().filter(|there| there.key.as_ref() == Some(key));
        match there.find(|there| !self.owns(there)) {
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

    /// Whoever may take its requests, all or some of them.
    fn not_understood(&self, key: &Key) -> Option<String> {
        let unclear = |there: &&Written| !self.owns(there) && there.matcher.is_unclear_about(&key.matcher());
        let there = self.ingress.rules().iter().find(unclear)?;
        Some(format!(
            "which requests for {key} a rule that somebody else made takes cannot be told from its path, so their order is as it comes; compare it: {}",
            there.text
        ))
    }

    fn is_there(&self, rule: &Rule) -> bool {
        self.rules_of(&rule.key.host).any(|there| there.does(rule))
    }

    fn owns(&self, rule: &Written) -> bool {
        let adopted = || self.asked(rule).is_some_and(|want| want.adopt);
        self.input.terms.exclusive || adopted() || self.wrote(rule)
    }

    /// One that is asked for is written again if somebody has changed it; one that is not, is somebody else's then.
    fn wrote(&self, rule: &Written) -> bool {
        let memory = self.input.memory;
        memory.wrote(rule)
            || (self.asked(rule).is_some() && rule.key.as_ref().is_some_and(|key| memory.has_seen(key)))
    }

    /// The hostname of which this rule is asked for.
    fn asked(&self, rule: &Written) -> Option<&Host> {
        let key = rule.key.as_ref()?;
        let want = self.input.wanted.hosts.get(&key.host)?;
        want.rules.iter().any(|rule| rule.key == *key).then_some(want)
    }
}

/// Two who write the same would never come to an end.
pub fn contended(what: &str) -> Standing {
    Standing::Conflict(format!(
        "somebody else keeps changing {what}, so the gate leaves it for an hour; stop the other, such as a second gate with the same instance"
    ))
}

/// The hostnames with anything of the gate's own: what it may have to withdraw one day.
pub fn owned(input: &Input<'_>, ingress: &Ingress) -> BTreeSet<HostPattern> {
    let rules = ingress.rules().iter().filter(|rule| input.terms.exclusive || input.memory.wrote(rule));
    let rules = rules.filter_map(|rule| Some(rule.key.as_ref()?.host.clone()));
    rules.chain(marked(input)).collect()
}

/// Those whose record or application says so.
pub fn marked<'a>(input: &'a Input<'_>) -> impl Iterator<Item = HostPattern> + 'a {
    dns::owned(input).chain(access::owned(input))
}
