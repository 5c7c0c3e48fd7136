//! The handshake's address field, cut into the host a player dialled and what others glued behind it.

use std::net::IpAddr;

use uuid::Uuid;

/// A handshake's address, cut. The host is as sent: its normal form is another step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// Everything before the first NUL, `///` or `\\`.
    pub host: &'a str,
    /// Everything from there on, as sent. Tokens of proxies may be in it: never to be logged.
    pub rest: &'a str,
    pub tail: Tail,
}

/// What `rest` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Nothing follows the host.
    None,
    /// A mod loader's marker.
    Forge(Forge),
    /// Another proxy stands in front and forwards the player's identity.
    Forwarded(Forwarded),
    /// An anti-DDoS service's suffix (`///ip:port///time`, `\\id\\ip`), and a marker found behind it. The
    /// addresses in it prove nothing.
    Filter(Option<Forge>),
    Other,
}

/// The marker a mod loader appends, by Minecraft version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forge {
    /// `FML`: 1.7 to 1.12.2.
    Fml1,
    /// `FML2`: 1.13 to 1.17.
    Fml2,
    /// `FML3`: 1.18 to 1.20.1.
    Fml3,
    /// `FORGE` and perhaps a number: 1.20.2 and newer.
    Forge,
}

/// BungeeCord's forwarding: `host NUL ip NUL uuid [NUL properties]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarded {
    pub client: IpAddr,
    pub uuid: Uuid,
    /// A BungeeGuard token is among the properties.
    pub guarded: bool,
}

impl<'a> Address<'a> {
    pub fn cut(address: &'a str) -> Self {
        let end = ["\0", "///", r"\\"].iter().filter_map(|mark| address.find(mark)).min();
        let (host, rest) = address.split_at_checked(end.unwrap_or(address.len())).unwrap_or((address, ""));
        Self { host, rest, tail: tail(rest) }
    }
}

fn tail(rest: &str) -> Tail {
    let Some((before, parts)) = rest.split_once('\0') else {
        return if rest.is_empty() { Tail::None } else { Tail::Filter(None) };
    };
    if !before.is_empty() {
        return Tail::Filter(parts.split('\0').find_map(marker));
    }
    let first = parts.split('\0').next().unwrap_or_default();
    match (marker(first), forwarded(parts)) {
        (Some(forge), _) => Tail::Forge(forge),
        (None, Some(forwarded)) => Tail::Forwarded(forwarded),
        (None, None) => Tail::Other,
    }
}

/// A marker counts only as a whole part between NULs; `FORGE` is not closed by one.
fn marker(part: &str) -> Option<Forge> {
    match part {
        "FML" => Some(Forge::Fml1),
        "FML2" => Some(Forge::Fml2),
        "FML3" => Some(Forge::Fml3),
        _ => {
            let number = part.strip_prefix("FORGE")?;
            number.bytes().all(|byte| byte.is_ascii_digit()).then_some(Forge::Forge)
        }
    }
}

fn forwarded(parts: &str) -> Option<Forwarded> {
    let mut parts = parts.splitn(3, '\0');
    let client = parts.next()?;
    let client = client.split_once('%').map_or(client, |(ip, _zone)| ip).parse().ok()?;
    let uuid = Uuid::try_parse(parts.next()?).ok()?;
    let guarded = parts.next().is_some_and(|properties| properties.contains("\"bungeeguard-token\""));
    Some(Forwarded { client, uuid, guarded })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "069a79f444e94726a5befca90e38aaf5";

    #[test]
    fn cuts() {
        for (address, host, tail) in [
            ("mc.example.com", "mc.example.com", Tail::None),
            ("", "", Tail::None),
            ("mc.example.com\0FML\0", "mc.example.com", Tail::Forge(Forge::Fml1)),
            ("mc.example.com.\0FML2\0", "mc.example.com.", Tail::Forge(Forge::Fml2)),
            ("MC.Example.com\0FML3\0", "MC.Example.com", Tail::Forge(Forge::Fml3)),
            ("mc.example.com\0FORGE", "mc.example.com", Tail::Forge(Forge::Forge)),
            ("mc.example.com\0FORGE2", "mc.example.com", Tail::Forge(Forge::Forge)),
            ("mc.example.com\0FORGED", "mc.example.com", Tail::Other),
            ("mc.example.com\0FML4\0", "mc.example.com", Tail::Other),
            ("mc.example.com\0", "mc.example.com", Tail::Other),
            ("FORGE.example.com", "FORGE.example.com", Tail::None),
            ("mc.example.com\0^Floodgate^\x3eabc", "mc.example.com", Tail::Other),
            ("mc.example.com///203.0.113.9:51000///1700000000", "mc.example.com", Tail::Filter(None)),
            ("mc.example.com.///203.0.113.9:51000///17///sig", "mc.example.com.", Tail::Filter(None)),
            (r"mc.example.com\\id\\203.0.113.9", "mc.example.com", Tail::Filter(None)),
            (
                "mc.example.com///203.0.113.9:1///17\0FML2\0",
                "mc.example.com",
                Tail::Filter(Some(Forge::Fml2)),
            ),
            ("mc.example.com\0FML\0///203.0.113.9:1///17", "mc.example.com", Tail::Forge(Forge::Fml1)),
            ("mc.example.com/x\\y", "mc.example.com/x\\y", Tail::None),
        ] {
            let cut = Address::cut(address);
            assert_eq!((cut.host, cut.tail), (host, tail), "{address:?}");
            assert_eq!(format!("{}{}", cut.host, cut.rest), address);
        }
    }

    #[test]
    fn forwarding() {
        let client = IpAddr::from([203, 0, 113, 9]);
        let uuid = Uuid::try_parse(UUID).unwrap();
        let guard = r#"[{"name":"bungeeguard-token","value":"secret","signature":""}]"#;
        for (tail, expected) in [
            (format!("\x00203.0.113.9\0{UUID}"), Some((client, false))),
            (format!("\x00203.0.113.9\0{UUID}\0[]"), Some((client, false))),
            (format!("\x00203.0.113.9\0{UUID}\0{guard}"), Some((client, true))),
            (format!("\0fe80::1%eth0\0{UUID}\0[]"), Some(("fe80::1".parse().unwrap(), false))),
            (format!("\0not-an-ip\0{UUID}"), None),
            ("\x00203.0.113.9\0not-a-uuid".to_owned(), None),
            ("\x00203.0.113.9".to_owned(), None),
        ] {
            let address = format!("mc.example.com{tail}");
            let expected = expected.map_or(Tail::Other, |(client, guarded)| {
                Tail::Forwarded(Forwarded { client, uuid, guarded })
            });
            assert_eq!(Address::cut(&address).tail, expected, "{address:?}");
            assert_eq!(Address::cut(&address).host, "mc.example.com");
        }
    }
}
