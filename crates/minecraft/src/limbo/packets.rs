//! What a waiting client is sent, in the layouts of protocols 766 (1.20.5) to 777 (26.3); of the world's packets
//! to 775 (minecraft.wiki, Java Edition protocol).

use serde_json::json;
use uuid::Uuid;

use super::{BarColour, BossBar, Guest, Transfer};
use crate::field::write_text;
use crate::ids::{Play, Setup};
use crate::text::Component;
use crate::{frame, nbt, varint};

/// The place of The End among the dimension types that are sent, by name.
pub(super) const DIMENSION: &str = "the_end";
/// The only boss bar.
const BAR: Uuid = Uuid::from_u128(0x7377_6172_6d67_4174_8061_7465_0000_0001);
/// Zero makes trouble: to the game it is no entity.
const PLAYER: i32 = 1;
const SPECTATOR: u8 = 3;
/// The height of The End, from 0 up, in sections of 16 blocks.
const SECTIONS: usize = 16;
/// Above the dimension's top, so that the game does not wait for terrain around the player.
const SPAWN: [f64; 3] = [8.5, 320.0, 8.5];
/// Chunks around the player's, in each direction.
const AROUND: i32 = 1;
/// As long as the game can: a wait has no end that is known before.
const STAY: i32 = 20 * 60 * 60 * 24;

/// Appends a packet.
pub(super) fn write(out: &mut Vec<u8>, id: i32, fields: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    varint::write(id, &mut body);
    fields(&mut body);
    out.extend(frame::encode(&body));
}

pub(super) fn login_success(guest: &Guest, out: &mut Vec<u8>) {
    write(out, 2, |body| {
        body.extend(guest.uuid.into_bytes());
        write_text(&readable(&guest.name), body);
        count(guest.properties.len(), body);
        for property in &guest.properties {
            write_text(&property.name, body);
            write_text(&property.value, body);
            body.push(property.signature.is_some().into());
            if let Some(signature) = &property.signature {
                write_text(signature, body);
            }
        }
        match guest.protocol {
            // Whether to give up over a packet that cannot be read.
            ..=767 => body.push(0),
            768..=775 => {}
            // The session's id.
            776.. => body.extend(guest.uuid.into_bytes()),
        }
    });
}

/// A name as the game can read it, of at most 16 UTF-16 units; proxies make longer ones.
fn readable(name: &str) -> String {
    let mut units = 0;
    let fits = |c: &char| {
        units += c.len_utf16();
        units <= 16
    };
    name.chars().take_while(fits).collect()
}

/// Asks which of these releases' own data the client has.
pub(super) fn known_packs(ids: &Setup, releases: &[&str], out: &mut Vec<u8>) {
    write(out, ids.known_packs, |body| {
        count(releases.len(), body);
        for release in releases {
            write_text("minecraft", body);
            write_text("core", body);
            write_text(release, body);
        }
    });
}

pub(super) fn brand(ids: &Setup, out: &mut Vec<u8>) {
    write(out, ids.payload, |body| {
        write_text("minecraft:brand", body);
        write_text(super::BRAND, body);
    });
}

pub(super) fn keep_alive(id: i32, number: i64, out: &mut Vec<u8>) {
    write(out, id, |body| body.extend(number.to_be_bytes()));
}

pub(super) fn text(id: i32, text: &Component, out: &mut Vec<u8>) {
    write(out, id, |body| body.extend(text.to_nbt()));
}

/// Leaves the cookie, then sends the client to its next server.
pub(super) fn transfer(store_cookie: i32, id: i32, to: &Transfer, out: &mut Vec<u8>) {
    if let Some((key, value)) = to.cookie.as_ref().filter(|(_, value)| value.len() <= super::LONGEST_COOKIE) {
        write(out, store_cookie, |body| {
            write_text(key, body);
            count(value.len(), body);
            body.extend(value);
        });
    }
    write(out, id, |body| {
        write_text(&to.host, body);
        varint::write(to.port.into(), body);
    });
}

/// A window with a text and a button that closes it; the waiting goes on behind it.
pub(super) fn dialog(id: i32, title: &Component, lines: &[&Component], out: &mut Vec<u8>) {
    let lines: Vec<_> = lines
        .iter()
        .map(|line| json!({"type": "minecraft:plain_message", "contents": line.to_json()}))
        .collect();
    let dialog = json!({"type": "minecraft:notice", "title": title.to_json(), "body": lines, "pause": false});
    write(out, id, |body| body.extend(nbt::network(&dialog)));
}

/// All that makes up an empty world: a spectator, who cannot be hurt, hangs in the dark of The End.
pub(super) fn world(protocol: i32, ids: &Play, dimension: i32, biome: i32, out: &mut Vec<u8>) {
    login(protocol, ids, dimension, out);
    // Invulnerable, flying, allowed to fly; not at any speed.
    write(out, ids.abilities, |body| {
        body.push(1 | 2 | 4);
        floats(&[0.0, 0.1], body);
    });
    spawn(protocol, ids, out);
    position(protocol, ids, out);
    // The chunks are about to come.
    write(out, ids.game_event, |body| {
        body.push(13);
        floats(&[0.0], body);
    });
    write(out, ids.chunk_centre, |body| body.extend([0, 0]));
    for (x, z) in (-AROUND..=AROUND).flat_map(|x| (-AROUND..=AROUND).map(move |z| (x, z))) {
        chunk(protocol, ids, (x, z), biome, out);
    }
}

fn login(protocol: i32, ids: &Play, dimension: i32, out: &mut Vec<u8>) {
    let name = format!("minecraft:{DIMENSION}");
    write(out, ids.login, |body| {
        body.extend(PLAYER.to_be_bytes());
        // Not hardcore; one world.
        body.extend([0, 1]);
        write_text(&name, body);
        // Places for players, distance of view, distance of simulation.
        body.extend([1, 2, 2]);
        // The debug screen is whole, no death screen, no limited crafting.
        body.extend([0, 0, 0]);
        varint::write(dimension, body);
        write_text(&name, body);
        // The seed.
        body.extend([0; 8]);
        // The mode, and none before it (-1).
        body.extend([SPECTATOR, 0xff]);
        // Neither a debug nor a flat world, no death to return to, no wait for portals.
        body.extend([0, 0, 0, 0]);
        if protocol >= 768 {
            // The level of the sea.
            body.push(0);
        }
        // Chat is held to be secure: there is none, and otherwise the game warns of it.
        body.push(1);
    });
}

fn spawn(protocol: i32, ids: &Play, out: &mut Vec<u8>) {
    // X, Z and Y in 26, 26 and 12 bits.
    let [x, y, z]: [i64; 3] = [8, 64, 8];
    let packed = x << 38 | z << 12 | y;
    write(out, ids.spawn, |body| {
        if protocol >= 773 {
            write_text(&format!("minecraft:{DIMENSION}"), body);
        }
        body.extend(packed.to_be_bytes());
        floats(if protocol >= 773 { &[0.0, 0.0] } else { &[0.0] }, body);
    });
}

fn position(protocol: i32, ids: &Play, out: &mut Vec<u8>) {
    const TELEPORT: u8 = 1;
    write(out, ids.position, |body| {
        let coordinates = SPAWN.iter().flat_map(|coordinate| coordinate.to_be_bytes());
        if protocol >= 768 {
            body.push(TELEPORT);
            body.extend(coordinates);
            // No speed.
            body.extend([0; 24]);
            floats(&[0.0, 0.0], body);
            // Nothing of it is relative.
            body.extend([0; 4]);
        } else {
            body.extend(coordinates);
            floats(&[0.0, 0.0], body);
            body.extend([0, TELEPORT]);
        }
    });
}

fn chunk(protocol: i32, ids: &Play, (x, z): (i32, i32), biome: i32, out: &mut Vec<u8>) {
    /// 256 heights of 9 bits, 7 in each long.
    const HEIGHTS: usize = 37 * 8;
    write(out, ids.chunk, |body| {
        body.extend(x.to_be_bytes());
        body.extend(z.to_be_bytes());
        // One map of heights: what stops movement.
        if protocol >= 770 {
            body.extend([1, 4, 37]);
            body.extend([0; HEIGHTS]);
        } else {
            // A compound with an array of longs.
            body.extend(b"\x0a\x0c\0\x0fMOTION_BLOCKING\0\0\0\x25");
            body.extend([0; HEIGHTS]);
            body.push(0);
        }
        let section = section(protocol, biome);
        count(SECTIONS * section.len(), body);
        body.extend(section.repeat(SECTIONS));
        // No block entities; of light no masks (four) and no arrays (two).
        body.extend([0; 1 + 4 + 2]);
    });
}

/// 16×16×16 blocks of air in one biome: two palettes of one entry.
fn section(protocol: i32, biome: i32) -> Vec<u8> {
    // How many blocks are there, and since 26.1 how many of them are fluid.
    let mut section = vec![0; if protocol >= 775 { 4 } else { 2 }];
    for entry in [0, biome] {
        section.push(0);
        varint::write(entry, &mut section);
        if protocol <= 769 {
            // The length of the data behind the palette.
            section.push(0);
        }
    }
    section
}

pub(super) fn title_times(ids: &Play, out: &mut Vec<u8>) {
    write(out, ids.title_times, |body| {
        for ticks in [0_i32, STAY, 20] {
            body.extend(ticks.to_be_bytes());
        }
    });
}

pub(super) fn chat(ids: &Play, line: &Component, out: &mut Vec<u8>) {
    write(out, ids.chat, |body| {
        body.extend(line.to_nbt());
        // Not above the hotbar.
        body.push(0);
    });
}

/// What is different about the boss bar; everything, if there was none.
pub(super) fn boss_bar(ids: &Play, before: Option<&BossBar>, now: Option<&BossBar>, out: &mut Vec<u8>) {
    let mut change = |action: u8, fields: &dyn Fn(&mut Vec<u8>)| {
        write(out, ids.boss_bar, |body| {
            body.extend(BAR.into_bytes());
            body.push(action);
            fields(body);
        });
    };
    match (before, now) {
        (None, None) => {}
        (Some(_), None) => change(1, &|_| {}),
        (None, Some(bar)) => change(0, &|body| {
            body.extend(bar.text.to_nbt());
            filled(bar, body);
            style(bar, body);
            // The sky stays as it is, no music, no fog.
            body.push(0);
        }),
        (Some(before), Some(bar)) => {
            if before.filled != bar.filled {
                change(2, &|body| filled(bar, body));
            }
            if before.text != bar.text {
                change(3, &|body| body.extend(bar.text.to_nbt()));
            }
            if before.colour != bar.colour {
                change(4, &|body| style(bar, body));
            }
        }
    }
}

fn filled(bar: &BossBar, body: &mut Vec<u8>) {
    floats(&[f32::from(bar.filled.min(100)) / 100.0], body);
}

fn style(bar: &BossBar, body: &mut Vec<u8>) {
    let colour = match bar.colour {
        BarColour::Pink => 0,
        BarColour::Blue => 1,
        BarColour::Red => 2,
        BarColour::Green => 3,
        BarColour::Yellow => 4,
        BarColour::Purple => 5,
        BarColour::White => 6,
    };
    // Without notches.
    body.extend([colour, 0]);
}

fn floats(values: &[f32], body: &mut Vec<u8>) {
    body.extend(values.iter().flat_map(|value| value.to_be_bytes()));
}

pub(super) fn count(count: usize, body: &mut Vec<u8>) {
    varint::write(i32::try_from(count).unwrap_or(i32::MAX), body);
}
