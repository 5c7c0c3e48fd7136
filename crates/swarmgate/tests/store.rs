//! What is kept survives a kill at any moment and a full disk.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use common::{Config, Gate, Home, LIMIT, Server};
use redb::{Database, TableDefinition};
use swarmgate::store::Store;
use swarmgate_core::learned::{Learned, Pin};
use swarmgate_core::service::ServiceId;
use swarmgate_testkit::client::Client;
use swarmgate_testkit::peers;
use swarmgate_testkit::process::Signal;
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::Handshake;

const WRITE_TO: &str = "SWARMGATE_TEST_WRITE_TO";
const SERVICES: u64 = 5;

/// Not a test but what the next one kills: it keeps numbers, and says each once it is kept.
#[test]
fn writer() {
    let Some(directory) = std::env::var_os(WRITE_TO) else { return };
    let store = Store::open(Path::new(&directory)).unwrap();
    let first = numbers(&store).into_values().max().map_or(0, |last| last + 1);
    let mut acknowledge = std::io::stderr();
    for number in first.. {
        let learned = Learned { boots_ms: [number].into(), ..Learned::default() };
        store.remember(&ServiceId::new("file", &format!("mc{}", number % SERVICES)), &learned);
        store.flush();
        writeln!(acknowledge, "kept {number}").unwrap();
    }
}

/// The number of each service.
fn numbers(store: &Store) -> BTreeMap<String, u64> {
    store.learned().into_iter().map(|(service, learned)| (service, learned.boots_ms[0])).collect()
}

#[test]
fn whatever_was_acknowledged_survives_a_kill() {
    let rounds = 100;
    let directory = tempfile::tempdir().unwrap();
    let mut last = None;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer", "--nocapture"])
            .env(WRITE_TO, directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut heard = Vec::new();
        // Now and then before it has said anything, else somewhere in what it writes then.
        for _ in 0..round * 7 % 23 {
            heard.push(lines.next().unwrap().unwrap());
        }
        child.kill().unwrap();
        heard.extend(lines.map(Result::unwrap));
        child.wait().unwrap();
        let kept = heard.iter().filter_map(|line| line.strip_prefix("kept ")?.parse::<u64>().ok());
        last = kept.max().or(last);
        let Some(last) = last else { continue };
        let numbers = numbers(&Store::open(directory.path()).unwrap());
        for service in 0..SERVICES.min(last + 1) {
            let acknowledged = (0..=last).rev().find(|number| number % SERVICES == service).unwrap();
            let kept = numbers[&format!("file/mc{service}")];
            // At most one was written and not said.
            let or_next = last + 1;
            assert!(kept == acknowledged || kept == or_next, "round {round}: {kept}, not {acknowledged}");
        }
    }
    assert!(last.unwrap() > rounds, "it wrote");
    let files = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().file_name());
    assert_eq!(files.collect::<Vec<_>>(), ["swarmgate.redb"], "nothing was set aside");
}

/// A file system of four megabytes, until it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(at).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at.to_owned()));
        }
        peers::skip("only root can mount a small disk");
        None
    }

    fn fill(&self) {
        let mut file = fs::File::options().create(true).append(true).open(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Fills it but for this many bytes.
    fn fill_but(&self, room: u64) {
        self.fill();
        let file = fs::File::options().write(true).open(self.0.join("filler")).unwrap();
        file.set_len(file.metadata().unwrap().len().saturating_sub(room)).unwrap();
    }

    /// `ro` or `rw`.
    fn remount(&self, mode: &str) {
        let options = format!("remount,size=4m,{mode}");
        let output = Command::new("mount").args(["-o", &options]).arg(&self.0).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// The names in it, sorted.
    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(&self.0).unwrap().map(|file| file.unwrap().file_name());
        let mut files: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
        files.sort();
        files
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

#[test]
fn a_gate_that_finds_no_room_begins_without_and_keeps_all_later() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&directory.path().join("data")) else { return };
    disk.fill();
    let store = Store::open(&disk.0).unwrap();
    let key = store.pass_key().unwrap();
    store.remember(&ServiceId::new("file", "mc"), &Learned { boots_ms: [7].into(), ..Learned::default() });
    assert!(store.keep_route("a.example", Some("x:1")).is_err(), "it cannot be kept");
    assert_eq!(store.routes(), [], "and so it is not there");
    for _ in 0..20 {
        store.flush();
    }
    assert!(!disk.files().iter().any(|file| file.contains("damaged")), "{:?}", disk.files());
    disk.make_room();
    store.flush();
    assert_eq!(store.is_well(), Some(true));
    drop(store);
    let store = Store::open(&disk.0).unwrap();
    assert_eq!((numbers(&store).len(), store.pass_key().unwrap(), store.routes()), (1, key, vec![]));
}

/// Not only what is told while the disk is full, but also what was on its way when it became full.
#[test]
fn nothing_is_lost_of_what_a_full_disk_did_not_take() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&directory.path().join("data")) else { return };
    let store = Store::open(&disk.0).unwrap();
    disk.fill();
    for number in 0..100 {
        let status = Some("x".repeat(4096).into());
        let learned = Learned { boots_ms: [number].into(), status, ..Learned::default() };
        store.remember(&ServiceId::new("file", &format!("mc{number}")), &learned);
    }
    for _ in 0..20 {
        store.flush();
    }
    disk.make_room();
    store.flush();
    drop(store);
    assert_eq!(numbers(&Store::open(&disk.0).unwrap()).len(), 100);
    assert_eq!(disk.files(), [FILE], "nothing was set aside");
}

/// A new file may have been made and then not been written to: it needs all, not only what came last.
#[test]
fn a_store_that_breaks_on_a_full_disk_is_written_anew_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&directory.path().join("data")) else { return };
    let store = Store::open(&disk.0).unwrap();
    let remember = |number: u64| {
        let learned = Learned {
            boots_ms: [number].into(),
            status: Some("x".repeat(4096).into()),
            ..Learned::default()
        };
        store.remember(&ServiceId::new("file", &format!("mc{number}")), &learned);
        store.flush();
    };
    for number in 0..100 {
        remember(number);
    }
    fs::write(disk.0.join(FILE), "rubbish").unwrap();
    for room in 0..40 {
        disk.fill_but(room * 64 * 1024);
        remember(100 + room);
    }
    disk.make_room();
    store.flush();
    drop(store);
    assert_eq!(numbers(&Store::open(&disk.0).unwrap()).len(), 140);
    assert_eq!(disk.files().len(), 2, "set aside once: {:?}", disk.files());
}

/// Room can lack in the midst of opening a file, too: one of an older gate has to be brought up to date.
#[test]
fn an_older_store_on_a_full_disk_loses_nothing() {
    const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
    const ROUTES: TableDefinition<&str, &str> = TableDefinition::new("routes");
    const KEYS: TableDefinition<&str, [u8; 32]> = TableDefinition::new("keys");
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&directory.path().join("data")) else { return };
    let older = directory.path().join("older.redb");
    {
        let write = Database::create(&older).unwrap().begin_write().unwrap();
        write.open_table(META).unwrap().insert("version", 1).unwrap();
        write.open_table(ROUTES).unwrap().insert("", "y:2").unwrap();
        write.open_table(KEYS).unwrap().insert("passes", [7; 32]).unwrap();
        write.commit().unwrap();
    }
    // With holes: whatever is written into them needs room.
    let files = [older, disk.0.join(FILE)];
    assert!(Command::new("cp").arg("--sparse=always").args(files).status().unwrap().success());
    disk.fill();
    let store = Store::open(&disk.0).unwrap();
    assert_eq!(store.routes(), [], "it could not be read");
    store.pass_key().unwrap();
    for _ in 0..20 {
        store.flush();
    }
    disk.make_room();
    store.flush();
    drop(store);
    let store = Store::open(&disk.0).unwrap();
    assert_eq!(store.routes(), [(String::new(), "y:2".to_owned())]);
    assert_eq!(store.pass_key().unwrap(), [7; 32]);
    assert_eq!(disk.files(), [FILE], "nothing was set aside");
}

/// What the owner had is worth more than what a run learned that could not read it.
#[test]
fn what_could_not_be_read_at_the_start_is_never_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&directory.path().join("data")) else { return };
    let service = ServiceId::new("file", "mc");
    let pinned = Learned { boots_ms: [7].into(), pin: Pin::Asleep, ..Learned::default() };
    let routes = [("a.example".to_owned(), "x:1".to_owned())];
    let key = {
        let store = Store::open(&disk.0).unwrap();
        store.remember(&service, &pinned);
        store.keep_route("a.example", Some("x:1")).unwrap();
        store.pass_key().unwrap()
    };
    disk.remount("ro");
    let store = Store::open(&disk.0).unwrap();
    let other = store.pass_key().unwrap();
    store.remember(&service, &Learned { boots_ms: [8].into(), ..Learned::default() });
    disk.remount("rw");
    for _ in 0..3 {
        store.flush();
        assert!(store.keep_route("b.example", Some("y:2")).is_err(), "it would be lost");
    }
    assert_eq!((store.pass_key().unwrap(), numbers(&store)["file/mc"]), (other, 8), "this run goes on");
    drop(store);
    let store = Store::open(&disk.0).unwrap();
    assert_eq!(store.pass_key().unwrap(), key);
    assert_eq!(store.learned(), [("file/mc".to_owned(), pinned)]);
    assert_eq!(store.routes(), routes);
    assert_eq!(disk.files(), [FILE], "nothing was set aside");
}

/// What the gate answers to one who wants a route kept.
fn add_route(control: &Path) -> String {
    let route = r#"{"serverAddress": "a.example.com", "backend": "192.0.2.7:25565"}"#;
    let mut stream = std::os::unix::net::UnixStream::connect(control).unwrap();
    write!(
        stream,
        "POST /routes HTTP/1.1\r\nhost: gate\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{route}",
        route.len()
    )
    .unwrap();
    std::io::read_to_string(stream).unwrap()
}

const CONTROL: &str = "swarmgate-data/control.sock";

/// A gate with a server `mc` that keeps what it learns on a disk of its own; its control socket is elsewhere.
async fn on_a_small_disk(home: &Arc<Home>) -> Option<(SmallDisk, Gate)> {
    let disk = SmallDisk::mount(&home.path().join("small"))?;
    let server = Server::new(home, "mc", &[], "");
    home.write(&Config::of(&server.table).top(format!("data_dir = \"small\"\ncontrol = \"{CONTROL}\"\n")));
    Some((disk, home.start().await))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_starts_on_a_read_only_disk_asks_for_a_restart_and_then_knows_all() {
    let home: Arc<Home> = Home::new();
    let Some((disk, gate)) = on_a_small_disk(&home).await else { return };
    assert_eq!(gate.control("POST", "/v1/services/mc/pin/asleep", "").await.0, 200);
    let answer = add_route(&home.path().join(CONTROL));
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    gate.end(Signal::TERM).await;

    disk.remount("ro");
    let gate = home.start().await;
    assert_eq!(gate.metric("swarmgate_store_ok").await, 0);
    assert_eq!(gate.control("POST", "/v1/services/mc/pin/none", "").await.0, 200);
    let told = |what: &str| gate.log().matches(what).count();
    assert_eq!((told(UNTOUCHED), told(RESTART), told(TOLD)), (1, 0, 0), "{}", gate.log());
    disk.remount("rw");
    until("a word", LIMIT, async || (told(RESTART) > 0).then_some(())).await;
    let answer = add_route(&home.path().join(CONTROL));
    assert!(answer.starts_with("HTTP/1.1 5"), "{answer}");
    assert_eq!((told(UNTOUCHED), told(RESTART), told(AGAIN)), (1, 1, 0), "{}", gate.log());
    gate.end(Signal::TERM).await;

    let gate = home.start().await;
    assert_eq!(gate.service("mc").await["pin"], "asleep");
    let (_, routes) = gate.control("GET", "/routes", "").await;
    assert!(routes.contains("a.example.com"), "{routes}");
    assert_eq!(gate.metric("swarmgate_store_ok").await, 1);
    assert!(!gate.log().contains(UNTOUCHED) && !gate.log().contains("set aside"), "{}", gate.log());
}

const FILE: &str = "swarmgate.redb";
const UNTOUCHED: &str = "what earlier runs kept stays as it is";
const RESTART: &str = "restart swarmgate to have it back";
const TOLD: &str = "nothing can be kept";
const AGAIN: &str = "the store is written again";

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_a_warning_and_is_made_good_when_there_is_room() {
    let home: Arc<Home> = Home::new();
    let Some((disk, gate)) = on_a_small_disk(&home).await else { return };
    let pin = async |gate: &Gate, pin: &str| {
        let (status, said) = gate.control("POST", &format!("/v1/services/mc/pin/{pin}"), "").await;
        assert_eq!(status, 200, "{said}");
    };
    assert_eq!(gate.metric("swarmgate_store_ok").await, 1);
    until("a warning", LIMIT, async || {
        // The store may give room back.
        disk.fill();
        pin(&gate, "none").await;
        pin(&gate, "asleep").await;
        (gate.metric("swarmgate_store_ok").await == 0).then_some(())
    })
    .await;
    // It goes on, and says it once.
    let client = Client::to(gate.address);
    for _ in 0..20 {
        disk.fill();
        pin(&gate, "none").await;
        pin(&gate, "asleep").await;
        client.status(&Handshake::status(PROTOCOL, "mc.example.com"), LIMIT).await.unwrap();
    }
    for _ in 0..3 {
        let answer = add_route(&home.path().join(CONTROL));
        assert!(answer.starts_with("HTTP/1.1 5"), "it is not kept: {answer}");
    }
    let told = |what: &str| gate.log().matches(what).count();
    assert_eq!(told(TOLD), 1 + told(AGAIN), "{}", gate.log());
    disk.make_room();
    until("an end of it", LIMIT, async || (told(TOLD) == told(AGAIN)).then_some(())).await;
    until("a good word", LIMIT, async || (gate.metric("swarmgate_store_ok").await == 1).then_some(())).await;
    assert!(gate.end(Signal::KILL).await.code().is_none());
    let gate = home.start().await;
    assert_eq!(gate.service("mc").await["pin"], "asleep");
    assert!(!gate.log().contains(TOLD) && !gate.log().contains("set aside"), "{}", gate.log());
}

const PROTOCOL: i32 = 767;

#[tokio::test]
async fn a_gate_without_a_data_directory_says_what_that_costs_and_leaves_nothing_behind() {
    let home = Home::new();
    let servers = "[server.hub]\naddress = \"127.0.0.1:1\"\nhosts = [\"hub.example.com\"]\n";
    home.write(&Config::of(servers).top("data_dir = \"off\""));
    let socket = home.path().join("swarmgate.sock");
    let ask = async |method: &str, path: &str, body: &str| {
        swarmgate_testkit::lab::request(&socket, method, path, serde_json::from_str(body).ok().as_ref())
            .await
            .unwrap()
    };
    for run in 1..=2 {
        let gate = home.start().await;
        let log = gate.log();
        for part in ["data_dir is \"off\"", "pins", "routes", "boot times", "a path keeps all of that"] {
            assert!(log.contains(part), "{part}: {log}");
        }
        let routes = ask("GET", "/routes", "").await;
        assert_eq!((run, routes.body["made.example.com"].is_null()), (run, true), "{routes:?}");
        let made =
            ask("POST", "/routes", r#"{"serverAddress": "made.example.com", "backend": "192.0.2.7:25565"}"#);
        assert_eq!(made.await.status / 100, 2);
        assert_eq!(ask("GET", "/routes", "").await.body["made.example.com"]["origin"], "api");
        assert!(!gate.metrics().await.contains("swarmgate_store_ok"), "there is none that could be well");
        gate.end(Signal::TERM).await;
    }
    assert!(!home.path().join("swarmgate-data").exists());

    let server = Server::new(&home, "mc", &[], "");
    home.write(&Config::of(server.table).top("data_dir = \"off\""));
    let output = home.command(&["check"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("data_dir") && said.contains("servers with a command need a place"), "{said}");
}
