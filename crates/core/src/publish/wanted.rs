//! What is to be published under which hostname, from what all services ask for.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{Key, Rule, is_every};
use super::{Publication, Published};
use crate::name::{HostName, HostPattern};
use crate::service::ServiceId;

/// Every hostname that a service asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    pub hosts: BTreeMap<HostPattern, Host>,
    /// Services whose hostnames are not all understood: none of those that they had counts as gone.
    pub unclear: BTreeSet<ServiceId>,
    /// What services ask for that others have, each a sentence.
    pub conflicts: Vec<(ServiceId, String)>,
}

/// How one hostname is to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The service that had it first; others may have other paths of it.
    pub service: ServiceId,
    /// All of them, as they are displayed.
    pub services: BTreeSet<String>,
    /// At least one, unless it is held.
    pub rules: Vec<Rule>,
    /// Policies of Access by id or name, in order.
    pub access: Vec<String>,
    pub dns: bool,
    pub zone: Option<HostName>,
    pub adopt: bool,
    pub delete_dns: bool,
    /// Why nothing about it is to be changed now.
    pub held: Option<String>,
}

impl Wanted {
    /// Of two services that ask for the same, the one that `holders` names first for the hostname goes first; without
    /// one, the order of their names decides. While one of those does not ask, nobody else gets the hostname: it may be
    /// being made anew.
    pub fn new(published: &[Published], holders: impl Fn(&HostPattern) -> Vec<String>) -> Self {
        let mut claims: BTreeMap<&HostPattern, Vec<(&ServiceId, &Publication)>> = BTreeMap::new();
        for service in published {
            for publication in &service.publications {
                for host in &publication.hosts {
                    claims.entry(host).or_default().push((&service.service, publication));
                }
            }
        }
        let unclear = published.iter().filter(|service| service.unclear);
        let mut wanted =
            Self { unclear: unclear.map(|service| service.service.clone()).collect(), ..Self::default() };
        for (host, mut claims) in claims {
            let holders = holders(host);
            let place = |service: &ServiceId| {
                let service = service.to_string();
                holders.iter().position(|holder| *holder == service).unwrap_or(holders.len())
            };
            claims.sort_by_key(|(service, _)| (place(service), *service));
            let asks = |holder: &&String| claims.iter().any(|(service, _)| service.to_string() == **holder);
            if let Some(away) = holders.iter().find(|holder| !asks(holder)) {
                let (known, new) =
                    claims.into_iter().partition(|(service, _)| place(service) < holders.len());
                claims = known;
                let new: Vec<(&ServiceId, &Publication)> = new;
                wanted.conflicts.extend(new.into_iter().map(|(service, _)| {
                    let what =
                        format!("{host}: {away} had it a moment ago and may come back; if it does not, wait");
                    (service.clone(), what)
                }));
            }
            wanted.claim(host, &claims);
        }
        wanted
    }

    fn claim(&mut self, name: &HostPattern, claims: &[(&ServiceId, &Publication)]) {
        let Some((first, publication)) = claims.first() else { return };
        let settings = &publication.settings;
        let mut host = Host {
            service: (*first).clone(),
            services: BTreeSet::new(),
            rules: Vec::new(),
            access: settings.access.clone(),
            dns: settings.dns,
            zone: settings.zone.clone(),
            adopt: settings.adopt,
            delete_dns: settings.delete_dns,
            held: None,
        };
        let mut holders: BTreeMap<Key, &ServiceId> = BTreeMap::new();
        for (service, publication) in claims {
            let settings = &publication.settings;
            let key = Key { host: name.clone(), path: settings.path.clone().filter(|path| !is_every(path)) };
            if let Some(holder) = holders.get(&key) {
                let what = match *holder == *service {
                    true => "it is asked for twice; leave one, or give each a path of its own".to_owned(),
                    false => format!("{holder} has it already and keeps it; give one of them another"),
                };
                self.conflicts.push(((*service).clone(), format!("{key}: {what}")));
                continue;
            }
            if host.access.is_empty() {
                host.access.clone_from(&settings.access);
            } else if !settings.access.is_empty() && settings.access != host.access {
                let what = format!(
                    "{name}: {} protects it by other policies; a hostname has one list",
                    host.service
                );
                self.conflicts.push(((*service).clone(), what));
                continue;
            }
            host.dns |= settings.dns;
            host.adopt |= settings.adopt;
            host.zone = host.zone.or_else(|| settings.zone.clone());
            host.held = host.held.or_else(|| publication.held.clone());
            holders.insert(key.clone(), service);
            host.services.insert(service.to_string());
            let target = publication.target.as_ref();
            host.rules.extend(target.map(|target| Rule::new(key, settings.scheme, target, &settings.origin)));
        }
        self.hosts.insert(name.clone(), host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::{Settings, Target};

    fn asks(service: &str, host: &str, path: &str, access: &[&str]) -> Published {
        let settings = Settings {
            path: (!path.is_empty()).then(|| path.to_owned()),
            access: access.iter().map(|policy| (*policy).to_owned()).collect(),
            ..Settings::default()
        };
        let publication = Publication {
            hosts: vec![HostPattern::parse(host).unwrap()],
            target: Some(Target { host: service.to_owned(), port: 80 }),
            settings,
            held: None,
        };
        let service = ServiceId::new("swarm", service);
        Published { service, publications: vec![publication], unclear: false, problems: Vec::new() }
    }

    fn services(wanted: &Wanted) -> Vec<String> {
        wanted.hosts.values().flat_map(|host| &host.rules).map(|rule| rule.service.clone()).collect()
    }

    #[test]
    fn who_has_a_hostname_keeps_it_and_who_is_first_by_name_gets_it() {
        let both = [asks("b", "x.example", "", &[]), asks("a", "x.example", "", &[])];
        let fresh = Wanted::new(&both, |_| Vec::new());
        assert_eq!(services(&fresh), ["http://a:80"]);
        let held = Wanted::new(&both, |_| vec!["swarm/b".to_owned()]);
        assert_eq!(services(&held), ["http://b:80"]);
        let (who, what) = &held.conflicts[0];
        assert_eq!((who.to_string(), held.conflicts.len()), ("swarm/a".to_owned(), 1));
        assert!(what.contains("swarm/b has it already"), "{what}");
    }

    #[test]
    fn services_may_share_a_hostname_by_paths_and_one_protects_all_of_it() {
        let wanted = Wanted::new(
            &[asks("a", "x.example", "", &[]), asks("b", "x.example", "^/b", &["staff"])],
            |_| Vec::new(),
        );
        assert_eq!(services(&wanted), ["http://a:80", "http://b:80"]);
        let host = wanted.hosts.values().next().unwrap();
        assert_eq!(
            (host.access.as_slice(), host.service.to_string()),
            (&["staff".to_owned()][..], "swarm/a".into())
        );
        let wanted = Wanted::new(
            &[asks("a", "x.example", "", &["all"]), asks("b", "x.example", "^/b", &["staff"])],
            |_| Vec::new(),
        );
        assert_eq!(services(&wanted), ["http://a:80"], "it is not known by which of them");
        assert_eq!(wanted.conflicts.len(), 1);
    }

    #[test]
    fn one_that_is_not_understood_holds_its_hostname() {
        let mut odd = asks("a", "x.example", "", &[]);
        odd.publications[0].held = Some("its port".to_owned());
        let wanted = Wanted::new(&[odd, asks("b", "y.example", "", &[])], |_| Vec::new());
        let held: Vec<_> = wanted.hosts.values().map(|host| host.held.as_deref()).collect();
        assert_eq!(held, [Some("its port"), None]);
    }
}
