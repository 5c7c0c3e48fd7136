//! Moves the bytes of one player's connection both ways, after its opening has been replayed.
//!
//! Relaying a game is bound by the kernel, so what counts here is memory, descriptors and the absence of
//! cliffs: an idle connection owns no buffer and no pipe, only this one small future and its two sockets.

mod flow;
mod pipes;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use flow::{Broken, Flow, Stage};
use pipes::Pipes;

/// Relays between `client` and `server` until both directions have ended; ready with an [`Outcome`].
///
/// The end of one direction is passed on as the end of the same direction on the other socket, after every
/// byte before it. From then on the session may go on only as long as it makes progress: it is ended after
/// at least `stall`, and at most twice that, without a byte moved. A peer that vanishes while both directions
/// are open is for the sockets' own timers to notice: see [`tune`].
///
/// Dropping the future closes both sockets; `counters` are up to date at every await.
pub fn run<'a>(client: TcpStream, server: TcpStream, stall: Duration, counters: &'a Counters) -> Relay<'a> {
    Relay::new(client, server, stall, counters, Pipes::shared())
}

/// Bytes written so far, summed over all sessions that share it.
#[derive(Debug, Default)]
pub struct Counters {
    /// From clients to servers.
    pub up: AtomicU64,
    /// From servers to clients.
    pub down: AtomicU64,
}

/// How a session went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Which side ended its direction, or was lost, first.
    pub first: Side,
    /// Bytes written to the server.
    pub up: u64,
    /// Bytes written to the client.
    pub down: u64,
    /// Why the session did not end in good order: `reset`, `vanished`, `stalled` or `io`.
    pub error: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
}

/// Prepares a socket to be relayed: small packets leave at once, and a peer that vanished is noticed in two
/// minutes, whether the connection is idle, has bytes unacknowledged or its peer stopped reading.
///
/// The first probe comes after a minute of silence, well under the fifteen minutes after which the virtual
/// IPs of a Swarm forget a connection. Linux hands all these options from a listener to the sockets it
/// accepts, so tuning the listener once is enough for those. The number of probes is not set: the user timeout
/// overrides it (tcp(7)).
///
/// # Errors
/// When the kernel refuses an option.
pub fn tune(socket: &impl AsFd) -> io::Result<()> {
    const IDLE: Duration = Duration::from_secs(60);
    const INTERVAL: Duration = Duration::from_secs(15);
    const PROBES: u32 = 4;

    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(INTERVAL);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(IDLE + INTERVAL * PROBES))
}

/// The future of [`run`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Relay<'a> {
    client: TcpStream,
    server: TcpStream,
    up: Flow<'a>,
    down: Flow<'a>,
    first: Option<(Side, Option<&'static str>)>,
    stall: Duration,
    /// Made once a direction has ended, so that an open session costs no timer.
    timer: Option<Pin<Box<Sleep>>>,
    /// What had been moved when the timer was last set.
    seen: u64,
}

impl<'a> Relay<'a> {
    fn new(
        client: TcpStream,
        server: TcpStream,
        stall: Duration,
        counters: &'a Counters,
        pipes: &'a Pipes,
    ) -> Self {
        let (up, down) = (Flow::new(&counters.up, pipes), Flow::new(&counters.down, pipes));
        Self { client, server, up, down, first: None, stall, timer: None, seen: 0 }
    }

    fn moved(&self) -> u64 {
        self.up.moved() + self.down.moved()
    }

    fn outcome(&self, first: Side, error: Option<&'static str>) -> Outcome {
        Outcome { first, up: self.up.moved(), down: self.down.moved(), error }
    }

    /// Ready once the session has made no progress between two settings of the timer.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let moved = self.moved();
            let timer = match &mut self.timer {
                None => {
                    self.seen = moved;
                    self.timer.insert(Box::pin(sleep(self.stall)))
                }
                Some(timer) => timer,
            };
            ready!(timer.as_mut().poll(cx));
            if self.seen == moved {
                return Poll::Ready(());
            }
            self.seen = moved;
            timer.as_mut().reset(Instant::now() + self.stall);
        }
    }
}

impl Future for Relay<'_> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.get_mut();
        let up = this.up.advance(cx, &mut this.client, &mut this.server, this.down.is_closed());
        let down = this.down.advance(cx, &mut this.server, &mut this.client, this.up.is_closed());

        let mut open = false;
        for (result, from, to) in [(up, Side::Client, Side::Server), (down, Side::Server, Side::Client)] {
            let (side, error) = match &result {
                Ok(Stage::Open) => {
                    open = true;
                    continue;
                }
                Ok(Stage::Closing) => {
                    open = true;
                    (from, None)
                }
                Ok(Stage::Closed) => (from, None),
                Err(Broken::Source(error)) => (from, Some(kind(error))),
                // What the lost side sent before is still to be read: the reason of a kick, for one.
                Err(Broken::Target(error)) => (to, Some(kind(error))),
            };
            let (first, error) = *this.first.get_or_insert((side, error));
            if let Err(Broken::Source(_)) = result {
                return Poll::Ready(this.outcome(first, error));
            }
        }
        let Some((first, error)) = this.first else { return Poll::Pending };
        if !open {
            return Poll::Ready(this.outcome(first, error));
        }
        ready!(this.poll_stalled(cx));
        Poll::Ready(this.outcome(first, Some("stalled")))
    }
}

fn kind(error: &io::Error) -> &'static str {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut};

    let kind = error.kind();
    if matches!(kind, ConnectionReset | ConnectionAborted | BrokenPipe) {
        "reset"
    } else if kind == TimedOut {
        "vanished"
    } else {
        "io"
    }
}
