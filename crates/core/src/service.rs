//! A labelled workload: what it asks for ([`Spec`]) and what it is doing ([`State`]).

mod defaults;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use crate::hours::Hours;
use crate::knock::Player;
use crate::moment::Moment;
use crate::name::HostPattern;
use crate::publish::Published;

/// Which orchestrator a service belongs to and what it is called there. Displayed as `source/name`.
///
/// The name, not an orchestrator's own id, is the key: a service that is removed and created anew is
/// the same service to its players.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId {
    pub source: SourceId,
    pub name: Arc<str>,
}

/// The name of a source: `file`, `process`, `docker`, `swarm`, `api`.
pub type SourceId = &'static str;

impl ServiceId {
    /// The source of the processes of this machine.
    pub const LOCAL: SourceId = "process";

    pub fn new(source: SourceId, name: &str) -> Self {
        Self { source, name: name.into() }
    }

    /// A process of this machine, whose output the gate keeps.
    pub fn is_local(&self) -> bool {
        self.source == Self::LOCAL
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.source, self.name)
    }
}

/// All services of one source at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The game servers.
    pub services: Vec<Service>,
    /// What is to be published, game server or not.
    pub published: Vec<Published>,
}

impl Snapshot {
    /// Of game servers alone.
    pub fn of(services: Vec<Service>) -> Self {
        Self { services, published: Vec::new() }
    }
}

/// One service as its source saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub id: ServiceId,
    pub spec: Arc<Spec>,
    pub state: State,
    /// Whether the source can start and stop it at all.
    pub scalable: bool,
    /// What is wrong with it beside its state, each a sentence with the fix.
    pub problems: Vec<String>,
}

/// What a service is doing, as its orchestrator tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Stopped on purpose or ended by itself; a wake starts it.
    Asleep,
    /// On its way up. `reason` says what it is doing: "pulling the image", "waiting for the health check".
    Starting { reason: String },
    /// Its process runs. Whether the game answers is for a status ping to find out.
    Running(Running),
    /// Down after a crash; its orchestrator starts it again at `until`.
    Restarting { until: Moment, reason: String },
    /// Told to stop and still running: players in it stay, new ones wait.
    Stopping,
    /// Its orchestrator gave up on it.
    Failed { reason: String },
    /// The orchestrator did not answer or could not be understood. Never a reason to act.
    Unknown { reason: String },
}

impl State {
    /// Its word in the lexicon, lower case.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Asleep => "asleep",
            Self::Starting { .. } => "starting",
            Self::Running(_) => "running",
            Self::Restarting { .. } => "restarting",
            Self::Stopping => "stopping",
            Self::Failed { .. } => "failed",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// What runs, if anything does.
    pub const fn running(&self) -> Option<&Running> {
        match self {
            Self::Running(running) => Some(running),
            Self::Asleep
            | Self::Starting { .. }
            | Self::Restarting { .. }
            | Self::Stopping
            | Self::Failed { .. }
            | Self::Unknown { .. } => None,
        }
    }

    /// Where it is dialled first, if it runs somewhere that the gate can reach.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.running()?.endpoints.first()
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Starting { reason }
            | Self::Restarting { reason, .. }
            | Self::Failed { reason }
            | Self::Unknown { reason } => Some(reason),
            Self::Asleep | Self::Running(_) | Self::Stopping => None,
        }
    }
}

/// A running instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Changes whenever the instance does (a task id, a process id with its start time).
    pub run: Arc<str>,
    /// Where to dial, in order of preference. Empty: running, but nowhere the gate can reach.
    pub endpoints: Vec<Endpoint>,
}

/// An address to dial now. A name is resolved at each dial.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    pub host: Arc<str>,
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What a service's labels or configuration ask for, checked, with the defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub hosts: Vec<HostPattern>,
    /// Takes connections whose hostname nobody claims.
    pub default: bool,
    /// Whether the default route may wake it. A scanner that dials the bare address must not.
    pub default_wakes: bool,
    /// A join may wake it.
    pub wake: bool,
    /// It may be put to sleep.
    pub sleep: bool,
    /// How long it must be empty, continuously, before it sleeps.
    pub idle: Duration,
    /// Hours in which it is kept awake: started when they begin, and not put to sleep before they end.
    pub awake: Vec<Hours>,
    /// How long a start may take before the players who wait are told that it failed.
    pub start_timeout: Duration,
    /// After a failed start: how long until a join may try again.
    pub cooldown: Duration,
    pub wait: Wait,
    /// Clients that a mod loader has marked may wait in the configuration phase.
    pub modded_room: bool,
    /// How long a join is held on an open socket. The client itself gives up after 30 s.
    pub hold: Duration,
    pub players: Players,
    pub ready: Ready,
    pub clients: Clients,
    pub wakers: Wakers,
    pub send_proxy: Option<ProxyVersion>,
    /// Replaces the address field of the handshake that the backend sees.
    pub rewrite_host: Option<String>,
    /// Where players who have waited are sent; `None`: to where they came in.
    pub public_address: Option<Endpoint>,
    pub texts: Texts,
}

/// How a player waits for a server that is not up yet: the best rung of the ladder that may be tried, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// In a world of the gate's own.
    World,
    /// In the game's configuration phase.
    Room,
    /// On the open socket, then a readable disconnect.
    Hold,
    /// Not at all: a readable disconnect at once.
    Kick,
}

/// Who counts the players of a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Players {
    /// The game's own status answer. A game that does not answer is kept awake.
    Game,
    /// The gate's own connections, for games that cannot be asked.
    Connections,
}

/// What proves that a running server takes players.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// It answers a status ping.
    Status,
    /// Its port accepts a connection.
    Tcp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyVersion {
    V1,
    V2,
}

/// Which client addresses may connect. A denied address is refused even if it is allowed too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clients {
    /// Empty: everybody.
    pub allow: Vec<IpNet>,
    pub deny: Vec<IpNet>,
}

impl Clients {
    pub fn admit(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let among = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&address));
        !among(&self.deny) && (self.allow.is_empty() || among(&self.allow))
    }
}

/// Who may wake a service. No list: everybody who may connect. Otherwise any one match is enough.
/// Names and UUIDs are what the client claims unless they are to be proven; only an address is evidence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wakers {
    /// Lower case.
    pub names: BTreeSet<String>,
    pub uuids: BTreeSet<uuid::Uuid>,
    pub addresses: Vec<IpNet>,
    /// Whoever they are, their accounts must be proven.
    pub verified: bool,
}

impl Wakers {
    pub fn is_everybody(&self) -> bool {
        self.names.is_empty() && self.uuids.is_empty() && self.addresses.is_empty()
    }

    pub fn admit(&self, player: &Player, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.is_everybody()
            || self.names.contains(&player.name.to_lowercase())
            || player.uuid.is_some_and(|uuid| self.uuids.contains(&uuid))
            || self.addresses.iter().any(|net| net.contains(&address))
    }

    /// Whether a proof could make this player one of them. Old clients do not say their UUID before they prove it.
    pub fn might_admit(&self, player: &Player, address: IpAddr) -> bool {
        self.admit(player, address) || (player.uuid.is_none() && !self.uuids.is_empty())
    }
}

/// Text templates, one per state a player can meet: MiniMessage, `&`/`§` codes or a JSON component, with
/// tokens in braces such as `{server}`, `{eta}` and `{countdown}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    pub asleep: String,
    pub starting: String,
    pub restarting: String,
    pub stopping: String,
    pub failed: String,
    /// The server should be up but nothing answers.
    pub unreachable: String,
    /// The disconnect shown to a player who waited, or may not wait, while the server starts.
    pub wait: String,
    /// In the world where a player waits: large, and below it.
    pub title: String,
    pub subtitle: String,
    /// In the chat of that world.
    pub welcome: String,
    /// The disconnect shown to a player who waited and has to join again by hand.
    pub rejoin: String,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn deny_beats_allow_and_no_list_admits_all() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let open = Clients::default();
        let listed = Clients { allow: vec![net("192.0.2.0/24")], deny: vec![net("192.0.2.66/32")] };
        for (clients, from, admitted) in [
            (&open, "203.0.113.9", true),
            (&listed, "192.0.2.1", true),
            (&listed, "::ffff:192.0.2.1", true),
            (&listed, "192.0.2.66", false),
            (&listed, "::ffff:192.0.2.66", false),
            (&listed, "203.0.113.9", false),
        ] {
            assert_eq!(clients.admit(address(from)), admitted, "{from}");
        }
    }

    #[test]
    fn any_one_match_lets_a_player_wake() {
        let uuid = uuid::Uuid::from_u128(7);
        let wakers = Wakers {
            names: ["alex".to_owned()].into(),
            uuids: [uuid].into(),
            addresses: vec!["192.0.2.0/24".parse().unwrap()],
            verified: false,
        };
        let stranger = "203.0.113.9".parse().unwrap();
        let friend = "192.0.2.4".parse().unwrap();
        for (name, claimed, from, may) in [
            ("ALEX", None, stranger, true),
            ("Sam", Some(uuid), stranger, true),
            ("Sam", None, friend, true),
            ("Sam", Some(uuid::Uuid::from_u128(8)), stranger, false),
        ] {
            let player = Player { name: name.to_owned(), uuid: claimed };
            assert_eq!(wakers.admit(&player, from), may, "{name}");
            assert!(Wakers::default().admit(&player, from));
            let might = may || claimed.is_none();
            assert_eq!(wakers.might_admit(&player, from), might, "{name}");
        }
    }

    /// A plain spec for tests, with texts of its own.
    pub(crate) fn spec(hosts: &[&str]) -> Spec {
        let hosts = hosts.iter().map(|host| HostPattern::parse(host).unwrap()).collect();
        let texts = Texts {
            asleep: "asleep".into(),
            starting: "starting".into(),
            restarting: "restarting".into(),
            stopping: "stopping".into(),
            failed: "failed".into(),
            unreachable: "unreachable".into(),
            wait: "wait".into(),
            title: "title".into(),
            subtitle: "subtitle".into(),
            welcome: "welcome".into(),
            rejoin: "rejoin".into(),
        };
        let (idle, start_timeout) = (Duration::from_secs(600), Duration::from_secs(300));
        Spec { hosts, idle, start_timeout, texts, ..Spec::default() }
    }
}
