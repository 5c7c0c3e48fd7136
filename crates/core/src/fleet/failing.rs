//! A start that came to nothing, while its process still runs: what its owner is told of it and can do about it.

use super::*;

/// Woken by a join at 0 and not ready at 100, when every look found that `silence`.
fn mute(silence: &str) -> World {
    let mut world = World::new(|spec| spec.start_timeout = Duration::from_secs(100));
    world.see(State::Asleep, at(0));
    let seat = world.seat(at(0));
    world.scaled(true, at(1));
    world.see(running("r1"), at(1));
    world.fleet.probed(&id("mc"), "r1", Probed::Silent { reason: silence.into() }, at(2));
    world.fleet.tick(at(100));
    world.fleet.release(&seat, at(101));
    assert_eq!((world.word(), world.scales()), ("failed", vec![true]));
    world
}

#[test]
fn it_says_what_the_last_look_found_and_where_to_read_on() {
    let mut world = mute("127.0.0.1:25570 refuses connections");
    let report = world.fleet.report(&id("mc"), at(101)).unwrap();
    let reason = "it was not ready after 1m 40s: 127.0.0.1:25570 refuses connections";
    assert_eq!(report.face.state.reason(), Some(reason));
    let hint = "it still runs; `swarmgate sleep mc` stops it; see `swarmgate output mc`";
    assert_eq!(report.problems, [hint]);
    world.see(State::Asleep, at(110));
    let report = world.fleet.report(&id("mc"), at(110)).unwrap();
    assert_eq!(
        (report.face.state.reason(), &*report.problems.join("")),
        (Some(reason), "see `swarmgate output mc`")
    );
}

#[test]
fn the_log_says_it_too() {
    let mut world = World::new(|spec| spec.start_timeout = Duration::from_secs(100));
    world.see(State::Asleep, at(0));
    world.seat(at(0));
    world.scaled(true, at(1));
    world.see(running("r1"), at(1));
    world.silent("r1", at(2));
    world.effects.clear();
    world.fleet.tick(at(100));
    world.collect();
    let why = world.effects.iter().find_map(|effect| match effect {
        Effect::Tell(Event::Changed { to: "failed", why, .. }) => Some(why.as_str()),
        _ => None,
    });
    let all = "it was not ready after 1m 40s: timed out; it still runs; `swarmgate sleep mc` stops it; see `swarmgate output mc`";
    assert_eq!(why, Some(all));
}

#[test]
fn what_a_run_before_it_was_found_to_be_is_not_said_of_it() {
    let mut world = mute("127.0.0.1:25570 refuses connections");
    world.see(State::Asleep, at(110));
    world.seat(at(200));
    world.scaled(true, at(201));
    world.see(running("r2"), at(201));
    world.fleet.tick(at(300));
    let face = world.fleet.face(&id("mc")).unwrap();
    assert_eq!(face.state.reason(), Some("it was not ready after 1m 40s"));
}

#[test]
fn nobody_can_be_in_it_so_it_is_stopped_when_its_owner_says_so() {
    let mut by_hand = mute("timed out");
    by_hand.fleet.sleep(&id("mc"), false, at(102)).unwrap();
    assert_eq!(by_hand.scales(), [false]);

    let mut again = mute("timed out");
    let seat = again.seat(at(200));
    again.fleet.tick(at(300));
    again.fleet.release(&seat, at(301));
    assert_eq!(again.word(), "failed");
    again.fleet.sleep(&id("mc"), false, at(302)).unwrap();
    assert_eq!(again.scales(), [false], "still the same that never came up");

    let mut pinned = mute("timed out");
    pinned.fleet.tick(at(5_000));
    assert_eq!(pinned.scales(), [] as [bool; 0], "not by itself");
    pinned.fleet.pin(&id("mc"), Pin::Asleep, at(5_001)).unwrap();
    assert_eq!((pinned.scales(), pinned.word()), (vec![false], "stopping"));
    pinned.fleet.scaled(&id("mc"), false, Err("500".into()), at(5_002));
    assert_eq!(pinned.scales(), [] as [bool; 0]);
    pinned.fleet.tick(at(5_032));
    assert_eq!(pinned.scales(), [false], "tried again");
    pinned.scaled(false, at(5_033));
    pinned.fleet.tick(at(5_034));
    assert_eq!(pinned.scales(), [] as [bool; 0], "once");

    let mut stopped = mute("timed out");
    stopped.fleet.sleep(&id("mc"), false, at(102)).unwrap();
    stopped.scaled(false, at(103));
    stopped.see(State::Asleep, at(104));
    assert_eq!(stopped.word(), "asleep", "it has not failed to stop");
}

#[test]
fn somebody_may_be_in_whatever_else_does_not_answer() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 4] = [
        ("it was found running", |world| {
            *world = World::new(|spec| spec.start_timeout = Duration::from_secs(100));
            world.see(running("r1"), at(1));
            world.seat(at(1));
            world.fleet.tick(at(101));
            world.scales();
        }),
        ("it came after all, and fell silent", |world| {
            world.players("r1", Some(0), at(102));
            world.silent("r1", at(103));
        }),
        ("somebody else started it anew", |world| {
            world.see(State::Asleep, at(102));
            world.see(running("r2"), at(103));
        }),
        ("somebody else restarted it", |world| world.see(running("r2"), at(103))),
    ];
    for (what, change) in changes {
        let mut world = mute("timed out");
        change(&mut world);
        let refused = world.fleet.sleep(&id("mc"), false, at(110)).unwrap_err();
        let seats_or_not = matches!(refused, CommandError::UnknownPlayers(_) | CommandError::Occupied { .. });
        assert!(seats_or_not, "{what}: {refused}");
        assert!(
            refused.to_string().ends_with("`swarmgate sleep mc --force` stops it all the same"),
            "{refused}"
        );
        world.fleet.pin(&id("mc"), Pin::Asleep, at(111)).unwrap();
        assert_eq!(world.scales(), [] as [bool; 0], "{what}");
    }
}

#[test]
fn one_that_was_found_at_the_start_and_never_answers_has_failed_too() {
    let mut world = World::new(|spec| spec.start_timeout = Duration::from_secs(100));
    world.see(running("r1"), at(5));
    world.silent("r1", at(6));
    world.fleet.tick(at(104));
    assert_eq!(world.word(), "starting");
    world.fleet.tick(world.fleet.next_deadline().unwrap().max(at(105)));
    assert_eq!(world.word(), "failed");
    let face = world.fleet.face(&id("mc")).unwrap();
    assert_eq!(face.state.reason(), Some("it was not ready after 1m 40s: timed out"));
    assert_eq!(world.scales(), [] as [bool; 0]);
    world.players("r1", Some(0), at(200));
    assert_eq!(world.word(), "running", "late is not never");
}

#[test]
fn one_that_ends_before_anybody_got_in_was_not_stopped_under_players() {
    let mut world = World::new(|_| {});
    world.see(State::Asleep, at(0));
    let _seat = world.seat(at(0));
    world.scaled(true, at(1));
    world.see(running("r1"), at(1));
    world.effects.clear();
    world.see(State::Asleep, at(2));
    let lost = |effect: &Effect| matches!(effect, Effect::Tell(Event::StoppedWithPlayers { .. }));
    assert!(!world.effects.iter().any(lost), "{:?}", world.effects);
    assert_eq!(world.word(), "failed");
}

#[test]
fn what_takes_no_connections_has_a_problem_until_it_answers() {
    let mut world = World::new(|_| {});
    world.up_and_empty(at(10));
    let problems = |world: &World| world.fleet.report(&id("mc"), at(20)).unwrap().problems.join("; ");
    assert_eq!(problems(&world), "");
    world.fleet.unreached(&id("mc"), "127.0.0.1:1 refuses connections".to_owned(), at(11));
    assert!(problems(&world).contains("127.0.0.1:1 refuses connections"), "{}", problems(&world));
    assert!(world.fleet.next_deadline().unwrap() <= at(12), "it is looked at soon");
    world.players("r1", Some(0), at(12));
    assert_eq!(problems(&world), "");
}

#[test]
fn one_that_is_pinned_awake_is_not_put_to_sleep_by_hand() {
    let mut world = World::new(|_| {});
    world.up_and_empty(at(10));
    world.fleet.pin(&id("mc"), Pin::Awake, at(11)).unwrap();
    for force in [false, true] {
        let refused = world.fleet.sleep(&id("mc"), force, at(12));
        assert_eq!(refused, Err(CommandError::PinnedAwake(id("mc"))));
    }
    assert_eq!(world.scales(), [] as [bool; 0]);
}
