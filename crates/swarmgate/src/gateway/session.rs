//! One connection, from its first byte to its last.

mod ends;
mod late;
mod prove;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use swarmgate_core::config::Listener;
use swarmgate_core::knock::{Knock, Purpose, Target, Verdict, Waiting};
use swarmgate_core::ladder::{Exit, Rung};
use swarmgate_core::motd;
use swarmgate_core::service::{ServiceId, State};
use swarmgate_minecraft::address::Address;
use swarmgate_minecraft::handshake::{self, Intent, Rewrite};
use swarmgate_minecraft::knock::Knock as Wire;
use swarmgate_minecraft::limbo::encryption::Cipher;
use swarmgate_minecraft::limbo::{Guest, Session};
use swarmgate_minecraft::text::Component;
use swarmgate_minecraft::{login, proxy_header};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::door::{Deed, Open, Place, Room};
use super::guest::{self, NoGuest};
use super::limbo::{Home, Limbo};
use super::opening::{Caller, NoOpening, Opening};
use super::pass::COOKIE;
use super::tell::{Stay, Visitor};
use super::{Gateway, asked, hold, listener, refuse, relay, status};
use crate::dial::{DialError, dial};
use crate::errors::chain;
use crate::fleet::TakenSeat;
use crate::metrics::OneMore;
use crate::probe;
use crate::seats::How;

/// Once one side has gone, the other may not sit there for ever.
const STALL: Duration = Duration::from_secs(60);
/// How long a list entry may take to find out that a running server cannot be reached.
const STATUS_DIAL: Duration = Duration::from_secs(2);
const LOGIN_DIAL: Duration = Duration::from_secs(4);
/// A client gives up on a silent login after 30 s; the rest is for the sentence to arrive.
const PATIENCE_OF_CLIENTS: Duration = Duration::from_secs(28);
/// A server that is known to run and refuses is tried again: it may be coming back at this moment.
const DIAL_AGAIN: Duration = Duration::from_millis(500);
const DIALS: u32 = 3;
/// Room for the key and for more than a pass.
const LONGEST_PASS: usize = 1024;
/// A game answers at once; this is for the slowest line.
const PASS_PATIENCE: Duration = Duration::from_secs(3);
const REPLAY: Duration = Duration::from_secs(5);

/// Two connected sockets with the opening replayed, and the seat of the player between them.
struct Joined {
    client: TcpStream,
    server: TcpStream,
    seat: Option<TakenSeat>,
    stay: Option<Box<Stay>>,
    open: Option<OneMore>,
}

/// Serves one connection. What comes before the relay is boxed and dropped, so that a connection that is
/// only relayed costs little memory.
pub(super) fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    listener: Arc<Listener>,
    gateway: Arc<Gateway>,
    open: Open,
) -> impl Future<Output = ()> {
    relay_when_ready(Box::pin(prepare(stream, peer, listener, Arc::clone(&gateway))), gateway, open)
}

async fn relay_when_ready(
    preparation: Pin<Box<impl Future<Output = Option<Joined>>>>,
    gateway: Arc<Gateway>,
    _open: Open,
) {
    let Some(Joined { client, server, seat, stay: _stay, open: _relayed }) = preparation.await else {
        return;
    };
    let (by, ended) = tokio::select! {
        outcome = relay::run(client, server, STALL, &gateway.metrics.relayed) => (Some(outcome.first), outcome.error),
        () = gateway.close.cancelled() => (None, Some("gate_stopped")),
    };
    if let Some(kind) = ended {
        gateway.metrics.session_failed(kind);
    }
    if let (Some(seat), Some(relay::Side::Server)) = (seat, by) {
        seat.was_ended();
    }
}

async fn prepare(
    mut stream: TcpStream,
    peer: SocketAddr,
    listener: Arc<Listener>,
    gateway: Arc<Gateway>,
) -> Option<Joined> {
    let alone = !listener::trusts(&listener, peer.ip());
    let mut place = match gateway.door.enter(Room::HalfOpen, peer.ip(), alone) {
        Ok(place) => place,
        Err(full) => {
            gateway.metrics.refused(full.kind());
            return None;
        }
    };
    let give_up = Instant::now() + PATIENCE_OF_CLIENTS;
    let deadline = Instant::now() + gateway.config.borrow().limits.opening_deadline;
    let opening = async {
        let caller = Caller::read(&mut stream, peer, &listener, deadline).await?;
        if caller.client != peer {
            gateway.door.charge(&mut place, caller.client.ip())?;
        }
        caller.opening(&mut stream, deadline).await
    };
    let opening = tokio::select! {
        opening = opening => opening,
        // Nobody waits for those who have not said yet what they want.
        () = gateway.drain.cancelled() => return None,
    };
    match opening {
        Ok(opening) => {
            let visit = Visit {
                stream,
                opening,
                gateway,
                deadline,
                give_up,
                returned: false,
                guest: None,
                cipher: None,
            };
            Box::new(visit).go(place).await
        }
        Err(NoOpening::Full(full)) => {
            gateway.metrics.refused(full.kind());
            None
        }
        Err(error) => {
            report(&error, peer, &gateway);
            if let NoOpening::BadLogin { source, protocol } = error {
                Box::pin(refuse::unreadable(stream, protocol, source)).await;
            }
            None
        }
    }
}

/// A connection whose opening has been read.
struct Visit {
    stream: TcpStream,
    opening: Opening,
    gateway: Arc<Gateway>,
    deadline: Instant,
    /// By then a player has been let in or has been told why not.
    give_up: Instant,
    /// The player is back from a wait, where the gate itself sent it.
    returned: bool,
    /// Who the player has proven to be.
    guest: Option<Guest>,
    /// Since the connection was encrypted.
    cipher: Option<Box<Cipher>>,
}

impl Visit {
    async fn go(mut self: Box<Self>, place: Place) -> Option<Joined> {
        let mut knock = asked::knock(&self.opening, &self.gateway.config.borrow().proxies);
        let deed = match &knock.purpose {
            Purpose::Status => Deed::Status,
            Purpose::Login(..) => Deed::Login,
        };
        if !self.gateway.door.allow(deed, knock.source, self.gateway.fleet.now()) {
            return self.too_often(deed).await;
        }
        if self.wants_pass(&knock) {
            let player = knock.player().map_or("", |player| &player.name);
            match Box::pin(self.ask_for_pass(player)).await {
                Ok(pass) => knock.pass = pass,
                Err(error) => {
                    report(&error, self.opening.client, &self.gateway);
                    return None;
                }
            }
        }
        let mut place = Some(place);
        let mut decided = self.admit(&knock);
        if let (Verdict::Prove(face), _) = decided {
            place = None;
            // Boxed: few have to, and none that is only relayed.
            match Box::pin(self.prove(face, &knock)).await? {
                // Nobody would be there to put to sleep what is started now.
                Ok(_) if self.gateway.drain.is_cancelled() => {
                    return Box::pin(self.say(&Component::literal(motd::GATE_STOPPING))).await;
                }
                Ok(account) => {
                    knock.account = Some(account);
                    decided = self.admit(&knock);
                }
                Err(refusal) => decided = (Verdict::Refuse(refusal), None),
            }
        }
        match decided {
            (Verdict::Answer(face), _) => {
                let answers = &self.gateway.answers;
                let now = self.gateway.fleet.now();
                answers.answer(self.stream, &self.opening, &face, now, self.deadline).await;
                None
            }
            (Verdict::Forward(target), _) => self.forward(target).await,
            (Verdict::Refuse(refusal), _) => self.refuse(refusal, &knock).await,
            (Verdict::Relay(_, target), Some(seat)) => {
                drop(place);
                self.join(target, seat).await
            }
            (Verdict::Wait(_, waiting), Some(seat)) => {
                drop(place);
                // Boxed: few connections wait, and none that is only relayed.
                Box::pin(self.wait(waiting, seat, knock)).await
            }
            // `admit` hands out a seat with these two, and asks nobody for a second proof.
            (Verdict::Relay(..) | Verdict::Wait(..), None) | (Verdict::Prove(_), _) => None,
        }
    }

    fn admit(&mut self, knock: &Knock) -> (Verdict, Option<TakenSeat>) {
        let (verdict, seat) = self.gateway.fleet.admit(knock);
        tracing::debug!(client = %self.opening.client, host = ?Address::cut(self.address()).host, knock = ?knock.purpose, verdict = verdict.word(), "decided");
        self.gateway.metrics.decided(verdict.word());
        if !self.returned && seat.as_ref().is_some_and(|seat| seat.seat().returned) {
            self.returned = true;
            self.gateway.metrics.returned();
        }
        (verdict, seat)
    }

    /// Whether only a cookie can tell if a client that was sent here was sent by this gate.
    fn wants_pass(&self, knock: &Knock) -> bool {
        let sent_here = knock.client().is_some_and(|client| client.transferred);
        sent_here && !self.gateway.fleet.look(|core, now| core.has_ticket(knock, now))
    }

    /// Asks for the pass; `None` if the client has none that is valid, or knows no cookies and says nothing, as bots
    /// do. Its answer is for the gate alone.
    async fn ask_for_pass(&mut self, player: &str) -> Result<Option<ServiceId>, NoOpening> {
        self.stream.write_all(&login::cookie_request(COOKIE)).await?;
        let patience = self.deadline.min(Instant::now() + PASS_PATIENCE);
        let answer = match self.opening.answer(&mut self.stream, LONGEST_PASS, patience).await {
            Err(NoOpening::Silent) => return Ok(None),
            answer => answer?,
        };
        let cookie = login::parse_cookie(&answer, COOKIE)?.unwrap_or_default();
        let service = self.gateway.passes.check(cookie, player, SystemTime::now());
        Ok(service.and_then(|service| self.gateway.fleet.look(|core, _| core.named(service).ok())))
    }

    /// A ping for a running server: the server answers itself.
    async fn forward(mut self: Box<Self>, target: Target) -> Option<Joined> {
        match self.connect(&target, STATUS_DIAL).await {
            Ok(server) => Some(Joined { client: self.stream, server, seat: None, stay: None, open: None }),
            Err(error) => {
                self.unreachable(&target, &error);
                let face = self.gateway.fleet.look(|core, _| core.face(&target.service))?;
                let now = self.gateway.fleet.now();
                status::unreachable(self.stream, &self.opening, &face, now, self.deadline).await;
                None
            }
        }
    }

    async fn wait(self: Box<Self>, waiting: Waiting, seat: TakenSeat, knock: Knock) -> Option<Joined> {
        let Waiting { landing, exit, hold } = waiting;
        tracing::debug!(client = %self.opening.client, service = %seat.service(), %landing, "waits");
        self.gateway.metrics.waits(&landing);
        match (landing.rung, exit) {
            (rung @ (Rung::World | Rung::Room), Exit::Transfer) => {
                Box::pin(self.limbo(seat, knock, rung)).await
            }
            // Encrypted by the gate, it can be held as long as one likes and leads nowhere.
            (Rung::Hold | Rung::Disconnect, _) if self.cipher.is_some() => {
                self.say_of(seat.service(), motd::proven).await
            }
            (rung @ (Rung::World | Rung::Room), Exit::Rejoin) => {
                self.hold(seat, hold, Some((knock, rung))).await
            }
            (Rung::Hold | Rung::Disconnect, _) => self.hold(seat, hold, None).await,
        }
    }

    /// Inside the game. What comes after it is another connection.
    async fn limbo(mut self: Box<Self>, seat: TakenSeat, knock: Knock, rung: Rung) -> Option<Joined> {
        let _waiting = self.gateway.metrics.waiting(rung);
        let exit = knock.client()?.exit();
        let proxies = self.gateway.config.borrow().proxies.clone();
        let guest = match self.guest.take() {
            Some(guest) => guest,
            None => match guest::meet(&mut self.stream, &mut self.opening, &proxies).await {
                Ok((guest, _)) => guest,
                Err(error) => {
                    self.unknown_guest(&error);
                    return self.say_of(seat.service(), motd::on_leaving).await;
                }
            },
        };
        let Some(face) = self.gateway.fleet.look(|core, _| core.face(seat.service())) else {
            return self.say_of(seat.service(), motd::on_leaving).await;
        };
        let listening = self.opening.addresses(&self.stream).ok()?.destination.port();
        let home = Home::of(&self.opening.knock, listening, face.spec.public_address.as_ref());
        let session = Session::new(&guest, Duration::ZERO)?;
        let early = self.opening.take_rest();
        let Self { stream, gateway, cipher, .. } = *self;
        Limbo { stream, session, gateway, knock, exit, home, cipher, early }.wait(seat).await;
        None
    }

    async fn join(mut self: Box<Self>, target: Target, seat: TakenSeat) -> Option<Joined> {
        let mut dials = 0;
        let visitor = self.visitor();
        let backend = target.endpoints.first().map(ToString::to_string).unwrap_or_default();
        loop {
            dials += 1;
            let within = LOGIN_DIAL.min(self.give_up.saturating_duration_since(Instant::now()));
            let why = match self.connect(&target, within).await {
                Ok(server) => {
                    seat.moved(How::Playing);
                    let open = Some(self.gateway.metrics.joined(&target.service));
                    let stay = visitor.map(|visitor| visitor.connected(backend));
                    return Some(Joined { client: self.stream, server, seat: Some(seat), stay, open });
                }
                Err(error) => {
                    self.unreachable(&target, &error);
                    chain(&error)
                }
            };
            if dials == DIALS || !self.is_up(&target.service) || Instant::now() >= self.give_up {
                if let Some(visitor) = &visitor {
                    visitor.failed(&backend, &why);
                }
                return self.say_of(&target.service, motd::unreachable).await;
            }
            tokio::time::sleep_until(self.give_up.min(Instant::now() + DIAL_AGAIN)).await;
        }
    }

    fn is_up(&self, service: &ServiceId) -> bool {
        let state = self.gateway.fleet.look(|core, _| core.face(service)).map(|face| face.state);
        match state {
            Some(State::Running(_)) => true,
            Some(
                State::Asleep
                | State::Starting { .. }
                | State::Restarting { .. }
                | State::Stopping
                | State::Failed { .. }
                | State::Unknown { .. },
            )
            | None => false,
        }
    }

    /// On the open connection; then, for whoever would have to join again from there, in limbo.
    async fn hold(
        mut self: Box<Self>,
        seat: TakenSeat,
        time: Duration,
        then: Option<(Knock, Rung)>,
    ) -> Option<Joined> {
        let time = time.min(self.give_up.saturating_duration_since(Instant::now()));
        let place = match self.gateway.door.enter(Room::Held, self.opening.client.ip(), true) {
            Ok(place) => place,
            Err(full) => {
                self.gateway.metrics.refused(full.kind());
                return self.say_of(seat.service(), motd::on_leaving).await;
            }
        };
        let waiting = self.gateway.metrics.waiting(Rung::Hold);
        seat.moved(How::Waiting(Rung::Hold));
        let close = self.gateway.close.clone();
        let outcome = tokio::select! {
            outcome = hold::until_ready(&self.stream, &mut self.opening.raw, seat.service(), time, &self.gateway.fleet) => outcome,
            () = close.cancelled() => hold::Outcome::Over,
        };
        drop((place, waiting));
        self.opening.drop_late_answer();
        match (outcome, then) {
            (hold::Outcome::Ready(target), _) => self.join(target, seat).await,
            (hold::Outcome::Left, _) => None,
            (hold::Outcome::Over, Some((knock, rung))) => Box::pin(self.limbo(seat, knock, rung)).await,
            (hold::Outcome::Over, None) | (hold::Outcome::Failed | hold::Outcome::Gone, _) => {
                self.say_of(seat.service(), motd::on_leaving).await
            }
        }
    }

    /// Dials, says whom we speak for if asked, and replays what the client has sent.
    async fn connect(&mut self, target: &Target, within: Duration) -> Result<TcpStream, DialError> {
        let mut server = dial(&target.endpoints, within).await?;
        let prepared = async {
            if let Some(version) = target.spec.send_proxy {
                let addresses = self.opening.addresses(&self.stream)?;
                server.write_all(&proxy_header::encode(probe::proxy_version(version), addresses)).await?;
            }
            server.write_all(&self.replay(target)).await
        };
        match timeout(REPLAY, prepared).await {
            Ok(Ok(())) => {
                if self.opening.is_unanswered() {
                    // Boxed: nearly everybody answers in time.
                    Box::pin(self.without_late_answer(&mut server)).await;
                }
                Ok(server)
            }
            Ok(Err(source)) => Err(DialError::Unprepared { source }),
            Err(_) => Err(DialError::Unprepared { source: io::ErrorKind::TimedOut.into() }),
        }
    }

    /// The opening as it came, byte for byte, unless the route asks for another host in it, or the player is back
    /// from a wait: to the server that is a join like any other.
    fn replay(&self, target: &Target) -> Vec<u8> {
        let legacy = matches!(self.opening.knock, Wire::LegacyPing(_) | Wire::LegacyLogin(_));
        let change = Rewrite {
            host: target.spec.rewrite_host.as_deref(),
            intent: self.returned.then_some(Intent::Login),
        };
        if legacy || change == Rewrite::default() {
            return self.opening.for_server().to_vec();
        }
        let raw = self.opening.for_server();
        handshake::rewrite(raw, &change).unwrap_or_else(|_| raw.to_vec())
    }

    /// Who is told of, if anybody wants to know.
    fn visitor(&self) -> Option<Visitor> {
        let notifier = &self.gateway.notifier;
        if !notifier.tells_of_players() {
            return None;
        }
        let knock = asked::knock(&self.opening, &self.gateway.config.borrow().proxies);
        let player = knock.player()?;
        Some(Visitor::new(notifier, self.opening.client, Address::cut(self.address()).host, player))
    }

    fn address(&self) -> &str {
        asked::address_of(&self.opening.knock)
    }

    fn unknown_guest(&self, error: &NoGuest) {
        self.gateway.metrics.session_failed("forwarding");
        if let Some(more) = self.gateway.quiet.allow("forwarding") {
            tracing::warn!(proxy = %self.opening.client.ip(), error = %chain(error), more, "who waits behind a proxy is not known");
        }
    }

    fn unreachable(&self, target: &Target, error: &DialError) {
        self.gateway.metrics.session_failed("unreachable");
        self.gateway.fleet.doubt(&target.service);
        self.gateway.fleet.with(|core, now| core.unreached(&target.service, chain(error), now));
        if let Some(more) = self.gateway.quiet.allow_about("unreachable", &target.service) {
            tracing::warn!(service = %target.service, error = %chain(error), more, "a running server cannot be reached");
        }
    }
}

/// Scanners are counted; a misconfigured proxy is told to its owner.
fn report(error: &NoOpening, peer: SocketAddr, gateway: &Gateway) {
    gateway.metrics.opening_failed(error.kind());
    tracing::debug!(%peer, kind = error.kind(), error = %chain(error), "no opening");
    let misconfigured = match error {
        NoOpening::HeaderWhenOff | NoOpening::UntrustedHeader | NoOpening::Header(_) => true,
        NoOpening::Nothing
        | NoOpening::Closed
        | NoOpening::Silent
        | NoOpening::Slow
        | NoOpening::Malformed(_)
        | NoOpening::BadLogin { .. }
        | NoOpening::Full(_)
        | NoOpening::Io(_) => false,
    };
    if misconfigured && let Some(more) = gateway.quiet.allow_about(error.kind(), peer.ip()) {
        tracing::warn!(error = %chain(error), more, "a connection was refused for its PROXY header");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of what an async function with these arguments returns.
    const fn size<A, B, C, D, E, F>(_: fn(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    const fn size4<A, B, C, D, F>(_: fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_relayed_connection_costs_little_memory() {
        // It is paid once per player for hours; what comes before the relay is boxed and gone by then.
        let before = size4(prepare);
        assert!(before <= 2_560, "before the relay, a connection takes {before} bytes");
        let bytes = size(serve);
        assert!(bytes <= 512, "the future of a connection takes {bytes} bytes");
    }
}
