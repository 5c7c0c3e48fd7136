//! Real keepers with real child processes: what happens to a server when everything around it dies.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod lab;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::*;
use rustix::process::{Signal, kill_process, kill_process_group};
use swarmgate::keeper::console::ConsoleError;
use swarmgate::keeper::files::Wish;
use swarmgate::provider::process::ProcessSource;
use swarmgate::provider::{Source, SourceError};
use swarmgate_core::config::ProcessServer;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Endpoint, State};
use swarmgate_core::state::process::{How, ProcessServices};
use tokio::sync::watch;

#[tokio::test]
async fn wakes_talks_and_sleeps() {
    let lab = Lab::new();
    let mut gate = lab.gate(lab.server(SERVER));
    assert_eq!(gate.look().await.state, State::Asleep);
    let mut follow = gate.consoles.follow("survival");
    let running = gate.start().await;
    let State::Running(run) = &running.state else { panic!("{running:?}") };
    assert_eq!(run.endpoints, [Endpoint { host: "127.0.0.1".into(), port: 25566 }]);
    assert_eq!(running.problems, Vec::<String>::new());
    // Asking again changes nothing.
    gate.wake().await;
    assert_eq!(gate.look().await.state, running.state);
    gate.send("say hello § ü");
    gate.until_says("[Server] hello § ü").await;
    let followed = tokio::time::timeout(LIMIT, follow.next()).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&followed).starts_with("up "));
    gate.sleep().await;
    assert_eq!(gate.look().await.state, State::Stopping);
    let asleep = gate.until_state("asleep").await;
    assert_eq!(asleep.problems, Vec::<String>::new());
    assert!(lab.has("saved") && !lab.has("world.lock") && !lab.has("console-ended"));
    // A start may be too quick to be seen.
    gate.seen.retain(|word| *word != "starting");
    assert_eq!(gate.seen, ["asleep", "running", "stopping", "asleep"]);
    let keeper = format!("/proc/{}", lab.record().keeper);
    gate.until("no trace of the keeper", |_| !Path::new(&keeper).exists()).await;
    assert!(matches!(gate.consoles.send("survival", "say"), Err(ConsoleError::NotRunning)));
    let unknown = gate.source.scale("creative", true, Moment::START).await;
    assert!(matches!(unknown, Err(SourceError::NoSuchService(_))));
}

/// Not a test: the gate that the next test kills.
#[tokio::test]
async fn gate_to_be_killed() {
    let Ok(dir) = std::env::var("GATE_TO_BE_KILLED") else { return };
    let lab = std::mem::ManuallyDrop::new(Lab { dir: tempfile::TempDir::new_in(&dir).unwrap() });
    let world = PathBuf::from(&dir).join("world");
    let server = ProcessServer { directory: world, ..lab.server(SERVER) };
    let mut gate = Gate::new(&PathBuf::from(&dir).join("data"), server);
    gate.start().await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_gate_leaves_its_server_to_the_next() {
    let lab = Lab::new();
    let mut gate = GateProcess::start(lab.dir.path());
    until_recorded(|| lab.record().run.is_some_and(|run| run.pid != 0)).await;
    // All of its process group, as a terminal would.
    gate.kill();
    let mut next = lab.gate(lab.server(SERVER));
    let found = next.look().await;
    assert!(matches!(found.state, State::Running(_)) && found.problems.is_empty(), "{found:?}");
    next.send("say still here");
    next.until_says("[Server] still here").await;
    next.sleep().await;
    next.until_state("asleep").await;
    assert!(lab.has("saved") && !lab.has("two-servers") && !lab.has("console-ended"));
}

#[tokio::test]
async fn a_killed_keeper_costs_the_exit_code_and_no_more() {
    let lab = Lab::new();
    let mut gate = lab.gate(lab.server(SERVER));
    let running = gate.start().await;
    let record = lab.record();
    kill_process(pid(record.keeper), Signal::KILL).unwrap();
    let adopted = gate.until("another keeper", |_| lab.record().keeper != record.keeper).await;
    assert_eq!(adopted.state, running.state, "routes stay");
    assert!(adopted.problems.concat().contains("keeper was killed"), "{adopted:?}");
    gate.send("say still here");
    gate.until_says("[Server] still here").await;
    gate.sleep().await;
    gate.until_state("asleep").await;
    assert!(lab.has("saved") && !lab.has("two-servers") && !lab.has("console-ended"));
    assert_eq!(lab.record().exits.last().unwrap().how, How::Unseen);
    // And it starts again as ever.
    gate.start().await;
    gate.sleep().await;
    assert_eq!(gate.until_state("asleep").await.problems, Vec::<String>::new());
}

#[tokio::test]
async fn what_ended_unseen_is_asleep_and_starts_anew() {
    let lab = Lab::new();
    let mut gate = lab.gate(lab.server(SERVER));
    gate.start().await;
    let record = lab.record();
    drop(gate);
    // As when the machine goes down.
    let mut keeper = kill_process(pid(record.keeper), Signal::KILL);
    keeper = keeper.and(kill_process_group(pid(record.run.unwrap().pid), Signal::KILL));
    keeper.unwrap();
    let mut next = lab.gate(lab.server("echo up; read -r line"));
    let asleep = next.until_state("asleep").await;
    assert!(asleep.problems.concat().contains("nobody saw"), "{asleep:?}");
    assert_eq!(next.start().await.problems, Vec::<String>::new());
    next.sleep().await;
    next.until_state("asleep").await;
}

#[tokio::test]
async fn an_adopted_server_is_told_to_stop_by_signal_too() {
    let script = "trap 'echo saved > saved; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    // Also if the keeper was killed before it had written down the process id.
    for process_id_is_known in [true, false] {
        let lab = Lab::new();
        let mut gate = lab.gate(ProcessServer { stop_command: None, ..lab.server(script) });
        gate.start().await;
        let mut record = lab.record();
        kill_process(pid(record.keeper), Signal::KILL).unwrap();
        if !process_id_is_known {
            record.run.as_mut().unwrap().pid = 0;
            record.write(&lab.state()).unwrap();
        }
        gate.until("another keeper", |_| lab.record().keeper != record.keeper).await;
        gate.sleep().await;
        gate.until_state("asleep").await;
        assert!(lab.has("saved"));
    }
}

#[tokio::test]
async fn no_second_server_on_the_same_world() {
    let lab = Lab::new();
    let mut first = lab.gate(lab.server(SERVER));
    first.start().await;
    let mut second = Gate::new(&lab.dir.path().join("other"), lab.server(SERVER));
    second.wake().await;
    let failed = second.until_state("failed").await;
    let reason = failed.state.reason().unwrap();
    let holder = lab.record().run.unwrap().pid;
    assert!(reason.contains("is in use by process") && reason.contains(&holder.to_string()), "{reason}");
    assert!(!lab.has("two-servers"));
    // Even a server without any keeper holds its world.
    kill_process(pid(lab.record().keeper), Signal::KILL).unwrap();
    second.wake().await;
    second.until_state("failed").await;
    assert!(!lab.has("two-servers"));
    first.sleep().await;
    first.until_state("asleep").await;
    second.start().await;
    second.sleep().await;
    second.until_state("asleep").await;
}

#[tokio::test]
async fn a_slow_save_gets_its_grace() {
    let lab = Lab::new();
    let mut server = lab.server(SERVER);
    server.env = [("SAVING".to_owned(), "2".to_owned()), ("CODE".to_owned(), "143".to_owned())].into();
    let mut gate = lab.gate(server);
    gate.start().await;
    gate.sleep().await;
    let asleep = gate.until_state("asleep").await;
    assert_eq!(asleep.problems, Vec::<String>::new());
    assert!(lab.has("saved"));
}

#[tokio::test]
async fn every_step_beyond_the_grace_is_said() {
    let lab = Lab::new();
    let grace = Duration::from_millis(500);
    let mut gate = lab.gate(ProcessServer { grace, ..lab.server(STUBBORN) });
    gate.start().await;
    let before = Instant::now();
    gate.sleep().await;
    gate.until("SIGTERM", |service| service.problems.concat().contains("SIGTERM was sent")).await;
    assert!(before.elapsed() >= grace);
    let asleep = gate.until_state("asleep").await;
    assert!(before.elapsed() >= 2 * grace);
    assert!(asleep.problems.concat().contains("killed before it finished saving"), "{asleep:?}");
}

#[tokio::test]
async fn a_server_that_may_not_be_killed_is_waited_for_until_an_operator_kills_it() {
    let lab = Lab::new();
    let grace = Duration::from_millis(100);
    let mut gate = lab.gate(ProcessServer { grace, kill: false, ..lab.server(STUBBORN) });
    gate.start().await;
    gate.sleep().await;
    gate.until("waiting", |service| service.problems.concat().contains("waited for")).await;
    gate.source.kill("survival").unwrap();
    gate.until_state("asleep").await;
    assert_eq!(lab.record().exits.last().unwrap().how, How::Signal(9));
}

#[tokio::test]
async fn a_crash_loop_ends_and_a_wake_begins_anew() {
    let lab = Lab::new();
    let mut gate = lab.gate(lab.server("echo run >> runs; exit 3"));
    gate.wake().await;
    let failed = gate.until_state("failed").await;
    assert!(failed.state.reason().unwrap().contains("3 times in a row, the last time with exit code 3"));
    assert!(gate.seen.contains(&"restarting"), "{:?}", gate.seen);
    let runs = || std::fs::read_to_string(lab.world().join("runs")).unwrap().lines().count();
    assert_eq!(runs(), 3);
    // The cause is mended.
    gate.config.send_replace(Arc::new(ProcessServices { servers: vec![lab.server(SERVER)] }));
    assert_eq!(gate.look().await.state.word(), "failed", "only a wake starts it");
    gate.start().await;
    gate.sleep().await;
    gate.until_state("asleep").await;
}

#[tokio::test]
async fn a_sleep_during_the_restart_delay_ends_it() {
    let lab = Lab::new();
    let restart_delay = Duration::from_secs(600);
    let mut gate = lab.gate(ProcessServer { restart_delay, ..lab.server("exit 3") });
    gate.wake().await;
    let restarting = gate.until_state("restarting").await;
    let State::Restarting { until, .. } = restarting.state else { panic!("{restarting:?}") };
    assert!(gate.now().until(until) > Duration::from_secs(500));
    // A join meanwhile does not shorten the delay.
    gate.wake().await;
    assert_eq!(gate.look().await.state.word(), "restarting");
    gate.sleep().await;
    assert_eq!(gate.look().await.state, State::Asleep);
}

#[tokio::test]
async fn stopped_in_its_console_is_asleep() {
    let lab = Lab::new();
    let mut gate = lab.gate(lab.server(SERVER));
    gate.start().await;
    gate.send("stop");
    gate.until_state("asleep").await;
    gate.start().await;
    gate.sleep().await;
    gate.until_state("asleep").await;
}

#[tokio::test]
async fn what_cannot_start_says_how_to_mend_it() {
    let lab = Lab::new();
    let plain = lab.world().join("plain");
    std::fs::write(&plain, "not executable").unwrap();
    let missing = lab.world().join("missing");
    let server = |command: &str, directory: &Path| ProcessServer {
        command: vec![command.to_owned()],
        directory: directory.to_owned(),
        ..lab.server("")
    };
    let no_command = ProcessServer { command: Vec::new(), ..lab.server("") };
    for (server, says) in [
        (server("no-such-program", &lab.world()), "\"no-such-program\" is not in PATH"),
        (server("./no-such-program", &lab.world()), "does not exist: correct `command`"),
        (server("./plain", &lab.world()), "chmod +x"),
        (server("sh", &missing), "missing does not exist: create it"),
        (server("sh", &plain), "plain is not a directory"),
        (no_command, "set `command`"),
    ] {
        let mut gate = lab.gate(server);
        gate.wake().await;
        let failed = gate.until_state("failed").await;
        assert!(failed.state.reason().unwrap().contains(says), "{says}: {failed:?}");
    }
    // Without a keeper.
    let (_config, receiver) = watch::channel(Arc::new(ProcessServices { servers: vec![lab.server(SERVER)] }));
    let mut source = ProcessSource::new(&lab.data(), missing, receiver);
    source.scale("survival", true, Moment::START).await.unwrap();
    let snapshot = source.list(Moment::START).await.unwrap();
    assert!(snapshot.services[0].state.reason().unwrap().contains("its keeper"), "{snapshot:?}");
}

#[tokio::test]
async fn a_crash_while_the_gate_is_down_is_found_and_answered() {
    let lab = Lab::new();
    let mut gate = lab.gate(lab.server(SERVER));
    gate.start().await;
    let consoles = gate.consoles.clone();
    drop(gate);
    consoles.send("survival", "crash 7").unwrap();
    until_recorded(|| lab.record().run.is_none()).await;
    assert_eq!(lab.record().exits.last().unwrap().how, How::Code(7));
    let restart_delay = Duration::from_millis(1500);
    let mut next = lab.gate(ProcessServer { restart_delay, ..lab.server(SERVER) });
    let service = next.look().await;
    assert!(service.state.reason().is_some_and(|reason| reason.contains("exit code 7")), "{service:?}");
    next.until_state("running").await;
    assert!(!lab.has("two-servers"));
    next.sleep().await;
    next.until_state("asleep").await;
}

#[tokio::test]
async fn a_wish_to_sleep_is_followed_while_the_gate_is_down() {
    let lab = Lab::new();
    let mut gate =
        lab.gate(ProcessServer { env: [("SAVING".to_owned(), "1".to_owned())].into(), ..lab.server(SERVER) });
    gate.start().await;
    gate.sleep().await;
    drop(gate);
    until_recorded(|| lab.record().run.is_none()).await;
    assert!(lab.has("saved"));
    assert_eq!(lab.gate(lab.server(SERVER)).look().await.state, State::Asleep);
}

#[tokio::test]
async fn lives_in_the_deepest_directory() {
    let lab = Lab::new();
    let data = lab.dir.path().join("d".repeat(200)).join("e".repeat(200));
    let mut gate = Gate::new(&data, lab.server(SERVER));
    gate.start().await;
    gate.send("say deep");
    gate.until_says("[Server] deep").await;
    gate.sleep().await;
    gate.until_state("asleep").await;
    assert!(lab.has("saved"));
}

#[tokio::test]
async fn a_wake_while_it_stops_starts_it_once_it_has_stopped() {
    let lab = Lab::new();
    let mut server = lab.server(SERVER);
    server.env = [("SAVING".to_owned(), "1".to_owned())].into();
    let mut gate = lab.gate(server);
    let first = gate.start().await;
    gate.sleep().await;
    gate.until("the save", |_| lab.record().run.is_some_and(|run| run.stopping.is_some())).await;
    for _ in 0..3 {
        gate.wake().await;
        assert_eq!(gate.look().await.state, State::Stopping);
    }
    let again = gate.until_state("running").await;
    assert_ne!(again.state, first.state);
    assert!(lab.has("saved") && !lab.has("two-servers"));
    gate.until_says("up").await;
    gate.sleep().await;
    gate.until_state("asleep").await;
}

#[tokio::test]
async fn what_the_command_leaves_behind_ends_before_the_next_start() {
    let lab = Lab::new();
    // A start script that ends while the server it started lives on.
    let script = r#"
        (trap 'sleep 1; echo saved > saved; exit 0' TERM; echo > ready; while :; do sleep 0.05; done) &
        until [ -e ready ]; do sleep 0.05; done
        exit 1
    "#;
    let mut gate = lab.gate(ProcessServer { max_restarts: 0, ..lab.server(script) });
    gate.wake().await;
    gate.until_state("stopping").await;
    gate.until_state("failed").await;
    assert!(lab.has("saved"));
}

#[tokio::test]
async fn a_keeper_told_to_end_stops_its_server_first() {
    let lab = Lab::new();
    let mut gate = lab.gate(lab.server(SERVER));
    gate.start().await;
    kill_process(pid(lab.record().keeper), Signal::TERM).unwrap();
    gate.until_state("asleep").await;
    assert!(lab.has("saved"));
}

#[tokio::test]
async fn an_edit_of_the_configuration_stops_no_world() {
    let lab = Lab::new();
    let mut gate = lab.gate(lab.server(SERVER));
    let running = gate.start().await;
    gate.config.send_replace(Arc::default());
    assert_eq!(gate.source.list(gate.now()).await.unwrap().services, []);
    // A changed way to stop counts for the present run.
    let changed = ProcessServer { stop_command: None, ..lab.server(SERVER) };
    gate.config.send_replace(Arc::new(ProcessServices { servers: vec![changed] }));
    assert_eq!(gate.look().await.state, running.state);
    assert_eq!(Wish::read(&lab.state()).unwrap().server.stop_command, None);
    gate.config.send_replace(Arc::default());
    let left = gate.source.stop_all(LIMIT).await;
    assert_eq!((left, lab.record().run), (Vec::new(), None));
    assert_eq!(lab.record().exits.last().unwrap().how, How::Signal(15));
}

#[tokio::test]
async fn the_servers_environment_is_its_own() {
    let lab = Lab::new();
    let mut server = lab.server("env; echo up; read -r line");
    server.env = [("WORLD".to_owned(), "old".to_owned())].into();
    let mut gate = lab.gate(server);
    gate.start().await;
    let shown = gate.consoles.tail("survival", 1000).unwrap();
    assert!(shown.contains(&"WORLD=old".to_owned()));
    assert!(shown.iter().any(|line| line.starts_with("PATH=")));
    assert!(!shown.iter().any(|line| line.starts_with("CARGO")), "{shown:?}");
    gate.sleep().await;
    gate.until_state("asleep").await;
}

#[tokio::test]
async fn nothing_is_started_where_another_program_listens() {
    let lab = Lab::new();
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let mut gate = lab.gate(ProcessServer {
        endpoint: Endpoint { host: "localhost".into(), port },
        ..lab.server("touch started; exec sleep 600")
    });
    gate.wake().await;
    let failed = gate.until_state("failed").await;
    let why = format!(
        "127.0.0.1:{port} is in use by another program; stop that one, or give this server another port"
    );
    assert_eq!(failed.state, State::Failed { reason: why });
    assert!(!lab.has("started"));
    drop(stranger);
    gate.wake().await;
    gate.until_state("running").await;
    gate.until("its first line", |_| lab.has("started")).await;
}

#[tokio::test]
async fn a_server_that_listens_itself_is_found_again_and_is_no_stranger() {
    let lab = Lab::new();
    let listens = |port: u16| ProcessServer {
        endpoint: Endpoint { host: "127.0.0.1".into(), port },
        command: [env!("CARGO_BIN_EXE_swarmgate"), "demo-server", "--boot", "0", "--port", &port.to_string()]
            .map(str::to_owned)
            .into_iter()
            .chain(["--owner".to_owned(), std::process::id().to_string()])
            .collect(),
        ..lab.server("")
    };
    let port = swarmgate_testkit::wait::free_port();
    let mut gate = lab.gate(listens(port));
    let listening = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    gate.wake().await;
    gate.until("it listens", |_| listening()).await;
    drop(gate);
    let mut next = lab.gate(listens(port));
    assert_eq!(next.look().await.state.word(), "running");
    next.wake().await;
    assert_eq!(next.look().await.state.word(), "running");
    // And once more from the start, on the port that it has just left.
    next.sleep().await;
    next.until_state("asleep").await;
    next.wake().await;
    next.until("it listens again", |_| listening()).await;
    assert!(!next.seen.contains(&"failed"), "{:?}", next.seen);
    next.sleep().await;
    next.until_state("asleep").await;
}
