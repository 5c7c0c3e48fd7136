//! Lets a player prove its account, as a server in online mode does: the connection is encrypted, the client reports
//! it to the session server, and the session server is asked whether it has.

use std::sync::Arc;
use std::time::Duration;

use getrandom::SysRng;
use swarmgate_core::knock::Unproven;
use swarmgate_minecraft::knock::Knock;
use swarmgate_minecraft::limbo::encryption::{Challenge, Cipher, EncryptionError, Key};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::Instant;

use super::guest::NoGuest;
use super::opening::{NoOpening, Opening};
use super::sessions::NoAccount;

/// How long a client may take: it reports to the session server before it answers.
const PATIENCE: Duration = Duration::from_secs(15);
/// Room for a secret and a signature with a long key.
const LONGEST_ANSWER: usize = 2048;

/// The gate's key, made when it is first needed.
#[derive(Debug, Default)]
pub struct Keyring {
    key: OnceCell<Arc<Key>>,
}

/// An encrypted connection.
#[derive(Debug)]
pub struct Sealed {
    pub cipher: Box<Cipher>,
    /// By which the session server knows it.
    pub hash: String,
}

/// Why a player has not proven its account.
#[derive(Debug, thiserror::Error)]
pub enum NoProof {
    #[error("its client is from before 1.7")]
    Old,
    #[error("as many players wait as may")]
    Full,
    #[error(transparent)]
    NoAnswer(#[from] NoOpening),
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    #[error("the encryption has failed")]
    Panic(#[from] JoinError),
    #[error(transparent)]
    Account(#[from] NoAccount),
    #[error(transparent)]
    Proxy(#[from] NoGuest),
}

impl NoProof {
    /// What the player is told; `None` if it has left.
    pub const fn why(&self) -> Option<Unproven> {
        Some(match self {
            Self::Old => Unproven::Client,
            Self::Full | Self::Account(NoAccount::Busy | NoAccount::Paused) => Unproven::Busy,
            Self::NoAnswer(NoOpening::Nothing | NoOpening::Closed | NoOpening::Io(_)) => return None,
            Self::NoAnswer(_) | Self::Encryption(_) => Unproven::Encryption,
            Self::Account(NoAccount::Unknown) => Unproven::Account,
            Self::Account(
                NoAccount::Http(_)
                | NoAccount::Status(_)
                | NoAccount::Long
                | NoAccount::Unreadable(_)
                | NoAccount::SomebodyElse,
            )
            | Self::Panic(_) => Unproven::NoAnswer,
            Self::Proxy(_) => Unproven::Proxy,
        })
    }

    /// Whether the client still understands what is not encrypted.
    pub const fn can_be_told(&self) -> bool {
        match self {
            Self::NoAnswer(NoOpening::Silent)
            | Self::Old
            | Self::Full
            | Self::Account(_)
            | Self::Proxy(_) => true,
            Self::NoAnswer(_) | Self::Encryption(_) | Self::Panic(_) => false,
        }
    }

    /// Whether the owner should know: it is not the player's doing.
    pub const fn is_ours(&self) -> bool {
        match self.why() {
            Some(Unproven::NoAnswer | Unproven::Busy | Unproven::Proxy) => true,
            Some(Unproven::Account | Unproven::Encryption | Unproven::Client) | None => false,
        }
    }
}

impl Keyring {
    /// Encrypts the connection. What the client sends behind its answer is left in the opening, as it came.
    pub async fn seal(&self, stream: &mut TcpStream, opening: &mut Opening) -> Result<Sealed, NoProof> {
        let Knock::Login { handshake, start, .. } = &opening.knock else { return Err(NoProof::Old) };
        let (protocol, signer) = (handshake.protocol, start.key.clone());
        let key = Arc::clone(self.key.get_or_try_init(make).await?);
        let mut random = [0; 12];
        getrandom::fill(&mut random).map_err(|_| EncryptionError::NoKey)?;
        let challenge = Challenge::new(random);
        stream.write_all(&key.request(protocol, &challenge)).await.map_err(NoOpening::from)?;
        let answer = opening.answer(stream, LONGEST_ANSWER, Instant::now() + PATIENCE).await?;
        // A millisecond of arithmetic, which should be nobody else's.
        let sealed = spawn_blocking(move || {
            let secret = key.open(&answer, protocol, &challenge, signer.as_deref(), &mut SysRng)?;
            Ok::<_, EncryptionError>(Sealed {
                cipher: Box::new(secret.cipher()),
                hash: key.hash(&challenge, &secret),
            })
        });
        Ok(sealed.await??)
    }
}

async fn make() -> Result<Arc<Key>, NoProof> {
    Ok(Arc::new(spawn_blocking(|| Key::generate(&mut SysRng)).await??))
}
