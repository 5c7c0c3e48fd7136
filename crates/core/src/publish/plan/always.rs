//! Whatever happens: what others made stays, and what is ours becomes what is wanted.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::model::{World, app, plain, service};
use super::{Plan, Standing};
use crate::publish::actual::{App, Record, Tag};
use crate::publish::rule::Written;
use crate::publish::{Published, Settings};

const OURS: &str = "managed-by=swarmgate instance=home tunnel=f70ff985";
const RELEASED: &str = "released-by=swarmgate instance=home tunnel=f70ff985";
const TAG: &str = "swarmgate-home-f70ff985";

/// What can happen to services, to Cloudflare and to the gate.
#[derive(Debug, Clone)]
enum Happens {
    Comes(usize),
    Goes(usize),
    Breaks(usize),
    BreaksTunnel,
    Mends,
    Ends(usize),
    Restarts,
    Waits(u64),
    IsSilent(bool),
    LosesAnswers(bool),
    /// Somebody lets a record of ours lead elsewhere.
    Repoints(usize),
    /// Somebody makes a rule for one of our hostnames.
    AddsRule(usize),
    /// Somebody adds a hostname to an application of ours.
    WidensApp,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => (0..KINDS).prop_map(Happens::Comes),
        5 => (0..KINDS).prop_map(Happens::Goes),
        2 => (0..KINDS).prop_map(Happens::Breaks),
        2 => Just(Happens::BreaksTunnel),
        3 => Just(Happens::Mends),
        2 => (0_usize..4).prop_map(Happens::Ends),
        2 => Just(Happens::Restarts),
        4 => (0_u64..40).prop_map(Happens::Waits),
        2 => any::<bool>().prop_map(Happens::IsSilent),
        2 => any::<bool>().prop_map(Happens::LosesAnswers),
        1 => (0..KINDS).prop_map(Happens::Repoints),
        1 => (0..KINDS).prop_map(Happens::AddsRule),
        1 => Just(Happens::WidensApp),
    ]
}

const KINDS: usize = 7;

fn kind(index: usize) -> Published {
    let protected = Settings { access: vec!["staff".to_owned()], ..Settings::default() };
    match index {
        0 => plain("a", "a.example.com,*.example.com"),
        1 => service("b", "b.example.com", protected),
        2 => service("c", "c.dev.example.com", Settings { delete_dns: true, ..Settings::default() }),
        3 => service("d", "a.example.com", Settings { path: Some("^/d".into()), ..Settings::default() }),
        4 => service("e", "e.example.org", Settings { dns: false, ..Settings::default() }),
        5 => service("g", "g.example.com", Settings { path: Some("^/g".into()), ..protected }),
        _ => plain("f", "foreign.example.com,f.foreign.example.com"),
    }
}

/// Rules of others, some of which are in the way of ours, or at the same hostname.
fn foreign_rules() -> impl Strategy<Value = Vec<Value>> {
    let rule = prop::sample::select(vec![
        json!({"hostname": "foreign.example.com", "service": "http://x:1", "originRequest": {"n": 1.0}}),
        json!({"hostname": "*.example.com", "path": "/x", "service": "http://x:2"}),
        json!({"hostname": "*.dev.example.com", "service": "http://x:3"}),
        json!({"hostname": "*.foreign.example.com", "service": "ssh://x:4", "zz": {"b": 1, "a": 2}}),
        json!({"hostname": "a.example.com", "path": "^/d/deep", "service": "http://x:5"}),
        json!({"hostname": "Odd.example.com.", "service": "http_status:410"}),
        json!({"path": "/all", "service": "http://x:6"}),
        json!({"hostname": "a.example.com", "service": "http://x:7"}),
        json!({"hostname": "a.example.com", "path": "^/hand", "service": "http://x:8"}),
        json!({"hostname": "b.example.com", "path": "^/hand", "service": "http://x:9"}),
        json!({"hostname": "c.dev.example.com", "service": "http://c:80"}),
        json!({"hostname": "g.example.com", "service": "http://x:10"}),
    ]);
    prop::collection::vec(rule, 0..6)
}

/// Records of others, at hostnames of ours: by name, content and comment.
fn foreign_records() -> impl Strategy<Value = Vec<(&'static str, &'static str, &'static str)>> {
    let record = prop::sample::select(vec![
        ("a.example.com", "elsewhere.example.net", OURS),
        ("b.example.com", "elsewhere.example.net", RELEASED),
        ("c.dev.example.com", "elsewhere.example.net", ""),
        ("f.foreign.example.com", "TUNNEL.cfargotunnel.com", ""),
        (
            "f.foreign.example.com",
            "TUNNEL.cfargotunnel.com",
            "managed-by=swarmgate instance=other tunnel=f70ff985",
        ),
        ("g.example.com", "TUNNEL.cfargotunnel.com", RELEASED),
    ]);
    prop::collection::btree_map(0..6_usize, record, 0..3).prop_map(|records| {
        let mut records: Vec<_> = records.into_values().collect();
        records.sort_unstable();
        records.dedup_by_key(|(name, ..)| *name);
        records
    })
}

/// Applications of others, some of them for hostnames of ours, too.
fn foreign_apps() -> impl Strategy<Value = Vec<App>> {
    let wide = json!({"type": "self_hosted", "domain": "b.example.com", "policies": ["p-staff"], "tags": [TAG],
        "destinations": [{"type": "public", "uri": "b.example.com"}, {"type": "public", "uri": "other.example.com"}]});
    let apps = vec![
        app("theirs", r#"{"type":"self_hosted","domain":"foreign.example.com","policies":["x"], "z":1.50}"#),
        app("wide", &wide.to_string()),
        app(
            "open",
            r#"{"type":"self_hosted","domain":"g.example.com","policies":[{"id":"x","decision":"bypass"}]}"#,
        ),
    ];
    prop::sample::subsequence(apps, 0..=3)
}

/// What others have made, byte for byte.
#[derive(Debug)]
struct Foreign {
    rules: Vec<String>,
    records: Vec<Record>,
    apps: Vec<App>,
}

fn leads_here(record: &Record) -> bool {
    record.content.ends_with(".cfargotunnel.com")
}

fn records(world: &World) -> impl Iterator<Item = &Record> {
    world.actual.records.values().flat_map(|records| records.iter().flatten())
}

impl Foreign {
    fn is_as_it_was(&self, world: &World) -> Result<(), TestCaseError> {
        let config = world.actual.configuration.config.clone().unwrap();
        let read: Value = serde_json::from_str(&config).unwrap();
        prop_assert!(
            config.contains(r#""b":1.0"#) && config.contains(r#""a":{"z":1,"y":[1000.0]}"#),
            "{}",
            config
        );
        let texts = world.ingress().rules().iter().map(|rule| rule.text.clone()).collect::<Vec<_>>();
        let left: Vec<&String> = texts.iter().filter(|text| self.rules.contains(text)).collect();
        prop_assert_eq!(left, self.rules.iter().collect::<Vec<_>>());
        prop_assert_eq!(&read["ingress"].as_array().unwrap().last().unwrap()["service"], "http_status:503");
        for record in &self.records {
            prop_assert!(records(world).any(|there| there == record), "{record:?}");
        }
        let access = world.actual.access.as_ref().unwrap();
        for app in &self.apps {
            prop_assert!(access.apps.contains(app), "{}", app.raw);
        }
        Ok(())
    }

    /// Somebody does something by hand.
    fn change(&mut self, world: &mut World, event: &Happens) {
        match event {
            Happens::Repoints(index) => {
                let name = kind(*index).publications[0].hosts[0].to_string();
                let all = world.actual.records.values_mut().flat_map(|records| records.iter_mut().flatten());
                for record in
                    all.filter(|record| record.name == name && record.comment.as_deref() == Some(OURS))
                {
                    record.content = "elsewhere.example.net".to_owned();
                    self.records.retain(|other| other.id != record.id);
                    self.records.push(record.clone());
                }
            }
            Happens::AddsRule(index) => {
                let host = kind(*index).publications[0].hosts[0].to_string();
                let rule = json!({"hostname": host, "path": "^/by-hand", "service": "http://hand:1"});
                if !self.rules.contains(&rule.to_string()) {
                    self.rules.insert(0, rule.to_string());
                    world.edit_rules(|rules| rules.insert(0, rule));
                }
            }
            Happens::WidensApp => {
                for there in &mut world.access().apps {
                    if there.domain.as_deref() == Some("b.example.com") && !self.apps.contains(there) {
                        let mut fields: Value = serde_json::from_str(&there.raw).unwrap();
                        let more = json!({"type": "public", "uri": "more.example.com"});
                        fields["destinations"].as_array_mut().unwrap().push(more);
                        *there = app(&there.id, &fields.to_string());
                        self.apps.push(there.clone());
                    }
                }
            }
            Happens::Comes(_)
            | Happens::Goes(_)
            | Happens::Breaks(_)
            | Happens::BreaksTunnel
            | Happens::Mends
            | Happens::Ends(_)
            | Happens::Restarts
            | Happens::Waits(_)
            | Happens::IsSilent(_)
            | Happens::LosesAnswers(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn whatever_happens_foreign_things_stay_and_ours_become_what_is_wanted(
        rules in foreign_rules(),
        others in foreign_records(),
        apps in foreign_apps(),
        history in prop::collection::vec(happens(), 0..25),
        first in prop::collection::btree_set(0..KINDS, 0..KINDS),
    ) {
        let texts = rules.iter().map(Value::to_string).collect();
        let all: Vec<Value> = rules.into_iter().chain([json!({"service": "http_status:503"})]).collect();
        let mut world = World::new(json!({"b": 1.0, "ingress": all, "a": {"z": 1, "y": [1e3]}}));
        world.add_record("example.com", "foreign.example.com", "CNAME", "TUNNEL.cfargotunnel.com");
        world.add_record("example.org", "e.example.org", "A", "192.0.2.1");
        for (name, content, comment) in others {
            let zone = if name.contains(".dev.") { "dev.example.com" } else { "example.com" };
            world.add_record(zone, name, "CNAME", content);
            world.record(name).comment = (!comment.is_empty()).then(|| comment.to_owned());
        }
        world.access().apps.clone_from(&apps);
        world.access().tags.push(Tag { name: "theirs".into() });
        // What the gate let go of and nobody has touched is taken back.
        let is_released = |record: &&Record| record.comment.as_deref() == Some(RELEASED) && leads_here(record);
        let theirs = records(&world).filter(|record| !is_released(record)).cloned().collect();
        let mut foreign = Foreign { rules: texts, records: theirs, apps };
        world.services = first.into_iter().map(kind).collect();

        for event in history {
            foreign.change(&mut world, &event);
            match event {
                Happens::Comes(index) if !world.services.contains(&kind(index)) => world.services.push(kind(index)),
                Happens::Goes(index) => world.services.retain(|service| *service != kind(index)),
                Happens::Breaks(index) => {
                    let host = kind(index).publications[0].hosts[0].to_string();
                    world.broken.insert(Some(host));
                }
                Happens::BreaksTunnel => drop(world.broken.insert(None)),
                Happens::Mends => world.broken.clear(),
                Happens::Ends(lives) => world.lives = lives,
                Happens::Restarts => world.restart(),
                Happens::Waits(minutes) => world.wait(minutes),
                Happens::IsSilent(silent) => world.answering = !silent,
                Happens::LosesAnswers(loses) => world.cuts = loses,
                Happens::Comes(_) | Happens::Repoints(_) | Happens::AddsRule(_) | Happens::WidensApp => {}
            }
            world.round();
            foreign.is_as_it_was(&world)?;
            check_protected(&world)?;
        }

        world.broken.clear();
        world.cuts = false;
        world.restart();
        world.answering = true;
        for _ in 0..4 {
            world.round();
            world.wait(31);
        }
        let plan = world.round();
        prop_assert_eq!(&plan.steps, &vec![]);
        foreign.is_as_it_was(&world)?;
        check_order(&world)?;
        check_ours(&world, &foreign, &plan)?;
    }
}

/// What is ours is what is wanted and possible, and nothing else.
fn check_ours(world: &World, foreign: &Foreign, plan: &Plan) -> Result<(), TestCaseError> {
    for (host, stand) in &plan.hosts {
        let on_its_way = [Standing::Leaving, Standing::Withdrawing, Standing::Changing];
        prop_assert!(!on_its_way.contains(&stand.standing), "{host} {stand:?}");
    }
    let wanted = |host: &str, access: bool| {
        let mut asked = world.services.iter().flat_map(|service| &service.publications);
        asked.any(|asked| {
            asked.hosts.iter().any(|name| name.to_string() == host)
                && (!access || !asked.settings.access.is_empty())
        })
    };
    for rule in world.ingress().rules().iter().filter(|rule| !foreign.rules.contains(&rule.text)) {
        prop_assert!(wanted(&rule.key.as_ref().unwrap().host.to_string(), false), "{}", rule.text);
    }
    for key in plan.rules.keys() {
        prop_assert!(world.ingress().rules().iter().any(|rule| rule.key.as_ref() == Some(key)), "{key}");
    }
    for record in
        records(world).filter(|record| record.comment.as_deref() == Some(OURS) && leads_here(record))
    {
        prop_assert!(wanted(&record.name, false), "{record:?}");
    }
    for app in &world.actual.access.as_ref().unwrap().apps {
        let host = app.domain.clone().unwrap();
        let ours = app.tags.iter().any(|tag| tag == TAG) && !foreign.apps.contains(app);
        let beside = foreign.rules.iter().any(|rule| rule.contains(&format!("\"{host}\"")));
        prop_assert!(!ours || beside || wanted(&host, true), "{}", app.raw);
    }
    for (host, _) in plan.hosts.iter().filter(|(_, stand)| stand.standing == Standing::Published) {
        let name = host.to_string();
        let found = records(world).any(|record| record.name == name && leads_here(record));
        prop_assert!(found || name == "e.example.org", "{name}");
    }
    Ok(())
}

/// Whoever reaches a protected service has an application in front.
fn check_protected(world: &World) -> Result<(), TestCaseError> {
    let apps = &world.actual.access.as_ref().unwrap().apps;
    for name in ["b", "g"] {
        let reachable = world.rules().iter().any(|rule| rule.ends_with(&format!(" -> http://{name}:80")));
        let host = format!("{name}.example.com");
        prop_assert!(!reachable || apps.iter().any(|app| app.domain.as_ref() == Some(&host)), "{host}");
    }
    Ok(())
}

/// No rule of ours is behind one that takes its requests, or before a foreign one whose requests it would take.
fn check_order(world: &World) -> Result<(), TestCaseError> {
    let ingress = world.ingress();
    for (at, rule) in ingress.rules().iter().enumerate() {
        for later in &ingress.rules()[at + 1..] {
            let ours = |rule: &Written| world.memory.wrote(rule);
            if rule.matcher.covers(&later.matcher) {
                prop_assert!(!ours(later) && !ours(rule), "{} takes what is for {}", rule.text, later.text);
            }
        }
    }
    Ok(())
}
