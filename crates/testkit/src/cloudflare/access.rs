//! Access: applications, their tags, and reusable policies.

use serde_json::{Value, json};

use super::account::Account;
use super::reply::Reply;
use super::{id32, uuid};
use crate::http::Request;

const SET_BY_THE_API: [&str; 5] = ["id", "uid", "aud", "created_at", "updated_at"];

impl Account {
    /// A reusable policy, made in the dashboard. Gives back its id.
    pub fn add_policy(&mut self, name: &str, decision: &str) -> String {
        self.made += 1;
        let id = uuid(self.made);
        self.policies.push(json!({
            "id": id, "name": name, "decision": decision, "reusable": true, "app_count": 0, "session_duration": "24h",
            "include": [{"everyone": {}}], "exclude": [], "require": [],
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        }));
        id
    }

    /// An application, made in the dashboard. Gives back its id.
    pub fn add_app(&mut self, domain: &str, body: &Value) -> String {
        self.made += 1;
        let mut app = json!({"type": "self_hosted", "domain": domain, "name": domain});
        for (key, value) in body.as_object().into_iter().flatten() {
            app[key] = value.clone();
        }
        let app = self.shown(&app, self.made);
        self.apps.push(app);
        self.foreign.made(uuid(self.made));
        uuid(self.made)
    }

    /// Every application for this domain.
    pub fn apps_for(&self, domain: &str) -> Vec<&Value> {
        self.apps.iter().filter(|app| app["domain"] == domain).collect()
    }

    pub(super) fn app(&self, id: &str) -> Option<&Value> {
        self.apps.iter().find(|app| app["id"] == id)
    }

    pub(super) fn list_apps(&self, request: &Request) -> Reply {
        let exact = request.asks("exact") == Some("true");
        let is = |key: &str, app: &Value| {
            let text = app[key].as_str().unwrap_or_default();
            request.asks(key).is_none_or(|asked| if exact { text == asked } else { text.contains(asked) })
        };
        let found: Vec<_> = self.apps.iter().filter(|app| is("domain", app) && is("name", app)).collect();
        Reply::page(&found, request, 25)
    }

    pub(super) fn create_app(&mut self, body: &Value) -> Reply {
        if let Err(reply) = self.check_app(body, None) {
            return reply;
        }
        self.made += 1;
        let app = self.shown(body, self.made);
        self.apps.push(app);
        Reply::raw(201, &self.apps[self.apps.len() - 1].to_string())
    }

    pub(super) fn read_app(&self, id: &str) -> Reply {
        self.app(id).map_or_else(no_app, Reply::ok)
    }

    /// What the body leaves out is reset.
    pub(super) fn replace_app(&mut self, id: &str, body: &Value) -> Reply {
        let Some(index) = self.apps.iter().position(|app| app["id"] == id) else { return no_app() };
        if let Err(reply) = self.check_app(body, Some(id)) {
            return reply;
        }
        let mut app = self.shown(body, 0);
        for key in SET_BY_THE_API {
            app[key] = self.apps[index][key].clone();
        }
        self.apps[index] = app;
        Reply::ok(&self.apps[index])
    }

    pub(super) fn delete_app(&mut self, id: &str) -> Reply {
        let Some(index) = self.apps.iter().position(|app| app["id"] == id) else { return no_app() };
        self.apps.remove(index);
        Reply::raw(202, &json!({"id": id}).to_string())
    }

    pub(super) fn list_tags(&self, request: &Request) -> Reply {
        let tags: Vec<_> = self.tags.iter().map(|name| tag(name)).collect();
        Reply::page(&tags.iter().collect::<Vec<_>>(), request, 25)
    }

    pub(super) fn create_tag(&mut self, body: &Value) -> Reply {
        let name = body["name"].as_str().unwrap_or_default();
        if name.is_empty() || !self.tags.insert(name.to_owned()) {
            return Reply::error(409, 12130, "access.api.error.conflict: tag already exists");
        }
        Reply::raw(201, &tag(name).to_string())
    }

    pub(super) fn read_policy(&self, id: &str) -> Reply {
        let policy = self.policies.iter().find(|policy| policy["id"] == id);
        policy.map_or_else(|| Reply::error(404, 12130, "access.api.error.policy_not_found"), Reply::ok)
    }

    fn check_app(&self, body: &Value, except: Option<&str>) -> Result<(), Reply> {
        let refused =
            |why: String| Err(Reply::error(400, 12130, &format!("access.api.error.invalid_request: {why}")));
        let strings = |key: &str| body[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(tag) = strings("tags").find(|tag| !self.tags.contains(*tag)) {
            return refused(format!("tag {tag} does not exist"));
        }
        let taken = |app: &&Value| app["domain"] == body["domain"] && except.is_none_or(|id| app["id"] != id);
        if self.apps.iter().any(|app| taken(&app)) {
            return Err(Reply::error(409, 11010, "access.api.error.application_already_exists"));
        }
        for policy in body["policies"].as_array().into_iter().flatten() {
            let id = policy.as_str().or(policy["id"].as_str()).unwrap_or_default();
            let inline = policy["reusable"] == false;
            if !inline && !self.policies.iter().any(|known| known["id"] == id) {
                return refused(format!("policy {id} does not exist"));
            }
        }
        Ok(())
    }

    /// With what the API adds, and with its policies in full.
    fn shown(&self, body: &Value, made: u64) -> Value {
        let mut app = body.clone();
        let added = json!({
            "id": uuid(made), "uid": uuid(made), "aud": format!("{}{}", id32(made), id32(made)),
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
            "session_duration": "24h", "tags": [], "app_launcher_visible": true, "auto_redirect_to_identity": false,
            "allowed_idps": [], "enable_binding_cookie": false, "http_only_cookie_attribute": true,
            "options_preflight_bypass": false, "self_hosted_domains": [body["domain"]],
            "destinations": [{"type": "public", "uri": body["domain"]}],
        });
        for (key, value) in added.as_object().into_iter().flatten() {
            if app[key].is_null() {
                app[key] = value.clone();
            }
        }
        let policies = body["policies"].as_array().into_iter().flatten();
        let full = policies.enumerate().map(|(index, policy)| {
            let id = policy.as_str().or(policy["id"].as_str()).unwrap_or_default();
            let known = self.policies.iter().find(|known| known["id"] == id);
            let mut full = known.cloned().unwrap_or_else(|| policy.clone());
            full["precedence"] = policy["precedence"].as_u64().unwrap_or(index as u64 + 1).into();
            full
        });
        app["policies"] = full.collect::<Vec<_>>().into();
        app
    }
}

fn tag(name: &str) -> Value {
    json!({"name": name, "app_count": 0, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"})
}

fn no_app() -> Reply {
    Reply::error(404, 12045, "access.api.error.invalid_application_id")
}
