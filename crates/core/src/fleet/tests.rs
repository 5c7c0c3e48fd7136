#![allow(clippy::as_conversions, clippy::wildcard_enum_match_arm, reason = "tests read better with them")]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::knock::{Knock, Player, Purpose, Refusal, Seat, Verdict};
use crate::ladder::Client;
use crate::name::HostName;
use crate::service::tests::spec;
use crate::service::{Endpoint, Players, Running, Service, Snapshot, Spec};

#[path = "failing.rs"]
mod failing;
#[path = "owner.rs"]
mod owner;
#[path = "proving.rs"]
mod proving;
/// What only goes wrong when two things happen at once.
#[path = "races.rs"]
mod races;
#[path = "returning.rs"]
mod returning;

const FILE: SourceId = "process";

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn policy() -> Policy {
    Policy {
        clients: Clients::default(),
        waking_at_once: 2,
        awake_at_once: None,
        wake_rate: Rate { burst: 3, every: Duration::from_secs(60) },
        limbo: Caps { per_source: 64, total: 1000 },
        trusted: Vec::new(),
    }
}

fn running(run: &str) -> State {
    let endpoint = Endpoint { host: "127.0.0.1".into(), port: 25_570 };
    State::Running(Running { run: run.into(), endpoints: vec![endpoint] })
}

fn starting() -> State {
    State::Starting { reason: "loading".into() }
}

fn failed(reason: &str) -> State {
    State::Failed { reason: reason.into() }
}

/// A fleet of one service called `mc` (host `mc.example.com`) and the source behind it.
struct World {
    fleet: Fleet,
    spec: Spec,
    effects: Vec<Effect>,
}

impl World {
    fn new(change: impl FnOnce(&mut Spec)) -> Self {
        let mut spec = spec(&["mc.example.com"]);
        change(&mut spec);
        Self { fleet: Fleet::new(policy()), spec, effects: Vec::new() }
    }

    fn see(&mut self, state: State, now: Moment) {
        self.see_with(state, &[], now);
    }

    fn see_with(&mut self, state: State, problems: &[&str], now: Moment) {
        let service = Service {
            id: id("mc"),
            spec: Arc::new(self.spec.clone()),
            state,
            scalable: true,
            problems: problems.iter().map(|&problem| problem.to_owned()).collect(),
        };
        self.fleet.observe(FILE, Snapshot::of(vec![service]), now);
        self.collect();
    }

    fn collect(&mut self) {
        self.effects.extend(self.fleet.take_effects());
    }

    /// The scales asked for since the last call.
    fn scales(&mut self) -> Vec<bool> {
        self.collect();
        let effects = std::mem::take(&mut self.effects);
        effects
            .iter()
            .filter_map(|effect| if let Effect::Scale { up, .. } = effect { Some(*up) } else { None })
            .collect()
    }

    fn join(&mut self, from: &str, now: Moment) -> Verdict {
        self.fleet.admit(&knock("mc.example.com", "Alex", from), now)
    }

    fn seat(&mut self, now: Moment) -> Seat {
        match self.join("192.0.2.1", now) {
            Verdict::Relay(seat, _) | Verdict::Wait(seat, _) => seat,
            other => panic!("no seat: {other:?}"),
        }
    }

    fn players(&mut self, run: &str, online: Option<u32>, now: Moment) {
        self.fleet.tick(now);
        let status = json!({"players": {"online": online}});
        self.fleet.probed(&id("mc"), run, Probed::Answered { online, status }, now);
        self.collect();
    }

    fn silent(&mut self, run: &str, now: Moment) {
        self.fleet.tick(now);
        self.fleet.probed(&id("mc"), run, Probed::Silent { reason: "timed out".into() }, now);
        self.collect();
    }

    fn scaled(&mut self, up: bool, now: Moment) {
        self.fleet.scaled(&id("mc"), up, Ok(()), now);
        self.collect();
    }

    fn word(&self) -> &'static str {
        self.fleet.face(&id("mc")).unwrap().state.word()
    }

    /// Up, answering, and empty since `now`.
    fn up_and_empty(&mut self, now: Moment) {
        self.see(running("r1"), now);
        self.players("r1", Some(0), now);
        assert_eq!(self.word(), "running");
        self.scales();
    }
}

fn id(name: &str) -> ServiceId {
    ServiceId::new(FILE, name)
}

fn knock(host: &str, name: &str, from: &str) -> Knock {
    Knock {
        host: HostName::parse(host).ok(),
        purpose: Purpose::Login(Player { name: name.into(), uuid: None }, Client::default()),
        source: from.parse::<IpAddr>().unwrap(),
        pass: None,
        account: None,
    }
}

fn ping(from: &str) -> Knock {
    Knock { purpose: Purpose::Status, ..knock("mc.example.com", "x", from) }
}

fn refusal(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Refuse(refusal) => refusal.kind(),
        other => other.word(),
    }
}

/// Whoever comes first: a route that a program has made yields, and has the hostname again in the end.
#[test]
fn labels_and_files_go_before_routes_of_the_api() {
    for api_first in [true, false] {
        let mut fleet = Fleet::new(policy());
        let list = |source: SourceId| {
            let spec = Spec { default: true, ..spec(&["mc.example.com"]) };
            let (id, state) = (ServiceId::new(source, "mc"), running("1"));
            Snapshot::of(vec![Service { id, spec: Arc::new(spec), state, scalable: false, problems: vec![] }])
        };
        let mut sources = [api_routes::ID, "file"];
        if !api_first {
            sources.reverse();
        }
        for source in sources {
            fleet.observe(source, list(source), at(0));
        }
        let host = HostName::parse("mc.example.com").unwrap();
        for host in [Some(&host), None] {
            assert_eq!(fleet.find(host).unwrap().0.source, "file", "api first: {api_first}");
        }
        let conflicts = fleet.routes().conflicts();
        assert_eq!(conflicts.len(), 2);
        assert!(conflicts.iter().all(|conflict| {
            conflict.other.source == api_routes::ID && conflict.rule().starts_with("labels")
        }));
        fleet.observe("file", Snapshot::default(), at(1));
        assert_eq!(fleet.find(Some(&host)).unwrap().0.source, api_routes::ID);
    }
}

#[test]
fn one_wake_for_any_number_of_joiners() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    for n in 1..=50 {
        assert_eq!(refusal(&world.join(&format!("192.0.2.{n}"), at(2))), "wait");
    }
    assert_eq!(world.scales(), [true]);
    world.scaled(true, at(3));
    world.see(starting(), at(3));
    world.see(running("r1"), at(10));
    assert_eq!(world.word(), "starting", "an open port is not a server");
    world.players("r1", Some(0), at(12));
    assert_eq!(world.word(), "running");
    assert_eq!(world.scales(), [] as [bool; 0]);
    assert_eq!(
        world.fleet.face(&id("mc")).unwrap().eta(at(12)),
        Some(Duration::from_secs(10)),
        "the boot was learned"
    );
}

#[test]
fn what_a_server_says_of_its_start_is_told_until_it_is_ready() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    world.fleet.heard(&id("mc"), "of an earlier run".into(), at(1));
    world.join("192.0.2.1", at(2));
    world.scaled(true, at(3));
    let reason = |world: &World| world.fleet.face(&id("mc")).unwrap().state.reason().map(str::to_owned);
    world.see(running("r1"), at(4));
    assert_eq!(reason(&world).as_deref(), Some("it runs, the game does not answer yet"));
    world.fleet.take_view();
    world.fleet.heard(&id("mc"), "Preparing spawn area: 42%".into(), at(5));
    assert_eq!(reason(&world).as_deref(), Some("Preparing spawn area: 42%"));
    assert!(world.fleet.take_view().is_some(), "those who wait are told");
    world.players("r1", Some(0), at(6));
    assert_eq!(reason(&world), None);
    world.see(running("r2"), at(7));
    assert_eq!(reason(&world).as_deref(), Some("it runs, the game does not answer yet"));
}

#[test]
fn what_a_server_says_before_its_health_check_passes_is_told_and_not_of_the_run_after_a_crash() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    world.join("192.0.2.1", at(2));
    world.scaled(true, at(3));
    let reason = |world: &World| world.fleet.face(&id("mc")).unwrap().state.reason().map(str::to_owned);
    let starting = || State::Starting { reason: "health check".into() };
    world.see(starting(), at(4));
    assert_eq!(reason(&world).as_deref(), Some("health check"));
    world.fleet.heard(&id("mc"), "Preparing spawn area: 42%".into(), at(5));
    world.see(starting(), at(6));
    assert_eq!(reason(&world).as_deref(), Some("Preparing spawn area: 42%"));
    world.see(State::Restarting { until: at(9), reason: "exit code 1".into() }, at(7));
    world.fleet.heard(&id("mc"), "of the run that crashed".into(), at(8));
    assert_eq!(reason(&world).as_deref(), Some("exit code 1"));
    world.see(starting(), at(9));
    assert_eq!(reason(&world).as_deref(), Some("health check"));
}

#[test]
fn a_ping_never_wakes() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    for n in 0..100 {
        assert_eq!(refusal(&world.fleet.admit(&ping("192.0.2.1"), at(n))), "answer");
    }
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.up_and_empty(at(200));
    assert_eq!(refusal(&world.fleet.admit(&ping("192.0.2.1"), at(201))), "forward");
}

#[test]
fn a_wake_goes_on_when_its_player_leaves() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    let seat = world.seat(at(2));
    assert_eq!(world.scales(), [true]);
    world.fleet.release(&seat, at(3));
    world.scaled(true, at(3));
    world.see(running("r1"), at(9));
    world.players("r1", Some(0), at(9));
    assert_eq!(world.word(), "running");
}

#[test]
fn sleep_needs_an_empty_game_for_the_whole_idle_time() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    world.players("r1", Some(0), at(109));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.players("r1", Some(0), at(110));
    assert_eq!(world.scales(), [false]);
    assert_eq!(world.word(), "stopping");
}

#[test]
fn a_player_counted_by_the_game_starts_the_idle_time_anew() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    world.players("r1", Some(1), at(105));
    world.players("r1", Some(0), at(110));
    world.players("r1", Some(0), at(209));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.players("r1", Some(0), at(210));
    assert_eq!(world.scales(), [false]);
}

#[test]
fn a_game_that_does_not_answer_is_kept_awake_and_reported() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    for n in 1..50 {
        world.silent("r1", at(10 + n * 30));
    }
    world.players("r1", None, at(2_000));
    world.fleet.tick(at(3_000));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.silent("r1", at(3_001));
    world.silent("r1", at(3_031));
    world.silent("r1", at(3_061));
    let problems = world.fleet.report(&id("mc"), at(3_100)).unwrap().problems;
    assert!(problems[0].contains("kept awake"), "{problems:?}");
}

#[test]
fn a_game_that_cannot_be_asked_sleeps_by_its_connections() {
    let mut world = World::new(|spec| {
        spec.idle = Duration::from_secs(100);
        spec.players = Players::Connections;
        spec.ready = Ready::Tcp;
    });
    world.see(running("r1"), at(10));
    world.fleet.tick(at(11));
    world.fleet.probed(&id("mc"), "r1", Probed::Accepted, at(11));
    let seat = world.seat(at(50));
    world.fleet.tick(at(500));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.fleet.release(&seat, at(500));
    world.fleet.tick(at(599));
    assert_eq!(world.scales(), [] as [bool; 0]);
    assert_eq!(world.fleet.report(&id("mc"), at(599)).unwrap().sleeps_at, Some(at(600)));
    world.fleet.tick(at(600));
    assert_eq!(world.scales(), [false]);
}

#[test]
fn an_old_answer_puts_nobody_to_sleep() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    world.fleet.tick(at(5_000));
    assert_eq!(world.scales(), [] as [bool; 0], "nobody has looked since");
}

#[test]
fn a_seat_keeps_a_server_awake_even_if_the_game_counts_nobody() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    let seat = world.seat(at(109));
    world.players("r1", Some(0), at(110));
    world.players("r1", Some(0), at(900));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.fleet.release(&seat, at(900));
    world.players("r1", Some(0), at(901));
    world.players("r1", Some(0), at(1_001));
    assert_eq!(world.scales(), [false]);
}

#[test]
fn a_join_while_stopping_waits_for_the_old_process_to_end() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    world.players("r1", Some(0), at(110));
    assert_eq!(world.scales(), [false]);
    assert_eq!(refusal(&world.join("192.0.2.1", at(110))), "wait");
    world.scaled(false, at(111));
    world.see(State::Stopping, at(111));
    assert_eq!(refusal(&world.join("192.0.2.2", at(112))), "wait");
    assert_eq!(world.scales(), [] as [bool; 0], "one world, one process");
    world.see(State::Asleep, at(150));
    assert_eq!(world.scales(), [true]);
}

#[test]
fn not_knowing_stops_and_starts_nothing() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    world.fleet.lost(FILE, "connection refused", at(20));
    world.players("r1", Some(0), at(500));
    assert_eq!(world.scales(), [] as [bool; 0]);
    assert_eq!(refusal(&world.join("192.0.2.1", at(501))), "relay", "the route stands");

    let mut asleep = World::new(|_| {});
    asleep.see(State::Asleep, at(1));
    asleep.fleet.lost(FILE, "connection refused", at(2));
    assert_eq!(refusal(&asleep.join("192.0.2.1", at(3))), "wait");
    assert_eq!(asleep.scales(), [] as [bool; 0]);
    asleep.see(State::Asleep, at(9));
    assert_eq!(asleep.scales(), [true], "the wake was not forgotten");
}

#[test]
fn a_service_alone_may_be_unknown() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    world.see(State::Unknown { reason: "503".into() }, at(50));
    assert_eq!(world.word(), "running");
    world.players("r1", Some(0), at(500));
    assert_eq!(world.scales(), [] as [bool; 0]);
}

#[test]
fn a_failed_start_is_told_at_once_and_tried_again_after_the_cooldown() {
    let mut world = World::new(|spec| spec.cooldown = Duration::from_secs(60));
    world.see(State::Asleep, at(1));
    world.seat(at(2));
    world.scales();
    world.scaled(true, at(2));
    world.see(failed("exit code 1"), at(5));
    assert_eq!(world.word(), "failed");
    let verdict = world.join("192.0.2.2", at(6));
    let Verdict::Refuse(Refusal::Failed { face, retry_in }) = &verdict else { panic!("{verdict:?}") };
    assert_eq!((face.state.reason(), *retry_in), (Some("exit code 1"), Duration::from_secs(59)));
    assert_eq!(world.scales(), [] as [bool; 0], "joins do not hammer");
    assert_eq!(refusal(&world.join("192.0.2.2", at(65))), "wait");
    assert_eq!(world.scales(), [true]);
    assert_eq!(world.word(), "starting");
}

#[test]
fn a_scale_that_is_refused_is_a_failed_start() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    world.seat(at(2));
    world.fleet.scaled(&id("mc"), true, Err("403 forbidden".into()), at(3));
    assert_eq!(world.word(), "failed");
    world.see(State::Asleep, at(62));
    world.fleet.tick(at(63));
    assert_eq!(world.word(), "asleep", "a failure is not shown for ever");
}

#[test]
fn a_server_that_ends_by_itself_while_starting_has_failed() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    world.seat(at(2));
    world.scaled(true, at(2));
    world.see(starting(), at(3));
    world.see(State::Asleep, at(4));
    assert_eq!(world.word(), "failed");
    assert_eq!(world.scales(), [true], "it is not started again at once");
}

#[test]
fn the_start_timeout_tells_the_players_and_forgives_a_late_server() {
    let mut world = World::new(|spec| spec.start_timeout = Duration::from_secs(100));
    world.see(State::Asleep, at(1));
    world.seat(at(2));
    world.scaled(true, at(2));
    world.see(starting(), at(3));
    assert_eq!(world.fleet.next_deadline(), Some(at(102)));
    world.fleet.tick(at(102));
    let face = world.fleet.face(&id("mc")).unwrap();
    assert_eq!(face.state.reason(), Some("it was not ready after 1m 40s"));
    world.see(running("r1"), at(130));
    world.players("r1", Some(0), at(130));
    assert_eq!(world.word(), "running");
}

#[test]
fn a_restart_delay_extends_the_start_timeout_by_what_is_left_of_it() {
    let mut world = World::new(|spec| spec.start_timeout = Duration::from_secs(100));
    world.see(State::Asleep, at(0));
    world.seat(at(0));
    world.scaled(true, at(0));
    for now in [50, 51, 60] {
        let restarting = State::Restarting { until: at(90), reason: "exit code 1".into() };
        world.see(restarting, at(now));
    }
    assert_eq!(world.fleet.next_deadline(), Some(at(140)));
}

#[test]
fn starts_are_paced() {
    let mut fleet = Fleet::new(policy());
    let service = |name: &str, state: State| Service {
        id: id(name),
        spec: Arc::new(spec(&[&format!("{name}.example.com")])),
        state,
        scalable: true,
        problems: Vec::new(),
    };
    let names = ["a", "b", "c"];
    let services = names.iter().map(|name| service(name, State::Asleep)).collect();
    fleet.observe(FILE, Snapshot::of(services), at(1));
    for name in names {
        let verdict = fleet.admit(&knock(&format!("{name}.example.com"), "Alex", "192.0.2.1"), at(2));
        assert_eq!(refusal(&verdict), "wait");
    }
    let woken = |fleet: &mut Fleet| -> Vec<String> {
        let effects = fleet.take_effects();
        effects
            .iter()
            .filter_map(|e| {
                if let Effect::Scale { service, up: true } = e {
                    Some(service.name.to_string())
                } else {
                    None
                }
            })
            .collect()
    };
    assert_eq!(woken(&mut fleet), ["a", "b"]);
    fleet.scaled(&id("a"), true, Err("no".into()), at(3));
    assert_eq!(woken(&mut fleet), ["c"]);
}

#[test]
fn who_may_not_wake_hears_why() {
    type Change = fn(&mut Spec, &mut Policy);
    let cases: [(&str, Change); 6] = [
        ("wake_off", |spec, _| spec.wake = false),
        ("may_not_wake", |spec, _| spec.wakers.names = ["friend".to_owned()].into()),
        ("denied", |spec, _| spec.clients.deny = vec!["192.0.2.0/24".parse().unwrap()]),
        ("denied", |_, policy| policy.clients.allow = vec!["203.0.113.0/24".parse().unwrap()]),
        ("wake_rate", |_, policy| policy.wake_rate.burst = 0),
        ("too_many_awake", |_, policy| policy.awake_at_once = Some(0)),
    ];
    for (expected, change) in cases {
        let mut policy = policy();
        let mut world = World::new(|spec| change(spec, &mut policy));
        world.fleet.set_policy(policy, at(0));
        world.see(State::Asleep, at(1));
        assert_eq!(refusal(&world.join("192.0.2.1", at(2))), expected);
        assert_eq!(world.scales(), [] as [bool; 0], "{expected}");
    }
}

#[test]
fn the_cap_on_servers_awake_is_for_joins_and_not_for_owners() {
    let hours = crate::hours::Hours::parse("10:00-14:00 UTC").unwrap();
    type Owner = fn(&mut Fleet);
    let owners: [Owner; 3] = [
        |fleet| fleet.pin(&id("mine"), Pin::Awake, at(2)).unwrap(),
        |fleet| fleet.wake(&id("mine"), at(2)).unwrap(),
        |fleet| {
            fleet.set_wall(at(2), "2026-12-01T12:00:00Z".parse().unwrap());
            fleet.tick(at(2));
        },
    ];
    for (number, owner) in owners.into_iter().enumerate() {
        let mut fleet = Fleet::new(Policy { awake_at_once: Some(1), ..policy() });
        let service = |name: &str, spec: Spec| Service {
            id: id(name),
            spec: Arc::new(spec),
            state: State::Asleep,
            scalable: true,
            problems: Vec::new(),
        };
        let mine = Spec { awake: vec![hours.clone()], ..spec(&["mine.example.com"]) };
        let services = ["one", "two"].map(|name| service(name, spec(&[&format!("{name}.example.com")])));
        let services = services.into_iter().chain([service("mine", mine)]).collect();
        fleet.observe(FILE, Snapshot::of(services), at(1));
        let join = |fleet: &mut Fleet, name: &str| {
            refusal(&fleet.admit(&knock(&format!("{name}.example.com"), "Alex", "192.0.2.1"), at(3)))
        };
        owner(&mut fleet);
        let started = fleet.take_effects().contains(&Effect::Scale { service: id("mine"), up: true });
        assert!(started, "{number}");
        assert_eq!(join(&mut fleet, "one"), "too_many_awake", "what its owner keeps awake counts: {number}");
        assert_eq!(join(&mut fleet, "mine"), "wait");

        // And the other way round: a join has taken the last place.
        let mut fleet = Fleet::new(Policy { awake_at_once: Some(1), ..policy() });
        let mine = Spec { awake: vec![hours.clone()], ..spec(&["mine.example.com"]) };
        let services = vec![service("one", spec(&["one.example.com"])), service("mine", mine)];
        fleet.observe(FILE, Snapshot::of(services), at(1));
        assert_eq!(join(&mut fleet, "one"), "wait");
        owner(&mut fleet);
        let started = fleet.take_effects().contains(&Effect::Scale { service: id("mine"), up: true });
        assert!(started, "no cap keeps an owner from starting it: {number}");
    }
}

#[test]
fn what_its_owner_changes_is_followed_soon() {
    for pinned in [false, true] {
        let mut world = World::new(|spec| spec.sleep = false);
        world.up_and_empty(at(1));
        assert_eq!(world.fleet.next_deadline(), Some(at(61)), "nothing of it is to be decided");
        world.spec.sleep = true;
        if pinned {
            world.fleet.pin(&id("mc"), Pin::Asleep, at(5)).unwrap();
        } else {
            world.see(running("r1"), at(5));
        }
        assert_eq!(world.fleet.next_deadline(), Some(at(6)));
    }
}

#[test]
fn wakes_are_limited_per_source_and_joins_of_a_running_server_are_not() {
    let mut world = World::new(|spec| spec.cooldown = Duration::ZERO);
    world.see(State::Asleep, at(1));
    for n in 0..3 {
        assert_eq!(refusal(&world.join("192.0.2.1", at(n))), "wait");
        world.fleet.scaled(&id("mc"), true, Err("no".into()), at(n));
        world.see(State::Asleep, at(n));
    }
    assert_eq!(refusal(&world.join("192.0.2.1", at(3))), "wake_rate");
    assert_eq!(refusal(&world.join("192.0.2.2", at(3))), "wait", "never limited by server");
    world.up_and_empty(at(4));
    for _ in 0..20 {
        assert_eq!(refusal(&world.join("192.0.2.1", at(5))), "relay");
    }
}

#[test]
fn the_default_route_does_not_wake_unless_told_to() {
    for (wakes, expected) in [(false, "wake_off"), (true, "wait")] {
        let mut world = World::new(|spec| {
            spec.default = true;
            spec.default_wakes = wakes;
        });
        world.see(State::Asleep, at(1));
        let verdict = world.fleet.admit(&knock("198.51.100.7", "scanner", "192.0.2.1"), at(2));
        assert_eq!(refusal(&verdict), expected);
        assert_eq!(refusal(&world.join("192.0.2.1", at(2))), "wait", "by name it wakes");
    }
}

#[test]
fn a_server_found_running_gets_a_full_idle_time() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.see(running("r1"), at(1_000));
    assert_eq!(world.word(), "starting");
    world.players("r1", Some(0), at(1_001));
    assert_eq!(world.fleet.report(&id("mc"), at(1_002)).unwrap().sleeps_at, Some(at(1_101)));
    assert_eq!(world.fleet.face(&id("mc")).unwrap().eta(at(1_002)), None, "no boot was seen");
}

#[test]
fn a_reload_keeps_the_idle_clock_and_takes_the_new_settings() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(1_000));
    world.up_and_empty(at(10));
    world.spec.idle = Duration::from_secs(100);
    world.see(running("r1"), at(60));
    world.players("r1", Some(0), at(110));
    assert_eq!(world.scales(), [false]);
}

#[test]
fn a_service_that_is_removed_and_comes_back_keeps_its_seats() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    let seat = world.seat(at(11));
    world.fleet.observe(FILE, Snapshot::default(), at(20));
    assert_eq!(refusal(&world.join("192.0.2.1", at(21))), "unknown_host");
    world.see(running("r2"), at(30));
    for now in [31, 200, 400] {
        world.players("r2", Some(0), at(now));
    }
    assert_eq!(world.scales(), [] as [bool; 0], "its player is still there");
    world.fleet.release(&seat, at(401));
    world.fleet.observe(FILE, Snapshot::default(), at(402));
    assert_eq!(world.fleet.reports(at(402)), []);
}

#[test]
fn how_long_a_wake_took_is_told_and_how_long_each_state_lasted_is_known() {
    let mut world = World::new(|_| {});
    world.see(State::Stopping, at(0));
    world.seat(at(10));
    world.see(State::Asleep, at(30));
    world.scaled(true, at(31));
    world.see(running("r1"), at(40));
    world.players("r1", Some(1), at(60));
    let woken = |effect: &Effect| match effect {
        Effect::Tell(event @ Event::Woken { .. }) => Some(event.clone()),
        _ => None,
    };
    let (waited, booted) = (Duration::from_secs(50), Duration::from_secs(30));
    let told: Vec<Event> = world.effects.iter().filter_map(woken).collect();
    assert_eq!(told, [Event::Woken { service: id("mc"), waited, booted }]);
    let lived = world.fleet.report(&id("mc"), at(100)).unwrap().lived;
    let expected = [("running", 40), ("starting", 30), ("stopping", 30)];
    assert_eq!(lived, expected.map(|(state, seconds)| (state, Duration::from_secs(seconds))).into());
    // One that the gate has only gone along with says nothing of how long a start takes.
    world.see(State::Asleep, at(100));
    world.see(starting(), at(110));
    world.see(running("r2"), at(120));
    world.players("r2", Some(1), at(130));
    assert_eq!(world.effects.iter().filter_map(woken).count(), 1);
    let lived = world.fleet.report(&id("mc"), at(140)).unwrap().lived;
    assert_eq!((lived["running"], lived["asleep"]), (Duration::from_secs(50), Duration::from_secs(10)));
}

#[test]
fn changes_are_told_once_with_their_reason() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    world.seat(at(2));
    world.scaled(true, at(3));
    world.see(starting(), at(3));
    world.see(starting(), at(4));
    let told: Vec<String> = std::mem::take(&mut world.effects)
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Tell(Event::Changed { from, to, why, .. }) => Some(format!("{from} > {to}: {why}")),
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        ["unknown > asleep: it is not running", "asleep > starting: a player joined: told to start"]
    );
}

#[test]
fn a_populated_server_that_somebody_else_stops_is_reported() {
    for (seated, online, told) in [(true, 0, true), (false, 3, true), (false, 0, false)] {
        let mut world = World::new(|_| {});
        world.up_and_empty(at(10));
        let _seat = seated.then(|| world.seat(at(11)));
        world.players("r1", Some(online), at(12));
        world.effects.clear();
        world.see(State::Stopping, at(20));
        let lost = world
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Tell(Event::StoppedWithPlayers { .. })));
        assert_eq!(lost, told, "{seated} {online}");
    }
}

#[test]
fn a_problem_is_told_once_a_run() {
    let mut world = World::new(|_| {});
    for (state, problems, told) in [
        (running("r1"), &["ports", "sick"][..], &["ports", "sick"][..]),
        (running("r1"), &["ports"], &[]),
        (running("r1"), &["ports", "sick"], &[]),
        (State::Asleep, &["ports", "killed"], &["killed"]),
        (State::Asleep, &["ports", "killed"], &[]),
        (running("r2"), &["ports"], &[]),
        (State::Asleep, &["ports", "killed"], &["killed"]),
        (running("r3"), &["ports", "sick"], &["sick"]),
    ] {
        world.effects.clear();
        world.see_with(state.clone(), problems, at(1));
        let news = world.effects.iter().filter_map(|effect| match effect {
            Effect::Tell(Event::Problem { problem, .. }) => Some(problem.as_str()),
            _ => None,
        });
        assert_eq!(news.collect::<Vec<_>>(), told, "{state:?} {problems:?}");
    }
    let worded_anew: Vec<String> = (0..100).map(|count| count.to_string()).collect();
    world.effects.clear();
    world.see_with(running("r3"), &worded_anew.iter().map(String::as_str).collect::<Vec<_>>(), at(1));
    assert!(world.effects.len() < 60, "{}", world.effects.len());
}
