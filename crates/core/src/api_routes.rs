//! Routes that programs make over the API: a hostname, or the default, leads to an address.
//!
//! What labels and the configuration file say goes before them, so that a forgotten call never takes a hostname away
//! from a service that its owner has described; the route is kept, and leads again once nobody else claims it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::config::{Fault, leads_back, value};
use crate::name::HostPattern;
use crate::service::{Endpoint, Running, Service, ServiceId, Snapshot, SourceId, Spec, State};

pub const ID: SourceId = "api";

/// Routes at one time, the default aside.
pub const MOST: usize = 1000;

/// No hostname and no address is longer; what is need not be repeated to whoever sent it.
const LONGEST: usize = 300;

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiRoutes {
    hosts: BTreeMap<HostPattern, Endpoint>,
    default: Option<Endpoint>,
}

/// There are [`MOST`] already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// What leads to a backend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    Host(HostPattern),
    Default,
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(host) => host.fmt(f),
            Self::Default => f.write_str("the default route"),
        }
    }
}

impl ApiRoutes {
    pub fn set(&mut self, claim: Claim, backend: Endpoint) -> Result<(), Full> {
        match claim {
            Claim::Default => self.default = Some(backend),
            Claim::Host(host) => {
                if self.hosts.len() >= MOST && !self.hosts.contains_key(&host) {
                    return Err(Full);
                }
                self.hosts.insert(host, backend);
            }
        }
        Ok(())
    }

    /// Whether it was there.
    pub fn remove(&mut self, claim: &Claim) -> bool {
        match claim {
            Claim::Default => self.default.take().is_some(),
            Claim::Host(host) => self.hosts.remove(host).is_some(),
        }
    }

    pub fn backend(&self, claim: &Claim) -> Option<&Endpoint> {
        match claim {
            Claim::Default => self.default.as_ref(),
            Claim::Host(host) => self.hosts.get(host),
        }
    }

    /// One service for each backend, always running as far as the gate is concerned: whether it answers, dialling tells.
    pub fn snapshot(&self, defaults: &Spec) -> Snapshot {
        let mut backends: BTreeMap<&Endpoint, Spec> = BTreeMap::new();
        let bare = || Spec { hosts: Vec::new(), default: false, ..defaults.clone() };
        for (host, backend) in &self.hosts {
            backends.entry(backend).or_insert_with(bare).hosts.push(host.clone());
        }
        if let Some(backend) = &self.default {
            backends.entry(backend).or_insert_with(bare).default = true;
        }
        Snapshot::of(backends.into_iter().map(|(backend, spec)| service(backend, spec)).collect())
    }
}

/// What its routes' service is called.
pub fn service_of(backend: &Endpoint) -> ServiceId {
    ServiceId::new(ID, &backend.to_string())
}

fn service(backend: &Endpoint, spec: Spec) -> Service {
    let id = service_of(backend);
    let running = Running { run: Arc::clone(&id.name), endpoints: vec![backend.clone()] };
    Service {
        id,
        spec: Arc::new(spec),
        state: State::Running(running),
        scalable: false,
        problems: Vec::new(),
    }
}

pub fn host(text: &str) -> Result<HostPattern, Fault> {
    let fix = "write a name such as \"mc.example.com\" or \"*.example.com\"";
    bounded(text, fix).and_then(value::host_pattern)
}

/// `listening` are the gate's own addresses, which a route must not lead to.
pub fn backend(text: &str, listening: &[SocketAddr]) -> Result<Endpoint, Fault> {
    let fix = "write it as \"host:port\", such as \"lobby:25565\" or \"192.0.2.7:25566\"";
    let endpoint = bounded(text, fix).and_then(value::endpoint)?;
    if leads_back(&endpoint, listening) {
        return Err(Fault::new(format!("the gate itself listens on {endpoint}"), fix));
    }
    Ok(endpoint)
}

fn bounded<'t>(text: &'t str, fix: &str) -> Result<&'t str, Fault> {
    match text.len() {
        0 => Err(Fault::new("is empty", fix)),
        1..=LONGEST => Ok(text),
        length => Err(Fault::new(format!("is {length} bytes long"), fix)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(list: &[(&str, &str)]) -> ApiRoutes {
        let mut routes = ApiRoutes::default();
        for (name, address) in list {
            let claim = match *name {
                "" => Claim::Default,
                name => Claim::Host(host(name).unwrap()),
            };
            routes.set(claim, backend(address, &[]).unwrap()).unwrap();
        }
        routes
    }

    #[test]
    fn one_service_for_each_backend() {
        let routes = routes(&[
            ("a.example.com", "lobby:25565"),
            ("*.B.example.com", "lobby"),
            ("", "other:1"),
            ("c.example.com", "[::1]:7"),
            ("c.example.com", "other:1"),
        ]);
        let base = Spec { hosts: vec![host("x.example").unwrap()], wake: false, ..Spec::default() };
        let services = routes.snapshot(&base).services;
        let shown: Vec<_> = services
            .iter()
            .map(|service| {
                let hosts: Vec<_> = service.spec.hosts.iter().map(ToString::to_string).collect();
                (service.id.to_string(), hosts.join(" "), service.spec.default)
            })
            .collect();
        let expected = [
            ("api/lobby:25565", "a.example.com *.b.example.com", false),
            ("api/other:1", "c.example.com", true),
        ];
        assert_eq!(shown, expected.map(|(id, hosts, default)| (id.to_owned(), hosts.to_owned(), default)));
        assert!(services.iter().all(|service| !service.scalable && !service.spec.wake), "the defaults count");
    }

    #[test]
    fn what_is_removed_is_gone_once() {
        let mut routes = routes(&[("a.example.com", "lobby:1"), ("", "lobby:1")]);
        let claim = Claim::Host(host("A.example.com.").unwrap());
        assert!(routes.remove(&claim) && !routes.remove(&claim));
        assert!(routes.remove(&Claim::Default) && !routes.remove(&Claim::Default));
        assert_eq!(routes, ApiRoutes::default());
    }

    #[test]
    fn there_is_an_end_to_them() {
        let mut routes = ApiRoutes::default();
        let at = |number: usize| Claim::Host(host(&format!("h{number}.example")).unwrap());
        let lobby = backend("lobby", &[]).unwrap();
        for number in 0..MOST {
            routes.set(at(number), lobby.clone()).unwrap();
        }
        assert_eq!(routes.set(at(MOST), lobby.clone()), Err(Full));
        assert_eq!(
            routes.set(at(0), backend("other", &[]).unwrap()),
            Ok(()),
            "those that are there may change"
        );
        assert_eq!(routes.set(Claim::Default, lobby), Ok(()));
    }

    #[test]
    fn what_is_no_route_says_why() {
        let long = "x".repeat(5000);
        for (text, what) in [
            ("", "is empty"),
            ("a b", "is not a hostname"),
            ("mc.example.com:25565", "is not a hostname"),
            ("a.*.example", "is not a hostname"),
            (long.as_str(), "is 5000 bytes long"),
        ] {
            let fault = host(text).unwrap_err();
            assert!(fault.what.contains(what) && fault.what.len() < 200, "{fault:?}");
        }
        let own: [SocketAddr; 1] = ["[::]:25565".parse().unwrap()];
        for (text, what) in [
            ("", "is empty"),
            ("http://lobby:1", "is not an address"),
            ("lobby:0", "is not a port"),
            ("127.0.0.1", "the gate itself listens on 127.0.0.1:25565"),
            (long.as_str(), "is 5000 bytes long"),
        ] {
            let fault = backend(text, &own).unwrap_err();
            assert!(fault.what.contains(what) && !fault.fix.is_empty(), "{fault:?}");
        }
        assert!(backend("127.0.0.1:25566", &own).is_ok());
    }
}
