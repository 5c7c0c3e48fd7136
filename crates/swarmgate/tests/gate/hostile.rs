//! What is on the internet all day: it costs little, it wakes nothing, and it cannot write the log.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use swarmgate_testkit::client::{Client, Outcome};
use swarmgate_testkit::peers::skip;
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::{Body, Handshake, LOGIN, TRANSFER};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use crate::common::{Config, Gate, Home, LIMIT, Server, get};
use crate::{PROTOCOL, assert_contains, assert_in, assert_within, join, join_from, login, reason};

/// Openings that are no use to anybody, each with its name.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/knock"));
    let mut openings: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap()))
        .filter(|(name, _)| name.starts_with("hostile-"))
        .collect();
    assert!(openings.len() >= 20, "{openings:?}");
    let noise: Vec<u8> = (0..9_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let more: [(&str, &[u8]); 8] = [
        ("a zero", &[0]),
        ("zeros", &[0; 5_000]),
        ("ones", &[0xff; 5_000]),
        ("noise", &noise),
        ("FE and a pause", &[0xfe, 0x01, 0xfa]),
        ("a login before 1.7 that never ends", &[0x02, 0x4e, 0xff, 0xff]),
        ("a length and no packet", &[0xfe, 0x1f]),
        ("a request before the handshake", &[1, 0, 1, 0, 1, 0]),
    ];
    openings.extend(more.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())));
    openings
}

/// Those of them that say in time that they want to log in.
const LOGINS: [&str; 4] = ["hostile-escapes", "hostile-key-huge", "hostile-no-name", "hostile-second-frame"];

/// `default` takes whoever asks for a name that is nobody's.
async fn home_of_a_sleeper(default: bool, limits: &str) -> (std::sync::Arc<Home>, Server, Gate) {
    let home = Home::new();
    let keys = format!("default = {default}\nhosts = [\"mc.example.com\"]");
    let server = Server::new(&home, "mc", &[], &keys);
    home.write(&Config { log: "info", ..Config::of(&server.table).limits(limits) });
    let gate = home.start().await;
    (home, server, gate)
}

#[tokio::test]
async fn every_hostile_opening_ends_within_the_deadline_and_wakes_nothing() {
    let (_home, server, gate) =
        home_of_a_sleeper(true, "opening_deadline = \"1s\"\nhalf_open_per_source = 500").await;
    let before = gate.process.lines().len();
    let mut visits = JoinSet::new();
    // With an end, without one, and again so often that every kind of line would have been written many times.
    for round in 0..20_u8 {
        for (name, bytes) in corpus() {
            let client = Client::to(gate.address).from(Ipv4Addr::new(127, 0, 1, 1 + round));
            visits.spawn(async move {
                let mut connection = client.connect(LIMIT).await.unwrap();
                _ = connection.send(&bytes).await;
                if round % 2 == 1 {
                    _ = connection.half_close().await;
                }
                let started = Instant::now();
                let said = connection.read_to_end(LIMIT).await;
                assert_within(started, Duration::from_secs(20));
                // A ping of before 1.7, and a login under a name that is none, are well-formed; what is wrong
                // with a login is told. The others hear nothing.
                if let Ok(said) = said {
                    let answered = bytes.first() == Some(&0xfe) || LOGINS.contains(&&*name);
                    assert!(said.is_empty() || answered, "{name}: {said:x?}");
                }
            });
        }
    }
    while let Some(visit) = visits.join_next().await {
        visit.unwrap();
    }
    let written = gate.process.lines().len() - before;
    assert!(written <= 60, "{written} lines:\n{}", gate.log());
    assert!(!gate.log().contains("panic"), "{}", gate.log());
    assert_eq!((server.starts(), gate.service("mc").await["state"].as_str()), (0, Some("asleep")));
    until("no half-open", LIMIT, async || {
        (gate.metric("swarmgate_connections_open").await == 0).then_some(())
    })
    .await;
    assert_in(&join(gate.address, "mc.example.com", "Ann").await.0);
}

#[tokio::test]
async fn a_login_that_cannot_be_read_is_told_so_and_wakes_nothing() {
    let (_home, server, gate) = home_of_a_sleeper(true, "trusted_sources = [\"127.0.0.0/8\"]").await;
    let start = |tail: &[u8]| Body::new().string("Ann").raw(tail).packet(0);
    let uuid = [7; 16];
    let refused = async |intent, protocol: i32, rest: &[u8]| {
        let mut connection = Client::to(gate.address).connect(LIMIT).await.unwrap();
        let handshake = Handshake::new(protocol, "mc.example.com", intent).packet();
        connection.send(&[&handshake, rest].concat()).await.unwrap();
        connection.login_outcome(protocol, LIMIT).await.unwrap()
    };
    for (intent, protocol, rest, kind, words) in [
        (LOGIN, 767, start(&[&uuid[..], b"more"].concat()), "trailing", "4 bytes follow"),
        (LOGIN, 767, start(&uuid[1..]), "truncated", "ends in the middle of a field"),
        (TRANSFER, 777, start(&[]), "truncated", "ends in the middle of a field"),
        (LOGIN, 340, start(b"?"), "trailing", "1 bytes follow"),
        (LOGIN, 4, Body::new().string("").packet(0), "empty_name", "the player has no name"),
        (LOGIN, 760, Body::new().string(&"a".repeat(65)).packet(0), "long_text", "64 characters"),
        (
            LOGIN,
            767,
            Body::new().raw(&[2, 0xff, 0xfe]).raw(&uuid).packet(0),
            "not_unicode",
            "not valid Unicode",
        ),
        (LOGIN, 767, Body::new().packet(3), "bad_packet_id", "id is 3"),
        (LOGIN, 767, vec![0xff, 0xff, 0x7f], "oversized", "at most"),
    ] {
        let counted = format!("swarmgate_openings_failed_total{{kind=\"{kind}\"}}");
        let before = gate.metric(&counted).await;
        let outcome = refused(intent, protocol, &rest).await;
        let said = reason(&outcome);
        assert_contains(&said, "Your login cannot be read");
        assert_contains(&said, words);
        assert_eq!(gate.metric(&counted).await, before + 1, "{kind}");
    }
    // Nobody knows what a client with another intent could read.
    assert_eq!(refused(4, 767, &start(&uuid)).await, Outcome::Closed);
    assert_eq!((server.starts(), gate.service("mc").await["state"].as_str()), (0, Some("asleep")));
    assert_eq!(gate.metric("swarmgate_verdicts_total{verdict=\"wait\"}").await, 0);
}

#[tokio::test]
async fn a_scanner_does_not_hide_what_another_has_misspelt() {
    let (_home, _server, mut gate) = home_of_a_sleeper(false, "trusted_sources = [\"127.0.0.0/8\"]").await;
    let from = |last| Client::to(gate.address).from(Ipv4Addr::new(127, 0, 0, last));
    for n in 0..200 {
        let handshake = Handshake::status(PROTOCOL, &format!("scan{n}.example.org"));
        from(2).status(&handshake, LIMIT).await.unwrap();
    }
    from(3).status(&Handshake::status(PROTOCOL, "mv.example.com"), LIMIT).await.unwrap();
    let line = gate.process.wait_for_line("mv.example.com", LIMIT).await;
    assert_contains(&line, "nearest=[\"mc.example.com\"");
    assert!(gate.log().matches("no service has this hostname").count() <= 10, "{}", gate.log());
}

/// What a client of a web server in front of us could do: open connections and never finish a request.
#[tokio::test]
async fn slow_clients_of_the_pages_hold_up_nobody_for_long() {
    let gate = Gate::start("").await;
    let control = gate.directory().join("swarmgate-data/control.sock");
    let mut slow = vec![];
    for _ in 0..80 {
        let mut connection = Client::to(gate.http).connect(LIMIT).await.unwrap();
        connection.send(b"GET /healthz HTTP/1.1\r\nhost: ga").await.unwrap();
        slow.push(connection);
    }
    let started = Instant::now();
    let mut mute = vec![];
    for _ in 0..80 {
        mute.push(UnixStream::connect(&control).await.unwrap());
    }
    // Players do not notice, and each listener has places of its own, which become free.
    until("every place free again", LIMIT, async || {
        let here = get(gate.http, "/healthz").await?;
        (here == (200, "ok\n".to_owned())).then_some(())
    })
    .await;
    assert_eq!(gate.control("GET", "/v1/services", "").await.0, 200);
    assert_within(started, Duration::from_secs(40));
    for mut connection in slow {
        let said = connection.read_to_end(LIMIT).await;
        assert!(!matches!(&said, Err(error) if error.kind() == std::io::ErrorKind::TimedOut), "{said:?}");
    }
}

#[tokio::test]
async fn one_byte_now_and_then_does_not_move_the_deadline() {
    let (_home, server, gate) = home_of_a_sleeper(true, "opening_deadline = \"2s\"").await;
    let started = Instant::now();
    let mut connection = Client::to(gate.address).connect(LIMIT).await.unwrap();
    let opening = login("mc.example.com", "Slow");
    let mut bytes = opening.iter();
    until("a closed connection", LIMIT, async || {
        // Reading is what paces it: a tenth of a second with nothing to read.
        match connection.read_to_end(Duration::from_millis(100)).await {
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                let byte = bytes.next().expect("fewer bytes than there are");
                _ = connection.send(&[*byte]).await;
                None
            }
            Ok(_) | Err(_) => Some(()),
        }
    })
    .await;
    assert!(started.elapsed() >= Duration::from_millis(1_900), "{:?}", started.elapsed());
    assert_within(started, Duration::from_secs(8));
    assert_eq!(gate.metric("swarmgate_openings_failed_total{kind=\"slow\"}").await, 1);
    assert_eq!(server.starts(), 0);
}

#[tokio::test]
async fn strangers_do_not_make_series_or_lines() {
    let (_home, _server, gate) = home_of_a_sleeper(false, "trusted_sources = [\"127.0.0.0/8\"]").await;
    let handshake =
        |n: u32| Handshake::status(PROTOCOL, &format!("h{}.example.org", n.wrapping_mul(2_654_435_761)));
    let names = |page: &str| -> BTreeSet<String> {
        page.lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(name, _)| name.to_owned())
            .collect()
    };
    Client::to(gate.address).status(&handshake(0), LIMIT).await.unwrap();
    let (series, lines) = (names(&gate.metrics().await), gate.process.lines().len());
    let mut visits = JoinSet::new();
    for lane in 0..20 {
        let client = Client::to(gate.address);
        visits.spawn(async move {
            for n in 0..500 {
                client.status(&handshake(lane * 500 + n), LIMIT).await.unwrap();
            }
        });
    }
    while let Some(visit) = visits.join_next().await {
        visit.unwrap();
    }
    assert_eq!(names(&gate.metrics().await), series);
    let written = gate.process.lines().len() - lines;
    assert!(written <= 20, "{written} lines:\n{}", gate.log());
    assert_eq!(gate.metric("swarmgate_refusals_total{kind=\"unknown_host\"}").await, 10_001);
}

/// A number of `/proc/PID/status`, in KiB.
fn memory(pid: u32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

/// Processor time used so far, in hundredths of a second.
fn processor(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[tokio::test]
async fn five_thousand_idle_sockets_cost_little_and_keep_nobody_out() {
    const SOCKETS: u32 = 5_000;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < 12_000) {
        // Every socket has two ends here, one of them ours.
        return skip(&format!("this machine allows {:?} open files", limit.maximum));
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let limits = "opening_deadline = \"60s\"\nhalf_open_total = 6000";
    let (_home, _server, gate) = home_of_a_sleeper(true, limits).await;
    let pid = gate.process.pid();
    assert_in(&join(gate.address, "mc.example.com", "Ann").await.0);
    let before = memory(pid, "VmRSS:");
    let mut sockets = vec![];
    for n in 0..SOCKETS {
        // As many sources as it takes: one alone is not let in more than 64 times.
        let source = Ipv4Addr::from_bits(0x7f00_0201 + n / 50);
        let mut connection = Client::to(gate.address).from(source).connect(LIMIT).await.unwrap();
        connection.send(&[0x10]).await.unwrap();
        sockets.push(connection);
    }
    until("all of them", LIMIT, async || {
        (gate.metric("swarmgate_connections_half_open").await == u64::from(SOCKETS)).then_some(())
    })
    .await;
    let grown = memory(pid, "VmRSS:").saturating_sub(before);
    assert!(grown < 60 * 1024, "{grown} KiB for {SOCKETS} sockets");

    let used = processor(pid);
    let started = Instant::now();
    until("a second", LIMIT, async || (started.elapsed() > Duration::from_secs(1)).then_some(())).await;
    let used = processor(pid) - used;
    assert!(used < 20, "{used} hundredths of a second for doing nothing");

    let client = Client::to(gate.address).from(Ipv4Addr::new(127, 0, 3, 1));
    let (outcome, _connection) = join_from(&client, "mc.example.com", "Bo").await;
    assert!(matches!(outcome, Outcome::Joined { .. }), "{outcome:?}");
    drop(sockets);
    until("none of them", LIMIT, async || {
        (gate.metric("swarmgate_connections_half_open").await == 0).then_some(())
    })
    .await;
}
