//! Frames: a VarInt length of at most 3 bytes, then that many bytes (minecraft.wiki, Java Edition protocol).
//! No compression: nothing is compressed before the login is over.

use crate::{Malformed, varint};

/// One frame at the front of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Packet id and fields.
    pub body: &'a [u8],
    /// Size of length and body together, in bytes.
    pub consumed: usize,
}

/// A frame's length field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Size of the length field itself, in bytes.
    pub size: usize,
    /// Size of the body it announces, in bytes.
    pub body: usize,
}

/// Splits one frame of at most `limit` bytes, its length field included, off the front. `None` if more bytes
/// are needed; a claim above the limit is refused before its bytes arrive.
pub fn split(bytes: &[u8], limit: usize) -> Result<Option<Frame<'_>>, Malformed> {
    let Some(Header { size, body }) = header(bytes, limit)? else {
        return Ok(None);
    };
    let consumed = size + body;
    Ok(bytes.get(size..consumed).map(|body| Frame { body, consumed }))
}

/// Reads a frame's length field alone.
pub fn header(bytes: &[u8], limit: usize) -> Result<Option<Header>, Malformed> {
    let Some((length, size)) = varint::read(bytes.get(..LONGEST_LENGTH).unwrap_or(bytes))? else {
        return if bytes.len() < LONGEST_LENGTH { Ok(None) } else { Err(Malformed::BadLength) };
    };
    let body = usize::try_from(length).map_err(|_| Malformed::BadLength)?;
    if body == 0 {
        return Err(Malformed::EmptyFrame);
    }
    if size + body > limit {
        return Err(Malformed::Oversized { claimed: size + body, limit });
    }
    Ok(Some(Header { size, body }))
}

/// Frames a body (packet id and fields).
pub fn encode(body: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(LONGEST_LENGTH + body.len());
    varint::write(i32::try_from(body.len()).unwrap_or(i32::MAX), &mut framed);
    framed.extend_from_slice(body);
    framed
}

const LONGEST_LENGTH: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths() {
        for (bytes, outcome) in [
            (&[][..], Ok(None)),
            (&[0x02], Ok(None)),
            (&[0x02, 0x00], Ok(None)),
            (&[0x02, 0x00, 0x01, 0x09], Ok(Some(Frame { body: &[0x00, 0x01], consumed: 3 }))),
            (&[0x00], Err(Malformed::EmptyFrame)),
            (&[0x80, 0x80], Ok(None)),
            (&[0x80, 0x80, 0x80], Err(Malformed::BadLength)),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], Err(Malformed::BadLength)),
            (&[0xff, 0xff, 0x7f], Err(Malformed::Oversized { claimed: 2_097_154, limit: 100 })),
            (&[100], Err(Malformed::Oversized { claimed: 101, limit: 100 })),
            (&[99], Ok(None)),
        ] {
            assert_eq!(split(bytes, 100), outcome, "{bytes:02x?}");
        }
    }

    proptest! {
        #[test]
        fn a_frame_survives_any_split(body in proptest::collection::vec(any::<u8>(), 1..300), after: Vec<u8>) {
            let mut bytes = encode(&body);
            let size = bytes.len();
            for end in 0..size {
                prop_assert_eq!(split(&bytes[..end], 4096), Ok(None));
            }
            bytes.extend(after);
            prop_assert_eq!(split(&bytes, 4096), Ok(Some(Frame { body: &body, consumed: size })));
        }
    }
}
