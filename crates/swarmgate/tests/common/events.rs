//! What happens, as a program hears of it.

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use super::LIMIT;

/// An open stream of events.
pub struct Listener<S> {
    stream: S,
    unread: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Listener<S> {
    /// Once the gate has begun to answer, so that nothing is missed from here on.
    pub async fn of(stream: S) -> Self {
        let mut listener = Self { stream, unread: Vec::new() };
        let head = listener.until("here").await;
        assert!(
            head.starts_with("HTTP/1.1 200") && head.contains("content-type: text/event-stream"),
            "{head}"
        );
        listener
    }

    pub async fn until(&mut self, end: &str) -> String {
        loop {
            let said = String::from_utf8_lossy(&self.unread).into_owned();
            if let Some(at) = said.find(end) {
                self.unread = said.as_bytes()[at + end.len()..].to_vec();
                return said[..at].to_owned();
            }
            let read = timeout(LIMIT, self.stream.read_buf(&mut self.unread)).await;
            assert_ne!(read.expect("an event").expect("bytes"), 0, "no {end:?} in {said:?}");
        }
    }

    /// The next event of this kind; those before it are left out.
    pub async fn next(&mut self, kind: &str) -> Value {
        self.until(&format!("event: {kind}\n")).await;
        self.until("data: ").await;
        let data = self.until("\n").await;
        let event: Value = serde_json::from_str(&data).expect("JSON");
        assert_eq!(event["event"], kind);
        assert!(event["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{event}");
        event
    }
}
