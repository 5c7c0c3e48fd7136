//! The last lines that a container wrote.

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use jiff::Timestamp;

use super::access::Need;
use super::{Call, Engine, READ_WITHIN, within};

/// Of a longer line nobody reads the rest.
const LONGEST_LINE: usize = 500;
/// Nor more than this of all of them.
const MOST_BYTES: usize = 1024 * 1024;

impl Engine {
    /// The last lines of the container or task at `path` (`/tasks/{id}`), oldest first, of those since `since`; none if
    /// they are not to be had.
    pub async fn last_lines(&self, path: String, since: Option<Timestamp>, lines: usize) -> Vec<String> {
        let since = since.map(|at| format!("&since={}.{:09}", at.as_second(), at.subsec_nanosecond()));
        let path = format!("{path}/logs?stdout=1&stderr=1&tail={lines}{}", since.unwrap_or_default());
        let call = Call { method: Method::GET, path: &path };
        let read = within(READ_WITHIN, &call, self, async {
            let (response, _connection) = self.send(&call, None).await?;
            if !response.status().is_success() {
                return Err(self.refusal(&call, response).await);
            }
            let raw = response
                .headers()
                .get(CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().ends_with(b"raw-stream"));
            let body = self.body(&call, response, MOST_BYTES).await?;
            Ok(if raw { body.to_vec() } else { joined(&body) })
        });
        let read = read.await;
        self.access().note(Need::Logs, &read);
        let text = read.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let all = text.lines().map(|line| line.chars().take(LONGEST_LINE).collect::<String>());
        let mut last: Vec<String> = all.filter(|line| !line.trim().is_empty()).collect();
        last.drain(..last.len().saturating_sub(lines));
        last
    }
}

/// Without a terminal, output comes in pieces, each after a head of eight bytes: which stream it is of, three zeros, and
/// its length (Engine API, "Attach to a container"). What is none of that is taken as it is.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    while let Some((&[stream @ 0..=2, 0, 0, 0, a, b, c, d], rest)) = body.split_first_chunk::<8>() {
        let _ = stream;
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX).min(rest.len());
        let (piece, after) = rest.split_at(length);
        text.extend_from_slice(piece);
        body = after;
    }
    text.extend_from_slice(body);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_and_a_terminal_is_left_as_it_is() {
        let piece = |stream: u8, text: &str| {
            [&[stream, 0, 0, 0, 0, 0, 0, text.len().try_into().unwrap()], text.as_bytes()].concat()
        };
        let body = [piece(1, "one\n"), piece(2, "two\nth"), piece(1, "ree\n")].concat();
        assert_eq!(joined(&body), b"one\ntwo\nthree\n");
        assert_eq!(joined(b"plain\ntext\n"), b"plain\ntext\n");
        let cut = &body[..body.len() - 2];
        assert_eq!(joined(cut), b"one\ntwo\nthre", "cut off");
        assert_eq!(joined(b""), b"");
    }
}
