//! What the world is made of, as data: the registries a client must be sent before it enters, and tags. Each file
//! of `data/limbo` holds what a group of protocols needs; `scripts/limbo-data` writes them.
//!
//! A client that has the game's own data (its "core pack") needs names alone. To any other, each entry's body
//! must be sent, where it is known.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::packets::{DIMENSION, count, write};
use crate::field::write_text;
use crate::ids::Setup;
use crate::{nbt, varint};

/// What is sent, and the numbers that other packets refer to.
#[derive(Debug)]
pub(super) struct Registries {
    /// The packets, one behind the other.
    pub packets: Vec<u8>,
    pub dimension: i32,
    pub biome: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bodies {
    /// A client that has the core pack needs none. Some data has them all the same, where the game's own would
    /// refer to what is not sent.
    AsNeeded,
    All,
}

/// The registries for `protocol`. `None`: not known, or not with all their bodies.
pub(super) fn of(protocol: i32, ids: &Setup, bodies: Bodies) -> Option<&'static Registries> {
    let group = GROUPS.iter().find(|group| group.protocols.contains(&protocol))?;
    let encoded = match bodies {
        Bodies::AsNeeded => &group.as_needed,
        Bodies::All => &group.all,
    };
    // The ids are those of all the protocols in a group.
    encoded.get_or_init(|| encode(group.data, ids, bodies)).as_ref()
}

struct Group {
    protocols: std::ops::RangeInclusive<i32>,
    data: &'static str,
    as_needed: OnceLock<Option<Registries>>,
    all: OnceLock<Option<Registries>>,
}

const fn group(first: i32, last: i32, data: &'static str) -> Group {
    Group { protocols: first..=last, data, as_needed: OnceLock::new(), all: OnceLock::new() }
}

static GROUPS: [Group; 7] = [
    group(766, 766, include_str!("../../data/limbo/766.json")),
    group(767, 767, include_str!("../../data/limbo/767.json")),
    group(768, 769, include_str!("../../data/limbo/768.json")),
    group(770, 770, include_str!("../../data/limbo/770.json")),
    group(771, 773, include_str!("../../data/limbo/771.json")),
    group(774, 774, include_str!("../../data/limbo/774.json")),
    group(775, 775, include_str!("../../data/limbo/775.json")),
];

fn encode(data: &str, ids: &Setup, bodies: Bodies) -> Option<Registries> {
    let data: Value = serde_json::from_str(data).ok()?;
    let registries = data.get("registries")?.as_object()?;
    let needed = data.get("bodies_needed").is_some_and(|needed| needed == true);
    let mut packets = Vec::new();
    for (registry, entries) in registries {
        let entries = entries.as_object()?;
        let with_bodies = needed || bodies == Bodies::All;
        if with_bodies && entries.values().any(Value::is_null) {
            return None;
        }
        write(&mut packets, ids.registry, |body| {
            write_text(&format!("minecraft:{registry}"), body);
            count(entries.len(), body);
            for (name, entry) in entries {
                write_text(&format!("minecraft:{name}"), body);
                body.push(with_bodies.into());
                if with_bodies {
                    body.extend(nbt::network(entry));
                }
            }
        });
    }
    let tags = data.get("tags")?.as_object()?;
    if !tags.is_empty() {
        write_tags(registries, tags, ids, &mut packets)?;
    }
    let dimension = number(registries, "dimension_type", DIMENSION)?;
    let biome = number(registries, "worldgen/biome", "plains")?;
    Some(Registries { packets, dimension, biome })
}

fn write_tags(
    registries: &Map<String, Value>,
    tags: &Map<String, Value>,
    ids: &Setup,
    packets: &mut Vec<u8>,
) -> Option<()> {
    let mut fields = Vec::new();
    count(tags.len(), &mut fields);
    for (registry, tags) in tags {
        write_text(&format!("minecraft:{registry}"), &mut fields);
        let tags = tags.as_object()?;
        count(tags.len(), &mut fields);
        for (tag, members) in tags {
            write_text(&format!("minecraft:{tag}"), &mut fields);
            let members = members.as_array()?;
            count(members.len(), &mut fields);
            for member in members {
                varint::write(number(registries, registry, member.as_str()?)?, &mut fields);
            }
        }
    }
    write(packets, ids.tags, |body| body.extend(fields));
    Some(())
}

/// An entry's number is its place in the order they are sent in.
fn number(registries: &Map<String, Value>, registry: &str, entry: &str) -> Option<i32> {
    let at = registries.get(registry)?.as_object()?.keys().position(|name| name == entry)?;
    i32::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids;
    use crate::limbo::{Offer, offer};

    #[test]
    fn what_is_known() {
        for (protocol, complete) in [
            (766, true),
            (767, true),
            (768, true),
            (769, true),
            (770, false),
            (771, false),
            (772, false),
            (773, false),
            (774, true),
            (775, true),
        ] {
            assert_eq!(offer(protocol), Some(Offer::World));
            let ids = ids::setup(protocol);
            let names = of(protocol, &ids, Bodies::AsNeeded).expect("names");
            let all = of(protocol, &ids, Bodies::All);
            assert_eq!(all.is_some(), complete, "{protocol}");
            assert_eq!((names.dimension, names.biome), (1, 0));
            // A player's share of memory while all of it waits to be sent.
            let longest = names.packets.len().max(all.map_or(0, |all| all.packets.len()));
            assert!(longest < 48 * 1024, "{protocol}: {longest}");
        }
        for protocol in [765, 776, 777, 778] {
            assert!(of(protocol, &ids::setup(protocol), Bodies::AsNeeded).is_none());
        }
    }
}
