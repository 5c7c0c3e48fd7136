//! One node of a lab: its namespaces, the engine in them, and its network cable.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::LIMIT;
use super::socket::{Answer, request};
use crate::process::Signal;

/// What the first process of a node does. Arguments: the host name, the data directory.
///
/// It ends when its standard input does, that is with the test's process, and the kernel then ends the whole
/// node. Until then it adopts and buries orphans.
const BOOT: &str = r#"
set -e
hostname "$1"
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
# /sys shows the interfaces of the network namespace it was mounted in; the control groups stay the machine's.
mkdir /run/lock /run/cgroup
mount --rbind /sys/fs/cgroup /run/cgroup
mount -t sysfs sysfs /sys
mount --move /run/cgroup /sys/fs/cgroup
mount -t tmpfs -o mode=711 tmpfs "$2"
ip link set lo up
exec 3<&0 </dev/null
echo up
exec >/dev/null
cat <&3 &
exec 3<&-
wait
"#;

/// A node of a [`super::Lab`].
#[derive(Debug)]
pub struct Node {
    number: usize,
    directory: PathBuf,
    /// Its control group; unique on the machine.
    group: String,
    namespaces: Namespaces,
    engine: Option<Child>,
}

impl Node {
    pub(super) fn start(number: usize, lab: &Path, switch: &Switch) -> Self {
        let directory = lab.join(number.to_string());
        fs::create_dir_all(directory.join("data")).expect("a directory");
        // Not the machine's settings of its own engine.
        fs::write(directory.join("daemon.json"), "{}").expect("a file");
        let lab_name = lab.file_name().unwrap_or_default().to_string_lossy();
        let mut boot = Command::new("unshare");
        boot.args(["--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child=KILL"])
            .args(["sh", "-c", BOOT, "boot", &format!("node{number}")])
            .arg(directory.join("data"));
        let namespaces = Namespaces::start(boot);
        let node =
            Self { number, group: format!("{lab_name}-{number}"), directory, namespaces, engine: None };
        switch.connect(&node);
        node
    }

    /// On the lab's network.
    pub fn address(&self) -> String {
        format!("198.18.0.{}", self.number)
    }

    /// The API's socket, as the test's process sees it.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("docker.sock")
    }

    /// A path of the node, such as that of a volume, as the test's process sees it.
    pub fn path(&self, path: &str) -> PathBuf {
        self.namespaces.root().join(path.trim_start_matches('/'))
    }

    /// Where the engine keeps a volume, as the test's process sees it.
    pub fn volume(&self, name: &str) -> PathBuf {
        let data = self.directory.join("data/volumes").join(name).join("_data");
        self.path(&data.to_string_lossy())
    }

    /// Moves this thread's network to the node's, until the guard is dropped: sockets that are opened and
    /// processes that are started meanwhile are there. With tokio's current-thread runtime, which `#[tokio::test]`
    /// has by default, that is the whole test.
    pub fn enter(&self) -> Inside {
        Inside::of(&self.namespaces.network())
    }

    /// The same for the network of a container of this node.
    ///
    /// # Panics
    /// When it does not run.
    pub async fn enter_container(&self, container: &str) -> Inside {
        let inspected = self.get(&format!("/containers/{container}/json")).await;
        let pid = inspected["State"]["Pid"].as_u64().filter(|pid| *pid > 0);
        let pid = pid.unwrap_or_else(|| panic!("{container} does not run: {}", inspected["State"]));
        Inside::of(&self.path(&format!("/proc/{pid}/ns/net")))
    }

    /// A command of the machine that finds this node's engine as `docker` does.
    pub fn command(&self, program: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(program);
        command
            .env("DOCKER_HOST", format!("unix://{}", self.socket().display()))
            .env("DOCKER_CONFIG", self.directory.join("docker-config"))
            // The builder that needs no plugin.
            .env("DOCKER_BUILDKIT", "0")
            .env_remove("DOCKER_CONTEXT")
            .env_remove("DOCKER_API_VERSION")
            .kill_on_drop(true);
        command
    }

    /// What the API answers to a GET.
    ///
    /// # Panics
    /// When that is not JSON, or an error.
    pub async fn get(&self, path: &str) -> Value {
        self.ask("GET", path, None).await.success()
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, Some(body)).await
    }

    /// # Panics
    /// When there is no answer.
    pub async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let answer = request(&self.socket(), method, path, body).await;
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}; the engine said:\n{}", self.log()))
    }

    /// The end of what the engine has logged.
    pub fn log(&self) -> String {
        let log = fs::read_to_string(self.directory.join("dockerd.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Tells the engine to end by this signal and waits until it has. SIGTERM ends its containers with it, SIGKILL
    /// leaves them to the next engine to clean up.
    pub async fn stop_engine(&mut self, signal: Signal) {
        let Some(mut engine) = self.engine.take() else { return };
        let name = if signal == Signal::KILL { "KILL" } else { "TERM" };
        let kill = format!("kill -{name} \"$(cat /run/docker.pid)\"");
        run(self.namespaces.enter().args(["sh", "-c", &kill]));
        let give_up = Instant::now() + LIMIT;
        while engine.try_wait().expect("a child of ours").is_none() {
            assert!(Instant::now() < give_up, "the engine does not end; it said:\n{}", self.log());
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Starts the engine and waits until its API answers.
    pub async fn start_engine(&mut self) {
        self.launch();
        self.until_up().await;
    }

    pub(super) fn launch(&mut self) {
        let path = |name: &str| self.directory.join(name).display().to_string();
        run(self.namespaces.enter().args(["rm", "-f", "/run/docker.pid"]));
        let log = File::options().create(true).append(true).open(path("dockerd.log")).expect("a log");
        let mut engine = self.namespaces.enter();
        engine
            .args(["dockerd", "--config-file", &path("daemon.json"), "--data-root", &path("data")])
            .args(["--exec-root", "/run/docker", "--pidfile", "/run/docker.pid"])
            .args(["--host", &format!("unix://{}", path("docker.sock")), "--host", "unix:///run/docker.sock"])
            .args([
                "--cgroup-parent",
                &format!("/{}", self.group),
                "--exec-opt",
                "native.cgroupdriver=cgroupfs",
            ])
            .args(["--bridge", "none", "--ip6tables=false"])
            // Takes an image that is here as it is; otherwise each start of a task would ask the registry first.
            .env("DOCKER_SERVICE_PREFER_OFFLINE_IMAGE", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log);
        self.engine = Some(engine.spawn().expect("nsenter can be run"));
    }

    pub(super) async fn until_up(&mut self) {
        let engine = self.engine.as_mut().expect("an engine that was launched");
        let give_up = Instant::now() + LIMIT;
        let socket = self.directory.join("docker.sock");
        while !matches!(request(&socket, "GET", "/_ping", None).await, Ok(Answer { status: 200, .. })) {
            let ended = engine.try_wait().expect("a child of ours");
            if ended.is_some() || Instant::now() > give_up {
                panic!("the engine does not start ({ended:?}); it said:\n{}", self.log());
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Pulls the plug: everything on the node ends at once, for good.
    pub fn power_off(&mut self) {
        self.namespaces.end();
        if let Some(mut engine) = self.engine.take() {
            _ = engine.wait();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.power_off();
        for root in control_group_roots() {
            remove_control_group(&root.join(&self.group));
        }
    }
}

/// The network between the nodes: a bridge in a namespace of its own, where no firewall meddles.
#[derive(Debug)]
pub(super) struct Switch(Namespaces);

impl Switch {
    pub(super) fn start() -> Self {
        let mut boot = Command::new("unshare");
        let bridge =
            "set -e; ip link add bridge type bridge; ip link set bridge up; echo up; exec cat >/dev/null";
        boot.args(["--net", "sh", "-c", bridge]);
        Self(Namespaces::start(boot))
    }

    fn connect(&self, node: &Node) {
        let port = format!("port{}", node.number);
        let node_pid = node.namespaces.pid().to_string();
        self.ip(&["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &node_pid]);
        self.ip(&["link", "set", &port, "master", "bridge", "up"]);
        let mut inside = node.namespaces.enter();
        let address = format!("ip addr add {}/24 dev eth0 && ip link set eth0 up", node.address());
        run(inside.args(["sh", "-c", &address]));
    }

    pub(super) fn set_port(&self, number: usize, state: &str) {
        self.ip(&["link", "set", &format!("port{number}"), state]);
    }

    fn ip(&self, arguments: &[&str]) {
        let network = format!("--net={}", self.0.network().display());
        run(Command::new("nsenter").args([&network, "ip"]).args(arguments));
    }
}

/// Namespaces that live as long as the process that made them, which is `unshare`.
#[derive(Debug)]
struct Namespaces(Child);

impl Namespaces {
    /// # Panics
    /// When the command does not say `up`.
    fn start(mut boot: Command) -> Self {
        let mut child = boot
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("unshare can be run");
        let mut said = String::new();
        let output = child.stdout.take().expect("it was piped");
        _ = BufReader::new(output).read_line(&mut said);
        if said != "up\n" {
            panic!("no namespaces: {:?}", child.wait_with_output());
        }
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn network(&self) -> PathBuf {
        self.file("ns/net")
    }

    fn root(&self) -> PathBuf {
        self.file("root")
    }

    /// A command to which a program to run inside is still to be added.
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        for (option, file) in
            [("net", "net"), ("mount", "mnt"), ("uts", "uts"), ("ipc", "ipc"), ("pid", "pid_for_children")]
        {
            command.arg(format!("--{option}={}", self.file("ns").join(file).display()));
        }
        command
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.pid())).join(name)
    }

    /// Ends the first process inside by closing its standard input; the kernel kills all the others. Returns when they
    /// are gone.
    fn end(&mut self) {
        drop(self.0.stdin.take());
        _ = self.0.wait();
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.end();
    }
}

/// While it lives, its thread is in another network.
#[derive(Debug)]
pub struct Inside {
    before: File,
    /// It belongs to its thread.
    _thread: PhantomData<*const ()>,
}

impl Inside {
    fn of(network: &Path) -> Self {
        let before = File::open("/proc/thread-self/ns/net").expect("the network of this thread");
        let network = File::open(network).unwrap_or_else(|error| panic!("{}: {error}", network.display()));
        enter(&network);
        Self { before, _thread: PhantomData }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        enter(&self.before);
    }
}

fn enter(network: &File) {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).expect("a network to enter");
}

/// Where groups are made: one hierarchy, or with version 1 one for each controller.
pub(super) fn control_group_roots() -> Vec<PathBuf> {
    let all = PathBuf::from("/sys/fs/cgroup");
    if all.join("cgroup.controllers").exists() { vec![all] } else { super::entries(&all).collect() }
}

/// Removes a group and those in it, if there is one. Succeeds only when nothing lives in it.
pub(super) fn remove_control_group(path: &Path) {
    for child in super::entries(path).filter(|child| child.is_dir()) {
        remove_control_group(&child);
    }
    _ = fs::remove_dir(path);
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

pub(super) async fn output(command: &mut tokio::process::Command) -> String {
    let output = command.stdin(Stdio::null()).output().await;
    let output = output.unwrap_or_else(|error| panic!("{:?}: {error}", command.as_std()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    assert!(output.status.success(), "{:?}: {}", command.as_std(), text(&output.stderr));
    text(&output.stdout)
}
