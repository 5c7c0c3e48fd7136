//! The Swarm that the engine manages: services with a version, and tasks that follow them.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Fault;
use crate::http::Request;

const NOT_RUNNING: [&str; 6] = ["complete", "shutdown", "failed", "rejected", "remove", "orphaned"];

/// Status, body, and the name of a service that was updated.
pub(super) type Reply = (u16, String, Option<String>);

/// All there is.
#[derive(Debug, Default)]
pub struct Swarm {
    services: BTreeMap<String, Value>,
    pub tasks: Vec<Value>,
    /// Node `n1` is added to them.
    pub nodes: Vec<Value>,
    /// By id, as they are inspected.
    pub containers: BTreeMap<String, Value>,
    /// What each task or container has said, and when.
    pub said: BTreeMap<String, Vec<(Timestamp, String)>>,
    /// What was done to containers: `start mc`, `stop mc 90`.
    pub acts: Vec<String>,
    /// The engine is in no Swarm.
    pub alone: bool,
    /// Every call so far: `GET /services`.
    pub calls: Vec<String>,
    /// The bodies of the updates that were accepted.
    pub updates: Vec<String>,
    /// What a client did that none should.
    pub complaints: Vec<String>,
    /// The credentials for registries that came with updates.
    pub auths: Vec<Value>,
    /// What its registries want to be told, if anything.
    pub password: Option<String>,
    /// What its registries answer: the digest of a reference. Others are not found there.
    pub registry: BTreeMap<String, String>,
    /// The calls may change images, too.
    pub may_update_images: bool,
    /// After each of so many reads of a service, somebody else changes it.
    pub interfere: u32,
    /// The same after so many writes of one.
    pub interfere_after_writes: u32,
    /// How far its clock is ahead of the test's.
    pub clock_ahead: Duration,
    /// For calls that begin so; the first that fits is used up.
    faults: Vec<(String, Fault)>,
    forbidden: Vec<String>,
    /// How often a service of this name was removed.
    removed: BTreeMap<String, usize>,
    index: u64,
    made: u64,
}

/// A service as it is created, with the labels given; what typed clients lose is in it.
pub fn service(name: &str, replicas: u64, labels: &Value) -> Value {
    json!({
        "Name": name, "Labels": labels,
        "TaskTemplate": {
            "ContainerSpec": {
                "Image": "game:1@sha256:0f", "Init": false, "StopGracePeriod": 60_000_000_000_u64,
                "Healthcheck": {"Test": ["CMD", "/probe", "<&>"], "Interval": 1_000_000_000},
                "Secrets": [{"File": {"Name": "rcon", "UID": "0", "GID": "0", "Mode": 292}, "SecretID": "s1", "SecretName": "rcon"}],
                "Isolation": "default", "FutureField": {"Deep": [null, 1.5, 18_446_744_073_709_551_615_u64]},
            },
            "Resources": {"Limits": {"MemoryBytes": 9_223_372_036_854_775_807_u64}},
            "Networks": [{"Target": "net1", "Aliases": ["game"]}],
            "ForceUpdate": 3, "Runtime": "container",
        },
        "Mode": {"Replicated": {"Replicas": replicas}},
        "UpdateConfig": {"Parallelism": 1, "MaxFailureRatio": 0.300_000_011_920_928_96, "Order": "stop-first"},
    })
}

impl Swarm {
    /// As `docker service create` with this spec. Its tasks are as told later.
    pub fn create(&mut self, spec: Value) {
        let name = spec["Name"].as_str().expect("a spec has a name").to_owned();
        self.index += 1;
        let now = self.now();
        let object = json!({
            "ID": self.id(&name), "Version": {"Index": self.index}, "CreatedAt": now, "UpdatedAt": now, "Spec": spec,
        });
        self.services.insert(self.id(&name), object);
    }

    /// As `docker service rm`: the service goes at once, its tasks are told to.
    pub fn remove(&mut self, name: &str) {
        let id = self.id(name);
        self.services.remove(&id);
        *self.removed.entry(name.to_owned()).or_default() += 1;
        for task in self.tasks.iter_mut().filter(|task| task["ServiceID"] == id.as_str()) {
            task["DesiredState"] = "remove".into();
        }
    }

    /// By its id, its name, or what only its id begins with.
    fn find(&self, key: &str) -> Option<&Value> {
        let named = || self.services.values().find(|service| service["Spec"]["Name"] == key);
        let begun = || {
            let mut begun = self.services.iter().filter(|(id, _)| id.starts_with(key));
            begun.next().filter(|_| begun.next().is_none()).map(|(_, service)| service)
        };
        self.services.get(key).or_else(named).or_else(begun)
    }

    pub fn service(&self, name: &str) -> &Value {
        &self.services[&self.id(name)]
    }

    /// `idmc`; another with each removal.
    fn id(&self, name: &str) -> String {
        format!("id{name}{}", "x".repeat(self.removed.get(name).copied().unwrap_or(0)))
    }

    pub fn replicas(&self, name: &str) -> u64 {
        replicas(&self.service(name)["Spec"])
    }

    pub fn version(&self, name: &str) -> u64 {
        self.service(name)["Version"]["Index"].as_u64().expect("a version")
    }

    /// Somebody else changes the spec; tasks do not follow.
    pub fn edit(&mut self, name: &str, act: impl FnOnce(&mut Value)) {
        self.index += 1;
        let (index, now) = (self.index, self.now());
        let id = self.id(name);
        let service = self.services.get_mut(&id).expect("the service is there");
        act(&mut service["Spec"]);
        service["Version"]["Index"] = index.into();
        service["UpdatedAt"] = now.into();
    }

    /// What Swarm says of the last update of the service.
    pub fn update_status(&mut self, name: &str, state: &str, message: &str) {
        let id = self.id(name);
        let service = self.services.get_mut(&id).expect("the service is there");
        service["UpdateStatus"] = json!({"State": state, "Message": message});
    }

    /// A new task of the service, in this state and wanted so. Gives back its id.
    pub fn add_task(&mut self, name: &str, state: &str, desired: &str) -> String {
        self.made += 1;
        let (id, now) = (format!("task{}", self.made), self.now());
        let template = self.service(name)["Spec"]["TaskTemplate"].clone();
        self.tasks.push(json!({
            "ID": id, "Version": {"Index": self.index}, "CreatedAt": now, "UpdatedAt": now,
            "ServiceID": self.id(name), "Slot": 1, "NodeID": "n1",
            "Spec": {
                "ContainerSpec": {"Image": template["ContainerSpec"]["Image"]}, "ForceUpdate": template["ForceUpdate"],
                "RestartPolicy": {"Condition": "any", "Delay": 5_000_000_000_u64, "MaxAttempts": 0},
            },
            "Status": {"Timestamp": now, "State": state, "Message": state,
                "ContainerStatus": {"ContainerID": format!("c{}", self.made), "PID": 0, "ExitCode": 0}},
            "DesiredState": desired,
            "NetworksAttachments": [{"Network": {"ID": "net1", "Spec": {"Name": "games"}}, "Addresses": [format!("10.9.0.{}/24", self.made)]}],
        }));
        id
    }

    /// The newest task of the service.
    pub fn task(&mut self, name: &str) -> &mut Value {
        let id = self.id(name);
        self.tasks.iter_mut().rfind(|task| task["ServiceID"] == id.as_str()).expect("it has a task")
    }

    /// The newest task of the service comes into this state.
    pub fn reach(&mut self, name: &str, state: &str) {
        self.task(name)["Status"]["State"] = state.into();
    }

    /// The next call that begins so fails.
    pub fn fail(&mut self, call: &str, fault: Fault) {
        self.faults.push((call.to_owned(), fault));
    }

    /// All calls that begin so are refused as by a socket proxy.
    pub fn forbid(&mut self, call: &str) {
        self.forbidden.push(call.to_owned());
    }

    pub fn allow_all(&mut self) {
        self.forbidden.clear();
    }

    pub(super) fn take_fault(&mut self, request: &Request) -> Option<Fault> {
        let call = request.call();
        self.calls.push(call.clone());
        if self.forbidden.iter().any(|forbidden| call.starts_with(forbidden.as_str())) {
            return Some(Fault::Status(403, "Forbidden".into()));
        }
        let found = self.faults.iter().position(|(prefix, _)| call.starts_with(prefix.as_str()))?;
        Some(self.faults.remove(found).1)
    }

    pub(super) fn answer(&mut self, request: &Request) -> Reply {
        let parts: Vec<&str> = request.path.split('/').skip(1).collect();
        if self.alone && matches!(parts.first(), Some(&("services" | "tasks" | "nodes"))) {
            return error(
                503,
                "This node is not a swarm manager. Use \"docker swarm init\" or \"docker swarm join\"",
            );
        }
        match (request.method.as_str(), parts.as_slice()) {
            ("GET", ["services"]) => {
                (200, json!(self.services.values().collect::<Vec<_>>()).to_string(), None)
            }
            ("GET", ["services", id]) => {
                let Some(service) = self.find(id).cloned() else { return not_found(id) };
                if self.interfere > 0 {
                    self.interfere -= 1;
                    let name = service["Spec"]["Name"].as_str().expect("a name").to_owned();
                    self.edit(&name, |spec| spec["Labels"]["changed"] = "again".into());
                }
                (200, service.to_string(), None)
            }
            ("POST", ["services", id, "update"]) => self.update(id, request),
            ("GET", ["tasks", id, "logs"]) => self.logs(id, request),
            ("GET", ["tasks"]) => self.list_tasks(request.asks("filters")),
            ("GET", ["nodes"]) => {
                let mut nodes = vec![
                    json!({"ID": "n1", "Spec": {"Availability": "active"}, "Status": {"State": "ready"}}),
                ];
                nodes.extend(self.nodes.iter().cloned());
                (200, json!(nodes).to_string(), None)
            }
            ("GET", ["distribution", words @ .., "json"]) => self.ask_registry(&words.join("/"), request),
            (_, ["containers", words @ ..]) => self.answer_about_containers(request, words),
            _ => {
                self.complaints.push(format!("unexpected call: {}", request.call()));
                error(404, "page not found")
            }
        }
    }

    /// What it has said since the time asked for, framed as without a terminal.
    pub(super) fn logs(&self, id: &str, request: &Request) -> Reply {
        let since: f64 = request.asks("since").map_or(0.0, |since| since.parse().expect("seconds"));
        let since = SignedDuration::from_secs_f64(since);
        let said = self.said.get(id).into_iter().flatten();
        let said = said.filter(|(at, _)| at.duration_since(Timestamp::UNIX_EPOCH) >= since);
        let lines = said.map(|(_, line)| {
            let length = u8::try_from(line.len() + 1).expect("a short line");
            assert!(length < 128, "a length of one byte in UTF-8");
            format!("\u{1}\0\0\0\0\0\0{}{line}\n", char::from(length))
        });
        (200, lines.collect(), None)
    }

    fn list_tasks(&self, filters: Option<&str>) -> Reply {
        let filters: Value =
            filters.map_or(json!({}), |text| serde_json::from_str(text).expect("filters are JSON"));
        let wanted: Option<Vec<&str>> =
            filters["service"].as_array().map(|ids| ids.iter().filter_map(Value::as_str).collect());
        if let Some(id) = wanted.iter().flatten().find(|id| !self.services.contains_key(**id)) {
            return not_found(id);
        }
        let of_wanted =
            |task: &&Value| wanted.as_ref().is_none_or(|ids| ids.iter().any(|id| task["ServiceID"] == **id));
        (200, json!(self.tasks.iter().filter(of_wanted).collect::<Vec<_>>()).to_string(), None)
    }

    fn update(&mut self, id: &str, request: &Request) -> Reply {
        let Some(version) = request.asks("version") else { return error(400, "invalid service version ''") };
        let Some(before) = self.services.get(id).cloned() else { return not_found(id) };
        if before["Version"]["Index"].as_u64() != version.parse().ok() {
            return error(500, "rpc error: code = Unknown desc = update out of sequence");
        }
        let Ok(spec) = serde_json::from_str::<Value>(&request.body) else { return error(400, "not JSON") };
        let auth = registry_auth(request);
        if auth.is_none() != (request.asks("registryAuthFrom") == Some("spec")) {
            self.complaints
                .push("the registry's credentials would be lost, or are not those that were sent".into());
        }
        self.auths.extend(auth);
        if self.without_counts(&spec) != self.without_counts(&before["Spec"]) {
            self.complaints.push(format!("more than the counts was changed: {}", request.body));
        }
        let name = before["Spec"]["Name"].as_str().expect("a name").to_owned();
        self.updates.push(request.body.clone());
        self.edit(&name, |current| *current = spec.clone());
        self.services.get_mut(id).expect("the service is there")["UpdateStatus"] = Value::Null;
        self.follow(&name, &before["Spec"], &spec);
        if self.interfere_after_writes > 0 {
            self.interfere_after_writes -= 1;
            self.edit(&name, |spec| spec["Labels"]["changed"] = "again".into());
        }
        (200, json!({"Warnings": null}).to_string(), Some(name))
    }

    fn ask_registry(&self, reference: &str, request: &Request) -> Reply {
        let reference = reference.replace("%3A", ":");
        if reference == "-" {
            return error(400, "invalid reference format");
        }
        let may = self.password.as_ref().is_none_or(|password| {
            registry_auth(request).is_some_and(|auth| auth["password"] == password.as_str())
        });
        match self.registry.get(&reference).filter(|_| may) {
            Some(digest) => {
                (200, json!({"Descriptor": {"digest": digest}, "Platforms": []}).to_string(), None)
            }
            None => error(403, &format!("errors: denied: requested access to {reference} is denied")),
        }
    }

    /// A spec without what a client may change of it.
    fn without_counts(&self, spec: &Value) -> Value {
        let mut spec = spec.clone();
        spec["Mode"]["Replicated"]["Replicas"] = Value::Null;
        spec["TaskTemplate"]["ForceUpdate"] = Value::Null;
        if self.may_update_images {
            spec["TaskTemplate"]["ContainerSpec"]["Image"] = Value::Null;
        }
        spec
    }

    /// As Swarm's orchestrator does: ended tasks keep it from making another until `ForceUpdate` is raised.
    fn follow(&mut self, name: &str, before: &Value, after: &Value) {
        let forced = before["TaskTemplate"]["ForceUpdate"] != after["TaskTemplate"]["ForceUpdate"];
        let image = |spec: &Value| spec["TaskTemplate"]["ContainerSpec"]["Image"].clone();
        let id = self.id(name);
        let (mut dead, mut live) = (0, 0);
        for task in self.tasks.iter_mut().filter(|task| task["ServiceID"] == id.as_str()) {
            let ended = task["Status"]["State"].as_str().is_none_or(|state| NOT_RUNNING.contains(&state));
            if ended {
                dead += 1;
            } else if replicas(after) == 0 {
                task["DesiredState"] = "remove".into();
            } else if image(before) != image(after) {
                task["DesiredState"] = "shutdown".into();
            } else {
                live += 1;
            }
        }
        let woken = replicas(before) == 0 && (dead < 2 || forced);
        if replicas(after) > 0 && live == 0 && (woken || forced || image(before) != image(after)) {
            self.add_task(name, "pending", "running");
        }
    }

    pub(super) fn now(&self) -> String {
        (Timestamp::now() + self.clock_ahead).to_string()
    }
}

fn replicas(spec: &Value) -> u64 {
    spec["Mode"]["Replicated"]["Replicas"].as_u64().unwrap_or(1)
}

fn not_found(id: &str) -> Reply {
    error(404, &format!("service {id} not found"))
}

pub(super) fn error(status: u16, message: &str) -> Reply {
    (status, json!({"message": message}).to_string(), None)
}

/// The credentials that came along (Engine API, "Authentication").
fn registry_auth(request: &Request) -> Option<Value> {
    let header = request.header("x-registry-auth")?;
    let bytes = URL_SAFE.decode(header).expect("base64 for URLs, padded");
    let auth: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert!(auth["serveraddress"].is_string() && auth["username"].is_string(), "{auth}");
    Some(auth)
}
