//! What its owner asks for: starts and stops by hand, pins, warm hours.

use super::*;

#[test]
fn by_hand_a_person_may_wake_and_sleep_but_not_by_mistake() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    assert_eq!(world.fleet.named("mc"), Ok(id("mc")));
    world.fleet.wake(&id("mc"), at(2)).unwrap();
    world.fleet.wake(&id("mc"), at(2)).unwrap();
    assert_eq!(world.scales(), [true]);
    world.scaled(true, at(2));
    world.see(running("r1"), at(3));
    world.players("r1", Some(2), at(3));
    let occupied = world.fleet.sleep(&id("mc"), false, at(4)).unwrap_err();
    assert!(matches!(occupied, CommandError::Occupied { online: 2, .. }), "{occupied}");
    world.silent("r1", at(5));
    assert!(matches!(world.fleet.sleep(&id("mc"), false, at(6)), Err(CommandError::UnknownPlayers(_))));
    world.fleet.sleep(&id("mc"), true, at(7)).unwrap();
    assert_eq!(world.scales(), [false]);
}

#[test]
fn what_is_not_known_now_is_not_empty() {
    let mut world = World::new(|_| {});
    assert!(matches!(world.fleet.nobody_in(&id("other")), Err(CommandError::NoSuchService { .. })));
    world.see(State::Asleep, at(1));
    assert_eq!(world.fleet.nobody_in(&id("mc")), Ok(()));
    world.fleet.lost(FILE, "no answer", at(2));
    assert_eq!(world.fleet.nobody_in(&id("mc")), Err(CommandError::UnknownPlayers(id("mc"))));
    world.see(running("r1"), at(3));
    world.players("r1", Some(0), at(3));
    world.fleet.lost(FILE, "no answer", at(4));
    assert_eq!(world.fleet.nobody_in(&id("mc")), Ok(()), "the game itself says so");
}

#[test]
fn a_name_that_no_service_has_is_answered_with_the_one_that_was_meant() {
    let mut fleet = Fleet::new(policy());
    let service = |name| Service {
        id: id(name),
        spec: Arc::new(spec(&[])),
        state: State::Asleep,
        scalable: true,
        problems: Vec::new(),
    };
    let services = ["lobby", "minecraft_survival"].map(service).into();
    fleet.observe(FILE, Snapshot::of(services), at(1));
    assert_eq!(fleet.named("lobby"), Ok(id("lobby")));
    for (name, near) in [
        ("lobbi", Some("lobby")),
        ("survival", Some("minecraft_survival")),
        ("minecraft_survivl", Some("minecraft_survival")),
        ("val", None),
        ("creative", None),
    ] {
        let near = near.map(str::to_owned);
        assert_eq!(fleet.named(name), Err(CommandError::NoSuchService { name: name.to_owned(), near }));
    }
}

#[test]
fn a_failed_stop_is_tried_again() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    world.players("r1", Some(0), at(110));
    assert_eq!(world.scales(), [false]);
    world.fleet.scaled(&id("mc"), false, Err("500".into()), at(111));
    assert_eq!(world.word(), "running");
    world.players("r1", Some(0), at(120));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.players("r1", Some(0), at(142));
    assert_eq!(world.scales(), [false]);
}

#[test]
fn pinned_awake_it_is_started_and_never_sleeps() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.see(State::Asleep, at(1));
    world.fleet.pin(&id("mc"), Pin::Awake, at(2)).unwrap();
    assert_eq!(world.scales(), [true]);
    world.scaled(true, at(2));
    world.up_and_empty(at(10));
    world.players("r1", Some(0), at(5_000));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.fleet.pin(&id("mc"), Pin::None, at(5_001)).unwrap();
    world.players("r1", Some(0), at(5_002));
    assert_eq!(world.scales(), [false]);
}

#[test]
fn a_pin_awake_does_not_hammer_a_server_that_fails() {
    let mut world = World::new(|spec| spec.cooldown = Duration::from_secs(60));
    world.see(State::Asleep, at(1));
    world.fleet.pin(&id("mc"), Pin::Awake, at(2)).unwrap();
    world.fleet.scaled(&id("mc"), true, Err("no".into()), at(3));
    world.see(State::Asleep, at(3));
    world.fleet.tick(at(62));
    assert_eq!(world.scales(), [true]);
    world.fleet.tick(at(63));
    world.fleet.tick(at(64));
    assert_eq!(world.scales(), [true], "tried again after the cooldown");
}

#[test]
fn pinned_asleep_it_lets_its_players_finish_and_wakes_for_nobody() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    let seat = world.seat(at(11));
    world.fleet.pin(&id("mc"), Pin::Asleep, at(12)).unwrap();
    world.players("r1", Some(1), at(13));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.fleet.release(&seat, at(14));
    world.players("r1", Some(0), at(15));
    assert_eq!(world.scales(), [false]);
    world.scaled(false, at(15));
    world.see(State::Asleep, at(16));
    assert_eq!(refusal(&world.join("192.0.2.1", at(17))), "pinned_asleep");
    let error = world.fleet.wake(&id("mc"), at(18)).unwrap_err();
    assert_eq!(error.to_string(), "process/mc is pinned asleep; `swarmgate pin mc none` ends that");
    assert_eq!(world.scales(), [] as [bool; 0]);
}

#[test]
fn a_pin_is_kept_and_recalled() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    world.fleet.pin(&id("mc"), Pin::Asleep, at(2)).unwrap();
    world.collect();
    let kept = world.effects.iter().find_map(|effect| match effect {
        Effect::Remember { learned, .. } => Some((**learned).clone()),
        _ => None,
    });
    let mut again = World::new(|_| {});
    again.fleet.recall("process/mc".into(), kept.unwrap());
    again.see(State::Asleep, at(1));
    assert_eq!(refusal(&again.join("192.0.2.1", at(2))), "pinned_asleep");
}

#[test]
fn a_pin_outlives_a_redeployment() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    world.fleet.pin(&id("mc"), Pin::Asleep, at(2)).unwrap();
    world.fleet.observe(FILE, Snapshot::default(), at(3));
    world.see(State::Asleep, at(4));
    assert_eq!(refusal(&world.join("192.0.2.1", at(5))), "pinned_asleep");
}

#[test]
fn by_hand_too_what_is_not_counted_is_not_empty() {
    let mut world = World::new(|_| {});
    world.see(running("r1"), at(1));
    assert_eq!(world.word(), "starting");
    assert!(matches!(world.fleet.sleep(&id("mc"), false, at(2)), Err(CommandError::UnknownPlayers(_))));
    world.fleet.sleep(&id("mc"), true, at(3)).unwrap();
    assert_eq!(world.scales(), [false]);
}

#[test]
fn a_start_that_took_too_long_can_be_stopped_by_hand() {
    let mut world = World::new(|spec| spec.start_timeout = Duration::from_secs(100));
    world.see(State::Asleep, at(1));
    let seat = world.seat(at(2));
    world.fleet.release(&seat, at(2));
    world.scaled(true, at(2));
    world.see(starting(), at(3));
    world.fleet.tick(at(102));
    assert_eq!(world.word(), "failed");
    world.scales();
    world.fleet.sleep(&id("mc"), false, at(103)).unwrap();
    assert_eq!(world.scales(), [false]);
}

#[test]
fn a_stop_that_failed_is_a_problem_until_one_works() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    world.players("r1", Some(0), at(110));
    world.fleet.scaled(&id("mc"), false, Err("disk full".into()), at(111));
    world.see(running("r1"), at(112));
    let problems = |world: &World| world.fleet.report(&id("mc"), at(113)).unwrap().problems;
    assert_eq!(problems(&world), ["it could not be stopped: disk full"]);
    world.players("r1", Some(0), at(150));
    world.scaled(false, at(151));
    assert_eq!(problems(&world), [] as [&str; 0]);
}

#[test]
fn a_wake_that_could_not_begin_is_forgotten_when_nobody_waits_any_more() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(1));
    world.fleet.lost(FILE, "gone", at(2));
    let seat = world.seat(at(3));
    world.fleet.tick(at(1_000));
    world.fleet.release(&seat, at(1_000));
    world.fleet.tick(at(1_001));
    world.see(State::Asleep, at(5_000));
    assert_eq!(world.scales(), [] as [bool; 0], "hours later nobody wants it");
}

#[test]
fn warm_hours_start_it_and_keep_it_awake() {
    let mut world = World::new(|spec| {
        spec.idle = Duration::from_secs(100);
        spec.awake = vec![crate::hours::Hours::parse("18:00-23:00 Europe/Berlin").unwrap()];
    });
    world.see(State::Asleep, at(0));
    world.fleet.set_wall(at(0), "2026-12-01T16:59:00Z".parse().unwrap());
    world.fleet.tick(at(59));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.fleet.tick(at(60));
    assert_eq!(world.scales(), [true]);
    world.scaled(true, at(60));
    world.up_and_empty(at(70));
    world.players("r1", Some(0), at(5 * 3600));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.players("r1", Some(0), at(5 * 3600 + 60));
    assert_eq!(world.scales(), [false], "after the hours it sleeps, having been empty long enough");
}
