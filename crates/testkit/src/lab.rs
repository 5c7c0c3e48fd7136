//! Real Docker Engines in Swarm mode, private to one test.
//!
//! Each node is a bundle of namespaces with an engine of its own, on a network that leads nowhere: the machine's own
//! engine, its firewall and its interfaces are never touched, and no image can be pulled. All of it ends with
//! the [`Lab`], and with the test's process if that is killed.
//!
//! ```no_run
//! # async fn example() {
//! use swarmgate_testkit::lab::Lab;
//!
//! let Some(lab) = Lab::start(1).await else { return };
//! lab.testserver_image("testserver").await;
//! lab.docker("network create --driver overlay minecraft").await;
//! lab.docker("service create --detach --name survival --network minecraft testserver").await;
//! lab.until_running("survival").await;
//! // Sockets of this thread are the node's from here on, until the guard is dropped.
//! let _inside = lab.node(1).enter();
//! # }
//! ```

mod image;
mod node;
mod socket;

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

pub use image::static_program;
pub use node::{Inside, Node};
pub use socket::{Answer, request};

use crate::peers;
use crate::process::Signal;
use node::Switch;

/// How long anything in a lab may take. A node that went silent is noticed by the others after 11 to 14 s.
pub const LIMIT: Duration = Duration::from_secs(180);

const PREFIX: &str = "swarmgate-lab-";

/// A Swarm of one manager (node 1) and any number of workers, or of managers alone.
#[derive(Debug)]
pub struct Lab {
    // In this order: the nodes end before what they stand on.
    nodes: Vec<Node>,
    /// The number of the one that is asked.
    manager: usize,
    switch: Switch,
    directory: TempDir,
}

impl Lab {
    /// A Swarm of so many nodes, all of them ready. `None`, and it says why, where there can be none; with `CI=true`
    /// that is a failure.
    ///
    /// # Panics
    /// When the engines do not start or do not find each other.
    pub async fn start(nodes: usize) -> Option<Self> {
        Self::start_with(nodes, "Worker").await
    }

    /// The same, and every node is a manager. Node 1 leads them and is the one that is asked.
    ///
    /// # Panics
    /// As [`Lab::start`].
    pub async fn start_managers(nodes: usize) -> Option<Self> {
        Self::start_with(nodes, "Manager").await
    }

    async fn start_with(nodes: usize, others: &str) -> Option<Self> {
        if let Err(why) = possible() {
            peers::skip(&why);
            return None;
        }
        sweep();
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir().expect("a directory");
        let switch = Switch::start();
        let nodes = (1..=nodes).map(|number| Node::start(number, directory.path(), &switch)).collect();
        let mut lab = Self { nodes, manager: 1, switch, directory };
        for node in &mut lab.nodes {
            node.launch();
        }
        for node in &mut lab.nodes {
            node.until_up().await;
        }
        lab.form_swarm(others).await;
        Some(lab)
    }

    async fn form_swarm(&self, others: &str) {
        let first = self.node(1);
        let listen = |node: &Node| format!("{}:2377", node.address());
        let init = json!({"ListenAddr": listen(first), "AdvertiseAddr": listen(first)});
        first.post("/swarm/init", &init).await.success();
        for node in &self.nodes[1..] {
            let tokens = first.get("/swarm").await;
            let join = json!({
                "ListenAddr": listen(node),
                "AdvertiseAddr": listen(node),
                "RemoteAddrs": [listen(first)],
                "JoinToken": tokens["JoinTokens"][others],
            });
            node.post("/swarm/join", &join).await.success();
        }
        self.until("all nodes ready", async || {
            let nodes = self.get("/nodes").await;
            let ready = nodes.as_array()?.iter().filter(|node| node["Status"]["State"] == "ready").count();
            (ready == self.nodes.len()).then_some(())
        })
        .await;
    }

    /// From now on, this manager is asked.
    pub fn ask_through(&mut self, number: usize) {
        self.manager = number;
    }

    pub fn manager(&self) -> &Node {
        self.node(self.manager)
    }

    /// By its number.
    pub fn node(&self, number: usize) -> &Node {
        &self.nodes[number - 1]
    }

    pub fn node_mut(&mut self, number: usize) -> &mut Node {
        &mut self.nodes[number - 1]
    }

    /// A directory that all nodes and the test see under the same path: for worlds and configurations.
    pub fn shared(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join("shared").join(name);
        fs::create_dir_all(&path).expect("a directory");
        path
    }

    /// Unplugs a node's network cable.
    pub async fn cut(&self, number: usize) {
        self.switch.set_port(number, "down");
    }

    /// Plugs it in again.
    pub async fn heal(&self, number: usize) {
        self.switch.set_port(number, "up");
    }

    /// Runs `docker` on the manager with these words, split at blanks; its output.
    ///
    /// # Panics
    /// When it fails.
    pub async fn docker(&self, words: &str) -> String {
        let words: Vec<&str> = words.split_whitespace().collect();
        self.run(self.command("docker").args(words)).await
    }

    /// Runs a command to its end; its output.
    ///
    /// # Panics
    /// When it fails.
    pub async fn run(&self, command: &mut Command) -> String {
        node::output(command).await
    }

    /// A command of the machine that finds the manager's engine as `docker` does.
    pub fn command(&self, program: &str) -> Command {
        self.manager().command(program)
    }

    /// What the manager's API answers to a GET.
    ///
    /// # Panics
    /// When that is not JSON, or an error.
    pub async fn get(&self, path: &str) -> Value {
        self.manager().get(path).await
    }

    pub async fn service(&self, name: &str) -> Value {
        self.get(&format!("/services/{name}")).await
    }

    /// Moves with every write to the service, by whomever.
    pub async fn version(&self, name: &str) -> u64 {
        self.service(name).await["Version"]["Index"].as_u64().expect("a version")
    }

    /// All tasks that Swarm still lists of a service, the newest first; none if there is no such service.
    pub async fn tasks(&self, service: &str) -> Vec<Value> {
        let filter = format!("/tasks?filters=%7B%22service%22%3A%5B%22{service}%22%5D%7D");
        let Answer { status: 200, body } = self.manager().ask("GET", &filter, None).await else {
            return vec![];
        };
        let Value::Array(mut tasks) = body else { panic!("no list: {body}") };
        tasks.sort_by(|a, b| b["CreatedAt"].as_str().cmp(&a["CreatedAt"].as_str()));
        tasks
    }

    /// The tasks as `state/desired`, the newest first.
    pub async fn states(&self, service: &str) -> Vec<String> {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let state =
            |task: &Value| format!("{}/{}", word(&task["Status"]["State"]), word(&task["DesiredState"]));
        self.tasks(service).await.iter().map(state).collect()
    }

    /// The newest task, once it runs and is meant to.
    pub async fn until_running(&self, service: &str) -> Value {
        self.until_tasks(service, "a running task", |tasks| {
            tasks.iter().find(|task| is(task, "running", "running")).cloned()
        })
        .await
    }

    /// Once nothing of it runs or is about to.
    pub async fn until_at_rest(&self, service: &str) {
        self.until_tasks(service, "the end of all tasks", |tasks| tasks.iter().all(has_ended).then_some(()))
            .await;
    }

    /// What `look` finds among the tasks, as soon as it does.
    ///
    /// # Panics
    /// When it does not within [`LIMIT`].
    pub async fn until_tasks<T>(
        &self,
        service: &str,
        what: &str,
        mut look: impl FnMut(&[Value]) -> Option<T>,
    ) -> T {
        self.until(&format!("{what} of {service}"), async || look(&self.tasks(service).await)).await
    }

    /// As [`crate::wait::until`], but asks seldom enough for an engine to get on with its work. When it gives up, it
    /// tells all tasks.
    ///
    /// # Panics
    /// When there is no answer within [`LIMIT`].
    pub async fn until<T>(&self, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
        let give_up = Instant::now() + LIMIT;
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            if Instant::now() > give_up {
                panic!("waited {LIMIT:?} for {what}; the tasks:\n{}", self.all_tasks().await);
            }
            sleep(Duration::from_millis(40)).await;
        }
    }

    async fn all_tasks(&self) -> String {
        let (services, tasks) = (self.get("/services").await, self.get("/tasks").await);
        let name = |id: &Value| {
            let services = services.as_array().into_iter().flatten();
            services
                .filter(|service| service["ID"] == *id)
                .map(|service| service["Spec"]["Name"].clone())
                .next()
        };
        let line = |task: &Value| {
            let service = name(&task["ServiceID"]).unwrap_or_else(|| task["ServiceID"].clone());
            format!(
                "{service}: {} of {}: {}\n",
                task["Status"]["State"], task["DesiredState"], task["Status"]["Err"]
            )
        };
        tasks.as_array().into_iter().flatten().map(line).collect()
    }

    /// Ends the manager's engine with this signal and starts it again. Its containers end with it.
    pub async fn restart_engine(&mut self, signal: Signal) {
        let manager = self.manager;
        self.node_mut(manager).stop_engine(signal).await;
        self.node_mut(manager).start_engine().await;
    }
}

/// Whether a task's state and desired state are these.
pub fn is(task: &Value, state: &str, desired: &str) -> bool {
    task["Status"]["State"] == state && task["DesiredState"] == desired
}

/// The container of a task that has one.
///
/// # Panics
/// When it has none.
pub fn container(task: &Value) -> String {
    let id = task["Status"]["ContainerStatus"]["ContainerID"].as_str();
    id.unwrap_or_else(|| panic!("no container: {task}")).to_owned()
}

/// Its address on the network it was attached to last: the only one, if no port is published.
///
/// # Panics
/// When it has none.
pub fn task_address(task: &Value) -> IpAddr {
    let networks = task["NetworksAttachments"].as_array();
    let address = networks.and_then(|networks| networks.last()?["Addresses"][0].as_str()?.split('/').next());
    address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no address: {task}"))
}

/// Whether a task has come to its end, whatever that was.
pub fn has_ended(task: &Value) -> bool {
    let state = task["Status"]["State"].as_str().unwrap_or_default();
    matches!(state, "complete" | "shutdown" | "failed" | "rejected" | "remove" | "orphaned")
}

/// Whether a lab can be made here, or why not.
fn possible() -> Result<(), String> {
    if !rustix::process::getuid().is_root() {
        return Err("only root can start a Docker Engine of its own".into());
    }
    for program in ["dockerd", "docker", "iptables", "ip", "unshare", "nsenter"] {
        if !is_in_path(program) {
            return Err(format!("{program} not found; ./scripts/test installs it"));
        }
    }
    let namespaces =
        std::process::Command::new("unshare").args(["--net", "--mount", "--pid", "--fork", "true"]).output();
    match namespaces {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            Err(format!("no namespaces here: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
        }
        Err(error) => Err(format!("unshare: {error}")),
    }
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(program).exists())
}

/// Removes what killed tests left behind: files and empty control groups, nothing that lives.
fn sweep() {
    let is_left_over = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists())
    };
    for path in entries(&std::env::temp_dir()).filter(|path| is_left_over(path)) {
        _ = fs::remove_dir_all(path);
    }
    for path in
        node::control_group_roots().iter().flat_map(|root| entries(root)).filter(|path| is_left_over(path))
    {
        node::remove_control_group(&path);
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}
