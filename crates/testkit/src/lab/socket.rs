//! HTTP over a Unix socket, as little of it as the engine's API and the gate's control socket need.

use std::io;
use std::path::Path;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// The status, and the body as JSON; as a text if it is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    /// The body.
    ///
    /// # Panics
    /// When it is an error.
    pub fn success(self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.body);
        self.body
    }
}

/// One request on a connection of its own. In HTTP/1.0, so that the answer comes in one piece and ends with the
/// connection.
pub async fn request(socket: &Path, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: lab\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all((head + &body).as_bytes()).await?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Answer { status, body: serde_json::from_str(body).unwrap_or_else(|_| body.into()) })
}
