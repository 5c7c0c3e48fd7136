//! One chunk with its light, read to the last bit.
//!
//! Source: minecraft.wiki, "Java Edition protocol/Chunk format".

use std::io;

use crate::nbt;
use crate::wire::{Fields, malformed};

const BLOCKS: usize = 16 * 16 * 16;
const BIOMES: usize = 4 * 4 * 4;
const LIGHT: usize = BLOCKS / 2;
const HEIGHTMAP_TYPES: i32 = 6;

/// Its place.
pub(super) fn read(
    fields: &mut Fields<'_>,
    protocol: i32,
    height: i32,
    biomes: usize,
) -> io::Result<(i32, i32)> {
    let place = (fields.i32()?, fields.i32()?);
    read_heightmaps(fields, protocol, height)?;
    let mut data = Fields(fields.bytes()?);
    for _ in 0..height / 16 {
        read_section(&mut data, protocol, biomes)?;
    }
    data.finish()?;
    if fields.varint()? != 0 {
        return Err(malformed("block entities in a chunk, which this client does not read"));
    }
    read_light(fields, protocol, height)?;
    Ok(place)
}

fn read_heightmaps(fields: &mut Fields<'_>, protocol: i32, height: i32) -> io::Result<()> {
    if protocol < 770 {
        let maps = nbt::read(fields)?;
        return if maps.is_object() { Ok(()) } else { Err(malformed("heightmaps that are no compound")) };
    }
    // As many bits as it takes to say 0 to `height`, and no value across two numbers.
    let bits = height.ilog2() as usize + 1;
    let longs = 256_usize.div_ceil(64 / bits);
    for _ in 0..fields.varint()? {
        let kind = fields.varint()?;
        let count = fields.varint()?;
        if !(0..HEIGHTMAP_TYPES).contains(&kind) || count != longs as i32 {
            return Err(malformed(format!("{count} numbers in the heightmap {kind}; {longs} are due")));
        }
        fields.take(8 * longs)?;
    }
    Ok(())
}

fn read_section(data: &mut Fields<'_>, protocol: i32, biomes: usize) -> io::Result<()> {
    let solid = data.u16()? as i16;
    if !(0..=BLOCKS as i16).contains(&solid) {
        return Err(malformed(format!("{solid} blocks in a section")));
    }
    if protocol >= 775 {
        data.u16()?;
    }
    let only = read_container(data, protocol, BLOCKS, 4..=8, None)?;
    if only == Some(0) && solid != 0 {
        return Err(malformed(format!("{solid} blocks in a section of air")));
    }
    read_container(data, protocol, BIOMES, 1..=3, Some(biomes)).map(drop)
}

/// The one value that fills it, if it is one. `known`: how many values there are.
fn read_container(
    data: &mut Fields<'_>,
    protocol: i32,
    size: usize,
    palette: std::ops::RangeInclusive<usize>,
    known: Option<usize>,
) -> io::Result<Option<i32>> {
    let check = |value: i32| match usize::try_from(value) {
        Ok(number) if known.is_none_or(|known| number < known) => Ok(value),
        Ok(_) | Err(_) => Err(malformed(format!("{value} in a chunk; known are {known:?}"))),
    };
    let bits = usize::from(data.u8()?);
    let mut only = None;
    if bits == 0 {
        only = Some(check(data.varint()?)?);
    } else if bits < *palette.start() || bits > 32 {
        return Err(malformed(format!("{bits} bits for an entry of a chunk")));
    } else if palette.contains(&bits) {
        for _ in 0..data.varint()? {
            check(data.varint()?)?;
        }
    }
    let longs = 64_usize.checked_div(bits).map_or(0, |each| size.div_ceil(each));
    if protocol < 770 && data.varint()? != longs as i32 {
        return Err(malformed(format!("not the {longs} numbers that {bits} bits for an entry ask for")));
    }
    data.take(8 * longs)?;
    Ok(only)
}

fn read_light(fields: &mut Fields<'_>, protocol: i32, height: i32) -> io::Result<()> {
    // A section of light below the world and one above it.
    let sections = height / 16 + 2;
    let mut lit = [0; 4];
    for count in &mut lit {
        *count = read_mask(fields, protocol, sections)?;
    }
    for lit in &lit[..2] {
        let arrays = fields.varint()?;
        if arrays != *lit {
            return Err(malformed(format!("{arrays} arrays of light for {lit} sections")));
        }
        for _ in 0..arrays {
            if fields.bytes()?.len() != LIGHT {
                return Err(malformed("an array of light of another length"));
            }
        }
    }
    Ok(())
}

/// How many sections it names.
fn read_mask(fields: &mut Fields<'_>, protocol: i32, sections: i32) -> io::Result<i32> {
    let bytes = if protocol < 777 {
        let longs = usize::try_from(fields.varint()?).map_err(malformed)?;
        fields.take(8 * longs.min(1024))?.chunks(8).flat_map(|long| long.iter().rev()).copied().collect()
    } else {
        fields.bytes()?.to_vec()
    };
    let highest = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| 8 * at as i32 + 8 - bytes[at].leading_zeros() as i32);
    if highest > sections {
        return Err(malformed(format!("light for the section {highest} of {sections}")));
    }
    Ok(bytes.iter().map(|byte| byte.count_ones() as i32).sum())
}
