//! What services ask for, and what is to come of it; what others may have made, and what that is in the way of.

use serde_json::{Value, json};
use swarmgate_testkit::cloudflare::{Account, TUNNEL};

pub const SERVICES: usize = 6;
pub const LOOKS: usize = 3;

/// The labels of a service, one of several sets, and what is to be there for it.
///
/// `rule`: of the tunnel; `login`: the application with its policies; `name`: the record; `gone`: a hostname of which no
/// record is to stay.
pub fn asked(service: usize, look: usize) -> (&'static str, &'static [&'static str]) {
    match (service, look) {
        (0, 0) => ("host=a.example.com port=80", &["rule a.example.com http://a:80", "name a.example.com"]),
        (0, 1) => (
            "host=a.example.com,*.a.example.com port=81",
            &[
                "rule a.example.com http://a:81",
                "name a.example.com",
                "rule *.a.example.com http://a:81",
                "name *.a.example.com",
            ],
        ),
        (0, _) => (
            "api.host=a.example.com api.port=82 api.path=^/api web.host=a.example.com web.port=80",
            &["rule a.example.com^/api http://a:82", "rule a.example.com http://a:80", "name a.example.com"],
        ),
        (1, 0) => (
            "host=b.example.com port=80 access=staff",
            &["login b.example.com staff", "rule b.example.com http://b:80", "name b.example.com"],
        ),
        (1, 1) => (
            "host=b.example.com port=80 access=admins,staff",
            &["login b.example.com admins staff", "rule b.example.com http://b:80", "name b.example.com"],
        ),
        (1, _) => ("host=b.example.com port=80", &["rule b.example.com http://b:80", "name b.example.com"]),
        (2, 0) => (
            "host=c.dev.example.com port=80 delete-dns-on-removal=true",
            &["rule c.dev.example.com http://c:80", "name c.dev.example.com"],
        ),
        (2, 1) => (
            "host=c2.dev.example.com port=80 delete-dns-on-removal=true",
            &["rule c2.dev.example.com http://c:80", "name c2.dev.example.com"],
        ),
        (2, _) => (
            "host=c.dev.example.com port=443 scheme=https origin.no-tls-verify=true delete-dns-on-removal=true",
            &["rule c.dev.example.com https://c:443 noTLSVerify", "name c.dev.example.com"],
        ),
        (3, 0) => ("host=d.example.org port=80 dns=false", &["rule d.example.org http://d:80"]),
        (3, 1) => ("host=d.example.org port=80", &["rule d.example.org http://d:80", "name d.example.org"]),
        (3, _) => (
            "host=d.example.org port=81 access=staff",
            &["login d.example.org staff", "rule d.example.org http://d:81", "name d.example.org"],
        ),
        (4, 0) => (
            "host=g.example.com port=80 access=staff",
            &["login g.example.com staff", "rule g.example.com http://g:80", "name g.example.com"],
        ),
        (4, 1) => (
            "host=g.example.com port=80 access=admins",
            &["login g.example.com admins", "rule g.example.com http://g:80", "name g.example.com"],
        ),
        (4, _) => (
            "host=g2.example.com port=80 access=staff path=^/in",
            &["login g2.example.com staff", "rule g2.example.com^/in http://g:80", "name g2.example.com"],
        ),
        (_, 0) => ("host=*.example.org port=80", &["rule *.example.org http://w:80", "name *.example.org"]),
        (_, 1) => ("host=w.example.com port=80", &["rule w.example.com http://w:80", "name w.example.com"]),
        (_, _) => (
            "cloudflared.tunnel.enabled=true cloudflared.tunnel.hostname=w.example.com,w2.example.com \
             cloudflared.tunnel.port=8080",
            &[
                "rule w.example.com http://w:8080",
                "name w.example.com",
                "rule w2.example.com http://w:8080",
                "name w2.example.com",
            ],
        ),
    }
}

/// Never served without a login, in whatever order things happen.
pub const PROTECTED: [&str; 2] = ["g.example.com", "g2.example.com"];
/// Whose record goes with them.
pub const DELETED: [&str; 2] = ["c.dev.example.com", "c2.dev.example.com"];

/// What others may have made, and the hostname that it keeps from being published.
pub const FOREIGN: [(Foreign, Option<&str>); 11] = [
    (Foreign::Rule("a.example.com", "^/hand"), None),
    (Foreign::Rule("*.example.org", ""), Some("*.example.org")),
    (Foreign::Rule("c.dev.example.com", ""), Some("c.dev.example.com")),
    // An application would stand before it, too.
    (Foreign::Rule("b.example.com", "^/hand"), Some("b.example.com")),
    (Foreign::Record("CNAME", "g.example.com", "elsewhere.example.net", ""), Some("g.example.com")),
    (Foreign::Record("A", "w.example.com", "192.0.2.7", ""), Some("w.example.com")),
    (
        Foreign::Record(
            "CNAME",
            "d.example.org",
            "TUNNEL",
            "managed-by=swarmgate instance=b tunnel=f70ff985",
        ),
        Some("d.example.org"),
    ),
    (Foreign::Record("CNAME", HANDMADE, "TUNNEL", "by hand"), None),
    (Foreign::Record("CNAME", "c2.dev.example.com", "TUNNEL", RELEASED), None),
    (Foreign::App("g2.example.com"), Some("g2.example.com")),
    (Foreign::App("w2.example.com"), None),
];

pub const OURS: &str = "managed-by=swarmgate instance=default tunnel=f70ff985";
pub const RELEASED: &str = "released-by=swarmgate instance=default tunnel=f70ff985";
pub const TAG: &str = "swarmgate-default-f70ff985";
/// A record of somebody else's that leads to the tunnel serves as well.
pub const HANDMADE: &str = "a.example.com";

#[derive(Debug, Clone, Copy)]
pub enum Foreign {
    /// A hostname and a path.
    Rule(&'static str, &'static str),
    /// Type, name, content and comment.
    Record(&'static str, &'static str, &'static str, &'static str),
    App(&'static str),
}

/// An account in which others have made something, and the rules of theirs.
pub fn furnish(account: &mut Account, foreign: &[usize]) -> Vec<String> {
    ["example.com", "dev.example.com", "example.org"]
        .iter()
        .for_each(|zone| drop(account.add_zone(zone).id.clone()));
    let staff = account.add_policy("staff", "allow");
    account.add_policy("admins", "allow");
    account
        .add_app("old.example.com", &json!({"policies": [staff], "custom_deny_url": "https://no.example"}));
    account.tags.insert("theirs".into());
    account.add_record("CNAME", "old.example.com", &format!("{TUNNEL}.cfargotunnel.com"));
    account.add_record("TXT", "a.example.com", "anything");
    let mut rules = vec![
        r#"{"service":"http://old:80", "hostname":"Old.example.com","originRequest":{"http2Origin":true,"n":1.50}}"#.to_owned(),
        r#"{"hostname":"*.wild.example.com","path":"^/x","service":"https://wild:443"}"#.to_owned(),
    ];
    for index in foreign {
        match FOREIGN[*index].0 {
            Foreign::Rule(host, path) => {
                let path = if path.is_empty() { String::new() } else { format!(r#","path":"{path}""#) };
                rules.push(format!(r#"{{"service":"http://x:{index}", "hostname":"{host}"{path}}}"#));
            }
            Foreign::Record(kind, name, content, comment) => {
                let content = content.replace("TUNNEL", &format!("{TUNNEL}.cfargotunnel.com"));
                let id = account.add_record(kind, name, &content);
                if comment == RELEASED {
                    account.disown(&id);
                }
                let mut records = account.zones.iter_mut().flat_map(|zone| &mut zone.records);
                let record = records.find(|record| record["id"] == id).unwrap();
                record["comment"] = if comment.is_empty() { Value::Null } else { comment.into() };
            }
            Foreign::App(domain) => {
                account.add_app(domain, &json!({"policies": [staff], "name": "by hand"}));
            }
        }
    }
    let all = rules.join(", ");
    account.configure(&format!(
        r#"{{ "warp-routing":{{"enabled" :true}}, "future":[1.50,null], "ingress":[{all},{{"service":"http_status:503"}}], "originRequest":{{"connectTimeout":7}}}}"#
    ));
    rules
}
