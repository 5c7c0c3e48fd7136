//! A tunnel that other people use, too, and a gate that publishes through it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use swarmgate_testkit::cloudflare::{ACCOUNT, Account, Call, FakeCloudflare, TOKEN, TUNNEL, Visit};
use swarmgate_testkit::wait::until;

use crate::common::{Config, Gate, Home, LIMIT};

/// With keys that no type knows, in an order and a spelling of its own.
pub const FOREIGN: &str = r#"{ "warp-routing":{"enabled" :true}, "future":[1.50,null],
 "ingress":[{"service":"http://old:80", "hostname":"old.example.com", "originRequest":{"bastionMode":false,"http2Origin":true}},
  {"hostname":"*.wild.example.com","path":"^/x","service":"https://wild:443"},{"service":"http_status:503"}],
 "originRequest":{"connectTimeout":7}}"#;

/// The API, and the home of a gate that uses it.
pub struct Site {
    pub fake: FakeCloudflare,
    pub home: Arc<Home>,
    /// The id of the policy called `staff`.
    pub staff: String,
    foreign: Mutex<Foreign>,
}

/// All that the gate must not touch.
#[derive(Debug, PartialEq, Eq)]
struct Foreign {
    rules: Vec<String>,
    settings: BTreeMap<String, String>,
    records: Vec<Value>,
    apps: Vec<Value>,
}

impl Site {
    /// With a configuration, a record and an application that somebody else made.
    pub async fn new() -> Self {
        let fake = FakeCloudflare::start().await;
        let staff = fake.with(|account| {
            account.add_zone("example.com");
            account.add_zone("other.example");
            account.configure(FOREIGN);
            account.add_record("CNAME", "old.example.com", &tunnel());
            account.add_record("A", "www.example.com", "192.0.2.1");
            let staff = account.add_policy("staff", "allow");
            let foreign = json!({"policies": [staff], "custom_deny_url": "https://no.example"});
            account.add_app("old.example.com", &foreign);
            staff
        });
        let foreign = Mutex::new(fake.with(|account| foreign(account)));
        Self { fake, home: Home::new(), staff, foreign }
    }

    /// Writes a configuration with this tunnel; `keys` are further keys of `[cloudflare]`.
    pub fn write(&self, keys: &str, tables: &str) {
        self.home.write(&self.config(keys, tables));
    }

    pub fn config(&self, keys: &str, tables: &str) -> Config {
        let api = self.fake.url();
        let token = if keys.contains("token_file") { String::new() } else { format!("token = \"{TOKEN}\"") };
        Config::of(format!(
            "[cloudflare]\naccount = \"{ACCOUNT}\"\ntunnel = \"{TUNNEL}\"\n{token}\napi = \"{api}\"\n{keys}\n{tables}"
        ))
    }

    /// A gate on such a configuration.
    pub async fn start(&self, keys: &str, tables: &str) -> Gate {
        self.start_at(&self.home, keys, tables).await
    }

    /// The same in another home.
    pub async fn start_at(&self, home: &Arc<Home>, keys: &str, tables: &str) -> Gate {
        home.write(&self.config(keys, tables));
        home.start().await
    }

    /// From now on it is a fault if strangers are let in there.
    pub fn protect(&self, host: &str) {
        self.fake.with(|account| account.protected.insert(host.to_owned()));
    }

    /// What others made is what is there now and bears no mark.
    pub fn foreign_is_now(&self) {
        *self.foreign.lock().unwrap() = self.fake.with(|account| foreign(account));
    }

    /// What others made is as it was, and no request was wrong.
    pub fn assert_untouched(&self) {
        let now = self.fake.with(|account| foreign(account));
        assert_eq!(now, *self.foreign.lock().unwrap());
        self.fake.assert_clean();
    }

    pub fn visit(&self, host: &str) -> Visit {
        self.fake.with(|account| account.visit(&format!("https://{host}/")))
    }

    pub async fn until_visit(&self, host: &str, wanted: &Visit) {
        self.until(&format!("{wanted:?} for visitors of {host}"), || self.visit(host) == *wanted).await;
    }

    pub async fn until(&self, what: &str, is: impl Fn() -> bool) {
        until(what, LIMIT, async || is().then_some(())).await;
    }

    /// What a host behind the policy `staff` is to give.
    pub fn login(&self) -> Visit {
        Visit::Login(vec![self.staff.clone()])
    }

    /// The calls that may have changed something.
    pub fn writes(&self) -> Vec<Call> {
        self.fake.writes().into_iter().map(|(call, _)| call).collect()
    }

    pub async fn until_writes(&self, wanted: &[Call]) {
        self.until(&format!("{wanted:?}"), || self.writes() == wanted).await;
    }

    /// Waits until the gate has begun to look at everything `times` more: with two, it has finished once.
    pub async fn until_looks(&self, times: usize) {
        let wanted = self.looks() + times;
        self.until("another look at everything", || self.looks() >= wanted).await;
    }

    /// How often it has.
    pub fn looks(&self) -> usize {
        self.fake.calls().iter().filter(|call| **call == Call::ListZones).count()
    }

    pub async fn until_log(&self, gate: &Gate, words: &str) {
        self.until(&format!("{words} in the log"), || gate.log().contains(words)).await;
    }

    /// What the gate says is wrong with a hostname.
    pub async fn problem(&self, gate: &Gate, host: &str) -> String {
        let what = format!("a problem of {host}");
        until(&what, LIMIT, async || {
            let (status, body) = gate.control("GET", "/v1/plan", "").await;
            assert_eq!(status, 200, "{body}");
            let plan: Value = serde_json::from_str(&body).unwrap();
            let found = plan["hosts"].as_array().unwrap().iter().find(|one| one["host"] == host)?;
            found["problem"].as_str().map(str::to_owned)
        })
        .await
    }

    /// The hostnames of the rules, in order.
    pub fn rules(&self) -> Vec<String> {
        let config = self.fake.with(|account| account.config());
        let rules = config["ingress"].as_array().into_iter().flatten();
        rules.map(|rule| rule["hostname"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until there are rules for these hosts, and one for all others.
    pub async fn until_rules(&self, hosts: &[&str]) {
        let wanted: Vec<&str> = hosts.iter().copied().chain([""]).collect();
        self.until(&format!("rules for {wanted:?}"), || self.rules() == wanted).await;
    }

    /// The first rule of a hostname.
    pub fn rule(&self, host: &str) -> Value {
        let config = self.fake.with(|account| account.config());
        let rules = config["ingress"].as_array().unwrap();
        rules.iter().find(|rule| rule["hostname"] == host).cloned().unwrap_or_default()
    }
}

/// Where a name leads that leads to the tunnel.
pub fn tunnel() -> String {
    format!("{TUNNEL}.cfargotunnel.com")
}

/// `[publish.NAME]` for `NAME.example.com`, at `http://NAME:80`.
pub fn web(name: &str, keys: &str) -> String {
    format!("[publish.{name}]\nhosts = [\"{name}.example.com\"]\naddress = \"{name}:80\"\n{keys}\n")
}

pub fn origin(name: &str) -> Visit {
    Visit::Origin(format!("http://{name}:80"))
}

/// What does not bear the mark of a gate.
fn foreign(account: &Account) -> Foreign {
    let unmarked = |record: &&Value| !record["comment"].as_str().unwrap_or_default().contains("swarmgate");
    let untagged = |app: &&Value| app["tags"] == json!([]);
    Foreign {
        rules: account.rules().into_iter().filter(|rule| FOREIGN.contains(rule.as_str())).collect(),
        settings: account.settings(),
        records: account.zones.iter().flat_map(|zone| &zone.records).filter(unmarked).cloned().collect(),
        apps: account.apps.iter().filter(untagged).cloned().collect(),
    }
}
