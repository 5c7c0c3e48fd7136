mod any_split;

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::field::{Reader, write_text};
use crate::version::Protocol;
use crate::{Malformed, frame, ids, nbt, varint};

const UUID: Uuid = Uuid::from_u128(0x069a_79f4_44e9_4726_a5be_fca9_0e38_aaf5);
const START: Duration = Duration::from_secs(100);

fn guest(protocol: i32) -> Guest {
    Guest { protocol, name: "Ann".to_owned(), uuid: UUID, properties: Vec::new() }
}

fn session(protocol: i32) -> Session {
    let mut session = Session::new(&guest(protocol), START).unwrap();
    session.output();
    session
}

/// A client's packet.
fn packet(id: i32, fields: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    varint::write(id, &mut body);
    body.extend(fields);
    frame::encode(&body)
}

fn acknowledged() -> Vec<u8> {
    packet(3, b"")
}

fn brand(brand: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    write_text("minecraft:brand", &mut fields);
    write_text(brand, &mut fields);
    packet(2, &fields)
}

fn packs(releases: &[&str]) -> Vec<u8> {
    let mut fields = vec![u8::try_from(releases.len()).unwrap()];
    for release in releases {
        for text in ["minecraft", "core", release] {
            write_text(text, &mut fields);
        }
    }
    packet(7, &fields)
}

fn receive(session: &mut Session, packets: &[Vec<u8>]) {
    session.receive(&packets.concat(), START).unwrap();
}

/// In the waiting room, as vanilla with the core pack; all output and events so far are taken.
fn in_room(protocol: i32) -> Session {
    let mut session = session(protocol);
    let releases = Protocol(protocol).releases();
    receive(&mut session, &[acknowledged(), brand("vanilla"), packs(&releases[releases.len() - 1..])]);
    session.output();
    session.event();
    session
}

fn in_world(protocol: i32) -> Session {
    let mut session = in_room(protocol);
    session.enter(START);
    receive(&mut session, &[acknowledged()]);
    session.output();
    session.event();
    session
}

/// The packets of an output: ids and fields.
fn sent(bytes: &[u8]) -> Vec<(i32, Vec<u8>)> {
    let mut rest = bytes;
    let mut packets = Vec::new();
    while let Some(frame) = frame::split(rest, usize::MAX).unwrap() {
        let mut fields = Reader::new(frame.body);
        packets.push((fields.varint().unwrap(), fields.rest().to_vec()));
        rest = &rest[frame.consumed..];
    }
    assert!(rest.is_empty());
    packets
}

fn ids_of(bytes: &[u8]) -> Vec<i32> {
    sent(bytes).into_iter().map(|(id, _)| id).collect()
}

fn text(text: &str) -> Component {
    Component::literal(text)
}

fn scene(title: &str, filled: Option<u8>) -> Scene {
    let bar = |filled| BossBar { text: text("starting"), filled, colour: BarColour::Green };
    Scene { title: text(title), boss_bar: filled.map(bar), ..Scene::default() }
}

#[test]
fn successes() {
    let skin = |signature: Option<&str>| Property {
        name: "textures".to_owned(),
        value: "abc".to_owned(),
        signature: signature.map(str::to_owned),
    };
    let head = |count: u8| [&[2][..], UUID.as_bytes(), b"\x03Ann", &[count]].concat();
    for (protocol, properties, body) in [
        (766, vec![], [&head(0)[..], b"\0"].concat()),
        (767, vec![skin(Some("s"))], [&head(1)[..], b"\x08textures\x03abc\x01\x01s\0"].concat()),
        (768, vec![skin(None)], [&head(1)[..], b"\x08textures\x03abc\0"].concat()),
        (775, vec![], head(0)),
        (776, vec![], [&head(0)[..], UUID.as_bytes()].concat()),
        (777, vec![], [&head(0)[..], UUID.as_bytes()].concat()),
    ] {
        let mut session = Session::new(&Guest { properties, ..guest(protocol) }, START).unwrap();
        assert_eq!(session.output(), frame::encode(&body), "{protocol}");
    }
    let long = Guest { name: "[proxy]long-name🦀🦀".to_owned(), ..guest(768) };
    let mut session = Session::new(&long, START).unwrap();
    let body = [&[2][..], UUID.as_bytes(), b"\x10[proxy]long-name\0"].concat();
    assert_eq!(session.output(), frame::encode(&body));
    for protocol in [-1, 763, 765, 778, 0x4000_0001] {
        assert!(Session::new(&guest(protocol), START).is_none() && offer(protocol).is_none(), "{protocol}");
    }
}

#[test]
fn into_the_world() {
    for protocol in 766..=775 {
        let releases = Protocol(protocol).releases();
        let (setup, play) = (ids::setup(protocol), ids::play(protocol).unwrap());
        let mut session = session(protocol);
        receive(&mut session, &[acknowledged()]);
        let asked = sent(&session.output());
        assert_eq!(asked, [(setup.known_packs, packs_fields(releases))], "{protocol}");
        receive(&mut session, &[brand("fabric"), packs(&releases[..1])]);
        let brand = Some("fabric".to_owned());
        assert_eq!(session.event(), Some(Event::Arrived { brand, world: true }), "{protocol}");
        assert_eq!((session.output(), session.event()), (vec![], None));

        session.enter(START);
        let ids = ids_of(&session.output());
        assert_eq!((ids.first(), ids.last()), (Some(&setup.payload), Some(&setup.finish)), "{protocol}");
        let registries = ids.iter().filter(|id| **id == setup.registry).count();
        let tags = ids.iter().filter(|id| **id == setup.tags).count();
        assert!(registries >= 4 && registries + tags + 2 == ids.len(), "{protocol}: {ids:?}");
        assert_eq!(tags == 1, protocol >= 771, "{protocol}");
        // All at once does not make it twice.
        session.enter(START);
        assert_eq!(session.output(), b"");

        receive(&mut session, &[acknowledged()]);
        assert_eq!(session.event(), Some(Event::Entered));
        let ids = ids_of(&session.output());
        let mut expected =
            vec![play.login, play.abilities, play.spawn, play.position, play.game_event, play.chunk_centre];
        expected.extend([play.chunk; 9]);
        expected.push(play.title_times);
        assert_eq!(ids, expected, "{protocol}");
    }
}

/// The sizes tell the layouts apart; what is in them, clients that others have written read in other tests.
#[test]
fn layouts_of_the_world() {
    for (protocols, login, spawn, position, chunk) in [
        (766..=767, 64, 12, 34, 465),
        (768..=769, 65, 12, 61, 465),
        (770..=772, 65, 12, 61, 411),
        (773..=774, 65, 34, 61, 411),
        (775..=775, 65, 34, 61, 444),
    ] {
        for protocol in protocols {
            let play = ids::play(protocol).unwrap();
            let mut session = in_room(protocol);
            session.enter(START);
            session.output();
            receive(&mut session, &[acknowledged()]);
            let packets = sent(&session.output());
            let size = |id| packets.iter().find(|(other, _)| *other == id).map(|(_, fields)| fields.len());
            let sizes = [play.login, play.spawn, play.position, play.chunk].map(size);
            assert_eq!(sizes, [login, spawn, position, chunk].map(Some), "{protocol}");
        }
    }
}

fn packs_fields(releases: &[&str]) -> Vec<u8> {
    packs(releases)[2..].to_vec()
}

#[test]
fn who_may_enter() {
    let arrived =
        |brand: Option<&str>, world| Some(Event::Arrived { brand: brand.map(str::to_owned), world });
    for (protocol, said, expected) in [
        (775, vec![brand("vanilla"), packs(&["26.1.1"])], arrived(Some("vanilla"), true)),
        // Without the core pack, by whether all bodies are known.
        (775, vec![packs(&[])], arrived(None, true)),
        (774, vec![packs(&["1.21.10"])], arrived(None, true)),
        (772, vec![packs(&[])], arrived(None, false)),
        (772, vec![packs(&["1.21.7"])], arrived(None, true)),
        (770, vec![packs(&["1.21.6"])], arrived(None, false)),
        (767, vec![packs(&[])], arrived(None, true)),
        // Where the world is not known.
        (776, vec![brand("vanilla"), packs(&["26.2"])], arrived(Some("vanilla"), false)),
        (777, vec![packs(&["26.3"])], arrived(None, false)),
        // The rest of what a game says.
        (
            772,
            vec![packet(0, b"settings"), packet(2, b"\x03a:bdata"), packs(&["1.21.8"])],
            arrived(None, true),
        ),
        (772, vec![brand("vanilla")], None),
        // The first brand and the first packs count.
        (772, vec![brand("a"), brand("b"), packs(&["1.21.8"]), packs(&[])], arrived(Some("a"), true)),
        (772, vec![brand(&"long".repeat(100)), packs(&["1.21.8"])], arrived(None, true)),
    ] {
        let mut session = session(protocol);
        receive(&mut session, &[acknowledged()]);
        receive(&mut session, &said);
        assert_eq!(session.event(), expected, "{protocol} {said:02x?}");
        assert_eq!(session.event(), None);
        session.output();
        session.enter(START);
        let enters = matches!(expected, Some(Event::Arrived { world: true, .. }));
        assert_eq!(session.stage() == Stage::Entering, enters, "{protocol}");
        assert_eq!(session.output().is_empty(), !enters, "{protocol}");
    }
}

#[test]
fn without_an_answer_it_is_the_room() {
    let mut session = session(772);
    receive(&mut session, &[acknowledged(), brand("odd")]);
    assert_eq!(session.next_tick(), START + Duration::from_secs(10));
    session.tick(START + Duration::from_millis(9999)).unwrap();
    assert_eq!(session.event(), None);
    session.tick(START + Duration::from_secs(10)).unwrap();
    let brand = Some("odd".to_owned());
    assert_eq!(session.event(), Some(Event::Arrived { brand, world: false }));
    assert_eq!(session.event(), None);
}

#[test]
fn farewells() {
    let to =
        || Transfer { host: "h".to_owned(), port: 25566, cookie: Some(("a:b".to_owned(), b"hi".to_vec())) };
    for protocol in 766..=777 {
        let (setup, play) = (ids::setup(protocol), ids::play(protocol).unwrap());
        let cookie = b"\x03a:b\x02hi".to_vec();
        let target = b"\x01h\xde\xc7\x01".to_vec();
        let text_fields = text("bye").to_nbt();
        let mut stages = vec![(in_room(protocol), setup.store_cookie, setup.transfer, setup.disconnect)];
        let over = |session: &mut Session| std::iter::from_fn(|| session.event()).last();
        // Before the client has acknowledged its login nothing may be sent.
        let mut early = session(protocol);
        early.transfer(to());
        assert_eq!((early.output(), early.event()), (vec![], None));
        receive(&mut early, &[acknowledged()]);
        assert_eq!(
            sent(&early.output())[1..],
            [(setup.store_cookie, cookie.clone()), (setup.transfer, target.clone())]
        );
        assert_eq!((early.stage(), early.event()), (Stage::Over, Some(Event::Over)));

        if protocol <= 775 {
            let (store, transfer) = (play.store_cookie.unwrap(), play.transfer.unwrap());
            stages.push((in_world(protocol), store, transfer, play.disconnect));
            // Neither before it has acknowledged the world.
            let mut entering = in_room(protocol);
            entering.enter(START);
            entering.output();
            entering.disconnect(text("bye"));
            entering.transfer(to());
            assert_eq!((entering.output(), entering.event()), (vec![], None));
            receive(&mut entering, &[acknowledged()]);
            let output = sent(&entering.output());
            assert_eq!(output.first().map(|(id, _)| *id), Some(play.login));
            assert_eq!(output.last(), Some(&(play.disconnect, text_fields.clone())));
            assert_eq!(over(&mut entering), Some(Event::Over));
        }
        for (mut session, store, transfer, _) in stages {
            session.transfer(to());
            assert_eq!(sent(&session.output()), [(store, cookie.clone()), (transfer, target.clone())]);
            assert_eq!((session.event(), session.event()), (Some(Event::Over), None));
            // Once, and nothing behind it.
            session.transfer(to());
            session.disconnect(text("bye"));
            session.show(&scene("late", Some(1)));
            session.say(&text("late"));
            session.enter(START);
            session.receive(&[0xff; 64], START).unwrap();
            session.tick(START + Duration::from_secs(1000)).unwrap();
            assert_eq!((session.output(), session.event()), (vec![], None));
            assert_eq!(session.next_tick(), Duration::MAX);
        }
        let mut session = in_room(protocol);
        session.disconnect(text("bye"));
        assert_eq!(sent(&session.output()), [(setup.disconnect, text_fields)]);
    }
}

#[test]
fn a_cookie_the_game_would_not_take_stays_behind() {
    let mut session = in_room(767);
    let cookie = Some(("a:b".to_owned(), vec![0; 5121]));
    session.transfer(Transfer { host: "h".to_owned(), port: 1, cookie });
    assert_eq!(ids_of(&session.output()), [0x0b]);
}

#[test]
fn kept_alive() {
    let seconds = |seconds: u64| START + Duration::from_secs(seconds);
    const PATIENCE: u64 = 90;
    for (mut session, id, answer) in
        [(in_room(772), 0x04, 4), (in_world(772), 0x26, 0x1b), (in_room(777), 0x04, 4)]
    {
        assert_eq!(session.next_tick(), seconds(10));
        session.tick(seconds(9)).unwrap();
        assert_eq!(session.output(), b"");
        for round in 1..=30 {
            session.tick(seconds(10 * round)).unwrap();
            assert_eq!(session.next_tick(), seconds(10 * round + 10));
            let output = sent(&session.output());
            assert_eq!(output.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id]);
            session.receive(&packet(answer, &output[0].1), seconds(10 * round + 1)).unwrap();
        }
        // From here on the client is silent, or says what was never asked.
        let mut at = 310;
        while at < 310 + PATIENCE {
            session.tick(seconds(at)).unwrap();
            session.receive(&packet(answer, &[0; 8]), seconds(at)).unwrap();
            at += 10;
        }
        session.output();
        let stage = session.stage();
        assert_eq!(session.next_tick(), seconds(310 + PATIENCE));
        assert_eq!(session.tick(seconds(310 + PATIENCE)), Err(Broken { stage, why: Fault::Silent }));
    }
    // A client with mods answers nothing for more than a minute, and then one after the other.
    for (mut session, answer) in [(in_room(772), 4), (in_world(772), 0x1b)] {
        (1..=8).for_each(|round| session.tick(seconds(10 * round)).unwrap());
        let asked = sent(&session.output());
        assert_eq!(asked.len(), 8);
        session.receive(&packet(answer, &asked[0].1), seconds(85)).unwrap();
        (9..=17).for_each(|round| session.tick(seconds(10 * round)).unwrap());
        let stage = session.stage();
        assert_eq!(session.tick(seconds(180)), Err(Broken { stage, why: Fault::Silent }), "since the next");
    }

    let mut silent = self::session(772);
    assert_eq!(silent.next_tick(), seconds(30));
    assert_eq!(silent.tick(seconds(30)), Err(Broken { stage: Stage::Login, why: Fault::Silent }));
    let mut silent = in_room(772);
    silent.enter(START);
    assert_eq!(silent.next_tick(), seconds(90));
    assert_eq!(silent.tick(seconds(90)), Err(Broken { stage: Stage::Entering, why: Fault::Silent }));
}

#[test]
fn only_what_changes_is_drawn() {
    let mut session = in_room(775);
    session.enter(START);
    session.show(&scene("before", Some(1)));
    session.output();
    receive(&mut session, &[acknowledged()]);
    let play = ids::play(775).unwrap();
    let first = ids_of(&session.output());
    assert_eq!(first[first.len() - 3..], [play.title_times, play.title, play.boss_bar]);

    let bar = |filled, colour| Some(BossBar { text: text("starting"), filled, colour });
    let now = Scene { subtitle: text("sub"), ..scene("t", Some(1)) };
    for (scene, expected) in [
        (scene("before", Some(1)), vec![]),
        (scene("t", Some(1)), vec![(play.title, None)]),
        (now.clone(), vec![(play.subtitle, None)]),
        (Scene { boss_bar: bar(50, BarColour::Green), ..now.clone() }, vec![(play.boss_bar, Some(2))]),
        (
            Scene { boss_bar: bar(60, BarColour::White), ..now.clone() },
            vec![(play.boss_bar, Some(2)), (play.boss_bar, Some(4))],
        ),
        (Scene { boss_bar: None, ..now.clone() }, vec![(play.boss_bar, Some(1))]),
        (Scene { boss_bar: None, ..now.clone() }, vec![]),
        (now.clone(), vec![(play.boss_bar, Some(0))]),
    ] {
        session.show(&scene);
        let output = sent(&session.output());
        let seen: Vec<_> =
            output.iter().map(|(id, fields)| (*id, (*id == play.boss_bar).then(|| fields[16]))).collect();
        assert_eq!(seen, expected, "{scene:?}");
    }
    session.say(&text("hello"));
    assert_eq!(sent(&session.output()), [(play.chat, b"\x08\0\x05hello\0".to_vec())]);
}

#[test]
fn dialogs_in_the_room() {
    for (protocol, show) in [(770, None), (771, Some(0x12)), (776, Some(0x12)), (777, Some(0x13))] {
        let mut early = session(protocol);
        early.show(&scene("Lobby", None));
        receive(&mut early, &[acknowledged()]);
        early.show(&scene("Lobby", None));
        assert_eq!(ids_of(&early.output()).len(), 1, "not before it has arrived");

        let mut session = in_room(protocol);
        session.show(&scene("Lobby", Some(1)));
        let output = sent(&session.output());
        assert_eq!(output.first().map(|(id, _)| *id), show, "{protocol}");
        let Some((_, fields)) = output.first() else { continue };
        assert_eq!(
            nbt::read(fields),
            Ok(json!({
                "type": "minecraft:notice",
                "title": {"text": "Lobby"},
                "body": [
                    {"type": "minecraft:plain_message", "contents": {"text": "starting"}},
                ],
                "pause": false,
            }))
        );
        // The bar's fill would make it blink.
        session.show(&scene("Lobby", Some(2)));
        assert_eq!(session.output(), b"");
        session.show(&scene("Survival", Some(2)));
        assert_eq!(ids_of(&session.output()), [show.unwrap()]);
        session.say(&text("no chat here"));
        assert_eq!(session.output(), b"");
        session.enter(START);
        if protocol < 776 {
            assert_eq!(ids_of(&session.output())[..2], [show.unwrap() - 1, 1], "it is closed on the way");
        }
    }
}

#[test]
fn broken_rules() {
    let malformed = |stage, why| Err(Broken { stage, why: Fault::Malformed(why) });
    let entering = || {
        let mut session = in_room(772);
        session.enter(START);
        session
    };
    for (mut session, bytes, expected) in [
        (session(772), packet(0, b""), malformed(Stage::Login, Malformed::BadPacketId(0))),
        (
            session(772),
            packet(3, b"x"),
            malformed(Stage::Login, Malformed::Oversized { claimed: 1, limit: 0 }),
        ),
        // Answers to what was asked before.
        (session(772), packet(4, b"\x03a:b\0"), Ok(())),
        (session(772), packet(2, b"\x01\0"), Ok(())),
        // Nothing is finished yet.
        (in_room(772), packet(3, b""), malformed(Stage::Room, Malformed::BadPacketId(3))),
        (in_room(772), packet(-1, b""), malformed(Stage::Room, Malformed::BadPacketId(-1))),
        (in_room(772), packet(4, b"short"), malformed(Stage::Room, Malformed::Truncated)),
        (
            in_room(772),
            packet(4, b"far too long"),
            malformed(Stage::Room, Malformed::Oversized { claimed: 12, limit: 8 }),
        ),
        (
            in_room(772),
            packet(1, &[0; 7000]),
            malformed(Stage::Room, Malformed::Oversized { claimed: 7000, limit: 6144 }),
        ),
        // Nothing was asked here, but a late answer is no fault.
        (in_room(772), packet(1, b"\x03a:b\0"), Ok(())),
        (in_world(772), packet(0x14, b"\x03a:b\0"), Ok(())),
        (
            in_world(772),
            packet(0x14, &[0; 7000]),
            malformed(Stage::World, Malformed::Oversized { claimed: 7000, limit: 6144 }),
        ),
        (in_room(772), b"\0".to_vec(), malformed(Stage::Room, Malformed::EmptyFrame)),
        (in_room(772), b"\xff\xff\xff\xff".to_vec(), malformed(Stage::Room, Malformed::BadLength)),
        (in_room(772), b"\x01\x80".to_vec(), malformed(Stage::Room, Malformed::Truncated)),
        (in_room(772), packet(99, b"whatever"), Ok(())),
        (entering(), packet(2, b"\x03a:bdata"), Ok(())),
        (
            entering(),
            packet(3, b"x"),
            malformed(Stage::Entering, Malformed::Oversized { claimed: 1, limit: 0 }),
        ),
        (in_world(772), packet(0x1b, b"short"), malformed(Stage::World, Malformed::Truncated)),
        (in_world(772), packet(-7, b""), malformed(Stage::World, Malformed::BadPacketId(-7))),
        (in_world(772), packet(0x08, b"chat, and whatever a game says"), Ok(())),
    ] {
        assert_eq!(session.receive(&bytes, START), expected, "{bytes:02x?}");
    }
    let mut asked = session(772);
    receive(&mut asked, &[acknowledged()]);
    let broken = asked.receive(&packet(7, b"\x02\x01a\x01b\x01c"), START);
    assert_eq!(broken, malformed(Stage::Room, Malformed::Truncated));
}

#[test]
fn long_packets_pass_by_and_floods_do_not() {
    let mut session = in_world(772);
    let long = packet(0x0a, &[0; 2_000_000]);
    session.receive(&long, START).unwrap();
    session.receive(&long, START + Duration::from_secs(1)).unwrap();
    let flood = session.receive(&long, START + Duration::from_secs(2));
    assert_eq!(flood, Err(Broken { stage: Stage::World, why: Fault::Flood }));

    let mut session = in_world(772);
    for second in 0..60 {
        session.receive(&long, START + Duration::from_secs(6 * second)).unwrap();
    }
    assert!(session.held() <= 16, "{}", session.held());
}
