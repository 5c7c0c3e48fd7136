//! The keepers of this gate: started here, and started anew where one was lost.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use swarmgate_core::state::process::{Exit, How, Process, Seen, Stopping, Up};
use tokio::process::{Child, Command};

use crate::keeper::files::{self, KEEPER_LOCK, KEEPER_LOG, Record, Wish, is_locked, unix_ms};
use crate::keeper::watch::Watch;
use crate::keeper::{ADOPT, START, remains};

/// The variables every server gets. The gate's own may hold secrets.
const ENVIRONMENT: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME"];

#[derive(Debug)]
pub struct Keepers {
    program: PathBuf,
    pub watch: Watch,
    /// By state directory: keepers that were started and have not written anything yet.
    spawned: BTreeMap<PathBuf, Spawned>,
}

#[derive(Debug)]
enum Spawned {
    Keeper {
        child: Child,
        pid: Option<u32>,
    },
    /// It came to nothing for the wake of this number; a sentence.
    Failed {
        wish: u64,
        why: String,
    },
}

/// What the files of a server say.
#[derive(Debug)]
pub struct Found {
    pub wish: Wish,
    pub record: Record,
    pub process: Process,
}

impl Found {
    pub fn seen(self) -> Seen {
        let Self { wish, record, process } = self;
        let exits = record.exits.into_iter().filter(|exit| exit.wish == wish.number);
        Seen { wanted: wish.up, process, exits: exits.map(seen_exit).collect() }
    }
}

impl Keepers {
    pub fn new(program: PathBuf) -> Self {
        Self { program, watch: Watch::new(), spawned: BTreeMap::new() }
    }

    /// Looks at the server with its state in `dir`. If it has lost its keeper, it gets a new one.
    pub fn look(&mut self, dir: &Path) -> io::Result<Found> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(files::about(dir))?;
        self.watch.add(dir);
        // Before the files: what a keeper wrote is final once it is gone.
        let gone = self.is_gone(dir);
        let kept = is_locked(&dir.join(KEEPER_LOCK));
        let (wish, mut record) = (Wish::read(dir)?, Record::read(dir)?);
        self.settle(dir, &wish, &record, gone, kept);
        if !kept && let Some(run) = record.run.take_if(|run| !remains(dir, run)) {
            // The next keeper will write it down.
            record.exits.push(files::Exit::of(&run, How::Unseen));
        }
        if record.run.is_some() && !kept && self.spawning(dir, &wish) == Process::Down {
            self.spawn(dir, &wish, ADOPT);
        }
        let process = match &record.run {
            Some(run) => Process::Up(Up {
                run: run.id.as_str().into(),
                stopping: run
                    .stopping
                    .map(|stopping| Stopping { step: stopping.step, age: age(stopping.since_ms) }),
                own_keeper: kept && run.keeper == record.keeper,
            }),
            None => self.spawning(dir, &wish),
        };
        Ok(Found { wish, record, process })
    }

    /// Starts a keeper that starts the server.
    pub fn start(&mut self, dir: &Path, wish: &Wish) -> Process {
        self.spawn(dir, wish, START);
        self.spawning(dir, wish)
    }

    /// Lets a keeper that could not be started be tried again.
    pub fn forgive(&mut self, dir: &Path) {
        if matches!(self.spawned.get(dir), Some(Spawned::Failed { .. })) {
            self.spawned.remove(dir);
        }
    }

    fn is_gone(&mut self, dir: &Path) -> bool {
        match self.spawned.get_mut(dir) {
            Some(Spawned::Keeper { child, .. }) => !matches!(child.try_wait(), Ok(None)),
            Some(Spawned::Failed { .. }) | None => false,
        }
    }

    /// Forgets a keeper that has written its first record. One that is gone without has failed.
    fn settle(&mut self, dir: &Path, wish: &Wish, record: &Record, gone: bool, kept: bool) {
        let Some(Spawned::Keeper { pid, .. }) = self.spawned.get(dir) else { return };
        // Gone, but kept: another was faster.
        if *pid == Some(record.keeper) || (gone && kept) {
            self.spawned.remove(dir);
        } else if gone {
            let why = format!("its keeper ended at once; {} may say why", dir.join(KEEPER_LOG).display());
            self.spawned.insert(dir.to_owned(), Spawned::Failed { wish: wish.number, why });
        }
    }

    fn spawning(&self, dir: &Path, wish: &Wish) -> Process {
        match self.spawned.get(dir) {
            Some(Spawned::Keeper { .. }) => Process::Spawning,
            Some(Spawned::Failed { wish: number, why }) if *number == wish.number => {
                Process::NoKeeper(why.clone())
            }
            Some(Spawned::Failed { .. }) | None => Process::Down,
        }
    }

    fn spawn(&mut self, dir: &Path, wish: &Wish, purpose: &str) {
        let spawned = match spawn(&self.program, dir, purpose) {
            Ok(child) => Spawned::Keeper { pid: child.id(), child },
            Err(error) => {
                let why = format!("its keeper {} cannot be started: {error}", self.program.display());
                Spawned::Failed { wish: wish.number, why }
            }
        };
        self.spawned.insert(dir.to_owned(), spawned);
    }
}

fn spawn(program: &Path, dir: &Path, purpose: &str) -> io::Result<Child> {
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(dir.join(KEEPER_LOG))?;
    let environment = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    Command::new(program)
        // What `ps` shows: the program may be a link in /proc.
        .arg0("swarmgate")
        .args(["keeper", purpose])
        .arg(dir)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
}

fn seen_exit(exit: files::Exit) -> Exit {
    Exit {
        age: age(exit.ended_ms),
        ran: Duration::from_millis(exit.ended_ms.saturating_sub(exit.started_ms)),
        how: exit.how,
        asked: exit.asked,
    }
}

/// How long ago a time of the wall clock was; none at all if the clock was set back since.
fn age(ms: u64) -> Duration {
    Duration::from_millis(unix_ms().saturating_sub(ms))
}
