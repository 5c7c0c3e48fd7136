use super::*;

const NOTHING: [bool; 0] = [];

/// Starting, told to by the first player.
fn woken(change: impl FnOnce(&mut Spec)) -> World {
    let mut world = World::new(change);
    world.see(State::Asleep, at(0));
    world.seat(at(0));
    assert_eq!(world.scales(), [true]);
    world
}

#[test]
fn a_join_after_the_decision_to_sleep_starts_it_again() {
    let mut world = World::new(|spec| spec.idle = Duration::from_secs(100));
    world.up_and_empty(at(10));
    world.players("r1", Some(0), at(110));
    assert_eq!(refusal(&world.join("192.0.2.1", at(110))), "wait");
    assert_eq!(world.scales(), [false]);
    world.scaled(false, at(111));
    world.see(State::Stopping, at(111));
    world.see(State::Asleep, at(150));
    assert_eq!(world.scales(), [true], "its wake was for the next run, not for the one that ends");
}

#[test]
fn there_is_never_a_second_scale_while_one_is_out() {
    let mut slow = woken(|spec| spec.start_timeout = Duration::from_secs(20));
    slow.fleet.tick(at(20));
    assert_eq!(slow.word(), "failed");
    assert_eq!(refusal(&slow.join("192.0.2.1", at(80))), "wait");
    assert_eq!(slow.scales(), NOTHING, "the first is still on its way");
    slow.fleet.scaled(&id("mc"), true, Err("timed out".into()), at(81));
    assert_eq!(slow.scales(), [true], "an old answer is no answer to the new wake");

    let mut by_hand = woken(|_| {});
    by_hand.fleet.sleep(&id("mc"), true, at(1)).unwrap();
    assert_eq!(by_hand.scales(), NOTHING);
    by_hand.scaled(true, at(2));
    assert_eq!(by_hand.scales(), [false]);

    let mut back_again = World::new(|spec| spec.idle = Duration::from_secs(100));
    back_again.up_and_empty(at(10));
    back_again.players("r1", Some(0), at(110));
    assert_eq!(back_again.scales(), [false]);
    back_again.fleet.observe(FILE, Snapshot::default(), at(111));
    back_again.see(State::Asleep, at(112));
    back_again.seat(at(113));
    assert_eq!(back_again.scales(), NOTHING, "removed and created anew, it is the same world");
    back_again.scaled(false, at(114));
    back_again.see(State::Asleep, at(114));
    assert_eq!(back_again.scales(), [true]);
}

#[test]
fn after_a_stop_only_a_new_listing_says_that_it_is_down() {
    for believed in [starting(), running("r1")] {
        let mut world = woken(|_| {});
        world.scaled(true, at(1));
        world.see(believed.clone(), at(1));
        world.fleet.sleep(&id("mc"), true, at(2)).unwrap();
        assert_eq!(world.scales(), [false]);
        world.seat(at(3));
        world.scaled(false, at(4));
        assert_eq!((world.word(), world.scales()), ("stopping", Vec::new()), "{believed:?}");
        world.see(State::Asleep, at(9));
        assert_eq!((world.word(), world.scales()), ("starting", vec![true]), "{believed:?}");
    }

    let mut unlisted = woken(|_| {});
    unlisted.fleet.sleep(&id("mc"), true, at(1)).unwrap();
    unlisted.seat(at(1));
    unlisted.scaled(true, at(2));
    unlisted.scaled(false, at(3));
    assert_eq!(unlisted.scales(), [false], "up and down again, and not listed since");
}

#[test]
fn a_stop_that_waits_for_its_turn_waits_for_the_source_too() {
    let mut world = woken(|_| {});
    world.fleet.sleep(&id("mc"), true, at(1)).unwrap();
    world.fleet.lost(FILE, "connection refused", at(2));
    world.scaled(true, at(3));
    assert_eq!(world.scales(), NOTHING);
    world.see(starting(), at(4));
    assert_eq!(world.scales(), [false]);
}

#[test]
fn who_waits_for_a_start_of_somebody_else_hears_how_it_ends() {
    type End = fn(&mut World);
    let ends: [(&str, End); 2] = [
        ("it ended by itself before players could join", |world| world.see(State::Asleep, at(50))),
        ("it was not ready after 1m 40s", |world| world.fleet.tick(at(102))),
    ];
    for (reason, end) in ends {
        let mut world = World::new(|spec| spec.start_timeout = Duration::from_secs(100));
        world.see(starting(), at(1));
        assert_eq!(world.fleet.next_deadline(), None);
        world.seat(at(2));
        end(&mut world);
        assert_eq!(world.fleet.face(&id("mc")).unwrap().state.reason(), Some(reason));
        assert_eq!(world.scales(), NOTHING);
    }
}

#[test]
fn whoever_waits_can_read_of_a_failure() {
    let mut no_cooldown = woken(|spec| spec.cooldown = Duration::ZERO);
    no_cooldown.fleet.scaled(&id("mc"), true, Err("403".into()), at(1));
    assert_eq!(no_cooldown.word(), "failed");

    let mut stopped = woken(|spec| spec.start_timeout = Duration::from_secs(20));
    stopped.scaled(true, at(1));
    stopped.see(State::Stopping, at(2));
    stopped.fleet.tick(at(200));
    stopped.see(State::Asleep, at(300));
    assert_eq!(stopped.word(), "failed");

    let mut restarting = woken(|spec| spec.start_timeout = Duration::from_secs(20));
    restarting.scaled(true, at(1));
    restarting.see(State::Restarting { until: at(5), reason: "exit code 1".into() }, at(2));
    restarting.fleet.tick(at(40));
    assert_eq!(restarting.word(), "failed");
}

#[test]
fn a_queued_wake_that_meets_a_restart_gets_its_delay() {
    let mut world = World::new(|spec| spec.start_timeout = Duration::from_secs(100));
    world.see(State::Asleep, at(0));
    world.fleet.lost(FILE, "connection refused", at(1));
    world.seat(at(2));
    world.see(State::Restarting { until: at(90), reason: "exit code 1".into() }, at(50));
    assert_eq!(world.fleet.next_deadline(), Some(at(190)));
}

#[test]
fn a_deadline_is_never_in_the_past() {
    let connections = |spec: &mut Spec| {
        spec.idle = Duration::from_secs(100);
        spec.players = Players::Connections;
    };
    let up = || {
        let mut world = World::new(connections);
        world.up_and_empty(at(10));
        world.fleet.tick(at(40));
        world
    };

    let mut cooled = woken(|_| {});
    cooled.fleet.scaled(&id("mc"), true, Err("403".into()), at(1));
    assert_eq!(cooled.fleet.next_deadline(), Some(at(61)));
    cooled.fleet.tick(at(61));
    assert_eq!(cooled.fleet.next_deadline(), None, "cooled down");

    let mut stopping = up();
    stopping.fleet.tick(at(110));
    assert_eq!(stopping.scales(), [false]);
    assert_eq!(stopping.fleet.next_deadline(), None, "asked to stop");
    stopping.fleet.scaled(&id("mc"), false, Err("500".into()), at(111));
    stopping.fleet.tick(at(112));
    assert_eq!(stopping.fleet.next_deadline(), Some(at(141)), "to be tried again");

    let mut lost = up();
    lost.fleet.lost(FILE, "connection refused", at(50));
    lost.fleet.tick(at(110));
    assert_eq!((lost.fleet.next_deadline(), lost.scales()), (None, Vec::new()), "nobody knows");
}

#[test]
fn a_change_of_who_counts_starts_the_idle_time_anew() {
    let mut world = World::new(|spec| {
        spec.idle = Duration::from_secs(100);
        spec.players = Players::Connections;
    });
    world.up_and_empty(at(10));
    world.players("r1", Some(3), at(40));
    world.spec.players = Players::Game;
    world.see(running("r1"), at(105));
    world.players("r1", Some(0), at(106));
    world.players("r1", Some(0), at(205));
    assert_eq!(world.scales(), NOTHING, "three people played by another way at 40");
    world.silent("r1", at(206));
    world.spec.players = Players::Connections;
    world.see(running("r1"), at(210));
    world.fleet.tick(at(309));
    assert_eq!(world.scales(), NOTHING);
    world.fleet.tick(at(310));
    assert_eq!(world.scales(), [false]);
}

#[test]
fn every_change_of_a_face_is_published() {
    type Change = fn(&mut World);
    let changes: [(&str, Change); 3] = [
        ("a reload", |world| {
            world.spec.texts.asleep = "zzz".into();
            world.see(running("r1"), at(20));
        }),
        ("a new icon", |world| {
            let status = json!({"players": {"online": 0}, "favicon": "new"});
            world.fleet.probed(&id("mc"), "r1", Probed::Answered { online: Some(0), status }, at(20));
        }),
        ("a removal", |world| world.fleet.observe(FILE, Snapshot::default(), at(20))),
    ];
    for (what, change) in changes {
        // Without a hostname, so that no change of a route publishes it by chance.
        let mut world = World::new(|spec| spec.hosts.clear());
        world.up_and_empty(at(10));
        assert!(world.fleet.take_view().is_some());
        assert!(world.fleet.take_view().is_none());
        change(&mut world);
        assert!(world.fleet.take_view().is_some(), "{what}");
    }
    let mut unknown = World::new(|spec| spec.hosts.clear());
    unknown.see(State::Unknown { reason: "503".into() }, at(1));
    assert_eq!(unknown.fleet.take_view().map(|view| view.len()), Some(1));
}
