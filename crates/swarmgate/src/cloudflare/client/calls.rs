//! The calls, one function each. That something to be deleted is gone already is success.

use std::collections::BTreeSet;

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use swarmgate_core::publish::actual::{App, Configuration, NewRecord, Policy, Record, Tag, Tunnel, Zone};

use super::error::ApiError;
use super::{Call, Client};
use crate::percent::encode;

const TUNNEL: &str = "Account · Cloudflare Tunnel · Edit";
const ZONE: &str = "Zone · Zone · Read";
const DNS: &str = "Zone · DNS · Edit";
const ACCESS: &str = "Account · Access: Apps and Policies · Edit";

/// The most that the API gives at once, where it is documented; a page of applications is long.
const ZONES_PER_PAGE: usize = 50;
const RECORDS_PER_PAGE: usize = 1000;
const APPS_PER_PAGE: usize = 100;
const POLICIES_PER_PAGE: usize = 1000;
const TAGS_PER_PAGE: usize = 100;

impl Client {
    /// What the API thinks of the token: `active`, `disabled` or `expired`. A global key is not asked about.
    pub async fn token_status(&self) -> Result<String, ApiError> {
        #[derive(Deserialize)]
        struct Token {
            status: String,
        }
        let of_user = self.call(get("/user/tokens/verify", "none")).await;
        let token: Token = match of_user {
            // Tokens of an account are another kind, with an address of their own.
            Err(error) if error.is_unauthorized() => {
                self.call(get(&self.of_account("/tokens/verify"), "none")).await?
            }
            Ok(_) | Err(_) => of_user?,
        };
        Ok(token.status)
    }

    pub async fn tunnel(&self) -> Result<Tunnel, ApiError> {
        self.call(get(&self.of_tunnel(""), TUNNEL)).await
    }

    pub async fn configuration(&self) -> Result<Configuration, ApiError> {
        self.call(get(&self.of_tunnel("/configurations"), TUNNEL)).await
    }

    /// Replaces all of it by `config`, which is JSON and is sent byte for byte. There is no check of the version on
    /// their side.
    pub async fn put_configuration(&self, config: &str) -> Result<Configuration, ApiError> {
        let path = self.of_tunnel("/configurations");
        self.call(write(Method::PUT, &path, format!(r#"{{"config":{config}}}"#), TUNNEL)).await
    }

    /// Every zone that the token sees in the account.
    pub async fn zones(&self) -> Result<Vec<Zone>, ApiError> {
        let path = format!("/zones?account.id={}", encode(&self.account));
        self.list(get(&path, ZONE), ZONES_PER_PAGE).await
    }

    /// The ids of all accounts of which the token sees a zone.
    pub async fn accounts(&self) -> Result<BTreeSet<String>, ApiError> {
        #[derive(Deserialize)]
        struct OfAccount {
            account: Account,
        }
        #[derive(Deserialize)]
        struct Account {
            id: String,
        }
        let zones: Vec<OfAccount> = self.list(get("/zones", ZONE), ZONES_PER_PAGE).await?;
        Ok(zones.into_iter().map(|zone| zone.account.id).collect())
    }

    /// The records of a zone that pass all `filters`, each a query parameter of the API: `name.exact`,
    /// `comment.startswith`, `type`.
    pub async fn records(&self, zone: &str, filters: &[(&str, &str)]) -> Result<Vec<Record>, ApiError> {
        let filters: Vec<_> = filters.iter().map(|(key, value)| format!("{key}={}", encode(value))).collect();
        let path = match filters.as_slice() {
            [] => records(zone, ""),
            filters => format!("{}?{}", records(zone, ""), filters.join("&")),
        };
        self.list(get(&path, DNS), RECORDS_PER_PAGE).await
    }

    pub async fn create_record(&self, zone: &str, record: &NewRecord) -> Result<Record, ApiError> {
        self.call(write(Method::POST, &records(zone, ""), cname(record), DNS)).await
    }

    /// Replaces all of it.
    pub async fn update_record(&self, zone: &str, id: &str, record: &NewRecord) -> Result<Record, ApiError> {
        self.call(write(Method::PUT, &records(zone, id), cname(record), DNS)).await
    }

    pub async fn delete_record(&self, zone: &str, id: &str) -> Result<(), ApiError> {
        self.delete(&records(zone, id), DNS).await
    }

    pub async fn apps(&self) -> Result<Vec<App>, ApiError> {
        self.list(get(&self.of_account("/access/apps"), ACCESS), APPS_PER_PAGE).await
    }

    /// `body` is JSON.
    pub async fn create_app(&self, body: &str) -> Result<App, ApiError> {
        self.call(write(Method::POST, &self.of_account("/access/apps"), body.to_owned(), ACCESS)).await
    }

    /// Replaces all of it by `body`, which is JSON; what it leaves out is reset.
    pub async fn update_app(&self, id: &str, body: &str) -> Result<App, ApiError> {
        self.call(write(Method::PUT, &self.app(id), body.to_owned(), ACCESS)).await
    }

    pub async fn delete_app(&self, id: &str) -> Result<(), ApiError> {
        self.delete(&self.app(id), ACCESS).await
    }

    pub async fn tags(&self) -> Result<Vec<Tag>, ApiError> {
        self.list(get(&self.of_account("/access/tags"), ACCESS), TAGS_PER_PAGE).await
    }

    pub async fn create_tag(&self, name: &str) -> Result<Tag, ApiError> {
        let body = json!({ "name": name }).to_string();
        self.call(write(Method::POST, &self.of_account("/access/tags"), body, ACCESS)).await
    }

    /// The reusable ones.
    pub async fn policies(&self) -> Result<Vec<Policy>, ApiError> {
        self.list(get(&self.of_account("/access/policies"), ACCESS), POLICIES_PER_PAGE).await
    }

    async fn delete(&self, path: &str, right: &'static str) -> Result<(), ApiError> {
        let call = Call { method: Method::DELETE, path, body: None, right };
        match self.call::<Box<RawValue>>(call).await {
            Err(error) if error.is_not_there() => Ok(()),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn of_account(&self, rest: &str) -> String {
        format!("/accounts/{}{rest}", encode(&self.account))
    }

    fn of_tunnel(&self, rest: &str) -> String {
        self.of_account(&format!("/cfd_tunnel/{}{rest}", encode(&self.tunnel)))
    }

    fn app(&self, id: &str) -> String {
        self.of_account(&format!("/access/apps/{}", encode(id)))
    }
}

fn get<'a>(path: &'a str, right: &'static str) -> Call<'a> {
    Call { method: Method::GET, path, body: None, right }
}

fn write<'a>(method: Method, path: &'a str, body: String, right: &'static str) -> Call<'a> {
    Call { method, path, body: Some(body), right }
}

fn records(zone: &str, id: &str) -> String {
    match id {
        "" => format!("/zones/{}/dns_records", encode(zone)),
        id => format!("/zones/{}/dns_records/{}", encode(zone), encode(id)),
    }
}

fn cname(record: &NewRecord) -> String {
    let NewRecord { name, content, proxied, ttl, comment } = record;
    json!({"type": "CNAME", "name": name, "content": content, "proxied": proxied, "ttl": ttl, "comment": comment})
        .to_string()
}
