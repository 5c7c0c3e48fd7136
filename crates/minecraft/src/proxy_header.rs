//! The PROXY protocol's header, versions 1 and 2 (haproxy.org, "The PROXY protocol", 2020/03/05): a proxy in
//! front says whom it speaks for, before the first byte of the game.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::field::Reader;

/// The longest version 1 line, its line end included.
const LONGEST_V1: usize = 107;
/// The longest version 2 header accepted: the format allows 64 KiB, real ones have some hundred bytes.
const LONGEST_V2: usize = 4096;

pub(crate) const V1_PREFIX: &[u8] = b"PROXY ";
pub(crate) const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// `None` where the proxy speaks for itself (a health check) or cannot tell: the connection's own
    /// addresses stand.
    pub addresses: Option<Addresses>,
    /// Size in bytes.
    pub consumed: usize,
}

/// Both ends of the connection the proxy accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    pub source: SocketAddr,
    pub destination: SocketAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    V1,
    V2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("there is no PROXY header")]
    Missing,
    #[error("the PROXY header is longer than {0} bytes")]
    TooLong(usize),
    #[error("the PROXY header's line is not as the format asks")]
    BadLine,
    #[error("the PROXY header's version or command is not known")]
    BadCommand,
    #[error("the PROXY header's address family is not known")]
    BadFamily,
    #[error("the PROXY header is too short for what it holds")]
    TooShort,
    #[error("the PROXY header's checksum is wrong")]
    BadChecksum,
}

impl HeaderError {
    /// A bounded name for metric labels.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Missing => "proxy_missing",
            Self::TooLong(_) => "proxy_too_long",
            Self::BadLine => "proxy_bad_line",
            Self::BadCommand => "proxy_bad_command",
            Self::BadFamily => "proxy_bad_family",
            Self::TooShort => "proxy_too_short",
            Self::BadChecksum => "proxy_bad_checksum",
        }
    }
}

/// Reads a header off the front. `None` if more bytes are needed.
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if bytes.starts_with(V1_PREFIX) {
        parse_v1(bytes)
    } else if bytes.starts_with(V2_SIGNATURE) {
        parse_v2(bytes)
    } else if V1_PREFIX.starts_with(bytes) || V2_SIGNATURE.starts_with(bytes) {
        Ok(None)
    } else {
        Err(HeaderError::Missing)
    }
}

/// Whether these bytes begin with a header, well-formed or not.
pub fn looks_like(bytes: &[u8]) -> bool {
    bytes.starts_with(V1_PREFIX) || bytes.starts_with(V2_SIGNATURE)
}

/// A header that speaks for a client. Ends of different families are both written as IPv6.
pub fn encode(version: Version, addresses: Addresses) -> Vec<u8> {
    match version {
        Version::V1 => encode_v1(addresses),
        Version::V2 => encode_v2(addresses),
    }
}

/// A header that speaks for the gate itself, as its own probes do. Version 1 has no better word than unknown.
pub fn encode_local(version: Version) -> Vec<u8> {
    match version {
        Version::V1 => b"PROXY UNKNOWN\r\n".to_vec(),
        Version::V2 => [V2_SIGNATURE, &[0x20, 0x00, 0x00, 0x00]].concat(),
    }
}

fn parse_v1(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let line = bytes.get(..LONGEST_V1).unwrap_or(bytes);
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < LONGEST_V1 { Ok(None) } else { Err(HeaderError::TooLong(LONGEST_V1)) };
    };
    let line = line.get(V1_PREFIX.len()..end).unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| HeaderError::BadLine)?;
    let words: Vec<_> = line.split(' ').collect();
    if words.first() == Some(&"UNKNOWN") {
        return Ok(Some(Header { addresses: None, consumed: end + 2 }));
    }
    let [family, source, destination, source_port, destination_port] = words[..] else {
        return Err(HeaderError::BadLine);
    };
    let ip = |text: &str| match family {
        "TCP4" => text.parse().map(IpAddr::V4).map_err(|_| HeaderError::BadLine),
        "TCP6" => text.parse().map(IpAddr::V6).map_err(|_| HeaderError::BadLine),
        _ => Err(HeaderError::BadFamily),
    };
    let addresses = Addresses {
        source: SocketAddr::new(ip(source)?, port(source_port)?),
        destination: SocketAddr::new(ip(destination)?, port(destination_port)?),
    };
    Ok(Some(Header { addresses: Some(addresses), consumed: end + 2 }))
}

/// Digits alone; the standard parser would take a sign as well.
fn port(text: &str) -> Result<u16, HeaderError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HeaderError::BadLine);
    }
    text.parse().map_err(|_| HeaderError::BadLine)
}

fn parse_v2(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let Some(&[command, family, high, low]) = bytes.get(V2_SIGNATURE.len()..).and_then(<[u8]>::first_chunk)
    else {
        return Ok(None);
    };
    let local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(HeaderError::BadCommand),
    };
    let start = V2_SIGNATURE.len() + 4;
    let consumed = start + usize::from(u16::from_be_bytes([high, low]));
    if consumed > LONGEST_V2 {
        return Err(HeaderError::TooLong(LONGEST_V2));
    }
    let Some(header) = bytes.get(..consumed) else {
        return Ok(None);
    };
    let addresses = if local { None } else { block(header, start, family)? };
    Ok(Some(Header { addresses, consumed }))
}

/// The addresses, and the TLVs behind them: only the checksum among those means anything here.
fn block(header: &[u8], start: usize, family: u8) -> Result<Option<Addresses>, HeaderError> {
    let mut fields = Reader::new(header.get(start..).unwrap_or_default());
    let short = |_| HeaderError::TooShort;
    let (source, destination): (IpAddr, IpAddr) = match family {
        // Not told; whatever follows has no known shape.
        0x00 => return Ok(None),
        0x11 | 0x12 => {
            let [source, destination] = [fields.array::<4>().map_err(short)?, fields.array().map_err(short)?];
            (Ipv4Addr::from(source).into(), Ipv4Addr::from(destination).into())
        }
        0x21 | 0x22 => {
            let [source, destination] =
                [fields.array::<16>().map_err(short)?, fields.array().map_err(short)?];
            (Ipv6Addr::from(source).into(), Ipv6Addr::from(destination).into())
        }
        // Unix sockets: two paths of 108 bytes.
        0x31 | 0x32 => {
            fields.bytes(216).map_err(short)?;
            check_tlvs(header, fields)?;
            return Ok(None);
        }
        _ => return Err(HeaderError::BadFamily),
    };
    let source = SocketAddr::new(source, fields.u16().map_err(short)?);
    let destination = SocketAddr::new(destination, fields.u16().map_err(short)?);
    check_tlvs(header, fields)?;
    Ok(Some(Addresses { source, destination }))
}

fn check_tlvs(header: &[u8], mut fields: Reader<'_>) -> Result<(), HeaderError> {
    const CRC32C: u8 = 0x03;
    let short = |_| HeaderError::TooShort;
    while !fields.rest().is_empty() {
        let kind = fields.u8().map_err(short)?;
        let size = usize::from(fields.u16().map_err(short)?);
        let at = header.len() - fields.rest().len();
        let value = fields.bytes(size).map_err(short)?;
        if kind == CRC32C {
            let claimed = value.try_into().map(u32::from_be_bytes).map_err(|_| HeaderError::TooShort)?;
            // The sum is taken with its own four bytes as zeros.
            let (before, from) = header.split_at_checked(at).unwrap_or((header, &[]));
            let after = from.get(size..).unwrap_or_default();
            if crc32c(before.iter().chain(&[0; 4]).chain(after)) != claimed {
                return Err(HeaderError::BadChecksum);
            }
        }
    }
    Ok(())
}

/// CRC-32C (Castagnoli), bit by bit: a header is short.
fn crc32c<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    !bytes.fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

fn encode_v1(addresses: Addresses) -> Vec<u8> {
    let ports = (addresses.source.port(), addresses.destination.port());
    let (family, source, destination) = match ends(addresses) {
        Ends::V4(source, destination) => ("TCP4", source.to_string(), destination.to_string()),
        Ends::V6(source, destination) => ("TCP6", source.to_string(), destination.to_string()),
    };
    format!("PROXY {family} {source} {destination} {} {}\r\n", ports.0, ports.1).into_bytes()
}

fn encode_v2(addresses: Addresses) -> Vec<u8> {
    let mut header = [V2_SIGNATURE, &[0x21]].concat();
    match ends(addresses) {
        Ends::V4(source, destination) => {
            header.extend([0x11, 0, 12]);
            header.extend(source.octets());
            header.extend(destination.octets());
        }
        Ends::V6(source, destination) => {
            header.extend([0x21, 0, 36]);
            header.extend(source.octets());
            header.extend(destination.octets());
        }
    }
    header.extend(addresses.source.port().to_be_bytes());
    header.extend(addresses.destination.port().to_be_bytes());
    header
}

enum Ends {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

/// Both ends in one family. A listener for both families sees IPv4 clients as mapped IPv6 addresses.
fn ends(addresses: Addresses) -> Ends {
    let ip = |end: SocketAddr| end.ip().to_canonical();
    match (ip(addresses.source), ip(addresses.destination)) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ends::V4(source, destination),
        (source, destination) => Ends::V6(as_v6(source), as_v6(destination)),
    }
}

const fn as_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(source: &str, destination: &str) -> Addresses {
        Addresses { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    fn v2(rest: &[u8]) -> Vec<u8> {
        [V2_SIGNATURE, rest].concat()
    }

    const V4: &[u8] = &[203, 0, 113, 7, 192, 0, 2, 10, 0xc8, 0x22, 0x63, 0xdd];

    #[test]
    fn what_proxies_send() {
        let v4 = pair("203.0.113.7:51234", "192.0.2.10:25565");
        let ipv6 = [&[0x21, 0x21, 0, 36][..], &[0; 15], &[1], &[0; 15], &[2], &[0, 9, 0, 8]].concat();
        let unix = [&[0x21, 0x31, 0, 216][..], &[b'x'; 216]].concat();
        for (bytes, addresses) in [
            (b"PROXY TCP4 203.0.113.7 192.0.2.10 51234 25565\r\n".to_vec(), Some(v4)),
            (b"PROXY TCP6 ::1 ::2 9 8\r\n".to_vec(), Some(pair("[::1]:9", "[::2]:8"))),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff:f...f:ffff 65535 whatever\r\n".to_vec(), None),
            (v2(&[0x20, 0, 0, 0]), None),
            (v2(&[0x20, 0x11, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]), None),
            (v2(&[0x21, 0, 0, 3, 1, 2, 3]), None),
            (v2(&[&[0x21, 0x11, 0, 12], V4].concat()), Some(v4)),
            (v2(&[&[0x21, 0x11, 0, 17], V4, &[5, 0, 2, 7, 7]].concat()), Some(v4)),
            (v2(&ipv6), Some(pair("[::1]:9", "[::2]:8"))),
            (v2(&unix), None),
        ] {
            let header = Header { addresses, consumed: bytes.len() };
            assert!(looks_like(&bytes));
            assert_eq!(parse(&[&bytes, &b"\x15\x00"[..]].concat()), Ok(Some(header)), "{bytes:02x?}");
            for end in 0..bytes.len() {
                assert_eq!(parse(&bytes[..end]), Ok(None), "{:02x?}", &bytes[..end]);
            }
        }
    }

    #[test]
    fn checksums_are_verified() {
        assert_eq!(crc32c(b"123456789".iter()), 0xe306_9283);
        let mut bytes = v2(&[&[0x21, 0x11, 0, 22], V4, &[3, 0, 4, 0, 0, 0, 0], &[4, 0, 0]].concat());
        let sum = crc32c(bytes.iter());
        bytes[31..35].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(parse(&bytes).map(|h| h.unwrap().consumed), Ok(bytes.len()));
        bytes[17] ^= 1;
        assert_eq!(parse(&bytes), Err(HeaderError::BadChecksum));
    }

    #[test]
    fn malformed() {
        for (bytes, why) in [
            (b"\x15\x00\xff\x05".to_vec(), HeaderError::Missing),
            (b"PROXX".to_vec(), HeaderError::Missing),
            (b"PROXY TCP4 203.0.113.7 192.0.2.10 51234\r\n".to_vec(), HeaderError::BadLine),
            (b"PROXY TCP4 203.0.113.7 192.0.2.10 +51 25565\r\n".to_vec(), HeaderError::BadLine),
            (b"PROXY TCP4 203.0.113.7 192.0.2.10  25565\r\n".to_vec(), HeaderError::BadLine),
            (b"PROXY TCP4 203.0.113.7 192.0.2.10 1 2 3\r\n".to_vec(), HeaderError::BadLine),
            (b"PROXY TCP4 203.0.113.7 192.0.2.10 1 65536\r\n".to_vec(), HeaderError::BadLine),
            (b"PROXY TCP4 ::1 ::2 1 2\r\n".to_vec(), HeaderError::BadLine),
            (b"PROXY UDP4 192.0.2.1 192.0.2.1 1 2\r\n".to_vec(), HeaderError::BadFamily),
            (b"PROXY \xff\r\n".to_vec(), HeaderError::BadLine),
            ([V1_PREFIX, &[b'x'; 101]].concat(), HeaderError::TooLong(107)),
            (v2(&[0x11, 0x11, 0, 12]), HeaderError::BadCommand),
            (v2(&[0x22, 0x11, 0, 12]), HeaderError::BadCommand),
            (v2(&[0x21, 0x11, 0xff, 0xff]), HeaderError::TooLong(4096)),
            (v2(&[0x21, 0x41, 0, 0]), HeaderError::BadFamily),
            (v2(&[0x21, 0x11, 0, 2, 1, 2]), HeaderError::TooShort),
            (v2(&[&[0x21, 0x11, 0, 15], V4, &[5, 0, 2]].concat()), HeaderError::TooShort),
            (v2(&[&[0x21, 0x11, 0, 16], V4, &[3, 0, 1, 0]].concat()), HeaderError::TooShort),
        ] {
            assert_eq!(parse(&bytes), Err(why), "{bytes:02x?}");
        }
    }

    #[test]
    fn families_do_not_mix() {
        for (addresses, line) in [
            (pair("192.0.2.1:1", "192.0.2.2:2"), "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"),
            (pair("[::ffff:192.0.2.1]:1", "192.0.2.2:2"), "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"),
            (pair("192.0.2.1:1", "[2001:db8::2]:2"), "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n"),
            (pair("[2001:db8::1]:1", "192.0.2.2:2"), "PROXY TCP6 2001:db8::1 ::ffff:192.0.2.2 1 2\r\n"),
        ] {
            assert_eq!(String::from_utf8(encode(Version::V1, addresses)).unwrap(), line);
        }
        assert_eq!(encode_local(Version::V2), v2(&[0x20, 0, 0, 0]));
        assert_eq!(parse(&encode_local(Version::V1)).unwrap().unwrap().addresses, None);
    }

    proptest! {
        #[test]
        fn round_trip(a: [u8; 16], b: [u8; 16], ports: (u16, u16), v4: bool) {
            let ip = |x: [u8; 16]| if v4 { IpAddr::from([x[0], x[1], x[2], x[3]]) } else { IpAddr::from(x).to_canonical() };
            let sent = Addresses {
                source: SocketAddr::new(ip(a), ports.0),
                destination: SocketAddr::new(ip(b), ports.1),
            };
            prop_assume!(sent.source.is_ipv4() == sent.destination.is_ipv4());
            for version in [Version::V1, Version::V2] {
                let bytes = encode(version, sent);
                let header = Header { addresses: Some(sent), consumed: bytes.len() };
                prop_assert_eq!(parse(&bytes), Ok(Some(header)));
            }
        }

        #[test]
        fn anything_after_the_signature(one: bool, rest: Vec<u8>) {
            let bytes = [if one { V1_PREFIX } else { V2_SIGNATURE }, &rest].concat();
            let whole = parse(&bytes);
            let first = (0..=bytes.len()).map(|end| parse(&bytes[..end])).find(|got| *got != Ok(None));
            prop_assert_eq!(first.unwrap_or(Ok(None)), whole);
        }
    }
}
