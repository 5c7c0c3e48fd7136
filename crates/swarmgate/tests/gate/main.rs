//! The gate as players, proxies, owners and strangers meet it: the real binary over real sockets.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    reason = "this is how a test fails"
)]

#[path = "../common/mod.rs"]
mod common;

mod api;
mod hostile;
mod lifetime;
mod limits;
mod mc_router;
mod owner;
mod proxy;
mod routing;
mod sessions;
mod sleep;
mod status;
mod wake;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::LIMIT;
use swarmgate_testkit::backend::Backend;
use swarmgate_testkit::client::{Client, Connection, Outcome};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::text::plain;
use swarmgate_testkit::wire::Handshake;

/// What most tests speak: 1.21.
const PROTOCOL: i32 = 767;

/// `[server.NAME]` for a backend of the test.
fn fixed(name: &str, backends: &[&Backend], keys: &str) -> String {
    let addresses: Vec<_> = backends.iter().map(|backend| backend.address().to_string()).collect();
    format!("[server.{name}]\naddress = {addresses:?}\n{keys}\n")
}

/// The login of a player, in the bytes that the game sends.
fn login(host: &str, name: &str) -> Vec<u8> {
    [Handshake::login(PROTOCOL, host).packet(), LoginStart::new(name).packet(PROTOCOL)].concat()
}

async fn join_from(client: &Client, host: &str, name: &str) -> (Outcome, Connection) {
    let joined = client.join(&Handshake::login(PROTOCOL, host), &LoginStart::new(name), LIMIT).await;
    joined.expect("a conversation")
}

async fn join(gate: SocketAddr, host: &str, name: &str) -> (Outcome, Connection) {
    join_from(&Client::to(gate), host, name).await
}

/// A player who got in.
async fn play(gate: SocketAddr, host: &str, name: &str) -> Connection {
    let (outcome, connection) = join(gate, host, name).await;
    assert_in(&outcome);
    connection
}

/// What a player read who did not.
async fn refusal(client: &Client, host: &str, name: &str) -> String {
    reason(&join_from(client, host, name).await.0)
}

/// What the server list shows under this name.
async fn motd(gate: SocketAddr, host: &str) -> String {
    let status = Client::to(gate).status(&Handshake::status(PROTOCOL, host), LIMIT).await;
    plain(&status.expect("a status").json["description"].to_string())
}

/// The echo of the backend still comes through.
async fn assert_playing(connection: &mut Connection) {
    connection.send(b"still there?").await.expect("an open connection");
    assert_eq!(connection.read_exact(12, LIMIT).await.expect("an echo"), b"still there?");
}

#[track_caller]
fn assert_in(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Joined { .. }), "{outcome:?}");
}

#[track_caller]
fn reason(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Kicked(reason) => plain(reason),
        other => panic!("not kicked: {other:?}"),
    }
}

#[track_caller]
fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in {text:?}");
}

#[track_caller]
fn assert_within(since: Instant, limit: Duration) {
    assert!(since.elapsed() < limit, "{:?} is longer than {limit:?}", since.elapsed());
}
