//! Network NBT read as JSON, for the texts a server sends.

use serde_json::{Map, Value};

use crate::Malformed;
use crate::field::Reader;

use super::{BYTE, COMPOUND, DOUBLE, END, INT, LIST, LONG, STRING};

const SHORT: u8 = 2;
const FLOAT: u8 = 5;
const BYTES: u8 = 7;
const INTS: u8 = 11;
const LONGS: u8 = 12;

/// Deeper nesting than any text needs, and little for a stack.
const DEEPEST: usize = 64;

/// Reads a nameless root. A byte becomes a boolean, because that is what the bytes of a text component are, and
/// what a mixed list wraps is unwrapped.
pub fn read(bytes: &[u8]) -> Result<Value, Malformed> {
    take(&mut Reader::new(bytes))
}

/// The same, from the front of what may go on.
pub(crate) fn take(fields: &mut Reader<'_>) -> Result<Value, Malformed> {
    let tag = fields.u8()?;
    payload(tag, fields, 0)
}

fn payload(tag: u8, fields: &mut Reader<'_>, depth: usize) -> Result<Value, Malformed> {
    if depth > DEEPEST {
        return Err(Malformed::BadNbt);
    }
    Ok(match tag {
        END => Value::Null,
        BYTE => fields.bool()?.into(),
        SHORT => fields.u16()?.cast_signed().into(),
        INT => fields.i32()?.into(),
        LONG => fields.i64()?.into(),
        FLOAT => f32::from_be_bytes(fields.array()?).into(),
        DOUBLE => f64::from_be_bytes(fields.array()?).into(),
        STRING => string(fields)?.into(),
        LIST => list(fields, depth)?,
        COMPOUND => compound(fields, depth)?,
        BYTES => array(fields, BYTE)?,
        INTS => array(fields, INT)?,
        LONGS => array(fields, LONG)?,
        _ => return Err(Malformed::BadNbt),
    })
}

fn compound(fields: &mut Reader<'_>, depth: usize) -> Result<Value, Malformed> {
    let mut entries = Map::new();
    loop {
        let tag = fields.u8()?;
        if tag == END {
            return Ok(entries.into());
        }
        let name = string(fields)?;
        entries.insert(name, payload(tag, fields, depth + 1)?);
    }
}

fn list(fields: &mut Reader<'_>, depth: usize) -> Result<Value, Malformed> {
    let tag = fields.u8()?;
    let count = count(fields)?;
    // Items without a size could be announced by the billion.
    if tag == END && count > 0 {
        return Err(Malformed::BadNbt);
    }
    let items = (0..count).map(|_| payload(tag, fields, depth + 1).map(unwrap));
    items.collect::<Result<Vec<_>, _>>().map(Value::from)
}

/// An item of a mixed list is alone in a compound under an empty name.
fn unwrap(mut item: Value) -> Value {
    let alone = item.as_object_mut().filter(|entries| entries.len() == 1);
    alone.and_then(|entries| entries.remove("")).unwrap_or(item)
}

fn array(fields: &mut Reader<'_>, tag: u8) -> Result<Value, Malformed> {
    let count = count(fields)?;
    let items = (0..count).map(|_| payload(tag, fields, 0));
    items.collect::<Result<Vec<_>, _>>().map(Value::from)
}

fn count(fields: &mut Reader<'_>) -> Result<usize, Malformed> {
    usize::try_from(fields.i32()?.max(0)).map_err(|_| Malformed::BadNbt)
}

/// Java's modified UTF-8. What is not even that is shown as far as it can be.
fn string(fields: &mut Reader<'_>) -> Result<String, Malformed> {
    let size = usize::from(fields.u16()?);
    let mut bytes = fields.bytes(size)?;
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(text.to_owned());
    }
    let mut units = Vec::new();
    while let [first, rest @ ..] = bytes {
        let low = |byte: &u8| u16::from(byte & 0x3f);
        let (unit, after) = match (first, rest) {
            (0xe0..=0xef, [second, third, after @ ..]) => {
                (u16::from(first & 0x0f) << 12 | low(second) << 6 | low(third), after)
            }
            (0xc0..=0xdf, [second, after @ ..]) => (u16::from(first & 0x1f) << 6 | low(second), after),
            _ => (u16::from(*first), rest),
        };
        units.push(unit);
        bytes = after;
    }
    Ok(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::super::network;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read() {
        for value in [
            json!("bye"),
            json!("NUL \0 and 🦀"),
            json!({"text": "a", "bold": true, "extra": ["b", {"text": "c"}], "n": 5, "big": 5_000_000_000_i64}),
            json!({"extra": [{"text": "a"}, {"text": "b"}], "with": ["x", "y"], "none": []}),
            json!({"half": 0.5}),
        ] {
            assert_eq!(read(&network(&value)), Ok(value));
        }
        assert_eq!(read(b"\x08\x00\x03bye"), Ok(json!("bye")));
        assert_eq!(read(b"\x0a\x0b\x00\x01a\0\0\0\x01\0\0\0\x07\0"), Ok(json!({"a": [7]})));
    }

    #[test]
    fn refuses() {
        for (bytes, why) in [
            (&b""[..], Malformed::Truncated),
            (b"\x08\x00\x03by", Malformed::Truncated),
            (b"\x0d", Malformed::BadNbt),
            (b"\x09\x00\x7f\xff\xff\xff", Malformed::BadNbt),
            (b"\x09\x08\x7f\xff\xff\xff", Malformed::Truncated),
            (&[&b"\x09"[..], &b"\x09\0\0\0\x01".repeat(1000)].concat(), Malformed::BadNbt),
        ] {
            assert_eq!(read(bytes), Err(why), "{:02x?}", &bytes[..bytes.len().min(8)]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
