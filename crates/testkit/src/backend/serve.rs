//! One connection of the backend.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use socket2::Socket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::broadcast::error::RecvError;

use super::{Behaviour, Event, Login, Order, Record, Shared, Status};
use crate::legacy;
use crate::login::{LoginStart, LoginSuccess};
use crate::proxy;
use crate::wire::{Body, Framing, Handshake, LOGIN, Packet, STATUS, TRANSFER, malformed, take_packet};

pub(super) async fn connection(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    let mut orders = shared.orders.subscribe();
    // A second handle, to shut down or reset the socket while the conversation owns the first.
    let handle = Socket::from(stream.as_fd().try_clone_to_owned().expect("a descriptor"));
    _ = stream.set_nodelay(true);
    let record = Recorder::new(peer, shared.clone());
    let mut talk = Talk { stream, buffer: vec![], record, shared };
    let mut conversation = Box::pin(async move {
        let result = talk.run().await;
        talk.record.ended(result);
    });
    loop {
        tokio::select! {
            () = &mut conversation => return,
            order = orders.recv() => match order {
                Ok(Order::HalfClose) => _ = handle.shutdown(std::net::Shutdown::Write),
                Ok(Order::Reset) => {
                    _ = handle.set_linger(Some(Duration::ZERO));
                    return;
                }
                Ok(Order::Close) | Err(RecvError::Closed) => return,
                Err(RecvError::Lagged(_)) => {}
            },
        }
    }
}

struct Talk {
    stream: TcpStream,
    buffer: Vec<u8>,
    record: Recorder,
    shared: Arc<Shared>,
}

impl Talk {
    async fn run(&mut self) -> io::Result<()> {
        while self.buffer.is_empty() {
            if !self.fill().await? {
                return Ok(());
            }
        }
        self.read_proxy_header().await?;
        match self.buffer.first() {
            Some(0xfe) if self.behaviour().status == Status::Never => return self.ignore().await,
            Some(0xfe) => return self.legacy(self.legacy_status()).await,
            Some(0x02) => return self.legacy("Outdated client!".into()).await,
            Some(_) | None => {}
        }
        let Some(packet) = self.packet().await? else { return Ok(()) };
        let handshake = Handshake::parse(&packet)?;
        let (protocol, intent) = (handshake.protocol, handshake.intent);
        self.record.note(|record| record.handshake = Some(handshake));
        match intent {
            STATUS => self.status(protocol).await,
            LOGIN | TRANSFER => self.login(protocol).await,
            other => Err(malformed(format!("intent {other}"))),
        }
    }

    async fn read_proxy_header(&mut self) -> io::Result<()> {
        loop {
            match proxy::begins(&self.buffer) {
                Some(false) => return Ok(()),
                Some(true) => {
                    if let Some(header) = proxy::take(&mut self.buffer)? {
                        self.record.note(|record| record.proxy = Some(header));
                        while self.buffer.is_empty() && self.fill().await? {}
                        return Ok(());
                    }
                }
                None => {}
            }
            if !self.fill().await? {
                return Ok(());
            }
        }
    }

    /// Answers a client older than 1.7, which then closes.
    async fn legacy(&mut self, text: String) -> io::Result<()> {
        self.stream.write_all(&legacy::kick(&text)).await?;
        self.stream.shutdown().await?;
        self.ignore().await
    }

    fn legacy_status(&self) -> String {
        let Behaviour { motd, version, players, max_players, .. } = self.behaviour();
        // Decided by what has arrived, as the game does: `FE` alone is the oldest form.
        let version = (self.buffer.len() > 1).then_some((127, version.0));
        let online = players.unwrap_or_else(|| self.online());
        legacy::Status { version, motd, online, max: max_players }.text()
    }

    async fn status(&mut self, protocol: i32) -> io::Result<()> {
        while let Some(packet) = self.packet().await? {
            match packet.id {
                0 => {
                    self.record.note(|record| record.status_requests += 1);
                    if !self.answer_status(protocol).await? {
                        return Ok(());
                    }
                }
                1 if self.behaviour().status == Status::Never => {}
                1 => {
                    self.stream.write_all(&Body::new().raw(&packet.body).packet(1)).await?;
                    return self.stream.shutdown().await;
                }
                other => return Err(malformed(format!("packet {other} after a status handshake"))),
            }
        }
        Ok(())
    }

    /// Whether the conversation goes on.
    async fn answer_status(&mut self, protocol: i32) -> io::Result<bool> {
        let behaviour = self.behaviour();
        let json = match &behaviour.status {
            Status::Game => self.status_json(protocol),
            Status::Slow(span) => {
                tokio::time::sleep(*span).await;
                self.status_json(protocol)
            }
            Status::Json(text) => text.clone(),
            Status::Raw(bytes) => return self.stream.write_all(bytes).await.map(|()| true),
            Status::Never => return Ok(true),
            Status::Close => return Ok(false),
        };
        self.stream.write_all(&Body::new().string(&json).packet(0)).await.map(|()| true)
    }

    fn status_json(&self, protocol: i32) -> String {
        let Behaviour { motd, version, players, max_players, favicon, .. } = self.behaviour();
        let mut status = json!({
            "version": { "name": version.0, "protocol": version.1.unwrap_or(protocol) },
            "players": { "max": max_players, "online": players.unwrap_or_else(|| self.online()) },
            "description": { "text": motd },
        });
        if let Some(favicon) = favicon {
            status["favicon"] = favicon.into();
        }
        status.to_string()
    }

    async fn login(&mut self, protocol: i32) -> io::Result<()> {
        let Some(packet) = self.packet().await? else { return Ok(()) };
        let start = LoginStart::parse(&packet, protocol)?;
        let name = start.name.clone();
        let uuid = start.uuid.or(LoginStart::new(&name).uuid).unwrap_or_default();
        self.record.note(|record| record.login = Some(start));
        let success = LoginSuccess { name: name.clone(), uuid }.packet(protocol);
        match self.behaviour().login {
            Login::Echo => self.play(&name, &success, true).await,
            Login::Sink => self.play(&name, &success, false).await,
            Login::Raw(bytes) => self.play(&name, &bytes, false).await,
            Login::Kick(reason) => {
                self.stream.write_all(&Body::new().string(&reason).packet(0)).await?;
                self.stream.shutdown().await?;
                self.ignore().await
            }
            Login::Never => self.ignore().await,
            Login::Close => Ok(()),
        }
    }

    async fn play(&mut self, name: &str, answer: &[u8], echo: bool) -> io::Result<()> {
        // Counted before the answer: a player who reads it is in.
        self.record.joined(name);
        self.stream.write_all(answer).await?;
        loop {
            if echo && !self.buffer.is_empty() {
                // After a half-close by order nothing can be written; what arrives is still recorded.
                _ = self.stream.write_all(&self.buffer).await;
            }
            self.buffer.clear();
            if !self.fill().await? {
                return Ok(());
            }
        }
    }

    /// Reads and records until the client is done.
    async fn ignore(&mut self) -> io::Result<()> {
        while self.fill().await? {}
        Ok(())
    }

    async fn packet(&mut self) -> io::Result<Option<Packet>> {
        loop {
            if let Some(packet) = take_packet(&mut self.buffer, Framing::Plain)? {
                return Ok(Some(packet));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// Reads more; false when the client sends no more.
    async fn fill(&mut self) -> io::Result<bool> {
        let before = self.buffer.len();
        let more = self.stream.read_buf(&mut self.buffer).await? > 0;
        let read = &self.buffer[before..];
        self.record.note(|record| {
            record.bytes.extend_from_slice(read);
            record.half_closed |= !more;
        });
        Ok(more)
    }

    fn behaviour(&self) -> Behaviour {
        self.shared.behaviour.borrow().clone()
    }

    fn online(&self) -> u32 {
        self.shared.state.borrow().online
    }
}

/// Writes one connection's record, and its end however the conversation ends.
struct Recorder {
    shared: Arc<Shared>,
    index: Option<usize>,
    player: Option<String>,
}

impl Recorder {
    fn new(peer: SocketAddr, shared: Arc<Shared>) -> Self {
        let mut index = None;
        if shared.behaviour.borrow().record {
            shared.state.send_modify(|state| {
                index = Some(state.connections.len());
                state.connections.push(Record {
                    peer,
                    bytes: vec![],
                    proxy: None,
                    handshake: None,
                    status_requests: 0,
                    login: None,
                    half_closed: false,
                    open: true,
                    error: None,
                });
            });
        }
        Self { shared, index, player: None }
    }

    fn note(&self, change: impl FnOnce(&mut Record)) {
        if let Some(index) = self.index {
            self.shared.state.send_modify(|state| change(&mut state.connections[index]));
        }
    }

    fn joined(&mut self, name: &str) {
        self.player = Some(name.to_owned());
        self.shared.state.send_modify(|state| state.online += 1);
        self.tell(Event::Joined(name.to_owned()));
    }

    fn ended(&self, result: io::Result<()>) {
        if let Err(error) = result {
            self.note(|record| record.error = Some(error.to_string()));
        }
    }

    fn tell(&self, event: Event) {
        let events = self.shared.events.lock().expect("no panic while it is held");
        if let Some(events) = &*events {
            // Nobody listens any more: fine.
            _ = events.send(event);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(name) = self.player.take() {
            self.shared.state.send_modify(|state| state.online -= 1);
            self.tell(Event::Left(name));
        }
        self.note(|record| record.open = false);
    }
}
