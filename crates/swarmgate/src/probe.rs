//! Looks at a running game the way its players would: with a status ping.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use swarmgate_core::fleet::{Probe, Probed};
use swarmgate_core::service::{ProxyVersion, Ready};
use swarmgate_minecraft::handshake::{Handshake, Intent};
use swarmgate_minecraft::proxy_header::{self, Version};
use swarmgate_minecraft::status::{self, StatusSummary};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::dial::dial;

/// A loaded server may take seconds to answer; one that takes longer is as good as silent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Modpacks answer with hundreds of kilobytes.
const LONGEST_ANSWER: usize = 2 * 1024 * 1024;
/// Pingers that want any version's answer say so.
const ANY_PROTOCOL: i32 = -1;

pub async fn run(probe: &Probe) -> Probed {
    look(probe, PATIENCE).await.unwrap_or_else(|error| Probed::Silent { reason: format!("{error:#}") })
}

/// The error says of which address it is: it is all that the owner of a server that does not come up learns.
async fn look(probe: &Probe, within: Duration) -> anyhow::Result<Probed> {
    let deadline = Instant::now() + within;
    let mut stream = dial(&probe.endpoints, within).await?;
    if probe.how == Ready::Tcp {
        return Ok(Probed::Accepted);
    }
    let peer = stream.peer_addr()?;
    let status = timeout_at(deadline, ask(&mut stream, peer, probe)).await;
    let status = status.with_context(|| format!("{peer} takes connections and does not answer"))??;
    let online = StatusSummary::of(&status).online;
    Ok(Probed::Answered { online, status })
}

/// Sends a status request and reads the answer.
async fn ask(stream: &mut TcpStream, peer: SocketAddr, probe: &Probe) -> anyhow::Result<serde_json::Value> {
    let broke = || format!("the connection to {peer} broke");
    let stranger = || format!("something answers at {peer} that is not Minecraft");
    if let Some(version) = probe.proxy {
        stream.write_all(&proxy_header::encode_local(proxy_version(version))).await.with_context(broke)?;
    }
    let address = probe.endpoints.first().map_or_else(String::new, |endpoint| endpoint.host.to_string());
    let port = probe.endpoints.first().map_or(0, |endpoint| endpoint.port);
    let handshake = Handshake { protocol: ANY_PROTOCOL, address, port, intent: Intent::Status };
    stream.write_all(&status::request(&handshake)).await.with_context(broke)?;
    let mut bytes = Vec::new();
    loop {
        if let Some(frame) =
            swarmgate_minecraft::frame::split(&bytes, LONGEST_ANSWER).with_context(stranger)?
        {
            return status::parse_response(frame.body).with_context(stranger);
        }
        if stream.read_buf(&mut bytes).await.with_context(broke)? == 0 {
            anyhow::ensure!(bytes.is_empty(), stranger());
            anyhow::bail!("{peer} closed the connection without an answer");
        }
    }
}

pub const fn proxy_version(version: ProxyVersion) -> Version {
    match version {
        ProxyVersion::V1 => Version::V1,
        ProxyVersion::V2 => Version::V2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use swarmgate_core::service::{Endpoint, ServiceId};
    use tokio::net::TcpListener;

    async fn found(answer: Option<&'static [u8]>, within: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stranger = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Whoever closes with something unread resets.
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            match answer {
                Some(answer) => stream.write_all(answer).await.unwrap(),
                None => std::future::pending().await,
            }
        });
        let probe = Probe {
            service: ServiceId::new("process", "mc"),
            run: "1".into(),
            endpoints: vec![Endpoint { host: "127.0.0.1".into(), port }],
            how: Ready::Status,
            proxy: None,
        };
        let error = look(&probe, within).await.unwrap_err();
        stranger.abort();
        let _ = stranger.await;
        format!("{error:#}").replace(&port.to_string(), "PORT")
    }

    #[tokio::test]
    async fn what_is_wrong_is_said_with_the_address() {
        let long = Duration::from_secs(30);
        let stranger = "something answers at 127.0.0.1:PORT that is not Minecraft";
        let http = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n";
        for (answer, within, says) in [
            (Some(&http[..]), long, stranger),
            (Some(b"SSH-2.0-OpenSSH_9.2\r\n"), long, stranger),
            (Some(b"\x03\x00\x01{"), long, stranger),
            (Some(b""), long, "127.0.0.1:PORT closed the connection without an answer"),
            (None, Duration::from_millis(100), "127.0.0.1:PORT takes connections and does not answer"),
        ] {
            let said = found(answer, within).await;
            assert!(said.starts_with(says), "{said}");
        }
    }
}
