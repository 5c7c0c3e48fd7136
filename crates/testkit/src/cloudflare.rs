//! Cloudflare inside the test: as much of its API as publishing through a tunnel takes, over HTTP on 127.0.0.1.
//!
//! It keeps state, answers as the API is publicly known to answer, and refuses what a connector would not run with.
//! It is strict: a call, key or query parameter that the API does not document, a wrong content type, a missing
//! credential are complaints, and a fake that is dropped with complaints fails its test. [`Account::visit`] tells what
//! a visitor of a hostname would get, which is what all of it is for.

mod access;
mod account;
mod call;
mod dns;
mod foreign;
mod ingress;
mod normal;
mod raw;
mod reply;
mod shapes;
mod visit;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::account::{Account, Tunnel};
pub use self::call::Call;
pub use self::dns::Zone;
pub use self::ingress::{route, validate};
use self::reply::Reply;
pub use self::visit::Visit;
use crate::http::{self, Request};

pub const ACCOUNT: &str = "01a7362d577a6c3019a474fd6f485823";
pub const TUNNEL: &str = "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415";
/// Tokens have 40 characters.
pub const TOKEN: &str = "test-token-v1-00000000000000000000000000";
pub const EMAIL: &str = "owner@example.com";
pub const KEY: &str = "144c9defac04969c7bfad8efaa8ea194";

const BASE_PATH: &str = "/client/v4";
/// More than any client should read.
const ENDLESS: usize = 256 * 1024 * 1024;
/// So many bytes at a time come in a slow answer.
const PIECE: usize = 100;

/// What happens to a call instead of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An error of the API, and nothing is done.
    Error { status: u16, code: u32 },
    /// A page of the edge before the API, and nothing is done.
    Html(u16),
    /// Too many requests; the next after so many seconds.
    Limited(u32),
    /// The connection ends before anything is done.
    Lost,
    /// It is done, and the connection ends in the middle of the answer.
    Cut,
    /// It is done, and the answer comes in pieces.
    Slow,
    /// It is done, and the answer has no end.
    Endless,
    /// It is done, and the answer comes after [`FakeCloudflare::release`].
    Held,
}

/// The API of one account with one tunnel. It stops listening when it is dropped.
#[derive(Debug)]
pub struct FakeCloudflare {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    account: Mutex<Account>,
    log: Mutex<Log>,
    /// Counts the releases of what is held.
    released: watch::Sender<u64>,
    /// Counts the calls, and of these the ones that are held.
    made: watch::Sender<(usize, usize)>,
}

#[derive(Debug, Default)]
struct Log {
    calls: Vec<Call>,
    /// With their bodies.
    requests: Vec<(Call, Value)>,
    complaints: Vec<String>,
    /// For a call, or for any; how often.
    faults: Vec<(Option<Call>, u32, Fault)>,
}

impl FakeCloudflare {
    /// An account with a tunnel that was never configured, and without zones.
    ///
    /// # Panics
    /// When 127.0.0.1 cannot be listened at.
    pub async fn start() -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into()).await
    }

    /// The same at another address of this machine, such as one in a network of the test's own.
    ///
    /// # Panics
    /// When it cannot be listened at.
    pub async fn start_at(address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).await.expect("a port of the address");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared::default());
        let listening = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, Arc::clone(&shared)));
                }
            }
        });
        Self { address, shared, listening }
    }

    /// What stands for `https://api.cloudflare.com/client/v4`.
    pub fn url(&self) -> String {
        format!("http://{}{BASE_PATH}", self.address)
    }

    /// Reads or changes what there is, as the dashboard would.
    pub fn with<R>(&self, act: impl FnOnce(&mut Account) -> R) -> R {
        act(&mut lock(&self.shared.account))
    }

    /// Every call so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.shared.log).calls.clone()
    }

    /// Returns with the `count`th call of all.
    pub async fn made(&self, count: usize) {
        let _ = self.shared.made.subscribe().wait_for(|(made, _)| *made >= count).await;
    }

    /// Returns when the next call is held.
    pub async fn holds(&self) {
        let mut made = self.shared.made.subscribe();
        let (_, before) = *made.borrow();
        let _ = made.wait_for(|(_, held)| *held > before).await;
    }

    /// Those that may have changed something, in order, with their bodies.
    pub fn writes(&self) -> Vec<(Call, Value)> {
        let log = lock(&self.shared.log);
        log.requests.iter().filter(|(call, _)| call.writes()).cloned().collect()
    }

    /// What the next `times` calls of this kind (of any, for `None`) meet. Earlier faults are used up first.
    pub fn fail(&self, call: impl Into<Option<Call>>, times: u32, fault: Fault) {
        lock(&self.shared.log).faults.push((call.into(), times, fault));
    }

    /// No more faults, and what is held goes on.
    pub fn heal(&self) {
        lock(&self.shared.log).faults.clear();
        self.release();
    }

    /// How many callers wait for an answer.
    pub fn waiting(&self) -> usize {
        self.shared.released.receiver_count()
    }

    /// What is held gets its answer.
    pub fn release(&self) {
        self.shared.released.send_modify(|count| *count += 1);
    }

    /// What no client should have done. They are forgotten with that.
    pub fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.shared.log).complaints)
    }

    /// # Panics
    /// When a client did what none should.
    pub fn assert_clean(&self) {
        let complaints = self.take_complaints();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
}

impl Drop for FakeCloudflare {
    fn drop(&mut self) {
        self.listening.abort();
        if !std::thread::panicking() {
            self.assert_clean();
        }
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let Some(request) = http::read(&mut stream).await else { return };
    let Some((call, params)) = Call::of(&request) else {
        lock(&shared.log).complain(&request, "there is no such call");
        return send(
            &mut stream,
            &Reply::chain(404, (7003, "Could not route"), (7000, "No route for that URI")),
        )
        .await;
    };
    let mut released = shared.released.subscribe();
    let wrong = lock(&shared.account).faults(call, &params, &request);
    wrong.iter().for_each(|wrong| lock(&shared.log).complain(&request, wrong));
    let fault = lock(&shared.log).record(call, &request);
    let is_held = usize::from(fault == Some(Fault::Held));
    shared.made.send_modify(|(made, held)| (*made, *held) = (*made + 1, *held + is_held));
    let early = match &fault {
        Some(Fault::Error { status, code }) => Some(Reply::error(*status, *code, "a fault of the test")),
        Some(Fault::Html(status)) => Some(Reply::html(*status)),
        Some(Fault::Limited(seconds)) => Some(Reply::limited(*seconds)),
        Some(Fault::Lost) => return,
        Some(Fault::Cut | Fault::Slow | Fault::Endless | Fault::Held) | None => None,
    };
    if let Some(reply) = early {
        return send(&mut stream, &reply).await;
    }
    let reply = {
        let mut account = lock(&shared.account);
        let reply = account.answer(call, &params, &request);
        let mut log = lock(&shared.log);
        for host in account.unprotected() {
            log.complain(&request, &format!("{host} is served without a login"));
        }
        reply
    };
    match fault {
        Some(Fault::Cut) => {
            let bytes = reply.write();
            let _ = stream.write_all(&bytes[..bytes.len() - reply.body.len() / 2 - 1]).await;
        }
        Some(Fault::Slow) => {
            for piece in reply.write().chunks(PIECE) {
                if stream.write_all(piece).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        Some(Fault::Endless) => {
            let _ = stream.write_all(&Reply::raw(200, &"1".repeat(ENDLESS)).write()).await;
        }
        Some(Fault::Held) => {
            tokio::select! {
                _ = released.changed() => send(&mut stream, &reply).await,
                () = http::until_closed(&mut stream) => {}
            }
        }
        _ => send(&mut stream, &reply).await,
    }
}

async fn send(stream: &mut TcpStream, reply: &Reply) {
    let _ = stream.write_all(&reply.write()).await;
}

impl Log {
    fn record(&mut self, call: Call, request: &Request) -> Option<Fault> {
        let credentials = ["authorization", "x-auth-key"].map(|name| request.header(name));
        if credentials == [None, None] {
            self.complain(request, "it has no credentials");
        }
        self.calls.push(call);
        self.requests.push((call, serde_json::from_str(&request.body).unwrap_or(json!(request.body))));
        let found = self.faults.iter().position(|(of, _, _)| of.is_none_or(|of| of == call))?;
        let (_, times, fault) = &mut self.faults[found];
        let fault = fault.clone();
        *times -= 1;
        if *times == 0 {
            self.faults.remove(found);
        }
        Some(fault)
    }

    fn complain(&mut self, request: &Request, what: &str) {
        self.complaints.push(format!("{} {:?}: {what} {}", request.call(), request.query, request.body));
    }
}

/// What cloudflared was seen to say of ingress lists.
#[derive(Debug)]
pub struct Verdicts {
    /// Configurations by what is special about them.
    pub accepted: BTreeMap<String, Value>,
    pub rejected: BTreeMap<String, Value>,
    /// A configuration, an address, and the index of the rule that its request goes to.
    pub routed: Vec<(Value, String, usize)>,
}

/// Those of `verdicts.json`.
///
/// # Panics
/// When that is not as its own text says.
pub fn verdicts() -> Verdicts {
    let all: Value =
        serde_json::from_str(include_str!("cloudflare/verdicts.json")).expect("verdicts.json is JSON");
    let config = |value: &Value| if value.is_array() { json!({"ingress": value}) } else { value.clone() };
    let named = |key: &str| {
        let object = all[key].as_object().expect("an object");
        object.iter().map(|(name, value)| (name.clone(), config(value))).collect()
    };
    let mut routed = Vec::new();
    for case in all["routed"].as_array().expect("a list") {
        for (url, rule) in case["rule_for"].as_object().expect("an object") {
            let rule = usize::try_from(rule.as_u64().expect("an index")).expect("a small one");
            routed.push((config(&case["ingress"]), url.clone(), rule));
        }
    }
    Verdicts { accepted: named("accepted"), rejected: named("rejected"), routed }
}

/// The host and the path of `https://host/path`.
fn split_url(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or((rest, "/"), |at| rest.split_at(at))
}

/// What identifies zones and records.
fn id32(number: u64) -> String {
    format!("{number:032x}")
}

/// What identifies applications and policies.
fn uuid(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
