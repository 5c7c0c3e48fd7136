//! Reaching a server the way the game does: the address as players type it, the SRV record behind it, and what
//! can go wrong on the way, in words.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use swarmgate_core::name::HostName;
use swarmgate_core::service::Endpoint;
use swarmgate_minecraft::Malformed;
use swarmgate_minecraft::srv::Target;
use swarmgate_minecraft::status::ResponseError;
use swarmgate_minecraft::version::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::nameserver;
use super::output::Failure;
use crate::dial::{DialError, dial};
use crate::errors::chain;

const GAME_PORT: u16 = 25565;
/// 1.17.
const PINGS_SAY_WHAT_WAS_TYPED: i32 = 755;
/// The server could not be asked: as for a wrong command line, neither yes nor no.
const NOT_REACHED: u8 = 2;

/// How to get to a server.
#[derive(Debug, Args)]
pub struct Reach {
    /// The server, as players type it
    #[arg(value_name = "HOST[:PORT]")]
    pub address: Address,
    /// Connect here instead, and say HOST all the same: to try a name before its DNS record exists
    #[arg(long, value_name = "ADDR:PORT")]
    pub via: Option<Address>,
    /// Speak as this version of the game: a release such as 1.20.4, or a protocol number
    #[arg(long, value_name = "VERSION", default_value = "26.3", allow_hyphen_values = true, value_parser = protocol)]
    pub protocol: i32,
    /// Give up when the server is silent for so many seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub timeout: Duration,
}

/// A host and a port, as players type them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

/// An open connection, and how it came about.
#[derive(Debug)]
pub struct Reached {
    stream: TcpStream,
    timeout: Duration,
    heard: bool,
    pub peer: SocketAddr,
    /// Where an SRV record pointed.
    pub srv: Option<Address>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("it closed the connection without an answer")]
    Closed,
    #[error("it closed the connection in the middle")]
    Cut,
    #[error("it has been silent for {}", swarmgate_core::span::human(*.0))]
    Silent(Duration),
    #[error("{0} answers there, not Minecraft")]
    Stranger(&'static str),
    #[error("what it sends is not what Minecraft sends")]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Response(#[from] ResponseError),
    #[error("it sends players from one server to the next without an end")]
    Circle,
    #[error("the connection broke")]
    Broken(#[from] io::Error),
}

impl Reach {
    /// Connects to the address of the command line.
    pub async fn connect(&self) -> Result<Reached, Trouble> {
        match &self.via {
            Some(via) => self.connect_to(via.clone(), None).await,
            None => self.look_up_and_connect(&self.address).await,
        }
    }

    /// Connects as the game does: by the SRV record, if the port is the usual one and there is such a record.
    pub async fn look_up_and_connect(&self, address: &Address) -> Result<Reached, Trouble> {
        let srv = match address.may_have_record() {
            true => nameserver::look_up(&address.host).await,
            false => None,
        };
        let srv = srv.map(|Target { host, port }| Address { host, port });
        self.connect_to(srv.clone().unwrap_or_else(|| address.clone()), srv).await
    }

    async fn connect_to(&self, address: Address, srv: Option<Address>) -> Result<Reached, Trouble> {
        let endpoint = Endpoint { host: address.host.into(), port: address.port };
        let stream = dial(&[endpoint], self.timeout).await?;
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr()?;
        Ok(Reached { stream, timeout: self.timeout, heard: false, peer, srv })
    }

    /// Says why not, with what may help.
    pub fn failed(&self, trouble: Trouble) -> Failure {
        Failure {
            code: trouble.kind().to_owned(),
            message: format!("{}: {}", self.address, chain(&trouble)),
            fix: trouble.hint().map(str::to_owned),
            exit: NOT_REACHED,
        }
    }
}

impl Reached {
    /// The address that the handshake of a ping or a login names.
    pub fn said<'a>(&'a self, typed: &'a Address, protocol: i32, login: bool) -> &'a Address {
        said(self.srv.as_ref(), typed, protocol, login)
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        if bytes.is_empty() {
            return Ok(());
        }
        match self.stream.write_all(bytes).await {
            // What the server said before it closed is still to be read.
            Err(error) if is_close(&error) => Ok(()),
            sent => sent.map_err(Trouble::from),
        }
    }

    /// Appends what comes next to `received`; an end is an error. Cancel-safe.
    pub async fn receive(&mut self, received: &mut Vec<u8>) -> Result<(), Trouble> {
        let mut chunk = [0; 16 * 1024];
        let read = match timeout(self.timeout, self.stream.read(&mut chunk)).await {
            Err(_) => return Err(Trouble::Silent(self.timeout)),
            Ok(Err(error)) if is_close(&error) => 0,
            Ok(read) => read?,
        };
        let chunk = chunk.get(..read).unwrap_or_default();
        if chunk.is_empty() {
            return Err(if self.heard { Trouble::Cut } else { Trouble::Closed });
        }
        if !self.heard
            && let Some(stranger) = stranger(chunk)
        {
            return Err(Trouble::Stranger(stranger));
        }
        self.heard = true;
        received.extend_from_slice(chunk);
        Ok(())
    }
}

impl Trouble {
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Dial(DialError::Nowhere | DialError::Unresolved { .. }) => {
                "Is the name spelled right, and does it have a DNS record? --via tries a name without one."
            }
            Self::Dial(DialError::Refused { .. }) => {
                "The machine is there, but nothing listens on that port. Is the server (or the gate) running, and is this its port?"
            }
            Self::Dial(DialError::TimedOut { .. }) => {
                "The machine is off, or a firewall or router does not let the connection through."
            }
            Self::Dial(DialError::Unreachable { .. } | DialError::Unprepared { .. }) | Self::Broken(_) => {
                "Something between here and the server does not let the connection through."
            }
            Self::Closed => {
                "A gate may be set to close for names it does not know, or for your address. A server that is still starting does so, too."
            }
            Self::Silent(_) => "The server may hang, or it is another program that waits for us to speak.",
            Self::Stranger(_) => "Is this the port of the Minecraft server?",
            Self::Malformed(_) => {
                "A server older than 1.7 answers `ping --legacy`; otherwise this may be another program."
            }
            Self::Cut | Self::Response(_) | Self::Circle => return None,
        })
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Dial(DialError::Nowhere | DialError::Unresolved { .. }) => "no_such_name",
            Self::Dial(DialError::Refused { .. }) => "refused",
            Self::Dial(DialError::TimedOut { .. }) => "timed_out",
            Self::Dial(DialError::Unreachable { .. } | DialError::Unprepared { .. }) => "unreachable",
            Self::Closed => "closed",
            Self::Cut => "cut",
            Self::Silent(_) => "silent",
            Self::Stranger(_) => "not_minecraft",
            Self::Malformed(_) => "malformed",
            Self::Response(_) => "unreadable",
            Self::Circle => "circle",
            Self::Broken(_) => "broken",
        }
    }
}

/// Since 1.17 a ping says what was typed; a login says what DNS made of it.
fn said<'a>(srv: Option<&'a Address>, typed: &'a Address, protocol: i32, login: bool) -> &'a Address {
    srv.filter(|_| login || protocol < PINGS_SAY_WHAT_WAS_TYPED).unwrap_or(typed)
}

/// The program that sends this first.
fn stranger(bytes: &[u8]) -> Option<&'static str> {
    let known: [(&[u8], &str); 7] = [
        (b"HTTP/", "a web server"),
        // A lone `<` may as well be the length of a packet.
        (b"<!", "a web server"),
        (b"<h", "a web server"),
        (b"\x15\x03", "a web server or another service with TLS"),
        (b"SSH-", "an SSH server"),
        (b"220", "a mail or FTP server"),
        (b"RFB ", "a remote desktop (VNC)"),
    ];
    known.into_iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, name)| name)
}

fn is_close(error: &io::Error) -> bool {
    [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionAborted]
        .contains(&error.kind())
}

impl Address {
    /// As in the game: only a name with the usual port. A name without a dot is of this network.
    fn may_have_record(&self) -> bool {
        self.port == GAME_PORT && self.host.parse::<IpAddr>().is_err() && self.host.contains('.')
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (host, port) = match (text.strip_prefix('['), text.rsplit_once(':')) {
            _ if text.parse::<IpAddr>().is_ok() => (text, None),
            (Some(bracketed), _) => {
                let (host, rest) = bracketed.split_once(']').ok_or("there is a '[' without its ']'")?;
                match rest.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if rest.is_empty() => (host, None),
                    None => return Err(format!("{rest:?} follows the ']' where a ':' and a port may stand")),
                }
            }
            (None, Some((host, port))) => (host, Some(port)),
            (None, None) => (text, None),
        };
        let port = match port {
            Some(port) => port.parse().map_err(|_| format!("{port:?} is not a port (1 to 65535)"))?,
            None => GAME_PORT,
        };
        // What is ASCII goes out as it was typed; the game turns the rest into punycode.
        let normal = HostName::parse(host).map_err(|error| error.to_string())?;
        let host = if host.is_ascii() { host.to_owned() } else { normal.to_string() };
        Ok(Self { host, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

fn protocol(text: &str) -> Result<i32, String> {
    let named = || Protocol::of_release(text).map(|protocol| protocol.0);
    text.parse().ok().or_else(named).ok_or_else(|| {
        format!("no release of this name is known; write one such as {}, or a number", Protocol::LATEST)
    })
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("mc.example.com", Ok(("mc.example.com", 25565))),
            ("MC.example.com.:25566", Ok(("MC.example.com.", 25566))),
            ("localhost:1", Ok(("localhost", 1))),
            ("127.0.0.1", Ok(("127.0.0.1", 25565))),
            ("::1", Ok(("::1", 25565))),
            ("[::1]", Ok(("::1", 25565))),
            ("[::1]:7", Ok(("::1", 7))),
            ("bücher.example:9", Ok(("xn--bcher-kva.example", 9))),
            ("mc.example.com:70000", Err("\"70000\" is not a port (1 to 65535)")),
            ("[::1", Err("there is a '[' without its ']'")),
            ("[::1]7", Err("\"7\" follows the ']' where a ':' and a port may stand")),
            ("", Err("the name is empty")),
            ("http://mc.example.com:80", Err("':' is not a character a hostname may have")),
        ] {
            let parsed = text.parse::<Address>().map(|address| (address.host, address.port));
            let expected = expected.map(|(host, port)| (host.to_owned(), port)).map_err(str::to_owned);
            assert_eq!(parsed, expected, "{text}");
        }
        assert_eq!("::1".parse::<Address>().unwrap().to_string(), "[::1]:25565");
    }

    #[test]
    fn records_are_for_names_with_the_usual_port() {
        for (text, may) in [
            ("mc.example.com", true),
            ("mc.example.com:25565", true),
            ("mc.example.com:25566", false),
            ("192.0.2.1", false),
            ("::1", false),
            ("localhost", false),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().may_have_record(), may, "{text}");
        }
    }

    #[test]
    fn what_a_handshake_says() {
        let [typed, srv] = ["example.com", "mc.example.com.:25566"].map(|text| text.parse().unwrap());
        for (protocol, login, with_record) in
            [(754, false, &srv), (755, false, &typed), (754, true, &srv), (777, true, &srv)]
        {
            assert_eq!(said(Some(&srv), &typed, protocol, login), with_record, "{protocol} {login}");
            assert_eq!(said(None, &typed, protocol, login), &typed);
        }
    }

    #[test]
    fn versions() {
        for (text, number) in [("1.20.4", Some(765)), ("767", Some(767)), ("-1", Some(-1)), ("1.20.9", None)]
        {
            assert_eq!(protocol(text).ok(), number, "{text}");
        }
        assert_eq!(protocol("26.3"), Ok(Protocol::LATEST.0), "the default of --protocol is the latest");
    }
}
