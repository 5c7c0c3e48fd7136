//! Who waits in limbo, and who comes back from there.

use super::*;
use crate::knock::Waiting;
use crate::ladder::{Client, Exit, Reason, Rung, Said};
use crate::service::Wait;

const CLIENT: Client =
    Client { protocol: 767, modded: false, proxied: false, addressed: true, transferred: false };
const BACK: Client = Client { transferred: true, ..CLIENT };

fn login(name: &str, from: &str, client: Client) -> Knock {
    let purpose = Purpose::Login(Player { name: name.into(), uuid: None }, client);
    Knock { purpose, ..knock("mc.example.com", name, from) }
}

fn limbo() -> World {
    let mut world = World::new(|spec| spec.wait = Wait::World);
    world.see(State::Asleep, at(1));
    world
}

fn waits(verdict: Verdict) -> (Seat, Waiting) {
    match verdict {
        Verdict::Wait(seat, waiting) => (seat, waiting),
        other => panic!("does not wait: {other:?}"),
    }
}

fn relayed(verdict: Verdict) -> Seat {
    match verdict {
        Verdict::Relay(seat, _) => seat,
        other => panic!("is not relayed: {other:?}"),
    }
}

impl World {
    fn seats(&self, now: Moment) -> usize {
        self.fleet.report(&id("mc"), now).unwrap().seats
    }

    /// Up since `now`; the run is called `run`.
    fn comes_up(&mut self, run: &str, now: Moment) {
        self.scaled(true, now);
        self.see(running(run), now);
        self.players(run, Some(0), now);
        assert_eq!(self.word(), "running");
    }
}

#[test]
fn a_player_waits_is_sent_back_and_returns_to_its_seat() {
    let mut world = limbo();
    let ann = login("Ann", "192.0.2.1", CLIENT);
    let (seat, waiting) = waits(world.fleet.admit(&ann, at(2)));
    assert_eq!(
        (waiting.landing.rung, waiting.exit, waiting.hold),
        (Rung::World, Exit::Transfer, Duration::ZERO)
    );
    assert_eq!((world.fleet.in_limbo(), seat.returned), (1, false));
    world.comes_up("r1", at(20));
    world.fleet.sent_back(&seat, &ann, HostName::parse("mc.example.com").ok(), at(20));
    assert_eq!((world.fleet.in_limbo(), world.seats(at(21))), (0, 1), "the seat is kept");
    let back = login("aNN", "192.0.2.1", BACK);
    assert!(world.fleet.has_ticket(&back, at(22)));
    let seat = relayed(world.fleet.admit(&back, at(22)));
    assert!(seat.returned);
    assert_eq!(world.seats(at(22)), 1, "one player, one seat");
    world.fleet.release(&seat, at(30));
    assert_eq!(world.seats(at(30)), 0);
    assert!(!world.fleet.has_ticket(&back, at(30)), "a ticket is for one return");
    assert!(!relayed(world.fleet.admit(&back, at(30))).returned);
}

#[test]
fn a_seat_that_nobody_comes_back_for_is_given_up() {
    let mut world = limbo();
    let ann = login("Ann", "192.0.2.1", CLIENT);
    let (seat, _) = waits(world.fleet.admit(&ann, at(2)));
    world.comes_up("r1", at(20));
    world.fleet.sent_back(&seat, &ann, None, at(20));
    assert!(world.fleet.next_deadline().is_some_and(|due| due <= at(50)));
    world.fleet.tick(at(49));
    assert_eq!(world.seats(at(49)), 1);
    world.fleet.tick(at(50));
    assert_eq!(world.seats(at(50)), 0);
    // Neither is a place in limbo that was left without being sent back.
    world.see(State::Asleep, at(60));
    let (seat, _) = waits(world.fleet.admit(&ann, at(61)));
    world.fleet.release(&seat, at(62));
    assert_eq!((world.fleet.in_limbo(), world.seats(at(62))), (0, 0));
}

#[test]
fn who_returns_is_not_limited_in_waking_and_not_sent_back_for_ever() {
    let mut world = limbo();
    let mut policy = policy();
    policy.wake_rate = Rate { burst: 1, every: Duration::from_secs(3_600) };
    world.fleet.set_policy(policy, at(1));
    let mut rungs = Vec::new();
    let mut knock = login("Ann", "192.0.2.1", CLIENT);
    for round in 1..=3 {
        let now = round * 10;
        let (seat, waiting) = waits(world.fleet.admit(&knock, at(now)));
        rungs.push((waiting.landing.rung, seat.returned));
        world.comes_up(&format!("r{round}"), at(now + 1));
        world.fleet.sent_back(&seat, &knock, HostName::parse("mc.example.com").ok(), at(now + 1));
        knock = login("Ann", "192.0.2.1", BACK);
        // It dies before the player is there.
        world.see(State::Asleep, at(now + 2));
    }
    assert_eq!(rungs, [(Rung::World, false), (Rung::World, true), (Rung::Hold, true)]);
    let stranger = login("Bo", "192.0.2.1", BACK);
    assert_eq!(refusal(&world.fleet.admit(&stranger, at(40))), "wake_rate");
}

#[test]
fn a_pass_and_a_ticket_lead_to_their_service_only() {
    let mut world = limbo();
    let other = |knock: Knock| Knock { host: HostName::parse("play.example.com").ok(), ..knock };
    let pass = Knock { pass: Some(id("mc")), ..login("Ann", "198.51.100.9", BACK) };
    let (seat, _) = waits(world.fleet.admit(&other(pass), at(2)));
    assert!(seat.returned, "by the cookie, from elsewhere and by another name of the gate");
    let gone = Knock { pass: Some(id("gone")), ..login("Ann", "198.51.100.9", BACK) };
    assert_eq!(refusal(&world.fleet.admit(&other(gone), at(2))), "unknown_host");
    world.comes_up("r1", at(3));
    let ann = login("Ann", "192.0.2.1", CLIENT);
    world.fleet.sent_back(&seat, &ann, HostName::parse("play.example.com").ok(), at(4));
    for (knock, returned) in [
        (other(login("Bo", "192.0.2.1", BACK)), None),
        (other(login("Ann", "192.0.2.2", BACK)), None),
        (other(login("Ann", "192.0.2.1", CLIENT)), None),
        (login("Bo", "192.0.2.1", BACK), Some(false)),
        (other(login("Ann", "192.0.2.1", BACK)), Some(true)),
    ] {
        let verdict = world.fleet.admit(&knock, at(5));
        match returned {
            Some(returned) => assert_eq!(relayed(verdict).returned, returned, "{knock:?}"),
            None => assert_eq!(refusal(&verdict), "unknown_host", "{knock:?}"),
        }
    }
}

#[test]
fn a_denied_address_is_denied_with_any_pass() {
    let mut world = limbo();
    world.spec.clients.deny = vec!["192.0.2.0/24".parse().unwrap()];
    world.see(State::Asleep, at(2));
    let pass = Knock { pass: Some(id("mc")), ..login("Ann", "192.0.2.1", BACK) };
    assert_eq!(refusal(&world.fleet.admit(&pass, at(3))), "denied");
}

#[test]
fn limbo_has_so_many_places_and_the_others_are_held() {
    let mut world = limbo();
    let mut policy = policy();
    policy.limbo = Caps { per_source: 2, total: 4 };
    policy.trusted = vec!["10.0.0.0/8".parse().unwrap()];
    world.fleet.set_policy(policy, at(1));
    let mut seats = Vec::new();
    for (n, (from, refused)) in [
        ("192.0.2.1", None),
        ("192.0.2.1", None),
        ("192.0.2.1", Some(Reason::SourceFull)),
        ("10.0.0.1", None),
        ("10.0.0.1", None),
        ("192.0.2.9", Some(Reason::Full)),
    ]
    .into_iter()
    .enumerate()
    {
        let (seat, waiting) = waits(world.fleet.admit(&login(&n.to_string(), from, CLIENT), at(2)));
        let landing = waiting.landing;
        assert_eq!(landing.rung, if refused.is_some() { Rung::Hold } else { Rung::World });
        assert_eq!(landing.refused.first().map(|(_, reason)| *reason), refused);
        seats.push(seat);
    }
    assert_eq!(world.fleet.in_limbo(), 4);
    // Who is in is not refused by the caps when it has said what it is.
    let said = Said { brand: Some("vanilla".to_owned()), world: true };
    let arrived = world.fleet.arrived(&seats[0], &login("0", "192.0.2.1", CLIENT), &said, at(3)).unwrap();
    assert_eq!(arrived.landing.rung, Rung::World);
    for seat in &seats {
        world.fleet.release(seat, at(4));
    }
    assert_eq!(world.fleet.in_limbo(), 0);
}

#[test]
fn a_client_that_broke_gets_the_next_rung_for_a_while() {
    let mut world = limbo();
    let ann = login("Ann", "192.0.2.1", CLIENT);
    let rung = |world: &mut World, seconds| {
        let (seat, waiting) = waits(world.fleet.admit(&ann, at(seconds)));
        world.fleet.release(&seat, at(seconds));
        waiting.landing.rung
    };
    assert_eq!(rung(&mut world, 2), Rung::World);
    world.fleet.broke(&ann, Rung::World, at(3));
    assert_eq!(rung(&mut world, 4), Rung::Room);
    world.fleet.broke(&ann, Rung::Room, at(5));
    assert_eq!(rung(&mut world, 6), Rung::Hold);
    let (_, other) = waits(world.fleet.admit(&login("Bo", "192.0.2.1", CLIENT), at(6)));
    assert_eq!(other.landing.rung, Rung::World);
    assert_eq!(rung(&mut world, 700), Rung::World);
}

#[test]
fn behind_a_proxy_a_player_is_held_first_and_keeps_its_seat_for_joining_again() {
    let mut world = limbo();
    let proxied = Client { proxied: true, ..CLIENT };
    let ann = login("Ann", "192.0.2.1", proxied);
    let (seat, waiting) = waits(world.fleet.admit(&ann, at(2)));
    assert_eq!(
        (waiting.landing.rung, waiting.exit, waiting.hold),
        (Rung::World, Exit::Rejoin, world.spec.hold)
    );
    world.comes_up("r1", at(60));
    world.fleet.sent_back(&seat, &ann, HostName::parse("mc.example.com").ok(), at(60));
    let seat = relayed(world.fleet.admit(&ann, at(65)));
    assert_eq!((seat.returned, world.seats(at(65))), (true, 1));
}
