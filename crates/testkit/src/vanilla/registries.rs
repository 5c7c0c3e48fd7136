//! The registries a server sends, and what a client makes of them when the configuration phase is finished.
//!
//! Source: public descriptions of the client's loading (which registries are synchronised, which must not be
//! empty), and the smallest sets with which public multi-version servers are known to work.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde_json::Value;

use crate::nbt;
use crate::wire::{Fields, malformed};

use super::identifier;

/// Name, as far as it is in the namespace `minecraft`, without it; then its entries in the order sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Registries {
    pub sent: BTreeMap<String, Vec<Entry>>,
    /// Registry, then tag, then the entries' numbers.
    pub tags: BTreeMap<String, BTreeMap<String, Vec<i32>>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub name: String,
    /// Left out when the client is to take it from a pack that both sides know.
    pub body: Option<Value>,
}

/// What the game needs of them afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loaded {
    pub dimensions: Vec<Dimension>,
    pub biomes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dimension {
    pub name: String,
    pub lowest: i32,
    pub height: i32,
}

impl Registries {
    pub(super) fn read_registry(&mut self, fields: &mut Fields<'_>, protocol: i32) -> io::Result<()> {
        let registry = identifier(fields)?;
        if !synchronised(protocol).contains(&registry.as_str()) {
            return Err(malformed(format!("{registry:?} is no registry of protocol {protocol}")));
        }
        let entries = self.sent.entry(registry.clone()).or_default();
        for _ in 0..fields.varint()? {
            let name = identifier(fields)?;
            if entries.iter().any(|entry| entry.name == name) {
                return Err(malformed(format!("{name:?} twice in {registry:?}")));
            }
            let body = fields.bool()?.then(|| nbt::read(fields)).transpose()?;
            if body.as_ref().is_some_and(|body| !body.is_object()) {
                return Err(malformed(format!("the body of {name:?} in {registry:?} is no compound")));
            }
            entries.push(Entry { name, body });
        }
        Ok(())
    }

    /// They take the place of what was known of the registries they name.
    pub(super) fn read_tags(&mut self, fields: &mut Fields<'_>, protocol: i32) -> io::Result<()> {
        for _ in 0..fields.varint()? {
            let registry = identifier(fields)?;
            if !synchronised(protocol).contains(&registry.as_str()) && !BUILT_IN.contains(&registry.as_str())
            {
                return Err(malformed(format!("tags of {registry:?}, which protocol {protocol} has not")));
            }
            let mut tags = BTreeMap::new();
            for _ in 0..fields.varint()? {
                let tag = identifier(fields)?;
                let entries = (0..fields.varint()?).map(|_| fields.varint()).collect::<io::Result<_>>()?;
                if tags.insert(tag.clone(), entries).is_some() {
                    return Err(malformed(format!("the tag {tag:?} of {registry:?} twice")));
                }
            }
            self.tags.insert(registry, tags);
        }
        Ok(())
    }

    /// What the client does at the end of the configuration phase. `core`: it has the game's own pack, and
    /// takes from it what came as a name only.
    pub(super) fn load(&self, protocol: i32, core: bool) -> io::Result<Loaded> {
        for (registry, entries) in &self.sent {
            for entry in entries {
                self.check_entry(protocol, registry, entry, core)?;
            }
        }
        for (registry, least) in least(protocol) {
            let count = self.entries(registry).len();
            if count < least {
                return Err(malformed(format!("{count} entries of {registry:?}; {least} are needed")));
            }
        }
        for damage in damage_types(protocol) {
            if !self.has("damage_type", damage) {
                return Err(malformed(format!("the damage type {damage:?} is missing")));
            }
        }
        self.check_tags(protocol)?;
        let dimensions = self.entries("dimension_type").iter().map(dimension).collect::<io::Result<_>>()?;
        Ok(Loaded { dimensions, biomes: self.entries("worldgen/biome").len() })
    }

    fn entries(&self, registry: &str) -> &[Entry] {
        self.sent.get(registry).map_or(&[], Vec::as_slice)
    }

    fn has(&self, registry: &str, name: &str) -> bool {
        self.entries(registry).iter().any(|entry| entry.name == name)
    }

    fn has_tag(&self, registry: &str, tag: &str) -> bool {
        self.tags.get(registry).is_some_and(|tags| tags.contains_key(tag))
    }

    fn check_entry(&self, protocol: i32, registry: &str, entry: &Entry, core: bool) -> io::Result<()> {
        let name = &entry.name;
        let Some(body) = &entry.body else {
            if !core {
                return Err(malformed(format!("{registry}/{name} came without data, and no pack has it")));
            }
            return mentions_of_the_pack(protocol, registry, name)
                .iter()
                .try_for_each(|(of, what)| self.check_mention(registry, name, of, what));
        };
        for field in fields_of(protocol, registry) {
            if body.get(field).is_none() {
                return Err(malformed(format!("{registry}/{name} has no {field:?}")));
            }
        }
        for (field, of) in references(protocol, registry) {
            for what in texts(body.get(field)) {
                self.check_mention(registry, name, of, what)?;
            }
        }
        // Wherever else a tag is named, somebody must have sent it.
        let mut tags = BTreeSet::new();
        collect_tags(body, &mut tags);
        for tag in tags {
            if !self.tags.values().any(|of| of.contains_key(tag)) {
                return Err(malformed(format!(
                    "{registry}/{name} names the tag {tag:?}, which was not sent"
                )));
            }
        }
        Ok(())
    }

    /// `what` is the name of an entry, or of a tag after a `#`.
    fn check_mention(&self, registry: &str, name: &str, of: &str, what: &str) -> io::Result<()> {
        let known = match what.strip_prefix('#') {
            Some(tag) => self.has_tag(of, bare(tag)),
            None => self.has(of, bare(what)),
        };
        if known {
            return Ok(());
        }
        Err(malformed(format!("{registry}/{name} names {what:?} of {of:?}, which was not sent")))
    }

    fn check_tags(&self, protocol: i32) -> io::Result<()> {
        for (registry, tags) in &self.tags {
            let known = self.entries(registry).len();
            let built_in = BUILT_IN.contains(&registry.as_str());
            for (tag, entries) in tags {
                for entry in entries {
                    let number = usize::try_from(*entry).map_err(malformed)?;
                    if !built_in && number >= known {
                        return Err(malformed(format!("{entry} in the tag {tag:?} of {known} {registry:?}")));
                    }
                }
            }
        }
        for (registry, tag) in needed_tags(protocol) {
            if !self.has_tag(registry, tag) {
                return Err(malformed(format!("the tag {tag:?} of {registry:?} is missing")));
            }
        }
        Ok(())
    }
}

fn dimension(entry: &Entry) -> io::Result<Dimension> {
    let name = entry.name.clone();
    let number = |body: &Value, field: &str| {
        body[field].as_i64().and_then(|number| i32::try_from(number).ok()).ok_or_else(|| malformed(field))
    };
    let (lowest, height) = match (&entry.body, name.as_str()) {
        (Some(body), _) => (number(body, "min_y")?, number(body, "height")?),
        (None, "overworld" | "overworld_caves") => (-64, 384),
        (None, "the_nether" | "the_end") => (0, 256),
        (None, _) => return Err(malformed(format!("the pack has no dimension type {name:?}"))),
    };
    if height < 16 || height % 16 != 0 || lowest % 16 != 0 {
        return Err(malformed(format!("the dimension type {name:?} from {lowest}, {height} high")));
    }
    Ok(Dimension { name, lowest, height })
}

/// Registries that every client of the protocol has from the server.
fn synchronised(protocol: i32) -> Vec<&'static str> {
    let mut registries = vec![
        "banner_pattern",
        "chat_type",
        "damage_type",
        "dimension_type",
        "trim_material",
        "trim_pattern",
        "wolf_variant",
        "worldgen/biome",
    ];
    for (since, more) in [
        (767, &["enchantment", "jukebox_song", "painting_variant"][..]),
        (768, &["instrument"]),
        (770, &["cat_variant", "chicken_variant", "cow_variant", "frog_variant", "pig_variant"]),
        (770, &["test_environment", "test_instance", "wolf_sound_variant"]),
        (771, &["dialog"]),
        (774, &["timeline", "zombie_nautilus_variant"]),
        (775, &["cat_sound_variant", "chicken_sound_variant", "cow_sound_variant", "pig_sound_variant"]),
        (775, &["world_clock"]),
        (776, &["sulfur_cube_archetype"]),
        (777, &["decorated_pot_pattern"]),
    ] {
        if protocol >= since {
            registries.extend(more);
        }
    }
    registries
}

/// Registries of the client's own, whose tags a server may send.
const BUILT_IN: [&str; 7] = [
    "block",
    "enchantment_effect_component_type",
    "entity_type",
    "fluid",
    "game_event",
    "item",
    "point_of_interest_type",
];

/// How many entries a registry must have: one where the client refuses an empty one or cannot show a world
/// without, more where items of the client's own name them.
pub(super) fn least(protocol: i32) -> Vec<(&'static str, usize)> {
    let mut least = vec![("dimension_type", 1), ("worldgen/biome", 1)];
    for (since, more) in [
        (767, &[("painting_variant", 1), ("wolf_variant", 1)][..]),
        (770, &[("cat_variant", 1), ("chicken_variant", 1), ("cow_variant", 1), ("frog_variant", 1)]),
        (770, &[("pig_variant", 1), ("wolf_sound_variant", 1)]),
        (774, &[("zombie_nautilus_variant", 1)]),
        (775, &[("cat_sound_variant", 1), ("chicken_sound_variant", 1), ("cow_sound_variant", 1)]),
        (775, &[("pig_sound_variant", 1), ("world_clock", 1)]),
        (775, &[("instrument", 8), ("jukebox_song", 21), ("trim_material", 11)]),
        (776, &[("jukebox_song", 22)]),
    ] {
        if protocol >= since {
            least.extend(more);
        }
    }
    least
}

/// The client makes one source of damage of each when it enters a world.
pub(super) fn damage_types(protocol: i32) -> Vec<&'static str> {
    let mut names = DAMAGE_TYPES.to_vec();
    for (since, more) in [
        (767, &["campfire", "wind_charge"][..]),
        (768, &["ender_pearl", "mace_smash"]),
        (774, &["spear"]),
        (776, &["sulfur_cube_hot"]),
    ] {
        if protocol >= since {
            names.extend(more);
        }
    }
    names
}

const DAMAGE_TYPES: [&str; 45] = [
    "arrow",
    "bad_respawn_point",
    "cactus",
    "cramming",
    "dragon_breath",
    "drown",
    "dry_out",
    "explosion",
    "fall",
    "falling_anvil",
    "falling_block",
    "falling_stalactite",
    "fireball",
    "fireworks",
    "fly_into_wall",
    "freeze",
    "generic",
    "generic_kill",
    "hot_floor",
    "in_fire",
    "in_wall",
    "indirect_magic",
    "lava",
    "lightning_bolt",
    "magic",
    "mob_attack",
    "mob_attack_no_aggro",
    "mob_projectile",
    "on_fire",
    "out_of_world",
    "outside_border",
    "player_attack",
    "player_explosion",
    "sonic_boom",
    "spit",
    "stalagmite",
    "starve",
    "sting",
    "sweet_berry_bush",
    "thorns",
    "thrown",
    "trident",
    "unattributed_fireball",
    "wither",
    "wither_skull",
];

/// Fields without which an entry's body is no body, as far as they are sure.
pub(super) fn fields_of(protocol: i32, registry: &str) -> &'static [&'static str] {
    match registry {
        "damage_type" => &["message_id", "scaling", "exhaustion"],
        "dimension_type" if protocol < 774 => &[
            "ambient_light",
            "bed_works",
            "coordinate_scale",
            "effects",
            "has_ceiling",
            "has_raids",
            "has_skylight",
            "height",
            "infiniburn",
            "logical_height",
            "min_y",
            "monster_spawn_block_light_limit",
            "monster_spawn_light_level",
            "natural",
            "piglin_safe",
            "respawn_anchor_works",
            "ultrawarm",
        ],
        "dimension_type" => {
            &["has_ceiling", "has_skylight", "height", "infiniburn", "logical_height", "min_y"]
        }
        "worldgen/biome" => &["downfall", "effects", "has_precipitation", "temperature"],
        "wolf_variant" if protocol < 770 => &["angry_texture", "biomes", "tame_texture", "wild_texture"],
        "wolf_variant" => &["assets"],
        "painting_variant" => &["asset_id", "height", "width"],
        "cat_variant" | "chicken_variant" | "cow_variant" | "frog_variant" | "pig_variant" => &["asset_id"],
        "zombie_nautilus_variant" => &["asset_id"],
        "jukebox_song" => &["comparator_output", "description", "length_in_seconds", "sound_event"],
        "instrument" => &["description", "range", "sound_event", "use_duration"],
        "trim_material" => &["asset_name", "description"],
        "banner_pattern" => &["asset_id", "translation_key"],
        "dialog" => &["title", "type"],
        _ => &[],
    }
}

/// Fields that name entries or tags of another registry.
fn references(protocol: i32, registry: &str) -> &'static [(&'static str, &'static str)] {
    match registry {
        "wolf_variant" if protocol < 770 => &[("biomes", "worldgen/biome")],
        "dimension_type" if protocol >= 775 => &[("timelines", "timeline"), ("default_clock", "world_clock")],
        "dimension_type" if protocol >= 774 => &[("timelines", "timeline")],
        "timeline" if protocol >= 775 => &[("clock", "world_clock")],
        _ => &[],
    }
}

/// What bodies of the game's own pack are known to name: as needed as if they had been sent.
fn mentions_of_the_pack(
    protocol: i32,
    registry: &str,
    name: &str,
) -> &'static [(&'static str, &'static str)] {
    match (registry, name) {
        ("wolf_variant", name) if protocol < 770 => match name {
            "ashen" => &[("worldgen/biome", "snowy_taiga")],
            "black" => &[("worldgen/biome", "old_growth_pine_taiga")],
            "chestnut" => &[("worldgen/biome", "old_growth_spruce_taiga")],
            "pale" => &[("worldgen/biome", "taiga")],
            "rusty" => &[("worldgen/biome", "#is_jungle")],
            "snowy" => &[("worldgen/biome", "grove")],
            "spotted" => &[("worldgen/biome", "#is_savanna")],
            "striped" => &[("worldgen/biome", "#is_badlands")],
            "woods" => &[("worldgen/biome", "forest")],
            _ => &[],
        },
        ("dialog", "quick_actions") => &[("dialog", "#quick_actions")],
        ("dialog", "custom_options") => &[("dialog", "#pause_screen_additions")],
        ("dimension_type", "overworld" | "overworld_caves") if protocol >= 774 => {
            &[("timeline", "#in_overworld")]
        }
        ("dimension_type", "the_nether") if protocol >= 774 => &[("timeline", "#in_nether")],
        ("dimension_type", "the_end") if protocol >= 774 => &[("timeline", "#in_end")],
        _ => &[],
    }
}

/// Tags that items of the client's own name.
pub(super) fn needed_tags(protocol: i32) -> &'static [(&'static str, &'static str)] {
    if protocol < 775 {
        return &[];
    }
    &[
        ("banner_pattern", "pattern_item/bordure_indented"),
        ("banner_pattern", "pattern_item/creeper"),
        ("banner_pattern", "pattern_item/field_masoned"),
        ("banner_pattern", "pattern_item/flow"),
        ("banner_pattern", "pattern_item/flower"),
        ("banner_pattern", "pattern_item/globe"),
        ("banner_pattern", "pattern_item/guster"),
        ("banner_pattern", "pattern_item/mojang"),
        ("banner_pattern", "pattern_item/piglin"),
        ("banner_pattern", "pattern_item/skull"),
        ("damage_type", "bypasses_shield"),
        ("damage_type", "is_explosion"),
        ("damage_type", "is_fire"),
    ]
}

fn bare(name: &str) -> &str {
    name.strip_prefix("minecraft:").unwrap_or(name)
}

/// A text, or the texts of a list.
fn texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
        Some(value) => value.as_str().into_iter().collect(),
        None => vec![],
    }
}

/// `infiniburn` names a tag that the client looks up only when something burns.
fn collect_tags<'a>(value: &'a Value, tags: &mut BTreeSet<&'a str>) {
    match value {
        Value::String(text) => {
            // A colour begins with the same sign.
            if let Some(tag) = text.strip_prefix("#minecraft:") {
                tags.insert(tag);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_tags(item, tags)),
        Value::Object(fields) => {
            for (_, value) in fields.iter().filter(|(name, _)| *name != "infiniburn") {
                collect_tags(value, tags);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
