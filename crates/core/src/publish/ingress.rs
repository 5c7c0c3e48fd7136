//! The rules of a tunnel's configuration: read as text, changed only where a rule is ours, and written again so that
//! everything else is what it was, byte for byte.

mod arrange;
mod document;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use self::document::Document;
pub use self::document::NotUnderstood;
use super::rule::{Key, Rule, Written};

/// What a tunnel does that is configured for nothing else.
const CATCH_ALL: &str = r#"{"hostname":"","service":"http_status:404"}"#;

/// The rules that were read, and what stands around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ingress {
    document: Document,
    /// In order, without the last.
    rules: Vec<Written>,
    /// The last, which takes what no other rule takes.
    catch_all: Option<Written>,
}

/// What becomes of the rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    /// The whole configuration; `None` if nothing changes.
    pub config: Option<String>,
    pub changes: Vec<Change>,
    pub conflicts: Vec<Conflict>,
}

/// One rule that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Add {
        key: Key,
        service: String,
    },
    Alter {
        key: Key,
        from: String,
        to: String,
    },
    Remove {
        key: Key,
        service: String,
    },
    /// It is to stand before a rule that would take its requests, or after one whose requests it would take.
    Move {
        key: Key,
        service: String,
    },
}

/// A rule of ours that can stand nowhere: it must be before one foreign rule and after another, which is in front of
/// that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub key: Key,
    /// The foreign rule that would take its requests.
    pub behind: String,
    /// The foreign rule whose requests it would take.
    pub before: String,
}

impl Change {
    pub const fn key(&self) -> &Key {
        match self {
            Self::Add { key, .. }
            | Self::Alter { key, .. }
            | Self::Remove { key, .. }
            | Self::Move { key, .. } => key,
        }
    }
}

impl Change {
    /// A line of a diff: `+ tunnel  app.example.com -> http://web:80`.
    pub fn in_tunnel(&self) -> String {
        match self {
            Self::Add { key, service } => format!("+ tunnel  {key} -> {service}"),
            Self::Alter { key, from, to } if from == to => format!("~ tunnel  {key} -> {to} (options)"),
            Self::Alter { key, from, to } => format!("~ tunnel  {key} -> {to} (was {from})"),
            Self::Remove { key, service } => format!("- tunnel  {key} -> {service}"),
            Self::Move { key, service } => format!("~ tunnel  {key} -> {service} (order)"),
        }
    }
}

impl Ingress {
    /// From the text of a tunnel's `config`.
    pub fn read(config: Option<&str>) -> Result<Self, NotUnderstood> {
        let (document, mut rules) = Document::read(config)?;
        let catch_all = if rules.last().is_some_and(Written::is_catch_all) { rules.pop() } else { None };
        Ok(Self { document, rules, catch_all })
    }

    /// All but the one that takes what is left.
    pub fn rules(&self) -> &[Written] {
        &self.rules
    }

    /// With `wanted` in place of the rules whose keys are `ours`. All others stay in their order. A wanted rule that
    /// conflicts stays as it is, if it is there.
    pub fn edit(&self, ours: &BTreeSet<Key>, wanted: &[Rule]) -> Edit {
        let (mut ours, mut wanted) = (ours.clone(), wanted.to_vec());
        wanted.sort_by_cached_key(|rule| rule.key.rank());
        let mut conflicts = Vec::new();
        let rules = loop {
            match arrange::arrange(&self.rules, &ours, &wanted) {
                Ok(rules) => break rules,
                Err(conflict) => {
                    ours.remove(&conflict.key);
                    wanted.retain(|rule| rule.key != conflict.key);
                    conflicts.push(conflict);
                }
            }
        };
        let same = rules.iter().eq(self.rules.iter().map(|rule| &rule.text));
        let changes = if same { Vec::new() } else { self.changes(&ours, &wanted) };
        let config = (!same).then(|| self.write(rules));
        Edit { config, changes, conflicts }
    }

    fn write(&self, mut rules: Vec<String>) -> String {
        rules.push(self.catch_all.as_ref().map_or_else(|| CATCH_ALL.to_owned(), |rule| rule.text.clone()));
        self.document.with_rules(&rules)
    }

    fn changes(&self, ours: &BTreeSet<Key>, wanted: &[Rule]) -> Vec<Change> {
        let there = |key: &Key| self.rules.iter().find(|rule| rule.key.as_ref() == Some(key));
        let mut changes: Vec<Change> = Vec::new();
        for rule in wanted {
            let (key, service) = (rule.key.clone(), rule.service.clone());
            match there(&rule.key) {
                None => changes.push(Change::Add { key, service }),
                Some(old) if old.does(rule) => {}
                Some(old) => changes.push(Change::Alter { key, from: old.service.clone(), to: service }),
            }
        }
        for rule in &self.rules {
            let Some(key) = rule.key.as_ref().filter(|key| ours.contains(key)) else { continue };
            if !wanted.iter().any(|rule| rule.key == *key) {
                changes.push(Change::Remove { key: key.clone(), service: rule.service.clone() });
            }
        }
        if changes.is_empty() {
            let moved = wanted
                .iter()
                .map(|rule| Change::Move { key: rule.key.clone(), service: rule.service.clone() });
            changes.extend(moved);
        }
        changes
    }
}
