//! The configuration phase: who is who, packs, registries, tags, and perhaps a wait in a dialog.
//!
//! Source: minecraft.wiki, "Java Edition protocol"; PrismarineJS minecraft-data.

use std::io;

use crate::wire::{Body, Fields, malformed};

use super::ids::{self, Configuration, configuring};
use super::{End, Phase, Registries, Sight, Vanilla, identifier, releases, text};

/// The known packs a client answers with at most.
const MOST_PACKS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Configuring {
    registries: Registries,
    /// The game's own pack is among those that both sides know.
    core: bool,
}

impl Vanilla {
    /// What it says unasked: its brand and its settings.
    pub(super) fn introduce(&mut self) {
        self.configuring = Configuring::default();
        self.send(configuring::PAYLOAD, Body::new().string("minecraft:brand").string("vanilla"));
        self.send(configuring::SETTINGS, settings(self.protocol));
    }

    pub(super) fn configuration(&mut self, id: i32, fields: &mut Fields<'_>) -> io::Result<()> {
        use Configuration as C;
        let packet =
            ids::configuration(self.protocol, id).ok_or_else(|| malformed("unknown in this phase"))?;
        match packet {
            C::CookieRequest => self.answer_cookie(configuring::COOKIE, fields)?,
            C::Payload => self.payload(fields)?,
            C::Disconnect => {
                let reason = text::read(fields, self.protocol)?;
                self.over(End::Kicked(reason));
            }
            C::Finish => self.finish()?,
            C::KeepAlive => {
                let body = Body::new().i64(fields.i64()?);
                self.send(configuring::KEEP_ALIVE, body);
                self.seen.keep_alives.0 += 1;
            }
            C::Ping => {
                let body = Body::new().i32(fields.i32()?);
                self.send(configuring::PONG, body);
            }
            C::Registry => self.configuring.registries.read_registry(fields, self.protocol)?,
            C::StoreCookie => self.store_cookie(fields)?,
            C::Transfer => self.transfer(fields)?,
            C::Flags => {
                let flags = (0..fields.varint()?).map(|_| identifier(fields));
                self.seen.flags = flags.collect::<io::Result<_>>()?;
            }
            C::Tags => self.configuring.registries.read_tags(fields, self.protocol)?,
            C::KnownPacks => self.known_packs(fields)?,
            C::ResetChat | C::ClearDialog => {}
            C::ShowDialog => {
                let dialog = text::read_dialog(fields, self.protocol)?;
                self.seen.sights.push(Sight::Dialog(dialog));
            }
        }
        Ok(())
    }

    /// Those of the offered packs that it has, exactly.
    fn known_packs(&mut self, fields: &mut Fields<'_>) -> io::Result<()> {
        let mut known = vec![];
        for _ in 0..fields.varint()? {
            let pack = (fields.string()?, fields.string()?, fields.string()?);
            self.seen.packs.push(format!("{}:{} {}", pack.0, pack.1, pack.2));
            if (pack.0.as_str(), pack.1.as_str()) == ("minecraft", "core") {
                if !releases(self.protocol).contains(&pack.2.as_str()) {
                    return Err(malformed(format!("no client of {} has the pack {}", self.protocol, pack.2)));
                }
                if Some(pack.2.as_str()) == self.pack {
                    known.push(pack);
                }
            }
        }
        if known.len() > MOST_PACKS {
            return Err(malformed(format!("{} known packs", known.len())));
        }
        self.configuring.core = !known.is_empty();
        let body = Body::new().varint(known.len() as i32);
        let answer = known
            .iter()
            .fold(body, |body, (namespace, id, version)| body.string(namespace).string(id).string(version));
        self.send(configuring::KNOWN_PACKS, answer);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let registries = std::mem::take(&mut self.configuring.registries);
        let loaded = registries.load(self.protocol, self.configuring.core)?;
        self.seen.registries = registries;
        self.enter(loaded);
        self.send(configuring::FINISH, Body::new());
        self.phase = Phase::Play;
        Ok(())
    }
}

/// Client Information with the game's defaults.
fn settings(protocol: i32) -> Body {
    let body =
        Body::new().string("en_us").u8(12).varint(0).bool(true).u8(0x7f).varint(1).bool(false).bool(true);
    // The particle setting came with 1.21.2.
    if protocol >= 768 { body.varint(0) } else { body }
}
