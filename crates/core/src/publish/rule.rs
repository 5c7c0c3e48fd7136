//! One rule of a tunnel's configuration: what it matches, what it covers, and how it is written.
//!
//! A connector takes the first rule that matches. A hostname is exact or `*.` with everything below a name, at any
//! depth, the name itself left out; a path is a regular expression that may match anywhere in the path, and every
//! path begins with `/`. (From the behaviour of cloudflared 2026.8.)

mod path;

use std::cmp::Reverse;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

pub use self::path::{PathError, check_path, is_every};
use super::{Origin, Target};
use crate::name::{HostName, HostPattern};

/// What names a rule of ours. Displayed as `app.example.com/api`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub host: HostPattern,
    pub path: Option<String>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.host)?;
        self.path.iter().try_for_each(|path| write!(f, " path {path}"))
    }
}

impl Key {
    /// The total order of our rules: no rule covers a later one.
    pub fn rank(&self) -> impl Ord + use<> {
        let (wildcard, name) = match &self.host {
            HostPattern::Exact(name) => (None, name),
            HostPattern::Below(name) => (Some(Reverse(name.as_str().split('.').count())), name),
        };
        let path = self.path.clone().filter(|path| !is_every(path)).unwrap_or_default();
        (wildcard, name.clone(), Reverse(path::beginning(&path).len()), Reverse(path.len()), path)
    }

    pub fn matcher(&self) -> Matcher {
        let hosts = match &self.host {
            HostPattern::Exact(name) => Hosts::Exact(name.clone()),
            HostPattern::Below(name) => Hosts::Below(name.clone()),
        };
        Matcher { hosts, paths: Paths::of(self.path.as_deref()) }
    }
}

/// A rule as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub key: Key,
    /// `http://web:80`
    pub service: String,
    pub origin: Map<String, Value>,
}

impl Rule {
    pub fn new(key: Key, scheme: &str, target: &Target, origin: &Origin) -> Self {
        let origin = origin.0.iter().map(|(&option, value)| (option.to_owned(), value.clone())).collect();
        Self { key, service: format!("{scheme}://{target}"), origin }
    }

    /// The connector is to refuse requests that have no token for the application `aud` of `team`.
    pub fn require_token(&mut self, team: &str, aud: &str) {
        let access = json!({"required": true, "teamName": team, "audTag": [aud]});
        self.origin.insert("access".to_owned(), access);
    }

    /// As JSON.
    pub fn text(&self) -> String {
        let mut rule = Map::new();
        rule.insert("hostname".to_owned(), self.key.host.to_string().into());
        if let Some(path) = &self.key.path {
            rule.insert("path".to_owned(), path.as_str().into());
        }
        rule.insert("service".to_owned(), self.service.as_str().into());
        if !self.origin.is_empty() {
            rule.insert("originRequest".to_owned(), Value::Object(self.origin.clone()));
        }
        Value::Object(rule).to_string()
    }
}

/// A rule as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Byte for byte.
    pub text: String,
    /// `None` if it is for no one hostname.
    pub key: Option<Key>,
    pub matcher: Matcher,
    pub service: String,
    origin: Map<String, Value>,
}

impl Written {
    pub fn read(raw: &RawValue) -> Self {
        let Fields { hostname, path, service, origin } = serde_json::from_str(raw.get()).unwrap_or_default();
        let hosts = Hosts::of(hostname.as_deref().unwrap_or_default());
        let path = path.filter(|path| !path.is_empty());
        let host = match &hosts {
            Hosts::Exact(name) => Some(HostPattern::Exact(name.clone())),
            Hosts::Below(name) => Some(HostPattern::Below(name.clone())),
            Hosts::All | Hosts::None => None,
        };
        Self {
            text: raw.get().to_owned(),
            matcher: Matcher { hosts, paths: Paths::of(path.as_deref()) },
            key: host.map(|host| Key { host, path }),
            service: service.unwrap_or_default(),
            origin: origin.unwrap_or_default(),
        }
    }

    /// The last rule of a configuration must be such a one, and no other may.
    pub fn is_catch_all(&self) -> bool {
        self.matcher.hosts == Hosts::All && self.matcher.paths == Paths::All
    }

    /// Whether it does what the rule with this text does.
    pub fn says(&self, text: &str) -> bool {
        let other: Result<&RawValue, _> = serde_json::from_str(text);
        other.is_ok_and(|other| {
            let Self { key, service, origin, .. } = Self::read(other);
            key.is_some_and(|key| self.does(&Rule { key, service, origin }))
        })
    }

    /// Whether it does what `rule` asks for. What it says beside that in words that are not known does not count,
    /// nor what says nothing.
    pub fn does(&self, rule: &Rule) -> bool {
        let asked = |key: &String| rule.origin.contains_key(key) || !KNOWN.contains(&key.as_str());
        self.key.as_ref() == Some(&rule.key)
            && self.service == rule.service
            && rule.origin.iter().all(|(option, value)| self.origin.get(option) == Some(value))
            && self.origin.iter().all(|(option, value)| asked(option) || is_nothing(value))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    hostname: Option<String>,
    path: Option<String>,
    service: Option<String>,
    #[serde(rename = "originRequest")]
    origin: Option<Map<String, Value>>,
}

/// The options that a rule of ours can have.
const KNOWN: [&str; 15] = [
    "access",
    "caPool",
    "connectTimeout",
    "disableChunkedEncoding",
    "http2Origin",
    "httpHostHeader",
    "keepAliveConnections",
    "keepAliveTimeout",
    "matchSNItoHost",
    "noHappyEyeballs",
    "noTLSVerify",
    "originServerName",
    "proxyType",
    "tcpKeepAlive",
    "tlsTimeout",
];

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_nothing),
    }
}

/// Which requests a rule takes, as far as that can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    pub hosts: Hosts,
    paths: Paths,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hosts {
    All,
    Exact(HostName),
    Below(HostName),
    /// Written so that it matches nothing.
    None,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Paths {
    All,
    /// Has these characters in it.
    With(String),
    /// Begins with these.
    From(String),
    /// Matches what is not understood any further.
    Like(String),
}

impl Matcher {
    /// Whether everything that `other` matches is surely matched by this, too.
    pub fn covers(&self, other: &Self) -> bool {
        self.hosts.cover(&other.hosts) && self.paths.cover(&other.paths)
    }

    /// Whether this may match any of what `other` matches, since its path is not understood.
    pub fn is_unclear_about(&self, other: &Self) -> bool {
        let is_unclear = matches!(self.paths, Paths::Like(_)) && !self.paths.cover(&other.paths);
        self.hosts.cover(&other.hosts) && is_unclear
    }
}

impl Hosts {
    fn of(text: &str) -> Self {
        // A dot at the end, and what the gate's own hostnames are cut by, match nothing a browser sends.
        if text.ends_with('.') || text.to_ascii_lowercase().contains("._tcp.") {
            return Self::None;
        }
        match (text, HostPattern::parse(text)) {
            ("" | "*", _) => Self::All,
            (_, Ok(HostPattern::Exact(name))) => Self::Exact(name),
            (_, Ok(HostPattern::Below(name))) => Self::Below(name),
            (_, Err(_)) => Self::None,
        }
    }

    fn cover(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, _) | (_, Self::None) | (Self::Exact(_) | Self::Below(_), Self::All) => false,
            (Self::All, _) => true,
            (Self::Exact(one), Self::Exact(name)) => one == name,
            (Self::Exact(_), Self::Below(_)) => false,
            (Self::Below(all), Self::Exact(name)) => name.above().any(|above| above == all.as_str()),
            (Self::Below(all), Self::Below(name)) => {
                all == name || name.above().any(|above| above == all.as_str())
            }
        }
    }
}

impl Paths {
    fn of(path: Option<&str>) -> Self {
        const META: &str = r"\.+*?()|[]{}^$";
        let is_literal = |text: &str| !text.contains(|c| META.contains(c));
        match path {
            None => Self::All,
            Some(path) if path::is_every(path) => Self::All,
            Some(path) if is_literal(path) => Self::With(path.to_owned()),
            Some(path) => match path.strip_prefix('^').filter(|rest| is_literal(rest)) {
                Some(rest) => Self::From(rest.to_owned()),
                None => Self::Like(path.to_owned()),
            },
        }
    }

    fn cover(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::With(part), Self::With(whole) | Self::From(whole)) => whole.contains(part),
            (Self::From(start), Self::From(whole)) => whole.starts_with(start),
            (Self::Like(one), Self::Like(other)) => one == other,
            (Self::With(_), Self::All | Self::Like(_))
            | (Self::From(_), Self::All | Self::With(_) | Self::Like(_))
            | (Self::Like(_), Self::All | Self::With(_) | Self::From(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn key(host: &str, path: &str) -> Key {
        let path = (!path.is_empty()).then(|| path.to_owned());
        Key { host: HostPattern::parse(host).unwrap(), path }
    }

    fn written(text: &str) -> Written {
        Written::read(serde_json::from_str(text).unwrap())
    }

    fn rule(origin: Value) -> Rule {
        let Value::Object(origin) = origin else { panic!("{origin}") };
        Rule { key: key("a.example", "^/x"), service: "http://web:80".to_owned(), origin }
    }

    #[test]
    fn one_rule_covers_another() {
        for (one, other, covers) in [
            (("*.example", ""), ("a.example", ""), true),
            (("*.example", ""), ("b.a.example", "^/x"), true),
            (("*.example", ""), ("*.a.example", ""), true),
            (("*.a.example", ""), ("*.example", ""), false),
            (("*.a.example", ""), ("a.example", ""), false),
            (("a.example", ""), ("a.example", "/x"), true),
            (("a.example", "/x"), ("a.example", ""), false),
            (("a.example", "/a"), ("a.example", "/a/b"), true),
            (("a.example", "/b"), ("a.example", "^/a/b"), true),
            (("a.example", "^/b"), ("a.example", "/a/b"), false),
            (("a.example", "^/a"), ("a.example", "^/a/b"), true),
            (("a.example", "/"), ("a.example", "^/b"), true),
            (("a.example", "^/"), ("a.example", "(x|y)"), true),
            (("a.example", "(x|y)"), ("a.example", "(x|y)"), true),
            (("a.example", "(x|y)"), ("a.example", "(y|x)"), false),
            (("a.example", ""), ("b.example", ""), false),
        ] {
            let matcher = |(host, path)| key(host, path).matcher();
            assert_eq!(matcher(one).covers(&matcher(other)), covers, "{one:?} {other:?}");
            if covers && one != other {
                assert!(key(other.0, other.1).rank() < key(one.0, one.1).rank(), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_longer_beginning_goes_first() {
        for [first, second] in [
            ["^/api/v1", "^/api(/|$)"],
            ["^/api(/|$)", "^/a"],
            ["^/api(/|$)", ""],
            ["(x|y)", ""],
            ["^/ab", "^/ab?"],
            ["/long", "^/a|/very/long"],
        ] {
            assert!(key("a.example", first).rank() < key("a.example", second).rank(), "{first} {second}");
        }
    }

    #[test]
    fn what_never_matches_covers_nothing() {
        for host in ["a.example.", "a.example,b.example", "*a.example", ".example", "a b.example"] {
            let odd = written(&format!(r#"{{"hostname":"{host}","service":"http://w:1"}}"#));
            assert_eq!((odd.matcher.hosts.clone(), odd.key.as_ref()), (Hosts::None, None), "{host}");
            assert!(!odd.matcher.covers(&key("a.example", "").matcher()));
            assert!(!written(r#"{"service":"x"}"#).matcher.covers(&odd.matcher));
        }
        assert_eq!(written(r#"{"hostname":"A.Example"}"#).key, Some(key("a.example", "")));
        assert_eq!(written("3").key, None);
    }

    #[test]
    fn the_catch_all() {
        for (text, is) in [
            (r#"{"service":"http_status:404"}"#, true),
            (r#"{"hostname":"","service":"http_status:404"}"#, true),
            (r#"{"hostname":"*","path":"","service":"http_status:404"}"#, true),
            (r#"{"hostname":"*","path":"/x","service":"http_status:404"}"#, false),
            (r#"{"hostname":"a.example","service":"http_status:404"}"#, false),
        ] {
            assert_eq!(written(text).is_catch_all(), is, "{text}");
        }
    }

    #[test]
    fn a_rule_that_does_the_same_is_the_same() {
        let asked = rule(json!({"noTLSVerify": true}));
        assert!(written(&asked.text()).does(&asked));
        for (text, does) in [
            (
                r#"{"service":"http://web:80","path":"^/x","hostname":"A.example","originRequest":{"noTLSVerify":true}}"#,
                true,
            ),
            (
                r#"{"hostname":"a.example","path":"^/x","service":"http://web:80","id":"7",
                 "originRequest":{"noTLSVerify":true,"http2Origin":false,"proxyType":"","access":{"required":false},"new":9}}"#,
                true,
            ),
            (
                r#"{"hostname":"a.example","path":"^/x","service":"http://web:80","originRequest":{"noTLSVerify":true,"http2Origin":true}}"#,
                false,
            ),
            (
                r#"{"hostname":"a.example","path":"^/x","service":"http://web:80","originRequest":null}"#,
                false,
            ),
            (
                r#"{"hostname":"a.example","path":"^/x","service":"http://web:81","originRequest":{"noTLSVerify":true}}"#,
                false,
            ),
            (
                r#"{"hostname":"a.example","service":"http://web:80","originRequest":{"noTLSVerify":true}}"#,
                false,
            ),
        ] {
            assert_eq!(written(text).does(&asked), does, "{text}");
        }
    }
}
