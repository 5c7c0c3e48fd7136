//! What the configuration or the token has wrong: which of it, and how it is mended.

use swarmgate_testkit::backend::{Backend, Behaviour};
use swarmgate_testkit::client::{Client, Outcome};
use swarmgate_testkit::cloudflare::{ACCOUNT, Call, TOKEN, TUNNEL};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::wire::Handshake;
use tokio::task::{JoinSet, LocalSet};

use crate::common::{Gate, LIMIT};
use crate::site::{Site, origin, web};

/// Each is told with what is wrong and what to do, a player joins meanwhile, and it comes right without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_id_or_right_is_told_while_players_come_in() {
    let faults = [
        (
            Wrong::Tunnel,
            "the account has no tunnel f70ff985-0000-0000-0000-000000000000; compare `cloudflare.tunnel`",
        ),
        (
            Wrong::Account,
            "zones that it sees are of 01a7362d577a6c3019a474fd6f485823; correct `cloudflare.account`",
        ),
        (
            Wrong::Token("unknown"),
            "the API does not know the token: it was copied incompletely, or deleted or rolled since",
        ),
        (Wrong::Token("malformed"), "code 6003); the token or key is malformed"),
        (Wrong::Status("expired"), "the API says that the token is expired; make a new one"),
        (Wrong::Status("disabled"), "the API says that the token is disabled; make a new one"),
        (
            Wrong::Right(Call::ReadTunnel),
            "code 10000); the token needs the permission Account · Cloudflare Tunnel · Edit",
        ),
        (
            Wrong::Right(Call::WriteConfig),
            "the token needs the permission Account · Cloudflare Tunnel · Edit",
        ),
        (Wrong::Right(Call::ListZones), "the token needs the permission Zone · Zone · Read"),
        (Wrong::Right(Call::ListRecords), "the token needs the permission Zone · DNS · Edit"),
        (Wrong::Right(Call::CreateRecord), "the token needs the permission Zone · DNS · Edit"),
        (Wrong::Right(Call::ListApps), "give the token Access: Apps and Policies: Edit"),
        (
            Wrong::Right(Call::CreateApp),
            "the token needs the permission Account · Access: Apps and Policies · Edit",
        ),
        (
            Wrong::Zones,
            "no zone that the token sees holds this name; give the token Zone: Read and DNS: Edit for it, or correct the name (it sees other.example)",
        ),
    ];
    let (local, mut all) = (LocalSet::new(), JoinSet::new());
    for (wrong, words) in faults {
        all.spawn_local_on(is_told(wrong, words), &local);
    }
    local.run_until(all.join_all()).await;
}

#[derive(Debug, Clone, Copy)]
enum Wrong {
    Tunnel,
    Account,
    Token(&'static str),
    Status(&'static str),
    Right(Call),
    /// It does not see the zone.
    Zones,
}

async fn is_told(wrong: Wrong, words: &str) {
    let site = Site::new().await;
    let backend = Backend::start(Behaviour::default()).await;
    site.protect("app.example.com");
    let tables = web("app", "access = [\"staff\"]")
        + &format!("[server.lobby]\naddress = [\"{}\"]\nhosts = [\"mc.example.com\"]\n", backend.address());
    let good = site.config("every = \"1s\"", &tables);
    let mut config = good.clone();
    let mut replace = |from: &str, to: &str| config.tables = config.tables.replace(from, to);
    let zones = site.fake.with(|account| account.zones.clone());
    match wrong {
        Wrong::Tunnel => replace(TUNNEL, "f70ff985-0000-0000-0000-000000000000"),
        Wrong::Account => replace(ACCOUNT, &"0".repeat(32)),
        Wrong::Token("unknown") => replace(TOKEN, &TOKEN.replace("v1", "v2")),
        Wrong::Token(_) => replace(TOKEN, "short"),
        Wrong::Status(status) => site.fake.with(|account| account.token_status = status),
        Wrong::Right(call) => {
            site.fake.with(|account| account.forbidden.insert(call));
        }
        Wrong::Zones => site.fake.with(|account| account.zones.retain(|zone| zone.name != "example.com")),
    }
    site.home.write(&config);
    let gate = site.home.start().await;
    site.until_log(&gate, words).await;
    let plan = gate.control("GET", "/v1/plan", "").await;
    assert!(plan.0 == 200 && plan.1.contains(&words.replace('"', "\\\"")), "{wrong:?}: {plan:?}");
    let looks = || site.fake.calls().iter().filter(|call| **call == Call::ReadTunnel).count();
    let enough = looks() + 2;
    site.until("two more looks", || looks() >= enough).await;
    join(&gate, "mc.example.com").await;
    let told = gate.log().lines().filter(|line| line.contains(words)).count();
    assert_eq!(told, 1, "{wrong:?}: {}", gate.log());
    assert_ne!(site.visit("app.example.com"), origin("app"));

    site.fake.with(|account| {
        account.token_status = "active";
        account.forbidden.clear();
        account.zones = zones;
    });
    site.home.write(&good);
    site.until_visit("app.example.com", &site.login()).await;
    drop(gate);
    site.assert_untouched();
}

/// Somebody plays.
async fn join(gate: &Gate, host: &str) {
    const PROTOCOL: i32 = 767;
    let client = Client::to(gate.address);
    let joined = client.join(&Handshake::login(PROTOCOL, host), &LoginStart::new("Ann"), LIMIT).await;
    let (outcome, mut connection) = joined.expect("a conversation");
    assert!(matches!(outcome, Outcome::Joined { .. }), "{outcome:?}");
    connection.send(b"hello").await.expect("an open connection");
    assert_eq!(connection.read_exact(5, LIMIT).await.expect("an echo"), b"hello");
}
