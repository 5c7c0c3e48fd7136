//! A socket proxy: passes on the calls of a list and refuses every other.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::JoinHandle;

use crate::http;

/// The proxy. It stops listening when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    listening: JoinHandle<()>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Listens at `socket` and passes on to `engine` what `allowed` lists: `GET /services/{id}`, where a part
    /// in braces stands for any one part of a path, and `{image}` for one or more.
    pub fn start(socket: &Path, engine: &Path, allowed: Vec<String>) -> Self {
        let listener = UnixListener::bind(socket).expect("the socket can be bound");
        let caller = Caller::new(engine, allowed);
        let refused = Arc::clone(&caller.refused);
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(caller.clone().pass(stream));
            }
        });
        Self { listening, refused }
    }

    /// The same at an address.
    pub async fn start_at(address: SocketAddr, engine: &Path, allowed: Vec<String>) -> Self {
        let listener = TcpListener::bind(address).await.expect("the address can be bound");
        let caller = Caller::new(engine, allowed);
        let refused = Arc::clone(&caller.refused);
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(caller.clone().pass(stream));
            }
        });
        Self { listening, refused }
    }

    /// The calls that were refused so far.
    pub fn refused(&self) -> Vec<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// What a connection to the proxy needs.
#[derive(Debug, Clone)]
struct Caller {
    engine: PathBuf,
    allowed: Arc<Vec<String>>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Caller {
    fn new(engine: &Path, allowed: Vec<String>) -> Self {
        Self { engine: engine.to_owned(), allowed: Arc::new(allowed), refused: Arc::default() }
    }

    /// Clients of an engine here send one request per connection, so the first decides.
    async fn pass(self, mut client: impl AsyncRead + AsyncWrite + Unpin) {
        let mut bytes = Vec::new();
        if http::head(&mut client, &mut bytes).await.is_none() {
            return;
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.split("\r\n").next().unwrap_or_default();
        let call = line.split([' ', '?']).take(2).collect::<Vec<_>>().join(" ");
        if !self.allowed.iter().any(|pattern| fits(pattern, &call)) {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            http::answer(&mut client, 403, "<html>Forbidden</html>", Duration::ZERO).await;
            return;
        }
        let Ok(mut upstream) = UnixStream::connect(self.engine).await else { return };
        if upstream.write_all(&bytes).await.is_ok() {
            let _ = copy_bidirectional(&mut client, &mut upstream).await;
        }
    }
}

fn fits(pattern: &str, call: &str) -> bool {
    let words: Vec<&str> = call.split('/').collect();
    fits_words(&pattern.split('/').collect::<Vec<_>>(), &words)
}

/// `{image}` stands for one part or more: names of images have slashes.
fn fits_words(pattern: &[&str], words: &[&str]) -> bool {
    match (pattern, words) {
        ([], []) => true,
        (["{image}", rest @ ..], [word, words @ ..]) if !word.is_empty() => {
            fits_words(rest, words) || fits_words(pattern, words)
        }
        ([part, pattern @ ..], [word, words @ ..])
            if part == word || (part.starts_with('{') && !word.is_empty()) =>
        {
            fits_words(pattern, words)
        }
        _ => false,
    }
}
