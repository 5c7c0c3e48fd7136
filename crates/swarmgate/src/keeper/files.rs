//! What gate and keeper tell each other: two JSON files in a directory per server, each with one writer.
//!
//! The gate writes its [`Wish`], the keeper its [`Record`]. Neither needs the other to be there, and
//! whoever comes later reads what there is.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use swarmgate_core::state::process::{How, Step};

const WISH: &str = "wish.json";
const RECORD: &str = "state.json";
/// Held by the keeper alone.
pub const KEEPER_LOCK: &str = "keeper.lock";
/// Held by the server: its process inherits the lock and keeps it for as long as it lives.
pub const SERVER_LOCK: &str = "server.lock";
/// The same in the server's own directory, so that no other gate starts a second server on its world.
pub const WORLD_LOCK: &str = ".swarmgate.lock";
/// The FIFO that is the server's standard input.
pub const CONSOLE: &str = "console";
/// What the server writes.
pub const OUTPUT: &str = "console.log";
/// What the keeper itself has to say.
pub const KEEPER_LOG: &str = "keeper.log";

/// What the gate wants of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wish {
    /// Grows with every wake, so that what happened before it no longer counts.
    pub number: u64,
    pub up: bool,
    /// The run to kill at once: an operator's order, never the gate's own idea.
    #[serde(default)]
    pub kill_run: Option<String>,
    #[serde(default)]
    pub server: Server,
}

/// How to start and stop a server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Server {
    pub command: Vec<String>,
    pub directory: PathBuf,
    pub env: BTreeMap<String, String>,
    pub stop_command: Option<String>,
    pub grace_ms: u64,
    pub kill: bool,
    /// Where it is to listen, `host:port`. Earlier gates did not say.
    #[serde(default)]
    pub address: String,
}

/// What a keeper knows of its server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Record {
    /// The process id of the keeper that wrote this.
    pub keeper: u32,
    /// The run that has not ended, or whose end nobody saw.
    pub run: Option<Run>,
    /// The last ones, oldest first.
    #[serde(default)]
    pub exits: Vec<Exit>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: String,
    pub wish: u64,
    /// The keeper that started it.
    pub keeper: u32,
    /// 0 if its keeper was killed before it could write it down.
    pub pid: u32,
    /// Ticks since boot at which `pid` started: with `boot`, what tells it from a later process of that id.
    pub start_ticks: u64,
    pub boot: String,
    pub started_ms: u64,
    /// It was told to stop.
    pub asked: bool,
    pub stopping: Option<Stopping>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    pub step: Step,
    pub since_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub wish: u64,
    pub started_ms: u64,
    pub ended_ms: u64,
    pub asked: bool,
    pub how: How,
}

impl Wish {
    /// The wish kept in `dir`; a server never asked for is not wanted.
    pub fn read(dir: &Path) -> io::Result<Self> {
        read_json(&dir.join(WISH))
    }

    pub fn write(&self, dir: &Path) -> io::Result<()> {
        write_json(dir, WISH, self)
    }
}

impl Record {
    pub fn read(dir: &Path) -> io::Result<Self> {
        read_json(&dir.join(RECORD))
    }

    pub fn write(&self, dir: &Path) -> io::Result<()> {
        write_json(dir, RECORD, self)
    }
}

impl Exit {
    pub fn of(run: &Run, how: How) -> Self {
        Self { wish: run.wish, started_ms: run.started_ms, ended_ms: unix_ms(), asked: run.asked, how }
    }
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    millis(since)
}

pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Takes the lock file at `path`, made if need be; none if another process holds it. It is held until the
/// file, and every copy of its descriptor in other processes, is closed.
pub fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // A link here could make us write elsewhere.
    options.custom_flags(nofollow());
    let file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether another process holds the lock at `path`.
pub fn is_locked(path: &Path) -> bool {
    // Opened for reading: a writer's close would wake whoever watches the directory.
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// `error`, saying of which file.
pub fn about(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn nofollow() -> i32 {
    i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0)
}

fn read_json<T: DeserializeOwned + Default>(path: &Path) -> io::Result<T> {
    let mut text = String::new();
    match File::open(path).and_then(|mut file| file.read_to_string(&mut text)) {
        Ok(_) => serde_json::from_str(&text).map_err(io::Error::from).map_err(about(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(about(path)(error)),
    }
}

/// Whole or not at all, even if the power fails.
fn write_json<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    let temporary = dir.join(format!("{name}.new"));
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, dir.join(name))
    };
    write().map_err(about(&temporary))
}
