//! Reads a connection's opening: an optional PROXY header, then as much as it takes to know what the client
//! wants. Bounded in bytes and in time.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use swarmgate_core::config::{Listener, ProxyProtocol};
use swarmgate_minecraft::knock::{self, Knock};
use swarmgate_minecraft::proxy_header::{self, Addresses, HeaderError};
use swarmgate_minecraft::{Malformed, frame, legacy};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::door::Full;
use super::listener::trusts;

/// An opening from a stranger. The longest an ordinary client sends is its 1.19 login with a key, about 1.5 KiB.
const LIMIT: usize = 4 * 1024;
/// An opening from a trusted proxy, which may put a player's whole signed profile into the address.
const TRUSTED_LIMIT: usize = 40 * 1024;
/// A bare legacy ping has no end: it is one when nothing more comes for this long.
const SETTLED: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct Opening {
    pub knock: Knock,
    /// What the client sent after the PROXY header, every byte that has arrived.
    pub raw: Vec<u8>,
    pub client: SocketAddr,
    /// Where the client connected to, if a PROXY header has said so.
    destination: Option<SocketAddr>,
    /// The client was asked something and has not answered in time.
    unanswered: bool,
}

impl Opening {
    /// The body of the next packet: the answer to what the client was asked, which is for the gate alone. What came
    /// behind it stays.
    pub async fn answer(
        &mut self,
        stream: &mut TcpStream,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<u8>, NoOpening> {
        let opened = self.opened();
        loop {
            if let Some(frame) = frame::split(self.raw.get(opened..).unwrap_or_default(), limit)? {
                let (body, end) = (frame.body.to_vec(), opened + frame.consumed);
                self.raw.drain(opened..end);
                return Ok(body);
            }
            if let Err(error) = more(stream, &mut self.raw, deadline).await {
                let nothing = self.raw.len() == opened;
                self.unanswered = matches!(error, NoOpening::Slow);
                return Err(if self.unanswered && nothing { NoOpening::Silent } else { error });
            }
        }
    }

    pub const fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// An answer that came too late to be read is for nobody else.
    pub fn drop_late_answer(&mut self) {
        let opened = self.opened();
        let late = self.raw.get(opened..).and_then(|late| frame::split(late, late.len()).ok()?);
        if let (true, Some(consumed)) = (self.unanswered, late.map(|frame| frame.consumed)) {
            self.raw.drain(opened..opened + consumed);
            self.unanswered = false;
        }
    }

    /// What the server is to have of it; what stands behind it may be a late answer, or its beginning.
    pub fn for_server(&self) -> &[u8] {
        let end = if self.unanswered { self.opened() } else { self.raw.len() };
        self.raw.get(..end).unwrap_or(&self.raw)
    }

    /// Takes what the client has sent behind its opening.
    pub fn take_rest(&mut self) -> Vec<u8> {
        self.raw.split_off(self.opened())
    }

    /// Where the opening itself ends.
    fn opened(&self) -> usize {
        let end = match &self.knock {
            Knock::Status { consumed, .. } | Knock::Login { consumed, .. } => *consumed,
            Knock::LegacyPing(_) | Knock::LegacyLogin(_) => self.raw.len(),
        };
        end.min(self.raw.len())
    }

    /// Both ends of the connection as the client sees them.
    pub fn addresses(&self, stream: &TcpStream) -> io::Result<Addresses> {
        let destination = self.destination.map_or_else(|| stream.local_addr(), Ok)?;
        Ok(Addresses { source: self.client, destination })
    }
}

/// Why there is no opening. All of these end in a closed connection.
#[derive(Debug, thiserror::Error)]
pub enum NoOpening {
    /// A port scan, a health check: it came and went without a byte.
    #[error("it closed without sending anything")]
    Nothing,
    #[error("it closed in the middle of its first packets")]
    Closed,
    #[error("it sent nothing within the deadline")]
    Silent,
    #[error("it did not finish its first packets within the deadline")]
    Slow,
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The same from a client that has said that it wants to log in, and how old it is: it can be told.
    #[error("its login cannot be read")]
    BadLogin { source: Malformed, protocol: i32 },
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error("it sent a PROXY header, and its address is not among the listener's trusted ones")]
    UntrustedHeader,
    #[error("it sent a PROXY header, and the listener has proxy_protocol = \"off\"")]
    HeaderWhenOff,
    #[error("too many connections of this client have not said what they want")]
    Full(Full),
    #[error("the connection broke")]
    Io(#[from] io::Error),
}

impl From<Full> for NoOpening {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl NoOpening {
    /// A short name for logs and metric labels.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Closed => "closed",
            Self::Silent => "silent",
            Self::Slow => "slow",
            Self::Malformed(malformed) | Self::BadLogin { source: malformed, .. } => malformed.kind(),
            Self::Header(header) => header.kind(),
            Self::UntrustedHeader => "untrusted_proxy_header",
            Self::HeaderWhenOff => "unexpected_proxy_header",
            Self::Full(full) => full.kind(),
            Self::Io(_) => "io",
        }
    }
}

/// Whose connection it is: known before anything of the game has been read.
#[derive(Debug)]
pub struct Caller<'a> {
    listener: &'a Listener,
    trusted: bool,
    raw: Vec<u8>,
    pub client: SocketAddr,
    destination: Option<SocketAddr>,
}

impl<'a> Caller<'a> {
    /// Reads the PROXY header, where there may be one.
    pub async fn read(
        stream: &mut TcpStream,
        peer: SocketAddr,
        listener: &'a Listener,
        deadline: Instant,
    ) -> Result<Self, NoOpening> {
        let trusted = trusts(listener, peer.ip());
        let mut raw = Vec::new();
        let (mut client, mut destination) = (peer, None);
        if let Some(header) = read_header(stream, &mut raw, listener, trusted, deadline).await? {
            raw.drain(..header.consumed);
            if let Some(addresses) = header.addresses {
                (client, destination) = (addresses.source, Some(addresses.destination));
            }
        }
        Ok(Self { listener, trusted, raw, client, destination })
    }

    /// Reads on, until it is clear what the client wants.
    pub async fn opening(self, stream: &mut TcpStream, deadline: Instant) -> Result<Opening, NoOpening> {
        let Self { listener, trusted, mut raw, client, destination } = self;
        let limit = if trusted { TRUSTED_LIMIT } else { LIMIT };
        let knock = read_knock(stream, &mut raw, limit, deadline).await;
        let unexpected = matches!(knock, Err(NoOpening::Malformed(Malformed::ProxyHeader)));
        if unexpected && listener.proxy_protocol == ProxyProtocol::Off {
            return Err(NoOpening::HeaderWhenOff);
        }
        if unexpected && !trusted {
            return Err(NoOpening::UntrustedHeader);
        }
        let knock = knock.map_err(|error| with_its_protocol(error, &raw, limit))?;
        Ok(Opening { knock, raw, client, destination, unanswered: false })
    }
}

/// The header, where this listener takes one from this peer.
async fn read_header(
    stream: &mut TcpStream,
    raw: &mut Vec<u8>,
    listener: &Listener,
    trusted: bool,
    deadline: Instant,
) -> Result<Option<proxy_header::Header>, NoOpening> {
    let required = match listener.proxy_protocol {
        ProxyProtocol::Off => return Ok(None),
        ProxyProtocol::Optional if !trusted => return Ok(None),
        ProxyProtocol::Required if !trusted => return Err(NoOpening::UntrustedHeader),
        ProxyProtocol::Optional => false,
        ProxyProtocol::Required => true,
    };
    loop {
        match proxy_header::parse(raw) {
            Ok(Some(header)) => return Ok(Some(header)),
            Ok(None) => {}
            Err(HeaderError::Missing) if !required => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        more(stream, raw, deadline).await?;
    }
}

async fn read_knock(
    stream: &mut TcpStream,
    raw: &mut Vec<u8>,
    limit: usize,
    deadline: Instant,
) -> Result<Knock, NoOpening> {
    loop {
        if let Some(knock) = knock::parse(raw, limit, false)? {
            return Ok(knock);
        }
        let maybe_legacy = raw.first() == Some(&legacy::PING);
        let patience = if maybe_legacy { deadline.min(Instant::now() + SETTLED) } else { deadline };
        match more(stream, raw, patience).await {
            Ok(()) => {}
            // Whoever has closed its half has said all it will.
            Err(end @ (NoOpening::Slow | NoOpening::Closed)) => match knock::parse(raw, limit, true)? {
                Some(knock) => return Ok(knock),
                None if matches!(end, NoOpening::Slow) && patience < deadline => {
                    more(stream, raw, deadline).await?;
                }
                None => return Err(end),
            },
            Err(error) => return Err(error),
        }
    }
}

fn with_its_protocol(error: NoOpening, raw: &[u8], limit: usize) -> NoOpening {
    match (error, knock::login_handshake(raw, limit)) {
        (NoOpening::Malformed(source), Some(handshake)) => {
            NoOpening::BadLogin { source, protocol: handshake.protocol }
        }
        (error, _) => error,
    }
}

/// Appends what has arrived, at least one byte.
async fn more(stream: &mut TcpStream, raw: &mut Vec<u8>, deadline: Instant) -> Result<(), NoOpening> {
    let read = timeout_at(deadline, poll_fn(|cx| poll_more(stream, raw, cx))).await;
    match read {
        Ok(Ok(0)) => Err(left(raw)),
        Ok(Ok(_)) => Ok(()),
        // How health checks and scanners hang up.
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => Err(left(raw)),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(if raw.is_empty() { NoOpening::Silent } else { NoOpening::Slow }),
    }
}

/// How many bytes came. The chunk lives on the stack: kept over a wait, it would be part of every connection's future.
fn poll_more(stream: &mut TcpStream, raw: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut chunk = [MaybeUninit::uninit(); 2048];
    let mut chunk = ReadBuf::uninit(&mut chunk);
    ready!(Pin::new(stream).poll_read(cx, &mut chunk))?;
    raw.extend_from_slice(chunk.filled());
    Poll::Ready(Ok(chunk.filled().len()))
}

fn left(raw: &[u8]) -> NoOpening {
    if raw.is_empty() { NoOpening::Nothing } else { NoOpening::Closed }
}
