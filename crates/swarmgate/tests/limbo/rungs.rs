//! Which rung of the ladder a client gets, and how the gate knows who comes back from it.

use std::sync::Arc;

use swarmgate_testkit::backend::{Backend, Behaviour};
use swarmgate_testkit::client::{Client, Outcome};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::player::Passport;
use swarmgate_testkit::process::Signal;
use swarmgate_testkit::text::plain;
use swarmgate_testkit::vanilla::{End, Sight};
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::{Body, Handshake, LOGIN, TRANSFER};

use crate::common::{Config, Gate, Home, LIMIT, Server};
use crate::{arrived, player, waiting};

const TRUSTED: &str = "trusted_sources = [\"127.0.0.0/8\"]";

/// A service whose process is one thing and whose game, up when the test says so, another: it sees all that
/// reaches it.
pub async fn site(keys: &str) -> (Arc<Home>, Backend, Config) {
    let home = Home::new();
    let backend = Backend::start(Behaviour::silent()).await;
    // The gate starts no process whose address is taken.
    backend.refuse().await;
    let server = Server::new(&home, "mc", &[], keys);
    let address = format!("address = \"{}\"", server.address);
    let table = server.table.replace(&address, &format!("address = \"{}\"", backend.address()));
    (home, backend, Config::of(table).limits(TRUSTED))
}

pub async fn start(home: &Arc<Home>, config: &Config) -> Gate {
    home.write(config);
    home.start().await
}

/// Not before the process runs.
pub async fn is_up(home: &Home, backend: &Backend) {
    is_up_as(home, backend, Behaviour::default()).await;
}

pub async fn is_up_as(home: &Home, backend: &Backend, behaviour: Behaviour) {
    let world = home.path().join("mc/world/world.log");
    until("a process", LIMIT, async || world.exists().then_some(())).await;
    backend.set(|now| *now = behaviour);
    backend.listen().await;
}

/// What came with the last login, as soon as there is one.
async fn last_login(backend: &Backend) -> Handshake {
    let state = backend.wait_for("a login", LIMIT, |state| state.logins().count() > 0).await;
    let record = state.connections.iter().rev().find(|record| record.login.is_some()).unwrap();
    record.handshake.clone().unwrap()
}

/// What a player reads who is not let in.
async fn said(client: &Client, handshake: &Handshake, name: &str) -> String {
    match client.join(handshake, &LoginStart::new(name), LIMIT).await.unwrap().0 {
        Outcome::Kicked(reason) => plain(&reason),
        other => panic!("{name} is not told: {other:?}"),
    }
}

#[tokio::test]
async fn what_cannot_wait_inside_the_game_is_held_and_told() {
    let (home, _backend, config) = site("wait = \"world\"\nhold = \"1s\"").await;
    let gate = start(&home, &config).await;
    let client = Client::to(gate.address);
    for (name, handshake, reason) in [
        ("Old", Handshake::login(765, "mc.example.com"), "old_protocol"),
        ("Ancient", Handshake::login(47, "mc.example.com"), "old_protocol"),
        ("New", Handshake::login(9_999, "mc.example.com"), "unknown_protocol"),
        ("Snapshot", Handshake::login(0x4000_0123, "mc.example.com"), "unknown_protocol"),
        ("Modded", Handshake::login(767, "mc.example.com").tail(b"\0FORGE2"), "modded"),
    ] {
        let said = said(&client, &handshake, name).await;
        assert!(said.contains("mc starts, come back in"), "{name}: {said}");
        for rung in ["world", "room"] {
            let counted = format!("swarmgate_rungs_refused_total{{rung=\"{rung}\",reason=\"{reason}\"}}");
            assert!(gate.metric(&counted).await > 0, "{counted}");
        }
    }
    assert_eq!(gate.metric("swarmgate_waits_total{rung=\"hold\"}").await, 5);
    assert!(gate.log().contains("hold (world: modded, room: modded)"));
}

#[tokio::test]
async fn a_service_may_start_lower() {
    let (home, backend, config) = site("wait = \"room\"\nmodded = \"room\"").await;
    let gate = start(&home, &config).await;
    let mut modded = player(&gate, 767, "mc.example.com", "Modded");
    modded.handshake = modded.handshake.tail(b"\0FORGE2");
    let mut waiting = vec![];
    for passport in [player(&gate, 767, "mc.example.com", "Ann"), modded] {
        waiting.push(arrived(&passport).await);
    }
    gate.until("mc", "both waiting", |service| service["seats"] == 2).await;
    is_up(&home, &backend).await;
    for mut player in waiting {
        assert_eq!(player.until_transferred(LIMIT).await.unwrap().0, "mc.example.com");
        assert_eq!(player.game().world(), None);
    }
    assert_eq!(gate.metric("swarmgate_waits_total{rung=\"room\"}").await, 2);
    assert_eq!(gate.metric("swarmgate_limbo_ends_total{rung=\"room\",end=\"transferred\"}").await, 2);
    until("nobody who waits", LIMIT, async || {
        (gate.metric("swarmgate_players_waiting{rung=\"room\"}").await == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn limbo_has_its_caps_and_beyond_them_is_hold() {
    let (home, _backend, config) = site("wait = \"world\"\nhold = \"1s\"").await;
    let config = config.limits("limbo_per_source = 1\nlimbo_total = 2\nwake_burst = 99");
    let gate = start(&home, &config).await;
    let from = |last: u8, name| {
        let client = Client::to(gate.address).from([127, 0, 0, last]);
        Passport::new(client, 767, "mc.example.com", name)
    };
    let _ann = waiting(&from(2, "Ann")).await;
    for (last, name, reason) in [(2, "Bo", "limbo_per_source"), (4, "Di", "limbo_total")] {
        let passport = from(last, name);
        assert!(said(&passport.client, &passport.handshake, name).await.contains("come back"), "{name}");
        let counted = format!("swarmgate_rungs_refused_total{{rung=\"world\",reason=\"{reason}\"}}");
        assert_eq!(gate.metric(&counted).await, 1, "{name}");
        if last == 2 {
            let cy = waiting(&from(3, "Cy")).await;
            assert_eq!(gate.metric("swarmgate_players_in_limbo").await, 2);
            assert_eq!(gate.metric("swarmgate_players_waiting{rung=\"world\"}").await, 2);
            assert_eq!(gate.metric("swarmgate_players_waiting{rung=\"hold\"}").await, 0, "Bo has gone");
            tokio::spawn(async move {
                let mut cy = cy;
                cy.until_ended(LIMIT).await.ok();
            });
        }
    }
}

/// To the server, whoever has waited joins as anybody does.
#[tokio::test]
async fn whoever_is_sent_back_joins_plainly_and_a_stranger_as_it_came() {
    let (home, backend, config) = site("wait = \"world\"").await;
    let gate = start(&home, &config).await;
    let ann = waiting(&player(&gate, 775, "mc.example.com", "Ann")).await;
    is_up(&home, &backend).await;
    let mut back = ann.follow(LIMIT).await.unwrap();
    back.until_logged_in(LIMIT).await.unwrap();
    let seen = last_login(&backend).await;
    let said: (i32, &[u8], u16) = (seen.intent, &seen.host, seen.port);
    assert_eq!(said, (LOGIN, &b"mc.example.com"[..], gate.address.port()));
    assert_eq!(gate.metric("swarmgate_returns_total").await, 1);

    let mut stranger = player(&gate, 775, "mc.example.com", "Bo");
    stranger.handshake = Handshake::transfer(775, "mc.example.com");
    let _bo = stranger.arrive(LIMIT).await.unwrap();
    assert_eq!(last_login(&backend).await.intent, TRANSFER);
    assert_eq!(gate.metric("swarmgate_returns_total").await, 1);
}

/// By its cookie, a player is known from another address, and by a gate that was restarted.
#[tokio::test]
async fn a_pass_outlives_the_gate() {
    let (home, backend, config) = site("wait = \"world\"").await;
    let gate = start(&home, &Config { on_exit: "keep", ..config.clone() }).await;
    let mut ann = waiting(&player(&gate, 775, "mc.example.com", "Ann")).await;
    is_up(&home, &backend).await;
    let (host, port) = ann.until_transferred(LIMIT).await.unwrap();
    let passport = ann.leave();
    assert_eq!(port, gate.address.port());
    assert!(gate.end(Signal::TERM).await.success());
    let gate = start(&home, &config).await;
    gate.until_state("mc", "running").await;
    let back = |name: &str| Passport {
        client: Client::to(gate.address).from([127, 0, 0, 44]),
        handshake: Handshake::transfer(775, &host).port(port),
        start: LoginStart::new(name),
        ..passport.clone()
    };
    let _ann = back("Ann").arrive(LIMIT).await.unwrap();
    assert_eq!(last_login(&backend).await.intent, LOGIN);
    // It is hers alone.
    let _eve = back("Eve").arrive(LIMIT).await.unwrap();
    assert_eq!(last_login(&backend).await.intent, TRANSFER);
    assert_eq!(gate.metric("swarmgate_returns_total").await, 1);
}

#[tokio::test]
async fn behind_bungeecord_a_player_is_greeted_by_name_and_asked_to_join_again() {
    let keys = "wait = \"world\"\nhold = \"1s\"\ntexts.rejoin = \"{server} is up\"";
    let (home, backend, config) = site(keys).await;
    let gate = start(&home, &config).await;
    let uuid = "069a79f444e94726a5befca90e38aaf5";
    let mut ann = player(&gate, 767, "mc.example.com", "Ann");
    ann.handshake = ann.handshake.tail(format!("\x00203.0.113.9\0{uuid}").as_bytes());
    let mut held = waiting(&ann).await;
    assert_eq!(held.game().seen().player, Some(("Ann".to_owned(), u128::from_str_radix(uuid, 16).unwrap())));
    is_up(&home, &backend).await;
    let End::Kicked(reason) = held.until_ended(LIMIT).await.unwrap() else { panic!("transferred") };
    assert_eq!(reason, "mc is up");
    let _in = ann.arrive(LIMIT).await.unwrap();
    assert_eq!(gate.metric("swarmgate_returns_total").await, 1);
}

/// What a proxy answers that forwards nobody, or signs with another secret.
#[tokio::test]
async fn a_wrong_secret_of_velocity_is_a_line_in_the_log() {
    let (home, _backend, config) = site("wait = \"world\"\nhold = \"0s\"").await;
    std::fs::write(home.path().join("forwarding.secret"), "ours\n").unwrap();
    let proxies = "[proxies]\naddresses = [\"127.0.0.9\"]\nvelocity_secret_file = \"forwarding.secret\"\n";
    let gate = start(&home, &Config { tables: format!("{}{proxies}", config.tables), ..config }).await;
    let client = Client::to(gate.address).from([127, 0, 0, 9]);
    for (answer, line) in [
        (Body::new().varint(1).bool(false), "forwarding mode"),
        (Body::new().varint(1).bool(true).raw(&[7; 32]).varint(1), "not signed with this secret"),
    ] {
        let mut connection = client.connect(LIMIT).await.unwrap();
        let handshake = Handshake::login(767, "mc.example.com");
        let opening = [handshake.packet(), LoginStart::new("Ann").packet(767)].concat();
        connection.send(&opening).await.unwrap();
        let asked = connection.read_packet(LIMIT).await.unwrap().unwrap();
        assert_eq!(asked.id, 4);
        connection.send_packet(2, answer).await.unwrap();
        let Outcome::Kicked(said) = connection.login_outcome(767, LIMIT).await.unwrap() else {
            panic!("not told")
        };
        assert!(plain(&said).contains("come back"), "{said}");
        until(line, LIMIT, async || gate.log().contains(line).then_some(())).await;
    }
}

/// A server that says how far it is.
#[tokio::test]
async fn what_the_server_says_of_its_start_is_shown() {
    let home = Home::new();
    let keys = "wait = \"world\"\ntexts.subtitle = \"{reason}\"";
    let mc = Server::new(&home, "mc", &["BOOT_LOG=1", "READY_DELAY_MS=4000"], keys);
    home.write(&Config::of(&mc.table).limits(TRUSTED));
    let gate = home.start().await;
    let mut ann = waiting(&player(&gate, 767, "mc.example.com", "Ann")).await;
    let heard = |text: &str| text.starts_with("Preparing spawn area: ");
    ann.until("a word of the server", LIMIT, |game| {
        let mut sights = game.seen().sights.iter();
        sights.any(|sight| matches!(sight, Sight::Subtitle(text) if heard(text))).then_some(())
    })
    .await
    .unwrap();
    ann.until_transferred(LIMIT).await.unwrap();
}

/// It comes when the gate no longer waits for it, and would be nonsense to the server.
#[tokio::test]
async fn a_late_answer_to_the_gate_does_not_reach_the_server() {
    let (home, backend, config) = site("wait = \"hold\"\nhold = \"28s\"").await;
    let gate = start(&home, &config).await;
    let mut connection = Client::to(gate.address).connect(LIMIT).await.unwrap();
    let opening =
        [Handshake::transfer(775, "mc.example.com").packet(), LoginStart::new("Bo").packet(775)].concat();
    connection.send(&opening).await.unwrap();
    assert_eq!(connection.read_packet(LIMIT).await.unwrap().unwrap().id, 5);
    gate.until("mc", "a player who waits", |service| service["seats"] == 1).await;
    connection.send_packet(4, Body::new().string("swarmgate:pass").bool(false)).await.unwrap();
    is_up(&home, &backend).await;
    let Outcome::Joined { .. } = connection.login_outcome(775, LIMIT).await.unwrap() else {
        panic!("not in")
    };
    let state = backend.wait_for("a login", LIMIT, |state| state.logins().count() > 0).await;
    let record = state.connections.iter().find(|record| record.login.is_some()).unwrap();
    assert_eq!(record.bytes, opening);
}

/// Something on the way changes what the client says.
#[tokio::test]
async fn a_public_address_is_where_players_are_sent() {
    let keys = "wait = \"world\"\npublic_address = \"play.example.com:25570\"";
    let (home, backend, config) = site(keys).await;
    let gate = start(&home, &config).await;
    let mut players = vec![waiting(&player(&gate, 775, "mc.example.com", "Ann")).await];
    players.push(arrived(&player(&gate, 777, "mc.example.com", "Bo")).await);
    is_up(&home, &backend).await;
    for mut player in players {
        let end = player.until_ended(LIMIT).await.unwrap();
        let End::Transferred { host, port, .. } = end else { panic!("{end:?}") };
        assert_eq!((host.as_str(), port), ("play.example.com", 25_570));
    }
}

/// The same where nobody waits: the player has been handed to the server before its answer comes, in pieces.
#[tokio::test]
async fn an_answer_that_comes_after_the_server_has_the_player_does_not_reach_it() {
    let (home, backend, config) = site("wait = \"hold\"\nhold = \"28s\"").await;
    let gate = start(&home, &config).await;
    gate.control("POST", "/v1/services/mc/wake", "").await;
    is_up(&home, &backend).await;
    gate.until_state("mc", "running").await;
    for (name, is_late) in [("Slow", true), ("Bot", false)] {
        let mut connection = Client::to(gate.address).connect(LIMIT).await.unwrap();
        let opening =
            [Handshake::transfer(775, "mc.example.com").packet(), LoginStart::new(name).packet(775)].concat();
        connection.send(&opening).await.unwrap();
        assert_eq!(connection.read_packet(LIMIT).await.unwrap().unwrap().id, 5);
        let Outcome::Joined { .. } = connection.login_outcome(775, LIMIT).await.unwrap() else {
            panic!("not in")
        };
        let late = Body::new().string("swarmgate:pass").bool(false).packet(4);
        if is_late {
            connection.send(&late[..5]).await.unwrap();
            gate.until("mc", "a player", |service| service["seats"] == 1).await;
            connection.send(&late[5..]).await.unwrap();
        }
        let next = Body::new().string("next").packet(3);
        connection.send(&next).await.unwrap();
        assert_eq!(connection.read_exact(next.len(), LIMIT).await.unwrap(), next);
        let state = backend.state();
        let record = state
            .connections
            .iter()
            .find(|record| record.login.as_ref().is_some_and(|login| login.name == name));
        assert_eq!(record.unwrap().bytes, [opening, next].concat(), "{name}");
        drop(connection);
        gate.until("mc", "no player", |service| service["seats"] == 0).await;
    }
}

#[tokio::test]
async fn what_is_sent_with_the_opening_is_not_lost_in_limbo() {
    let (home, _backend, config) = site("wait = \"world\"").await;
    let gate = start(&home, &config).await;
    let mut connection = Client::to(gate.address).connect(LIMIT).await.unwrap();
    let handshake = Handshake::login(775, "mc.example.com");
    let acknowledged = Body::new().packet(3);
    let all = [handshake.packet(), LoginStart::new("Ann").packet(775), acknowledged].concat();
    connection.send(&all).await.unwrap();
    assert_eq!(connection.read_packet(LIMIT).await.unwrap().unwrap().id, 2);
    // The offer of known packs: the gate has taken the acknowledgement.
    assert_eq!(connection.read_packet(LIMIT).await.unwrap().unwrap().id, 0x0e);
}
