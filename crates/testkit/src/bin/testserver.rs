//! A Minecraft server that is none: it boots, answers, lets players in, saves and crashes as told, for tests
//! that need a real process or a container. `testserver --help` tells how.
//!
//! For an empty container image, build it static (`--target` keeps the flag from the proc macros):
//! `RUSTFLAGS='-C target-feature=+crt-static' cargo build -p swarmgate-testkit --bin testserver --target host-tuple`

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use swarmgate_testkit::backend::{Backend, Behaviour, Event, Login, Status};
use swarmgate_testkit::client::Client;
use swarmgate_testkit::wire::Handshake;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep;

const HELP: &str = "\
A Minecraft server that is none, for tests.

    testserver [NAME=VALUE]...           serve; settings from the environment, overridden by arguments
    testserver health [NAME=VALUE]...    exit code 0 if the server at ADDRESS and PORT answers a status request

ADDRESS          where to listen (127.0.0.1)
PORT             (25565; 0: any)
START_DELAY_MS   time before it listens (0)
READY_DELAY_MS   time from then on in which no status is answered and logins are kicked (0)
BOOT_LOG=1       also says what a vanilla server says while it starts, stops and has players
EXIT_AFTER_MS    crashes so long after its start
EXIT_AFTER_JOIN_MS the same, so long after the first player has joined
EXIT_CODE        with which code it crashes (1)
STOP_CODE        with which code it exits after an orderly stop (0; a JVM's after SIGTERM is 143)
IGNORE_SIGTERM=1 goes on after SIGTERM
STOP_DELAY_MS    how long saving takes (0)
WORLD            a directory, created if need be, that only one server may use at a time. A second one
                 writes the file 'world-corrupted' there and exits with 70. An orderly stop writes
                 'save-begin' and 'save-end', which a start removes; 'world.log' keeps every start,
                 stop and saved, each with the process id
PLAYERS          the player count to show (those who are in)
MAX_PLAYERS      (20)
MOTD             (A test server)
VERSION          name of the version (testkit)
PROTOCOL         number of the version (the client's own)
ICON=1           shows a server icon

Stops on SIGTERM, SIGINT and 'stop' on its standard input: closes the port and the players, then saves.
Other console commands: 'say TEXT', 'crash', 'hang' (answers nothing any more, but stops when told to).
A player who has joined gets every byte back.
";

/// A PNG of 64 × 64 pixels.
const ICON: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAGElEQVR42mMIhQIGChmroIBSxqh7hpR7AP5O/wFTBriWAAAAAElFTkSuQmCC";

const WORLD_IN_USE: i32 = 70;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        say(HELP.trim_end());
        return;
    }
    let health = arguments.first().is_some_and(|argument| argument == "health");
    if health {
        arguments.remove(0);
    }
    let settings = Settings::read(&arguments).unwrap_or_else(|problem| {
        say(&format!("{problem}; see --help"));
        exit(64);
    });
    exit(if health { ask(&settings).await } else { serve(settings).await });
}

struct Settings {
    address: SocketAddr,
    start_delay: Duration,
    ready_delay: Duration,
    boot_log: bool,
    exit_after: Option<Duration>,
    exit_after_join: Option<Duration>,
    exit_code: i32,
    stop_code: i32,
    ignore_sigterm: bool,
    stop_delay: Duration,
    world: Option<PathBuf>,
    behaviour: Behaviour,
}

impl Settings {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let mut values: HashMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        for argument in arguments {
            let (name, value) =
                argument.split_once('=').ok_or_else(|| format!("{argument:?} is not NAME=VALUE"))?;
            values.insert(name.into(), value.into());
        }
        let values = Values(values);
        let icon = values.flag("ICON")?;
        Ok(Self {
            address: (values.or("ADDRESS", IpAddr::from(Ipv4Addr::LOCALHOST))?, values.or("PORT", 25565)?)
                .into(),
            start_delay: values.span("START_DELAY_MS")?.unwrap_or_default(),
            ready_delay: values.span("READY_DELAY_MS")?.unwrap_or_default(),
            boot_log: values.flag("BOOT_LOG")?,
            exit_after: values.span("EXIT_AFTER_MS")?,
            exit_after_join: values.span("EXIT_AFTER_JOIN_MS")?,
            exit_code: values.or("EXIT_CODE", 1)?,
            stop_code: values.or("STOP_CODE", 0)?,
            ignore_sigterm: values.flag("IGNORE_SIGTERM")?,
            stop_delay: values.span("STOP_DELAY_MS")?.unwrap_or_default(),
            world: values.get("WORLD")?,
            behaviour: Behaviour {
                motd: values.or("MOTD", "A test server".into())?,
                version: (values.or("VERSION", "testkit".into())?, values.get("PROTOCOL")?),
                players: values.get("PLAYERS")?,
                max_players: values.or("MAX_PLAYERS", 20)?,
                favicon: icon.then(|| ICON.into()),
                record: false,
                ..Behaviour::default()
            },
        })
    }
}

struct Values(HashMap<String, String>);

impl Values {
    /// `None` when it is unset or empty.
    fn get<T: FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        let value = self.0.get(name).filter(|value| !value.is_empty());
        value.map(|value| value.parse().map_err(|_| format!("{name}={value:?} makes no sense"))).transpose()
    }

    fn or<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        Ok(self.get(name)?.unwrap_or(default))
    }

    fn span(&self, name: &str) -> Result<Option<Duration>, String> {
        Ok(self.get(name)?.map(Duration::from_millis))
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        Ok(self.or(name, 0_u8)? != 0)
    }
}

async fn ask(settings: &Settings) -> i32 {
    let mut address = settings.address;
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    let handshake = Handshake::status(-1, "localhost").port(address.port());
    match Client::to(address).status(&handshake, Duration::from_secs(2)).await {
        Ok(status) => {
            say(&status.text);
            0
        }
        Err(error) => {
            say(&format!("no status: {error}"));
            1
        }
    }
}

/// Runs until told to stop or crash; the code to exit with.
async fn serve(settings: Settings) -> i32 {
    let mut ending = Ending::new(&settings);
    let world = match settings.world.as_deref().map(World::open).transpose() {
        Ok(world) => world,
        Err(error) => {
            say(&format!("world not opened: {error}"));
            return WORLD_IN_USE;
        }
    };
    let log = Log(settings.boot_log);
    let (hung, joined) = (watch::Sender::new(false), Notify::new());
    let stop = tokio::select! {
        stop = ending.wait(&hung, &joined) => stop,
        never = run(&settings, &log, hung.subscribe(), &joined) => match never {},
    };
    // The backend is gone by now: the port is closed, the players are out as soon as this task waits.
    match stop {
        Stop::Crash => {
            say("crashed");
            settings.exit_code
        }
        Stop::Orderly => {
            say("stopping");
            log.line("Server thread", "Stopping server");
            log.line("Server thread", "Saving worlds");
            if let Some(world) = &world {
                world.begin_save();
            }
            sleep(settings.stop_delay).await;
            if let Some(world) = &world {
                world.end_save();
            }
            log.line("Server thread", "All dimensions are saved");
            say("saved");
            settings.stop_code
        }
    }
}

/// Starts and serves, until it is dropped.
async fn run(
    settings: &Settings,
    log: &Log,
    mut hung: watch::Receiver<bool>,
    joined: &Notify,
) -> std::convert::Infallible {
    let started = Instant::now();
    say(&format!("starting as {}", std::process::id()));
    log.line("ServerMain", "Loaded 1370 recipes");
    log.line("Server thread", "Starting minecraft server version 1.21.8");
    log.line("Server thread", "Preparing level \"world\"");
    sleep(settings.start_delay).await;

    let booting = Behaviour {
        status: Status::Never,
        login: Login::Kick(r#"{"text":"Server is still starting"}"#.into()),
        ..settings.behaviour.clone()
    };
    let backend = Backend::start_at(settings.address, booting).await;
    let mut events = backend.events();
    say(&format!("listening on {}", backend.address()));
    log.line("Server thread", &format!("Starting Minecraft server on {}", backend.address()));
    log.line("Worker-Main-1", "Preparing spawn area: 51%");
    sleep(settings.ready_delay).await;

    backend.set(|behaviour| *behaviour = settings.behaviour.clone());
    say("ready");
    let seconds = started.elapsed().as_secs_f64();
    log.line("Server thread", &format!("Done ({seconds:.3}s)! For help, type \"help\""));
    loop {
        tokio::select! {
            event = events.recv() => match event.expect("the backend holds the sender") {
                Event::Joined(name) => {
                    joined.notify_one();
                    say(&format!("joined {name}"));
                    log.line("Server thread", &format!("{name} joined the game"));
                }
                Event::Left(name) => {
                    say(&format!("left {name}"));
                    log.line("Server thread", &format!("{name} left the game"));
                }
            },
            Ok(()) = hung.changed() => {
                say("hanging");
                backend.set(|behaviour| (behaviour.status, behaviour.login) = (Status::Never, Login::Never));
            }
        }
    }
}

enum Stop {
    Orderly,
    Crash,
}

/// Everything that can end the server.
struct Ending {
    terminate: Signal,
    interrupt: Signal,
    ignore_terminate: bool,
    crash_at: Option<tokio::time::Instant>,
    crash_after_join: Option<Duration>,
    console: mpsc::UnboundedReceiver<String>,
}

impl Ending {
    fn new(settings: &Settings) -> Self {
        Self {
            terminate: signal(SignalKind::terminate()).expect("a signal that may be handled"),
            interrupt: signal(SignalKind::interrupt()).expect("a signal that may be handled"),
            ignore_terminate: settings.ignore_sigterm,
            crash_at: settings.exit_after.map(|span| tokio::time::Instant::now() + span),
            crash_after_join: settings.exit_after_join,
            console: console(),
        }
    }

    async fn wait(&mut self, hung: &watch::Sender<bool>, joined: &Notify) -> Stop {
        loop {
            tokio::select! {
                biased;
                () = crash(self.crash_at) => return Stop::Crash,
                () = joined.notified() => {
                    if let Some(span) = self.crash_after_join.take() {
                        self.crash_at = Some(tokio::time::Instant::now() + span);
                    }
                }
                _ = self.terminate.recv() => {
                    if !self.ignore_terminate {
                        return Stop::Orderly;
                    }
                    say("ignoring SIGTERM");
                }
                _ = self.interrupt.recv() => return Stop::Orderly,
                Some(line) = self.console.recv() => match line.trim() {
                    "stop" => return Stop::Orderly,
                    "crash" => return Stop::Crash,
                    "hang" => _ = hung.send_replace(true),
                    command => match command.strip_prefix("say ") {
                        Some(text) => say(&format!("[Server] {text}")),
                        None => say(&format!("unknown command {command:?}")),
                    },
                },
            }
        }
    }
}

async fn crash(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The lines of standard input; none any more once it is closed.
fn console() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    thread::spawn(move || io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    lines
}

/// A directory that one server at a time may use.
struct World {
    directory: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl World {
    fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let lock = File::create(directory.join("session.lock"))?;
        if let Err(error) = lock.try_lock() {
            fs::write(directory.join("world-corrupted"), std::process::id().to_string())?;
            return Err(error.into());
        }
        let world = Self { directory: directory.to_owned(), _lock: lock };
        for marker in ["save-begin", "save-end"] {
            _ = fs::remove_file(directory.join(marker));
        }
        world.log("start");
        Ok(world)
    }

    fn begin_save(&self) {
        self.log("stop");
        self.mark("save-begin");
    }

    fn end_save(&self) {
        self.mark("save-end");
        self.log("saved");
    }

    fn mark(&self, name: &str) {
        fs::write(self.directory.join(name), std::process::id().to_string())
            .expect("the world can be written");
    }

    fn log(&self, what: &str) {
        let path = self.directory.join("world.log");
        let mut log =
            OpenOptions::new().append(true).create(true).open(path).expect("the world can be written");
        writeln!(log, "{what} {}", std::process::id()).expect("the world can be written");
    }
}

/// The lines of a vanilla server, when they are wanted.
struct Log(bool);

impl Log {
    fn line(&self, thread: &str, text: &str) {
        if self.0 {
            say(&format!("[{thread}/INFO]: {text}"));
        }
    }
}

/// A line on standard output. Nobody may be reading it any more; that stops no server.
fn say(line: &str) {
    _ = writeln!(io::stdout(), "{line}");
}
