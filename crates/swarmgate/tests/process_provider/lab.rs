//! Servers, gates and what they run on.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use swarmgate::keeper::files::Record;
use swarmgate::provider::Source;
use swarmgate::provider::process::{Consoles, ProcessSource};
use swarmgate_core::config::ProcessServer;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Endpoint, Service};
use swarmgate_core::state::process::ProcessServices;
use swarmgate_testkit::wait::until;
use tokio::sync::watch;

pub const LIMIT: Duration = Duration::from_secs(30);

/// A server that holds its world as the game does, and says so if another has it.
pub const SERVER: &str = r#"
mkdir world.lock 2>/dev/null || echo two >> two-servers
trap 'rmdir world.lock' EXIT
echo "up $$"
while read -r line; do
    case "$line" in
        stop) echo saving; sleep "${SAVING:-0}"; echo saved > saved; exit "${CODE:-0}" ;;
        crash*) exit "${line#crash }" ;;
        say*) echo "[Server] ${line#say }" ;;
    esac
done
echo "the console ended" > console-ended
"#;

/// Deaf to everything.
pub const STUBBORN: &str = "trap '' TERM; echo up; while :; do read -r line; done";

/// A machine with two data directories and a server's own.
pub struct Lab {
    pub dir: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        let lab = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(lab.world()).unwrap();
        lab
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn world(&self) -> PathBuf {
        self.dir.path().join("world")
    }

    pub fn server(&self, script: &str) -> ProcessServer {
        ProcessServer {
            name: "survival".into(),
            spec: Arc::default(),
            command: ["sh", "-c", script].map(str::to_owned).into(),
            directory: self.world(),
            env: Default::default(),
            endpoint: Endpoint { host: "127.0.0.1".into(), port: 25566 },
            stop_command: Some("stop".to_owned()),
            grace: Duration::from_secs(20),
            kill: true,
            restart_delay: Duration::from_millis(300),
            max_restarts: 2,
            restart_window: Duration::from_secs(600),
        }
    }

    pub fn gate(&self, server: ProcessServer) -> Gate {
        Gate::new(&self.data(), server)
    }

    pub fn state(&self) -> PathBuf {
        self.data().join("process/survival")
    }

    pub fn record(&self) -> Record {
        Record::read(&self.state()).unwrap()
    }

    pub fn has(&self, file: &str) -> bool {
        self.world().join(file).exists()
    }
}

impl Drop for Lab {
    /// Leaves nothing running, also when a test fails.
    fn drop(&mut self) {
        let states = ["data", "other"].map(|data| self.dir.path().join(data).join("process/survival"));
        for state in states {
            let Ok(record) = Record::read(&state) else { continue };
            if let Some(run) = record.run.filter(|run| run.pid != 0) {
                let _ = kill_process_group(pid(run.pid), Signal::KILL);
            }
        }
    }
}

/// What the gate is to the provider: it lists, and lists again when something has changed.
pub struct Gate {
    pub source: ProcessSource,
    pub config: watch::Sender<Arc<ProcessServices>>,
    pub consoles: Consoles,
    pub state: PathBuf,
    pub started: Instant,
    /// Every state that was seen, each once in a row.
    pub seen: Vec<&'static str>,
}

impl Gate {
    pub fn new(data: &Path, server: ProcessServer) -> Self {
        let (config, receiver) = watch::channel(Arc::new(ProcessServices { servers: vec![server] }));
        let source = ProcessSource::new(data, env!("CARGO_BIN_EXE_swarmgate").into(), receiver);
        Self {
            source,
            config,
            consoles: Consoles::new(data),
            state: data.join("process/survival"),
            started: Instant::now(),
            seen: Vec::new(),
        }
    }

    pub fn now(&self) -> Moment {
        Moment::after_start(self.started.elapsed())
    }

    pub async fn look(&mut self) -> Service {
        let service = self.source.list(self.now()).await.unwrap().services.remove(0);
        if self.seen.last() != Some(&service.state.word()) {
            self.seen.push(service.state.word());
        }
        service
    }

    pub async fn until(&mut self, what: &str, mut is: impl FnMut(&Service) -> bool) -> Service {
        let give_up = Instant::now() + LIMIT;
        loop {
            let service = self.look().await;
            if is(&service) {
                return service;
            }
            assert!(Instant::now() < give_up, "waited for {what}, saw {:?}, last {service:?}", self.seen);
            let _ = tokio::time::timeout(Duration::from_millis(500), self.source.changed()).await;
        }
    }

    pub async fn until_state(&mut self, word: &str) -> Service {
        self.until(word, |service| service.state.word() == word).await
    }

    pub async fn until_says(&mut self, text: &str) {
        let consoles = self.consoles.clone();
        let says =
            move |_: &Service| consoles.tail("survival", 100).unwrap().iter().any(|line| line.contains(text));
        self.until(text, says).await;
    }

    pub async fn wake(&mut self) {
        let now = self.now();
        self.source.scale("survival", true, now).await.unwrap();
    }

    pub async fn sleep(&mut self) {
        let now = self.now();
        self.source.scale("survival", false, now).await.unwrap();
    }

    /// Awake, listening to its console, and written down.
    pub async fn start(&mut self) -> Service {
        self.wake().await;
        self.until_says("up").await;
        let state = self.state.clone();
        let written = move || Record::read(&state).unwrap().run.is_some_and(|run| run.pid != 0);
        self.until("its process id", |_| written()).await;
        self.until_state("running").await
    }

    pub fn send(&self, line: &str) {
        self.consoles.send("survival", line).unwrap();
    }
}

/// A gate in a process of its own, and in its own process group.
pub struct GateProcess(Child);

impl GateProcess {
    pub fn start(dir: &Path) -> Self {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "gate_to_be_killed"]).env("GATE_TO_BE_KILLED", dir);
        Self(command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub fn kill(&mut self) {
        kill_process_group(pid(self.0.id()), Signal::KILL).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for GateProcess {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            self.kill();
        }
    }
}

pub fn pid(pid: u32) -> Pid {
    Pid::from_raw(pid.try_into().unwrap()).unwrap()
}

pub async fn until_recorded(mut is: impl FnMut() -> bool) {
    until("a record", LIMIT, async || is().then_some(())).await;
}
