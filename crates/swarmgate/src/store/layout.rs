//! How what is kept is laid out, now and by the gates before.

use redb::{ReadableTable, TableDefinition, WriteTransaction};
use serde_json::json;

use super::file::KEPT;
use super::{KEY, LEARNED, PUBLICATION, ROUTE};

/// Raised when something changes its place or its meaning; [`migrate`] then learns the way from the one before.
pub(super) const VERSION: u64 = 2;

/// Everything that `from`, an older layout, has is brought to this one.
pub(super) fn migrate(write: &WriteTransaction, from: u64) -> Result<(), redb::Error> {
    if from < 2 {
        one_table(write)?;
    }
    Ok(())
}

/// The first layout had a table for each kind.
fn one_table(write: &WriteTransaction) -> Result<(), redb::Error> {
    const LEARNED_1: TableDefinition<&str, &str> = TableDefinition::new("learned");
    const PUBLICATION_1: TableDefinition<(), &str> = TableDefinition::new("publication");
    const KEYS_1: TableDefinition<&str, [u8; 32]> = TableDefinition::new("keys");
    const ROUTES_1: TableDefinition<&str, &str> = TableDefinition::new("routes");
    let mut kept = write.open_table(KEPT)?;
    for entry in write.open_table(LEARNED_1)?.iter()? {
        let (service, json) = entry?;
        kept.insert((LEARNED, service.value()), json.value())?;
    }
    for entry in write.open_table(PUBLICATION_1)?.iter()? {
        kept.insert((PUBLICATION, ""), entry?.1.value())?;
    }
    for entry in write.open_table(KEYS_1)?.iter()? {
        let (name, key) = entry?;
        kept.insert((KEY, name.value()), json!(key.value()).to_string().as_str())?;
    }
    for entry in write.open_table(ROUTES_1)?.iter()? {
        let (host, backend) = entry?;
        kept.insert((ROUTE, host.value()), json!(backend.value()).to_string().as_str())?;
    }
    write.delete_table(LEARNED_1)?;
    write.delete_table(ROUTES_1)?;
    write.delete_table(PUBLICATION_1)?;
    write.delete_table(KEYS_1)?;
    Ok(())
}
