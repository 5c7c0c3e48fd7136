//! The limbo's session and the strict client, with nothing between them and a clock that the test turns: what
//! would take minutes, and what needs a certain moment.

use std::time::Duration;

use swarmgate_minecraft::limbo::{BarColour, BossBar, Event, Guest, Scene, Session, Transfer};
use swarmgate_minecraft::text::Component;
use swarmgate_testkit::vanilla::{End, Phase, Sight, Vanilla, releases};
use uuid::Uuid;

const SECOND: Duration = Duration::from_secs(1);
const WORLDS: std::ops::RangeInclusive<i32> = 766..=775;
const ROOMS: std::ops::RangeInclusive<i32> = 766..=777;

/// Both ends of one connection.
struct Pair {
    session: Session,
    client: Vanilla,
    now: Duration,
    /// What the client has sent and the session has not received.
    on_its_way: Vec<u8>,
    events: Vec<Event>,
}

#[test]
fn every_release_comes_into_the_world_and_out_of_it() {
    for protocol in WORLDS {
        for pack in releases(protocol).iter().copied().map(Some).chain([None]) {
            let mut pair = Pair::new(protocol, pack);
            let [Event::Arrived { brand, world }] = &pair.events[..] else { panic!("{:?}", pair.events) };
            assert_eq!(brand.as_deref(), Some("vanilla"), "{protocol}");
            if !world {
                assert_eq!(pack, None, "{protocol}: whoever has the game's own pack can have the world");
                continue;
            }
            pair.session.enter(pair.now);
            pair.settle();
            assert!(pair.client.world().is_some_and(|world| world.is_entered()), "{protocol} {pack:?}");
            assert!(pair.events.contains(&Event::Entered));
            let world = pair.client.world().unwrap();
            assert!(world.entity() != Some(0), "no entity of the game has the number 0");
            assert!(world.abilities() & 1 == 1 || world.game_mode() == Some(3), "it can be hurt");

            pair.session.show(&scene("Waking", "a while", 40));
            pair.session.say(&Component::literal("To leave, leave."));
            pair.settle();
            let seen = &pair.client.seen().sights;
            assert!(seen.contains(&Sight::Title("Waking".into())), "{seen:?}");
            assert!(seen.contains(&Sight::Chat("To leave, leave.".into())), "{seen:?}");
            let bar = pair.client.seen().bars.values().next().unwrap();
            assert_eq!((bar.title.as_str(), bar.progress), ("a while", 0.4));

            pair.session.transfer(to("mc.example.com"));
            pair.settle();
            pair.assert_transferred();
            assert_eq!(pair.client.into_cookies()["swarmgate:ticket"], b"secret");
        }
    }
}

#[test]
fn every_protocol_waits_in_the_room() {
    for protocol in ROOMS {
        let mut pair = Pair::new(protocol, releases(protocol).last().copied());
        pair.session.show(&scene("Waking", "a while", 40));
        pair.pass(300 * SECOND);
        let seen = pair.client.seen();
        assert_eq!(
            (seen.brand.as_deref(), &seen.flags[..], pair.client.phase()),
            (None, &[][..], Phase::Configuration)
        );
        assert!(seen.registries.sent.is_empty());
        assert!((15..=40).contains(&seen.keep_alives.0), "{:?}", seen.keep_alives);
        let dialog =
            seen.sights.iter().any(|sight| matches!(sight, Sight::Dialog(text) if text.contains("Waking")));
        assert_eq!(dialog, protocol >= 771, "{protocol}: {:?}", seen.sights);
        pair.session.transfer(to("mc.example.com"));
        pair.settle();
        pair.assert_transferred();
    }
}

#[test]
fn half_an_hour_in_the_world_and_nothing_is_sent_twice() {
    for protocol in [766, 770, 775] {
        let mut pair = Pair::new(protocol, releases(protocol).last().copied());
        pair.session.enter(pair.now);
        pair.settle();
        for minute in 0..30 {
            for _ in 0..60 {
                pair.session.show(&scene("Waking", &format!("{minute} min"), 3 * minute));
                pair.pass(SECOND);
            }
        }
        let seen = pair.client.seen();
        assert!((60..=200).contains(&seen.keep_alives.1), "{:?}", seen.keep_alives);
        assert_eq!(seen.sights.iter().filter(|sight| matches!(sight, Sight::Title(_))).count(), 1);
        let bars = seen.sights.iter().filter(|sight| matches!(sight, Sight::Bar(_))).count();
        assert_eq!(bars, 1 + 2 * 29, "once whole, then text and progress every minute");
        pair.session.disconnect(Component::literal("The server does not come."));
        pair.settle();
        assert_eq!(pair.client.end(), Some(&End::Kicked("The server does not come.".into())));
    }
}

/// The server is ready, or gone, at every single moment of a join.
#[test]
fn an_end_at_any_byte_is_an_end() {
    for protocol in [766, 768, 772, 775, 777] {
        let pack = releases(protocol).last().copied();
        let (mut step, mut done) = (0, false);
        while !done {
            for ready in [true, false] {
                let mut pair = Pair::begin(protocol, pack);
                // So many bytes of the client have come when it happens.
                done = pair.go_so_far(step);
                if ready {
                    pair.session.transfer(to("mc.example.com"));
                } else {
                    pair.session.disconnect(Component::literal("no"));
                }
                pair.session.transfer(to("elsewhere.example.com"));
                pair.settle();
                let end = pair.client.end().unwrap_or_else(|| panic!("{protocol}: no end at {step}"));
                match end {
                    End::Transferred { host, .. } => assert_eq!(host, "mc.example.com"),
                    end => assert_eq!(end, &End::Kicked("no".into()), "{protocol} at {step}"),
                }
                assert_eq!(pair.events.iter().filter(|event| **event == Event::Over).count(), 1);
            }
            step += 1;
        }
        assert!(step > 30, "{protocol}: {step}");
    }
}

/// The client loads for a long time, as modded ones do, and says nothing.
#[test]
fn a_slow_client_is_waited_for_and_a_dead_one_is_not() {
    let mut pair = Pair::new(767, Some("1.21.1"));
    let dead = (0..200).find(|_| {
        pair.now += SECOND;
        pair.session.tick(pair.now).is_err()
    });
    let seconds = dead.expect("an end");
    assert!((60..=150).contains(&seconds), "{seconds} s");
}

impl Pair {
    /// The client is in the waiting room.
    fn new(protocol: i32, pack: Option<&'static str>) -> Self {
        let mut pair = Self::begin(protocol, pack);
        pair.settle();
        pair
    }

    fn begin(protocol: i32, pack: Option<&'static str>) -> Self {
        let guest = Guest { protocol, name: "Ann".to_owned(), uuid: Uuid::from_u128(7), properties: vec![] };
        let now = 5 * SECOND;
        let session = Session::new(&guest, now).expect("an offer");
        let client = Vanilla::new(protocol, now).pack(pack);
        Self { session, client, now, on_its_way: vec![], events: vec![] }
    }

    /// Until nobody has anything to say, byte by byte.
    fn settle(&mut self) {
        self.exchange(usize::MAX);
    }

    /// The same until the client has said so many bytes, entering the world on the way; whether that was all.
    fn go_so_far(&mut self, bytes: usize) -> bool {
        let left = self.exchange(bytes);
        if left == 0 {
            return false;
        }
        self.session.enter(self.now);
        self.exchange(left) > 0
    }

    /// What is left of `most`.
    fn exchange(&mut self, mut most: usize) -> usize {
        loop {
            let down = self.session.output();
            for byte in &down {
                self.client.receive(&[*byte], self.now).expect("what a client takes");
            }
            if self.client.phase() == Phase::LoggedIn {
                self.client.acknowledge();
                self.client.go_on().expect("what a client takes");
            }
            self.on_its_way.extend(self.client.output());
            let up = most.min(self.on_its_way.len());
            for byte in self.on_its_way.drain(..up) {
                self.session.receive(&[byte], self.now).expect("what a session takes");
            }
            most -= up;
            self.events.extend(std::iter::from_fn(|| self.session.event()));
            if most == 0 || down.is_empty() && up == 0 {
                return most;
            }
        }
    }

    /// So much time passes, no tick too early.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.now = self.session.next_tick().clamp(self.now + Duration::from_millis(1), end);
            self.session.tick(self.now).expect("a client that answers");
            self.settle();
            self.client.tick(self.now).expect("a session that keeps it alive");
        }
    }

    fn assert_transferred(&self) {
        let expected = End::Transferred { host: "mc.example.com".to_owned(), port: 25_566 };
        assert_eq!(self.client.end(), Some(&expected), "{:?}", self.client.seen().player);
    }
}

fn to(host: &str) -> Transfer {
    let cookie = Some(("swarmgate:ticket".to_owned(), b"secret".to_vec()));
    Transfer { host: host.to_owned(), port: 25_566, cookie }
}

fn scene(title: &str, bar: &str, filled: u8) -> Scene {
    Scene {
        title: Component::literal(title),
        subtitle: Component::literal("…"),
        boss_bar: Some(BossBar { text: Component::literal(bar), filled, colour: BarColour::Green }),
    }
}
