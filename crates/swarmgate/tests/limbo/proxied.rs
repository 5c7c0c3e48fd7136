//! Behind proxies of the game, whose word counts when they have the owner's secret.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use swarmgate_testkit::client::{Client, Connection, Outcome};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::text::plain;
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::{Body, Handshake};

use crate::common::{Config, Gate, Home, LIMIT, Server};
use crate::{assert_playing, player, waiting};

const UUID: u128 = 0x069a_79f4_44e9_4726_a5be_fca9_0e38_aaf5;
const PROXY: [u8; 4] = [127, 0, 0, 9];
const PROXIES: &str = "[proxies]\naddresses = [\"127.0.0.9\"]\nvelocity_secret_file = \"forwarding.secret\"\nbungeeguard_token_file = \"token\"\n";

async fn site(settings: &[&str], keys: &str) -> (Arc<Home>, Server, Gate) {
    let home = Home::new();
    let mc = Server::new(&home, "mc", settings, keys);
    std::fs::write(home.path().join("forwarding.secret"), "ours\n").unwrap();
    std::fs::write(home.path().join("token"), "guard\n").unwrap();
    home.write(&Config::of(format!("{}{PROXIES}", mc.table)));
    let gate = home.start().await;
    (home, mc, gate)
}

/// Velocity's side of a login: its answer, signed with this, is for `name`.
async fn forward(gate: &Gate, protocol: i32, name: &str, secret: &[u8]) -> Connection {
    let client = Client::to(gate.address).from(PROXY);
    let mut connection = client.connect(LIMIT).await.unwrap();
    let handshake = Handshake::login(protocol, "mc.example.com");
    connection.send(&[handshake.packet(), LoginStart::new(name).packet(protocol)].concat()).await.unwrap();
    answer(&mut connection, name, secret).await;
    connection
}

async fn answer(connection: &mut Connection, name: &str, secret: &[u8]) {
    let asked = connection.read_packet(LIMIT).await.unwrap().unwrap();
    let mut fields = asked.fields();
    let message = fields.varint().unwrap();
    assert_eq!((asked.id, fields.string().unwrap().as_str()), (4, "velocity:player_info"));
    let player = Body::new().varint(1).string("203.0.113.9").uuid(UUID).string(name).varint(0);
    let mac = Hmac::<Sha256>::new_from_slice(secret).unwrap().chain_update(&player.0).finalize();
    let answer = Body::new().varint(message).bool(true).raw(&mac.into_bytes()).raw(&player.0);
    connection.send_packet(2, answer).await.unwrap();
}

/// As it stands in the handshake behind BungeeCord, with this token.
fn bungeecord(token: Option<&str>) -> String {
    let token = token.map(|token| format!(r#"{{"name":"bungeeguard-token","value":"{token}"}}"#));
    format!("\x00203.0.113.9\0{UUID:032x}\0[{}]", token.unwrap_or_default())
}

#[tokio::test]
async fn velocity_says_who_waits() {
    let (_home, _mc, gate) = site(&["START_DELAY_MS=600000"], "wait = \"world\"\nhold = \"0s\"").await;
    let mut connection = forward(&gate, 767, "Velo", b"ours").await;
    let Outcome::Joined { name, uuid, .. } = connection.login_outcome(767, LIMIT).await.unwrap() else {
        panic!("no guest")
    };
    assert_eq!((name.as_str(), uuid), ("Velo", UUID));
}

#[tokio::test]
async fn velocity_proves_its_players_and_a_liar_proves_none() {
    let (_home, mc, gate) = site(&["START_DELAY_MS=1000"], "wait = \"hold\"\nwakers.verified = true").await;
    let mut liar = forward(&gate, 767, "Ann", b"theirs").await;
    let Outcome::Kicked(said) = liar.login_outcome(767, LIMIT).await.unwrap() else { panic!("not told") };
    assert!(plain(&said).contains("The proxy that you joined through"), "{said}");
    until("a line", LIMIT, async || gate.log().contains("not signed with this secret").then_some(())).await;
    assert_eq!((mc.starts(), gate.metric("swarmgate_refusals_total{kind=\"unproven_proxy\"}").await), (0, 1));

    // The connection is as it was, so it leads into the game.
    let mut connection = forward(&gate, 767, "Ann", b"ours").await;
    let Outcome::Joined { .. } = connection.login_outcome(767, LIMIT).await.unwrap() else {
        panic!("not in")
    };
    assert_playing(&mut connection).await;
    assert_eq!((mc.starts(), gate.metric("swarmgate_proofs_total").await), (1, 1));
}

#[tokio::test]
async fn bungeecord_proves_its_players_with_bungeeguards_token() {
    let (_home, mc, gate) = site(&["START_DELAY_MS=1000"], "wait = \"hold\"\nwakers.verified = true").await;
    for token in [None, Some("Guard"), Some("guard2")] {
        let mut eve = player(&gate, 767, "mc.example.com", "Ann");
        eve.handshake = eve.handshake.tail(bungeecord(token).as_bytes());
        let refused = eve.arrive(LIMIT).await.unwrap_err().to_string();
        assert!(refused.contains("The proxy that you joined through"), "{token:?}: {refused}");
    }
    until("a line", LIMIT, async || gate.log().contains("no BungeeGuard token").then_some(())).await;
    assert_eq!(mc.starts(), 0);
    let mut ann = player(&gate, 767, "mc.example.com", "Ann");
    ann.handshake = ann.handshake.tail(bungeecord(Some("guard")).as_bytes());
    assert_playing(&mut ann.arrive(LIMIT).await.unwrap().into_connection()).await;
    assert_eq!((mc.starts(), gate.metric("swarmgate_proofs_total").await), (1, 1));
}

/// Without wakers.verified a wrong token wakes as any claim does, but does not get into limbo.
#[tokio::test]
async fn a_wrong_token_of_bungeeguard_is_a_line_in_the_log() {
    let (_home, _mc, gate) = site(&["START_DELAY_MS=600000"], "wait = \"world\"\nhold = \"0s\"").await;
    let mut eve = player(&gate, 767, "mc.example.com", "Ann");
    eve.handshake = eve.handshake.tail(bungeecord(Some("wrong")).as_bytes());
    let told = eve.arrive(LIMIT).await.unwrap_err().to_string();
    assert!(told.contains("come back"), "{told}");
    until("a line", LIMIT, async || gate.log().contains("no BungeeGuard token").then_some(())).await;
    let mut ann = player(&gate, 767, "mc.example.com", "Ann");
    ann.handshake = ann.handshake.tail(bungeecord(Some("guard")).as_bytes());
    let waiting = waiting(&ann).await;
    assert_eq!(waiting.game().seen().player, Some(("Ann".to_owned(), UUID)));
}

/// A proxy that shares no secret with the gate can claim anything.
#[tokio::test]
async fn a_proxy_without_a_secret_proves_nobody() {
    let home = Home::new();
    let mc = Server::new(&home, "mc", &[], "wakers.verified = true");
    home.write(&Config::of(format!("{}[proxies]\naddresses = [\"127.0.0.9\"]\n", mc.table)));
    let gate = home.start().await;
    let velocity = Client::to(gate.address).from(PROXY);
    let bungeecord = Handshake::login(767, "mc.example.com").tail(bungeecord(None).as_bytes());
    for (client, handshake) in
        [(velocity, Handshake::login(767, "mc.example.com")), (Client::to(gate.address), bungeecord)]
    {
        let outcome = client.join(&handshake, &LoginStart::new("Ann"), LIMIT).await.unwrap().0;
        let Outcome::Kicked(said) = outcome else { panic!("{outcome:?}") };
        assert!(plain(&said).contains("The proxy that you joined through"), "{said}");
    }
    until("a line", LIMIT, async || gate.log().contains("shares no secret with the gate").then_some(()))
        .await;
    assert_eq!(mc.starts(), 0);
}
