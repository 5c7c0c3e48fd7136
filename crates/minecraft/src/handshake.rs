//! The first packet of every connection since 1.7 (minecraft.wiki, Java Edition protocol, Handshaking).

use crate::field::{Reader, write_text};
use crate::{Malformed, frame, varint};

/// The most characters an address may have. Vanilla clients keep to 255, but a proxy that forwards signed
/// properties in it does not, and the protocol's own bound on a text is this one.
pub const LONGEST_ADDRESS: usize = 32_767;

/// What a client says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// The client's protocol number; -1 is what some pingers send.
    pub protocol: i32,
    /// The address field as sent, tails included. See [`crate::address::Address::cut`].
    pub address: String,
    pub port: u16,
    pub intent: Intent,
}

/// What the connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Intent {
    Status,
    Login,
    /// A login by a client that another server sent here (1.20.5 and newer).
    Transfer,
}

/// What to change in a handshake on its way to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rewrite<'a> {
    /// Another host in place of the one sent; what follows the host in the field is kept.
    pub host: Option<&'a str>,
    pub intent: Option<Intent>,
}

impl Handshake {
    pub const ID: i32 = 0;

    /// Reads the body of a frame.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new(body);
        match fields.varint()? {
            Self::ID => {}
            other => return Err(Malformed::BadPacketId(other)),
        }
        let handshake = Self {
            protocol: fields.varint()?,
            address: fields.text(LONGEST_ADDRESS)?.to_owned(),
            port: fields.u16()?,
            intent: Intent::from_number(fields.varint()?)?,
        };
        fields.end()?;
        Ok(handshake)
    }

    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.address.len() + 16);
        varint::write(Self::ID, &mut body);
        varint::write(self.protocol, &mut body);
        write_text(&self.address, &mut body);
        body.extend(self.port.to_be_bytes());
        varint::write(self.intent.number(), &mut body);
        frame::encode(&body)
    }
}

impl Intent {
    pub const fn number(self) -> i32 {
        match self {
            Self::Status => 1,
            Self::Login => 2,
            Self::Transfer => 3,
        }
    }

    const fn from_number(number: i32) -> Result<Self, Malformed> {
        match number {
            1 => Ok(Self::Status),
            2 => Ok(Self::Login),
            3 => Ok(Self::Transfer),
            other => Err(Malformed::BadIntent(other)),
        }
    }
}

/// Rewrites the handshake at the front of an opening, and keeps every byte that is not asked to change: those
/// of the packets behind it, the address's tail, and the way the numbers are written.
///
/// # Errors
/// The opening does not begin with a whole, well-formed handshake.
pub fn rewrite(opening: &[u8], change: &Rewrite<'_>) -> Result<Vec<u8>, Malformed> {
    let frame = frame::split(opening, usize::MAX)?.ok_or(Malformed::Truncated)?;
    Handshake::parse(frame.body)?;

    let mut fields = Reader::new(frame.body);
    fields.varint()?;
    fields.varint()?;
    let to_address = frame.body.len() - fields.rest().len();
    let address = fields.text(LONGEST_ADDRESS)?;
    let port = fields.array::<2>()?;
    let intent = fields.rest();

    let mut body = frame.body.get(..to_address).unwrap_or_default().to_vec();
    match change.host {
        Some(host) => {
            let rest = crate::address::Address::cut(address).rest;
            write_text(&format!("{host}{rest}"), &mut body);
        }
        None => write_text(address, &mut body),
    }
    body.extend(port);
    match change.intent {
        Some(intent) => varint::write(intent.number(), &mut body),
        None => body.extend(intent),
    }
    let mut rewritten = frame::encode(&body);
    rewritten.extend(opening.get(frame.consumed..).unwrap_or_default());
    Ok(rewritten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn handshake(address: &str, intent: Intent) -> Handshake {
        Handshake { protocol: 767, address: address.to_owned(), port: 25565, intent }
    }

    #[test]
    fn known_bytes() {
        let bytes = b"\x15\x00\xff\x05\x0emc.example.com\x63\xdd\x01";
        assert_eq!(handshake("mc.example.com", Intent::Status).encode(), bytes);
        assert_eq!(Handshake::parse(&bytes[1..]), Ok(handshake("mc.example.com", Intent::Status)));
        let forge = b"\x1b\x00\xff\x05\x14mc.example.com\0FML3\0\x63\xdd\x02";
        assert_eq!(Handshake::parse(&forge[1..]), Ok(handshake("mc.example.com\0FML3\0", Intent::Login)));
        let forge = b"\x1b\x00\xff\x05\x14mc.example.com\0FORGE\x63\xdd\x03";
        assert_eq!(Handshake::parse(&forge[1..]), Ok(handshake("mc.example.com\0FORGE", Intent::Transfer)));
        let any = b"\x00\xff\xff\xff\xff\x0f\x01a\x63\xdd\x01";
        assert_eq!(Handshake::parse(any).map(|h| h.protocol), Ok(-1));
    }

    #[test]
    fn malformed() {
        for (body, why) in [
            (&b"\x00\xff\x05\x01a\x63\xdd\x04"[..], Malformed::BadIntent(4)),
            (b"\x00\xff\x05\x01a\x63\xdd\x01\x00", Malformed::Trailing(1)),
            (b"\x00\xff\x05\x01a\x63\xdd", Malformed::Truncated),
            (b"\x01\xff\x05\x01a\x63\xdd\x01", Malformed::BadPacketId(1)),
            (b"\x00\xff\x05\x03\xff\xfe\x80\x63\xdd\x01", Malformed::NotUnicode),
            (b"\x00\xff\x05\xff\xff\xff\xff\x0f\x63\xdd\x01", Malformed::NegativeLength),
            (b"\x00\xff\x05\xff\xff\xff\xff\x07\x63\xdd\x01", Malformed::Truncated),
        ] {
            assert_eq!(Handshake::parse(body), Err(why), "{body:02x?}");
        }
    }

    #[test]
    fn forwarded_addresses_are_long() {
        for length in [300, 1406, 2504, 32_767] {
            let sent = handshake(&"a".repeat(length), Intent::Login);
            let bytes = sent.encode();
            let frame = frame::split(&bytes, 40 * 1024).unwrap().unwrap();
            assert_eq!(Handshake::parse(frame.body), Ok(sent), "{length}");
        }
        let too_long = handshake(&"a".repeat(32_768), Intent::Login).encode();
        assert_eq!(Handshake::parse(&too_long[3..]), Err(Malformed::LongText { limit: LONGEST_ADDRESS }));
    }

    #[test]
    fn rewriting_keeps_the_rest() {
        // The protocol number and the length are written longer than they need to be.
        let opening = b"\x9a\x00\x00\xff\x85\x00\x12mc.example.com\0FML\x63\xdd\x03\x03\x00\x01x";
        assert_eq!(
            rewrite(opening, &Rewrite { host: Some("b"), intent: Some(Intent::Login) }).unwrap(),
            b"\x0d\x00\xff\x85\x00\x05b\0FML\x63\xdd\x02\x03\x00\x01x"
        );
        assert_eq!(
            rewrite(opening, &Rewrite { host: None, intent: Some(Intent::Login) }).unwrap(),
            b"\x1a\x00\xff\x85\x00\x12mc.example.com\0FML\x63\xdd\x02\x03\x00\x01x"
        );
        assert_eq!(rewrite(&opening[..9], &Rewrite::default()), Err(Malformed::Truncated));
    }

    proptest! {
        #[test]
        fn round_trip(protocol: i32, address in "\\PC{0,40}(\0FML2\0)?", port: u16, n in 0_usize..3) {
            let intent = [Intent::Status, Intent::Login, Intent::Transfer][n];
            let sent = Handshake { protocol, address, port, intent };
            let bytes = sent.encode();
            let frame = frame::split(&bytes, 4096).unwrap().unwrap();
            prop_assert_eq!(Handshake::parse(frame.body), Ok(sent));
            prop_assert_eq!(rewrite(&bytes, &Rewrite::default()), Ok(bytes));
        }
    }
}
