//! Streams made by hand: what is legal goes through byte by byte, and every rule is broken once.

mod handmade;

use std::io;
use std::time::Duration;

use super::ids::{self, Play};
use super::*;
use crate::login::LoginSuccess;
use crate::wire::Body;
use handmade::*;

const PROTOCOLS: std::ops::RangeInclusive<i32> = 766..=777;
/// Ids of the configuration phase, the same from 766 to 776.
const PAYLOAD: i32 = 1;
const DISCONNECT: i32 = 2;
const FINISH: i32 = 3;
const KEEP_ALIVE: i32 = 4;
const REGISTRY: i32 = 7;
const TRANSFER: i32 = 0x0b;
const DIALOG: i32 = 0x12;

#[test]
fn into_a_world_and_back_out_in_every_version() {
    for protocol in PROTOCOLS {
        let mut client = logged_in(protocol);
        assert_eq!(client.seen().player, Some(("Ann".into(), 7)));
        client.acknowledge();
        assert_eq!(sent(&mut client), [LOGIN_ACKNOWLEDGED, 2, 0]);
        let later = later(protocol);
        feed(&mut client, &known_packs(protocol)).unwrap();
        assert_eq!(sent(&mut client), [7]);
        feed(&mut client, &Set::of(protocol).packets()).unwrap();
        feed(&mut client, &[Body::new().i64(5).packet(KEEP_ALIVE), Body::new().packet(FINISH)].concat())
            .unwrap();
        assert_eq!(sent(&mut client), [4, 3], "{protocol}");
        assert_eq!(client.phase(), Phase::Play);

        let entered = |client: &Vanilla| client.world().unwrap().is_entered();
        let burst = burst(protocol);
        for packet in &burst {
            assert!(!entered(&client), "{protocol}");
            feed(&mut client, packet).unwrap();
        }
        assert!(entered(&client), "{protocol}");
        assert_eq!(client.world().unwrap().entity(), Some(1));
        let id = |packet| ids::playing(protocol, packet);
        assert_eq!(
            sent(&mut client),
            [ids::Playing::AcceptTeleport, ids::Playing::MovePosRot].map(|it| id(it).unwrap())
        );
        client.beat();
        let beat = [id(ids::Playing::Loaded), id(ids::Playing::TickEnd)];
        assert_eq!(sent(&mut client), beat.into_iter().flatten().collect::<Vec<_>>(), "{protocol}");

        feed(&mut client, &say(protocol, Play::KeepAlive, Body::new().i64(5))).unwrap();
        assert_eq!(
            (sent(&mut client), client.seen().keep_alives),
            (vec![id(ids::Playing::KeepAlive).unwrap()], (1, 1))
        );
        feed(&mut client, &say(protocol, Play::StartConfiguration, Body::new())).unwrap();
        assert_eq!(sent(&mut client), [id(ids::Playing::ConfigurationAcknowledged).unwrap(), 2, 0]);
        feed(&mut client, &transfer(TRANSFER + later, "mc.example.com", 25565)).unwrap();
        let end = End::Transferred { host: "mc.example.com".into(), port: 25565 };
        assert_eq!(client.end(), Some(&end), "{protocol}");
    }
}

#[test]
fn a_player_beside_the_world_needs_no_chunk() {
    let mut client = playing(767);
    for packet in burst(767).iter().take(3) {
        feed(&mut client, packet).unwrap();
    }
    assert!(!client.world().unwrap().is_entered());
    feed(&mut client, &position(767, 400.0)).unwrap();
    assert!(client.world().unwrap().is_entered());
}

#[test]
fn packs_and_bodies() {
    // The second release of a protocol has the second pack, and no client has another's.
    for (pack, known) in
        [(Some("1.20.5"), true), (Some("1.20.6"), true), (Some("1.21"), false), (None, false)]
    {
        let mut client = Vanilla::new(766, Duration::ZERO).pack(pack);
        feed(&mut client, &LoginSuccess { name: "Ann".into(), uuid: 7 }.packet(766)).unwrap();
        client.acknowledge();
        feed(&mut client, &known_packs(766)).unwrap();
        assert!(
            client.output().ends_with(if known { pack.unwrap().as_bytes() } else { &[2, 7, 0] }),
            "{pack:?}"
        );
        let finished = feed(&mut client, &[Set::of(766).packets(), Body::new().packet(FINISH)].concat());
        assert_eq!(finished.is_ok(), known, "{pack:?}: {finished:?}");
    }
    // Bodies make up for the pack, where they are whole.
    let full = Set::of(766).with_bodies();
    full.finished(None).unwrap();
    for (registry, field) in
        [("dimension_type", "min_y"), ("damage_type", "scaling"), ("worldgen/biome", "effects")]
    {
        let mut set = full.clone();
        let body = set.entries.get_mut(registry).unwrap()[0].1.as_mut().unwrap();
        body.as_object_mut().unwrap().remove(field);
        assert_says(set.finished(None), &format!("has no {field:?}"));
    }
}

#[test]
fn what_is_seen_is_told_in_words() {
    let protocol = 771;
    let mut client = playing(protocol);
    let text = |words: &str| nbt_text(words);
    let bar = |action: i32| Body::new().uuid(9).varint(action);
    let packets = [
        say(protocol, Play::Title, text("a")),
        say(protocol, Play::Subtitle, text("b")),
        say(protocol, Play::ActionBar, text("c")),
        say(protocol, Play::SystemChat, text("d").bool(false)),
        say(protocol, Play::SystemChat, text("e").bool(true)),
        say(protocol, Play::BossBar, bar(0).raw(&text("f").0).f32(0.5).varint(1).varint(0).u8(0)),
        say(protocol, Play::BossBar, bar(2).f32(1.0)),
        say(protocol, Play::BossBar, bar(3).raw(&text("g").0)),
        say(
            protocol,
            Play::ShowDialog,
            Body::new().varint(0).raw(&dialog(&[("type", "notice"), ("title", "h")]).0),
        ),
        say(protocol, Play::Disconnect, text("bye")),
    ];
    feed(&mut client, &packets.concat()).unwrap();
    let bar = |title: &str, progress| Sight::Bar(Bar { title: title.into(), progress });
    let seen = [
        Sight::Title("a".into()),
        Sight::Subtitle("b".into()),
        Sight::ActionBar("c".into()),
        Sight::Chat("d".into()),
        Sight::ActionBar("e".into()),
        bar("f", 0.5),
        bar("f", 1.0),
        bar("g", 1.0),
        Sight::Dialog("h".into()),
    ];
    assert_eq!(client.seen().sights, seen);
    assert_eq!(client.end(), Some(&End::Kicked("bye".into())));
}

#[test]
fn cookies_are_kept_and_given_back() {
    let mut client = configuring(767);
    let store = |length| Body::new().string("sg:token").bytes(&vec![7; length]).packet(0x0a);
    feed(&mut client, &store(5120)).unwrap();
    feed(&mut client, &Body::new().string("sg:token").packet(0)).unwrap();
    assert!(
        client.output().ends_with(&Body::new().string("sg:token").bool(true).bytes(&[7; 5120]).packet(1))
    );
    assert_says(feed(&mut configuring(767), &store(5121)), "a cookie of 5121 bytes");
    let mut second = Vanilla::new(767, Duration::ZERO).cookies(client.into_cookies());
    feed(&mut second, &Body::new().string("other").packet(5)).unwrap();
    assert!(second.output().ends_with(&Body::new().string("minecraft:other").bool(false).packet(4)));
}

#[test]
fn thirty_seconds_of_silence_are_too_long() {
    let second = Duration::from_secs(1);
    for mut client in [Vanilla::new(767, Duration::ZERO), configuring(767), playing(767)] {
        client.tick(30 * second).unwrap();
        assert!(client.tick(30 * second + Duration::from_millis(1)).is_err());
        let one = &Body::new().i64(5).packet(KEEP_ALIVE)[..1];
        client.receive(one, 30 * second).unwrap();
        client.tick(60 * second).unwrap();
        assert_eq!(client.tick(61 * second).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut hasty = client.patience(second);
        hasty.tick(31 * second).unwrap();
        assert!(hasty.receive(one, 32 * second).is_err());
    }
}

#[test]
fn logins_that_no_client_takes() {
    let success = |protocol, name: &str| LoginSuccess { name: name.into(), uuid: 7 }.packet(protocol);
    for (protocol, bytes, why) in [
        (767, success(768, "Ann"), "too short"),
        (768, success(767, "Ann"), "left over"),
        (775, success(776, "Ann"), "left over"),
        (767, success(767, "ABCDEFGHIJKLMNOPQ"), "a player of the name"),
        (767, success(767, ""), "a player of the name"),
        (767, Body::new().string("bye").packet(0), "expected value"),
        (767, Body::new().packet(9), "unknown in this phase"),
        (767, vec![0xff, 0xff, 0xff, 0x01], "unexpected end of file"),
        (767, vec![0x00], "a packet of length 0"),
    ] {
        assert_says(feed(&mut Vanilla::new(protocol, Duration::ZERO), &bytes), why);
    }
}

#[test]
fn configurations_that_no_client_takes() {
    let text = |body: &[u8]| Body::new().raw(body).packet(DISCONNECT);
    let registry = |name: &str| Body::new().string(name).varint(0).packet(REGISTRY);
    for (protocol, bytes, why) in [
        (767, Body::new().packet(0x20), "unknown in this phase"),
        (767, Body::new().packet(-1), "unknown in this phase"),
        (770, Body::new().packet(DIALOG), "unknown in this phase"),
        (777, Body::new().packet(0x0a), "unknown in this phase"),
        // What the game's keep-alive is.
        (767, Body::new().i64(5).packet(0x26), "unknown in this phase"),
        (767, Body::new().i64(5).u8(0).packet(KEEP_ALIVE), "left over"),
        (767, Body::new().i32(5).packet(KEEP_ALIVE), "too short"),
        (767, Body::new().u8(0).packet(FINISH), "dimension_type"),
        (767, Body::new().string("Minecraft:Brand").packet(PAYLOAD), "is no identifier"),
        (767, Body::new().string("brand").string("x").u8(0).packet(PAYLOAD), "left over"),
        (770, registry("dialog"), "is no registry of protocol 770"),
        (767, transfer(TRANSFER, "", 1), "a transfer to"),
        (767, transfer(TRANSFER, "a", 0), "a transfer to"),
        (767, transfer(TRANSFER, "a", 65536), "a transfer to"),
        (
            767,
            Body::new().varint(1).string("minecraft").string("core").string("1.20.6").packet(0x0e),
            "has the pack",
        ),
        (767, text(br#"{"text":"bye"}"#), "NBT of kind"),
        (767, text(b"\x0a\0"), "a component with no content"),
        (767, text(b"\x09\0\0\0\0\0"), "is no component"),
        (767, text(b"\x03\0\0\0\x01"), "is no component"),
        (767, text(b"\x0a\x08\0\x04text\0\0\x08\0\x05color\0\x03rot\0"), "the colour"),
        (767, text(b"\x0a\x08\0\x04text\0\0\x08\0\x04bold\0\x04true\0"), "in place of a boolean"),
        (767, text(b"\x0a\x08\0\x04text\0\0\x09\0\x05extra\0\0\0\0\0\0"), "is no component"),
        (770, text(b"\x0a\x08\0\x04text\0\0\x0a\0\x0aclickEvent\0\0"), "means nothing to"),
        (771, dialog(&[("type", "poem"), ("title", "a")]).packet(DIALOG), "a dialog of type"),
        (771, dialog(&[("type", "notice")]).packet(DIALOG), "is no component"),
        (771, dialog(&[("type", "multi_action"), ("title", "a")]).packet(DIALOG), "without"),
        (
            771,
            dialog(&[("type", "notice"), ("title", "a"), ("after_action", "none")]).packet(DIALOG),
            "pauses for ever",
        ),
        (771, dialog(&[("type", "notice"), ("title", "a"), ("body", "b")]).packet(DIALOG), "a dialog's body"),
    ] {
        assert_says(feed(&mut configuring(protocol), &bytes), why);
    }
}

#[test]
fn registries_that_no_client_takes() {
    for (protocol, change, why) in [
        (
            766,
            (|set| drop(set.entries.remove("dimension_type"))) as fn(&mut Set),
            r#"0 entries of "dimension_type""#,
        ),
        (766, |set| drop(set.entries.remove("worldgen/biome")), r#"0 entries of "worldgen/biome""#),
        (767, |set| drop(set.entries.remove("painting_variant")), r#"0 entries of "painting_variant""#),
        (770, |set| set.entries.get_mut("pig_variant").unwrap().clear(), r#"0 entries of "pig_variant""#),
        (
            775,
            |set| drop(set.entries.get_mut("jukebox_song").unwrap().pop()),
            r#"20 entries of "jukebox_song""#,
        ),
        (768, |set| drop(set.entries.get_mut("damage_type").unwrap().pop()), r#""mace_smash" is missing"#),
        (767, |set| set.add("damage_type", "arrow", None), r#""arrow" twice"#),
        (767, |set| set.add("damage_type", "Arrow", None), "is no identifier"),
        (767, |set| set.add("wolf_variant", "snowy", None), r#"names "grove""#),
        (767, |set| set.add("wolf_variant", "x", Some(wolf("desert"))), r#"names "desert""#),
        (
            767,
            |set| set.add("wolf_variant", "x", Some(wolf("#minecraft:hot"))),
            r##"names "#minecraft:hot""##,
        ),
        (767, |set| set.add("worldgen/biome", "x", Some("plains".into())), "is no compound"),
        (767, |set| set.add("dimension_type", "x", None), "the pack has no dimension type"),
        (
            767,
            |set| set.add("enchantment", "x", Some(serde_json::json!({"on": "#minecraft:swords"}))),
            r#"names the tag "swords""#,
        ),
        (774, |set| drop(set.tags.remove("timeline")), r##"names "#in_overworld""##),
        (771, |set| set.add("dialog", "quick_actions", None), r##"names "#quick_actions""##),
        (775, |set| drop(set.tags.remove("damage_type")), r#"the tag "bypasses_shield" of "damage_type""#),
        (767, |set| set.tag("damage_type", "is_fire", &[47]), r#"47 in the tag "is_fire" of 47"#),
        (767, |set| set.tag("damage_type", "is_fire", &[-1]), "out of range"),
        (767, |set| set.tag("dialog", "a", &[]), "which protocol 767 has not"),
        (767, |set| set.tag("rubbish", "a", &[]), "which protocol 767 has not"),
    ] {
        let mut set = Set::of(protocol);
        set.finished(releases(protocol).last().copied()).unwrap();
        change(&mut set);
        assert_says(set.finished(releases(protocol).last().copied()), why);
    }
    // Tags of the client's own registries are not looked up.
    let mut set = Set::of(767);
    set.tag("block", "logs", &[9999]);
    set.finished(Some("1.21.1")).unwrap();
}

#[test]
fn games_that_no_client_takes() {
    let login = |protocol| login(protocol, 0, 2).packet(ids::id_of(protocol, Play::Login));
    let after = |protocol, packet, body| [login(protocol), say(protocol, packet, body)].concat();
    let bar = |action: i32| Body::new().uuid(9).varint(action);
    let new_bar =
        |progress, colour| bar(0).raw(&nbt_text("a").0).f32(progress).varint(colour).varint(0).u8(0);
    for (protocol, bytes, why) in [
        (767, Body::new().packet(0x7f), "unknown in this phase"),
        (770, Body::new().packet(0x85), "unknown in this phase"),
        // What the configuration's keep-alive is.
        (767, Body::new().i64(5).packet(KEEP_ALIVE), "unknown in this phase"),
        (767, say(767, Play::Chunk, chunk(767, 24, 0)), "before Login"),
        (767, say(767, Play::GameEvent, Body::new().u8(13).f32(0.0)), "before Login"),
        (767, [login(767), login(767)].concat(), "a second Login"),
        (768, say(768, Play::Login, handmade::login(767, 0, 2)), "too short"),
        (767, say(767, Play::Login, handmade::login(768, 0, 2)), "a boolean of 63"),
        (776, say(776, Play::Login, handmade::login(775, 0, 2)), "too short"),
        (767, say(767, Play::Login, handmade::login(767, 1, 2)), "the dimension type 1 of 1"),
        (767, say(767, Play::Login, handmade::login(767, -1, 2)), "the dimension type -1 of 1"),
        (767, say(767, Play::Login, handmade::login(767, 0, 4)), "the game mode 4"),
        (767, after(767, Play::GameEvent, Body::new().u8(14).f32(0.0)), "the game event 14"),
        (767, after(767, Play::Abilities, Body::new().u8(6).f32(f32::NAN).f32(0.1)), "NaN"),
        (767, after(767, Play::Abilities, Body::new().u8(6).f32(0.1)), "too short"),
        (773, after(773, Play::DefaultSpawn, Body::new().i64(0).f32(0.0)), "identifier"),
        (767, after(767, Play::Position, Body::new().raw(&position(768, 0.0)[2..])), "left over"),
        (767, after(767, Play::BossBar, new_bar(1.5, 0)), "1.5 full"),
        (767, after(767, Play::BossBar, new_bar(0.5, 7)), "of colour 7"),
        (767, after(767, Play::BossBar, bar(2).f32(0.5)), "not there"),
        (767, after(767, Play::Title, Body::new().string("a")), "is no component"),
        (767, after(767, Play::SystemChat, nbt_text("a").u8(2)), "a boolean of 2"),
        (767, after(767, Play::PlayerInfo, Body::new().u8(0x40).varint(0)), "the actions 0x40"),
        (768, after(768, Play::PlayerInfo, Body::new().u8(0x80).varint(0)), "the actions 0x80"),
        (767, after(767, Play::Chunk, chunk(767, 23, 0)), "too short"),
        (767, after(767, Play::Chunk, chunk(767, 25, 0)), "left over"),
        (767, after(767, Play::Chunk, chunk(767, 24, 9)), "9 in a chunk"),
        (770, after(770, Play::Chunk, chunk(769, 24, 0)), ""),
        (769, after(769, Play::Chunk, chunk(770, 24, 0)), ""),
        (775, after(775, Play::Chunk, chunk(774, 24, 0)), ""),
        (774, after(774, Play::Chunk, chunk(775, 24, 0)), ""),
    ] {
        assert_says(feed(&mut playing(protocol), &bytes), why);
    }
}

#[test]
fn chunks_that_no_client_takes() {
    let whole = chunk(770, 24, 0);
    let read = |body: &Body| {
        let mut fields = Fields(&body.0);
        super::chunk::read(&mut fields, 770, 384, 2).and_then(|_| fields.finish())
    };
    read(&whole).unwrap();
    for cut in 0..whole.0.len() {
        assert!(read(&Body(whole.0[..cut].to_vec())).is_err(), "{cut}");
    }
    assert!(read(&whole.clone().u8(0)).is_err());
    // The light at the end: four masks, two lists of arrays.
    let dark = Body(whole.0[..whole.0.len() - 6].to_vec());
    let mask = |bits: i64| dark.clone().varint(1).i64(bits).varint(0).varint(0).varint(0);
    let lit = |bits, arrays: i32, length| {
        (0..arrays).fold(mask(bits).varint(arrays), |body, _| body.bytes(&vec![0; length])).varint(0)
    };
    read(&lit(1 << 25, 1, 2048)).unwrap();
    assert_says(read(&lit(1 << 26, 1, 2048)), "the section 27 of 26");
    assert_says(read(&lit(3, 1, 2048)), "1 arrays of light for 2");
    assert_says(read(&lit(1, 1, 2047)), "of another length");
    // One section of stone in four bits a block.
    let palette = |bits: u8, longs: usize, count: u16| {
        let data =
            Body::new().u16(count).u8(bits).varint(1).varint(1).raw(&vec![0; 8 * longs]).u8(0).varint(0);
        let rest = (1..24).fold(data, |body, _| body.u16(0).u8(0).varint(0).u8(0).varint(0));
        Body::new().i32(0).i32(0).varint(0).bytes(&rest.0).varint(0).raw(&[0; 6])
    };
    read(&palette(4, 256, 4096)).unwrap();
    assert_says(read(&palette(4, 255, 4096)), "");
    assert_says(read(&palette(4, 256, 4097)), "4097 blocks");
    assert_says(read(&palette(3, 256, 4096)), "3 bits");
}

fn assert_says(result: io::Result<()>, why: &str) {
    let error = result.expect_err(why).to_string();
    assert!(error.contains(why), "{why:?} is not in {error:?}");
}
