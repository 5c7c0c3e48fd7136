//! PROXY headers in front of the gate, and from it.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use swarmgate_testkit::backend::{Backend, Behaviour};
use swarmgate_testkit::client::{Client, Outcome, Pace};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::proxy;
use swarmgate_testkit::wait::{free_port, until};
use swarmgate_testkit::wire::Handshake;

use crate::common::{Config, Gate, Home, LIMIT, Server, local};
use crate::{PROTOCOL, assert_contains, assert_in, fixed, join_from, login, refusal};

const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const TRUSTED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

fn claimed(last: u8) -> (SocketAddr, SocketAddr) {
    (SocketAddr::from(([203, 0, 113, last], 40_000)), SocketAddr::from(([192, 0, 2, 1], 25_565)))
}

fn listener(address: SocketAddr, mode: &str) -> String {
    format!(
        "[[listener]]\naddress = \"{address}\"\nproxy_protocol = \"{mode}\"\ntrusted = [\"127.0.0.3/32\"]\n"
    )
}

/// The words of whoever is let in or not.
async fn outcome(client: &Client) -> &'static str {
    let joined =
        client.join(&Handshake::login(PROTOCOL, "mc.example.com"), &LoginStart::new("Ann"), LIMIT).await;
    match joined.map(|(outcome, _)| outcome) {
        Ok(Outcome::Joined { .. }) => "in",
        Ok(Outcome::Closed | Outcome::Reset) => "closed",
        // It was closed while the header was still being sent.
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => "closed",
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_header_is_believed_only_where_and_from_whom_it_should_be() {
    let backend = Backend::start(Behaviour::default()).await;
    let home = Home::new();
    let [off, optional, required] = [local(free_port()), local(free_port()), local(free_port())];
    let listeners = format!("[[listener]]\naddress = \"{off}\"\n")
        + &listener(optional, "optional")
        + &listener(required, "required");
    let table = fixed("mc", &[&backend], "hosts = [\"mc.example.com\"]\nproxy_protocol = \"v2\"");
    home.write(&Config::of(listeners + &table));
    let gate = home.start().await;

    let (from, to) = claimed(9);
    let tlvs = [&[0x04, 0, 3][..], b"abc"].concat();
    for header in [proxy::v1(from, to), proxy::v2(from, to, &[]), proxy::v2(from, to, &tlvs)] {
        for (address, source, expected) in [
            (off, TRUSTED, "closed"),
            (off, STRANGER, "closed"),
            (optional, TRUSTED, "in"),
            (optional, STRANGER, "closed"),
            (required, TRUSTED, "in"),
            (required, STRANGER, "closed"),
        ] {
            for pace in [Pace::Whole, Pace::PerByte] {
                let client = Client::to(address).from(source).prefix(header.clone()).pace(pace);
                assert_eq!(outcome(&client).await, expected, "{address} {source} {pace:?} {header:x?}");
            }
        }
    }
    for (address, source, expected) in [
        (off, STRANGER, "in"),
        (optional, TRUSTED, "in"),
        (optional, STRANGER, "in"),
        (required, TRUSTED, "closed"),
        (required, STRANGER, "closed"),
    ] {
        assert_eq!(outcome(&Client::to(address).from(source)).await, expected, "{address} {source}");
    }
    let seen: Vec<_> =
        backend.state().connections.iter().filter_map(|c| c.login.as_ref().and(c.proxy.clone())).collect();
    let believed = seen.iter().filter(|header| header.addresses == Some((from, to))).count();
    assert_eq!((seen.len(), believed), (15, 12));
    for reason in ["untrusted_proxy_header", "unexpected_proxy_header", "proxy_missing"] {
        assert!(
            gate.metric(&format!("swarmgate_openings_failed_total{{kind=\"{reason}\"}}")).await > 0,
            "{reason}"
        );
    }
    assert_contains(&gate.log(), "its address is not among the listener's trusted ones");
    assert_contains(&gate.log(), "the listener has proxy_protocol = \"off\"");
}

#[tokio::test]
async fn whom_a_listener_trusts_is_reloaded() {
    let backend = Backend::start(Behaviour::default()).await;
    let home = Home::new();
    let mc = fixed("mc", &[&backend], "hosts = [\"mc.example.com\"]");
    let config = |trusted: Ipv4Addr| {
        let listener = listener(home.address, "required").replace(&TRUSTED.to_string(), &trusted.to_string());
        Config::of(listener + &mc)
    };
    home.write(&config(TRUSTED));
    let gate = home.start().await;
    let (from, to) = claimed(9);
    let client = |source| Client::to(gate.address).from(source).prefix(proxy::v2(from, to, &[]));
    assert_eq!(outcome(&client(TRUSTED)).await, "in");
    assert_eq!(outcome(&client(STRANGER)).await, "closed");
    home.write(&config(STRANGER));
    until("trust in another", LIMIT, async || (outcome(&client(STRANGER)).await == "in").then_some(())).await;
    assert_eq!(outcome(&client(TRUSTED)).await, "closed");
}

async fn behind(home: &Home, config: Config) -> Config {
    let tables = listener(home.address, "required") + &config.tables;
    Config { tables, ..config }
}

#[tokio::test]
async fn limits_and_lists_are_for_the_address_in_the_header() {
    let home = Home::new();
    let backend = Backend::start(Behaviour::default()).await;
    let one = Server::new(&home, "one", &[], "");
    let two = Server::new(&home, "two", &[], "");
    let lists = "[clients]\ndeny = [\"203.0.113.4\", \"127.0.0.4\"]\n";
    let mc = fixed("mc", &[&backend], "hosts = [\"mc.example.com\"]");
    let limits = "login_rate = \"1/h\"\nlogin_burst = 3\nwake_rate = \"1/h\"\nwake_burst = 1";
    let tables = format!("{lists}{mc}{}{}", one.table, two.table);
    home.write(&behind(&home, Config::of(tables).limits(limits)).await);
    let gate = home.start().await;
    let claiming = |last| {
        let (from, to) = claimed(last);
        Client::to(gate.address).from(TRUSTED).prefix(proxy::v2(from, to, &[]))
    };
    assert_contains(&refusal(&claiming(4), "mc.example.com", "Ann").await, "may not join");
    for source in [5, 6] {
        for _ in 0..3 {
            assert_in(&join_from(&claiming(source), "mc.example.com", "Ann").await.0);
        }
        assert_contains(&refusal(&claiming(source), "mc.example.com", "Ann").await, "joining too often");
    }
    assert_in(&join_from(&claiming(7), "one.example.com", "Ann").await.0);
    assert_contains(&refusal(&claiming(7), "two.example.com", "Ann").await, "enough servers for now");
    assert_in(&join_from(&claiming(8), "two.example.com", "Ann").await.0);
}

#[tokio::test]
async fn one_client_of_a_proxy_cannot_take_all_its_half_open_connections() {
    let home = Home::new();
    let backend = Backend::start(Behaviour::default()).await;
    let mc = fixed("mc", &[&backend], "hosts = [\"mc.example.com\"]");
    let limits = "half_open_per_source = 4\nhalf_open_total = 20\nopening_deadline = \"30s\"";
    home.write(&behind(&home, Config::of(mc).limits(limits)).await);
    let gate = home.start().await;
    let claiming = |last| {
        let (from, to) = claimed(last);
        Client::to(gate.address).from(TRUSTED).prefix(proxy::v1(from, to))
    };
    let mut silent = vec![];
    for _ in 0..30 {
        silent.push(claiming(5).connect(LIMIT).await.unwrap());
    }
    until("those that are too many refused", LIMIT, async || {
        (gate.metric("swarmgate_refusals_total{kind=\"half_open_per_source\"}").await == 26).then_some(())
    })
    .await;
    assert_in(&join_from(&claiming(6), "mc.example.com", "Ann").await.0);
    assert_eq!(gate.metric("swarmgate_connections_half_open").await, 4);
}

#[tokio::test]
async fn a_proxy_s_own_health_checks_are_no_errors_and_wake_nothing() {
    let home = Home::new();
    let server = Server::new(&home, "mc", &[], "default = true\ndefault_wakes = true");
    home.write(&behind(&home, Config::of(&server.table)).await);
    let gate = home.start().await;
    for header in [vec![], proxy::v2_local(), proxy::v1_unknown()] {
        let client = Client::to(gate.address).from(TRUSTED).prefix(header);
        for reset in [false, true] {
            let connection = client.connect(LIMIT).await.unwrap();
            if reset { connection.reset() } else { drop(connection) }
        }
    }
    until("all six seen", LIMIT, async || {
        let nothing = gate.metric("swarmgate_openings_failed_total{kind=\"nothing\"}").await;
        (nothing == 6).then_some(())
    })
    .await;
    let page = gate.metrics().await;
    let kinds = page.lines().filter(|line| line.starts_with("swarmgate_openings_failed_total"));
    assert_eq!(kinds.count(), 1, "{page}");
    assert!(!gate.log().contains("PROXY header"), "{}", gate.log());
    assert_eq!(server.starts(), 0);
    // A check of a higher layer: a status ping of the proxy's own.
    let client = Client::to(gate.address).from(TRUSTED).prefix(proxy::v2_local());
    let status = client.status(&Handshake::status(PROTOCOL, ""), LIMIT).await.unwrap();
    assert_contains(&status.text, "mc sleeps");
    assert_eq!(server.starts(), 0);
}

#[tokio::test]
async fn a_bad_or_unfinished_header_ends_within_the_deadline() {
    let home = Home::new();
    let backend = Backend::start(Behaviour::default()).await;
    let mc = fixed("mc", &[&backend], "hosts = [\"mc.example.com\"]");
    home.write(&behind(&home, Config::of(mc).limits("opening_deadline = \"1s\"")).await);
    let gate = home.start().await;
    let (from, to) = claimed(9);
    let whole = proxy::v2(from, to, &[]);
    for bytes in [
        &b"PROXY TCP4 203.0.113.9"[..],
        b"PROXY ",
        b"\r\n\r\n\0\r\nQUIT\n",
        &whole[..whole.len() - 1],
        &proxy::v2_raw(0x21, 0x11, &[0; 4]),
        &proxy::v2_raw(0x2f, 0x11, &[0; 12]),
        &proxy::v2_raw(0x21, 0x11, &[0; 60_000]),
        &[b"PROXY TCP4 ".to_vec(), vec![b'1'; 200]].concat(),
        b"PROXY TCP4 1.2.3.4 5.6.7.8 99999 1\r\n",
        b"PROXY TCP6 1.2.3.4 5.6.7.8 1 1\r\n",
    ] {
        let mut connection = Client::to(gate.address).from(TRUSTED).connect(LIMIT).await.unwrap();
        _ = connection.send(bytes).await;
        let started = Instant::now();
        assert!(!matches!(connection.read_to_end(LIMIT).await, Ok(said) if !said.is_empty()));
        crate::assert_within(started, Duration::from_secs(10));
    }
    assert_eq!(backend.state().logins().count(), 0);
}

#[tokio::test]
async fn a_server_is_told_who_really_comes() {
    for (version, number) in [("v1", 1), ("v2", 2)] {
        let backend = Backend::start(Behaviour::default()).await;
        let keys = format!("hosts = [\"mc.example.com\"]\nproxy_protocol = \"{version}\"");
        let gate = Gate::start(&fixed("mc", &[&backend], &keys)).await;
        let client = Client::to(gate.address).from(STRANGER);
        let sent = login("mc.example.com", "Ann");
        let (outcome, connection) = client
            .join(&Handshake::login(PROTOCOL, "mc.example.com"), &LoginStart::new("Ann"), LIMIT)
            .await
            .unwrap();
        assert_in(&outcome);
        client.status(&Handshake::status(PROTOCOL, "mc.example.com"), LIMIT).await.unwrap();
        let state = backend.state();
        let player = state.connections.iter().find(|record| record.login.is_some()).unwrap();
        let header = player.proxy.clone().unwrap();
        assert_eq!(header.version, number);
        assert_eq!(header.addresses, Some((connection.local_addr(), gate.address)));
        assert!(player.bytes.ends_with(&sent));
        // The list entry is the player's too; the gate's own look is nobody's.
        let own = |record: &&swarmgate_testkit::backend::Record| {
            record.proxy.as_ref().is_some_and(|header| header.addresses.is_none())
        };
        let pings = state.connections.iter().filter(|record| record.status_requests > 0);
        assert_eq!(pings.clone().filter(own).count(), 1);
        assert_eq!(pings.count(), 2);
    }
}
