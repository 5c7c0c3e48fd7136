use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::text::plain_of;

/// The most characters a client reads.
const LONGEST: usize = 32_767;
/// What the answer says under names of its own; all else in a learned answer is carried over.
const KNOWN: [&str; 4] = ["version", "players", "description", "favicon"];

/// What a server list shows of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusAnswer {
    /// Shown instead of the player count where the client's protocol is another one.
    pub version_name: String,
    pub protocol: i32,
    pub online: u32,
    pub max: u32,
    /// Shown when the mouse rests on the player count.
    pub sample: Vec<Sample>,
    /// A text component.
    pub description: Value,
    /// A PNG of 64 by 64 pixels, as `data:image/png;base64,…`.
    pub favicon: Option<String>,
    /// Further keys, such as what mod loaders compare their mods by.
    pub other: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    pub name: String,
    pub id: Uuid,
}

impl StatusAnswer {
    /// Takes over the keys of a server's own answer that this one does not speak about.
    pub fn carry_over(&mut self, learned: &Value) {
        let keys = learned.as_object().into_iter().flatten();
        let other = keys.filter(|(key, _)| !KNOWN.contains(&key.as_str()));
        self.other.extend(other.map(|(key, value)| (key.clone(), value.clone())));
    }

    /// The JSON of the response, never longer than a client reads: what does not fit is left out, the least
    /// missed first.
    pub fn to_json(&self) -> String {
        let mut answer = self.clone();
        let leave_out: [fn(&mut Self); 4] = [
            |answer| answer.favicon = None,
            |answer| answer.other.clear(),
            |answer| answer.sample.clear(),
            |answer| {
                answer.description =
                    plain_of(&answer.description).chars().take(1000).collect::<String>().into();
                answer.version_name = answer.version_name.chars().take(100).collect();
            },
        ];
        let mut json = answer.write();
        for leave_out in leave_out {
            if json.encode_utf16().count() <= LONGEST {
                break;
            }
            leave_out(&mut answer);
            json = answer.write();
        }
        json
    }

    fn write(&self) -> String {
        let sample = self.sample.iter().map(|one| json!({"name": one.name, "id": one.id.to_string()}));
        let players = match &self.sample[..] {
            [] => json!({"max": self.max, "online": self.online}),
            [..] => json!({"max": self.max, "online": self.online, "sample": sample.collect::<Value>()}),
        };
        let mut answer = json!({
            "version": {"name": self.version_name, "protocol": self.protocol},
            "players": players,
            "description": self.description,
        });
        if let Some(fields) = answer.as_object_mut() {
            fields.extend(self.favicon.clone().map(|favicon| ("favicon".to_owned(), favicon.into())));
            fields.extend(self.other.clone());
        }
        answer.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::StatusSummary;

    fn answer() -> StatusAnswer {
        StatusAnswer {
            version_name: "26.2".to_owned(),
            protocol: 776,
            online: 0,
            max: 20,
            sample: vec![],
            description: json!({"text": "Asleep"}),
            favicon: Some("data:image/png;base64,AAAA".to_owned()),
            other: Map::new(),
        }
    }

    #[test]
    fn json() {
        let mut answer = answer();
        answer.sample.push(Sample { name: "zzz".to_owned(), id: Uuid::nil() });
        answer
            .carry_over(&json!({"players": {"online": 7}, "forgeData": {"mods": []}, "description": "old"}));
        let expected = json!({
            "version": {"name": "26.2", "protocol": 776},
            "players": {
                "max": 20, "online": 0,
                "sample": [{"name": "zzz", "id": "00000000-0000-0000-0000-000000000000"}],
            },
            "description": {"text": "Asleep"},
            "favicon": "data:image/png;base64,AAAA",
            "forgeData": {"mods": []},
        });
        assert_eq!(answer.to_json(), expected.to_string());
        answer.carry_over(&json!("no object"));
        assert_eq!(answer.to_json(), expected.to_string());
    }

    #[test]
    fn never_longer_than_a_client_reads() {
        let long = || "x".repeat(40_000);
        let mut answer = answer();
        answer.favicon = Some(long());
        let read = |answer: &StatusAnswer| -> Value {
            let json = answer.to_json();
            assert!(json.len() <= LONGEST);
            serde_json::from_str(&json).unwrap()
        };
        answer.other.insert("small".to_owned(), json!(1));
        assert_eq!((read(&answer).get("favicon"), &read(&answer)["small"]), (None, &json!(1)));
        answer.other.insert("large".to_owned(), long().into());
        assert_eq!(read(&answer).get("small"), None);
        answer.description = json!({"text": long()});
        assert_eq!(StatusSummary::of(&read(&answer)).description.len(), 1000);
    }
}
