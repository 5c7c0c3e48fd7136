//! A Minecraft client over real sockets: one that does what it is told, also what no real client would do.
//!
//! ```no_run
//! # async fn example(gate: std::net::SocketAddr) -> std::io::Result<()> {
//! use std::time::Duration;
//! use swarmgate_testkit::client::{Client, Outcome, Pace};
//! use swarmgate_testkit::login::LoginStart;
//! use swarmgate_testkit::wire::Handshake;
//!
//! let limit = Duration::from_secs(5);
//! let client = Client::to(gate).from([127, 0, 0, 7]).pace(Pace::PerByte);
//! let status = client.status(&Handshake::status(767, "mc.example.com"), limit).await?;
//! let (outcome, mut connection) =
//!     client.join(&Handshake::login(767, "mc.example.com"), &LoginStart::new("Steve"), limit).await?;
//! assert!(matches!(outcome, Outcome::Joined { .. }));
//! connection.send(b"from here on, whatever the server understands").await?;
//! # Ok(()) }
//! ```

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

use crate::encryption::{Cipher, Secret};
use crate::legacy;
use crate::login::{LoginStart, LoginSuccess};
use crate::wire::{Body, Framing, Handshake, Packet, malformed, ping, status_request, take_packet};

/// Where and how to connect. Cheap to keep and to use for many connections.
#[derive(Debug, Clone)]
pub struct Client {
    server: SocketAddr,
    source: Option<IpAddr>,
    /// Sent before anything else: a PROXY header.
    prefix: Vec<u8>,
    pace: Pace,
}

/// How the bytes of one [`Connection::send`] are handed to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    #[default]
    Whole,
    /// One byte per segment.
    PerByte,
    /// The first so many bytes in one segment, the others in the next.
    SplitAt(usize),
}

/// How a login went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Joined {
        name: String,
        uuid: u128,
        /// The threshold of Set Compression, when the server sent one.
        compression: Option<i32>,
        /// The body of Login Success as it came.
        bytes: Vec<u8>,
    },
    /// The reason as it came: JSON. [`crate::text::plain`] makes it readable.
    Kicked(String),
    /// The server ended the connection without a word.
    Closed,
    /// The same, by a reset.
    Reset,
    /// Nothing came within the limit; the connection is still open.
    Silent,
    /// The body of the request; [`Connection::encrypt`] is what follows a client's answer.
    EncryptionRequested(Vec<u8>),
}

/// A status answer, and whether the ping after it was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub json: Value,
    /// The JSON as it came.
    pub text: String,
    /// The server answered the ping with the same bytes (and did not close before).
    pub ponged: bool,
}

impl Client {
    pub fn to(server: SocketAddr) -> Self {
        Self { server, source: None, prefix: vec![], pace: Pace::Whole }
    }

    /// Connects from this local address, such as 127.0.0.7: all of 127.0.0.0/8 is at hand on Linux.
    pub fn from(self, source: impl Into<IpAddr>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// Sends this first: a header of [`crate::proxy`].
    pub fn prefix(self, prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    pub fn pace(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// The same, to another server.
    pub fn at(self, server: SocketAddr) -> Self {
        Self { server, ..self }
    }

    /// Connects and sends the prefix. The client itself gives up after 30 s; `limit` is the test's.
    pub async fn connect(&self, limit: Duration) -> io::Result<Connection> {
        let socket = if self.server.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(source) = self.source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        let stream = timeout_at(Instant::now() + limit, socket.connect(self.server)).await??;
        stream.set_nodelay(true)?;
        let mut connection =
            Connection { stream, pace: self.pace, buffer: vec![], framing: Framing::Plain, cipher: None };
        connection.send(&self.prefix).await?;
        Ok(connection)
    }

    /// Handshake and request in one go, then a ping once the answer is there: what the game does.
    pub async fn status(&self, handshake: &Handshake, limit: Duration) -> io::Result<Status> {
        let mut connection = self.connect(limit).await?;
        connection.send(&[handshake.packet(), status_request()].concat()).await?;
        let text = connection.read_status(limit).await?;
        connection.send(&ping(0x0123_4567_89ab_cdef)).await?;
        let ponged = connection.read_pong(limit).await? == Some(0x0123_4567_89ab_cdef);
        Ok(Status { json: serde_json::from_str(&text).map_err(malformed)?, text, ponged })
    }

    /// Handshake and login start in one go, then [`Connection::login_outcome`]. The connection comes along
    /// also when the login failed, so that a test can look at what follows.
    pub async fn join(
        &self,
        handshake: &Handshake,
        start: &LoginStart,
        limit: Duration,
    ) -> io::Result<(Outcome, Connection)> {
        let mut connection = self.connect(limit).await?;
        // A server that has heard enough may close while this is sent; what it said is still to be read.
        _ = connection.send(&[handshake.packet(), start.packet(handshake.protocol)].concat()).await;
        let outcome = connection.login_outcome(handshake.protocol, limit).await?;
        Ok((outcome, connection))
    }

    /// The text of the kick that answers a ping of before 1.7; [`legacy::Status::parse`] reads it further.
    /// Fails unless the server closes after it.
    pub async fn legacy_ping(&self, ping: &legacy::Ping, limit: Duration) -> io::Result<String> {
        self.kicked(&ping.bytes(), limit).await
    }

    /// The text of the kick that answers a login of before 1.7.
    pub async fn legacy_login(&self, login: &legacy::Login, limit: Duration) -> io::Result<String> {
        self.kicked(&login.bytes(), limit).await
    }

    async fn kicked(&self, opening: &[u8], limit: Duration) -> io::Result<String> {
        let mut connection = self.connect(limit).await?;
        _ = connection.send(opening).await;
        legacy::parse_kick(&connection.read_to_end(limit).await?)
    }
}

/// An open connection. Every read has a limit and fails with `TimedOut` when it has passed.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    pace: Pace,
    buffer: Vec<u8>,
    framing: Framing,
    cipher: Option<Cipher>,
}

impl Connection {
    pub fn local_addr(&self) -> SocketAddr {
        self.stream.local_addr().expect("a connected socket")
    }

    /// Encrypts all that follows, in both directions.
    pub fn encrypt(&mut self, secret: Secret) {
        let mut cipher = Cipher::new(secret);
        cipher.open(&mut self.buffer);
        self.cipher = Some(cipher);
    }

    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Sends any bytes, at the connection's pace.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut bytes = bytes.to_vec();
        if let Some(cipher) = &mut self.cipher {
            cipher.seal(&mut bytes);
        }
        let first = match self.pace {
            Pace::Whole => bytes.len(),
            Pace::PerByte => 1,
            Pace::SplitAt(at) => at.min(bytes.len()),
        };
        let (head, rest) = bytes.split_at(first.min(bytes.len()));
        self.stream.write_all(head).await?;
        let step = if self.pace == Pace::PerByte { 1 } else { rest.len().max(1) };
        for segment in rest.chunks(step) {
            self.let_it_arrive().await;
            self.stream.write_all(segment).await?;
        }
        Ok(())
    }

    /// Gives the peer its turn, so that it sees the segments one by one: a peer in this runtime reads while
    /// this task yields, a peer elsewhere within the millisecond that a single split can afford.
    async fn let_it_arrive(&self) {
        match self.pace {
            Pace::Whole => {}
            Pace::PerByte => {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            }
            Pace::SplitAt(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }

    /// The next packet; `None` when the server closed between packets.
    pub async fn read_packet(&mut self, limit: Duration) -> io::Result<Option<Packet>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(packet) = take_packet(&mut self.buffer, self.framing)? {
                return Ok(Some(packet));
            }
            if self.fill(deadline).await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
        }
    }

    /// What there is, at the connection's pace: one byte, or as much as fits. Nothing: the server has closed.
    pub(crate) async fn read_some(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; if self.pace == Pace::PerByte { 1 } else { 16 * 1024 }];
        let count = self.stream.read(&mut bytes).await?;
        bytes.truncate(count);
        if let Some(cipher) = &mut self.cipher {
            cipher.open(&mut bytes);
        }
        Ok(bytes)
    }

    /// Puts back what was read too far.
    pub(crate) fn unread(&mut self, bytes: Vec<u8>) {
        self.buffer.splice(..0, bytes);
    }

    /// Reads on; how many bytes have come.
    async fn fill(&mut self, deadline: Instant) -> io::Result<usize> {
        let before = self.buffer.len();
        let count = timeout_at(deadline, self.stream.read_buf(&mut self.buffer)).await??;
        if let Some(cipher) = &mut self.cipher {
            cipher.open(&mut self.buffer[before..]);
        }
        Ok(count)
    }

    /// Exactly so many bytes, whatever they are.
    pub async fn read_exact(&mut self, count: usize, limit: Duration) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + limit;
        while self.buffer.len() < count {
            if self.fill(deadline).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..count).collect())
    }

    /// Everything until the server closes.
    pub async fn read_to_end(&mut self, limit: Duration) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + limit;
        while self.fill(deadline).await? > 0 {}
        Ok(std::mem::take(&mut self.buffer))
    }

    /// The JSON of a status answer, as it came.
    pub async fn read_status(&mut self, limit: Duration) -> io::Result<String> {
        let packet = self.read_packet(limit).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if packet.id != 0 {
            return Err(malformed(format!("packet {} in place of a status", packet.id)));
        }
        let mut fields = packet.fields();
        let text = fields.string()?;
        fields.finish().map(|()| text)
    }

    /// The payload of a pong; `None` when the server closed instead.
    pub async fn read_pong(&mut self, limit: Duration) -> io::Result<Option<i64>> {
        let Some(packet) = self.read_packet(limit).await? else { return Ok(None) };
        if packet.id != 1 {
            return Err(malformed(format!("packet {} in place of a pong", packet.id)));
        }
        let mut fields = packet.fields();
        let payload = fields.i64()?;
        fields.finish().map(|()| Some(payload))
    }

    /// What becomes of a login that was sent: reads until the server joins, kicks, closes or asks for
    /// encryption. Plugin and cookie requests are declined on the way, as vanilla does.
    pub async fn login_outcome(&mut self, protocol: i32, limit: Duration) -> io::Result<Outcome> {
        let deadline = Instant::now() + limit;
        let mut compression = None;
        loop {
            let packet = match self.next(deadline).await? {
                Ok(packet) => packet,
                Err(end) => return Ok(end),
            };
            let mut fields = packet.fields();
            match packet.id {
                0 => {
                    let reason = fields.string()?;
                    return fields.finish().map(|()| Outcome::Kicked(reason));
                }
                1 => return Ok(Outcome::EncryptionRequested(packet.body)),
                2 => {
                    let LoginSuccess { name, uuid } = LoginSuccess::parse(&packet, protocol)?;
                    return Ok(Outcome::Joined { name, uuid, compression, bytes: packet.body });
                }
                3 => {
                    let threshold = fields.varint()?;
                    fields.finish()?;
                    compression = Some(threshold);
                    self.framing = if threshold < 0 { Framing::Plain } else { Framing::Compressed };
                }
                4 => self.send_packet(2, Body::new().varint(fields.varint()?).bool(false)).await?,
                5 => self.send_packet(4, Body::new().string(&fields.string()?).bool(false)).await?,
                other => return Err(malformed(format!("packet {other} during login"))),
            }
        }
    }

    /// Sends a packet in the connection's present framing.
    pub async fn send_packet(&mut self, id: i32, body: Body) -> io::Result<()> {
        let bytes = match self.framing {
            Framing::Plain => body.packet(id),
            // A data length of 0 comes before the id: "not deflated".
            Framing::Compressed => Body::new().varint(id).raw(&body.0).packet(0),
        };
        self.send(&bytes).await
    }

    /// The next packet, or how the connection ended without one.
    pub(crate) async fn next(&mut self, deadline: Instant) -> io::Result<Result<Packet, Outcome>> {
        match self.read_packet(deadline.saturating_duration_since(Instant::now())).await {
            Ok(Some(packet)) => Ok(Ok(packet)),
            Ok(None) => Ok(Err(Outcome::Closed)),
            Err(error) => match error.kind() {
                io::ErrorKind::TimedOut => Ok(Err(Outcome::Silent)),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Ok(Err(Outcome::Reset)),
                _ => Err(error),
            },
        }
    }

    /// Says that nothing more will be sent; what the server sends can still be read.
    pub async fn half_close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Ends the connection with a reset, as a crash or a pulled plug's firewall does.
    pub fn reset(self) {
        self.stream.set_zero_linger().expect("a connected socket");
    }

    /// The bare socket, and what was read from it but not handed out.
    pub fn into_parts(self) -> (TcpStream, Vec<u8>) {
        (self.stream, self.buffer)
    }
}
