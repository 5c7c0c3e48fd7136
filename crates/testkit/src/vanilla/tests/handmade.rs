//! Packets and streams, written down field by field.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use super::super::ids::{self, Play};
use super::super::{Vanilla, registries, releases};
use super::{FINISH, REGISTRY};
use serde_json::Value;

use crate::login::LoginSuccess;
use crate::wire::{Body, Framing, take_packet};

/// Byte by byte.
pub(super) fn feed(client: &mut Vanilla, bytes: &[u8]) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| client.receive(&[*byte], client.heard))
}

/// Ids of what was sent.
pub(super) fn sent(client: &mut Vanilla) -> Vec<i32> {
    let mut bytes = client.output();
    std::iter::from_fn(|| take_packet(&mut bytes, Framing::Plain).unwrap()).map(|packet| packet.id).collect()
}

pub(super) fn logged_in(protocol: i32) -> Vanilla {
    let mut client = Vanilla::new(protocol, Duration::ZERO);
    feed(&mut client, &LoginSuccess { name: "Ann".into(), uuid: 7 }.packet(protocol)).unwrap();
    client
}

pub(super) fn configuring(protocol: i32) -> Vanilla {
    let mut client = logged_in(protocol);
    client.acknowledge();
    client.output();
    client
}

/// Behind the configuration phase.
pub(super) fn playing(protocol: i32) -> Vanilla {
    let mut client = configuring(protocol);
    let set = Set::of(protocol).packets();
    feed(&mut client, &[known_packs(protocol), set, Body::new().packet(FINISH)].concat()).unwrap();
    client.output();
    client
}

/// What 26.3 moved by one.
pub(super) fn later(protocol: i32) -> i32 {
    i32::from(protocol >= 777)
}

pub(super) fn known_packs(protocol: i32) -> Vec<u8> {
    let releases = releases(protocol);
    let count = Body::new().varint(releases.len() as i32);
    let packs =
        releases.iter().fold(count, |body, version| body.string("minecraft").string("core").string(version));
    packs.packet(0x0e + later(protocol))
}

/// Registries with their entries, and tags.
#[derive(Clone)]
pub(super) struct Set {
    protocol: i32,
    pub(super) entries: BTreeMap<String, Vec<(String, Option<Value>)>>,
    pub(super) tags: BTreeMap<String, Vec<(String, Vec<i32>)>>,
}

impl Set {
    /// The least that a client of the protocol takes.
    pub(super) fn of(protocol: i32) -> Self {
        let mut set = Self { protocol, entries: BTreeMap::new(), tags: BTreeMap::new() };
        for name in registries::damage_types(protocol) {
            set.add("damage_type", name, None);
        }
        for (registry, count) in registries::least(protocol) {
            let names: &[&str] = match registry {
                "worldgen/biome" => &["plains", "taiga"],
                "dimension_type" => &["overworld"],
                "wolf_variant" => &["pale"],
                _ => &[],
            };
            for name in names {
                set.add(registry, name, None);
            }
            let entries = set.entries.entry(registry.into()).or_default();
            for number in entries.len()..count {
                entries.push((format!("n{number}"), None));
            }
        }
        for tag in ["in_overworld"].into_iter().filter(|_| protocol >= 774) {
            set.tag("timeline", tag, &[]);
        }
        for (registry, tag) in registries::needed_tags(protocol) {
            set.tag(registry, tag, &[]);
        }
        set
    }

    pub(super) fn add(&mut self, registry: &str, name: &str, body: Option<Value>) {
        self.entries.entry(registry.into()).or_default().push((name.into(), body));
    }

    pub(super) fn tag(&mut self, registry: &str, name: &str, entries: &[i32]) {
        self.tags.entry(registry.into()).or_default().push((name.into(), entries.to_vec()));
    }

    /// Everything a body must have, and numbers in all of it.
    pub(super) fn with_bodies(mut self) -> Self {
        for (registry, entries) in &mut self.entries {
            for (_, body) in entries {
                let fields = registries::fields_of(self.protocol, registry).iter();
                *body = Some(fields.map(|field| ((*field).to_owned(), Value::from(16))).collect());
            }
        }
        self
    }

    pub(super) fn packets(&self) -> Vec<u8> {
        let mut bytes = vec![];
        for (registry, entries) in &self.entries {
            let head = Body::new().string(&format!("minecraft:{registry}")).varint(entries.len() as i32);
            let entry = |body: Body, (name, data): &(String, Option<Value>)| {
                let body = body.string(&format!("minecraft:{name}"));
                match data {
                    Some(data) => body.bool(true).raw(&nbt(data)),
                    None => body.bool(false),
                }
            };
            bytes.extend(entries.iter().fold(head, entry).packet(REGISTRY));
        }
        let mut tags = Body::new().varint(self.tags.len() as i32);
        for (registry, of) in &self.tags {
            tags = tags.string(registry).varint(of.len() as i32);
            for (tag, entries) in of {
                let head = tags.string(tag).varint(entries.len() as i32);
                tags = entries.iter().fold(head, |body, entry| body.varint(*entry));
            }
        }
        bytes.extend(tags.packet(0x0d + later(self.protocol)));
        bytes
    }

    pub(super) fn finished(&self, pack: Option<&'static str>) -> io::Result<()> {
        let mut client = configuring(self.protocol).pack(pack);
        feed(&mut client, &known_packs(self.protocol)).unwrap();
        feed(&mut client, &[self.packets(), Body::new().packet(FINISH)].concat())
    }
}

pub(super) fn wolf(biomes: &str) -> Value {
    serde_json::json!({"wild_texture": "a", "tame_texture": "a", "angry_texture": "a", "biomes": biomes})
}

/// Texts, numbers and compounds are enough.
pub(super) fn nbt(value: &Value) -> Vec<u8> {
    let kind = |value: &Value| match value {
        Value::Object(_) => 10,
        Value::String(_) => 8,
        _ => 3,
    };
    let payload = match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| {
                let head = Body::new().u8(kind(value)).u16(name.len() as u16).raw(name.as_bytes());
                [head.0, nbt(value).split_off(1)].concat()
            })
            .chain([0])
            .collect(),
        Value::String(text) => Body::new().u16(text.len() as u16).raw(text.as_bytes()).0,
        number => Body::new().i32(number.as_i64().unwrap() as i32).0,
    };
    [vec![kind(value)], payload].concat()
}

pub(super) fn nbt_text(words: &str) -> Body {
    Body(nbt(&words.into()))
}

pub(super) fn dialog(fields: &[(&str, &str)]) -> Body {
    Body(nbt(&fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()))
}

pub(super) fn transfer(id: i32, host: &str, port: i32) -> Vec<u8> {
    Body::new().string(host).varint(port).packet(id)
}

pub(super) fn say(protocol: i32, packet: Play, body: Body) -> Vec<u8> {
    body.packet(ids::id_of(protocol, packet))
}

/// What brings a player into the world, the last of it the chunk.
pub(super) fn burst(protocol: i32) -> Vec<Vec<u8>> {
    let spawn = match protocol {
        ..773 => Body::new().i64(0).f32(0.0),
        773.. => Body::new().string("minecraft:overworld").i64(0).f32(0.0).f32(0.0),
    };
    vec![
        say(protocol, Play::Login, login(protocol, 0, 2)),
        say(protocol, Play::GameEvent, Body::new().u8(13).f32(0.0)),
        position(protocol, 64.0),
        say(protocol, Play::Abilities, Body::new().u8(6).f32(0.05).f32(0.1)),
        say(protocol, Play::DefaultSpawn, spawn),
        say(protocol, Play::ChunkCenter, Body::new().varint(0).varint(0)),
        say(protocol, Play::Chunk, chunk(protocol, 24, 1)),
    ]
}

pub(super) fn login(protocol: i32, dimension: i32, game_mode: u8) -> Body {
    let body = Body::new().i32(1).bool(false).varint(1).string("minecraft:overworld");
    let body = body.varint(20).varint(2).varint(2).raw(&[0, 1, 0]).varint(dimension);
    let body =
        body.string("minecraft:overworld").i64(0).u8(game_mode).u8(if protocol >= 777 { 0 } else { 0xff });
    let body = body.bool(false).bool(true).bool(false).varint(0);
    let body = if protocol >= 768 { body.varint(63) } else { body };
    let body = if protocol >= 776 { body.bool(false) } else { body };
    body.bool(true)
}

pub(super) fn position(protocol: i32, height: f64) -> Vec<u8> {
    let place = |body: Body| body.f64(8.5).f64(height).f64(8.5);
    let body = if protocol >= 768 {
        place(place(Body::new().varint(5))).f32(0.0).f32(0.0).i32(0)
    } else {
        place(Body::new()).f32(0.0).f32(0.0).u8(0).varint(5)
    };
    say(protocol, Play::Position, body)
}

/// Air alone.
pub(super) fn chunk(protocol: i32, sections: usize, biome: i32) -> Body {
    let single = |body: Body, value| {
        let body = body.u8(0).varint(value);
        if protocol < 770 { body.varint(0) } else { body }
    };
    let mut data = Body::new();
    for _ in 0..sections {
        data = data.u16(0);
        if protocol >= 775 {
            data = data.u16(0);
        }
        data = single(single(data, 0), biome);
    }
    let body = Body::new().i32(0).i32(0);
    let body =
        if protocol < 770 { body.raw(&[10, 0]) } else { body.varint(1).varint(4).varint(37).raw(&[0; 296]) };
    body.bytes(&data.0).varint(0).raw(&[0; 6])
}
