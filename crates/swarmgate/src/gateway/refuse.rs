//! Says why not, in words, and closes so that the words arrive.

use std::io;
use std::time::Duration;

use swarmgate_core::motd;
use swarmgate_minecraft::knock::Knock;
use swarmgate_minecraft::limbo::encryption::Cipher;
use swarmgate_minecraft::text::Component;
use swarmgate_minecraft::version::Protocol;
use swarmgate_minecraft::{Malformed, legacy, login};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::opening::Opening;

/// How long a player's client may take to read the sentence and to close.
const PATIENCE: Duration = Duration::from_secs(3);

/// How a client of this age is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// 1.16 and later.
    Modern,
    /// 1.7 to 1.15: sixteen colours.
    SixteenColours,
    /// Before 1.7.
    Legacy,
}

impl Client {
    pub const fn of(opening: &Opening) -> Self {
        match &opening.knock {
            Knock::LegacyLogin(_) | Knock::LegacyPing(_) => Self::Legacy,
            Knock::Login { handshake, .. } | Knock::Status { handshake, .. } => {
                Self::of_protocol(handshake.protocol)
            }
        }
    }

    const fn of_protocol(protocol: i32) -> Self {
        if protocol < Protocol::HEX_COLOURS.0 { Self::SixteenColours } else { Self::Modern }
    }
}

/// For a client of this protocol whose login is not what the game sends.
pub async fn unreadable(stream: TcpStream, protocol: i32, why: Malformed) {
    say(stream, Client::of_protocol(protocol), None, &motd::unreadable(why)).await;
}

/// With the cipher of a connection that is encrypted.
pub async fn say(mut stream: TcpStream, client: Client, cipher: Option<Box<Cipher>>, reason: &Component) {
    let mut bytes = match client {
        Client::Modern => login::disconnect(&reason.to_json()),
        Client::SixteenColours => login::disconnect(&reason.without_rgb().to_json()),
        Client::Legacy => legacy::kick(&reason.to_legacy()),
    };
    if let Some(mut cipher) = cipher {
        cipher.seal(&mut bytes);
    }
    let said = async {
        stream.write_all(&bytes).await?;
        stream.shutdown().await?;
        drain(&stream).await
    };
    let _ = timeout(PATIENCE, said).await;
}

/// Closing with unread bytes would send a reset, which may overtake the sentence.
pub async fn drain(stream: &TcpStream) -> io::Result<()> {
    const MOST: usize = 64 * 1024;
    let mut drained = 0;
    while drained < MOST {
        stream.readable().await?;
        let mut chunk = [0; 1024];
        match stream.try_read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => drained += read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
