//! What is read from Cloudflare, in the shapes of its API (v4), and the changes that are asked of it.
//!
//! The types are tolerant: of an answer only what is decided by is read. Whatever has to survive a change byte for
//! byte is kept as the text it came in; [`Configuration`] and [`App`] must therefore be read from JSON text
//! (`serde_json::from_str`, also inside of a generic envelope), never by way of a `serde_json::Value`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Everything that is decided by, read at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actual {
    pub configuration: Configuration,
    /// Those that the token sees.
    pub zones: Vec<Zone>,
    /// The records of the zones that matter, by the zone's id, or why they could not be read.
    pub records: BTreeMap<String, Result<Vec<Record>, String>>,
    /// Or why it could not be read: a token need not have that right while no service asks for Access.
    pub access: Result<Access, String>,
}

/// What Cloudflare Access has of an account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    pub apps: Vec<App>,
    /// The reusable ones.
    pub policies: Vec<Policy>,
    pub tags: Vec<Tag>,
}

/// What a [`Step`] is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Done,
    Configuration(Configuration),
    Record(Record),
    App(App),
}

impl Actual {
    /// As it is after `step`, which was answered so.
    pub fn absorb(&mut self, step: &Step, answer: Answer) {
        match step {
            Step::CreateTag { name } => {
                self.access_mut(|access| access.tags.push(Tag { name: name.clone() }))
            }
            Step::DeleteApp { id, .. } | Step::UpdateApp { id, .. } => {
                self.access_mut(|access| access.apps.retain(|app| app.id != *id));
            }
            Step::DeleteRecord { zone, id, .. } | Step::UpdateRecord { zone, id, .. } => {
                self.records_mut(zone, |records| records.retain(|record| record.id != *id));
            }
            Step::CreateApp { .. } | Step::PutConfiguration { .. } | Step::CreateRecord { .. } => {}
        }
        match (step, answer) {
            (_, Answer::Configuration(configuration)) => self.configuration = configuration,
            (_, Answer::App(app)) => self.access_mut(|access| access.apps.push(app)),
            (Step::CreateRecord { zone, .. } | Step::UpdateRecord { zone, .. }, Answer::Record(record)) => {
                self.records_mut(zone, |records| records.push(record));
            }
            (_, Answer::Record(_) | Answer::Done) => {}
        }
    }

    fn access_mut(&mut self, change: impl FnOnce(&mut Access)) {
        if let Ok(access) = &mut self.access {
            change(access);
        }
    }

    fn records_mut(&mut self, zone: &str, change: impl FnOnce(&mut Vec<Record>)) {
        if let Some(Ok(records)) = self.records.get_mut(zone) {
            change(records);
        }
    }
}

/// `GET /accounts/{account}/cfd_tunnel/{tunnel}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Tunnel {
    pub id: String,
    #[serde(default)]
    pub name: String,
    /// `cloudflare`: its configuration is kept there; `local`: in a file beside the connector, so that nothing
    /// written at Cloudflare has an effect. Older tunnels do not say.
    #[serde(default)]
    pub config_src: Option<String>,
    /// Set once the tunnel is deleted.
    #[serde(default)]
    pub deleted_at: Option<String>,
    /// `inactive`, `degraded`, `healthy` or `down`.
    #[serde(default)]
    pub status: Option<String>,
}

/// `GET` and `PUT /accounts/{account}/cfd_tunnel/{tunnel}/configurations`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Configuration {
    /// Raised by every `PUT`, whoever sends it.
    #[serde(default)]
    pub version: i64,
    /// The text of the value of `config`; `None` for a tunnel that was never configured.
    #[serde(default, deserialize_with = "raw")]
    pub config: Option<String>,
    /// As [`Tunnel::config_src`].
    #[serde(default)]
    pub source: Option<String>,
}

/// One of `GET /zones`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Zone {
    pub id: String,
    /// In lower case and punycode, without a dot at the end.
    pub name: String,
    /// `initializing`, `pending`, `active` or `moved`.
    #[serde(default)]
    pub status: Option<String>,
    #[serde(default)]
    pub paused: bool,
    /// `full`, `partial` (its DNS is elsewhere), `secondary` or `internal`.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
}

/// One of `GET /zones/{zone}/dns_records`; also the answer to a `POST` or `PUT`. The zone is not part of newer
/// answers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Record {
    pub id: String,
    /// The whole name, in punycode.
    pub name: String,
    /// `A`, `AAAA`, `CNAME`, …
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub content: String,
    #[serde(default)]
    pub proxied: bool,
    /// 1 is automatic.
    #[serde(default)]
    pub ttl: u32,
    #[serde(default)]
    pub comment: Option<String>,
}

/// One of `GET /accounts/{account}/access/apps`; also the answer to a `POST` or `PUT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    pub id: String,
    pub name: String,
    /// `self_hosted`, `saas`, …
    pub kind: String,
    /// The hostname it protects, perhaps with a path.
    pub domain: Option<String>,
    /// All it protects, if there is more: `destinations` of the kind `public`, or the older `self_hosted_domains`.
    pub domains: Vec<String>,
    /// It protects something that is no hostname, too.
    pub is_mixed: bool,
    /// By their precedence.
    pub policies: Vec<AppPolicy>,
    pub tags: Vec<String>,
    /// What a token for it is issued for; the connector can be told to ask for that.
    pub aud: Option<String>,
    /// All of it as it came, because a `PUT` resets what it leaves out.
    pub raw: String,
}

/// A policy as part of an application.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AppPolicy {
    pub id: String,
    #[serde(default)]
    pub precedence: Option<i64>,
    /// As [`Policy::decision`], if it says so.
    #[serde(default)]
    pub decision: Option<String>,
}

/// One of `GET /accounts/{account}/access/policies`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Policy {
    pub id: String,
    #[serde(default)]
    pub name: String,
    /// `allow`, `deny`, `non_identity` or `bypass`.
    #[serde(default)]
    pub decision: String,
}

/// One of `GET /accounts/{account}/access/tags`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Tag {
    pub name: String,
}

/// One change, which is one call. It has every value the call needs; whoever makes it decides nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `POST /accounts/{account}/access/tags`, before an application can have it.
    CreateTag { name: String },
    /// `POST /accounts/{account}/access/apps` with `body`, which is JSON; `policies` are their names, for people.
    CreateApp { host: String, body: String, policies: String },
    /// `PUT /accounts/{account}/access/apps/{id}` with `body`, which is JSON and all of the application.
    UpdateApp { host: String, id: String, body: String, policies: String },
    /// `DELETE /accounts/{account}/access/apps/{id}`. That it is gone already is success.
    DeleteApp { host: String, id: String },
    /// `PUT /accounts/{account}/cfd_tunnel/{tunnel}/configurations` with `{"config": config}`, where `config` is JSON
    /// to be sent as it is, byte for byte. Sent only if the version is still `version` when read right before.
    PutConfiguration { version: i64, config: String },
    /// `POST /zones/{zone}/dns_records`.
    CreateRecord { zone: String, record: NewRecord },
    /// `PUT /zones/{zone}/dns_records/{id}`.
    UpdateRecord { zone: String, id: String, record: NewRecord },
    /// `DELETE /zones/{zone}/dns_records/{id}`. That it is gone already is success.
    DeleteRecord { zone: String, id: String, name: String },
}

impl Step {
    /// The hostname that it is about, if it is about one.
    pub fn host(&self) -> Option<&str> {
        match self {
            Self::CreateApp { host, .. } | Self::UpdateApp { host, .. } | Self::DeleteApp { host, .. } => {
                Some(host)
            }
            Self::CreateRecord { record, .. } | Self::UpdateRecord { record, .. } => Some(&record.name),
            Self::DeleteRecord { name, .. } => Some(name),
            Self::CreateTag { .. } | Self::PutConfiguration { .. } => None,
        }
    }

    /// Whether nothing is left of what it is about.
    pub const fn removes(&self) -> bool {
        match self {
            Self::DeleteApp { .. } | Self::DeleteRecord { .. } => true,
            Self::CreateTag { .. }
            | Self::CreateApp { .. }
            | Self::UpdateApp { .. }
            | Self::PutConfiguration { .. }
            | Self::CreateRecord { .. }
            | Self::UpdateRecord { .. } => false,
        }
    }
}

/// A record as it is written: always a `CNAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRecord {
    /// The whole name, in punycode.
    pub name: String,
    pub content: String,
    pub proxied: bool,
    /// 1 is automatic.
    pub ttl: u32,
    /// At most 100 characters.
    pub comment: String,
}

fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let raw = Option::<Box<RawValue>>::deserialize(deserializer)?;
    Ok(raw.map(|raw| raw.get().to_owned()))
}

impl<'de> Deserialize<'de> for App {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let Fields { id, name, kind, domain, destinations, self_hosted_domains, policies, tags, aud } =
            serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        let destinations = destinations.unwrap_or_default();
        let is_mixed = destinations.iter().any(|to| !to.is_public());
        let public = destinations.into_iter().filter(Destination::is_public);
        let mut domains: Vec<String> = public.filter_map(|to| to.uri).collect();
        if domains.is_empty() {
            domains = self_hosted_domains.unwrap_or_default();
        }
        let policies = policies.unwrap_or_default().into_iter();
        let mut policies: Vec<AppPolicy> = policies.map(Linked::into_policy).collect();
        policies.sort_by_key(|policy| policy.precedence.unwrap_or(i64::MAX));
        let (name, tags) = (name.unwrap_or_default(), tags.unwrap_or_default());
        let raw = raw.get().to_owned();
        Ok(Self { id, name, kind, domain, domains, is_mixed, policies, tags, aud, raw })
    }
}

#[derive(Deserialize)]
struct Fields {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default, rename = "type")]
    kind: String,
    domain: Option<String>,
    destinations: Option<Vec<Destination>>,
    self_hosted_domains: Option<Vec<String>>,
    policies: Option<Vec<Linked>>,
    tags: Option<Vec<String>>,
    aud: Option<String>,
}

#[derive(Deserialize)]
struct Destination {
    #[serde(default, rename = "type")]
    kind: String,
    uri: Option<String>,
}

impl Destination {
    fn is_public(&self) -> bool {
        self.uri.is_some() && matches!(self.kind.as_str(), "" | "public")
    }
}

/// Answers have whole policies, but an id alone is a policy, too.
#[derive(Deserialize)]
#[serde(untagged)]
enum Linked {
    Id(String),
    Policy(AppPolicy),
}

impl Linked {
    fn into_policy(self) -> AppPolicy {
        match self {
            Self::Id(id) => AppPolicy { id, precedence: None, decision: None },
            Self::Policy(policy) => policy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Envelope<T> {
        result: T,
    }

    #[test]
    fn a_configuration_is_kept_as_the_text_it_came_in() {
        let config = r#"{ "z":1.0, "ingress":[{"service":"http_status:404" }],"a" : 1e5}"#;
        let text = format!(r#"{{"result":{{"version":3,"config":{config},"source":"cloudflare"}}}}"#);
        let read: Envelope<Configuration> = serde_json::from_str(&text).unwrap();
        assert_eq!((read.result.version, read.result.config.as_deref()), (3, Some(config)));
        for none in [r#"{"result":{"version":0,"config":null}}"#, r#"{"result":{}}"#] {
            let read: Envelope<Configuration> = serde_json::from_str(none).unwrap();
            assert_eq!((read.result.version, read.result.config), (0, None));
        }
    }

    #[test]
    fn an_application_is_read_and_kept() {
        let one = r#"{"id":"1","aud":"a","type":"self_hosted","domain":"b.example", "x":1.50,
            "destinations":[{"type":"public","uri":"b.example"},{"type":"private","cidr":"10.0.0.0/8"}],
            "policies":[{"id":"q","precedence":2,"reusable":true},{"id":"p","precedence":1},"r"]}"#;
        let text = format!(r#"{{"result":[{one}, {{"id":"2","self_hosted_domains":["c.example/x"]}}]}}"#);
        let read: Envelope<Vec<App>> = serde_json::from_str(&text).unwrap();
        let [first, second] = read.result.as_slice() else { panic!("{:?}", read.result) };
        assert_eq!((first.raw.as_str(), first.aud.as_deref()), (one, Some("a")));
        assert_eq!(first.domains, ["b.example"]);
        let policies: Vec<_> = first.policies.iter().map(|policy| policy.id.as_str()).collect();
        assert_eq!(policies, ["p", "q", "r"]);
        assert_eq!((second.kind.as_str(), second.domains.as_slice()), ("", &["c.example/x".to_owned()][..]));
    }
}
