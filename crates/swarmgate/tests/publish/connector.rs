//! What the gate writes into a tunnel, as a connector takes it: by what cloudflared was seen to do.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};
use swarmgate_core::config;
use swarmgate_core::name::HostPattern;
use swarmgate_core::publish::ingress::Ingress;
use swarmgate_core::publish::rule::{Key, Rule, check_path};
use swarmgate_core::publish::{Origin, Target};
use swarmgate_testkit::cloudflare::{route, validate, verdicts};

const HOSTS: [&str; 6] = [
    "a.example.com",
    "b.example.com",
    "x.a.example.com",
    "*.example.com",
    "*.a.example.com",
    "*.other.example",
];
/// Each with a path that it takes and that no longer one of them takes.
const PATHS: [(&str, &str); 5] =
    [("", "/zzz"), ("/x", "/x"), ("^/api", "/api/q"), ("^/api/v1", "/api/v1/q"), ("^/api/v1/a", "/api/v1/a")];

/// Rules that a connector takes and the gate does not, and why.
const STRICTER: [(&str, &str); 12] = [
    ("wildcard partial *a.example.com", "it matches nothing"),
    ("host comma", "it matches nothing; a list is written as a list"),
    ("host with space", "no browser sends such a name"),
    ("hostname leading dot", "no browser sends such a name"),
    ("service empty port 'http://web:'", "nothing says where the service listens"),
    ("service port 99999", "there is no such port"),
    ("service unix", "a socket beside the connector is no service of the gate's sources"),
    ("service ftp (unknown scheme)", "connectors take an unknown scheme for TCP: it is a slip"),
    ("service hello_world", "that is the connector itself, and no service"),
    ("service query", "connectors leave a query out: it is a slip"),
    ("unknown originRequest key", "connectors leave it out: it is a slip"),
    ("catch-all hostname * with path", "it would take requests of every hostname"),
];

#[test]
fn every_verdict_on_a_rule_holds_or_the_gate_is_stricter_for_a_reason() {
    let verdicts = verdicts();
    let (mut stricter, mut accepted) = (BTreeSet::new(), 0);
    let all = verdicts.accepted.iter().map(|case| (case, true));
    for ((name, tunnel), good) in all.chain(verdicts.rejected.iter().map(|case| (case, false))) {
        let rules = tunnel["ingress"].as_array().unwrap();
        // What is wrong with a list is another test's.
        let [rule, _catch_all] = rules.as_slice() else { continue };
        let ours = as_table(rule).is_some_and(|table| config::parse(&table, &[]).is_ok());
        assert!(good || !ours, "{name}: {rule}");
        accepted += usize::from(ours);
        if good && !ours {
            stricter.insert(name.as_str());
        }
    }
    let listed: BTreeSet<&str> = STRICTER.iter().map(|(name, _)| *name).collect();
    assert_eq!(stricter, listed);
    assert_eq!(accepted, 16);
}

/// Whatever list a connector takes can have a rule of ours, and is else what it was.
#[test]
fn every_list_that_holds_can_be_added_to() {
    let verdicts = verdicts();
    let new = as_rule(&json!({"hostname": "new.example.org", "service": "http://new:80"})).unwrap();
    for (name, before) in &verdicts.accepted {
        let after = edited(&before.to_string(), std::slice::from_ref(&new));
        let rules = |config: &Value| config["ingress"].as_array().unwrap().clone();
        let kept: Vec<Value> =
            rules(&after).into_iter().filter(|rule| rule["service"] != "http://new:80").collect();
        assert_eq!(kept, rules(before), "{name}");
        assert_eq!(
            route(&after, "new.example.org", "/").map(|at| rules(&after)[at]["service"].clone()),
            Some("http://new:80".into())
        );
    }
    // Of the others the API keeps none, but a new tunnel has no list.
    edited(&verdicts.rejected["empty ingress"].to_string(), std::slice::from_ref(&new));
}

/// The rule as `[publish.NAME]` would ask for it, if that can be asked for.
fn as_table(rule: &Value) -> Option<String> {
    let (scheme, address) = rule["service"].as_str().unwrap().split_once("://").unwrap_or(("", ""));
    let path = rule["path"].as_str().unwrap_or_default();
    let options = rule["originRequest"].as_object().into_iter().flatten();
    let options = options.map(|(key, value)| match (key.as_str(), value) {
        ("connectTimeout", Value::Number(seconds)) => {
            Some(format!("origin.connect_timeout = \"{seconds}s\""))
        }
        ("keepAliveConnections", number) => Some(format!("origin.keep_alive_connections = {number}")),
        ("noTLSVerify", truth) => Some(format!("origin.no_tls_verify = {truth}")),
        ("originServerName", name) => Some(format!("origin.server_name = {name}")),
        _ => None,
    });
    let options: Vec<String> = options.collect::<Option<_>>()?;
    Some(format!(
        "[publish.x]\nhosts = [{}]\naddress = {address:?}\nscheme = {scheme:?}\npath = {path:?}\n{}\n",
        rule["hostname"],
        options.join("\n")
    ))
}

/// Lists with a rule that is not one of ours, and why.
const NOT_OURS: [(&str, &str); 3] = [
    ("dot.example.com.", "a dot at the end matches nothing: the gate writes the name without"),
    ("a.example.com,b.example.com", "two names in one match nothing: the gate writes a rule for each"),
    ("a.example.com a.example.com", "the second matches nothing: the gate reports it"),
];

/// Lists that put the wrong rule first come right, and those that do not stay as they are.
#[test]
fn our_order_is_the_one_in_which_every_rule_is_reached() {
    let (mut seen, mut others) = (0, BTreeSet::new());
    for (tunnel, url, verdict) in verdicts().routed {
        let list = tunnel["ingress"].as_array().unwrap();
        let written: Vec<&str> = list.iter().filter_map(|rule| rule["hostname"].as_str()).collect();
        let rules: Vec<Rule> = list.iter().filter_map(as_rule).collect();
        let ours: BTreeSet<_> = rules.iter().map(|rule| &rule.key).collect();
        if ours.len() + 1 != list.len() || written.iter().any(|host| host.ends_with('.')) {
            others.insert(written.join(" "));
            continue;
        }
        let config = edited("null", &rules);
        let (host, path) = split(&url);
        let best = rules.iter().filter(|rule| takes(rule, host, path)).max_by_key(|rule| weight(&rule.key));
        let got = &config["ingress"][route(&config, host, path).unwrap()]["service"];
        let best = best.map_or("http_status:404", |rule| &rule.service);
        assert_eq!(got.as_str(), Some(best), "{url} of {config}");
        let as_it_was = list[verdict]["service"].as_str() == Some(best);
        let in_order =
            config["ingress"].as_array().unwrap().iter().zip(list).all(|(a, b)| a["service"] == b["service"]);
        assert!(as_it_was || !in_order, "{url}: the connector's own choice among {list:?}");
        seen += 1;
    }
    assert_eq!(others, NOT_OURS.iter().map(|(hosts, _)| (*hosts).to_owned()).collect());
    assert_eq!(seen, 23);
}

/// An exact name before a wildcard, a longer name before a shorter one, a longer path before a shorter one.
fn weight(key: &Key) -> (bool, usize, usize) {
    let exact = matches!(key.host, HostPattern::Exact(_));
    (exact, key.host.to_string().len(), key.path.as_deref().map_or(0, str::len))
}

fn takes(rule: &Rule, host: &str, path: &str) -> bool {
    let alone = json!({"ingress": [serde_json::from_str::<Value>(&rule.text()).unwrap()]});
    route(&alone, host, path).is_some()
}

fn as_rule(rule: &Value) -> Option<Rule> {
    let host = HostPattern::parse(rule["hostname"].as_str()?).ok()?;
    let path = rule["path"].as_str().map(str::to_owned);
    let name = rule["service"].as_str()?.strip_prefix("http://")?.strip_suffix(":80")?;
    let target = Target { host: name.to_owned(), port: 80 };
    Some(Rule::new(Key { host, path }, "http", &target, &Origin::default()))
}

fn edited(before: &str, rules: &[Rule]) -> Value {
    let before = (before != "null").then_some(before);
    let edit = Ingress::read(before).unwrap().edit(&BTreeSet::new(), rules);
    let config = serde_json::from_str(&edit.config.unwrap()).unwrap();
    assert_eq!(validate(&config), Ok(()), "{config}");
    config
}

fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("https://").unwrap();
    rest.split_at(rest.find('/').unwrap())
}

/// A host and a path that the rule takes and none of those that are narrower.
fn witness(host: &str, path: &str) -> (String, &'static str) {
    let taken = PATHS.iter().find(|(known, _)| *known == path).unwrap().1;
    (host.replace('*', "only-here"), taken)
}

fn rules() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let all: Vec<_> =
        HOSTS.iter().flat_map(|host| PATHS.iter().map(move |(path, _)| (*host, *path))).collect();
    subsequence(all, 0..8).prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever others have in the tunnel, in whatever order.
    #[test]
    fn every_rule_of_ours_is_reached_and_none_of_theirs_is_shadowed(theirs in rules(), ours in rules()) {
        let written = |(host, path): &(&str, &str), service: &str| match *path {
            "" => json!({"hostname": host, "service": service}),
            path => json!({"hostname": host, "path": path, "service": service}),
        };
        let mut list: Vec<Value> = theirs.iter().map(|rule| written(rule, "http://theirs:80")).collect();
        list.push(json!({"service": "http_status:503"}));
        let before = json!({"ingress": list});
        let ours: Vec<_> = ours.into_iter().filter(|rule| !theirs.contains(rule)).collect();
        let rules: Vec<Rule> =
            ours.iter().map(|rule| as_rule(&written(rule, "http://ours:80")).unwrap()).collect();
        let edit = Ingress::read(Some(&before.to_string())).unwrap().edit(&BTreeSet::new(), &rules);
        let refused: Vec<_> = edit.conflicts.iter().map(|conflict| conflict.key.clone()).collect();
        let after = edit.config.map_or(before.clone(), |text| serde_json::from_str(&text).unwrap());
        prop_assert_eq!(validate(&after), Ok(()));

        let got = |config: &Value, rule: &(&str, &str)| {
            let (host, path) = witness(rule.0, rule.1);
            config["ingress"][route(config, &host, path).unwrap()].clone()
        };
        for (rule, asked) in ours.iter().zip(&rules) {
            if !refused.contains(&asked.key) {
                prop_assert_eq!(got(&after, rule), written(rule, "http://ours:80"), "{} for {:?}", after, rule);
            }
        }
        for rule in &theirs {
            prop_assert_eq!(got(&after, rule), got(&before, rule), "{} for {:?}", after, rule);
        }
        let kept = after["ingress"].as_array().unwrap().iter().filter(|rule| rule["service"] != "http://ours:80");
        prop_assert_eq!(kept.collect::<Vec<_>>(), before["ingress"].as_array().unwrap().iter().collect::<Vec<_>>());
    }

    /// The notation is Go's; what both it and another implementation of it take is safe.
    #[test]
    fn a_path_that_the_gate_accepts_a_connector_accepts(path in select(vec!["[a(|)*?{2,}\\[\\]^$.\\\\d-]{0,16}", "/[a-z(|)?]{0,8}"]).prop_flat_map(|pattern| proptest::string::string_regex(pattern).unwrap())) {
        if check_path(&path).is_ok() {
            let rules = json!([{"hostname": "a.example.com", "path": path, "service": "http://a:80"}, {"service": "http_status:404"}]);
            prop_assert_eq!(validate(&json!({"ingress": rules})), Ok(()));
        }
    }
}
