//! The ladder: where a player waits for a server that is not up yet. World, waiting room, hold, disconnect:
//! the first rung that nothing speaks against.

use std::fmt;

use swarmgate_minecraft::limbo::{self, Offer};
use swarmgate_minecraft::version::Protocol;

use crate::service::Wait;

/// How a player can wait, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// In an empty world of the gate's own.
    World,
    /// In the game's configuration phase: a loading screen without a world.
    Room,
    /// On the open socket, the client seeing "logging in", for as long as the client bears it.
    Hold,
    /// Not at all: a readable disconnect. The wake goes on, and the next join goes straight in.
    Disconnect,
}

/// How a wait in the world or in the room ends when the server is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The client is sent to where it came in, with the game's own Transfer.
    Transfer,
    /// Behind a proxy of the game a transfer would lead the player around it: a disconnect asks to join again.
    Rejoin,
}

/// Why a rung is not for this player.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// `wait` of the service begins below it, or `hold` is zero.
    Setting,
    /// Older than 1.20.5: the game has no Transfer.
    OldProtocol,
    /// Newer than anything known here, a snapshot, or no number of a release at all.
    UnknownProtocol,
    /// The game's data for this protocol are not known.
    NoData,
    /// The handshake says that the client is modded.
    Modded,
    /// The client calls itself something that is not known to bear a plain world.
    Brand,
    /// The client has not the game's own data pack, and what it lacks cannot be sent in full.
    Pack,
    /// The client said no address to which it could be sent back.
    NoAddress,
    /// It was sent back too often within a short time: the server does not stay up.
    Loop,
    /// It broke there a while ago.
    Broke,
    /// As many wait there from this source as may.
    SourceFull,
    /// As many wait there as may.
    Full,
}

/// Everything the decision is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts<'a> {
    pub client: &'a Client,
    /// What the client has said in the configuration phase; `None` before it got there.
    pub said: Option<&'a Said>,
    pub asked: Asked,
    /// The caps on the world and the room that are reached.
    pub full: Option<Reason>,
    /// The lowest rung on which this player's client broke of late.
    pub broke: Option<Rung>,
    /// It was sent back too often of late.
    pub loops: bool,
}

/// What a client shows of itself in its first packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Client {
    /// As stated; 0 for a client from before there were protocol numbers.
    pub protocol: i32,
    pub modded: bool,
    /// A proxy of the game (Velocity, BungeeCord) stands between it and the gate.
    pub proxied: bool,
    /// There is an address it can be sent back to.
    pub addressed: bool,
    /// It says that it was sent here by a server.
    pub transferred: bool,
}

/// What a client says of itself in the configuration phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub brand: Option<String>,
    /// It can be given the world: it has the game's data, or they can be sent in full.
    pub world: bool,
}

/// What the service asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub wait: Wait,
    /// Clients with a mod loader's mark may wait in the room.
    pub modded_room: bool,
    /// It says itself where players are sent when it is ready.
    pub public_address: bool,
    /// It holds players for any time at all.
    pub holds: bool,
}

/// The rung, and why each better one was not for this player.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landing {
    pub rung: Rung,
    pub refused: Vec<(Rung, Reason)>,
}

/// Climbs down until nothing speaks against a rung.
pub fn descend(facts: &Facts<'_>) -> Landing {
    let mut refused = Vec::new();
    for (rung, objection) in [
        (Rung::World, against_world(facts)),
        (Rung::Room, against_room(facts)),
        (Rung::Hold, against_hold(facts)),
    ] {
        match objection {
            None => return Landing { rung, refused },
            Some(reason) => refused.push((rung, reason)),
        }
    }
    Landing { rung: Rung::Disconnect, refused }
}

fn against_world(facts: &Facts<'_>) -> Option<Reason> {
    let said = facts.said;
    let plain = said.is_none_or(|said| bears_a_plain_world(said.brand.as_deref()));
    first([
        when(facts.asked.wait > Wait::World, Reason::Setting),
        unoffered(facts.client),
        when(limbo::offer(facts.client.protocol) == Some(Offer::Room), Reason::NoData),
        when(facts.client.modded, Reason::Modded),
        when(!plain, Reason::Brand),
        when(said.is_some_and(|said| !said.world), Reason::Pack),
        when(facts.broke.is_some(), Reason::Broke),
        against_both(facts),
    ])
}

fn against_room(facts: &Facts<'_>) -> Option<Reason> {
    first([
        when(facts.asked.wait > Wait::Room, Reason::Setting),
        unoffered(facts.client),
        when(facts.client.modded && !facts.asked.modded_room, Reason::Modded),
        when(facts.broke.is_some_and(|broke| broke > Rung::World), Reason::Broke),
        against_both(facts),
    ])
}

fn against_hold(facts: &Facts<'_>) -> Option<Reason> {
    when(facts.asked.wait > Wait::Hold || !facts.asked.holds, Reason::Setting)
}

/// What speaks against the world and the room alike, whatever the version.
fn against_both(facts: &Facts<'_>) -> Option<Reason> {
    let nowhere = !facts.client.addressed && !facts.asked.public_address;
    let lost = nowhere && facts.client.exit() == Exit::Transfer;
    first([when(lost, Reason::NoAddress), when(facts.loops, Reason::Loop), facts.full])
}

fn unoffered(client: &Client) -> Option<Reason> {
    let old = (0..Protocol::TRANSFER.0).contains(&client.protocol);
    let why = if old { Reason::OldProtocol } else { Reason::UnknownProtocol };
    when(limbo::offer(client.protocol).is_none(), why)
}

fn first<const N: usize>(objections: [Option<Reason>; N]) -> Option<Reason> {
    objections.into_iter().flatten().next()
}

fn when(holds: bool, reason: Reason) -> Option<Reason> {
    holds.then_some(reason)
}

/// Clients that are content with a server that knows nothing of mods. One that says nothing is none of those
/// that would object: they all say who they are.
fn bears_a_plain_world(brand: Option<&str>) -> bool {
    const PLAIN: [&str; 3] = ["vanilla", "fabric", "quilt"];
    brand.is_none_or(|brand| PLAIN.contains(&brand))
}

impl Client {
    pub const fn exit(&self) -> Exit {
        if self.proxied { Exit::Rejoin } else { Exit::Transfer }
    }
}

impl fmt::Display for Landing {
    /// `hold (world: modded, room: modded)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rung)?;
        for (n, (rung, reason)) in self.refused.iter().enumerate() {
            write!(f, "{}{rung}: {}", if n == 0 { " (" } else { ", " }, reason.kind())?;
        }
        f.write_str(if self.refused.is_empty() { "" } else { ")" })
    }
}

impl Rung {
    /// Its word in logs and metric labels.
    pub const fn word(self) -> &'static str {
        match self {
            Self::World => "world",
            Self::Room => "room",
            Self::Hold => "hold",
            Self::Disconnect => "disconnect",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Reason {
    /// Its name in logs and metric labels.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Setting => "setting",
            Self::OldProtocol => "old_protocol",
            Self::UnknownProtocol => "unknown_protocol",
            Self::NoData => "no_data",
            Self::Modded => "modded",
            Self::Brand => "brand",
            Self::Pack => "pack",
            Self::NoAddress => "no_address",
            Self::Loop => "loop",
            Self::Broke => "broke",
            Self::SourceFull => "limbo_per_source",
            Self::Full => "limbo_total",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Client =
        Client { protocol: 767, modded: false, proxied: false, addressed: true, transferred: false };
    const ASKED: Asked = Asked { wait: Wait::World, modded_room: false, public_address: false, holds: true };

    fn facts(client: &Client) -> Facts<'_> {
        Facts { client, said: None, asked: ASKED, full: None, broke: None, loops: false }
    }

    fn said(brand: Option<&str>, world: bool) -> Said {
        Said { brand: brand.map(str::to_owned), world }
    }

    /// The rung, and the names of the reasons against each one above it.
    fn landing(facts: &Facts<'_>) -> (Rung, Vec<&'static str>) {
        let landing = descend(facts);
        let above = [Rung::World, Rung::Room, Rung::Hold].into_iter().take(landing.refused.len());
        assert!(above.eq(landing.refused.iter().map(|(rung, _)| *rung)), "{landing:?}");
        (landing.rung, landing.refused.iter().map(|(_, reason)| reason.kind()).collect())
    }

    #[test]
    fn what_the_client_is() {
        use Rung::{Hold, Room, World};
        for (client, rung, reasons) in [
            (ANY, World, &[][..]),
            (Client { protocol: 766, ..ANY }, World, &[]),
            (Client { protocol: 775, ..ANY }, World, &[]),
            (Client { protocol: 765, ..ANY }, Hold, &["old_protocol"; 2]),
            (Client { protocol: 47, ..ANY }, Hold, &["old_protocol"; 2]),
            (Client { protocol: 0, ..ANY }, Hold, &["old_protocol"; 2]),
            (Client { protocol: 9_999, ..ANY }, Hold, &["unknown_protocol"; 2]),
            (Client { protocol: 0x4000_0000 | 300, ..ANY }, Hold, &["unknown_protocol"; 2]),
            (Client { protocol: -1, ..ANY }, Hold, &["unknown_protocol"; 2]),
            (Client { modded: true, ..ANY }, Hold, &["modded"; 2]),
            (Client { addressed: false, ..ANY }, Hold, &["no_address"; 2]),
            (Client { proxied: true, ..ANY }, World, &[]),
            (Client { proxied: true, addressed: false, ..ANY }, World, &[]),
            (Client { transferred: true, ..ANY }, World, &[]),
        ] {
            assert_eq!(landing(&facts(&client)), (rung, reasons.to_vec()), "{client:?}");
        }
        let unknown = (766..=777).find(|&protocol| limbo::offer(protocol) == Some(Offer::Room));
        if let Some(protocol) = unknown {
            let client = Client { protocol, ..ANY };
            assert_eq!(landing(&facts(&client)), (Room, vec!["no_data"]));
        }
    }

    #[test]
    fn a_landing_reads_as_a_line() {
        assert_eq!(descend(&facts(&ANY)).to_string(), "world");
        let modded = Client { modded: true, ..ANY };
        assert_eq!(descend(&facts(&modded)).to_string(), "hold (world: modded, room: modded)");
    }

    #[test]
    fn what_the_service_asks_for() {
        let modded = Client { modded: true, ..ANY };
        let old = Client { protocol: 763, ..ANY };
        let nowhere = Client { addressed: false, ..ANY };
        for (client, asked, rung, reasons) in [
            (&ANY, Asked { wait: Wait::Room, ..ASKED }, Rung::Room, &["setting"][..]),
            (&ANY, Asked { wait: Wait::Hold, ..ASKED }, Rung::Hold, &["setting"; 2]),
            (&ANY, Asked { wait: Wait::Kick, ..ASKED }, Rung::Disconnect, &["setting"; 3]),
            (&ANY, Asked { holds: false, ..ASKED }, Rung::World, &[]),
            (&nowhere, Asked { public_address: true, ..ASKED }, Rung::World, &[]),
            (
                &old,
                Asked { holds: false, ..ASKED },
                Rung::Disconnect,
                &["old_protocol", "old_protocol", "setting"],
            ),
            (&modded, Asked { modded_room: true, ..ASKED }, Rung::Room, &["modded"]),
            (&modded, Asked { modded_room: true, wait: Wait::Hold, ..ASKED }, Rung::Hold, &["setting"; 2]),
        ] {
            let facts = Facts { asked, ..facts(client) };
            assert_eq!(landing(&facts), (rung, reasons.to_vec()), "{facts:?}");
        }
    }

    #[test]
    fn what_the_client_says_of_itself_in_the_configuration_phase() {
        for (said, rung, reasons) in [
            (said(Some("vanilla"), true), Rung::World, &[][..]),
            (said(Some("fabric"), true), Rung::World, &[]),
            (said(Some("quilt"), true), Rung::World, &[]),
            (said(None, true), Rung::World, &[]),
            (said(Some("neoforge"), true), Rung::Room, &["brand"]),
            (said(Some("forge"), true), Rung::Room, &["brand"]),
            (said(Some("Vanilla"), true), Rung::Room, &["brand"]),
            (said(Some("vanilla"), false), Rung::Room, &["pack"]),
        ] {
            let facts = Facts { said: Some(&said), ..facts(&ANY) };
            assert_eq!(landing(&facts), (rung, reasons.to_vec()), "{said:?}");
        }
    }

    #[test]
    fn what_happened_before_and_who_else_waits() {
        let plain = || facts(&ANY);
        for (facts, rung, reasons) in [
            (Facts { broke: Some(Rung::World), ..plain() }, Rung::Room, &["broke"][..]),
            (Facts { broke: Some(Rung::Room), ..plain() }, Rung::Hold, &["broke"; 2]),
            (Facts { loops: true, ..plain() }, Rung::Hold, &["loop"; 2]),
            (Facts { full: Some(Reason::SourceFull), ..plain() }, Rung::Hold, &["limbo_per_source"; 2]),
            (Facts { full: Some(Reason::Full), ..plain() }, Rung::Hold, &["limbo_total"; 2]),
            (
                Facts { loops: true, asked: Asked { holds: false, ..ASKED }, ..plain() },
                Rung::Disconnect,
                &["loop", "loop", "setting"],
            ),
        ] {
            assert_eq!(landing(&facts), (rung, reasons.to_vec()), "{facts:?}");
        }
    }

    #[test]
    fn nobody_behind_a_proxy_is_transferred() {
        assert_eq!(ANY.exit(), Exit::Transfer);
        assert_eq!(Client { proxied: true, ..ANY }.exit(), Exit::Rejoin);
    }
}
