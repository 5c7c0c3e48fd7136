//! HAProxy and nginx in front of the gate, HAProxy and Wireshark as judges of what the gate sends.

use std::net::SocketAddr;
use std::path::Path;

use swarmgate_testkit::client::Client;
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::peers;
use swarmgate_testkit::process::Process;
use swarmgate_testkit::wait::{free_port, until};
use swarmgate_testkit::wire::Handshake;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::common::{Gate, LIMIT};

/// Where the player is, as told apart from the proxies on 127.0.0.1.
const PLAYER: &str = "127.0.0.7";
const HAPROXY: &str = "global\n  log stdout format raw local0\n\
    defaults\n  mode tcp\n  log global\n  log-format \"src=%ci\"\n\
    timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n";

/// player → proxy → gate → judge → server: the player joins, and the judge, who read the gate's header, names them.
#[tokio::test]
async fn the_player_is_known_at_the_end_of_the_chain() {
    let Some(mut serve) = peers::node("serve.js") else { return };
    let mut server = Process::start(serve.args(["--until-eof", "1.21.8:0"]));
    let listening = peers::event(&mut server, "its port", LIMIT, |event| event["event"] == "listening").await;
    let files = tempfile::tempdir().unwrap();
    let judge_port = free_port();
    let judge = format!(
        "{HAPROXY}listen judge\n  bind 127.0.0.1:{judge_port} accept-proxy\n  server game 127.0.0.1:{}\n",
        listening["port"]
    );
    let Some(mut judge) = haproxy(files.path(), "judge.cfg", &judge) else { return };
    let gate = Gate::start_behind_proxy(
        "127.0.0.1/32",
        &format!(
            "[server.one]\nhosts = [\"v1.test\"]\naddress = \"127.0.0.1:{judge_port}\"\nproxy_protocol = \"v1\"\n\
             [server.two]\nhosts = [\"v2.test\"]\naddress = \"127.0.0.1:{judge_port}\"\nproxy_protocol = \"v2\"\n"
        ),
    )
    .await;

    let mut joins = 0;
    for (name, options) in [
        ("v1", "send-proxy"),
        ("v2", "send-proxy-v2"),
        ("v2 with TLVs", "send-proxy-v2 proxy-v2-options crc32c,unique-id"),
        ("nginx", ""),
    ] {
        let port = free_port();
        let sender = if name == "nginx" {
            nginx(files.path(), port, gate.address)
        } else {
            let sender = format!(
                "{HAPROXY}listen sender\n  bind 127.0.0.1:{port}\n  unique-id-format %[uuid()]\n  \
                 server gate {} {options}\n",
                gate.address
            );
            haproxy(files.path(), "sender.cfg", &sender)
        };
        let Some(_sender) = sender else { return };
        until("the proxy", LIMIT, async || TcpStream::connect(("127.0.0.1", port)).await.ok()).await;
        for host in ["v1.test", "v2.test"] {
            let mut join = peers::node("join.js").expect("as serve.js");
            join.args([
                "--connect",
                &format!("127.0.0.1:{port}"),
                "--from",
                PLAYER,
                "--host",
                host,
                "1.21.8",
            ]);
            let mut join = Process::start(&mut join);
            let joined = peers::event(&mut join, "the end of the join", LIMIT, |_| true).await;
            assert_eq!(joined["event"], "joined", "{name} to {host}: {joined}");
            assert_eq!(joined["echoed"], true, "{name} to {host}");
            joins += 1;
            judge
                .wait_for(&format!("the player's address, from {name} to {host}"), LIMIT, |lines| {
                    let named = lines.iter().filter(|line| line.ends_with(&format!("src={PLAYER}")));
                    (named.count() == joins).then_some(())
                })
                .await;
        }
    }
}

/// HAProxy's health check says LOCAL and resets: no client, no fault, no wake.
#[tokio::test]
async fn health_checks_are_nothing_to_speak_of() {
    let files = tempfile::tempdir().unwrap();
    let gate = Gate::start_behind_proxy(
        "127.0.0.1/32",
        &format!(
            "[server.survival]\ndefault = true\ndefault_wakes = true\naddress = \"127.0.0.1:1\"\n\
             directory = {:?}\ncommand = [\"sh\", \"-c\", \"touch woken; exec sleep 600\"]\n",
            files.path()
        ),
    )
    .await;
    let admin = files.path().join("admin");
    let checks = format!(
        "global\n  stats socket {} level admin\n{HAPROXY}listen checks\n  bind 127.0.0.1:{}\n  \
         server gate {} send-proxy-v2 check inter 20ms rise 20 fall 1\n",
        admin.display(),
        free_port(),
        gate.address
    );
    let Some(mut checks) = haproxy(files.path(), "checks.cfg", &checks) else { return };
    // It is up until it fails; held to be down, it must pass twenty times.
    let said = gate.log().len();
    let mut admin = until("its socket", LIMIT, async || UnixStream::connect(&admin).await.ok()).await;
    admin.write_all(b"set server checks/gate health down\n").await.unwrap();
    checks.wait_for_line("checks/gate is UP", LIMIT).await;

    assert!(!files.path().join("woken").exists(), "a health check woke the server");
    let log = gate.log().split_off(said);
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    let metrics = gate.metrics().await;
    let kinds: Vec<_> =
        metrics.lines().filter(|line| line.starts_with("swarmgate_openings_failed_total")).collect();
    assert!(kinds.len() == 1 && kinds[0].contains("kind=\"nothing\""), "{kinds:?}");
}

/// What a backend gets first, read by Wireshark.
#[tokio::test]
async fn wireshark_reads_the_header_the_gate_sends() {
    let (Some(_), Some(_)) = (peers::installed("text2pcap"), peers::installed("tshark")) else { return };
    let backend = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = backend.local_addr().unwrap();
    let gate = Gate::start(&format!(
        "[server.one]\nready = \"tcp\"\nhosts = [\"v1.test\"]\naddress = \"{address}\"\nproxy_protocol = \"v1\"\n\
         [server.two]\nready = \"tcp\"\nhosts = [\"v2.test\"]\naddress = \"{address}\"\nproxy_protocol = \"v2\"\n"
    ))
    .await;

    for (host, name, header) in [("v1.test", "Lily", "TCP4"), ("v2.test", "Rose", "2")] {
        let mut player = Client::to(gate.address).from([127, 0, 0, 7]).connect(LIMIT).await.unwrap();
        let opening = [Handshake::login(772, host).packet(), LoginStart::new(name).packet(772)].concat();
        player.send(&opening).await.unwrap();

        let bytes = first_bytes_with(&backend, name).await;
        let (player, gate_port) = (player.local_addr(), gate.address.port());
        let expected = format!("{header} {} {} 127.0.0.1 {gate_port}", player.ip(), player.port());
        assert_eq!(dissect(&bytes).await, expected, "{bytes:02x?}");
    }
}

/// What came on the connection on which the player's name does. Others are the gate's own.
async fn first_bytes_with(backend: &TcpListener, name: &str) -> Vec<u8> {
    until("a connection of the player", LIMIT, async || {
        let (mut stream, _) = backend.accept().await.unwrap();
        let mut bytes = vec![];
        while !bytes.windows(name.len()).any(|part| part == name.as_bytes()) {
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return None;
            }
        }
        Some(bytes)
    })
    .await
}

/// Version 1's family or version 2's number, source, port, destination and port, as Wireshark's dissector says.
async fn dissect(bytes: &[u8]) -> String {
    let files = tempfile::tempdir().unwrap();
    let (dump, capture) = (files.path().join("bytes"), files.path().join("capture"));
    let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&dump, format!("0000 {}\n", hex.join(" "))).unwrap();
    let mut text2pcap = peers::installed("text2pcap").unwrap();
    let output = text2pcap.args(["-T", "40000,25565"]).arg(&dump).arg(&capture).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let fields = ["v1.proto", "v2.version", "src.ipv4", "srcport", "dst.ipv4", "dstport"]
        .map(|field| format!("proxy.{field}"));
    let mut tshark = peers::installed("tshark").unwrap();
    tshark.arg("-r").arg(&capture).args(["-T", "fields", "-E", "separator=/s"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = tshark.output().await.unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn haproxy(directory: &Path, name: &str, config: &str) -> Option<Process> {
    let file = directory.join(name);
    std::fs::write(&file, config).unwrap();
    Some(Process::start(&mut peers::haproxy(&file)?))
}

fn nginx(directory: &Path, port: u16, gate: SocketAddr) -> Option<Process> {
    let stream = format!("server {{ listen 127.0.0.1:{port}; proxy_pass {gate}; proxy_protocol on; }}");
    Some(Process::start(&mut peers::nginx(directory, &stream)?))
}
