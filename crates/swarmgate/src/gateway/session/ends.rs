//! How a connection ends that leads nowhere: in words, where there is somebody to read them.

use swarmgate_core::config::UnknownHost;
use swarmgate_core::knock::{Face, Knock, Purpose, Refusal};
use swarmgate_core::moment::Moment;
use swarmgate_core::motd;
use swarmgate_core::name::HostName;
use swarmgate_core::service::ServiceId;
use swarmgate_minecraft::address::Address;
use swarmgate_minecraft::text::Component;

use super::{Joined, Visit};
use crate::gateway::door::Deed;
use crate::gateway::refuse::Client;
use crate::gateway::{refuse, status};

impl Visit {
    pub(super) async fn refuse(self: Box<Self>, refusal: Refusal, knock: &Knock) -> Option<Joined> {
        self.gateway.metrics.refused(refusal.kind());
        if refusal == Refusal::UnknownHost {
            self.miss(knock);
            if let Some(visitor) = self.visitor() {
                visitor.missing_backend();
            }
            if self.gateway.config.borrow().unknown_host == UnknownHost::Close {
                return None;
            }
        }
        let now = self.gateway.fleet.now();
        match (&knock.purpose, &refusal) {
            // Whoever is denied learns nothing, not even that there is a server.
            (Purpose::Status, Refusal::Denied(_)) => {}
            (Purpose::Status, _) => {
                status::refused(self.stream, &self.opening, &refusal, now, self.deadline).await
            }
            (Purpose::Login(..), _) => return self.say(&motd::refused(&refusal, now)).await,
        }
        None
    }

    pub(super) async fn too_often(self: Box<Self>, deed: Deed) -> Option<Joined> {
        match deed {
            Deed::Status => self.gateway.metrics.refused("status_rate"),
            Deed::Login => {
                self.gateway.metrics.refused("login_rate");
                return self.say(&Component::literal(motd::TOO_OFTEN)).await;
            }
        }
        None
    }

    /// The last words to a player.
    pub(super) async fn say(self: Box<Self>, words: &Component) -> Option<Joined> {
        let client = Client::of(&self.opening);
        refuse::say(self.stream, client, self.cipher, words).await;
        None
    }

    /// The same about a service as it is now.
    pub(super) async fn say_of(
        self: Box<Self>,
        service: &ServiceId,
        words: fn(&Face, Moment) -> Component,
    ) -> Option<Joined> {
        let now = self.gateway.fleet.now();
        let words = match self.gateway.fleet.look(|core, _| core.face(service)) {
            Some(face) => words(&face, now),
            None => motd::refused(&Refusal::UnknownHost, now),
        };
        self.say(&words).await
    }

    /// Nothing is more helpful to an owner than what arrived, what it means, and what it might have meant.
    fn miss(&self, knock: &Knock) {
        let Some(more) = self.gateway.quiet.allow_about("unknown_host", knock.source) else { return };
        // Without what proxies put behind the host: tokens may be among it.
        let received: String = Address::cut(self.address()).host.chars().take(100).collect();
        let host = knock.host.as_ref().map_or("", HostName::as_str);
        let nearest = self.gateway.fleet.look(|core, _| core.routes().nearest(host));
        tracing::info!(?received, host, ?nearest, more, "no service has this hostname");
    }
}
