//! The commands as people run them: the real program, its words and its exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

#[path = "commands/check.rs"]
mod check;
#[path = "commands/demo.rs"]
mod demo;
#[path = "commands/explain.rs"]
mod explain;
#[path = "commands/join.rs"]
mod join;
#[path = "commands/ping.rs"]
mod ping;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(30);

/// What a command said, and how it ended.
struct Said {
    code: i32,
    out: String,
    err: String,
}

impl Said {
    fn of(output: std::process::Output) -> Self {
        Self {
            code: output.status.code().expect("an exit"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    /// What went wrong, as a program reads it.
    fn error(&self) -> Value {
        let one: Value =
            serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {}", self.err));
        one["error"].clone()
    }
}

fn swarmgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swarmgate"));
    command.kill_on_drop(true);
    command
}

async fn run(arguments: &[&str]) -> Said {
    Said::of(timeout(LIMIT, swarmgate().args(arguments).output()).await.expect("in time").unwrap())
}

/// A program that says this to whoever connects, and then waits until the other side closes, or closes at once.
async fn stranger(says: &'static [u8], closes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(says).await.unwrap();
            if closes {
                stream.shutdown().await.unwrap();
            }
            open.push(stream);
        }
    });
    address
}

#[tokio::test]
async fn a_command_that_is_nearly_one_is_named() {
    let said = run(&["joni", "localhost"]).await;
    assert_eq!(said.code, 2);
    assert!(said.err.contains("a similar subcommand exists: 'join'"), "{}", said.err);
    let said = run(&["ping", "mc.example.com:99999"]).await;
    assert_eq!(said.code, 2);
    assert!(said.err.contains("\"99999\" is not a port"), "{}", said.err);
}

#[tokio::test]
async fn programs_are_told_what_went_wrong_in_the_same_way_by_every_command() {
    let nowhere = "/no/such/file";
    let directory = tempfile::tempdir().unwrap();
    let bad = directory.path().join("bad.toml").display().to_string();
    std::fs::write(&bad, "lisen = 1").unwrap();
    let socket = directory.path().join("control.sock").display().to_string();
    let gone = swarmgate_testkit::wait::free_port();
    let server = format!("127.0.0.1:{gone}");
    let of_a_gate: [&[&str]; 8] = [
        &["services"],
        &["wake", "mc"],
        &["sleep", "mc"],
        &["pin", "mc", "awake"],
        &["health"],
        &["output", "mc"],
        &["explain", "mc.example.com"],
        &["--json", "console", "--control", &socket, "mc", "say", "hello"],
    ];
    let mut cases: Vec<(Vec<&str>, i32, &str, bool)> = of_a_gate
        .into_iter()
        .map(|command| match command {
            ["--json", ..] => (command.to_vec(), 1, "no_gate", true),
            _ => ([command, &["--control", &socket, "--json"]].concat(), 1, "no_gate", true),
        })
        .collect();
    cases.extend([
        (vec!["services", "--config", nowhere, "--json"], 1, "config_unreadable", true),
        (vec!["services", "--config", &bad, "--json"], 1, "config_bad", false),
        (vec!["run", "--config", nowhere, "--json"], 1, "config_unreadable", true),
        (vec!["check", nowhere, "--json"], 1, "config_unreadable", true),
        (vec!["explain", "--from", nowhere, "--json"], 1, "failed", false),
        (vec!["ping", &server, "--json"], 2, "refused", true),
        (vec!["join", &server, "--json"], 2, "refused", true),
        (vec!["demo", "--port", "none", "--json"], 2, "bad_command", false),
        (vec!["joni", "--json"], 2, "bad_command", true),
        (vec!["--json"], 2, "bad_command", false),
    ]);
    for (arguments, code, kind, fix) in cases {
        let output = timeout(LIMIT, swarmgate().args(&arguments).current_dir(directory.path()).output());
        let said = Said::of(output.await.expect("in time").unwrap());
        let error = said.error();
        assert_eq!(
            (said.code, &*said.out, &error["code"]),
            (code, "", &kind.into()),
            "{arguments:?}: {error}"
        );
        assert!(
            error["message"].as_str().is_some_and(|message| message.len() > 10),
            "{arguments:?}: {error}"
        );
        assert_eq!(error["fix"].is_string(), fix, "{arguments:?}: {error}");
    }
    let said = swarmgate().args(["services", "--json"]).current_dir(directory.path()).output().await.unwrap();
    assert_eq!(Said::of(said).error()["code"], "no_gate_named");
}

#[tokio::test]
async fn what_can_be_wrong_with_an_address_is_said_in_words() {
    let nobody = swarmgate_testkit::wait::free_port();
    let here = |address: SocketAddr| address.to_string();
    for (address, kind, words) in [
        (format!("127.0.0.1:{nobody}"), "refused", "refuses connections"),
        (
            here(stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n", false).await),
            "not_minecraft",
            "a web server answers",
        ),
        (here(stranger(b"\x15\x03\x03\0\x02\x02\x46", false).await), "not_minecraft", "with TLS answers"),
        (here(stranger(b"SSH-2.0-OpenSSH_9.2\r\n", false).await), "not_minecraft", "an SSH server answers"),
        (here(stranger(b"\xff\xff\xff\xff", false).await), "malformed", "not what Minecraft sends"),
        (here(stranger(b"", true).await), "closed", "closed the connection without an answer"),
        (here(stranger(b"", false).await), "silent", "has been silent for 500ms"),
        (here(stranger(b"<!DOCTYPE html>", false).await), "not_minecraft", "a web server answers"),
        (here(stranger(b"<\x00", true).await), "cut", "closed the connection in the middle"),
        (here(stranger(b"\x7f\x00", true).await), "cut", "closed the connection in the middle"),
    ] {
        for command in ["ping", "join"] {
            let said = run(&[command, &address, "--timeout", "0.5"]).await;
            assert_eq!((said.code, &*said.out), (2, ""), "{command} {kind}: {}", said.err);
            assert!(
                said.err.contains(&address) && said.err.contains(words),
                "{command} {kind}: {}",
                said.err
            );
        }
        let said = run(&["ping", &address, "--timeout", "0.5", "--json"]).await;
        let error = said.error();
        assert_eq!((said.code, &*said.out, &error["code"]), (2, "", &kind.into()), "{error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(error["fix"].is_string(), kind != "cut", "{error}");
    }
}
