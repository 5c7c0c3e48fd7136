//! A connection's first packets, up to where somebody must decide what to do with it.

use crate::handshake::{Handshake, Intent};
use crate::legacy;
use crate::login::LoginStart;
use crate::malformed::STRANGERS;
use crate::{Malformed, frame, varint};

/// What a connection turns out to want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Knock {
    Status {
        handshake: Handshake,
        consumed: usize,
    },
    /// Also a transfer: see the handshake's intent.
    Login {
        handshake: Handshake,
        start: LoginStart,
        consumed: usize,
    },
    LegacyPing(legacy::Ping),
    LegacyLogin(legacy::Login),
}

/// Reads what has arrived so far, from the first byte on. `None` if more bytes are needed.
///
/// - `limit`: the most bytes an opening may take; more is refused as soon as it is announced.
/// - `settled`: nothing more came for a short while. Only this tells a legacy ping of one or two bytes from the
///   beginning of something longer.
///
/// However the bytes are split into segments, the answer is the same, and the beginning of a valid opening is
/// never malformed.
pub fn parse(bytes: &[u8], limit: usize, settled: bool) -> Result<Option<Knock>, Malformed> {
    let bytes = bytes.get(..limit).unwrap_or(bytes);
    let knock = match bytes {
        [] => Ok(None),
        [legacy::LOGIN, ..] => legacy::Login::parse(bytes).map(|login| login.map(Knock::LegacyLogin)),
        // Followed by anything else it is the length of a modern frame, as in FE 01 00: 254 bytes, packet id 0.
        [legacy::PING] | [legacy::PING, 0x01] | [legacy::PING, 0x01, 0xfa, ..] => {
            Ok(legacy::Ping::parse(bytes, settled).map(Knock::LegacyPing))
        }
        _ => modern(bytes, limit, settled),
    }?;
    match knock {
        None if bytes.len() == limit => Err(Malformed::Oversized { claimed: limit.saturating_add(1), limit }),
        knock => Ok(knock),
    }
}

/// The handshake of a client that waits for its login to be answered, whatever follows it. What [`parse`] finds
/// malformed behind one can still be told so in the client's own words.
pub fn login_handshake(bytes: &[u8], limit: usize) -> Option<Handshake> {
    let (handshake, _) = first(bytes, limit).ok()??;
    match handshake.intent {
        Intent::Login | Intent::Transfer => Some(handshake),
        Intent::Status => None,
    }
}

fn modern(bytes: &[u8], limit: usize, settled: bool) -> Result<Option<Knock>, Malformed> {
    let (handshake, consumed) = match first(bytes, limit) {
        Ok(Some(first)) => first,
        Ok(None) => return Ok(None),
        Err(why) => return stranger(bytes, why, settled),
    };
    match handshake.intent {
        Intent::Status => Ok(Some(Knock::Status { handshake, consumed })),
        Intent::Login | Intent::Transfer => {
            let rest = bytes.get(consumed..).unwrap_or_default();
            let Some(frame) = packet(rest, limit.saturating_sub(consumed), LoginStart::ID)? else {
                return Ok(None);
            };
            let start = LoginStart::parse(frame.body, handshake.protocol)?;
            Ok(Some(Knock::Login { handshake, start, consumed: consumed + frame.consumed }))
        }
    }
}

/// The handshake and how long it is.
fn first(bytes: &[u8], limit: usize) -> Result<Option<(Handshake, usize)>, Malformed> {
    let Some(frame) = packet(bytes, limit, Handshake::ID)? else { return Ok(None) };
    Ok(Some((Handshake::parse(frame.body)?, frame.consumed)))
}

/// Splits off a frame with this packet id. The id is looked at as soon as it is there: a stranger's first bytes
/// may announce a long frame and then wait for an answer.
fn packet(bytes: &[u8], limit: usize, id: i32) -> Result<Option<frame::Frame<'_>>, Malformed> {
    let Some(header) = frame::header(bytes, limit)? else {
        return Ok(None);
    };
    let body = bytes.get(header.size..).unwrap_or_default();
    match varint::read(body.get(..header.body).unwrap_or(body))? {
        Some((other, _)) if other != id => Err(Malformed::BadPacketId(other)),
        Some(_) | None => frame::split(bytes, limit),
    }
}

/// Names the protocol of somebody who came to the wrong door. While the bytes may still become a known one's,
/// more of them are awaited.
fn stranger(bytes: &[u8], why: Malformed, settled: bool) -> Result<Option<Knock>, Malformed> {
    if let Some((_, known)) = STRANGERS.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Err(*known);
    }
    let undecided = !settled && STRANGERS.iter().any(|(start, _)| start.starts_with(bytes));
    if undecided { Ok(None) } else { Err(why) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    const LIMIT: usize = 4096;

    fn handshake(protocol: i32, address: &str, intent: Intent) -> Handshake {
        Handshake { protocol, address: address.to_owned(), port: 25565, intent }
    }

    fn login(protocol: i32, address: &str, intent: Intent) -> (Vec<u8>, Knock) {
        let handshake = handshake(protocol, address, intent);
        let uuid = (protocol >= 764).then(|| Uuid::from_u128(7));
        let start = LoginStart { name: "Ann".to_owned(), uuid, key: None };
        let bytes = [handshake.encode(), start.encode(protocol)].concat();
        let consumed = bytes.len();
        (bytes, Knock::Login { handshake, start, consumed })
    }

    /// What is known at the first byte that decides, if one does.
    fn byte_by_byte(bytes: &[u8]) -> Result<Option<Knock>, Malformed> {
        (0..=bytes.len())
            .map(|end| parse(&bytes[..end], LIMIT, false))
            .find(|outcome| *outcome != Ok(None))
            .unwrap_or(Ok(None))
    }

    #[test]
    fn the_same_however_it_is_split() {
        let status = handshake(767, "mc.example.com", Intent::Status);
        let consumed = status.encode().len();
        let any = handshake(-1, "", Intent::Status);
        let long = handshake(767, &"a".repeat(246), Intent::Status);
        assert_eq!(long.encode()[..3], [0xfe, 0x01, 0x00]);
        let longer = handshake(767, &"a".repeat(246 + 128), Intent::Status);
        assert_eq!(longer.encode()[..3], [0xfe, 0x02, 0x00]);
        let knock = |handshake: &Handshake| Knock::Status {
            handshake: handshake.clone(),
            consumed: handshake.encode().len(),
        };
        let mut cases = vec![
            (status.encode(), knock(&status)),
            ([&status.encode()[..], b"\x01\x00\x09\x01\x00\x11\x22\x33\x44\x55\x66\x77"].concat(), {
                Knock::Status { handshake: status.clone(), consumed }
            }),
            (any.encode(), knock(&any)),
            (long.encode(), knock(&long)),
            (longer.encode(), knock(&longer)),
        ];
        for protocol in [4, 47, 758, 759, 760, 763, 764, 777, 900] {
            cases.push(login(protocol, "mc.example.com\0FML2\0", Intent::Login));
        }
        cases.push(login(777, "mc.example.com", Intent::Transfer));
        for (bytes, expected) in cases {
            assert_eq!(parse(&bytes, LIMIT, false), Ok(Some(expected.clone())), "{bytes:02x?}");
            assert_eq!(byte_by_byte(&bytes), Ok(Some(expected)), "{bytes:02x?}");
        }
    }

    #[test]
    fn legacy_openings() {
        for (bytes, waits) in [(&b"\xfe"[..], true), (b"\xfe\x01", true), (b"\xfe\x01\xfa", true)] {
            assert_eq!(parse(bytes, LIMIT, false).unwrap().is_none(), waits);
            let settled = parse(bytes, LIMIT, true).unwrap();
            assert!(matches!(settled, Some(Knock::LegacyPing(_))), "{bytes:02x?}");
        }
        let login = parse(b"\x02\x00\x03\0A\0n\0n", LIMIT, false).unwrap();
        assert!(matches!(login, Some(Knock::LegacyLogin(login)) if login.name == "Ann"));
    }

    #[test]
    fn strangers_and_hostile_bytes() {
        let handshake = |rest: &[u8]| [&handshake(767, "a", Intent::Login).encode()[..], rest].concat();
        for (bytes, kind) in [
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), "tls"),
            (b"GET / HTTP/1.0\r\n".to_vec(), "http"),
            (b"POST / HTTP/1.0\r\n".to_vec(), "http"),
            (b"GEX".to_vec(), "bad_packet_id"),
            (b"SSH-2.0-x\r\n".to_vec(), "ssh"),
            (b"\x03\x00\x00\x13\x0e\xe0".to_vec(), "rdp"),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(), "proxy_header"),
            (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0".to_vec(), "proxy_header"),
            (vec![0], "empty_frame"),
            (vec![0xff, 0xff, 0x7f], "oversized"),
            (vec![0xff, 0xff, 0xff, 0xff, 0x07], "bad_length"),
            (vec![0xff, 0xff, 0xff, 0xff, 0x0f], "bad_length"),
            (vec![0x80; 6], "bad_length"),
            (b"\x05\x01\x00\x00\x00\x00".to_vec(), "bad_packet_id"),
            (b"\x06\x00\xff\xff\xff\xff\x1f".to_vec(), "bad_varint"),
            (b"\x0a\x00\xff\x05\x03\xff\xfe\x80\x63\xdd\x01".to_vec(), "not_unicode"),
            (b"\x0c\x00\xff\x05\xff\xff\xff\xff\x07\x01\x63\xdd\x01".to_vec(), "truncated"),
            (b"\x0c\x00\xff\x05\xff\xff\xff\xff\x0f\x01\x63\xdd\x01".to_vec(), "negative_length"),
            (b"\x08\x00\xff\x05\x01a\x63\xdd\x00".to_vec(), "bad_intent"),
            (handshake(b"\x00"), "empty_frame"),
            (handshake(b"\x02\x01\x00"), "bad_packet_id"),
            (handshake(b"\x12\x00\x00"), ""),
            (handshake(b"\xff\xff\x7f"), "oversized"),
            (handshake(&[b"\x12\x00\x00", &[0; 16][..]].concat()), "empty_name"),
            (b"\x02\x3d\xff\xff".to_vec(), "long_text"),
        ] {
            let outcome = byte_by_byte(&bytes);
            assert_eq!(outcome.as_ref().err().map_or("", |why| why.kind()), kind, "{bytes:02x?}");
        }
        assert_eq!(parse(b"GE", LIMIT, false), Ok(None));
        assert_eq!(parse(b"GE", LIMIT, true), Err(Malformed::BadPacketId(0x45)));
        assert_eq!(
            parse(&[0xfe, 0x01, 0xfa, 0], 4, false),
            Err(Malformed::Oversized { claimed: 5, limit: 4 })
        );
    }

    #[test]
    fn the_limit_is_for_the_whole_opening() {
        let (bytes, knock) = login(777, "mc.example.com", Intent::Login);
        assert_eq!(parse(&bytes, bytes.len(), false), Ok(Some(knock)));
        let short = parse(&bytes, bytes.len() - 1, false);
        assert!(matches!(short, Err(Malformed::Oversized { .. })), "{short:?}");
    }

    #[test]
    fn whose_login_it_was() {
        let sent = |intent, rest: &[u8]| [&handshake(767, "a", intent).encode()[..], rest].concat();
        let whole = sent(Intent::Login, b"");
        for (bytes, protocol) in [
            (sent(Intent::Login, b"\x02\x01\x00"), Some(767)),
            (sent(Intent::Transfer, b"\xff\xff\xff\xff"), Some(767)),
            (whole.clone(), Some(767)),
            (sent(Intent::Status, b"\x02\x01\x00"), None),
            (whole[..whole.len() - 1].to_vec(), None),
            (b"\x02\x3d\xff\xff".to_vec(), None),
            (b"\xfe\x01\xfa".to_vec(), None),
            (b"GET / HTTP/1.0\r\n".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(login_handshake(&bytes, LIMIT).map(|known| known.protocol), protocol, "{bytes:02x?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_one_answer(bytes: Vec<u8>) {
            prop_assert_eq!(byte_by_byte(&bytes), parse(&bytes, LIMIT, false));
        }

        #[test]
        fn a_damaged_opening_gives_one_answer(
            protocol in 0_i32..900, at in 0_usize..60, byte: u8, cut in 0_usize..60,
        ) {
            let (mut bytes, _) = login(protocol, "mc.example.com\0FML2\0", Intent::Login);
            if let Some(damaged) = bytes.get_mut(at) {
                *damaged = byte;
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            prop_assert_eq!(byte_by_byte(&bytes), parse(&bytes, LIMIT, false));
        }
    }
}
