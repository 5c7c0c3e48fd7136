//! Somebody else who writes the same, and how much is removed at a time.

use std::time::Duration;

use serde_json::{Value, json};

use super::model::{World, plain, service};
use super::{Standing, Terms};
use crate::name::HostPattern;
use crate::publish::{Published, Settings};

fn problem(world: &World, host: &str) -> String {
    let plan = world.preview();
    plan.hosts[&HostPattern::parse(host).unwrap()].standing.problem().unwrap_or_default().to_owned()
}

fn protected(name: &str, host: &str, policies: &[&str], adopt: bool) -> Published {
    let access = policies.iter().map(|policy| (*policy).to_owned()).collect();
    service(name, host, Settings { access, adopt, ..Settings::default() })
}

/// Two gates of one account, in turns. How many of the turns changed something.
fn in_turns(one: &mut World, two: &mut World, turns: usize) -> usize {
    let mut changes = 0;
    for _ in 0..turns {
        for swap in [false, true] {
            let (this, other) = if swap { (&mut *two, &mut *one) } else { (&mut *one, &mut *two) };
            let before = this.actual.clone();
            this.wait(5);
            this.round();
            changes += usize::from(this.actual != before);
            other.actual = this.actual.clone();
        }
    }
    changes
}

#[test]
fn two_gates_that_adopt_the_same_do_not_take_it_from_each_other_in_turns() {
    for (first, second, what) in
        [(&["staff"][..], &["p-twin"][..], "its Access application"), (&[], &[], "its DNS record")]
    {
        let mut one = World::new(Value::Null);
        let mut two = one.clone();
        two.terms = Terms::new(super::model::TUNNEL, "other");
        one.services = vec![protected("a", "a.example.com", first, true)];
        two.services = vec![protected("b", "a.example.com", second, true)];
        in_turns(&mut one, &mut two, 2);
        assert_eq!(in_turns(&mut one, &mut two, 20), 0, "they came to an end");
        let told = problem(&one, "a.example.com");
        assert!(told.contains(&format!("taken {what} over")), "{told}");
        assert_eq!(problem(&two, "a.example.com"), "");
        one.restart();
        assert_eq!(in_turns(&mut one, &mut two, 3), 0, "a restart does not begin it anew");
        // The other gives up.
        two.services.clear();
        two.patience.grace = Duration::ZERO;
        in_turns(&mut one, &mut two, 4);
        assert_eq!((problem(&one, "a.example.com").as_str(), one.rules().len()), ("", 2));
        assert!(one.rules()[0].ends_with("http://a:80"));
    }
}

#[test]
fn two_gates_with_one_name_stop_to_fight_and_try_again_once_an_hour() {
    for policies in [["staff", "p-twin"], ["", ""]] {
        let of = |name: &str, policy: &str| {
            let policies: Vec<&str> = [policy].into_iter().filter(|policy| !policy.is_empty()).collect();
            vec![protected(name, "a.example.com", &policies, false)]
        };
        let mut one = World::new(Value::Null);
        let mut two = one.clone();
        one.services = of("a", policies[0]);
        two.services = of("b", policies[1]);
        // Each knows it as its own.
        one.round();
        two.round();
        two.actual = one.actual.clone();
        in_turns(&mut one, &mut two, 6);
        let fighting = in_turns(&mut one, &mut two, 6);
        assert!(fighting <= 1, "{fighting} changes, {policies:?}");
        let told = problem(&one, "a.example.com") + &problem(&two, "a.example.com");
        assert!(told.contains("somebody else keeps changing"), "{told}");
        let later = in_turns(&mut one, &mut two, 72);
        assert!(later <= 26, "{later} changes in six hours, {policies:?}");
        assert!(!one.tampered.is_empty() && !two.tampered.is_empty());
        // It ends by itself with the other.
        for _ in 0..30 {
            one.wait(5);
            one.round();
        }
        assert_eq!(problem(&one, "a.example.com"), "");
        assert!(one.rules()[0].ends_with("http://a:80"), "{:?}", one.rules());
    }
}

#[test]
fn a_restart_does_not_begin_a_fight_anew() {
    let mut one = World::new(Value::Null);
    let mut two = one.clone();
    one.services = vec![protected("a", "a.example.com", &[], false)];
    two.services = vec![protected("b", "a.example.com", &[], false)];
    one.round();
    two.round();
    two.actual = one.actual.clone();
    // Each is restarted after every turn, as by somebody who hopes that it helps.
    let mut changes = 0;
    for _ in 0..12 {
        changes += in_turns(&mut one, &mut two, 1);
        one.restart();
        two.restart();
    }
    assert!(changes <= 8, "{changes} changes in two hours");
    in_turns(&mut one, &mut two, 1);
    let told = problem(&one, "a.example.com") + &problem(&two, "a.example.com");
    assert!(told.contains("somebody else keeps changing"), "{told}");
}

#[test]
fn what_is_edited_by_hand_now_and_then_is_made_good() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    for _ in 0..8 {
        world.edit_rules(|rules| rules[0]["service"] = json!("http://hand:1"));
        world.round();
        assert!(world.rules()[0].ends_with("http://a:80"), "{:?}", world.rules());
        world.wait(61);
    }
    assert_eq!(world.tampered.len(), 8);
}

#[test]
fn an_answer_that_is_lost_is_nobody_elses_doing() {
    let mut world = World::new(Value::Null);
    let https = Settings { scheme: "https", ..Settings::default() };
    for services in [
        vec![protected("a", "a.example.com", &["staff"], false), plain("b", "b.example.com")],
        vec![protected("a", "a.example.com", &["p-twin"], false), service("b", "b.example.com", https)],
        vec![],
    ] {
        world.patience.grace = Duration::ZERO;
        world.services = services;
        world.cuts = true;
        for _ in 0..8 {
            world.round();
            world.restart();
        }
        world.cuts = false;
        world.round();
        assert_eq!((world.tampered.as_slice(), world.preview().steps.len()), (&[][..], 0));
    }
    assert_eq!(world.rules().len(), 1);
}

#[test]
fn every_removal_counts() {
    let hosts = ["a", "b", "c", "d"].map(|name| format!("{name}.example.com"));
    let mut world = World::new(Value::Null);
    let with = |policies: &[&str]| hosts.iter().map(|host| protected("s", host, policies, false)).collect();
    world.services = with(&["staff"]);
    world.round();
    world.patience.most = 2;
    world.services = with(&[]);
    world.services.pop();
    world.patience.grace = Duration::ZERO;
    let mut left = Vec::new();
    for minutes in [0, 1, 5, 5] {
        world.wait(minutes);
        world.round();
        left.push((world.access().apps.len(), world.rules().len() - 1));
    }
    // The one that nobody asks for first, and another with it.
    assert_eq!(left, [(2, 3), (2, 3), (0, 3), (0, 3)]);
    // Paths of hostnames that stay.
    let path = |name: &str, host: &str| {
        service(name, host, Settings { path: Some("^/x".into()), ..Settings::default() })
    };
    world.services.extend(hosts[..3].iter().map(|host| path("p", host)));
    world.round();
    assert_eq!(world.rules().len(), 7);
    world.services.truncate(3);
    world.wait(10);
    world.round();
    assert_eq!(world.rules().len(), 5, "two of three");
    assert_eq!(
        world
            .preview()
            .hosts
            .values()
            .filter(|stand| stand.notes.iter().any(|note| note.contains("max_deletions")))
            .count(),
        1
    );
    world.wait(5);
    world.round();
    assert_eq!(world.rules().len(), 4);
}

#[test]
fn who_is_not_heard_of_after_a_restart_is_not_gone_however_long_that_was() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com"), plain("b", "b.example.com")];
    world.services.push(service(
        "c",
        "b.example.com",
        Settings { path: Some("^/c".into()), ..Settings::default() },
    ));
    world.round();
    world.services.retain(|published| &*published.service.name == "b");
    world.round();
    // Cloudflare is away when the grace ends.
    world.wait(31);
    world.watch();
    world.restart();
    world.answering = false;
    world.services.push(plain("new", "a.example.com"));
    for _ in 0..3 {
        world.round();
        world.wait(60);
    }
    assert_eq!(world.rules().len(), 4);
    assert_eq!(world.rules()[0], "a.example.com -> http://a:80", "and nobody else gets it");
    world.services.pop();
    world.answering = true;
    world.round();
    world.round();
    assert_eq!(world.rules(), ["b.example.com -> http://b:80", " -> http_status:404"]);
}

#[test]
fn what_belongs_to_nobody_known_waits_for_all_who_ever_had_something() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com"), plain("b", "b.example.com")];
    world.round();
    world.memory = Default::default();
    world.services = vec![plain("b", "b.example.com")];
    world.round();
    world.round();
    // The Swarm is known to have something, and is not heard of; others are.
    world.silent = Some("swarm");
    for _ in 0..3 {
        world.wait(31);
        world.round();
    }
    assert_eq!(world.rules().len(), 3);
    world.silent = None;
    world.wait(31);
    world.round();
    world.wait(31);
    world.round();
    assert_eq!(world.rules().len(), 2);
}

#[test]
fn many_hostnames_take_few_plans() {
    let mut world = World::new(Value::Null);
    world.services = (0..300)
        .map(|n| protected(&format!("s{n}"), &format!("s{n}.example.com"), &["staff"], false))
        .collect();
    world.round();
    assert_eq!((world.plans, world.puts, world.rules().len()), (4, 1, 301));
    world.broken = (0..50).map(|n| Some(format!("s{n}.example.com"))).collect();
    for published in &mut world.services {
        published.publications[0].settings.access = vec!["p-twin".to_owned()];
    }
    let plan = world.round();
    assert!(world.plans <= 3, "{} plans", world.plans);
    let failed = plan.hosts.values().filter(|stand| matches!(stand.standing, Standing::Failed(_)));
    assert_eq!(failed.count(), 50);
}
