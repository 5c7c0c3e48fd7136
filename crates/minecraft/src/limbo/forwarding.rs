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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    const UUID: Uuid = Uuid::from_u128(0x069a_79f4_44e9_4726_a5be_fca9_0e38_aaf5);

    fn skin(signature: Option<&str>) -> Property {
        Property {
            name: "textures".to_owned(),
            value: "abc".to_owned(),
            signature: signature.map(str::to_owned),
        }
    }

    /// As Velocity answers.
    fn answered(secret: &[u8], data: &[u8]) -> Vec<u8> {
        let mac = Hmac::<Sha256>::new_from_slice(secret).unwrap().chain_update(data);
        [&[2, 7, 1][..], &mac.finalize().into_bytes(), data].concat()
    }

    fn player() -> Vec<u8> {
        let skin = b"\x02\x08textures\x03abc\x01\x03sig\x08textures\x03abc\0";
        [b"\x01\x0b203.0.113.9", &UUID.as_bytes()[..], b"\x03Ann", skin].concat()
    }

    #[test]
    fn modern() {
        assert_eq!(ask(7), b"\x18\x04\x07\x14velocity:player_info\x01");
        let forwarded = Forwarded {
            address: IpAddr::from([203, 0, 113, 9]),
            uuid: UUID,
            name: Some("Ann".to_owned()),
            properties: vec![skin(Some("sig")), skin(None)],
        };
        // Later versions of it have more behind that.
        let later = [&player()[..], b"more"].concat();
        let cut = &player()[..20];
        let elsewhere = [b"\x01\x09elsewhere", &player()[13..]].concat();
        for (body, message, expected) in [
            (answered(b"secret", &player()), 7, Ok(forwarded.clone())),
            (answered(b"secret", &later), 7, Ok(forwarded)),
            (answered(b"Secret", &player()), 7, Err(ForwardingError::WrongSecret)),
            (answered(b"secret", &player()), 8, Err(ForwardingError::OtherMessage)),
            (b"\x02\x07\0".to_vec(), 7, Err(ForwardingError::NotForwarded)),
            (b"\x02\x07\x01short".to_vec(), 7, Err(Malformed::Truncated.into())),
            (answered(b"secret", cut), 7, Err(Malformed::Truncated.into())),
            (answered(b"secret", &elsewhere), 7, Err(Malformed::BadAddress.into())),
            (b"\x03".to_vec(), 7, Err(Malformed::BadPacketId(3).into())),
        ] {
            assert_eq!(answer(&body, message, b"secret"), expected, "{body:02x?}");
        }
    }

    #[test]
    fn legacy() {
        let forwarded = |properties| {
            Ok(Forwarded { address: IpAddr::from([203, 0, 113, 9]), uuid: UUID, name: None, properties })
        };
        let textures = r#"{"name":"textures","value":"abc","signature":"sig"}"#;
        let guard = r#"{"name":"bungeeguard-token","value":"secret","signature":""}"#;
        for (properties, token, expected) in [
            (String::new(), None, forwarded(vec![])),
            ("\0[]".to_owned(), None, forwarded(vec![])),
            (format!("\0[{textures}]"), None, forwarded(vec![skin(Some("sig"))])),
            (format!("\0[{textures},{guard}]"), Some("secret"), forwarded(vec![skin(Some("sig"))])),
            (format!("\0[{guard}]"), None, forwarded(vec![])),
            (format!("\0[{guard}]"), Some("Secret"), Err(ForwardingError::WrongToken)),
            (format!("\0[{textures}]"), Some("secret"), Err(ForwardingError::WrongToken)),
            (String::new(), Some("secret"), Err(ForwardingError::WrongToken)),
            ("\0[{".to_owned(), None, Err(Malformed::BadJson.into())),
        ] {
            let address = format!("mc.example.com\x00203.0.113.9\0{}{properties}", UUID.simple());
            assert_eq!(of_address(&Address::cut(&address), token), expected, "{address:?}");
        }
        let plain = Address::cut("mc.example.com");
        assert_eq!(of_address(&plain, None), Err(ForwardingError::NotForwarded));
    }
}
