//! Packets as bytes, both ways: VarInts, strings, frames and the handshake.
//!
//! Source: minecraft.wiki, "Java Edition protocol", for 1.7 (protocol 4) and later.

use std::io;

/// The body of a packet under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body(pub Vec<u8>);

impl Body {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn u8(self, value: u8) -> Self {
        self.raw(&[value])
    }

    pub fn bool(self, value: bool) -> Self {
        self.u8(value.into())
    }

    pub fn u16(self, value: u16) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn i32(self, value: i32) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn i64(self, value: i64) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn f32(self, value: f32) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn f64(self, value: f64) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn uuid(self, value: u128) -> Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn varint(mut self, value: i32) -> Self {
        let mut rest = value as u32;
        while rest > 0x7f {
            self.0.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
        self
    }

    /// Bytes after their length. A string is its UTF-8 bytes, written this way.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.varint(bytes.len() as i32).raw(bytes)
    }

    pub fn string(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// The whole packet: its length, its id, this body.
    pub fn packet(self, id: i32) -> Vec<u8> {
        let content = Self::new().varint(id).raw(&self.0);
        Self::new().bytes(&content.0).0
    }
}

/// A packet as received, without its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    pub id: i32,
    pub body: Vec<u8>,
}

impl Packet {
    pub fn fields(&self) -> Fields<'_> {
        Fields(&self.body)
    }
}

/// How packets are framed at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Plain,
    /// After Set Compression. Packets below the threshold travel as they are; a deflated one is an error here.
    Compressed,
}

/// Takes one packet off the front of `buffer`; `None` when it is not all there yet.
pub fn take_packet(buffer: &mut Vec<u8>, framing: Framing) -> io::Result<Option<Packet>> {
    let mut fields = Fields(buffer);
    let length = match fields.varint() {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && buffer.len() < 3 => return Ok(None),
        Err(error) => return Err(error),
    };
    let prefix = buffer.len() - fields.0.len();
    if length < 1 || prefix > 3 {
        return Err(malformed(format!("a packet of length {length} in a VarInt of {prefix} bytes")));
    }
    let end = prefix + length as usize;
    if buffer.len() < end {
        return Ok(None);
    }
    let mut fields = Fields(&buffer[prefix..end]);
    if framing == Framing::Compressed && fields.varint()? != 0 {
        return Err(malformed("a deflated packet, which this kit does not read"));
    }
    let packet = Packet { id: fields.varint()?, body: fields.rest().to_vec() };
    buffer.drain(..end);
    Ok(Some(packet))
}

/// Reads the fields of a body from its front.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `count` bytes; `UnexpectedEof` when fewer are left.
    pub fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        if self.0.len() < count {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N).map(|bytes| bytes.try_into().expect("as many bytes as were asked for"))
    }

    pub fn u8(&mut self) -> io::Result<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub fn bool(&mut self) -> io::Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(malformed(format!("a boolean of {other}"))),
        }
    }

    pub fn u16(&mut self) -> io::Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn i32(&mut self) -> io::Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn i64(&mut self) -> io::Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub fn f32(&mut self) -> io::Result<f32> {
        self.array().map(f32::from_be_bytes)
    }

    pub fn f64(&mut self) -> io::Result<f64> {
        self.array().map(f64::from_be_bytes)
    }

    pub fn uuid(&mut self) -> io::Result<u128> {
        self.array().map(u128::from_be_bytes)
    }

    pub fn varint(&mut self) -> io::Result<i32> {
        let mut value = 0;
        for place in 0..5 {
            let byte = self.u8()?;
            value |= u32::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value as i32);
            }
        }
        Err(malformed("a VarInt of more than 5 bytes"))
    }

    /// Bytes after their length.
    pub fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = self.varint()?;
        self.take(usize::try_from(length).map_err(|_| malformed("a negative length"))?)
    }

    pub fn string(&mut self) -> io::Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(malformed)
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Fails when something is left.
    pub fn finish(self) -> io::Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(malformed(format!("bytes left over: {:02x?}", self.0))) }
    }
}

/// What the peer sent cannot be what the protocol says.
pub(crate) fn malformed(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

pub const STATUS: i32 = 1;
pub const LOGIN: i32 = 2;
pub const TRANSFER: i32 = 3;

/// The first packet of every connection since 1.7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    pub protocol: i32,
    /// As sent: with any tail after a NUL, not necessarily UTF-8.
    pub host: Vec<u8>,
    pub port: u16,
    pub intent: i32,
}

impl Handshake {
    pub fn new(protocol: i32, host: &str, intent: i32) -> Self {
        Self { protocol, host: host.into(), port: 25565, intent }
    }

    pub fn status(protocol: i32, host: &str) -> Self {
        Self::new(protocol, host, STATUS)
    }

    pub fn login(protocol: i32, host: &str) -> Self {
        Self::new(protocol, host, LOGIN)
    }

    pub fn transfer(protocol: i32, host: &str) -> Self {
        Self::new(protocol, host, TRANSFER)
    }

    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Appends to the host: `b"\0FML2\0"`, a forwarding tail, an anti-DDoS suffix.
    pub fn tail(mut self, tail: &[u8]) -> Self {
        self.host.extend_from_slice(tail);
        self
    }

    pub fn packet(&self) -> Vec<u8> {
        Body::new().varint(self.protocol).bytes(&self.host).u16(self.port).varint(self.intent).packet(0)
    }

    pub fn parse(packet: &Packet) -> io::Result<Self> {
        if packet.id != 0 {
            return Err(malformed(format!("packet {} in place of a handshake", packet.id)));
        }
        let mut fields = packet.fields();
        let handshake = Self {
            protocol: fields.varint()?,
            host: fields.bytes()?.to_vec(),
            port: fields.u16()?,
            intent: fields.varint()?,
        };
        fields.finish().map(|()| handshake)
    }
}

pub fn status_request() -> Vec<u8> {
    Body::new().packet(0)
}

/// A status ping, and the pong that answers it: the same bytes.
pub fn ping(payload: i64) -> Vec<u8> {
    Body::new().i64(payload).packet(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        // The samples of minecraft.wiki, "Java Edition protocol/Data types".
        for (value, bytes) in [
            (0, vec![0x00]),
            (127, vec![0x7f]),
            (128, vec![0x80, 0x01]),
            (25565, vec![0xdd, 0xc7, 0x01]),
            (2_097_151, vec![0xff, 0xff, 0x7f]),
            (i32::MAX, vec![0xff, 0xff, 0xff, 0xff, 0x07]),
            (-1, vec![0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            assert_eq!(Body::new().varint(value).0, bytes, "{value}");
            assert_eq!(Fields(&bytes).varint().unwrap(), value, "{value}");
        }
        assert!(Fields(&[0xff; 6]).varint().is_err());
    }

    #[test]
    fn a_handshake_byte_for_byte() {
        let handshake = Handshake::login(47, "a.b").tail(b"\0FML\0").port(25566);
        let bytes = b"\x0e\x00\x2f\x08a.b\0FML\0\x63\xde\x02";
        assert_eq!(handshake.packet(), bytes);
        let packet = take_packet(&mut bytes.to_vec(), Framing::Plain).unwrap().unwrap();
        assert_eq!(Handshake::parse(&packet).unwrap(), handshake);
    }

    #[test]
    fn a_packet_is_taken_only_when_it_is_all_there() {
        let whole = Body::new().raw(&[7; 200]).packet(5);
        for cut in 0..whole.len() {
            assert_eq!(take_packet(&mut whole[..cut].to_vec(), Framing::Plain).unwrap(), None, "{cut}");
        }
        let mut two = [whole.clone(), status_request()].concat();
        assert_eq!(take_packet(&mut two, Framing::Plain).unwrap().unwrap().id, 5);
        assert_eq!(two, [1, 0]);
        for bad in [&[0][..], &[0x80, 0x80, 0x80, 0x01], &[0xff, 0xff, 0xff, 0xff, 0x0f]] {
            assert!(take_packet(&mut bad.to_vec(), Framing::Plain).is_err(), "{bad:x?}");
        }
    }
}
