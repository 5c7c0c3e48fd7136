use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Edit, Ingress};
use crate::name::HostPattern;
use crate::publish::rule::{Key, Rule};

/// `a.example/path` as it names a rule of ours.
fn key(text: &str) -> Key {
    let (host, path) =
        text.split_once('/').map_or((text, None), |(host, path)| (host, Some(format!("/{path}"))));
    Key { host: HostPattern::parse(host).unwrap(), path }
}

fn rule(text: &str) -> Rule {
    Rule { key: key(text), service: "http://ours:1".to_owned(), origin: Map::new() }
}

/// A configuration with rules of these names, those with `!` foreign, and what becomes of it if `wanted` is.
fn edit(there: &str, wanted: &str) -> (Edit, String) {
    let ours = |name: &&str| !name.starts_with('!');
    let text = |name: &str| {
        let service = if ours(&name) { "http://ours:1" } else { "http://theirs:1" };
        let Key { host, path } = key(name.trim_start_matches('!'));
        json!({"hostname": host.to_string(), "path": path, "service": service})
    };
    let mut rules: Vec<Value> = there.split_whitespace().map(text).collect();
    rules.push(json!({"service": "http_status:503"}));
    let config = json!({ "ingress": rules }).to_string();
    let keys: BTreeSet<Key> = there.split_whitespace().filter(ours).map(key).collect();
    let wanted: Vec<Rule> = wanted.split_whitespace().map(rule).collect();
    let edit = Ingress::read(Some(&config)).unwrap().edit(&keys, &wanted);
    let after = Ingress::read(edit.config.as_deref().or(Some(&config))).unwrap();
    let shown = after.rules().iter().map(|rule| {
        let key = rule.key.as_ref().unwrap();
        let mark = if rule.service == "http://ours:1" { "" } else { "!" };
        format!("{mark}{}{}", key.host, key.path.as_deref().unwrap_or_default())
    });
    let shown = shown.collect::<Vec<_>>().join(" ");
    (edit, shown)
}

#[test]
fn rules_stand_where_they_take_nothing_from_others_and_nobody_takes_from_them() {
    for (there, wanted, after) in [
        ("", "b.x a.x *.x *.a.x a.x/p a.x/p/q", "a.x/p/q a.x/p a.x b.x *.a.x *.x"),
        // Before a foreign rule that would take their requests, and no earlier.
        ("!c.y !*.x !d.y", "a.x", "!c.y a.x !*.x !d.y"),
        // After a foreign one whose requests they would take.
        ("!a.x !c.y", "*.x", "!a.x !c.y *.x"),
        ("*.x !a.x", "*.x", "!a.x *.x"),
        // Where they are, if they may be there.
        ("a.x !c.y b.x", "a.x b.x", "a.x !c.y b.x"),
        ("a.x !c.y b.x", "b.x", "!c.y b.x"),
        // Not behind one of ours that stays where it is.
        ("*.x !c.y", "*.x a.x", "a.x *.x !c.y"),
        ("*.x !c.y !d.y", "*.x *.a.x b.a.x", "b.a.x *.a.x *.x !c.y !d.y"),
        ("b.x a.x", "a.x b.x", "a.x b.x"),
        ("a.x a.x !c.y", "a.x", "a.x !c.y"),
    ] {
        let (done, shown) = edit(there, wanted);
        assert_eq!((shown.as_str(), done.conflicts.len()), (after, 0), "{there} with {wanted}");
        let (again, _) = edit(after, wanted);
        assert_eq!(again, Edit::default(), "{after} with {wanted}");
    }
}

#[test]
fn what_fits_nowhere_stays_or_stays_out() {
    let there = "!*.x !a.b.x";
    let (out, shown) = edit(there, "*.b.x c.x");
    assert_eq!(shown, "c.x !*.x !a.b.x");
    assert_eq!(out.conflicts.iter().map(|conflict| conflict.key.to_string()).collect::<Vec<_>>(), ["*.b.x"]);
    let (_, shown) = edit("*.b.x !*.x !a.b.x", "*.b.x");
    assert_eq!(shown, "*.b.x !*.x !a.b.x");
}

#[test]
fn everything_else_stays_byte_for_byte() {
    let theirs =
        r#"{ "service":"http://t:1", "hostname" : "T.example.com","originRequest":{"b":1.50,"a":1e2} }"#;
    let config = format!(
        r#"{{"warp-routing": {{ "enabled":true}}, "ingress" : [ {theirs} , {{"service":"http_status:503", "x":null}}],"z":[1.0]}}"#
    );
    let edit = Ingress::read(Some(&config)).unwrap().edit(&BTreeSet::new(), &[rule("a.example.com")]);
    let ours = r#"{"hostname":"a.example.com","service":"http://ours:1"}"#;
    let expected = format!(
        r#"{{"warp-routing":{{ "enabled":true}},"ingress":[{theirs},{ours},{{"service":"http_status:503", "x":null}}],"z":[1.0]}}"#
    );
    assert_eq!(edit.config, Some(expected));
}

#[test]
fn a_tunnel_without_rules_gets_what_it_needs() {
    let ours = r#"{"hostname":"a.example.com","service":"http://ours:1"}"#;
    let all = format!(r#"{{"ingress":[{ours},{{"hostname":"","service":"http_status:404"}}]}}"#);
    for config in [None, Some("{}"), Some(r#"{"ingress":null}"#), Some(r#"{"ingress":[]}"#)] {
        let ingress = Ingress::read(config).unwrap();
        assert_eq!(ingress.edit(&BTreeSet::new(), &[rule("a.example.com")]).config.as_ref(), Some(&all));
        assert_eq!(ingress.edit(&BTreeSet::new(), &[]), Edit::default(), "nothing is wanted of it");
    }
}

#[test]
fn what_is_no_configuration_is_left_alone() {
    for config in ["[]", "3", r#"{"ingress":{}}"#, "{"] {
        assert!(Ingress::read(Some(config)).is_err(), "{config}");
    }
}
