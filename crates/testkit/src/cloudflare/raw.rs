//! JSON whose parts keep their text.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

pub(super) type Object = BTreeMap<String, Box<RawValue>>;

/// The members of an object; none of anything else.
pub(super) fn object(text: &str) -> Object {
    serde_json::from_str(text).unwrap_or_default()
}

/// The items of a list; none of anything else.
pub(super) fn list(text: &str) -> Vec<Box<RawValue>> {
    serde_json::from_str(text).unwrap_or_default()
}
