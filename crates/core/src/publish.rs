//! What of the labelled services is to be reachable through a Cloudflare Tunnel, and the ordered changes that make it
//! so.
//!
//! [`Wanted`](wanted::Wanted) is what services ask for, [`Actual`](actual::Actual) what was read from Cloudflare,
//! [`Memory`](memory::Memory) what the gate knows of its own earlier changes. [`Plan`](plan::Plan) is made of the
//! three, and of nothing else.

pub mod actual;
pub mod ingress;
pub mod marks;
pub mod memory;
pub mod plan;
pub mod rule;
pub mod wanted;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::name::{HostName, HostPattern};
use crate::service::ServiceId;

/// One service with something to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    pub service: ServiceId,
    pub publications: Vec<Publication>,
    /// It may ask for hostnames that are not understood, and so are in none of them.
    pub unclear: bool,
    /// What is wrong with it, each a sentence with the name of the label and the fix.
    pub problems: Vec<String>,
}

impl Published {
    /// Because of something that may be meant for any hostname of it, and for others.
    pub fn hold(&mut self, why: &str) {
        self.unclear = true;
        for publication in &mut self.publications {
            publication.held.get_or_insert_with(|| why.to_owned());
        }
    }
}

/// Hostnames of a service that lead to one of its ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    pub hosts: Vec<HostPattern>,
    /// Where the connector finds the service; `None` if that is not understood.
    pub target: Option<Target>,
    pub settings: Settings,
    /// What it asks for is not understood: nothing is changed about its hostnames until it is mended. In one
    /// sentence.
    pub held: Option<String>,
}

/// Where the connector finds a service. Displayed as `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A name that resolves where the connector runs, or an IP address.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.host.contains(':');
        let (open, close) = if brackets { ("[", "]") } else { ("", "") };
        write!(f, "{open}{}{close}:{}", self.host, self.port)
    }
}

/// How hostnames are published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How the connector speaks to the service: `http`, `https`, `tcp`, …
    pub scheme: &'static str,
    /// A regular expression; `None` for every path.
    pub path: Option<String>,
    /// Policies of Access by id or name, in order. None: anyone may come.
    pub access: Vec<String>,
    /// Whether there is to be a DNS record.
    pub dns: bool,
    /// The zone of that record; `None`: the one with the longest name that fits.
    pub zone: Option<HostName>,
    /// Whether what somebody else made for the hostname is taken over.
    pub adopt: bool,
    /// Whether the DNS record goes with the service, or stays behind.
    pub delete_dns: bool,
    /// `originRequest` of the rule.
    pub origin: Origin,
}

/// Options of the connector for one rule, by their names in the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin(pub BTreeMap<&'static str, Value>);

impl Default for Settings {
    fn default() -> Self {
        Self {
            scheme: "http",
            path: None,
            access: Vec::new(),
            dns: true,
            zone: None,
            adopt: false,
            delete_dns: false,
            origin: Origin::default(),
        }
    }
}
