//! Where a player waits *inside the game* for a server that is not up yet, sans-IO: bytes and the time in, bytes
//! and events out (minecraft.wiki, Java Edition protocol).
//!
//! From its login's success on, a client is a [`Session`]. It first comes into the *waiting room*, the
//! configuration phase, where nothing is shown but a dialog in versions that have them. From there [`Session::enter`]
//! takes it into the *world*, an empty one, where titles, a boss bar and chat tell what it waits for. In both it
//! is kept alive, and from both it can be transferred or sent away.
//!
//! What comes before the login's success is in [`encryption`] and [`forwarding`].

pub mod encryption;
pub mod forwarding;
mod inbox;
mod packets;
mod registry;
mod session;
#[cfg(test)]
mod tests;

use uuid::Uuid;

use crate::Malformed;
use crate::text::Component;

pub use session::Session;

/// What the world to wait in calls itself, as servers do.
pub const BRAND: &str = "Swarmgate";

/// The best place known to work for a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// An empty world. The waiting room works, too.
    World,
    /// The waiting room alone: what the world is made of is not surely known.
    Room,
}

/// Where clients of `protocol` can wait. `None`: the version knows no transfer, or nothing is known of it.
pub const fn offer(protocol: i32) -> Option<Offer> {
    match protocol {
        766..=775 => Some(Offer::World),
        776..=777 => Some(Offer::Room),
        _ => None,
    }
}

/// Who waits, as the login has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    pub protocol: i32,
    pub name: String,
    pub uuid: Uuid,
    /// The skin and whatever else belongs to the profile.
    pub properties: Vec<Property>,
}

/// One property of a player's profile, such as `textures`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    pub name: String,
    pub value: String,
    pub signature: Option<String>,
}

/// What a waiting player sees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scene {
    pub title: Component,
    pub subtitle: Component,
    pub boss_bar: Option<BossBar>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BossBar {
    pub text: Component,
    /// In percent; what is above 100 counts as 100.
    pub filled: u8,
    pub colour: BarColour,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarColour {
    Pink,
    Blue,
    Red,
    Green,
    Yellow,
    Purple,
    White,
}

/// Where a player is sent, and what goes along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    pub host: String,
    pub port: u16,
    /// Key (an identifier such as `swarmgate:ticket`) and value of a cookie for the next connection.
    pub cookie: Option<(String, Vec<u8>)>,
}

/// The most bytes of a cookie. The game would end the connection over a longer one, so it is left out.
pub const LONGEST_COOKIE: usize = 5120;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The client is in the waiting room, and waits there until [`Session::enter`].
    Arrived {
        /// What the client says it is: `vanilla`, `fabric`, `forge`, `neoforge`, …
        brand: Option<String>,
        /// Whether the world can be offered to it: its protocol's data is complete, or the client has said that
        /// it has the game's own.
        world: bool,
    },
    /// The player stands in the world.
    Entered,
    /// The last packet is in the output: the transfer or the disconnect. Nothing follows it.
    Over,
}

/// A client broke the rules. What is in the output may still be sent, but the connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("in the {stage}: {why}")]
pub struct Broken {
    pub stage: Stage,
    pub why: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Also a packet that has no place there.
    #[error("{0}")]
    Malformed(Malformed),
    #[error("nothing was answered for too long")]
    Silent,
    #[error("more was sent than any game does")]
    Flood,
}

/// How far a client has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its success is sent, and not acknowledged yet.
    Login,
    /// In the waiting room.
    Room,
    /// All that makes up the world is sent, and not acknowledged yet.
    Entering,
    World,
    /// Transferred or sent away.
    Over,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Login => "login",
            Self::Room => "waiting room",
            Self::Entering => "way into the world",
            Self::World => "world",
            Self::Over => "end",
        })
    }
}

impl Broken {
    /// A bounded name for metric labels.
    pub const fn kind(self) -> &'static str {
        match self.why {
            Fault::Malformed(why) => why.kind(),
            Fault::Silent => "silent",
            Fault::Flood => "flood",
        }
    }
}
