//! Waiting inside the game: the limbo as a client as strict as the game's own meets it.
#![allow(
    clippy::as_conversions,
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

mod crowd;
mod journey;
mod moments;
mod proxied;
mod rungs;
mod session;
mod shown;
mod trouble;
mod verified;

use std::time::Duration;

use common::{Config, Gate, Home, LIMIT, Server};
use swarmgate_testkit::client::{Client, Connection, Pace};
use swarmgate_testkit::player::{Passport, Player};
use swarmgate_testkit::vanilla::{Phase, Vanilla};

/// `./scripts/test --long` goes round these loops more often.
fn rounds(usual: usize, long: usize) -> usize {
    if std::env::var_os("SWARMGATE_LONG").is_some() { long } else { usual }
}

/// A gate with these servers, which nobody is refused for his number.
async fn gate(home: &std::sync::Arc<Home>, servers: &[&Server]) -> Gate {
    let limits = "trusted_sources = [\"127.0.0.0/8\"]\nwaking_at_once = 99\nlimbo_per_source = 999";
    home.write(&Config::of(common::tables(servers)).limits(limits));
    home.start().await
}

/// A server that wants its players to wait in the world.
fn server(home: &Home, name: &str, settings: &[&str]) -> Server {
    Server::new(home, name, settings, "wait = \"world\"")
}

/// A player at the gate, one byte at a time in both directions.
fn slowly(gate: &Gate, protocol: i32, host: &str, name: &str) -> Passport {
    Passport::new(Client::to(gate.address).pace(Pace::PerByte), protocol, host, name)
}

fn player(gate: &Gate, protocol: i32, host: &str, name: &str) -> Passport {
    Passport::new(Client::to(gate.address), protocol, host, name)
}

/// Who waits in the world.
async fn waiting(passport: &Passport) -> Player {
    let mut player = arrived(passport).await;
    player.until("a world", LIMIT, is_in_the_world).await.unwrap();
    player
}

/// Who is behind the login, and goes on.
async fn arrived(passport: &Passport) -> Player {
    let mut player = passport.arrive(LIMIT).await.unwrap();
    player.acknowledge().await.unwrap();
    player
}

fn is_in_the_world(game: &Vanilla) -> Option<()> {
    game.world().is_some_and(|world| world.is_entered()).then_some(())
}

fn is_in_the_room(game: &Vanilla) -> Option<()> {
    (game.phase() == Phase::Configuration && !game.seen().packs.is_empty()).then_some(())
}

/// Follows the transfer into the server's echo.
async fn follow(player: Player, limit: Duration) -> Connection {
    let mut player = player.follow(limit).await.unwrap();
    player.until_logged_in(LIMIT).await.unwrap();
    let mut playing = player.into_connection();
    assert_playing(&mut playing).await;
    playing
}

/// The echo of the server comes through; a limbo would wait for the rest of a long packet.
async fn assert_playing(connection: &mut Connection) {
    connection.set_pace(Pace::Whole);
    connection.send(b"still there?").await.unwrap();
    assert_eq!(connection.read_exact(12, LIMIT).await.unwrap(), b"still there?");
}
