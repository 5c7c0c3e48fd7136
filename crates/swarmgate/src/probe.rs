//! Looks at a running game the way its players would: with a status ping.

use std::time::Duration;

use swarmgate_core::fleet::{Probe, Probed};
use swarmgate_core::service::{ProxyVersion, Ready};
use swarmgate_minecraft::handshake::{Handshake, Intent};
use swarmgate_minecraft::proxy_header::{self, Version};
use swarmgate_minecraft::status::{self, StatusSummary};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::dial::dial;

/// A loaded server may take seconds to answer; one that takes longer is as good as silent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Modpacks answer with hundreds of kilobytes.
const LONGEST_ANSWER: usize = 2 * 1024 * 1024;
/// Pingers that want any version's answer say so.
const ANY_PROTOCOL: i32 = -1;

pub async fn run(probe: &Probe) -> Probed {
    match timeout(PATIENCE, look(probe)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => Probed::Silent { reason: format!("{error:#}") },
        Err(_) => Probed::Silent { reason: format!("no answer within {} s", PATIENCE.as_secs()) },
    }
}

async fn look(probe: &Probe) -> anyhow::Result<Probed> {
    let mut stream = dial(&probe.endpoints, PATIENCE).await?;
    if probe.how == Ready::Tcp {
        return Ok(Probed::Accepted);
    }
    if let Some(version) = probe.proxy {
        stream.write_all(&proxy_header::encode_local(proxy_version(version))).await?;
    }
    let address = probe.endpoints.first().map_or_else(String::new, |endpoint| endpoint.host.to_string());
    let port = probe.endpoints.first().map_or(0, |endpoint| endpoint.port);
    let status = ask(&mut stream, ANY_PROTOCOL, address, port).await?;
    let online = StatusSummary::of(&status).online;
    Ok(Probed::Answered { online, status })
}

/// Sends a status request and reads the answer.
pub async fn ask(
    stream: &mut TcpStream,
    protocol: i32,
    address: String,
    port: u16,
) -> anyhow::Result<serde_json::Value> {
    let handshake = Handshake { protocol, address, port, intent: Intent::Status };
    stream.write_all(&status::request(&handshake)).await?;
    let mut bytes = Vec::new();
    loop {
        if let Some(frame) = swarmgate_minecraft::frame::split(&bytes, LONGEST_ANSWER)? {
            return Ok(status::parse_response(frame.body)?);
        }
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "it closed the connection without an answer");
    }
}

pub const fn proxy_version(version: ProxyVersion) -> Version {
    match version {
        ProxyVersion::V1 => Version::V1,
        ProxyVersion::V2 => Version::V2,
    }
}
