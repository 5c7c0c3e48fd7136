//! What a connector was seen to say of configurations and addresses, against what the gate would write and expect.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "this test is about a file")]

use std::path::Path;

use serde_json::{Map, Value};
use swarmgate_core::config;
use swarmgate_core::name::HostPattern;
use swarmgate_core::publish::ingress::Ingress;
use swarmgate_core::publish::rule::{Key, Written};

fn verdicts() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/src/cloudflare/verdicts.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn cases<'v>(verdicts: &'v Value, of: &str) -> &'v Map<String, Value> {
    verdicts[of].as_object().unwrap()
}

/// Whether the gate could be brought to write this: every rule asked for in `[publish.NAME]`, the last one its own.
fn could_be_ours(ingress: &Value) -> bool {
    let Some((last, rules)) = ingress.as_array().and_then(|rules| rules.split_last()) else { return false };
    let empty = |value: &Value| value.as_str().is_none_or(str::is_empty);
    let catch_all =
        empty(&last["hostname"]) && last["path"].is_null() && last["service"] == "http_status:404";
    catch_all && rules.iter().all(could_be_asked_for)
}

fn could_be_asked_for(rule: &Value) -> bool {
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    let text = |key: &str| rule[key].as_str().unwrap_or_default();
    let Some((scheme, address)) = text("service").split_once("://") else { return false };
    let mut file = String::from("[publish.a]\n");
    for (key, value) in
        [("hosts", text("hostname")), ("address", address), ("scheme", scheme), ("path", text("path"))]
    {
        file += &format!("{key} = {}\n", quoted(value));
    }
    for (option, value) in rule["originRequest"].as_object().into_iter().flatten() {
        let key = match option.as_str() {
            // Counted in seconds there, written with a unit here.
            "connectTimeout" if value.is_u64() => {
                file += &format!("origin.connect_timeout = \"{value}s\"\n");
                continue;
            }
            "keepAliveConnections" => "keep_alive_connections",
            "noTLSVerify" => "no_tls_verify",
            "originServerName" => "server_name",
            // Of `access` the gate writes all of it itself.
            _ => return false,
        };
        file += &format!("origin.{key} = {value}\n");
    }
    let hosts = |checked: config::Checked| {
        checked.config.published.first().map_or(0, |published| published.publication.hosts.len())
    };
    config::parse(&file, &[]).is_ok_and(|checked| hosts(checked) == 1)
}

#[test]
fn the_gate_writes_nothing_that_a_connector_refuses() {
    let verdicts = verdicts();
    for (name, ingress) in cases(&verdicts, "rejected") {
        assert!(!could_be_ours(ingress), "{name}");
    }
    let ours = cases(&verdicts, "accepted").iter().filter(|(_, ingress)| could_be_ours(ingress));
    let ours: Vec<&String> = ours.map(|(name, _)| name).collect();
    for name in ["ok basic", "wildcard", "path regexp", "service ipv6", "service tcp", "service tasks.web"] {
        assert!(ours.iter().any(|ours| *ours == name), "{name} among {ours:?}");
    }
}

/// The path that begins so: whatever takes all of those takes this one. A connector tells capitals in a request from
/// other letters, so a name with any is a name that nobody has.
fn request(url: &str) -> Key {
    let (host, path) = url.strip_prefix("https://").unwrap().split_once('/').unwrap();
    let has_capitals = |label: &str| label.contains(|c: char| c.is_ascii_uppercase());
    let labels = host.split('.').map(|label| if has_capitals(label) { "in-capitals" } else { label });
    let host = HostPattern::parse(&labels.collect::<Vec<_>>().join(".")).unwrap();
    Key { host, path: Some(format!("^/{path}")) }
}

#[test]
fn the_gate_knows_which_rule_takes_a_request_or_that_it_does_not() {
    let verdicts = verdicts();
    let (mut seen, mut unclear) = (0, Vec::new());
    for case in verdicts["routed"].as_array().unwrap() {
        let config = serde_json::json!({ "ingress": case["ingress"] }).to_string();
        let ingress = Ingress::read(Some(&config)).unwrap();
        for (url, chosen) in case["rule_for"].as_object().unwrap() {
            let request = request(url).matcher();
            let chosen = usize::try_from(chosen.as_u64().unwrap()).unwrap();
            let takes = |rule: &Written| rule.matcher.covers(&request);
            let expected = ingress.rules().iter().position(takes).unwrap_or(ingress.rules().len());
            if ingress.rules().iter().any(|rule| rule.matcher.is_unclear_about(&request)) {
                // The first that it is sure of takes what no other takes.
                assert!(chosen <= expected, "{url} of {config}");
                unclear.push(url.as_str());
            } else {
                assert_eq!(chosen, expected, "{url} of {config}");
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 27);
    let of_a_branch =
        ["https://api.example.com/api", "https://api.example.com/apix", "https://api.example.com/v2/api"];
    assert_eq!(unclear, of_a_branch, "all with the path ^/api(/|$)");
}
