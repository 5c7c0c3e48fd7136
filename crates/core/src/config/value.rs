//! One parser per kind of value: text in, value or [`Fault`] out. Labels and files share them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::problem::Fault;
use crate::hours::Hours;
use crate::name::{HostName, HostPattern};
use crate::service::Endpoint;

/// The port of a Minecraft server that names none.
pub const MINECRAFT_PORT: u16 = 25565;

/// Clocks of operating systems cannot add much more than this to now.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// `90s`, `15m`, `1h 30m`, `500ms`; `0` needs no unit.
pub fn duration(text: &str) -> Result<Duration, Fault> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || "._".contains(c)) {
        let fix = format!("write \"{text}s\" for seconds, \"{text}m\" for minutes or \"{text}h\" for hours");
        return Err(Fault::new(format!("{text} has no unit"), fix));
    }
    let bad = || {
        Fault::new(format!("{text:?} is not a length of time"), "write it as \"90s\", \"15m\" or \"1h 30m\"")
    };
    let signed: jiff::SignedDuration = text.parse().map_err(|_| bad())?;
    let length = Duration::try_from(signed)
        .map_err(|_| Fault::new(format!("{text:?} is negative"), "write a length of time from 0 up"))?;
    if length > LONGEST {
        return Err(Fault::new(format!("{text:?} is more than a year"), "write a shorter time"));
    }
    Ok(length)
}

/// `10/s`, `6/m`, `100/h`: how long until one more is allowed.
pub fn rate(text: &str) -> Result<Duration, Fault> {
    let bad = || {
        let fix = "write a whole number from 1 up per s, m or h, such as \"10/s\" or \"6/m\"";
        Fault::new(format!("{text:?} is not a rate"), fix)
    };
    let (count, unit) = text.split_once('/').ok_or_else(bad)?;
    let count: u32 = count.trim().parse().map_err(|_| bad())?;
    let unit = match unit.trim() {
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(60 * 60),
        _ => return Err(bad()),
    };
    unit.checked_div(count).filter(|every| !every.is_zero()).ok_or_else(bad)
}

/// Such as `mon-fri 18:00-23:00 Europe/Berlin`.
pub fn hours(text: &str) -> Result<Hours, Fault> {
    Hours::parse(text).map_err(|error| Fault::new(error.to_string(), ""))
}

/// `10.0.0.0/8`, `2001:db8::/32`; an address alone is a network of one.
pub fn network(text: &str) -> Result<IpNet, Fault> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address.to_canonical()));
    }
    text.parse::<IpNet>().map(|network| network.trunc()).map_err(|_| {
        let fix = "write an IP address or a network, such as \"192.0.2.7\" or \"10.0.0.0/8\"";
        Fault::new(format!("{text:?} is not an address or network"), fix)
    })
}

pub fn host_pattern(text: &str) -> Result<HostPattern, Fault> {
    HostPattern::parse(text).map_err(|error| {
        let fix = "write a name such as \"mc.example.com\" or \"*.example.com\", without port or path";
        Fault::new(format!("{text:?} is not a hostname: {error}"), fix)
    })
}

/// `host`, `host:port`, `192.0.2.7:25566`, `[2001:db8::7]:25566`; the port is 25565 if none is named.
pub fn endpoint(text: &str) -> Result<Endpoint, Fault> {
    let bad = |why: String| {
        let fix = "write it as \"host:port\", such as \"127.0.0.1:25566\" or \"[::1]:25566\"";
        Fault::new(format!("{text:?} is not an address to dial: {why}"), fix)
    };
    let (host, port) = match text.rsplit_once(':') {
        // The colons of an IPv6 address, and no port.
        Some(_) if text.ends_with(']') || text.parse::<Ipv6Addr>().is_ok() => (text, MINECRAFT_PORT),
        Some((host, port)) => match port.parse() {
            Ok(0) | Err(_) => return Err(bad(format!("{port:?} is not a port from 1 to 65535"))),
            Ok(port) => (host, port),
        },
        None => (text, MINECRAFT_PORT),
    };
    let host = HostName::parse(host).map_err(|error| bad(error.to_string()))?;
    Ok(Endpoint { host: Arc::from(host.as_str()), port })
}

/// `0.0.0.0:25565`, `[::]:25565`; `:25565` or `25565` alone is every address of the machine.
pub fn socket_address(text: &str) -> Result<SocketAddr, Fault> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse() {
        return Ok(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
    }
    let fix = "write an IP address and a port, such as \"[::]:25565\" (every address) or \"127.0.0.1:25565\"";
    Err(Fault::new(format!("{text:?} is not an address to listen on"), fix))
}

/// A command line as a shell would split it: blanks separate, quotes join, a backslash takes the next
/// character as it is. Nothing is expanded.
pub fn words(text: &str) -> Result<Vec<String>, Fault> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().push(chars.next().unwrap_or(c)),
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(Fault::new(
            format!("the quote {open} is not closed"),
            "close it, or write a list of words",
        ));
    }
    words.extend(word);
    Ok(words)
}

/// One of a few names.
pub fn choice<T: Copy>(choices: &[(&str, T)], text: &str) -> Result<T, Fault> {
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let fix = match nearest(text, names.iter().copied()) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("write one of {}", quoted(&names)),
    };
    Err(Fault::new(format!("{text:?} is not a value of this key"), fix))
}

/// The parts of `a, b`: commas and line ends separate, blank parts are ignored.
pub fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty())
}

/// The addresses of `a, b`, separated as [`parts`] are. A comma may also stand within one: what follows it and has no
/// `://` is no address of its own.
pub fn addresses(text: &str) -> Vec<String> {
    let mut addresses: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut in_line = Vec::<String>::new();
        for part in parts(line) {
            match in_line.last_mut() {
                Some(last) if !part.contains("://") => {
                    last.push(',');
                    last.push_str(part);
                }
                Some(_) | None => in_line.push(part.to_owned()),
            }
        }
        addresses.extend(in_line);
    }
    addresses
}

/// The candidate that `typed` was most likely meant to be, if any is close.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Bounded: the distance costs time per pair of characters.
    let typed: String = typed.chars().take(64).flat_map(char::to_lowercase).collect();
    let allowed = (typed.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&typed, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

pub(super) fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("90s", 90_000),
            ("15m", 900_000),
            ("1h 30m", 5_400_000),
            ("500ms", 500),
            ("0", 0),
            ("0s", 0),
            ("1.5h", 5_400_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for (text, what) in [
            ("15", "15 has no unit"),
            ("1.5", "1.5 has no unit"),
            ("", "\"\" is not a length of time"),
            ("soon", "\"soon\" is not a length of time"),
            ("-5m", "\"-5m\" is negative"),
            ("9999h", "\"9999h\" is more than a year"),
        ] {
            assert_eq!(duration(text).unwrap_err().what, what, "{text}");
        }
    }

    #[test]
    fn rates() {
        for (text, millis) in [("10/s", 100), ("6/m", 10_000), ("2 / h", 1_800_000), ("1/s", 1_000)] {
            assert_eq!(rate(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "0/s", "-1/s", "10/d", "10/s/s", "4294967295/s/", "1.5/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn networks() {
        for (text, normal) in [
            ("192.0.2.7", "192.0.2.7/32"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("2001:db8::1", "2001:db8::1/128"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(network(text).unwrap().to_string(), normal, "{text}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0", "example.com"] {
            assert!(network(text).is_err(), "{text}");
        }
    }

    #[test]
    fn endpoints() {
        for (text, shown) in [
            ("mc.example.com", "mc.example.com:25565"),
            ("My_Backend:25570", "my_backend:25570"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("::1", "[::1]:25565"),
            ("[::1]", "[::1]:25565"),
            ("[::1]:25570", "[::1]:25570"),
        ] {
            assert_eq!(endpoint(text).map(|endpoint| endpoint.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for text in ["", ":25565", "a:0", "a:65536", "a:b", "http://a:1", "a b:1", "a:"] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }

    #[test]
    fn listening_addresses() {
        for (text, shown) in [
            ("[::]:25565", "[::]:25565"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            (":25565", "[::]:25565"),
            ("25565", "[::]:25565"),
        ] {
            assert_eq!(
                socket_address(text).map(|address| address.to_string()),
                Ok(shown.to_owned()),
                "{text}"
            );
        }
        for text in ["", "localhost:25565", "::", "0.0.0.0"] {
            assert!(socket_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_as_a_shell_splits_them() {
        for (text, expected) in [
            ("java -jar server.jar", vec!["java", "-jar", "server.jar"]),
            ("  a\t b\n", vec!["a", "b"]),
            (r#"a "b c" 'd "e"' f\ g"#, vec!["a", "b c", "d \"e\"", "f g"]),
            (r#"-Dx="y z"w '' "a\"b" 'a\b'"#, vec!["-Dx=y zw", "", "a\"b", "a\\b"]),
            ("", vec![]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        assert_eq!(words("a 'b").unwrap_err().what, "the quote ' is not closed");
    }

    #[test]
    fn the_nearest_name() {
        let names = ["idle", "hold", "wait", "start_timeout"];
        for (typed, near) in [
            ("idel", Some("idle")),
            ("Idle", Some("idle")),
            ("start-timeout", Some("start_timeout")),
            ("starttimeout", Some("start_timeout")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, names), near, "{typed}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = (duration(&text), rate(&text), network(&text), endpoint(&text));
            let _ = (socket_address(&text), words(&text), host_pattern(&text), nearest(&text, ["idle"]));
        }
    }
}
