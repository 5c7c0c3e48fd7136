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
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

fn swarmgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_swarmgate"));
    command.kill_on_drop(true);
    command
}

async fn run(arguments: &[&str]) -> Said {
    let output = timeout(LIMIT, swarmgate().args(arguments).output()).await.expect("in time").unwrap();
    Said {
        code: output.status.code().expect("an exit"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
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
        assert_eq!((said.code, &said.json()["error"]["kind"]), (2, &kind.into()), "{}", said.out);
    }
}
