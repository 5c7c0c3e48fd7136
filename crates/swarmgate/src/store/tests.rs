use std::os::unix::fs::PermissionsExt;

use redb::{Database, TableDefinition};
use serde_json::json;

use super::file::FILE;
use super::*;

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

fn learned(boot_ms: u64) -> Learned {
    Learned { boots_ms: [boot_ms].into(), ..Learned::default() }
}

fn service(name: &str) -> ServiceId {
    ServiceId::new("file", name)
}

/// Whatever was set aside beside the store.
fn aside(directory: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.to_string_lossy().contains("swarmgate.redb.damaged-")).collect()
}

#[test]
fn what_was_learned_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = Store::open(dir.path()).unwrap();
        store.remember(&service("a"), &learned(1));
        store.remember(&service("a"), &learned(2));
        store.remember(&service("b"), &learned(3));
    }
    let kept = Store::open(dir.path()).unwrap().learned();
    assert_eq!(kept, [("file/a".to_owned(), learned(2)), ("file/b".to_owned(), learned(3))]);
}

#[tokio::test]
async fn after_a_flush_nothing_is_on_its_way() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for boot in 1..=20 {
        store.remember(&service("a"), &learned(boot));
        store.flush();
        assert!(lock(&store.shared.memory).unwritten.is_empty());
    }
    let file = lock(&store.shared.disk).file.take();
    drop(file);
    assert_eq!(Store::open(dir.path()).unwrap().learned(), [("file/a".to_owned(), learned(20))]);
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
        for (host, backend) in [("a.example", "x:1"), ("", "y:2"), ("b.example", "x:1"), ("a.example", "z:3")]
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
        let [aside] = &aside(dir.path())[..] else { panic!("one file") };
        assert_eq!(std::fs::read(aside).unwrap(), damage);
    }
}

/// Whichever byte is not what it was, the gate starts, with what can be read or with nothing, and keeps what is new.
#[test]
fn no_damage_keeps_the_gate_from_starting() {
    let origin = tempfile::tempdir().unwrap();
    {
        let store = Store::open(origin.path()).unwrap();
        for n in 0..50 {
            store.remember(&service(&format!("mc{n}")), &learned(n));
        }
    }
    let whole = std::fs::read(origin.path().join(FILE)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let step = if std::env::var_os("SWARMGATE_LONG").is_some() { 97 } else { 9_973 };
    let damaged = (0..whole.len()).step_by(step).map(|at| {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        damaged
    });
    let cut = [1, 100, 4096, whole.len() / 2, whole.len() - 1].map(|length| whole[..length].to_vec());
    for damaged in damaged.chain(cut) {
        std::fs::write(dir.path().join(FILE), damaged).unwrap();
        let store = Store::open(dir.path()).unwrap();
        store.remember(&service("new"), &learned(7));
        drop(store);
        let kept = Store::open(dir.path()).unwrap().learned();
        assert!(kept.contains(&("file/new".to_owned(), learned(7))), "{kept:?}");
        for aside in aside(dir.path()) {
            std::fs::remove_file(aside).unwrap();
        }
    }
}

/// What is on the disk can be lost under a running gate; what it knows is written to the next file.
#[test]
fn a_store_that_breaks_while_it_runs_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.remember(&service("a"), &learned(1));
    drop(lock(&store.shared.disk).file.take());
    std::fs::write(dir.path().join(FILE), "rubbish").unwrap();
    store.remember(&service("b"), &learned(2));
    assert_eq!(aside(dir.path()).len(), 1);
    drop(store);
    let kept = Store::open(dir.path()).unwrap().learned();
    assert_eq!(kept, [("file/a".to_owned(), learned(1)), ("file/b".to_owned(), learned(2))]);
}

/// What comes while the disk is tried again, and counts on that, is written, too.
#[test]
fn nothing_is_left_behind_when_the_disk_takes_all_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for round in 0..5 {
        store.put(LEARNED, "file/first", &learned(round));
        lock(&store.shared.memory).retrying = true;
        let retry = std::thread::spawn({
            let store = store.clone();
            move || store.flush()
        });
        // Once the first is taken, and most likely on its way.
        while !lock(&store.shared.memory).unwritten.is_empty() {
            std::thread::yield_now();
        }
        store.remember(&service("next"), &learned(round));
        retry.join().unwrap();
        assert!(lock(&store.shared.memory).unwritten.is_empty(), "round {round}");
    }
}

#[test]
fn a_newer_store_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    {
        let write = Database::open(dir.path().join(FILE)).unwrap().begin_write().unwrap();
        write.open_table(META).unwrap().insert("version", VERSION + 1).unwrap();
        write.commit().unwrap();
    }
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::TooNew { found, .. } if found == VERSION + 1), "{error}");
    assert!(error.to_string().contains("upgrade"), "{error}");
    assert!(aside(dir.path()).is_empty());
}

/// As the gate of layout 1 wrote it.
fn write_layout_1(directory: &Path, memory: &str) {
    const LEARNED: TableDefinition<&str, &str> = TableDefinition::new("learned");
    const PUBLICATION: TableDefinition<(), &str> = TableDefinition::new("publication");
    const KEYS: TableDefinition<&str, [u8; 32]> = TableDefinition::new("keys");
    const ROUTES: TableDefinition<&str, &str> = TableDefinition::new("routes");
    let database = Database::create(directory.join(FILE)).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(META).unwrap().insert("version", 1).unwrap();
    let json = r#"{"status":{"players":{"max":20}},"boots_ms":[31000],"pin":"awake"}"#;
    write.open_table(LEARNED).unwrap().insert("swarm/mc", json).unwrap();
    write.open_table(PUBLICATION).unwrap().insert((), memory).unwrap();
    write.open_table(KEYS).unwrap().insert("passes", [7; 32]).unwrap();
    write.open_table(ROUTES).unwrap().insert("", "y:2").unwrap();
    write.commit().unwrap();
}

#[test]
fn an_older_store_is_brought_up_to_date_with_all_that_is_in_it() {
    let memory = serde_json::to_string(&Memory::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    write_layout_1(dir.path(), &memory);
    for _ in 0..2 {
        let store = Store::open(dir.path()).unwrap();
        let [(name, learned)] = &store.learned()[..] else { panic!("one service") };
        assert_eq!((name.as_str(), learned.pin), ("swarm/mc", swarmgate_core::learned::Pin::Awake));
        assert_eq!(learned.status, Some(json!({"players": {"max": 20}})));
        assert_eq!(store.pass_key().unwrap(), [7; 32]);
        assert_eq!(store.routes(), [(String::new(), "y:2".to_owned())]);
        assert_eq!(lock(&store.shared.memory).kept[&(PUBLICATION.to_owned(), String::new())], memory);
    }
    assert!(aside(dir.path()).is_empty());
    // A gate of layout 1 with nothing but the version.
    let dir = tempfile::tempdir().unwrap();
    {
        let database = Database::create(dir.path().join(FILE)).unwrap();
        let write = database.begin_write().unwrap();
        write.open_table(META).unwrap().insert("version", 1).unwrap();
        write.commit().unwrap();
    }
    assert_eq!(Store::open(dir.path()).unwrap().learned(), []);
}

#[test]
fn an_entry_that_cannot_be_read_costs_no_other() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = Store::open(dir.path()).unwrap();
        lock(&store.shared.memory).put((LEARNED.to_owned(), "file/b".to_owned()), Some("{".to_owned()));
        store.remember(&service("a"), &learned(1));
    }
    assert_eq!(Store::open(dir.path()).unwrap().learned(), [("file/a".to_owned(), learned(1))]);
}
