//! Where to dial a container: on a network that the gate is on too, or by a port published on their machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::api::{Attachment, Container, PortBinding};
use crate::service::Endpoint;
use crate::state::{OwnNetwork, names};

/// Where the gate itself is, seen from the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// On the engine's machine, or in a container that uses the machine's network.
    Machine,
    /// In a container on these networks; `None` if they cannot be told.
    Container(Option<&'a [OwnNetwork]>),
}

/// What decides between several networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The network a label asks for: its id, its name with or without the compose project's prefix, or an alias of
    /// the container on it.
    pub asked: Option<&'a str>,
    pub place: Place<'a>,
}

/// Addresses to dial, in order of preference, or why there are none (a sentence with the fix).
pub fn endpoints(container: &Container, choice: Choice<'_>, port: u16) -> Result<Vec<Endpoint>, String> {
    if container.host_config.network_mode == "host" {
        return match choice.place {
            Place::Machine => Ok(vec![Endpoint { host: "127.0.0.1".into(), port }]),
            Place::Container(_) => Err(
                "it uses the machine's own network, where the gate, in a container, cannot dial it: attach both to \
                 one network, or run the gate with network_mode: host"
                    .to_owned(),
            ),
        };
    }
    let networks = container.network_settings.networks.iter();
    let fits = |(name, on): &(&String, &Attachment)| {
        let asked = choice.asked.is_none_or(|asked| goes_by(container, name, on, asked));
        let shared = match choice.place {
            Place::Machine | Place::Container(None) => true,
            Place::Container(Some(own)) => own.iter().any(|own| own.id == on.network),
        };
        asked && shared
    };
    let addresses = networks.filter(fits).flat_map(|(_, on)| [&on.ipv4, &on.ipv6]);
    let inside = addresses
        .filter(|address| !address.is_empty())
        .map(|address| Endpoint { host: address.as_str().into(), port });
    let mut endpoints: Vec<Endpoint> = inside.collect();
    if choice.place == Place::Machine {
        endpoints.extend(published(container, port));
    }
    if endpoints.is_empty() { Err(none(container, choice)) } else { Ok(endpoints) }
}

/// Where the machine passes its game's port on.
fn published(container: &Container, port: u16) -> impl Iterator<Item = Endpoint> {
    let bindings = container.network_settings.ports.get(&format!("{port}/tcp"));
    bindings.into_iter().flatten().flatten().filter_map(|PortBinding { host_ip, host_port }| {
        let host = match host_ip.parse() {
            Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) | Err(_) => Ipv4Addr::LOCALHOST.into(),
            Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Ipv6Addr::LOCALHOST.into(),
            Ok(address) => address,
        };
        Some(Endpoint { host: host.to_string().into(), port: host_port.parse().ok()? })
    })
}

fn goes_by(container: &Container, name: &str, on: &Attachment, asked: &str) -> bool {
    let project = container.compose_project();
    let in_its_project =
        project.and_then(|project| name.strip_prefix(project)?.strip_prefix('_')) == Some(asked);
    on.network == asked || name == asked || in_its_project || on.aliases.iter().any(|alias| alias == asked)
}

fn none(container: &Container, choice: Choice<'_>) -> String {
    let networks = &container.network_settings.networks;
    let on = names(networks.keys().map(String::as_str));
    let exists = |asked| networks.iter().any(|(name, on)| goes_by(container, name, on, asked));
    match (choice.asked, choice.place) {
        _ if container.host_config.network_mode.starts_with("container:") => {
            "it uses the network of another container: give that one the labels, or give this one a network"
                .into()
        }
        (Some(asked), _) if !exists(asked) => {
            format!("it is not on the network {asked:?} that is asked for; it is on: {on}")
        }
        (Some(asked), Place::Container(Some(own))) => {
            let own = names(own.iter().map(|own| own.name.as_str()));
            format!(
                "the gate is not on the network {asked:?} that is asked for, but on: {own}; attach the gate to it"
            )
        }
        (None, Place::Container(Some(own))) => {
            let own = names(own.iter().map(|own| own.name.as_str()));
            format!("the gate is on none of its networks ({on}), but on: {own}; attach both to one network")
        }
        (_, Place::Machine | Place::Container(None)) => {
            format!("it has no address to dial (it is on: {on}): attach it to a network")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container() -> Container {
        serde_json::from_value(json!({
            "Config": {"Labels": {"com.docker.compose.project": "prod"}},
            "HostConfig": {"NetworkMode": "prod_zone"},
            "NetworkSettings": {
                "Networks": {
                    "prod_zone": {"NetworkID": "z1", "IPAddress": "10.1.0.9", "Aliases": ["lobby"]},
                    "mc": {"NetworkID": "m2", "IPAddress": "10.2.0.9", "GlobalIPv6Address": "fd00::9", "Aliases": null},
                    "six": {"NetworkID": "s3", "IPAddress": "", "GlobalIPv6Address": "fd01::9"},
                },
                "Ports": {"25565/tcp": [{"HostIp": "0.0.0.0", "HostPort": "25570"}, {"HostIp": "::", "HostPort": "25570"}],
                    "25575/tcp": null},
            },
        }))
        .unwrap()
    }

    fn own(id: &str) -> OwnNetwork {
        OwnNetwork { id: id.into(), name: format!("{id}-net") }
    }

    fn dial(container: &Container, asked: Option<&str>, place: Place<'_>) -> Result<String, String> {
        let found = endpoints(container, Choice { asked, place }, 25565)?;
        Ok(found.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_network_goes_by_many_names() {
        for (asked, address) in [
            ("z1", "10.1.0.9:25565"),
            ("prod_zone", "10.1.0.9:25565"),
            ("zone", "10.1.0.9:25565"),
            ("lobby", "10.1.0.9:25565"),
            ("mc", "10.2.0.9:25565 [fd00::9]:25565"),
            ("six", "[fd01::9]:25565"),
        ] {
            assert_eq!(
                dial(&container(), Some(asked), Place::Container(None)),
                Ok(address.into()),
                "{asked}"
            );
        }
    }

    #[test]
    fn in_a_container_the_networks_both_are_on_count_and_on_the_machine_all() {
        let shared = [own("s3"), own("x")];
        let place = Place::Container(Some(&shared));
        assert_eq!(dial(&container(), None, place), Ok("[fd01::9]:25565".into()), "IPv6 only");
        let all = "10.2.0.9:25565 [fd00::9]:25565 10.1.0.9:25565 [fd01::9]:25565";
        assert_eq!(dial(&container(), None, Place::Container(None)), Ok(all.into()));
        let and_published = format!("{all} 127.0.0.1:25570 [::1]:25570");
        assert_eq!(dial(&container(), None, Place::Machine), Ok(and_published), "the ports last");
    }

    #[test]
    fn a_published_port_is_dialled_where_it_is_published() {
        let mut container = container();
        container.network_settings.networks.clear();
        for (address, dialled) in [
            ("127.0.0.1", "127.0.0.1:1"),
            ("192.0.2.7", "192.0.2.7:1"),
            ("", "127.0.0.1:1"),
            ("::1", "[::1]:1"),
        ] {
            let binding = PortBinding { host_ip: address.into(), host_port: "1".into() };
            container.network_settings.ports.insert("25565/tcp".into(), Some(vec![binding]));
            assert_eq!(dial(&container, None, Place::Machine), Ok(dialled.into()));
        }
    }

    #[test]
    fn on_the_machines_network_it_is_dialled_there() {
        let mut container = container();
        container.host_config.network_mode = "host".into();
        assert_eq!(dial(&container, None, Place::Machine), Ok("127.0.0.1:25565".into()));
        let error = dial(&container, None, Place::Container(None)).unwrap_err();
        assert!(error.contains("network_mode: host"), "{error}");
    }

    #[test]
    fn nowhere_to_dial_says_why() {
        let elsewhere = [own("x")];
        let here = Place::Container(Some(&elsewhere));
        let mut lonely = container();
        lonely.network_settings = Default::default();
        let mut borrowed = lonely.clone();
        borrowed.host_config.network_mode = "container:vpn".into();
        for (container, asked, place, why) in [
            (&container(), Some("other"), here, "it is on: mc, prod_zone, six"),
            (&container(), Some("mc"), here, "not on the network \"mc\" that is asked for, but on: x-net"),
            (&container(), None, here, "none of its networks (mc, prod_zone, six), but on: x-net"),
            (&lonely, None, Place::Machine, "no address to dial (it is on: no network)"),
            (&borrowed, None, here, "the network of another container"),
        ] {
            let error = dial(container, asked, place).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
