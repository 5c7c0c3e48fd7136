//! NBT as the network carries it since 1.20.2: a root without a name. Read as JSON, which forgets the widths of
//! numbers and knows no arrays of its own.
//!
//! Source: minecraft.wiki, "NBT format".

use std::io;

use serde_json::{Map, Value};

use crate::wire::{Fields, malformed};

/// What the game reads of it at most.
const DEEPEST: usize = 512;

/// One value with its kind before it, of any kind but "end".
pub fn read(fields: &mut Fields<'_>) -> io::Result<Value> {
    let kind = fields.u8()?;
    payload(fields, kind, DEEPEST)
}

fn payload(fields: &mut Fields<'_>, kind: u8, depth: usize) -> io::Result<Value> {
    if depth == 0 {
        return Err(malformed("NBT nested too deeply"));
    }
    Ok(match kind {
        1 => (fields.u8()? as i8).into(),
        2 => (fields.u16()? as i16).into(),
        3 => fields.i32()?.into(),
        4 => fields.i64()?.into(),
        5 => f64::from(fields.f32()?).into(),
        6 => fields.f64()?.into(),
        7 => array(fields, |fields| fields.u8().map(|byte| (byte as i8).into()))?,
        8 => string(fields)?.into(),
        9 => {
            let kind = fields.u8()?;
            let count = fields.i32()?;
            if kind == 0 && count > 0 {
                return Err(malformed("a list of nothing that is not empty"));
            }
            Value::Array((0..count).map(|_| payload(fields, kind, depth - 1)).collect::<io::Result<_>>()?)
        }
        10 => compound(fields, depth)?,
        11 => array(fields, |fields| fields.i32().map(Value::from))?,
        12 => array(fields, |fields| fields.i64().map(Value::from))?,
        other => return Err(malformed(format!("NBT of kind {other}"))),
    })
}

fn array(
    fields: &mut Fields<'_>,
    mut item: impl FnMut(&mut Fields<'_>) -> io::Result<Value>,
) -> io::Result<Value> {
    let count = fields.i32()?;
    if count < 0 {
        return Err(malformed(format!("an array of {count}")));
    }
    (0..count).map(|_| item(fields)).collect::<io::Result<_>>().map(Value::Array)
}

fn compound(fields: &mut Fields<'_>, depth: usize) -> io::Result<Value> {
    let mut entries = Map::new();
    loop {
        match fields.u8()? {
            0 => return Ok(Value::Object(entries)),
            kind => {
                let name = string(fields)?;
                let value = payload(fields, kind, depth - 1)?;
                if entries.insert(name.clone(), value).is_some() {
                    return Err(malformed(format!("two entries {name:?} in one compound")));
                }
            }
        }
    }
}

/// Java's modified UTF-8: NUL in two bytes, and what is beyond U+FFFF as two surrogates of three bytes each.
fn string(fields: &mut Fields<'_>) -> io::Result<String> {
    let length = fields.u16()?;
    let mut bytes = fields.take(length.into())?;
    let mut units = vec![];
    while let [first, rest @ ..] = bytes {
        let (unit, rest) = match (*first, rest) {
            (1..0x80, rest) => (u16::from(*first), rest),
            (0xc0..0xe0, [second @ 0x80..0xc0, rest @ ..]) => {
                (u16::from(first & 0x1f) << 6 | u16::from(second & 0x3f), rest)
            }
            (0xe0..0xf0, [second @ 0x80..0xc0, third @ 0x80..0xc0, rest @ ..]) => (
                u16::from(first & 0x0f) << 12 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f),
                rest,
            ),
            _ => return Err(malformed("a text that is not modified UTF-8")),
        };
        units.push(unit);
        bytes = rest;
    }
    String::from_utf16(&units).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values() {
        for (bytes, value) in [
            (&b"\x08\0\x03bye"[..], json!("bye")),
            (
                b"\x0a\x01\0\x01a\xff\x02\0\x01b\xff\xfe\x04\0\x01c\0\0\0\0\0\0\0\x07\0",
                json!({"a": -1, "b": -2, "c": 7}),
            ),
            (b"\x0a\x05\0\x01f\x3f\0\0\0\x06\0\x01d\x3f\xe0\0\0\0\0\0\0\0", json!({"f": 0.5, "d": 0.5})),
            (b"\x09\x08\0\0\0\x02\0\x01a\0\x01b", json!(["a", "b"])),
            (b"\x07\0\0\0\x02\x01\xff", json!([1, -1])),
            (b"\x0b\0\0\0\x01\0\0\0\x05", json!([5])),
            (b"\x0c\0\0\0\x01\0\0\0\0\0\0\0\x05", json!([5])),
            (b"\x08\0\x0d\xc0\x80\xc3\xa9\xe2\x82\xac\xed\xa0\xbe\xed\xb6\x80", json!("\0é€🦀")),
        ] {
            let mut fields = Fields(bytes);
            assert_eq!(read(&mut fields).unwrap(), value);
            fields.finish().unwrap();
        }
    }

    #[test]
    fn what_no_game_reads() {
        let nested = [0x09].repeat(600);
        let nested: Vec<u8> = nested.iter().flat_map(|kind| [*kind, 9, 0, 0, 0, 1]).skip(1).collect();
        let nested = [&[9][..], &nested].concat();
        for bytes in [
            &b"\x00"[..],
            b"\x0d",
            b"\x08\0\x04bye",
            b"\x08\0\x01\0",
            b"\x08\0\x04\xf0\x9f\xa6\x80",
            b"\x09\0\0\0\0\x01",
            b"\x0a\x01\0\x01a\x01\x01\0\x01a\x01\0",
            &nested,
        ] {
            assert!(read(&mut Fields(bytes)).is_err(), "{bytes:02x?}");
        }
    }
}
