//! Child processes whose output a test can wait for, and which end with it.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

pub use rustix::process::Signal;

/// A child with its output captured. Dropping it kills exactly this process, if it still runs.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    lines: watch::Receiver<Vec<String>>,
}

impl Process {
    /// Starts the command with its input and both outputs connected to the test.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Self {
        let name = command.as_std().get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let (sender, lines) = watch::channel(vec![]);
        tokio::spawn(collect(child.stdout.take().expect("it was piped"), sender.clone()));
        tokio::spawn(collect(child.stderr.take().expect("it was piped"), sender));
        Self { name, child, lines }
    }

    /// # Panics
    /// When it has ended and [`Process::wait_exit`] said so.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_else(|| panic!("{} has ended", self.name))
    }

    /// Everything it has said so far, both outputs in the order of arrival.
    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// The first line, past or future, that contains `text`.
    ///
    /// # Panics
    /// When `limit` passes or the output ends without it.
    pub async fn wait_for_line(&mut self, text: &str, limit: Duration) -> String {
        self.wait_for(&format!("a line with {text:?}"), limit, |lines| {
            lines.iter().find(|line| line.contains(text)).cloned()
        })
        .await
    }

    /// What `look` finds in the output, as soon as it does.
    ///
    /// # Panics
    /// When `limit` passes or the output ends before it does, naming `what` was waited for.
    pub async fn wait_for<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut(&[String]) -> Option<T>,
    ) -> T {
        let mut found = None;
        let waiting = self.lines.wait_for(|lines| {
            found = look(lines);
            found.is_some()
        });
        let problem = match timeout(limit, waiting).await.map(|seen| seen.is_ok()) {
            Ok(true) => None,
            Ok(false) => Some("its output ended".to_owned()),
            Err(_) => Some(format!("{limit:?} passed")),
        };
        match (found, problem) {
            (Some(found), None) => found,
            (_, problem) => panic!(
                "{}: {} without {what}; it said:\n{}",
                self.name,
                problem.unwrap_or_default(),
                self.lines().join("\n")
            ),
        }
    }

    /// Types a line on its standard input. A program that has closed it hears nothing.
    pub async fn type_line(&mut self, line: &str) {
        if let Some(stdin) = &mut self.child.stdin {
            _ = stdin.write_all(format!("{line}\n").as_bytes()).await;
        }
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.child.stdin = None;
    }

    /// # Panics
    /// When it has ended and [`Process::wait_exit`] said so.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a process id");
        // It may have ended without having been waited for: the signal is lost then, as the kernel would lose it.
        _ = kill_process(pid, signal);
    }

    /// # Panics
    /// When it has not ended within `limit`.
    pub async fn wait_exit(&mut self, limit: Duration) -> ExitStatus {
        match timeout(limit, self.child.wait()).await {
            Ok(status) => status.expect("a child of ours"),
            Err(_) => {
                panic!("{} has not ended in {limit:?}; it said:\n{}", self.name, self.lines().join("\n"))
            }
        }
    }
}

async fn collect(output: impl AsyncRead + Unpin, lines: watch::Sender<Vec<String>>) {
    let mut output = BufReader::new(output);
    let mut line = vec![];
    while let Ok(1..) = output.read_until(b'\n', &mut line).await {
        let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
        lines.send_modify(|lines| lines.push(text));
        line.clear();
    }
}

/// The `testserver` program. Built on first use: the tests of another package do not build it by themselves.
///
/// # Panics
/// When it cannot be built.
pub fn testserver() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        built(|cargo| _ = cargo.args(["--package", "swarmgate-testkit", "--bin", "testserver"]))
    })
}

/// The program that `cargo build` makes, with what `what` adds to the command.
pub(crate) fn built(what: impl FnOnce(&mut std::process::Command)) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.args(["build", "--quiet", "--message-format=json"]).current_dir(workspace());
    what(&mut command);
    let output = command.stderr(Stdio::inherit()).output().expect("cargo can be run");
    assert!(output.status.success(), "{command:?} failed");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo names the program it has built")
}

pub(crate) fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn shell(script: &str) -> Process {
        Process::start(Command::new("sh").args(["-c", script]))
    }

    #[tokio::test]
    async fn lines_of_both_outputs_and_the_exit() {
        let mut process = shell("echo one; echo two >&2; read word; echo got $word; exit 3");
        process.wait_for_line("one", LIMIT).await;
        process.wait_for_line("two", LIMIT).await;
        process.type_line("hello").await;
        assert_eq!(process.wait_for_line("got", LIMIT).await, "got hello");
        assert_eq!(process.wait_exit(LIMIT).await.code(), Some(3));
    }

    #[tokio::test]
    #[should_panic(expected = "its output ended without a line with \"two\"; it said:\none")]
    async fn an_end_is_not_waited_out() {
        shell("echo one").wait_for_line("two", LIMIT).await;
    }

    #[tokio::test]
    async fn dropping_kills() {
        let mut process = shell("echo here; exec sleep 20");
        process.wait_for_line("here", LIMIT).await;
        let gone = PathBuf::from(format!("/proc/{}", process.pid()));
        assert!(gone.exists());
        drop(process);
        crate::wait::until("the end of the child", LIMIT, async || (!gone.exists()).then_some(())).await;
    }
}
