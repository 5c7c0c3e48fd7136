//! The strict client over sockets, against a server that says what the test has written down for it.

use std::io;
use std::time::Duration;

use swarmgate_testkit::backend::{Backend, Behaviour, Login};
use swarmgate_testkit::client::{Client, Pace};
use swarmgate_testkit::login::LoginSuccess;
use swarmgate_testkit::player::Passport;
use swarmgate_testkit::vanilla::End;
use swarmgate_testkit::wire::{Body, TRANSFER};

const LIMIT: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(20);

fn success(protocol: i32) -> Vec<u8> {
    LoginSuccess { name: "Ann".into(), uuid: 7 }.packet(protocol)
}

async fn backend(said: Vec<u8>) -> (Backend, Passport) {
    let backend = Backend::start(Behaviour { login: Login::Raw(said), ..Behaviour::default() }).await;
    let ann = Passport::new(Client::to(backend.address()), 775, "mc.example.com", "Ann");
    (backend, ann)
}

#[tokio::test]
async fn a_transfer_is_followed_with_what_was_given() {
    for pace in [Pace::Whole, Pace::PerByte, Pace::SplitAt(1)] {
        let ask = Body::new().string("sg:token").packet(5);
        let (second, _) = backend([ask, success(775)].concat()).await;
        let cookie = Body::new().string("sg:token").bytes(b"secret").packet(0x0a);
        let port = i32::from(second.address().port());
        let transfer = Body::new().string("play.example.com").varint(port).packet(0x0b);
        let (_first, mut ann) = backend([success(775), cookie, transfer].concat()).await;
        ann.client = ann.client.from([127, 0, 0, 7]).pace(pace);

        let mut player = ann.arrive(LIMIT).await.unwrap();
        player.acknowledge().await.unwrap();
        let mut player = player.follow(LIMIT).await.unwrap();
        player.until_logged_in(LIMIT).await.unwrap();
        let answer = Body::new().string("sg:token").bool(true).bytes(b"secret").packet(4);
        let state = second
            .wait_for("the cookie", LIMIT, |state| {
                state.connections[0].bytes.windows(answer.len()).any(|bytes| bytes == answer)
            })
            .await;
        let handshake = state.connections[0].handshake.as_ref().unwrap();
        assert_eq!((handshake.intent, &handshake.host[..]), (TRANSFER, &b"play.example.com"[..]));
        assert_eq!(state.connections[0].peer.ip().to_string(), "127.0.0.7");
    }
}

#[tokio::test]
async fn the_ways_it_ends() {
    let kick = Body::new().raw(b"\x08\0\x03bye").packet(2);
    let (backend, ann) = backend([success(775), kick].concat()).await;
    let mut player = ann.arrive(LIMIT).await.unwrap();
    player.acknowledge().await.unwrap();
    assert_eq!(player.until_ended(LIMIT).await.unwrap(), End::Kicked("bye".into()));

    for (login, limit, kind) in [
        (Login::Close, LIMIT, io::ErrorKind::UnexpectedEof),
        (Login::Never, SHORT, io::ErrorKind::TimedOut),
        (Login::Kick(r#""full""#.into()), LIMIT, io::ErrorKind::Other),
        (Login::Raw(success(776)), LIMIT, io::ErrorKind::InvalidData),
    ] {
        backend.set(|behaviour| behaviour.login = login.clone());
        assert_eq!(ann.arrive(limit).await.unwrap_err().kind(), kind, "{login:?}");
    }
    // Its own patience, whatever the test's.
    backend.set(|behaviour| behaviour.login = Login::Never);
    let error = Passport { patience: SHORT, ..ann }.arrive(LIMIT).await.unwrap_err();
    assert!(error.to_string().contains("nothing within 20ms"), "{error}");
}

#[tokio::test]
async fn behind_the_login_the_bare_connection_can_be_had() {
    let backend = Backend::start(Behaviour::default()).await;
    for protocol in [4, 47, 763, 765, 775] {
        let ann = Passport::new(Client::to(backend.address()), protocol, "mc.example.com", "Ann");
        let mut bare = ann.arrive(LIMIT).await.unwrap().into_connection();
        bare.send(b"abc").await.unwrap();
        assert_eq!(bare.read_exact(3, LIMIT).await.unwrap(), b"abc");
    }
}
