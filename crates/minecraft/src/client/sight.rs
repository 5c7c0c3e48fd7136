//! What a player would read of a wait: titles, the boss bar, chat, dialogs. Since 1.20.3, when such texts became NBT.

use serde_json::Value;

use crate::Malformed;
use crate::field::Reader;
use crate::ids::Play;
use crate::nbt;

/// Something to read: a text component, or plain text.
#[derive(Debug, Clone, PartialEq)]
pub enum Sight {
    Title(Value),
    Subtitle(Value),
    /// Above the hotbar.
    ActionBar(Value),
    Chat(Value),
    /// What is new about a boss bar: its text, how full it is (0 to 1).
    Bar {
        text: Option<Value>,
        filled: Option<f32>,
    },
    /// A window: its title, and what it says below.
    Dialog {
        title: Value,
        body: Vec<Value>,
    },
}

/// What the game's packet `id` shows, if it shows anything. What cannot be read is not shown.
pub(super) fn of(ids: &Play, id: i32, mut fields: Reader<'_>) -> Option<Sight> {
    let mut text = || nbt::take(&mut fields);
    let sight = match id {
        id if id == ids.title => Sight::Title(text().ok()?),
        id if id == ids.subtitle => Sight::Subtitle(text().ok()?),
        id if id == ids.action_bar => Sight::ActionBar(text().ok()?),
        id if id == ids.chat => {
            let text = text().ok()?;
            if fields.bool().ok()? { Sight::ActionBar(text) } else { Sight::Chat(text) }
        }
        id if id == ids.boss_bar => bar(fields).ok()??,
        _ => return None,
    };
    Some(sight)
}

pub(super) fn dialog(mut fields: Reader<'_>) -> Option<Sight> {
    let dialog = nbt::take(&mut fields).ok()?;
    let title = dialog.get("title")?.clone();
    let body = match dialog.get("body") {
        Some(Value::Array(parts)) => parts.iter().collect(),
        Some(part) => vec![part],
        None => vec![],
    };
    let body = body.into_iter().filter_map(|part| part.get("contents").cloned()).collect();
    Some(Sight::Dialog { title, body })
}

fn bar(mut fields: Reader<'_>) -> Result<Option<Sight>, Malformed> {
    fields.uuid()?;
    let action = fields.varint()?;
    let text = if matches!(action, 0 | 3) { Some(nbt::take(&mut fields)?) } else { None };
    let filled = if matches!(action, 0 | 2) { Some(f32::from_be_bytes(fields.array()?)) } else { None };
    let filled = filled.filter(|filled| (0.0..=1.0).contains(filled));
    Ok((text.is_some() || filled.is_some()).then_some(Sight::Bar { text, filled }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids;
    use serde_json::json;

    #[test]
    fn what_is_shown() {
        let ids = ids::play(775).unwrap();
        let seen = |id, body: &[u8]| of(&ids, id, Reader::new(body));
        let hi = json!("hi");
        let bar = |action: &[u8]| [&[7; 16], action].concat();
        let half = || Some(0.5);
        for (id, body, sight) in [
            (ids.title, b"\x08\0\x02hi".to_vec(), Some(Sight::Title(hi.clone()))),
            (ids.subtitle, b"\x08\0\x02hi".to_vec(), Some(Sight::Subtitle(hi.clone()))),
            (ids.action_bar, b"\x08\0\x02hi".to_vec(), Some(Sight::ActionBar(hi.clone()))),
            (ids.chat, b"\x08\0\x02hi\0".to_vec(), Some(Sight::Chat(hi.clone()))),
            (ids.chat, b"\x08\0\x02hi\x01".to_vec(), Some(Sight::ActionBar(hi.clone()))),
            (
                ids.boss_bar,
                bar(b"\0\x08\0\x02hi\x3f\0\0\0\x01\0\0"),
                Some(Sight::Bar { text: Some(hi.clone()), filled: half() }),
            ),
            (ids.boss_bar, bar(b"\x02\x3f\0\0\0"), Some(Sight::Bar { text: None, filled: half() })),
            (ids.boss_bar, bar(b"\x03\x08\0\x02hi"), Some(Sight::Bar { text: Some(hi), filled: None })),
            (ids.boss_bar, bar(b"\x01"), None),
            (ids.title, b"\x63".to_vec(), None),
            (ids.chunk, vec![], None),
        ] {
            assert_eq!(seen(id, &body), sight, "{id:#x} {body:02x?}");
        }
    }

    #[test]
    fn dialogs() {
        let said =
            json!({"type": "notice", "title": "a", "body": [{"type": "plain_message", "contents": "b"}]});
        let expected = Sight::Dialog { title: json!("a"), body: vec![json!("b")] };
        assert_eq!(dialog(Reader::new(&nbt::network(&said))), Some(expected));
        assert_eq!(dialog(Reader::new(&nbt::network(&json!({"type": "notice"})))), None);
    }
}
