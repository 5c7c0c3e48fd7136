//! A small HTTP client for the control socket of a running gate.

use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::Common;
use super::output::Failure;
use crate::settings::Origin;

/// Long enough for a busy gate; nothing the gate answers here takes this long.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct Control {
    socket: PathBuf,
}

impl Control {
    /// The socket that was named, or the one of the configuration that was named or lies here.
    pub fn of(common: &Common) -> anyhow::Result<Self> {
        if let Some(socket) = &common.control {
            return Ok(Self { socket: socket.clone() });
        }
        let file = common.config.clone().unwrap_or_else(|| PathBuf::from("swarmgate.toml"));
        if common.config.is_none() && !file.exists() {
            let failure = Failure::new("no_gate_named", "which gate? There is no swarmgate.toml here");
            return Err(failure
                .fix("Name its configuration with --config, or its socket with --control.")
                .into());
        }
        Ok(Self { socket: Origin::new(file, Vec::new()).control()? })
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        Ok(serde_json::from_slice(&self.send(Method::GET, path, String::new()).await?)?)
    }

    pub async fn text(&self, path: &str) -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&self.send(Method::GET, path, String::new()).await?).into_owned())
    }

    pub async fn post(&self, path: &str, body: String) -> anyhow::Result<Bytes> {
        self.send(Method::POST, path, body).await
    }

    async fn send(&self, method: Method, path: &str, body: String) -> anyhow::Result<Bytes> {
        let silent =
            |_| Failure::new("gate_silent", format!("the gate does not answer on {}", self.socket.display()));
        let sent = tokio::time::timeout(PATIENCE, self.exchange(method, path, body));
        let (status, body) = sent.await.map_err(silent)??;
        if status.is_success() {
            return Ok(body);
        }
        let error: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let told = |what: &str| error.pointer(what).and_then(serde_json::Value::as_str);
        let code = told("/error/code").unwrap_or("refused");
        Err(Failure::new(code, told("/error/message").unwrap_or("the gate refused")).into())
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| {
            let message = format!("no gate answers on {}: {error}", self.socket.display());
            Failure::new("no_gate", message).fix("Is it running (`swarmgate run`), and are you its user?")
        })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(hyper::header::HOST, "swarmgate")
            .header(hyper::header::CONTENT_TYPE, "text/plain")
            .body(Full::new(Bytes::from(body)))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}
