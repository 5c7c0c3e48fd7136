//! The keys of a publication, in `[publish.NAME]` and in labels.

use serde_json::Value;

use super::problem::Fault;
use super::reader::Section;
use super::value;
use crate::name::{HostName, HostPattern};
use crate::publish::rule::check_path;
use crate::publish::{Origin, Publication, Settings, Target};

/// How the connector can speak to a service.
const SCHEMES: [(&str, &str); 8] = [
    ("http", "http"),
    ("https", "https"),
    ("ws", "ws"),
    ("wss", "wss"),
    ("tcp", "tcp"),
    ("ssh", "ssh"),
    ("rdp", "rdp"),
    ("smb", "smb"),
];

/// One `[publish.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedAddress {
    pub name: String,
    pub publication: Publication,
}

/// Reads every `[publish.NAME]` over `base`.
pub(super) fn read_all(root: &mut Section<'_, '_>, base: &Settings) -> Vec<PublishedAddress> {
    let sections = root.section("publish").named_sections(super::keys::PUBLISH);
    let read = sections.into_iter().map(|(name, mut section)| {
        let hosts = section.filled_list("hosts", host).unwrap_or_default();
        let hosts = hosts.into_iter().map(|(_, host)| host).collect();
        if !section.has("hosts") {
            let fix = "write hosts = [\"app.example.com\"]";
            section.problem("", Fault::new("no hostname leads to it", fix));
        }
        let target = section.text("address", target);
        if !section.has("address") {
            let fix = "write address = \"host:port\", as the connector reaches it";
            section.problem("", Fault::new("nothing says where it is", fix));
        }
        let settings = read(&mut section, base);
        section.finish();
        PublishedAddress { name, publication: Publication { hosts, target, settings, held: None } }
    });
    read.collect()
}

/// What the section asks for; where it is silent, `base` stands.
pub(super) fn read(section: &mut Section<'_, '_>, base: &Settings) -> Settings {
    Settings {
        scheme: section.choice("scheme", &SCHEMES).unwrap_or(base.scheme),
        path: section.text("path", path).unwrap_or_else(|| base.path.clone()),
        access: section.list("access", |text| Ok(text.to_owned())).unwrap_or_else(|| base.access.clone()),
        dns: section.boolean("dns").unwrap_or(base.dns),
        zone: section.text("zone", zone).map_or_else(|| base.zone.clone(), Some),
        adopt: section.boolean("adopt").unwrap_or(base.adopt),
        delete_dns: section.boolean("delete_dns_on_removal").unwrap_or(base.delete_dns),
        origin: origin(section.section("origin"), &base.origin),
    }
}

fn origin(mut section: Section<'_, '_>, base: &Origin) -> Origin {
    let mut options = base.clone();
    for (key, option) in [
        ("connect_timeout", "connectTimeout"),
        ("tls_timeout", "tlsTimeout"),
        ("tcp_keep_alive", "tcpKeepAlive"),
        ("keep_alive_timeout", "keepAliveTimeout"),
    ] {
        let seconds = section.text(key, seconds).map(Value::from);
        options.0.extend(seconds.map(|seconds| (option, seconds)));
    }
    let connections = section.number::<u32>("keep_alive_connections", 1).map(Value::from);
    options.0.extend(connections.map(|count| ("keepAliveConnections", count)));
    for (key, option) in [
        ("no_happy_eyeballs", "noHappyEyeballs"),
        ("match_sni_to_host", "matchSNItoHost"),
        ("no_tls_verify", "noTLSVerify"),
        ("disable_chunked_encoding", "disableChunkedEncoding"),
        ("http2", "http2Origin"),
    ] {
        let switch = section.boolean(key).map(Value::from);
        options.0.extend(switch.map(|switch| (option, switch)));
    }
    for (key, option) in
        [("host_header", "httpHostHeader"), ("server_name", "originServerName"), ("ca_pool", "caPool")]
    {
        let text = section.text(key, |text| Ok(Value::from(text)));
        options.0.extend(text.map(|text| (option, text)));
    }
    let proxies = [("off", ""), ("socks", "socks")];
    let proxy = section.choice("proxy_type", &proxies).map(Value::from);
    options.0.extend(proxy.map(|proxy| ("proxyType", proxy)));
    section.finish();
    options
}

/// A name under which browsers find the service: fully qualified, never an address.
pub fn host(text: &str) -> Result<HostPattern, Fault> {
    let fix = "write a name such as \"app.example.com\" or \"*.example.com\", without scheme, port or path";
    let pattern = HostPattern::parse(text)
        .map_err(|error| Fault::new(format!("{text:?} is not a hostname: {error}"), fix))?;
    let (HostPattern::Exact(name) | HostPattern::Below(name)) = &pattern;
    let is_address = name.as_str().parse::<std::net::IpAddr>().is_ok();
    if is_address || !name.as_str().contains('.') {
        return Err(Fault::new(format!("{text:?} is not a name below a domain"), fix));
    }
    Ok(pattern)
}

/// A port of a service.
pub fn port(text: &str) -> Result<u16, Fault> {
    let port = text.trim().parse().ok().filter(|port| *port != 0);
    port.ok_or_else(|| Fault::new(format!("{text:?} is not a port"), "write a number from 1 to 65535"))
}

/// The name or address at which the connector finds a service.
pub fn address(text: &str) -> Result<String, Fault> {
    let fix = "write a name such as \"web\" or \"tasks.web\", or an IP address, without scheme and port";
    let name = HostName::parse(text)
        .map_err(|error| Fault::new(format!("{text:?} is not where a service can be: {error}"), fix))?;
    Ok(name.as_str().to_owned())
}

fn target(text: &str) -> Result<Target, Fault> {
    let bad = || {
        let fix = "write it as \"host:port\", such as \"web:8080\" or \"[2001:db8::7]:80\"";
        Fault::new(format!("{text:?} is not an address of a service"), fix)
    };
    let (host, number) = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).ok_or_else(bad)?;
    if text.contains('/') || (host.contains(':') && !host.starts_with('[')) {
        return Err(bad());
    }
    Ok(Target { host: address(host)?, port: port(number)? })
}

/// Empty takes back what the defaults say.
fn path(text: &str) -> Result<Option<String>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    check_path(text).map_err(|why| {
        let fix = "write a regular expression such as \"^/api(/|$)\"";
        Fault::new(format!("{text:?} is not a path: {why}"), fix)
    })?;
    Ok(Some(text.to_owned()))
}

fn zone(text: &str) -> Result<HostName, Fault> {
    HostName::parse(text).map_err(|error| {
        let fix = "write the name of the zone at Cloudflare, such as \"example.com\"";
        Fault::new(format!("{text:?} is not a zone: {error}"), fix)
    })
}

/// The connector counts in whole seconds.
fn seconds(text: &str) -> Result<u64, Fault> {
    let length = value::duration(text)?;
    if length.subsec_nanos() > 0 || length.is_zero() {
        let what = format!("{text:?} is not a whole number of seconds");
        return Err(Fault::new(what, "write \"1s\" or more, without a fraction"));
    }
    Ok(length.as_secs())
}
