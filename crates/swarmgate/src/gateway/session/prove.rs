//! A player who is asked to prove its account.

use std::sync::Arc;

use swarmgate_core::knock::{Face, Knock, Player, Refusal};
use swarmgate_minecraft::knock::Knock as Wire;
use swarmgate_minecraft::limbo::Guest;

use super::Visit;
use crate::errors::chain;
use crate::gateway::door::Room;
use crate::gateway::guest::{self, NoGuest};
use crate::gateway::proof::{NoProof, Sealed};
use crate::gateway::sessions::Account;

impl Visit {
    /// Whose account it is, or what the player is refused with; `None` if there is nobody to be told of that.
    pub(super) async fn prove(&mut self, face: Face, knock: &Knock) -> Option<Result<Player, Refusal>> {
        match self.account(knock).await {
            Ok(account) => Some(Ok(account)),
            Err(error) => self.unproven(face, &error).map(Err),
        }
    }

    /// Who the player is: as the session server says, or a proxy in front that the owner trusts.
    async fn account(&mut self, knock: &Knock) -> Result<Player, NoProof> {
        let gateway = Arc::clone(&self.gateway);
        let config = Arc::clone(&gateway.config.borrow());
        let _place =
            gateway.door.enter(Room::Held, self.opening.client.ip(), true).map_err(|_| NoProof::Full)?;
        let Wire::Login { handshake, start, .. } = &self.opening.knock else { return Err(NoProof::Old) };
        let (protocol, claimed) = (handshake.protocol, start.name.clone());
        let guest = if knock.client().is_some_and(|client| client.proxied) {
            match guest::meet(&mut self.stream, &mut self.opening, &config.proxies).await? {
                (guest, true) => guest,
                (_, false) => return Err(NoGuest::NotSigned.into()),
            }
        } else {
            let Sealed { cipher, hash } = gateway.keyring.seal(&mut self.stream, &mut self.opening).await?;
            self.cipher = Some(cipher);
            let account = gateway.sessions.has_joined(&config.session_server, &claimed, &hash).await?;
            let Account { name, uuid, properties } = account;
            Guest { protocol, name, uuid, properties }
        };
        gateway.metrics.proven();
        tracing::debug!(client = %self.opening.client, player = guest.name, uuid = %guest.uuid, "has proven its account");
        let account = Player { name: guest.name.clone(), uuid: Some(guest.uuid) };
        self.guest = Some(guest);
        Ok(account)
    }

    fn unproven(&self, face: Face, error: &NoProof) -> Option<Refusal> {
        let Some(why) = error.why() else {
            self.gateway.metrics.opening_failed("left_unproven");
            return None;
        };
        let refusal = Refusal::Unproven(face, why);
        tracing::debug!(client = %self.opening.client, kind = refusal.kind(), error = %chain(error), "an account is not proven");
        if error.is_ours()
            && let Some(more) = self.gateway.quiet.allow(refusal.kind())
        {
            tracing::warn!(error = %chain(error), more, "an account cannot be checked");
        }
        if !error.can_be_told() {
            self.gateway.metrics.refused(refusal.kind());
            return None;
        }
        Some(refusal)
    }
}
