//! What a visitor gets.

use serde_json::Value;

use super::account::Account;
use super::{TUNNEL, ingress, split_url};

/// Where a request from outside ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visit {
    /// The name does not resolve.
    Unresolved,
    /// The name leads to this, not to the tunnel.
    Elsewhere(String),
    /// Access asks for a login that these policies decide on, by their ids.
    Login(Vec<String>),
    /// The connector answers itself: by a status, or because it wants a login that nobody asked for.
    Refused,
    /// The service that the connector dials.
    Origin(String),
}

impl Account {
    /// Asks for `https://host/path`.
    pub fn visit(&self, url: &str) -> Visit {
        let (host, path) = split_url(url);
        let Some(record) = self.resolve(host) else { return Visit::Unresolved };
        let content = record["content"].as_str().unwrap_or_default();
        if content != format!("{TUNNEL}.cfargotunnel.com") || record["proxied"] != true {
            return Visit::Elsewhere(content.to_owned());
        }
        if let Some(policies) = self.login(host) {
            return Visit::Login(policies);
        }
        let config = self.config();
        let Some(rule) = ingress::route(&config, host, path) else { return Visit::Refused };
        let rule = &config["ingress"][rule];
        let service = rule["service"].as_str().unwrap_or_default();
        if service.starts_with("http_status:") || rule["originRequest"]["access"]["required"] == true {
            return Visit::Refused;
        }
        Visit::Origin(service.to_owned())
    }

    /// Those of the protected hostnames that are served to everybody.
    pub(super) fn unprotected(&self) -> Vec<&str> {
        let hosts = self.protected.iter().map(String::as_str);
        hosts.filter(|host| matches!(self.visit(host), Visit::Origin(_))).collect()
    }

    fn resolve(&self, host: &str) -> Option<&Value> {
        let wildcard = host.split_once('.').map(|(_, parent)| format!("*.{parent}")).unwrap_or_default();
        let records = |name: &str| self.records(name).into_iter().find(|record| record["type"] != "TXT");
        records(host).or_else(|| records(&wildcard))
    }

    /// The policies that stand before the host, unless one lets everybody through.
    fn login(&self, host: &str) -> Option<Vec<String>> {
        let covers = |domain: &str| {
            domain == host || domain.strip_prefix('*').is_some_and(|suffix| host.ends_with(suffix))
        };
        let app = self.apps.iter().find(|app| app["domain"].as_str().is_some_and(covers))?;
        let policies = app["policies"].as_array().into_iter().flatten();
        let (ids, decisions): (Vec<_>, Vec<_>) = policies
            .map(|policy| (policy["id"].as_str().unwrap_or_default().to_owned(), &policy["decision"]))
            .unzip();
        (!decisions.iter().any(|decision| **decision == "bypass")).then_some(ids)
    }
}
