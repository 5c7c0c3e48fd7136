//! As much of HTTP/1.1 as a fake and its clients speak: one request per connection (RFC 9112).

use std::time::Duration;

use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const LONGEST_HEAD: usize = 64 * 1024;

/// A whole request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// In order, decoded.
    pub query: Vec<(String, String)>,
    /// In order, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    /// `GET /services`
    pub fn call(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub fn asks(&self, key: &str) -> Option<&str> {
        find(&self.query, key)
    }

    /// By its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }
}

/// `None` if the client left, or what it sent is not HTTP.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = head(stream, &mut bytes).await?;
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = find(&headers, "content-length").map(str::parse::<usize>).transpose().ok()?.unwrap_or(0);
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query, body) = (decode(path), pairs(query), String::from_utf8(body).ok()?);
    Some(Request { method, path, query, headers, body })
}

/// The pairs of a query or a form, in order, decoded.
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
    });
    pairs.collect()
}

/// Reads to the blank line after the head, at the offset given back; what came after it is read too.
pub async fn head(stream: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> Option<usize> {
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            return Some(end);
        }
        if bytes.len() > LONGEST_HEAD || stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Answers, if the client is still there.
pub async fn answer(stream: &mut (impl AsyncWrite + Unpin), status: u16, body: &str, ahead: Duration) {
    let (date, length) = (date(ahead), body.len());
    let head = format!("HTTP/1.1 {status} X\r\nDate: {date}\r\nContent-Length: {length}\r\n\r\n{body}");
    let _ = stream.write_all(head.as_bytes()).await;
}

/// The head of an answer without an end.
pub async fn open(stream: &mut (impl AsyncWrite + Unpin), ahead: Duration) {
    let head = format!("HTTP/1.1 200 OK\r\nDate: {}\r\nTransfer-Encoding: chunked\r\n\r\n", date(ahead));
    let _ = stream.write_all(head.as_bytes()).await;
}

pub async fn chunk(stream: &mut (impl AsyncWrite + Unpin), text: &str) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await
}

pub async fn until_closed(stream: &mut (impl AsyncRead + Unpin)) {
    let mut ignored = [0; 64];
    while !matches!(stream.read(&mut ignored).await, Ok(0) | Err(_)) {}
}

fn find<'a>(pairs: &'a [(String, String)], key: &str) -> Option<&'a str> {
    pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

fn date(ahead: Duration) -> String {
    (Timestamp::now() + ahead).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
