//! The gate's publishing half in its world.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use swarmgate_core::state::swarm::survey::Survey;
use swarmgate_testkit::cloudflare::Account;
use tempfile::TempDir;
use tokio::time::Instant;

use super::super::*;
use super::asked::{DELETED, FOREIGN, HANDMADE, OURS, PROTECTED, RELEASED, SERVICES, TAG, asked, furnish};
use super::{Happens, How};
use crate::cloudflare::Last;

const GRACE: Duration = Duration::from_secs(30 * 60);

pub struct Life {
    fake: FakeCloudflare,
    store: TempDir,
    /// None only while it is begun anew.
    gate: Option<Gate>,
    services: [Service; SERVICES],
    is_silent: bool,
    /// Rules of others, and everything else of theirs.
    foreign: (Vec<String>, Value),
    /// Hostnames that others keep from being published.
    hindered: BTreeSet<&'static str>,
    /// A record leads there that is not the gate's.
    handmade: bool,
    /// What was ours after the last event.
    before: BTreeSet<String>,
    /// Since when nobody asks for what was once asked for.
    absent: BTreeMap<String, Option<Instant>>,
    /// Names whose record was let go of in an earlier life, and those that had one of ours in this.
    released: BTreeSet<String>,
    had: BTreeSet<String>,
}

struct Gate {
    publisher: Publisher,
    last: Last,
    stop: CancellationToken,
    fleet: Fleet,
    _configs: watch::Sender<Arc<Config>>,
}

#[derive(Default)]
struct Service {
    /// None: there is no such service.
    look: Option<usize>,
    mistyped: bool,
    asleep: bool,
    node: usize,
}

impl Gate {
    async fn start(fake: &FakeCloudflare, directory: &TempDir) -> Self {
        let store = until("the store", LIMIT, async || Store::open(directory.path()).ok()).await;
        let config = configured(fake, &[]);
        let (send, configs) = watch::channel(Arc::clone(&config));
        let fleet = Fleet::new(config.policy(), Clock::start(), store.clone(), TaskTracker::new());
        let alarm = Alarm::off(fleet.clock());
        let (publisher, _) = Publisher::new(fleet.clone(), alarm, configs, store, Metrics::default());
        Self { publisher, last: Last::nothing(), stop: CancellationToken::new(), fleet, _configs: send }
    }

    /// What is held is not answered in time.
    async fn look(&mut self, fake: &FakeCloudflare) {
        let look = self.publisher.look(&mut self.last, &self.stop);
        tokio::pin!(look);
        loop {
            tokio::select! {
                biased;
                () = fake.holds() => wind(Duration::from_secs(31)).await,
                () = &mut look => return,
            }
        }
    }
}

/// The time goes on at once.
async fn wind(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

impl Life {
    pub async fn begin(foreign: &[usize]) -> Self {
        let fake = FakeCloudflare::start().await;
        let rules = fake.with(|account| {
            account.protected.extend(PROTECTED.map(str::to_owned));
            furnish(account, foreign)
        });
        let store = tempfile::tempdir().unwrap();
        let gate = Some(Gate::start(&fake, &store).await);
        let handmade =
            fake.with(|account| !account.records(HANDMADE).iter().all(|record| record["type"] == "TXT"));
        let foreign_rest = fake.with(|account| theirs(account));
        let released = fake.with(|account| commented(account, RELEASED));
        Self {
            hindered: foreign.iter().filter_map(|index| FOREIGN[*index].1).collect(),
            foreign: (rules, foreign_rest),
            services: Default::default(),
            is_silent: false,
            before: BTreeSet::new(),
            absent: BTreeMap::new(),
            fake,
            store,
            gate,
            handmade,
            released,
            had: BTreeSet::new(),
        }
    }

    pub async fn happens(&mut self, event: Happens) {
        match event {
            Happens::Looks(service, look) => {
                self.services[service] = Service { look: Some(look), ..Service::default() };
            }
            Happens::Goes(service) => self.services[service].look = None,
            Happens::Mistyped(service) => self.services[service].mistyped = true,
            Happens::Scales(service) => self.services[service].asleep ^= true,
            Happens::Moves(service) => self.services[service].node += 1,
            Happens::Waits(seconds) => wind(Duration::from_secs(seconds)).await,
            Happens::Fail(call, times, fault) => return self.fake.fail(call, times, fault),
            Happens::Heals => return self.fake.heal(),
            Happens::IsSilent => {
                self.is_silent = true;
                return self.gate().fleet.lost("swarm", "it is away");
            }
            Happens::Ends(count, how) => {
                self.tell();
                let count = self.fake.calls().len() + count.get();
                let (fake, gate) = (&self.fake, self.gate.as_mut().unwrap());
                let stop = gate.stop.clone();
                tokio::select! {
                    () = gate.look(fake) => {}
                    () = async {
                        fake.made(count).await;
                        stop.cancel();
                        if how == How::Stopped {
                            std::future::pending::<()>().await;
                        }
                    } => {}
                }
                return self.restart().await;
            }
        }
        self.is_silent &= matches!(event, Happens::Waits(_));
        self.look().await;
    }

    async fn look(&mut self) {
        self.tell();
        self.gate.as_mut().unwrap().look(&self.fake).await;
    }

    fn gate(&self) -> &Gate {
        self.gate.as_ref().unwrap()
    }

    async fn restart(&mut self) {
        // The old one lets go of the store first.
        self.gate = None;
        self.gate = Some(Gate::start(&self.fake, &self.store).await);
        if self.is_silent {
            self.gate().fleet.lost("swarm", "it is away");
        }
        self.look().await;
    }

    /// What the Swarm has, if it answers.
    fn tell(&mut self) {
        let now = Instant::now();
        let wanted = hosts(&self.wanted());
        for (host, absent) in &mut self.absent {
            if wanted.contains(host) {
                *absent = None;
            } else {
                absent.get_or_insert(now);
            }
        }
        self.absent.extend(wanted.into_iter().map(|host| (host, None)));
        if self.is_silent {
            return;
        }
        let there = || {
            self.services.iter().enumerate().filter_map(|(at, service)| Some((at, service, service.look?)))
        };
        let services = there().map(|(at, service, look)| {
            let mut labels: BTreeMap<String, &str> =
                asked(at, look).0.split_whitespace().map(label).collect();
            if service.mistyped {
                labels.insert("swarmgate.publish.hots".into(), "x.example.com");
            }
            let replicas = u32::from(!service.asleep);
            json!({"ID": name(at), "Version": {"Index": 1}, "Spec": {"Name": name(at), "Labels": labels,
                "Mode": {"Replicated": {"Replicas": replicas}}, "TaskTemplate": {"ContainerSpec": {}}}})
        });
        let tasks = there().filter(|(_, service, _)| !service.asleep).map(|(at, service, _)| {
            json!({"ID": format!("t{at}"), "ServiceID": name(at), "NodeID": format!("n{}", service.node),
                "Status": {"State": "running"}, "DesiredState": "running"})
        });
        let survey = Survey::new(services.collect(), tasks.collect(), Vec::new()).unwrap();
        let published = survey.published(&Settings::default());
        self.gate().fleet.observe("swarm", Snapshot { services: Vec::new(), published });
    }

    /// What is to be there, were it not for what others made.
    fn wanted(&self) -> BTreeSet<String> {
        let looks =
            self.services.iter().enumerate().filter_map(|(at, service)| Some(asked(at, service.look?)));
        looks.flat_map(|(_, lines)| lines.iter().map(|line| (*line).to_owned())).collect()
    }

    pub fn check_always(&mut self) {
        self.fake.assert_clean();
        let (rules, rest) = self.fake.with(|account| (account.rules(), theirs(account)));
        let left: Vec<&String> = rules.iter().filter(|rule| self.foreign.0.contains(rule)).collect();
        assert_eq!(left, self.foreign.0.iter().collect::<Vec<_>>());
        assert_eq!(rules.last().unwrap(), r#"{"service":"http_status:503"}"#);
        assert_eq!(rest, self.foreign.1);

        let now = self.fake.with(|account| ours(account, &self.foreign.0));
        let (had, has) = (hosts_of(&self.before, "rule "), hosts_of(&now, "rule "));
        for host in had.difference(&has).filter(|host| !PROTECTED.contains(&host.as_str())) {
            let absent = self.absent.get(host).copied().flatten();
            // What is to be protected and is not goes at once.
            let shut = absent.is_none()
                && self.wanted().iter().any(|line| line.starts_with(&format!("login {host} ")));
            let gone = absent.is_some_and(|since| since.elapsed() >= GRACE);
            assert!(shut || gone, "{host} was withdrawn early: {absent:?}");
        }
        self.had.extend(self.fake.with(|account| commented(account, OURS)));
        self.before = now;
    }

    /// Everything works again, and time passes.
    pub async fn settle(&mut self) {
        self.fake.heal();
        self.is_silent = false;
        self.services.iter_mut().for_each(|service| service.mistyped = false);
        self.restart().await;
        for _ in 0..4 {
            self.check_always();
            wind(GRACE + Duration::from_secs(60)).await;
            self.look().await;
        }
        self.check_always();
    }

    pub async fn check_settled(mut self) {
        let is_free = |line: &String| !self.hindered.contains(host_of(line));
        let mut wanted: BTreeSet<String> = self.wanted().into_iter().filter(is_free).collect();
        if self.handmade {
            wanted.remove(&format!("name {HANDMADE}"));
        }
        let (free, hindered): (BTreeSet<String>, BTreeSet<String>) =
            self.before.iter().cloned().partition(is_free);
        assert_eq!(free, wanted);
        let of_wanted = hosts(&self.wanted());
        assert!(hosts(&hindered).is_subset(&of_wanted), "{hindered:?}");

        let (has, released) =
            self.fake.with(|account| (commented(account, OURS), commented(account, RELEASED)));
        let is_deleted = |name: &String| DELETED.contains(&name.as_str()) && self.had.contains(name);
        let stays = |name: &&String| !has.contains(*name) && !is_deleted(name);
        assert_eq!(released, self.released.union(&self.had).filter(stays).cloned().collect());

        let writes = self.fake.writes().len();
        wind(Duration::from_secs(700)).await;
        self.look().await;
        assert_eq!(self.fake.writes().len(), writes, "nothing is left to do");
        let shown = self.gate().publisher.show.borrow().clone();
        assert_eq!((shown.problem, shown.steps), (None, vec![]));
        for host in of_wanted {
            let shown = shown.hosts.iter().find(|shown| shown.host == host).unwrap();
            // What is in the way of one set of labels may not be in that of another.
            let is_conflict = shown.state == "conflict" && self.hindered.contains(host.as_str());
            assert!(is_conflict || shown.state == "published", "{shown:?}");
        }
        self.fake.assert_clean();
    }
}

fn name(service: usize) -> &'static str {
    ["a", "b", "c", "d", "g", "w"][service]
}

fn label(label: &str) -> (String, &str) {
    let (key, value) = label.split_once('=').unwrap();
    let prefix = if key.starts_with("cloudflared.") { "" } else { "swarmgate.publish." };
    (format!("{prefix}{key}"), value)
}

/// `a.example.com` of `rule a.example.com^/api http://a:82`.
fn host_of(line: &str) -> &str {
    line.split([' ', '^']).nth(1).unwrap()
}

fn hosts(lines: &BTreeSet<String>) -> BTreeSet<String> {
    hosts_of(lines, "")
}

fn hosts_of(lines: &BTreeSet<String>, kind: &str) -> BTreeSet<String> {
    lines.iter().filter(|line| line.starts_with(kind)).map(|line| host_of(line).to_owned()).collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn records(account: &Account) -> impl Iterator<Item = &Value> {
    account.zones.iter().flat_map(|zone| &zone.records)
}

fn commented(account: &Account, comment: &str) -> BTreeSet<String> {
    let with = records(account).filter(|record| text(record, "comment") == comment);
    with.map(|record| text(record, "name").to_owned()).collect()
}

/// What is the gate's, in the words of what is asked for.
fn ours(account: &Account, foreign: &[String]) -> BTreeSet<String> {
    let rules = account.rules().into_iter().filter(|rule| !foreign.contains(rule));
    let rules = rules.filter_map(|rule| {
        let rule: Value = serde_json::from_str(&rule).unwrap();
        let options =
            rule["originRequest"].as_object().into_iter().flatten().map(|(key, _)| format!(" {key}"));
        let line =
            format!("rule {}{} {}", text(&rule, "hostname"), text(&rule, "path"), text(&rule, "service"));
        (!text(&rule, "hostname").is_empty()).then(|| options.fold(line, |line, option| line + &option))
    });
    let apps = account.apps.iter().filter(|app| app["tags"].as_array().unwrap().contains(&TAG.into()));
    let logins = apps.map(|app| {
        let policies =
            app["policies"].as_array().unwrap().iter().map(|policy| format!(" {}", text(policy, "name")));
        policies.fold(format!("login {}", text(app, "domain")), |line, policy| line + &policy)
    });
    let lead = records(account).filter(|record| text(record, "comment") == OURS && record["proxied"] == true);
    let lead = lead.filter(|record| text(record, "content") == format!("{TUNNEL}.cfargotunnel.com"));
    rules.chain(logins).chain(lead.map(|record| format!("name {}", text(record, "name")))).collect()
}

/// Everything else but rules.
fn theirs(account: &Account) -> Value {
    let unmarked = |record: &&Value| ![OURS, RELEASED].contains(&text(record, "comment"));
    let untagged = |app: &&Value| !app["tags"].as_array().unwrap().contains(&TAG.into());
    json!({
        "settings": account.settings(), "policies": account.policies,
        "records": records(account).filter(unmarked).collect::<Vec<_>>(),
        "apps": account.apps.iter().filter(untagged).collect::<Vec<_>>(),
        "tags": account.tags.iter().filter(|tag| *tag != TAG).collect::<Vec<_>>(),
    })
}
