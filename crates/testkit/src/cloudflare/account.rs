//! All that an account has, and what it says to a request.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::call::{Call, PathParams};
use super::dns::Zone;
use super::foreign::Foreign;
use super::normal::normalised;
use super::reply::Reply;
use super::{ACCOUNT, EMAIL, KEY, TOKEN, TUNNEL, ingress, raw, shapes};
use crate::http::Request;

/// The state of the fake. Tests read and change it as the dashboard would.
#[derive(Debug)]
pub struct Account {
    pub tunnel: Tunnel,
    pub zones: Vec<Zone>,
    /// As they are listed.
    pub apps: Vec<Value>,
    /// Reusable ones, as they are listed.
    pub policies: Vec<Value>,
    pub tags: BTreeSet<String>,
    /// `active`, `disabled` or `expired`.
    pub token_status: &'static str,
    /// The token is one of the account's own, which only the account's address verifies.
    pub account_token: bool,
    /// Calls for which the token lacks the permission.
    pub forbidden: BTreeSet<Call>,
    /// Hostnames that must never be served without a login: when one is, that is a complaint.
    pub protected: BTreeSet<String>,
    /// Clients may change what the dashboard made: they adopt it, or have the tunnel to themselves. If not, that is a
    /// complaint.
    pub yields: bool,
    /// A configuration is given back in words of the API's own.
    pub normalises: bool,
    /// A configuration that is written counts as a version, and is not kept.
    pub forgets: bool,
    /// So often yet somebody writes the configuration after a client has read it, as it is.
    pub rival_after_reads: u32,
    /// The same right before a client's write.
    pub rival_before_writes: u32,
    pub(super) foreign: Foreign,
    pub(super) made: u64,
}

/// The one tunnel.
#[derive(Debug)]
pub struct Tunnel {
    /// `cloudflare`, or `local` if the connector reads a file of its own.
    pub config_src: &'static str,
    pub status: &'static str,
    pub deleted_at: Option<String>,
    pub version: u64,
    /// The text of its configuration. None has been written to a new tunnel.
    pub config: Option<String>,
}

impl Default for Account {
    fn default() -> Self {
        let tunnel = Tunnel {
            config_src: "cloudflare",
            status: "healthy",
            deleted_at: None,
            version: 0,
            config: None,
        };
        Self {
            tunnel,
            zones: Vec::new(),
            apps: Vec::new(),
            policies: Vec::new(),
            tags: BTreeSet::new(),
            token_status: "active",
            account_token: false,
            forbidden: BTreeSet::new(),
            protected: BTreeSet::new(),
            yields: false,
            normalises: false,
            forgets: false,
            rival_after_reads: 0,
            rival_before_writes: 0,
            foreign: Foreign::default(),
            made: 0,
        }
    }
}

impl Account {
    /// Somebody writes the tunnel's configuration in the dashboard.
    ///
    /// # Panics
    /// When no connector would take it.
    pub fn configure(&mut self, config: &str) {
        let value: Value = serde_json::from_str(config).expect("a configuration is JSON");
        ingress::validate(&value).expect("a valid configuration");
        self.tunnel.config = Some(self.kept(config, &value));
        self.tunnel.version += 1;
    }

    /// What the API makes of the text of a configuration.
    fn kept(&self, text: &str, value: &Value) -> String {
        if self.normalises { normalised(value) } else { text.to_owned() }
    }

    /// The texts of the ingress rules, in order.
    pub fn rules(&self) -> Vec<String> {
        let config = raw::object(self.tunnel.config.as_deref().unwrap_or_default());
        let rules = config.get("ingress").map(|rules| raw::list(rules.get())).unwrap_or_default();
        rules.into_iter().map(|rule| rule.get().to_owned()).collect()
    }

    /// The texts of all else in the configuration, by key.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let config = raw::object(self.tunnel.config.as_deref().unwrap_or_default());
        let others = config.into_iter().filter(|(key, _)| key != "ingress");
        others.map(|(key, value)| (key, value.get().to_owned())).collect()
    }

    /// The configuration as a value; its order of keys and its spelling are in [`Tunnel::config`].
    pub fn config(&self) -> Value {
        self.tunnel
            .config
            .as_deref()
            .map_or(Value::Null, |text| serde_json::from_str(text).expect("it is JSON"))
    }

    /// What is wrong with the request beside what it gets to hear.
    pub(super) fn faults(&self, call: Call, params: &PathParams, request: &Request) -> Vec<String> {
        let stored = match call {
            Call::WriteConfig => self.tunnel.config.clone(),
            Call::ReplaceApp => self.app(param(params, "app_id")).map(Value::to_string),
            _ => None,
        };
        let mut faults = shapes::faults(call, params, request, stored.as_deref());
        faults.extend(self.trespasses(call, params, request));
        faults
    }

    pub(super) fn answer(&mut self, call: Call, params: &PathParams, request: &Request) -> Reply {
        if let Err(reply) = self.authenticate(call, request) {
            return reply;
        }
        if let Some(reply) = wrong_place(params) {
            return reply;
        }
        let body = serde_json::from_str(&request.body).unwrap_or(Value::Null);
        let id = |name| param(params, name);
        match call {
            Call::VerifyUserToken | Call::VerifyAccountToken => self.verify(call),
            Call::ReadTunnel => Reply::ok(&self.tunnel.show()),
            Call::ReadConfig => self.read_config(),
            Call::WriteConfig => self.write_config(&request.body, &body),
            Call::ListZones => self.list_zones(request),
            Call::ListRecords
            | Call::CreateRecord
            | Call::EditRecord
            | Call::ReplaceRecord
            | Call::DeleteRecord => {
                self.made += 1;
                let made = self.made;
                let Some(zone) = self.zones.iter_mut().find(|zone| zone.id == id("zone_id")) else {
                    return Reply::error(403, 10000, "Authentication error");
                };
                match call {
                    Call::CreateRecord => zone.create(body, made),
                    Call::EditRecord => zone.edit(id("record_id"), &body, true),
                    Call::ReplaceRecord => zone.edit(id("record_id"), &body, false),
                    Call::DeleteRecord => zone.delete(id("record_id")),
                    _ => zone.list(request),
                }
            }
            Call::ListApps => self.list_apps(request),
            Call::CreateApp => self.create_app(&body),
            Call::ReadApp => self.read_app(id("app_id")),
            Call::ReplaceApp => self.replace_app(id("app_id"), &body),
            Call::DeleteApp => self.delete_app(id("app_id")),
            Call::ListTags => self.list_tags(request),
            Call::CreateTag => self.create_tag(&body),
            Call::ListPolicies => Reply::page(&self.policies.iter().collect::<Vec<_>>(), request, 100),
            Call::ReadPolicy => self.read_policy(id("policy_id")),
        }
    }

    fn authenticate(&self, call: Call, request: &Request) -> Result<(), Reply> {
        let malformed =
            |code, message| Err(Reply::chain(400, (6003, "Invalid request headers"), (code, message)));
        let token = request.header("authorization");
        let known = match (token, request.header("x-auth-email"), request.header("x-auth-key")) {
            (Some(token), _, _) => match token.strip_prefix("Bearer ") {
                Some(token) if token.len() == TOKEN.len() => token == TOKEN,
                _ => return malformed(6111, "Invalid format for Authorization header"),
            },
            (None, Some(email), Some(key)) => match key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                true => email == EMAIL && key == KEY,
                false => return malformed(6103, "Invalid format for X-Auth-Key header"),
            },
            (None, _, _) => {
                return Err(Reply::error(
                    400,
                    9106,
                    "Missing X-Auth-Key, X-Auth-Email or Authorization headers",
                ));
            }
        };
        let verifies = matches!(call, Call::VerifyUserToken | Call::VerifyAccountToken);
        if !known {
            return Err(match verifies {
                true => Reply::error(401, 1000, "Invalid API Token"),
                false => Reply::error(403, 9109, "Unauthorized to access requested resource"),
            });
        }
        if self.forbidden.contains(&call) || (self.token_status != "active" && !verifies) {
            return Err(Reply::error(403, 10000, "Authentication error"));
        }
        Ok(())
    }

    fn verify(&self, call: Call) -> Reply {
        if self.account_token != (call == Call::VerifyAccountToken) {
            return Reply::error(401, 1000, "Invalid API Token");
        }
        Reply::ok(&json!({"id": "ed17574386854bf78a67040be0a770b0", "status": self.token_status}))
    }

    fn write_config(&mut self, text: &str, body: &Value) -> Reply {
        if let Err(why) = ingress::validate(&body["config"]) {
            return Reply::error(400, 1056, &format!("Bad Configuration: Validation failed: {why}"));
        }
        if self.forgets {
            self.tunnel.version += 1;
            return self.tunnel.show_config();
        }
        let before = self.tunnel.config.take().unwrap_or_default();
        let after = raw::object(text).get("config").map(|config| config.get().to_owned());
        self.foreign.wrote(&before, after.as_deref().unwrap_or_default());
        self.tunnel.config = after.map(|after| self.kept(&after, &body["config"]));
        let rival = u64::from(self.rival_before_writes > 0);
        self.rival_before_writes = self.rival_before_writes.saturating_sub(1);
        self.tunnel.version += 1 + rival;
        self.tunnel.show_config()
    }

    fn read_config(&mut self) -> Reply {
        let shown = self.tunnel.show_config();
        if self.rival_after_reads > 0 {
            self.rival_after_reads -= 1;
            self.tunnel.version += 1;
        }
        shown
    }
}

impl Tunnel {
    fn show(&self) -> Value {
        json!({
            "id": TUNNEL, "account_tag": ACCOUNT, "name": "edge", "created_at": "2026-01-01T00:00:00Z",
            "deleted_at": self.deleted_at, "config_src": self.config_src, "remote_config": self.config_src == "cloudflare",
            "status": self.status, "tun_type": "cfd_tunnel", "connections": [], "conns_active_at": null,
            "conns_inactive_at": null, "metadata": {},
        })
    }

    fn show_config(&self) -> Reply {
        let (version, source) = (self.version, self.config_src);
        let config = self.config.as_deref().unwrap_or("null");
        let result = format!(
            r#"{{"tunnel_id":"{TUNNEL}","version":{version},"config":{config},"source":"{source}","created_at":"2026-01-01T00:00:00Z","account_id":"{ACCOUNT}"}}"#
        );
        Reply::raw(200, &result)
    }
}

/// An identifier that is none, or that is somebody else's.
fn wrong_place(params: &PathParams) -> Option<Reply> {
    for (name, value) in params {
        let is_id = value.len() >= 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_id {
            let message = format!("Could not route to {value}, perhaps your object identifier is invalid?");
            return Some(Reply::chain(400, (7003, &message), (7000, "No route for that URI")));
        }
        match *name {
            "account_id" if value != ACCOUNT => {
                return Some(Reply::error(403, 10000, "Authentication error"));
            }
            "tunnel_id" if value != TUNNEL => return Some(Reply::error(404, 1003, "Tunnel not found")),
            _ => {}
        }
    }
    None
}

pub(super) fn param<'a>(params: &'a PathParams, name: &str) -> &'a str {
    params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value.as_str())
}
