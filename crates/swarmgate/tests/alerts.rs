//! The gate tells of crashes and of nothing that was meant: the real binary, an engine inside the test, strict messengers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

#[path = "common/mod.rs"]
mod common;

use std::sync::Arc;

use common::{Config, Gate, Home, LIMIT, Server};
use jiff::Timestamp;
use serde_json::{Value, json};
use swarmgate_testkit::backend::{Backend, Behaviour};
use swarmgate_testkit::client::{Client, Outcome};
use swarmgate_testkit::engine::{FakeEngine, container, service};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::messengers::{Messenger, Receiver};
use swarmgate_testkit::process::{Process, Signal};
use swarmgate_testkit::wait::until;
use swarmgate_testkit::wire::Handshake;
use tokio::process::Command;

struct Site {
    engine: FakeEngine,
    alerts: Receiver,
    log: Receiver,
    gate: Gate,
}

impl Site {
    /// A gate, and an engine with the services `mc` and `web`, each with one running task; only `mc` has labels.
    async fn start() -> Self {
        let home: Arc<Home> = Home::new();
        let socket = home.path().join("docker.sock");
        let engine = FakeEngine::start(&socket);
        engine.quietly(|swarm| {
            swarm.create(service("mc", 1, &json!({"mc-router.host": "mc.example"})));
            swarm.create(service("web", 1, &json!({})));
            swarm.add_task("mc", "running", "running");
            swarm.add_task("web", "running", "running");
        });
        let (alerts, log) =
            (Receiver::start(Messenger::Webhook).await, Receiver::start(Messenger::Discord).await);
        std::fs::write(home.path().join("urls"), format!("# whom to tell\n{}\n", alerts.url())).unwrap();
        home.write_text(&format!(
            "listen = [\"{}\"]\nhttp = \"{}\"\ndrain = \"0s\"\n[docker]\nswarm = \"on\"\ncontainers = \"off\"\n\
             host = \"unix://{}\"\n[log]\nlevel = \"debug\"\nformat = \"json\"\nname = \"edge\"\nenvironment = \"test\"\n\
             [notify]\nurls_file = \"urls\"\nlog_urls = [\"{}\"]\n",
            home.address,
            home.http,
            socket.display(),
            log.url()
        ));
        let gate = home.start().await;
        let site = Self { engine, alerts, log, gate };
        site.listed().await;
        site
    }

    /// Once the gate has looked at everything that is so now.
    async fn listed(&self) {
        // A listing that begins after this one shows it.
        for _ in 0..2 {
            let before = self.lists();
            self.engine.update("mc", |_| ());
            until("a listing", LIMIT, async || (self.lists() > before).then_some(())).await;
        }
    }

    fn lists(&self) -> usize {
        self.engine.quietly(|swarm| swarm.calls.iter().filter(|call| *call == "GET /services").count())
    }

    /// The newest task of a service ends by itself, and Swarm makes another that runs.
    async fn crash(&self, name: &str, code: i64) {
        self.engine.update(name, |swarm| {
            let task = swarm.task(name);
            let id = task["ID"].as_str().unwrap().to_owned();
            task["Status"]["State"] = "failed".into();
            task["Status"]["Err"] = format!("task: non-zero exit ({code})").into();
            task["Status"]["ContainerStatus"]["ExitCode"] = code.into();
            task["DesiredState"] = "shutdown".into();
            swarm.said.insert(id.clone(), vec![(Timestamp::now(), format!("last words of {id}"))]);
            swarm.add_task(name, "running", "running");
        });
        self.listed().await;
    }
}

/// Whoever hears what happens.
async fn listen(gate: &Gate) -> Process {
    let socket = gate.directory().join("swarmgate-data/control.sock");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--no-buffer", "http://gate/v1/events", "--unix-socket"]).arg(socket);
    let mut listener = Process::start(&mut curl);
    listener.wait_for_line(": here", LIMIT).await;
    listener
}

/// The alert of this number, counted from 0.
async fn heard(listener: &mut Process, number: usize) -> Value {
    let alert = |line: &&String| line.contains("\"event\":\"alert\"");
    let heard = listener.wait_for("an alert", LIMIT, |lines| lines.iter().filter(alert).nth(number).cloned());
    serde_json::from_str(heard.await.trim_start_matches("data: ")).unwrap()
}

/// The alerts that have come, once there are so many.
async fn told(receiver: &Receiver, count: usize) -> Vec<Value> {
    let all = || -> Vec<Value> {
        let inbox = receiver.inbox();
        inbox.messages.iter().flat_map(|message| message["alerts"].as_array().unwrap().clone()).collect()
    };
    until("an alert", LIMIT, async || Some(all()).filter(|told| told.len() >= count)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_are_told_and_what_was_meant_is_not() {
    let site = Site::start().await;
    let mut listener = listen(&site.gate).await;
    for _ in 0..3 {
        site.crash("mc", 137).await;
    }
    let alerts = told(&site.alerts, 1).await;
    // Whoever listens over the API hears the same.
    let heard = heard(&mut listener, 0).await;
    for part in ["title", "text", "subject", "kind", "stage"] {
        assert_eq!(heard[part], alerts[0][part], "{part}");
    }
    assert_eq!(alerts[0]["title"], "mc crashed");
    let text = alerts[0]["text"].as_str().unwrap();
    assert!(text.starts_with("exit code 137: killed") && text.contains("on node n1"), "{text}");
    assert_eq!(alerts[0]["lines"], json!(["last words of task1"]));
    assert_eq!(
        (alerts[0]["subject"].as_str(), alerts[0]["kind"].as_str()),
        (Some("swarm/mc"), Some("crashed"))
    );

    // An update: the old task is told to stop, and ends badly.
    site.engine.update("mc", |swarm| {
        swarm.task("mc")["DesiredState"] = "shutdown".into();
        swarm.add_task("mc", "ready", "ready");
    });
    site.listed().await;
    site.engine.update("mc", |swarm| {
        let old = swarm
            .tasks
            .iter_mut()
            .rev()
            .find(|task| task["DesiredState"] == "shutdown" && task["Status"]["State"] == "running");
        let old = old.unwrap();
        old["Status"]["State"] = "shutdown".into();
        old["Status"]["ContainerStatus"]["ExitCode"] = 1.into();
        swarm.task("mc")["DesiredState"] = "running".into();
        swarm.reach("mc", "running");
    });
    site.listed().await;
    // The gate's own sleep, and a server that takes its time and is killed by nobody.
    let (status, body) = site.gate.control("POST", "/v1/services/mc/sleep?force=true", "").await;
    assert_eq!(status / 100, 2, "{body}");
    until("a sleep", LIMIT, async || (site.engine.quietly(|swarm| swarm.replicas("mc")) == 0).then_some(()))
        .await;
    site.engine.update("mc", |swarm| swarm.reach("mc", "shutdown"));
    site.listed().await;
    // Somebody scales the other one down.
    site.engine.update("web", |swarm| {
        swarm.edit("web", |spec| spec["Mode"]["Replicated"]["Replicas"] = 0.into());
        swarm.task("web")["DesiredState"] = "remove".into();
    });
    site.listed().await;
    site.engine.update("web", |swarm| swarm.reach("web", "shutdown"));
    site.listed().await;
    site.engine.update("web", |swarm| {
        swarm.edit("web", |spec| spec["Mode"]["Replicated"]["Replicas"] = 1.into());
        swarm.add_task("web", "running", "running");
    });
    site.listed().await;

    // What is told next is told of the next crash: of a service without labels, too.
    site.crash("web", 1).await;
    let alerts = told(&site.alerts, 2).await;
    let titles: Vec<&str> = alerts.iter().map(|alert| alert["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["mc crashed", "web crashed"]);
    let metric = "swarmgate_notifications_total{messenger=\"webhook\",outcome=\"sent\"}";
    until("a count", LIMIT, async || (site.gate.metric(metric).await == 2).then_some(())).await;
    assert_eq!(site.alerts.inbox().complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_of_the_log_are_sent_and_nothing_shows_whom_to() {
    let mut site = Site::start().await;
    site.engine.stop();
    until("a warning", LIMIT, async || site.log.text().contains("the source does not answer").then_some(()))
        .await;
    site.engine.listen();
    assert_eq!(site.log.inbox().complaints, Vec::<String>::new());
    let log = site.gate.log();
    assert!(!log.contains("hook-token") && !log.contains("key=1"), "{log}");
    for line in log.lines().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["app"], &line["env"]), (&json!("edge"), &json!("test")), "{line}");
    }
    assert!(log.contains("\"app\":\"edge\""), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_address_is_refused_at_the_start_and_not_shown() {
    let home = Home::new();
    home.write_text("[notify]\nurls = [\"telegram://secret@x\"]\n");
    let output = home.command(&["check", "swarmgate.toml"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success() && said.contains("notify.urls") && !said.contains("secret"), "{said}");

    std::fs::write(home.path().join("urls"), "discord://secret\n").unwrap();
    home.write_text("[docker]\nswarm = \"off\"\ncontainers = \"off\"\n[notify]\nurls_file = \"urls\"\n");
    let output = home.command(&["run", "--config", "swarmgate.toml"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(!output.status.success() && said.contains("line 1 of") && !said.contains("secret"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_crashes_is_told_and_one_that_is_stopped_is_not() {
    let home = Home::new();
    let socket = home.path().join("docker.sock");
    let engine = FakeEngine::start(&socket);
    let labels = || json!({"swarmgate.host": "mc.example"});
    engine.quietly(|engine| {
        engine.alone = true;
        engine.create_container(container("mc", &labels()));
        engine.run_container("mc");
    });
    let receiver = Receiver::start(Messenger::Webhook).await;
    home.write_text(&format!(
        "listen = [\"{}\"]\nhttp = \"{}\"\ndrain = \"0s\"\n[docker]\nswarm = \"off\"\ncontainers = \"on\"\nhost = \"unix://{}\"\n\
         [notify]\nlines = 0\nurls = [\"{}\"]\n",
        home.address,
        home.http,
        socket.display(),
        receiver.url()
    ));
    let gate = home.start().await;
    let die = |code: i64| {
        engine.quietly(|engine| engine.exit_container("mc", code));
        engine.tell(
            json!({"Type": "container", "Action": "die", "Actor": {"ID": "cmc", "Attributes": labels()}}),
        );
    };
    gate.until_state("mc", "starting").await;
    let (status, body) = gate.control("POST", "/v1/services/mc/sleep?force=true", "").await;
    assert_eq!(status / 100, 2, "{body}");
    gate.until_state("mc", "asleep").await;
    let (status, body) = gate.control("POST", "/v1/services/mc/wake", "").await;
    assert_eq!(status / 100, 2, "{body}");
    until("a start", LIMIT, async || {
        engine.quietly(|engine| engine.acts.iter().any(|act| act == "start mc")).then_some(())
    })
    .await;
    gate.until("mc", "a run", |mc| mc["state"] == "starting" && mc["reason"] != "told to start").await;
    die(139);
    let alerts = told(&receiver, 2).await;
    let titles: Vec<&str> = alerts.iter().map(|alert| alert["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["mc crashed", "mc is down and is not started again"], "and nothing before");
    assert_eq!(alerts[0]["text"], "exit code 139: crashed (SIGSEGV), run 1");
}

/// A web service that no player has to do with, without a Swarm and in one; and nobody to tell but a listener of the API.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_only_published_is_told_too_and_without_messengers_to_those_who_listen() {
    let home = Home::new();
    let socket = home.path().join("docker.sock");
    let engine = FakeEngine::start(&socket);
    let labels = || json!({"swarmgate.publish.host": "web.example", "swarmgate.publish.port": "80"});
    engine.quietly(|engine| {
        engine.create_container(container("web", &labels()));
        engine.run_container("web");
        engine.create(service("site", 1, &labels()));
        engine.add_task("site", "running", "running");
    });
    home.write_text(&format!(
        "listen = [\"{}\"]\nhttp = \"{}\"\ndrain = \"0s\"\n[docker]\nswarm = \"on\"\ncontainers = \"on\"\nhost = \"unix://{}\"\n\
         [notify]\nservices = \"labelled\"\n",
        home.address,
        home.http,
        socket.display(),
    ));
    let gate = home.start().await;
    let mut listener = listen(&gate).await;
    let calls =
        |what: &str| engine.quietly(|engine| engine.calls.iter().filter(|call| call.contains(what)).count());
    until("a first look", LIMIT, async || {
        (calls("/containers/cweb/json") > 0 && calls("GET /tasks") > 0).then_some(())
    })
    .await;
    // Stopped by somebody, and started again.
    engine.quietly(|engine| engine.exit_container("web", 137));
    engine.tell(swarmgate_testkit::engine::killed("web", &labels(), 15));
    let seen = calls("/containers/cweb/json");
    until("a look", LIMIT, async || (calls("/containers/cweb/json") > seen).then_some(())).await;
    engine.quietly(|engine| engine.run_container("web"));
    engine.quietly(|engine| engine.exit_container("web", 3));
    engine
        .tell(json!({"Type": "container", "Action": "die", "Actor": {"ID": "cweb", "Attributes": labels()}}));
    let crashed = heard(&mut listener, 0).await;
    assert_eq!((&crashed["title"], &crashed["text"]), (&json!("web crashed"), &json!("exit code 3, run 1")));
    assert_eq!(crashed["subject"], "docker/web");
    assert_eq!(heard(&mut listener, 1).await["kind"], "gave_up");
    engine.update("site", |swarm| {
        let task = swarm.task("site");
        task["Status"]["State"] = "failed".into();
        task["Status"]["ContainerStatus"]["ExitCode"] = 4.into();
        task["DesiredState"] = "shutdown".into();
        swarm.add_task("site", "running", "running");
    });
    let crashed = heard(&mut listener, 2).await;
    assert_eq!((&crashed["subject"], &crashed["kind"]), (&json!("swarm/site"), &json!("crashed")));
    let listed = gate.control("GET", "/v1/services", "").await.1;
    assert!(!listed.contains("web"), "no game server: {listed}");
    assert!(
        !engine.quietly(|engine| engine.calls.iter().any(|call| call.contains("/logs"))),
        "nobody reads them"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_server_that_crashes_is_told_with_its_last_words() {
    let home = Home::new();
    let receiver = Receiver::start(Messenger::Webhook).await;
    home.write(&Config::of(format!(
        "[notify]\nurls = [\"{}\"]\n[server.mc]\nhosts = \"mc.example\"\naddress = \"127.0.0.1:1\"\ndirectory = \".\"\n\
         command = [\"sh\", \"-c\", \"echo out of luck; exit 3\"]\nmax_restarts = 1\nrestart_delay = \"50ms\"\n",
        receiver.url()
    )));
    let gate = home.start().await;
    gate.control("POST", "/v1/services/mc/wake", "").await;
    let alerts = told(&receiver, 2).await;
    let titles: Vec<&str> = alerts.iter().map(|alert| alert["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["mc crashed", "mc is down and is not started again"]);
    assert_eq!((&alerts[0]["text"], &alerts[0]["lines"]), (&json!("exit code 3"), &json!(["out of luck"])));
    gate.until_state("mc", "failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn players_who_come_and_go_are_told_as_mc_router_does() {
    let backend = Backend::start(Behaviour::default()).await;
    let receiver = Receiver::start(Messenger::Webhook).await;
    let gate = Gate::start(&format!(
        "[notify]\nurls = [\"{}#mc-router\"]\n[server.mc]\nhosts = \"mc.example\"\naddress = \"{}\"\n",
        receiver.url(),
        backend.address()
    ))
    .await;
    let join = async |host: &str| {
        let handshake = Handshake::login(767, host);
        Client::to(gate.address).join(&handshake, &LoginStart::new("Alex"), LIMIT).await.unwrap()
    };
    let (outcome, connection) = join("mc.example").await;
    assert!(matches!(outcome, Outcome::Joined { .. }), "{outcome:?}");
    drop(connection);
    let events = async |count: usize| -> Vec<Value> {
        until("events", LIMIT, async || {
            Some(receiver.inbox().messages.clone()).filter(|all| all.len() >= count)
        })
        .await
    };
    let told = events(3).await;
    let route = &told[0];
    assert_eq!((&route["event"], &route["server"]), (&json!("route-added"), &json!("mc.example")), "{route}");
    assert_eq!(route["backend"], backend.address().to_string());
    let told = &told[1..];
    drop(join("nowhere.example").await);
    let missing = events(4).await.remove(3);
    for (event, name, status, server) in [
        (&told[0], "connect", "success", "mc.example"),
        (&told[1], "disconnect", "success", "mc.example"),
        (&missing, "connect", "missing-backend", "nowhere.example"),
    ] {
        assert_eq!((&event["event"], &event["status"]), (&json!(name), &json!(status)), "{event}");
        assert_eq!((&event["server"], &event["player"]["name"]), (&json!(server), &json!("Alex")), "{event}");
        assert_eq!(event["client"]["host"], "127.0.0.1", "{event}");
    }
    assert_eq!(told[0]["backend"], backend.address().to_string());
}

/// By its stop grace, or by somebody's `kill -9`.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_while_it_saves_is_told() {
    let site = Site::start().await;
    let (status, body) = site.gate.control("POST", "/v1/services/mc/sleep?force=true", "").await;
    assert_eq!(status / 100, 2, "{body}");
    until("the order", LIMIT, async || {
        (site.engine.quietly(|swarm| swarm.replicas("mc")) == 0).then_some(())
    })
    .await;
    site.listed().await;
    site.engine.update("mc", |swarm| {
        swarm.task("mc")["Status"]["ContainerStatus"]["ExitCode"] = 137.into();
        swarm.reach("mc", "shutdown");
    });
    let alerts = told(&site.alerts, 1).await;
    assert_eq!(
        (&alerts[0]["title"], &alerts[0]["kind"]),
        (&json!("mc was killed while it was stopping"), &json!("killed_saving"))
    );
    assert!(alerts[0]["text"].as_str().unwrap().contains("raise stop_grace_period"), "{}", alerts[0]);
    // One that has saved is told of no more, and is no crash either.
    site.crash("web", 1).await;
    assert_eq!(told(&site.alerts, 2).await[1]["title"], "web crashed");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_wakes_a_server_can_be_told_that_it_is_ready() {
    for ready in [true, false] {
        let home = Home::new();
        let receiver = Receiver::start(Messenger::Webhook).await;
        let server = Server::new(&home, "mc", &["READY_DELAY_MS=300"], "wait = \"hold\"");
        home.write(&Config::of(format!(
            "[notify]\nready = {ready}\nurls = [\"{}\"]\n{}",
            receiver.url(),
            server.table
        )));
        let gate = home.start().await;
        gate.until_state("mc", "asleep").await;
        let handshake = Handshake::login(763, "mc.example.com");
        let joined = Client::to(gate.address).join(&handshake, &LoginStart::new("Alex"), LIMIT).await;
        let (outcome, _player) = joined.unwrap();
        assert!(matches!(outcome, Outcome::Joined { .. }), "{outcome:?}");
        if ready {
            let alerts = told(&receiver, 1).await;
            assert_eq!((&alerts[0]["title"], &alerts[0]["stage"]), (&json!("mc is ready"), &json!("ready")));
            assert!(alerts[0]["text"].as_str().unwrap().contains("after it was woken"), "{}", alerts[0]);
        }
        // What was to be told is sent before the gate is gone.
        gate.end(Signal::TERM).await;
        assert_eq!(receiver.inbox().messages.len(), usize::from(ready), "{}", receiver.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_the_log_says_which_gate_it_is_of() {
    for (tags, front) in [
        ("name = \"edge\"\nenvironment = \"test\"", "[edge test] "),
        ("name = \"edge\"", "[edge] "),
        ("environment = \"test\"", "[test] "),
    ] {
        let home = Home::new();
        home.write_text(&format!(
            "listen = [\"{}\"]\nhttp = \"{}\"\ndrain = \"0s\"\n[docker]\nswarm = \"off\"\ncontainers = \"off\"\n\
             [log]\nlevel = \"debug\"\n{tags}\n[server.mc]\nhosts = \"mc.example\"\naddress = \"127.0.0.1:1\"\n",
            home.address, home.http
        ));
        let gate = home.start().await;
        gate.control("POST", "/v1/services/mc/wake", "").await;
        let log = gate.log();
        let without: Vec<&str> = log.lines().filter(|line| !line.starts_with(front)).collect();
        assert!(without.is_empty() && log.lines().count() > 3, "{front}: {without:#?}");
    }
}
