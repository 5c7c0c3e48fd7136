//! What the dashboard made, and whether a client leaves it as it is.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use super::account::{Account, param};
use super::call::{Call, PathParams};
use super::raw;
use crate::http::Request;

/// Tells what is whose.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    /// Hostname and path of every rule that a client has written: who edits such a rule by hand does not own it.
    written: BTreeSet<[String; 2]>,
    /// The ids of records and applications that the dashboard made.
    made: BTreeSet<String>,
}

impl Foreign {
    pub fn made(&mut self, id: String) {
        self.made.insert(id);
    }

    /// A client has written this configuration over `before`.
    pub fn wrote(&mut self, before: &str, after: &str) {
        let theirs = self.rules(before);
        let new = rules(after).into_iter().filter(|rule| !theirs.iter().any(|known| known == rule.get()));
        self.written.extend(new.map(|rule| key(&rule)));
    }

    /// The texts of the rules that are no client's, in order.
    fn rules(&self, config: &str) -> Vec<String> {
        let theirs = rules(config).into_iter().filter(|rule| !self.written.contains(&key(rule)));
        theirs.map(|rule| rule.get().to_owned()).collect()
    }
}

impl Account {
    /// A client made it long ago.
    pub fn disown(&mut self, id: &str) {
        self.foreign.made.remove(id);
    }

    /// What of others the request would change.
    pub(super) fn trespasses(&self, call: Call, params: &PathParams, request: &Request) -> Vec<String> {
        if self.yields {
            return Vec::new();
        }
        let id = match call {
            Call::WriteConfig => return self.changed_settings(request),
            Call::EditRecord | Call::ReplaceRecord | Call::DeleteRecord => param(params, "record_id"),
            Call::ReplaceApp | Call::DeleteApp => param(params, "app_id"),
            _ => return Vec::new(),
        };
        let theirs = self.foreign.made.contains(id).then(|| format!("somebody else made {id}"));
        theirs.into_iter().collect()
    }

    fn changed_settings(&self, request: &Request) -> Vec<String> {
        let before = self.tunnel.config.as_deref().unwrap_or("{}");
        let body = raw::object(&request.body);
        let Some(after) = body.get("config") else { return Vec::new() };
        let theirs = self.foreign.rules(before);
        let left = rules(after.get()).into_iter().map(|rule| rule.get().to_owned());
        let left: Vec<String> = left.filter(|rule| theirs.contains(rule)).collect();
        let mut faults = Vec::new();
        if left != theirs {
            faults.push(format!("rules that somebody else made are gone or in another order: {theirs:?}"));
        }
        let after = raw::object(after.get());
        for (key, value) in raw::object(before).iter().filter(|(key, _)| *key != "ingress") {
            if after.get(key).is_none_or(|after| after.get() != value.get()) {
                faults.push(format!("{key} is not {value} any more"));
            }
        }
        faults
    }
}

fn rules(config: &str) -> Vec<Box<RawValue>> {
    raw::object(config).get("ingress").map(|rules| raw::list(rules.get())).unwrap_or_default()
}

fn key(rule: &RawValue) -> [String; 2] {
    let rule: serde_json::Value = serde_json::from_str(rule.get()).unwrap_or_default();
    ["hostname", "path"].map(|key| rule[key].as_str().unwrap_or_default().to_ascii_lowercase())
}
