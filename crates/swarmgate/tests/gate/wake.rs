//! A join starts a sleeping server, once, for everybody, and for nobody who may not.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use swarmgate_testkit::client::{Client, Outcome};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::wait::{free_port, until};
use swarmgate_testkit::wire::{Body, Handshake};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::{Config, Home, LIMIT, Server, as_toml, local, tables};
use crate::{
    PROTOCOL, assert_contains, assert_in, assert_playing, assert_within, join, join_from, play, refusal,
};

#[tokio::test]
async fn a_join_wakes_and_lands_in_the_game() {
    let home = Home::new();
    // It takes connections a good while before the game answers; whoever is let in too early is kicked.
    let server = Server::new(&home, "mc", &["START_DELAY_MS=200", "READY_DELAY_MS=1500"], "");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    let mut ann = play(gate.address, "mc.example.com", "Ann").await;
    assert_playing(&mut ann).await;
    // The second needs no wake and does not wait.
    let asked = Instant::now();
    let mut bo = play(gate.address, "mc.example.com", "Bo").await;
    assert_within(asked, Duration::from_secs(1));
    assert_playing(&mut bo).await;
    let service = gate.until("mc", "both counted", |service| service["players"] == 2).await;
    assert_eq!((&service["seats"], server.starts()), (&2.into(), 1));
}

#[tokio::test]
async fn fifty_joins_at_once_are_one_start() {
    let home = Home::new();
    let hosts = r#"hosts = ["one.example.com", "two.example.com"]"#;
    let server = Server::new(&home, "mc", &["READY_DELAY_MS=1000"], hosts);
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    let joins: Vec<_> = (0..50)
        .map(|n| {
            let (gate, host) = (gate.address, ["one.example.com", "two.example.com"][n % 2]);
            tokio::spawn(async move { play(gate, host, &format!("P{n}")).await })
        })
        .collect();
    let mut players = vec![];
    for player in joins {
        players.push(player.await.unwrap());
    }
    for player in &mut players {
        assert_playing(player).await;
    }
    assert_eq!((server.starts(), server.is_corrupted()), (1, false));
    drop(players);
    gate.until("mc", "no seats", |service| service["seats"] == 0).await;
}

#[tokio::test]
async fn a_start_goes_on_when_whoever_asked_for_it_has_left() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &["START_DELAY_MS=1500"], "");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    let client = Client::to(gate.address);
    let mut connections = vec![];
    for name in ["Ann", "Bo"] {
        let mut connection = client.connect(LIMIT).await.unwrap();
        connection.send(&crate::login("mc.example.com", name)).await.unwrap();
        connections.push(connection);
    }
    gate.until("mc", "both waiting", |service| service["seats"] == 2).await;
    // One says goodbye, the other just resets.
    connections.pop().unwrap().reset();
    drop(connections);
    gate.until("mc", "nobody waiting", |service| service["seats"] == 0).await;
    assert_eq!(gate.service("mc").await["state"], "starting");
    gate.until_state("mc", "running").await;
    assert_eq!(server.starts(), 1);
}

#[tokio::test]
async fn a_boot_longer_than_the_wait_ends_in_a_sentence_and_the_next_join_goes_straight_in() {
    let home = Home::new();
    let hold = Server::new(&home, "hold", &["START_DELAY_MS=3000"], "hold = \"1s\"");
    let kick = Server::new(&home, "kick", &["START_DELAY_MS=1000"], "wait = \"kick\"");
    home.write(&Config::of(tables(&[&hold, &kick])));
    let gate = home.start().await;
    let client = Client::to(gate.address);
    for (server, name, longest) in [(&hold, "hold", 2_500), (&kick, "kick", 900)] {
        let asked = Instant::now();
        let said = refusal(&client, &format!("{name}.example.com"), "Ann").await;
        assert_within(asked, Duration::from_millis(longest));
        assert_contains(&said, &format!("{name} starts, come back in"));
        gate.until_state(name, "running").await;
        play(gate.address, &format!("{name}.example.com"), "Ann").await;
        assert_eq!(server.starts(), 1);
    }
    // What was learned is told to the next who waits.
    let eta = gate.service("hold").await["eta_seconds"].as_u64().unwrap();
    assert!((3..30).contains(&eta), "{eta}");
}

#[tokio::test]
async fn a_join_during_a_stop_waits_for_the_save_and_then_starts_again() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &["STOP_DELAY_MS=1500"], "");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    drop(play(gate.address, "mc.example.com", "Ann").await);
    let slept = until("a sleep that is accepted", LIMIT, async || {
        (gate.control("POST", "/v1/services/mc/sleep", "").await.0 == 200).then_some(())
    });
    slept.await;
    assert_eq!(gate.service("mc").await["state"], "stopping");
    let woken = gate.home().command(&["wake", "mc", "--config", "swarmgate.toml"]).output().await.unwrap();
    assert_contains(
        &String::from_utf8_lossy(&woken.stdout),
        "mc is stopping (it starts again once it has stopped)",
    );
    let mut ann = play(gate.address, "mc.example.com", "Ann").await;
    assert_playing(&mut ann).await;
    assert_eq!(server.history(), ["start", "stop", "saved", "start"]);
    assert!(!server.is_corrupted());
}

#[tokio::test]
async fn a_server_that_listens_elsewhere_fails_in_words_and_goes_when_it_is_told_to() {
    let home = Home::new();
    std::fs::create_dir_all(home.path().join("mc")).unwrap();
    let (address, mut idle) = (local(free_port()), tokio::process::Command::new("sleep"));
    idle.arg("600");
    let keys = "start_timeout = \"3s\"\ncooldown = \"60s\"\nstop = \"\"";
    let server = format!(
        "[server.mc]\nhosts = [\"mc.example.com\"]\naddress = \"{address}\"\ndirectory = \"mc\"\n{keys}\n{}",
        as_toml(&idle)
    );
    home.write(&Config::of(server));
    let gate = home.start().await;
    let why = format!("it was not ready after 3s: {address} refuses connections");
    let told = refusal(&Client::to(gate.address), "mc.example.com", "Ann").await;
    // Where the server is looked for is its owner's business.
    assert_contains(&told, "it was not ready after 3s");
    assert!(!told.contains(&address.to_string()), "{told}");
    let failed = gate.until("mc", "nobody waiting", |service| service["seats"] == 0).await;
    assert_eq!((&failed["state"], &failed["reason"]), (&"failed".into(), &why.into()));
    let hint = "it still runs; `swarmgate sleep mc` stops it; see `swarmgate output mc`";
    assert_eq!(failed["problems"][0], hint);
    assert_contains(&gate.log(), hint);
    assert_eq!(gate.control("POST", "/v1/services/mc/pin/asleep", "").await.0, 200);
    gate.until_state("mc", "asleep").await;
}

#[tokio::test]
async fn a_failed_start_is_told_at_once_and_tried_again_after_a_while() {
    let home = Home::new();
    let keys = "max_restarts = 0\ncooldown = \"4s\"";
    let server = Server::new(&home, "mc", &["START_DELAY_MS=60000", "EXIT_AFTER_MS=50", "EXIT_CODE=3"], keys);
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    let client = Client::to(gate.address);
    let asked = Instant::now();
    assert_contains(&refusal(&client, "mc.example.com", "Ann").await, "mc failed: it crashed: exit code 3.");
    assert_within(asked, Duration::from_secs(10));
    let again = refusal(&client, "mc.example.com", "Bo").await;
    assert_contains(&again, "mc failed: it crashed: exit code 3.");
    assert_contains(&again, "It can be tried again in ");
    assert_eq!(server.starts(), 1);
    let retried = until("another try", LIMIT, async || {
        assert_contains(
            &refusal(&client, "mc.example.com", "Ann").await,
            "mc failed: it crashed: exit code 3.",
        );
        (server.starts() == 2).then_some(())
    });
    retried.await;
    assert!(asked.elapsed() >= Duration::from_secs(4), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn only_a_well_formed_login_wakes() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &[], "default = true\nhosts = [\"mc.example.com\"]");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    let client = Client::to(gate.address);
    for _ in 0..100 {
        crate::motd(gate.address, "mc.example.com").await;
    }
    // A default takes no wakes from those who do not know the name.
    assert_contains(&refusal(&client, "192.0.2.1", "Scan").await, "only its owner starts it");
    // A handshake and no login, a login cut short.
    let handshake = Handshake::login(PROTOCOL, "mc.example.com").packet();
    let start = LoginStart::new("Ann").packet(PROTOCOL);
    for rest in [&[][..], &start[..start.len() - 1]] {
        let mut connection = client.connect(LIMIT).await.unwrap();
        connection.send(&[&handshake, rest].concat()).await.unwrap();
        connection.half_close().await.unwrap();
        assert_eq!(connection.read_to_end(LIMIT).await.unwrap(), b"");
    }
    assert_eq!((gate.service("mc").await["state"].as_str(), server.starts()), (Some("asleep"), 0));
    play(gate.address, "mc.example.com", "Ann").await;
}

#[tokio::test]
async fn a_source_wakes_so_many_and_joining_what_runs_is_free() {
    let home = Home::new();
    let servers = ["one", "two", "three"].map(|name| Server::new(&home, name, &[], ""));
    let limits = "wake_rate = \"1/h\"\nwake_burst = 1\nwaking_at_once = 9";
    home.write(&Config::of(tables(&servers.each_ref())).limits(limits));
    let gate = home.start().await;
    let from = |last| Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, last));
    assert_in(&join_from(&from(2), "one.example.com", "Ann").await.0);
    let said = refusal(&from(2), "two.example.com", "Ann").await;
    assert_contains(&said, "two is not running, and you have started enough servers for now.");
    assert_eq!(servers[1].starts(), 0);
    for _ in 0..5 {
        assert_in(&join_from(&from(2), "one.example.com", "Ann").await.0);
    }
    assert_in(&join_from(&from(3), "two.example.com", "Bo").await.0);
    assert_in(&join_from(&from(2), "two.example.com", "Ann").await.0);
    assert_eq!(servers[2].starts(), 0);
}

#[tokio::test]
async fn who_may_wake_is_listed_by_name_uuid_or_address() {
    let home = Home::new();
    let uuid = LoginStart::new("Known").uuid.unwrap();
    let uuid = format!("wakers.uuids = [\"{uuid:032x}\"]");
    let servers = [
        Server::new(&home, "names", &[], "wakers.names = [\"Ann\"]"),
        Server::new(&home, "uuids", &[], &uuid),
        Server::new(&home, "addresses", &[], "wakers.addresses = [\"127.0.0.8/30\"]"),
        Server::new(&home, "nobody", &[], "wake = false"),
    ];
    let limits = "trusted_sources = [\"127.0.0.0/8\"]\nwaking_at_once = 9";
    home.write(&Config::of(tables(&servers.each_ref())).limits(limits));
    let gate = home.start().await;
    let from = |last| Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, last));
    for name in ["names", "uuids", "addresses"] {
        let said = refusal(&from(7), &format!("{name}.example.com"), "Stranger").await;
        assert_contains(&said, &format!("{name} is not running, and you may not start it. Ask its owner."));
    }
    assert_contains(&refusal(&from(8), "nobody.example.com", "Ann").await, "only its owner starts it");
    assert!(servers.iter().all(|server| server.starts() == 0));
    for (name, player, source) in [("names", "aNN", 7), ("uuids", "Known", 7), ("addresses", "Stranger", 9)] {
        let host = format!("{name}.example.com");
        assert_in(&join_from(&from(source), &host, player).await.0);
        // What runs is open to all.
        assert_in(&join_from(&from(7), &host, "Stranger").await.0);
    }
    assert_eq!(gate.control("POST", "/v1/services/nobody/wake", "").await.0, 200);
    gate.until_state("nobody", "running").await;
}

#[tokio::test]
async fn a_join_of_a_server_that_crashes_waits_for_its_next_start() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &["STOP_DELAY_MS=0"], "restart_delay = \"1s\"");
    home.write(&Config::of(&server.table));
    let gate = home.start().await;
    let mut ann = play(gate.address, "mc.example.com", "Ann").await;
    let (code, body) = gate.control("POST", "/v1/services/mc/console", "crash").await;
    assert_eq!(code, 204, "{body}");
    // The player sees the end of it, not a connection that hangs.
    ann.read_to_end(LIMIT).await.ok();
    gate.until_state("mc", "restarting").await;
    let (outcome, mut ann) = join(gate.address, "mc.example.com", "Ann").await;
    assert!(!matches!(outcome, Outcome::Kicked(_)), "{outcome:?}");
    assert_playing(&mut ann).await;
    assert_eq!(server.starts(), 2);
}

#[tokio::test]
async fn who_may_wake_is_reloaded() {
    let home = Home::new();
    let servers = ["one", "two"].map(|name| Server::new(&home, name, &[], ""));
    let config = |waker: &str| {
        let defaults = format!("wait = \"hold\"\nwakers.names = [\"{waker}\"]");
        Config { defaults, ..Config::of(tables(&servers.each_ref())) }
    };
    home.write(&config("Ann"));
    let gate = home.start().await;
    let client = Client::to(gate.address);
    assert_contains(&refusal(&client, "one.example.com", "Bo").await, "you may not start it");
    assert_eq!(servers[0].starts(), 0);
    play(gate.address, "one.example.com", "Ann").await;

    home.write(&config("Bo"));
    until("another waker", LIMIT, async || {
        let mut explain = gate.home().command(&["explain", "two.example.com", "--as", "Bo"]);
        let said = explain.output().await.unwrap();
        String::from_utf8_lossy(&said.stdout).contains("starts it;").then_some(())
    })
    .await;
    assert_contains(&refusal(&client, "two.example.com", "Ann").await, "you may not start it");
    assert_eq!(servers[1].starts(), 0);
    play(gate.address, "two.example.com", "Bo").await;
}

#[tokio::test]
async fn what_all_servers_have_is_each_one_s_to_change() {
    let home = Home::new();
    let mut settled = Server::new(&home, "settled", &[], "");
    let free = Server::new(&home, "free", &[], "wake = true\nsleep = true");
    let wakes = Server::new(&home, "wakes", &[], "wake = true");
    let defaults = "wait = \"hold\"\nwake = false\nsleep = false\nidle = \"1s\"".to_owned();
    home.write(&Config { defaults, ..Config::of(tables(&[&settled, &free, &wakes])) });
    let gate = home.start().await;
    let client = Client::to(gate.address);
    assert_contains(&refusal(&client, "settled.example.com", "Ann").await, "only its owner starts it");
    assert_eq!(gate.control("POST", "/v1/services/settled/wake", "").await.0, 200);
    gate.until_state("settled", "running").await;
    for name in ["settled", "wakes", "free"] {
        drop(play(gate.address, &format!("{name}.example.com"), "Ann").await);
    }
    gate.until_state("free", "asleep").await;
    for (name, server) in [("settled", &settled), ("wakes", &wakes)] {
        let service =
            gate.until(name, "many idle times", |service| service["since_seconds"].as_u64() >= Some(4)).await;
        assert_eq!(
            (&service["state"], server.history()),
            (&"running".into(), vec!["start".to_owned()]),
            "{name}"
        );
    }
    // And the other way round, while it runs.
    let defaults = "wait = \"hold\"\nwake = true\nsleep = true\nidle = \"1s\"".to_owned();
    settled.table += "sleep = false\n";
    home.write(&Config { defaults, ..Config::of(tables(&[&settled, &free, &wakes])) });
    gate.until_state("wakes", "asleep").await;
    assert_eq!(gate.service("settled").await["state"], "running");
}

/// A machine that took the gate's question and then stops taking connections, just before the wait is over: what the
/// player reads still arrives before the client gives up after 30 s.
#[tokio::test]
async fn a_wait_that_ends_badly_at_the_last_moment_ends_in_words() {
    let home = Home::new();
    let address = local(free_port());
    std::fs::create_dir_all(home.path().join("mc")).unwrap();
    let mut idle = tokio::process::Command::new("sleep");
    idle.arg("600");
    let server = format!(
        "[server.mc]\nhosts = [\"mc.example.com\"]\naddress = \"{address}\"\ndirectory = \"mc\"\nhold = \"28s\"\nstop = \"\"\n{}",
        as_toml(&idle)
    );
    home.write(&Config::of(server));
    let gate = home.start().await;
    let joined = Instant::now();
    let client = Client::to(gate.address);
    let refused = tokio::spawn(async move { refusal(&client, "mc.example.com", "Ann").await });
    // So late that one dial more would be too long.
    until("most of the wait", LIMIT, async || (joined.elapsed() > Duration::from_secs(25)).then_some(()))
        .await;

    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&address.into()).unwrap();
    // A queue with one place.
    socket.listen(0).unwrap();
    socket.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(socket.into()).unwrap();
    let (mut asked, _) = listener.accept().await.unwrap();
    let mut request = [0; 256];
    assert!(asked.read(&mut request).await.unwrap() > 0);
    let _fills_the_queue = tokio::net::TcpStream::connect(address).await.unwrap();
    let status =
        r#"{"version":{"name":"1.21","protocol":767},"players":{"max":20,"online":0},"description":"up"}"#;
    asked.write_all(&Body::new().string(status).packet(0)).await.unwrap();
    gate.until_state("mc", "running").await;
    assert!(joined.elapsed() < Duration::from_millis(27_500), "this came too late to show anything");

    assert_contains(&refused.await.unwrap(), "mc is out of reach");
    let took = joined.elapsed();
    assert!(took > Duration::from_millis(27_500) && took < Duration::from_millis(28_900), "{took:?}");
}
