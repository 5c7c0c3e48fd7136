//! Tells programs that know mc-router of players who come and go.

use std::net::SocketAddr;

use swarmgate_core::knock::Player;
use uuid::Uuid;

use crate::notify::Notifier;
use crate::notify::webhook;

/// A player on one connection. Nobody is told of pings.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    notifier: Notifier,
    client: SocketAddr,
    /// The hostname as it was asked for.
    server: String,
    name: String,
    uuid: Option<Uuid>,
}

/// A player in a server. Its end is told when this is dropped.
#[derive(Debug)]
pub(super) struct Stay {
    visitor: Visitor,
    backend: String,
}

impl Visitor {
    pub(super) fn new(notifier: &Notifier, client: SocketAddr, server: &str, player: &Player) -> Self {
        let (server, name, uuid) = (server.to_owned(), player.name.clone(), player.uuid);
        Self { notifier: notifier.clone(), client, server, name, uuid }
    }

    /// Boxed: what is relayed is to cost little memory.
    pub(super) fn connected(self, backend: String) -> Box<Stay> {
        self.notifier.tell(&self.player(Some(&backend)).connected());
        Box::new(Stay { visitor: self, backend })
    }

    pub(super) fn missing_backend(&self) {
        self.notifier.tell(&self.player(None).missing_backend());
    }

    pub(super) fn failed(&self, backend: &str, error: &str) {
        self.notifier.tell(&self.player(Some(backend)).failed(error));
    }

    fn player<'a>(&'a self, backend: Option<&'a str>) -> webhook::Player<'a> {
        let Self { client, uuid, .. } = *self;
        webhook::Player { client, server: &self.server, name: &self.name, uuid, backend }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let player = self.visitor.player(Some(&self.backend));
        self.visitor.notifier.tell(&player.disconnected());
    }
}
