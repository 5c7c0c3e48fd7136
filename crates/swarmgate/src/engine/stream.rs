//! The connection to an engine, and why there is none.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::process::{getgid, getgroups, getuid};
use socket2::{SockRef, TcpKeepalive};
use swarmgate_core::config::EngineHost;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// An event stream is silent for hours, and a proxy that vanished would keep it so for ever.
const KEEPALIVE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

pub async fn connect(host: &EngineHost) -> io::Result<Stream> {
    match host {
        EngineHost::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
        EngineHost::Tcp(address) => {
            let connecting = tokio::time::timeout(CONNECT_WITHIN, TcpStream::connect(address));
            let stream = connecting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
            Ok(Stream::Tcp(stream))
        }
    }
}

/// What to do about it.
pub fn explain(host: &EngineHost, error: &io::Error) -> String {
    use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied, TimedOut};
    match (host, error.kind()) {
        (EngineHost::Unix(_), NotFound) => {
            "there is no such socket; is Docker running? In a container, mount it (-v \
             /var/run/docker.sock:/var/run/docker.sock), or set DOCKER_HOST to a socket proxy"
                .into()
        }
        // Who may not write to them is refused before it shows that they are none.
        (EngineHost::Unix(path), ConnectionRefused | PermissionDenied) if path.is_dir() => {
            "this is a directory: Docker makes one where it mounts a socket that is not there; mount the socket of \
             the machine, and create the container anew"
                .into()
        }
        (EngineHost::Unix(path), ConnectionRefused | PermissionDenied) if path.is_file() => {
            "this is a file, not a socket; name Docker's socket in DOCKER_HOST or docker.host, and in a container mount it \
             there (-v /var/run/docker.sock:/var/run/docker.sock)"
                .into()
        }
        (EngineHost::Unix(path), PermissionDenied) => not_permitted(path),
        (EngineHost::Unix(_), ConnectionRefused) => {
            "nobody listens on the socket; is Docker running? (systemctl status docker)".into()
        }
        (EngineHost::Tcp(_), ConnectionRefused) => {
            "nothing listens there; is the socket proxy running, and is this its port?".into()
        }
        (EngineHost::Tcp(_), TimedOut) => {
            "no connection; is the gate on a network with the socket proxy?".into()
        }
        _ => error.to_string(),
    }
}

fn not_permitted(path: &Path) -> String {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let groups: Vec<String> =
        getgroups().unwrap_or_default().iter().map(|group| group.as_raw().to_string()).collect();
    let we = format!("the gate runs as uid {uid}, gid {gid}, groups [{}]", groups.join(" "));
    let Ok(socket) = fs::metadata(path) else {
        return format!("{we} and may not look into {}", path.parent().unwrap_or(path).display());
    };
    let (owner, group, mode) = (socket.uid(), socket.gid(), socket.mode() & 0o777);
    format!(
        "permission denied: {we}, and the socket is of uid {owner}, gid {group}, mode {mode:03o}; run the gate with \
         that group: user: \"{uid}:{group}\" in a stack or compose file, --group-add {group} with docker run, \
         SupplementaryGroups={group} in a systemd unit"
    )
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
