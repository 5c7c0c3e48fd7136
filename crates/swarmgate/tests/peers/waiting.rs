//! minecraft-protocol, mineflayer and botmine join a sleeping server, wait where `docs/waiting.md` says they do, and
//! end up on it.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};
use swarmgate_testkit::peers;
use swarmgate_testkit::process::Process;
use swarmgate_testkit::wait::free_port;
use tempfile::TempDir;

use crate::common::{Config, Gate, LIMIT, as_toml};

/// They say that they have no pack of the game's own, so the world is theirs where its data is known in full.
const WAITING: [(&str, i32, &str); 8] = [
    ("1.20.5", 766, "play"),
    ("1.20.6", 766, "play"),
    ("1.21.1", 767, "play"),
    ("1.21.4", 769, "play"),
    ("1.21.5", 770, "configuration"),
    ("1.21.8", 772, "configuration"),
    ("1.21.11", 774, "play"),
    ("26.1", 775, "play"),
];
/// From before there was a transfer.
const HELD: [(&str, i32); 6] =
    [("1.8.9", 47), ("1.12.2", 340), ("1.16.5", 754), ("1.19.4", 762), ("1.20.1", 763), ("1.20.4", 765)];

#[tokio::test]
async fn minecraft_protocol_waits_and_is_transferred() {
    wait_and_land(&[]).await;
}

#[tokio::test]
async fn mineflayer_waits_and_is_transferred() {
    wait_and_land(&["--bot"]).await;
}

/// Longer than the game waits for a silent login, in real time.
#[tokio::test]
async fn a_wait_may_be_longer_than_a_login() {
    let is_long = std::env::var_os("SWARMGATE_LONG").is_some();
    let longer = async |seconds| {
        if is_long {
            wait_for(seconds).await;
        }
    };
    tokio::join!(wait_for(31), longer(65), longer(300));
}

/// minecraft-protocol and mineflayer wait so long at the same time, each in the world and in the room.
async fn wait_for(seconds: u64) {
    const FIRST: [(&str, &str); 2] = [("1.21.4", "play"), ("1.21.8", "configuration")];
    const BOTS: [(&str, &str); 2] = [("26.1", "play"), ("1.21.5", "configuration")];
    let (first, bots) = (FIRST.map(|(version, _)| version), BOTS.map(|(version, _)| version));
    // A start begins with the join, or a moment before the player waits.
    let before = format!("sleep {}; ", seconds + 1);
    let Some(site) = Site::start(&[first, bots].concat(), &before, "").await else { return };
    let (wait, limit) = (Duration::from_secs(seconds), (seconds + 120).to_string());
    let options = ["--together", "--limit", &limit, "--bot"];
    let (first, bots) =
        tokio::join!(site.travel_for(wait, &options[..3], &first), site.travel_for(wait, &options, &bots));
    let ends = [first, bots].concat();
    for (version, state) in [FIRST, BOTS].concat() {
        let end = ends.iter().find(|end| end["version"] == version).unwrap();
        let transfers = end["transfers"].as_array().unwrap();
        assert_eq!((&end["event"], transfers.len()), (&json!("joined"), 1), "{end}");
        assert_eq!(transfers[0]["state"], state, "{end}");
        assert!(transfers[0]["waited"].as_u64().unwrap() >= 1000 * seconds, "{end}");
    }
}

/// Their world is for clients that have the game's own pack. No client here has it; this one says so, and reads what it is
/// sent there as any other does. (mineflayer cannot do without the pack's contents, azalea ignores transfers.)
#[tokio::test]
async fn with_the_games_own_pack_minecraft_protocol_waits_in_the_world_in_these_versions_too() {
    let versions = ["1.21.5", "1.21.6", "1.21.8", "1.21.9"];
    let Some(site) = Site::start(&versions, "sleep 2; ", "").await else { return };
    for end in site.travel(&["--packs"], &versions).await {
        assert_eq!(
            (&end["event"], &end["transfers"][0]["state"]),
            (&json!("joined"), &json!("play")),
            "{end}"
        );
        let seen = end["transfers"][0]["seen"].to_string();
        for sight in ["set_title_text", "set_title_subtitle", "boss_bar", "system_chat", "map_chunk"] {
            assert!(seen.contains(sight), "{sight}: {end}");
        }
    }
}

async fn wait_and_land(options: &[&str]) {
    let Some(site) = Site::start(&WAITING.map(|(version, ..)| version), "sleep 2; ", "").await else {
        return;
    };
    let ends = site.travel(options, &WAITING.map(|(version, ..)| version)).await;
    for ((version, protocol, state), end) in WAITING.iter().zip(&ends) {
        assert_eq!((&end["event"], &end["protocol"]), (&json!("joined"), &json!(protocol)), "{end}");
        let transfers = end["transfers"].as_array().unwrap();
        assert_eq!(transfers.len(), 1, "{end}");
        assert_eq!(transfers[0]["state"], *state, "{end}");
        assert_eq!(transfers[0]["host"], json!(format!("{version}.test")), "{end}");
        // Text in the world; in the room from 1.21.6 on.
        let seen = transfers[0]["seen"].to_string();
        assert_eq!(seen.contains("boss_bar") && seen.contains("map_chunk"), *state == "play", "{end}");
        assert_eq!(seen.contains("show_dialog"), *state == "configuration" && *protocol >= 771, "{end}");
    }
}

#[tokio::test]
async fn older_versions_are_held_and_land() {
    let Some(site) = Site::start(&HELD.map(|(version, _)| version), "sleep 1; ", "").await else { return };
    for ((_, protocol), end) in HELD.iter().zip(site.travel(&[], &HELD.map(|(version, _)| version)).await) {
        assert_eq!((&end["event"], &end["protocol"]), (&json!("joined"), &json!(protocol)), "{end}");
        assert_eq!(end["transfers"], json!([]), "{end}");
    }
}

#[tokio::test]
async fn older_versions_read_when_to_come_back() {
    let Some(site) =
        Site::start(&HELD.map(|(version, _)| version), "exec sleep 600; ", "hold = \"1s\"\n").await
    else {
        return;
    };
    for end in site.travel(&[], &HELD.map(|(version, _)| version)).await {
        assert_eq!(end["event"], "kicked", "{end}");
        assert!(end["reason"].as_str().unwrap().contains("starts, come back in"), "{end}");
    }
}

/// It says that it has the game's own packs, and looks no further than the configuration phase.
#[tokio::test]
async fn botmine_gets_the_world() {
    let versions = WAITING.map(|(version, ..)| version);
    let Some(join) = peers::python("join.py") else { return };
    drop(join);
    let Some(site) = Site::start(&versions, "exec sleep 600; ", "").await else { return };
    for version in versions {
        let mut join = peers::python("join.py").unwrap();
        let mut botmine = Process::start(join.args([&site.gate.address.to_string(), version]));
        let joined = ends(&mut botmine, 1, LIMIT).await;
        assert_eq!(
            (&joined[0]["event"], &joined[0]["connected"]),
            (&json!("joined"), &json!(true)),
            "{}",
            joined[0]
        );
    }
}

/// A gate with one sleeping server for each version, under its version as the hostname: `1.21.8.test`.
pub struct Site {
    pub gate: Gate,
    _worlds: TempDir,
}

impl Site {
    async fn start(versions: &[&str], before: &str, keys: &str) -> Option<Self> {
        Self::with(versions, before, keys, "").await
    }

    /// `top` stands above every table.
    pub async fn with(versions: &[&str], before: &str, keys: &str, top: &str) -> Option<Self> {
        peers::node("serve.js")?;
        let worlds = tempfile::tempdir().unwrap();
        let mut config = String::new();
        for (number, version) in versions.iter().enumerate() {
            let (port, world) = (free_port(), worlds.path().join(version));
            std::fs::create_dir(&world).unwrap();
            let mut serve = peers::node("serve.js").unwrap();
            serve.arg(format!("{version}:{port}"));
            let mut late = tokio::process::Command::new("sh");
            late.arg("-c").arg(format!("{before}exec \"$@\"")).arg("sh");
            late.arg(serve.as_std().get_program()).args(serve.as_std().get_args());
            late.envs(serve.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
            let name = version.replace('.', "-");
            let command = as_toml(&late);
            // Whoever says the bare address, as botmine does, gets the first.
            let default = if number == 0 { "default = true\ndefault_wakes = true\n" } else { "" };
            writeln!(
                config,
                "[server.v{name}]\nhosts = [\"{version}.test\"]\naddress = \"127.0.0.1:{port}\"\n{default}\
                 wait = \"world\"\ndirectory = {world:?}\n{keys}{command}"
            )
            .unwrap();
        }
        let limits = "trusted_sources = [\"127.0.0.0/8\"]\nopening_deadline = \"30s\"\nwaking_at_once = 99";
        let gate = Gate::with(&Config::of(config).top(top).limits(limits)).await;
        Some(Self { gate, _worlds: worlds })
    }

    /// How the journey of each version ended.
    pub async fn travel(&self, options: &[&str], versions: &[&str]) -> Vec<Value> {
        self.travel_for(Duration::ZERO, options, versions).await
    }

    /// The same of players who have so long to wait.
    async fn travel_for(&self, wait: Duration, options: &[&str], versions: &[&str]) -> Vec<Value> {
        let mut travel = peers::node("travel.js").expect("as serve.js");
        let address = self.gate.address.to_string();
        let arguments = ["--connect", &address, "--host", "{version}.test"];
        let mut players = Process::start(travel.args(arguments).args(options).args(versions));
        ends(&mut players, versions.len(), wait + 4 * LIMIT).await
    }
}

async fn ends(clients: &mut Process, count: usize, limit: Duration) -> Vec<Value> {
    clients
        .wait_for("every client's end", limit, |lines| {
            let ends: Vec<_> = peers::events(lines).collect();
            (ends.len() == count).then_some(ends)
        })
        .await
}
