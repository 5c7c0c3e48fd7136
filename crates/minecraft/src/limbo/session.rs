//! One waiting client, from its login's success to its transfer.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use super::inbox::{Inbox, Interest};
use super::registry::{self, Bodies, Registries};
use super::{BossBar, Broken, Event, Fault, Guest, Scene, Stage, Transfer, offer, packets};
use crate::Malformed;
use crate::field::Reader;
use crate::ids::{self, Answers, Play, Setup};
use crate::text::Component;
use crate::version::Protocol;

/// Between two keep-alives; a client gives up after 30 seconds without one.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// How long the login may be unacknowledged.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a keep-alive may be unanswered, and how long the way into the world may take: a client with many mods loads
/// for a minute, in either phase.
const LONG_PATIENCE: Duration = Duration::from_secs(90);
/// How long a client is given to say what data it has; any game says so at once.
const UNDECIDED: Duration = Duration::from_secs(10);
/// The most bytes in one [`FLOOD_WINDOW`]: more than any game sends, even with mods.
const FLOOD: usize = 4 << 20;
const FLOOD_WINDOW: Duration = Duration::from_secs(10);

const LOGIN_ACKNOWLEDGED: i32 = 3;
const LONGEST_KEEP_ALIVE: usize = 8;
/// A brand's packet; a longer payload is something else.
const LONGEST_BRAND: usize = 300;
/// Room for some dozens of packs.
const LONGEST_PACKS: usize = 4096;
/// Room for the longest cookie and its key.
const LONGEST_COOKIE_ANSWER: usize = super::LONGEST_COOKIE + 1024;
const LONGEST_KEY: usize = 256;

/// A waiting client. Time is counted from any moment, such as the session's begin.
#[derive(Debug)]
pub struct Session {
    protocol: i32,
    setup: Setup,
    play: Play,
    answers: Answers,
    stage: Stage,
    /// Since when this stage lasts.
    since: Duration,
    inbox: Inbox,
    out: Vec<u8>,
    events: VecDeque<Event>,
    brand: Option<String>,
    /// Whether [`Event::Arrived`] was given, and what a world would be made of.
    arrived: Option<Option<&'static Registries>>,
    alive: Alive,
    /// What the player is to see, and what it sees.
    wanted: Scene,
    shown: Scene,
    dialog: Vec<u8>,
    farewell: Option<Farewell>,
    flood: (Duration, usize),
}

/// The keep-alives.
#[derive(Debug, Default)]
struct Alive {
    next: Duration,
    /// When the first without an answer was sent. Its number is this moment in milliseconds.
    unanswered: Option<Duration>,
    /// The number of the last one.
    last: i64,
}

#[derive(Debug)]
enum Farewell {
    Transfer(Transfer),
    Disconnect(Component),
}

impl Session {
    /// Begins with the login's success. `None` if nothing is [offered](offer) for the protocol.
    pub fn new(guest: &Guest, now: Duration) -> Option<Self> {
        offer(guest.protocol)?;
        let mut out = Vec::new();
        packets::login_success(guest, &mut out);
        Some(Self {
            protocol: guest.protocol,
            setup: ids::setup(guest.protocol),
            play: ids::play(guest.protocol)?,
            answers: ids::answers(guest.protocol),
            stage: Stage::Login,
            since: now,
            inbox: Inbox::default(),
            out,
            events: VecDeque::new(),
            brand: None,
            arrived: None,
            alive: Alive::default(),
            wanted: Scene::default(),
            shown: Scene::default(),
            dialog: Vec::new(),
            farewell: None,
            flood: (now, 0),
        })
    }

    /// Takes what came, in whatever pieces.
    ///
    /// # Errors
    /// The client broke the rules: what is in the output may still be sent, but the connection is over.
    pub fn receive(&mut self, mut bytes: &[u8], now: Duration) -> Result<(), Broken> {
        self.count(bytes.len(), now)?;
        while self.stage != Stage::Over {
            let stage = self.stage;
            let malformed = |why| Broken { stage, why: Fault::Malformed(why) };
            let judge = Judge { stage, answers: &self.answers, play: &self.play };
            let next = self.inbox.next(&mut bytes, |id, size| judge.judge(id, size)).map_err(malformed)?;
            let Some((id, fields)) = next else { break };
            self.packet(id, Reader::new(&fields), now).map_err(malformed)?;
        }
        Ok(())
    }

    /// Does what is due: keep-alives, and giving up on a client that does not answer.
    ///
    /// # Errors
    /// The client has been silent for too long.
    pub fn tick(&mut self, now: Duration) -> Result<(), Broken> {
        if now >= self.deadline() {
            return Err(Broken { stage: self.stage, why: Fault::Silent });
        }
        match self.stage {
            Stage::Room => {
                if self.arrived.is_none() && now >= self.since.saturating_add(UNDECIDED) {
                    self.arrive(None);
                }
                self.keep_alive(self.setup.keep_alive, now);
            }
            Stage::World => self.keep_alive(self.play.keep_alive, now),
            Stage::Login | Stage::Entering | Stage::Over => {}
        }
        Ok(())
    }

    /// When [`Self::tick`] is due.
    pub fn next_tick(&self) -> Duration {
        let due = match self.stage {
            Stage::Room if self.arrived.is_none() => {
                self.alive.next.min(self.since.saturating_add(UNDECIDED))
            }
            Stage::Room | Stage::World => self.alive.next,
            Stage::Login | Stage::Entering | Stage::Over => Duration::MAX,
        };
        due.min(self.deadline())
    }

    /// Takes what is to be sent.
    pub fn output(&mut self) -> Vec<u8> {
        mem::take(&mut self.out)
    }

    /// What has happened, oldest first.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// Takes the client from the waiting room into the world. Does nothing if [`Event::Arrived`] has not said
    /// that it can.
    pub fn enter(&mut self, now: Duration) {
        let Some(Some(registries)) = self.arrived else { return };
        if self.stage != Stage::Room {
            return;
        }
        if let Some(clear) = self.setup.clear_dialog.filter(|_| !self.dialog.is_empty()) {
            packets::write(&mut self.out, clear, |_| {});
        }
        packets::brand(&self.setup, &mut self.out);
        self.out.extend_from_slice(&registries.packets);
        packets::write(&mut self.out, self.setup.finish, |_| {});
        self.go(Stage::Entering, now);
    }

    /// Shows this, of which only what has changed is sent; at once or as soon as the player is where it can be
    /// seen. The waiting room has dialogs only, since 1.21.6, and they show all but the action bar.
    pub fn show(&mut self, scene: &Scene) {
        if self.wanted != *scene {
            self.wanted.clone_from(scene);
        }
        match self.stage {
            Stage::World => self.draw(),
            Stage::Room if self.arrived.is_some() => self.draw_dialog(),
            Stage::Room | Stage::Login | Stage::Entering | Stage::Over => {}
        }
    }

    /// Writes a line into the chat. There is none but in the world.
    pub fn say(&mut self, line: &Component) {
        if self.stage == Stage::World {
            packets::chat(&self.play, line, &mut self.out);
        }
    }

    /// Sends the client to another server, now or as soon as the protocol allows; [`Event::Over`] says when. Once
    /// it is to be transferred or sent away, nothing changes that.
    pub fn transfer(&mut self, to: Transfer) {
        self.farewell.get_or_insert(Farewell::Transfer(to));
        self.leave();
    }

    /// Sends the client away with a reason, as [`Self::transfer`] does.
    pub fn disconnect(&mut self, reason: Component) {
        self.farewell.get_or_insert(Farewell::Disconnect(reason));
        self.leave();
    }

    /// Bytes of a client's that are kept here.
    #[cfg(test)]
    pub(super) const fn held(&self) -> usize {
        self.inbox.held()
    }

    fn packet(&mut self, id: i32, fields: Reader<'_>, now: Duration) -> Result<(), Malformed> {
        match self.stage {
            Stage::Login => {
                packets::known_packs(&self.setup, Protocol(self.protocol).releases(), &mut self.out);
                self.alive.next = now.saturating_add(KEEP_ALIVE);
                self.go(Stage::Room, now);
                self.leave();
                Ok(())
            }
            Stage::Room | Stage::Entering if id == self.answers.payload => {
                self.payload(fields);
                Ok(())
            }
            Stage::Room | Stage::Entering if id == self.answers.known_packs => self.packs(fields),
            Stage::Room | Stage::Entering if id == self.answers.keep_alive => self.alive.answer(fields),
            // The acknowledgement.
            Stage::Room | Stage::Entering => {
                self.begin(now);
                Ok(())
            }
            Stage::World => self.alive.answer(fields),
            Stage::Over => Ok(()),
        }
    }

    /// Of a client's payloads only its brand is of interest, and that not if it cannot be read.
    fn payload(&mut self, mut fields: Reader<'_>) {
        if self.brand.is_none() && fields.text(LONGEST_KEY) == Ok("minecraft:brand") {
            self.brand = fields.text(LONGEST_KEY).ok().map(str::to_owned);
        }
    }

    /// The packs that the client has, of those it was asked for.
    fn packs(&mut self, mut fields: Reader<'_>) -> Result<(), Malformed> {
        if self.arrived.is_some() {
            return Ok(());
        }
        let releases = Protocol(self.protocol).releases();
        let mut core = false;
        for _ in 0..fields.varint()? {
            let pack = [fields.text(LONGEST_KEY)?, fields.text(LONGEST_KEY)?, fields.text(LONGEST_KEY)?];
            core |= matches!(pack, ["minecraft", "core", release] if releases.contains(&release));
        }
        fields.end()?;
        self.arrive(Some(if core { Bodies::AsNeeded } else { Bodies::All }));
        Ok(())
    }

    fn arrive(&mut self, bodies: Option<Bodies>) {
        let registries = bodies.and_then(|bodies| registry::of(self.protocol, &self.setup, bodies));
        self.arrived = Some(registries);
        let brand = self.brand.clone();
        self.events.push_back(Event::Arrived { brand, world: registries.is_some() });
    }

    /// The client has acknowledged all that makes up the world: it comes into it.
    fn begin(&mut self, now: Duration) {
        let Some(Some(registries)) = self.arrived else { return };
        let Registries { dimension, biome, .. } = registries;
        packets::world(self.protocol, &self.play, *dimension, *biome, &mut self.out);
        packets::title_times(&self.play, &mut self.out);
        self.alive = Alive { next: now.saturating_add(KEEP_ALIVE), ..Alive::default() };
        self.go(Stage::World, now);
        self.events.push_back(Event::Entered);
        self.draw();
        self.leave();
    }

    fn draw(&mut self) {
        let Self { wanted, shown, play, out, .. } = self;
        // A title alone is seen; what is below it comes first, so that both come together.
        if shown.subtitle != wanted.subtitle {
            packets::text(play.subtitle, &wanted.subtitle, out);
        }
        if shown.title != wanted.title {
            packets::text(play.title, &wanted.title, out);
        }
        packets::boss_bar(play, shown.boss_bar.as_ref(), wanted.boss_bar.as_ref(), out);
        shown.clone_from(wanted);
    }

    fn draw_dialog(&mut self) {
        let Some(id) = self.setup.show_dialog else { return };
        let Scene { title, subtitle, boss_bar, .. } = &self.wanted;
        let bar = boss_bar.as_ref().map(|BossBar { text, .. }| text);
        let lines: Vec<_> = [Some(subtitle), bar]
            .into_iter()
            .flatten()
            .filter(|line| **line != Component::default())
            .collect();
        let mut dialog = Vec::new();
        packets::dialog(id, title, &lines, &mut dialog);
        if self.dialog != dialog {
            self.out.extend_from_slice(&dialog);
            self.dialog = dialog;
        }
    }

    /// Says farewell if it is time to, and the client can be told.
    fn leave(&mut self) {
        let (disconnect, cookie, transfer) = match self.stage {
            Stage::Room => (self.setup.disconnect, Some(self.setup.store_cookie), Some(self.setup.transfer)),
            Stage::World => (self.play.disconnect, self.play.store_cookie, self.play.transfer),
            Stage::Login | Stage::Entering | Stage::Over => return,
        };
        match (&self.farewell, cookie, transfer) {
            (Some(Farewell::Transfer(to)), Some(cookie), Some(transfer)) => {
                packets::transfer(cookie, transfer, to, &mut self.out);
            }
            (Some(Farewell::Disconnect(reason)), ..) => packets::text(disconnect, reason, &mut self.out),
            (Some(Farewell::Transfer(_)), ..) | (None, ..) => return,
        }
        self.stage = Stage::Over;
        self.events.push_back(Event::Over);
    }

    fn go(&mut self, stage: Stage, now: Duration) {
        self.stage = stage;
        self.since = now;
    }

    fn keep_alive(&mut self, id: i32, now: Duration) {
        if now >= self.alive.next {
            self.alive.next = now.saturating_add(KEEP_ALIVE);
            self.alive.unanswered.get_or_insert(now);
            self.alive.last = number(now);
            packets::keep_alive(id, self.alive.last, &mut self.out);
        }
    }

    /// When to give up on the client.
    fn deadline(&self) -> Duration {
        let (from, patience) = match self.stage {
            Stage::Login => (Some(self.since), PATIENCE),
            Stage::Entering => (Some(self.since), LONG_PATIENCE),
            Stage::Room | Stage::World => (self.alive.unanswered, LONG_PATIENCE),
            Stage::Over => (None, PATIENCE),
        };
        from.map_or(Duration::MAX, |from| from.saturating_add(patience))
    }

    fn count(&mut self, bytes: usize, now: Duration) -> Result<(), Broken> {
        let (since, before) = self.flood;
        self.flood = if now < since.saturating_add(FLOOD_WINDOW) {
            (since, before.saturating_add(bytes))
        } else {
            (now, bytes)
        };
        if self.flood.1 > FLOOD { Err(Broken { stage: self.stage, why: Fault::Flood }) } else { Ok(()) }
    }
}

impl Alive {
    /// Any number sent since the last answer is one; others are not listened to.
    fn answer(&mut self, mut fields: Reader<'_>) -> Result<(), Malformed> {
        let answered = fields.i64()?;
        fields.end()?;
        if self.unanswered.is_some_and(|first| (number(first)..=self.last).contains(&answered)) {
            self.unanswered = None;
        }
        Ok(())
    }
}

/// A keep-alive's number: the moment it was sent.
fn number(now: Duration) -> i64 {
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// What a client may send, and what of it is listened to.
struct Judge<'a> {
    stage: Stage,
    answers: &'a Answers,
    play: &'a Play,
}

impl Judge<'_> {
    fn judge(&self, id: i32, size: usize) -> Result<Interest, Malformed> {
        let Answers { payload, cookie, finish, keep_alive, known_packs, .. } = *self.answers;
        match self.stage {
            Stage::Login => match id {
                LOGIN_ACKNOWLEDGED => keep(size, 0),
                // Late answers to what was asked before.
                2 | 4 => Ok(Interest::Skip),
                other => Err(Malformed::BadPacketId(other)),
            },
            Stage::Room if id == finish => Err(Malformed::BadPacketId(id)),
            Stage::Entering if id == finish => keep(size, 0),
            Stage::Room | Stage::Entering if id == payload && size <= LONGEST_BRAND => Ok(Interest::Keep),
            Stage::Room | Stage::Entering if id == known_packs => keep(size, LONGEST_PACKS),
            // Nothing is asked here, but an answer to an earlier question may be late.
            Stage::Room | Stage::Entering if id == cookie => skip(size, LONGEST_COOKIE_ANSWER),
            Stage::Room | Stage::Entering if id == keep_alive => keep(size, LONGEST_KEEP_ALIVE),
            Stage::World if id == self.play.answer_cookie => skip(size, LONGEST_COOKIE_ANSWER),
            Stage::World if id == self.play.answer_keep_alive => keep(size, LONGEST_KEEP_ALIVE),
            Stage::Room | Stage::Entering | Stage::World if id < 0 => Err(Malformed::BadPacketId(id)),
            Stage::Room | Stage::Entering | Stage::World | Stage::Over => Ok(Interest::Skip),
        }
    }
}

fn keep(size: usize, limit: usize) -> Result<Interest, Malformed> {
    if size > limit { Err(Malformed::Oversized { claimed: size, limit }) } else { Ok(Interest::Keep) }
}

fn skip(size: usize, limit: usize) -> Result<Interest, Malformed> {
    keep(size, limit).map(|_| Interest::Skip)
}
