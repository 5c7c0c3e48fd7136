//! What a connector makes of a tunnel's configuration: whether it takes it, and where it sends a request.
//!
//! The rules are those that cloudflared was seen to have (`verdicts.json`); the API refuses what it would refuse.

use regex::Regex;
use serde_json::{Map, Value};

const SECONDS: [&str; 4] = ["connectTimeout", "tlsTimeout", "tcpKeepAlive", "keepAliveTimeout"];
const SWITCHES: [&str; 5] =
    ["noTLSVerify", "disableChunkedEncoding", "noHappyEyeballs", "http2Origin", "matchSNItoHost"];
const TEXTS: [&str; 4] = ["httpHostHeader", "originServerName", "caPool", "proxyType"];
const WITHOUT_ADDRESS: [&str; 4] = ["hello_world", "hello-world", "bastion", "socks-proxy"];

/// # Errors
/// Why a connector would not run with it.
pub fn validate(config: &Value) -> Result<(), String> {
    let rules = config["ingress"].as_array().ok_or("there are no ingress rules")?;
    origin_request(&config["originRequest"])?;
    if rules.is_empty() {
        return Err("the list of ingress rules is empty".into());
    }
    for (index, rule) in rules.iter().enumerate() {
        let number = index + 1;
        check(rule, number == rules.len()).map_err(|why| format!("rule #{number}: {why}"))?;
    }
    Ok(())
}

/// The index of the rule for this host and path, of a configuration that is valid.
pub fn route(config: &Value, host: &str, path: &str) -> Option<usize> {
    let rules = config["ingress"].as_array()?;
    rules
        .iter()
        .position(|rule| matches_host(text(rule, "hostname"), host) && matches_path(text(rule, "path"), path))
}

/// Whether it takes requests for the host, at whatever path.
pub(super) fn is_for(rule: &Value, host: &str) -> bool {
    matches_host(text(rule, "hostname"), host)
}

fn check(rule: &Value, last: bool) -> Result<(), String> {
    let (hostname, path) = (text(rule, "hostname"), text(rule, "path"));
    if hostname.contains(':') {
        return Err(format!("hostname {hostname:?} has a port"));
    }
    if hostname.strip_prefix('*').unwrap_or(hostname).contains('*') {
        return Err(format!("hostname {hostname:?} has a wildcard that is not its first character"));
    }
    let everything = matches!(hostname, "" | "*") && path.is_empty();
    match (everything, last) {
        (false, true) => return Err("the last rule must match everything: no hostname, no path".into()),
        (true, false) => {
            return Err(format!("it matches the hostname {hostname:?}: rules after it are never used"));
        }
        (true, true) | (false, false) => {}
    }
    Regex::new(path).map_err(|_| format!("path {path:?} is not a regular expression"))?;
    service(text(rule, "service"))?;
    origin_request(&rule["originRequest"])
}

fn service(service: &str) -> Result<(), String> {
    let bad = |why| Err(format!("service {service:?} {why}"));
    if let Some(status) = service.strip_prefix("http_status:") {
        return match status.parse() {
            Ok(100..=999_u16) => Ok(()),
            Ok(_) | Err(_) => bad("is not a status"),
        };
    }
    if WITHOUT_ADDRESS.contains(&service) || service.starts_with("unix:") || service.starts_with("unix+tls:")
    {
        return Ok(());
    }
    let Some((_, address)) = service.split_once("://") else { return bad("has no scheme") };
    let (address, _query) = address.split_once('?').unwrap_or((address, ""));
    if address.contains('/') {
        return bad("has a path");
    }
    let port = address
        .rsplit_once(']')
        .map_or(address, |(_, rest)| rest)
        .split_once(':')
        .map_or("", |(_, port)| port);
    if address.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return bad("has no host, or a port that is no number");
    }
    Ok(())
}

fn origin_request(settings: &Value) -> Result<(), String> {
    let nothing = Map::new();
    let settings = match settings {
        Value::Null => &nothing,
        Value::Object(settings) => settings,
        _ => return Err("originRequest is not an object".into()),
    };
    for (key, value) in settings {
        let fits = match key.as_str() {
            key if SECONDS.contains(&key) || key == "keepAliveConnections" => {
                value.is_i64() || value.is_u64()
            }
            key if SWITCHES.contains(&key) => value.is_boolean(),
            key if TEXTS.contains(&key) => value.is_string(),
            "access" if value["required"] == true => !text(value, "teamName").is_empty(),
            _ => true,
        };
        if !fits && !value.is_null() {
            return Err(format!("originRequest.{key} cannot be {value}"));
        }
    }
    Ok(())
}

fn matches_host(rule: &str, host: &str) -> bool {
    if matches!(rule, "" | "*") || rule == host {
        return true;
    }
    if let Some(suffix) = rule.strip_prefix('*') {
        return suffix.starts_with('.') && host.ends_with(suffix);
    }
    // The spellings of a rule are brought to one, those of a request are not.
    idna::domain_to_ascii(rule).is_ok_and(|rule| rule == host)
}

fn matches_path(rule: &str, path: &str) -> bool {
    Regex::new(rule).is_ok_and(|rule| rule.is_match(path))
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::verdicts;
    use super::*;

    #[test]
    fn every_verdict_is_as_the_connector_gave_it() {
        let verdicts = verdicts();
        assert_eq!((verdicts.accepted.len(), verdicts.rejected.len()), (32, 19));
        for (name, config) in &verdicts.accepted {
            assert_eq!(validate(config), Ok(()), "{name}");
        }
        for (name, config) in &verdicts.rejected {
            assert!(validate(config).is_err(), "{name}");
        }
    }

    #[test]
    fn every_request_goes_where_the_connector_sent_it() {
        let verdicts = verdicts();
        assert_eq!(verdicts.routed.len(), 27);
        for (config, url, rule) in &verdicts.routed {
            let (host, path) = super::super::split_url(url);
            assert_eq!(route(config, host, path), Some(*rule), "{url} of {config}");
        }
    }
}
