//! The store on disk: a database with one table, which is read as a whole when it is opened.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use super::StoreError;
use super::layout::{self, VERSION};

/// Kind and name, to a text.
pub(super) type Kept = BTreeMap<(String, String), String>;
/// `None` is to be forgotten.
pub(super) type Changes = BTreeMap<(String, String), Option<String>>;

pub(super) const FILE: &str = "swarmgate.redb";
pub(super) const KEPT: TableDefinition<(&str, &str), &str> = TableDefinition::new("kept");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const LAYOUT: &str = "version";

#[derive(Debug)]
pub(super) struct File {
    /// Until it is dropped.
    database: Option<Database>,
    /// There is nothing in it.
    pub is_new: bool,
}

impl Drop for File {
    fn drop(&mut self) {
        let database = self.database.take();
        // It writes once more then.
        let _ = unpanicked(|| {
            drop(database);
            Ok(())
        });
    }
}

enum Opened {
    Usable(File, Kept),
    TooNew(u64),
}

impl File {
    /// Opens the store in `directory`, and reads it. A damaged file is set aside, never deleted: what is in it is worth
    /// less than a gate that starts.
    pub(super) fn open(directory: &Path) -> Result<(Self, Kept), StoreError> {
        std::fs::create_dir_all(directory)
            .map_err(|source| StoreError::Directory { path: directory.display().to_string(), source })?;
        let path = directory.join(FILE);
        // Where that cannot be said, nothing may be put in its place.
        if !path.try_exists().map_err(|source| explain(&path, redb::Error::Io(source)))? {
            make(&path)?;
        }
        let opened = open(&path).or_else(|error| {
            if !is_damage(&error) {
                return Err(explain(&path, error));
            }
            set_aside(directory, &error)?;
            make(&path)?;
            open(&path).map_err(|error| explain(&path, error))
        })?;
        match opened {
            Opened::Usable(file, kept) => Ok((file, kept)),
            Opened::TooNew(found) => Err(StoreError::TooNew { path: path.display().to_string(), found }),
        }
    }

    /// Once this has returned they survive a kill. After an error the file must be opened anew.
    pub(super) fn write(&self, changes: &Changes) -> Result<(), redb::Error> {
        unpanicked(|| {
            let Some(database) = &self.database else { return Err(redb::Error::DatabaseClosed) };
            let write = database.begin_write()?;
            {
                let mut table = write.open_table(KEPT)?;
                for ((kind, name), value) in changes {
                    match value {
                        Some(value) => table.insert((kind.as_str(), name.as_str()), value.as_str())?,
                        None => table.remove((kind.as_str(), name.as_str()))?,
                    };
                }
            }
            write.commit()?;
            Ok(())
        })
    }
}

/// Under another name until it is whole: a kill in between leaves no half of it.
fn make(path: &Path) -> Result<(), StoreError> {
    let new = path.with_extension("redb.new");
    let made = open(&new).or_else(|error| {
        let is_half = is_damage(&error) && std::fs::remove_file(&new).is_ok();
        if is_half { open(&new) } else { Err(error) }
    });
    drop(made.map_err(|error| explain(path, error))?);
    std::fs::rename(&new, path).map_err(|source| explain(path, redb::Error::Io(source)))
}

fn open(path: &Path) -> Result<Opened, redb::Error> {
    unpanicked(|| {
        let database = Database::create(path)?;
        keep_private(path);
        if let Some(newer) = bring_up_to_date(&database)? {
            return Ok(Opened::TooNew(newer));
        }
        let kept = read(&database)?;
        // Nobody has written to it yet.
        let is_new = kept.is_empty();
        Ok(Opened::Usable(File { database: Some(database), is_new }, kept))
    })
}

/// The database's own code trusts what it reads: what makes it panic is damaged.
fn unpanicked<T>(act: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    let done = catch_unwind(AssertUnwindSafe(act));
    done.unwrap_or_else(|_| Err(redb::Error::Corrupted("it makes no sense".to_owned())))
}

/// The version of the layout, if this gate does not know it.
fn bring_up_to_date(database: &Database) -> Result<Option<u64>, redb::Error> {
    let found = match database.begin_read()?.open_table(META) {
        Err(TableError::TableDoesNotExist(_)) => None,
        table => table?.get(LAYOUT)?.map(|version| version.value()),
    };
    if found.is_some_and(|found| found >= VERSION) {
        return Ok(found.filter(|found| *found > VERSION));
    }
    // All of it or nothing: a kill in between leaves the file as it was.
    let write = database.begin_write()?;
    write.open_table(KEPT)?;
    if let Some(older) = found {
        layout::migrate(&write, older)?;
        tracing::info!(
            from = older,
            to = VERSION,
            "the store has a new layout, which an older gate cannot read"
        );
    }
    write.open_table(META)?.insert(LAYOUT, VERSION)?;
    write.commit()?;
    Ok(None)
}

fn read(database: &Database) -> Result<Kept, redb::Error> {
    let table = database.begin_read()?.open_table(KEPT)?;
    let mut kept = Kept::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let (kind, name) = key.value();
        kept.insert((kind.to_owned(), name.to_owned()), value.value().to_owned());
    }
    Ok(kept)
}

/// The next store is a new one.
pub(super) fn set_aside(directory: &Path, why: &redb::Error) -> Result<(), StoreError> {
    let path = directory.join(FILE);
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let aside = PathBuf::from(format!("{}.damaged-{now}", path.display()));
    std::fs::rename(&path, &aside)
        .map_err(|source| StoreError::Directory { path: path.display().to_string(), source })?;
    tracing::warn!(
        path = %path.display(), aside = %aside.display(), %why,
        "the store is damaged and was set aside; what only it knew is lost: what was learned of services, their pins, \
         routes made over the API, and the memory of publications, whose marks at Cloudflare count"
    );
    Ok(())
}

/// There is a key in it that strangers on the same machine need not read.
fn keep_private(path: &Path) {
    if let Err(error) = std::fs::set_permissions(path, Permissions::from_mode(0o600)) {
        tracing::warn!(path = %path.display(), %error, "others may read the store");
    }
}

pub(super) fn is_damage(error: &redb::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    use redb::Error;
    if let Error::Io(error) = error {
        return matches!(error.kind(), InvalidData | UnexpectedEof);
    }
    matches!(
        error,
        Error::Corrupted(_)
            | Error::RepairAborted
            | Error::UpgradeRequired(_)
            | Error::TableTypeMismatch { .. }
            | Error::TableIsMultimap(_)
            | Error::TypeDefinitionChanged { .. }
    )
}

fn explain(path: &Path, error: redb::Error) -> StoreError {
    let path = path.display().to_string();
    if matches!(error, redb::Error::DatabaseAlreadyOpen) {
        return StoreError::InUse(path);
    }
    let source = if let redb::Error::Io(error) = error { Box::from(error) } else { Box::from(error) };
    StoreError::Open { path, source }
}
