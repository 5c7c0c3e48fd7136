//! The login's first packet, in the layouts of every version, and its disconnect (minecraft.wiki, Java Edition
//! protocol, Login).

use serde_json::Value;
use uuid::Uuid;

use crate::field::{Reader, write_text};
use crate::{Malformed, frame, varint};

/// The most characters a name may have. Accounts have 1 to 16, but proxies and bridges put prefixes before
/// them, so there is room for those; what a name may look like is for the server to say.
pub const LONGEST_NAME: usize = 64;

/// Who wants to play. Nothing in it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginStart {
    pub name: String,
    /// As the client claims; sent since 1.19.1, always since 1.20.2.
    pub uuid: Option<Uuid>,
    /// The public key, DER, with which clients of 1.19 to 1.19.2 sign.
    pub key: Option<Vec<u8>>,
}

impl LoginStart {
    pub const ID: i32 = 0;

    /// Reads the body of a frame from a client of `protocol`.
    pub fn parse(body: &[u8], protocol: i32) -> Result<Self, Malformed> {
        let mut fields = Reader::new(body);
        match fields.varint()? {
            Self::ID => {}
            other => return Err(Malformed::BadPacketId(other)),
        }
        let name = fields.text(LONGEST_NAME)?.to_owned();
        if name.is_empty() {
            return Err(Malformed::EmptyName);
        }
        let layout = Layout::of(protocol);
        let key = match layout {
            Layout::Key | Layout::KeyAndUuid => optional_key(&mut fields)?,
            Layout::Name | Layout::OptionalUuid | Layout::Uuid | Layout::Unknown => None,
        };
        let uuid = match layout {
            Layout::Name | Layout::Key => None,
            Layout::KeyAndUuid => optional_uuid(&mut fields)?,
            Layout::OptionalUuid => optional_uuid(&mut fields)?,
            Layout::Uuid => Some(fields.uuid()?),
            Layout::Unknown => fields.uuid().ok(),
        };
        match layout {
            // A version we do not know may have added fields.
            Layout::Unknown => {}
            Layout::Name | Layout::Key | Layout::KeyAndUuid | Layout::OptionalUuid | Layout::Uuid => {
                fields.end()?
            }
        }
        Ok(Self { name, uuid, key })
    }

    /// The whole frame, as a client of `protocol` without a chat key sends it.
    pub fn encode(&self, protocol: i32) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.name.len() + 24);
        varint::write(Self::ID, &mut body);
        write_text(&self.name, &mut body);
        match Layout::of(protocol) {
            Layout::Name => {}
            Layout::Key => body.push(0),
            Layout::KeyAndUuid => {
                body.push(0);
                write_optional_uuid(self.uuid, &mut body);
            }
            Layout::OptionalUuid => write_optional_uuid(self.uuid, &mut body),
            Layout::Uuid | Layout::Unknown => body.extend(self.uuid.unwrap_or_default().into_bytes()),
        }
        frame::encode(&body)
    }
}

/// The frame that ends a login with a reason, a text component. It is JSON here in every version, also in those
/// that write NBT everywhere else.
pub fn disconnect(reason: &Value) -> Vec<u8> {
    let mut body = vec![0];
    write_text(&reason.to_string(), &mut body);
    frame::encode(&body)
}

/// The frame that asks a client of 1.20.5 or newer for a cookie that an earlier connection left.
pub fn cookie_request(key: &str) -> Vec<u8> {
    let mut body = vec![5];
    write_text(key, &mut body);
    frame::encode(&body)
}

/// Reads the body of the answer to [`cookie_request`]: the cookie, if the client has it.
pub fn parse_cookie<'a>(body: &'a [u8], key: &str) -> Result<Option<&'a [u8]>, Malformed> {
    let mut fields = Reader::new(body);
    match fields.varint()? {
        4 => {}
        other => return Err(Malformed::BadPacketId(other)),
    }
    let same = fields.text(LONGEST_KEY)? == key;
    let cookie = if fields.bool()? { Some(fields.counted_bytes()?) } else { None };
    fields.end()?;
    Ok(cookie.filter(|_| same))
}

const LONGEST_KEY: usize = 256;

/// Reads the body of a disconnect: the reason as JSON, or as plain text where a server sent no JSON.
pub fn parse_disconnect(body: &[u8]) -> Result<Value, Malformed> {
    let mut fields = Reader::new(body);
    match fields.varint()? {
        0 => {}
        other => return Err(Malformed::BadPacketId(other)),
    }
    fields.text(LONGEST_REASON).map(reason)
}

/// A reason as JSON, or as plain text where a server sent no JSON.
pub(crate) fn reason(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// The game's own bound on a component.
pub(crate) const LONGEST_REASON: usize = 262_144;

/// What follows the name.
#[derive(Clone, Copy)]
enum Layout {
    /// Up to 1.18.2.
    Name,
    /// 1.19.
    Key,
    /// 1.19.1 and 1.19.2.
    KeyAndUuid,
    /// 1.19.3 to 1.20.1.
    OptionalUuid,
    /// Since 1.20.2.
    Uuid,
    /// Snapshots, and releases newer than this program: read like the newest, but not held to it.
    Unknown,
}

impl Layout {
    const fn of(protocol: i32) -> Self {
        match protocol {
            ..=758 => Self::Name,
            759 => Self::Key,
            760 => Self::KeyAndUuid,
            761..=763 => Self::OptionalUuid,
            764..=777 => Self::Uuid,
            778.. => Self::Unknown,
        }
    }
}

/// The chat key of 1.19: when it expires, the key, a signature.
fn optional_key(fields: &mut Reader<'_>) -> Result<Option<Vec<u8>>, Malformed> {
    if !fields.bool()? {
        return Ok(None);
    }
    fields.i64()?;
    let key = fields.counted_bytes()?.to_vec();
    fields.counted_bytes()?;
    Ok(Some(key))
}

fn optional_uuid(fields: &mut Reader<'_>) -> Result<Option<Uuid>, Malformed> {
    if fields.bool()? { fields.uuid().map(Some) } else { Ok(None) }
}

fn write_optional_uuid(uuid: Option<Uuid>, out: &mut Vec<u8>) {
    match uuid {
        Some(uuid) => {
            out.push(1);
            out.extend(uuid.into_bytes());
        }
        None => out.push(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: Uuid = Uuid::from_u128(0x069a_79f4_44e9_4726_a5be_fca9_0e38_aaf5);

    fn start(name: &str, uuid: Option<Uuid>) -> LoginStart {
        LoginStart { name: name.to_owned(), uuid, key: None }
    }

    fn signing(start: LoginStart) -> LoginStart {
        LoginStart { key: Some(b"kk".to_vec()), ..start }
    }

    #[test]
    fn layouts() {
        let with = |before: &[u8], uuid: &[u8]| [b"\x00\x03Ann", before, uuid].concat();
        let uuid = UUID.as_bytes();
        let key = b"\x01\0\0\0\0\0\0\0\x01\x02kk\x03sss";
        for (protocol, body, expected) in [
            (4, with(b"", b""), Ok(start("Ann", None))),
            (758, with(b"", b""), Ok(start("Ann", None))),
            (758, with(b"\0", b""), Err(Malformed::Trailing(1))),
            (759, with(b"\0", b""), Ok(start("Ann", None))),
            (759, with(key, b""), Ok(signing(start("Ann", None)))),
            (759, with(&key[..12], b""), Err(Malformed::Truncated)),
            (760, with(b"\0\x01", uuid), Ok(start("Ann", Some(UUID)))),
            (760, with(key, b"\0"), Ok(signing(start("Ann", None)))),
            (760, with(&[&key[..], b"\x01"].concat(), uuid), Ok(signing(start("Ann", Some(UUID))))),
            (761, with(b"\x01", uuid), Ok(start("Ann", Some(UUID)))),
            (763, with(b"\0", b""), Ok(start("Ann", None))),
            (764, with(b"", uuid), Ok(start("Ann", Some(UUID)))),
            (777, with(b"", uuid), Ok(start("Ann", Some(UUID)))),
            (777, with(b"", &uuid[..15]), Err(Malformed::Truncated)),
            (777, with(uuid, b"\0"), Err(Malformed::Trailing(1))),
            (900, with(uuid, b"more"), Ok(start("Ann", Some(UUID)))),
            (0x4000_0123, with(b"", b""), Ok(start("Ann", None))),
        ] {
            assert_eq!(LoginStart::parse(&body, protocol), expected, "{protocol} {body:02x?}");
        }
    }

    #[test]
    fn names() {
        for (name, expected) in [
            ("", Err(Malformed::EmptyName)),
            (".Bedrock Player", Ok(())),
            ("[lobby]a-name-longer-than-16", Ok(())),
            (&"a".repeat(64), Ok(())),
            (&"a".repeat(65), Err(Malformed::LongText { limit: 64 })),
        ] {
            let bytes = start(name, None).encode(47);
            assert_eq!(LoginStart::parse(&bytes[1..], 47).map(drop), expected, "{name:?}");
        }
    }

    #[test]
    fn disconnects() {
        let bytes = disconnect(&serde_json::json!({"text": "bye"}));
        assert_eq!(bytes, b"\x10\x00\x0e{\"text\":\"bye\"}");
        assert_eq!(parse_disconnect(&bytes[1..]), Ok(serde_json::json!({"text": "bye"})));
        assert_eq!(parse_disconnect(b"\x00\x03bye"), Ok(Value::String("bye".to_owned())));
        assert_eq!(parse_disconnect(b"\x01\x03bye"), Err(Malformed::BadPacketId(1)));
    }

    proptest! {
        #[test]
        fn round_trip_in_every_version(protocol in 4_i32..900, name in "\\PC{1,16}", id: Option<u128>) {
            let sent = start(&name, id.map(Uuid::from_u128));
            let bytes = sent.encode(protocol);
            let frame = frame::split(&bytes, 4096).unwrap().unwrap();
            let got = LoginStart::parse(frame.body, protocol).unwrap();
            let uuid = match protocol {
                ..=759 => None,
                760..=763 => sent.uuid,
                _ => Some(sent.uuid.unwrap_or_default()),
            };
            prop_assert_eq!(got, LoginStart { uuid, ..sent });
        }
    }
}
