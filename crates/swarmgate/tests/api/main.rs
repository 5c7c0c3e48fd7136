//! The HTTP API as programs meet it over TCP: the real binary, asked over real sockets.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "this is how a test fails"
)]

#[path = "../common/mod.rs"]
mod common;

mod access;
mod documents;
mod events;
mod limits;
mod refusals;
mod schema;
mod sessions;
mod updates;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use common::{Config, Gate, Home, LIMIT, Server};
use serde_json::Value;
use swarmgate_testkit::backend::{Backend, Behaviour};
use swarmgate_testkit::client::{Client, Connection, Outcome};
use swarmgate_testkit::login::LoginStart;
use swarmgate_testkit::wire::Handshake;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const READ: &str = "read-5f3c0e8d9a7b4612aa01";
const OPERATE: &str = "operate-c41d7e2f90abbb02";
const WRONG: &str = "wrong-0123456789abcdef01";

/// A gate with two tokens, a server that it runs, `survival`, and one that is only an address, `hub`.
struct Site {
    gate: Gate,
    home: Arc<Home>,
    _backend: Backend,
}

impl Site {
    async fn start() -> Self {
        Self::with("", |config| config).await
    }

    /// `api` are further keys of `[api]`.
    async fn with(api: &str, change: impl FnOnce(Config) -> Config) -> Self {
        let backend = Backend::start(Behaviour::default()).await;
        let home = Home::new();
        write_tokens(&home, &format!("reader read {READ}\noperator operate {OPERATE}\n"));
        let survival = Server::new(&home, "survival", &[], "hosts = [\"mc.example.com\"]");
        let hub =
            format!("[server.hub]\naddress = \"{}\"\nhosts = [\"hub.example.com\"]\n", backend.address());
        let api = format!("[api]\ntokens_file = \"tokens\"\n{api}\n");
        home.write(&change(Config::of(api + &hub + &survival.table)));
        let gate = home.start().await;
        Self { gate, home, _backend: backend }
    }

    fn ask(&self, method: &str, path: &str) -> Ask {
        Ask::new(self.gate.http, method, path)
    }

    async fn get(&self, path: &str, token: &str) -> Value {
        let answer = self.ask("GET", path).token(token).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }
}

/// As secrets are: for the gate alone, and in one step.
fn write_tokens(home: &Home, text: &str) {
    use std::os::unix::fs::PermissionsExt;

    let (new, file) = (home.path().join("tokens.new"), home.path().join("tokens"));
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// A request.
#[derive(Debug, Clone)]
struct Ask {
    gate: SocketAddr,
    head: String,
    body: Vec<u8>,
    sized: bool,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Ask {
    fn new(gate: SocketAddr, method: &str, path: &str) -> Self {
        Self {
            gate,
            head: format!("{method} {path} HTTP/1.1\r\nhost: {gate}\r\n"),
            body: Vec::new(),
            sized: true,
        }
    }

    fn header(mut self, name: &str, value: &str) -> Self {
        self.head += &format!("{name}: {value}\r\n");
        self
    }

    /// By another name than its address.
    fn by_name(mut self, name: &str) -> Self {
        self.head = self.head.replace(&format!("host: {}", self.gate), &format!("host: {name}"));
        self
    }

    fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Sends the body as chunks, without its length in front.
    fn chunked(self) -> Self {
        let asked = self.header("transfer-encoding", "chunked");
        let size = format!("{:x}\r\n", asked.body.len()).into_bytes();
        let body = [size, asked.body, b"\r\n0\r\n\r\n".to_vec()].concat();
        Self { body, sized: false, ..asked }
    }

    async fn open(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.gate).await.expect("a gate");
        let length =
            if self.sized { format!("content-length: {}\r\n", self.body.len()) } else { String::new() };
        // The gate may have answered, and closed, before it has all.
        let _ = stream.write_all(format!("{}{length}\r\n", self.head).as_bytes()).await;
        let _ = stream.write_all(&self.body).await;
        stream
    }

    async fn send(&self) -> Answer {
        let mut stream = self.open().await;
        let mut said = Vec::new();
        // A reset behind the answer is an end, too.
        let _ = timeout(LIMIT, stream.read_to_end(&mut said)).await.expect("an end");
        Answer::parse(&String::from_utf8_lossy(&said))
    }

    /// The status alone, of an answer that may have no end.
    async fn status(&self) -> u16 {
        self.begin().await.0.status
    }

    /// What there is of an answer once its head is here, and the rest of it to come.
    async fn begin(&self) -> (Answer, TcpStream) {
        let mut stream = self.open().await;
        let mut said = Vec::new();
        while !said.windows(4).any(|four| four == b"\r\n\r\n") {
            assert_ne!(timeout(LIMIT, stream.read_buf(&mut said)).await.expect("a head").expect("bytes"), 0);
        }
        (Answer::parse(&String::from_utf8_lossy(&said)), stream)
    }
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.parse().expect("a number"),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: body.to_owned(),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The code of a refusal, once all of it is as it should be.
    #[track_caller]
    fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let error = &self.json()["error"];
        assert_eq!(error["status"], self.status, "{error}");
        assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{error}");
        error["code"].as_str().expect("a code").to_owned()
    }
}

/// A player who got in.
async fn play(gate: SocketAddr, host: &str, name: &str) -> Connection {
    const PROTOCOL: i32 = 767;
    let handshake = Handshake::login(PROTOCOL, host);
    let joined = Client::to(gate).join(&handshake, &LoginStart::new(name), LIMIT).await;
    let (outcome, connection) = joined.expect("a conversation");
    assert!(matches!(outcome, Outcome::Joined { .. }), "{outcome:?}");
    connection
}

/// One of the repository's files.
fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).expect("a file of the repository")
}
