//! The game, as far as a world to wait in needs it.
//!
//! Source: minecraft.wiki, "Java Edition protocol"; PrismarineJS minecraft-data.

use std::collections::BTreeSet;
use std::io;

use crate::wire::{Body, Fields, malformed};

use super::ids::{self, Play, Playing};
use super::registries::Loaded;
use super::{Bar, End, Phase, Sight, Vanilla, chunk, identifier, text};

const LEVEL_CHUNKS_LOAD_START: u8 = 13;
const GAME_EVENTS: u8 = 13;

/// What Login (play) and the packets after it said.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    loaded: Loaded,
    login: Option<Login>,
    place: Option<[f64; 3]>,
    /// Chunks are on their way: the game shows the world once the player's own is there.
    loading: bool,
    center: (i32, i32),
    radius: i32,
    chunks: BTreeSet<(i32, i32)>,
    abilities: u8,
    told: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Login {
    entity: i32,
    /// An index into the dimension types.
    dimension: usize,
    game_mode: i32,
}

impl World {
    /// "Loading terrain" is over: the player's chunk is there, or the player outside of the world's height.
    pub fn is_entered(&self) -> bool {
        let (Some(login), Some([x, y, z])) = (&self.login, self.place) else { return false };
        let dimension = &self.loaded.dimensions[login.dimension];
        let inside =
            (f64::from(dimension.lowest)..f64::from(dimension.lowest + dimension.height)).contains(&y);
        let section = |at: f64| (at.floor() as i32) >> 4;
        self.loading && (!inside || self.chunks.contains(&(section(x), section(z))))
    }

    /// The player's own number among entities.
    pub fn entity(&self) -> Option<i32> {
        self.login.as_ref().map(|login| login.entity)
    }

    /// 0 survival, 1 creative, 2 adventure, 3 spectator.
    pub fn game_mode(&self) -> Option<i32> {
        self.login.as_ref().map(|login| login.game_mode)
    }

    /// Where the player stands.
    pub fn place(&self) -> Option<[f64; 3]> {
        self.place
    }

    /// As sent: 1 invulnerable, 2 flying, 4 may fly, 8 creative.
    pub fn abilities(&self) -> u8 {
        self.abilities
    }

    /// How many of them have come.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }
}

impl Vanilla {
    /// Behind the configuration phase, and before Login (play).
    pub(super) fn enter(&mut self, loaded: Loaded) {
        self.world = Some(World {
            loaded,
            login: None,
            place: None,
            loading: false,
            center: (0, 0),
            radius: 0,
            chunks: BTreeSet::new(),
            abilities: 0,
            told: false,
        });
    }

    /// Says a command, without its slash.
    pub fn command(&mut self, text: &str) {
        self.say(Playing::ChatCommand, Body::new().string(text));
    }

    /// What the game says twenty times a second (since 1.21.2), and once that it shows the world (since 1.21.4).
    pub fn beat(&mut self) {
        let Some(world) = self.world.as_mut().filter(|_| self.phase == Phase::Play) else { return };
        if world.is_entered() && !std::mem::replace(&mut world.told, true) {
            self.say(Playing::Loaded, Body::new());
        }
        self.say(Playing::TickEnd, Body::new());
    }

    pub(super) fn play(&mut self, id: i32, fields: &mut Fields<'_>) -> io::Result<()> {
        use Play as P;
        let protocol = self.protocol;
        let packet = ids::play(protocol, id).ok_or_else(|| malformed("unknown in this phase"))?;
        match packet {
            P::CookieRequest => {
                let id = ids::playing(protocol, Playing::Cookie).expect("known since 1.20.5");
                self.answer_cookie(id, fields)?;
            }
            P::Disconnect => {
                let reason = text::read(fields, protocol)?;
                self.over(End::Kicked(reason));
            }
            P::KeepAlive => {
                let body = Body::new().i64(fields.i64()?);
                self.say(Playing::KeepAlive, body);
                self.seen.keep_alives.1 += 1;
            }
            P::Payload => self.payload(fields)?,
            P::Ping => {
                let body = Body::new().i32(fields.i32()?);
                self.say(Playing::Pong, body);
            }
            P::StartConfiguration => {
                self.say(Playing::ConfigurationAcknowledged, Body::new());
                self.phase = Phase::Configuration;
                self.world = None;
                self.introduce();
            }
            P::StoreCookie => self.store_cookie(fields)?,
            P::Transfer => self.transfer(fields)?,
            P::Login => self.play_login(fields)?,
            P::Abilities
            | P::BatchFinished
            | P::BatchStart
            | P::Chunk
            | P::ChunkCenter
            | P::ChunkRadius
            | P::DefaultSpawn
            | P::GameEvent
            | P::PlayerInfo
            | P::Position => self.in_the_world(packet, fields)?,
            P::ActionBar
            | P::BossBar
            | P::ClearDialog
            | P::ClearTitles
            | P::ShowDialog
            | P::Subtitle
            | P::SystemChat
            | P::TabList
            | P::Times
            | P::Title => self.on_the_screen(packet, fields)?,
        }
        Ok(())
    }

    fn play_login(&mut self, fields: &mut Fields<'_>) -> io::Result<()> {
        let protocol = self.protocol;
        let world = self.world.as_mut().expect("made when the configuration was finished");
        if world.login.is_some() {
            return Err(malformed("a second Login (play)"));
        }
        let entity = fields.i32()?;
        fields.bool()?;
        for _ in 0..fields.varint()? {
            identifier(fields)?;
        }
        let (_most_players, view, _simulation) = (fields.varint()?, fields.varint()?, fields.varint()?);
        for _reduced_respawn_limited in 0..3 {
            fields.bool()?;
        }
        let dimension = fields.varint()?;
        let dimension = usize::try_from(dimension)
            .ok()
            .filter(|index| *index < world.loaded.dimensions.len())
            .ok_or_else(|| {
                malformed(format!("the dimension type {dimension} of {}", world.loaded.dimensions.len()))
            })?;
        identifier(fields)?;
        fields.i64()?;
        let game_mode = read_game_mode(fields, protocol)?;
        for _debug_flat in 0..2 {
            fields.bool()?;
        }
        if fields.bool()? {
            identifier(fields)?;
            fields.i64()?;
        }
        let _portal_cooldown = fields.varint()?;
        if protocol >= 768 {
            let _sea_level = fields.varint()?;
        }
        if protocol >= 776 {
            let _online = fields.bool()?;
        }
        let _secure_chat = fields.bool()?;
        world.radius = view;
        world.login = Some(Login { entity, dimension, game_mode });
        Ok(())
    }

    fn in_the_world(&mut self, packet: Play, fields: &mut Fields<'_>) -> io::Result<()> {
        use Play as P;
        let protocol = self.protocol;
        let world = self.world.as_mut().expect("made when the configuration was finished");
        let Some(login) = &world.login else { return Err(malformed("before Login (play)")) };
        match packet {
            P::Abilities => {
                world.abilities = fields.u8()?;
                finite(fields.f32()?)?;
                finite(fields.f32()?)?;
            }
            P::BatchFinished => {
                fields.varint()?;
                self.say(Playing::BatchReceived, Body::new().f32(20.0));
            }
            P::Chunk => {
                let height = world.loaded.dimensions[login.dimension].height;
                let place = chunk::read(fields, protocol, height, world.loaded.biomes)?;
                // A chunk too far away is ignored, and so never there.
                let reach = world.radius.max(2) + 3;
                if (place.0 - world.center.0).abs() <= reach && (place.1 - world.center.1).abs() <= reach {
                    world.chunks.insert(place);
                }
            }
            P::ChunkCenter => world.center = (fields.varint()?, fields.varint()?),
            P::ChunkRadius => world.radius = fields.varint()?,
            P::DefaultSpawn => {
                if protocol >= 773 {
                    identifier(fields)?;
                }
                fields.i64()?;
                finite(fields.f32()?)?;
                if protocol >= 773 {
                    finite(fields.f32()?)?;
                }
            }
            P::GameEvent => {
                let event = fields.u8()?;
                finite(fields.f32()?)?;
                if event > GAME_EVENTS {
                    return Err(malformed(format!("the game event {event}")));
                }
                world.loading |= event == LEVEL_CHUNKS_LOAD_START;
            }
            P::PlayerInfo => read_player_info(fields, protocol)?,
            P::Position => self.moved(fields)?,
            // `BatchStart`, which is empty.
            _ => {}
        }
        Ok(())
    }

    fn moved(&mut self, fields: &mut Fields<'_>) -> io::Result<()> {
        let id = if self.protocol >= 768 { Some(fields.varint()?) } else { None };
        let mut place = [fields.f64()?, fields.f64()?, fields.f64()?];
        if self.protocol >= 768 {
            for _velocity in 0..3 {
                fields.f64()?;
            }
        }
        let turn = [fields.f32()?, fields.f32()?];
        let relative = if self.protocol >= 768 { fields.i32()? } else { fields.u8()?.into() };
        let id = id.map_or_else(|| fields.varint(), Ok)?;
        let world = self.world.as_mut().expect("checked before");
        for (axis, at) in place.iter_mut().enumerate() {
            if !at.is_finite() {
                return Err(malformed(format!("a player at {at}")));
            }
            if relative & (1 << axis) != 0 {
                *at += world.place.unwrap_or_default()[axis];
            }
        }
        world.place = Some(place);
        let there = |body: Body| {
            let body = place.iter().fold(body, |body, at| body.f64(*at));
            turn.iter().fold(body, |body, turn| body.f32(*turn))
        };
        let accept = Body::new().varint(id);
        self.say(Playing::AcceptTeleport, if self.protocol >= 777 { there(accept) } else { accept });
        self.say(Playing::MovePosRot, there(Body::new()).u8(0));
        Ok(())
    }

    fn on_the_screen(&mut self, packet: Play, fields: &mut Fields<'_>) -> io::Result<()> {
        use Play as P;
        let protocol = self.protocol;
        let sight = match packet {
            P::BossBar => return self.boss_bar(fields),
            P::Title => Sight::Title(text::read(fields, protocol)?),
            P::Subtitle => Sight::Subtitle(text::read(fields, protocol)?),
            P::ActionBar => Sight::ActionBar(text::read(fields, protocol)?),
            P::SystemChat => {
                let words = text::read(fields, protocol)?;
                if fields.bool()? { Sight::ActionBar(words) } else { Sight::Chat(words) }
            }
            P::ShowDialog => {
                // A number of the registry and one, or 0 for a dialog that follows.
                if fields.varint()? != 0 {
                    return Err(malformed("a dialog by its number, which this client does not look up"));
                }
                Sight::Dialog(text::read_dialog(fields, protocol)?)
            }
            P::Times => {
                for _in_stay_out in 0..3 {
                    fields.i32()?;
                }
                return Ok(());
            }
            P::ClearTitles => return fields.bool().map(drop),
            P::TabList => {
                text::read(fields, protocol)?;
                return text::read(fields, protocol).map(drop);
            }
            // `ClearDialog`, which is empty.
            _ => return Ok(()),
        };
        self.seen.sights.push(sight);
        Ok(())
    }

    fn boss_bar(&mut self, fields: &mut Fields<'_>) -> io::Result<()> {
        let id = fields.uuid()?;
        let action = fields.varint()?;
        let bars = &mut self.seen.bars;
        if action == 0 {
            let title = text::read(fields, self.protocol)?;
            let progress = read_progress(fields)?;
            read_style(fields)?;
            fields.u8()?;
            bars.insert(id, Bar { title, progress });
        } else if action == 1 {
            bars.remove(&id);
            return Ok(());
        }
        let Some(bar) = bars.get_mut(&id) else {
            return Err(malformed(format!("the action {action} on a boss bar that is not there")));
        };
        match action {
            0 => {}
            2 => bar.progress = read_progress(fields)?,
            3 => bar.title = text::read(fields, self.protocol)?,
            4 => read_style(fields)?,
            5 => _ = fields.u8()?,
            other => return Err(malformed(format!("the action {other} on a boss bar"))),
        }
        self.seen.sights.push(Sight::Bar(bar.clone()));
        Ok(())
    }

    /// Says it where the version has such a packet.
    fn say(&mut self, packet: Playing, body: Body) {
        if let Some(id) = ids::playing(self.protocol, packet) {
            self.send(id, body);
        }
    }
}

fn read_game_mode(fields: &mut Fields<'_>, protocol: i32) -> io::Result<i32> {
    let (mode, before) = if protocol >= 777 {
        (fields.varint()?, fields.varint()? - 1)
    } else {
        (i32::from(fields.u8()?), i32::from(fields.u8()? as i8))
    };
    if (0..=3).contains(&mode) && (-1..=3).contains(&before) {
        return Ok(mode);
    }
    Err(malformed(format!("the game mode {mode} after {before}")))
}

fn read_progress(fields: &mut Fields<'_>) -> io::Result<f32> {
    let progress = fields.f32()?;
    if (0.0..=1.0).contains(&progress) {
        Ok(progress)
    } else {
        Err(malformed(format!("a bar {progress} full")))
    }
}

fn read_style(fields: &mut Fields<'_>) -> io::Result<()> {
    let (colour, notches) = (fields.varint()?, fields.varint()?);
    if (0..=6).contains(&colour) && (0..=4).contains(&notches) {
        return Ok(());
    }
    Err(malformed(format!("a boss bar of colour {colour} with notches {notches}")))
}

fn read_player_info(fields: &mut Fields<'_>, protocol: i32) -> io::Result<()> {
    let actions = fields.u8()?;
    let known = if protocol >= 769 {
        8
    } else if protocol >= 768 {
        7
    } else {
        6
    };
    if u32::from(actions) >= 1 << known {
        return Err(malformed(format!("the actions {actions:#x} on the list of players")));
    }
    for _ in 0..fields.varint()? {
        fields.uuid()?;
        for action in (0..known).filter(|action| actions & (1 << action) != 0) {
            match action {
                0 => {
                    fields.string()?;
                    for _ in 0..fields.varint()? {
                        fields.string()?;
                        fields.string()?;
                        if fields.bool()? {
                            fields.string()?;
                        }
                    }
                }
                1 => {
                    if fields.bool()? {
                        return Err(malformed("a chat session, which this client does not read"));
                    }
                }
                2 | 4 | 6 => _ = fields.varint()?,
                3 | 7 => _ = fields.bool()?,
                _ => {
                    if fields.bool()? {
                        text::read(fields, protocol)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn finite(number: f32) -> io::Result<()> {
    if number.is_finite() { Ok(()) } else { Err(malformed(format!("{number}"))) }
}
