//! A Swarm with the gate in it.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use swarmgate_testkit::client::{Client, Connection, Outcome, Status};
use swarmgate_testkit::lab::{Inside, LIMIT, Lab, container, request};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::wire::Handshake;

/// Of 1.20.1: too old to wait in a world, so that it is held on its connection.
const PROTOCOL: i32 = 763;
const PORT: u16 = 25565;
/// The engine of the gate's own node, for [`Site::start_gate`].
pub const ENGINE: &str = "--mount type=bind,src=/var/run/docker.sock,dst=/var/run/docker.sock";
/// The user of the image.
const USER: u32 = 65532;

/// Quick where the usual is for people. The pings of the tests all come from one address.
pub const CONFIG: &str = r#"
listen = ["0.0.0.0:25565"]
drain = "0"
[docker]
swarm = "on"
containers = "off"
[limits]
trusted_sources = ["0.0.0.0/0"]
waking_at_once = 100
[log]
level = "debug"
[defaults]
cooldown = "1s"
wait = "hold"
hold = "28s"
"#;

/// The test's thread is in the network of the gate's node, so that the gate's published port can be dialled.
pub struct Site {
    // Left before its node ends.
    _inside: Inside,
    pub lab: Lab,
    gate_node: usize,
    pub control: PathBuf,
    /// What the gate's service is called.
    pub gate: &'static str,
    /// How its port is published: `host` or `ingress`.
    pub publish: &'static str,
}

impl Site {
    /// A lab of so many nodes with the images, a network `minecraft`, and the gate on the manager. `None` where there
    /// can be no lab.
    pub async fn start(nodes: usize) -> Option<Self> {
        let site = Self::without_gate(nodes, 1).await?;
        site.start_gate(ENGINE).await;
        Some(site)
    }

    /// The same before its gate, which is to be on this node.
    pub async fn without_gate(nodes: usize, gate_node: usize) -> Option<Self> {
        Some(Self::of(Lab::start(nodes).await?, gate_node).await)
    }

    pub async fn of(lab: Lab, gate_node: usize) -> Self {
        lab.gate_image("swarmgate").await;
        lab.testserver_image("testserver").await;
        lab.docker("network create --driver overlay minecraft").await;
        let control = lab.shared("gate").join("control.sock");
        Self { _inside: lab.node(gate_node).enter(), lab, gate_node, control, gate: "gate", publish: "host" }
    }

    /// Starts it as the image has it: not as root, with the group that may use the engine's socket.
    pub async fn start_gate(&self, options: &str) {
        self.start_gate_unready(options).await;
        self.until_gate_ready().await;
    }

    /// The same where it will hear nothing from the engine.
    pub async fn start_gate_unready(&self, options: &str) {
        let (data, config) = (self.lab.shared("gate"), self.lab.shared("config"));
        chown(&data, Some(USER), Some(USER)).unwrap();
        let file = config.join("swarmgate.toml");
        if !file.exists() {
            fs::write(file, CONFIG).unwrap();
        }
        let group = fs::metadata(self.lab.node(1).socket()).unwrap().gid();
        let mount = |from: &Path, to: &str| format!("--mount type=bind,src={},dst={to}", from.display());
        self.lab
            .docker(&format!(
                "service create --detach --name gate --user {USER}:{group} --network minecraft \
                 --constraint node.hostname==node{} --publish mode={},target={PORT},published={PORT} \
                 --restart-delay 200ms --health-interval 300ms {} {} {options} swarmgate",
                self.gate_node,
                self.publish,
                mount(&data, "/data"),
                mount(&config, "/etc/swarmgate"),
            ))
            .await;
    }

    /// Once its health check has passed and it has seen the Swarm.
    pub async fn until_gate_ready(&self) {
        self.lab.until_running(self.gate).await;
        self.until_answering().await;
    }

    /// Once the gate answers on its control socket.
    pub async fn until_answering(&self) {
        self.lab
            .until("a gate that answers", async || {
                let services = request(&self.control, "GET", "/v1/services", None).await.ok()?;
                (services.status == 200).then_some(())
            })
            .await;
    }

    /// Creates a service for `NAME.example.com`, asleep, with these further options of `docker service create`.
    pub async fn service(&self, name: &str, options: &str) {
        self.bare_service(name, &format!("--network minecraft {options}")).await;
    }

    /// The same on no network but those of the options.
    pub async fn bare_service(&self, name: &str, options: &str) {
        self.lab
            .docker(&format!(
                "service create --detach --name {name} --replicas 0 --restart-delay 200ms \
                 --label swarmgate.host={name}.example.com {options} testserver"
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

    pub fn client(&self) -> Client {
        Client::to(format!("{}:{PORT}", self.lab.node(self.gate_node).address()).parse().unwrap())
    }

    pub async fn ping(&self, name: &str) -> Status {
        let handshake = Handshake::status(PROTOCOL, &format!("{name}.example.com"));
        self.client().status(&handshake, LIMIT).await.unwrap()
    }

    pub async fn join(&self, name: &str) -> (Outcome, Connection) {
        let handshake = Handshake::login(PROTOCOL, &format!("{name}.example.com"));
        self.client().join(&handshake, &LoginStart::new("Steve"), LIMIT).await.unwrap()
    }

    /// Joins, again for as long as it is told to come back, and is let in: on a busy machine a start may take longer
    /// than a client can be held.
    pub async fn enter(&self, name: &str) -> Connection {
        self.lab
            .until(&format!("a player in {name}"), async || match self.join(name).await {
                (Outcome::Joined { .. }, connection) => Some(connection),
                (Outcome::Kicked(_), _) => None,
                (other, _) => panic!("{other:?}"),
            })
            .await
    }

    /// The same, and plays.
    pub async fn play(&self, name: &str) -> Connection {
        let mut connection = self.enter(name).await;
        assert!(echoes(&mut connection).await, "the first bytes through");
        connection
    }

    /// A service as the gate tells it; `None` if it knows none of the name, or does not answer.
    pub async fn view(&self, name: &str) -> Option<Value> {
        let answer = request(&self.control, "GET", &format!("/v1/services/{name}"), None).await.ok()?;
        (answer.status == 200).then_some(answer.body)
    }

    pub async fn until_state(&self, name: &str, state: &str) -> Value {
        self.until_view(name, state, |view| view["state"] == state).await
    }

    pub async fn until_view(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let what = format!("{name} {what}");
        self.lab.until(&what, async || self.view(name).await.filter(|view| is(view))).await
    }

    /// How often the gate has listed the tasks.
    pub async fn looks(&self) -> u64 {
        let metrics = request(&self.control, "GET", "/metrics", None).await.unwrap().success();
        let count = |line: &str| {
            let labels = line.strip_prefix("swarmgate_engine_call_seconds_count")?;
            labels.contains("endpoint=\"tasks\"").then(|| line.rsplit(' ').next()?.parse::<u64>().ok())?
        };
        let metrics = metrics.as_str().unwrap_or_else(|| panic!("{metrics}"));
        metrics.lines().filter_map(count).sum()
    }

    /// Runs `swarmgate` with these words where the gate runs, as `docker exec` does it.
    pub async fn command(&self, words: &str) -> Said {
        let task = self.lab.until_running(self.gate).await;
        let mut command = self.lab.node(self.gate_node).command("docker");
        command.args(["exec", &container(&task), "/swarmgate"]).args(words.split_whitespace());
        let output = command.output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { ok: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The same, read by a program.
    pub async fn json(&self, words: &str) -> Value {
        let said = self.command(&format!("{words} --json")).await;
        assert!(said.ok, "{words}: {}", said.err);
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{words}: {error}: {}", said.out))
    }

    /// Everything the gate has logged.
    pub fn log(&self) -> String {
        let socket = format!("unix://{}", self.lab.manager().socket().display());
        let mut logs = Command::new("docker");
        logs.env("DOCKER_HOST", socket).args(["service", "logs", "--raw", self.gate]);
        let logs = logs.output().map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        String::from_utf8_lossy(&logs).into_owned()
    }

    pub async fn wake(&self, name: &str) {
        let path = format!("/v1/services/{name}/wake");
        request(&self.control, "POST", &path, None).await.unwrap().success();
    }

    pub async fn sleep(&self, name: &str) {
        let path = format!("/v1/services/{name}/sleep?force=true");
        request(&self.control, "POST", &path, None).await.unwrap().success();
    }

    /// What `update` makes of the service, tried again when somebody else was faster.
    pub async fn update(&self, name: &str, update: impl Fn(&mut Value)) {
        self.lab
            .until(&format!("an update of {name}"), async || {
                let mut service = self.lab.service(name).await;
                update(&mut service["Spec"]);
                let path = format!("/services/{name}/update?version={}", service["Version"]["Index"]);
                let answer = self.lab.manager().post(&path, &service["Spec"]).await;
                let beaten = answer.body.to_string().contains("out of sequence");
                assert!(answer.status == 200 || beaten, "{answer:?}");
                (!beaten).then_some(())
            })
            .await;
    }
}

/// What a command said, and whether it did what it was asked for.
pub struct Said {
    pub ok: bool,
    pub out: String,
    pub err: String,
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the gate said:\n{}", self.log());
        }
    }
}

/// Whether what is sent comes back.
pub async fn echoes(connection: &mut Connection) -> bool {
    const WORDS: &[u8] = b"twelve bytes";
    let back = match connection.send(WORDS).await {
        Ok(()) => connection.read_exact(WORDS.len(), Duration::from_secs(5)).await,
        Err(error) => Err(error),
    };
    back.is_ok_and(|back| back == WORDS)
}

/// What comes of `what`, while bytes go both ways through the connection all the time.
pub async fn playing<T>(connection: &mut Connection, what: impl Future<Output = T>) -> T {
    let over = Cell::new(false);
    let play = async {
        while !over.get() {
            assert!(echoes(connection).await, "the stream was cut");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let what = async {
        let come = what.await;
        over.set(true);
        come
    };
    tokio::join!(what, play).0
}
