use serde_json::json;

use super::*;

const UUID: [u8; 16] = [7; 16];

/// A server's packet: id and fields.
fn packet(id: i32, fields: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    varint::write(id, &mut body);
    body.extend(fields);
    body
}

fn success(protocol: i32) -> Vec<u8> {
    let tail: &[u8] = match protocol {
        ..=758 => b"",
        766..=767 => b"\0\x01",
        759..=775 => b"\0",
        776.. => b"\0\x05\x05\x05\x05\x05\x05\x05\x05\x05\x05\x05\x05\x05\x05\x05\x05",
    };
    let uuid = if protocol < 735 {
        [b"\x24", Uuid::from_bytes(UUID).to_string().as_bytes()].concat()
    } else {
        UUID.to_vec()
    };
    packet(2, &[&uuid[..], b"\x03Ann", tail].concat())
}

/// Feeds plain packets one byte at a time; what the client sent, packet by packet, and its last event.
fn run(client: &mut Client, packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, Option<Event>) {
    let mut sent = Vec::new();
    let mut last = None;
    for byte in packets.iter().flat_map(|packet| frame::encode(packet)) {
        client.receive(&[byte]);
        while let Some(step) = client.step().unwrap() {
            let mut rest = &step.send[..];
            while let Some(frame) = frame::split(rest, LONGEST_FRAME).unwrap() {
                sent.push(frame.body.to_vec());
                rest = &rest[frame.consumed..];
            }
            last = step.event.or(last);
        }
    }
    (sent, last)
}

fn client(protocol: i32) -> Client {
    Client::new(protocol, Cookies::new())
}

#[test]
fn before_the_configuration_phase_a_login_is_a_join() {
    for protocol in [4, 47, 340, 735, 758, 759, 763] {
        let mut client = client(protocol);
        assert_eq!(run(&mut client, &[success(protocol)]), (vec![], Some(Event::Joined)), "{protocol}");
        assert_eq!(client.seen().player, Some(("Ann".to_owned(), Some(Uuid::from_bytes(UUID)))));
        assert!(!client.can_stay());
    }
}

#[test]
fn through_the_configuration_phase_into_the_game() {
    for (protocol, finish, keep_alive, answered) in [
        (764, 2, 0x24, 0x14),
        (765, 2, 0x24, 0x15),
        (767, 3, 0x26, 0x18),
        (776, 3, 0x2c, 0x1c),
        (777, 3, 0x2d, 0x1c),
    ] {
        let mut client = client(protocol);
        let (sent, event) = run(&mut client, &[success(protocol), packet(finish, b"")]);
        let ids: Vec<u8> = sent.iter().map(|packet| packet[0]).collect();
        let brand = if protocol < 766 { 1 } else { 2 };
        assert_eq!((ids, event), (vec![3, brand, 0, u8::try_from(finish).unwrap()], None), "{protocol}");
        assert_eq!(sent[1][1..], *b"\x0fminecraft:brand\x07vanilla");
        let (sent, event) = run(&mut client, &[packet(keep_alive, b"12345678")]);
        assert_eq!((sent, event), (vec![packet(answered, b"12345678")], Some(Event::Joined)), "{protocol}");
    }
}

#[test]
fn what_a_server_may_ask() {
    let cookie = |answer: &[u8]| packet(1, answer);
    for (protocol, asked, answer) in [
        (764, packet(3, b"12345678"), Some(packet(3, b"12345678"))),
        (764, packet(6, b"\x01u\x01h\x01\0"), Some(packet(5, b"\x01"))),
        (765, packet(7, &UUID), Some(packet(5, &[&UUID[..], b"\x01"].concat()))),
        (766, packet(5, b"1234"), Some(packet(5, b"1234"))),
        (766, packet(9, &UUID), Some(packet(6, &[&UUID[..], b"\x01"].concat()))),
        (767, packet(0x0e, b"\x00"), Some(packet(7, b"\0"))),
        (767, packet(0x0e, b"\x01\x09minecraft\x04core\x061.20.6"), Some(packet(7, b"\0"))),
        (
            767,
            packet(0x0e, b"\x02\x09minecraft\x04core\x041.21\x09minecraft\x04core\x061.21.1"),
            Some(packet(7, b"\x01\x09minecraft\x04core\x061.21.1")),
        ),
        (767, packet(0x00, b"\x03a:b"), Some(cookie(b"\x03a:b\0"))),
        (773, packet(0x13, b"\x04Rule"), Some(packet(9, b""))),
        (777, packet(0x0f, b"\x00"), Some(packet(7, b"\0"))),
        (777, packet(0x07, b"\x03a:b\0"), None),
    ] {
        let mut client = client(protocol);
        run(&mut client, &[success(protocol)]);
        let (sent, event) = run(&mut client, std::slice::from_ref(&asked));
        assert_eq!((sent.first(), event), (answer.as_ref(), None), "{protocol} {asked:02x?}");
    }
    let (sent, _) = run(&mut client(393), &[packet(4, b"\x07\x03a:bdata"), packet(5, b"\x03a:b")]);
    assert_eq!(sent, [packet(2, b"\x07\0"), packet(4, b"\x03a:b\0")]);
}

#[test]
fn cookies_go_along() {
    let mut first = client(767);
    let store = packet(0x0a, b"\x03a:b\x02hi");
    let transfer = packet(0x0b, b"\x09localhost\xdd\xc7\x01");
    let (_, event) = run(&mut first, &[success(767), store, transfer]);
    assert_eq!(event, Some(Event::Transferred { host: "localhost".to_owned(), port: 25565 }));
    let mut second = Client::new(767, first.into_cookies());
    let (sent, _) = run(&mut second, &[packet(5, b"\x03a:b")]);
    assert_eq!(sent, [packet(4, b"\x03a:b\x01\x02hi")]);
}

#[test]
fn ways_to_end() {
    let bye = || Some(Event::SentAway(json!({"text": "bye"})));
    let text = &b"\x0e{\"text\":\"bye\"}"[..];
    let nbt = nbt::network(&json!({"text": "bye"}));
    for (protocol, packets, expected) in [
        (47, vec![packet(0, text)], bye()),
        (777, vec![packet(0, text)], bye()),
        (764, vec![success(764), packet(1, text)], bye()),
        (765, vec![success(765), packet(1, &nbt)], bye()),
        (777, vec![success(777), packet(2, &nbt)], bye()),
        (764, vec![success(764), packet(2, b""), packet(0x1b, text)], bye()),
        (767, vec![success(767), packet(3, b""), packet(0x1d, &nbt)], bye()),
        (767, vec![packet(1, b"whatever")], Some(Event::ProofWanted)),
        (900, vec![success(900)], Some(Event::LoggedIn)),
        (0x4000_0123, vec![success(900)], Some(Event::LoggedIn)),
        (
            777,
            vec![success(777), packet(3, b""), packet(0x84, b"\x01h\x01")],
            Some(Event::Transferred { host: "h".to_owned(), port: 1 }),
        ),
    ] {
        assert_eq!(run(&mut client(protocol), &packets).1, expected, "{protocol} {packets:02x?}");
    }
}

#[test]
fn what_there_is_to_read() {
    let title = |words: &str| Event::Saw(Sight::Title(json!(words)));
    let brand = packet(1, b"\x0fminecraft:brand\x09Swarmgate");
    let text = nbt::network(&json!("hi"));
    let mut waiting = client(775);
    let (_, event) = run(&mut waiting, &[success(775), brand, packet(3, b""), packet(0x72, &text)]);
    assert_eq!((event, waiting.is_waiting()), (Some(title("hi")), true));
    let dialog = nbt::network(&json!({"type": "notice", "title": "hi"}));
    let mut room = client(777);
    let (_, event) = run(&mut room, &[success(777), packet(0x13, &dialog)]);
    assert_eq!(
        (event, room.is_waiting()),
        (Some(Event::Saw(Sight::Dialog { title: json!("hi"), body: vec![] })), false)
    );
}

#[test]
fn back_from_the_game_into_the_configuration() {
    let mut client = client(767);
    let (sent, _) = run(&mut client, &[success(767), packet(3, b""), packet(0x69, b"")]);
    assert_eq!((sent.last(), client.stage()), (Some(&packet(0x0c, b"")), Stage::Configuration));
}

#[test]
fn compression_begins_with_the_next_packet() {
    let mut client = client(767);
    let framing = Framing::Compressed { threshold: 10 };
    client.receive(&frame::encode(&packet(3, b"\x0a")));
    client.receive(&framing.seal(&success(767)));
    client.receive(&framing.seal(&packet(4, b"12345678")));
    let mut sent = Vec::new();
    while let Some(step) = client.step().unwrap() {
        sent.extend(step.send);
    }
    assert_eq!(client.seen().compression, Some(10));
    assert!(sent.starts_with(b"\x02\0\x03"), "{sent:02x?}");
    assert!(sent.ends_with(&framing.seal(&packet(4, b"12345678"))), "{sent:02x?}");
}

#[test]
fn bounds() {
    let mut strange = client(767);
    strange.receive(&frame::encode(&packet(9, b"")));
    assert_eq!(strange.step(), Err(Malformed::BadPacketId(9)));
    let mut long = client(767);
    let mut cookie = b"\x03a:b\x81\x28".to_vec();
    cookie.extend([0; 5121]);
    for packet in [success(767), packet(0x0a, &cookie)] {
        long.receive(&frame::encode(&packet));
    }
    long.step().unwrap();
    assert_eq!(long.step(), Err(Malformed::Oversized { claimed: 5121, limit: 5120 }));
}
