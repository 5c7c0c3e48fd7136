use std::time::Duration;

use serde_json::{Value, json};

use super::Standing;
use super::model::{TUNNEL, World, app, plain, service};
use crate::name::HostPattern;
use crate::publish::Settings;
use crate::publish::actual::Step;

const OURS: &str = "managed-by=swarmgate instance=home tunnel=f70ff985";
const RELEASED: &str = "released-by=swarmgate instance=home tunnel=f70ff985";

fn protected(name: &str, hosts: &str, policies: &[&str]) -> crate::publish::Published {
    let access = policies.iter().map(|policy| (*policy).to_owned()).collect();
    service(name, hosts, Settings { access, ..Settings::default() })
}

fn standing(world: &World, host: &str) -> Standing {
    world.preview().hosts[&HostPattern::parse(host).unwrap()].standing.clone()
}

fn problem(world: &World, host: &str) -> String {
    standing(world, host).problem().unwrap_or_default().to_owned()
}

#[test]
fn a_plan_publishes_in_order_and_prints_itself() {
    let mut world = World::new(Value::Null);
    world.services = vec![protected("shop", "shop.example.com", &["staff"]), plain("api", "api.example.com")];
    let plan = world.preview();
    assert_eq!(
        plan.to_string().lines().collect::<Vec<_>>(),
        [
            "+ access  tag swarmgate-home-f70ff985",
            "+ access  shop.example.com (policies: staff)",
            "+ tunnel  api.example.com -> http://api:80",
            "+ tunnel  shop.example.com -> http://shop:80",
            &format!("+ dns     api.example.com CNAME {TUNNEL}.cfargotunnel.com ({OURS})"),
            &format!("+ dns     shop.example.com CNAME {TUNNEL}.cfargotunnel.com ({OURS})"),
        ]
    );
    world.round();
    assert_eq!(world.puts, 1);
    assert_eq!(
        world.rules(),
        ["api.example.com -> http://api:80", "shop.example.com -> http://shop:80", " -> http_status:404"]
    );
    assert_eq!(world.preview().steps, []);
    assert_eq!(standing(&world, "shop.example.com"), Standing::Published);
    assert_eq!(world.preview().views()[0].state, "published");
}

#[test]
fn what_is_withdrawn_goes_the_other_way_round_after_its_grace() {
    let mut world =
        World::new(json!({"ingress": [{"service": "http_status:503"}], "warp-routing": {"enabled": true}}));
    let deleting = Settings { delete_dns: true, access: vec!["staff".into()], ..Settings::default() };
    world.services = vec![service("a", "a.example.com", deleting), plain("b", "b.example.com")];
    world.round();
    world.services.clear();
    for minutes in [0, 29] {
        world.wait(minutes);
        assert_eq!(world.round().steps, []);
        assert_eq!(world.rules().len(), 3, "the grace is not over");
    }
    world.restart();
    assert_eq!(standing(&world, "a.example.com"), Standing::Leaving);
    let views = world.preview().views();
    let how_long = "nobody has asked for it for 29m; it is withdrawn in 1m if nobody does";
    assert_eq!(views[0].notes, [how_long]);
    world.round();
    world.wait(2);
    world.lives = 0;
    let plan = world.round();
    assert_eq!(
        plan.to_string().lines().collect::<Vec<_>>(),
        [
            "- dns     a.example.com",
            &format!("~ dns     b.example.com CNAME {TUNNEL}.cfargotunnel.com ({RELEASED})"),
            "- tunnel  a.example.com -> http://a:80",
            "- tunnel  b.example.com -> http://b:80",
            "- access  a.example.com",
        ]
    );
    world.lives = 9;
    world.round();
    assert_eq!(world.rules(), [" -> http_status:503"]);
    assert_eq!(world.records(), [format!("b.example.com CNAME TUNNEL.cfargotunnel.com {RELEASED}")]);
    assert_eq!(world.access().apps.len(), 0);
    assert!(world.preview().hosts.is_empty() || world.round().hosts.is_empty());
    // One that comes back takes its record back.
    world.services = vec![plain("b", "b.example.com")];
    world.round();
    assert_eq!(world.records(), [format!("b.example.com CNAME TUNNEL.cfargotunnel.com {OURS}")]);
}

#[test]
fn one_who_comes_back_in_time_or_whose_source_is_silent_is_not_gone() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    let all = std::mem::take(&mut world.services);
    world.round();
    world.wait(29);
    world.services = all;
    world.round();
    world.services.clear();
    world.round();
    world.wait(29);
    world.round();
    assert_eq!(world.rules().len(), 2, "the grace began anew");
    world.answering = false;
    for _ in 0..3 {
        world.wait(60);
        world.round();
    }
    assert_eq!(world.rules().len(), 2, "nobody knows whether it is gone");
}

#[test]
fn a_service_whose_labels_are_not_understood_any_more_is_not_gone() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    world.services[0].publications.clear();
    world.services[0].unclear = true;
    for _ in 0..3 {
        world.wait(60);
        world.round();
    }
    assert_eq!(world.rules().len(), 2);
}

#[test]
fn the_first_look_without_memory_withdraws_nothing_and_later_ones_know_the_marks() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com"), protected("b", "b.example.com", &["staff"])];
    world.round();
    world.memory = Default::default();
    world.services.remove(0);
    world.patience.grace = Duration::ZERO;
    assert_eq!(world.round().steps, []);
    assert_eq!(world.rules().len(), 3);
    world.round();
    assert_eq!(world.rules(), ["b.example.com -> http://b:80", " -> http_status:404"]);
}

#[test]
fn so_many_are_withdrawn_at_a_time() {
    let mut world = World::new(Value::Null);
    world.services = (0..5).map(|n| plain(&format!("s{n}"), &format!("s{n}.example.com"))).collect();
    world.round();
    world.services.clear();
    world.patience.grace = Duration::ZERO;
    world.patience.most = 2;
    let left: Vec<usize> = (0..4)
        .map(|_| {
            world.round();
            world.round();
            world.wait(5);
            world.rules().len() - 1
        })
        .collect();
    assert_eq!(left, [3, 1, 0, 0]);
}

#[test]
fn what_fails_to_be_protected_is_not_public() {
    // Never published before.
    let mut world = World::new(Value::Null);
    world.services = vec![protected("a", "a.example.com", &["staff"]), plain("b", "b.example.com")];
    world.broken = [Some("a.example.com".to_owned())].into();
    world.round();
    assert_eq!(world.rules(), ["b.example.com -> http://b:80", " -> http_status:404"]);
    world.broken.clear();
    world.round();
    assert_eq!(world.rules().len(), 3);
    // Public, and now to be protected.
    for (policies, why) in [
        (vec!["stuff"], "there is no reusable policy \"stuff\"; did you mean \"staff\"?"),
        (vec!["twin"], "2 policies have the name \"twin\"; write an id"),
    ] {
        let mut world = World::new(Value::Null);
        world.services = vec![plain("a", "a.example.com")];
        world.round();
        world.services = vec![protected("a", "a.example.com", &policies)];
        let plan = world.round();
        assert_eq!(world.rules(), [" -> http_status:404"]);
        assert_eq!(plan.hosts.values().next().unwrap().standing, Standing::Failed(why.to_owned()));
        world.services = vec![plain("a", "a.example.com")];
        world.round();
        assert_eq!(world.rules().len(), 2, "mended");
    }
}

#[test]
fn policies_are_followed_and_kept_where_the_new_ones_are_unknown() {
    let mut world = World::new(Value::Null);
    world.services = vec![protected("a", "a.example.com", &["staff"])];
    world.round();
    let ids = |world: &mut World| -> Vec<String> {
        world.access().apps.iter().flat_map(|app| &app.policies).map(|policy| policy.id.clone()).collect()
    };
    assert_eq!(ids(&mut world), ["p-staff"]);
    world.services = vec![protected("a", "a.example.com", &["p-all", "staff"])];
    assert_eq!(world.round().hosts.values().next().unwrap().notes, ["the policy all lets everybody in"]);
    assert_eq!(ids(&mut world), ["p-all", "p-staff"]);
    world.services = vec![protected("a", "a.example.com", &["staff", "p-twin"])];
    world.round();
    world.services = vec![protected("a", "a.example.com", &["nobody"])];
    world.round();
    assert_eq!((ids(&mut world).len(), world.rules().len()), (2, 2), "as it was");
    let access = std::mem::replace(&mut world.actual.access, Err("it is away".to_owned()));
    world.services = vec![protected("a", "a.example.com", &["staff"])];
    world.round();
    assert_eq!(world.rules().len(), 2, "it was protected when last seen");
    world.actual.access = access;
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    assert_eq!(ids(&mut world), Vec::<String>::new());
    world.actual.access = Err("it is away again".to_owned());
    world.services = vec![protected("a", "a.example.com", &["staff"])];
    world.round();
    assert_eq!(world.rules().len(), 1, "it was not protected when last seen");
}

#[test]
fn the_connector_asks_for_tokens_of_the_application() {
    let mut world = World::new(Value::Null);
    world.terms.team = Some("acme".to_owned());
    world.services = vec![protected("a", "a.example.com", &["staff"])];
    world.round();
    let aud = world.access().apps[0].aud.clone().unwrap();
    let config: Value = serde_json::from_str(world.actual.configuration.config.as_deref().unwrap()).unwrap();
    let access = json!({"required": true, "teamName": "acme", "audTag": [aud]});
    assert_eq!(config["ingress"][0]["originRequest"]["access"], access);
    assert_eq!(world.puts, 1);
}

#[test]
fn what_somebody_else_made_is_a_conflict_until_it_is_adopted() {
    let rule = json!({"hostname": "a.example.com", "service": "http://mine:1", "originRequest": {"x": 1.50}});
    let config = json!({"ingress": [rule, {"service": "http_status:404"}]});
    let adopting = |host: &str, access: &[&str]| {
        let access = access.iter().map(|policy| (*policy).to_owned()).collect();
        service("s", host, Settings { adopt: true, access, ..Settings::default() })
    };
    let mut world = World::new(config);
    world.add_record(
        "example.com",
        "b.example.com",
        "CNAME",
        "11111111-2222-3333-4444-555555555555.cfargotunnel.com",
    );
    world.add_record("example.com", "c.example.com", "A", "192.0.2.7");
    world.add_record("example.com", "d.example.com", "CNAME", "elsewhere.example.net");
    let foreign = app(
        "f",
        r#"{"type":"self_hosted","name":"By hand","domain":"e.example.com","logo_url":"x","policies":["q"]}"#,
    );
    world.access().apps.push(foreign);
    let before = world.actual.clone();
    let hosts = ["a", "b", "c", "d", "e"].map(|name| format!("{name}.example.com"));
    world.services = hosts.iter().map(|host| plain(host, host)).collect();
    world.services[4] = protected("e", &hosts[4], &["staff"]);
    world.round();
    assert_eq!(world.actual, before, "nothing is changed");
    for (host, why) in hosts.iter().zip([
        "somebody else made the tunnel's rule for a.example.com, which leads to http://mine:1",
        "a CNAME to the tunnel 11111111-2222-3333-4444-555555555555",
        "there is an A record to 192.0.2.7 for it",
        "a CNAME to elsewhere.example.net",
        "somebody else made its Access application, By hand",
    ]) {
        assert!(problem(&world, host).contains(why), "{}", problem(&world, host));
    }
    world.services = hosts.iter().map(|host| adopting(host, &[])).collect();
    world.services[4] = adopting(&hosts[4], &["staff"]);
    world.wait(3);
    world.round();
    world.round();
    for host in ["a.example.com", "b.example.com", "d.example.com", "e.example.com"] {
        assert_eq!(standing(&world, host), Standing::Published, "{host}");
    }
    assert!(problem(&world, "c.example.com").contains("A record"), "an address cannot become a tunnel");
    let adopted = &world.access().apps[0];
    assert_eq!((adopted.id.as_str(), adopted.policies[0].id.as_str()), ("f", "p-staff"));
    assert!(adopted.raw.contains("\"logo_url\":\"x\"") && adopted.name == "By hand", "{}", adopted.raw);
}

#[test]
fn what_swarmctl_left_is_as_it_should_be_already() {
    let rule = json!({"hostname": "a.example.com", "service": "http://a:80"});
    let mut world = World::new(json!({"ingress": [rule, {"hostname": "", "service": "http_status:404"}]}));
    world.add_record("example.com", "a.example.com", "CNAME", "TUNNEL.cfargotunnel.com");
    world.services = vec![plain("a", "a.example.com")];
    let plan = world.round();
    assert_eq!((world.puts, plan.hosts.values().next().unwrap().notes.len()), (0, 2));
    assert_eq!(standing(&world, "a.example.com"), Standing::Published);
    world.services.clear();
    world.patience.grace = Duration::ZERO;
    world.round();
    world.round();
    assert_eq!(world.rules().len(), 2, "it is still not ours");
}

#[test]
fn the_record_goes_into_the_zone_with_the_longest_name() {
    let mut world = World::new(Value::Null);
    world.services =
        vec![plain("a", "x.dev.example.com,y.z.dev.example.com,dev.example.com,*.example.org,x.other.net")];
    let there =
        Settings { zone: Some(crate::name::HostName::parse("example.com").unwrap()), ..Settings::default() };
    world.services.push(service("b", "b.dev.example.com", there));
    let plan = world.round();
    let of = |zone: &str| world.actual.records[zone].as_ref().unwrap().len();
    assert_eq!((of("z-dev.example.com"), of("z-example.com"), of("z-example.org")), (3, 1, 1));
    let notes = |host: &str| plan.hosts[&HostPattern::parse(host).unwrap()].notes.clone();
    assert!(notes("y.z.dev.example.com")[0].contains("Universal SSL"));
    assert_eq!((notes("dev.example.com").len(), notes("*.example.org").len()), (0, 0));
    assert!(problem(&world, "x.other.net").contains("it sees example.com, dev.example.com, example.org"));
}

#[test]
fn without_dns_there_is_no_record_and_an_old_one_is_let_go() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    world.services = vec![service("a", "a.example.com", Settings { dns: false, ..Settings::default() })];
    world.round();
    assert_eq!(world.records(), [format!("a.example.com CNAME TUNNEL.cfargotunnel.com {RELEASED}")]);
    assert_eq!((world.rules().len(), world.preview().steps), (2, vec![]));
}

#[test]
fn drift_is_mended_and_told() {
    let mut world = World::new(Value::Null);
    world.services = vec![plain("a", "a.example.com"), plain("b", "b.example.com")];
    world.round();
    world.actual.records.get_mut("z-example.com").unwrap().as_mut().unwrap().remove(0);
    let config = json!({"ingress": [{"hostname": "b.example.com", "service": "http://evil:1"}, {"service": "http_status:404"}]});
    world.actual.configuration.config = Some(config.to_string());
    world.actual.configuration.version = 9;
    world.round();
    assert_eq!(world.tampered, ["a.example.com", "b.example.com"]);
    assert_eq!(world.rules()[..2], ["a.example.com -> http://a:80", "b.example.com -> http://b:80"]);
    assert_eq!(world.records().len(), 2);
    world.round();
    assert_eq!(world.tampered.len(), 2, "each once");
}

#[test]
fn an_exclusive_gate_has_the_tunnel_to_itself() {
    let rule = json!({"hostname": "old.example.com", "path": "^/x", "service": "http://old:1"});
    let mut world = World::new(json!({"ingress": [rule, {"service": "http_status:503"}]}));
    world.add_record("example.com", "old.example.com", "CNAME", "TUNNEL.cfargotunnel.com");
    world.add_record("example.com", "mail.example.com", "CNAME", "elsewhere.example.net");
    world.terms.exclusive = true;
    world.terms.delete_dns = true;
    world.services = vec![plain("a", "a.example.com")];
    world.round();
    world.wait(10);
    world.round();
    assert_eq!(world.rules().len(), 3, "it has its grace, too");
    world.wait(30);
    world.round();
    assert_eq!(world.rules(), ["a.example.com -> http://a:80", " -> http_status:503"]);
    assert_eq!(
        world.records(),
        [
            format!("a.example.com CNAME TUNNEL.cfargotunnel.com {OURS}"),
            "mail.example.com CNAME elsewhere.example.net -".into()
        ]
    );
}

#[test]
fn two_gates_on_one_tunnel_leave_each_other_alone() {
    let mut one = World::new(Value::Null);
    let mut two = one.clone();
    two.terms = super::Terms::new(TUNNEL, "other");
    one.services = vec![plain("a", "a.example.com"), plain("c", "c.example.com")];
    two.services = vec![plain("b", "b.example.com"), plain("z", "c.example.com")];
    for _ in 0..3 {
        one.round();
        two.actual = one.actual.clone();
        two.round();
        one.actual = two.actual.clone();
    }
    assert_eq!((one.puts, two.puts), (1, 1), "they do not fight");
    assert_eq!(one.rules().len(), 4);
    assert!(problem(&two, "c.example.com").contains("instance=home"), "{}", problem(&two, "c.example.com"));
}

#[test]
fn a_rule_of_ours_that_fits_nowhere_is_told() {
    let rules = json!([
        {"hostname": "*.example.com", "service": "http://all:1"},
        {"hostname": "a.b.example.com", "service": "http://dead:1"},
        {"service": "http_status:404"},
    ]);
    let mut world = World::new(json!({"ingress": rules}));
    world.services = vec![plain("b", "*.b.example.com"), plain("c", "c.example.com")];
    world.round();
    assert!(problem(&world, "*.b.example.com").contains("would have to stand before"));
    assert_eq!(world.rules()[0], "c.example.com -> http://c:80");
    assert_eq!((world.rules().len(), world.records().len()), (4, 1));
}

#[test]
fn a_gate_that_ends_between_two_steps_knows_what_it_did() {
    for lives in 0..6 {
        let mut world = World::new(Value::Null);
        world.services = vec![protected("a", "a.example.com", &["staff"])];
        world.lives = lives;
        world.round();
        world.restart();
        world.services.clear();
        world.patience.grace = Duration::ZERO;
        for _ in 0..3 {
            world.round();
        }
        assert!(world.rules().len() <= 1, "after {lives} steps: {:?}", world.rules());
        assert_eq!(world.access().apps.len(), 0, "after {lives} steps");
        assert!(world.records().iter().all(|record| record.ends_with(RELEASED)), "{:?}", world.records());
    }
}

#[test]
fn steps_name_their_hostname() {
    let delete = Step::DeleteApp { host: "a".into(), id: "1".into() };
    assert_eq!((delete.host(), Step::CreateTag { name: "t".into() }.host()), (Some("a"), None));
}
