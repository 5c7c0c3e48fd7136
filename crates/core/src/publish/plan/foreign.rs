//! What others made beside what is ours, on the very same hostnames.

use std::time::Duration;

use serde_json::{Value, json};

use super::Standing;
use super::model::{World, app, plain, service};
use crate::name::HostPattern;
use crate::publish::{Published, Settings};

const TAG: &str = "swarmgate-home-f70ff985";
const OURS: &str = "managed-by=swarmgate instance=home tunnel=f70ff985";
const RELEASED: &str = "released-by=swarmgate instance=home tunnel=f70ff985";

fn at(name: &str, host: &str, path: &str, settings: Settings) -> Published {
    service(name, host, Settings { path: Some(path.to_owned()), ..settings })
}

fn protected(name: &str, host: &str, policies: &[&str]) -> Published {
    let access = policies.iter().map(|policy| (*policy).to_owned()).collect();
    service(name, host, Settings { access, ..Settings::default() })
}

fn problem(world: &World, host: &str) -> String {
    let plan = world.preview();
    let stand = &plan.hosts[&HostPattern::parse(host).unwrap()];
    stand.standing.problem().unwrap_or_default().to_owned()
}

fn adopting() -> Settings {
    Settings { adopt: true, ..Settings::default() }
}

/// Everything goes, at once.
fn clear(world: &mut World) {
    world.services.clear();
    world.patience.grace = Duration::ZERO;
    for _ in 0..4 {
        world.round();
    }
}

fn hand_made() -> Value {
    json!({"hostname": "a.example.com", "service": "http://mine:1"})
}

#[test]
fn a_mark_on_a_hostname_makes_no_other_rule_of_it_ours() {
    for settings in [Settings::default(), adopting(), Settings { access: vec!["staff".into()], ..adopting() }]
    {
        let mut world = World::new(json!({"ingress": [hand_made(), {"service": "http_status:404"}]}));
        world.services = vec![at("api", "a.example.com", "^/api", settings.clone())];
        world.round();
        let both =
            ["a.example.com^/api -> http://api:80", "a.example.com -> http://mine:1", " -> http_status:404"];
        assert_eq!(world.rules(), both, "{settings:?}");
        world.restart();
        world.round();
        // Nor when the memory of it all is lost.
        world.memory = Default::default();
        world.round();
        world.round();
        assert_eq!(world.rules(), both, "{settings:?}");
        clear(&mut world);
        assert_eq!(world.rules(), both[1..], "{settings:?}");
    }
}

#[test]
fn a_rule_that_does_the_same_is_never_taken_over() {
    let rule = json!({"hostname": "a.example.com", "service": "http://a:80"});
    let mut world = World::new(json!({"ingress": [rule, {"service": "http_status:404"}]}));
    world.services = vec![plain("a", "a.example.com"), plain("b", "b.example.com")];
    // The first look does not end.
    world.broken = [Some("b.example.com".to_owned())].into();
    world.round();
    world.round();
    world.broken.clear();
    world.round();
    clear(&mut world);
    assert_eq!(world.rules(), ["a.example.com -> http://a:80", " -> http_status:404"]);
}

#[test]
fn an_application_that_protects_more_than_one_hostname_is_not_ours() {
    // Somebody adds a hostname to an application of ours.
    let mut world = World::new(Value::Null);
    world.services = vec![protected("a", "a.example.com", &["staff"])];
    world.round();
    let mut fields: Value = serde_json::from_str(&world.access().apps[0].raw).unwrap();
    fields["destinations"].as_array_mut().unwrap().push(json!({"type": "public", "uri": "b.example.com"}));
    let wide = app("wide", &fields.to_string());
    world.access().apps = vec![wide.clone()];
    for _ in 0..4 {
        world.round();
        world.wait(31);
    }
    assert_eq!(world.access().apps, std::slice::from_ref(&wide));
    assert!(
        problem(&world, "a.example.com").contains("for more than this hostname"),
        "{}",
        problem(&world, "a.example.com")
    );
    assert_eq!(world.rules().len(), 2, "it is protected all the same");
    clear(&mut world);
    assert_eq!(world.access().apps, [wide]);
}

#[test]
fn an_application_for_several_is_not_adopted() {
    for body in [
        json!({"type": "self_hosted", "domain": "a.example.com", "self_hosted_domains": ["a.example.com", "b.example.com"], "policies": ["p-staff"]}),
        json!({"type": "self_hosted", "domain": "a.example.com", "destinations": [],
            "self_hosted_domains": ["a.example.com", "b.example.com"], "policies": ["p-staff"]}),
        json!({"type": "self_hosted", "domain": "b.example.com", "policies": ["p-staff"],
            "destinations": [{"type": "public", "uri": "a.example.com"}, {"type": "public", "uri": "b.example.com"}]}),
        json!({"type": "self_hosted", "domain": "a.example.com", "policies": ["p-staff"],
            "destinations": [{"type": "public", "uri": "a.example.com"}, {"type": "private", "cidr": "10.0.0.0/8"}]}),
    ] {
        let mut world = World::new(Value::Null);
        let theirs = app("theirs", &body.to_string());
        world.access().apps.push(theirs.clone());
        let access = |policy: &str| Settings { access: vec![policy.to_owned()], ..adopting() };
        world.services = vec![
            service("a", "a.example.com", access("staff")),
            service("b", "b.example.com", access("p-twin")),
        ];
        world.round();
        assert!(problem(&world, "a.example.com").contains("for more than this hostname"));
        clear(&mut world);
        assert!(world.access().apps.contains(&theirs), "{body}");
    }
}

#[test]
fn an_older_application_stays_one_for_its_hostname_when_it_is_adopted() {
    for to in [json!(null), json!([])] {
        let mut world = World::new(Value::Null);
        let body = json!({"type": "self_hosted", "domain": "a.example.com", "destinations": to,
            "self_hosted_domains": ["a.example.com"], "policies": ["x"], "tags": ["kept", "swarmgate-other-f70ff985"]});
        world.access().apps.push(app("theirs", &body.to_string()));
        let access = vec!["staff".to_owned(), "p-staff".to_owned()];
        world.services = vec![service("a", "a.example.com", Settings { access, ..adopting() })];
        world.round();
        let [adopted] = world.access().apps.as_slice() else { panic!("there is one") };
        assert_eq!(
            (adopted.domains.as_slice(), adopted.policies.len()),
            (&["a.example.com".to_owned()][..], 1)
        );
        assert_eq!(adopted.tags, ["kept", TAG], "the other gate would remove it one day");
    }
}

#[test]
fn a_record_that_its_owner_let_lead_elsewhere_is_theirs() {
    let changes: [fn(&mut crate::publish::actual::Record); 2] = [
        |record| record.content = "elsewhere.example.net".to_owned(),
        |record| (record.kind, record.content) = ("A".to_owned(), "192.0.2.7".to_owned()),
    ];
    for (change, delete_dns) in changes.into_iter().zip([true, false]) {
        let mut world = World::new(Value::Null);
        world.services = vec![service("a", "a.example.com", Settings { delete_dns, ..Settings::default() })];
        world.round();
        change(world.record("a.example.com"));
        let theirs = world.record("a.example.com").clone();
        world.round();
        assert!(problem(&world, "a.example.com").contains("record"), "{}", problem(&world, "a.example.com"));
        clear(&mut world);
        assert_eq!(*world.record("a.example.com"), theirs);
        assert_eq!(world.rules().len(), 1);
    }
}

#[test]
fn a_released_record_is_taken_back_only_where_it_leads_here() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    clear(&mut world);
    assert_eq!(world.record("a.example.com").comment.as_deref(), Some(RELEASED));
    world.record("a.example.com").content = "elsewhere.example.net".to_owned();
    let theirs = world.record("a.example.com").clone();
    for exclusive in [false, true] {
        world.terms.exclusive = exclusive;
        world.services = vec![plain("a", "a.example.com")];
        world.round();
        assert_eq!(*world.record("a.example.com"), theirs);
        assert!(problem(&world, "a.example.com").contains("a CNAME to elsewhere.example.net"));
    }
    world.services = vec![service("a", "a.example.com", adopting())];
    world.round();
    assert_eq!(world.records(), [format!("a.example.com CNAME TUNNEL.cfargotunnel.com {OURS}")]);
}

#[test]
fn a_rule_edited_by_hand_is_not_removed() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    world.services.clear();
    world.round();
    world.edit_rules(|rules| rules[0] = hand_made());
    clear(&mut world);
    assert_eq!(world.rules(), ["a.example.com -> http://mine:1", " -> http_status:404"]);
}

#[test]
fn a_second_rule_for_the_same_is_not_removed_with_ours() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    world.edit_rules(|rules| rules.insert(1, hand_made()));
    world.services.clear();
    clear(&mut world);
    assert!(world.rules().contains(&"a.example.com -> http://mine:1".to_owned()), "{:?}", world.rules());
}

#[test]
fn a_rule_that_was_never_written_is_not_ours() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com")];
    world.broken = [None].into();
    world.round();
    world.broken.clear();
    world.edit_rules(|rules| rules.insert(0, hand_made()));
    world.round();
    assert_eq!(world.rules(), ["a.example.com -> http://mine:1", " -> http_status:404"]);
}

#[test]
fn an_application_stays_before_rules_that_somebody_else_made() {
    let mut world = World::new(Value::Null);
    world.services = vec![protected("a", "a.example.com", &["staff"])];
    world.round();
    world.edit_rules(|rules| {
        rules.insert(0, json!({"hostname": "a.example.com", "path": "^/x", "service": "http://mine:1"}))
    });
    clear(&mut world);
    assert_eq!((world.rules().len(), world.access().apps.len()), (2, 1));
    let left = world.round();
    let standing = &left.hosts.values().next().unwrap().standing;
    assert!(matches!(standing, Standing::Conflict(why) if why.contains("application stays")), "{standing:?}");
}

#[test]
fn a_new_application_does_not_come_before_rules_that_somebody_else_made() {
    let rule = json!({"hostname": "a.example.com", "path": "^/x", "service": "http://mine:1"});
    let mut world = World::new(json!({"ingress": [rule, {"service": "http_status:404"}]}));
    world.services = vec![protected("a", "a.example.com", &["staff"])];
    world.round();
    assert_eq!((world.rules().len(), world.access().apps.len()), (2, 0));
    assert!(problem(&world, "a.example.com").contains("http://mine:1"));
    world.services[0].publications[0].settings.adopt = true;
    world.round();
    assert_eq!((world.rules().len(), world.access().apps.len()), (3, 1));
}

#[test]
fn an_application_that_lets_everybody_in_protects_nothing() {
    // Another's, which is in the way.
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    let open = json!({"type": "self_hosted", "domain": "a.example.com", "policies": [{"id": "x", "decision": "bypass"}]});
    let open = app("open", &open.to_string());
    world.access().apps.push(open.clone());
    world.services = vec![protected("a", "a.example.com", &["staff"])];
    world.round();
    assert_eq!((world.rules().len(), world.access().apps.as_slice()), (1, &[open][..]));
    // Ours, before its label is mistyped.
    let mut world = World::new(Value::Null);
    world.services = vec![protected("a", "a.example.com", &["all"])];
    world.round();
    assert_eq!(world.rules().len(), 2);
    world.services = vec![protected("a", "a.example.com", &["stuff"])];
    world.round();
    assert_eq!(world.rules().len(), 1);
}

#[test]
fn what_was_seen_last_of_access_counts_while_it_cannot_be_read() {
    // Protected once, then public, then to be protected again.
    let mut world = World::new(Value::Null);
    world.services = vec![protected("a", "a.example.com", &["staff"])];
    world.round();
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    let access = std::mem::replace(&mut world.actual.access, Err("it is away".to_owned()));
    world.services = vec![protected("a", "a.example.com", &["staff"])];
    world.round();
    assert_eq!(world.rules().len(), 1, "it would be public");
    world.actual.access = access;
    world.round();
    // Protected by an application that was adopted.
    let mut world = World::new(json!({"ingress": [hand_made(), {"service": "http_status:404"}]}));
    let theirs = json!({"type": "self_hosted", "domain": "a.example.com", "policies": ["p-staff"]});
    world.access().apps.push(app("theirs", &theirs.to_string()));
    let adopt = Settings { access: vec!["staff".to_owned()], ..adopting() };
    let wanted = vec![service("a", "a.example.com", adopt)];
    let mut unread = world.clone();
    world.services.clone_from(&wanted);
    world.round();
    let published = world.rules();
    world.actual.access = Err("it is away".to_owned());
    world.round();
    assert_eq!(world.rules(), published);
    // What the gate did not write stays.
    unread.services = wanted;
    unread.actual.access = Err("it is away".to_owned());
    unread.round();
    assert_eq!(unread.rules(), ["a.example.com -> http://mine:1", " -> http_status:404"]);
}

#[test]
fn a_path_that_is_not_understood_is_told() {
    let branch = json!({"hostname": "*.example.com", "path": "^/api(/|$)", "service": "http://mine:1"});
    let mut world = World::new(json!({"ingress": [branch, {"service": "http_status:404"}]}));
    world.services = vec![
        at("a", "a.example.com", "^/api/v1", Settings::default()),
        at("same", "b.example.com", "^/api(/|$)", Settings::default()),
        plain("c", "c.example.org"),
    ];
    let plan = world.round();
    let notes = |host: &str| plan.hosts[&HostPattern::parse(host).unwrap()].notes.join("; ");
    assert!(notes("a.example.com").contains("^/api(/|$)"), "{}", notes("a.example.com"));
    assert_eq!((notes("b.example.com"), notes("c.example.org")), (String::new(), String::new()));
}
