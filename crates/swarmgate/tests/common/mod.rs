//! The real binary, started as a person would start it.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "this is how a test fails")]

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use swarmgate_testkit::process::{Process, Signal};
use swarmgate_testkit::wait::{free_port, until};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

/// Generous, for a machine that does other things too; nothing waits this long when all is well.
pub const LIMIT: Duration = Duration::from_secs(60);

/// `swarmgate run` with a configuration, a data directory and ports of its own. Told to stop when dropped, and its
/// servers with it.
#[derive(Debug)]
pub struct Gate {
    /// Where players connect.
    pub address: SocketAddr,
    pub http: SocketAddr,
    pub process: Process,
    directory: TempDir,
}

impl Gate {
    /// `tables` is the part of the configuration that begins with the first `[table]`.
    ///
    /// # Panics
    /// When it is not ready within [`LIMIT`].
    pub async fn start(tables: &str) -> Self {
        let address = local(free_port());
        Self::listening(address, &format!("listen = [\"{address}\"]\n"), tables).await
    }

    /// The same, for connections that begin with a PROXY header, which everyone may send who is `trusted`.
    ///
    /// # Panics
    /// As [`Gate::start`].
    pub async fn start_behind_proxy(trusted: &str, tables: &str) -> Self {
        let address = local(free_port());
        let listener = format!(
            "[[listener]]\naddress = \"{address}\"\nproxy_protocol = \"required\"\ntrusted = [\"{trusted}\"]\n"
        );
        Self::listening(address, "", &format!("{listener}{tables}")).await
    }

    async fn listening(address: SocketAddr, listen: &str, tables: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = directory.path().join("swarmgate.toml");
        let http = local(free_port());
        let text = format!(
            "{listen}http = \"{http}\"\non_exit = \"stop\"\ndrain = \"0s\"\n\
             [limits]\ntrusted_sources = [\"127.0.0.0/8\"]\nopening_deadline = \"30s\"\n[log]\nlevel = \"debug\"\n{tables}"
        );
        std::fs::write(&config, text).expect("a configuration");
        let mut process = Process::start(
            Command::new(env!("CARGO_BIN_EXE_swarmgate")).args(["run", "--config"]).arg(&config),
        );
        let ready = until("a ready gate", LIMIT, async || match get(http, "/readyz").await {
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
        Self { address, http, process, directory }
    }

    /// Where its configuration file is, and with it everything that is named relatively.
    pub fn directory(&self) -> &Path {
        self.directory.path()
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

    /// Everything it has logged so far.
    pub fn log(&self) -> String {
        self.process.lines().join("\n")
    }
}

impl Drop for Gate {
    /// Its servers outlive a gate that is killed, so it is told, and given the time to stop them.
    fn drop(&mut self) {
        if std::thread::panicking() {
            // To the harness, which shows it for a test that failed.
            println!("the gate said:\n{}", self.log());
        }
        let pid = self.process.pid();
        self.process.signal(Signal::TERM);
        let told = Instant::now();
        while is_running(pid) && told.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
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

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// The status and the body of an HTTP answer; `None` while nobody listens there.
pub async fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    // Of version 1.0, so that the answer comes in one piece.
    let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// A process that has ended and was not waited for yet is a zombie: not running.
fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
