//! VarInts: 32-bit integers in 7-bit groups, least significant first (minecraft.wiki, Java Edition protocol).

use crate::Malformed;

/// The most bytes a VarInt takes.
pub const LONGEST: usize = 5;

/// Reads a VarInt off the front: its value and its size in bytes. `None` if the bytes end before it does.
pub fn read(bytes: &[u8]) -> Result<Option<(i32, usize)>, Malformed> {
    let mut value: u32 = 0;
    for (at, &byte) in bytes.iter().take(LONGEST).enumerate() {
        let last = at + 1 == LONGEST;
        if last && byte > 0x0f {
            return Err(Malformed::BadVarInt);
        }
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(Some((value.cast_signed(), at + 1)));
        }
    }
    Ok(None)
}

/// Appends `value` in its shortest form.
pub fn write(value: i32, out: &mut Vec<u8>) {
    let mut rest = value.cast_unsigned();
    loop {
        let [low, ..] = rest.to_le_bytes();
        rest >>= 7;
        if rest == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values() {
        for (value, bytes) in [
            (0, &[0x00][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x01]),
            (767, &[0xff, 0x05]),
            (2_097_151, &[0xff, 0xff, 0x7f]),
            (i32::MAX, &[0xff, 0xff, 0xff, 0xff, 0x07]),
            (-1, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0x80, 0x80, 0x80, 0x80, 0x08]),
        ] {
            let mut written = Vec::new();
            write(value, &mut written);
            assert_eq!(written, bytes, "{value}");
            assert_eq!(read(bytes), Ok(Some((value, bytes.len()))));
        }
    }

    #[test]
    fn longer_forms_are_read_and_too_long_ones_refused() {
        assert_eq!(read(&[0x80, 0x00]), Ok(Some((0, 2))));
        assert_eq!(read(&[0x80; 4]), Ok(None));
        assert_eq!(read(&[0x80; 5]), Err(Malformed::BadVarInt));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(Malformed::BadVarInt));
        assert_eq!(read(&[]), Ok(None));
    }

    proptest! {
        #[test]
        fn written_is_read_back_and_its_prefixes_are_incomplete(value: i32) {
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            prop_assert_eq!(read(&bytes), Ok(Some((value, bytes.len()))));
            for end in 0..bytes.len() {
                prop_assert_eq!(read(&bytes[..end]), Ok(None));
            }
        }
    }
}
