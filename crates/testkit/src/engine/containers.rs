//! Plain containers beside the Swarm: they are started and stopped as asked, and end only when told to.

use serde_json::{Value, json};

use super::swarm::{Reply, Swarm, error};
use crate::http::Request;

/// A container as it is inspected, with the labels given, stopped. Its id is `c` and its name.
pub fn container(name: &str, labels: &Value) -> Value {
    json!({
        "Id": format!("c{name}"), "Name": format!("/{name}"), "RestartCount": 0,
        "State": {"Status": "created", "ExitCode": 0, "OOMKilled": false, "Error": "",
            "StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z"},
        "Config": {"Labels": labels, "StopTimeout": 60, "Env": null},
        "HostConfig": {"NetworkMode": "games", "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}, "AutoRemove": false},
        "NetworkSettings": {"Ports": {}, "Networks": {"games": {"NetworkID": "net1", "IPAddress": "10.9.1.1", "GlobalIPv6Address": "", "Aliases": null}}},
    })
}

/// What the engine tells when a container gets a signal.
pub fn killed(name: &str, labels: &Value, signal: u8) -> Value {
    let mut attributes = labels.clone();
    attributes["signal"] = signal.to_string().into();
    let nanos = i64::try_from(jiff::Timestamp::now().as_nanosecond()).expect("a time of this century");
    json!({"Type": "container", "Action": "kill", "timeNano": nanos,
        "Actor": {"ID": format!("c{name}"), "Attributes": attributes}})
}

impl Swarm {
    /// As `docker create`.
    pub fn create_container(&mut self, container: Value) {
        let id = container["Id"].as_str().expect("a container has an id").to_owned();
        self.containers.insert(id, container);
    }

    pub fn container(&mut self, name: &str) -> &mut Value {
        self.containers.get_mut(&format!("c{name}")).expect("the container is there")
    }

    /// Somebody starts it.
    pub fn run_container(&mut self, name: &str) {
        let now = self.now();
        let state = &mut self.container(name)["State"];
        state["Status"] = "running".into();
        state["StartedAt"] = now.into();
    }

    /// It ends so.
    pub fn exit_container(&mut self, name: &str, code: i64) {
        let now = self.now();
        let state = &mut self.container(name)["State"];
        state["Status"] = "exited".into();
        state["ExitCode"] = code.into();
        state["FinishedAt"] = now.into();
    }

    /// `words` is the path after `/containers`.
    pub(super) fn answer_about_containers(&mut self, request: &Request, words: &[&str]) -> Reply {
        match (request.method.as_str(), words) {
            ("GET", ["json"]) => self.list_containers(request.asks("all") == Some("1")),
            ("GET", [id, "json"]) => match self.containers.get(*id) {
                Some(container) => (200, container.to_string(), None),
                None => no_such(id),
            },
            ("GET", [id, "logs"]) if self.containers.contains_key(*id) => self.logs(id, request),
            ("POST", [id, "start" | "stop" | "unpause"]) if !self.containers.contains_key(*id) => no_such(id),
            ("POST", [id, act @ ("start" | "stop" | "unpause")]) => {
                let name = id.trim_start_matches('c').to_owned();
                let seconds = request.asks("t").map(|seconds| format!(" {seconds}")).unwrap_or_default();
                self.acts.push(format!("{act} {name}{seconds}"));
                self.act(&name, act)
            }
            _ => {
                self.complaints.push(format!("unexpected call: {}", request.call()));
                error(404, "page not found")
            }
        }
    }

    fn list_containers(&self, all: bool) -> Reply {
        let shown = self.containers.values().filter(|one| all || one["State"]["Status"] == "running");
        let list: Vec<Value> = shown
            .map(|one| json!({"Id": one["Id"], "Names": [one["Name"]], "Labels": one["Config"]["Labels"], "State": one["State"]["Status"]}))
            .collect();
        (200, json!(list).to_string(), None)
    }

    fn act(&mut self, name: &str, act: &str) -> Reply {
        let status = self.container(name)["State"]["Status"].as_str().unwrap_or_default().to_owned();
        match (act, status.as_str()) {
            ("start", "running") => (304, String::new(), None),
            ("start", "paused") => error(409, "cannot start a paused container, try unpause instead"),
            ("start", _) => {
                self.run_container(name);
                (204, String::new(), None)
            }
            ("stop", "created" | "exited") => (304, String::new(), None),
            ("stop", _) => {
                self.exit_container(name, 143);
                (204, String::new(), None)
            }
            (_, "paused") => {
                self.container(name)["State"]["Status"] = "running".into();
                (204, String::new(), None)
            }
            _ => error(409, "it is not paused"),
        }
    }
}

fn no_such(id: &str) -> Reply {
    error(404, &format!("No such container: {id}"))
}
