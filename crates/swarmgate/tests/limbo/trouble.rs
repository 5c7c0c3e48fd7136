//! Servers that do not come, do not stay, and clients that cannot be given the world.

use swarmgate_testkit::vanilla::{End, Phase, Sight, Vanilla};

use crate::common::{Config, Home, LIMIT, Server};
use crate::{arrived, follow, gate, player, waiting};

#[tokio::test]
async fn a_server_that_never_comes_ends_in_a_sentence() {
    let home = Home::new();
    let keys = "wait = \"world\"\nmax_restarts = 0\nstart_timeout = \"4s\"\nhold = \"1s\"";
    let crash = ["START_DELAY_MS=600000", "EXIT_AFTER_MS=3000", "EXIT_CODE=3"];
    let servers = [
        (Server::new(&home, "slow", &crash[..1], keys), "slow", 775, "slow failed"),
        (Server::new(&home, "broken", &crash, keys), "broken", 766, "broken failed: it crashed: exit code 3"),
        (Server::new(&home, "newer", &crash, keys), "newer", 777, "newer failed: it crashed: exit code 3"),
    ];
    let gate = gate(&home, &servers.each_ref().map(|(server, ..)| server)).await;
    for (_, name, protocol, words) in &servers {
        let passport = player(&gate, *protocol, &format!("{name}.example.com"), "Ann");
        let mut ann = arrived(&passport).await;
        let End::Kicked(said) = ann.until_ended(LIMIT).await.unwrap() else { panic!("not told") };
        assert!(said.contains(words), "{said}");
        // The next is told at once, by the login.
        let again = passport.arrive(LIMIT).await.unwrap_err().to_string();
        assert!(again.contains(words), "{again}");
        gate.until(name, "no seat", |service| service["seats"] == 0).await;
    }
}

#[tokio::test]
async fn a_server_that_dies_again_and_again_does_not_send_players_round_in_circles() {
    let home = Home::new();
    let keys = "wait = \"world\"\nrestart_delay = \"500ms\"\nmax_restarts = 99\nhold = \"1s\"";
    let mc = Server::new(&home, "mc", &["START_DELAY_MS=2500"], keys);
    let gate = gate(&home, &[&mc]).await;
    let mut transfers = 0;
    let mut ann = arrived(&player(&gate, 775, "mc.example.com", "Ann")).await;
    let said = loop {
        match ann.until_ended(LIMIT).await.unwrap() {
            End::Transferred { .. } => transfers += 1,
            End::Kicked(said) => break said,
            end => panic!("{end:?}"),
        }
        assert!(transfers < 5, "in a circle");
        // The server dies while the player is between two connections.
        let (code, body) = gate.control("POST", "/v1/services/mc/console", "crash").await;
        assert_eq!(code, 204, "{body}");
        gate.until("mc", "its end", |service| service["state"] != "running").await;
        ann = ann.follow(LIMIT).await.unwrap();
        // Or it is held, and told when to come back.
        if let Err(error) = ann.until_logged_in(LIMIT).await {
            break error.to_string();
        }
        ann.acknowledge().await.unwrap();
    };
    assert_eq!(transfers, 2, "then: {said}");
    assert!(said.contains("come back"), "{said}");
    gate.until("mc", "no seat", |service| service["seats"] == 0).await;
}

/// A client that breaks in the world is not given it again for a while.
#[tokio::test]
async fn whoever_breaks_in_the_world_waits_on_the_next_rung() {
    let home = Home::new();
    let mc = crate::server(&home, "mc", &["START_DELAY_MS=5000"]);
    let gate = gate(&home, &[&mc]).await;
    let ann = player(&gate, 775, "mc.example.com", "Ann");
    // As a client does that cannot read what it is sent: it closes while it gets the world.
    let mut broken = arrived(&ann).await;
    broken.until("registries", LIMIT, |game| (game.phase() == Phase::Play).then_some(())).await.unwrap();
    drop(broken);
    gate.until("mc", "no seat", |service| service["seats"] == 0).await;
    let mut again = arrived(&ann).await;
    let dialog = |game: &Vanilla| matches!(game.seen().sights[..], [Sight::Dialog(_), ..]).then_some(());
    again.until("the waiting room", LIMIT, dialog).await.unwrap();
    // Somebody else is none the worse for it.
    let bo = waiting(&player(&gate, 775, "mc.example.com", "Bo")).await;
    assert_eq!(again.game().world(), None);
    follow(bo, LIMIT).await;
    follow(again, LIMIT).await;
}

#[tokio::test]
async fn a_gate_that_stops_tells_those_who_wait() {
    tells_those_who_wait("10s").await;
}

#[tokio::test]
async fn a_gate_that_stops_at_once_tells_them_too() {
    tells_those_who_wait("0s").await;
}

async fn tells_those_who_wait(drain: &'static str) {
    let home = Home::new();
    let mc = crate::server(&home, "mc", &["START_DELAY_MS=600000"]);
    home.write(&Config { drain, ..Config::of(mc.table) });
    let gate = home.start().await;
    let mut players = vec![];
    for protocol in [766, 775, 777] {
        players.push(arrived(&player(&gate, protocol, "mc.example.com", &format!("P{protocol}"))).await);
    }
    for player in &mut players {
        player
            .until("a place to wait", LIMIT, |game| (!game.seen().packs.is_empty()).then_some(()))
            .await
            .unwrap();
    }
    let ended = tokio::spawn(gate.end(swarmgate_testkit::process::Signal::TERM));
    for player in &mut players {
        let End::Kicked(said) = player.until_ended(LIMIT).await.unwrap() else { panic!("not told") };
        assert!(said.contains("being restarted"), "{said}");
    }
    drop(players);
    assert!(ended.await.unwrap().success());
}
