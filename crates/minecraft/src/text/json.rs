//! Text components as JSON.

use serde_json::{Map, Value};

use super::{Colour, Component, TextError, without_codes};

/// Deeper nesting than any text needs, and little for a stack.
const DEEPEST: usize = 64;

pub(super) fn read(json: &Value) -> Result<Component, TextError> {
    read_at(json, 0)
}

pub(super) fn write(component: &Component) -> Value {
    let mut json = Map::new();
    if !component.text.is_empty() || component.other.is_empty() {
        json.insert("text".to_owned(), component.text.clone().into());
    }
    json.extend(component.other.clone());
    let style = component.style;
    if let Some(colour) = style.colour {
        json.insert("color".to_owned(), colour.to_string().into());
    }
    for (name, decoration) in [
        ("bold", style.bold),
        ("italic", style.italic),
        ("underlined", style.underlined),
        ("strikethrough", style.strikethrough),
        ("obfuscated", style.obfuscated),
    ] {
        json.extend(decoration.map(|on| (name.to_owned(), on.into())));
    }
    // The game refuses an empty list.
    if !component.extra.is_empty() {
        json.insert("extra".to_owned(), component.extra.iter().map(write).collect());
    }
    json.into()
}

/// The text in any JSON a server may send in a component's place, without codes. A text to translate is given as
/// its fallback or its key, with its arguments.
pub fn plain_of(json: &Value) -> String {
    let mut out = String::new();
    collect(json, 0, &mut out);
    out
}

pub(super) fn plain_of_keys(keys: &Map<String, Value>) -> String {
    let mut out = String::new();
    collect_keys(keys, 0, &mut out);
    out
}

fn read_at(json: &Value, depth: usize) -> Result<Component, TextError> {
    if depth > DEEPEST {
        return Err(TextError::NotAComponent("it is nested too deeply"));
    }
    match json {
        Value::Null => Err(TextError::NotAComponent("null has no text")),
        Value::Bool(value) => Ok(Component::literal(value.to_string())),
        Value::Number(value) => Ok(Component::literal(value.to_string())),
        Value::String(text) => Ok(Component::literal(text)),
        Value::Array(parts) => {
            let mut parts = parts.iter().map(|part| read_at(part, depth + 1));
            let mut first = parts.next().ok_or(TextError::NotAComponent("a list has no parts"))??;
            for part in parts {
                first.extra.push(part?);
            }
            Ok(first)
        }
        Value::Object(keys) => read_object(keys, depth),
    }
}

fn read_object(keys: &Map<String, Value>, depth: usize) -> Result<Component, TextError> {
    let mut component = Component::default();
    let style = &mut component.style;
    for (key, value) in keys {
        match (key.as_str(), value) {
            ("text", Value::String(text)) => component.text.clone_from(text),
            ("text", Value::Number(_) | Value::Bool(_)) => component.text = value.to_string(),
            ("text", _) => return Err(TextError::NotAComponent("'text' is not a text")),
            ("color", Value::String(colour)) => style.colour = Some(Colour::parse(colour)?),
            ("color", _) => return Err(TextError::NotAComponent("'color' is not a text")),
            ("bold", Value::Bool(on)) => style.bold = Some(*on),
            ("italic", Value::Bool(on)) => style.italic = Some(*on),
            ("underlined", Value::Bool(on)) => style.underlined = Some(*on),
            ("strikethrough", Value::Bool(on)) => style.strikethrough = Some(*on),
            ("obfuscated", Value::Bool(on)) => style.obfuscated = Some(*on),
            ("bold" | "italic" | "underlined" | "strikethrough" | "obfuscated", _) => {
                return Err(TextError::NotAComponent("a decoration is neither true nor false"));
            }
            ("extra", Value::Array(parts)) => {
                component.extra =
                    parts.iter().map(|part| read_at(part, depth + 1)).collect::<Result<_, _>>()?;
            }
            ("extra", _) => return Err(TextError::NotAComponent("'extra' is not a list")),
            _ => {
                component.other.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(component)
}

fn collect(json: &Value, depth: usize, out: &mut String) {
    if depth > DEEPEST {
        return;
    }
    match json {
        Value::Null => {}
        Value::Bool(value) => out.push_str(&value.to_string()),
        Value::Number(value) => out.push_str(&value.to_string()),
        Value::String(text) => out.push_str(&without_codes(text)),
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, depth + 1, out)),
        Value::Object(keys) => collect_keys(keys, depth, out),
    }
}

fn collect_keys(keys: &Map<String, Value>, depth: usize, out: &mut String) {
    // A part's kind is the first of these it has.
    const CONTENT: [&str; 4] = ["text", "fallback", "translate", "keybind"];
    if let Some(content) = CONTENT.iter().find_map(|key| keys.get(*key)) {
        collect(content, depth + 1, out);
    }
    if let Some(Value::Array(arguments)) = keys.get("with") {
        for argument in arguments {
            out.push(' ');
            collect(argument, depth + 1, out);
        }
    }
    // Network NBT turned into JSON has texts in mixed lists under an empty name.
    for key in ["", "extra"] {
        if let Some(parts) = keys.get(key) {
            collect(parts, depth + 1, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_text_of_anything() {
        for (json, plain) in [
            (json!("§aHi"), "Hi"),
            (json!(["a", {"text": "b", "extra": ["c", 1, true]}]), "abc1true"),
            (json!({"text": "a", "extra": [{"text": "b"}]}), "ab"),
            (json!({"text": 5}), "5"),
            (json!({"translate": "multiplayer.disconnect.kicked"}), "multiplayer.disconnect.kicked"),
            (json!({"translate": "k", "with": ["a", {"text": "b"}]}), "k a b"),
            (json!({"translate": "k", "fallback": "f"}), "f"),
            (json!({"text": "", "extra": [{"": "x"}]}), "x"),
            (json!(null), ""),
            (json!({"extra": {"text": "odd"}}), "odd"),
        ] {
            assert_eq!(plain_of(&json), plain, "{json}");
        }
    }

    #[test]
    fn unknown_keys_are_kept() {
        for json in [
            json!({"translate": "k", "with": ["a"], "color": "red"}),
            json!({"text": "a", "hover_event": {"action": "show_text", "value": "b"}}),
        ] {
            assert_eq!(read(&json).map(|text| write(&text)), Ok(json));
        }
        assert_eq!(
            read(&json!({"translate": "k", "extra": ["b"]})).map(|text| text.to_plain()),
            Ok("kb".to_owned())
        );
    }

    #[test]
    fn deep_nesting_is_refused_or_cut() {
        let deep = (0..50_000).fold(json!("x"), |inner, _| {
            let parts = [("text".to_owned(), json!("a")), ("extra".to_owned(), Value::Array(vec![inner]))];
            Value::Object(parts.into_iter().collect())
        });
        assert!(matches!(read(&deep), Err(TextError::NotAComponent(_))));
        assert!(plain_of(&deep).starts_with("aa"));
        // Dropping a tree this deep by recursion would need as much stack.
        std::mem::forget(deep);
    }
}
