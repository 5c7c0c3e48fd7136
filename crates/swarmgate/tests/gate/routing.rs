//! Which server a connection leads to, and that nothing of it is lost or changed on the way.

use std::net::Ipv4Addr;

use swarmgate_testkit::backend::{Backend, Behaviour, Record};
use swarmgate_testkit::client::{Client, Outcome, Pace};
use swarmgate_testkit::legacy::{Login, Ping, Status};
use swarmgate_testkit::login::{LoginStart, ProfileKey};
use swarmgate_testkit::wire::{Handshake, TRANSFER, ping, status_request};

use crate::common::{Config, Gate, LIMIT};
use crate::{PROTOCOL, assert_contains, assert_in, fixed, join, login, motd, play, reason};

/// The connection in which this player joined.
async fn record_of(backend: &Backend, name: &str) -> Record {
    let is = |record: &Record| record.login.as_ref().is_some_and(|login| login.name == name);
    let what = format!("the login of {name}");
    let state = backend.wait_for(&what, LIMIT, |state| state.connections.iter().any(is)).await;
    state.connections.into_iter().find(is).unwrap()
}

/// A host as a client may send it, whatever its tail.
const SPELLINGS: &[&str] = &[
    "mc.example.com",
    "MC.Example.COM",
    "mc.example.com.",
    "mc.example.com\0FML\0",
    "mc.example.com\0FML2\0",
    "mc.example.com\0FML3\0",
    "mc.example.com\0FORGE",
    "mc.example.com\0FORGE7",
    "mc.example.com.\0FML2\0",
    "mc.example.com///203.0.113.9:51000///1700000000",
    "mc.example.com///203.0.113.9:51000///1700000000///c2lnbmF0dXJl",
    "mc.example.com.///203.0.113.9:51000///1700000000///c2lnbmF0dXJl",
    "mc.example.com///203.0.113.9:51000///1700000000\0FML2\0",
    "mc.example.com\\\\4b6e0d1a\\203.0.113.9:51000\\1700000000",
    "_minecraft._tcp.mc.example.com",
    "_x._minecraft._tcp.mc.example.com.",
    "mc.example.com\x00203.0.113.9\x00069a79f444e94726a5befca90e38aaf5\0[]",
    "bücher.example",
    "BÜCHER.example.\0FML3\0",
    "xn--bcher-kva.example",
    "my_server.example.com",
    "a.wild.example.com",
    "a.b.WILD.example.com.",
];

#[tokio::test]
async fn every_spelling_leads_to_its_server_and_arrives_byte_for_byte() {
    let [main, exact] =
        [Backend::start(Behaviour::default()).await, Backend::start(Behaviour::default()).await];
    let hosts =
        r#"hosts = ["MC.Example.com.", "bücher.example", "my_server.example.com", "*.Wild.example.com"]"#;
    let gate = Gate::start(
        &(fixed("main", &[&main], hosts)
            + &fixed("exact", &[&exact], r#"hosts = ["exact.wild.example.com"]"#)),
    )
    .await;
    let cases =
        SPELLINGS.iter().map(|host| (*host, &main)).chain([("Exact.wild.example.com\0FML2\0", &exact)]);
    for (number, (host, backend)) in cases.enumerate() {
        for (pace, how) in [(Pace::Whole, "w"), (Pace::PerByte, "b"), (Pace::SplitAt(9 + number), "s")] {
            let name = format!("P{number}{how}");
            let sent = login(host, &name);
            let mut connection = Client::to(gate.address).pace(pace).connect(LIMIT).await.unwrap();
            connection.send(&sent).await.unwrap();
            assert_in(&connection.login_outcome(PROTOCOL, LIMIT).await.unwrap());
            assert_eq!(record_of(backend, &name).await.bytes, sent, "{host:?} {pace:?}");
        }
        let status =
            Client::to(gate.address).status(&Handshake::status(PROTOCOL, host), LIMIT).await.unwrap();
        assert!(status.ponged, "{host:?}");
        let sent =
            [Handshake::status(PROTOCOL, host).packet(), status_request(), ping(0x0123_4567_89ab_cdef)];
        let sent = sent.concat();
        let arrived =
            backend.wait_for("the ping", LIMIT, |state| state.connections.iter().any(|c| c.bytes == sent));
        arrived.await;
    }
}

#[tokio::test]
async fn an_opening_cut_anywhere_is_the_same_opening() {
    let backend = Backend::start(Behaviour::default()).await;
    let gate = Gate::start(&fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#)).await;
    let key = ProfileKey { expiry: 1_700_000_000_000, key: vec![7; 294], signature: vec![9; 512] };
    for (protocol, key) in [(4, None), (340, None), (759, Some(key)), (763, None), (777, None)] {
        let cuts = Handshake::login(protocol, "mc.example.com").packet().len() + 40;
        for cut in 1..cuts {
            let name = format!("C{protocol}x{cut}");
            let start = LoginStart { key: key.clone(), ..LoginStart::new(&name) };
            let sent =
                [Handshake::login(protocol, "mc.example.com").packet(), start.packet(protocol)].concat();
            // What a client says without waiting for an answer is the server's too.
            let early = [&sent[..], b"early"].concat();
            let mut connection =
                Client::to(gate.address).pace(Pace::SplitAt(cut)).connect(LIMIT).await.unwrap();
            connection.send(&early).await.unwrap();
            assert_in(&connection.login_outcome(protocol, LIMIT).await.unwrap());
            assert_eq!(connection.read_exact(5, LIMIT).await.unwrap(), b"early");
            assert_eq!(record_of(&backend, &name).await.bytes, early, "{protocol}, cut at {cut}");
        }
    }
}

#[tokio::test]
async fn what_is_no_name_of_ours_is_a_miss_that_says_what_arrived() {
    let backend = Backend::start(Behaviour::default()).await;
    let table = fixed("mc", &[&backend], r#"hosts = ["mc.example.com", "*.wild.example.com", "forge"]"#);
    let gate = Gate::start(&table).await;
    for host in [
        "FORGE.example.com",
        "mc.example.com.evil.example",
        "xmc.example.com",
        "wild.example.com",
        "mc.example.comFML",
        "mc..example.com",
        "a\u{1b}[31m.example.com",
        "mc.example.com/203.0.113.9",
        "",
        ".",
        "127.0.0.1",
        "::1",
    ] {
        assert_contains(&reason(&join(gate.address, host, "Lost").await.0), "no server by this name");
        assert_contains(&motd(gate.address, host).await, "no server by this name");
    }
    assert_eq!(backend.state().logins().count(), 0);
    // The game's own words, what they mean, and what was probably meant: one line, and no raw escapes.
    let line =
        gate.log().lines().find(|line| line.contains("received=\"xmc.example.com")).unwrap().to_owned();
    assert_contains(&line, r#"host="xmc.example.com""#);
    assert_contains(&line, r#"nearest=["mc.example.com""#);
    assert!(!gate.log().contains('\u{1b}'));
    for (ping, said) in [(Ping::Bare, None), (Ping::Short, Some("")), (Ping::Header, Some(""))] {
        let text = Client::to(gate.address).legacy_ping(&ping, LIMIT).await.unwrap();
        let status = Status::parse(&text).unwrap();
        assert_contains(&status.motd, "no server by this name");
        assert_eq!(status.version.is_some(), said.is_some());
    }
    assert!(gate.metric("swarmgate_refusals_total{kind=\"unknown_host\"}").await >= 24);
}

#[tokio::test]
async fn a_miss_may_be_answered_with_silence() {
    let backend = Backend::start(Behaviour::default()).await;
    let table = fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#);
    let gate = Gate::with(&Config::of(table).top("unknown_host = \"close\"")).await;
    assert_eq!(join(gate.address, "other.example.com", "Lost").await.0, Outcome::Closed);
    let status =
        Client::to(gate.address).status(&Handshake::status(PROTOCOL, "other.example.com"), LIMIT).await;
    assert_eq!(status.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    play(gate.address, "mc.example.com", "Found").await;
}

#[tokio::test]
async fn the_default_takes_what_nobody_else_does() {
    let [main, other] =
        [Backend::start(Behaviour::default()).await, Backend::start(Behaviour::default()).await];
    let gate = Gate::start(
        &(fixed("main", &[&main], "default = true")
            + &fixed("other", &[&other], r#"hosts = ["mc.example.com"]"#)),
    )
    .await;
    for (host, backend) in
        [("", &main), ("127.0.0.1", &main), ("a b", &main), ("x.example", &main), ("mc.example.com", &other)]
    {
        let name = format!("D{}", host.len());
        play(gate.address, host, &name).await;
        record_of(backend, &name).await;
    }
}

#[tokio::test]
async fn long_addresses_are_for_trusted_proxies() {
    let backend = Backend::start(Behaviour::default()).await;
    let home = crate::common::Home::new();
    let listener = format!(
        "[[listener]]\naddress = \"{}\"\nproxy_protocol = \"optional\"\ntrusted = [\"127.0.0.3\"]\n",
        home.address
    );
    home.write(&Config::of(listener + &fixed("mc", &[&backend], r#"hosts = ["mc.example.com"]"#)));
    let gate = home.start().await;
    for (source, length, welcome) in [
        (3, 300, true),
        (3, 1_406, true),
        (3, 2_504, true),
        (3, 32_767, true),
        (3, 32_768, false),
        (2, 255, true),
        (2, 1_406, true),
        (2, 2_504, true),
        (2, 4_096, false),
        (2, 32_767, false),
    ] {
        let tail = "\x00203.0.113.9\x00069a79f444e94726a5befca90e38aaf5\0";
        let host = format!("mc.example.com{tail}{}", "x".repeat(length - 14 - tail.len()));
        let name = format!("L{source}x{length}");
        let client = Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, source));
        let mut connection = client.connect(LIMIT).await.unwrap();
        let sent = login(&host, &name);
        _ = connection.send(&sent).await;
        let outcome = connection.login_outcome(PROTOCOL, LIMIT).await.unwrap();
        if welcome {
            assert_in(&outcome);
            assert_eq!(record_of(&backend, &name).await.bytes, sent);
        } else {
            assert!(matches!(outcome, Outcome::Closed | Outcome::Reset), "{source} {length}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn only_what_a_route_asks_for_is_changed() {
    let backend = Backend::start(Behaviour::default()).await;
    let gate = Gate::start(
        &(fixed("new", &[&backend], "hosts = [\"new.example.com\"]\nrewrite_host = \"inner.example\"")
            + &fixed("same", &[&backend], r#"hosts = ["same.example.com"]"#)),
    )
    .await;
    let sent = Handshake::login(PROTOCOL, "New.example.com").tail(b"\0FML2\0").port(4321);
    let (outcome, _) = Client::to(gate.address).join(&sent, &LoginStart::new("Ann"), LIMIT).await.unwrap();
    assert_in(&outcome);
    let seen = record_of(&backend, "Ann").await;
    let expected = Handshake::login(PROTOCOL, "inner.example").tail(b"\0FML2\0").port(4321);
    assert_eq!(seen.bytes, [expected.packet(), LoginStart::new("Ann").packet(PROTOCOL)].concat());

    let transferred = Handshake::transfer(PROTOCOL, "same.example.com");
    let (outcome, _) =
        Client::to(gate.address).join(&transferred, &LoginStart::new("Bo"), LIMIT).await.unwrap();
    assert_in(&outcome);
    assert_eq!(record_of(&backend, "Bo").await.handshake.unwrap().intent, TRANSFER);
}

#[tokio::test]
async fn the_first_backend_that_takes_the_connection_is_used() {
    let [first, second] =
        [Backend::start(Behaviour::default()).await, Backend::start(Behaviour::default()).await];
    let gate = Gate::start(&fixed("mc", &[&first, &second], r#"hosts = ["mc.example.com"]"#)).await;
    play(gate.address, "mc.example.com", "Ann").await;
    record_of(&first, "Ann").await;
    first.refuse().await;
    play(gate.address, "mc.example.com", "Bo").await;
    record_of(&second, "Bo").await;
    second.refuse().await;
    assert_contains(&reason(&join(gate.address, "mc.example.com", "Cy").await.0), "mc is out of reach");
    assert_contains(&motd(gate.address, "mc.example.com").await, "mc is out of reach");
    first.listen().await;
    play(gate.address, "mc.example.com", "Di").await;
    record_of(&first, "Di").await;
}

#[tokio::test]
async fn clients_older_than_1_7_are_relayed_by_their_host() {
    let backend = Backend::start(Behaviour { motd: "Old friends".into(), ..Behaviour::default() }).await;
    let keys = "default = true\nhosts = [\"mc.example.com\"]";
    let gate = Gate::start(&fixed("mc", &[&backend], keys)).await;
    let full = Ping::Full { protocol: 78, host: "mc.example.com".into(), port: 25565 };
    for ping in [Ping::Bare, Ping::Short, Ping::Header, full] {
        for pace in [Pace::Whole, Pace::PerByte] {
            // A bare ping has no end but a pause, so one byte per segment is what it is anyway.
            let client = Client::to(gate.address).pace(pace);
            let status = Status::parse(&client.legacy_ping(&ping, LIMIT).await.unwrap()).unwrap();
            assert_eq!(status.motd, "Old friends", "{ping:?}");
            let sent = ping.bytes();
            backend.wait_for("it", LIMIT, |state| state.connections.iter().any(|c| c.bytes == sent)).await;
        }
    }
    let (name, host, port) = ("Notch".to_owned(), "mc.example.com".to_owned(), 25565);
    for login in [
        Login::Name(name.clone()),
        Login::NameAndHost { name: name.clone(), host: host.clone(), port },
        Login::Fields { protocol: 78, name, host, port },
    ] {
        for pace in [Pace::Whole, Pace::PerByte] {
            let client = Client::to(gate.address).pace(pace);
            assert_eq!(client.legacy_login(&login, LIMIT).await.unwrap(), "Outdated client!");
            let sent = login.bytes();
            backend.wait_for("it", LIMIT, |state| state.connections.iter().any(|c| c.bytes == sent)).await;
        }
    }
}
