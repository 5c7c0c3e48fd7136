//! Waits with a player inside the game, in the world or the waiting room, until the service is ready.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use swarmgate_core::fleet::View;
use swarmgate_core::knock::{Face, Knock as Asked, Refusal};
use swarmgate_core::ladder::{Exit, Rung, Said};
use swarmgate_core::motd;
use swarmgate_core::name::HostName;
use swarmgate_core::service::{Endpoint, ServiceId};
use swarmgate_minecraft::address::Address;
use swarmgate_minecraft::knock::Knock;
use swarmgate_minecraft::limbo::encryption::Cipher;
use swarmgate_minecraft::limbo::{Broken, Event, Fault, Session, Stage, Transfer};
use swarmgate_minecraft::text::Component;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::hold::{Outcome, decided};
use super::pass::COOKIE;
use super::{Gateway, refuse};
use crate::errors::chain;
use crate::fleet::TakenSeat;
use crate::seats::How;

/// How often what a player sees moves in the world.
const FRAME: Duration = Duration::from_secs(1);
/// The same in the room, where each move is a new window.
const ROOM_FRAME: Duration = Duration::from_secs(10);
/// How long a client may take until it can be told the last word: it may be loading what makes up the world.
const FAREWELL: Duration = Duration::from_secs(90);
/// The same when the gate is about to end: as long as it waits for its connections.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a client may take to close once it has been told where to go.
const PATIENCE: Duration = Duration::from_secs(3);
/// What a client may leave unread: several times what makes up a world.
const MOST_UNREAD: usize = 256 * 1024;
/// A client that cannot bear what it is sent closes without a word, at once.
const AT_ONCE: Duration = Duration::from_secs(2);

/// How a wait in limbo ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Sent to where it came in, the service being ready.
    Transferred,
    /// Asked to join again, the service being ready.
    Rejoin,
    /// Told why it does not get in.
    SentAway,
    /// The player left. The wake goes on.
    Left,
    /// The client stopped answering.
    Vanished,
    /// The client could not bear this rung.
    Broke(Rung, &'static str),
}

impl End {
    /// A short name for logs and metric labels.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Transferred => "transferred",
            Self::Rejoin => "rejoin",
            Self::SentAway => "sent_away",
            Self::Left => "left",
            Self::Vanished => "vanished",
            Self::Broke(_, why) => why,
        }
    }
}

/// A player in limbo.
#[derive(Debug)]
pub struct Limbo {
    pub stream: TcpStream,
    pub session: Session,
    pub gateway: Arc<Gateway>,
    pub knock: Asked,
    pub exit: Exit,
    pub home: Home,
    /// Where the connection is encrypted.
    pub cipher: Option<Box<Cipher>>,
    /// What the client has sent behind its opening, as it came.
    pub early: Vec<u8>,
}

/// Where a player is sent when the service is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    pub host: String,
    pub port: u16,
}

impl Home {
    /// Where the service says, or where the client itself came in: what stands in its handshake has been resolved,
    /// and leads here. Some say no port; then it is the one that the gate is `listening` on.
    pub fn of(knock: &Knock, listening: u16, public: Option<&Endpoint>) -> Self {
        let (host, port) = match (public, knock) {
            (Some(Endpoint { host, port }), _) => (&**host, *port),
            (None, Knock::Login { handshake, .. } | Knock::Status { handshake, .. }) => {
                (Address::cut(&handshake.address).host, handshake.port)
            }
            (None, Knock::LegacyLogin(_) | Knock::LegacyPing(_)) => ("", 0),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let host = host.strip_suffix('.').unwrap_or(host).to_owned();
        Self { host, port: if port == 0 { listening } else { port } }
    }
}

impl Limbo {
    /// Returns when the connection is over.
    pub async fn wait(self, seat: TakenSeat) -> End {
        let gateway = Arc::clone(&self.gateway);
        let knock = self.knock.clone();
        let service = seat.service().clone();
        seat.moved(How::Waiting(Rung::Room));
        let now = Instant::now();
        let mut stay = Stay {
            limbo: self,
            seat: Some(seat),
            began: now,
            frame: now,
            entered: None,
            unread: Vec::new(),
            ending: None,
        };
        let end = stay.run(&service).await;
        let rung = if stay.entered.is_some() { Rung::World } else { Rung::Room };
        gateway.metrics.limbo_ended(rung, end.kind());
        tracing::debug!(%service, end = end.kind(), "limbo is over");
        if let End::Broke(rung, _) = end {
            gateway.fleet.with(|core, now| core.broke(&knock, rung, now));
        }
        end
    }
}

struct Stay {
    limbo: Limbo,
    /// Until it is kept for the player's return.
    seat: Option<TakenSeat>,
    began: Instant,
    /// When what the player sees moves next.
    frame: Instant,
    /// Since when the player stands in the world.
    entered: Option<Instant>,
    /// What the client has not read yet.
    unread: Vec<u8>,
    ending: Option<Ending>,
}

/// The player is being told to go.
#[derive(Clone, Copy)]
struct Ending {
    end: End,
    deadline: Instant,
    /// The last packet is on its way.
    said: bool,
}

impl Stay {
    async fn run(&mut self, service: &ServiceId) -> End {
        let gateway = Arc::clone(&self.limbo.gateway);
        let mut view = gateway.fleet.view();
        let mut closing = false;
        let mut early = std::mem::take(&mut self.limbo.early);
        if let Err(end) = self.take(&mut early) {
            return end;
        }
        loop {
            if self.ending.is_none() {
                let seen = Arc::clone(&view.borrow_and_update());
                self.look(&seen, service);
            }
            if let Err(end) = self.pump() {
                return end;
            }
            match self.ending {
                Some(Ending { end, said: true, .. }) if self.unread.is_empty() => {
                    self.part().await;
                    return end;
                }
                Some(Ending { deadline, .. }) if Instant::now() >= deadline => return End::Vanished,
                Some(_) | None => {}
            }
            let stays = self.ending.is_none();
            let moved = tokio::select! {
                readable = self.limbo.stream.readable() => {
                    readable.map_err(|_| self.closed()).and_then(|()| self.read())
                }
                writable = self.limbo.stream.writable(), if !self.unread.is_empty() => {
                    writable.map_err(|_| self.closed()).and_then(|()| self.write())
                }
                // Whoever were transferred now would find nobody.
                () = gateway.drain.cancelled(), if stays => {
                    self.send_away(Component::literal(motd::GATE_STOPPING));
                    Ok(())
                }
                () = gateway.close.cancelled(), if !closing => {
                    closing = true;
                    if stays {
                        self.send_away(Component::literal(motd::GATE_STOPPING));
                    }
                    let last = Instant::now() + LAST_WORDS;
                    self.ending = self.ending.map(|ending| Ending { deadline: ending.deadline.min(last), ..ending });
                    Ok(())
                }
                changed = view.changed(), if stays => changed.map_err(|_| End::SentAway),
                () = sleep_until(self.due()) => Ok(()),
            };
            if let Err(end) = moved {
                return end;
            }
        }
    }

    /// What the state of the service asks for: at once, but for the pictures, which move frame by frame.
    fn look(&mut self, view: &View, service: &ServiceId) {
        let due = Instant::now() >= self.frame;
        if due {
            let in_world = self.limbo.session.stage() == Stage::World;
            self.frame = Instant::now() + if in_world { FRAME } else { ROOM_FRAME };
        }
        let now = self.limbo.gateway.fleet.now();
        match (decided(view, service), view.get(service)) {
            // On its way from one phase to the next it cannot be sent; it will soon have arrived.
            (Some(Outcome::Ready(_)), Some(_)) if !self.can_be_sent() => {}
            (Some(Outcome::Ready(_)), Some(face)) => self.let_in(face),
            (Some(Outcome::Failed | Outcome::Over | Outcome::Left | Outcome::Gone), Some(face)) => {
                self.send_away(motd::on_leaving(face, now));
            }
            (_, None) => self.send_away(motd::refused(&Refusal::UnknownHost, now)),
            (None, Some(face)) if due => self.limbo.session.show(&motd::scene(face, now)),
            (None, Some(_)) => {}
        }
    }

    const fn can_be_sent(&self) -> bool {
        match self.limbo.session.stage() {
            Stage::Room | Stage::World => true,
            Stage::Login | Stage::Entering | Stage::Over => false,
        }
    }

    /// The service is ready. The seat is kept from here on, so that whoever is quick finds it.
    fn let_in(&mut self, face: &Face) {
        let Limbo { session, gateway, knock, exit, home, .. } = &mut self.limbo;
        if let Some(seat) = self.seat.take() {
            seat.keep_for_return(knock, HostName::parse(&home.host).ok());
        }
        let end = match exit {
            Exit::Transfer => {
                let pass = knock.player().map(|player| {
                    gateway.passes.issue(&face.service.to_string(), &player.name, SystemTime::now())
                });
                let cookie = pass.map(|pass| (COOKIE.to_owned(), pass));
                session.transfer(Transfer { host: home.host.clone(), port: home.port, cookie });
                End::Transferred
            }
            Exit::Rejoin => {
                session.disconnect(motd::rejoin(face, gateway.fleet.now()));
                End::Rejoin
            }
        };
        self.end(end);
    }

    fn send_away(&mut self, reason: Component) {
        self.limbo.session.disconnect(reason);
        self.end(End::SentAway);
    }

    fn end(&mut self, end: End) {
        self.ending = Some(Ending { end, deadline: Instant::now() + FAREWELL, said: false });
    }

    /// Lets the session do what is due, and takes what it has to say.
    fn pump(&mut self) -> Result<(), End> {
        let now = self.began.elapsed();
        self.limbo.session.tick(now).map_err(broke)?;
        while let Some(event) = self.limbo.session.event() {
            match event {
                Event::Arrived { brand, world } => self.arrived(&Said { brand, world }, now),
                Event::Entered => self.entered(),
                Event::Over => self.ending = self.ending.map(|ending| Ending { said: true, ..ending }),
            }
        }
        let mut output = self.limbo.session.output();
        if let Some(cipher) = &mut self.limbo.cipher {
            cipher.seal(&mut output);
        }
        self.unread.extend(output);
        if self.unread.len() > MOST_UNREAD {
            return Err(End::Broke(rung_of(self.limbo.session.stage()), "unread"));
        }
        if self.unread.is_empty() { Ok(()) } else { self.write() }
    }

    /// The ladder again, now that the client has said what it is.
    fn arrived(&mut self, said: &Said, now: Duration) {
        self.frame = Instant::now();
        let Limbo { session, gateway, knock, .. } = &mut self.limbo;
        let Some(seat) = &self.seat else { return };
        let Some(waiting) = gateway.fleet.look(|core, at| core.arrived(seat.seat(), knock, said, at)) else {
            return;
        };
        tracing::debug!(service = %seat.service(), brand = ?said.brand, world = said.world, landing = %waiting.landing, "arrived in limbo");
        gateway.metrics.refused_rungs(&waiting.landing);
        match waiting.landing.rung {
            Rung::World => session.enter(now),
            Rung::Room => {}
            Rung::Hold | Rung::Disconnect => {
                let face = gateway.fleet.look(|core, _| core.face(seat.service()));
                let at = gateway.fleet.now();
                self.send_away(match face {
                    Some(face) => motd::on_leaving(&face, at),
                    None => motd::refused(&Refusal::UnknownHost, at),
                });
            }
        }
    }

    fn entered(&mut self) {
        self.entered = Some(Instant::now());
        self.frame = Instant::now();
        if let Some(seat) = &self.seat {
            seat.moved(How::Waiting(Rung::World));
        }
        let fleet = &self.limbo.gateway.fleet;
        let face = self.seat.as_ref().and_then(|seat| fleet.look(|core, _| core.face(seat.service())));
        if let Some(face) = face {
            self.limbo.session.say(&motd::welcome(&face, fleet.now()));
        }
    }

    /// When something happens by itself.
    fn due(&self) -> Instant {
        let latest = self.ending.map_or(self.frame, |ending| ending.deadline);
        let tick = self.began.checked_add(self.limbo.session.next_tick());
        tick.map_or(latest, |tick| tick.min(latest))
    }

    /// Takes what has arrived.
    fn read(&mut self) -> Result<(), End> {
        let mut chunk = [0; 4096];
        match self.limbo.stream.try_read(&mut chunk) {
            Ok(0) => Err(self.closed()),
            Ok(read) => self.take(chunk.get_mut(..read).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(self.closed()),
        }
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), End> {
        if let Some(cipher) = &mut self.limbo.cipher {
            cipher.open(bytes);
        }
        self.limbo.session.receive(bytes, self.began.elapsed()).map_err(broke)
    }

    /// Sends what the client takes.
    fn write(&mut self) -> Result<(), End> {
        match self.limbo.stream.try_write(&self.unread) {
            Ok(written) => {
                self.unread.drain(..written);
                // It is large once, for the world, and then small for a long time.
                self.unread.shrink_to(1024);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(self.closed()),
        }
    }

    /// What it means that the client has closed: a client that cannot bear something does so at once.
    fn closed(&self) -> End {
        if let Some(Ending { end, said: true, .. }) = self.ending {
            return end;
        }
        match self.limbo.session.stage() {
            Stage::Login | Stage::Room if self.began.elapsed() < AT_ONCE => End::Broke(Rung::Room, "closed"),
            Stage::Entering => End::Broke(Rung::World, "closed"),
            Stage::World if self.entered.is_some_and(|entered| entered.elapsed() < AT_ONCE) => {
                End::Broke(Rung::World, "closed")
            }
            Stage::Login | Stage::Room | Stage::World | Stage::Over => End::Left,
        }
    }

    /// Closes so that the last words arrive.
    async fn part(&mut self) {
        let closed = async {
            self.limbo.stream.shutdown().await?;
            refuse::drain(&self.limbo.stream).await
        };
        let _ = timeout(PATIENCE, closed).await;
    }
}

/// The client broke the rules, or has stopped answering.
fn broke(broken: Broken) -> End {
    tracing::debug!(error = %chain(&broken), "a client broke in limbo");
    match (broken.why, broken.stage) {
        (Fault::Silent, Stage::World | Stage::Over) => End::Vanished,
        (_, stage) => End::Broke(rung_of(stage), broken.kind()),
    }
}

const fn rung_of(stage: Stage) -> Rung {
    match stage {
        Stage::Login | Stage::Room => Rung::Room,
        Stage::Entering | Stage::World | Stage::Over => Rung::World,
    }
}

#[cfg(test)]
mod tests {
    use swarmgate_minecraft::handshake::{Handshake, Intent};
    use swarmgate_minecraft::login::LoginStart;

    use super::*;

    #[test]
    fn players_are_sent_to_where_they_came_in() {
        let public = Endpoint { host: "play.example.com".into(), port: 25_570 };
        for (address, port, public, host, to) in [
            ("mc.example.com", 25_565, None, "mc.example.com", 25_565),
            ("MC.example.com.", 30_000, None, "MC.example.com", 30_000),
            ("mc.example.com\0FORGE2", 25_565, None, "mc.example.com", 25_565),
            ("mc.example.com///192.0.2.1:1///2", 25_565, None, "mc.example.com", 25_565),
            ("192.0.2.7", 25_565, None, "192.0.2.7", 25_565),
            ("2001:db8::7", 25_565, None, "2001:db8::7", 25_565),
            ("[2001:db8::7]", 25_565, None, "2001:db8::7", 25_565),
            ("mc.example.com", 0, None, "mc.example.com", 25_599),
            ("mc.example.com", 1, Some(&public), "play.example.com", 25_570),
        ] {
            let handshake =
                Handshake { protocol: 767, address: address.to_owned(), port, intent: Intent::Login };
            let start = LoginStart { name: "Ann".to_owned(), uuid: None, key: None };
            let knock = Knock::Login { handshake, start, consumed: 0 };
            let home = Home::of(&knock, 25_599, public);
            assert_eq!(home, Home { host: host.to_owned(), port: to }, "{address}");
        }
    }
}
