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
        if !leads_here(record) {
            return Visit::Elsewhere(record["content"].as_str().unwrap_or_default().to_owned());
        }
        if let Some(policies) = self.login(host, path) {
            return Visit::Login(policies);
        }
        let config = self.config();
        let Some(rule) = ingress::route(&config, host, path) else { return Visit::Refused };
        let rule = &config["ingress"][rule];
        if answers_itself(rule) {
            return Visit::Refused;
        }
        Visit::Origin(rule["service"].as_str().unwrap_or_default().to_owned())
    }

    /// Those of the protected hostnames of which something is served to everybody, at whatever path.
    pub(super) fn unprotected(&self) -> Vec<&str> {
        let hosts = self.protected.iter().map(String::as_str);
        hosts.filter(|host| self.is_open(host)).collect()
    }

    /// Some path of it leads to a service, and no application stands before all of them.
    fn is_open(&self, host: &str) -> bool {
        let config = self.config();
        let rules = config["ingress"].as_array().into_iter().flatten();
        let mut served = rules.filter(|rule| ingress::is_for(rule, host) && !answers_itself(rule));
        self.resolve(host).is_some_and(leads_here)
            && served.next().is_some()
            && self.login(host, "").is_none()
    }

    fn resolve(&self, host: &str) -> Option<&Value> {
        let wildcard = host.split_once('.').map(|(_, parent)| format!("*.{parent}")).unwrap_or_default();
        let records = |name: &str| self.records(name).into_iter().find(|record| record["type"] != "TXT");
        records(host).or_else(|| records(&wildcard))
    }

    /// The policies of the application that is the most particular one for it, unless one lets everybody through. An
    /// empty path asks for those that stand before all of them.
    fn login(&self, host: &str, path: &str) -> Option<Vec<String>> {
        let place = |domain: &str| place(domain, host, path);
        let of_app = |app: &&Value| domains(app).into_iter().filter_map(place).max();
        let apps = self.apps.iter().filter_map(|app| Some((of_app(&app)?, app)));
        let (_, app) = apps.max_by_key(|(place, _)| *place)?;
        let policies = app["policies"].as_array().into_iter().flatten();
        let (ids, decisions): (Vec<_>, Vec<_>) = policies
            .map(|policy| (policy["id"].as_str().unwrap_or_default().to_owned(), &policy["decision"]))
            .unzip();
        (!decisions.iter().any(|decision| **decision == "bypass")).then_some(ids)
    }
}

fn leads_here(record: &Value) -> bool {
    record["content"] == format!("{TUNNEL}.cfargotunnel.com") && record["proxied"] == true
}

fn answers_itself(rule: &Value) -> bool {
    let status = rule["service"].as_str().unwrap_or_default().starts_with("http_status:");
    status || rule["originRequest"]["access"]["required"] == true
}

/// All that an application is for.
fn domains(app: &Value) -> Vec<&str> {
    let public = |to: &&Value| to["type"] == "public";
    let destinations = app["destinations"].as_array().into_iter().flatten().filter(public);
    let older = app["self_hosted_domains"].as_array().into_iter().flatten();
    let all = [&app["domain"]].into_iter().chain(destinations.map(|to| &to["uri"])).chain(older);
    all.filter_map(Value::as_str).collect()
}

/// How particular `domain`, perhaps with a path, is about this host and path; `None` if it is not for it.
fn place(domain: &str, host: &str, path: &str) -> Option<(bool, usize, usize)> {
    let (name, below) =
        domain.trim_end_matches('/').split_once('/').unwrap_or((domain.trim_end_matches('/'), ""));
    let is_exact = name == host;
    let is_wildcard = name.strip_prefix('*').is_some_and(|suffix| host.ends_with(suffix));
    let rest = path.trim_start_matches('/').strip_prefix(below)?;
    let is_below = below.is_empty() || rest.is_empty() || rest.starts_with('/');
    ((is_exact || is_wildcard) && is_below).then_some((is_exact, name.len(), below.len()))
}
