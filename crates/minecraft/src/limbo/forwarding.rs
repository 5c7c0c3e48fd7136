//! Who a player is, as a proxy in front tells: in the handshake's address (BungeeCord, BungeeGuard), or as an
//! answer during the login (Velocity's modern forwarding, docs.papermc.io, Velocity, Player information forwarding).

use std::net::IpAddr;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use uuid::Uuid;

use super::Property;
use crate::field::{Reader, write_text};
use crate::{Malformed, address, frame, varint};

/// A forwarded player.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded {
    /// Where the player connects from.
    pub address: IpAddr,
    pub uuid: Uuid,
    /// Modern forwarding repeats it; otherwise it is the login start's.
    pub name: Option<String>,
    pub properties: Vec<Property>,
}

/// Why what a proxy says is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ForwardingError {
    #[error("nobody in front of this player forwards anything: is Velocity's forwarding mode 'modern'?")]
    NotForwarded,
    #[error("the forwarded player is not signed with this secret: do both sides have the same?")]
    WrongSecret,
    #[error("no BungeeGuard token came with the forwarded player, or a wrong one")]
    WrongToken,
    #[error("the answer is to another question")]
    OtherMessage,
    #[error("the forwarded player cannot be read: {0}")]
    Malformed(#[from] Malformed),
}

/// The frame that asks a Velocity proxy for the player. Ask before the login's success; `message` comes back with
/// the answer. A client without a proxy answers, too: that it does not understand.
pub fn ask(message: i32) -> Vec<u8> {
    let mut body = vec![PLUGIN_REQUEST];
    varint::write(message, &mut body);
    write_text("velocity:player_info", &mut body);
    body.push(VERSION);
    frame::encode(&body)
}

/// Reads the body of the answer and checks its signature.
pub fn answer(body: &[u8], message: i32, secret: &[u8]) -> Result<Forwarded, ForwardingError> {
    let mut fields = Reader::new(body);
    match fields.varint()? {
        PLUGIN_ANSWER => {}
        other => return Err(Malformed::BadPacketId(other).into()),
    }
    if fields.varint()? != message {
        return Err(ForwardingError::OtherMessage);
    }
    if !fields.bool()? {
        return Err(ForwardingError::NotForwarded);
    }
    let signature = fields.array::<32>()?;
    let signed = Hmac::<Sha256>::new_from_slice(secret)
        .is_ok_and(|mac| mac.chain_update(fields.rest()).verify_slice(&signature).is_ok());
    if !signed {
        return Err(ForwardingError::WrongSecret);
    }

    // Only the first version is asked for; later ones add to its end.
    fields.varint()?;
    let address = fields.text(LONGEST)?.parse().map_err(|_| Malformed::BadAddress)?;
    let uuid = fields.uuid()?;
    let name = Some(fields.text(LONGEST)?.to_owned());
    let mut properties = Vec::new();
    for _ in 0..fields.varint()? {
        properties.push(Property {
            name: fields.text(LONGEST)?.to_owned(),
            value: fields.text(LONGEST)?.to_owned(),
            signature: if fields.bool()? { Some(fields.text(LONGEST)?.to_owned()) } else { None },
        });
    }
    Ok(Forwarded { address, uuid, name, properties })
}

/// Reads BungeeCord's forwarding from what follows the host in a handshake's address. With `token`, a BungeeGuard
/// token must be among the properties and be this one; it is not among those given back.
pub fn of_address(address: &address::Address<'_>, token: Option<&str>) -> Result<Forwarded, ForwardingError> {
    let address::Tail::Forwarded(address::Forwarded { client, uuid, .. }) = address.tail else {
        return Err(ForwardingError::NotForwarded);
    };
    let properties = address.rest.splitn(4, '\0').nth(3).unwrap_or("[]");
    let properties: Value = serde_json::from_str(properties).map_err(|_| Malformed::BadJson)?;
    let properties = properties.as_array().into_iter().flatten().filter_map(property);
    let (tokens, properties): (Vec<_>, Vec<_>) = properties.partition(|property| property.name == TOKEN);
    if let Some(token) = token
        && !tokens.iter().any(|found| bool::from(found.value.as_bytes().ct_eq(token.as_bytes())))
    {
        return Err(ForwardingError::WrongToken);
    }
    Ok(Forwarded { address: client, uuid, name: None, properties })
}

fn property(json: &Value) -> Option<Property> {
    let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Property {
        name: text("name")?,
        value: text("value")?,
        signature: text("signature").filter(|signature| !signature.is_empty()),
    })
}

const TOKEN: &str = "bungeeguard-token";
const PLUGIN_REQUEST: u8 = 4;
const PLUGIN_ANSWER: i32 = 2;
/// The first version of modern forwarding: all that is needed is in it.
const VERSION: u8 = 1;
/// The game's own bound on a text.
const LONGEST: usize = 32_767;
