use std::path::PathBuf;
use std::time::Duration;

use swarmgate_testkit::process::{Process, Signal};
use swarmgate_testkit::wait;
use tokio::net::{TcpListener, TcpStream};

use crate::{LIMIT, run, swarmgate};

/// A demo whose server starts in half a second, and what it says to type.
struct Demo {
    process: Process,
    /// `localhost:PORT`
    address: String,
    control: String,
}

impl Demo {
    async fn start(more: &[&str]) -> Self {
        let mut process = Process::start(swarmgate().args(["demo", "--boot", "0.5"]).args(more));
        let typed = process.wait_for_line("Direct Connection → ", LIMIT).await;
        let (_, address) = typed.split_once("→ Direct Connection → ").unwrap();
        let command = process.wait_for_line("services --control ", LIMIT).await;
        let (_, control) = command.split_once("--control ").unwrap();
        process.wait_for_line("to=\"asleep\"", LIMIT).await;
        let (address, control) = (address.to_owned(), control.to_owned());
        Self { process, address, control }
    }

    fn directory(&self) -> PathBuf {
        PathBuf::from(&self.control).ancestors().nth(2).unwrap().to_owned()
    }

    /// Where the server behind the gate listens.
    fn server(&self) -> String {
        let config = std::fs::read_to_string(self.directory().join("swarmgate.toml")).unwrap();
        let (_, rest) = config.split_once("address = \"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    }
}

#[tokio::test]
async fn from_asleep_to_awake_to_asleep_to_nothing() {
    let port = wait::free_port().to_string();
    let mut demo = Demo::start(&["--port", &port]).await;
    assert_eq!(demo.address, format!("localhost:{port}"));

    let said = run(&["ping", &demo.address]).await;
    assert!(said.code == 0 && said.out.contains("  demo is asleep. Join to wake it up!\n"), "{}", said.out);

    let said = run(&["join", &demo.address, "--name", "Ann"]).await;
    assert_eq!(said.code, 1, "{}", said.err);
    for part in ["sent Ann away", "  It works, Ann!\n", "by the name \"localhost\"", "started for you"] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    let said = run(&["ping", &demo.address]).await;
    assert!(said.out.contains("is awake!") && said.out.contains("icon     yes"), "{}", said.out);
    let services = run(&["services", "--control", &demo.control, "--json"]).await.json();
    assert_eq!((&services[0]["name"], &services[0]["state"]), (&"demo".into(), &"running".into()));
    let said = run(&["output", "demo", "--control", &demo.control]).await;
    assert!(said.out.contains("Done (0.5") && said.out.contains("Ann joined"), "{}", said.out);

    assert_eq!(run(&["sleep", "demo", "--control", &demo.control]).await.code, 0);
    demo.process.wait_for_line("from=\"stopping\" to=\"asleep\"", LIMIT).await;
    let (directory, server) = (demo.directory(), demo.server());
    assert!(TcpStream::connect(&server).await.is_err(), "the server is gone");
    let asleep = run(&["ping", &demo.address, "--json"]).await.json();
    assert_eq!(asleep["version"]["name"], "demo", "{asleep}");

    // Awake again, so that the end has something to end.
    assert_eq!(run(&["join", &demo.address]).await.code, 1);
    demo.process.signal(Signal::INT);
    assert_eq!(demo.process.wait_exit(LIMIT).await.code(), Some(0));
    assert!(!directory.exists(), "nothing is left behind");
    assert!(TcpStream::connect(&server).await.is_err(), "the server ends with the demo");
    let warnings: Vec<_> = demo.process.lines().into_iter().filter(|line| line.contains("WARN")).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test]
async fn a_port_in_use_is_left_to_its_user() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut demo = Demo::start(&["--port", &port.to_string(), "--seconds", "3"]).await;
    demo.process.wait_for_line(&format!("Port {port} is in use"), LIMIT).await;
    assert_ne!(demo.address, format!("localhost:{port}"));
    assert_eq!(run(&["ping", &demo.address]).await.code, 0);
    assert_eq!(demo.process.wait_exit(LIMIT).await.code(), Some(0), "it ends by itself");
}

#[tokio::test]
async fn a_demo_that_is_killed_leaves_no_server() {
    let demo = Demo::start(&["--port", "0"]).await;
    assert_eq!(run(&["join", &demo.address]).await.code, 1);
    let (directory, server) = (demo.directory(), demo.server());
    assert!(TcpStream::connect(&server).await.is_ok());
    drop(demo);
    wait::until("the end of the server", Duration::from_secs(20), async || {
        TcpStream::connect(&server).await.err().map(drop)
    })
    .await;
    // Its keeper writes there up to its own end.
    wait::until("the end of its keeper", LIMIT, async || std::fs::remove_dir_all(&directory).ok()).await;
}
