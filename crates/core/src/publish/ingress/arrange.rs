//! Where each rule of ours stands among the foreign ones.

use std::collections::BTreeSet;

use super::Conflict;
use crate::publish::rule::{Key, Rule, Written};

/// The texts of all rules in order: foreign ones as they stood, ours (`wanted`, in their total order) in the gaps
/// between them. What is ours already stays in its gap if it may.
pub fn arrange(there: &[Written], ours: &BTreeSet<Key>, wanted: &[Rule]) -> Result<Vec<String>, Conflict> {
    let is_ours = |rule: &Written| rule.key.as_ref().is_some_and(|key| ours.contains(key));
    let foreign: Vec<&Written> = there.iter().filter(|rule| !is_ours(rule)).collect();
    let present = |key: &Key| {
        let at = there.iter().position(|rule| is_ours(rule) && rule.key.as_ref() == Some(key))?;
        let (before, rest) = there.split_at_checked(at)?;
        Some((before.iter().filter(|rule| !is_ours(rule)).count(), rest.first()?))
    };
    let mut gaps = Vec::new();
    for rule in wanted {
        let (first, last) = gaps_for(&rule.key, &foreign)?;
        gaps.push(present(&rule.key).map_or(last, |(gap, _)| gap.clamp(first, last)));
    }
    // What covers a rule of ours must not come to stand before it by staying where it is.
    let behind = |index: usize, rule: &Rule| {
        let covering = wanted.iter().zip(&gaps).skip(index);
        let covering = covering.filter(|(other, _)| other.key.matcher().covers(&rule.key.matcher()));
        covering.map(|(_, gap)| *gap).min().unwrap_or_default()
    };
    let mut placed: Vec<(usize, &Rule)> =
        wanted.iter().enumerate().map(|(index, rule)| (behind(index, rule), rule)).collect();
    // Stable, so that within a gap the total order stands.
    placed.sort_by_key(|(gap, _)| *gap);

    let mut placed = placed.into_iter().peekable();
    let mut texts = Vec::new();
    for gap in 0..=foreign.len() {
        while let Some((_, rule)) = placed.next_if(|(at, _)| *at == gap) {
            let kept = present(&rule.key).map(|(_, old)| old).filter(|old| old.does(rule));
            texts.push(kept.map_or_else(|| rule.text(), |old| old.text.clone()));
        }
        texts.extend(foreign.get(gap).map(|rule| rule.text.clone()));
    }
    Ok(texts)
}

/// The first and the last gap in which a rule may stand: after every foreign rule that it covers, before every one
/// that covers it. Gap 0 is before all of them.
fn gaps_for(key: &Key, foreign: &[&Written]) -> Result<(usize, usize), Conflict> {
    let own = key.matcher();
    let covered = foreign.iter().rposition(|rule| own.covers(&rule.matcher));
    let covering = foreign.iter().position(|rule| rule.matcher.covers(&own));
    match (covered, covering) {
        (Some(before), Some(behind)) if behind <= before => {
            let text = |at: usize| foreign.get(at).map(|rule| rule.text.clone()).unwrap_or_default();
            Err(Conflict { key: key.clone(), behind: text(behind), before: text(before) })
        }
        (before, behind) => Ok((before.map_or(0, |at| at + 1), behind.unwrap_or(foreign.len()))),
    }
}
