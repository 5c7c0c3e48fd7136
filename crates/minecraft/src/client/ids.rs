//! Packet ids behind the login, for protocols 764 (1.20.2) to 777 (26.3): no older version has a configuration
//! phase, and of newer ones nothing is known (minecraft.wiki, Java Edition protocol; PrismarineJS minecraft-data).

/// What a packet of the server means in the configuration phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Configuration {
    Cookie,
    Payload,
    Disconnect,
    Finish,
    KeepAlive,
    Ping,
    Registry,
    Pack,
    StoreCookie,
    Transfer,
    KnownPacks,
    Conduct,
    /// Needs no answer.
    Other,
}

/// Ids of the packets a client answers with in the configuration phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answers {
    pub settings: i32,
    pub cookie: i32,
    pub payload: i32,
    pub finish: i32,
    pub keep_alive: i32,
    pub pong: i32,
    pub pack: i32,
    pub known_packs: i32,
    pub conduct: i32,
}

/// Ids while the game runs. `None`: the version has no such packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Play {
    pub disconnect: i32,
    pub keep_alive: i32,
    pub start_configuration: i32,
    pub cookie: Option<i32>,
    pub store_cookie: Option<i32>,
    pub transfer: Option<i32>,
    pub answer_keep_alive: i32,
    pub answer_cookie: i32,
    pub acknowledge_configuration: i32,
}

pub(super) const fn configuration(protocol: i32, id: i32) -> Configuration {
    use Configuration as C;
    // 1.20.5 put the cookie request first, and 26.3 one more packet in the middle.
    let id = match (protocol, id) {
        (..=764, 0..=5) => id + 1,
        (..=764, 6) => return C::Pack,
        (765, 0..=5) => id + 1,
        (765, 7) => return C::Pack,
        (..=765, _) | (777.., 0x0a) => return C::Other,
        (777.., 0x0b..) => id - 1,
        _ => id,
    };
    match id {
        0x00 => C::Cookie,
        0x01 => C::Payload,
        0x02 => C::Disconnect,
        0x03 => C::Finish,
        0x04 => C::KeepAlive,
        0x05 => C::Ping,
        0x06 if protocol < 766 => C::Registry,
        0x07 => C::Registry,
        0x09 => C::Pack,
        0x0a => C::StoreCookie,
        0x0b => C::Transfer,
        0x0e => C::KnownPacks,
        0x13 if protocol >= 773 => C::Conduct,
        _ => C::Other,
    }
}

pub(super) const fn answers(protocol: i32) -> Answers {
    // What is -1 answers a packet that comes in later versions only.
    match protocol {
        ..=765 => Answers {
            settings: 0,
            cookie: -1,
            payload: 1,
            finish: 2,
            keep_alive: 3,
            pong: 4,
            pack: 5,
            known_packs: -1,
            conduct: -1,
        },
        766.. => Answers {
            settings: 0,
            cookie: 1,
            payload: 2,
            finish: 3,
            keep_alive: 4,
            pong: 5,
            pack: 6,
            known_packs: 7,
            conduct: 9,
        },
    }
}

pub(super) const fn play(protocol: i32) -> Option<Play> {
    let (received, sent) = match protocol {
        764 => ([0x1b, 0x24, 0x65, -1, -1, -1], [0x14, -1, 0x0b]),
        765 => ([0x1b, 0x24, 0x67, -1, -1, -1], [0x15, -1, 0x0b]),
        766..=767 => ([0x1d, 0x26, 0x69, 0x16, 0x6b, 0x73], [0x18, 0x11, 0x0c]),
        768..=769 => ([0x1d, 0x27, 0x70, 0x16, 0x72, 0x7a], [0x1a, 0x13, 0x0e]),
        770 => ([0x1c, 0x26, 0x6f, 0x15, 0x71, 0x7a], [0x1a, 0x13, 0x0e]),
        771..=772 => ([0x1c, 0x26, 0x6f, 0x15, 0x71, 0x7a], [0x1b, 0x14, 0x0f]),
        773..=774 => ([0x20, 0x2b, 0x74, 0x15, 0x76, 0x7f], [0x1b, 0x14, 0x0f]),
        775..=776 => ([0x20, 0x2c, 0x76, 0x15, 0x78, 0x81], [0x1c, 0x15, 0x10]),
        777 => ([0x20, 0x2d, 0x78, 0x15, 0x7a, 0x84], [0x1c, 0x15, 0x10]),
        _ => return None,
    };
    let [disconnect, keep_alive, start_configuration, cookie, store_cookie, transfer] = received;
    let [answer_keep_alive, answer_cookie, acknowledge_configuration] = sent;
    Some(Play {
        disconnect,
        keep_alive,
        start_configuration,
        cookie: known(cookie),
        store_cookie: known(store_cookie),
        transfer: known(transfer),
        answer_keep_alive,
        answer_cookie,
        acknowledge_configuration,
    })
}

const fn known(id: i32) -> Option<i32> {
    if id < 0 { None } else { Some(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_between_versions() {
        use Configuration as C;
        for (protocol, ids) in [
            (764, &[(0, C::Payload), (1, C::Disconnect), (2, C::Finish), (3, C::KeepAlive)][..]),
            (764, &[(4, C::Ping), (5, C::Registry), (6, C::Pack), (7, C::Other), (8, C::Other)]),
            (765, &[(0, C::Payload), (5, C::Registry), (6, C::Other), (7, C::Pack), (8, C::Other)]),
            (766, &[(0, C::Cookie), (1, C::Payload), (6, C::Other), (7, C::Registry), (8, C::Other)]),
            (766, &[(9, C::Pack), (0x0a, C::StoreCookie), (0x0b, C::Transfer), (0x0e, C::KnownPacks)]),
            (772, &[(0x0b, C::Transfer), (0x13, C::Other)]),
            (776, &[(0x0b, C::Transfer), (0x0e, C::KnownPacks), (0x13, C::Conduct)]),
            (777, &[(9, C::Pack), (0x0a, C::Other), (0x0b, C::StoreCookie), (0x0c, C::Transfer)]),
            (777, &[(0x0e, C::Other), (0x0f, C::KnownPacks), (0x13, C::Other), (0x14, C::Conduct)]),
        ] {
            for &(id, meaning) in ids {
                assert_eq!(configuration(protocol, id), meaning, "{protocol} {id:#x}");
            }
        }
        assert!(play(763).is_none() && play(778).is_none());
        assert!((764..=777).all(|protocol| play(protocol).is_some()));
    }
}
