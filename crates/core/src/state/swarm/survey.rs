//! A whole Swarm at one moment: from the engine's answers to the services that are the gate's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{self, Node, Task};
use super::network::{self, Choice};
use super::{Belief, Believed, Clocks, advice};
use crate::labels::{self, Labelled, Labels};
use crate::publish::{Published, Settings};
use crate::service::{Endpoint, Service, ServiceId, SourceId, Spec, State};
use crate::state::OwnNetwork;

pub const ID: SourceId = "swarm";

/// What the engine answered, as it came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    pub(super) services: Vec<Value>,
    pub(super) tasks: Vec<Value>,
    pub(super) nodes: Vec<Node>,
}

/// What the gate knows beside the Swarm itself.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// What services ask for whose labels do not say.
    pub defaults: &'a Spec,
    /// On which network to dial those that have no label about it.
    pub network: Option<&'a str>,
    /// The networks that the gate is on; `None` if it cannot tell.
    pub own: Option<&'a [OwnNetwork]>,
    pub clocks: Clocks,
}

/// One service with labels for the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    pub service: Service,
    pub id: String,
    pub version: u64,
    /// The ids of all its tasks that are listed.
    pub tasks: BTreeSet<String>,
    /// Those of them that were told to stop and have not, and when each is killed at the earliest.
    pub stopping: BTreeMap<String, Option<Timestamp>>,
    /// Those of them that were told to stop and were killed.
    pub killed: BTreeSet<String>,
    /// `None`: the answer was not understood.
    pub believed: Option<Believed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine's answer about {0} is not a list")]
pub struct NotAList(&'static str);

impl Survey {
    /// From the answers about all services, all tasks and all nodes; no nodes if they are not known.
    pub fn new(services: Value, tasks: Value, nodes: Vec<Node>) -> Result<Self, NotAList> {
        Ok(Self { services: list("services", services)?, tasks: list("tasks", tasks)?, nodes })
    }

    /// The services that have labels for the gate.
    pub fn services(&self, around: Surroundings<'_>) -> Vec<Surveyed> {
        let mut tasks: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for task in &self.tasks {
            tasks.entry(text(task, "/ServiceID")).or_default().push(task);
        }
        let ours = self.services.iter().filter_map(|service| {
            let tasks = tasks.get(text(service, "/ID")).map(Vec::as_slice).unwrap_or_default();
            self.service(service, tasks, around)
        });
        ours.collect()
    }

    /// What the services ask to be published. A Swarm's names for them are good on every network they are on.
    pub fn published(&self, defaults: &Settings) -> Vec<Published> {
        let published = self.services.iter().filter_map(|raw| {
            let name = text(raw, "/Spec/Name");
            let service = ServiceId::new(ID, name);
            let misplaced = labels(raw, "/Spec/TaskTemplate/ContainerSpec/Labels");
            let misplaced = labels::misplaced_publication(&misplaced);
            let read = labels::publish::parse(&labels(raw, "/Spec/Labels"), service.clone(), name, defaults);
            let nothing =
                Published { service, publications: Vec::new(), unclear: true, problems: Vec::new() };
            let mut published = read.or_else(|| (!misplaced.is_empty()).then_some(nothing))?;
            if let Some(why) = misplaced.first() {
                published.hold(why);
            }
            published.problems.extend(misplaced);
            Some(published)
        });
        published.collect()
    }

    /// The networks of the task whose container's id begins so, if it is a task of this Swarm.
    pub fn networks_of(&self, container: &str) -> Option<Vec<OwnNetwork>> {
        let task = Task::deserialize(self.task_of(container)?).ok()?;
        let networks = task.networks_attachments.into_iter().map(|attachment| attachment.network);
        Some(networks.map(|network| OwnNetwork { id: network.id, name: network.spec.name }).collect())
    }

    /// The ports at which Swarm's routing mesh publishes the service of the task in this container. Whoever
    /// comes through the mesh comes from an address of the mesh.
    pub fn mesh_ports_of(&self, container: &str) -> Vec<u64> {
        let service = self.task_of(container).map(|task| text(task, "/ServiceID"));
        let service = self.services.iter().find(|raw| service.is_some_and(|id| text(raw, "/ID") == id));
        let ports = service.and_then(|raw| raw.pointer("/Spec/EndpointSpec/Ports")?.as_array());
        let in_mesh = ports.into_iter().flatten().filter(|port| text(port, "/PublishMode") != "host");
        in_mesh.filter_map(|port| port.get("PublishedPort")?.as_u64()).collect()
    }

    fn task_of(&self, container: &str) -> Option<&Value> {
        let id = |task: &Value| text(task, "/Status/ContainerStatus/ContainerID").starts_with(container);
        self.tasks.iter().find(|task| id(task))
    }

    /// Why a task of a service that was removed may still run on the world of one that has its name now.
    pub fn may_still_run(&self, removed: &str, now: Timestamp) -> Option<String> {
        let of_it = self.tasks.iter().filter(|task| text(task, "/ServiceID") == removed);
        let Ok(tasks) = of_it.map(Task::deserialize).collect::<Result<Vec<_>, _>>() else {
            return Some("a task of the service that had its name before is not understood".into());
        };
        let mode = [("Replicated".to_owned(), json!({"Replicas": 0}))].into();
        let spec = api::ServiceSpec { mode, ..Default::default() };
        let service = api::Service { id: removed.to_owned(), spec, ..Default::default() };
        let believed = super::of_both(&service, &tasks, &self.nodes, now);
        let why = believed.may_still_run(now)?;
        Some(format!("a service of its name was removed: {why}"))
    }

    fn service(&self, raw: &Value, tasks: &[&Value], around: Surroundings<'_>) -> Option<Surveyed> {
        let written = labels::parse(&labels(raw, "/Spec/Labels"), around.defaults);
        let misplaced = labels::misplaced(&labels(raw, "/Spec/TaskTemplate/ContainerSpec/Labels"));
        let is_labelled = written.is_some();
        let mut labelled = match written {
            Some(labelled) => labelled,
            None if misplaced.is_empty() => return None,
            None => unlabelled(around.defaults),
        };
        labelled.problems.extend(misplaced);
        if labelled.grace.is_some() {
            labelled.problems.push(
                "swarmgate.grace: Swarm stops its services itself; write stop_grace_period instead"
                    .to_owned(),
            );
        }
        if labelled.spec.hosts.is_empty() && !labelled.spec.default {
            // Nobody could wake it again.
            labelled.spec.sleep = false;
        }
        let judged = self.judge(raw, tasks, &labelled, around);
        let Judged { believed, state, stopping, killed, problems } =
            judged.unwrap_or_else(Judged::not_understood);
        labelled.problems.extend(problems);
        // Of several replicas none may be stopped for want of players on another.
        let one_at_most = |believed: &Believed| believed.replicas.is_some_and(|replicas| replicas < 2);
        Some(Surveyed {
            id: text(raw, "/ID").to_owned(),
            version: raw.pointer("/Version/Index").and_then(Value::as_u64).unwrap_or_default(),
            tasks: tasks.iter().map(|task| text(task, "/ID").to_owned()).collect(),
            stopping,
            killed,
            service: Service {
                id: ServiceId::new(ID, text(raw, "/Spec/Name")),
                spec: Arc::new(labelled.spec),
                state: state?,
                scalable: is_labelled && believed.as_ref().is_none_or(one_at_most),
                problems: labelled.problems,
            },
            believed,
        })
    }

    fn judge(
        &self,
        raw: &Value,
        tasks: &[&Value],
        labelled: &Labelled,
        around: Surroundings<'_>,
    ) -> Result<Judged, serde_json::Error> {
        let service = api::Service::deserialize(raw)?;
        let tasks = tasks.iter().map(|task| Task::deserialize(*task)).collect::<Result<Vec<_>, _>>()?;
        let now = around.clocks.wall;
        let believed = super::of_both(&service, &tasks, &self.nodes, now);
        let mut problems = believed.problems.clone();
        let endpoints = endpoints(&believed, &service, labelled, around).unwrap_or_else(|problem| {
            problems.push(problem);
            Vec::new()
        });
        problems.extend(advice::of(&service.spec, labelled.port));
        let mut state = believed.state(endpoints, around.clocks);
        if state == Some(State::Asleep) && believed.may_still_run(now).is_some() {
            // A start must wait, so players wait as for any stop.
            state = Some(State::Stopping);
        }
        let stopping = tasks.iter().filter(|task| task.is_stopping());
        let stopping = stopping.map(|task| (task.id.clone(), task.killed_from())).collect();
        let killed = tasks.iter().filter(|task| task.was_killed()).map(|task| task.id.clone()).collect();
        Ok(Judged { believed: Some(believed), state, stopping, killed, problems })
    }
}

struct Judged {
    believed: Option<Believed>,
    state: Option<State>,
    stopping: BTreeMap<String, Option<Timestamp>>,
    killed: BTreeSet<String>,
    problems: Vec<String>,
}

impl Judged {
    fn not_understood(why: serde_json::Error) -> Self {
        let reason = format!("the engine's answer about it is not understood: {why}");
        Self {
            believed: None,
            state: Some(State::Unknown { reason }),
            stopping: BTreeMap::new(),
            killed: BTreeSet::new(),
            problems: Vec::new(),
        }
    }
}

impl Surveyed {
    /// The task that runs.
    pub fn run(&self) -> Option<&str> {
        Some(&self.believed.as_ref()?.instance.as_ref()?.task)
    }

    /// The task that runs, or that a node is starting.
    pub fn run_or_start(&self) -> Option<&str> {
        self.run().or_else(|| self.believed.as_ref()?.starting.as_deref())
    }
}

fn endpoints(
    believed: &Believed,
    service: &api::Service,
    labelled: &Labelled,
    around: Surroundings<'_>,
) -> Result<Vec<Endpoint>, String> {
    let Some(instance) = believed.instance.as_ref().filter(|_| believed.belief == Belief::Running) else {
        return Ok(Vec::new());
    };
    let choice = Choice { asked: labelled.network.as_deref().or(around.network), own: around.own };
    network::endpoints(instance, &service.spec, choice, labelled.port)
}

/// Its labels stand where they do not count: it is shown with its problems, and left alone.
fn unlabelled(defaults: &Spec) -> Labelled {
    let spec = Spec { wake: false, ..defaults.clone() };
    let port = crate::config::value::MINECRAFT_PORT;
    Labelled { spec, port, network: None, grace: None, problems: Vec::new() }
}

fn list(what: &'static str, value: Value) -> Result<Vec<Value>, NotAList> {
    match value {
        Value::Array(list) => Ok(list),
        // Go writes an empty list as null.
        Value::Null => Ok(Vec::new()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => Err(NotAList(what)),
    }
}

pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn labels(raw: &Value, pointer: &str) -> Labels {
    let labels = raw.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::moment::Moment;

    const NOW: &str = "2026-01-01T12:00:00Z";

    pub fn service(name: &str, replicas: u64, labels: Value) -> Value {
        json!({"ID": format!("id-{name}"), "Version": {"Index": 7}, "UpdatedAt": "2026-01-01T11:00:00Z",
            "Spec": {"Name": name, "Labels": labels, "Mode": {"Replicated": {"Replicas": replicas}},
                "TaskTemplate": {"ContainerSpec": {"StopGracePeriod": 60_000_000_000_i64}}}})
    }

    pub fn task(service: &str, state: &str, desired: &str) -> Value {
        json!({"ID": format!("t-{service}"), "ServiceID": format!("id-{service}"), "NodeID": "n1", "Slot": 1,
            "CreatedAt": "2026-01-01T11:00:00Z", "UpdatedAt": "2026-01-01T11:59:00Z",
            "Status": {"State": state, "ContainerStatus": {"ContainerID": format!("c-{service}")}},
            "DesiredState": desired,
            "NetworksAttachments": [{"Network": {"ID": "net", "Spec": {"Name": "mc"}}, "Addresses": ["10.0.1.5/24"]}]})
    }

    fn survey(services: Value, tasks: Value, own: Option<&[OwnNetwork]>) -> Vec<Surveyed> {
        let survey = Survey::new(services, tasks, Vec::new()).unwrap();
        let clocks = Clocks { moment: Moment::START, wall: NOW.parse().unwrap() };
        survey.services(Surroundings { defaults: &Spec::default(), network: None, own, clocks })
    }

    pub fn one(service: Value, tasks: Value) -> Surveyed {
        let mut found = survey(json!([service]), tasks, None);
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    pub fn host() -> Value {
        json!({"swarmgate.host": "mc.example"})
    }

    #[test]
    fn only_labelled_services_are_ours() {
        let services =
            json!([service("web", 1, json!({"traefik.enable": "true"})), service("mc", 0, host())]);
        let found = survey(services, json!(null), None);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].service.id.to_string(), "swarm/mc");
        assert_eq!((found[0].service.state.clone(), found[0].service.scalable), (State::Asleep, true));
        assert_eq!((found[0].version, found[0].service.problems.len()), (7, 0));
    }

    #[test]
    fn what_is_only_published_is_no_game_server() {
        let web = json!({"swarmgate.publish.host": "a.example.com", "swarmgate.publish.port": "80"});
        let mut hidden = service("hidden", 1, json!({}));
        hidden["Spec"]["TaskTemplate"]["ContainerSpec"]["Labels"] = web.clone();
        let mut half = service("half", 1, web.clone());
        half["Spec"]["TaskTemplate"]["ContainerSpec"]["Labels"] =
            json!({"swarmgate.publish.access": "staff"});
        let services = json!([service("shop_web", 0, web), service("mc", 0, host()), hidden, half]);
        let games = survey(services.clone(), json!(null), None);
        assert_eq!(games.iter().map(|game| &*game.service.id.name).collect::<Vec<_>>(), ["mc"]);
        assert!(games[0].service.problems.is_empty());
        let published =
            Survey::new(services, json!(null), Vec::new()).unwrap().published(&Settings::default());
        let [web, hidden, half] = published.as_slice() else { panic!("{published:?}") };
        assert_eq!(web.publications[0].target.as_ref().unwrap().to_string(), "shop_web:80");
        assert!(web.problems.is_empty() && hidden.publications.is_empty());
        assert!(half.unclear && half.publications[0].held.is_some(), "{half:?}");
        assert!(hidden.problems[0].contains("move it to the service"), "{:?}", hidden.problems);
    }

    #[test]
    fn a_running_one_is_dialled_at_its_task() {
        let found = one(service("mc", 1, host()), json!([task("mc", "running", "running")]));
        let State::Running(running) = &found.service.state else { panic!("{:?}", found.service.state) };
        assert_eq!((&*running.run, running.endpoints[0].to_string()), ("t-mc", "10.0.1.5:25565".into()));
        assert_eq!(found.run(), Some("t-mc"));
    }

    #[test]
    fn what_is_on_a_node_has_output_before_it_runs() {
        for (state, run) in [("pending", None), ("starting", Some("t-mc")), ("running", Some("t-mc"))] {
            let found = one(service("mc", 1, host()), json!([task("mc", state, "running")]));
            assert_eq!(found.run_or_start(), run, "{state}");
        }
        let held = one(service("mc", 1, host()), json!([task("mc", "ready", "ready")]));
        assert_eq!(held.run_or_start(), None, "it has not begun");
    }

    #[test]
    fn without_a_shared_network_it_runs_nowhere_and_says_so() {
        let elsewhere = [OwnNetwork { id: "o".into(), name: "other".into() }];
        let services = json!([service("mc", 1, host())]);
        let found = survey(services, json!([task("mc", "running", "running")]), Some(&elsewhere));
        assert!(matches!(&found[0].service.state, State::Running(running) if running.endpoints.is_empty()));
        assert!(found[0].service.problems[0].contains("on none of its networks (mc), but on: other"));
    }

    #[test]
    fn what_is_not_understood_is_unknown_and_only_that() {
        let mut odd = service("odd", 1, host());
        odd["Spec"]["TaskTemplate"] = json!("?");
        let mut strange = task("strange", "running", "running");
        strange["Status"] = json!(3);
        let services = json!([odd, service("strange", 1, host()), service("mc", 0, host())]);
        let states = survey(services, json!([strange]), None);
        let words: Vec<_> = states.iter().map(|found| found.service.state.word()).collect();
        assert_eq!(words, ["unknown", "unknown", "asleep"]);
    }

    #[test]
    fn labels_on_the_container_are_reported_and_the_service_is_left_alone() {
        let mut wrong = service("mc", 1, json!({}));
        wrong["Spec"]["TaskTemplate"]["ContainerSpec"]["Labels"] = host();
        let found = one(wrong, json!([task("mc", "running", "running")])).service;
        assert!(found.problems[0].contains("move it to the service"), "{:?}", found.problems);
        assert_eq!((found.scalable, found.spec.sleep, found.spec.wake), (false, false, false));
    }

    #[test]
    fn ports_in_the_mesh_are_found_and_ports_of_the_host_are_not() {
        let mut gate = service("gate", 1, json!({}));
        gate["Spec"]["EndpointSpec"] = json!({"Ports": [
            {"TargetPort": 25565, "PublishedPort": 25565, "PublishMode": "ingress"},
            {"TargetPort": 9250, "PublishedPort": 9250, "PublishMode": "host"},
        ]});
        let mut own = task("gate", "running", "running");
        own["Status"]["ContainerStatus"] = json!({"ContainerID": "abcdef0123456789"});
        own["ServiceID"] = gate["ID"].clone();
        let survey = Survey::new(json!([gate]), json!([own]), Vec::new()).unwrap();
        assert_eq!(survey.mesh_ports_of("abcdef"), [25_565]);
        assert_eq!(survey.mesh_ports_of("999"), Vec::<u64>::new(), "the gate runs elsewhere");
    }

    #[test]
    fn what_nobody_could_wake_is_not_put_to_sleep() {
        let found = one(service("mc", 1, json!({"swarmgate.port": "25566"})), json!([])).service;
        assert!(!found.spec.sleep);
    }

    #[test]
    fn several_replicas_are_routed_and_left_alone() {
        let found = one(service("mc", 2, host()), json!([task("mc", "running", "running")])).service;
        assert!(!found.scalable);
        assert!(matches!(found.state, State::Running(_)));
    }

    #[test]
    fn while_a_copy_may_run_on_a_lost_node_players_wait_as_for_a_stop() {
        let down = vec![serde_json::from_value(json!({"ID": "n1", "Status": {"State": "down"}})).unwrap()];
        let tasks = json!([task("mc", "running", "remove")]);
        let survey = Survey::new(json!([service("mc", 0, host())]), tasks, down).unwrap();
        for (wall, state) in [(NOW, State::Stopping), ("2026-01-01T12:09:00Z", State::Asleep)] {
            let clocks = Clocks { moment: Moment::START, wall: wall.parse().unwrap() };
            let around = Surroundings { defaults: &Spec::default(), network: None, own: None, clocks };
            assert_eq!(survey.services(around)[0].service.state, state, "{wall}");
        }
    }

    #[test]
    fn tasks_outlive_their_service() {
        let tasks = json!([task("old", "running", "remove"), task("gone", "shutdown", "remove")]);
        let survey = Survey::new(json!([]), tasks, vec![]).unwrap();
        let now = NOW.parse().unwrap();
        let why = survey.may_still_run("id-old", now).unwrap();
        assert!(why.contains("was removed: its old task is still stopping"), "{why}");
        assert_eq!((survey.may_still_run("id-gone", now), survey.may_still_run("id-mc", now)), (None, None));
    }

    #[test]
    fn the_gates_own_task_tells_its_networks() {
        let survey = Survey::new(json!([]), json!([task("gate", "running", "running")]), vec![]).unwrap();
        assert_eq!(
            survey.networks_of("c-gate"),
            Some(vec![OwnNetwork { id: "net".into(), name: "mc".into() }])
        );
        assert_eq!(survey.networks_of("c-other"), None);
        assert!(Survey::new(json!({"message": "x"}), json!([]), vec![]).is_err());
    }
}
