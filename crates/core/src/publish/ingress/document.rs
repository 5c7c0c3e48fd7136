//! A tunnel's configuration as a list of keys and texts, so that what is not changed is not read either.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::publish::rule::Written;

const INGRESS: &str = "ingress";

/// The keys of a configuration and their values, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document(Vec<(String, String)>);

/// The configuration is not in a form in which it could be changed without harm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the tunnel's configuration is not understood: {0}")]
pub struct NotUnderstood(String);

impl Document {
    pub fn read(config: Option<&str>) -> Result<(Self, Vec<Written>), NotUnderstood> {
        let not_understood = |error: serde_json::Error| NotUnderstood(error.to_string());
        let document: Self = serde_json::from_str(config.unwrap_or("{}")).map_err(not_understood)?;
        let ingress = document.0.iter().find(|(key, _)| key == INGRESS).map(|(_, value)| value.as_str());
        let rules: Option<Vec<&RawValue>> =
            serde_json::from_str(ingress.unwrap_or("null")).map_err(not_understood)?;
        let rules = rules.unwrap_or_default().into_iter().map(Written::read).collect();
        Ok((document, rules))
    }

    /// The text of the whole with these rules.
    pub fn with_rules(&self, rules: &[String]) -> String {
        let rules = format!("[{}]", rules.join(","));
        let mut entries = self.0.clone();
        match entries.iter_mut().find(|(key, _)| key == INGRESS) {
            Some((_, value)) => *value = rules,
            None => entries.push((INGRESS.to_owned(), rules)),
        }
        let quoted = |key: String| serde_json::Value::String(key).to_string();
        let entries: Vec<String> =
            entries.into_iter().map(|(key, value)| format!("{}:{value}", quoted(key))).collect();
        format!("{{{}}}", entries.join(","))
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
            entries.push((key, value.get().to_owned()));
        }
        Ok(Document(entries))
    }
}
