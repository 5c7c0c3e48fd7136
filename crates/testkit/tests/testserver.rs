//! The test server as the process that other tests start.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use swarmgate_testkit::client::{Client, Outcome};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::process::{Process, Signal, testserver};
use swarmgate_testkit::wait::{free_port, until};
use swarmgate_testkit::wire::Handshake;
use tokio::process::Command;

const LIMIT: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(50);

struct Server {
    process: Process,
    client: Client,
    port: u16,
}

impl Server {
    fn start(settings: &[&str]) -> Self {
        let port = free_port();
        let process = Process::start(
            Command::new(env!("CARGO_BIN_EXE_testserver")).env("PORT", port.to_string()).args(settings),
        );
        Self { process, client: Client::to(SocketAddr::from((Ipv4Addr::LOCALHOST, port))), port }
    }

    async fn ready(settings: &[&str]) -> Self {
        let mut server = Self::start(settings);
        server.process.wait_for_line("ready", LIMIT).await;
        server
    }

    async fn status(&self) -> Value {
        self.client.status(&Handshake::status(767, "a"), LIMIT).await.unwrap().json
    }
}

#[tokio::test]
async fn boots_answers_plays_and_stops() {
    let mut server = Server::ready(&[
        "BOOT_LOG=1",
        "ICON=1",
        "MOTD=Hello",
        "MAX_PLAYERS=5",
        "VERSION=Paper",
        "PROTOCOL=47",
    ])
    .await;
    server.process.wait_for_line(r#"s)! For help, type "help""#, LIMIT).await;
    let status = server.status().await;
    assert_eq!(status["description"]["text"], "Hello");
    assert_eq!(status["version"], serde_json::json!({"name": "Paper", "protocol": 47}));
    assert_eq!(status["players"], serde_json::json!({"max": 5, "online": 0}));
    assert!(status["favicon"].as_str().unwrap().starts_with("data:image/png;base64,iVBORw0KGgo"));

    let (handshake, start) = (Handshake::login(767, "a"), LoginStart::new("Steve"));
    let (outcome, mut player) = server.client.join(&handshake, &start, LIMIT).await.unwrap();
    assert!(matches!(outcome, Outcome::Joined { .. }), "{outcome:?}");
    player.send(b"echo").await.unwrap();
    assert_eq!(player.read_exact(4, LIMIT).await.unwrap(), b"echo");
    server.process.wait_for_line("joined Steve", LIMIT).await;
    assert_eq!(server.status().await["players"]["online"], 1);

    server.process.type_line("say hello there").await;
    server.process.wait_for_line("[Server] hello there", LIMIT).await;
    server.process.type_line("stop").await;
    assert_eq!(player.read_to_end(LIMIT).await.unwrap(), b"");
    assert_eq!(server.process.wait_exit(LIMIT).await.code(), Some(0));
}

#[tokio::test]
async fn listening_is_not_ready() {
    let mut server = Server::start(&["START_DELAY_MS=60000"]);
    server.process.wait_for_line("starting", LIMIT).await;
    assert!(server.client.connect(LIMIT).await.is_err());

    let mut server = Server::start(&["READY_DELAY_MS=60000"]);
    server.process.wait_for_line("listening", LIMIT).await;
    assert!(server.client.status(&Handshake::status(767, "a"), SHORT).await.is_err());
    let (handshake, start) = (Handshake::login(767, "a"), LoginStart::new("Steve"));
    let (outcome, _) = server.client.join(&handshake, &start, LIMIT).await.unwrap();
    assert!(matches!(&outcome, Outcome::Kicked(reason) if reason.contains("starting")), "{outcome:?}");
    // Not too deep in its start to be told to stop.
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.wait_exit(LIMIT).await.code(), Some(0));

    let server = Server::ready(&["START_DELAY_MS=20", "READY_DELAY_MS=20"]).await;
    server.status().await;
}

#[tokio::test]
async fn saves_its_world_before_it_exits() {
    let world = tempfile::tempdir().unwrap();
    let world = world.path();
    let setting = format!("WORLD={}", world.display());
    let mut server = Server::ready(&[&setting, "STOP_DELAY_MS=1000", "STOP_CODE=143"]).await;
    server.process.signal(Signal::TERM);
    until("the save to begin", LIMIT, async || world.join("save-begin").exists().then_some(())).await;
    // A second signal does not hurry it.
    server.process.signal(Signal::TERM);
    assert!(!world.join("save-end").exists());
    assert!(server.client.connect(LIMIT).await.is_err(), "the port is closed while it saves");
    let pid = server.process.pid();
    assert_eq!(server.process.wait_exit(LIMIT).await.code(), Some(143));
    assert!(world.join("save-end").exists());
    assert_eq!(log(world), format!("start {pid}\nstop {pid}\nsaved {pid}\n"));

    // Killed, it does not save; the next start shows that.
    let mut server = Server::ready(&[&setting]).await;
    server.process.signal(Signal::KILL);
    server.process.wait_exit(LIMIT).await;
    let _next = Server::ready(&[&setting]).await;
    let words: Vec<_> = log(world).lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(words, ["start", "stop", "saved", "start", "start"]);
    assert!(!world.join("save-begin").exists());
}

fn log(world: &Path) -> String {
    fs::read_to_string(world.join("world.log")).unwrap()
}

#[tokio::test]
async fn two_servers_on_one_world_are_noticed() {
    let world = tempfile::tempdir().unwrap();
    let setting = format!("WORLD={}", world.path().display());
    let first = Server::ready(&[&setting]).await;
    assert!(!world.path().join("world-corrupted").exists());
    let mut second = Server::start(&[&setting]);
    let pid = second.process.pid();
    assert_eq!(second.process.wait_exit(LIMIT).await.code(), Some(70));
    assert_eq!(fs::read_to_string(world.path().join("world-corrupted")).unwrap(), pid.to_string());
    assert_eq!(log(world.path()), format!("start {}\n", first.process.pid()));
}

#[tokio::test]
async fn crashes() {
    let mut server = Server::start(&["EXIT_AFTER_MS=50", "EXIT_CODE=3", "START_DELAY_MS=60000"]);
    assert_eq!(server.process.wait_exit(LIMIT).await.code(), Some(3));
    let mut server = Server::ready(&["EXIT_CODE=4"]).await;
    server.process.type_line("crash").await;
    assert_eq!(server.process.wait_exit(LIMIT).await.code(), Some(4));
}

#[tokio::test]
async fn ignores_sigterm_hangs_and_lives_without_a_console() {
    let mut server = Server::ready(&["IGNORE_SIGTERM=1", "PLAYERS=9"]).await;
    server.process.signal(Signal::TERM);
    server.process.wait_for_line("ignoring SIGTERM", LIMIT).await;
    assert_eq!(server.status().await["players"]["online"], 9);
    server.process.type_line("hang").await;
    server.process.close_input();
    server.process.wait_for_line("hanging", LIMIT).await;
    assert!(server.client.status(&Handshake::status(767, "a"), SHORT).await.is_err());
    server.process.signal(Signal::INT);
    assert_eq!(server.process.wait_exit(LIMIT).await.code(), Some(0));
}

#[tokio::test]
async fn health() {
    let server = Server::ready(&[]).await;
    for (port, code) in [(server.port, 0), (free_port(), 1)] {
        let mut health =
            Process::start(Command::new(testserver()).arg("health").env("PORT", port.to_string()));
        assert_eq!(health.wait_exit(LIMIT).await.code(), Some(code));
    }
}

#[tokio::test]
async fn a_setting_that_makes_no_sense_is_said() {
    for bad in ["PORT=many", "port"] {
        let mut server = Server::start(&[bad]);
        server.process.wait_for_line("see --help", LIMIT).await;
        assert_eq!(server.process.wait_exit(LIMIT).await.code(), Some(64));
    }
}
