//! Where each rule of ours stands among the foreign ones.

use std::collections::{BTreeMap, BTreeSet};

use super::Conflict;
use crate::publish::rule::{Key, Matcher, Rule, Written};

/// The texts of all rules in order: foreign ones as they stood, ours (`wanted`, in their total order) in the gaps
/// between them. What is ours already stays in its gap if it may.
pub fn arrange(there: &[Written], ours: &BTreeSet<Key>, wanted: &[Rule]) -> Result<Vec<String>, Conflict> {
    let is_ours = |rule: &Written| rule.key.as_ref().is_some_and(|key| ours.contains(key));
    let foreign: Vec<&Written> = there.iter().filter(|rule| !is_ours(rule)).collect();
    let present = present(there, is_ours);
    let matchers: Vec<Matcher> = wanted.iter().map(|rule| rule.key.matcher()).collect();
    let mut gaps = Vec::new();
    for (rule, matcher) in wanted.iter().zip(&matchers) {
        let (first, last) = gaps_for(&rule.key, matcher, &foreign)?;
        gaps.push(present.get(&rule.key).map_or(last, |(gap, _)| (*gap).clamp(first, last)));
    }
    // What covers a rule of ours must not come to stand before it by staying where it is.
    let behind = |index: usize, matcher: &Matcher| {
        let covering = matchers.iter().zip(&gaps).skip(index).filter(|(other, _)| other.covers(matcher));
        covering.map(|(_, gap)| *gap).min().unwrap_or_default()
    };
    let placed = wanted.iter().zip(&matchers).enumerate();
    let mut placed: Vec<(usize, &Rule)> =
        placed.map(|(index, (rule, matcher))| (behind(index, matcher), rule)).collect();
    // Stable, so that within a gap the total order stands.
    placed.sort_by_key(|(gap, _)| *gap);

    let mut placed = placed.into_iter().peekable();
    let mut texts = Vec::new();
    for gap in 0..=foreign.len() {
        while let Some((_, rule)) = placed.next_if(|(at, _)| *at == gap) {
            let kept = present.get(&rule.key).map(|(_, old)| *old).filter(|old| old.does(rule));
            texts.push(kept.map_or_else(|| rule.text(), |old| old.text.clone()));
        }
        texts.extend(foreign.get(gap).map(|rule| rule.text.clone()));
    }
    Ok(texts)
}

/// The rules of ours that are there, each with the gap it is in.
fn present(there: &[Written], is_ours: impl Fn(&Written) -> bool) -> BTreeMap<&Key, (usize, &Written)> {
    let (mut present, mut gap) = (BTreeMap::new(), 0);
    for rule in there {
        match rule.key.as_ref().filter(|_| is_ours(rule)) {
            Some(key) => drop(present.entry(key).or_insert((gap, rule))),
            None => gap += 1,
        }
    }
    present
}

/// The first and the last gap in which a rule may stand: after every foreign rule that it covers, before every one
/// that covers it. Gap 0 is before all of them.
fn gaps_for(key: &Key, own: &Matcher, foreign: &[&Written]) -> Result<(usize, usize), Conflict> {
    let covered = foreign.iter().rposition(|rule| own.covers(&rule.matcher));
    let covering = foreign.iter().position(|rule| rule.matcher.covers(own));
    match (covered, covering) {
        (Some(before), Some(behind)) if behind <= before => {
            let text = |at: usize| foreign.get(at).map(|rule| rule.text.clone()).unwrap_or_default();
            Err(Conflict { key: key.clone(), behind: text(behind), before: text(before) })
        }
        (before, behind) => Ok((before.map_or(0, |at| at + 1), behind.unwrap_or(foreign.len()))),
    }
}
