//! What must hold for any bytes, one function per fuzz target.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use rand::SeedableRng;
use rand::rngs::StdRng;
use sha2::Sha256;
use swarmgate_core::config;
use swarmgate_core::forwarded::{self, Said};
use swarmgate_core::image::{self, Image};
use swarmgate_core::labels::{self, Labels};
use swarmgate_core::name::{HostName, HostPattern};
use swarmgate_core::publish::ingress::{Edit, Ingress};
use swarmgate_core::publish::rule::Rule;
use swarmgate_core::publish::wanted::Wanted;
use swarmgate_core::publish::{Publication, Settings};
use swarmgate_core::service::{ServiceId, Spec};
use swarmgate_core::state::{docker, output, swarm};
use swarmgate_minecraft::address::Address;
use swarmgate_minecraft::client::{Client, Cookies};
use swarmgate_minecraft::handshake::{self, Rewrite};
use swarmgate_minecraft::knock::{self, Knock};
use swarmgate_minecraft::limbo::encryption::{Challenge, Key};
use swarmgate_minecraft::limbo::{Guest, Scene, Session, Stage, Transfer, forwarding};
use swarmgate_minecraft::proxy_header::{self, Version};
use swarmgate_minecraft::status::{self, Responder, StatusAnswer, StatusSummary};
use swarmgate_minecraft::text::{Component, plain_of};
use swarmgate_minecraft::version::Protocol;
use swarmgate_minecraft::{legacy, login, nbt, srv};

/// Long enough for everything that matters, short enough to be parsed once per byte.
const LONGEST: usize = 600;

/// However an opening is split, it means the same; and what is asked to stay as it is, stays.
pub fn knock(data: &[u8]) {
    let data = data.get(..LONGEST).unwrap_or(data);
    let limit = 512;
    let whole = knock::parse(data, limit, false);
    same_at_any_split(data, &whole, |bytes| knock::parse(bytes, limit, false));
    let settled = knock::parse(data, limit, true);
    if whole != Ok(None) {
        assert_eq!(settled, whole);
    }
    if let Ok(Some(Knock::Login { handshake, .. })) = &whole {
        assert_eq!(knock::login_handshake(data, limit).as_ref(), Some(handshake));
    }
    if let Ok(Some(Knock::Status { consumed, .. } | Knock::Login { consumed, .. })) = whole {
        assert!(consumed <= limit);
        let kept = handshake::rewrite(data, &Rewrite::default()).expect("a handshake that was read");
        assert_eq!(knock::parse(&kept, limit, false).map(|knock| knock.is_some()), Ok(true));
    }
    let _ = (login::parse_disconnect(data), login::parse_cookie(data, "swarmgate:pass"));
}

pub fn proxy_header(data: &[u8]) {
    let data = data.get(..LONGEST).unwrap_or(data);
    let whole = proxy_header::parse(data);
    same_at_any_split(data, &whole, proxy_header::parse);
    let Ok(Some(header)) = whole else { return };
    assert!(proxy_header::looks_like(data) && header.consumed <= data.len());
    let Some(sent) = header.addresses else { return };
    for version in [Version::V1, Version::V2] {
        let bytes = proxy_header::encode(version, sent);
        let again = proxy_header::parse(&bytes).expect("our own header").expect("a whole header");
        let again = again.addresses.expect("the addresses just written");
        let canonical = |end: std::net::SocketAddr| (end.ip().to_canonical(), end.port());
        assert_eq!(canonical(again.source), canonical(sent.source));
        assert_eq!(canonical(again.destination), canonical(sent.destination));
    }
}

pub fn address(data: &[u8]) {
    let Ok(address) = std::str::from_utf8(data) else { return };
    let cut = Address::cut(address);
    assert_eq!([cut.host, cut.rest].concat(), address);
    assert_eq!(Address::cut(cut.host).rest, "");
}

pub fn legacy(data: &[u8]) {
    let data = data.get(..LONGEST).unwrap_or(data);
    if data.first() == Some(&legacy::LOGIN) {
        same_at_any_split(data, &legacy::Login::parse(data), legacy::Login::parse);
    }
    assert!(legacy::Ping::parse(data, true).is_some());
    let kick = [&[0xff], data].concat();
    same_at_any_split(&kick, &legacy::parse_kick(&kick), legacy::parse_kick);
    let Ok(Some(text)) = legacy::parse_kick(&kick) else { return };
    let answer = legacy::Answer::from_kick(&text);
    if let Some(answer) = answer {
        let bytes = answer.encode(legacy::Form::Release);
        let text = legacy::parse_kick(&bytes).expect("our own kick").expect("a whole kick");
        assert_eq!(legacy::Answer::from_kick(&text).map(|again| again.online), Some(answer.online));
    }
}

/// A server's bytes as `join` reads them: however they are split, they lead to the same steps.
pub fn client(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let protocol = [47, 764, 767, 777][usize::from(*choice) % 4];
    let steps = |pieces: std::slice::Chunks<'_, u8>| {
        let mut client = Client::new(protocol, Cookies::new());
        let mut steps = Vec::new();
        for piece in pieces {
            client.receive(piece);
            while let Some(step) = client.step().transpose() {
                let over = step.is_err();
                steps.push(step);
                if over {
                    return steps;
                }
            }
        }
        steps
    };
    assert_eq!(steps(data.chunks(1)), steps(data.chunks(LONGEST.max(data.len()))));
    let _ = (nbt::read(data), srv::answer(0x1234, data));
}

/// A waiting client's bytes, in every stage and protocol: however they are split, they lead to the same.
pub fn limbo(data: &[u8]) {
    let Some(([protocol, choice], data)) = data.split_first_chunk() else { return };
    let guest = Guest {
        protocol: 766 + i32::from(protocol % 12),
        name: "Ann".to_owned(),
        uuid: uuid::Uuid::nil(),
        properties: Vec::new(),
    };
    let story = |pieces: std::slice::Chunks<'_, u8>| {
        let now = Duration::from_secs(1);
        let mut session = Session::new(&guest, now).expect("a protocol with a limbo");
        let stage = choice % 4;
        if stage >= 1 {
            // Acknowledged; and without packs, or with the game's own.
            session.receive(b"\x01\x03", now).expect("a client's way");
            session.receive(&packs(guest.protocol, *choice >= 4), now).expect("a client's way");
        }
        if stage >= 2 {
            session.enter(now);
        }
        if stage >= 3 && session.stage() == Stage::Entering {
            session.receive(b"\x01\x03", now).expect("a client's way");
        }
        // On its way out, or gone.
        match choice / 8 % 3 {
            1 => session.transfer(Transfer { host: "mc.example.com".to_owned(), port: 1, cookie: None }),
            2 => session.disconnect(Component::literal("Bye")),
            _ => {}
        }
        let mut out = session.output();
        let mut broken = None;
        for piece in pieces {
            broken = session.receive(piece, now).err();
            out.extend(session.output());
            if broken.is_some() {
                break;
            }
        }
        session.enter(now);
        session.show(&Scene::default());
        _ = session.tick(session.next_tick());
        out.extend(session.output());
        (out, std::iter::from_fn(|| session.event()).collect::<Vec<_>>(), broken)
    };
    assert_eq!(story(data.chunks(1)), story(data.chunks(LONGEST.max(data.len()))));
}

/// What a client answers to the request for encryption: only one that has seen our key and the token gets through. The
/// length of its chat key, the key and the answer follow each other.
pub fn encryption(data: &[u8]) {
    static KEY: OnceLock<Key> = OnceLock::new();
    let key = KEY.get_or_init(|| Key::generate(&mut StdRng::seed_from_u64(1)).expect("a key"));
    let (challenge, other) = (Challenge::new(*b"toknone one!"), Challenge::new(*b"nokttwo two!"));
    let Some(([protocol, length], data)) = data.split_first_chunk() else { return };
    let protocol = [5, 47, 760, 775][usize::from(*protocol) % 4];
    let Some((signer, body)) = data.split_at_checked(usize::from(*length)) else { return };
    let mut random = StdRng::seed_from_u64(2);
    let mut open = |challenge| key.open(body, protocol, challenge, Some(signer), &mut random);
    assert!(open(&other).is_err());
    if let Ok(secret) = open(&challenge) {
        let mut text = *b"there and back";
        secret.cipher().seal(&mut text);
        secret.cipher().open(&mut text);
        assert_eq!(&text, b"there and back");
        assert!(!key.hash(&challenge, &secret).is_empty());
    }
}

/// A proxy's word for a player: nobody is believed without its token, or without its signature.
pub fn forwarding(data: &[u8]) {
    assert!(forwarding::answer(data, 7, b"secret").is_err());
    let mac = Hmac::<Sha256>::new_from_slice(b"secret").expect("any length").chain_update(data);
    let signed = [&[2, 7, 1][..], &mac.finalize().into_bytes(), data].concat();
    let whole = forwarding::answer(&signed, 7, b"secret");
    if whole.is_ok() {
        assert!(forwarding::answer(&[&signed[..], b"x"].concat(), 7, b"secret").is_err(), "unsigned");
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let address = Address::cut(text);
    let Ok(with_token) = forwarding::of_address(&address, Some("token")) else { return };
    assert!(with_token.properties.iter().all(|property| property.name != "bungeeguard-token"));
    assert_eq!(forwarding::of_address(&address, None), Ok(with_token));
}

/// However an engine cuts the output of a container, nothing is added to it.
pub fn output(data: &[u8]) {
    let text = output::joined(data);
    assert!(text.len() <= data.len());
    let head = u32::try_from(data.len()).expect("short").to_be_bytes();
    let framed = [&[1, 0, 0, 0][..], &head, data].concat();
    assert_eq!(output::joined(&framed), data);
    assert_eq!(output::joined(&[&framed[..], &framed[..]].concat()), [data, data].concat());
}

/// What a client says to the offer of packs.
fn packs(protocol: i32, own: bool) -> Vec<u8> {
    let release = Protocol(protocol).releases().last().filter(|_| own);
    let mut body = vec![7, u8::from(release.is_some())];
    for text in release.into_iter().flat_map(|release| ["minecraft", "core", release]) {
        body.push(u8::try_from(text.len()).expect("a short text"));
        body.extend(text.bytes());
    }
    [vec![u8::try_from(body.len()).expect("a short packet")], body].concat()
}

/// A server's bytes as a client reads them, and a client's as the gate does.
pub fn status_response(data: &[u8]) {
    let mut responder = Responder::new(status::respond("{}").into());
    for piece in data.chunks(3) {
        if responder.feed(piece).map_or(true, |reply| reply.done) {
            break;
        }
    }
    let _ = status::parse_pong(data);
    let Ok(answer) = status::parse_response(data) else { return };
    let summary = StatusSummary::of(&answer);
    let description = answer.get("description").cloned().unwrap_or_default();
    let mut ours = StatusAnswer {
        version_name: summary.version_name.unwrap_or_default(),
        protocol: 0,
        online: 0,
        max: 0,
        sample: Vec::new(),
        description,
        favicon: summary.favicon,
        other: serde_json::Map::new(),
    };
    ours.carry_over(&answer);
    assert!(ours.to_json().encode_utf16().count() <= 32_767);
    if let Ok(text) = Component::from_json(&answer) {
        text.to_nbt();
        text.without_rgb().to_legacy();
        assert_eq!(Component::from_json(&text.to_json()).as_ref(), Ok(&text));
    }
}

/// A template reads back from its own JSON, and values never turn into formatting.
pub fn text_template(data: &[u8]) {
    let Ok(written) = std::str::from_utf8(data) else { return };
    let Ok(text) = Component::parse(written) else { return };
    let json = text.to_json();
    assert_eq!(Component::from_json(&json).map(|again| again.to_json()).as_ref(), Ok(&json));
    let filled = text.fill(&|_| Some("§c<red>&c{x}".to_owned()));
    if text.to_plain().contains('§') {
        return;
    }
    assert!(!filled.to_plain().contains('§'));
    text.to_nbt();
    plain_of(&json);
}

/// There is one normal form: what is in it stays as it is.
pub fn hostname(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(name) = HostName::parse(text) {
        assert!(name.as_str().len() <= 253 && name.as_str().is_ascii());
        assert_eq!(HostName::parse(name.as_str()).as_ref(), Ok(&name));
    }
    if let Ok(pattern) = HostPattern::parse(text) {
        assert_eq!(HostPattern::parse(&pattern.to_string()), Ok(pattern));
    }
}

/// Whatever a client and its proxies write: a stranger speaks for nobody, and what a proxy has written itself cannot be
/// changed by what stands before it. The first line is the peer's, those with `f:` in front are of `Forwarded`.
pub fn forwarded(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let Some(Ok(peer)) = lines.next().map(str::parse::<IpAddr>) else { return };
    let (forwarded, x_forwarded_for): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("f:"));
    let forwarded = forwarded.into_iter().filter_map(|line| line.strip_prefix("f:")).collect();
    let mut said = Said { x_forwarded_for, forwarded };
    let everybody = ["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()];
    let proxies = ["10.0.0.0/8".parse().unwrap()];
    assert_eq!(forwarded::real(peer, &said, &[]).address, peer.to_canonical());
    let _ = forwarded::real(peer, &said, &everybody);
    let client = forwarded::real(peer, &said, &proxies).address;
    assert_eq!(client, client.to_canonical());
    said.forwarded.clear();
    said.x_forwarded_for.push("192.0.2.1, 10.0.0.2");
    let own = forwarded::real("10.0.0.1".parse().unwrap(), &said, &proxies).address;
    assert_eq!(own.to_string(), "192.0.2.1");
}

/// Whatever a program asks for over the API is a reference or none, and a pinned one says the digest that it was given.
pub fn image(data: &[u8]) {
    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let Ok(text) = std::str::from_utf8(data) else { return };
    let pattern = text.lines().next().unwrap_or_default();
    let patterns = if image::is_pattern(pattern) { vec![pattern.to_owned()] } else { Vec::new() };
    let Ok(image) = Image::parse(text.lines().last().unwrap_or_default()) else { return };
    assert!(image.is_among(&[]));
    let _ = image.is_among(&patterns);
    assert_eq!(Image::parse(&image.to_string()).as_ref(), Ok(&image));
    if let Some(pinned) = image.moving().and_then(|moving| moving.pinned(DIGEST)) {
        assert_eq!(Image::parse(&pinned.to_string()).unwrap().digest(), Some(DIGEST));
    }
}

/// Whatever an owner writes, in the file or as `label=value` lines, is taken or said to be wrong, in words.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(problems) = config::parse(text, &[]) {
        assert!(!problems.is_empty());
    }
    if let Err((line, fault)) = config::Token::parse_lines(text) {
        assert!((1..=text.lines().count()).contains(&line) && !fault.what.is_empty());
    }
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let labels: Labels = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let ours = labels.keys().any(|key| labels::is_ours(key));
    assert_eq!(labels::parse(&labels, &Spec::default()).is_some(), ours);
    assert_eq!(labels::misplaced(&labels).is_empty(), !ours);
}

/// Labels that ask for publication are taken or said to be wrong, and what is taken can be written into a tunnel, once.
pub fn publication(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let labels: Labels = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let service = ServiceId::new("swarm", "web");
    let Some(published) = labels::publish::parse(&labels, service, "web", &Settings::default()) else {
        return;
    };
    assert!(labels.keys().any(|key| labels::publish::is_ours(key)));
    if published.problems.is_empty() {
        let is_whole =
            |one: &Publication| !one.hosts.is_empty() && one.target.is_some() && one.held.is_none();
        assert!(!published.unclear && published.publications.iter().all(is_whole));
    }
    let wanted = Wanted::new(&[published], |_| Vec::new());
    let rules: Vec<Rule> = wanted.hosts.into_values().flat_map(|host| host.rules).collect();
    let keys = rules.iter().map(|rule| rule.key.clone()).collect();
    let edit = |config: Option<&str>| Ingress::read(config).map(|ingress| ingress.edit(&keys, &rules));
    let Ok(first) = edit(None) else { panic!("nothing is there that is not understood") };
    assert_eq!(first.conflicts, []);
    if let Some(config) = first.config {
        assert_eq!(edit(Some(&config)), Ok(Edit::default()));
    }
}

/// What an Engine says of a service or a container is a state, or is said to be none.
pub fn engine(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(service) = swarm::saved::explain(text) {
        assert!(service.to_json().is_object());
    }
    if let Some(container) = docker::saved::explain(text) {
        assert!(container.to_json().is_object());
    }
}

/// The first beginning that decides, decides as the whole does.
fn same_at_any_split<T: Debug + PartialEq, E: Debug + PartialEq>(
    data: &[u8],
    whole: &Result<Option<T>, E>,
    parse: impl Fn(&[u8]) -> Result<Option<T>, E>,
) {
    let beginnings = (0..=data.len()).filter_map(|end| data.get(..end));
    let first = beginnings.map(parse).find(|outcome| *outcome != Ok(None)).unwrap_or(Ok(None));
    assert_eq!(first, *whole);
}
