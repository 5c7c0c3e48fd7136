//! A small HTTP client for the control socket of a running gate.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::Common;
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
            bail!(
                "which gate? There is no swarmgate.toml here; name its configuration with --config, or its socket with --control"
            );
        }
        let checked = Origin::new(file, Vec::new()).load()?;
        let socket = checked.config.control.unwrap_or_else(|| PathBuf::from("control.sock"));
        Ok(Self { socket })
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
        let sent = tokio::time::timeout(PATIENCE, self.exchange(method, path, body));
        let (status, body) =
            sent.await.map_err(|_| anyhow!("the gate does not answer on {}", self.socket.display()))??;
        if status.is_success() {
            return Ok(body);
        }
        let error: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let message = error.pointer("/error/message").and_then(serde_json::Value::as_str);
        Err(anyhow!("{}", message.unwrap_or("the gate refused")))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let stream = UnixStream::connect(&self.socket).await.with_context(|| self.no_gate(&self.socket))?;
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

    fn no_gate(&self, socket: &Path) -> String {
        format!("no gate answers on {} (is it running? Are you its user?)", socket.display())
    }
}

/// A word as it may stand in a path or a query.
pub fn encode(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_survive_a_url() {
        assert_eq!(encode("mc.example.com"), "mc.example.com");
        assert_eq!(encode("a b/ü?"), "a%20b%2F%C3%BC%3F");
    }
}
