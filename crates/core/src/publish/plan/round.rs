//! What the gate takes note of while it carries out plans.

use std::collections::{BTreeMap, BTreeSet};

use super::{Input, Plan, Terms, access, dns, judge};
use crate::moment::Moment;
use crate::name::HostPattern;
use crate::publish::actual::{Actual, Step};
use crate::publish::ingress::{Ingress, NotUnderstood};
use crate::publish::memory::{Memory, Patience};
use crate::publish::rule::Key;
use crate::publish::wanted::Wanted;

/// Begins a round: takes note of who asks for what, and says which hostnames are to be withdrawn in it.
///
/// Of a service whose source (`swarm`, …) is not `answering` nothing is known, so nothing of it counts as gone; `None`
/// asks about all of them.
///
/// # Errors
/// As for a [`Plan`].
pub fn departures(
    memory: &mut Memory,
    facts: (&Terms, &Wanted, &Actual),
    answering: &dyn Fn(Option<&str>) -> bool,
    patience: Patience,
    now: Moment,
) -> Result<BTreeSet<HostPattern>, NotUnderstood> {
    let (_, wanted, actual) = facts;
    let ingress = Ingress::read(actual.configuration.config.as_deref())?;
    let (none, no_failures) = (BTreeSet::new(), BTreeMap::new());
    recall(memory, facts, &ingress);
    let input = Input::of(facts, memory, &none, &no_failures);
    let (ours, protected) = (judge::owned(&input, &ingress), access::protected(&input));
    let departed = memory.observe(wanted, &ours, answering, patience, now);
    if let Some(protected) = protected {
        memory.saw_protected(&protected);
    }
    Ok(departed)
}

/// What somebody else has changed of what the gate had left as it should be; each change once, in words.
///
/// # Errors
/// As for a [`Plan`].
pub fn tampering(
    memory: &mut Memory,
    facts: (&Terms, &Wanted, &Actual),
    now: Moment,
) -> Result<Vec<String>, NotUnderstood> {
    let (_, _, Actual { configuration, .. }) = facts;
    let ingress = Ingress::read(configuration.config.as_deref())?;
    let rules = memory.tampered(&ingress, configuration.version);
    let apps = saw_marks(memory, facts);
    let hosts: BTreeSet<&HostPattern> = rules.iter().map(|key| &key.host).chain(&apps).collect();
    hosts.into_iter().for_each(|host| memory.lost(host, now));
    let apps = apps.iter().map(|host| format!("the Access application of {host}"));
    Ok(rules.iter().map(ToString::to_string).chain(apps).collect())
}

/// Ends a round, of which nothing is left to do but `plan`.
pub fn ended(memory: &mut Memory, facts: (&Terms, &Wanted, &Actual), plan: &Plan) {
    let (_, wanted, actual) = facts;
    memory.written(plan, wanted, actual.configuration.version);
    saw_marks(memory, facts);
}

/// The hostnames of which somebody has changed the application.
fn saw_marks(memory: &mut Memory, facts: (&Terms, &Wanted, &Actual)) -> Vec<HostPattern> {
    let (before, none, no_failures) = (memory.clone(), BTreeSet::new(), BTreeMap::new());
    let input = Input::of(facts, &before, &none, &no_failures);
    memory.saw(&|host| (dns::whose(&input, host), access::whose(&input, host)))
}

/// Before `step` of `plan` is made: what must outlive the gate. Whether there is anything.
pub fn begins(memory: &mut Memory, plan: &Plan, step: &Step, wanted: &Wanted, now: Moment) -> bool {
    for host in plan.removals(step) {
        memory.removes(&host, now);
    }
    match step {
        Step::PutConfiguration { .. } => {
            memory.intend(plan, wanted);
            true
        }
        Step::CreateApp { host, .. } | Step::UpdateApp { host, .. } | Step::DeleteApp { host, .. } => {
            HostPattern::parse(host).is_ok_and(|host| memory.changes_app(&host))
        }
        Step::CreateTag { .. }
        | Step::CreateRecord { .. }
        | Step::UpdateRecord { .. }
        | Step::DeleteRecord { .. } => false,
    }
}

/// Without its memory the gate knows its rules by the marks beside them: of such a hostname those that are asked for,
/// and if nobody asks for it the one for all paths.
fn recall(memory: &mut Memory, facts: (&Terms, &Wanted, &Actual), ingress: &Ingress) {
    let (none, no_failures) = (BTreeSet::new(), BTreeMap::new());
    let marked: BTreeSet<HostPattern> = match memory.is_settled() {
        true => BTreeSet::new(),
        false => judge::marked(&Input::of(facts, memory, &none, &no_failures)).collect(),
    };
    for host in marked.into_iter().filter(|host| !memory.knows(host)).collect::<Vec<_>>() {
        let (_, wanted, _) = facts;
        let is_asked_for = |key: &Key| match wanted.hosts.get(&host) {
            Some(want) => want.rules.iter().any(|rule| rule.key == *key),
            None => key.path.is_none(),
        };
        let rules = ingress.rules().iter().filter_map(|rule| Some((rule.key.as_ref()?, &rule.text)));
        for (key, text) in rules.filter(|(key, _)| key.host == host && is_asked_for(key)) {
            memory.recall(key, text, wanted);
        }
    }
}
