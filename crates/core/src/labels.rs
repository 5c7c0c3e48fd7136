//! Labels of a service or container: what they ask for, laid over the configured defaults.
//!
//! They set the keys of `[defaults]`, are read by the same code, and never fail: a label that cannot be
//! understood is reported and counts as not written. mc-router's labels are read as they are.

mod page;
pub mod publish;
mod table;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::IpNet;

pub use self::page::reference;
use self::table::{ALIAS_PREFIX, Entry, PREFIX, entry, known};
use crate::config::publish::port;
use crate::config::{Fault, Override, overlay, value};
use crate::name::HostPattern;
use crate::service::Spec;

pub type Labels = BTreeMap<String, String>;

/// What the labels of one service say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labelled {
    pub spec: Spec,
    /// Where its game listens.
    pub port: u16,
    /// The network to dial it on: an id, a name or an alias.
    pub network: Option<String>,
    /// How long a plain container may take to stop.
    pub grace: Option<Duration>,
    /// Each a sentence with the label's name and the fix.
    pub problems: Vec<String>,
}

/// Reads the labels that make a game server of it; `None` if there are none.
pub fn parse(labels: &Labels, base: &Spec) -> Option<Labelled> {
    let mut report = Report::default();
    let given = given(labels, &mut report)?;
    let mut spec = settings(&given, base, &mut report);
    spec.hosts = report.hosts(given.get("host"));
    spec.default = report.read(given.get("default"), truth).unwrap_or(false);
    if spec.hosts.is_empty() && !spec.default {
        report.problem(PREFIX, Fault::new("no hostname leads to it", "add swarmgate.host=mc.example.com"));
    }
    if given.contains_key("default_wakes") && spec.default_wakes && !spec.default {
        let fault = Fault::new("has no effect without swarmgate.default=true", "add that, or remove it");
        report.problem("swarmgate.default-wakes", fault);
    }
    Some(Labelled {
        port: report.read(given.get("port"), port).unwrap_or(value::MINECRAFT_PORT),
        network: given.get("network").map(|label| label.value.clone()),
        grace: report.read(given.get("grace"), value::duration),
        spec,
        problems: report.0,
    })
}

/// What to say about labels for the gate's games that stand on a Swarm service's container, where Swarm keeps them
/// to itself.
pub fn misplaced(container: &Labels) -> Vec<String> {
    misplaced_among(container, is_for_a_game)
}

/// The same of labels that ask for publication.
pub fn misplaced_publication(container: &Labels) -> Vec<String> {
    misplaced_among(container, publish::is_ours)
}

fn misplaced_among(container: &Labels, is_ours: fn(&str) -> bool) -> Vec<String> {
    let ours = container.keys().filter(|key| is_ours(key));
    let say = |key| format!("{key}: it is on the container; move it to the service, below `deploy: labels:`");
    ours.map(say).collect()
}

/// One label as it counts: of two that set the same, the gate's own goes before mc-router's.
struct Label<'a> {
    key: &'a str,
    value: String,
    entry: &'static Entry,
}

impl Label<'_> {
    fn is_of(&self, group: &str) -> bool {
        self.entry.name.starts_with(group)
    }

    fn is_among(&self, settings: &[Override]) -> bool {
        settings.iter().any(|setting| setting.origin() == self.key)
    }
}

type Given<'a> = BTreeMap<&'static str, Label<'a>>;

fn given<'a>(labels: &'a Labels, report: &mut Report) -> Option<Given<'a>> {
    let mut given = Given::new();
    let mut any = false;
    for (key, value) in labels.iter().filter(|(key, _)| is_for_a_game(key)) {
        any = true;
        let Some(entry) = entry(key) else {
            report.problem(key, unknown(key));
            continue;
        };
        let aliased = key.starts_with(ALIAS_PREFIX);
        let value = report.unquoted(key, value);
        // mc-router takes an empty label as one that is not set.
        if aliased && (value.trim().is_empty() || given.contains_key(entry.name)) {
            continue;
        }
        let value = if aliased { value.replace("{duration}", "{countdown}") } else { value.to_owned() };
        let mut label = Label { key, value, entry };
        if !label.is_of("texts.") {
            label.value = label.value.trim().to_owned();
        }
        given.insert(entry.name, label);
    }
    any.then_some(given)
}

/// Whether a label of this name is meant for the gate.
pub fn is_ours(key: &str) -> bool {
    is_for_a_game(key) || publish::is_ours(key)
}

/// Whether it makes a game server of what has it.
pub fn is_for_a_game(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    (key.starts_with(PREFIX) && !key.starts_with(publish::PREFIX)) || key.starts_with(ALIAS_PREFIX)
}

fn unknown(key: &str) -> Fault {
    let fix = match value::nearest(key, known().iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => "docs/labels.md lists all there are".into(),
    };
    Fault::new("there is no such label", fix)
}

/// The labels that are keys of the configuration, read as there.
fn settings(given: &Given<'_>, base: &Spec, report: &mut Report) -> Spec {
    let mut settings: Vec<Override> = Vec::new();
    for label in given.values().filter(|label| label.entry.own.is_none()) {
        let key = format!("defaults.{}", label.entry.name);
        if !label.entry.is_truth() {
            settings.push(Override::from_label(label.key, &key, &label.value));
        } else if let Some(truth) = report.read(Some(label), truth) {
            settings.push(Override::from_flag(label.key, &key, if truth { "true" } else { "false" }));
        }
    }
    // A value that is wrong, by itself or beside another, is taken out, until what is left can stand.
    loop {
        let (mut spec, problems, warnings) = overlay(base, &settings);
        let before = settings.len();
        settings.retain(|setting| !problems.iter().any(|problem| problem.key == setting.origin()));
        report.0.extend(problems.iter().map(ToString::to_string));
        if settings.len() == before {
            report.0.extend(warnings.iter().map(ToString::to_string));
            let lost = |list| given.values().any(|label| label.is_of(list) && !label.is_among(&settings));
            close(&mut spec, lost("clients."), lost("wakers."));
            return spec;
        }
    }
}

/// Whom a list was to keep out is not known, so nobody comes in until it is mended.
fn close(spec: &mut Spec, clients: bool, wakers: bool) {
    if clients {
        let everybody = [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)];
        spec.clients.deny = everybody.into_iter().filter_map(|all| IpNet::new(all, 0).ok()).collect();
    }
    spec.wake &= !wakers;
}

fn truth(text: &str) -> Result<bool, Fault> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(Fault::new(format!("{text:?} is neither true nor false"), "write true or false")),
    }
}

#[derive(Default)]
struct Report(Vec<String>);

impl Report {
    fn problem(&mut self, key: &str, Fault { what, fix }: Fault) {
        self.0.push(format!("{key}: {what}; {fix}"));
    }

    fn read<T>(&mut self, label: Option<&Label<'_>>, parse: impl Fn(&str) -> Result<T, Fault>) -> Option<T> {
        label.and_then(|Label { key, value, .. }| self.parse(key, value, parse))
    }

    fn parse<T>(&mut self, key: &str, value: &str, parse: impl Fn(&str) -> Result<T, Fault>) -> Option<T> {
        parse(value).map_err(|fault| self.problem(key, fault)).ok()
    }

    /// The good ones of a list, each once.
    fn hosts(&mut self, label: Option<&Label<'_>>) -> Vec<HostPattern> {
        let mut hosts = Vec::new();
        let Some(label) = label else { return hosts };
        for part in value::parts(&label.value) {
            match value::host_pattern(part) {
                Ok(host) if hosts.contains(&host) => {}
                Ok(host) => hosts.push(host),
                Err(fault) => self.problem(label.key, fault),
            }
        }
        hosts
    }

    /// Quotes that a shell or YAML would have taken are part of a label in a YAML list.
    fn unquoted<'v>(&mut self, key: &str, value: &'v str) -> &'v str {
        let within = |quote| value.trim().strip_prefix(quote)?.strip_suffix(quote);
        let Some(inner) = within('"').or_else(|| within('\'')) else { return value };
        self.problem(key, Fault::new("the quotes are part of its value", format!("write {key}={inner}")));
        inner
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::keys::KEYS;
    use crate::service::{Clients, Wait};

    fn labels(written: &[(&str, &str)]) -> Labels {
        written.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn read(written: &[(&str, &str)]) -> Labelled {
        let with_host = [&[("swarmgate.host", "a.example")], written].concat();
        parse(&labels(&with_host), &Spec::default()).unwrap()
    }

    #[test]
    fn labels_of_others_are_none_of_ours() {
        let foreign = labels(&[("traefik.enable", "true"), ("com.docker.stack.namespace", "mc")]);
        assert_eq!(parse(&foreign, &Spec::default()), None);
        assert_eq!(misplaced(&foreign), Vec::<String>::new());
    }

    #[test]
    fn a_host_is_enough() {
        let labelled = read(&[]);
        assert_eq!((labelled.port, labelled.network, labelled.problems), (25565, None, vec![]));
        let spec = Spec { hosts: labelled.spec.hosts.clone(), ..Spec::default() };
        assert_eq!(labelled.spec, spec);
    }

    #[test]
    fn labels_go_before_the_defaults_in_both_directions() {
        let off = Spec { wake: false, sleep: false, ..Spec::default() };
        for (base, word, expected) in [(&off, "true", true), (&Spec::default(), "false", false)] {
            let written =
                [("swarmgate.host", "a"), ("swarmgate.wake", word), ("mc-router.auto-scale-down", word)];
            let spec = parse(&labels(&written), base).unwrap().spec;
            assert_eq!((spec.wake, spec.sleep), (expected, expected));
        }
    }

    #[test]
    fn labels_of_mc_router_work_unchanged() {
        let written = labels(&[
            ("mc-router.host", "b.example, a.example\n*.c.example,b.example,"),
            ("mc-router.port", " 25570 "),
            ("mc-router.default", "1"),
            ("mc-router.network", "minecraft"),
            ("mc-router.auto-scale-up", "false"),
            ("mc-router.auto-scale-down", "false"),
            ("mc-router.auto-scale-asleep-motd", "\u{a7}7Sleeping"),
            ("mc-router.auto-scale-loading-motd", "Loading, {duration}"),
            ("mc-router.auto-scale-wait-timeout", "5m30s"),
            ("mc-router.auto-scale-restart-delay-motd", "Again in {duration}"),
            ("mc-router.auto-scale-failed-motd", ""),
        ]);
        let labelled = parse(&written, &Spec::default()).unwrap();
        assert_eq!(labelled.problems, Vec::<String>::new());
        assert_eq!((labelled.port, labelled.network.as_deref()), (25570, Some("minecraft")));
        let spec = labelled.spec;
        let hosts: Vec<String> = spec.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["b.example", "a.example", "*.c.example"]);
        assert_eq!((spec.default, spec.wake, spec.sleep), (true, false, false));
        assert_eq!(spec.start_timeout, Duration::from_secs(330));
        assert_eq!(spec.texts.asleep, "\u{a7}7Sleeping");
        assert_eq!(spec.texts.starting, "Loading, {countdown}");
        assert_eq!(spec.texts.restarting, "Again in {countdown}");
        assert_eq!(spec.texts.failed, Spec::default().texts.failed, "an empty one is not set");
    }

    #[test]
    fn the_gates_own_label_goes_before_mc_routers() {
        let labelled =
            read(&[("mc-router.port", "1"), ("swarmgate.port", "2"), ("mc-router.host", "b.example")]);
        assert_eq!((labelled.port, labelled.spec.hosts.len(), labelled.problems.len()), (2, 1, 0));
    }

    #[test]
    fn keys_of_the_configuration_are_labels_with_dashes_or_not() {
        let labelled = read(&[
            ("swarmgate.start-timeout", "3m"),
            ("swarmgate.rewrite_host", "true"),
            ("swarmgate.wait", "kick"),
            ("swarmgate.wakers.names", "Alex, Sam"),
            ("swarmgate.texts.wait", "[\"soon\"]"),
        ]);
        assert_eq!(labelled.problems, Vec::<String>::new());
        assert_eq!(labelled.spec.start_timeout, Duration::from_secs(180));
        assert_eq!(
            labelled.spec.rewrite_host.as_deref(),
            Some("true"),
            "text that looks like something else"
        );
        assert_eq!(labelled.spec.wait, Wait::Kick);
        assert_eq!(labelled.spec.wakers.names.len(), 2);
        assert_eq!(labelled.spec.texts.wait, "[\"soon\"]");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_fix_and_the_default_stays() {
        let cases = [
            ("swarmgate.idel", "5m", "swarmgate.idel: there is no such label; did you mean swarmgate.idle?"),
            ("swarmgate.hosts", "a", "swarmgate.hosts: there is no such label; did you mean swarmgate.host?"),
            ("Swarmgate.Idle", "5m", "Swarmgate.Idle: there is no such label; did you mean swarmgate.idle?"),
            (
                "mc-router.auto-scaleup",
                "true",
                "mc-router.auto-scaleup: there is no such label; did you mean mc-router.auto-scale-up?",
            ),
            (
                "swarmgate.idle",
                "15",
                "swarmgate.idle: 15 has no unit; write \"15s\" for seconds, \"15m\" for minutes or \"15h\" for hours",
            ),
            (
                "swarmgate.idle",
                "0",
                "swarmgate.idle: a server that sleeps at once cannot be joined; write how long it must be empty, \
                 such as \"15m\", or sleep = false to keep it awake",
            ),
            (
                "swarmgate.wake",
                "maybe",
                "swarmgate.wake: \"maybe\" is neither true nor false; write true or false",
            ),
            (
                "swarmgate.wait",
                "hld",
                "swarmgate.wait: \"hld\" is not a value of this key; did you mean \"hold\"?",
            ),
            ("swarmgate.port", "0", "swarmgate.port: \"0\" is not a port; write a number from 1 to 65535"),
            (
                "swarmgate.default-wakes",
                "true",
                "swarmgate.default-wakes: has no effect without swarmgate.default=true; add that, or remove it",
            ),
        ];
        for (key, value, problem) in cases {
            let labelled = read(&[(key, value)]);
            assert_eq!(labelled.problems, [problem]);
            let Labelled { spec, port, .. } = labelled;
            let expected = Spec {
                hosts: spec.hosts.clone(),
                default_wakes: key == "swarmgate.default-wakes",
                ..Spec::default()
            };
            assert_eq!((spec, port), (expected, 25565), "{key}");
        }
    }

    #[test]
    fn quotes_that_became_part_of_a_value_are_taken_off_and_reported() {
        let labelled = read(&[("swarmgate.idle", "'5m'"), ("swarmgate.network", "\"mc\"")]);
        assert_eq!(labelled.spec.idle, Duration::from_secs(300));
        assert_eq!(labelled.network.as_deref(), Some("mc"));
        assert_eq!(
            labelled.problems,
            [
                "swarmgate.idle: the quotes are part of its value; write swarmgate.idle=5m",
                "swarmgate.network: the quotes are part of its value; write swarmgate.network=mc",
            ]
        );
    }

    #[test]
    fn good_hosts_stay_beside_a_bad_one_and_none_at_all_is_said() {
        let written = labels(&[("swarmgate.host", "a.example, b c"), ("swarmgate.default", "no")]);
        let labelled = parse(&written, &Spec::default()).unwrap();
        assert_eq!((labelled.spec.hosts.len(), labelled.problems.len()), (1, 1));
        let none = parse(&labels(&[("swarmgate.idle", "5m")]), &Spec::default()).unwrap();
        assert!(none.problems[0].contains("no hostname leads to it"), "{:?}", none.problems);
        let default = parse(&labels(&[("swarmgate.default", "true")]), &Spec::default()).unwrap();
        assert_eq!(default.problems, Vec::<String>::new());
    }

    #[test]
    fn a_list_of_who_may_that_is_not_understood_lets_nobody() {
        let labelled = read(&[("swarmgate.clients.allow", "192.0.2.0/24, 10.0.0.0/33")]);
        for address in ["192.0.2.1", "10.0.0.1", "::1"] {
            assert!(!labelled.spec.clients.admit(address.parse().unwrap()), "{address}");
        }
        assert_eq!(labelled.problems.len(), 1);
        let labelled = read(&[("swarmgate.wakers.uuids", "me")]);
        assert_eq!((labelled.spec.wake, labelled.problems.len()), (false, 1));
        assert_eq!(labelled.spec.clients, Clients::default());
    }

    #[test]
    fn labels_on_the_container_of_a_service_are_reported() {
        let container = labels(&[("swarmgate.host", "a"), ("mc-router.port", "1"), ("maintainer", "me")]);
        assert_eq!(
            misplaced(&container),
            [
                "mc-router.port: it is on the container; move it to the service, below `deploy: labels:`",
                "swarmgate.host: it is on the container; move it to the service, below `deploy: labels:`",
            ]
        );
    }

    #[test]
    fn every_label_can_be_read() {
        for entry in table::LABELS {
            assert!(entry.own.is_some() || entry.key().is_some(), "{} is no key of [defaults]", entry.name);
            for label in [Some(entry.label()), entry.alias()].into_iter().flatten() {
                assert_eq!(table::entry(&label).map(|entry| entry.name), Some(entry.name));
            }
        }
    }

    #[test]
    fn every_key_of_a_service_has_a_label() {
        let of_processes = ["stop", "grace", "kill", "restart_delay", "max_restarts", "restart_window"];
        let of_files = ["hosts", "address", "command", "directory", "env"];
        let keys = KEYS.iter().filter_map(|key| key.path.strip_prefix("server.NAME."));
        for key in keys.filter(|key| !of_processes.contains(key) && !of_files.contains(key)) {
            assert!(table::LABELS.iter().any(|entry| entry.name == key), "{key} has no label");
        }
    }

    proptest! {
        #[test]
        fn no_label_panics(
            key in prop_oneof![prop::sample::select(known()), "(swarmgate|mc-router)\\.\\PC{0,12}"],
            value in "\\PC{0,24}",
        ) {
            let labelled = parse(&labels(&[(&key, &value)]), &Spec::default());
            prop_assert!(labelled.is_some());
        }
    }
}
