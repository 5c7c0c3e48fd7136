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

#[test]
fn whatever_the_gate_accepts_a_connector_accepts() {
    let verdicts = verdicts();
    let mut accepted = 0;
    let all = verdicts.accepted.iter().map(|case| (case, true));
    for ((name, tunnel), good) in all.chain(verdicts.rejected.iter().map(|case| (case, false))) {
        let rules = tunnel["ingress"].as_array().unwrap();
        let [rule, _catch_all] = rules.as_slice() else { continue };
        let Some(table) = as_table(rule) else { continue };
        if config::parse(&table, &[]).is_ok() {
            assert!(good, "{name}: {rule}");
            accepted += 1;
        }
    }
    assert!(accepted >= 10, "only {accepted} cases were of use");
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

/// Lists that put the wrong rule first come right.
#[test]
fn our_order_is_the_one_in_which_every_rule_is_reached() {
    let mut seen = 0;
    for (tunnel, url, _) in verdicts().routed {
        let rules: Vec<Rule> = tunnel["ingress"].as_array().unwrap().iter().filter_map(as_rule).collect();
        let ours: BTreeSet<_> = rules.iter().map(|rule| &rule.key).collect();
        // A spelling that is not ours, or two for one.
        if ours.len() + 1 != tunnel["ingress"].as_array().unwrap().len() || url.contains("APP") {
            continue;
        }
        let config = edited("null", &rules);
        let (host, path) = split(&url);
        let best = rules.iter().filter(|rule| takes(rule, host, path)).max_by_key(|rule| weight(&rule.key));
        let got = &config["ingress"][route(&config, host, path).unwrap()]["service"];
        assert_eq!(
            got.as_str(),
            best.map_or(Some("http_status:404"), |rule| Some(&rule.service)),
            "{url} of {config}"
        );
        seen += 1;
    }
    assert!(seen >= 15, "only {seen} cases were of use");
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
