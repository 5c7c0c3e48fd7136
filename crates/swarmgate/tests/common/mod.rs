//! The real binary, started as a person would start it.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "this is how a test fails")]

pub mod events;

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open};
use serde_json::Value;
use swarmgate_testkit::process::{Process, Signal, testserver};
use swarmgate_testkit::wait::{free_port, until};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::Command;

use self::events::Listener;

/// Generous, for a machine that does other things too; nothing waits this long when all is well.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Sentences of the tests' own, so that the wording of the usual ones is free.
const TEXTS: &str = r#"[defaults.texts]
asleep = "{server} sleeps"
starting = "{server} starts, ready in {eta}"
restarting = "{server} crashed, starts again in {countdown}"
stopping = "{server} saves its world"
failed = "{server} failed: {reason}."
unreachable = "{server} is out of reach"
wait = "{server} starts, come back in {eta}"
"#;

/// A directory with a configuration, and the ports of the gate that is started from it: what outlives a gate.
#[derive(Debug)]
pub struct Home {
    directory: TempDir,
    /// Where players connect.
    pub address: SocketAddr,
    pub http: SocketAddr,
}

/// A configuration in the order that TOML asks for.
#[derive(Debug, Clone)]
pub struct Config {
    /// Keys at the top, beside the two below; without `listen` and `[[listener]]`, it listens on the home's address.
    pub top: String,
    pub on_exit: &'static str,
    pub drain: &'static str,
    /// Keys of `[docker]`.
    pub docker: String,
    pub limits: String,
    pub log: &'static str,
    /// Keys of `[defaults]`.
    pub defaults: String,
    /// Everything that begins with a `[table]`.
    pub tables: String,
}

impl Default for Config {
    /// No limit for anyone here, servers end with the gate, everything is logged, and limbo is for those who ask for it.
    fn default() -> Self {
        Self {
            top: String::new(),
            on_exit: "stop",
            drain: "0s",
            docker: "swarm = \"off\"\ncontainers = \"off\"".to_owned(),
            limits: "trusted_sources = [\"127.0.0.0/8\"]\nopening_deadline = \"30s\"".to_owned(),
            log: "debug",
            defaults: "wait = \"hold\"".to_owned(),
            tables: String::new(),
        }
    }
}

impl Config {
    pub fn of(tables: impl Into<String>) -> Self {
        Self { tables: tables.into(), ..Self::default() }
    }

    pub fn limits(self, limits: &str) -> Self {
        Self { limits: limits.to_owned(), ..self }
    }

    pub fn top(self, top: impl Into<String>) -> Self {
        Self { top: top.into(), ..self }
    }
}

impl Home {
    pub fn new() -> Arc<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        Arc::new(Self { directory, address: local(free_port()), http: local(free_port()) })
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self) -> PathBuf {
        self.path().join("swarmgate.toml")
    }

    /// Writes the configuration anew, as an editor does: in one step.
    pub fn write(&self, config: &Config) {
        let Config { top, on_exit, drain, docker, limits, log, defaults, tables } = config;
        let elsewhere = format!("{top}{tables}");
        let listen = if elsewhere.contains("listen =") || elsewhere.contains("[[listener]]") {
            String::new()
        } else {
            format!("listen = [\"{}\"]\n", self.address)
        };
        let http = self.http;
        self.write_text(&format!(
            "{listen}http = \"{http}\"\non_exit = \"{on_exit}\"\ndrain = \"{drain}\"\n{top}\n\
             [docker]\n{docker}\n[limits]\n{limits}\n[log]\nlevel = \"{log}\"\n[defaults]\n{defaults}\n{TEXTS}\n{tables}"
        ));
    }

    /// The same with any text, good or bad.
    pub fn write_text(&self, text: &str) {
        let new = self.path().join("new.toml");
        std::fs::write(&new, text).expect("a configuration");
        std::fs::rename(new, self.file()).expect("a configuration");
    }

    /// `swarmgate` with these arguments, where the configuration is.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_swarmgate"));
        command.args(arguments).current_dir(self.path());
        command
    }

    /// Starts the gate on the configuration as it is written.
    ///
    /// # Panics
    /// When it is not ready within [`LIMIT`].
    pub async fn start(self: &Arc<Self>) -> Gate {
        let file = self.file();
        let mut process = Process::start(self.command(&["run", "--config"]).arg(&file));
        let ready = until("a ready gate", LIMIT, async || match get(self.http, "/readyz").await {
            Some((200, _)) => Some(true),
            Some(_) | None => (!is_running(process.pid())).then_some(false),
        });
        if !ready.await {
            let status = process.wait_exit(LIMIT).await;
            panic!(
                "the gate ended with {status} before it was ready; it said:\n{}",
                process.lines().join("\n")
            );
        }
        Gate { address: self.address, http: self.http, process, home: Arc::clone(self), ended: false }
    }
}

impl Drop for Home {
    /// What a failed test may have left behind: processes with this directory in their arguments.
    fn drop(&mut self) {
        let own = self.path().to_string_lossy().into_owned();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            if let Some(pid) = pid.filter(|_| String::from_utf8_lossy(&arguments).contains(&own)) {
                _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// `swarmgate run` with a configuration, a data directory and ports of its own. Told to stop when dropped, and its
/// servers with it.
#[derive(Debug)]
pub struct Gate {
    /// Where players connect.
    pub address: SocketAddr,
    pub http: SocketAddr,
    pub process: Process,
    home: Arc<Home>,
    ended: bool,
}

impl Gate {
    /// `tables` is the part of the configuration that begins with the first `[table]`.
    ///
    /// # Panics
    /// When it is not ready within [`LIMIT`].
    pub async fn start(tables: &str) -> Self {
        Self::with(&Config::of(tables)).await
    }

    /// # Panics
    /// As [`Gate::start`].
    pub async fn with(config: &Config) -> Self {
        let home = Home::new();
        home.write(config);
        home.start().await
    }

    /// The same, for connections that begin with a PROXY header, which everyone may send who is `trusted`.
    ///
    /// # Panics
    /// As [`Gate::start`].
    pub async fn start_behind_proxy(trusted: &str, tables: &str) -> Self {
        let home = Home::new();
        let address = home.address;
        let listener = format!(
            "[[listener]]\naddress = \"{address}\"\nproxy_protocol = \"required\"\ntrusted = [\"{trusted}\"]\n"
        );
        home.write(&Config::of(format!("{listener}{tables}")));
        home.start().await
    }

    /// Where its configuration file is, and with it everything that is named relatively.
    pub fn directory(&self) -> &Path {
        self.home.path()
    }

    pub fn home(&self) -> &Arc<Home> {
        &self.home
    }

    /// What `/metrics` says now.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn metrics(&self) -> String {
        let (status, body) = get(self.http, "/metrics").await.expect("an answer");
        assert_eq!(status, 200, "{body}");
        body
    }

    /// One number of it: `name` with its labels, as it stands there. What is not there has not been counted.
    pub async fn metric(&self, name: &str) -> u64 {
        let page = self.metrics().await;
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0, |value| value.parse().expect("a number"))
    }

    /// What the control socket answers: the status and the body.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn control(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let socket = self.directory().join("swarmgate-data/control.sock");
        let stream = UnixStream::connect(socket).await.expect("a control socket");
        exchange(stream, method, path, body).await.expect("an answer")
    }

    /// What happens from now on.
    ///
    /// # Panics
    /// When the control socket does not answer.
    pub async fn events(&self) -> Listener<UnixStream> {
        let socket = self.directory().join("swarmgate-data/control.sock");
        let mut stream = UnixStream::connect(socket).await.expect("a control socket");
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("a request");
        Listener::of(stream).await
    }

    /// A service, as `swarmgate services --json` shows it.
    ///
    /// # Panics
    /// When there is none of that name.
    pub async fn service(&self, name: &str) -> Value {
        let (status, body) = self.control("GET", &format!("/v1/services/{name}"), "").await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// The service, as soon as it is as it is `wanted`.
    ///
    /// # Panics
    /// When it is not within [`LIMIT`], naming `what` was waited for.
    pub async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        until(what, LIMIT, async || Some(self.service(name).await).filter(|service| wanted(service))).await
    }

    /// The service, as soon as it is in this state.
    pub async fn until_state(&self, name: &str, state: &str) -> Value {
        self.until(name, &format!("{name} {state}"), |service| service["state"] == state).await
    }

    /// Everything it has logged so far.
    pub fn log(&self) -> String {
        self.process.lines().join("\n")
    }

    /// Sends a signal and waits for the end.
    pub async fn end(self, signal: Signal) -> ExitStatus {
        self.process.signal(signal);
        self.ended().await
    }

    /// Waits for an end that has been asked for.
    pub async fn ended(mut self) -> ExitStatus {
        let status = self.process.wait_exit(LIMIT).await;
        self.ended = true;
        status
    }
}

impl Drop for Gate {
    /// Its servers outlive a gate that is killed, so it is told, and given the time to stop them.
    fn drop(&mut self) {
        if std::thread::panicking() {
            // To the harness, which shows it for a test that failed.
            println!("the gate said:\n{}", self.log());
        }
        if self.ended {
            return;
        }
        let ended = pidfd_open(pid(self.process.pid()), PidfdFlags::empty()).expect("a process of ours");
        self.process.signal(Signal::TERM);
        let limit = Timespec::try_from(LIMIT).expect("a time");
        // The end of any other process interrupts the wait.
        let wait = || poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&limit));
        rustix::io::retry_on_intr(wait).expect("an end");
    }
}

/// A test server that the gate starts, with a world of its own.
#[derive(Debug)]
pub struct Server {
    /// Its part of the configuration.
    pub table: String,
    pub address: SocketAddr,
    world: PathBuf,
}

impl Server {
    /// `[server.NAME]` with the host `NAME.example.com`; `settings` are the test server's, `keys` are further keys of the
    /// table.
    pub fn new(home: &Home, name: &str, settings: &[&str], keys: &str) -> Self {
        let directory = home.path().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let (address, world) = (local(free_port()), directory.join("world"));
        let mut command = Command::new(testserver());
        command
            .arg(format!("PORT={}", address.port()))
            .arg(format!("WORLD={}", world.display()))
            .args(settings);
        let hosts = if keys.contains("hosts =") {
            String::new()
        } else {
            format!("hosts = [\"{name}.example.com\"]\n")
        };
        let table = format!(
            "[server.{name}]\naddress = \"{address}\"\ndirectory = \"{name}\"\n{hosts}{}{keys}\n",
            as_toml(&command)
        );
        Self { table, address, world }
    }

    /// What has happened to the world: `start`, `stop` and `saved`.
    pub fn history(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.world.join("world.log")).unwrap_or_default();
        log.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    }

    pub fn starts(&self) -> usize {
        self.history().iter().filter(|what| *what == "start").count()
    }

    /// Two servers have used it at one time.
    pub fn is_corrupted(&self) -> bool {
        self.world.join("world-corrupted").exists()
    }
}

/// The configuration of several of them.
pub fn tables(servers: &[&Server]) -> String {
    servers.iter().map(|server| server.table.as_str()).collect()
}

/// `command = […]` and `env = {…}` of a server that the gate starts: what the command would do.
pub fn as_toml(command: &Command) -> String {
    let command = command.as_std();
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("{:?}", word.to_string_lossy()))
        .collect();
    let mut toml = format!("command = [{}]\n", words.join(", "));
    for (name, value) in command.get_envs() {
        let (name, value) = (name.to_string_lossy(), value.unwrap_or_default().to_string_lossy());
        writeln!(toml, "env.{name} = {value:?}").expect("text");
    }
    toml
}

pub fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// The status and the body of an HTTP answer; `None` while nobody listens there.
pub async fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    exchange(TcpStream::connect(address).await.ok()?, "GET", path, "").await
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    method: &str,
    path: &str,
    body: &str,
) -> Option<(u16, String)> {
    let length = body.len();
    // Of version 1.0, so that the answer comes in one piece.
    let request =
        format!("{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn pid(pid: u32) -> Pid {
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id")
}

/// A process that has ended and was not waited for yet is a zombie: not running.
pub fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
