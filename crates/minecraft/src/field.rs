//! The fields inside a packet: a cursor to read them, functions to write them.

use uuid::Uuid;

use crate::{Malformed, varint};

/// Reads fields off the front of a packet's body, never past its end.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub const fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// What has not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    /// Any byte but zero is true, as in the game.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        self.u8().map(|byte| byte != 0)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub fn uuid(&mut self) -> Result<Uuid, Malformed> {
        self.array().map(Uuid::from_bytes)
    }

    pub fn varint(&mut self) -> Result<i32, Malformed> {
        let (value, size) = varint::read(self.rest)?.ok_or(Malformed::Truncated)?;
        self.bytes(size)?;
        Ok(value)
    }

    /// Bytes after their VarInt count.
    pub fn counted_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.varint()?;
        self.bytes(usize::try_from(count).map_err(|_| Malformed::NegativeLength)?)
    }

    /// UTF-8 text after its size in bytes, of at most `limit` characters. Characters are UTF-16 units, because
    /// the game counts those.
    pub fn text(&mut self, limit: usize) -> Result<&'a str, Malformed> {
        let bytes = self.counted_bytes()?;
        // A UTF-16 unit takes at most 3 bytes of UTF-8.
        if bytes.len() > limit.saturating_mul(3) {
            return Err(Malformed::LongText { limit });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::NotUnicode)?;
        if text.encode_utf16().count() > limit {
            return Err(Malformed::LongText { limit });
        }
        Ok(text)
    }

    /// UTF-16BE text after its length in units, as before 1.7.
    pub fn utf16_text(&mut self, limit: usize) -> Result<String, Malformed> {
        let units = usize::from(self.u16()?);
        if units > limit {
            return Err(Malformed::LongText { limit });
        }
        utf16(self.bytes(2 * units)?)
    }

    /// Fails if anything is left.
    pub const fn end(self) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Malformed::Trailing(left)),
        }
    }
}

/// Decodes UTF-16BE; an odd byte at the end is left out.
pub(crate) fn utf16(bytes: &[u8]) -> Result<String, Malformed> {
    let units = bytes.as_chunks().0.iter().map(|unit| u16::from_be_bytes(*unit));
    char::decode_utf16(units).collect::<Result<_, _>>().map_err(|_| Malformed::NotUnicode)
}

/// Appends UTF-8 text after its size in bytes.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    varint::write(i32::try_from(text.len()).unwrap_or(i32::MAX), out);
    out.extend_from_slice(text.as_bytes());
}

/// Appends UTF-16BE text after its length in units, cut to `limit` units between two characters.
pub fn write_utf16_text(text: &str, limit: u16, out: &mut Vec<u8>) {
    let mut count: u16 = 0;
    let mut encoded = Vec::new();
    for c in text.chars() {
        let mut buffer = [0; 2];
        let units = c.encode_utf16(&mut buffer);
        let after = count.saturating_add(if units.len() == 1 { 1 } else { 2 });
        if after > limit {
            break;
        }
        count = after;
        encoded.extend(units.iter().flat_map(|unit| unit.to_be_bytes()));
    }
    out.extend(count.to_be_bytes());
    out.extend(encoded);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_bounded() {
        for (bytes, limit, outcome) in [
            (&b"\x02hi"[..], 2, Ok("hi")),
            (b"\x02hi", 1, Err(Malformed::LongText { limit: 1 })),
            (b"\x03hi", 9, Err(Malformed::Truncated)),
            (b"\x00", 0, Ok("")),
            (b"", 9, Err(Malformed::Truncated)),
            (b"\x03\xff\xfe\x80", 9, Err(Malformed::NotUnicode)),
            (b"\xff\xff\xff\xff\x0f", 9, Err(Malformed::NegativeLength)),
            (b"\xff\xff\xff\xff\x07hi", 9, Err(Malformed::Truncated)),
            // One character to people, two to the game.
            ("\x04🦀".as_bytes(), 1, Err(Malformed::LongText { limit: 1 })),
            ("\x04🦀".as_bytes(), 2, Ok("🦀")),
        ] {
            assert_eq!(Reader::new(bytes).text(limit), outcome, "{bytes:02x?}");
        }
    }

    #[test]
    fn utf16_is_cut_between_characters() {
        let mut out = Vec::new();
        write_utf16_text("a🦀b", 2, &mut out);
        assert_eq!(out, [0, 1, 0, b'a']);
        out.clear();
        write_utf16_text("a🦀b", 9, &mut out);
        assert_eq!(Reader::new(&out).utf16_text(4).as_deref(), Ok("a🦀b"));
        assert_eq!(Reader::new(&out).utf16_text(3), Err(Malformed::LongText { limit: 3 }));
        assert_eq!(Reader::new(&[0, 1, 0xd8, 0]).utf16_text(3), Err(Malformed::NotUnicode));
    }
}
