//! Clients from before 1.7: their server list pings, their logins, and the kick packet that answers both
//! (minecraft.wiki, Java Edition protocol, Server List Ping and its history). Newer clients send such a ping,
//! too, when their own got no answer.

use crate::Malformed;
use crate::field::{Reader, utf16, write_utf16_text};
use crate::text::without_codes;

/// First byte of a ping. It also begins every modern frame of 254, 382, … bytes.
pub const PING: u8 = 0xfe;
/// First byte of a login. No modern opening begins so: no handshake fits in 2 bytes.
pub const LOGIN: u8 = 0x02;
const KICK: u8 = 0xff;
/// Old clients read no more of a kick than this, in UTF-16 units.
const LONGEST_KICK: u16 = 256;
const LONGEST_NAME: usize = 64;
const LONGEST_HOST: usize = 255;
const CHANNEL: &str = "MC|PingHost";

/// A server list ping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    pub form: Form,
    /// What 1.6 clients add. Each is `None` where a client sent it cut short or in a shape of its own.
    pub protocol: Option<u8>,
    pub host: Option<String>,
    pub port: Option<u16>,
}

/// The shapes of a ping, and with them of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// `FE`: beta 1.8 to 1.3.
    Beta,
    /// `FE 01`: 1.4 and 1.5.
    Release,
    /// `FE 01 FA …`: 1.6, and newer ones falling back.
    WithHost,
}

/// A login from before 1.7.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub name: String,
    /// Not sent before 1.3.
    pub protocol: Option<u8>,
    pub host: Option<String>,
    pub port: Option<u16>,
}

/// What a ping is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// 127 is no version's number: the client shows `version` in red.
    pub protocol: i32,
    pub version: String,
    /// Text with `§` codes.
    pub motd: String,
    pub online: u32,
    pub max: u32,
}

impl Ping {
    /// Reads an opening that begins with [`PING`]. A ping may end after each of its first three bytes, and
    /// nothing marks the end: `settled` says that nothing more came for a while. `None` if more may come.
    pub fn parse(bytes: &[u8], settled: bool) -> Option<Self> {
        let form = match bytes {
            [_, 0x01, 0xfa, ..] => Form::WithHost,
            [_, 0x01, ..] => Form::Release,
            _ => Form::Beta,
        };
        let mut ping = Self { form, protocol: None, host: None, port: None };
        let outcome = match form {
            Form::Beta | Form::Release => Err(Malformed::Truncated),
            Form::WithHost => ping.read_host(Reader::new(bytes.get(3..).unwrap_or_default())),
        };
        // A shape of its own gets its answer, too, at once.
        let more_may_come = outcome == Err(Malformed::Truncated);
        (settled || !more_may_come).then_some(ping)
    }

    /// What a client of 1.6.4 sends, or an older one: they leave out the host.
    pub fn request(form: Form, host: &str, port: u16) -> Vec<u8> {
        const PROTOCOL: u8 = 78;
        let mut sent = match form {
            Form::Beta => return vec![PING],
            Form::Release => return vec![PING, 0x01],
            Form::WithHost => vec![PING, 0x01, 0xfa],
        };
        let mut rest = vec![PROTOCOL];
        write_utf16_text(host, 255, &mut rest);
        rest.extend(i32::from(port).to_be_bytes());
        write_utf16_text(CHANNEL, u16::MAX, &mut sent);
        sent.extend(u16::try_from(rest.len()).unwrap_or(u16::MAX).to_be_bytes());
        sent.extend(rest);
        sent
    }

    fn read_host(&mut self, mut fields: Reader<'_>) -> Result<(), Malformed> {
        let wide = read_channel(&mut fields)?;
        let rest = usize::from(fields.u16()?);
        self.protocol = Some(fields.u8()?);
        if wide || rest != 7 + usize::from(Reader::clone(&fields).u16()?) {
            self.host = Some(fields.utf16_text(LONGEST_HOST)?);
        } else {
            let size = usize::from(fields.u16()?);
            let host = std::str::from_utf8(fields.bytes(size.min(LONGEST_HOST))?);
            self.host = Some(host.map_err(|_| Malformed::NotUnicode)?.to_owned());
        }
        self.port = u16::try_from(fields.i32()?).ok();
        Ok(())
    }
}

/// Whether the channel's name is in UTF-16, as it should be; some pingers write ASCII.
fn read_channel(fields: &mut Reader<'_>) -> Result<bool, Malformed> {
    let length = usize::from(fields.u16()?);
    if length != CHANNEL.len() {
        return Err(Malformed::LongText { limit: CHANNEL.len() });
    }
    let mut ahead = *fields;
    if ahead.u8()? != 0 {
        let name = fields.bytes(length)?;
        return if name == CHANNEL.as_bytes() { Ok(false) } else { Err(Malformed::NotUnicode) };
    }
    let name = utf16(fields.bytes(2 * length)?)?;
    if name == CHANNEL { Ok(true) } else { Err(Malformed::NotUnicode) }
}

impl Login {
    /// Reads an opening that begins with [`LOGIN`]. `None` if more bytes are needed.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut fields = Reader::new(bytes.get(1..).unwrap_or_default());
        // Up to 1.2.5 a text's length follows, less than 256; since 1.3 the protocol, 39 or more.
        let login = match fields.rest() {
            [] => return Ok(None),
            [0, ..] => fields.utf16_text(LONGEST_NAME + LONGEST_HOST).map(|text| Self::from_text(&text)),
            [_, ..] => Self::read(fields),
        };
        match login {
            Err(Malformed::Truncated) => Ok(None),
            Err(why) => Err(why),
            Ok(login) if login.name.is_empty() => Err(Malformed::EmptyName),
            Ok(login) => Ok(Some(login)),
        }
    }

    /// `name;host:port`, or in older versions a name alone.
    fn from_text(text: &str) -> Self {
        let (name, address) =
            text.split_once(';').map_or((text, None), |(name, address)| (name, Some(address)));
        let (host, port) = match address.and_then(|address| address.rsplit_once(':')) {
            Some((host, port)) => (Some(host), port.parse().ok()),
            None => (address, None),
        };
        Self { name: name.to_owned(), protocol: None, host: host.map(str::to_owned), port }
    }

    fn read(mut fields: Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            protocol: Some(fields.u8()?),
            name: fields.utf16_text(LONGEST_NAME)?,
            host: Some(fields.utf16_text(LONGEST_HOST)?),
            port: u16::try_from(fields.i32()?).ok(),
        })
    }
}

impl Answer {
    /// The kick packet that answers a ping of this form. Too long a text is cut, never the numbers behind it.
    pub fn encode(&self, form: Form) -> Vec<u8> {
        let Self { protocol, version, motd, online, max } = self;
        let (before, motd, after) = match form {
            // The sign separates fields here.
            Form::Beta => (String::new(), without_codes(motd), format!("§{online}§{max}")),
            Form::Release | Form::WithHost => {
                let version = version.replace('\0', "");
                let before = format!("§1\0{protocol}\0{}\0", cut(&version, 64));
                (before, motd.replace('\0', ""), format!("\0{online}\0{max}"))
            }
        };
        let taken = before.chars().chain(after.chars()).map(char::len_utf16).sum();
        let motd = cut(&motd, usize::from(LONGEST_KICK).saturating_sub(taken));
        kick(&format!("{before}{motd}{after}"))
    }

    /// Reads the text of a kick as an answer, in either form. `None` if it is none.
    pub fn from_kick(text: &str) -> Option<Self> {
        if let Some(fields) = text.strip_prefix("§1\0") {
            let mut fields = fields.split('\0');
            return Some(Self {
                protocol: fields.next()?.parse().ok()?,
                version: fields.next()?.to_owned(),
                motd: fields.next()?.to_owned(),
                online: fields.next()?.parse().ok()?,
                max: fields.next()?.parse().ok()?,
            });
        }
        let mut fields = text.rsplitn(3, '§');
        let max = fields.next()?.parse().ok()?;
        let online = fields.next()?.parse().ok()?;
        Some(Self { protocol: 0, version: String::new(), motd: fields.next()?.to_owned(), online, max })
    }
}

/// The packet that sends a client of before 1.7 away with a reason, `§` codes allowed.
pub fn kick(reason: &str) -> Vec<u8> {
    let mut packet = vec![KICK];
    write_utf16_text(reason, LONGEST_KICK, &mut packet);
    packet
}

/// Reads a kick packet's text. `None` if more bytes are needed.
pub fn parse_kick(bytes: &[u8]) -> Result<Option<String>, Malformed> {
    let mut fields = Reader::new(bytes);
    match fields.u8() {
        Ok(KICK) => {}
        Ok(other) => return Err(Malformed::BadPacketId(other.into())),
        Err(_) => return Ok(None),
    }
    match fields.utf16_text(usize::from(u16::MAX)) {
        Err(Malformed::Truncated) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// The first `limit` UTF-16 units, cut between two characters.
fn cut(text: &str, limit: usize) -> &str {
    let mut units = 0;
    let end = text.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > limit
    });
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wide(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write_utf16_text(text, u16::MAX, &mut out);
        out
    }

    fn ping(form: Form, protocol: Option<u8>, host: Option<&str>, port: Option<u16>) -> Ping {
        Ping { form, protocol, host: host.map(str::to_owned), port }
    }

    fn with_host() -> Vec<u8> {
        let host = wide("mc.example.com");
        [b"\xfe\x01\xfa", &wide(CHANNEL)[..], &[0, 35, 78], &host, &[0, 0, 0x63, 0xdd]].concat()
    }

    #[test]
    fn pings() {
        let full = with_host();
        let host = Some("mc.example.com");
        let narrow =
            [b"\xfe\x01\xfa\x00\x0bMC|PingHost", &[0, 21, 74, 0, 14][..], b"mc.example.com\0\0\x63\xdd"]
                .concat();
        let mixed = [
            b"\xfe\x01\xfa\x00\x0bMC|PingHost",
            &[0, 35, 74][..],
            &wide("mc.example.com"),
            &[0, 0, 0x63, 0xdd],
        ]
        .concat();
        let far = [&full[..full.len() - 4], &[0xff; 4]].concat();
        for (bytes, needs_to_settle, expected) in [
            (&b"\xfe"[..], true, ping(Form::Beta, None, None, None)),
            (b"\xfe\x01", true, ping(Form::Release, None, None, None)),
            (b"\xfe\x01\xfa", true, ping(Form::WithHost, None, None, None)),
            (&full[..12], true, ping(Form::WithHost, None, None, None)),
            (&full[..30], true, ping(Form::WithHost, Some(78), None, None)),
            (&full[..full.len() - 1], true, ping(Form::WithHost, Some(78), host, None)),
            (&full, false, ping(Form::WithHost, Some(78), host, Some(25565))),
            (&far, false, ping(Form::WithHost, Some(78), host, None)),
            (&narrow, false, ping(Form::WithHost, Some(74), host, Some(25565))),
            (&mixed, false, ping(Form::WithHost, Some(74), host, Some(25565))),
            (b"\xfe\x01\xfa\x00\x0bMC|PingHust", false, ping(Form::WithHost, None, None, None)),
            (b"\xfe\x01\xfa\xff\xff", false, ping(Form::WithHost, None, None, None)),
        ] {
            assert_eq!(Ping::parse(bytes, false).is_none(), needs_to_settle, "{bytes:02x?}");
            assert_eq!(Ping::parse(bytes, true), Some(expected), "{bytes:02x?}");
        }
    }

    #[test]
    fn requests() {
        assert_eq!(Ping::request(Form::Beta, "mc.example.com", 25565), b"\xfe");
        assert_eq!(Ping::request(Form::Release, "mc.example.com", 25565), b"\xfe\x01");
        assert_eq!(Ping::request(Form::WithHost, "mc.example.com", 25565), with_host());
    }

    #[test]
    fn logins() {
        let old = [b"\x02", &wide("user;mc.example.com:25565")[..]].concat();
        assert_eq!(old[..3], [0x02, 0x00, 0x19]);
        let new = [b"\x02\x3d", &wide("user")[..], &wide("mc.example.com"), &[0, 0, 0x63, 0xdd]].concat();
        let login = |protocol, host: Option<&str>, port| {
            Some(Login { name: "user".to_owned(), protocol, host: host.map(str::to_owned), port })
        };
        let host = Some("mc.example.com");
        for (bytes, expected) in [
            (old, Ok(login(None, host, Some(25565)))),
            (new, Ok(login(Some(61), host, Some(25565)))),
            ([b"\x02", &wide("user")[..]].concat(), Ok(login(None, None, None))),
            ([b"\x02", &wide("user;::1")[..]].concat(), Ok(login(None, Some(":"), Some(1)))),
            ([b"\x02", &wide(";host:1")[..]].concat(), Err(Malformed::EmptyName)),
            (b"\x02\x3d\xff\xff".to_vec(), Err(Malformed::LongText { limit: 64 })),
        ] {
            assert_eq!(Login::parse(&bytes), expected, "{bytes:02x?}");
            if expected.is_ok() {
                for end in 1..bytes.len() {
                    assert_eq!(Login::parse(&bytes[..end]), Ok(None));
                }
            }
        }
    }

    #[test]
    fn answers() {
        let answer = Answer {
            protocol: 127,
            version: "26.2".to_owned(),
            motd: "§aAsleep".to_owned(),
            online: 0,
            max: 20,
        };
        let text = |form| parse_kick(&answer.encode(form)).unwrap().unwrap();
        assert_eq!(text(Form::Beta), "Asleep§0§20");
        assert_eq!(text(Form::Release), "§1\x00127\x0026.2\0§aAsleep\x000\x0020");
        assert_eq!(text(Form::WithHost), text(Form::Release));
        assert_eq!(Answer::from_kick(&text(Form::Release)), Some(answer));
        assert_eq!(
            Answer::from_kick("A§b§3§20").map(|a| (a.motd, a.online, a.max)),
            Some(("A§b".to_owned(), 3, 20))
        );
        assert_eq!(Answer::from_kick("Server closed"), None);
        assert_eq!(kick("hé"), [0xff, 0, 2, 0, b'h', 0, 0xe9]);
        assert_eq!(parse_kick(b"\xff\0\x02\0h\0"), Ok(None));
        assert_eq!(parse_kick(b"\x00"), Err(Malformed::BadPacketId(0)));
    }

    proptest! {
        #[test]
        fn numbers_survive_long_texts(motd in "\\PC{0,400}", version in "\\PC{0,400}", online: u32, max: u32) {
            let answer = Answer { protocol: 127, version, motd, online, max };
            for form in [Form::Beta, Form::Release] {
                let text = parse_kick(&answer.encode(form)).unwrap().unwrap();
                prop_assert!(text.encode_utf16().count() <= 256);
                let read = Answer::from_kick(&text).unwrap();
                prop_assert_eq!((read.online, read.max), (online, max));
            }
        }
    }
}
