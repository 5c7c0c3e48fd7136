//! A thin client of the Docker Engine API (docs.docker.com, "Docker Engine API").
//!
//! Paths carry no version, so that every engine speaks the newest it knows: what is read is read leniently,
//! and what is written is what was read. Answers stay raw JSON, because a type that does not know a field of
//! a service's spec would take it away with the next update.

pub mod access;
pub mod error;
pub mod events;
pub mod hints;
mod logs;
pub mod own;
mod skew;
mod stream;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, DATE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::Value;
use swarmgate_core::config::EngineHost;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::access::Access;
use self::error::EngineError;
use self::events::Events;
use self::skew::Skew;
use crate::metrics::Metrics;
use crate::percent::encode;

/// While managers elect a leader an engine is silent for up to 20 s. A caller that asks again loses nothing.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// A write that is given up on may have been made, so it gets longer than any election.
const WRITE_WITHIN: Duration = Duration::from_secs(30);
/// The engine asks a registry, which may be far away.
const REGISTRY_WITHIN: Duration = Duration::from_secs(30);
/// The tasks of a large Swarm with a long history are some megabytes.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// One engine. A cheap handle; every call has a connection of its own.
#[derive(Debug, Clone)]
pub struct Engine {
    host: EngineHost,
    skew: Arc<Mutex<Skew>>,
    access: Access,
    metrics: Metrics,
}

impl Engine {
    pub fn new(host: EngineHost) -> Self {
        Self { host, skew: Arc::default(), access: Access::default(), metrics: Metrics::default() }
    }

    /// Counts its calls.
    pub fn measured(self, metrics: Metrics) -> Self {
        Self { metrics, ..self }
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub fn host(&self) -> &EngineHost {
        &self.host
    }

    /// What it is known to refuse.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The time on the engine's clock, by the dates of its answers.
    pub fn now(&self) -> Timestamp {
        lock(&self.skew).engine_time(Timestamp::now())
    }

    /// Reads an object or a list. `path` may have a query.
    pub async fn get(&self, path: &str) -> Result<Value, EngineError> {
        let call = Call { method: Method::GET, path, auth: None };
        within(READ_WITHIN, &call, self, self.exchange(&call, None)).await
    }

    /// Replaces the spec of a service that is at `version`. With `auth` the nodes get these credentials for its registry;
    /// without, those of the spec before stay (Engine API, "Update a service").
    pub async fn update_service(
        &self,
        id: &str,
        version: u64,
        spec: &Value,
        auth: Option<&str>,
    ) -> Result<(), EngineError> {
        let from = if auth.is_some() { "" } else { "&registryAuthFrom=spec" };
        let path = format!("/services/{id}/update?version={version}{from}");
        let call = Call { method: Method::POST, path: &path, auth };
        within(WRITE_WITHIN, &call, self, self.exchange(&call, Some(spec))).await.map(drop)
    }

    /// Whether one service may be read, by a name that need not be there.
    pub async fn try_service(&self) -> Result<(), EngineError> {
        match self.get("/services/none").await {
            Ok(_) | Err(EngineError::NotThere { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether updates are allowed at all, by one that lacks its version and so changes nothing.
    pub async fn try_update(&self) -> Result<(), EngineError> {
        let call = Call { method: Method::POST, path: "/services/none/update", auth: None };
        let body = Value::Object(serde_json::Map::new());
        match within(READ_WITHIN, &call, self, self.exchange(&call, Some(&body))).await {
            Err(EngineError::Refused { status: 400, .. } | EngineError::NotThere { .. }) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The digest of the image that `reference` is now, as the engine hears from its registry.
    pub async fn digest(&self, reference: &str, auth: Option<&str>) -> Result<String, EngineError> {
        // The reference stands there with its slashes (Engine API, "Get image information from the registry").
        let words: Vec<String> = reference.split('/').map(encode).collect();
        let path = format!("/distribution/{}/json", words.join("/"));
        let call = Call { method: Method::GET, path: &path, auth };
        let answer = within(REGISTRY_WITHIN, &call, self, self.exchange(&call, None)).await?;
        // Lower case by every engine seen, capital by the API's reference.
        let digest = answer.pointer("/Descriptor/digest").or_else(|| answer.pointer("/Descriptor/Digest"));
        let digest = digest.and_then(Value::as_str);
        digest.map(str::to_owned).ok_or_else(|| self.no_answer(&call, "there is no digest in it".to_owned()))
    }

    /// Whether registries may be asked at all, by a name that is none.
    pub async fn try_digest(&self) -> Result<(), EngineError> {
        match self.get("/distribution/-/json").await {
            Ok(_) | Err(EngineError::NotThere { .. }) => Ok(()),
            Err(error @ EngineError::Refused { .. }) if !error.is_forbidden() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Starts, stops or unpauses the container `id`, as `action` says (`stop?t=90`). Returns when that is done, which
    /// may take as long as its stop; one that already is as wanted is no error.
    pub async fn act(&self, id: &str, action: &str, limit: Duration) -> Result<(), EngineError> {
        let path = format!("/containers/{id}/{action}");
        let call = Call { method: Method::POST, path: &path, auth: None };
        within(limit, &call, self, async {
            let (response, _connection) = self.send(&call, None).await?;
            if response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED {
                return Ok(());
            }
            Err(self.refusal(&call, response).await)
        })
        .await
    }

    /// Whether this is allowed at all, by asking it for a container that cannot be there.
    pub async fn try_act(&self, action: &str) -> Result<(), EngineError> {
        match self.act("-", action, READ_WITHIN).await {
            Err(EngineError::Refused { status: 400, .. } | EngineError::NotThere { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What happens from now on. `filters` as in the Engine API, JSON.
    pub async fn events(&self, filters: &Value) -> Result<Events, EngineError> {
        let path = format!("/events?filters={}", encode(&filters.to_string()));
        let call = Call { method: Method::GET, path: &path, auth: None };
        within(READ_WITHIN, &call, self, async {
            let (response, connection) = self.send(&call, None).await?;
            if response.status().is_success() {
                return Ok(Events::new(response.into_body(), connection));
            }
            Err(self.refusal(&call, response).await)
        })
        .await
    }

    async fn exchange(&self, call: &Call<'_>, body: Option<&Value>) -> Result<Value, EngineError> {
        let (response, _connection) = self.send(call, body).await?;
        if !response.status().is_success() {
            return Err(self.refusal(call, response).await);
        }
        let body = self.body(call, response, MOST_BYTES).await?;
        serde_json::from_slice(&body)
            .map_err(|error| self.no_answer(call, format!("it is not JSON ({error})")))
    }

    async fn refusal(&self, call: &Call<'_>, response: Response<Incoming>) -> EngineError {
        let status = response.status();
        match self.body(call, response, MOST_BYTES).await {
            Ok(body) => EngineError::refused(call.to_string(), status, &body),
            Err(error) => error,
        }
    }

    async fn body(
        &self,
        call: &Call<'_>,
        response: Response<Incoming>,
        most: usize,
    ) -> Result<Bytes, EngineError> {
        let body = Limited::new(response.into_body(), most).collect().await;
        body.map(|body| body.to_bytes()).map_err(|error| self.no_answer(call, error.to_string()))
    }

    async fn send(
        &self,
        call: &Call<'_>,
        body: Option<&Value>,
    ) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), EngineError> {
        let stream = stream::connect(&self.host)
            .await
            .map_err(|error| self.no_answer(call, stream::explain(&self.host, &error)))?;
        let broken = |error: hyper::Error| self.no_answer(call, error.to_string());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let connection = AbortOnDropHandle::new(tokio::spawn(async move {
            // What breaks a connection, its request hears of.
            let _ = connection.await;
        }));
        let host = match &self.host {
            EngineHost::Unix(_) => "docker",
            EngineHost::Tcp(address) => address,
        };
        let request = Request::builder().method(call.method.clone()).uri(call.path).header(HOST, host);
        let request = match call.auth {
            Some(auth) => request.header(REGISTRY_AUTH, auth),
            None => request,
        };
        let request = match body {
            Some(body) => request
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(Bytes::from(body.to_string()))),
            None => request.body(Full::default()),
        };
        let request = request.map_err(|error| self.no_answer(call, error.to_string()))?;
        let sent = Timestamp::now();
        let response = sender.send_request(request).await.map_err(broken)?;
        if let Some(date) = date(&response) {
            lock(&self.skew).observe(date, sent, Timestamp::now());
        }
        Ok((response, connection))
    }

    fn no_answer(&self, call: &Call<'_>, why: String) -> EngineError {
        EngineError::NoAnswer { call: call.to_string(), host: self.host.to_string(), why }
    }
}

const REGISTRY_AUTH: &str = "X-Registry-Auth";

/// Displayed without its query.
struct Call<'a> {
    method: Method,
    path: &'a str,
    /// Credentials for a registry.
    auth: Option<&'a str>,
}

impl Call<'_> {
    /// What is called, in a word for metric labels.
    fn endpoint(&self) -> &'static str {
        let path = self.path.split('?').next().unwrap_or_default();
        let mut parts = path.trim_start_matches('/').split('/');
        match (parts.next().unwrap_or_default(), parts.next_back().unwrap_or_default()) {
            ("services", "update") => "service_update",
            (_, "logs") => "logs",
            ("services", _) => "services",
            ("tasks", _) => "tasks",
            ("nodes", _) => "nodes",
            ("networks", _) => "networks",
            ("events", _) => "events",
            ("distribution", _) => "registry",
            ("containers", "start") => "container_start",
            ("containers", "stop") => "container_stop",
            ("containers", "unpause") => "container_unpause",
            ("containers", _) => "containers",
            _ => "other",
        }
    }
}

impl std::fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.split_once('?').map_or(self.path, |(path, _)| path);
        write!(f, "{} {path}", self.method)
    }
}

async fn within<T>(
    limit: Duration,
    call: &Call<'_>,
    engine: &Engine,
    exchange: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let began = Instant::now();
    let ended = tokio::time::timeout(limit, exchange).await.unwrap_or_else(|_| {
        let limit = swarmgate_core::span::human(limit);
        Err(engine
            .no_answer(call, format!("nothing came within {limit}; are its managers without a leader?")))
    });
    let outcome = ended.as_ref().map_or_else(EngineError::kind, |_| "ok");
    engine.metrics.asked_engine(call.endpoint(), outcome, began.elapsed());
    ended
}

fn date(response: &Response<Incoming>) -> Option<Timestamp> {
    let date = response.headers().get(DATE)?.to_str().ok()?;
    DateTimeParser::new().parse_timestamp(date).ok()
}

fn lock(skew: &Mutex<Skew>) -> std::sync::MutexGuard<'_, Skew> {
    skew.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;
    use serde_json::json;
    use tokio::net::UnixListener;

    async fn after<T: Debug>(call: impl Future<Output = Result<T, EngineError>>) -> (Duration, String) {
        let began = Instant::now();
        let error = call.await.unwrap_err().to_string();
        (began.elapsed(), error)
    }

    #[test]
    fn what_is_called_is_one_of_few_words() {
        for (path, word) in [
            ("/services?status=1", "services"),
            ("/services/mc", "services"),
            ("/services/mc/update?version=1", "service_update"),
            ("/services/mc/logs?tail=5", "logs"),
            ("/tasks?filters={\"/update\":1}", "tasks"),
            ("/containers/json?all=1", "containers"),
            ("/containers/0a1b/json", "containers"),
            ("/containers/0a1b/stop?t=90", "container_stop"),
            ("/containers/0a1b/logs", "logs"),
            ("/distribution/itzg/minecraft-server/json", "registry"),
            ("/events?filters=x", "events"),
            ("/info", "other"),
            ("", "other"),
        ] {
            assert_eq!(Call { method: Method::GET, path, auth: None }.endpoint(), word, "{path}");
        }
    }

    /// The clock goes on by itself whenever everybody waits.
    #[tokio::test(start_paused = true)]
    async fn an_engine_that_says_nothing_is_given_up_on() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let _silent = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok(accepted) = listener.accept().await {
                open.push(accepted);
            }
        }));
        let engine = Engine::new(EngineHost::Unix(socket));
        for ((took, error), limit, words) in [
            (after(engine.get("/tasks?filters=x")).await, READ_WITHIN, "GET /tasks on unix:"),
            (
                after(engine.events(&json!({}))).await,
                READ_WITHIN,
                "within 10s; are its managers without a leader?",
            ),
            (
                after(engine.update_service("mc", 1, &json!({}), None)).await,
                WRITE_WITHIN,
                "POST /services/mc/update",
            ),
            (
                after(engine.act("mc", "start", Duration::from_secs(7))).await,
                Duration::from_secs(7),
                "within 7s",
            ),
        ] {
            assert_eq!(took.as_secs(), limit.as_secs(), "{error}");
            assert!(error.contains(words), "{error}");
        }
    }
}
