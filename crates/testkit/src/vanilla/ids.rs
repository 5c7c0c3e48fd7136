//! Packet ids of the configuration phase and of the game, for protocols 766 (1.20.5) to 777 (26.3).
//!
//! Source: the game's own packet reports as public projects hold them; 777 is derived from 776 and the packets
//! known to be new in it.

/// What the server says in the configuration phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Configuration {
    CookieRequest,
    Payload,
    Disconnect,
    Finish,
    KeepAlive,
    Ping,
    ResetChat,
    Registry,
    StoreCookie,
    Transfer,
    Flags,
    Tags,
    KnownPacks,
    ClearDialog,
    ShowDialog,
}

/// What the server says in the game, as far as this client reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Play {
    Abilities,
    ActionBar,
    BatchFinished,
    BatchStart,
    BossBar,
    Chunk,
    ChunkCenter,
    ChunkRadius,
    ClearDialog,
    ClearTitles,
    CookieRequest,
    DefaultSpawn,
    Disconnect,
    GameEvent,
    KeepAlive,
    Login,
    Payload,
    Ping,
    PlayerInfo,
    Position,
    ShowDialog,
    StartConfiguration,
    StoreCookie,
    Subtitle,
    SystemChat,
    TabList,
    Times,
    Title,
    Transfer,
}

/// What the client says in the configuration phase: the same ids in every version.
pub(super) mod configuring {
    pub(in super::super) const SETTINGS: i32 = 0;
    pub(in super::super) const COOKIE: i32 = 1;
    pub(in super::super) const PAYLOAD: i32 = 2;
    pub(in super::super) const FINISH: i32 = 3;
    pub(in super::super) const KEEP_ALIVE: i32 = 4;
    pub(in super::super) const PONG: i32 = 5;
    pub(in super::super) const KNOWN_PACKS: i32 = 7;
}

/// What the client says in the game.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Playing {
    AcceptTeleport,
    BatchReceived,
    ChatCommand,
    ConfigurationAcknowledged,
    Cookie,
    KeepAlive,
    MovePosRot,
    Loaded,
    Pong,
    TickEnd,
}

pub(super) fn configuration(protocol: i32, id: i32) -> Option<Configuration> {
    use Configuration as C;
    // 26.3 put one more packet, unknown here, at 0x0a.
    let id = match (protocol, id) {
        (777.., 0x0a) => return None,
        (777.., 0x0b..) => id - 1,
        (_, id) => id,
    };
    Some(match id {
        0x00 => C::CookieRequest,
        0x01 => C::Payload,
        0x02 => C::Disconnect,
        0x03 => C::Finish,
        0x04 => C::KeepAlive,
        0x05 => C::Ping,
        0x06 => C::ResetChat,
        0x07 => C::Registry,
        0x0a => C::StoreCookie,
        0x0b => C::Transfer,
        0x0c => C::Flags,
        0x0d => C::Tags,
        0x0e => C::KnownPacks,
        0x11 if protocol >= 771 => C::ClearDialog,
        0x12 if protocol >= 771 => C::ShowDialog,
        _ => return None,
    })
}

pub(super) fn play(protocol: i32, id: i32) -> Option<Play> {
    let column = column(protocol);
    CLIENTBOUND.iter().find(|(_, ids)| id != NONE && ids[column] == id).map(|(packet, _)| *packet)
}

/// The id of a packet to the server; `None` where the version has no such packet.
pub(super) fn playing(protocol: i32, packet: Playing) -> Option<i32> {
    let (_, ids) = SERVERBOUND.iter().find(|(known, _)| *known == packet)?;
    Some(ids[column(protocol)]).filter(|id| *id != NONE)
}

#[cfg(test)]
pub(super) fn id_of(protocol: i32, packet: Play) -> i32 {
    CLIENTBOUND.iter().find(|(known, _)| *known == packet).unwrap().1[column(protocol)]
}

const NONE: i32 = -1;

fn column(protocol: i32) -> usize {
    match protocol {
        ..=767 => 0,
        768 => 1,
        769 => 2,
        770 => 3,
        771..=772 => 4,
        773..=774 => 5,
        775..=776 => 6,
        777.. => 7,
    }
}

const CLIENTBOUND: [(Play, [i32; 8]); 29] = {
    use Play as P;
    [
        // 766, 767; 768; 769; 770; 771, 772; 773, 774; 775, 776; 777
        (P::Abilities, [0x38, 0x3a, 0x3a, 0x39, 0x39, 0x3e, 0x40, 0x41]),
        (P::ActionBar, [0x4c, 0x51, 0x51, 0x50, 0x50, 0x55, 0x57, 0x59]),
        (P::BatchFinished, [0x0c, 0x0c, 0x0c, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b]),
        (P::BatchStart, [0x0d, 0x0d, 0x0d, 0x0c, 0x0c, 0x0c, 0x0c, 0x0c]),
        (P::BossBar, [0x0a, 0x0a, 0x0a, 0x09, 0x09, 0x09, 0x09, 0x09]),
        (P::Chunk, [0x27, 0x28, 0x28, 0x27, 0x27, 0x2c, 0x2d, 0x2e]),
        (P::ChunkCenter, [0x54, 0x58, 0x58, 0x57, 0x57, 0x5c, 0x5e, 0x60]),
        (P::ChunkRadius, [0x55, 0x59, 0x59, 0x58, 0x58, 0x5d, 0x5f, 0x61]),
        (P::ClearDialog, [NONE, NONE, NONE, NONE, 0x84, 0x89, 0x8b, 0x8e]),
        (P::ClearTitles, [0x0f, 0x0f, 0x0f, 0x0e, 0x0e, 0x0e, 0x0e, 0x0e]),
        (P::CookieRequest, [0x16, 0x16, 0x16, 0x15, 0x15, 0x15, 0x15, 0x15]),
        (P::DefaultSpawn, [0x56, 0x5b, 0x5b, 0x5a, 0x5a, 0x5f, 0x61, 0x63]),
        (P::Disconnect, [0x1d, 0x1d, 0x1d, 0x1c, 0x1c, 0x20, 0x20, 0x20]),
        (P::GameEvent, [0x22, 0x23, 0x23, 0x22, 0x22, 0x26, 0x26, 0x27]),
        (P::KeepAlive, [0x26, 0x27, 0x27, 0x26, 0x26, 0x2b, 0x2c, 0x2d]),
        (P::Login, [0x2b, 0x2c, 0x2c, 0x2b, 0x2b, 0x30, 0x31, 0x32]),
        (P::Payload, [0x19, 0x19, 0x19, 0x18, 0x18, 0x18, 0x18, 0x18]),
        (P::Ping, [0x35, 0x37, 0x37, 0x36, 0x36, 0x3b, 0x3d, 0x3e]),
        (P::PlayerInfo, [0x3e, 0x40, 0x40, 0x3f, 0x3f, 0x44, 0x46, 0x47]),
        (P::Position, [0x40, 0x42, 0x42, 0x41, 0x41, 0x46, 0x48, 0x49]),
        (P::ShowDialog, [NONE, NONE, NONE, NONE, 0x85, 0x8a, 0x8c, 0x8f]),
        (P::StartConfiguration, [0x69, 0x70, 0x70, 0x6f, 0x6f, 0x74, 0x76, 0x78]),
        (P::StoreCookie, [0x6b, 0x72, 0x72, 0x71, 0x71, 0x76, 0x78, 0x7a]),
        (P::Subtitle, [0x63, 0x6a, 0x6a, 0x69, 0x69, 0x6e, 0x70, 0x72]),
        (P::SystemChat, [0x6c, 0x73, 0x73, 0x72, 0x72, 0x77, 0x79, 0x7c]),
        (P::TabList, [0x6d, 0x74, 0x74, 0x73, 0x73, 0x78, 0x7a, 0x7d]),
        (P::Times, [0x66, 0x6d, 0x6d, 0x6c, 0x6c, 0x71, 0x73, 0x75]),
        (P::Title, [0x65, 0x6c, 0x6c, 0x6b, 0x6b, 0x70, 0x72, 0x74]),
        (P::Transfer, [0x73, 0x7a, 0x7a, 0x7a, 0x7a, 0x7f, 0x81, 0x84]),
    ]
};

const SERVERBOUND: [(Playing, [i32; 8]); 10] = {
    use Playing as P;
    [
        (P::AcceptTeleport, [0x00; 8]),
        (P::BatchReceived, [0x08, 0x09, 0x09, 0x09, 0x0a, 0x0a, 0x0b, 0x0b]),
        (P::ChatCommand, [0x04, 0x05, 0x05, 0x05, 0x06, 0x06, 0x07, 0x07]),
        (P::ConfigurationAcknowledged, [0x0c, 0x0e, 0x0e, 0x0e, 0x0f, 0x0f, 0x10, 0x10]),
        (P::Cookie, [0x11, 0x13, 0x13, 0x13, 0x14, 0x14, 0x15, 0x15]),
        (P::KeepAlive, [0x18, 0x1a, 0x1a, 0x1a, 0x1b, 0x1b, 0x1c, 0x1c]),
        (P::MovePosRot, [0x1b, 0x1d, 0x1d, 0x1d, 0x1e, 0x1e, 0x1f, 0x1f]),
        (P::Loaded, [NONE, NONE, 0x2a, 0x2a, 0x2b, 0x2b, 0x2c, 0x2c]),
        (P::Pong, [0x27, 0x29, 0x2b, 0x2b, 0x2c, 0x2c, 0x2d, 0x2d]),
        (P::TickEnd, [NONE, 0x0b, 0x0b, 0x0b, 0x0c, 0x0c, 0x0d, 0x0d]),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_packets_share_an_id() {
        for column in 0..8 {
            let mut ids: Vec<_> =
                CLIENTBOUND.iter().map(|(_, ids)| ids[column]).filter(|id| *id != NONE).collect();
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count, "{column}");
        }
        assert_eq!((playing(768, Playing::Loaded), play(770, NONE)), (None, None));
    }
}
