//! NBT as the network carries it since 1.20.2: a root without a name (minecraft.wiki, NBT format). Written from
//! JSON and read as JSON, because text components are the only thing that needs it here.

mod read;

use serde_json::Value;

pub use read::read;
pub(crate) use read::take;

/// A JSON value as nameless NBT: tag and payload. Nulls in objects are left out.
pub fn network(value: &Value) -> Vec<u8> {
    let mut out = vec![tag(value)];
    write(value, &mut out);
    out
}

const BYTE: u8 = 1;
const INT: u8 = 3;
const LONG: u8 = 4;
const DOUBLE: u8 = 6;
const STRING: u8 = 8;
const LIST: u8 = 9;
const COMPOUND: u8 = 10;
const END: u8 = 0;

fn tag(value: &Value) -> u8 {
    match value {
        Value::Bool(_) => BYTE,
        Value::Number(number) if small(number).is_some() => INT,
        Value::Number(number) if number.is_i64() => LONG,
        Value::Number(_) => DOUBLE,
        Value::String(_) => STRING,
        Value::Array(_) => LIST,
        Value::Null | Value::Object(_) => COMPOUND,
    }
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(END),
        Value::Bool(value) => out.push((*value).into()),
        Value::Number(number) => match (small(number), number.as_i64()) {
            (Some(small), _) => out.extend(small.to_be_bytes()),
            (None, Some(large)) => out.extend(large.to_be_bytes()),
            (None, None) => out.extend(number.as_f64().unwrap_or_default().to_be_bytes()),
        },
        Value::String(text) => write_string(text, out),
        Value::Array(items) => write_list(items, out),
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                out.push(tag(value));
                write_string(name, out);
                write(value, out);
            }
            out.push(END);
        }
    }
}

/// All of a list's items have one tag; where they differ, the game wraps each in a compound under an empty name.
fn write_list(items: &[Value], out: &mut Vec<u8>) {
    let first = items.first().map_or(END, tag);
    let mixed = items.iter().any(|item| tag(item) != first);
    out.push(if mixed { COMPOUND } else { first });
    out.extend(i32::try_from(items.len()).unwrap_or(i32::MAX).to_be_bytes());
    for item in items {
        let wrapped = mixed && tag(item) != COMPOUND;
        if wrapped {
            out.push(tag(item));
            write_string("", out);
        }
        write(item, out);
        if wrapped {
            out.push(END);
        }
    }
}

fn small(number: &serde_json::Number) -> Option<i32> {
    number.as_i64().and_then(|value| i32::try_from(value).ok())
}

/// Java's modified UTF-8: NUL takes two bytes, and characters beyond the basic plane are two surrogates of three
/// bytes each. A text too long for its length field is cut between two units.
fn write_string(text: &str, out: &mut Vec<u8>) {
    let mut encoded = Vec::with_capacity(text.len());
    for unit in text.encode_utf16() {
        let [high, low] = unit.to_be_bytes();
        let [top, middle, bottom] = [high >> 4, (high & 0x0f) << 2 | low >> 6, low & 0x3f];
        let before = encoded.len();
        match unit {
            1..0x80 => encoded.push(low),
            0 | 0x80..0x800 => encoded.extend([0xc0 | middle, 0x80 | bottom]),
            0x800.. => encoded.extend([0xe0 | top, 0x80 | middle, 0x80 | bottom]),
        }
        if encoded.len() > usize::from(u16::MAX) {
            encoded.truncate(before);
            break;
        }
    }
    out.extend(u16::try_from(encoded.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(encoded);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values() {
        for (value, bytes) in [
            (json!("bye"), &b"\x08\0\x03bye"[..]),
            (json!({"text": "hi", "bold": true}), b"\x0a\x08\0\x04text\0\x02hi\x01\0\x04bold\x01\0"),
            (json!({"n": 7}), b"\x0a\x03\0\x01n\0\0\0\x07\0"),
            (json!({"n": 1_i64 << 40}), b"\x0a\x04\0\x01n\0\0\x01\0\0\0\0\0\0"),
            (json!({"n": 0.5}), b"\x0a\x06\0\x01n\x3f\xe0\0\0\0\0\0\0\0"),
            (json!({"a": [], "x": null}), b"\x0a\x09\0\x01a\0\0\0\0\0\0"),
            (json!({"a": ["b"]}), b"\x0a\x09\0\x01a\x08\0\0\0\x01\0\x01b\0"),
            (json!({"a": ["b", {}]}), b"\x0a\x09\0\x01a\x0a\0\0\0\x02\x08\0\0\0\x01b\0\0\0"),
            (json!("\0é€🦀"), b"\x08\0\x0d\xc0\x80\xc3\xa9\xe2\x82\xac\xed\xa0\xbe\xed\xb6\x80"),
        ] {
            assert_eq!(network(&value), bytes, "{value}");
        }
    }

    #[test]
    fn a_long_text_keeps_to_its_length_field() {
        let bytes = network(&Value::String("é".repeat(40_000)));
        assert_eq!((&bytes[..3], bytes.len()), (&b"\x08\xff\xfe"[..], 3 + 0xfffe));
    }
}
