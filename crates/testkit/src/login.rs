//! Login Start and Login Success, as every protocol from 4 (1.7) to 777 (26.3) lays them out.
//!
//! Source: minecraft.wiki, "Java Edition protocol", and its history per version.

use std::io;

use crate::wire::{Body, Fields, Packet, malformed};

/// The newest protocol whose layout is known; nothing is asserted about the tail of newer packets.
const NEWEST: i32 = 777;

/// What a client says of itself when it logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginStart {
    pub name: String,
    /// Sent by 1.19.1 and later; optional there until 1.20.2, when `None` is sent as zero.
    pub uuid: Option<u128>,
    /// Sent by 1.19 to 1.19.2 only.
    pub key: Option<ProfileKey>,
}

/// The key a 1.19 client signs its chat with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileKey {
    /// Milliseconds since 1970.
    pub expiry: i64,
    pub key: Vec<u8>,
    pub signature: Vec<u8>,
}

impl LoginStart {
    /// A player with a UUID that depends on the name alone.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), uuid: Some(uuid_of(name)), key: None }
    }

    pub fn packet(&self, protocol: i32) -> Vec<u8> {
        let mut body = Body::new().string(&self.name);
        if matches!(protocol, 759..=760) {
            body = body.bool(self.key.is_some());
            if let Some(key) = &self.key {
                body = body.i64(key.expiry).bytes(&key.key).bytes(&key.signature);
            }
        }
        match protocol {
            760..=763 => {
                body = body.bool(self.uuid.is_some());
                if let Some(uuid) = self.uuid {
                    body = body.uuid(uuid);
                }
            }
            764.. => body = body.uuid(self.uuid.unwrap_or_default()),
            _ => {}
        }
        body.packet(0)
    }

    pub fn parse(packet: &Packet, protocol: i32) -> io::Result<Self> {
        if packet.id != 0 {
            return Err(malformed(format!("packet {} in place of a login start", packet.id)));
        }
        let mut fields = packet.fields();
        let name = fields.string()?;
        let key = if matches!(protocol, 759..=760) && fields.bool()? {
            let expiry = fields.i64()?;
            let key = fields.bytes()?.to_vec();
            Some(ProfileKey { expiry, key, signature: fields.bytes()?.to_vec() })
        } else {
            None
        };
        let uuid = match protocol {
            760..=763 => fields.bool()?.then(|| fields.uuid()).transpose()?,
            764.. => Some(fields.uuid()?),
            _ => None,
        };
        finish(fields, protocol).map(|()| Self { name, uuid, key })
    }
}

/// Who the server says has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginSuccess {
    pub name: String,
    pub uuid: u128,
}

impl LoginSuccess {
    pub fn packet(&self, protocol: i32) -> Vec<u8> {
        let mut body = match protocol {
            ..=4 => Body::new().string(&format!("{:032x}", self.uuid)),
            5..735 => Body::new().string(&dashed(self.uuid)),
            735.. => Body::new().uuid(self.uuid),
        };
        body = body.string(&self.name);
        if protocol >= 759 {
            body = body.varint(0);
        }
        if matches!(protocol, 766..=767) {
            body = body.bool(true);
        }
        if protocol >= 776 {
            body = body.uuid(0x5e55_1011);
        }
        body.packet(2)
    }

    /// `packet` is the Login Success itself (id 2).
    pub fn parse(packet: &Packet, protocol: i32) -> io::Result<Self> {
        let mut fields = packet.fields();
        let uuid = if protocol < 735 { undashed(&fields.string()?, protocol)? } else { fields.uuid()? };
        let name = fields.string()?;
        if protocol >= 759 {
            for _ in 0..fields.varint()? {
                fields.string()?;
                fields.string()?;
                if fields.bool()? {
                    fields.string()?;
                }
            }
        }
        if matches!(protocol, 766..=767) {
            fields.bool()?;
        }
        if protocol >= 776 {
            fields.uuid()?;
        }
        finish(fields, protocol).map(|()| Self { name, uuid })
    }
}

/// `069a79f4-44e9-4726-a5be-fca90e38aaf5`
pub fn dashed(uuid: u128) -> String {
    let digits = format!("{uuid:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn undashed(text: &str, protocol: i32) -> io::Result<u128> {
    let expected = if protocol <= 4 { 0 } else { 4 };
    if text.matches('-').count() != expected {
        return Err(malformed(format!("the UUID {text:?} for protocol {protocol}")));
    }
    u128::from_str_radix(&text.replace('-', ""), 16).map_err(malformed)
}

fn finish(fields: Fields<'_>, protocol: i32) -> io::Result<()> {
    if protocol <= NEWEST { fields.finish() } else { Ok(()) }
}

/// Different for different names, nothing more (FNV-1a).
pub(crate) fn uuid_of(name: &str) -> u128 {
    name.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Framing, take_packet};

    fn packet(mut bytes: Vec<u8>) -> Packet {
        let packet = take_packet(&mut bytes, Framing::Plain).unwrap().unwrap();
        assert!(bytes.is_empty());
        packet
    }

    #[test]
    fn login_starts_byte_for_byte() {
        let key = ProfileKey { expiry: 1, key: vec![0xaa], signature: vec![0xbb, 0xcc] };
        let bare = LoginStart { name: "Bo".into(), uuid: None, key: None };
        let full = LoginStart { name: "Bo".into(), uuid: Some(3), key: Some(key) };
        let key = [1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0xaa, 2, 0xbb, 0xcc];
        let uuid = 3_u128.to_be_bytes();
        for (start, protocol, tail) in [
            (&full, 4, vec![]),
            (&full, 758, vec![]),
            (&bare, 759, vec![0]),
            (&full, 759, key.to_vec()),
            (&bare, 760, vec![0, 0]),
            (&full, 760, [&key[..], &[1], &uuid].concat()),
            (&bare, 761, vec![0]),
            (&full, 763, [&[1][..], &uuid].concat()),
            (&bare, 764, vec![0; 16]),
            (&full, 777, uuid.to_vec()),
        ] {
            let expected = [&[tail.len() as u8 + 4, 0, 2][..], b"Bo", &tail].concat();
            assert_eq!(start.packet(protocol), expected, "{protocol}");
        }
    }

    #[test]
    fn login_successes_byte_for_byte() {
        let success = LoginSuccess { name: "Bo".into(), uuid: 0x069a_79f4_44e9_4726_a5be_fca9_0e38_aaf5 };
        let uuid = success.uuid.to_be_bytes();
        let bo = &b"\x02Bo"[..];
        for (protocol, body) in [
            (4, [&b"\x20069a79f444e94726a5befca90e38aaf5"[..], bo].concat()),
            (5, [&b"\x24069a79f4-44e9-4726-a5be-fca90e38aaf5"[..], bo].concat()),
            (578, [&b"\x24069a79f4-44e9-4726-a5be-fca90e38aaf5"[..], bo].concat()),
            (735, [&uuid, bo].concat()),
            (759, [&uuid, bo, &[0]].concat()),
            (767, [&uuid, bo, &[0, 1]].concat()),
            (768, [&uuid, bo, &[0]].concat()),
            (776, [&uuid, bo, &[0], &0x5e55_1011_u128.to_be_bytes()].concat()),
        ] {
            assert_eq!(packet(success.packet(protocol)), Packet { id: 2, body }, "{protocol}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let start = LoginStart::new("Steve");
        let success = LoginSuccess { name: "Steve".into(), uuid: 0x42 << 96 };
        for protocol in 4..=777 {
            let read = LoginStart::parse(&packet(start.packet(protocol)), protocol).unwrap();
            assert_eq!(read.name, start.name, "{protocol}");
            assert_eq!(read.uuid, start.uuid.filter(|_| protocol >= 760), "{protocol}");
            assert_eq!(LoginSuccess::parse(&packet(success.packet(protocol)), protocol).unwrap(), success);
        }
        // A layout of another version is not taken for this one's.
        assert!(LoginSuccess::parse(&packet(success.packet(768)), 767).is_err());
        assert!(LoginSuccess::parse(&packet(success.packet(5)), 4).is_err());
    }
}
