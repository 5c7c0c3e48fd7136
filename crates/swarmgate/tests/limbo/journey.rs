//! From a sleeping server to the game, by the world or the waiting room.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use swarmgate_testkit::player::Passport;
use swarmgate_testkit::vanilla::{Sight, Vanilla, releases};
use swarmgate_testkit::wait::until;

use crate::common::{Gate, Home, LIMIT, Server};
use crate::{
    arrived, assert_playing, follow, gate, is_in_the_room, is_in_the_world, player, server, slowly, waiting,
};

/// The room's window changes every ten seconds; nobody waits for the next one when the server is up.
const NEXT_WINDOW: Duration = Duration::from_secs(5);
/// Long enough for a debug build to get everybody into the world.
const BOOT: &str = "START_DELAY_MS=3000";

#[tokio::test]
async fn every_protocol_waits_in_the_world_and_lands_on_its_server() {
    let home = Home::new();
    let protocols: Vec<i32> = (766..=775).collect();
    let servers: Vec<_> =
        protocols.iter().map(|protocol| server(&home, &format!("p{protocol}"), &[BOOT])).collect();
    let gate = gate(&home, &servers.iter().collect::<Vec<_>>()).await;
    let journeys: Vec<_> = protocols
        .iter()
        .map(|protocol| {
            let ann = slowly(&gate, *protocol, &format!("p{protocol}.example.com"), "Ann");
            tokio::spawn(async move {
                let waiting = waiting(&ann).await;
                let seen = waiting.game().seen();
                assert_eq!(seen.player.as_ref().unwrap().0, "Ann");
                assert_eq!(seen.brand.as_deref(), Some("Swarmgate"));
                follow(waiting, LIMIT).await
            })
        })
        .collect();
    for (journey, protocol) in journeys.into_iter().zip(&protocols) {
        journey.await.unwrap_or_else(|error| panic!("{protocol}: {error}"));
    }
    assert!(servers.iter().all(|server| server.starts() == 1));
}

#[tokio::test]
async fn newer_protocols_wait_in_the_room() {
    let home = Home::new();
    let servers = [776, 777].map(|protocol| server(&home, &format!("p{protocol}"), &[BOOT]));
    let gate = gate(&home, &servers.each_ref()).await;
    for protocol in [776, 777] {
        let mut ann = arrived(&slowly(&gate, protocol, &format!("p{protocol}.example.com"), "Ann")).await;
        ann.until("the waiting room", LIMIT, is_in_the_room).await.unwrap();
        assert_eq!(rungs(&gate).await[0], "room");
        let dialog = |game: &Vanilla| {
            game.seen().sights.iter().any(|sight| matches!(sight, Sight::Dialog(_))).then_some(())
        };
        ann.until("a dialog", LIMIT, dialog).await.unwrap();
        assert_eq!(ann.game().world(), None);
        assert_eq!(ann.game().seen().brand, None, "a modded client would leave over one");
        let up = async {
            gate.until(&format!("p{protocol}"), "running", |service| service["state"] == "running").await;
            Instant::now()
        };
        let (up, _playing) = tokio::join!(up, follow(ann, LIMIT));
        assert!(up.elapsed() < NEXT_WINDOW, "let in {:?} after it was up", up.elapsed());
    }
}

/// How those wait who wait, as the API tells it.
async fn rungs(gate: &Gate) -> Value {
    let (status, body) = gate.control("GET", "/v1/sessions?kind=waiting", "").await;
    assert_eq!(status, 200, "{body}");
    let sessions: Value = serde_json::from_str(&body).unwrap();
    sessions.as_array().unwrap().iter().map(|session| session["rung"].clone()).collect()
}

#[tokio::test]
async fn each_release_has_its_own_pack_and_some_clients_have_none() {
    let home = Home::new();
    let mc = server(&home, "mc", &["START_DELAY_MS=60000"]);
    let gate = gate(&home, &[&mc]).await;
    for protocol in [766, 767, 768, 772, 773, 775] {
        for pack in releases(protocol).iter().copied().map(Some).chain([None]) {
            let name = format!("A{protocol}{}", pack.unwrap_or_default());
            let ann = player(&gate, protocol, "mc.example.com", &name);
            let mut ann = arrived(&Passport { pack, ..ann }).await;
            match pack {
                Some(_) => ann.until("the world", LIMIT, is_in_the_world).await.unwrap(),
                // Or the waiting room, where the bodies are not known.
                None => ann
                    .until("a place to wait", LIMIT, |game| {
                        is_in_the_world(game).or((game.seen().keep_alives.0 > 0).then_some(()))
                    })
                    .await
                    .unwrap(),
            }
        }
    }
}

#[tokio::test]
async fn a_waiting_player_sees_what_is_going_on() {
    let home = Home::new();
    let mc = server(&home, "mc", &["START_DELAY_MS=8000"]);
    let gate = gate(&home, &[&mc]).await;
    let mut ann = waiting(&player(&gate, 772, "mc.example.com", "Ann")).await;
    until("a session in the world", LIMIT, async || (rungs(&gate).await == json!(["world"])).then_some(()))
        .await;
    let bar = |wanted: f32| {
        move |game: &Vanilla| {
            game.seen()
                .bars
                .values()
                .find(|bar| bar.title.contains("mc starts") && bar.progress > wanted)
                .cloned()
        }
    };
    let first = ann.until("a boss bar", LIMIT, bar(-1.0)).await.unwrap();
    assert!(first.title.contains("mc starts, ready in"), "{first:?}");
    ann.until("a bar that moves", LIMIT, bar(first.progress)).await.unwrap();
    let sights = &ann.game().seen().sights;
    assert!(sights.iter().any(|sight| matches!(sight, Sight::Title(_))), "{sights:?}");
    assert!(sights.iter().any(|sight| matches!(sight, Sight::Chat(_))), "how to leave: {sights:?}");
    follow(ann, LIMIT).await;
}

/// In real time: longer than a client bears without a word.
#[tokio::test]
async fn half_a_minute_in_the_world_and_in_the_room() {
    let waits: &[u64] = if std::env::var_os("SWARMGATE_LONG").is_some() { &[31, 65, 300] } else { &[31] };
    let home = Home::new();
    let servers: Vec<_> = waits
        .iter()
        .map(|seconds| {
            let delay = format!("START_DELAY_MS={}", 1000 * seconds);
            Server::new(&home, &format!("s{seconds}"), &[&delay], "wait = \"world\"\nstart_timeout = \"10m\"")
        })
        .collect();
    let gate = gate(&home, &servers.iter().collect::<Vec<_>>()).await;
    let mut journeys = vec![];
    for seconds in waits {
        for protocol in [766, 775, 777] {
            let ann = player(&gate, protocol, &format!("s{seconds}.example.com"), &format!("Ann{protocol}"));
            let span = Duration::from_secs(*seconds);
            journeys.push(tokio::spawn(async move {
                let asked = Instant::now();
                let mut ann = arrived(&ann).await;
                ann.until_transferred(span + LIMIT).await.unwrap();
                assert!(asked.elapsed() >= span - Duration::from_secs(1), "{:?}", asked.elapsed());
                let (room, world) = ann.game().seen().keep_alives;
                assert!(u64::from(room + world) >= span.as_secs() / 20, "{room} and {world} in {span:?}");
                follow(ann, LIMIT).await
            }));
        }
    }
    for journey in journeys {
        journey.await.unwrap();
    }
}

/// Whatever is said before and while a player waits can hurt nobody.
#[tokio::test]
async fn a_player_who_acts_is_ignored() {
    let home = Home::new();
    let mc = server(&home, "mc", &[BOOT]);
    let gate = gate(&home, &[&mc]).await;
    let mut ann = waiting(&player(&gate, 770, "mc.example.com", "Ann")).await;
    for command in ["help", "kill @e", "gamemode creative", "stop"] {
        ann.command(command).await.unwrap();
    }
    let playing = follow(ann, LIMIT).await;
    drop(playing);
    assert_eq!(mc.starts(), 1);
}

/// What is up needs no limbo.
#[tokio::test]
async fn a_running_server_is_joined_at_once() {
    let home = Home::new();
    let mc = server(&home, "mc", &[]);
    let gate = gate(&home, &[&mc]).await;
    let ann = arrived(&player(&gate, 775, "mc.example.com", "Ann")).await;
    let ann = follow(ann, LIMIT).await;
    let bo = player(&gate, 775, "mc.example.com", "Bo").arrive(LIMIT).await.unwrap();
    assert_playing(&mut bo.into_connection()).await;
    drop(ann);
}
