//! The PROXY protocol's headers, written and read.
//!
//! Source: haproxy.org, "The PROXY protocol, versions 1 & 2".

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::wire::{Fields, malformed};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub version: u8,
    /// Source and destination; `None` for `UNKNOWN`, `LOCAL` and address families other than IP.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Version 2's type-length-values, unread.
    pub tlvs: Vec<u8>,
}

/// `PROXY TCP4 …`, or `TCP6` when both addresses are IPv6.
pub fn v1(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from, to) = (source.ip(), destination.ip());
    format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port()).into_bytes()
}

pub fn v1_unknown() -> Vec<u8> {
    b"PROXY UNKNOWN\r\n".to_vec()
}

/// A version 2 header for a TCP connection; `tlvs` follow the addresses as they are.
pub fn v2(source: SocketAddr, destination: SocketAddr, tlvs: &[u8]) -> Vec<u8> {
    let (family, mut block) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (0x11, [from.octets(), to.octets()].concat()),
        (IpAddr::V6(from), IpAddr::V6(to)) => (0x21, [from.octets(), to.octets()].concat()),
        mixed => panic!("a PROXY header has one address family, not {mixed:?}"),
    };
    block.extend(source.port().to_be_bytes());
    block.extend(destination.port().to_be_bytes());
    block.extend(tlvs);
    v2_raw(0x21, family, &block)
}

/// What a proxy's own health check sends.
pub fn v2_local() -> Vec<u8> {
    v2_raw(0x20, 0, &[])
}

/// Any version 2 header, valid or not.
pub fn v2_raw(version_and_command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = (block.len() as u16).to_be_bytes();
    [&SIGNATURE[..], &[version_and_command, family], &length, block].concat()
}

/// Whether bytes that start like this are a header: no Minecraft packet begins so. `None`: too few bytes.
pub(crate) fn begins(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [b'P' | b'\r'] | [] => None,
        [b'P', b'R', ..] | [b'\r', b'\n', ..] => Some(true),
        [..] => Some(false),
    }
}

/// Takes a header off the front of `buffer`; `None` when it is not all there yet.
pub fn take(buffer: &mut Vec<u8>) -> io::Result<Option<Header>> {
    let read = if buffer.first() == Some(&b'P') { read_v1(buffer)? } else { read_v2(buffer)? };
    Ok(read.map(|(header, length)| {
        buffer.drain(..length);
        header
    }))
}

fn read_v1(bytes: &[u8]) -> io::Result<Option<(Header, usize)>> {
    // 107 bytes at most, so the header says.
    let Some(end) = bytes.iter().take(107).position(|&byte| byte == b'\n') else {
        return if bytes.len() < 107 { Ok(None) } else { Err(malformed("a PROXY line without an end")) };
    };
    let line = std::str::from_utf8(&bytes[..=end]).map_err(malformed)?;
    let words: Vec<_> = line.trim_end_matches("\r\n").split(' ').collect();
    let addresses = match words[..] {
        ["PROXY", "UNKNOWN", ..] => None,
        ["PROXY", family, from, to, from_port, to_port] => {
            let address = |ip: &str, port: &str| -> io::Result<SocketAddr> {
                let ip: IpAddr = ip.parse().map_err(malformed)?;
                if ip.is_ipv4() != (family == "TCP4") || ip.is_ipv6() != (family == "TCP6") {
                    return Err(malformed(format!("the PROXY line {line:?}")));
                }
                Ok(SocketAddr::new(ip, port.parse().map_err(malformed)?))
            };
            Some((address(from, from_port)?, address(to, to_port)?))
        }
        _ => return Err(malformed(format!("the PROXY line {line:?}"))),
    };
    Ok(Some((Header { version: 1, addresses, tlvs: vec![] }, end + 1)))
}

fn read_v2(bytes: &[u8]) -> io::Result<Option<(Header, usize)>> {
    let mut fields = Fields(bytes);
    let parsed = read_v2_fields(&mut fields);
    match parsed {
        Ok(header) => Ok(Some((header, bytes.len() - fields.0.len()))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_v2_fields(fields: &mut Fields<'_>) -> io::Result<Header> {
    if fields.take(SIGNATURE.len())? != SIGNATURE {
        return Err(malformed("not the signature of PROXY version 2"));
    }
    let command = fields.u8()?;
    let family = fields.u8()?;
    let length = fields.u16()?;
    let mut block = Fields(fields.take(length.into())?);
    let short = |_| malformed("a PROXY block shorter than its addresses");
    let addresses = match (command, family) {
        (0x20, _) | (0x21, 0) => None,
        (0x21, 0x11) => Some(addresses::<4>(&mut block).map_err(short)?),
        (0x21, 0x21) => Some(addresses::<16>(&mut block).map_err(short)?),
        other => return Err(malformed(format!("PROXY command and family {other:x?}"))),
    };
    Ok(Header { version: 2, addresses, tlvs: block.rest().to_vec() })
}

fn addresses<const N: usize>(block: &mut Fields<'_>) -> io::Result<(SocketAddr, SocketAddr)>
where
    IpAddr: From<[u8; N]>,
{
    let mut ip = || -> io::Result<IpAddr> {
        let octets: [u8; N] = block.take(N)?.try_into().expect("as many bytes as were asked for");
        Ok(octets.into())
    };
    let (from, to) = (ip()?, ip()?);
    Ok((SocketAddr::new(from, block.u16()?), SocketAddr::new(to, block.u16()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_byte_for_byte_and_back() {
        let v4: (SocketAddr, SocketAddr) =
            ("203.0.113.7:51234".parse().unwrap(), "192.0.2.10:25565".parse().unwrap());
        let v6: (SocketAddr, SocketAddr) =
            ("[2001:db8::1]:51234".parse().unwrap(), "[2001:db8::2]:25565".parse().unwrap());
        let v2_bytes =
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0f\xcb\0\x71\x07\xc0\0\x02\x0a\xc8\x22\x63\xdd\x04\0\0";
        for (bytes, expected, version, addresses, tlvs) in [
            (v1(v4.0, v4.1), &b"PROXY TCP4 203.0.113.7 192.0.2.10 51234 25565\r\n"[..], 1, Some(v4), &[][..]),
            (v1(v6.0, v6.1), b"PROXY TCP6 2001:db8::1 2001:db8::2 51234 25565\r\n", 1, Some(v6), &[]),
            (v1_unknown(), b"PROXY UNKNOWN\r\n", 1, None, &[]),
            (v2(v4.0, v4.1, &[4, 0, 0]), v2_bytes, 2, Some(v4), &[4, 0, 0]),
            (v2_local(), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", 2, None, &[]),
        ] {
            assert_eq!(bytes, expected);
            for cut in 2..bytes.len() {
                assert_eq!(take(&mut bytes[..cut].to_vec()).unwrap(), None, "{cut}");
            }
            let mut buffer = [&bytes[..], b"rest"].concat();
            let header = Header { version, addresses, tlvs: tlvs.to_vec() };
            assert_eq!(take(&mut buffer).unwrap(), Some(header));
            assert_eq!(buffer, b"rest");
        }
        let v6_header = v2(v6.0, v6.1, &[]);
        assert_eq!(take(&mut v6_header.clone()).unwrap().unwrap().addresses, Some(v6));
    }

    #[test]
    fn nonsense_is_an_error() {
        for bad in [
            b"PROXY TCP4 203.0.113.7 192.0.2.10 51234 70000\r\n".to_vec(),
            b"PROXY TCP6 203.0.113.7 192.0.2.10 51234 25565\r\n".to_vec(),
            b"PROXY TCP4\r\n".to_vec(),
            [b"PROXY "[..].to_vec(), vec![b'a'; 200]].concat(),
            v2_raw(0x21, 0x11, &[0; 5]),
            v2_raw(0x31, 0x11, &[0; 12]),
        ] {
            assert!(take(&mut bad.clone()).is_err(), "{bad:?}");
        }
    }
}
