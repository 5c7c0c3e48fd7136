use serde_json::Value;

use crate::text::plain_of;

/// What can be read out of any server's answer, whatever its shape.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusSummary {
    pub version_name: Option<String>,
    pub protocol: Option<i32>,
    /// `None` where the server does not say, or says no number of players: not known is not nobody.
    pub online: Option<u32>,
    pub max: Option<u32>,
    /// Plain text.
    pub description: String,
    /// `data:image/png;base64,…`
    pub favicon: Option<String>,
}

impl StatusSummary {
    pub fn of(answer: &Value) -> Self {
        let text = |path: &str| answer.pointer(path).and_then(Value::as_str);
        let count = |path: &str| whole_number(answer.pointer(path)?)?.try_into().ok();
        Self {
            version_name: text("/version/name").map(str::to_owned),
            protocol: answer
                .pointer("/version/protocol")
                .and_then(whole_number)
                .and_then(|n| n.try_into().ok()),
            online: count("/players/online"),
            max: count("/players/max"),
            description: answer.get("description").map(plain_of).unwrap_or_default(),
            // Old servers broke the base64 into lines.
            favicon: text("/favicon")
                .map(|favicon| favicon.replace(['\n', '\r'], ""))
                .filter(|favicon| favicon.starts_with("data:image/png;base64,")),
        }
    }
}

/// A whole number, also one written as `20.0`.
fn whole_number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            let text = number.to_string();
            text.strip_suffix(".0")?.parse().ok()
        }),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn odd_answers() {
        let counted = |online, max| StatusSummary { online, max, ..StatusSummary::default() };
        let described =
            |text: &str| StatusSummary { description: text.to_owned(), ..StatusSummary::default() };
        for (answer, expected) in [
            (json!({}), StatusSummary::default()),
            (json!("text"), StatusSummary::default()),
            (json!([1]), StatusSummary::default()),
            (json!({"players": {"online": 3, "max": 20}}), counted(Some(3), Some(20))),
            (json!({"players": {"online": 3.0, "max": "20"}}), counted(Some(3), None)),
            (json!({"players": {"online": -1, "max": 0}}), counted(None, Some(0))),
            (json!({"players": {"online": 0.5, "max": 1e99}}), counted(None, None)),
            (json!({"players": null}), counted(None, None)),
            (json!({"description": "§aHi"}), described("Hi")),
            (json!({"description": {"translate": "multiplayer.title"}}), described("multiplayer.title")),
            (json!({"description": ["a", {"text": "b"}]}), described("ab")),
            (json!({"description": null, "favicon": "http://example.com/x.png"}), StatusSummary::default()),
            (
                json!({"modinfo": {"type": "FML"}, "version": {"protocol": -1, "name": 5}}),
                StatusSummary { protocol: Some(-1), ..StatusSummary::default() },
            ),
            (
                json!({"favicon": "data:image/png;base64,AA\nAA", "version": {"name": "Paper 1.21"}}),
                StatusSummary {
                    version_name: Some("Paper 1.21".to_owned()),
                    favicon: Some("data:image/png;base64,AAAA".to_owned()),
                    ..StatusSummary::default()
                },
            ),
        ] {
            assert_eq!(StatusSummary::of(&answer), expected, "{answer}");
        }
    }
}
