//! Messengers inside the test, as strict as their documentation says: what they would refuse is refused and complained
//! about.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::http::{self, Request};

/// What kind of messenger it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Messenger {
    Pushover,
    Discord,
    Slack,
    Ntfy,
    Webhook,
}

/// What a call gets instead of its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer {
    /// Asks for a pause of so many seconds, in the header and, as Discord does, more exactly in the body.
    TooMany(f64),
    Status(u16),
    /// Nothing, for as long as the client waits.
    Hang,
    /// The message is taken, and the answer ends in the middle of its body.
    Cut,
}

/// One messenger. It stops listening when it is dropped.
#[derive(Debug)]
pub struct Receiver {
    kind: Messenger,
    address: SocketAddr,
    inbox: Arc<Mutex<Inbox>>,
    listening: JoinHandle<()>,
}

/// What has come.
#[derive(Debug, Default)]
pub struct Inbox {
    /// The messages that were taken, as objects.
    pub messages: Vec<Value>,
    /// Every call, taken or not.
    pub calls: usize,
    /// What was wrong with those that were refused.
    pub complaints: Vec<String>,
    /// For the calls to come, in order; then each is answered as usual.
    pub answers: VecDeque<Answer>,
    /// How many calls are taken within a time; those beyond are told to wait.
    pub rate: Option<(usize, Duration)>,
    taken: VecDeque<Instant>,
}

impl Receiver {
    pub async fn start(kind: Messenger) -> Self {
        Self::start_at(kind, "127.0.0.1").await
    }

    /// At this address of the machine, or of the network that the thread is in.
    pub async fn start_at(kind: Messenger, address: &str) -> Self {
        let listener = TcpListener::bind((address, 0)).await.expect("a listener");
        let address = listener.local_addr().expect("its address");
        let inbox: Arc<Mutex<Inbox>> = Arc::default();
        let shared = Arc::clone(&inbox);
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(kind, stream, Arc::clone(&shared)));
            }
        });
        Self { kind, address, inbox, listening }
    }

    /// Its address, as the gate is told it.
    pub fn url(&self) -> String {
        let base = format!("http://{}", self.address);
        match self.kind {
            Messenger::Pushover => format!("pushover://app-token@user-key?base={base}"),
            Messenger::Discord => format!("discord://hook-token@42?base={base}"),
            Messenger::Slack => format!("slack://hook:A-B-C@webhook?base={base}"),
            Messenger::Ntfy => format!("ntfy://:tk_1@{}/alerts?scheme=http", self.address),
            Messenger::Webhook => format!("generic+{base}/hook?key=1"),
        }
    }

    pub fn inbox(&self) -> MutexGuard<'_, Inbox> {
        lock(&self.inbox)
    }

    /// Everything that has come, as one text.
    pub fn text(&self) -> String {
        self.inbox().messages.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn serve(kind: Messenger, mut stream: TcpStream, inbox: Arc<Mutex<Inbox>>) {
    let Some(request) = http::read(&mut stream).await else { return };
    let answer = {
        let mut inbox = lock(&inbox);
        inbox.calls += 1;
        inbox.answers.pop_front().or_else(|| inbox.too_many())
    };
    match answer {
        Some(Answer::Hang) => http::until_closed(&mut stream).await,
        Some(Answer::TooMany(seconds)) => {
            let body =
                json!({"message": "You are being rate limited.", "retry_after": seconds, "global": false});
            let header = format!("Retry-After: {}\r\n", seconds.ceil());
            reply(&mut stream, 429, &header, &body.to_string(), 0).await;
        }
        Some(Answer::Status(status)) => reply(&mut stream, status, "", "{\"message\": \"no\"}", 0).await,
        Some(Answer::Cut) | None => {
            let (status, body) = lock(&inbox).take(kind, &request);
            let missing = if answer.is_some() { 100 } else { 0 };
            reply(&mut stream, status, "", &body, missing).await;
        }
    }
}

/// Claims a body that is longer by `missing` bytes.
async fn reply(stream: &mut TcpStream, status: u16, header: &str, body: &str, missing: usize) {
    let length = body.len() + missing;
    let length = if status == 204 { String::new() } else { format!("Content-Length: {length}\r\n") };
    let text = format!("HTTP/1.1 {status} X\r\n{length}{header}Connection: close\r\n\r\n{body}");
    let _ = stream.write_all(text.as_bytes()).await;
}

impl Inbox {
    fn too_many(&mut self) -> Option<Answer> {
        let (most, within) = self.rate?;
        let now = Instant::now();
        self.taken.retain(|taken| now.duration_since(*taken) < within);
        if self.taken.len() < most {
            self.taken.push_back(now);
            return None;
        }
        let first = self.taken.front()?;
        Some(Answer::TooMany((within - now.duration_since(*first)).as_secs_f64()))
    }

    fn take(&mut self, kind: Messenger, request: &Request) -> (u16, String) {
        match message(kind, request) {
            Ok(message) => {
                self.messages.push(message);
                match kind {
                    Messenger::Discord => (204, String::new()),
                    Messenger::Slack => (200, "ok".to_owned()),
                    Messenger::Pushover => (200, json!({"status": 1, "request": "r"}).to_string()),
                    Messenger::Ntfy | Messenger::Webhook => (200, "{}".to_owned()),
                }
            }
            Err(complaint) => {
                self.complaints.push(complaint.clone());
                (400, json!({"status": 0, "errors": [complaint]}).to_string())
            }
        }
    }
}

fn message(kind: Messenger, request: &Request) -> Result<Value, String> {
    let (path, content_type) = match kind {
        Messenger::Pushover => ("/1/messages.json", "application/x-www-form-urlencoded"),
        Messenger::Discord => ("/api/webhooks/42/hook-token", "application/json"),
        Messenger::Slack => ("/services/A/B/C", "application/json"),
        Messenger::Ntfy => ("/", "application/json"),
        Messenger::Webhook => ("/hook", "application/json"),
    };
    is(request.call() == format!("POST {path}"), || format!("not for here: {}", request.call()))?;
    is(request.header("content-type") == Some(content_type), || format!("{:?}", request.headers))?;
    let message = match kind {
        Messenger::Pushover => {
            let pairs = http::pairs(&request.body).into_iter();
            Value::Object(pairs.map(|(key, value)| (key, Value::String(value))).collect())
        }
        Messenger::Discord | Messenger::Slack | Messenger::Ntfy | Messenger::Webhook => {
            serde_json::from_str(&request.body).map_err(|error| error.to_string())?
        }
    };
    match kind {
        Messenger::Pushover => {
            keys(
                &message,
                &["token", "user", "message", "title", "priority", "timestamp", "device", "sound"],
            )?;
            is(message["token"] == "app-token" && message["user"] == "user-key", || "who?".to_owned())?;
            length(&message["message"], 1024, |_| 1)?;
            length(&message["title"], 250, |_| 1)?;
            let number = |key: &str| message[key].as_str().and_then(|text| text.parse::<i64>().ok());
            is(number("priority").is_some_and(|it| (-2..=2).contains(&it)), || "priority".to_owned())?;
            is(number("timestamp").is_some_and(|it| it > 1_700_000_000), || "timestamp".to_owned())?;
        }
        Messenger::Discord => {
            keys(&message, &["content", "allowed_mentions", "username"])?;
            length(&message["content"], 2000, char::len_utf16)?;
            is(message["allowed_mentions"] == json!({"parse": []}), || {
                "somebody may be mentioned".to_owned()
            })?;
        }
        Messenger::Slack => {
            keys(&message, &["text"])?;
            length(&message["text"], 40_000, |_| 1)?;
            let text = message["text"].as_str().unwrap_or_default();
            is(!text.contains(['<', '>']), || "somebody may be mentioned".to_owned())?;
        }
        Messenger::Ntfy => {
            keys(&message, &["topic", "title", "message", "priority", "tags"])?;
            is(request.header("authorization") == Some("Bearer tk_1"), || "who?".to_owned())?;
            is(message["topic"] == "alerts", || "the topic".to_owned())?;
            length(&message["message"], 4096, char::len_utf8)?;
            is(message["priority"].as_u64().is_some_and(|it| (1..=5).contains(&it)), || {
                "priority".to_owned()
            })?;
        }
        Messenger::Webhook => {}
    }
    Ok(message)
}

fn keys(message: &Value, known: &[&str]) -> Result<(), String> {
    let known: BTreeSet<&str> = known.iter().copied().collect();
    let object = message.as_object().ok_or("not an object")?;
    match object.keys().find(|key| !known.contains(key.as_str())) {
        Some(key) => Err(format!("{key} is no key")),
        None => Ok(()),
    }
}

fn length(text: &Value, most: usize, length: impl Fn(char) -> usize) -> Result<(), String> {
    let text = text.as_str().unwrap_or_default();
    let long: usize = text.chars().map(length).sum();
    is(long > 0 && long <= most, || format!("{long} characters: {text}"))
}

fn is(so: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    if so { Ok(()) } else { Err(complaint()) }
}

fn lock(inbox: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}
