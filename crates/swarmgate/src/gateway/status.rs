//! Answers the server list for services that cannot answer themselves, at once and without waking anything.

use std::io;

use swarmgate_core::knock::{Face, Refusal};
use swarmgate_core::moment::Moment;
use swarmgate_core::motd;
use swarmgate_minecraft::knock::Knock;
use swarmgate_minecraft::legacy;
use swarmgate_minecraft::status::{Responder, StatusAnswer, StatusSummary};
use swarmgate_minecraft::text::Component;
use swarmgate_minecraft::version::Protocol;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::opening::Opening;

/// What a service that is not running looks like.
pub async fn answer(stream: TcpStream, opening: &Opening, face: &Face, now: Moment, deadline: Instant) {
    send(stream, opening, Some(face), motd::in_list(face, now), deadline).await;
}

/// What a service looks like that should be running and cannot be reached.
pub async fn unreachable(stream: TcpStream, opening: &Opening, face: &Face, now: Moment, deadline: Instant) {
    send(stream, opening, Some(face), motd::unreachable(face, now), deadline).await;
}

pub async fn refused(
    stream: TcpStream,
    opening: &Opening,
    refusal: &Refusal,
    now: Moment,
    deadline: Instant,
) {
    send(stream, opening, refusal.face(), motd::refused(refusal, now), deadline).await;
}

async fn send(
    mut stream: TcpStream,
    opening: &Opening,
    face: Option<&Face>,
    text: Component,
    deadline: Instant,
) {
    let said = async {
        match &opening.knock {
            Knock::LegacyPing(ping) => stream.write_all(&to_legacy(face, &text).encode(ping.form)).await,
            Knock::Status { handshake, consumed } => {
                let json = to_json(face, &text, handshake.protocol);
                let pipelined = opening.raw.get(*consumed..).unwrap_or_default();
                converse(&mut stream, Responder::new(&json), pipelined).await
            }
            Knock::Login { .. } | Knock::LegacyLogin(_) => Ok(()),
        }?;
        stream.shutdown().await
    };
    // A client that does not take its answer in time has lost it.
    let _ = timeout_at(deadline, said).await;
}

async fn converse(stream: &mut TcpStream, mut responder: Responder, pipelined: &[u8]) -> io::Result<()> {
    let mut reply = responder.feed(pipelined).map_err(io::Error::other)?;
    let mut chunk = [0; 64];
    loop {
        if !reply.bytes.is_empty() {
            stream.write_all(&reply.bytes).await?;
        }
        if reply.done {
            return Ok(());
        }
        stream.readable().await?;
        match stream.try_read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                reply = responder.feed(chunk.get(..read).unwrap_or_default()).map_err(io::Error::other)?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => reply.bytes.clear(),
            Err(error) => return Err(error),
        }
    }
}

/// The client's own protocol is echoed, so that the entry stays joinable.
fn to_json(face: Option<&Face>, text: &Component, protocol: i32) -> String {
    let learned = face.and_then(|face| face.learned.status.as_ref());
    let known = learned.map(StatusSummary::of).unwrap_or_default();
    let text =
        if (0..Protocol::HEX_COLOURS.0).contains(&protocol) { text.without_rgb() } else { text.clone() };
    let mut answer = StatusAnswer {
        version_name: known.version_name.unwrap_or_else(|| Protocol(protocol).to_string()),
        // A pinger that says "any" still wants to see a number.
        protocol: if protocol >= 0 { protocol } else { known.protocol.unwrap_or(0) },
        online: 0,
        max: known.max.unwrap_or(0),
        sample: Vec::new(),
        description: text.to_json(),
        favicon: known.favicon,
        other: serde_json::Map::new(),
    };
    if let Some(learned) = learned {
        answer.carry_over(learned);
    }
    answer.to_json()
}

fn to_legacy(face: Option<&Face>, text: &Component) -> legacy::Answer {
    let learned = face.and_then(|face| face.learned.status.as_ref());
    let known = learned.map(StatusSummary::of).unwrap_or_default();
    legacy::Answer {
        protocol: 127,
        version: known.version_name.unwrap_or_else(|| "Swarmgate".to_owned()),
        motd: text.to_legacy(),
        online: 0,
        max: known.max.unwrap_or(0),
    }
}
