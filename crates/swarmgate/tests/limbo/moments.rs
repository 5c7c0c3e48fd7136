//! Every moment at which something can happen to a player on the way into limbo and out of it.

use std::sync::Arc;

use swarmgate_testkit::client::Connection;
use swarmgate_testkit::player::Passport;
use swarmgate_testkit::vanilla::Phase;
use swarmgate_testkit::wait::until;

use crate::common::{Gate, Home, LIMIT, Server};
use crate::{follow, gate, rounds, server, slowly, waiting};

/// Ready as soon as it is started: how much of the journey that leaves is the machine's affair.
#[tokio::test]
async fn the_server_is_ready_between_the_login_and_the_game() {
    let (home, mc, gate) = site(&["START_DELAY_MS=0"]).await;
    // The client reads so many bytes, and goes on when the server is up: from before its login's success to
    // deep in the packets of the world. Then at random.
    let stops = [0, 1, 5, 20, 25, 26, 27, 40, 70, 100, 500, 1500, 3000];
    for round in 0..rounds(stops.len(), 1000) {
        let stop = stops.get(round).copied().unwrap_or(round * 7919 % 4000);
        // Nobody is sent back more than twice a minute: everybody comes once.
        let player = slowly(&gate, 772, "mc.example.com", &format!("P{round}"));
        let playing = stalled(&gate, &player, stop).await;
        drop(playing);
        asleep(&gate).await;
    }
    assert!(!mc.is_corrupted());
    drop(home);
}

/// Reads so many bytes, waits for the server, goes on.
async fn stalled(gate: &Gate, passport: &Passport, stop: usize) -> Connection {
    let mut player = passport.connect(LIMIT).await.unwrap();
    let mut looks = 0;
    loop {
        let phase = player
            .until("the next byte", LIMIT, |game| {
                looks += 1;
                let matters = matches!(game.phase(), Phase::LoggedIn | Phase::Over);
                (looks == stop + 1 || matters).then_some(game.phase())
            })
            .await
            .unwrap_or_else(|error| panic!("stopped at {stop}: {error}"));
        if looks == stop + 1 {
            gate.until_state("mc", "running").await;
        }
        match phase {
            Phase::LoggedIn => player.acknowledge().await.unwrap(),
            Phase::Over => return follow(player, LIMIT).await,
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_player_who_leaves_at_any_moment_leaves_nothing_behind() {
    let (home, mc, gate) = site(&["START_DELAY_MS=10000"]).await;
    for stop in [0, 10, 26, 30, 60, 300, 3000, 5000] {
        // Whoever leaves while it gets the world is held to be broken, and is not given it again.
        let passport = slowly(&gate, 775, "mc.example.com", &format!("Ann{stop}"));
        let mut player = passport.connect(LIMIT).await.unwrap();
        let mut read = 0;
        while read < stop {
            let acknowledge = player
                .until("the next byte", LIMIT, |game| {
                    read += 1;
                    (read >= stop || game.phase() == Phase::LoggedIn)
                        .then_some(game.phase() == Phase::LoggedIn)
                })
                .await
                .unwrap();
            if acknowledge && read < stop {
                player.acknowledge().await.unwrap();
            }
        }
        match stop % 20 {
            0 => player.into_connection().reset(),
            _ => drop(player.leave()),
        }
        gate.until("mc", "no seat", |service| service["seats"] == 0).await;
    }
    gate.until_state("mc", "running").await;
    assert_eq!(mc.starts(), 1);
    drop(home);
}

/// Transferred, but gone: the server that was woken is not kept awake by a ghost.
#[tokio::test]
async fn a_player_who_leaves_during_the_transfer_holds_no_seat_for_long() {
    let (home, _mc, gate) = site(&["START_DELAY_MS=1500"]).await;
    let mut ann = waiting(&slowly(&gate, 775, "mc.example.com", "Ann")).await;
    ann.until_transferred(LIMIT).await.unwrap();
    drop(ann);
    gate.until("mc", "no seat", |service| service["seats"] == 0).await;
    drop(home);
}

#[tokio::test]
async fn two_joins_of_one_name_both_end() {
    let (home, mc, gate) = site(&["START_DELAY_MS=2500"]).await;
    let ann = slowly(&gate, 775, "mc.example.com", "Ann");
    let first = waiting(&ann).await;
    let second = waiting(&ann).await;
    let mut playing = vec![];
    for player in [second, first] {
        playing.push(follow(player, LIMIT).await);
    }
    assert_eq!(mc.starts(), 1);
    drop(playing);
    gate.until("mc", "no seat", |service| service["seats"] == 0).await;
    drop(home);
}

async fn site(settings: &[&str]) -> (Arc<Home>, Server, Gate) {
    let home = Home::new();
    let mc = server(&home, "mc", settings);
    let gate = gate(&home, &[&mc]).await;
    (home, mc, gate)
}

/// As soon as nobody is in.
async fn asleep(gate: &Gate) {
    let slept = until("a sleep that is accepted", LIMIT, async || {
        (gate.control("POST", "/v1/services/mc/sleep", "").await.0 == 200).then_some(())
    });
    slept.await;
    gate.until_state("mc", "asleep").await;
}
