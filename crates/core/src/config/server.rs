//! `[defaults]` and `[server.NAME]`: what each server asks for, laid over what all of them do.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Component, PathBuf};
use std::sync::Arc;

use super::keys;
use super::problem::{Fault, Place};
use super::process::{self, Manners, ProcessServer};
use super::reader::Section;
use super::spec;
use super::value;
use crate::name::HostPattern;
use crate::service::{Endpoint, Spec};

const LONGEST_NAME: usize = 63;

/// One `[server.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub name: Arc<str>,
    pub spec: Arc<Spec>,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Runs on its own; the gate only dials it. The first endpoint that answers is used.
    File { endpoints: Vec<Endpoint> },
    /// A command that the gate starts and stops.
    Process(ProcessServer),
}

/// Reads `[defaults]`, then every server over it.
pub(super) fn read(root: &mut Section<'_, '_>, listening: &[SocketAddr]) -> (Spec, Vec<Server>) {
    let mut defaults = root.section_as("defaults", keys::SERVER);
    let base = spec::read(&mut defaults, &Spec::default());
    let manners = Manners::read(&mut defaults, &Manners::default());
    for name in keys::ONE_SERVER_ONLY {
        defaults.misplaced(name, Fault::new("is each server's own", "write it in [server.NAME]"));
    }
    defaults.finish();

    let mut claims = Claims::default();
    let servers = root.section("server").named_sections(keys::SERVER);
    let servers = servers.into_iter().filter_map(|(name, mut section)| {
        let server = server(&name, &mut section, &base, &manners, &mut claims);
        if let Some(server) = &server {
            claims.check_addresses(server, &section, listening);
        }
        section.finish();
        server
    });
    let servers = servers.collect();
    (base, servers)
}

fn server(
    name: &str,
    section: &mut Section<'_, '_>,
    base: &Spec,
    manners: &Manners,
    claims: &mut Claims,
) -> Option<Server> {
    check_name(name, section);
    let hosts = section.placed_list("hosts", value::host_pattern).unwrap_or_default();
    let default = section.boolean("default").unwrap_or(false);
    let mut spec = spec::read(section, base);
    spec.default = default;
    spec.hosts = claims.claim_hosts(name, hosts, section);
    if default {
        claims.claim_default(name, section);
        if spec.hosts.is_empty() && spec.wake && section.has("command") && !section.has("default_wakes") {
            let fix = "write default_wakes = true, or default_wakes = false if only its owner starts it";
            section.warning("default", Fault::new("joins by the default route alone do not start it", fix));
        }
    } else if section.has("default_wakes") && spec.default_wakes {
        let fault = Fault::new("has no effect without default = true", "add default = true, or remove it");
        section.warning("default_wakes", fault);
    }
    if spec.hosts.is_empty() && !default && !section.has("hosts") {
        let fix = "write hosts = [\"mc.example.com\"], or default = true";
        section.warning("", Fault::new("no hostname leads to this server", fix));
    }

    let name: Arc<str> = name.into();
    let spec = Arc::new(spec);
    let kind = kind(&name, section, &spec, manners)?;
    Some(Server { name, spec, kind })
}

fn kind(name: &Arc<str>, section: &mut Section<'_, '_>, spec: &Arc<Spec>, manners: &Manners) -> Option<Kind> {
    if section.has("command") {
        return process::read(section, name, spec, manners).map(Kind::Process);
    }
    for key in process::KEYS {
        let fix = "add a command, or remove it";
        section.misplaced(key, Fault::new("means nothing for a server that the gate does not start", fix));
    }
    for key in ["wake", "sleep", "idle", "start_timeout", "cooldown", "players"] {
        if section.has(key) {
            let what = "has no effect: the gate neither starts nor stops a server that has no command";
            section.warning(key, Fault::new(what, "remove it, or add a command"));
        }
    }
    let endpoints = section.filled_list("address", value::endpoint);
    if !section.has("address") {
        let fix = "write address = \"host:25565\" for a server that runs by itself, or command = [\"java\", ...] \
                   for one that the gate starts";
        section.problem("", Fault::new("neither an address nor a command says where this server is", fix));
    }
    let endpoints = endpoints?.into_iter().map(|(_, endpoint)| endpoint).collect();
    Some(Kind::File { endpoints })
}

/// The name becomes part of file names, paths and metric labels.
fn check_name(name: &str, section: &Section<'_, '_>) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(plain) {
        let what = format!("{name:?} cannot be a server's name");
        let fix = format!("use up to {LONGEST_NAME} letters, digits, '-' and '_', as in [server.survival]");
        section.problem("", Fault::new(what, fix));
    }
}

/// What only one server may have, by who has it.
#[derive(Debug, Default)]
struct Claims {
    hosts: HashMap<HostPattern, String>,
    default: Option<String>,
    directories: HashMap<PathBuf, Arc<str>>,
    addresses: HashMap<Endpoint, Arc<str>>,
}

impl Claims {
    /// The hosts that nobody else has, each once.
    fn claim_hosts(
        &mut self,
        name: &str,
        hosts: Vec<(Place, HostPattern)>,
        section: &Section<'_, '_>,
    ) -> Vec<HostPattern> {
        let mut own = Vec::new();
        for (place, host) in hosts {
            match self.hosts.get(&host) {
                Some(other) if other == name => {}
                Some(other) => {
                    let what = format!("\"{host}\" leads to server.{other} already");
                    let fix = "a hostname leads to one server: remove it from one of them";
                    section.problem_at(&place, "hosts", Fault::new(what, fix));
                }
                None => {
                    self.hosts.insert(host.clone(), name.to_owned());
                    own.push(host);
                }
            }
        }
        own
    }

    fn claim_default(&mut self, name: &str, section: &Section<'_, '_>) {
        match &self.default {
            Some(other) => {
                let what = format!("server.{other} is the default already");
                section.problem("default", Fault::new(what, "leave one default, or none"));
            }
            None => self.default = Some(name.to_owned()),
        }
    }

    fn check_addresses(&mut self, server: &Server, section: &Section<'_, '_>, listening: &[SocketAddr]) {
        let endpoints = match &server.kind {
            Kind::File { endpoints } => endpoints.as_slice(),
            Kind::Process(process) => std::slice::from_ref(&process.endpoint),
        };
        if let Some(endpoint) = endpoints.iter().find(|endpoint| leads_back(endpoint, listening)) {
            let what = format!("the gate itself listens on {endpoint}");
            let fix = "let the server listen on another port (server-port in server.properties) and write it here, \
                       such as address = \"127.0.0.1:25566\"";
            section.problem("address", Fault::new(what, fix));
        }
        let Kind::Process(process) = &server.kind else { return };
        if let Some(other) = self.addresses.insert(process.endpoint.clone(), server.name.clone()) {
            let what = format!("server.{other} listens on {} too", process.endpoint);
            section.problem("address", Fault::new(what, "give each server a port of its own"));
        }
        // `a/./b/` and `a/b` are one directory.
        let directory: PathBuf =
            process.directory.components().filter(|part| *part != Component::CurDir).collect();
        if let Some(other) = self.directories.insert(directory, server.name.clone()) {
            let fix = "give each server a directory of its own, or they damage the world";
            section.problem("directory", Fault::new(format!("server.{other} runs in it too"), fix));
        }
    }
}

/// Whether dialling it reaches one of the gate's own listeners, as far as the text shows.
pub fn leads_back(endpoint: &Endpoint, listening: &[SocketAddr]) -> bool {
    let dialled = match endpoint.host.as_ref() {
        "localhost" => Some(IpAddr::from(Ipv4Addr::LOCALHOST)),
        host => host.parse::<IpAddr>().ok(),
    };
    let Some(dialled) = dialled else { return false };
    listening.iter().any(|listener| {
        let here = listener.ip() == dialled
            || (listener.ip().is_unspecified() && (dialled.is_loopback() || dialled.is_unspecified()));
        here && listener.port() == endpoint.port
    })
}
