//! Who must prove an account before a service is started, and what a proof is good for.

use uuid::Uuid;

use super::*;
use crate::ladder::Client;
use crate::service::{Wait, Wakers};

const NEW: Client =
    Client { protocol: 767, modded: false, proxied: false, addressed: true, transferred: false };
const OLD: Client = Client { protocol: 47, ..NEW };
const PROXIED: Client = Client { proxied: true, ..NEW };

fn verified(change: impl FnOnce(&mut Spec)) -> World {
    let mut world = World::new(|spec| {
        spec.wait = Wait::World;
        spec.wakers.verified = true;
        change(spec);
    });
    world.see(State::Asleep, at(1));
    world
}

fn player(name: &str, uuid: Option<u128>) -> Player {
    Player { name: name.into(), uuid: uuid.map(Uuid::from_u128) }
}

fn login(player: Player, client: Client) -> Knock {
    let knock = knock("mc.example.com", &player.name, "192.0.2.1");
    Knock { purpose: Purpose::Login(player, client), ..knock }
}

fn proven(knock: &Knock, account: Player) -> Knock {
    Knock { account: Some(account), ..knock.clone() }
}

#[test]
fn a_stranger_starts_nothing_before_the_proof_and_something_after_it() {
    let mut world = verified(|_| ());
    let ann = login(player("Ann", None), NEW);
    for _ in 0..2 {
        assert_eq!(refusal(&world.fleet.admit(&ann, at(2))), "prove");
    }
    assert_eq!((world.scales(), world.word()), (vec![], "asleep"));
    let verdict = world.fleet.admit(&proven(&ann, player("Ann", Some(7))), at(3));
    assert_eq!((refusal(&verdict), world.scales()), ("wait", vec![true]));
    // Now it starts: whoever comes starts nothing.
    assert_eq!(refusal(&world.fleet.admit(&login(player("Bo", None), NEW), at(4))), "wait");
}

#[test]
fn lists_are_of_accounts() {
    let by_name = |wakers: &mut Wakers| wakers.names = ["ann".to_owned()].into();
    let by_uuid = |wakers: &mut Wakers| wakers.uuids = [Uuid::from_u128(7)].into();
    type Change = fn(&mut Wakers);
    for (list, claim, before, account, after) in [
        (by_name as Change, player("Ann", None), "prove", player("ANN", Some(7)), "wait"),
        (by_name, player("Bo", Some(7)), "may_not_wake", player("Bo", Some(7)), "may_not_wake"),
        (by_uuid, player("Ann", Some(7)), "prove", player("Ann", Some(7)), "wait"),
        (by_uuid, player("Ann", Some(7)), "prove", player("Ann", Some(8)), "may_not_wake"),
        (by_uuid, player("Ann", Some(8)), "may_not_wake", player("Ann", Some(8)), "may_not_wake"),
        (by_uuid, player("Ann", None), "prove", player("Ann", Some(7)), "wait"),
        (by_uuid, player("Ann", None), "prove", player("Ann", Some(8)), "may_not_wake"),
    ] {
        let mut world = verified(|spec| list(&mut spec.wakers));
        let knock = login(claim, NEW);
        assert_eq!(refusal(&world.fleet.admit(&knock, at(2))), before, "{knock:?}");
        let verdict = world.fleet.admit(&proven(&knock, account), at(2));
        assert_eq!(refusal(&verdict), after, "{knock:?}");
        assert_eq!(world.scales().len(), usize::from(after == "wait"));
    }
}

/// The limit on wakes is met when the proof is asked for, and not once more.
#[test]
fn each_attempt_counts_as_a_wake() {
    let mut world = verified(|_| ());
    let ann = login(player("Ann", None), NEW);
    let burst = policy().wake_rate.burst;
    for _ in 0..burst {
        assert_eq!(refusal(&world.fleet.admit(&ann, at(2))), "prove");
    }
    assert_eq!(refusal(&world.fleet.admit(&ann, at(2))), "wake_rate");
    assert_eq!(refusal(&world.fleet.admit(&proven(&ann, player("Ann", Some(7))), at(2))), "wait");
}

#[test]
fn other_refusals_come_before_the_proof() {
    for (change, kind) in [
        ((|spec| spec.wake = false) as fn(&mut Spec), "wake_off"),
        (|spec| spec.clients.deny = vec!["192.0.2.0/24".parse().unwrap()], "denied"),
    ] {
        let mut world = verified(change);
        assert_eq!(refusal(&world.fleet.admit(&login(player("Ann", None), NEW), at(2))), kind);
    }
}

/// A connection that was encrypted for the proof belongs to the gate, one from a proxy does not.
#[test]
fn what_is_encrypted_is_never_relayed() {
    let mut world = verified(|_| ());
    world.up_and_empty(at(2));
    let account = || player("Ann", Some(7));
    for (client, plain, after) in
        [(NEW, "relay", "wait"), (OLD, "relay", "wait"), (PROXIED, "relay", "relay")]
    {
        let knock = login(player("Ann", None), client);
        assert_eq!(refusal(&world.fleet.admit(&knock, at(3))), plain);
        assert_eq!(refusal(&world.fleet.admit(&proven(&knock, account()), at(3))), after, "{client:?}");
    }
}

#[test]
fn whoever_has_proven_it_wakes_once_more_without() {
    let mut world = verified(|_| ());
    let claim = || login(player("Ann", None), OLD);
    let Verdict::Wait(seat, waiting) = world.fleet.admit(&proven(&claim(), player("Ann", Some(7))), at(2))
    else {
        panic!("does not wait")
    };
    assert_eq!(waiting.landing.rung, crate::ladder::Rung::Hold);
    world.fleet.release(&seat, at(2));
    world.scaled(true, at(3));
    assert_eq!(world.scales(), [true]);
    // It has ended before the player was back.
    world.see(State::Failed { reason: "x".into() }, at(4));
    let later = at(100);
    assert_eq!(refusal(&world.fleet.admit(&login(player("Ann", Some(8)), OLD), later)), "prove");
    assert_eq!(refusal(&world.fleet.admit(&claim(), later)), "wait");
    world.scaled(true, at(101));
    world.see(State::Failed { reason: "x".into() }, at(102));
    assert_eq!(refusal(&world.fleet.admit(&claim(), at(200))), "prove");
}
