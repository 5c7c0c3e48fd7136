//! What a client asks for, and what the gate decides to do about it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::ladder::{Client, Exit, Landing};
use crate::learned::Learned;
use crate::moment::Moment;
use crate::name::HostName;
use crate::service::{Endpoint, ServiceId, Spec, State};

/// A connection's first packets, read and reduced to what decisions need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knock {
    /// `None` when what the client sent is no hostname at all.
    pub host: Option<HostName>,
    pub purpose: Purpose,
    /// The effective address: from a trusted PROXY header if there was one.
    pub source: IpAddr,
    /// The service that a valid cookie of this gate says the player has waited for.
    pub pass: Option<ServiceId>,
    /// Who the player is, where that is proven: by the session server, or by a proxy in front that has its secret.
    pub account: Option<Player>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    Status,
    Login(Player, Client),
}

impl Knock {
    pub const fn player(&self) -> Option<&Player> {
        match &self.purpose {
            Purpose::Status => None,
            Purpose::Login(player, _) => Some(player),
        }
    }

    pub const fn client(&self) -> Option<&Client> {
        match &self.purpose {
            Purpose::Status => None,
            Purpose::Login(_, client) => Some(client),
        }
    }

    /// The connection was encrypted for the proof, with a key of the gate's own: no server can take it over.
    pub fn is_sealed(&self) -> bool {
        self.account.is_some() && self.client().is_some_and(|client| client.exit() == Exit::Transfer)
    }
}

/// Who the client claims to be, unless it is said that it is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Player {
    pub name: String,
    pub uuid: Option<Uuid>,
}

/// What to do with a knock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Answer the status ping for a service that cannot answer itself.
    Answer(Face),
    /// Relay the status ping to the running service.
    Forward(Target),
    /// Say why not, and close.
    Refuse(Refusal),
    /// Only players whose account is proven wake the service: let this one prove it, and knock again with it.
    Prove(Face),
    /// Relay the player to the running service.
    Relay(Seat, Target),
    /// Let the player wait until the service is ready.
    Wait(Seat, Waiting),
}

impl Verdict {
    /// Its word in logs and metric labels.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Answer(_) => "answer",
            Self::Forward(_) => "forward",
            Self::Refuse(_) => "refuse",
            Self::Prove(_) => "prove",
            Self::Relay(..) => "relay",
            Self::Wait(..) => "wait",
        }
    }
}

/// Where to relay to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub service: ServiceId,
    pub spec: Arc<Spec>,
    pub endpoints: Vec<Endpoint>,
}

/// How a player waits. Each way ends in the game or in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub landing: Landing,
    /// How a wait in the world or the room ends well.
    pub exit: Exit,
    /// How long the socket may be held: the whole wait of [`Rung::Hold`], and what comes before the world or the
    /// room for those who would have to join again from there.
    ///
    /// [`Rung::Hold`]: crate::ladder::Rung::Hold
    pub hold: Duration,
}

/// A place in a service, held from before the wake to the end of the connection. While one is held the
/// service is not put to sleep. Give it back with [`Fleet::release`](crate::fleet::Fleet::release).
#[derive(Debug, PartialEq, Eq, Hash, Clone)]
pub struct Seat {
    pub service: ServiceId,
    pub(crate) serial: u64,
    /// Its player is back from a wait, where the gate itself sent it.
    pub returned: bool,
}

impl Seat {
    /// Unique among all seats that are ever taken.
    pub const fn serial(&self) -> u64 {
        self.serial
    }
}

/// What a service that cannot speak for itself looks like to players.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Face {
    pub service: ServiceId,
    pub spec: Arc<Spec>,
    pub state: State,
    /// Since when a start is under way.
    pub started: Option<Moment>,
    pub learned: Arc<Learned>,
    /// Whether a join would start it, as far as that does not depend on who joins.
    pub wakes: bool,
}

impl Face {
    /// How much longer the start usually takes, while one is under way; otherwise how long it takes.
    pub fn eta(&self, now: Moment) -> Option<Duration> {
        let usual = self.learned.boot_time();
        let passed = self.started.map_or(Duration::ZERO, |started| now.since(started));
        usual.map(|usual| usual.saturating_sub(passed)).filter(|eta| !eta.is_zero())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No service claims the hostname.
    UnknownHost,
    /// The service does not admit this address.
    Denied(Face),
    /// Asleep, and this player is not among those who may wake it.
    MayNotWake(Face),
    /// Asleep, and only proven players wake it, which this one is not.
    Unproven(Face, Unproven),
    /// Asleep, and joins do not wake it.
    WakeOff(Face),
    /// Its owner keeps it asleep.
    PinnedAsleep(Face),
    /// Asleep, and this source has woken enough for now.
    WakeRate { face: Face, retry_in: Duration },
    /// Asleep, and as many servers are awake as the owner allows.
    TooManyAwake(Face),
    /// The last start failed.
    Failed { face: Face, retry_in: Duration },
    /// It runs, but nowhere the gate can reach.
    Unreachable(Face),
}

/// Why a player's account is not proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unproven {
    /// The session server does not know of this player joining here.
    Account,
    /// What should be encrypted for the gate is not, or not as it was asked to be.
    Encryption,
    /// The session server does not answer, or not as it should.
    NoAnswer,
    /// As many accounts are being checked as may, or the session server has asked for a pause.
    Busy,
    /// The proxy in front has not the secret by which it would be believed.
    Proxy,
    /// The client is from before 1.7.
    Client,
}

impl Refusal {
    /// A short name for logs and metric labels.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::UnknownHost => "unknown_host",
            Self::Denied(_) => "denied",
            Self::MayNotWake(_) => "may_not_wake",
            Self::Unproven(_, why) => why.kind(),
            Self::WakeOff(_) => "wake_off",
            Self::PinnedAsleep(_) => "pinned_asleep",
            Self::WakeRate { .. } => "wake_rate",
            Self::TooManyAwake(_) => "too_many_awake",
            Self::Failed { .. } => "failed",
            Self::Unreachable(_) => "unreachable",
        }
    }

    /// The service it is about, if any.
    pub const fn face(&self) -> Option<&Face> {
        match self {
            Self::UnknownHost => None,
            Self::Denied(face)
            | Self::MayNotWake(face)
            | Self::Unproven(face, _)
            | Self::WakeOff(face)
            | Self::PinnedAsleep(face)
            | Self::WakeRate { face, .. }
            | Self::TooManyAwake(face)
            | Self::Failed { face, .. }
            | Self::Unreachable(face) => Some(face),
        }
    }
}

impl Unproven {
    const fn kind(self) -> &'static str {
        match self {
            Self::Account => "unproven_account",
            Self::Encryption => "unproven_encryption",
            Self::NoAnswer => "unproven_no_answer",
            Self::Busy => "unproven_busy",
            Self::Proxy => "unproven_proxy",
            Self::Client => "unproven_client",
        }
    }
}
