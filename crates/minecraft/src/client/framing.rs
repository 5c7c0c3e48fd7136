//! How packets travel since Set Compression: after a VarInt, which is 0 before a packet as it is, and otherwise
//! its size before zlib has shrunk it (minecraft.wiki, Java Edition protocol, Packet format).

use std::borrow::Cow;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use crate::field::Reader;
use crate::{Malformed, frame, varint};

/// The most bytes one packet may have when it is unfolded: the game's own bound.
const LONGEST_PACKET: usize = 8 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Plain,
    /// Packets of `threshold` bytes and more are compressed.
    Compressed {
        threshold: usize,
    },
}

impl Framing {
    /// What a Set Compression asks for; a negative threshold switches it off.
    pub(super) fn of_threshold(threshold: i32) -> Self {
        usize::try_from(threshold).map_or(Self::Plain, |threshold| Self::Compressed { threshold })
    }

    /// The packet in a frame's body.
    pub(super) fn open(self, body: &[u8]) -> Result<Cow<'_, [u8]>, Malformed> {
        match self {
            Self::Plain => Ok(Cow::Borrowed(body)),
            Self::Compressed { .. } => {
                let mut fields = Reader::new(body);
                match usize::try_from(fields.varint()?).map_err(|_| Malformed::NegativeLength)? {
                    0 => Ok(Cow::Borrowed(fields.rest())),
                    size => unfold(fields.rest(), size).map(Cow::Owned),
                }
            }
        }
    }

    /// The whole frame around a packet.
    pub(super) fn seal(self, packet: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => frame::encode(packet),
            Self::Compressed { threshold } if packet.len() < threshold => {
                frame::encode(&[&[0], packet].concat())
            }
            Self::Compressed { .. } => {
                let mut body = Vec::new();
                varint::write(i32::try_from(packet.len()).unwrap_or(i32::MAX), &mut body);
                fold(packet, &mut body);
                frame::encode(&body)
            }
        }
    }
}

/// Grows with what is really there, and never beyond `size`.
fn unfold(zlib: &[u8], size: usize) -> Result<Vec<u8>, Malformed> {
    if size > LONGEST_PACKET {
        return Err(Malformed::Oversized { claimed: size, limit: LONGEST_PACKET });
    }
    let mut packet = Vec::new();
    let one_more = u64::try_from(size).unwrap_or(u64::MAX).saturating_add(1);
    let unfolded = ZlibDecoder::new(zlib).take(one_more).read_to_end(&mut packet);
    match unfolded {
        Ok(read) if read == size => Ok(packet),
        Ok(_) | Err(_) => Err(Malformed::BadCompression),
    }
}

fn fold(packet: &[u8], out: &mut Vec<u8>) {
    let mut encoder = ZlibEncoder::new(out, Compression::default());
    // Writing to memory does not fail.
    let _ = encoder.write_all(packet).and_then(|()| encoder.try_finish());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FRAMING: Framing = Framing::Compressed { threshold: 4 };

    #[test]
    fn known_bytes() {
        assert_eq!(Framing::Plain.seal(b"\x03"), b"\x01\x03");
        assert_eq!(FRAMING.seal(b"abc"), b"\x04\x00abc");
        // As Python's zlib writes eight times the letter.
        let shrunk = b"\x08\x78\x9c\x4b\x4c\x84\x00\x00\x0d\xac\x03\x09";
        assert_eq!(FRAMING.open(shrunk).as_deref(), Ok(&b"aaaaaaaa"[..]));
        assert_eq!(FRAMING.open(b"\0abc").as_deref(), Ok(&b"abc"[..]));
        assert_eq!(Framing::of_threshold(-1), Framing::Plain);
    }

    #[test]
    fn lies_about_sizes() {
        let sealed = FRAMING.seal(&[7; 5000]);
        let body = frame::split(&sealed, 4096).unwrap().unwrap().body;
        let lied = |size: i32| {
            let mut lie = Vec::new();
            varint::write(size, &mut lie);
            lie.extend_from_slice(&body[2..]);
            FRAMING.open(&lie).map(|packet| packet.len())
        };
        assert_eq!(lied(5000), Ok(5000));
        assert_eq!(lied(4999), Err(Malformed::BadCompression));
        assert_eq!(lied(5001), Err(Malformed::BadCompression));
        assert_eq!(lied(-1), Err(Malformed::NegativeLength));
        let limit = LONGEST_PACKET;
        assert_eq!(lied(8_388_609), Err(Malformed::Oversized { claimed: limit + 1, limit }));
        assert_eq!(FRAMING.open(b"\x05noise"), Err(Malformed::BadCompression));
    }

    proptest! {
        #[test]
        fn round_trip(packet in proptest::collection::vec(any::<u8>(), 1..600), threshold in 0_usize..600) {
            let framing = Framing::Compressed { threshold };
            let sealed = framing.seal(&packet);
            let frame = frame::split(&sealed, 4096).unwrap().unwrap();
            prop_assert_eq!(framing.open(frame.body).unwrap().into_owned(), packet);
        }
    }
}
