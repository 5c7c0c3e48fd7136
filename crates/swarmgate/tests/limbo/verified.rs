//! Servers that only players wake who have proven their accounts.

use std::sync::Arc;
use std::time::Duration;

use swarmgate_testkit::client::{Client, Outcome};
use swarmgate_testkit::encryption::Request;
use swarmgate_testkit::legacy::Login;
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::player::Passport;
use swarmgate_testkit::sessions::{Mood, SessionServer};
use swarmgate_testkit::vanilla::End;
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::Handshake;

use crate::common::{Config, Gate, Home, LIMIT, Server, tables};
use crate::{assert_playing, follow, is_in_the_room, is_in_the_world, player, slowly};

const VERIFIED: &str = "wait = \"world\"\nwakers.verified = true";

struct Site {
    _home: Arc<Home>,
    sessions: SessionServer,
    gate: Gate,
    servers: Vec<Server>,
}

/// A gate with these servers and a session server: name, settings, keys.
async fn site(servers: &[(&str, &[&str], &str)]) -> Site {
    let (home, sessions) = (Home::new(), SessionServer::start().await);
    let servers: Vec<_> =
        servers.iter().map(|(name, settings, keys)| Server::new(&home, name, settings, keys)).collect();
    let config = Config::of(tables(&servers.iter().collect::<Vec<_>>()))
        .top(format!("session_server = \"{}/\"", sessions.url()))
        .limits("trusted_sources = [\"127.0.0.0/8\"]\nwaking_at_once = 99");
    home.write(&config);
    let gate = home.start().await;
    Site { _home: home, sessions, gate, servers }
}

impl Site {
    fn asked(&self) -> Vec<String> {
        let state = self.sessions.state();
        assert_eq!(state.faults, [""; 0]);
        state.asked.iter().map(|(name, _)| name.clone()).collect()
    }

    async fn refused(&self, kind: &str) -> u64 {
        self.gate.metric(&format!("swarmgate_refusals_total{{kind=\"{kind}\"}}")).await
    }

    /// What a player reads who has proven its account, or has not; `None` if it reads nothing.
    async fn said(&self, passport: &Passport, sessions: Option<&SessionServer>) -> Option<String> {
        let mut player = passport.connect(LIMIT).await.unwrap();
        player.prove(sessions, LIMIT).await.unwrap();
        match player.until_ended(LIMIT).await {
            Ok(End::Kicked(said)) => Some(said),
            Ok(end) => panic!("{end:?}"),
            Err(_) => None,
        }
    }

    /// Whether a join is asked for a proof.
    async fn asks(&self, passport: &Passport) -> bool {
        let mut player = passport.connect(LIMIT).await.unwrap();
        let first = player.until("a first word", LIMIT, |game| {
            game.end().cloned().map(Some).or(game.seen().player.is_some().then_some(None))
        });
        matches!(first.await.unwrap(), Some(End::EncryptionRequested(_)))
    }

    async fn sleeps(&self) {
        let slept = until("a sleep that is accepted", LIMIT, async || {
            (self.gate.control("POST", "/v1/services/mc/sleep", "").await.0 == 200).then_some(())
        });
        slept.await;
        self.gate.until_state("mc", "asleep").await;
    }
}

#[tokio::test]
async fn whoever_proves_an_account_waits_and_lands_and_is_not_asked_again() {
    let protocols = [766, 767, 770, 775, 777];
    let names = protocols.map(|protocol| format!("p{protocol}"));
    let servers = names.each_ref().map(|name| (name.as_str(), &["START_DELAY_MS=3000"][..], VERIFIED));
    let site = site(&servers).await;
    for protocol in protocols {
        // Each byte by itself, in both directions.
        let ann =
            slowly(&site.gate, protocol, &format!("p{protocol}.example.com"), &format!("Ann{protocol}"));
        let mut ann = ann.connect(LIMIT).await.unwrap();
        ann.prove(Some(&site.sessions), LIMIT).await.unwrap();
        ann.until_logged_in(LIMIT).await.unwrap();
        assert_eq!(ann.game().seen().player.as_ref().unwrap().0, format!("Ann{protocol}"));
        ann.acknowledge().await.unwrap();
        match protocol {
            777 => ann.until("the room", LIMIT, is_in_the_room).await.unwrap(),
            _ => ann.until("a world", LIMIT, is_in_the_world).await.unwrap(),
        }
        follow(ann, LIMIT).await;
    }
    assert_eq!(site.asked(), protocols.map(|protocol| format!("Ann{protocol}")));
    assert_eq!(site.gate.metric("swarmgate_proofs_total").await, 5);
    assert!(site.servers.iter().all(|server| server.starts() == 1));
}

#[tokio::test]
async fn a_name_that_is_only_claimed_wakes_nothing() {
    let site = site(&[("mc", &[], VERIFIED)]).await;
    for protocol in [765, 775] {
        let eve = player(&site.gate, protocol, "mc.example.com", "Ann");
        let said = site.said(&eve, None).await.unwrap();
        assert!(said.contains("could not be verified"), "{said}");
    }
    // Nor one whose owner is joining elsewhere at this moment.
    site.sessions.join("Ann", "-1234567890abcdef");
    assert!(site.said(&player(&site.gate, 775, "mc.example.com", "Ann"), None).await.is_some());
    assert_eq!((site.refused("unproven_account").await, site.asked().len()), (3, 3));
    assert!(site.gate.log().contains("an account is not proven"));
    assert_eq!(site.gate.service("mc").await["state"], "asleep");
    assert_eq!(site.servers[0].starts(), 0);
}

/// What the client sends back is not what it was sent, or not encrypted for this gate.
#[tokio::test]
async fn a_wrong_answer_ends_the_connection() {
    let site = site(&[("mc", &[], VERIFIED)]).await;
    let client = Client::to(site.gate.address);
    let secret = *b"sixteen bytes :)";
    type Forge = fn(&Request, [u8; 16]) -> Vec<u8>;
    let forgeries: [Forge; 5] = [
        |asked, secret| asked.answer(secret, b"old!", 775),
        |asked, secret| asked.answer(secret, b"", 775),
        |asked, secret| {
            let mut answer = asked.answer(secret, &asked.token, 775);
            let last = answer.len() - 1;
            answer[last] ^= 1;
            answer
        },
        |_, _| b"\x03\x01\x00\x00".to_vec(),
        |_, _| b"\x05\x07abcd".to_vec(),
    ];
    for forge in forgeries {
        let (outcome, mut connection) = client
            .join(&Handshake::login(775, "mc.example.com"), &LoginStart::new("Ann"), LIMIT)
            .await
            .unwrap();
        let Outcome::EncryptionRequested(body) = outcome else { panic!("{outcome:?}") };
        let asked = Request::parse(&body, 775).unwrap();
        assert_eq!((asked.authenticate, asked.token.len()), (Some(true), 4));
        site.sessions.join("Ann", &asked.hash(secret));
        connection.send(&forge(&asked, secret)).await.unwrap();
        assert_eq!(connection.read_to_end(LIMIT).await.unwrap_or_default(), b"");
    }
    assert_eq!((site.refused("unproven_encryption").await, site.asked().len()), (5, 0));
    // Whoever leaves is no fault of anybody's.
    let gone = player(&site.gate, 775, "mc.example.com", "Ann");
    assert!(site.asks(&gone).await);
    until("one more that left", LIMIT, async || {
        let left = "swarmgate_openings_failed_total{kind=\"left_unproven\"}";
        (site.gate.metric(left).await == 1).then_some(())
    })
    .await;
    assert_eq!(site.servers[0].starts(), 0);
}

#[tokio::test]
async fn with_a_proof_a_list_of_names_and_of_ids_is_worth_something() {
    let ann = u128::from_str_radix(&swarmgate_testkit::sessions::id("Ann"), 16).unwrap();
    let ids = format!("{VERIFIED}\nwakers.uuids = [\"{}\"]", uuid::Uuid::from_u128(ann));
    let names = format!("{VERIFIED}\nwakers.names = [\"ann\"]");
    let slow = ["START_DELAY_MS=600000"];
    let site = site(&[("names", &slow, &names), ("ids", &slow, &ids)]).await;
    // Whose name is not there need not be asked.
    for (host, name) in [("names.example.com", "Bo"), ("ids.example.com", "Bo")] {
        let refused = player(&site.gate, 775, host, name).arrive(LIMIT).await.unwrap_err().to_string();
        assert!(refused.contains("you may not start it"), "{refused}");
    }
    assert_eq!(site.asked(), [""; 0]);
    // An id is as easily said as a name.
    let mut eve = player(&site.gate, 775, "ids.example.com", "Eve");
    eve.start.uuid = Some(ann);
    let said = site.said(&eve, Some(&site.sessions)).await.unwrap();
    assert!(said.contains("you may not start it"), "{said}");
    // Old clients do not say one; the session server does.
    let old = player(&site.gate, 47, "ids.example.com", "Eve");
    assert!(site.said(&old, Some(&site.sessions)).await.unwrap().contains("you may not start it"));
    assert!(site.servers.iter().all(|server| server.starts() == 0));
    let old = player(&site.gate, 47, "ids.example.com", "Ann");
    assert!(site.said(&old, Some(&site.sessions)).await.unwrap().contains("verified"));
    let said = site.said(&player(&site.gate, 765, "names.example.com", "ANN"), Some(&site.sessions)).await;
    assert!(said.unwrap().contains("verified"));
    site.gate.until("ids", "a start", |service| service["state"] == "starting").await;
    site.gate.until("names", "a start", |service| service["state"] == "starting").await;
}

/// Whoever cannot be transferred is told, and gets in with the next join, which proves nothing.
#[tokio::test]
async fn an_old_client_is_verified_told_and_let_in_when_it_comes_back() {
    let keys = format!("{VERIFIED}\nidle = \"1h\"");
    let site = site(&[("mc", &["START_DELAY_MS=1500"], &keys)]).await;
    for protocol in [47, 340, 760, 765] {
        let ann = player(&site.gate, protocol, "mc.example.com", &format!("Ann{protocol}"));
        let said = site.said(&ann, Some(&site.sessions)).await.unwrap();
        assert!(said.starts_with("Your account is verified. mc starts, come back in"), "{said}");
        let back = ann.arrive(LIMIT).await.unwrap();
        assert_playing(&mut back.into_connection()).await;
        site.gate.until("mc", "no seat", |service| service["seats"] == 0).await;
        // It has been used: the next start wants a proof.
        site.sleeps().await;
        assert!(site.asks(&ann).await, "{protocol}");
    }
    assert_eq!((site.asked().len(), site.servers[0].starts()), (4, 4));
}

#[tokio::test]
async fn a_proof_is_good_for_one_player_and_one_start() {
    let keys = format!("{VERIFIED}\nidle = \"1h\"\nhold = \"28s\"");
    let site = site(&[("mc", &[], &keys), ("other", &[], VERIFIED)]).await;
    let ann = player(&site.gate, 765, "mc.example.com", "Ann");
    let from = |last: u8| Client::to(site.gate.address).from([127, 0, 0, last]);
    assert!(site.said(&ann, Some(&site.sessions)).await.is_some());
    site.gate.until_state("mc", "running").await;
    site.sleeps().await;
    let mut liar = ann.clone();
    liar.start.uuid = Some(7);
    for (why, somebody) in [
        ("from elsewhere", Passport { client: from(77), ..ann.clone() }),
        ("with another id", liar),
        ("with another name", player(&site.gate, 765, "mc.example.com", "Bo")),
        ("to another server", player(&site.gate, 765, "other.example.com", "Ann")),
    ] {
        assert!(site.asks(&somebody).await, "{why}");
    }
    assert_eq!(site.servers[0].starts(), 1);
    // The player itself starts it once more without a proof; not twice.
    drop(ann.arrive(LIMIT).await.unwrap());
    assert_eq!(site.servers[0].starts(), 2);
    site.sleeps().await;
    assert!(site.asks(&ann).await);
    assert_eq!(site.asked(), ["Ann"]);
}

#[tokio::test]
async fn what_runs_or_starts_asks_nobody() {
    let site = site(&[("mc", &["START_DELAY_MS=4000"], VERIFIED)]).await;
    let mut ann = player(&site.gate, 775, "mc.example.com", "Ann").connect(LIMIT).await.unwrap();
    ann.prove(Some(&site.sessions), LIMIT).await.unwrap();
    ann.until_logged_in(LIMIT).await.unwrap();
    // A stranger starts nothing by waiting, too.
    let bo = crate::waiting(&player(&site.gate, 767, "mc.example.com", "Bo")).await;
    ann.acknowledge().await.unwrap();
    let playing = (follow(bo, LIMIT).await, follow(ann, LIMIT).await);
    let cy = player(&site.gate, 47, "mc.example.com", "Cy").arrive(LIMIT).await.unwrap();
    assert_playing(&mut cy.into_connection()).await;
    assert_eq!(site.asked(), ["Ann"]);
    drop(playing);
}

/// The connection is the gate's, so it cannot become the server's.
#[tokio::test]
async fn a_server_that_comes_up_during_the_proof_is_reached_by_a_transfer() {
    let site = site(&[("mc", &[], VERIFIED)]).await;
    let mut players = vec![];
    for protocol in [765, 775] {
        let ann = player(&site.gate, protocol, "mc.example.com", "Ann");
        let mut ann = ann.connect(LIMIT).await.unwrap();
        ann.until_ended(LIMIT).await.unwrap();
        players.push(ann);
    }
    assert_eq!(site.gate.control("POST", "/v1/services/mc/wake", "").await.0, 200);
    site.gate.until_state("mc", "running").await;
    let [mut old, mut new] = <[_; 2]>::try_from(players).unwrap();
    new.prove(Some(&site.sessions), LIMIT).await.unwrap();
    new.until_logged_in(LIMIT).await.unwrap();
    new.acknowledge().await.unwrap();
    follow(new, LIMIT).await;
    old.prove(Some(&site.sessions), LIMIT).await.unwrap();
    let End::Kicked(said) = old.until_ended(LIMIT).await.unwrap() else { panic!("not told") };
    assert!(said.starts_with("Your account is verified. mc is up."), "{said}");
}

#[tokio::test]
async fn a_session_server_that_does_not_answer_well_costs_nobody_else_anything() {
    let site = site(&[("mc", &[], VERIFIED), ("free", &[], "wait = \"hold\"")]).await;
    let ann = player(&site.gate, 775, "mc.example.com", "Ann");
    let free = player(&site.gate, 775, "free.example.com", "Bo");
    drop(free.arrive(LIMIT).await.unwrap());
    for mood in [
        Mood::Status(500, "oops"),
        Mood::Status(404, "{}"),
        Mood::Status(302, ""),
        Mood::Cut,
        Mood::Html,
        Mood::SomebodyElse,
        Mood::Endless,
    ] {
        site.sessions.set(mood.clone());
        let said = site.said(&ann, Some(&site.sessions)).await.unwrap();
        assert!(said.contains("cannot be checked right now"), "{mood:?}: {said}");
    }
    assert_eq!(site.refused("unproven_no_answer").await, 7);
    // How some session servers say what Mojang's says with 204.
    site.sessions.set(Mood::Status(403, "{}"));
    assert!(site.said(&ann, Some(&site.sessions)).await.unwrap().contains("could not be verified"));
    // It has asked for a pause, and gets it.
    site.sessions.set(Mood::Busy(2));
    let asked = site.asked().len();
    for _ in 0..3 {
        let said = site.said(&ann, Some(&site.sessions)).await.unwrap();
        assert!(said.contains("cannot be checked right now"), "{said}");
    }
    assert_eq!((site.refused("unproven_busy").await, site.asked().len()), (3, asked + 1));
    let log = site.gate.log();
    assert!(log.contains("an account cannot be checked"), "its owner is told");
    assert!(!log.contains("username="), "and not who it was");
    site.sessions.set(Mood::Well);
    let old = player(&site.gate, 765, "mc.example.com", "Ann");
    until("the end of the pause", LIMIT, async || {
        let said = site.said(&old, Some(&site.sessions)).await.unwrap();
        said.contains("is verified").then_some(())
    })
    .await;
    site.gate.until_state("mc", "running").await;
    assert_eq!(site.servers[0].starts(), 1);
}

#[tokio::test]
async fn a_session_server_that_says_nothing_is_not_waited_for_and_not_piled_upon() {
    let site = site(&[("mc", &[], VERIFIED), ("free", &[], "wait = \"hold\"")]).await;
    site.sessions.set(Mood::Silent);
    let crowd: Vec<_> = (0..48)
        .map(|number| {
            let ann = player(&site.gate, 775, "mc.example.com", &format!("P{number}"));
            tokio::spawn(async move {
                let mut player = ann.connect(LIMIT).await.unwrap();
                player.prove(None, LIMIT).await.unwrap();
                player.until_ended(LIMIT).await.unwrap()
            })
        })
        .collect();
    until("as many questions as may be", LIMIT, async || (site.sessions.state().open.0 == 32).then_some(()))
        .await;
    // All the while others come and go.
    let began = std::time::Instant::now();
    drop(player(&site.gate, 775, "free.example.com", "Bo").arrive(LIMIT).await.unwrap());
    assert!(began.elapsed() < Duration::from_secs(30));
    for told in crowd {
        let End::Kicked(said) = told.await.unwrap() else { panic!("not told") };
        assert!(said.contains("cannot be checked right now"), "{said}");
    }
    assert_eq!(site.sessions.state().open.1, 32);
    assert_eq!(site.refused("unproven_busy").await + site.refused("unproven_no_answer").await, 48);
    assert_eq!(site.servers[0].starts(), 0);
}

#[tokio::test]
async fn a_session_server_that_is_down_refuses_politely() {
    let mut site = site(&[("mc", &[], VERIFIED)]).await;
    // Nobody listens there any more.
    let gone = std::mem::replace(&mut site.sessions, SessionServer::start().await);
    drop(gone);
    let ann = player(&site.gate, 775, "mc.example.com", "Ann");
    let said = site.said(&ann, None).await.unwrap();
    assert!(said.contains("cannot be checked right now"), "{said}");
    assert_eq!(site.refused("unproven_no_answer").await, 1);
    assert_eq!(site.servers[0].starts(), 0);
}

/// Clients of before 1.7 encrypt in another way.
#[tokio::test]
async fn the_oldest_clients_are_told_that_they_cannot_prove_anything() {
    let site = site(&[("mc", &[], VERIFIED)]).await;
    let (name, host) = ("Ann".to_owned(), "mc.example.com".to_owned());
    let login = Login::Fields { protocol: 74, name, host, port: site.gate.address.port() };
    let said = Client::to(site.gate.address).legacy_login(&login, LIMIT).await.unwrap();
    assert!(said.contains("in this version of the game"), "{said}");
    assert_eq!(site.refused("unproven_client").await, 1);
}
