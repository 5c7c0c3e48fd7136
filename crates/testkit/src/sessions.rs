//! A session server inside the test, over HTTP: it knows accounts, and who of them is joining where.
//!
//! It answers as Mojang's is publicly known to (minecraft.wiki, Java Edition protocol, Encryption), is strict about
//! what it is asked, and has moods in which it does not answer well.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::http::{self, Request};
use crate::login::uuid_of;

/// How it answers whether somebody has joined.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Mood {
    #[default]
    Well,
    /// Nothing, for as long as the client waits.
    Silent,
    /// This status and body.
    Status(u16, &'static str),
    /// That it is asked too often, and for how many seconds to be left alone.
    Busy(u64),
    /// The half of an answer.
    Cut,
    /// A page of its proxy's.
    Html,
    /// The profile of somebody else.
    SomebodyElse,
    /// A profile without an end.
    Endless,
}

/// The server. It stops listening when it is dropped.
#[derive(Debug)]
pub struct SessionServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    listening: JoinHandle<()>,
}

#[derive(Debug, Default)]
pub struct State {
    pub mood: Mood,
    /// Who is joining where: name in lower case, hash.
    joining: BTreeMap<String, String>,
    /// What was asked: name, hash.
    pub asked: Vec<(String, String)>,
    /// Requests that no client of the game's makes.
    pub faults: Vec<String>,
    /// Questions without an answer so far, and the most of them at one time.
    pub open: (usize, usize),
}

impl SessionServer {
    /// Listens on a free port.
    ///
    /// # Panics
    /// Without one.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let state = Arc::new(Mutex::default());
        let shared = Arc::clone(&state);
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { address, state, listening }
    }

    /// The base of its URLs.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn set(&self, mood: Mood) {
        self.state().mood = mood;
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The owner of the account called `name` is joining the server that computes `hash`.
    pub fn join(&self, name: &str, hash: &str) {
        self.state().joining.insert(name.to_lowercase(), hash.to_owned());
    }
}

impl Drop for SessionServer {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// The access token of an account, for clients that join over HTTP.
pub fn access_token(name: &str) -> String {
    format!("token-of-{name}")
}

/// The account's id, as the session server writes it. It is the UUID with which [`crate::login::LoginStart::new`] logs in.
pub fn id(name: &str) -> String {
    format!("{:032x}", uuid_of(name))
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    while let Some(request) = http::read(&mut stream).await {
        let mood = lock(&state).mood.clone();
        let answered = match (request.call().as_str(), mood) {
            ("POST /session/minecraft/join", _) => {
                let (status, body) = lock(&state).client_joins(&request);
                http::answer(&mut stream, status, &body, Duration::ZERO).await;
                true
            }
            ("GET /session/minecraft/hasJoined", mood) => {
                has_joined(&mut stream, &request, mood, &state).await
            }
            (call, _) => {
                lock(&state).faults.push(format!("there is no {call}"));
                http::answer(&mut stream, 404, "", Duration::ZERO).await;
                true
            }
        };
        if !answered {
            return;
        }
    }
}

/// Whether the connection goes on.
async fn has_joined(stream: &mut TcpStream, request: &Request, mood: Mood, state: &Mutex<State>) -> bool {
    let (status, body) = {
        let mut state = lock(state);
        state.open.0 += 1;
        state.open.1 = state.open.1.max(state.open.0);
        state.has_joined(request)
    };
    let goes_on = match mood {
        Mood::Well => {
            http::answer(stream, status, &body, Duration::ZERO).await;
            true
        }
        Mood::Silent => {
            http::until_closed(stream).await;
            false
        }
        Mood::Status(status, body) => {
            http::answer(stream, status, body, Duration::ZERO).await;
            true
        }
        Mood::Busy(seconds) => {
            let head = format!("HTTP/1.1 429 X\r\nRetry-After: {seconds}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(head.as_bytes()).await.is_ok()
        }
        Mood::Cut => {
            let half = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len() + 10);
            let _ = stream.write_all(half.as_bytes()).await;
            false
        }
        Mood::Html => {
            http::answer(stream, 200, "<html><body>Please try again later</body></html>", Duration::ZERO)
                .await;
            true
        }
        Mood::SomebodyElse => {
            http::answer(stream, 200, &profile("Herobrine").to_string(), Duration::ZERO).await;
            true
        }
        Mood::Endless => {
            http::open(stream, Duration::ZERO).await;
            while http::chunk(stream, &"{".repeat(1000)).await.is_ok() {}
            false
        }
    };
    lock(state).open.0 -= 1;
    goes_on
}

impl State {
    /// A client says that its player is joining.
    fn client_joins(&mut self, request: &Request) -> (u16, String) {
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        let (token, profile, hash) = (text("accessToken"), text("selectedProfile"), text("serverId"));
        match token.strip_prefix("token-of-") {
            Some(name) if profile.replace('-', "") == id(name) && is_hash(&hash) => {
                self.joining.insert(name.to_lowercase(), hash);
                (204, String::new())
            }
            Some(_) | None => (
                403,
                json!({"error": "ForbiddenOperationException", "errorMessage": "Invalid token"}).to_string(),
            ),
        }
    }

    /// A server asks. Each join is known to one server, once.
    fn has_joined(&mut self, request: &Request) -> (u16, String) {
        let odd =
            request.query.iter().find(|(key, _)| !matches!(key.as_str(), "username" | "serverId" | "ip"));
        if let Some((key, _)) = odd {
            self.faults.push(format!("nobody says {key}"));
        }
        let (name, hash) =
            (request.asks("username").unwrap_or_default(), request.asks("serverId").unwrap_or_default());
        if name.is_empty() || !is_hash(hash) {
            self.faults.push(format!("{name:?} and {hash:?} are no question"));
            return (400, String::new());
        }
        self.asked.push((name.to_owned(), hash.to_owned()));
        let key = name.to_lowercase();
        if self.joining.get(&key).is_some_and(|joined| joined == hash) {
            self.joining.remove(&key);
            return (200, profile(name).to_string());
        }
        (204, String::new())
    }
}

fn profile(name: &str) -> Value {
    let skin = json!({"name": "textures", "value": "c2tpbg==", "signature": "c2ln"});
    json!({"id": id(name), "name": name, "properties": [skin], "profileActions": []})
}

/// A number of 20 bytes with a sign, in hexadecimal, without zeros in front.
fn is_hash(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (1..=40).contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
