//! Who waits: as the login says, or as the proxy in front does. Nothing is done with it but to greet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use swarmgate_core::config::Proxies;
use swarmgate_minecraft::address::Address;
use swarmgate_minecraft::knock::Knock;
use swarmgate_minecraft::limbo::Guest;
use swarmgate_minecraft::limbo::forwarding::{self, Forwarded, ForwardingError};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::opening::{self, NoOpening, Opening};

/// How long a proxy may take to say whom it forwards.
const PATIENCE: Duration = Duration::from_secs(5);
/// Room for a signed skin.
const LONGEST_ANSWER: usize = 64 * 1024;
/// By what number the proxy's answer is known.
const MESSAGE: i32 = 1;

#[derive(Debug, thiserror::Error)]
pub enum NoGuest {
    #[error("this client has no place in limbo")]
    NoLogin,
    #[error("the secret of Velocity's forwarding cannot be read from {path}")]
    NoSecret { path: PathBuf, source: std::io::Error },
    #[error("the proxy in front does not say who joins as it should")]
    Forwarding(#[from] ForwardingError),
    #[error("the proxy in front does not say who joins")]
    Silent(#[from] NoOpening),
}

/// Asks the proxy in front, if there is one to ask.
pub async fn meet(stream: &mut TcpStream, opening: &Opening, proxies: &Proxies) -> Result<Guest, NoGuest> {
    let Knock::Login { handshake, start, .. } = &opening.knock else { return Err(NoGuest::NoLogin) };
    let by_address = forwarding::of_address(&Address::cut(&handshake.address), None).ok();
    let secret = proxies.velocity_secret_file.as_deref();
    let forwarded = match (by_address, secret) {
        (None, Some(secret)) if proxies.include(opening.client.ip()) => Some(ask(stream, secret).await?),
        (by_address, _) => by_address,
    };
    let (protocol, name) = (handshake.protocol, start.name.clone());
    Ok(match forwarded {
        Some(Forwarded { uuid, name: told, properties, .. }) => {
            Guest { protocol, name: told.unwrap_or(name), uuid, properties }
        }
        None => Guest { protocol, name, uuid: start.uuid.unwrap_or_default(), properties: Vec::new() },
    })
}

async fn ask(stream: &mut TcpStream, secret: &Path) -> Result<Forwarded, NoGuest> {
    let secret = tokio::fs::read_to_string(secret)
        .await
        .map_err(|source| NoGuest::NoSecret { path: secret.to_owned(), source })?;
    stream.write_all(&forwarding::ask(MESSAGE)).await.map_err(NoOpening::from)?;
    let answer = opening::packet(stream, LONGEST_ANSWER, Instant::now() + PATIENCE).await?;
    Ok(forwarding::answer(&answer, MESSAGE, secret.trim().as_bytes())?)
}
