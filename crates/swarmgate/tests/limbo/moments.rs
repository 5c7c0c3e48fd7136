//! Every moment at which something can happen to a player on the way into limbo and out of it.

use std::sync::Arc;

use swarmgate_testkit::client::Connection;
use swarmgate_testkit::player::Passport;
use swarmgate_testkit::vanilla::Phase;
use swarmgate_testkit::wait::until;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::common::{Gate, Home, LIMIT, Server};
use crate::{follow, gate, player, rounds, server, slowly, waiting};

/// Everybody stops reading somewhere, and goes on when the server is up.
#[tokio::test]
async fn the_server_is_ready_between_the_login_and_the_game() {
    let (home, mc, gate) = site(&[&start_delay(3000, 15_000)]).await;
    // From before the login's success to deep in the packets of the world. Then at random.
    let stops = [0, 1, 5, 20, 25, 26, 27, 40, 70, 100, 500, 1500, 3000];
    for batch in 0..rounds(1, 10) {
        let (up, is_up) = watch::channel(false);
        let mut crowd = JoinSet::new();
        for number in 0..rounds(stops.len(), 100) {
            let stop = stops.get(number).copied().unwrap_or((100 * batch + number) * 7919 % 4000);
            let (passport, is_up) =
                (slowly(&gate, 772, "mc.example.com", &format!("P{batch}x{number}")), is_up.clone());
            crowd.spawn(async move { stalled(&passport, stop, is_up).await });
        }
        gate.until_state("mc", "running").await;
        up.send_replace(true);
        drop(crowd.join_all().await);
        asleep(&gate).await;
    }
    assert!(!mc.is_corrupted());
    drop(home);
}

/// Reads so many bytes, waits for the server, goes on.
async fn stalled(passport: &Passport, stop: usize, mut is_up: watch::Receiver<bool>) -> Connection {
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
            is_up.wait_for(|up| *up).await.unwrap();
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

/// Transferred, but gone: the server that was woken is not kept awake by ghosts.
#[tokio::test]
async fn players_who_leave_during_the_transfer_hold_no_seat_for_long() {
    let (home, _mc, gate) = site(&[&start_delay(3000, 40_000)]).await;
    for batch in 0..rounds(1, 2) {
        let mut crowd = JoinSet::new();
        for number in 0..rounds(12, 500) {
            let passport = player(&gate, 775, "mc.example.com", &format!("P{batch}x{number}"));
            crowd.spawn(async move { leave_during_the_transfer(&passport, number).await });
        }
        crowd.join_all().await;
        gate.until("mc", "no seat", |service| service["seats"] == 0).await;
        asleep(&gate).await;
    }
    drop(home);
}

async fn leave_during_the_transfer(passport: &Passport, how: usize) {
    let mut player = waiting(passport).await;
    if how.is_multiple_of(4) {
        // Somewhere among the last bytes.
        let mut left = how / 4;
        let word = player.until("a few bytes more", LIMIT, |game| {
            left = left.saturating_sub(1);
            (left == 0 || game.phase() == Phase::Over).then_some(())
        });
        word.await.unwrap();
        return;
    }
    player.until_transferred(LIMIT).await.unwrap();
    match how % 4 {
        1 => player.into_connection().reset(),
        2 => drop(player),
        // On the way back.
        _ => drop(player.follow(LIMIT).await.unwrap()),
    }
}

#[tokio::test]
async fn two_joins_of_one_name_both_end() {
    let (home, mc, gate) = site(&[&start_delay(3000, 40_000)]).await;
    for batch in 0..rounds(1, 4) {
        let mut crowd = JoinSet::new();
        for number in 0..2 * rounds(6, 250) {
            // Each name twice, at the same moment.
            let ann = player(&gate, 775, "mc.example.com", &format!("P{batch}x{}", number / 2));
            crowd.spawn(async move { follow(waiting(&ann).await, LIMIT).await });
        }
        let playing = crowd.join_all().await;
        assert_eq!(mc.starts(), batch + 1);
        drop(playing);
        gate.until("mc", "no seat", |service| service["seats"] == 0).await;
        asleep(&gate).await;
    }
    drop(home);
}

/// Long enough for everybody to be there before.
fn start_delay(usual: usize, long: usize) -> String {
    format!("START_DELAY_MS={}", rounds(usual, long))
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
