//! What a service is taken to ask for where it says nothing.

use std::time::Duration;

use super::{Clients, Players, Ready, Spec, Texts, Wait, Wakers};

impl Default for Spec {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            default: false,
            default_wakes: false,
            wake: true,
            sleep: true,
            idle: Duration::from_secs(15 * 60),
            awake: Vec::new(),
            start_timeout: Duration::from_secs(10 * 60),
            cooldown: Duration::from_secs(60),
            wait: Wait::World,
            modded_room: false,
            hold: Duration::from_secs(25),
            players: Players::Game,
            ready: Ready::Status,
            clients: Clients::default(),
            wakers: Wakers::default(),
            send_proxy: None,
            rewrite_host: None,
            public_address: None,
            texts: Texts::default(),
        }
    }
}

impl Texts {
    pub const ASLEEP: &str = "<gray>{server} is asleep.</gray> <green>Join to wake it up!</green>";
    pub const STARTING: &str = "<yellow>{server} is starting.</yellow> <gray>Usually ready in {eta}.</gray>";
    pub const RESTARTING: &str =
        "<gold>{server} stopped unexpectedly.</gold> <gray>It starts again in {countdown}.</gray>";
    pub const STOPPING: &str =
        "<gold>{server} is saving its world.</gold> <gray>Join to start it again after that.</gray>";
    pub const FAILED: &str = "<red>Server failed to start.</red> <gray>{reason}</gray>";
    pub const UNREACHABLE: &str =
        "<red>{server} is not answering right now.</red> <gray>Please try again in a moment.</gray>";
    pub const WAIT: &str = "<yellow>{server} is starting.</yellow> <gray>It is usually ready in {eta}. Please join again then!</gray>";
    pub const TITLE: &str = "<yellow>{server}</yellow>";
    pub const SUBTITLE: &str = "<gray>{reason}</gray>";
    pub const WELCOME: &str = "<yellow>{server} is not up yet.</yellow> <gray>You wait here and go in by yourself as soon as it is. To leave, press Esc and disconnect; it goes on starting.</gray>";
    pub const REJOIN: &str = "<green>{server} is up.</green> <gray>Join again now to go straight in.</gray>";
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            asleep: Self::ASLEEP.to_owned(),
            starting: Self::STARTING.to_owned(),
            restarting: Self::RESTARTING.to_owned(),
            stopping: Self::STOPPING.to_owned(),
            failed: Self::FAILED.to_owned(),
            unreachable: Self::UNREACHABLE.to_owned(),
            wait: Self::WAIT.to_owned(),
            title: Self::TITLE.to_owned(),
            subtitle: Self::SUBTITLE.to_owned(),
            welcome: Self::WELCOME.to_owned(),
            rejoin: Self::REJOIN.to_owned(),
        }
    }
}
