use std::time::Duration;

use serde_json::{Value, json};
use swarmgate_testkit::backend::{Backend, Behaviour, Login};
use swarmgate_testkit::login::LoginSuccess;
use swarmgate_testkit::peers;
use swarmgate_testkit::wire::{Body, TRANSFER};

use crate::{LIMIT, run};

/// Nine versions in one Node.js take long to load on a busy machine.
const SERVERS_START: Duration = Duration::from_secs(120);

async fn backend(login: Login) -> Backend {
    Backend::start(Behaviour { login, ..Behaviour::default() }).await
}

fn success(protocol: i32) -> Vec<u8> {
    LoginSuccess { name: "Ann".into(), uuid: 7 }.packet(protocol)
}

/// Ids of brand, finish, and of the game's first packet.
fn into_the_game(protocol: i32) -> Vec<u8> {
    let (brand, finish) = if protocol < 766 { (0, 2) } else { (1, 3) };
    let brand = Body::new().string("minecraft:brand").string("Testkit").packet(brand);
    [success(protocol), brand, Body::new().packet(finish), Body::new().i32(1).packet(0x7e)].concat()
}

async fn join(address: &str, more: &[&str]) -> (i32, Value) {
    let said = run(&[&["join", address, "--name", "Ann", "--json"], more].concat()).await;
    (said.code, said.json())
}

#[tokio::test]
async fn every_version_gets_into_the_game() {
    for protocol in [4, 47, 340, 758, 763, 764, 765, 767, 772, 775, 776, 777] {
        let bytes = if protocol < 764 { success(protocol) } else { into_the_game(protocol) };
        let backend = backend(Login::Raw(bytes)).await;
        let (code, json) = join(&backend.address().to_string(), &["--protocol", &protocol.to_string()]).await;
        assert_eq!((code, &json["outcome"]), (0, &"joined".into()), "{protocol}: {json}");
        assert_eq!(
            (&json["name"], &json["uuid"]),
            (&"Ann".into(), &"00000000-0000-0000-0000-000000000007".into())
        );
        assert_eq!(json["brand"], if protocol < 764 { Value::Null } else { "Testkit".into() });
        // The command may be gone before the backend has read its last words.
        let state = backend.wait_for("the end of the connection", LIMIT, |state| state.open() == 0).await;
        let record = &state.connections[0];
        assert_eq!(record.login.as_ref().unwrap().name, "Ann");
        if protocol >= 764 {
            let finish = if protocol < 766 { 2 } else { 3 };
            let sent = &record.bytes;
            assert!(sent.windows(2).any(|bytes| bytes == [1, 3]), "{protocol}: login acknowledged");
            assert!(sent.ends_with(&[1, finish]), "{protocol}: finish acknowledged: {sent:02x?}");
        }
    }
}

#[tokio::test]
async fn a_version_nobody_knows_gets_through_the_login() {
    let backend = backend(Login::Raw(success(900))).await;
    let (code, json) = join(&backend.address().to_string(), &["--protocol", "900"]).await;
    assert_eq!((code, &json["outcome"]), (0, &"logged_in".into()), "{json}");
}

#[tokio::test]
async fn an_online_server_is_reached() {
    let request = Body::new().string("").bytes(b"key").bytes(b"token").bool(true).packet(1);
    let backend = backend(Login::Raw(request)).await;
    let said = run(&["join", &backend.address().to_string()]).await;
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("online mode"), "{}", said.out);
}

#[tokio::test]
async fn whoever_is_sent_away_reads_why() {
    let nbt = b"\x0a\x08\0\x04text\0\x0bNo entrance\0";
    for (protocol, login) in [
        (47, Login::Kick(json!({"text": "No ", "extra": ["entrance"]}).to_string())),
        (777, Login::Kick(json!("No entrance").to_string())),
        (764, Login::Raw([success(764), Body::new().string("\"No entrance\"").packet(1)].concat())),
        (767, Login::Raw([success(767), Body::new().raw(nbt).packet(2)].concat())),
        (776, Login::Raw([into_the_game(776), Body::new().raw(nbt).packet(0x20)].concat())),
    ] {
        let backend = backend(login).await;
        let address = backend.address().to_string();
        let said = run(&["join", &address, "--protocol", &protocol.to_string(), "--stay", "20"]).await;
        assert_eq!(said.code, 1, "{protocol}: {}", said.err);
        assert!(said.out.contains("\n  No entrance\n"), "{protocol}: {}", said.out);
    }
}

#[tokio::test]
async fn transfers_are_followed_with_their_cookies() {
    let second = backend(Login::Raw(into_the_game(767))).await;
    // In the login already, so that the answer is sure to be among what is recorded.
    let ask = Body::new().string("sg:token").packet(5);
    second.set(|behaviour| behaviour.login = Login::Raw([ask, into_the_game(767)].concat()));
    let cookie = Body::new().string("sg:token").bytes(b"secret").packet(0x0a);
    let port = second.address().port();
    let transfer = Body::new().string("localhost").varint(port.into()).packet(0x0b);
    let first = backend(Login::Raw([success(767), cookie, transfer].concat())).await;

    let (code, json) = join(&first.address().to_string(), &["--protocol", "767"]).await;
    assert_eq!((code, &json["outcome"]), (0, &"joined".into()), "{json}");
    assert_eq!(json["transfers"], json!([format!("localhost:{port}")]));
    let state = second.wait_for("the end of the connection", LIMIT, |state| state.open() == 0).await;
    let handshake = state.connections[0].handshake.as_ref().unwrap();
    assert_eq!((handshake.intent, &handshake.host[..], handshake.port), (TRANSFER, &b"localhost"[..], port));
    let answer = Body::new().string("sg:token").bool(true).bytes(b"secret").packet(4);
    assert!(state.connections[0].bytes.windows(answer.len()).any(|bytes| bytes == answer));
}

/// As the gate of a sleeping server does it: the room, the world, and back.
#[tokio::test]
async fn a_wait_is_walked_through_step_by_step() {
    let second = backend(Login::Raw(into_the_game(771))).await;
    let port = second.address().port();
    let text = |words: &str| Body::new().u8(8).u16(u16::try_from(words.len()).unwrap()).raw(words.as_bytes());
    let bar = |action: i32| Body::new().uuid(9).varint(action);
    let brand = Body::new().string("minecraft:brand").string("Swarmgate").packet(1);
    let dialog = b"\x0a\x08\0\x04type\0\x06notice\x08\0\x05title\0\x05Hello\0";
    let first = [
        success(771),
        Body::new().raw(dialog).packet(0x12),
        brand,
        Body::new().packet(3),
        Body::new().i32(1).packet(0x2b),
        text("Waking").packet(0x6b),
        bar(0).raw(&text("a while").0).f32(0.5).varint(0).varint(0).u8(0).packet(0x09),
        bar(2).f32(0.55).packet(0x09),
        bar(2).f32(0.7).packet(0x09),
        text("leave by leaving").bool(false).packet(0x72),
        Body::new().string("127.0.0.1").varint(port.into()).packet(0x7a),
    ];
    let first = backend(Login::Raw(first.concat())).await;
    let (code, json) = join(&first.address().to_string(), &["--protocol", "771"]).await;
    assert_eq!((code, &json["outcome"]), (0, &"joined".into()), "{json}");
    let steps = json["steps"].as_array().unwrap().iter().map(|step| (&step["step"], &step["text"]));
    let there = json!(format!("127.0.0.1:{port}"));
    let expected = [
        ("logged_in", Value::Null),
        ("dialog", "Hello".into()),
        ("world", Value::Null),
        ("title", "Waking".into()),
        ("boss_bar", "a while (50 %)".into()),
        ("boss_bar", "a while (70 %)".into()),
        ("chat", "leave by leaving".into()),
        ("transferred", there),
        ("logged_in", Value::Null),
        ("joined", Value::Null),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(step, text)| (json!(step), text)).collect();
    assert_eq!(steps.map(|(step, text)| (step.clone(), text.clone())).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn transfers_in_a_circle_end() {
    let server = backend(Login::Never).await;
    let port = server.address().port();
    let transfer = Body::new().string("127.0.0.1").varint(port.into()).packet(0x0b);
    server.set(|behaviour| behaviour.login = Login::Raw([success(776), transfer].concat()));
    let said = run(&["join", &server.address().to_string(), "--protocol", "776"]).await;
    assert_eq!(said.code, 2);
    assert!(said.err.contains("without an end"), "{}", said.err);
    assert_eq!(server.state().logins().count(), 4, "the first, and three transfers");
}

#[tokio::test]
async fn whoever_stays_answers_keep_alives() {
    let keep_alive = |id| Body::new().i64(0x0123_4567).packet(id);
    let backend = backend(Login::Raw([into_the_game(776), keep_alive(0x2c)].concat())).await;
    let (code, json) = join(&backend.address().to_string(), &["--protocol", "776", "--stay", "0.5"]).await;
    assert_eq!((code, &json["outcome"]), (0, &"joined".into()), "{json}");
    assert!(json["seconds"].as_f64().is_some_and(|seconds| seconds >= 0.5), "{json}");
    let state = backend.wait_for("the end of the connection", LIMIT, |state| state.open() == 0).await;
    assert!(state.connections[0].bytes.ends_with(&keep_alive(0x1c)));
}

#[tokio::test]
async fn a_wait_is_told() {
    let server = backend(Login::Never).await;
    let said = run(&["join", &server.address().to_string(), "--timeout", "2.5"]).await;
    assert_eq!(said.code, 2);
    assert!(said.err.contains("  waiting …\n") && said.err.contains("has been silent"), "{}", said.err);
}

/// With compression, registries, and everything else that real servers send.
#[tokio::test]
async fn servers_nobody_here_wrote_let_it_in() {
    let versions = ["1.8.8", "1.12.2", "1.16.5", "1.19.2", "1.20.1", "1.20.4", "1.20.6", "1.21.4", "1.21.8"];
    let Some(mut serve) = peers::node("serve.js") else { return };
    serve.arg("--until-eof").args(versions.map(|version| format!("{version}:0")));
    let mut serve = swarmgate_testkit::process::Process::start(&mut serve);
    for version in versions {
        let is = |event: &Value| event["event"] == "listening" && event["version"] == version;
        let listening = peers::event(&mut serve, version, SERVERS_START, is).await;
        let address = format!("127.0.0.1:{}", listening["port"]);
        let (code, json) = join(&address, &["--protocol", version]).await;
        assert_eq!((code, &json["outcome"]), (0, &"joined".into()), "{version}: {json}");
        assert_eq!(json["compression"], 256, "{version}");
        let is = |event: &Value| event["event"] == "joined" && event["version"] == version;
        let joined = peers::event(&mut serve, "a player", LIMIT, is).await;
        assert_eq!((&joined["name"], &joined["compressed"]), (&"Ann".into(), &true.into()), "{version}");
    }
}
