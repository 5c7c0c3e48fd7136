//! Local servers: commands of this machine, each under a keeper of its own.
//!
//! The source writes wishes and reads records; the keepers act. So it finds its servers again after a
//! restart of the gate, and whatever happened in between.

mod keepers;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use swarmgate_core::alert::{Sight, Trouble};
use swarmgate_core::config::ProcessServer;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Service, ServiceId, Snapshot, SourceId, State};
use swarmgate_core::state::process::{Outlook, ProcessServices, Seen, judge};
use swarmgate_core::state::sight;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::{Begun, Source, SourceError};
use crate::keeper::console::{self, ConsoleError};
use crate::keeper::files::{self, KEEPER_LOCK, is_locked, millis};
use crate::keeper::output::{self, Follow};
use keepers::{Found, Keepers};

pub const ID: SourceId = ServiceId::LOCAL;
/// How often to look even if nothing was reported.
const AT_LEAST: Duration = Duration::from_secs(5);

/// The source `process`.
#[derive(Debug)]
pub struct ProcessSource {
    root: PathBuf,
    config: Receiver<Arc<ProcessServices>>,
    keepers: Keepers,
    /// The earliest start that is to come.
    next_start: Option<Instant>,
    /// When the last end of each server was that is known of.
    ends: BTreeMap<Arc<str>, u64>,
    /// Ends that no listing has shown yet.
    troubles: BTreeMap<Arc<str>, Vec<Trouble>>,
    sights: Vec<Sight>,
    /// Running servers that are not configured, as last reported.
    left_over: BTreeSet<PathBuf>,
}

/// This program, even after it was replaced on disk by an upgrade: what to start keepers with.
pub fn this_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

impl ProcessSource {
    /// Keeps its state in `data_dir/process`. `keeper` is a program with the subcommand `keeper`, such as
    /// [`this_program`]. Must be called inside a runtime.
    pub fn new(data_dir: &Path, keeper: PathBuf, config: Receiver<Arc<ProcessServices>>) -> Self {
        Self {
            root: root(data_dir),
            config,
            keepers: Keepers::new(keeper),
            next_start: None,
            ends: BTreeMap::new(),
            troubles: BTreeMap::new(),
            sights: Vec::new(),
            left_over: BTreeSet::new(),
        }
    }

    /// Kills a running server at once, without a save: an operator's explicit order.
    pub fn kill(&mut self, service: &str) -> Result<(), SourceError> {
        let server = self.server(service)?;
        let dir = state_dir(&self.root, &server.name);
        let mut kill = || {
            let Found { mut wish, record, .. } = self.keepers.look(&dir)?;
            wish.up = false;
            wish.kill_run = record.run.map(|run| run.id);
            wish.write(&dir)
        };
        in_state_of(service, kill())
    }

    /// Stops every server, also those that are no longer configured, and waits for them up to `limit`.
    /// Returns the state directories of those that have not stopped by then; their keepers go on stopping them.
    pub async fn stop_all(&mut self, limit: Duration) -> Vec<PathBuf> {
        let give_up = Instant::now() + limit;
        loop {
            let mut left = state_dirs(&self.root);
            left.retain(|dir| self.told_to_stop(dir).unwrap_or(true));
            if left.is_empty() || Instant::now() >= give_up {
                return left;
            }
            let _ = tokio::time::timeout_at(give_up, self.changed()).await;
        }
    }

    /// Whether it has yet to stop.
    fn told_to_stop(&mut self, dir: &Path) -> io::Result<bool> {
        let Found { mut wish, record, .. } = self.keepers.look(dir)?;
        if wish.up {
            wish.up = false;
            wish.write(dir)?;
        }
        Ok(record.run.is_some() || is_locked(&dir.join(KEEPER_LOCK)))
    }

    fn server(&self, name: &str) -> Result<ProcessServer, SourceError> {
        let config = self.config.borrow();
        let found = config.servers.iter().find(|server| &*server.name == name);
        found.cloned().ok_or_else(|| SourceError::NoSuchService(name.to_owned()))
    }

    fn service(&mut self, server: &ProcessServer, now: Moment) -> Service {
        let outlook = self.tend(server, now).unwrap_or_else(|error| {
            State::Unknown { reason: format!("its state cannot be read or written: {error}") }.into()
        });
        if let Some(start) = outlook.start {
            let start = Instant::now() + now.until(start);
            self.next_start = Some(self.next_start.map_or(start, |next| next.min(start)));
        }
        let service = Service {
            id: ServiceId { source: ID, name: server.name.clone() },
            spec: server.spec.clone(),
            state: outlook.state,
            scalable: true,
            problems: outlook.problems,
        };
        let ends = self.troubles.remove(&server.name).unwrap_or_default();
        self.sights.push(sight(&service, ends));
        service
    }

    /// What is to be told of the ends since the last look. What was over before the first is not.
    fn note_ends(&mut self, server: &ProcessServer, exits: &[files::Exit]) {
        let newest = exits.iter().map(|exit| exit.ended_ms).max().unwrap_or_default();
        let Some(known) = self.ends.insert(server.name.clone(), newest) else { return };
        let new = exits.iter().filter(|exit| exit.ended_ms > known);
        let troubles = new.filter_map(|exit| exit.how.trouble(exit.asked));
        let troubles = troubles.map(|trouble| trouble.of_run(&server.name));
        self.troubles.entry(server.name.clone()).or_default().extend(troubles);
    }

    /// Judges one server and starts it if that is due.
    fn tend(&mut self, server: &ProcessServer, now: Moment) -> io::Result<Outlook> {
        let dir = state_dir(&self.root, &server.name);
        let mut found = self.keepers.look(&dir)?;
        self.note_ends(server, &found.record.exits);
        if (found.wish.up || found.record.run.is_some()) && found.wish.server != for_keeper(server) {
            // The configuration has changed; how to stop counts for the present run too.
            found.wish.server = for_keeper(server);
            found.wish.write(&dir)?;
        }
        let wish = found.wish.clone();
        let seen = found.seen();
        let outlook = judge(server, &seen, now);
        match outlook.start {
            Some(start) if start <= now => {
                let process = self.keepers.start(&dir, &wish);
                Ok(judge(server, &Seen { process, ..seen }, now))
            }
            Some(_) | None => Ok(outlook),
        }
    }

    fn ask(&mut self, server: &ProcessServer, up: bool, now: Moment) -> io::Result<()> {
        let dir = state_dir(&self.root, &server.name);
        self.keepers.forgive(&dir);
        let mut found = self.keepers.look(&dir)?;
        let mut wish = found.wish.clone();
        if up {
            found.wish.server = for_keeper(server);
            let state = judge(server, &found.seen(), now).state;
            if wish.up && is_coming_or_there(&state) {
                return Ok(());
            }
            wish.number += 1;
            wish.kill_run = None;
        }
        wish.up = up;
        wish.server = for_keeper(server);
        wish.write(&dir)?;
        self.tend(server, now).map(drop)
    }

    /// An edit of the configuration stops no world: what is no longer in it goes on, and is named once.
    fn report_left_over(&mut self, config: &ProcessServices) {
        let known: BTreeSet<_> =
            config.servers.iter().map(|server| state_dir(&self.root, &server.name)).collect();
        let mut left_over = BTreeSet::new();
        for dir in state_dirs(&self.root).into_iter().filter(|dir| !known.contains(dir)) {
            if self.keepers.look(&dir).is_ok_and(|found| found.record.run.is_some()) {
                if !self.left_over.contains(&dir) {
                    tracing::warn!(
                        state = %dir.display(),
                        "A server runs that is no longer configured. It is left running. To stop it, configure it \
                         again and put it to sleep with `swarmgate sleep`"
                    );
                }
                left_over.insert(dir);
            }
        }
        self.left_over = left_over;
    }
}

impl Source for ProcessSource {
    fn id(&self) -> SourceId {
        ID
    }

    async fn list(&mut self, now: Moment) -> Result<Snapshot, SourceError> {
        let config = self.config.borrow_and_update().clone();
        self.next_start = None;
        self.sights.clear();
        let services = config.servers.iter().map(|server| self.service(server, now)).collect();
        self.report_left_over(&config);
        Ok(Snapshot::of(services))
    }

    async fn changed(&mut self) {
        let at_least = Instant::now() + AT_LEAST;
        let look = self.next_start.map_or(at_least, |start| start.min(at_least));
        tokio::select! {
            () = self.keepers.watch.changed() => {}
            Ok(()) = self.config.changed() => {}
            () = tokio::time::sleep_until(look) => {}
        }
    }

    fn sights(&mut self) -> Vec<Sight> {
        std::mem::take(&mut self.sights)
    }

    fn last_lines(&self, run: &Begun, lines: usize) -> impl Future<Output = Vec<String>> + Send + use<> {
        let dir = state_dir(&self.root, &run.run);
        async move {
            let read = tokio::task::spawn_blocking(move || output::tail(&dir, lines));
            read.await.ok().and_then(Result::ok).unwrap_or_default()
        }
    }

    async fn scale(&mut self, service: &str, up: bool, now: Moment) -> Result<(), SourceError> {
        let server = self.server(service)?;
        in_state_of(service, self.ask(&server, up, now))
    }
}

/// The consoles and outputs of the servers under a data directory. Needs no running gate.
#[derive(Debug, Clone)]
pub struct Consoles {
    root: PathBuf,
}

impl Consoles {
    pub fn new(data_dir: &Path) -> Self {
        Self { root: root(data_dir) }
    }

    /// Types a line into a server's console.
    pub fn send(&self, service: &str, line: &str) -> Result<(), ConsoleError> {
        console::send(&state_dir(&self.root, service), line)
    }

    /// The last lines a server wrote, oldest first. Empty if it never ran.
    pub fn tail(&self, service: &str, lines: usize) -> io::Result<Vec<String>> {
        output::tail(&state_dir(&self.root, service), lines)
    }

    /// What a server writes from now on.
    pub fn follow(&self, service: &str) -> Follow {
        output::follow(&state_dir(&self.root, service))
    }
}

fn is_coming_or_there(state: &State) -> bool {
    match state {
        State::Starting { .. } | State::Running(_) | State::Restarting { .. } => true,
        State::Asleep | State::Stopping | State::Failed { .. } | State::Unknown { .. } => false,
    }
}

fn for_keeper(server: &ProcessServer) -> files::Server {
    files::Server {
        command: server.command.clone(),
        directory: absolute(&server.directory),
        env: server.env.clone(),
        stop_command: server.stop_command.clone(),
        grace_ms: millis(server.grace),
        kill: server.kill,
        address: server.endpoint.to_string(),
    }
}

fn in_state_of(service: &str, done: io::Result<()>) -> Result<(), SourceError> {
    done.map_err(|source| SourceError::Io {
        what: format!("the state of {service} cannot be read or written"),
        source,
    })
}

fn root(data_dir: &Path) -> PathBuf {
    absolute(data_dir).join("process")
}

/// Keepers need not share the gate's working directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn state_dirs(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// A directory per server name, whatever the name holds: `%` and two hex digits for all but the harmless.
fn state_dir(root: &Path, name: &str) -> PathBuf {
    let mut safe = String::with_capacity(name.len());
    for byte in name.bytes() {
        match char::from(byte) {
            c @ ('a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_') => safe.push(c),
            c @ '.' if !safe.is_empty() => safe.push(c),
            _ => safe.push_str(&format!("%{byte:02x}")),
        }
    }
    root.join(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_the_data_directory() {
        for (name, dir) in [
            ("survival", "survival"),
            ("sky.block-2", "sky.block-2"),
            ("..", "%2e."),
            (".hidden", "%2ehidden"),
            ("a/../b", "a%2f..%2fb"),
            ("ü", "%c3%bc"),
            ("50%", "50%25"),
        ] {
            assert_eq!(state_dir(Path::new("/data"), name), Path::new("/data").join(dir), "{name}");
        }
    }
}
