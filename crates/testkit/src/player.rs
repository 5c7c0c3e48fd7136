//! A player with the strict client of [`crate::vanilla`], over real sockets: it joins, waits, is transferred and
//! follows, as the game does.
//!
//! ```no_run
//! # async fn example(gate: std::net::SocketAddr) -> std::io::Result<()> {
//! use std::time::Duration;
//! use swarmgate_testkit::client::Client;
//! use swarmgate_testkit::player::Passport;
//!
//! let limit = Duration::from_secs(60);
//! let ann = Passport::new(Client::to(gate), 775, "mc.example.com", "Ann");
//! let mut waiting = ann.arrive(limit).await?;
//! waiting.acknowledge().await?;
//! waiting.until("a world", limit, |game| game.world()?.is_entered().then_some(())).await?;
//! let mut playing = waiting.follow(limit).await?;
//! playing.until_logged_in(limit).await?;
//! # Ok(()) }
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::client::{Client, Connection};
use crate::encryption::{self, Secret};
use crate::login::LoginStart;
use crate::sessions::SessionServer;
use crate::vanilla::{Cookies, End, PATIENCE, Phase, Vanilla, releases};
use crate::wire::{Handshake, TRANSFER};

/// How often it says that it is there. The game does so twenty times a second.
const BEAT: Duration = Duration::from_secs(1);

/// Who joins, how and where.
#[derive(Debug, Clone)]
pub struct Passport {
    pub client: Client,
    pub handshake: Handshake,
    pub start: LoginStart,
    /// The version of the game's own pack that it has, if any. [`Passport::new`] says the protocol's newest.
    pub pack: Option<&'static str>,
    pub patience: Duration,
    pub cookies: Cookies,
}

impl Passport {
    /// The port of the handshake is the one that the client connects to.
    pub fn new(client: Client, protocol: i32, host: &str, name: &str) -> Self {
        let handshake = Handshake::login(protocol, host).port(client.server().port());
        Self {
            client,
            handshake,
            start: LoginStart::new(name),
            pack: releases(protocol).last().copied(),
            patience: PATIENCE,
            cookies: Cookies::new(),
        }
    }

    /// Connects, and sends handshake and login start.
    pub async fn connect(&self, limit: Duration) -> io::Result<Player> {
        let mut connection = self.client.connect(limit).await?;
        let opening = [self.handshake.packet(), self.start.packet(self.handshake.protocol)].concat();
        // A server that has heard enough may close while this is sent; what it said is still to be read.
        _ = connection.send(&opening).await;
        let game = Vanilla::new(self.handshake.protocol, Duration::ZERO).patience(self.patience);
        let game = game.pack(self.pack).cookies(self.cookies.clone());
        let now = Instant::now();
        Ok(Player { passport: self.clone(), connection, game, started: now, beat: now + BEAT })
    }

    /// [`Passport::connect`], then [`Player::until_logged_in`].
    pub async fn arrive(&self, limit: Duration) -> io::Result<Player> {
        let mut player = self.connect(limit).await?;
        player.until_logged_in(limit).await?;
        Ok(player)
    }
}

/// One connection of a player. Errors are what would make the game leave, a limit that has passed, or a server that
/// closed without a word.
#[derive(Debug)]
pub struct Player {
    passport: Passport,
    connection: Connection,
    game: Vanilla,
    started: Instant,
    beat: Instant,
}

impl Player {
    /// What it knows.
    pub fn game(&self) -> &Vanilla {
        &self.game
    }

    pub async fn until_logged_in(&mut self, limit: Duration) -> io::Result<()> {
        self.until("Login Success", limit, |game| (game.phase() == Phase::LoggedIn).then_some(())).await
    }

    /// Goes on behind Login Success.
    pub async fn acknowledge(&mut self) -> io::Result<()> {
        self.game.acknowledge();
        self.game.go_on()?;
        self.flush().await
    }

    /// Says a command in the game, without its slash.
    pub async fn command(&mut self, text: &str) -> io::Result<()> {
        self.game.command(text);
        self.flush().await
    }

    /// The end that the server makes, by a transfer or with words.
    pub async fn until_ended(&mut self, limit: Duration) -> io::Result<End> {
        self.until("an end", limit, |game| game.end().cloned()).await
    }

    /// Where it is sent.
    pub async fn until_transferred(&mut self, limit: Duration) -> io::Result<(String, u16)> {
        match self.until_ended(limit).await? {
            End::Transferred { host, port } => Ok((host, port)),
            end @ (End::Kicked(_) | End::EncryptionRequested(_)) => {
                Err(io::Error::other(format!("{end:?} in place of a transfer")))
            }
        }
    }

    /// Waits for a transfer, leaves, and arrives where it was sent, as the game does: with the intent to transfer, the
    /// host it was told, and its cookies. Names are those of the machine that it was connected to.
    pub async fn follow(mut self, limit: Duration) -> io::Result<Self> {
        let (host, port) = self.until_transferred(limit).await?;
        let passport = self.leave().transferred(&host, port);
        passport.connect(limit).await
    }

    /// Waits to be asked for encryption, and agrees. With a session server, its account's owner tells it of that; without
    /// one, the player only says that it is somebody.
    pub async fn prove(&mut self, sessions: Option<&SessionServer>, limit: Duration) -> io::Result<()> {
        let protocol = self.game.protocol();
        let asked = match self.until_ended(limit).await? {
            End::EncryptionRequested(body) => encryption::Request::parse(&body, protocol)?,
            end @ (End::Kicked(_) | End::Transferred { .. }) => {
                return Err(io::Error::other(format!("{end:?} in place of a request for encryption")));
            }
        };
        let mut secret = Secret::default();
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        if let Some(sessions) = sessions {
            sessions.join(&self.passport.start.name, &asked.hash(secret));
        }
        self.connection.send(&asked.answer(secret, &asked.token, protocol)).await?;
        self.connection.encrypt(secret);
        self.game.encrypted();
        Ok(())
    }

    /// Closes the connection; what is left of the player is who it was, with the cookies it was given.
    pub fn leave(self) -> Passport {
        Passport { cookies: self.game.into_cookies(), ..self.passport }
    }

    /// Reads and answers until the game knows what is asked.
    pub async fn until<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut ask: impl FnMut(&Vanilla) -> Option<T>,
    ) -> io::Result<T> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(answer) = ask(&self.game) {
                return Ok(answer);
            }
            if self.game.phase() == Phase::Over {
                return Err(self.error(io::ErrorKind::Other, &format!("{:?} before {what}", self.game.end())));
            }
            if Instant::now() >= deadline {
                return Err(self.error(io::ErrorKind::TimedOut, &format!("waited {limit:?} for {what}")));
            }
            self.step(deadline, what).await?;
        }
    }

    /// The bare connection, for a server that speaks no game, such as one of this kit behind Login Success.
    pub fn into_connection(mut self) -> Connection {
        let unread = self.game.unread();
        self.connection.unread(unread);
        self.connection
    }

    async fn step(&mut self, deadline: Instant, what: &str) -> io::Result<()> {
        let until =
            deadline.min(self.beat).min(self.started + self.game.deadline() + Duration::from_millis(1));
        match timeout_at(until, self.connection.read_some()).await {
            Ok(read) => {
                let bytes = read?;
                if bytes.is_empty() {
                    return Err(self.error(io::ErrorKind::UnexpectedEof, &format!("closed before {what}")));
                }
                let read = self.game.receive(&bytes, self.started.elapsed());
                // Its last words go out before it leaves.
                self.flush().await?;
                read
            }
            Err(_) => {
                self.game.tick(self.started.elapsed())?;
                if Instant::now() >= self.beat {
                    self.beat = Instant::now() + BEAT;
                    self.game.beat();
                }
                self.flush().await
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let output = self.game.output();
        match self.connection.send(&output).await {
            // The server may have closed behind its last words, which are read next.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                Ok(())
            }
            sent => sent,
        }
    }

    fn error(&self, kind: io::ErrorKind, why: &str) -> io::Error {
        let (phase, sights) = (self.game.phase(), &self.game.seen().sights);
        io::Error::new(kind, format!("{why}; in {phase:?}, having seen {sights:?}"))
    }
}

impl Passport {
    fn transferred(self, host: &str, port: u16) -> Self {
        let protocol = self.handshake.protocol;
        let address = host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        Self {
            client: self.client.at(SocketAddr::new(address, port)),
            handshake: Handshake::new(protocol, host, TRANSFER).port(port),
            ..self
        }
    }
}
