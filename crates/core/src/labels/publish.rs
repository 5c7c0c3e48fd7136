//! Labels that ask for publication: `swarmgate.publish.KEY` for the service, `swarmgate.publish.NAME.KEY` for one of
//! several publications, and those of swarmctl.
//!
//! A label that is not understood may be the one that keeps strangers out. So nothing is changed about the hostnames it
//! could speak of until it is mended.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use super::{Labels, Report, truth};
use crate::config::keys::{KEYS, Key};
use crate::config::publish::{address, host, port};
use crate::config::{Fault, Override, overlay_publication, value};
use crate::name::HostPattern;
use crate::publish::{Publication, Published, Settings, Target};
use crate::service::ServiceId;

pub const PREFIX: &str = "swarmgate.publish.";
/// swarmctl's.
pub const ALIAS_PREFIX: &str = "cloudflared.tunnel.";

/// What a label says that is no key of `[publish.NAME]`: name, type, default and meaning.
pub(super) const OWN: [(&str, &str, &str, &str); 3] = [
    (
        "host",
        "list of hostnames",
        "",
        "The hostnames under which it is to be found. `*.example.com` is every name below `example.com`; an exact name goes first.",
    ),
    ("port", "number", "", "The port that it listens on, inside the container. Required."),
    (
        "address",
        "text",
        "",
        "The name or IP address at which the connector finds it. Without it: the name of the service in the Swarm, of the container elsewhere; the connector must share a network with it.",
    ),
];

/// Keys that stand in `[publish.NAME]` and have another name, or no place, among labels.
const OF_FILES: [&str; 2] = ["hosts", "address"];

/// What swarmctl's labels are here. `N` is any one part.
pub(super) const ALIASES: [(&str, &str); 4] =
    [("port", "port"), ("hostname", "host"), ("N.hostname", "host"), ("access.policy", "access")];

/// Whether a label of this name asks for publication.
pub fn is_ours(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.starts_with(PREFIX) || key.starts_with(ALIAS_PREFIX)
}

/// The keys of `[publish.NAME]` that are labels, too.
pub(super) fn settings() -> impl Iterator<Item = (&'static str, &'static Key)> {
    let keys = KEYS.iter().filter_map(|key| Some((key.path.strip_prefix("publish.NAME.")?, key)));
    keys.filter(|(name, _)| !OF_FILES.contains(name))
}

/// Reads the labels of `service` that ask for publication; `None` if there are none. The connector finds it as `name`.
pub fn parse(labels: &Labels, service: ServiceId, name: &str, base: &Settings) -> Option<Published> {
    let mut report = Report::default();
    let mut given = Given::read(labels, &mut report)?;
    given.mind_the_stray(&mut report);
    let common = given.groups.get("").cloned().unwrap_or_default();
    let has_hosts = |group: &Group<'_>| group.contains_key("host");
    let (mut publications, mut unclear) = (Vec::new(), given.unclear);
    for (group, own) in given.groups.iter().filter(|(name, own)| !name.is_empty() || has_hosts(own)) {
        // What stands without a name speaks for all, but for what tells them apart.
        let mut asked = own.clone();
        let shared = common.iter().filter(|(key, _)| !["host", "path"].contains(key));
        shared.for_each(|(key, label)| {
            asked.entry(key).or_insert_with(|| label.clone());
        });
        let held = given.held.get(*group).or_else(|| given.held.get("")).cloned();
        let before = report.0.len();
        let hosts = hosts(group, asked.get("host"), &mut report);
        unclear |= report.0.len() > before;
        publications.push(publication(group, &asked, hosts, name, base, held, &mut report));
    }
    if publications.is_empty() {
        report.problem(
            PREFIX.trim_end_matches('.'),
            Fault::new("no hostname is named", format!("add {PREFIX}host=app.example.com")),
        );
        unclear = true;
    }
    let mut problems = report.0;
    let mut told = BTreeSet::new();
    problems.retain(|problem| told.insert(problem.clone()));
    Some(Published { service, publications, unclear, problems })
}

fn publication(
    group: &str,
    asked: &Group<'_>,
    hosts: Vec<HostPattern>,
    name: &str,
    base: &Settings,
    held: Option<String>,
    report: &mut Report,
) -> Publication {
    let before = report.0.len();
    let number = asked.get("port").and_then(|label| report.parse(label.key, &label.value, port));
    if !asked.contains_key("port") {
        let key = label(group, "port");
        report.problem(&key, Fault::new("nothing says which port it listens on", format!("add {key}=8080")));
    }
    let at = match asked.get("address") {
        Some(label) => report.parse(label.key, &label.value, address),
        None => Some(name.to_owned()),
    };
    let target = at.zip(number).map(|(host, port)| Target { host, port });
    let settings = read_settings(asked, base, report);
    let wrong = report.0.get(before).cloned();
    Publication { hosts, target, settings, held: held.or(wrong) }
}

fn hosts(group: &str, written: Option<&Label<'_>>, report: &mut Report) -> Vec<HostPattern> {
    let (mut hosts, before) = (Vec::new(), report.0.len());
    let Some(written) = written else {
        let key = label(group, "host");
        report.problem(&key, Fault::new("no hostname leads to it", format!("add {key}=app.example.com")));
        return hosts;
    };
    for part in value::parts(&written.value) {
        match host(part) {
            Ok(host) if hosts.contains(&host) => {}
            Ok(host) => hosts.push(host),
            Err(fault) => report.problem(written.key, fault),
        }
    }
    if hosts.is_empty() && report.0.len() == before {
        report.problem(written.key, Fault::new("it names no hostname", "write one, or remove the label"));
    }
    hosts
}

/// The labels that are keys of the configuration, read as there.
fn read_settings(asked: &Group<'_>, base: &Settings, report: &mut Report) -> Settings {
    let mut overrides = Vec::new();
    for (name, key) in settings() {
        let Some(label) = asked.get(name) else { continue };
        let path = format!("publish.{name}");
        if name == "access" && value::parts(&label.value).next().is_none() {
            // A variable without a value may stand there.
            let fault =
                Fault::new("it names no policy", "name one, or remove the label: then anyone may come");
            report.problem(label.key, fault);
            continue;
        }
        match key.kind {
            "true or false" => {
                let truth = report.parse(label.key, &label.value, truth);
                let truth = truth.map(|truth| if truth { "true" } else { "false" });
                overrides.extend(truth.map(|truth| Override::from_flag(label.key, &path, truth)));
            }
            "number" => overrides.push(Override::from_flag(label.key, &path, &label.value)),
            _ => overrides.push(Override::from_label(label.key, &path, &label.value)),
        }
    }
    let (settings, problems, _) = overlay_publication(base, &overrides);
    report.0.extend(problems.iter().map(ToString::to_string));
    settings
}

/// One label as it counts.
#[derive(Debug, Clone)]
pub(super) struct Label<'a> {
    pub key: &'a str,
    pub value: String,
}

/// By key, with `_` where the label has `-`.
type Group<'a> = BTreeMap<&'static str, Label<'a>>;

#[derive(Debug, Default)]
struct Given<'a> {
    /// By name; the one without a name speaks for all.
    groups: BTreeMap<&'a str, Group<'a>>,
    /// What is not understood of each.
    held: BTreeMap<&'a str, String>,
    /// One of them that is not understood may name a hostname, or switch them on.
    unclear: bool,
}

impl<'a> Given<'a> {
    fn read(labels: &'a Labels, report: &mut Report) -> Option<Self> {
        let mut given = Self::default();
        let mut any = false;
        for (key, value) in labels.iter().filter(|(key, _)| key.to_ascii_lowercase().starts_with(PREFIX)) {
            any = true;
            let value = report.unquoted(key, value).trim().to_owned();
            match key.strip_prefix(PREFIX).and_then(split) {
                Some((group, name)) => {
                    given.groups.entry(group).or_default().insert(name, Label { key, value });
                }
                None => given.unknown(key, report),
            }
        }
        any |= given.read_aliases(labels, report);
        any.then_some(given)
    }

    /// As swarmctl reads them: only the word `true` switches them on, and all hostnames lead to one port. Ours go first.
    fn read_aliases(&mut self, labels: &'a Labels, report: &mut Report) -> bool {
        let is_ours = |key: &str| key.to_ascii_lowercase().starts_with(ALIAS_PREFIX);
        let ours: Vec<_> = labels.iter().filter(|(key, _)| is_ours(key)).collect();
        let switch = labels.get("cloudflared.tunnel.enabled").map(|value| value.trim());
        match switch {
            Some("true") => {}
            Some("false") | None if ours.is_empty() || switch.is_some() => return false,
            Some(_) | None => {
                let fault =
                    Fault::new("only the word true publishes it", "write cloudflared.tunnel.enabled=true");
                report.problem("cloudflared.tunnel.enabled", fault);
                self.unclear = true;
                return true;
            }
        }
        let own: BTreeSet<&str> =
            self.groups.get("").into_iter().flat_map(|group| group.keys().copied()).collect();
        for (key, value) in ours {
            let rest = key.strip_prefix(ALIAS_PREFIX).unwrap_or_default();
            let name = match rest.rsplit_once('.') {
                _ if rest == "enabled" => continue,
                Some((part, "hostname")) if !part.contains('.') => Some("host"),
                Some(_) | None => ALIASES.iter().find(|(alias, _)| *alias == rest).map(|(_, name)| *name),
            };
            let Some(name) = name else {
                self.unknown(key, report);
                continue;
            };
            let value = report.unquoted(key, value).trim();
            if own.contains(name) || (value.is_empty() && name != "access") {
                continue;
            }
            let group = self.groups.entry("").or_default();
            match group.get_mut(name).filter(|_| name == "host") {
                Some(hosts) => hosts.value = format!("{},{value}", hosts.value),
                None => drop(group.insert(name, Label { key, value: value.to_owned() })),
            }
        }
        true
    }

    /// What belongs to no publication may be meant for any of them.
    fn mind_the_stray(&mut self, report: &mut Report) {
        let has_hosts = |group: &str| self.groups.get(group).is_some_and(|own| own.contains_key("host"));
        let mut named =
            self.groups.keys().chain(self.held.keys()).filter(|group| !group.is_empty()).peekable();
        let path = self.groups.get("").and_then(|common| common.get("path"));
        if let Some(path) = path.filter(|_| named.peek().is_some() && !has_hosts("")) {
            let fault =
                Fault::new("it is the path of no hostname", format!("write {}", label("NAME", "path")));
            report.problem(path.key, fault);
            self.held.entry("").or_insert_with(|| report.0.last().cloned().unwrap_or_default());
        } else if let Some(stray) = named.find(|group| !has_hosts(group)) {
            let why = format!(
                "{PREFIX}{stray}: no hostname leads to it; add {}, or correct its name",
                label(stray, "host")
            );
            self.held.entry("").or_insert(why);
        }
    }

    fn unknown(&mut self, key: &'a str, report: &mut Report) {
        self.unclear = true;
        let group = key.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.')).map(|(group, _)| group);
        let group =
            group.filter(|group| !names().any(|name| name.split('.').next() == Some(group))).unwrap_or("");
        let fix = match value::nearest(key, known(group).iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None => "docs/labels.md lists all there are".to_owned(),
        };
        report.problem(key, Fault::new("there is no such label", fix));
        if let Some(problem) = report.0.last() {
            self.held.insert(group, problem.clone());
        }
    }
}

/// `api.path` → the group `api` and its key `path`; `path` alone is of no group.
fn split(rest: &str) -> Option<(&str, &'static str)> {
    let named = |text: &str| {
        let text = text.replace('-', "_");
        names().find(|name| *name == text)
    };
    if let Some(name) = named(rest) {
        return Some(("", name));
    }
    let (group, rest) = rest.split_once('.')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let is_key = names().any(|name| name.split('.').next() == Some(group));
    if group.is_empty() || is_key || !group.chars().all(plain) {
        return None;
    }
    Some((group, named(rest)?))
}

fn names() -> impl Iterator<Item = &'static str> {
    OWN.iter().map(|(name, ..)| *name).chain(settings().map(|(name, _)| name))
}

/// `swarmgate.publish.api.delete-dns-on-removal`
fn label(group: &str, name: &str) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    format!("{PREFIX}{group}{dot}{}", name.replace('_', "-"))
}

/// Every label of a group, and every alias, for whoever mistyped one.
fn known(group: &str) -> Vec<String> {
    let aliases = ALIASES.iter().map(|(alias, _)| format!("{ALIAS_PREFIX}{alias}"));
    names().map(|name| label(group, name)).chain(aliases).collect()
}
