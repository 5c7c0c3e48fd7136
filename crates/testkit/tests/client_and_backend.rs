//! The client against the backend: each is what the other expects.

use std::io;
use std::time::Duration;

use swarmgate_testkit::backend::{Backend, Behaviour, Event, Login, Status};
use swarmgate_testkit::client::{Client, Outcome, Pace};
use swarmgate_testkit::legacy::{self, Ping};
use swarmgate_testkit::login::{LoginStart, LoginSuccess};
use swarmgate_testkit::proxy;
use swarmgate_testkit::wire::{Body, Handshake, ping, status_request};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(20);

const PROTOCOLS: [i32; 18] =
    [4, 5, 47, 340, 404, 578, 735, 758, 759, 760, 761, 763, 764, 765, 767, 768, 775, 777];

async fn backend() -> (Backend, Client) {
    let backend = Backend::start(Behaviour::default()).await;
    let client = Client::to(backend.address());
    (backend, client)
}

#[tokio::test]
async fn a_status_at_every_pace() {
    let (backend, client) = backend().await;
    let handshake = Handshake::status(767, "mc.example.com");
    for pace in [Pace::Whole, Pace::PerByte, Pace::SplitAt(1), Pace::SplitAt(1000)] {
        let status = client.clone().pace(pace).status(&handshake, LIMIT).await.unwrap();
        assert!(status.ponged);
        assert_eq!(status.json["version"]["protocol"], 767);
        assert_eq!(status.json["players"]["online"], 0);
    }
    let state = backend.wait_for("the ends", LIMIT, |state| state.open() == 0).await;
    assert_eq!(state.status_requests(), 4);
    let bytes = [handshake.packet(), status_request(), ping(0x0123_4567_89ab_cdef)].concat();
    assert!(state.connections.iter().all(|record| record.bytes == bytes && record.error.is_none()));
}

#[tokio::test]
async fn a_peer_sees_the_segments_one_by_one() {
    for (pace, segments) in [
        (Pace::Whole, &[6][..]),
        (Pace::PerByte, &[1; 6]),
        (Pace::SplitAt(2), &[2, 4]),
        (Pace::SplitAt(9), &[6]),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connection =
            Client::to(listener.local_addr().unwrap()).pace(pace).connect(LIMIT).await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        let reader = tokio::spawn(async move {
            let (mut seen, mut buffer) = (vec![], [0; 16]);
            while let count @ 1.. = peer.read(&mut buffer).await.unwrap() {
                seen.push(count);
            }
            seen
        });
        connection.send(b"abcdef").await.unwrap();
        drop(connection);
        assert_eq!(reader.await.unwrap(), segments, "{pace:?}");
    }
}

#[tokio::test]
async fn pings_in_any_order() {
    let (_backend, client) = backend().await;
    let handshake = Handshake::status(-1, "gamedig").packet();

    let mut connection = client.connect(LIMIT).await.unwrap();
    connection.send(&[&handshake[..], &status_request(), &ping(7)].concat()).await.unwrap();
    connection.read_status(LIMIT).await.unwrap();
    assert_eq!(connection.read_pong(LIMIT).await.unwrap(), Some(7));
    assert_eq!(connection.read_packet(LIMIT).await.unwrap(), None);

    let mut connection = client.connect(LIMIT).await.unwrap();
    connection.send(&[&handshake[..], &ping(8)].concat()).await.unwrap();
    assert_eq!(connection.read_pong(LIMIT).await.unwrap(), Some(8));
}

#[tokio::test]
async fn every_protocol_joins_and_every_byte_comes_back() {
    let (backend, client) = backend().await;
    let play = [0, 1, 2, 0xff].repeat(1000);
    for (index, protocol) in PROTOCOLS.into_iter().enumerate() {
        let handshake = Handshake::login(protocol, "mc.example.com").tail(b"\0FML2\0");
        let start = LoginStart::new("Steve");
        let client = client.clone().pace(Pace::PerByte);
        let (outcome, mut connection) = client.join(&handshake, &start, LIMIT).await.unwrap();
        let success = LoginSuccess { name: "Steve".into(), uuid: start.uuid.unwrap() };
        let Outcome::Joined { name, uuid, compression: None, bytes } = outcome else {
            panic!("protocol {protocol}: {outcome:?}")
        };
        assert_eq!(LoginSuccess { name, uuid }, success, "{protocol}");
        assert!(success.packet(protocol).ends_with(&bytes), "{protocol}");

        connection.set_pace(Pace::Whole);
        connection.send(&play).await.unwrap();
        assert_eq!(connection.read_exact(play.len(), LIMIT).await.unwrap(), play);
        let status = client.status(&Handshake::status(protocol, "x"), LIMIT).await.unwrap();
        assert_eq!(status.json["players"]["online"], 1);
        connection.half_close().await.unwrap();
        assert_eq!(connection.read_to_end(LIMIT).await.unwrap(), b"");
        let state = backend.wait_for("the player to leave", LIMIT, |state| state.open() == 0).await;
        let record = &state.connections[2 * index];
        assert_eq!(record.bytes, [handshake.packet(), start.packet(protocol), play.clone()].concat());
        assert_eq!(record.handshake.as_ref(), Some(&handshake));
        assert!(record.half_closed && record.error.is_none() && state.online() == 0, "{record:?}");
    }
}

#[tokio::test]
async fn logins_that_do_not_join() {
    let (backend, client) = backend().await;
    let reason = r#"{"text":"full"}"#.to_owned();
    let hello = Body::new().string("").bytes(&[1]).bytes(&[2]);
    let compressed = [
        Body::new().varint(256).packet(3),
        // Length, data length 0 ("not deflated"), then Login Success as before.
        Body::new().raw(&[2]).raw(&[0; 16]).string("Steve").varint(0).packet(0),
    ]
    .concat();
    let (name, uuid) = ("Steve".to_owned(), 0);
    let bytes = [&[0; 16][..], b"\x05Steve\0"].concat();
    for (login, limit, expected) in [
        (Login::Kick(reason.clone()), LIMIT, Outcome::Kicked(reason)),
        (Login::Close, LIMIT, Outcome::Closed),
        (Login::Never, SHORT, Outcome::Silent),
        (Login::Raw(hello.clone().packet(1)), LIMIT, Outcome::EncryptionRequested(hello.0)),
        (Login::Raw(compressed), LIMIT, Outcome::Joined { name, uuid, compression: Some(256), bytes }),
    ] {
        backend.set(|behaviour| behaviour.login = login.clone());
        let (handshake, start) = (Handshake::login(768, "a"), LoginStart::new("Steve"));
        let (outcome, _connection) = client.join(&handshake, &start, limit).await.unwrap();
        assert_eq!(outcome, expected, "{login:?}");
    }
}

#[tokio::test]
async fn statuses_of_every_kind() {
    let (backend, client) = backend().await;
    let handshake = Handshake::status(47, "a");
    let icon = "data:image/png;base64,AAAA";
    backend.set(|behaviour| {
        behaviour.players = Some(7);
        behaviour.favicon = Some(icon.into());
        behaviour.version = ("Paper 1.21".into(), Some(767));
        behaviour.status = Status::Slow(SHORT);
    });
    let json = client.status(&handshake, LIMIT).await.unwrap().json;
    assert_eq!((&json["players"]["online"], &json["version"]["protocol"]), (&7.into(), &767.into()));
    assert_eq!(json["favicon"], icon);

    backend.set(|behaviour| behaviour.status = Status::Json(r#"{"a":1}"#.into()));
    assert_eq!(client.status(&handshake, LIMIT).await.unwrap().text, r#"{"a":1}"#);

    for (status, limit, error) in [
        (Status::Raw(b"\x02\x63\x00".to_vec()), LIMIT, io::ErrorKind::InvalidData),
        (Status::Json("not json".into()), LIMIT, io::ErrorKind::InvalidData),
        (Status::Never, SHORT, io::ErrorKind::TimedOut),
        (Status::Close, LIMIT, io::ErrorKind::UnexpectedEof),
    ] {
        backend.set(|behaviour| behaviour.status = status.clone());
        assert_eq!(client.status(&handshake, limit).await.unwrap_err().kind(), error, "{status:?}");
    }
}

#[tokio::test]
async fn a_silent_backend_says_nothing_to_anybody() {
    let backend = Backend::start(Behaviour::silent()).await;
    for opening in [
        [Handshake::status(767, "a").packet(), status_request(), ping(1)].concat(),
        [Handshake::login(767, "a").packet(), LoginStart::new("Steve").packet(767)].concat(),
        Ping::Short.bytes(),
    ] {
        let mut connection = Client::to(backend.address()).connect(LIMIT).await.unwrap();
        connection.send(&opening).await.unwrap();
        backend
            .wait_for("the opening", LIMIT, |state| {
                state.connections.last().is_some_and(|record| record.bytes == opening)
            })
            .await;
        assert_eq!(connection.read_exact(1, SHORT).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
    backend.wait_for("the ends", LIMIT, |state| state.open() == 0).await;
}

#[tokio::test]
async fn clients_from_before_1_7() {
    let (backend, client) = backend().await;
    for pings in [
        Ping::Bare,
        Ping::Short,
        Ping::Header,
        Ping::HeaderAnd(b"junk".to_vec()),
        Ping::Full { protocol: 78, host: "mc.example.com".into(), port: 25565 },
    ] {
        let text = client.legacy_ping(&pings, LIMIT).await.unwrap();
        let status = legacy::Status::parse(&text).unwrap();
        assert_eq!(status.motd, "A test server");
        assert_eq!(status.version.is_none(), pings == Ping::Bare);
    }
    let login = legacy::Login::Fields { protocol: 78, name: "Bo".into(), host: "a".into(), port: 1 };
    assert_eq!(client.legacy_login(&login, LIMIT).await.unwrap(), "Outdated client!");
    let state = backend.wait_for("the ends", LIMIT, |state| state.open() == 0).await;
    assert_eq!(state.connections[5].bytes, login.bytes());
}

#[tokio::test]
async fn a_proxy_header_and_a_chosen_source() {
    let (backend, client) = backend().await;
    let (from, to) = ("203.0.113.7:51234".parse().unwrap(), "192.0.2.10:25565".parse().unwrap());
    let handshake = Handshake::status(767, "a");
    for (header, version, addresses) in [
        (proxy::v1(from, to), 1, Some((from, to))),
        (proxy::v2(from, to, &[]), 2, Some((from, to))),
        (proxy::v2_local(), 2, None),
    ] {
        for pace in [Pace::Whole, Pace::PerByte, Pace::SplitAt(1)] {
            let client = client.clone().from([127, 0, 0, 7]).prefix(header.clone()).pace(pace);
            client.status(&handshake, LIMIT).await.unwrap();
            let record = backend.state().connections.pop().unwrap();
            assert_eq!(record.peer.ip().to_string(), "127.0.0.7");
            let read = record.proxy.unwrap();
            assert_eq!((read.version, read.addresses), (version, addresses));
            assert!(record.bytes.starts_with(&header));
        }
    }
}

#[tokio::test]
async fn refusing_closing_half_closing_and_resetting() {
    let (backend, client) = backend().await;
    let mut events = backend.events();
    let handshake = Handshake::login(767, "a");
    let start = LoginStart::new("Steve");

    let (_, mut connection) = client.join(&handshake, &start, LIMIT).await.unwrap();
    backend.refuse().await;
    assert_eq!(client.connect(LIMIT).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    connection.send(b"still here").await.unwrap();
    assert_eq!(connection.read_exact(10, LIMIT).await.unwrap(), b"still here");
    backend.listen().await;

    backend.half_close();
    assert_eq!(connection.read_to_end(LIMIT).await.unwrap(), b"");
    connection.send(b"heard").await.unwrap();
    backend.wait_for("the last bytes", LIMIT, |state| state.connections[0].bytes.ends_with(b"heard")).await;
    drop(connection);
    backend.wait_for("the end", LIMIT, |state| state.online() == 0).await;

    let (_, mut connection) = client.join(&handshake, &start, LIMIT).await.unwrap();
    backend.reset();
    assert_eq!(connection.read_to_end(LIMIT).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);

    let (_, mut connection) = client.join(&handshake, &start, LIMIT).await.unwrap();
    backend.close();
    assert_eq!(connection.read_to_end(LIMIT).await.unwrap(), b"");

    let (_, connection) = client.join(&handshake, &start, LIMIT).await.unwrap();
    connection.reset();
    let state = backend.wait_for("the reset", LIMIT, |state| state.open() == 0).await;
    assert!(state.connections[3].error.is_some());

    let (joined, left) = (Event::Joined("Steve".into()), Event::Left("Steve".into()));
    for _ in 0..4 {
        assert_eq!(events.recv().await.as_ref(), Some(&joined));
        assert_eq!(events.recv().await.as_ref(), Some(&left));
    }
}

#[tokio::test]
#[should_panic(expected = "waited 20ms for nobody")]
async fn a_state_that_does_not_come_is_named() {
    backend().await.0.wait_for("nobody", SHORT, |state| state.online() == 1).await;
}
