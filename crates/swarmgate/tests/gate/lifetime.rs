//! The gate comes and goes; servers, players and what was learned stay.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use swarmgate_testkit::backend::{Backend, Behaviour};
use swarmgate_testkit::client::Client;
use swarmgate_testkit::peers::skip;
use swarmgate_testkit::process::{Process, Signal};
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::Handshake;
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::common::{Config, Gate, Home, LIMIT, Server, get, local};
use crate::{PROTOCOL, assert_contains, assert_in, assert_playing, assert_within, fixed, join_from, play};

async fn refused(gate: &Gate) {
    until("a closed door", LIMIT, async || {
        let error = TcpStream::connect(gate.address).await.err()?;
        (error.kind() == std::io::ErrorKind::ConnectionRefused).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_gate_killed_in_mid_game_takes_no_server_with_it() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &["START_DELAY_MS=700"], "idle = \"3s\"");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    let mut player = play(gate.address, "mc.example.com", "Ann").await;
    assert_playing(&mut player).await;
    let learned = gate.until("mc", "an eta", |service| !service["eta_seconds"].is_null()).await;
    gate.end(Signal::KILL).await;
    player.read_to_end(LIMIT).await.ok();
    // It goes on for whoever is in it by another way.
    let (outcome, mut inside) = join_from(&Client::to(server.address), "mc.example.com", "Direct").await;
    assert_in(&outcome);

    let gate = home.start().await;
    let mut player = play(gate.address, "mc.example.com", "Ann").await;
    assert_playing(&mut player).await;
    assert_playing(&mut inside).await;
    assert_eq!(gate.service("mc").await["eta_seconds"], learned["eta_seconds"]);
    drop((player, inside));
    gate.until_state("mc", "asleep").await;
    assert_eq!(server.history(), ["start", "stop", "saved"]);
}

#[tokio::test]
async fn a_new_gate_gives_an_empty_server_its_full_idle_time() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &[], "idle = \"4s\"");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    drop(play(gate.address, "mc.example.com", "Ann").await);
    gate.until("mc", "half the idle time", |service| service["sleeps_in_seconds"].as_u64() <= Some(2)).await;
    gate.end(Signal::KILL).await;
    let started = Instant::now();
    let gate = home.start().await;
    gate.until_state("mc", "asleep").await;
    assert!(started.elapsed() >= Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(server.starts(), 1);
}

#[tokio::test]
async fn told_to_stop_it_lets_players_stay_up_to_the_limit() {
    let backend = Backend::start(Behaviour::default()).await;
    let home = Home::new();
    let table = fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#);
    home.write(&Config { drain: "3s", ..Config::of(table) });
    let gate = home.start().await;
    let mut player = play(gate.address, "mc.example.com", "Ann").await;
    gate.process.signal(Signal::TERM);
    let told = Instant::now();
    refused(&gate).await;
    assert_eq!(get(gate.http, "/readyz").await, Some((503, "stopping\n".into())));
    assert_eq!(get(gate.http, "/healthz").await.unwrap().0, 200);
    assert_playing(&mut player).await;
    assert_eq!(player.read_to_end(LIMIT).await.unwrap_or_default(), b"");
    assert!(told.elapsed() >= Duration::from_secs(3), "{:?}", told.elapsed());
    assert_eq!(gate.ended().await.code(), Some(0));
    assert_within(told, Duration::from_secs(10));
}

#[tokio::test]
async fn it_ends_when_the_last_player_has_left_or_when_told_again() {
    let backend = Backend::start(Behaviour::default()).await;
    let table = fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#);
    for again in [false, true] {
        let gate = Gate::with(&Config { drain: "10m", ..Config::of(&table) }).await;
        let mut player = play(gate.address, "mc.example.com", "Ann").await;
        let _idle = Client::to(gate.address).connect(LIMIT).await.unwrap();
        gate.process.signal(Signal::TERM);
        refused(&gate).await;
        assert_playing(&mut player).await;
        let told = Instant::now();
        if again {
            gate.process.signal(Signal::TERM);
        } else {
            drop(player);
        }
        assert_eq!(gate.ended().await.code(), Some(0));
        assert_within(told, Duration::from_secs(15));
    }
}

#[tokio::test]
async fn a_player_who_waits_is_told_when_the_gate_stops() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &["START_DELAY_MS=60000"], "grace = \"1s\"");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    let client = Client::to(gate.address);
    let waiting = tokio::spawn(async move { crate::refusal(&client, "mc.example.com", "Ann").await });
    gate.until("mc", "a player who waits", |service| service["seats"] == 1).await;
    assert_eq!(gate.end(Signal::TERM).await.code(), Some(0));
    assert_contains(&waiting.await.unwrap(), "mc starts, come back in");
}

#[tokio::test]
async fn its_servers_stop_with_it_or_stay_as_the_owner_says() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &["STOP_DELAY_MS=300"], "");
    home.write(&Config { on_exit: "keep", ..Config::of(&server.table) });
    let gate = home.start().await;
    drop(play(gate.address, "mc.example.com", "Ann").await);
    assert_eq!(gate.end(Signal::TERM).await.code(), Some(0));
    assert_in(&join_from(&Client::to(server.address), "mc.example.com", "Direct").await.0);
    assert_eq!(server.history(), ["start"]);

    home.write(&Config { on_exit: "stop", ..Config::of(&server.table) });
    let gate = home.start().await;
    gate.until_state("mc", "running").await;
    assert_eq!(gate.end(Signal::TERM).await.code(), Some(0));
    assert_eq!(server.history(), ["start", "stop", "saved"]);
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_changed_file_is_read_and_a_bad_one_changes_nothing() {
    let backend = Backend::start(Behaviour::default()).await;
    let home = Home::new();
    let of = |host: &str| fixed("mc", &[&backend], &format!("hosts = [\"{host}\"]"));
    home.write(&Config::of(of("old.example.com")));
    let mut gate = home.start().await;
    let mut player = play(gate.address, "old.example.com", "Ann").await;

    home.write(&Config::of(of("new.example.com")));
    until("the new name", LIMIT, async || {
        crate::motd(gate.address, "new.example.com").await.contains("A test server").then_some(())
    })
    .await;
    assert_contains(&crate::motd(gate.address, "old.example.com").await, "no server by this name");
    // Players of what was there before notice nothing.
    assert_playing(&mut player).await;

    home.write_text("listen = [\"127.0.0.1:1\"]\n[server.mc]\nadress = \"127.0.0.1:1\"\n");
    let line = gate.process.wait_for_line("the configuration was not reloaded", LIMIT).await;
    assert_contains(&line, "the one before stays");
    gate.process.wait_for_line("did you mean", LIMIT).await;
    gate.process.signal(Signal::HUP);
    let twice = |lines: &[String]| {
        (lines.iter().filter(|line| line.contains("was not reloaded")).count() == 2).then_some(())
    };
    gate.process.wait_for("a second refusal", LIMIT, twice).await;
    std::fs::remove_file(home.file()).unwrap();
    gate.process.wait_for_line("cannot read", LIMIT).await;
    play(gate.address, "new.example.com", "Bo").await;

    home.write(&Config::of(of("newer.example.com")));
    gate.process.signal(Signal::HUP);
    until("the newer name", LIMIT, async || {
        crate::motd(gate.address, "newer.example.com").await.contains("A test server").then_some(())
    })
    .await;
    assert_playing(&mut player).await;
}

/// A gate that does not start: its exit code and what it says, once it has said this.
async fn failure(home: &Home, sentence: &str) -> (Option<i32>, String) {
    let mut process = Process::start(home.command(&["run", "--config"]).arg(home.file()));
    let code = process.wait_exit(LIMIT).await.code();
    process.wait_for_line(sentence, LIMIT).await;
    (code, process.lines().join("\n"))
}

/// The same without the rights that root has and a user has not: to low ports, and to others' files.
fn without_rights(home: &Home) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--net", "setpriv", "--bounding-set=-net_bind_service,-dac_override,-dac_read_search", "--"])
        .arg(env!("CARGO_BIN_EXE_swarmgate"))
        .args(["run", "--config"])
        .arg(home.file());
    command
}

#[tokio::test]
async fn what_the_system_does_not_allow_is_said_with_the_user_and_the_fix() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can give its rights away");
    }
    let nobody = |path: &Path| std::os::unix::fs::chown(path, Some(65_534), None).unwrap();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let table = "[server.mc]\naddress = \"127.0.0.1:1\"\nhosts = [\"mc.example.com\"]\n";
    let home = Home::new();
    let refused = async |what: &[&str]| {
        let mut process = Process::start(&mut without_rights(&home));
        assert_eq!(process.wait_exit(LIMIT).await.code(), Some(1));
        for sentence in what {
            process.wait_for_line(sentence, LIMIT).await;
        }
    };

    home.write_text(&format!("listen = [\"127.0.0.1:25\"]\n{table}"));
    refused(&["not allowed to listen on 127.0.0.1:25: ports below 1024 need root"]).await;

    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    nobody(&data);
    mode(&data, 0o700);
    home.write_text(&format!("data_dir = \"data\"\nlisten = [\"127.0.0.1:25565\"]\n{table}"));
    let advice = "This runs as user 0: give that user access";
    refused(&["swarmgate.redb: Permission denied", advice]).await;

    nobody(&home.file());
    mode(&home.file(), 0o600);
    refused(&["cannot read", "swarmgate.toml: Permission denied", advice]).await;
}

#[tokio::test]
async fn what_keeps_it_from_starting_is_said_in_a_sentence() {
    let table = "[server.mc]\naddress = \"127.0.0.1:1\"\nhosts = [\"mc.example.com\"]\n";
    let home = Home::new();
    home.write(&Config::of(table));
    let gate = home.start().await;

    let (code, said) = failure(&home, "another swarmgate uses").await;
    assert_eq!(code, Some(1), "{said}");

    for (listen, http, what) in [
        (gate.address, local(0), "stop that one, or listen on another address"),
        (local(0), gate.http, "http (health, metrics and the API)"),
    ] {
        let other = Home::new();
        other.write_text(&format!("listen = [\"{listen}\"]\nhttp = \"{http}\"\n{table}"));
        let (code, said) = failure(&other, "is in use by another program").await;
        assert_eq!(code, Some(1), "{said}");
        assert_contains(&said, what);
    }

    let other = Home::new();
    other.write_text("listen = 5\nlitsen = 6\n");
    let (code, said) = failure(&other, "litsen").await;
    assert_eq!(code, Some(1), "{said}");
    // The first is not disturbed by any of it.
    Client::to(gate.address).status(&Handshake::status(PROTOCOL, "mc.example.com"), LIMIT).await.unwrap();
}
