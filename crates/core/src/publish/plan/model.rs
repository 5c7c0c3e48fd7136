//! A Cloudflare that does as it is told, and a gate that does one step after another, to test plans with.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Input, Plan, Terms, begins, departures, ended, tampering};
use crate::moment::Moment;
use crate::name::HostPattern;
use crate::publish::actual::{
    Access, Actual, Answer, App, Configuration, NewRecord, Policy, Record, Step, Zone,
};
use crate::publish::ingress::Ingress;
use crate::publish::memory::{Identity, Memory, Patience};
use crate::publish::wanted::Wanted;
use crate::publish::{Publication, Published, Settings, Target};
use crate::service::ServiceId;

pub const TUNNEL: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";

/// Both sides.
#[derive(Debug, Clone)]
pub struct World {
    pub actual: Actual,
    pub memory: Memory,
    pub terms: Terms,
    pub patience: Patience,
    pub services: Vec<Published>,
    pub answering: bool,
    /// A source that does not answer although the others do.
    pub silent: Option<&'static str>,
    pub now: Moment,
    /// Of the gate's program.
    pub build: &'static str,
    /// Steps of these hostnames are refused; `None` in it: the configuration is.
    pub broken: BTreeSet<Option<String>>,
    /// What is done is done, and the answer is lost.
    pub cuts: bool,
    /// The gate is ended after so many steps.
    pub lives: usize,
    pub puts: usize,
    /// How often the last round planned.
    pub plans: usize,
    /// What was told of changes that somebody else made.
    pub tampered: Vec<String>,
    next_id: u32,
}

impl World {
    pub fn new(config: Value) -> Self {
        let zone = |name: &str| Zone {
            id: format!("z-{name}"),
            name: name.to_owned(),
            status: Some("active".to_owned()),
            paused: false,
            kind: Some("full".to_owned()),
        };
        let policy = |name: &str, decision: &str| Policy {
            id: format!("p-{name}"),
            name: name.to_owned(),
            decision: decision.to_owned(),
        };
        let zones = vec![zone("example.com"), zone("dev.example.com"), zone("example.org")];
        let records = zones.iter().map(|zone| (zone.id.clone(), Ok(Vec::new()))).collect();
        let access = Access {
            policies: vec![
                policy("staff", "allow"),
                policy("all", "bypass"),
                policy("twin", "allow"),
                policy("twin", "allow"),
            ],
            ..Access::default()
        };
        let config = (!config.is_null()).then(|| config.to_string());
        Self {
            actual: Actual {
                configuration: Configuration { version: 0, config, source: Some("cloudflare".to_owned()) },
                zones,
                records,
                access: Ok(access),
            },
            memory: Memory::default(),
            terms: Terms::new(TUNNEL, "home"),
            patience: Patience { grace: Duration::from_secs(1800), most: 10 },
            services: Vec::new(),
            answering: true,
            silent: None,
            now: Moment::START,
            build: "1",
            broken: BTreeSet::new(),
            cuts: false,
            lives: usize::MAX,
            puts: 0,
            plans: 0,
            tampered: Vec::new(),
            next_id: 0,
        }
    }

    /// A round of the gate; the last plan of it, which shows what is left.
    pub fn round(&mut self) -> Plan {
        let of = Identity { tunnel: TUNNEL.into(), instance: "home".into(), build: self.build.into() };
        self.memory = std::mem::take(&mut self.memory).of(of);
        let wanted = self.wanted();
        let (answering, silent) = (self.answering, self.silent);
        let answers = |source: Option<&str>| answering && (source.is_none() || source != silent);
        let facts = (&self.terms, &wanted, &self.actual);
        let departed = departures(&mut self.memory, facts, &answers, self.patience, self.now).unwrap();
        let facts = (&self.terms, &wanted, &self.actual);
        self.tampered.extend(tampering(&mut self.memory, facts, self.now).unwrap());
        let mut failed = BTreeMap::new();
        self.plans = 0;
        loop {
            let plan = self.plan(&wanted, &departed, &failed);
            self.plans += 1;
            if plan.steps.is_empty() {
                ended(&mut self.memory, (&self.terms, &wanted, &self.actual), &plan);
                if failed.is_empty() {
                    self.memory.settle();
                }
                return plan;
            }
            for step in plan.batch() {
                if self.lives == 0 {
                    return plan;
                }
                self.lives -= 1;
                begins(&mut self.memory, &plan, step, &wanted, self.now);
                let host = step.host().map(str::to_owned);
                let Some(name) = host.as_deref().filter(|_| self.broken.contains(&host)) else {
                    if host.is_none() && self.broken.contains(&None) {
                        return plan;
                    }
                    let answer = self.answer(step);
                    self.actual.absorb(step, answer);
                    if self.cuts {
                        return plan;
                    }
                    continue;
                };
                failed.insert(HostPattern::parse(name).unwrap(), "it is broken".to_owned());
            }
            assert!(self.plans < 10, "it gets nowhere: {plan}");
        }
    }

    /// What services ask for has changed, and Cloudflare cannot be reached.
    pub fn watch(&mut self) {
        let (wanted, answering) = (self.wanted(), self.answering);
        self.memory.watch(&wanted, &|_| answering, self.now);
    }

    /// As after a restart of the gate.
    pub fn restart(&mut self) {
        let kept = serde_json::to_string(&self.memory).unwrap();
        self.memory = serde_json::from_str(&kept).unwrap();
        self.lives = usize::MAX;
    }

    pub fn wait(&mut self, minutes: u64) {
        self.now = self.now + Duration::from_secs(60 * minutes);
    }

    fn wanted(&self) -> Wanted {
        Wanted::new(&self.services, |host| self.memory.holders(host))
    }

    pub fn preview(&self) -> Plan {
        self.plan(&self.wanted(), &BTreeSet::new(), &BTreeMap::new())
    }

    fn plan(
        &self,
        wanted: &Wanted,
        departed: &BTreeSet<HostPattern>,
        failed: &BTreeMap<HostPattern, String>,
    ) -> Plan {
        let (terms, actual, memory) = (&self.terms, &self.actual, &self.memory);
        Plan::new(Input { terms, wanted, actual, memory, departed, failed }).unwrap()
    }

    fn answer(&mut self, step: &Step) -> Answer {
        self.next_id += 1;
        let id = format!("id{}", self.next_id);
        match step {
            Step::CreateTag { .. } | Step::DeleteApp { .. } | Step::DeleteRecord { .. } => Answer::Done,
            Step::CreateApp { body, .. } => Answer::App(app(&id, body)),
            Step::UpdateApp { id, body, .. } => Answer::App(app(id, body)),
            Step::PutConfiguration { config, version } => {
                assert_eq!(*version, self.actual.configuration.version);
                self.puts += 1;
                check(config);
                let (version, source) = (version + 1, None);
                Answer::Configuration(Configuration { version, config: Some(config.clone()), source })
            }
            Step::CreateRecord { record, .. } => Answer::Record(of(&id, record)),
            Step::UpdateRecord { id, record, .. } => Answer::Record(of(id, record)),
        }
    }

    pub fn ingress(&self) -> Ingress {
        Ingress::read(self.actual.configuration.config.as_deref()).unwrap()
    }

    /// Every rule as `hostname path -> service`.
    pub fn rules(&self) -> Vec<String> {
        let config = self.actual.configuration.config.as_deref().unwrap_or("{}");
        let config: Value = serde_json::from_str(config).unwrap();
        let text = |rule: &Value, key: &str| rule[key].as_str().unwrap_or_default().to_owned();
        let rules = config["ingress"].as_array().cloned().unwrap_or_default();
        let shown = rules.iter().map(|rule| {
            format!("{}{} -> {}", text(rule, "hostname"), text(rule, "path"), text(rule, "service"))
        });
        shown.collect()
    }

    /// Every record as `name kind content comment`.
    pub fn records(&self) -> Vec<String> {
        let records = self.actual.records.values().flat_map(|records| records.iter().flatten());
        let mut shown: Vec<String> = records
            .map(|record| {
                let comment = record.comment.as_deref().unwrap_or("-");
                format!(
                    "{} {} {} {comment}",
                    record.name,
                    record.kind,
                    record.content.replace(TUNNEL, "TUNNEL")
                )
            })
            .collect();
        shown.sort();
        shown
    }

    pub fn access(&mut self) -> &mut Access {
        self.actual.access.as_mut().unwrap()
    }

    /// The record of `name`, as somebody changes it by hand.
    pub fn record(&mut self, name: &str) -> &mut Record {
        let records = self.actual.records.values_mut().flat_map(|records| records.iter_mut().flatten());
        records.into_iter().find(|record| record.name == name).unwrap()
    }

    /// Somebody edits the rules in the dashboard.
    pub fn edit_rules(&mut self, edit: impl FnOnce(&mut Vec<Value>)) {
        let config = self
            .actual
            .configuration
            .config
            .as_deref()
            .unwrap_or(r#"{"ingress":[{"service":"http_status:404"}]}"#);
        let mut config: Value = serde_json::from_str(config).unwrap();
        edit(config["ingress"].as_array_mut().unwrap());
        self.actual.configuration.config = Some(config.to_string());
        self.actual.configuration.version += 1;
    }

    pub fn add_record(&mut self, zone: &str, name: &str, kind: &str, content: &str) {
        self.next_id += 1;
        let record = Record {
            id: format!("foreign{}", self.next_id),
            name: name.to_owned(),
            kind: kind.to_owned(),
            content: content.replace("TUNNEL", TUNNEL),
            proxied: true,
            ttl: 1,
            comment: None,
        };
        self.actual.records.get_mut(&format!("z-{zone}")).unwrap().as_mut().unwrap().push(record);
    }
}

/// A service `name` with one publication of port 80.
pub fn service(name: &str, hosts: &str, settings: Settings) -> Published {
    let hosts = hosts.split(',').map(|host| HostPattern::parse(host).unwrap()).collect();
    let target = Some(Target { host: name.to_owned(), port: 80 });
    let publication = Publication { hosts, target, settings, held: None };
    let service = ServiceId::new("swarm", name);
    Published { service, publications: vec![publication], unclear: false, problems: Vec::new() }
}

pub fn plain(name: &str, hosts: &str) -> Published {
    service(name, hosts, Settings::default())
}

pub fn app(id: &str, body: &str) -> App {
    let mut fields: Value = serde_json::from_str(body).unwrap();
    fields["id"] = json!(id);
    fields["aud"] = json!(format!("aud-{id}"));
    serde_json::from_str(&fields.to_string()).unwrap()
}

fn of(id: &str, record: &NewRecord) -> Record {
    let NewRecord { name, content, proxied, ttl, comment } = record.clone();
    assert!(comment.len() <= 100);
    Record {
        id: id.to_owned(),
        name,
        kind: "CNAME".to_owned(),
        content,
        proxied,
        ttl,
        comment: Some(comment),
    }
}

/// What a connector insists on.
fn check(config: &str) {
    let ingress = Ingress::read(Some(config)).unwrap();
    assert!(ingress.rules().iter().all(|rule| !rule.is_catch_all()), "{config}");
    let config: Value = serde_json::from_str(config).unwrap();
    let last = config["ingress"].as_array().unwrap().last().unwrap();
    assert!(["", "*"].contains(&last["hostname"].as_str().unwrap_or_default()), "{config}");
}
