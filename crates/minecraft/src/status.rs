//! The server list ping since 1.7: the server's side, the client's side, and the answer between them
//! (minecraft.wiki, Java Edition protocol, Server List Ping).

mod answer;
mod summary;

use std::sync::Arc;

use serde_json::Value;

pub use answer::{Sample, StatusAnswer};
pub use summary::StatusSummary;

use crate::field::{Reader, write_text};
use crate::handshake::Handshake;
use crate::{Malformed, frame, varint};

/// The most bytes a server's response may take. Vanilla keeps below a tenth of it; modded servers do not.
pub const LONGEST_RESPONSE: usize = 512 * 1024;

/// The server's side of one connection, from behind the handshake on.
///
/// A client asks for the status and sends a ping in this order, but some send the ping alone, or both at once.
#[derive(Debug)]
pub struct Responder {
    response: Arc<[u8]>,
    received: Vec<u8>,
    answered: u8,
    ponged: u8,
}

/// What to do after some bytes came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// To be sent at once: the client does not wait long.
    pub bytes: Vec<u8>,
    /// Close when they are sent: nothing more is due.
    pub done: bool,
}

/// Why a server's bytes are no status response.
#[derive(Debug, thiserror::Error)]
pub enum ResponseError {
    #[error("the server's response is malformed")]
    Malformed(#[from] Malformed),
    #[error("the server's response is not JSON")]
    NotJson(#[source] serde_json::Error),
}

const REQUEST_ID: i32 = 0;
const PING_ID: i32 = 1;
/// The longest packet of a client: the ping.
const LONGEST_PACKET: usize = 10;
/// How often one connection is answered the same thing. Once is usual, twice happens.
const MOST_ANSWERS: u8 = 2;

impl Responder {
    /// `response`: the whole frame, as [`respond`] makes it.
    pub fn new(response: Arc<[u8]>) -> Self {
        Self { response, received: Vec::new(), answered: 0, ponged: 0 }
    }

    /// Takes what came, in whatever pieces. After an error or a reply that is done, the connection is over.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Reply, Malformed> {
        self.received.extend_from_slice(bytes);
        let received = std::mem::take(&mut self.received);
        let mut rest = received.as_slice();
        let mut reply = Reply::default();
        while !reply.done
            && let Some(frame) = frame::split(rest, LONGEST_PACKET)?
        {
            self.answer(frame.body, &mut reply)?;
            rest = rest.get(frame.consumed..).unwrap_or_default();
        }
        self.received = rest.to_vec();
        Ok(reply)
    }

    fn answer(&mut self, body: &[u8], reply: &mut Reply) -> Result<(), Malformed> {
        let mut fields = Reader::new(body);
        match fields.varint()? {
            REQUEST_ID => {
                fields.end()?;
                self.answered += 1;
                reply.bytes.extend_from_slice(&self.response);
            }
            PING_ID => {
                let payload = fields.i64()?;
                fields.end()?;
                self.ponged += 1;
                reply.bytes.extend(ping(payload));
            }
            other => return Err(Malformed::BadPacketId(other)),
        }
        let both = self.answered > 0 && self.ponged > 0;
        reply.done = both || self.answered == MOST_ANSWERS || self.ponged == MOST_ANSWERS;
        Ok(())
    }
}

/// The response frame with this JSON, which is as [`StatusAnswer::to_json`] gives it: at most 32 767 characters.
pub fn respond(json: &str) -> Vec<u8> {
    let mut body = vec![0];
    write_text(json, &mut body);
    frame::encode(&body)
}

/// What a client sends first: the handshake and the request.
pub fn request(handshake: &Handshake) -> Vec<u8> {
    let mut bytes = handshake.encode();
    bytes.extend([1, 0]);
    bytes
}

/// A ping, or the pong to it: both are the same frame.
pub fn ping(payload: i64) -> Vec<u8> {
    let mut body = vec![1];
    body.extend(payload.to_be_bytes());
    frame::encode(&body)
}

/// Reads the body of a pong.
pub fn parse_pong(body: &[u8]) -> Result<i64, Malformed> {
    let mut fields = Reader::new(body);
    match fields.varint()? {
        PING_ID => fields.i64(),
        other => Err(Malformed::BadPacketId(other)),
    }
}

/// Whether a frame's body is a status response, readable or not: enough to know that a game answers.
pub fn is_response(body: &[u8]) -> bool {
    matches!(varint::read(body), Ok(Some((0, _))))
}

/// Reads the body of a response. Plugins alter what servers send, so whatever follows the JSON, in the text or
/// behind it, is let pass, and the JSON may have any shape: see [`StatusSummary::of`].
pub fn parse_response(body: &[u8]) -> Result<Value, ResponseError> {
    let mut fields = Reader::new(body);
    match fields.varint()? {
        0 => {}
        other => return Err(Malformed::BadPacketId(other).into()),
    }
    let text = String::from_utf8_lossy(fields.counted_bytes()?);
    let mut values = serde_json::Deserializer::from_str(&text).into_iter();
    match values.next() {
        Some(value) => value.map_err(ResponseError::NotJson),
        None => Err(Malformed::Truncated.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::Intent;
    use proptest::prelude::*;
    use serde_json::json;

    const REQUEST: &[u8] = b"\x01\x00";
    const PING: &[u8] = b"\x09\x01\x00\x11\x22\x33\x44\x55\x66\x77";

    #[test]
    fn answers_in_any_order() {
        let response = respond("{}");
        assert_eq!(response, b"\x04\x00\x02{}");
        for (sent, answer, done) in [
            (&[][..], vec![], false),
            (&[REQUEST], vec![&response[..]], false),
            (&[REQUEST, PING], vec![&response, PING], true),
            (&[PING], vec![PING], false),
            (&[PING, REQUEST], vec![PING, &response], true),
            (&[PING, PING, PING], vec![PING, PING], true),
            (&[REQUEST, REQUEST, REQUEST], vec![&response, &response], true),
            (&[REQUEST, PING, b"\xff\xff\xff"], vec![&response, PING], true),
        ] {
            let sent = sent.concat();
            let whole = Reply { bytes: answer.concat(), done };
            assert_eq!(Responder::new(respond("{}").into()).feed(&sent), Ok(whole.clone()), "{sent:02x?}");
            let mut responder = Responder::new(respond("{}").into());
            let mut pieces = Reply::default();
            for byte in sent.chunks(1) {
                if !pieces.done {
                    let reply = responder.feed(byte).unwrap();
                    pieces = Reply { bytes: [pieces.bytes, reply.bytes].concat(), done: reply.done };
                }
            }
            assert_eq!(pieces, whole, "{sent:02x?}");
        }
    }

    #[test]
    fn refuses() {
        for (sent, why) in [
            (&b"\x00"[..], Malformed::EmptyFrame),
            (b"\x0a\x01", Malformed::Oversized { claimed: 11, limit: 10 }),
            (b"\x01\x02", Malformed::BadPacketId(2)),
            (b"\x02\x00\x00", Malformed::Trailing(1)),
            (b"\x03\x01\x00\x00", Malformed::Truncated),
        ] {
            assert_eq!(Responder::new(respond("{}").into()).feed(sent), Err(why), "{sent:02x?}");
        }
    }

    #[test]
    fn responses() {
        for (text, after, expected) in [
            (r#"{"a":1}"#, &b""[..], Some(json!({"a": 1}))),
            (r#"{"a":1}"#, b"\x00more", Some(json!({"a": 1}))),
            (r#"{"a":1} trailing"#, b"", Some(json!({"a": 1}))),
            (r#""just text""#, b"", Some(json!("just text"))),
            ("", b"", None),
            ("<html>", b"", None),
        ] {
            let mut body = vec![0];
            write_text(text, &mut body);
            body.extend(after);
            assert!(is_response(&body));
            assert_eq!(parse_response(&body).ok(), expected, "{text}");
        }
        let mut deep = vec![0];
        write_text(&"[".repeat(100_000), &mut deep);
        assert!(matches!(parse_response(&deep), Err(ResponseError::NotJson(_))));
        assert!(!is_response(b"\x01") && !is_response(b""));
    }

    #[test]
    fn what_a_client_sends() {
        let address = "mc.example.com".to_owned();
        let handshake = Handshake { protocol: 767, address, port: 25565, intent: Intent::Status };
        assert_eq!(request(&handshake), b"\x15\x00\xff\x05\x0emc.example.com\x63\xdd\x01\x01\x00");
        assert_eq!(ping(0x0011_2233_4455_6677), PING);
        assert_eq!(parse_pong(&PING[1..]), Ok(0x0011_2233_4455_6677));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(pieces: Vec<Vec<u8>>) {
            let mut responder = Responder::new(respond("{}").into());
            for piece in pieces {
                if responder.feed(&piece).map_or(true, |reply| reply.done) {
                    break;
                }
            }
        }
    }
}
