//! What outlives the gate: one embedded database in the data directory.
//!
//! All of it is in memory, too, and that is what is asked. What changes is written soon; a disk that takes nothing
//! costs the memory of the next gate, not this one.

mod file;
mod layout;
pub mod place;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use swarmgate_core::learned::Learned;
use swarmgate_core::publish::memory::Memory;
use swarmgate_core::service::ServiceId;

use self::file::{Changes, FILE, File, Kept};
use self::layout::VERSION;

/// Of each service, by its displayed id.
const LEARNED: &str = "learned";
/// One, without a name.
const PUBLICATION: &str = "publication";
/// Made over HTTP, by hostname.
const ROUTE: &str = "route";
const KEY: &str = "key";
const PASSES: &str = "passes";

/// How long a disk that takes nothing is left alone.
const RETRY: Duration = Duration::from_secs(5);

/// A cheap handle.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Without one everything is forgotten when the gate stops.
    directory: Option<PathBuf>,
    memory: Mutex<Content>,
    /// Held by the one who writes, so that the latest is written last.
    disk: Mutex<Disk>,
}

#[derive(Debug, Default)]
struct Content {
    kept: Kept,
    /// What the disk does not know yet.
    unwritten: BTreeSet<(String, String)>,
    /// The disk took nothing last; it is asked again now and then.
    retrying: bool,
}

#[derive(Debug, Default)]
struct Disk {
    file: Option<File>,
    /// What is in the file is in memory, too, so that it may be written over.
    is_read: bool,
    /// What the log has heard of it last.
    complaint: String,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("another swarmgate uses {0}; give this one its own data_dir, or stop the other")]
    InUse(String),
    #[error(
        "{path} was written by a newer swarmgate (store version {found}, this one knows {VERSION}); upgrade, or give another data_dir"
    )]
    TooNew { path: String, found: u64 },
    #[error("cannot create the data directory {path}")]
    Directory { path: String, source: io::Error },
    #[error("cannot open {path}")]
    Open { path: String, source: Box<dyn Error + Send + Sync> },
    #[error("{path} could not be read when the gate started")]
    Unread { path: String, source: Option<Box<StoreError>> },
    #[error("cannot write what is to be kept")]
    Write { source: Box<redb::Error> },
    #[error("this system gives no random numbers")]
    NoRandomness,
}

impl StoreError {
    /// A short name for programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::InUse(_) => "store_in_use",
            Self::TooNew { .. } => "store_too_new",
            Self::Directory { .. }
            | Self::Open { .. }
            | Self::Unread { .. }
            | Self::Write { .. }
            | Self::NoRandomness => "store_unusable",
        }
    }

    /// Whether it is a matter of the disk alone: the gate can do without, and there may be room again one day.
    fn is_of_the_disk(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let source = match self {
            Self::Directory { source, .. } => Some(source),
            Self::Open { source, .. } => source.downcast_ref(),
            Self::Unread { .. }
            | Self::Write { .. }
            | Self::InUse(_)
            | Self::TooNew { .. }
            | Self::NoRandomness => None,
        };
        let kinds = [FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull];
        source.is_some_and(|error: &io::Error| kinds.contains(&error.kind()))
    }

    /// What it costs, and what can be done.
    const fn cost(&self) -> &'static str {
        let Self::Unread { source, .. } = self else {
            return "nothing can be kept; what the gate learns of services, their pins, and what it knows of publications is \
                    in memory until the disk takes it, and is lost if the gate ends before";
        };
        if source.is_some() {
            "what earlier runs kept stays as it is, and this run does without; restart swarmgate once the disk can be \
             written to, and all is back. What is learned until then is in memory only, and lost at that restart"
        } else {
            "the store can be used again, and what earlier runs kept is in it: restart swarmgate to have it back. What is \
             learned until then is in memory only, and lost at that restart"
        }
    }

    /// What it means to a gate that has not read the file.
    fn before_reading(self, directory: &Path) -> Self {
        let path = directory.join(FILE);
        if !self.is_of_the_disk() || !path.exists() {
            return self;
        }
        Self::Unread { path: path.display().to_string(), source: Some(Box::new(self)) }
    }
}

impl Store {
    pub fn in_memory() -> Self {
        Self::new(None, None, Kept::new())
    }

    /// Opens the store in `directory`. Where the disk is full, or cannot be written to by
    /// anybody, it begins in memory, and what is in the file is left as it is for the next run.
    ///
    /// # Errors
    /// When it must not be used, or nothing of the kind can be in that place.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        match File::open(directory) {
            Ok((file, kept)) => Ok(Self::new(Some(directory.to_owned()), Some(file), kept)),
            Err(error) if error.is_of_the_disk() => {
                let store = Self::new(Some(directory.to_owned()), None, Kept::new());
                store.complain(&mut lock(&store.shared.disk), &error.before_reading(directory));
                Ok(store)
            }
            Err(error) => Err(error),
        }
    }

    fn new(directory: Option<PathBuf>, file: Option<File>, kept: Kept) -> Self {
        let memory = Mutex::new(Content { kept, ..Content::default() });
        let disk = Mutex::new(Disk { is_read: file.is_some(), file, complaint: String::new() });
        Self { shared: Arc::new(Shared { directory, memory, disk }) }
    }

    /// Whether what is to be kept is kept, as far as is known; `None` if nothing is.
    pub fn is_well(&self) -> Option<bool> {
        self.shared.directory.as_ref().map(|_| !lock(&self.shared.memory).retrying)
    }

    /// Everything learned, by displayed service id.
    pub fn learned(&self) -> Vec<(String, Learned)> {
        self.all(LEARNED)
    }

    /// What passes are signed with, the same in every run of the gate.
    pub fn pass_key(&self) -> Result<[u8; 32], StoreError> {
        if let Some(key) = self.get(KEY, PASSES) {
            return Ok(key);
        }
        let mut new = [0; 32];
        getrandom::fill(&mut new).map_err(|_| StoreError::NoRandomness)?;
        self.put(KEY, PASSES, &new);
        self.flush();
        Ok(new)
    }

    /// What is remembered of the publication of services.
    pub fn publication(&self) -> Memory {
        self.get(PUBLICATION, "").unwrap_or_default()
    }

    /// Keeps it, at once. Blocks.
    pub fn keep_publication(&self, memory: &Memory) {
        self.put(PUBLICATION, "", memory);
        self.flush();
    }

    /// The routes that were made over the API: hostname and backend; the hostname of the default route is empty.
    pub fn routes(&self) -> Vec<(String, String)> {
        self.all(ROUTE)
    }

    /// Keeps a route, or forgets it. Once this has returned it survives a kill. Blocks.
    ///
    /// # Errors
    /// When it cannot be written; then it is not kept.
    pub fn keep_route(&self, host: &str, backend: Option<&str>) -> Result<(), StoreError> {
        let key = (ROUTE.to_owned(), host.to_owned());
        let value = backend.map(|backend| Value::from(backend).to_string());
        let before = lock(&self.shared.memory).put(key.clone(), value);
        self.try_flush().inspect_err(|_| drop(lock(&self.shared.memory).put(key, before)))
    }

    /// Keeps what was learned, soon: the latest of each service.
    pub fn remember(&self, service: &ServiceId, learned: &Learned) {
        self.put(LEARNED, &service.to_string(), learned);
        if self.shared.directory.is_none() || lock(&self.shared.memory).retrying {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                let store = self.clone();
                drop(runtime.spawn_blocking(move || store.flush()));
            }
            Err(_) => self.flush(),
        }
    }

    /// Returns when everything told so far is on disk, or cannot be. Blocks.
    pub fn flush(&self) {
        // What is wrong has been told.
        let _ = self.try_flush();
    }

    fn try_flush(&self) -> Result<(), StoreError> {
        let Some(directory) = &self.shared.directory else { return Ok(()) };
        let mut disk = lock(&self.shared.disk);
        if lock(&self.shared.memory).is_written() {
            return Ok(());
        }
        let written = self.write(directory, &mut disk);
        match &written {
            Ok(()) if !std::mem::take(&mut disk.complaint).is_empty() => {
                tracing::info!("the store is written again; nothing is lost");
            }
            Ok(()) => {}
            Err(error) => {
                disk.file = None;
                self.complain(&mut disk, error);
            }
        }
        written
    }

    /// A file that turns out to be damaged is written anew, with all that is known.
    fn write(&self, directory: &Path, disk: &mut Disk) -> Result<(), StoreError> {
        match self.write_once(directory, disk) {
            Err(StoreError::Write { source }) if file::is_damage(&source) => {
                disk.file = None;
                file::set_aside(directory, &source)?;
                self.write_once(directory, disk)
            }
            ended => ended,
        }
    }

    fn write_once(&self, directory: &Path, disk: &mut Disk) -> Result<(), StoreError> {
        let file = match disk.file.take() {
            Some(file) => file,
            None if disk.is_read => File::open(directory)?.0,
            None => open_unread(directory)?,
        };
        disk.is_read = true;
        let file = disk.file.insert(file);
        loop {
            let (taken, changes) = lock(&self.shared.memory).changes(file.is_new);
            let written = file.write(&changes);
            let mut memory = lock(&self.shared.memory);
            if let Err(error) = written {
                memory.unwritten.extend(taken);
                return Err(StoreError::Write { source: Box::new(error) });
            }
            file.is_new = false;
            // What came meanwhile may count on being tried again.
            memory.retrying &= !memory.unwritten.is_empty();
            if !memory.retrying {
                return Ok(());
            }
        }
    }

    /// Once for each thing that is wrong; then it is tried again until it works.
    fn complain(&self, disk: &mut Disk, error: &StoreError) {
        let why = crate::errors::chain(error);
        if disk.complaint != why {
            tracing::warn!(error = why, "{}", error.cost());
            disk.complaint = why;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !std::mem::replace(&mut lock(&self.shared.memory).retrying, true) {
            drop(runtime.spawn(self.clone().retry()));
        }
    }

    async fn retry(self) {
        while lock(&self.shared.memory).retrying {
            tokio::time::sleep(RETRY).await;
            let store = self.clone();
            // It says itself what is wrong.
            let flushed = tokio::task::spawn_blocking(move || store.try_flush()).await;
            if let Ok(Err(StoreError::Unread { source: None, .. })) = flushed {
                // Only the next run can make it good.
                return;
            }
        }
    }

    /// All of a kind, by name. What cannot be read is left out.
    fn all<T: DeserializeOwned>(&self, kind: &str) -> Vec<(String, T)> {
        let memory = lock(&self.shared.memory);
        let of_kind = memory.kept.iter().filter(|((of, _), _)| of == kind);
        of_kind.filter_map(|((_, name), json)| Some((name.clone(), parse(kind, name, json)?))).collect()
    }

    fn get<T: DeserializeOwned>(&self, kind: &str, name: &str) -> Option<T> {
        let key = (kind.to_owned(), name.to_owned());
        parse(kind, name, lock(&self.shared.memory).kept.get(&key)?)
    }

    fn put<T: Serialize>(&self, kind: &str, name: &str, value: &T) {
        match serde_json::to_string(value) {
            Ok(json) => drop(lock(&self.shared.memory).put((kind.to_owned(), name.to_owned()), Some(json))),
            Err(error) => {
                tracing::warn!(kind, name, %error, "something that is to be kept cannot be written down")
            }
        }
    }
}

impl Content {
    /// Gives what was there before.
    fn put(&mut self, key: (String, String), value: Option<String>) -> Option<String> {
        let before = match &value {
            Some(value) => self.kept.insert(key.clone(), value.clone()),
            None => self.kept.remove(&key),
        };
        if before != value {
            self.unwritten.insert(key);
        }
        before
    }

    /// Whether there is nothing to ask the disk.
    fn is_written(&self) -> bool {
        self.unwritten.is_empty() && !self.retrying
    }

    /// Takes what the disk does not know yet; a new file knows nothing.
    fn changes(&mut self, is_new: bool) -> (BTreeSet<(String, String)>, Changes) {
        let taken = std::mem::take(&mut self.unwritten);
        let all = self.kept.keys().filter(|_| is_new);
        let keys: BTreeSet<_> = taken.iter().chain(all).cloned().collect();
        let changes = keys.into_iter().map(|key| (self.kept.get(&key).cloned(), key));
        let changes = changes.map(|(value, key)| (key, value)).collect();
        (taken, changes)
    }
}

/// For a gate that began without the file: what an owner had is not to be written over by one who never knew it.
fn open_unread(directory: &Path) -> Result<File, StoreError> {
    let (file, kept) = File::open(directory).map_err(|error| error.before_reading(directory))?;
    if kept.is_empty() {
        return Ok(file);
    }
    Err(StoreError::Unread { path: directory.join(FILE).display().to_string(), source: None })
}

fn parse<T: DeserializeOwned>(kind: &str, name: &str, json: &str) -> Option<T> {
    let parsed = serde_json::from_str(json);
    parsed
        .inspect_err(
            |error| tracing::warn!(kind, name, %error, "an entry of the store is not readable; skipped"),
        )
        .ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
