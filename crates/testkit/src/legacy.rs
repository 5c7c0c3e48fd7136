//! Clients older than 1.7: their pings, their logins, and the kick that answers both.
//!
//! Source: minecraft.wiki, "Java Edition protocol/Server List Ping" and the pre-Netty protocol pages.

use std::io;

use crate::wire::{Body, malformed};

/// A server-list ping of the years before 1.7, or what today's tools send in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ping {
    /// `FE`: Beta 1.8 to 1.3.
    Bare,
    /// `FE 01`: 1.4 and 1.5.
    Short,
    /// `FE 01 FA` and no more: some pingers.
    Header,
    /// 1.6, and the second try of a modern client whose first ping failed.
    Full { protocol: u8, host: String, port: u16 },
    /// `FE 01 FA` and then anything: some pingers write their own string, or ASCII.
    HeaderAnd(Vec<u8>),
}

impl Ping {
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bare => vec![0xfe],
            Self::Short => vec![0xfe, 1],
            Self::Header => vec![0xfe, 1, 0xfa],
            Self::HeaderAnd(rest) => [&[0xfe, 1, 0xfa], &rest[..]].concat(),
            Self::Full { protocol, host, port } => {
                let host = string16(host);
                Body::new()
                    .raw(&[0xfe, 1, 0xfa])
                    .raw(&string16("MC|PingHost"))
                    .u16(1 + host.len() as u16 + 4)
                    .u8(*protocol)
                    .raw(&host)
                    .i32((*port).into())
                    .0
            }
        }
    }
}

/// The first packet (`02`) of a login before 1.7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// Up to 1.1: the name alone.
    Name(String),
    /// 1.2: `name;host:port`.
    NameAndHost { name: String, host: String, port: u16 },
    /// 1.3 to 1.6: protocols 39 to 78.
    Fields { protocol: u8, name: String, host: String, port: u16 },
}

impl Login {
    pub fn bytes(&self) -> Vec<u8> {
        let body = Body::new().u8(2);
        match self {
            Self::Name(name) => body.raw(&string16(name)).0,
            Self::NameAndHost { name, host, port } => body.raw(&string16(&format!("{name};{host}:{port}"))).0,
            Self::Fields { protocol, name, host, port } => {
                body.u8(*protocol).raw(&string16(name)).raw(&string16(host)).i32((*port).into()).0
            }
        }
    }
}

/// What a legacy ping is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// `None` in the form for [`Ping::Bare`], which has only these three: motd, online, max.
    pub version: Option<(i32, String)>,
    pub motd: String,
    pub online: u32,
    pub max: u32,
}

impl Status {
    /// Reads the text of a kick as a status; `None` when it is only a message.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("§1\0") {
            let [protocol, version, motd, online, max] = rest.split('\0').collect::<Vec<_>>()[..] else {
                return None;
            };
            let version = Some((protocol.parse().ok()?, version.to_owned()));
            return Some(Self {
                version,
                motd: motd.into(),
                online: online.parse().ok()?,
                max: max.parse().ok()?,
            });
        }
        let [motd, online, max] = text.split('§').collect::<Vec<_>>()[..] else { return None };
        Some(Self { version: None, motd: motd.into(), online: online.parse().ok()?, max: max.parse().ok()? })
    }

    /// The text that [`Status::parse`] reads.
    pub fn text(&self) -> String {
        let Self { motd, online, max, .. } = self;
        match &self.version {
            Some((protocol, version)) => format!("§1\0{protocol}\0{version}\0{motd}\0{online}\0{max}"),
            None => format!("{motd}§{online}§{max}"),
        }
    }
}

/// The kick (`FF`) with this text: an answer to a ping, or the end of a login.
pub fn kick(text: &str) -> Vec<u8> {
    Body::new().u8(0xff).raw(&string16(text)).0
}

/// Reads everything a server sent before it closed: one kick and nothing else.
pub fn parse_kick(bytes: &[u8]) -> io::Result<String> {
    let [0xff, high, low, text @ ..] = bytes else {
        return Err(malformed(format!("not a kick: {bytes:02x?}")));
    };
    if text.len() != 2 * usize::from(u16::from_be_bytes([*high, *low])) {
        return Err(malformed(format!("a kick of the wrong length: {bytes:02x?}")));
    }
    let units: Vec<_> = text.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    String::from_utf16(&units).map_err(malformed)
}

/// UTF-16 after its length in units.
fn string16(text: &str) -> Vec<u8> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let start = Body::new().u16(units.len() as u16);
    units.iter().fold(start, |body, unit| body.u16(*unit)).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_and_logins_byte_for_byte() {
        let ping = Ping::Full { protocol: 78, host: "ab".into(), port: 25565 };
        let expected =
            b"\xfe\x01\xfa\0\x0b\0M\0C\0|\0P\0i\0n\0g\0H\0o\0s\0t\0\x0b\x4e\0\x02\0a\0b\0\0\x63\xdd";
        assert_eq!(ping.bytes(), expected);
        let login = Login::Fields { protocol: 78, name: "Bo".into(), host: "a".into(), port: 25565 };
        assert_eq!(login.bytes(), b"\x02\x4e\0\x02\0B\0o\0\x01\0a\0\0\x63\xdd");
        assert_eq!(Login::Name("Bo".into()).bytes(), b"\x02\0\x02\0B\0o");
        let login = Login::NameAndHost { name: "B".into(), host: "a".into(), port: 1 };
        assert_eq!(login.bytes(), b"\x02\0\x05\0B\0;\0a\0:\x001");
    }

    #[test]
    fn kicks_and_statuses() {
        assert_eq!(kick("hé"), b"\xff\0\x02\0h\0\xe9");
        assert_eq!(parse_kick(b"\xff\0\x02\0h\0\xe9").unwrap(), "hé");
        assert!(parse_kick(b"\xff\0\x03\0h\0\xe9").is_err());
        assert!(parse_kick(b"\0\0\0").is_err());
        let new = Status { version: Some((127, "26.3".into())), motd: "A world".into(), online: 1, max: 20 };
        let old = Status { version: None, ..new.clone() };
        for (text, status) in [
            ("§1\x00127\x0026.3\0A world\x001\x0020", Some(&new)),
            ("A world§1§20", Some(&old)),
            ("Outdated client", None),
        ] {
            assert_eq!(Status::parse(text).as_ref(), status, "{text}");
            assert!(status.is_none_or(|status| status.text() == text));
        }
    }
}
