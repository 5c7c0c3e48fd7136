//! Several services at one hostname, of which some come, go, or are not heard of.

use std::time::Duration;

use serde_json::Value;

use super::Standing;
use super::model::{World, plain, service};
use crate::name::HostPattern;
use crate::publish::{Published, Settings};

fn protected_path(name: &str, path: &str) -> Published {
    let access = vec!["staff".to_owned()];
    service(name, "h.example.com", Settings { path: Some(path.to_owned()), access, ..Settings::default() })
}

fn two() -> World {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "h.example.com"), protected_path("b", "^/b")];
    world.round();
    assert_eq!((world.rules().len(), world.access().apps.len()), (3, 1));
    world
}

#[test]
fn what_one_of_several_had_stays_through_its_grace() {
    let mut world = two();
    let b = world.services.pop().unwrap();
    for minutes in [0, 29] {
        world.wait(minutes);
        world.round();
        assert_eq!((world.rules().len(), world.access().apps.len()), (3, 1));
        world.restart();
    }
    // What the other asks for is followed all the while.
    world.services[0] = service("a", "h.example.com", Settings { scheme: "https", ..Settings::default() });
    world.round();
    assert_eq!(world.rules()[1], "h.example.com -> https://a:80");
    world.services.push(b);
    world.round();
    world.services.pop();
    world.round();
    world.wait(31);
    world.round();
    world.round();
    assert_eq!((world.rules().len(), world.access().apps.len()), (2, 0));
}

#[test]
fn what_one_of_several_had_stays_while_it_is_unclear_or_unheard_of() {
    let mut world = two();
    world.services[1].publications.clear();
    world.services[1].unclear = true;
    let mut silent = two();
    silent.services.pop();
    silent.answering = false;
    for mut world in [world, silent] {
        for _ in 0..3 {
            world.round();
            world.wait(60);
        }
        assert_eq!((world.rules().len(), world.access().apps.len()), (3, 1));
    }
}

#[test]
fn nobody_gets_what_is_being_made_anew() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("b", "h.example.com")];
    world.round();
    world.services.push(plain("a", "h.example.com"));
    world.round();
    let b = world.services.remove(0);
    world.round();
    world.wait(1);
    let plan = world.round();
    assert_eq!(world.rules()[0], "h.example.com -> http://b:80");
    assert_eq!(plan.hosts.values().next().unwrap().standing, Standing::Leaving);
    world.services.push(b);
    world.round();
    world.services.pop();
    world.round();
    // It is not made anew, it is gone: it was replaced by the other.
    world.wait(3);
    world.round();
    world.round();
    assert_eq!(world.rules()[0], "h.example.com -> http://a:80");
    assert_eq!(world.rules().len(), 2);
}

#[test]
fn nobody_gets_what_is_not_heard_of() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("b", "h.example.com")];
    world.round();
    world.services = vec![plain("a", "h.example.com")];
    world.answering = false;
    for _ in 0..3 {
        world.restart();
        world.wait(60);
        world.round();
    }
    assert_eq!(world.rules()[0], "h.example.com -> http://b:80");
}

#[test]
fn the_first_look_removes_nothing_at_all() {
    let mut world = two();
    world.services.push(service("c", "c.example.com", Settings::default()));
    world.round();
    world.memory = Default::default();
    world.services = vec![
        plain("a", "h.example.com"),
        service("c", "c.example.com", Settings { dns: false, ..Settings::default() }),
    ];
    let before = (world.rules(), world.records(), world.access().apps.clone());
    world.round();
    assert_eq!((world.rules(), world.records(), world.access().apps.clone()), before);
    // Somebody else may have asked for it, and has the grace to come back.
    world.wait(29);
    world.round();
    assert_eq!(world.access().apps.len(), 1);
    world.wait(31);
    world.round();
    world.round();
    assert_eq!(world.access().apps.len(), 0);
}

#[test]
fn the_first_look_of_another_build_removes_nothing() {
    let mut world = two();
    world.services.push(service("c", "c.example.com", Settings::default()));
    world.round();
    world.services.clear();
    world.patience.grace = Duration::ZERO;
    world.restart();
    world.build = "2";
    let before = (world.rules(), world.records(), world.access().apps.clone());
    world.round();
    assert_eq!((world.rules(), world.records(), world.access().apps.clone()), before);
    world.restart();
    world.round();
    assert_eq!(
        world.rules(),
        [" -> http_status:404"],
        "the second of it does, and so would that of the same build"
    );
}

#[test]
fn time_in_which_nothing_was_known_is_no_absence() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    let all = std::mem::take(&mut world.services);
    world.round();
    // Back and gone again while Cloudflare is away.
    world.services = all.clone();
    world.watch();
    world.wait(40);
    world.services.clear();
    world.watch();
    world.round();
    assert_eq!(world.rules().len(), 2);
    // A source that was silent is not credited with that.
    world.answering = false;
    world.watch();
    world.wait(40);
    world.answering = true;
    world.watch();
    world.round();
    assert_eq!(world.rules().len(), 2);
    world.wait(31);
    world.round();
    assert_eq!(world.rules().len(), 1);
}

#[test]
fn failing_withdrawals_do_not_keep_the_others() {
    let mut world = World::new(Value::Null);
    world.services = (0..4).map(|n| plain(&format!("s{n}"), &format!("s{n}.example.com"))).collect();
    world.round();
    world.services.clear();
    world.patience = crate::publish::memory::Patience { grace: Duration::ZERO, most: 2 };
    world.broken = ["s0.example.com", "s1.example.com"].map(|host| Some(host.to_owned())).into();
    world.round();
    assert_eq!(world.rules().len(), 5);
    world.wait(5);
    world.round();
    assert_eq!(world.rules().len(), 3, "the others had their turn");
}

#[test]
fn policies_are_followed_although_the_record_cannot_be_read() {
    let mut world = World::new(Value::Null);
    let with = |policies: &[&str]| {
        let access = policies.iter().map(|policy| (*policy).to_owned()).collect();
        vec![service("a", "a.example.com", Settings { access, ..Settings::default() })]
    };
    world.services = with(&["staff", "p-twin"]);
    world.round();
    world.actual.records.insert("z-example.com".to_owned(), Err("it is away".to_owned()));
    world.services = with(&["staff"]);
    let plan = world.round();
    assert_eq!(world.access().apps[0].policies.len(), 1);
    let standing = &plan.hosts[&HostPattern::parse("a.example.com").unwrap()].standing;
    assert!(matches!(standing, Standing::Failed(_)), "{standing:?}");
    // Nothing is made for one that cannot be published.
    world.services = with(&["staff"]);
    world.services[0].publications[0].hosts = vec![HostPattern::parse("new.example.com").unwrap()];
    world.round();
    assert_eq!(world.access().apps.len(), 1);
}

#[test]
fn every_path_is_no_path() {
    let mut world = World::new(Value::Null);
    let at = |name: &str, path: &str| {
        service(name, "h.example.com", Settings { path: Some(path.to_owned()), ..Settings::default() })
    };
    world.services = vec![plain("a", "h.example.com"), at("b", "/"), at("c", "^/")];
    world.round();
    assert_eq!(world.rules(), ["h.example.com -> http://a:80", " -> http_status:404"]);
}
