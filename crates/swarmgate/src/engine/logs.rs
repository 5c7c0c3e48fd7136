//! The last lines that a container wrote.

use hyper::Method;
use hyper::header::CONTENT_TYPE;
use jiff::Timestamp;
use swarmgate_core::state::output;

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
        let call = Call { method: Method::GET, path: &path, auth: None };
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
            Ok(if raw { body.to_vec() } else { output::joined(&body) })
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
