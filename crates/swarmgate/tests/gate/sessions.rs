//! A player's connection from the first byte relayed to the last.

use std::time::Duration;

use swarmgate_testkit::backend::{Backend, Behaviour, Login};
use swarmgate_testkit::client::{Connection, Outcome};
use swarmgate_testkit::wait::until;

use crate::common::{Gate, LIMIT};
use crate::{assert_playing, fixed, join, play, reason};

async fn set_up() -> (Backend, Gate) {
    let backend = Backend::start(Behaviour::default()).await;
    let gate = Gate::start(&fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#)).await;
    (backend, gate)
}

async fn seats(gate: &Gate, count: u64) {
    gate.until("mc", &format!("{count} seats"), |service| service["seats"] == count).await;
    if count == 0 {
        until("no connections", LIMIT, async || {
            (gate.metric("swarmgate_connections_open").await == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn however_a_session_ends_its_seat_is_free_and_the_other_side_knows() {
    let (backend, gate) = set_up().await;
    type End = fn(&Backend, Connection) -> Option<Connection>;
    let ends: [(&str, End); 5] = [
        ("the player closes", |_, player| {
            drop(player);
            None
        }),
        ("the player resets", |_, player| {
            player.reset();
            None
        }),
        ("the server closes", |backend, player| {
            backend.close();
            Some(player)
        }),
        ("the server resets", |backend, player| {
            backend.reset();
            Some(player)
        }),
        ("the server closes its half", |backend, player| {
            backend.half_close();
            Some(player)
        }),
    ];
    for (what, end) in ends {
        let mut player = play(gate.address, "mc.example.com", "Ann").await;
        assert_playing(&mut player).await;
        seats(&gate, 1).await;
        if let Some(mut player) = end(&backend, player) {
            // An end or a reset, at once in both cases; never silence.
            if let Err(error) = player.read_to_end(LIMIT).await {
                assert_ne!(error.kind(), std::io::ErrorKind::TimedOut, "{what}");
            }
        }
        seats(&gate, 0).await;
        backend.wait_for(what, LIMIT, |state| state.online() == 0).await;
    }
}

#[tokio::test]
async fn a_half_closed_connection_still_carries_what_comes_from_the_other_side() {
    let (backend, gate) = set_up().await;
    let mut player = play(gate.address, "mc.example.com", "Ann").await;
    let long = vec![7; 300_000];
    let (sent, heard) = {
        let (stream, _) = player.into_parts();
        let (mut read, mut write) = stream.into_split();
        let copy = long.clone();
        let sent = tokio::spawn(async move {
            tokio::io::AsyncWriteExt::write_all(&mut write, &copy).await.unwrap();
            tokio::io::AsyncWriteExt::shutdown(&mut write).await.unwrap();
        });
        let mut heard = vec![];
        tokio::io::AsyncReadExt::read_to_end(&mut read, &mut heard).await.unwrap();
        (sent, heard)
    };
    sent.await.unwrap();
    assert_eq!(heard.len(), long.len());
    backend
        .wait_for("the end", LIMIT, |state| state.connections.iter().any(|record| record.half_closed))
        .await;
    seats(&gate, 0).await;
    player = play(gate.address, "mc.example.com", "Bo").await;
    assert_playing(&mut player).await;
}

#[tokio::test]
async fn what_a_server_says_to_a_login_reaches_the_player() {
    let (backend, gate) = set_up().await;
    backend.set(|behaviour| behaviour.login = Login::Kick(r#"{"text":"The server is full!"}"#.into()));
    assert_eq!(reason(&join(gate.address, "mc.example.com", "Ann").await.0), "The server is full!");
    backend.set(|behaviour| behaviour.login = Login::Raw(b"\x05\x01abcd".to_vec()));
    let (outcome, _) = join(gate.address, "mc.example.com", "Ann").await;
    assert_eq!(outcome, Outcome::EncryptionRequested(b"abcd".to_vec()));
    backend.set(|behaviour| behaviour.login = Login::Close);
    assert_eq!(join(gate.address, "mc.example.com", "Ann").await.0, Outcome::Closed);
    seats(&gate, 0).await;
}

#[tokio::test]
async fn a_server_that_comes_back_within_a_second_is_found_again() {
    let (backend, gate) = set_up().await;
    backend.refuse().await;
    let address = gate.address;
    let player = tokio::spawn(async move { play(address, "mc.example.com", "Ann").await });
    until("a first try", LIMIT, async || {
        (gate.metric("swarmgate_session_errors_total{kind=\"unreachable\"}").await > 0).then_some(())
    })
    .await;
    backend.listen().await;
    let mut player = tokio::time::timeout(Duration::from_secs(20), player).await.unwrap().unwrap();
    assert_playing(&mut player).await;
}
