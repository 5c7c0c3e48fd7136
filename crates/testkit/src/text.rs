//! What a player would read of a text component, from JSON or from network NBT.

use std::io;

use serde_json::{Map, Value};

use crate::wire::{Fields, malformed};

/// The words of a JSON text component, without colours. Text that is not JSON stays as it is.
pub fn plain(json: &str) -> String {
    serde_json::from_str(json).map_or_else(|_| json.to_owned(), |component| words(&component))
}

/// The words of a component: its text or translation key, then its arguments and children.
pub fn words(component: &Value) -> String {
    match component {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(words).collect(),
        Value::Object(fields) => {
            // NBT names the text of a mixed list's members with an empty key.
            ["text", "", "translate", "with", "extra"]
                .iter()
                .filter_map(|key| fields.get(*key))
                .map(words)
                .collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => component.to_string(),
    }
}

/// A component in network NBT (protocol 765 and later): a nameless root, a string or a compound.
pub fn read_nbt(fields: &mut Fields<'_>) -> io::Result<Value> {
    let kind = fields.u8()?;
    nbt_value(fields, kind, 16)
}

fn nbt_value(fields: &mut Fields<'_>, kind: u8, depth: usize) -> io::Result<Value> {
    if depth == 0 {
        return Err(malformed("NBT nested too deeply"));
    }
    Ok(match kind {
        1 => fields.u8()?.into(),
        2 => fields.u16()?.into(),
        3 => fields.i32()?.into(),
        4 => fields.i64()?.into(),
        5 => f64::from(f32::from_bits(fields.i32()? as u32)).into(),
        6 => f64::from_bits(fields.i64()? as u64).into(),
        8 => nbt_string(fields)?.into(),
        9 => {
            let kind = fields.u8()?;
            let count = fields.i32()?;
            Value::Array((0..count).map(|_| nbt_value(fields, kind, depth - 1)).collect::<io::Result<_>>()?)
        }
        10 => {
            let mut entries = Map::new();
            loop {
                match fields.u8()? {
                    0 => break Value::Object(entries),
                    kind => {
                        let name = nbt_string(fields)?;
                        entries.insert(name, nbt_value(fields, kind, depth - 1)?);
                    }
                }
            }
        }
        other => return Err(malformed(format!("NBT of kind {other} in a text"))),
    })
}

fn nbt_string(fields: &mut Fields<'_>) -> io::Result<String> {
    let length = fields.u16()?;
    String::from_utf8(fields.take(length.into())?.to_vec()).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_json() {
        for (json, read) in [
            (r#""bye""#, "bye"),
            (r#"{"text":"a","color":"red","extra":[{"text":"b","bold":true},"c"]}"#, "abc"),
            (r#"["a",{"text":"b"}]"#, "ab"),
            (
                r#"{"translate":"multiplayer.disconnect.transfers_disabled"}"#,
                "multiplayer.disconnect.transfers_disabled",
            ),
            ("not json", "not json"),
        ] {
            assert_eq!(plain(json), read, "{json}");
        }
    }

    #[test]
    fn words_of_nbt() {
        for (bytes, read) in [
            (&b"\x08\0\x03bye"[..], "bye"),
            (b"\x0a\x08\0\x04text\0\x01a\x01\0\x04bold\x01\x09\0\x05extra\x08\0\0\0\x01\0\x01b\0", "ab"),
        ] {
            let mut fields = Fields(bytes);
            assert_eq!(words(&read_nbt(&mut fields).unwrap()), read);
            fields.finish().unwrap();
        }
    }
}
