//! A client's side of a join, for those who have no game at hand: what to answer to what a server sends, from
//! behind the login start to the game's keep-alives. It has no account, looks at no world and asks for nothing
//! (minecraft.wiki, Java Edition protocol).

mod framing;
mod sight;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::Value;
use uuid::Uuid;

use crate::field::{Reader, write_text};
use crate::ids::{self, Configuration, Play};
use crate::version::Protocol;
use crate::{Malformed, frame, limbo, login, nbt, varint};
use framing::Framing;
pub use sight::Sight;

/// The most bytes a frame may have, its length included: what 3 bytes of length can say.
const LONGEST_FRAME: usize = (1 << 21) - 1 + 3;
/// The most characters of an identifier.
const LONGEST_KEY: usize = 32_767;
/// The most bytes of a cookie.
const LONGEST_COOKIE: usize = 5120;
/// Cookies of one server; the game has no bound, but memory has.
const MOST_COOKIES: usize = 64;

const LOGIN_ACKNOWLEDGED: i32 = 3;
const DECLINED: i32 = 1;
/// The layout of login success has been the same since.
const BINARY_UUID: i32 = 735;
const CONFIGURATION: i32 = 764;
/// 1.20.3: texts are NBT behind the login.
const NBT_TEXTS: i32 = 765;

/// What servers have left with this client, by name. They go along when it is transferred.
pub type Cookies = BTreeMap<String, Vec<u8>>;

/// One connection, from behind the login start on.
#[derive(Debug)]
pub struct Client {
    protocol: i32,
    stage: Stage,
    framing: Framing,
    received: Vec<u8>,
    cookies: Cookies,
    seen: Seen,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Login,
    /// Since 1.20.2.
    Configuration,
    /// The game itself.
    Play,
}

/// What became known of the server on the way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The player's name and UUID, as the server has decided.
    pub player: Option<(String, Option<Uuid>)>,
    /// Packets of this many bytes and more are compressed.
    pub compression: Option<usize>,
    /// What the server says it is, such as `vanilla` or `Paper`.
    pub brand: Option<String>,
    /// How many registries were sent.
    pub registries: usize,
}

/// What one packet leads to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// To be sent at once.
    pub send: Vec<u8>,
    pub event: Option<Event>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The server has let the player in, and nothing more is known of this protocol.
    LoggedIn,
    /// The game has begun: since 1.20.2 with its first packet, before that with the login's end.
    Joined,
    /// There is something to read. With it, too, the game has begun, save for a dialog.
    Saw(Sight),
    /// A text component, or plain text.
    SentAway(Value),
    /// The server asks for encryption: a player would now prove the account.
    ProofWanted,
    /// To connect there, with the intent to transfer.
    Transferred { host: String, port: u16 },
}

impl Client {
    /// For a handshake and a login start that have been sent.
    pub fn new(protocol: i32, cookies: Cookies) -> Self {
        Self {
            protocol,
            stage: Stage::Login,
            framing: Framing::Plain,
            received: Vec::new(),
            cookies,
            seen: Seen::default(),
        }
    }

    /// Takes what came, in whatever pieces.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Goes one packet further. `None` if more bytes are needed. After an error or any event but
    /// [`Event::Joined`] and [`Event::Saw`] there is nothing more to do on this connection.
    pub fn step(&mut self) -> Result<Option<Step>, Malformed> {
        let Some(frame) = frame::split(&self.received, LONGEST_FRAME)? else { return Ok(None) };
        let consumed = frame.consumed;
        let packet = self.framing.open(frame.body)?.into_owned();
        self.received.drain(..consumed);
        let mut fields = Reader::new(&packet);
        let id = fields.varint()?;
        match self.stage {
            Stage::Login => self.login(id, fields, &packet),
            Stage::Configuration => self.configuration(id, fields),
            Stage::Play => self.play(id, fields),
        }
        .map(Some)
    }

    pub const fn stage(&self) -> Stage {
        self.stage
    }

    pub const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Whether it is in a gate's world to wait in, not on a server.
    pub fn is_waiting(&self) -> bool {
        self.stage == Stage::Play && self.seen.brand.as_deref() == Some(limbo::BRAND)
    }

    /// Whether it can answer the game's keep-alives, and so stay.
    pub fn can_stay(&self) -> bool {
        ids::play(self.protocol).is_some()
    }

    pub fn into_cookies(self) -> Cookies {
        self.cookies
    }

    fn login(&mut self, id: i32, mut fields: Reader<'_>, packet: &[u8]) -> Result<Step, Malformed> {
        match id {
            0 => login::parse_disconnect(packet).map(|reason| Event::SentAway(reason).into()),
            1 => Ok(Event::ProofWanted.into()),
            2 => self.logged_in(fields),
            3 => {
                self.framing = Framing::of_threshold(fields.varint()?);
                self.seen.compression = match self.framing {
                    Framing::Plain => None,
                    Framing::Compressed { threshold } => Some(threshold),
                };
                Ok(Step::default())
            }
            4 => {
                // "I do not know what you mean", as the game says to every plugin.
                let message = fields.varint()?;
                self.send(2, |body| {
                    varint::write(message, body);
                    body.push(0);
                })
            }
            5 => self.cookie(4, fields),
            other => Err(Malformed::BadPacketId(other)),
        }
    }

    fn logged_in(&mut self, mut fields: Reader<'_>) -> Result<Step, Malformed> {
        let uuid = if self.protocol < BINARY_UUID {
            Uuid::try_parse(fields.text(36)?).ok()
        } else {
            Some(fields.uuid()?)
        };
        self.seen.player = Some((fields.text(LONGEST_KEY)?.to_owned(), uuid));
        match self.protocol {
            ..CONFIGURATION => {
                self.stage = Stage::Play;
                Ok(Event::Joined.into())
            }
            CONFIGURATION.. if !Protocol(self.protocol).is_known() => Ok(Event::LoggedIn.into()),
            CONFIGURATION.. => {
                self.stage = Stage::Configuration;
                let mut step = self.send(LOGIN_ACKNOWLEDGED, |_| {})?;
                step.send.extend(self.introduction()?);
                Ok(step)
            }
        }
    }

    /// Brand and settings, which the game sends unasked.
    fn introduction(&self) -> Result<Vec<u8>, Malformed> {
        let ids = ids::answers(self.protocol);
        let brand = self.send(ids.payload, |body| {
            write_text("minecraft:brand", body);
            write_text("vanilla", body);
        })?;
        let settings = self.send(ids.settings, |body| {
            write_text("en_us", body);
            // View distance, chat shown with colours, all skin parts, right-handed, no filter, listed.
            body.extend([8, 0, 1, 0x7f, 1, 0, 1]);
            // Particles, since 1.21.2.
            if self.protocol >= 768 {
                body.push(0);
            }
        })?;
        Ok([brand.send, settings.send].concat())
    }

    fn configuration(&mut self, id: i32, mut fields: Reader<'_>) -> Result<Step, Malformed> {
        let answers = ids::answers(self.protocol);
        match ids::configuration(self.protocol, id) {
            Configuration::Cookie => self.cookie(answers.cookie, fields),
            Configuration::Payload => {
                if fields.text(LONGEST_KEY)? == "minecraft:brand" {
                    self.seen.brand = fields.text(LONGEST_KEY).ok().map(str::to_owned);
                }
                Ok(Step::default())
            }
            Configuration::Disconnect => self.sent_away(fields),
            Configuration::Finish => {
                self.stage = Stage::Play;
                self.send(answers.finish, |_| {})
            }
            Configuration::KeepAlive => self.send(answers.keep_alive, |body| body.extend(fields.rest())),
            Configuration::Ping => self.send(answers.pong, |body| body.extend(fields.rest())),
            Configuration::Registry => {
                self.seen.registries += 1;
                Ok(Step::default())
            }
            Configuration::Pack => {
                let pack = if self.protocol >= NBT_TEXTS { fields.bytes(16)? } else { &[] };
                self.send(answers.pack, |body| {
                    body.extend(pack);
                    varint::write(DECLINED, body);
                })
            }
            Configuration::StoreCookie => self.store(fields),
            Configuration::Transfer => transferred(fields),
            Configuration::KnownPacks => self.known_packs(answers.known_packs, fields),
            Configuration::Conduct => self.send(answers.conduct, |_| {}),
            Configuration::Other if ids::setup(self.protocol).show_dialog == Some(id) => {
                Ok(Step { event: sight::dialog(fields).map(Event::Saw), ..Step::default() })
            }
            Configuration::Other => Ok(Step::default()),
        }
    }

    /// The game's own pack, of the newest release that it is offered for, as a player's client has it.
    fn known_packs(&self, answer: i32, mut fields: Reader<'_>) -> Result<Step, Malformed> {
        let releases = Protocol(self.protocol).releases();
        let mut known = None;
        for _ in 0..fields.varint()? {
            let pack = [fields.text(LONGEST_KEY)?, fields.text(LONGEST_KEY)?, fields.text(LONGEST_KEY)?];
            if matches!(pack, ["minecraft", "core", release] if releases.contains(&release)) {
                known = Some(pack);
            }
        }
        self.send(answer, |body| {
            body.push(known.is_some().into());
            known.iter().flatten().for_each(|part| write_text(part, body));
        })
    }

    fn play(&mut self, id: i32, fields: Reader<'_>) -> Result<Step, Malformed> {
        let Some(ids) = ids::play(self.protocol) else { return Ok(Step::default()) };
        let mut step = self.play_step(&ids, id, fields)?;
        step.event = step.event.or(Some(Event::Joined));
        Ok(step)
    }

    fn play_step(&mut self, ids: &Play, id: i32, fields: Reader<'_>) -> Result<Step, Malformed> {
        match Some(id) {
            same if same == Some(ids.keep_alive) => {
                self.send(ids.answer_keep_alive, |body| body.extend(fields.rest()))
            }
            same if same == Some(ids.disconnect) => self.sent_away(fields),
            same if same == Some(ids.start_configuration) => {
                let step = self.send(ids.acknowledge_configuration, |_| {});
                self.stage = Stage::Configuration;
                step
            }
            same if same == ids.cookie => self.cookie(ids.answer_cookie, fields),
            same if same == ids.store_cookie => self.store(fields),
            same if same == ids.transfer => transferred(fields),
            _ if self.protocol < NBT_TEXTS => Ok(Step::default()),
            _ => Ok(Step { event: sight::of(ids, id, fields).map(Event::Saw), ..Step::default() }),
        }
    }

    fn cookie(&self, answer: i32, mut fields: Reader<'_>) -> Result<Step, Malformed> {
        let key = fields.text(LONGEST_KEY)?;
        self.send(answer, |body| {
            write_text(key, body);
            match self.cookies.get(key) {
                Some(cookie) => {
                    body.push(1);
                    varint::write(i32::try_from(cookie.len()).unwrap_or(i32::MAX), body);
                    body.extend(cookie);
                }
                None => body.push(0),
            }
        })
    }

    fn store(&mut self, mut fields: Reader<'_>) -> Result<Step, Malformed> {
        let key = fields.text(LONGEST_KEY)?.to_owned();
        let cookie = fields.counted_bytes()?;
        if cookie.len() > LONGEST_COOKIE {
            return Err(Malformed::Oversized { claimed: cookie.len(), limit: LONGEST_COOKIE });
        }
        if self.cookies.len() < MOST_COOKIES || self.cookies.contains_key(&key) {
            self.cookies.insert(key, cookie.to_vec());
        }
        Ok(Step::default())
    }

    fn sent_away(&self, mut fields: Reader<'_>) -> Result<Step, Malformed> {
        let reason = if self.protocol >= NBT_TEXTS {
            nbt::read(fields.rest())?
        } else {
            login::reason(fields.text(login::LONGEST_REASON)?)
        };
        Ok(Event::SentAway(reason).into())
    }

    fn send(&self, id: i32, write: impl FnOnce(&mut Vec<u8>)) -> Result<Step, Malformed> {
        let mut packet = Vec::new();
        varint::write(id, &mut packet);
        write(&mut packet);
        Ok(Step { send: self.framing.seal(&packet), event: None })
    }
}

fn transferred(mut fields: Reader<'_>) -> Result<Step, Malformed> {
    let host = fields.text(LONGEST_KEY)?.to_owned();
    let port = u16::try_from(fields.varint()?).map_err(|_| Malformed::NegativeLength)?;
    Ok(Event::Transferred { host, port }.into())
}

impl From<Event> for Step {
    fn from(event: Event) -> Self {
        Self { send: Vec::new(), event: Some(event) }
    }
}
