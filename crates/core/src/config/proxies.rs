//! Proxies of the game itself that stand in front of the gate.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;

use super::problem::Fault;
use super::reader::Section;
use super::value;

/// `[proxies]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proxies {
    /// From where Velocity or BungeeCord connect.
    pub addresses: Vec<IpNet>,
    /// The file with the secret of Velocity's modern forwarding. The secret itself is never part of a configuration.
    pub velocity_secret_file: Option<PathBuf>,
    /// The file with the token that BungeeGuard puts among a player's properties.
    pub bungeeguard_token_file: Option<PathBuf>,
}

impl Proxies {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let proxies = Self {
            addresses: section.list("addresses", value::network).unwrap_or_default(),
            velocity_secret_file: section.path("velocity_secret_file"),
            bungeeguard_token_file: section.path("bungeeguard_token_file"),
        };
        if proxies.velocity_secret_file.is_some() && proxies.addresses.is_empty() {
            let fix = "write addresses = [\"...\"] with the address of Velocity";
            let what = "has no effect while no address is that of a proxy";
            section.warning("velocity_secret_file", Fault::new(what, fix));
        }
        section.finish();
        proxies
    }

    /// With the paths of its files relative to this directory.
    pub(super) fn beside(self, directory: &Path) -> Self {
        let beside = |path: Option<PathBuf>| path.map(|path| directory.join(path));
        Self {
            velocity_secret_file: beside(self.velocity_secret_file),
            bungeeguard_token_file: beside(self.bungeeguard_token_file),
            ..self
        }
    }

    pub fn include(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.addresses.iter().any(|net| net.contains(&address))
    }
}
