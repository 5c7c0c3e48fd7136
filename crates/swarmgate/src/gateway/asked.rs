//! What an opening asks for, reduced to what decisions need.

use swarmgate_core::config::Proxies;
use swarmgate_core::knock::{Knock, Player, Purpose};
use swarmgate_core::ladder;
use swarmgate_core::name::HostName;
use swarmgate_minecraft::address::{Address, Tail};
use swarmgate_minecraft::handshake::{Handshake, Intent};
use swarmgate_minecraft::knock::Knock as Wire;

use super::opening::Opening;

/// What the core is to decide about.
pub fn knock(opening: &Opening, proxies: &Proxies) -> Knock {
    let cut = Address::cut(address_of(&opening.knock));
    let purpose = match &opening.knock {
        Wire::Status { .. } | Wire::LegacyPing(_) => Purpose::Status,
        Wire::Login { handshake, start, .. } => {
            let player = Player { name: start.name.clone(), uuid: start.uuid };
            Purpose::Login(player, client_of(handshake, &cut, proxies.include(opening.client.ip())))
        }
        Wire::LegacyLogin(login) => {
            let player = Player { name: login.name.clone(), uuid: None };
            Purpose::Login(player, ladder::Client::default())
        }
    };
    Knock {
        host: HostName::parse(cut.host).ok(),
        purpose,
        source: opening.client.ip(),
        pass: None,
        account: None,
    }
}

fn client_of(handshake: &Handshake, address: &Address<'_>, from_proxy: bool) -> ladder::Client {
    let (modded, forwarded) = match address.tail {
        Tail::Forge(_) | Tail::Filter(Some(_)) => (true, false),
        Tail::Forwarded(_) => (false, true),
        Tail::None | Tail::Filter(None) | Tail::Other => (false, false),
    };
    ladder::Client {
        protocol: handshake.protocol,
        modded,
        proxied: forwarded || from_proxy,
        addressed: !address.host.is_empty(),
        transferred: handshake.intent == Intent::Transfer,
    }
}

/// What stands in the handshake where the host does.
pub fn address_of(knock: &Wire) -> &str {
    match knock {
        Wire::Status { handshake, .. } | Wire::Login { handshake, .. } => &handshake.address,
        Wire::LegacyPing(ping) => ping.host.as_deref().unwrap_or_default(),
        Wire::LegacyLogin(login) => login.host.as_deref().unwrap_or_default(),
    }
}
