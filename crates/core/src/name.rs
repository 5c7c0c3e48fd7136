//! Hostnames in their one normal form, the same for what people configure and what clients send.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The longest name DNS allows, in bytes, without the root dot.
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A hostname in normal form: lower case, punycode, no root dot, no SRV owner prefix. IP addresses are
/// kept in their canonical text, without brackets or zone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Arc<str>);

/// What a service asks to be reached by: a name, or `*.suffix` for everything below a suffix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPattern {
    Exact(HostName),
    /// `*.example.com`, held as `example.com`. Matches any depth below, not the suffix itself.
    Below(HostName),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the name is empty")]
    Empty,
    #[error("the name is {0} bytes long; DNS allows {LONGEST_NAME}")]
    TooLong(usize),
    #[error("the part '{0}' is longer than {LONGEST_LABEL} bytes, the most DNS allows between two dots")]
    LabelTooLong(String),
    #[error("there is an empty part between two dots")]
    EmptyLabel,
    #[error("{0:?} is not a character a hostname may have")]
    BadCharacter(char),
    #[error("the name is not valid Unicode for a hostname")]
    BadUnicode,
    #[error("a wildcard stands alone and first, as in '*.example.com'")]
    BadWildcard,
}

impl HostName {
    /// The normal form of a name as typed, configured or sent (the handshake's tails already cut).
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        if let Some(address) = ip_address(text) {
            return Ok(Self(address.to_string().into()));
        }
        let text = after_srv_owner(text);
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        // Bounded before the Unicode work, which costs time per character.
        if text.len() > 4 * LONGEST_NAME {
            return Err(NameError::TooLong(text.len()));
        }
        let name = if text.is_ascii() {
            text.to_ascii_lowercase()
        } else {
            idna::domain_to_ascii(text).map_err(|_| NameError::BadUnicode)?
        };
        check(name.strip_suffix('.').unwrap_or(&name)).map(|name| Self(name.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names above this one, nearest first: `a.b.c` gives `b.c`, then `c`.
    pub fn above(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(self.0.split_once('.').map(|(_, rest)| rest), |name| {
            name.split_once('.').map(|(_, rest)| rest)
        })
    }
}

impl Borrow<str> for HostName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HostPattern {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        match text.strip_prefix("*.") {
            Some(suffix) => without_wildcard(suffix).map(Self::Below),
            None => without_wildcard(text).map(Self::Exact),
        }
    }

    pub fn matches(&self, name: &HostName) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Below(suffix) => name.above().any(|above| above == suffix.as_str()),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(f),
            Self::Below(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

fn without_wildcard(text: &str) -> Result<HostName, NameError> {
    if text.contains('*') { Err(NameError::BadWildcard) } else { HostName::parse(text) }
}

/// An IP address as typed: with or without brackets and zone.
fn ip_address(text: &str) -> Option<std::net::IpAddr> {
    let text = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(text);
    let text = text.split_once('%').map_or(text, |(address, _)| address);
    text.parse().ok()
}

/// `_minecraft._tcp.play.example.com` → `play.example.com`: some clients send the SRV record's owner name.
fn after_srv_owner(text: &str) -> &str {
    let lower = text.to_ascii_lowercase();
    match lower.find("._tcp.") {
        Some(at) if lower.starts_with('_') => text.get(at + "._tcp.".len()..).unwrap_or(text),
        Some(_) | None => text,
    }
}

fn check(name: &str) -> Result<&str, NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > LONGEST_NAME {
        return Err(NameError::TooLong(name.len()));
    }
    if let Some(bad) = name.chars().find(|&c| !(c.is_ascii_alphanumeric() || "-_.".contains(c))) {
        return Err(NameError::BadCharacter(bad));
    }
    for label in name.split('.') {
        if label.is_empty() {
            return Err(NameError::EmptyLabel);
        }
        if label.len() > LONGEST_LABEL {
            return Err(NameError::LabelTooLong(label.to_owned()));
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_normal_form() {
        for (typed, normal) in [
            ("mc.example.com", "mc.example.com"),
            ("MC.Example.COM", "mc.example.com"),
            ("mc.example.com.", "mc.example.com"),
            ("_minecraft._tcp.play.example.com", "play.example.com"),
            ("_Minecraft._TCP.play.example.com.", "play.example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example.", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("my_server.example.com", "my_server.example.com"),
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:DB8::1]", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(HostName::parse(typed).unwrap().as_str(), normal, "{typed}");
        }
    }

    #[test]
    fn what_is_not_a_name_says_why() {
        let long = "a".repeat(64);
        for (typed, why) in [
            ("", NameError::Empty),
            (".", NameError::Empty),
            ("a..b", NameError::EmptyLabel),
            ("a b", NameError::BadCharacter(' ')),
            ("a\u{1b}[31m.example", NameError::BadCharacter('\u{1b}')),
            (long.as_str(), NameError::LabelTooLong(long.clone())),
        ] {
            assert_eq!(HostName::parse(typed), Err(why), "{typed:?}");
        }
        let too_long = vec!["abcdefgh"; 30].join(".");
        assert_eq!(HostName::parse(&too_long), Err(NameError::TooLong(too_long.len())));
    }

    #[test]
    fn wildcards() {
        assert_eq!(HostPattern::parse("*.Example.com.").unwrap().to_string(), "*.example.com");
        for bad in ["*", "a.*.example.com", "*.*.example.com", "*example.com"] {
            assert_eq!(HostPattern::parse(bad), Err(NameError::BadWildcard), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn normal_form_is_a_fixed_point(text in "\\PC{0,80}") {
            if let Ok(name) = HostName::parse(&text) {
                prop_assert_eq!(HostName::parse(name.as_str()), Ok(name.clone()));
            }
        }
    }
}
