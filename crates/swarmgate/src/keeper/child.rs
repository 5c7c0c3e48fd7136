//! The server's process: how it is started, recognised and signalled.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{CWD, Mode};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, Signal};
use tokio::net::{TcpStream, lookup_host};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::files::{CONSOLE, Run, SERVER_LOCK, Server, WORLD_LOCK, about, is_locked, try_lock};
use super::output;

/// A lock that is only being looked at by somebody else is free again at once.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// Whoever listens on this machine takes a connection at once.
const KNOCK: Duration = Duration::from_secs(1);

/// A server about to be started: nothing but the start itself is missing.
pub struct Prepared {
    command: Command,
    program: String,
    directory: PathBuf,
    /// Open until the server has inherited it.
    _state_lock: File,
    world_lock: File,
}

/// Prepares the server of the state directory `dir`. The error is a sentence for its owner.
pub async fn prepare(dir: &Path, server: &Server) -> Result<Prepared, String> {
    let Some((program, arguments)) = server.command.split_first() else {
        return Err("its command is empty: set `command`".to_owned());
    };
    check_directory(&server.directory)?;
    let state_lock = lock_state(dir).await?;
    let world_lock = lock_world(&server.directory).await?;
    check_address(&server.address).await?;
    let mut command = Command::new(program);
    command.args(arguments).envs(&server.env).current_dir(&server.directory).process_group(0);
    let mut wire = || -> io::Result<()> {
        let out = output::open(dir)?;
        command.stdin(console(dir)?).stderr(out.try_clone()?).stdout(out);
        // The server inherits both locks; they are free when it and all its children have ended.
        for lock in [&state_lock, &world_lock] {
            rustix::io::fcntl_setfd(lock, FdFlags::empty())?;
        }
        Ok(())
    };
    wire().map_err(|error| format!("its console cannot be set up in {}: {error}", shown(dir)))?;
    let (program, directory) = (program.clone(), server.directory.clone());
    Ok(Prepared { command, program, directory, _state_lock: state_lock, world_lock })
}

impl Prepared {
    /// Starts it, and says in `run` which process it is. The error is a sentence for its owner.
    pub fn start(mut self, run: &mut Run) -> Result<Child, String> {
        let child =
            self.command.spawn().map_err(|error| not_spawned(&self.program, &self.directory, &error))?;
        run.pid = child.id().unwrap_or_default();
        run.start_ticks = start_ticks(run.pid).unwrap_or_default();
        // For people, and for the message of whoever finds the world in use.
        let _ = self.world_lock.set_len(0);
        let _ = writeln!(self.world_lock, "process {}, kept by process {}", run.pid, run.keeper);
        Ok(child)
    }
}

/// Takes a lock, waiting a little for whoever only looks whether it is held.
pub async fn lock(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..LOCK_TRIES {
        if let Some(lock) = try_lock(path)? {
            return Ok(Some(lock));
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
    Ok(None)
}

/// Whether anything of `run` is left in the state directory `dir`, as far as one can tell who is not its parent.
pub fn remains(dir: &Path, run: &Run) -> bool {
    is_locked(&dir.join(SERVER_LOCK)) || lives(run)
}

/// Whether the process of `run` is there, and not another that got its number.
pub fn lives(run: &Run) -> bool {
    run.boot == boot() && start_ticks(run.pid) == Some(run.start_ticks)
}

/// Signals the process group of a server, or the server alone if it left its group.
pub fn signal(run: &Run, signal: Signal) {
    let Some(pid) = process_id(run.pid) else { return };
    if rustix::process::kill_process_group(pid, signal).is_err() {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Signals whoever has the server's lock in `dir`; says whether there was any.
pub fn signal_holders(dir: &Path, signal: Signal) -> bool {
    let mut any = false;
    for pid in holders(&dir.join(SERVER_LOCK)).into_iter().filter_map(process_id) {
        any |= rustix::process::kill_process(pid, signal).is_ok();
    }
    any
}

/// Whether any process is left in the group that `pid` led.
pub fn group_lives(pid: u32) -> bool {
    process_id(pid).is_some_and(|pid| rustix::process::test_kill_process_group(pid).is_ok())
}

/// Why `program` could not be started from `directory`, as far as that can be seen without trying.
pub fn obstacle(program: &str, directory: &Path) -> Option<String> {
    if let Err(why) = check_directory(directory) {
        return Some(why);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = if program.contains('/') {
        directory.join(program).is_file()
    } else {
        std::env::split_paths(&path).any(|place| place.join(program).is_file())
    };
    (!found).then(|| not_spawned(program, directory, &Errno::NOENT.into()))
}

fn check_directory(directory: &Path) -> Result<(), String> {
    match std::fs::metadata(directory) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!("{} is not a directory: correct `directory`", shown(directory))),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
            "the directory {} does not exist: create it or correct `directory`",
            shown(directory)
        )),
        Err(error) => Err(format!("the directory {} cannot be used: {error}", shown(directory))),
    }
}

/// Nobody may listen where the server is to: players would be let in to a stranger. Only on this machine: what
/// answers on another may well be what the command is to bring up.
async fn check_address(address: &str) -> Result<(), String> {
    // What has no address now is found when it is dialled.
    let Ok(Ok(found)) = timeout(KNOCK, lookup_host(address)).await else { return Ok(()) };
    for address in found.filter(|address| is_here(address.ip())) {
        let Ok(Ok(stream)) = timeout(KNOCK, TcpStream::connect(address)).await else { continue };
        // From a port to itself, where nobody listens: the kernel may choose that for a connection.
        if stream.local_addr().is_ok_and(|own| own == address) {
            continue;
        }
        return Err(format!(
            "{address} is in use by another program; stop that one, or give this server another port"
        ));
    }
    Ok(())
}

fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The processes that hold the lock at `path`, not those that only read the file: `/proc/PID/fdinfo` names
/// the locks of a descriptor (proc(5)).
fn holders(path: &Path) -> Vec<u32> {
    let Ok(lock) = std::fs::metadata(path) else { return Vec::new() };
    let pids = entries(Path::new("/proc")).filter_map(|process| process.file_name()?.to_str()?.parse().ok());
    let holds = |pid: &u32| {
        entries(&PathBuf::from(format!("/proc/{pid}/fd"))).any(|descriptor| {
            let same = std::fs::metadata(&descriptor)
                .is_ok_and(|file| (file.dev(), file.ino()) == (lock.dev(), lock.ino()));
            let number = descriptor.file_name().unwrap_or_default();
            let info = Path::new("/proc").join(pid.to_string()).join("fdinfo").join(number);
            same && std::fs::read_to_string(info).is_ok_and(|info| info.contains("FLOCK"))
        })
    };
    pids.filter(holds).collect()
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

async fn lock_state(dir: &Path) -> Result<File, String> {
    match lock(&dir.join(SERVER_LOCK)).await {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(format!(
            "a process of its last run is still there; find it with `fuser {}` and end it",
            shown(&dir.join(SERVER_LOCK))
        )),
        Err(error) => Err(format!("its lock cannot be taken in {}: {error}", shown(dir))),
    }
}

async fn lock_world(directory: &Path) -> Result<File, String> {
    let path = directory.join(WORLD_LOCK);
    match lock(&path).await {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => {
            let mut holder = String::new();
            // Bounded: anybody could have left anything there.
            let read = File::open(&path).and_then(|file| file.take(1000).read_to_string(&mut holder));
            let holder = holder.lines().next().filter(|_| read.is_ok()).unwrap_or("another process");
            Err(format!(
                "its directory {} is in use by {holder}: stop that one first, or give this server a directory of \
                 its own",
                shown(directory)
            ))
        }
        Err(error) => Err(format!(
            "the lock file {} cannot be taken: {error}; the directory must be writable for the user of the gate",
            shown(&path)
        )),
    }
}

/// The FIFO that is the server's standard input. Opened for writing too, it never ends, whoever dies.
fn console(dir: &Path) -> io::Result<Stdio> {
    let path = dir.join(CONSOLE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(about(&path)(error)),
        Ok(()) | Err(_) => {}
    }
    rustix::fs::mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR)
        .map_err(io::Error::from)
        .map_err(about(&path))?;
    Ok(OpenOptions::new().read(true).write(true).open(&path).map_err(about(&path))?.into())
}

fn not_spawned(program: &str, directory: &Path, error: &io::Error) -> String {
    let inside = if program.contains('/') { format!(" (in {})", shown(directory)) } else { String::new() };
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) if program.contains('/') => {
            format!("the program {program:?}{inside} does not exist: correct `command`")
        }
        Some(Errno::NOENT) => {
            format!("the program {program:?} is not in PATH: install it or correct `command`")
        }
        Some(Errno::ACCESS) => {
            format!("the program {program:?}{inside} may not be executed: try `chmod +x` on it")
        }
        Some(Errno::NOEXEC) => {
            format!(
                "the file {program:?}{inside} is not a program: a script starts with a line such as `#!/bin/sh`"
            )
        }
        Some(_) | None => format!("the program {program:?}{inside} cannot be started: {error}"),
    }
}

/// Field 22 of `/proc/PID/stat` (proc(5)); none for a process that is gone or a zombie.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in field 2 may hold anything, also spaces and brackets.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18))??.parse().ok()
}

/// Of the running system.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn process_id(pid: u32) -> Option<Pid> {
    // 0 and 1 would reach far more than a server.
    i32::try_from(pid).ok().filter(|&pid| pid > 1).and_then(Pid::from_raw)
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_of_its_number() {
        let pid = std::process::id();
        let run = Run {
            id: String::new(),
            wish: 1,
            keeper: 1,
            pid,
            start_ticks: start_ticks(pid).unwrap(),
            boot: boot(),
            started_ms: 0,
            asked: false,
            stopping: None,
        };
        assert!(lives(&run));
        assert!(!lives(&Run { start_ticks: run.start_ticks + 1, ..run.clone() }));
        assert!(!lives(&Run { boot: "another".to_owned(), ..run }));
    }

    #[test]
    fn the_holder_of_a_lock_is_found_and_a_reader_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = try_lock(&path).unwrap();
        assert!(holders(&path).contains(&std::process::id()));
        drop(lock);
        let _reader = File::open(&path).unwrap();
        assert!(!holders(&path).contains(&std::process::id()));
    }

    #[test]
    fn never_signals_everybody() {
        assert_eq!([0, 1, u32::MAX].map(process_id), [None; 3]);
    }
}
