//! A client as strict as the game's own, from Login Success of 1.20.5 (766) to Transfer: whatever would make a
//! vanilla client leave is an error here. Bytes and time go in, bytes come out; [`crate::player`] has the socket.
//!
//! ```
//! # use std::time::Duration;
//! # use swarmgate_testkit::vanilla::{Phase, Vanilla};
//! let mut client = Vanilla::new(767, Duration::ZERO);
//! // A Login Success, byte by byte: the client is in, and says nothing before it is told to go on.
//! let success = swarmgate_testkit::login::LoginSuccess { name: "Ann".into(), uuid: 7 };
//! for byte in success.packet(767) {
//!     client.receive(&[byte], Duration::from_secs(1)).unwrap();
//! }
//! assert_eq!(client.phase(), Phase::LoggedIn);
//! client.acknowledge();
//! assert!(client.output().starts_with(&[1, 3]));
//! // Thirty seconds without a byte are too long.
//! assert!(client.tick(Duration::from_secs(32)).is_err());
//! ```
//!
//! What it enforces: the layout and the exact length of every packet; ids of the present phase only, and nothing
//! of the world before Login (play); a read timeout; identifiers of legal characters; registries that the protocol
//! has, non-empty where the game asks for that, bodies wherever no known pack was acknowledged, the fields and
//! references of bodies that are sure; every damage type; tags of known entries only, and those that the game's own
//! items name; a valid index of the dimension type; chunks as high as the dimension, with known biomes; text
//! components and dialogs that decode; boss bars that exist; cookies of at most 5120 bytes; a port to be transferred to.
//!
//! Stricter than vanilla: a packet that it does not read (entities, items, scoreboards, resource packs, deflated ones)
//! is an error, bytes behind a chunk's sections are one, tags may name no entry that was not sent.
//!
//! Weaker than vanilla: it draws nothing and simulates nothing; of a registry's bodies it checks those fields and
//! references that are listed in `registries.rs`, not the whole schema; numbers of blocks, of tags of built-in
//! registries and of particles are not looked up; it cannot tell whether a pack's own bodies name more than is known here;
//! clicks and hovers in texts are not decoded; a server that runs ahead, and sends the next phase's packets before the
//! client has acknowledged it, is let through, as vanilla does; signed chat is not spoken, and encryption is the
//! socket's affair. All that is
//! said of 777 (26.3) is derived, not seen.

mod chunk;
mod configuration;
mod ids;
mod play;
mod registries;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::login::LoginSuccess;
use crate::text::words;
use crate::wire::{Body, Fields, Framing, Packet, malformed, take_packet};

use configuration::Configuring;
pub use play::World;
pub use registries::{Entry, Registries};

/// How long the game waits for a byte.
pub const PATIENCE: Duration = Duration::from_secs(30);

const LONGEST_COOKIE: usize = 5120;
const LONGEST_NAME: usize = 16;
const LOGIN_ACKNOWLEDGED: i32 = 3;

/// What servers left with a client: they go along when it is transferred.
pub type Cookies = BTreeMap<String, Vec<u8>>;

/// The client's side of one connection, behind handshake and login start.
#[derive(Debug)]
pub struct Vanilla {
    protocol: i32,
    patience: Duration,
    heard: Duration,
    phase: Phase,
    framing: Framing,
    received: Vec<u8>,
    output: Vec<u8>,
    /// The version of the game's own pack that it has.
    pack: Option<&'static str>,
    cookies: Cookies,
    configuring: Configuring,
    world: Option<World>,
    seen: Seen,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Login,
    /// Login Success has come, and [`Vanilla::acknowledge`] was not called yet. What follows is kept unread.
    LoggedIn,
    Configuration,
    Play,
    Over,
}

/// How the server ended it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The words of the reason.
    Kicked(String),
    Transferred {
        host: String,
        port: u16,
    },
    /// The body of the request.
    EncryptionRequested(Vec<u8>),
}

/// What the server has let the client know.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    pub player: Option<(String, u128)>,
    pub brand: Option<String>,
    /// Packs that were offered, as `namespace:id version`.
    pub packs: Vec<String>,
    pub flags: Vec<String>,
    pub registries: Registries,
    /// Answered ones: in the configuration phase, in the game.
    pub keep_alives: (u32, u32),
    /// What a person would have read, in order.
    pub sights: Vec<Sight>,
    /// The boss bars that are shown now.
    pub bars: BTreeMap<u128, Bar>,
}

/// Something to read, as its words.
#[derive(Debug, Clone, PartialEq)]
pub enum Sight {
    Title(String),
    Subtitle(String),
    ActionBar(String),
    Bar(Bar),
    Chat(String),
    Dialog(String),
}

/// A boss bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub title: String,
    /// From 0 to 1.
    pub progress: f32,
}

impl Vanilla {
    /// A client that has the newest pack of its protocol, and no cookies.
    ///
    /// # Panics
    /// For a protocol whose configuration phase is not known here. Below 766 only the login is spoken.
    pub fn new(protocol: i32, now: Duration) -> Self {
        assert!(protocol <= 777, "protocol {protocol} is not known");
        Self {
            protocol,
            patience: PATIENCE,
            heard: now,
            phase: Phase::Login,
            framing: Framing::Plain,
            received: vec![],
            output: vec![],
            pack: releases(protocol).last().copied(),
            cookies: Cookies::new(),
            configuring: Configuring::default(),
            world: None,
            seen: Seen::default(),
            end: None,
        }
    }

    /// The version of the game's own pack that it has, such as 1.20.5; `None` as a client that has none, or whose
    /// pack was changed by a mod.
    pub fn pack(self, version: Option<&'static str>) -> Self {
        Self { pack: version, ..self }
    }

    /// In place of the game's thirty seconds.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    pub fn cookies(self, cookies: Cookies) -> Self {
        Self { cookies, ..self }
    }

    /// Takes bytes as they come, and answers. An error is what makes the game leave.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) -> io::Result<()> {
        self.tick(now)?;
        self.heard = now;
        self.received.extend_from_slice(bytes);
        self.go_on()
    }

    /// Fails when nothing was heard for too long.
    pub fn tick(&mut self, now: Duration) -> io::Result<()> {
        if now > self.deadline() && self.phase != Phase::Over {
            let why = format!("{:?}: nothing within {:?}", self.phase, self.patience);
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        Ok(())
    }

    /// When it loses patience, unless something comes.
    pub fn deadline(&self) -> Duration {
        self.heard + self.patience
    }

    /// What is to be sent.
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Goes on after Login Success, as the game does at once. A server of this kit that echoes is not to be told.
    ///
    /// # Panics
    /// At any other moment, and below protocol 766.
    pub fn acknowledge(&mut self) {
        assert_eq!(self.phase, Phase::LoggedIn);
        assert!(self.protocol >= 766, "protocol {} is known up to its login", self.protocol);
        self.send(LOGIN_ACKNOWLEDGED, Body::new());
        self.phase = Phase::Configuration;
        self.introduce();
    }

    /// Goes on after a request for encryption that was answered.
    ///
    /// # Panics
    /// At any other moment.
    pub fn encrypted(&mut self) {
        assert!(matches!(self.end, Some(End::EncryptionRequested(_))), "{:?}", self.end);
        self.end = None;
        self.phase = Phase::Login;
    }

    /// The next one, or the last: what came after [`Vanilla::acknowledge`] was called too late is read now.
    pub fn go_on(&mut self) -> io::Result<()> {
        while !matches!(self.phase, Phase::LoggedIn | Phase::Over) {
            let Some(packet) = take_packet(&mut self.received, self.framing)? else { break };
            let phase = self.phase;
            self.packet(&packet).map_err(|error| {
                let why = match error.kind() {
                    io::ErrorKind::UnexpectedEof => "it is too short".to_owned(),
                    _ => error.to_string(),
                };
                malformed(format!("{phase:?}, packet {:#04x}: {why}", packet.id))
            })?;
        }
        Ok(())
    }

    pub fn protocol(&self) -> i32 {
        self.protocol
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// From Login (play) on.
    pub fn world(&self) -> Option<&World> {
        self.world.as_ref()
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    pub fn into_cookies(self) -> Cookies {
        self.cookies
    }

    /// What came behind the last packet that was read.
    pub fn unread(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    fn packet(&mut self, packet: &Packet) -> io::Result<()> {
        let mut fields = packet.fields();
        match self.phase {
            Phase::Login => self.login(packet, &mut fields)?,
            Phase::Configuration => self.configuration(packet.id, &mut fields)?,
            Phase::Play => self.play(packet.id, &mut fields)?,
            Phase::LoggedIn | Phase::Over => unreachable!("no packet is taken then"),
        }
        fields.finish()
    }

    fn login(&mut self, packet: &Packet, fields: &mut Fields<'_>) -> io::Result<()> {
        match packet.id {
            0 => {
                let reason = serde_json::from_str(&fields.string()?).map_err(malformed)?;
                self.over(End::Kicked(words(&reason)));
            }
            1 => self.over(End::EncryptionRequested(fields.rest().to_vec())),
            2 => {
                let LoginSuccess { name, uuid } = LoginSuccess::parse(packet, self.protocol)?;
                fields.rest();
                if name.is_empty() || name.chars().count() > LONGEST_NAME {
                    return Err(malformed(format!("a player of the name {name:?}")));
                }
                self.seen.player = Some((name, uuid));
                self.phase = Phase::LoggedIn;
            }
            3 => {
                let threshold = fields.varint()?;
                self.framing = if threshold < 0 { Framing::Plain } else { Framing::Compressed };
            }
            4 => {
                let message = fields.varint()?;
                identifier(fields)?;
                fields.rest();
                self.send(2, Body::new().varint(message).bool(false));
            }
            5 => self.answer_cookie(4, fields)?,
            _ => return Err(malformed("unknown in this phase")),
        }
        Ok(())
    }

    fn answer_cookie(&mut self, id: i32, fields: &mut Fields<'_>) -> io::Result<()> {
        let key = identifier(fields)?;
        // The namespace is left out here, never on the wire.
        let named = Body::new().string(&full(&key));
        let answer = match self.cookies.get(&key) {
            Some(cookie) => named.bool(true).bytes(cookie),
            None => named.bool(false),
        };
        self.send(id, answer);
        Ok(())
    }

    fn store_cookie(&mut self, fields: &mut Fields<'_>) -> io::Result<()> {
        let key = identifier(fields)?;
        let cookie = fields.bytes()?;
        if cookie.len() > LONGEST_COOKIE {
            return Err(malformed(format!("a cookie of {} bytes", cookie.len())));
        }
        self.cookies.insert(key, cookie.to_vec());
        Ok(())
    }

    fn payload(&mut self, fields: &mut Fields<'_>) -> io::Result<()> {
        if identifier(fields)? == "brand" {
            self.seen.brand = Some(fields.string()?);
        } else {
            // Of a channel that it does not know: read past.
            fields.rest();
        }
        Ok(())
    }

    fn transfer(&mut self, fields: &mut Fields<'_>) -> io::Result<()> {
        let (host, port) = (fields.string()?, fields.varint()?);
        match u16::try_from(port) {
            Ok(port @ 1..) if !host.is_empty() => self.over(End::Transferred { host, port }),
            Ok(_) | Err(_) => return Err(malformed(format!("a transfer to {host:?}, port {port}"))),
        }
        Ok(())
    }

    fn over(&mut self, end: End) {
        self.end = Some(end);
        self.phase = Phase::Over;
    }

    fn send(&mut self, id: i32, body: Body) {
        let bytes = match self.framing {
            Framing::Plain => body.packet(id),
            // A data length of 0 comes before the id: "not deflated".
            Framing::Compressed => Body::new().varint(id).raw(&body.0).packet(0),
        };
        self.output.extend(bytes);
    }
}

/// Releases of a protocol, in order: each has a pack of its own version.
pub fn releases(protocol: i32) -> &'static [&'static str] {
    match protocol {
        766 => &["1.20.5", "1.20.6"],
        767 => &["1.21", "1.21.1"],
        768 => &["1.21.2", "1.21.3"],
        769 => &["1.21.4"],
        770 => &["1.21.5"],
        771 => &["1.21.6"],
        772 => &["1.21.7", "1.21.8"],
        773 => &["1.21.9", "1.21.10"],
        774 => &["1.21.11"],
        775 => &["26.1", "26.1.1", "26.1.2"],
        776 => &["26.2"],
        777 => &["26.3"],
        _ => &[],
    }
}

/// A name with its namespace, where that is not `minecraft`.
fn identifier(fields: &mut Fields<'_>) -> io::Result<String> {
    let text = fields.string()?;
    let (namespace, path) = text.split_once(':').unwrap_or(("minecraft", &text));
    let legal = |text: &str, more: &[u8]| {
        text.bytes().all(|byte| {
            matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.') || more.contains(&byte)
        })
    };
    if path.is_empty() || !legal(namespace, b"") || !legal(path, b"/") {
        return Err(malformed(format!("{text:?} is no identifier")));
    }
    Ok(if namespace == "minecraft" { path.to_owned() } else { text })
}

fn full(key: &str) -> String {
    if key.contains(':') { key.to_owned() } else { format!("minecraft:{key}") }
}
