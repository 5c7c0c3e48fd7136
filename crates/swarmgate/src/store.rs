//! What outlives the gate: one embedded database in the data directory.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use swarmgate_core::learned::Learned;
use swarmgate_core::publish::memory::Memory;
use swarmgate_core::service::ServiceId;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const LEARNED: TableDefinition<&str, &str> = TableDefinition::new("learned");
/// One entry.
const PUBLICATION: TableDefinition<(), &str> = TableDefinition::new("publication");
const KEYS: TableDefinition<&str, [u8; 32]> = TableDefinition::new("keys");
/// Hostname to backend; the hostname of the default route is empty.
const ROUTES: TableDefinition<&str, &str> = TableDefinition::new("routes");
const PASSES: &str = "passes";
/// Raised when a table changes its meaning; older stores are then migrated on opening.
const VERSION: u64 = 1;
const FILE: &str = "swarmgate.redb";

/// Without a data directory everything is forgotten when the gate stops.
#[derive(Debug, Clone)]
pub struct Store {
    database: Option<Arc<Database>>,
    /// Learned and not taken by a writer yet.
    pending: Arc<Mutex<BTreeMap<String, String>>>,
    /// Held by the one who takes and writes what is pending, so that the latest is written last.
    writing: Arc<Mutex<()>>,
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
    Directory { path: String, source: std::io::Error },
    #[error("cannot open {path}")]
    Open { path: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the store cannot be written")]
    Write { source: Box<dyn std::error::Error + Send + Sync> },
    #[error("this system gives no random numbers")]
    NoRandomness,
}

impl StoreError {
    /// A short name for programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::InUse(_) => "store_in_use",
            Self::TooNew { .. } => "store_too_new",
            Self::Directory { .. } | Self::Open { .. } | Self::Write { .. } | Self::NoRandomness => {
                "store_unusable"
            }
        }
    }
}

impl Store {
    pub fn in_memory() -> Self {
        Self { database: None, pending: Arc::default(), writing: Arc::default() }
    }

    /// Opens the store in `directory`. A damaged file is set aside, never deleted: what the gate learned is
    /// worth less than a gate that starts.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(FILE);
        let shown = || path.display().to_string();
        std::fs::create_dir_all(directory)
            .map_err(|source| StoreError::Directory { path: directory.display().to_string(), source })?;
        let database = match Database::create(&path) {
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(StoreError::InUse(shown())),
            Err(error) if is_damage(&error) => {
                let aside = path.with_extension("redb.damaged");
                tracing::warn!(path = %shown(), aside = %aside.display(), %error, "the store is damaged; set aside, starting with an empty one");
                std::fs::rename(&path, &aside)
                    .map_err(|source| StoreError::Directory { path: shown(), source })?;
                Database::create(&path).map_err(|error| open_error(&path, error))?
            }
            other => other.map_err(|error| open_error(&path, error))?,
        };
        keep_private(&path);
        let found = version(&database).map_err(|error| open_error(&path, error))?;
        if found > VERSION {
            return Err(StoreError::TooNew { path: shown(), found });
        }
        Ok(Self { database: Some(Arc::new(database)), pending: Arc::default(), writing: Arc::default() })
    }

    /// Everything learned, by displayed service id.
    pub fn learned(&self) -> Vec<(String, Learned)> {
        self.database.as_deref().map_or_else(Vec::new, |database| {
            read_learned(database).unwrap_or_else(|error| {
                tracing::warn!(%error, "the store cannot be read; nothing is remembered of earlier runs");
                Vec::new()
            })
        })
    }

    /// What passes are signed with, the same in every run of the gate. One that cannot be kept lasts for this run.
    pub fn pass_key(&self) -> Result<[u8; 32], StoreError> {
        let mut new = [0; 32];
        getrandom::fill(&mut new).map_err(|_| StoreError::NoRandomness)?;
        let Some(database) = &self.database else { return Ok(new) };
        Ok(key_or(database, new).unwrap_or_else(|error| {
            tracing::warn!(%error, "the key for returning players cannot be kept; those who wait over a restart join anew");
            new
        }))
    }

    /// What is remembered of the publication of services.
    pub fn publication(&self) -> Memory {
        let json = self.database.as_deref().map(read_publication).transpose();
        let json = json.map_err(|error| error.to_string()).map(Option::flatten);
        let read = json.and_then(|json| {
            json.map(|json| serde_json::from_str(&json)).transpose().map_err(|error| error.to_string())
        });
        read.unwrap_or_else(|error| {
            tracing::warn!(
                error,
                "what is remembered of published services cannot be read; their marks at Cloudflare are"
            );
            None
        })
        .unwrap_or_default()
    }

    /// Keeps it, at once. Blocks.
    pub fn keep_publication(&self, memory: &Memory) {
        let Some(database) = &self.database else { return };
        let kept = serde_json::to_string(memory).map_err(|error| error.to_string());
        let kept =
            kept.and_then(|json| write_publication(database, &json).map_err(|error| error.to_string()));
        if let Err(error) = kept {
            tracing::warn!(error, "what is to be remembered of published services could not be kept");
        }
    }

    /// The routes that were made over the API: hostname and backend; the hostname of the default route is empty.
    pub fn routes(&self) -> Vec<(String, String)> {
        let routes = self.database.as_deref().map_or_else(|| Ok(Vec::new()), read_routes);
        routes.unwrap_or_else(|error| {
            tracing::warn!(%error, "the store cannot be read; routes of the API are gone until the next start");
            Vec::new()
        })
    }

    /// Keeps a route, or forgets it. Once this has returned it survives a kill. Blocks.
    pub fn keep_route(&self, host: &str, backend: Option<&str>) -> Result<(), StoreError> {
        let Some(database) = &self.database else { return Ok(()) };
        write_route(database, host, backend).map_err(|error| StoreError::Write { source: error.into() })
    }

    /// Keeps what was learned, soon: the latest of each service. A full disk costs the memory, not the gate.
    pub fn remember(&self, service: &ServiceId, learned: &Learned) {
        if self.database.is_none() {
            return;
        }
        match serde_json::to_string(learned) {
            Ok(json) => lock(&self.pending).insert(service.to_string(), json),
            Err(error) => {
                return tracing::warn!(%service, %error, "what was learned of a service cannot be written");
            }
        };
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
        let Some(database) = &self.database else { return };
        let _alone = lock(&self.writing);
        let entries = std::mem::take(&mut *lock(&self.pending));
        if !entries.is_empty()
            && let Err(error) = write_learned(database, &entries)
        {
            tracing::warn!(%error, "what was learned of services could not be kept");
        }
    }
}

fn version(database: &Database) -> Result<u64, redb::Error> {
    let write = database.begin_write()?;
    let found = {
        let mut meta = write.open_table(META)?;
        write.open_table(LEARNED)?;
        let found = meta.get("version")?.map(|version| version.value());
        if found.is_none() {
            meta.insert("version", VERSION)?;
        }
        found.unwrap_or(VERSION)
    };
    write.commit()?;
    Ok(found)
}

fn key_or(database: &Database, new: [u8; 32]) -> Result<[u8; 32], redb::Error> {
    let write = database.begin_write()?;
    let key = {
        let mut keys = write.open_table(KEYS)?;
        let known = keys.get(PASSES)?.map(|key| key.value());
        if known.is_none() {
            keys.insert(PASSES, new)?;
        }
        known.unwrap_or(new)
    };
    write.commit()?;
    Ok(key)
}

/// There is a key in it that strangers on the same machine need not read.
fn keep_private(path: &Path) {
    if let Err(error) = std::fs::set_permissions(path, Permissions::from_mode(0o600)) {
        tracing::warn!(path = %path.display(), %error, "others may read the store");
    }
}

fn read_learned(database: &Database) -> Result<Vec<(String, Learned)>, redb::Error> {
    let read = database.begin_read()?;
    let table = read.open_table(LEARNED)?;
    let mut all = Vec::new();
    for entry in table.iter()? {
        let (service, json) = entry?;
        match serde_json::from_str(json.value()) {
            Ok(learned) => all.push((service.value().to_owned(), learned)),
            Err(error) => {
                tracing::warn!(service = service.value(), %error, "an entry of the store is not readable; skipped")
            }
        }
    }
    Ok(all)
}

fn write_learned(database: &Database, entries: &BTreeMap<String, String>) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(LEARNED)?;
        for (service, json) in entries {
            table.insert(service.as_str(), json.as_str())?;
        }
    }
    write.commit()?;
    Ok(())
}

fn read_publication(database: &Database) -> Result<Option<String>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(PUBLICATION) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        table => table?,
    };
    Ok(table.get(())?.map(|json| json.value().to_owned()))
}

fn write_publication(database: &Database, json: &str) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    write.open_table(PUBLICATION)?.insert((), json)?;
    write.commit()?;
    Ok(())
}

fn read_routes(database: &Database) -> Result<Vec<(String, String)>, redb::Error> {
    let read = database.begin_read()?;
    let table = match read.open_table(ROUTES) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let mut routes = Vec::new();
    for entry in table.iter()? {
        let (host, backend) = entry?;
        routes.push((host.value().to_owned(), backend.value().to_owned()));
    }
    Ok(routes)
}

fn write_route(database: &Database, host: &str, backend: Option<&str>) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    {
        let mut table = write.open_table(ROUTES)?;
        match backend {
            Some(backend) => table.insert(host, backend)?,
            None => table.remove(host)?,
        };
    }
    write.commit()?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_damage(error: &DatabaseError) -> bool {
    let io = |error: &redb::StorageError| matches!(error, redb::StorageError::Io(io) if io.kind() == std::io::ErrorKind::InvalidData);
    matches!(
        error,
        DatabaseError::RepairAborted
            | DatabaseError::UpgradeRequired(_)
            | DatabaseError::Storage(redb::StorageError::Corrupted(_))
    ) || matches!(error, DatabaseError::Storage(storage) if io(storage))
}

fn open_error(path: &Path, error: impl Into<redb::Error>) -> StoreError {
    let error = error.into();
    let source = if let redb::Error::Io(error) = error { Box::from(error) } else { Box::from(error) };
    StoreError::Open { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(boot_ms: u64) -> Learned {
        Learned { boots_ms: [boot_ms].into(), ..Learned::default() }
    }

    #[test]
    fn what_was_learned_is_there_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (ServiceId::new("process", "a"), ServiceId::new("file", "b"));
        {
            let store = Store::open(dir.path()).unwrap();
            store.remember(&a, &learned(1));
            store.remember(&a, &learned(2));
            store.remember(&b, &learned(3));
        }
        let kept = Store::open(dir.path()).unwrap().learned();
        assert_eq!(kept, [("file/b".to_owned(), learned(3)), ("process/a".to_owned(), learned(2))]);
    }

    #[tokio::test]
    async fn after_a_flush_nothing_is_on_its_way() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let service = ServiceId::new("file", "a");
        for boot in 1..=20 {
            store.remember(&service, &learned(boot));
            store.flush();
            assert_eq!(store.learned(), [("file/a".to_owned(), learned(boot))]);
        }
    }

    #[test]
    fn the_key_for_passes_outlives_the_gate_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let key = || Store::open(dir.path()).unwrap().pass_key().unwrap();
        let first = key();
        assert_eq!(key(), first);
        let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let elsewhere = Store::in_memory().pass_key().unwrap();
        assert!(elsewhere != first && elsewhere != [0; 32]);
    }

    #[test]
    fn routes_are_there_after_reopening_and_gone_when_removed() {
        let dir = tempfile::tempdir().unwrap();
        let routes = || Store::open(dir.path()).unwrap().routes();
        assert_eq!(routes(), []);
        {
            let store = Store::open(dir.path()).unwrap();
            for (host, backend) in
                [("a.example", "x:1"), ("", "y:2"), ("b.example", "x:1"), ("a.example", "z:3")]
            {
                store.keep_route(host, Some(backend)).unwrap();
            }
            store.keep_route("b.example", None).unwrap();
        }
        let kept = [("", "y:2"), ("a.example", "z:3")];
        assert_eq!(routes(), kept.map(|(host, backend)| (host.to_owned(), backend.to_owned())));
    }

    #[test]
    fn one_store_has_one_gate() {
        let dir = tempfile::tempdir().unwrap();
        let _held = Store::open(dir.path()).unwrap();
        assert!(matches!(Store::open(dir.path()), Err(StoreError::InUse(_))));
    }

    #[test]
    fn a_damaged_store_is_set_aside() {
        for damage in [&b"not a database at all"[..], &[0; 8192]] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(FILE), damage).unwrap();
            let store = Store::open(dir.path()).unwrap();
            assert_eq!(store.learned(), []);
            assert_eq!(std::fs::read(dir.path().join("swarmgate.redb.damaged")).unwrap(), damage);
        }
    }

    #[test]
    fn a_newer_store_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        {
            let store = Store::open(dir.path()).unwrap();
            let write = store.database.as_ref().unwrap().begin_write().unwrap();
            write.open_table(META).unwrap().insert("version", VERSION + 1).unwrap();
            write.commit().unwrap();
        }
        let error = Store::open(dir.path()).unwrap_err();
        assert!(matches!(error, StoreError::TooNew { .. }), "{error}");
    }
}
