//! Who joins: as the login says, or as the proxy in front does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use swarmgate_core::config::Proxies;
use swarmgate_minecraft::address::{Address, Tail};
use swarmgate_minecraft::knock::Knock;
use swarmgate_minecraft::limbo::Guest;
use swarmgate_minecraft::limbo::forwarding::{self, Forwarded, ForwardingError};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::opening::{NoOpening, Opening};

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
    #[error("the secret that the proxy in front shares with the gate cannot be read from {path}")]
    NoSecret { path: PathBuf, source: std::io::Error },
    #[error("the proxy in front does not say who joins as it should")]
    Forwarding(#[from] ForwardingError),
    #[error("the proxy in front does not say who joins")]
    Silent(#[from] NoOpening),
    #[error(
        "the proxy in front shares no secret with the gate (velocity_secret_file or bungeeguard_token_file of [proxies])"
    )]
    NotSigned,
}

/// Who joins, and whether a proxy says so that has proven to share a secret with the gate. What nobody has proven is
/// good for a greeting.
pub async fn meet(
    stream: &mut TcpStream,
    opening: &mut Opening,
    proxies: &Proxies,
) -> Result<(Guest, bool), NoGuest> {
    let Knock::Login { handshake, start, .. } = &opening.knock else { return Err(NoGuest::NoLogin) };
    let (protocol, name) = (handshake.protocol, start.name.clone());
    let claimed = start.uuid.unwrap_or_default();
    let address = Address::cut(&handshake.address);
    let behind_bungeecord = matches!(address.tail, Tail::Forwarded(_));
    let (forwarded, signed) = match (&proxies.bungeeguard_token_file, &proxies.velocity_secret_file) {
        (Some(token), _) if behind_bungeecord => {
            let token = secret(token).await?;
            (Some(forwarding::of_address(&address, Some(&token))?), true)
        }
        (None, _) if behind_bungeecord => (forwarding::of_address(&address, None).ok(), false),
        (_, Some(shared)) if proxies.include(opening.client.ip()) => {
            let shared = secret(shared).await?;
            (Some(ask(stream, opening, &shared).await?), true)
        }
        (_, Some(_) | None) => (None, false),
    };
    let guest = match forwarded {
        Some(Forwarded { uuid, name: told, properties, .. }) => {
            Guest { protocol, name: told.unwrap_or(name), uuid, properties }
        }
        None => Guest { protocol, name, uuid: claimed, properties: Vec::new() },
    };
    Ok((guest, signed))
}

async fn ask(stream: &mut TcpStream, opening: &mut Opening, secret: &str) -> Result<Forwarded, NoGuest> {
    stream.write_all(&forwarding::ask(MESSAGE)).await.map_err(NoOpening::from)?;
    let answer = opening.answer(stream, LONGEST_ANSWER, Instant::now() + PATIENCE).await?;
    Ok(forwarding::answer(&answer, MESSAGE, secret.as_bytes())?)
}

async fn secret(file: &Path) -> Result<String, NoGuest> {
    match tokio::fs::read_to_string(file).await {
        // Everybody has an empty one.
        Ok(secret) if secret.trim().is_empty() => Err(NoGuest::NoSecret {
            path: file.to_owned(),
            source: std::io::Error::other("the file is empty"),
        }),
        Ok(secret) => Ok(secret.trim().to_owned()),
        Err(source) => Err(NoGuest::NoSecret { path: file.to_owned(), source }),
    }
}
