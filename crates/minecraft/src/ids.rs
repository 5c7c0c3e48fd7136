//! Packet ids behind the login, for protocols 764 (1.20.2) to 777 (26.3): no older version has a configuration
//! phase, and of newer ones nothing is known (minecraft.wiki, Java Edition protocol; PrismarineJS minecraft-data).

/// What a packet of the server means in the configuration phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Configuration {
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
pub(crate) struct Answers {
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

/// Ids of a server's packets in the configuration phase, for protocols from 766 (1.20.5) on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub payload: i32,
    pub disconnect: i32,
    pub finish: i32,
    pub keep_alive: i32,
    pub registry: i32,
    pub store_cookie: i32,
    pub transfer: i32,
    pub tags: i32,
    pub known_packs: i32,
    /// Dialogs, since 1.21.6.
    pub clear_dialog: Option<i32>,
    pub show_dialog: Option<i32>,
}

/// Ids while the game runs. `None`: the version has no such packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Play {
    pub boss_bar: i32,
    pub disconnect: i32,
    pub game_event: i32,
    pub keep_alive: i32,
    pub chunk: i32,
    pub login: i32,
    pub abilities: i32,
    pub position: i32,
    pub action_bar: i32,
    pub chunk_centre: i32,
    pub spawn: i32,
    pub subtitle: i32,
    pub title: i32,
    pub title_times: i32,
    pub start_configuration: i32,
    pub chat: i32,
    pub cookie: Option<i32>,
    pub store_cookie: Option<i32>,
    pub transfer: Option<i32>,
    pub answer_keep_alive: i32,
    pub answer_cookie: i32,
    pub acknowledge_configuration: i32,
}

pub(crate) const fn configuration(protocol: i32, id: i32) -> Configuration {
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

pub(crate) const fn answers(protocol: i32) -> Answers {
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

pub(crate) const fn setup(protocol: i32) -> Setup {
    // 26.3 put one packet in the middle.
    let shift = if protocol >= 777 { 1 } else { 0 };
    let dialogs = protocol >= 771;
    Setup {
        payload: 0x01,
        disconnect: 0x02,
        finish: 0x03,
        keep_alive: 0x04,
        registry: 0x07,
        store_cookie: 0x0a + shift,
        transfer: 0x0b + shift,
        tags: 0x0d + shift,
        known_packs: 0x0e + shift,
        clear_dialog: if dialogs { Some(0x11 + shift) } else { None },
        show_dialog: if dialogs { Some(0x12 + shift) } else { None },
    }
}

pub(crate) const fn play(protocol: i32) -> Option<Play> {
    // Boss bar, disconnect, game event, keep-alive, chunk, login, abilities, position, action bar, centre of the
    // chunks, spawn, subtitle, title, its times, start of configuration, chat; cookie, to store one, transfer.
    let (received, cookies, sent) = match protocol {
        764 => (
            [0x0a, 0x1b, 0x20, 0x24, 0x25, 0x29, 0x36, 0x3e, 0x48, 0x50, 0x52, 0x5f, 0x61, 0x62, 0x65, 0x67],
            [-1, -1, -1],
            [0x14, -1, 0x0b],
        ),
        765 => (
            [0x0a, 0x1b, 0x20, 0x24, 0x25, 0x29, 0x36, 0x3e, 0x4a, 0x52, 0x54, 0x61, 0x63, 0x64, 0x67, 0x69],
            [-1, -1, -1],
            [0x15, -1, 0x0b],
        ),
        766..=767 => (
            [0x0a, 0x1d, 0x22, 0x26, 0x27, 0x2b, 0x38, 0x40, 0x4c, 0x54, 0x56, 0x63, 0x65, 0x66, 0x69, 0x6c],
            [0x16, 0x6b, 0x73],
            [0x18, 0x11, 0x0c],
        ),
        768..=769 => (
            [0x0a, 0x1d, 0x23, 0x27, 0x28, 0x2c, 0x3a, 0x42, 0x51, 0x58, 0x5b, 0x6a, 0x6c, 0x6d, 0x70, 0x73],
            [0x16, 0x72, 0x7a],
            [0x1a, 0x13, 0x0e],
        ),
        770 => (
            [0x09, 0x1c, 0x22, 0x26, 0x27, 0x2b, 0x39, 0x41, 0x50, 0x57, 0x5a, 0x69, 0x6b, 0x6c, 0x6f, 0x72],
            [0x15, 0x71, 0x7a],
            [0x1a, 0x13, 0x0e],
        ),
        771..=772 => (
            [0x09, 0x1c, 0x22, 0x26, 0x27, 0x2b, 0x39, 0x41, 0x50, 0x57, 0x5a, 0x69, 0x6b, 0x6c, 0x6f, 0x72],
            [0x15, 0x71, 0x7a],
            [0x1b, 0x14, 0x0f],
        ),
        773..=774 => (
            [0x09, 0x20, 0x26, 0x2b, 0x2c, 0x30, 0x3e, 0x46, 0x55, 0x5c, 0x5f, 0x6e, 0x70, 0x71, 0x74, 0x77],
            [0x15, 0x76, 0x7f],
            [0x1b, 0x14, 0x0f],
        ),
        775..=776 => (
            [0x09, 0x20, 0x26, 0x2c, 0x2d, 0x31, 0x40, 0x48, 0x57, 0x5e, 0x61, 0x70, 0x72, 0x73, 0x76, 0x79],
            [0x15, 0x78, 0x81],
            [0x1c, 0x15, 0x10],
        ),
        777 => (
            [0x09, 0x20, 0x27, 0x2d, 0x2e, 0x32, 0x41, 0x49, 0x59, 0x60, 0x63, 0x72, 0x74, 0x75, 0x78, 0x7c],
            [0x15, 0x7a, 0x84],
            [0x1c, 0x15, 0x10],
        ),
        _ => return None,
    };
    let [
        boss_bar,
        disconnect,
        game_event,
        keep_alive,
        chunk,
        login,
        abilities,
        position,
        action_bar,
        chunk_centre,
        spawn,
        subtitle,
        title,
        title_times,
        start_configuration,
        chat,
    ] = received;
    let [cookie, store_cookie, transfer] = cookies;
    let [answer_keep_alive, answer_cookie, acknowledge_configuration] = sent;
    Some(Play {
        boss_bar,
        disconnect,
        game_event,
        keep_alive,
        chunk,
        login,
        abilities,
        position,
        action_bar,
        chunk_centre,
        spawn,
        subtitle,
        title,
        title_times,
        start_configuration,
        chat,
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
    use serde_json::Value;

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

    #[test]
    fn both_ways_agree() {
        use Configuration as C;
        for protocol in 766..=777 {
            let ids = setup(protocol);
            for (id, meaning) in [
                (ids.payload, C::Payload),
                (ids.disconnect, C::Disconnect),
                (ids.finish, C::Finish),
                (ids.keep_alive, C::KeepAlive),
                (ids.registry, C::Registry),
                (ids.store_cookie, C::StoreCookie),
                (ids.transfer, C::Transfer),
                (ids.tags, C::Other),
                (ids.known_packs, C::KnownPacks),
            ] {
                assert_eq!(configuration(protocol, id), meaning, "{protocol} {id:#x}");
            }
        }
    }

    /// Of 776 and 777 minecraft-data knows nothing.
    #[test]
    fn as_minecraft_data_says() {
        let data: Value = serde_json::from_str(include_str!("../data/limbo/ids.json")).unwrap();
        for protocol in 764..=775 {
            let said = |state: &str, direction: &str, name: &str| {
                let id = &data[protocol.to_string()][state][direction][name];
                id.as_i64().map(|id| i32::try_from(id).unwrap())
            };
            let play = play(protocol).unwrap();
            for (ours, name) in [
                (play.boss_bar, "boss_bar"),
                (play.disconnect, "kick_disconnect"),
                (play.game_event, "game_state_change"),
                (play.keep_alive, "keep_alive"),
                (play.chunk, "map_chunk"),
                (play.login, "login"),
                (play.abilities, "abilities"),
                (play.position, "position"),
                (play.action_bar, "action_bar"),
                (play.chunk_centre, "update_view_position"),
                (play.spawn, "spawn_position"),
                (play.subtitle, "set_title_subtitle"),
                (play.title, "set_title_text"),
                (play.title_times, "set_title_time"),
                (play.start_configuration, "start_configuration"),
                (play.chat, "system_chat"),
            ] {
                assert_eq!(Some(ours), said("play", "toClient", name), "{protocol} {name}");
            }
            for (ours, name) in [
                (play.cookie, "cookie_request"),
                (play.store_cookie, "store_cookie"),
                (play.transfer, "transfer"),
            ] {
                assert_eq!(ours, said("play", "toClient", name), "{protocol} {name}");
            }
            let answers = answers(protocol);
            for (ours, state, name) in [
                (play.answer_keep_alive, "play", "keep_alive"),
                (play.answer_cookie, "play", "cookie_response"),
                (play.acknowledge_configuration, "play", "configuration_acknowledged"),
                (answers.settings, "configuration", "settings"),
                (answers.cookie, "configuration", "cookie_response"),
                (answers.payload, "configuration", "custom_payload"),
                (answers.finish, "configuration", "finish_configuration"),
                (answers.keep_alive, "configuration", "keep_alive"),
                (answers.pong, "configuration", "pong"),
                (answers.pack, "configuration", "resource_pack_receive"),
                (answers.known_packs, "configuration", "select_known_packs"),
            ] {
                assert_eq!(known(ours), said(state, "toServer", name), "{protocol} {state} {name}");
            }
            if protocol < 766 {
                continue;
            }
            let setup = setup(protocol);
            for (ours, name) in [
                (Some(setup.payload), "custom_payload"),
                (Some(setup.disconnect), "disconnect"),
                (Some(setup.finish), "finish_configuration"),
                (Some(setup.keep_alive), "keep_alive"),
                (Some(setup.registry), "registry_data"),
                (Some(setup.store_cookie), "store_cookie"),
                (Some(setup.transfer), "transfer"),
                (Some(setup.tags), "tags"),
                (Some(setup.known_packs), "select_known_packs"),
                (setup.clear_dialog, "clear_dialog"),
                (setup.show_dialog, "show_dialog"),
            ] {
                assert_eq!(ours, said("configuration", "toClient", name), "{protocol} {name}");
            }
        }
    }
}
