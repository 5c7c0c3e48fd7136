//! Answers the server list for services that cannot answer themselves, at once and without waking anything.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use swarmgate_core::knock::{Face, Refusal};
use swarmgate_core::moment::Moment;
use swarmgate_core::motd;
use swarmgate_core::service::ServiceId;
use swarmgate_minecraft::knock::Knock;
use swarmgate_minecraft::legacy;
use swarmgate_minecraft::status::{Responder, StatusAnswer, StatusSummary, respond};
use swarmgate_minecraft::text::Component;
use swarmgate_minecraft::version::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::opening::Opening;

/// The answers that were given last, each for as long as it stays true: lists are refreshed far more often than what
/// they show changes.
#[derive(Debug, Default)]
pub struct Answers(Mutex<HashMap<(ServiceId, i32), Given>>);

#[derive(Debug)]
struct Given {
    face: Face,
    /// Countdowns move once a second.
    second: u64,
    response: Arc<[u8]>,
}

impl Answers {
    /// Strangers choose the protocol.
    const MOST: usize = 256;

    /// Shows a service that is not running.
    pub async fn answer(
        &self,
        stream: TcpStream,
        opening: &Opening,
        face: &Face,
        now: Moment,
        deadline: Instant,
    ) {
        match &opening.knock {
            Knock::Status { handshake, .. } => {
                let response = self.response(face, handshake.protocol, now);
                speak(stream, opening, response, deadline).await;
            }
            Knock::LegacyPing(_) | Knock::Login { .. } | Knock::LegacyLogin(_) => {
                send(stream, opening, Some(face), motd::in_list(face, now), deadline).await;
            }
        }
    }

    fn response(&self, face: &Face, protocol: i32, now: Moment) -> Arc<[u8]> {
        let second = now.since_start().as_secs();
        let key = (face.service.clone(), protocol);
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(given) = given.get(&key).filter(|given| given.second == second && given.face == *face) {
            return Arc::clone(&given.response);
        }
        let json = to_json(Some(face), &motd::in_list(face, now), protocol);
        let response = Arc::<[u8]>::from(respond(&json));
        if given.len() >= Self::MOST {
            given.clear();
        }
        given.insert(key, Given { face: face.clone(), second, response: Arc::clone(&response) });
        response
    }
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
    match &opening.knock {
        Knock::LegacyPing(ping) => {
            let answer = to_legacy(face, &text).encode(ping.form);
            // A client that does not take its answer in time has lost it.
            let _ = timeout_at(deadline, stream.write_all(&answer)).await;
        }
        Knock::Status { handshake, .. } => {
            let response = respond(&to_json(face, &text, handshake.protocol));
            speak(stream, opening, response.into(), deadline).await;
        }
        Knock::Login { .. } | Knock::LegacyLogin(_) => {}
    }
}

async fn speak(mut stream: TcpStream, opening: &Opening, response: Arc<[u8]>, deadline: Instant) {
    let pipelined = match &opening.knock {
        Knock::Status { consumed, .. } => opening.raw.get(*consumed..).unwrap_or_default(),
        Knock::LegacyPing(_) | Knock::Login { .. } | Knock::LegacyLogin(_) => &[],
    };
    let said = converse(&mut stream, Responder::new(response), pipelined);
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
        match stream.read(&mut chunk).await? {
            0 => return Ok(()),
            read => {
                reply = responder.feed(chunk.get(..read).unwrap_or_default()).map_err(io::Error::other)?
            }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use swarmgate_core::config;
    use swarmgate_core::learned::Learned;
    use swarmgate_core::service::State;

    use super::*;

    fn face(state: State) -> Face {
        let text = "[server.mc]\nhosts = \"mc.example\"\naddress = \"127.0.0.1:1\"";
        let server = config::parse(text, &[]).unwrap().config.servers.remove(0);
        Face {
            service: ServiceId::new("file", "mc"),
            spec: server.spec,
            state,
            started: None,
            learned: Arc::new(Learned::default()),
            wakes: true,
        }
    }

    #[test]
    fn an_answer_is_given_again_for_as_long_as_it_is_true() {
        let answers = Answers::default();
        let at = |ms| Moment::after_start(Duration::from_millis(ms));
        let asleep = face(State::Asleep);
        let first = answers.response(&asleep, 766, at(5_000));
        assert!(Arc::ptr_eq(&first, &answers.response(&asleep, 766, at(5_999))));
        for (what, face, protocol, now) in [
            ("a countdown moves", &asleep, 766, at(6_000)),
            ("the protocol is echoed", &asleep, 767, at(5_000)),
            ("another state", &face(State::Stopping), 766, at(5_000)),
        ] {
            let given = answers.response(face, protocol, now);
            let fresh = Answers::default().response(face, protocol, now);
            assert!(!Arc::ptr_eq(&first, &given), "{what}");
            assert_eq!(given, fresh, "{what}");
        }
    }

    #[test]
    fn strangers_do_not_fill_the_memory() {
        let answers = Answers::default();
        for protocol in 0..1000 {
            answers.response(&face(State::Asleep), protocol, Moment::START);
            assert!(answers.0.lock().unwrap().len() <= Answers::MOST);
        }
    }
}
