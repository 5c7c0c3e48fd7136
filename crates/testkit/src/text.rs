//! What a player would read of a text component, as JSON or as network NBT.

use serde_json::Value;

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
            (r#"[{"":"a"},{"text":"b"}]"#, "ab"),
            ("not json", "not json"),
        ] {
            assert_eq!(plain(json), read, "{json}");
        }
    }
}
