//! An engine of the test's own with the gate beside it, as a program of the machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use swarmgate_testkit::client::{Client, Connection, Outcome, Status};
use swarmgate_testkit::lab::{Inside, LIMIT, Lab};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::wire::Handshake;

use crate::common::{Gate, Home};

/// Of 1.20.1: too old to wait in a world, so that it is held on its connection.
const PROTOCOL: i32 = 763;

/// The test's thread is in the network of the engine's machine.
pub struct Site {
    pub gate: Gate,
    home: Arc<Home>,
    /// What the configuration says of the engine.
    docker: String,
    _inside: Inside,
    pub lab: Lab,
}

impl Site {
    /// An engine in no Swarm, with an image `testserver` and a network `games`, and the gate. `None` where there can be
    /// no engine.
    pub async fn start() -> Option<Self> {
        let lab = Lab::start(1).await?;
        lab.docker("swarm leave --force").await;
        Some(Self::beside(lab).await)
    }

    /// The same beside the manager of a Swarm.
    pub async fn start_on_a_manager() -> Option<Self> {
        Some(Self::beside(Lab::start(1).await?).await)
    }

    async fn beside(lab: Lab) -> Self {
        let socket = lab.node(1).socket();
        Self::at(lab, &socket, "").await
    }

    /// With a gate that speaks to the engine there, and these further keys of `[docker]`.
    pub async fn at(lab: Lab, socket: &Path, keys: &str) -> Self {
        lab.testserver_image("testserver").await;
        lab.docker("network create games").await;
        let inside = lab.node(1).enter();
        let home = Home::new();
        let docker = format!("host = \"unix://{}\"\n{keys}", socket.display());
        home.write_text(&config(&home, &docker));
        let gate = home.start().await;
        Self { gate, home, docker, _inside: inside, lab }
    }

    /// Gives the gate these tables, too.
    pub fn reconfigure(&self, tables: &str) {
        let text = config(&self.home, &self.docker);
        self.home.write_text(&(text + tables));
    }

    /// Creates a container for `NAME.example.com`, stopped, with these further options of `docker create`.
    pub async fn container(&self, name: &str, options: &str) {
        self.lab
            .docker(&format!(
                "create --name {name} --network games --label swarmgate.host={name}.example.com {options} testserver"
            ))
            .await;
        self.until_state(name, "asleep").await;
    }

    /// The options for a world that the test can look into.
    pub fn world(&self, name: &str) -> (PathBuf, String) {
        let path = self.lab.shared(name);
        let options = format!("--mount type=bind,src={},dst=/world --env WORLD=/world", path.display());
        (path, options)
    }

    pub async fn ping(&self, name: &str) -> Status {
        let handshake = Handshake::status(PROTOCOL, &format!("{name}.example.com"));
        Client::to(self.gate.address).status(&handshake, LIMIT).await.unwrap()
    }

    pub async fn join(&self, name: &str) -> (Outcome, Connection) {
        join(self.gate.address, name).await
    }

    /// Joins, again for as long as it is told to come back, and is let in.
    pub async fn play(&self, name: &str) -> Connection {
        const WORDS: &[u8] = b"twelve bytes";
        let join = async || match self.join(name).await {
            (Outcome::Joined { .. }, connection) => Some(connection),
            (Outcome::Kicked(_), _) => None,
            (other, _) => panic!("{other:?}"),
        };
        let mut connection = self.lab.until(&format!("a player in {name}"), join).await;
        connection.send(WORDS).await.unwrap();
        assert_eq!(connection.read_exact(WORDS.len(), Duration::from_secs(5)).await.unwrap(), WORDS);
        connection
    }

    /// A service as the gate tells it; `None` if it knows none of the name.
    pub async fn view(&self, name: &str) -> Option<Value> {
        let (status, body) = self.gate.control("GET", &format!("/v1/services/{name}"), "").await;
        (status == 200).then(|| serde_json::from_str(&body).unwrap())
    }

    pub async fn until_state(&self, name: &str, state: &str) -> Value {
        self.until_view(name, state, |view| view["state"] == state).await
    }

    pub async fn until_view(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{name} {what}");
        self.lab.until(&what, async || self.view(name).await.filter(|view| is(view))).await
    }

    /// As the engine tells it.
    pub async fn inspect(&self, name: &str) -> Value {
        self.lab.get(&format!("/containers/{name}/json")).await
    }
}

pub async fn join(gate: SocketAddr, name: &str) -> (Outcome, Connection) {
    let handshake = Handshake::login(PROTOCOL, &format!("{name}.example.com"));
    Client::to(gate).join(&handshake, &LoginStart::new("Steve"), LIMIT).await.unwrap()
}

/// Quick where the usual is for people.
fn config(home: &Arc<Home>, docker: &str) -> String {
    let (listen, http) = (home.address, home.http);
    format!(
        r#"
listen = ["{listen}"]
http = "{http}"
drain = "0"
[docker]
{docker}
[limits]
trusted_sources = ["127.0.0.0/8"]
[log]
level = "debug"
[defaults]
cooldown = "1s"
wait = "hold"
hold = "28s"
"#
    )
}
