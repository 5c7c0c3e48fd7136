//! The client's side of the configuration phase (1.20.2, protocol 764, and later).
//!
//! Source: minecraft.wiki, "Java Edition protocol" and its history; PrismarineJS minecraft-data for the ids.

use std::io;

use tokio::time::Instant;

use crate::client::{Connection, Outcome};
use crate::text;
use crate::wire::{Body, malformed};

const LOGIN_ACKNOWLEDGED: i32 = 3;
const SETTINGS: i32 = 0;
const COOKIE: i32 = 1;

pub(crate) async fn run(
    connection: &mut Connection,
    protocol: i32,
    deadline: Instant,
) -> io::Result<Outcome> {
    assert!(protocol >= 764, "protocol {protocol} has no configuration phase");
    let ids = Ids::of(protocol);
    connection.send_packet(LOGIN_ACKNOWLEDGED, Body::new()).await?;
    let brand = Body::new().string("minecraft:brand").string("vanilla");
    connection.send_packet(ids.send.payload, brand).await?;
    connection.send_packet(SETTINGS, settings(protocol)).await?;
    loop {
        let packet = match connection.next(deadline).await? {
            Ok(packet) => packet,
            Err(end) => return Ok(end),
        };
        let mut fields = packet.fields();
        let id = Some(packet.id);
        if id == Some(ids.disconnect) {
            let reason =
                if protocol >= 765 { text::words(&text::read_nbt(&mut fields)?) } else { fields.string()? };
            return fields.finish().map(|()| Outcome::Kicked(reason));
        } else if id == ids.transfer {
            let host = fields.string()?;
            let port = u16::try_from(fields.varint()?).map_err(malformed)?;
            return fields.finish().map(|()| Outcome::Transferred { host, port });
        } else if id == Some(ids.finish) {
            connection.send_packet(ids.send.finish, Body::new()).await?;
            return Ok(Outcome::Configured);
        } else if id == Some(ids.keep_alive) {
            connection.send_packet(ids.send.keep_alive, Body::new().i64(fields.i64()?)).await?;
        } else if id == Some(ids.ping) {
            connection.send_packet(ids.send.pong, Body::new().i32(fields.i32()?)).await?;
        } else if id == ids.known_packs {
            // All of them: a vanilla client of the right version has the packs it is asked for.
            connection.send_packet(ids.send.known_packs, Body::new().raw(fields.rest())).await?;
        } else if id == ids.cookie {
            connection.send_packet(COOKIE, Body::new().string(&fields.string()?).bool(false)).await?;
        }
    }
}

/// Packet ids from the server; the others need no answer.
struct Ids {
    disconnect: i32,
    finish: i32,
    keep_alive: i32,
    ping: i32,
    cookie: Option<i32>,
    transfer: Option<i32>,
    known_packs: Option<i32>,
    send: Send,
}

/// Packet ids to the server.
struct Send {
    payload: i32,
    finish: i32,
    keep_alive: i32,
    pong: i32,
    known_packs: i32,
}

impl Ids {
    fn of(protocol: i32) -> Self {
        if protocol < 766 {
            return Self {
                disconnect: 1,
                finish: 2,
                keep_alive: 3,
                ping: 4,
                cookie: None,
                transfer: None,
                known_packs: None,
                // There are no known packs here; the id is never used.
                send: Send { payload: 1, finish: 2, keep_alive: 3, pong: 4, known_packs: -1 },
            };
        }
        let later = if protocol >= 777 { 1 } else { 0 };
        Self {
            disconnect: 2,
            finish: 3,
            keep_alive: 4,
            ping: 5,
            cookie: Some(0),
            transfer: Some(0x0b + later),
            known_packs: Some(0x0e + later),
            send: Send { payload: 2, finish: 3, keep_alive: 4, pong: 5, known_packs: 7 },
        }
    }
}

/// Client Information with the game's defaults.
fn settings(protocol: i32) -> Body {
    let body =
        Body::new().string("en_us").u8(10).varint(0).bool(true).u8(0x7f).varint(1).bool(false).bool(true);
    // The particle setting came with 1.21.2.
    if protocol >= 768 { body.varint(0) } else { body }
}
