//! Settings from the environment, the command line and labels, which have the last word over the file.

use std::collections::BTreeSet;
use std::fmt;

use toml::de::DeValue;

use super::keys;
use super::problem::{Fault, Place, Problem};
use super::value;

const PREFIX: &str = "SWARMGATE_";

/// A key that is set outside the file. Of several for one key the last counts: flags go after variables.
#[derive(Clone, PartialEq, Eq)]
pub struct Override {
    /// Whom to blame: `SWARMGATE_LOG_LEVEL`, `--log-level`.
    pub(super) origin: String,
    /// The key as a variable, without the prefix: `LOG_LEVEL`.
    pub(super) variable: String,
    value: String,
    /// The value is text whatever it looks like.
    plain: bool,
}

impl Override {
    /// An environment variable, if it is one of ours; an empty one counts as not set. The shell leaves out
    /// those that are no settings.
    pub fn from_variable(name: &str, value: &str) -> Option<Self> {
        let variable = name.strip_prefix(PREFIX).filter(|_| !value.is_empty())?.to_owned();
        Some(Self { origin: name.to_owned(), variable, value: value.to_owned(), plain: false })
    }

    /// A variable with a name of somebody else's that sets the key with this path, to text unless it is `raw`.
    pub(super) fn from_other(name: &str, key: &str, value: &str, raw: bool) -> Self {
        Self { origin: name.to_owned(), variable: variable(key), value: value.to_owned(), plain: !raw }
    }

    /// A command line flag that sets the key with this path.
    pub fn from_flag(flag: &str, key: &str, value: &str) -> Self {
        Self { origin: flag.to_owned(), variable: variable(key), value: value.to_owned(), plain: false }
    }

    /// A label that sets the key with this path, to text.
    pub(crate) fn from_label(label: &str, key: &str, value: &str) -> Self {
        Self { origin: label.to_owned(), variable: variable(key), value: value.to_owned(), plain: true }
    }

    /// Whom to blame.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Whether it is the environment variable `SWARMGATE_{variable}`.
    pub fn is(&self, variable: &str) -> bool {
        self.origin.strip_prefix(PREFIX) == Some(variable)
    }

    /// Numbers, booleans and lists as TOML writes them; anything else is text and needs no quotes.
    pub(super) fn value(&self) -> DeValue<'_> {
        if self.plain {
            return DeValue::String(self.value.as_str().into());
        }
        match DeValue::parse(&self.value).map(toml::Spanned::into_inner) {
            Ok(value) if value.is_integer() || value.is_bool() || value.is_array() => value,
            Ok(_) | Err(_) => DeValue::String(self.value.as_str().into()),
        }
    }
}

/// Without the value, which may be a secret.
impl fmt::Debug for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=***", self.origin)
    }
}

/// `log.level` → `LOG_LEVEL`.
pub(super) fn variable(key: &str) -> String {
    key.replace('.', "_").to_ascii_uppercase()
}

/// A warning for each override that no key asked for.
pub(super) fn unused(overrides: &[Override], used: &BTreeSet<String>) -> Vec<Problem> {
    let known: Vec<String> = keys::overridable().map(|path| format!("{PREFIX}{}", variable(&path))).collect();
    let unknown = overrides.iter().filter(|given| !used.contains(&given.variable));
    unknown
        .map(|given| {
            let fix = match value::nearest(&given.origin, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean {near}?"),
                None => "it changes nothing".to_owned(),
            };
            Place::Override(given.origin.clone()).problem("", "", Fault::new("sets no known key", fix))
        })
        .collect()
}
