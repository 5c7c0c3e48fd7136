//! The keys that every server has, in `[defaults]` and in `[server.NAME]`.

use std::time::Duration;

use swarmgate_minecraft::text::Component;

use super::problem::Fault;
use super::reader::Section;
use super::value;
use crate::motd::TOKENS;
use crate::service::{Clients, Endpoint, Players, ProxyVersion, Ready, Spec, Texts, Wait, Wakers};

/// The Java client gives up on a silent login after 30 s; what is left is for the message to arrive.
const LONGEST_HOLD: Duration = Duration::from_secs(28);
/// Below this, a player who only reconnects finds the server asleep.
const SHORT_IDLE: Duration = Duration::from_secs(60);
const LONGEST_ADDRESS: usize = 255;
const WAITS: [(&str, Wait); 4] =
    [("world", Wait::World), ("room", Wait::Room), ("hold", Wait::Hold), ("kick", Wait::Kick)];

/// What the section asks for; where it is silent, `base` stands. Its hosts are not read here.
pub(super) fn read(section: &mut Section<'_, '_>, base: &Spec) -> Spec {
    let spec = Spec {
        hosts: Vec::new(),
        default: base.default,
        default_wakes: section.boolean("default_wakes").unwrap_or(base.default_wakes),
        wake: section.boolean("wake").unwrap_or(base.wake),
        sleep: section.boolean("sleep").unwrap_or(base.sleep),
        idle: section.text("idle", value::duration).unwrap_or(base.idle),
        awake: section.list("awake", value::hours).unwrap_or_else(|| base.awake.clone()),
        start_timeout: section.text("start_timeout", value::duration).unwrap_or(base.start_timeout),
        cooldown: section.text("cooldown", value::duration).unwrap_or(base.cooldown),
        wait: section.choice("wait", &WAITS).unwrap_or(base.wait),
        modded_room: section.choice("modded", &[("hold", false), ("room", true)]).unwrap_or(base.modded_room),
        hold: section.text("hold", value::duration).unwrap_or(base.hold),
        players: section
            .choice("players", &[("game", Players::Game), ("connections", Players::Connections)])
            .unwrap_or(base.players),
        ready: section
            .choice("ready", &[("status", Ready::Status), ("tcp", Ready::Tcp)])
            .unwrap_or(base.ready),
        clients: clients(section, &base.clients),
        wakers: wakers(section, &base.wakers),
        send_proxy: section
            .choice(
                "proxy_protocol",
                &[("off", None), ("v1", Some(ProxyVersion::V1)), ("v2", Some(ProxyVersion::V2))],
            )
            .unwrap_or(base.send_proxy),
        rewrite_host: section.text("rewrite_host", rewrite_host).unwrap_or_else(|| base.rewrite_host.clone()),
        public_address: section
            .text("public_address", public_address)
            .unwrap_or_else(|| base.public_address.clone()),
        texts: texts(section, &base.texts),
    };
    check_times(section, &spec);
    spec
}

pub(super) fn clients(section: &mut Section<'_, '_>, base: &Clients) -> Clients {
    let mut section = section.section("clients");
    let clients = Clients {
        allow: section.list("allow", value::network).unwrap_or_else(|| base.allow.clone()),
        deny: section.list("deny", value::network).unwrap_or_else(|| base.deny.clone()),
    };
    section.finish();
    clients
}

fn wakers(section: &mut Section<'_, '_>, base: &Wakers) -> Wakers {
    let mut section = section.section("wakers");
    let wakers = Wakers {
        names: section
            .list("names", |name| Ok(name.to_lowercase()))
            .map_or_else(|| base.names.clone(), |names| names.into_iter().collect()),
        uuids: section
            .list("uuids", uuid)
            .map_or_else(|| base.uuids.clone(), |uuids| uuids.into_iter().collect()),
        addresses: section.list("addresses", value::network).unwrap_or_else(|| base.addresses.clone()),
        verified: section.boolean("verified").unwrap_or(base.verified),
    };
    section.finish();
    wakers
}

fn uuid(text: &str) -> Result<uuid::Uuid, Fault> {
    text.parse().map_err(|_| {
        let fix = "write it as \"069a79f4-44e9-4726-a5be-fca90e38aaf5\"";
        Fault::new(format!("{text:?} is not a player's UUID"), fix)
    })
}

/// Empty takes back what `[defaults]` says.
fn rewrite_host(text: &str) -> Result<Option<String>, Fault> {
    if text.len() > LONGEST_ADDRESS || text.chars().any(char::is_control) {
        let what = format!("is not an address that a handshake can carry, at most {LONGEST_ADDRESS} bytes");
        return Err(Fault::new(what, "write the name the backend expects, such as \"mc.example.com\""));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Empty takes back what `[defaults]` says.
fn public_address(text: &str) -> Result<Option<Endpoint>, Fault> {
    if text.is_empty() { Ok(None) } else { value::endpoint(text).map(Some) }
}

fn texts(section: &mut Section<'_, '_>, base: &Texts) -> Texts {
    let mut section = section.section("texts");
    let mut text = |name: &'static str, base: &str| {
        let Some((written, shown)) = section.text(name, template) else { return base.to_owned() };
        let known = TOKENS.map(|(token, _)| token);
        for token in shown.tokens().into_iter().filter(|token| !known.contains(token)) {
            let fix = match value::nearest(token, known) {
                Some(near) => format!("did you mean {{{near}}}?"),
                None => format!("the tokens are {{{}}}", known.join("}, {")),
            };
            section.warning(name, Fault::new(format!("{{{token}}} is no token and stays as it is"), fix));
        }
        written
    };
    let texts = Texts {
        asleep: text("asleep", &base.asleep),
        starting: text("starting", &base.starting),
        restarting: text("restarting", &base.restarting),
        stopping: text("stopping", &base.stopping),
        failed: text("failed", &base.failed),
        unreachable: text("unreachable", &base.unreachable),
        wait: text("wait", &base.wait),
        title: text("title", &base.title),
        subtitle: text("subtitle", &base.subtitle),
        welcome: text("welcome", &base.welcome),
        rejoin: text("rejoin", &base.rejoin),
    };
    section.finish();
    texts
}

/// A text that can be shown, as it was written.
fn template(text: &str) -> Result<(String, Component), Fault> {
    let component = Component::parse(text).map_err(|error| Fault::new(error.to_string(), ""))?;
    Ok((text.to_owned(), component))
}

/// Said where the times are written: of what `[defaults]` says wrongly, the servers say nothing again.
fn check_times(section: &Section<'_, '_>, spec: &Spec) {
    if spec.idle.is_zero() && section.has("idle") {
        let fix = "write how long it must be empty, such as \"15m\", or sleep = false to keep it awake";
        section.problem("idle", Fault::new("a server that sleeps at once cannot be joined", fix));
    } else if spec.idle < SHORT_IDLE && section.has("idle") {
        let fix = "write \"5m\" or more, unless this is a test";
        section.warning("idle", Fault::new("a player who only reconnects would find it asleep", fix));
    }
    if spec.hold > LONGEST_HOLD && section.has("hold") {
        let fix = "write \"28s\" or less";
        section.problem("hold", Fault::new("the game's client itself gives up after 30 s", fix));
    }
    let timed_here = section.has("start_timeout") || section.has("hold");
    if spec.wait != Wait::Kick && spec.start_timeout < spec.hold && timed_here {
        let key = if section.has("start_timeout") { "start_timeout" } else { "hold" };
        let what = "start_timeout is shorter than hold, so a player who waits is told of a failure too early";
        section.warning(
            key,
            Fault::new(what, "raise start_timeout to what a slow start takes, such as \"10m\""),
        );
    }
}
