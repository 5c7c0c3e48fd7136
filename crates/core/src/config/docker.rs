//! Where Docker's engine is, and what is taken from it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::problem::Fault;
use super::reader::Section;
use super::value;

/// The engine's own 10 s are too short for a world of any size.
pub const DOCKER_GRACE: Duration = Duration::from_secs(90);

/// `[docker]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Docker {
    /// Whether services of a Swarm are routed, woken and put to sleep.
    pub swarm: Use,
    /// Whether plain containers are.
    pub containers: Use,
    /// `None`: what `DOCKER_HOST` says, or the usual socket.
    pub host: Option<EngineHost>,
    /// On which network tasks and containers are dialled that have no label about it.
    pub network: Option<String>,
    /// How long a plain container may take to stop that has no label about it.
    pub grace: Duration,
}

/// Whether a source of services is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// If what it needs is there.
    Auto,
    On,
    Off,
}

/// Where an engine listens. Displayed as in `DOCKER_HOST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineHost {
    Unix(PathBuf),
    /// `host:port`, spoken to without TLS.
    Tcp(String),
}

impl Docker {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let uses = [("auto", Use::Auto), ("on", Use::On), ("off", Use::Off)];
        let docker = Self {
            swarm: section.choice("swarm", &uses).unwrap_or(Use::Auto),
            containers: section.choice("containers", &uses).unwrap_or(Use::Auto),
            host: section.text("host", EngineHost::parse),
            network: section.text("network", |text| Ok(text.to_owned())).filter(|text| !text.is_empty()),
            grace: section.text("grace", value::duration).unwrap_or(DOCKER_GRACE),
        };
        section.finish();
        docker
    }
}

impl Default for EngineHost {
    fn default() -> Self {
        Self::Unix("/var/run/docker.sock".into())
    }
}

impl EngineHost {
    const PORT: u16 = 2375;

    /// `unix:///path` or `tcp://host:port`, as in `DOCKER_HOST`.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let fix = "write unix:///var/run/docker.sock or tcp://host:2375";
        match text.trim().split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(("tcp" | "http", address)) => {
                let address = address.trim_end_matches('/');
                if address.is_empty() || address.contains(['/', '@']) {
                    return Err(Fault::new(format!("{text:?} has no host, or more than one"), fix));
                }
                let host = address.rsplit_once(']').map_or(address, |(_, after)| after);
                Ok(Self::Tcp(match host.contains(':') {
                    true => address.to_owned(),
                    false => format!("{address}:{}", Self::PORT),
                }))
            }
            Some(("https" | "ssh", _)) => Err(Fault::new(
                format!("{text:?} asks for an encrypted connection, which the gate does not make"),
                "use the socket of this machine, or a socket proxy on a private network as tcp://host:2375",
            )),
            Some(_) | None => Err(Fault::new(format!("{text:?} is not where an engine can be reached"), fix)),
        }
    }
}

impl fmt::Display for EngineHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_written_as_in_docker_host() {
        for (text, host) in [
            ("unix:///run/docker.sock", "unix:///run/docker.sock"),
            ("tcp://proxy", "tcp://proxy:2375"),
            ("tcp://proxy:2376/", "tcp://proxy:2376"),
            ("http://192.0.2.1:80", "tcp://192.0.2.1:80"),
            ("tcp://[2001:db8::1]", "tcp://[2001:db8::1]:2375"),
            ("tcp://[2001:db8::1]:1", "tcp://[2001:db8::1]:1"),
        ] {
            assert_eq!(EngineHost::parse(text).map(|host| host.to_string()), Ok(host.to_owned()));
        }
    }

    #[test]
    fn what_cannot_be_reached_says_what_can() {
        for (text, what) in [
            ("", "not where an engine"),
            ("/var/run/docker.sock", "not where an engine"),
            ("unix://docker.sock", "not where an engine"),
            ("npipe:////./pipe/docker_engine", "not where an engine"),
            ("tcp://", "no host"),
            ("https://host:2376", "encrypted"),
            ("ssh://host", "encrypted"),
        ] {
            let fault = EngineHost::parse(text).unwrap_err();
            assert!(fault.what.contains(what) && fault.fix.contains("tcp://host:2375"), "{fault:?}");
        }
    }
}
