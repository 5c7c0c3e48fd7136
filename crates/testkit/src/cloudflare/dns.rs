//! Zones and the records in them.

use serde_json::{Value, json};

use super::account::Account;
use super::reply::Reply;
use super::{ACCOUNT, id32};
use crate::http::Request;

const ADDRESSES: [&str; 3] = ["A", "AAAA", "CNAME"];

/// A zone that the token sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    pub id: String,
    pub name: String,
    /// `initializing`, `pending`, `active` or `moved`.
    pub status: &'static str,
    pub paused: bool,
    /// `full`, `partial`, `secondary` or `internal`.
    pub kind: &'static str,
    /// As they are listed.
    pub records: Vec<Value>,
}

impl Account {
    /// A new zone with nothing in it.
    pub fn add_zone(&mut self, name: &str) -> &mut Zone {
        self.made += 1;
        let zone = Zone {
            id: id32(self.made),
            name: name.into(),
            status: "active",
            paused: false,
            kind: "full",
            records: Vec::new(),
        };
        self.zones.push(zone);
        self.zones.last_mut().expect("it was just added")
    }

    /// Somebody makes a record in the dashboard. Gives back its id.
    ///
    /// # Panics
    /// When no zone is over the name.
    pub fn add_record(&mut self, kind: &str, name: &str, content: &str) -> String {
        self.made += 1;
        let made = self.made;
        let over = self.zones.iter_mut().filter(|zone| zone.is_over(name));
        let zone = over.max_by_key(|zone| zone.name.len()).expect("a zone over the name");
        let record =
            json!({"type": kind, "name": name, "content": content, "ttl": 1, "proxied": kind != "TXT"});
        zone.records.push(shown(record, made));
        self.foreign.made(id32(made));
        id32(made)
    }

    /// Every record of this name.
    pub fn records(&self, name: &str) -> Vec<&Value> {
        let all = self.zones.iter().flat_map(|zone| &zone.records);
        all.filter(|record| record["name"] == name).collect()
    }

    pub(super) fn list_zones(&self, request: &Request) -> Reply {
        let shown: Vec<_> = self.zones.iter().map(Zone::show).collect();
        let fits = |zone: &&Value| {
            let is = |key: &str, value: &Value| request.asks(key).is_none_or(|asked| value == asked);
            is("name", &zone["name"])
                && is("status", &zone["status"])
                && is("account.id", &zone["account"]["id"])
        };
        Reply::page(&shown.iter().filter(fits).collect::<Vec<_>>(), request, 20)
    }
}

impl Zone {
    fn is_over(&self, name: &str) -> bool {
        name.strip_suffix(&self.name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }

    fn show(&self) -> Value {
        json!({
            "id": self.id, "name": self.name, "status": self.status, "paused": self.paused, "type": self.kind,
            "development_mode": 0, "name_servers": ["a.ns.example", "b.ns.example"], "original_name_servers": null,
            "original_registrar": null, "original_dnshost": null, "created_on": "2026-01-01T00:00:00Z",
            "modified_on": "2026-01-01T00:00:00Z", "activated_on": "2026-01-01T00:00:00Z",
            "meta": {"step": 2, "page_rule_quota": 3, "phishing_detected": false},
            "owner": {"id": null, "type": "user", "name": null}, "account": {"id": ACCOUNT, "name": "Example"},
            "plan": {"id": "0feeeeeeeeeeeeeeeeeeeeeeeeeeeeee", "name": "Free Website", "price": 0},
        })
    }

    pub(super) fn list(&self, request: &Request) -> Reply {
        let found: Vec<_> = self.records.iter().filter(|record| asked_for(record, request)).collect();
        Reply::page(&found, request, 100)
    }

    pub(super) fn create(&mut self, mut record: Value, made: u64) -> Reply {
        if let Err(reply) = self.check(&mut record, None) {
            return reply;
        }
        self.records.push(shown(record, made));
        Reply::ok(&self.records[self.records.len() - 1])
    }

    /// `merge` keeps what the body leaves out.
    pub(super) fn edit(&mut self, id: &str, body: &Value, merge: bool) -> Reply {
        let Some(index) = self.records.iter().position(|record| record["id"] == id) else {
            return not_there();
        };
        let mut record = if merge { self.records[index].clone() } else { json!({"id": id}) };
        for (key, value) in body.as_object().into_iter().flatten() {
            record[key] = value.clone();
        }
        if let Err(reply) = self.check(&mut record, Some(id)) {
            return reply;
        }
        let made = u64::from_str_radix(id, 16).unwrap_or_default();
        self.records[index] = shown(record, made);
        Reply::ok(&self.records[index])
    }

    pub(super) fn delete(&mut self, id: &str) -> Reply {
        let Some(index) = self.records.iter().position(|record| record["id"] == id) else {
            return not_there();
        };
        self.records.remove(index);
        Reply::ok(&json!({"id": id}))
    }

    /// Completes the name; refuses what cannot be beside what there is.
    fn check(&self, record: &mut Value, except: Option<&str>) -> Result<(), Reply> {
        let name = record["name"].as_str().unwrap_or_default().to_ascii_lowercase();
        let name = if self.is_over(&name) { name } else { format!("{name}.{}", self.name) };
        record["name"] = name.as_str().into();
        let record = &*record;
        let kind = record["type"].as_str().unwrap_or_default();
        let content = record["content"].as_str().unwrap_or_default();
        if kind == "CNAME" && (content.is_empty() || content.contains(['/', ':', ' '])) {
            return Err(Reply::chain(
                400,
                (1004, "DNS Validation Error"),
                (9005, "Content for CNAME record is invalid."),
            ));
        }
        let others = self
            .records
            .iter()
            .filter(|other| other["name"] == name && except.is_none_or(|id| other["id"] != id));
        for other in others {
            let other_kind = other["type"].as_str().unwrap_or_default();
            let same = |key: &str| record[key] == other[key];
            // The API was seen to give either code for such a record. Here it depends on whether all of it is the same.
            let (code, message) = if same("type") && same("content") {
                let is_identical = same("ttl") && record["proxied"] == (other["proxied"] == true);
                match is_identical {
                    true => (81058, "An identical record already exists."),
                    false => (81057, "The record already exists."),
                }
            } else if kind == "CNAME" && ADDRESSES.contains(&other_kind) {
                (81053, "An A, AAAA, or CNAME record with that host already exists.")
            } else if ADDRESSES.contains(&kind) && other_kind == "CNAME" {
                (81054, "A CNAME record with that host already exists.")
            } else {
                continue;
            };
            return Err(Reply::error(400, code, message));
        }
        Ok(())
    }
}

fn asked_for(record: &Value, request: &Request) -> bool {
    let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
    let fits = |(asked, value): &(String, String)| {
        let (key, how) = asked.split_once('.').unwrap_or((asked, "exact"));
        match (key, how) {
            ("page" | "per_page" | "order" | "direction" | "match", _) => true,
            ("comment", "present") => !text(key).is_empty(),
            ("comment", "absent") => text(key).is_empty(),
            ("proxied", _) => record[key] == (value == "true"),
            (_, "exact") => text(key).eq_ignore_ascii_case(value),
            (_, "contains") => text(key).contains(value.as_str()),
            (_, "startswith") => text(key).starts_with(value.as_str()),
            (_, "endswith") => text(key).ends_with(value.as_str()),
            _ => false,
        }
    };
    request.query.iter().all(fits)
}

/// With what the API adds.
fn shown(mut record: Value, made: u64) -> Value {
    let added = json!({
        "id": id32(made), "proxiable": record["type"] != "TXT", "settings": {}, "meta": {}, "comment": null, "tags": [],
        "proxied": false, "created_on": "2026-01-01T00:00:00Z", "modified_on": "2026-01-01T00:00:00Z",
    });
    for (key, value) in added.as_object().into_iter().flatten() {
        if record[key].is_null() {
            record[key] = value.clone();
        }
    }
    record
}

fn not_there() -> Reply {
    Reply::error(404, 81044, "Record does not exist.")
}
