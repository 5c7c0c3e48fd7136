//! The configuration: TOML text in, a checked [`Config`] out, or everything that is wrong with it at once.

mod api;
mod cloudflare;
mod docker;
pub mod keys;
mod limits;
pub mod notify;
mod overrides;
mod problem;
mod process;
mod proxies;
pub mod publish;
mod reader;
mod reference;
mod server;
mod spec;
pub mod swarmctl;
#[cfg(test)]
mod tests;
mod update;
pub mod value;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

pub use self::api::{Api, Scope, Token};
pub use self::cloudflare::{API, Cloudflare, Credential, Secret};
pub use self::docker::{DOCKER_GRACE, Docker, EngineHost, Use};
pub use self::limits::Limits;
pub use self::notify::Notify;
pub use self::overrides::Override;
pub use self::problem::{Fault, Position, Problem};
pub use self::process::ProcessServer;
pub use self::proxies::Proxies;
pub use self::publish::PublishedAddress;
use self::reader::{Report, Section};
pub use self::reference::reference;
pub use self::server::{Kind, Server, leads_back};
pub use self::update::{Updatable, Update};
use crate::fleet::Policy;
use crate::publish::Settings;
use crate::service::{Clients, Spec};

/// Instead of a value that there is not to be.
const OFF: &str = "off";
/// Where Mojang's session server is.
const MOJANG: &str = "https://sessionserver.mojang.com";

/// A configuration that can be run. Paths are as written until [`Config::beside`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// At least one.
    pub listeners: Vec<Listener>,
    /// For what local servers need, and for what is kept.
    pub data_dir: PathBuf,
    /// Whether anything outlives the gate.
    pub keeps: bool,
    pub control: PathBuf,
    /// Where health, metrics and the API are served over TCP, if anywhere.
    pub http: Option<SocketAddr>,
    pub api: Api,
    pub on_exit: OnExit,
    /// How long players may stay once the gate is told to stop.
    pub drain: Duration,
    /// The base of the session server's URLs, without a slash at its end.
    pub session_server: String,
    pub unknown_host: UnknownHost,
    /// Holds for every server, beside the server's own.
    pub clients: Clients,
    pub limits: Limits,
    pub log: Log,
    pub proxies: Proxies,
    pub docker: Docker,
    pub update: Update,
    /// The tunnel through which services are published, if they are.
    pub cloudflare: Option<Cloudflare>,
    /// What is published that is no labelled service, in the file's order.
    pub published: Vec<PublishedAddress>,
    pub notify: Notify,
    /// What every service asks for where neither its table nor its labels say otherwise.
    pub defaults: Arc<Spec>,
    /// In the file's order.
    pub servers: Vec<Server>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub address: SocketAddr,
    pub proxy_protocol: ProxyProtocol,
    /// Whose PROXY headers are believed.
    pub trusted: Vec<IpNet>,
}

/// Whether connections begin with a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    Off,
    Optional,
    Required,
}

/// What becomes of the gate's own servers when it is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExit {
    Keep,
    Stop,
}

/// What a client gets that asks for a hostname nobody claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownHost {
    Answer,
    Close,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    pub level: LogLevel,
    pub format: LogFormat,
    /// What the gate is called on every line.
    pub name: Option<String>,
    /// Where it runs, on every line: `production`.
    pub environment: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Human,
    Json,
}

impl Config {
    /// With every path relative to the directory that the file is in.
    pub fn beside(mut self, directory: &Path) -> Self {
        self.data_dir = directory.join(self.data_dir);
        self.control = directory.join(self.control);
        self.proxies = self.proxies.beside(directory);
        self.api.beside(directory);
        self.update.beside(directory);
        if let Some(cloudflare) = &mut self.cloudflare {
            cloudflare.beside(directory);
        }
        let targets = self.notify.targets_file.take();
        self.notify.targets_file = targets.map(|path| directory.join(path));
        for server in &mut self.servers {
            if let Kind::Process(process) = &mut server.kind {
                process.directory = directory.join(&process.directory);
            }
        }
        self
    }

    /// What a service is taken to ask of its publication that does not say.
    pub fn publish_defaults(&self) -> Settings {
        self.cloudflare.as_ref().map(Cloudflare::defaults).unwrap_or_default()
    }

    /// What of it the fleet decides by.
    pub fn policy(&self) -> Policy {
        Policy {
            clients: self.clients.clone(),
            waking_at_once: self.limits.waking_at_once,
            awake_at_once: self.limits.awake_at_once,
            wake_rate: self.limits.wake,
            limbo: self.limits.limbo,
            trusted: self.limits.trusted_sources.clone(),
        }
    }
}

/// A usable configuration, and what in it was probably meant otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub config: Config,
    pub warnings: Vec<Problem>,
}

/// Reads a configuration. Overrides have the last word over the file, the last of them over the others.
///
/// # Errors
/// Everything that is wrong, in the file's order. Of a file that is not TOML only that is reported.
pub fn parse(text: &str, overrides: &[Override]) -> Result<Checked, Vec<Problem>> {
    let report = Report::new(text, overrides);
    let config = report.document().map(read);
    let (problems, warnings) = report.into_findings();
    match config {
        Some(config) if problems.is_empty() => Ok(Checked { config, warnings }),
        Some(_) | None => Err(problems),
    }
}

/// What a configuration says with these keys of its top alone. Of one that is not TOML that is nothing.
pub fn only(keys: &[&str], text: &str) -> String {
    let whole: toml::Table = text.parse().unwrap_or_default();
    whole.into_iter().filter(|(key, _)| keys.contains(&key.as_str())).collect::<toml::Table>().to_string()
}

/// As [`overlay`], for `settings` of keys in a `[publish.NAME]`.
pub(crate) fn overlay_publication(
    base: &Settings,
    settings: &[Override],
) -> (Settings, Vec<Problem>, Vec<Problem>) {
    let report = Report::new("", settings);
    let root = report.document();
    let read = root.map(|mut root| publish::read(&mut root.section_as("publish", keys::PUBLISH), base));
    let (problems, warnings) = report.into_findings();
    (read.unwrap_or_else(|| base.clone()), problems, warnings)
}

/// What `settings` of keys in `[defaults]` ask of one service, laid over `base`, and the problems and warnings.
pub(crate) fn overlay(base: &Spec, settings: &[Override]) -> (Spec, Vec<Problem>, Vec<Problem>) {
    let report = Report::new("", settings);
    let root = report.document();
    let spec = root.map(|mut root| spec::read(&mut root.section_as(keys::DEFAULTS, keys::SERVER), base));
    let (problems, warnings) = report.into_findings();
    (spec.unwrap_or_else(|| base.clone()), problems, warnings)
}

fn read(mut root: Section<'_, '_>) -> Config {
    let listeners = listeners(&mut root);
    let listening: Vec<SocketAddr> = listeners.iter().map(|listener| listener.address).collect();
    let docker = Docker::read(root.section("docker"));
    let update = Update::read(root.section("update"));
    let cloudflare = Cloudflare::read(root.section("cloudflare"));
    let published =
        publish::read_all(&mut root, &cloudflare.as_ref().map(Cloudflare::defaults).unwrap_or_default());
    let notify = Notify::read(root.section("notify"));
    let (defaults, servers) = server::read(&mut root, &listening);
    let data_dir = root.path("data_dir");
    let keeps = data_dir.as_deref() != Some(Path::new(OFF));
    let data_dir = data_dir.filter(|_| keeps).unwrap_or_else(|| "swarmgate-data".into());
    let control = if keeps { data_dir.join("control.sock") } else { "swarmgate.sock".into() };
    let config = Config {
        listeners,
        control: root.path("control").unwrap_or(control),
        data_dir,
        keeps,
        http: root.text("http", http).unwrap_or_else(|| Some(SocketAddr::from(([127, 0, 0, 1], 9250)))),
        api: Api::read(root.section("api")),
        on_exit: root
            .choice("on_exit", &[("keep", OnExit::Keep), ("stop", OnExit::Stop)])
            .unwrap_or(OnExit::Keep),
        drain: root.text("drain", value::duration).unwrap_or(Duration::from_secs(30)),
        session_server: root.text("session_server", session_server).unwrap_or_else(|| MOJANG.to_owned()),
        unknown_host: root
            .choice("unknown_host", &[("answer", UnknownHost::Answer), ("close", UnknownHost::Close)])
            .unwrap_or(UnknownHost::Answer),
        clients: spec::clients(&mut root, &Clients::default()),
        limits: Limits::read(root.section("limits")),
        log: log(root.section("log")),
        proxies: Proxies::read(root.section("proxies")),
        docker,
        update,
        cloudflare,
        published,
        notify,
        defaults: Arc::new(defaults),
        servers,
    };
    // Whoever has a token can make routes, and who has a tunnel may want nothing else.
    let is_meant = config.api.has_tokens() || config.cloudflare.is_some();
    if config.servers.is_empty() && config.docker.swarm == Use::Off && !is_meant {
        let fix = "add a [server.NAME] for each of your servers";
        root.warning("", Fault::new("there is no server, so every hostname is unknown", fix));
    }
    if !keeps && config.servers.iter().any(|server| matches!(server.kind, Kind::Process(_))) {
        let fix = "write a path there, or start the servers by other means";
        let what =
            format!("{OFF:?}, but servers with a command need a place for their output and their keepers");
        root.problem("data_dir", Fault::new(what, fix));
    }
    if !config.published.is_empty() && config.cloudflare.is_none() && !root.has("cloudflare") {
        let fix = "write a [cloudflare] with account, tunnel and token_file";
        root.warning("publish", Fault::new("nothing is published without a tunnel", fix));
    }
    root.finish();
    config
}

fn listeners(root: &mut Section<'_, '_>) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = Vec::new();
    let plain = root.filled_list("listen", value::socket_address);
    let none_written = !root.has("listen") && !root.has("listener");
    for (place, address) in plain.unwrap_or_default() {
        if listeners.iter().any(|listener| listener.address == address) {
            root.problem_at(&place, "listen", twice(address));
        }
        listeners.push(Listener { address, proxy_protocol: ProxyProtocol::Off, trusted: Vec::new() });
    }
    for section in root.sections("listener") {
        if let Some(listener) = listener(section, &listeners) {
            listeners.push(listener);
        }
    }
    if none_written {
        let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, value::MINECRAFT_PORT));
        listeners.push(Listener { address, proxy_protocol: ProxyProtocol::Off, trusted: Vec::new() });
    }
    listeners
}

fn listener(mut section: Section<'_, '_>, others: &[Listener]) -> Option<Listener> {
    let address = section.text("address", value::socket_address);
    match address {
        None if !section.has("address") => {
            let fix = "write address = \"[::]:25565\"";
            section.problem("", Fault::new("a listener needs an address", fix));
        }
        Some(address) if others.iter().any(|other| other.address == address) => {
            section.problem("address", twice(address));
        }
        Some(_) | None => {}
    }
    let modes = [
        ("off", ProxyProtocol::Off),
        ("optional", ProxyProtocol::Optional),
        ("required", ProxyProtocol::Required),
    ];
    let proxy_protocol = section.choice("proxy_protocol", &modes);
    let trusted = section.list("trusted", value::network);
    check_trust(&section, proxy_protocol, trusted.as_deref());
    section.finish();
    let (proxy_protocol, trusted) =
        (proxy_protocol.unwrap_or(ProxyProtocol::Off), trusted.unwrap_or_default());
    Some(Listener { address: address?, proxy_protocol, trusted })
}

fn check_trust(section: &Section<'_, '_>, mode: Option<ProxyProtocol>, trusted: Option<&[IpNet]>) {
    let trusted = trusted.unwrap_or_default();
    match mode {
        Some(ProxyProtocol::Optional | ProxyProtocol::Required) if trusted.is_empty() => {
            let fix = "write trusted = [\"...\"] with the addresses of the proxies in front of the gate";
            section.problem("trusted", Fault::new("no address is trusted, so no PROXY header is read", fix));
        }
        Some(ProxyProtocol::Optional | ProxyProtocol::Required) => {
            if let Some(all) = trusted.iter().find(|network| network.prefix_len() == 0) {
                let what = format!("{all} is everybody, so anyone can claim to be any client");
                section.warning("trusted", Fault::new(what, "list the proxies in front of the gate only"));
            }
        }
        Some(ProxyProtocol::Off) | None if !trusted.is_empty() && !section.has("proxy_protocol") => {
            let fix = "add proxy_protocol = \"optional\" or \"required\"";
            section.warning("trusted", Fault::new("has no effect while proxy_protocol is off", fix));
        }
        Some(ProxyProtocol::Off) | None => {}
    }
}

fn twice(address: SocketAddr) -> Fault {
    Fault::new(format!("{address} is listened on twice"), "remove one of them")
}

fn session_server(text: &str) -> Result<String, Fault> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let odd = |letter: char| letter.is_control() || " ?#@".contains(letter);
    match rest {
        Some(rest) if !rest.trim_matches('/').is_empty() && !rest.contains(odd) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        Some(_) | None => {
            Err(Fault::new(format!("{text:?} is not the base of a URL"), format!("write it as \"{MOJANG}\"")))
        }
    }
}

fn http(text: &str) -> Result<Option<SocketAddr>, Fault> {
    if text == OFF {
        return Ok(None);
    }
    value::socket_address(text)
        .map(Some)
        .map_err(|Fault { what, fix }| Fault::new(what, format!("{fix}, or \"off\"")))
}

fn log(mut section: Section<'_, '_>) -> Log {
    let levels = [
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
    let formats = [("human", LogFormat::Human), ("json", LogFormat::Json)];
    let log = Log {
        level: section.choice("level", &levels).unwrap_or(LogLevel::Info),
        format: section.choice("format", &formats).unwrap_or(LogFormat::Human),
        name: tag(&mut section, "name"),
        environment: tag(&mut section, "environment"),
    };
    section.finish();
    log
}

fn tag(section: &mut Section<'_, '_>, name: &'static str) -> Option<String> {
    section.text(name, |text| Ok(text.to_owned())).filter(|text| !text.is_empty())
}
