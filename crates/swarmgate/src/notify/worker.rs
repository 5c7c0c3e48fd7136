//! Sends what waits for one target: together, at the messenger's own pace, and again if it must be.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use swarmgate_core::config::notify::{Format, Login, Messenger, Target};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Note, discord, ntfy, pushover, slack, webhook};
use crate::metrics::Metrics;

/// What a messenger says about its limits is short.
const LONGEST_ANSWER: usize = 64 * 1024;
/// A messenger that asks for more than this has lost the message.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// One call, with its answer.
    pub answer: Duration,
    /// After a call that failed; doubled each time, up to five minutes.
    pub again: Duration,
    /// How long a message is tried.
    pub patience: Duration,
    /// How long to gather before a first message of many.
    pub gather: Duration,
    /// What is left of the queue when the gate is told to end.
    pub drain: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(10),
            again: Duration::from_secs(1),
            patience: Duration::from_secs(60 * 60),
            gather: Duration::ZERO,
            drain: Duration::from_secs(5),
        }
    }
}

impl Pace {
    const LONGEST_AGAIN: Duration = Duration::from_secs(5 * 60);

    /// For the log, whose lines come in bunches.
    pub fn of_log() -> Self {
        Self { gather: Duration::from_secs(2), ..Self::default() }
    }

    fn after(self, tries: u32) -> Duration {
        self.again.saturating_mul(2_u32.saturating_pow(tries.saturating_sub(1))).min(Self::LONGEST_AGAIN)
    }
}

#[derive(Debug)]
pub(super) struct Worker {
    target: Target,
    client: Client,
    pace: Pace,
    metrics: Metrics,
    /// What the log has heard of it last.
    complaint: String,
}

/// What has become of a call.
enum Outcome {
    Sent,
    /// The messenger wants to be asked again after this.
    Wait(Duration),
    Failed(String),
    /// Asking again would change nothing.
    Refused(String),
}

impl Worker {
    pub(super) fn new(target: Target, client: Client, pace: Pace, metrics: Metrics) -> Self {
        Self { target, client, pace, metrics, complaint: String::new() }
    }

    /// Until `stop`, and then until what waited is sent or the time for that is over.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Note>, stop: CancellationToken) {
        let mut waiting = Vec::new();
        tokio::select! {
            () = self.serve(&mut queue, &mut waiting) => {}
            () = stop.cancelled() => {}
        }
        queue.close();
        let end = Instant::now() + self.pace.drain;
        self.pace.gather = Duration::ZERO;
        let _ = timeout_at(end, self.serve(&mut queue, &mut waiting)).await;
        while let Ok(note) = queue.try_recv() {
            waiting.push(note);
        }
        self.took(waiting.len(), "dropped");
    }

    /// Sends until the queue is closed and empty. What is in `waiting` has been taken out of it and is not sent.
    async fn serve(&mut self, queue: &mut mpsc::Receiver<Note>, waiting: &mut Vec<Note>) {
        const TOGETHER: usize = 256;
        loop {
            if waiting.is_empty() {
                let Some(first) = queue.recv().await else { return };
                waiting.push(first);
                tokio::time::sleep(self.pace.gather).await;
            }
            while waiting.len() < TOGETHER
                && let Ok(next) = queue.try_recv()
            {
                waiting.push(next);
            }
            let (request, taken) = self.request(waiting);
            let sent = self.send(request).await;
            waiting.drain(..taken);
            self.took(taken, if sent { "sent" } else { "failed" });
        }
    }

    async fn send(&mut self, request: RequestBuilder) -> bool {
        let give_up = Instant::now() + self.pace.patience;
        for tries in 1.. {
            let Some(call) = request.try_clone() else { return false };
            let (why, wait) = match call_once(call).await {
                Outcome::Sent => {
                    if !std::mem::take(&mut self.complaint).is_empty() {
                        tracing::info!(messenger = self.target.kind(), "the messenger takes messages again");
                    }
                    return true;
                }
                Outcome::Wait(wait) if wait > LONGEST_WAIT => ("it is to wait too long".to_owned(), None),
                Outcome::Wait(wait) => ("it has had too many messages".to_owned(), Some(wait)),
                Outcome::Failed(why) => (why, Some(self.pace.after(tries))),
                Outcome::Refused(why) => (why, None),
            };
            self.complain(why);
            match wait {
                Some(wait) if Instant::now() + wait < give_up => tokio::time::sleep(wait).await,
                Some(_) | None => return false,
            }
        }
        false
    }

    /// Once for each thing that is wrong. The layer that mirrors the log leaves this module out.
    fn complain(&mut self, why: String) {
        if self.complaint != why {
            tracing::warn!(messenger = self.target.kind(), why, "a messenger does not take a message");
            self.complaint = why;
        }
    }

    fn took(&self, count: usize, outcome: &'static str) {
        self.metrics.note_queued(self.target.kind(), -i64::try_from(count).unwrap_or(i64::MAX));
        self.metrics.notified(self.target.kind(), outcome, u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// One call with as many of `notes` as fit into it.
    fn request(&self, notes: &[Note]) -> (RequestBuilder, usize) {
        let post = self.client.post(self.target.url.clone());
        let (request, taken) = match &self.target.messenger {
            Messenger::Discord => json(post, discord::body(notes)),
            Messenger::Slack => json(post, slack::body(notes)),
            Messenger::Webhook(Format::Alerts) => json(post, webhook::body(notes)),
            Messenger::Webhook(Format::McRouter) => match notes.first() {
                Some(Note::Player(payload)) => (post.json(payload), 1),
                Some(Note::Message { .. }) | None => (post, 1),
            },
            Messenger::Ntfy { topic, login } => {
                let (request, taken) = json(post, ntfy::body(notes, topic));
                let request = match login {
                    Some(Login::Token(token)) => request.bearer_auth(token),
                    Some(Login::Password { user, password }) => request.basic_auth(user, Some(password)),
                    None => request,
                };
                (request, taken)
            }
            Messenger::Pushover { token, user, devices } => {
                let (form, taken) = pushover::form(notes, token, user, devices.as_deref());
                (post.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form), taken)
            }
        };
        // Whatever is wrong with the first, it must not be tried for ever.
        (request, taken.max(1).min(notes.len()))
    }
}

fn json(post: RequestBuilder, (body, taken): (Value, usize)) -> (RequestBuilder, usize) {
    (post.json(&body), taken)
}

async fn call_once(request: RequestBuilder) -> Outcome {
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => return Outcome::Failed(crate::http::why(error)),
    };
    let status = response.status();
    if status.is_success() {
        return Outcome::Sent;
    }
    match status {
        StatusCode::TOO_MANY_REQUESTS => Outcome::Wait(retry_after(response).await),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => {
            Outcome::Failed(format!("it answers {status}"))
        }
        status if status.is_server_error() => Outcome::Failed(format!("it answers {status}")),
        status => Outcome::Refused(format!("it answers {status}: is its address right?")),
    }
}

/// In seconds, in the header, or, more exactly, in the answer of Discord.
async fn retry_after(response: Response) -> Duration {
    const USUAL: Duration = Duration::from_secs(5);
    let header =
        response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let answer: Option<Value> = short(response).await.and_then(|body| serde_json::from_slice(&body).ok());
    let exact = answer.and_then(|answer| answer.get("retry_after")?.as_f64());
    let seconds = exact.or(header).and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok());
    seconds.unwrap_or(USUAL)
}

async fn short(mut response: Response) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST_ANSWER {
            return None;
        }
    }
    Some(body)
}
