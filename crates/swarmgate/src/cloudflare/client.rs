//! A thin client of Cloudflare's API, v4 (developers.cloudflare.com/api): one account and one tunnel in it.
//!
//! Configurations and applications stay the text they came in, because a type that does not know a key would take it
//! away with the next write. The client retries nothing: whoever calls looks again, as an answer that was lost may
//! have been a success. It keeps to the API's limit on requests and, once refused for it, stays away as long as told.

mod budget;
mod calls;
pub mod error;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, InvalidHeaderValue, RETRY_AFTER,
};
use reqwest::{Method, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use self::budget::Budget;
use self::error::{ApiError, Problem};
use crate::http::{self, HttpError};
use crate::metrics::Metrics;

const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A thousand Access applications with everything they can have.
const MOST_BYTES: usize = 16 * 1024 * 1024;
const MOST_PAGES: usize = 1000;
/// What to wait for when it does not say, and the most that is believed.
const CLOSED_FOR: Duration = Duration::from_secs(60);
const CLOSED_AT_MOST: Duration = Duration::from_secs(3600);

/// Where the API is, whose it is, and with which rights it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `https://api.cloudflare.com/client/v4`, without a slash at its end.
    pub api: String,
    pub account: String,
    pub tunnel: String,
    pub credentials: Credentials,
}

/// Never shown.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Token(String),
    /// The global key of a user.
    Key {
        email: String,
        key: String,
    },
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum NoClient {
    #[error("the API token or key has characters that no token has; copy it again, without line breaks")]
    Credentials(#[from] InvalidHeaderValue),
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// One account's API. A cheap handle.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    api: Arc<str>,
    account: Arc<str>,
    tunnel: Arc<str>,
    /// Marked as secrets, so that they are not shown either.
    headers: Vec<(HeaderName, HeaderValue)>,
    budget: Arc<Mutex<Budget>>,
    metrics: Metrics,
}

impl Client {
    /// # Errors
    /// When the credentials cannot be sent, or there can be no TLS.
    pub fn new(target: &Target) -> Result<Self, NoClient> {
        Ok(Self {
            http: http::client(ANSWER_WITHIN)?,
            api: target.api.as_str().into(),
            account: target.account.as_str().into(),
            tunnel: target.tunnel.as_str().into(),
            headers: target.credentials.headers()?,
            budget: Arc::default(),
            metrics: Metrics::default(),
        })
    }

    pub fn account_id(&self) -> &str {
        &self.account
    }

    pub fn tunnel_id(&self) -> &str {
        &self.tunnel
    }

    /// And not a global key.
    pub fn has_token(&self) -> bool {
        self.headers.iter().any(|(name, _)| *name == AUTHORIZATION)
    }

    /// Counts its calls.
    pub fn measured(self, metrics: &Metrics) -> Self {
        Self { metrics: metrics.clone(), ..self }
    }

    /// All items of a list, page by page. `path` may have a query.
    async fn list<T: DeserializeOwned>(&self, call: Call<'_>, per_page: usize) -> Result<Vec<T>, ApiError> {
        let mut all = Vec::new();
        for page in 1..=MOST_PAGES {
            let and = if call.path.contains('?') { '&' } else { '?' };
            let path = format!("{}{and}page={page}&per_page={per_page}", call.path);
            let answer: Answer<Vec<T>> = self.exchange(Call { path: &path, ..call.clone() }).await?;
            let items = answer.result;
            let shown = items.len();
            all.extend(items);
            let more = match answer.total {
                Some(total) => all.len() < total,
                None => shown == per_page,
            };
            if !more {
                return Ok(all);
            }
            // A list that seems shorter than it is would have things made twice.
            if shown == 0 {
                break;
            }
        }
        Err(call.no_answer("its pages do not add up"))
    }

    async fn call<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, ApiError> {
        self.exchange(call).await.map(|answer| answer.result)
    }

    async fn exchange<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<Answer<T>, ApiError> {
        let (endpoint, began) = (call.endpoint(), Instant::now());
        let ended = self.exchange_once(call).await;
        let outcome = ended.as_ref().map_or_else(|error| error.kind(), |_| "ok");
        self.metrics.asked_cloudflare(endpoint, outcome, began.elapsed());
        ended
    }

    async fn exchange_once<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<Answer<T>, ApiError> {
        let sent = Instant::now();
        self.budget().take(sent).map_err(|after| ApiError::Limited { call: call.to_string(), after })?;
        let response = self.send(&call).await?;
        let (status, retry_after) = (response.status(), retry_after(&response));
        if status.as_u16() == 429 {
            let after = retry_after.unwrap_or(CLOSED_FOR).min(CLOSED_AT_MOST);
            self.budget().close(Instant::now() + after);
            return Err(ApiError::Limited { call: call.to_string(), after });
        }
        let body = body(&call, response).await?;
        let head: Head = match serde_json::from_str(&body) {
            Ok(head) => head,
            Err(_) if status.is_success() => return Err(call.no_answer("its answer is not one of the API's")),
            Err(_) => Head { success: false, errors: None, result_info: None },
        };
        if !head.success || !status.is_success() {
            let problems = head.errors.unwrap_or_default();
            return Err(ApiError::refused(call.to_string(), call.right, status.as_u16(), &problems));
        }
        let unreadable = |error| call.no_answer(format!("its answer cannot be read ({error})"));
        let Body { result } = serde_json::from_str(&body).map_err(unreadable)?;
        Ok(Answer { result, total: head.result_info.and_then(|info| info.total_count) })
    }

    async fn send(&self, call: &Call<'_>) -> Result<Response, ApiError> {
        let url = format!("{}{}", self.api, call.path);
        let mut request = self.http.request(call.method.clone(), url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        request.send().await.map_err(|error| call.broken(error))
    }

    fn budget(&self) -> std::sync::MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Credentials {
    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidHeaderValue> {
        let secret = |name: &'static str, value: &str| {
            let mut value = HeaderValue::from_str(value)?;
            value.set_sensitive(true);
            Ok((HeaderName::from_static(name), value))
        };
        match self {
            Self::Token(token) => Ok(vec![secret("authorization", &format!("Bearer {token}"))?]),
            Self::Key { email, key } => Ok(vec![secret("x-auth-email", email)?, secret("x-auth-key", key)?]),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token(***)",
            Self::Key { .. } => "Key(***)",
        })
    }
}

/// Displayed without its query.
#[derive(Debug, Clone)]
struct Call<'a> {
    method: Method,
    path: &'a str,
    /// JSON.
    body: Option<String>,
    /// What the token must be allowed to.
    right: &'static str,
}

impl Call<'_> {
    /// What is called, in a word for metric labels.
    fn endpoint(&self) -> &'static str {
        const KNOWN: [(&str, &str); 7] = [
            ("/tokens/", "tokens"),
            ("/configurations", "configuration"),
            ("/cfd_tunnel/", "tunnel"),
            ("/dns_records", "dns_records"),
            ("/access/apps", "access_apps"),
            ("/access/tags", "access_tags"),
            ("/access/policies", "access_policies"),
        ];
        let known = KNOWN.iter().find(|(part, _)| self.path.contains(part));
        known.map_or("zones", |(_, word)| word)
    }

    fn no_answer(&self, why: impl Into<String>) -> ApiError {
        ApiError::NoAnswer { call: self.to_string(), why: why.into() }
    }

    fn broken(&self, error: reqwest::Error) -> ApiError {
        // It would show the query.
        self.no_answer(crate::http::why(error))
    }
}

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.split_once('?').map_or(self.path, |(path, _)| path);
        write!(f, "{} {path}", self.method)
    }
}

struct Answer<T> {
    result: T,
    total: Option<usize>,
}

/// Every answer of the API, success or not.
#[derive(Deserialize)]
struct Head {
    success: bool,
    errors: Option<Vec<Problem>>,
    result_info: Option<Info>,
}

#[derive(Deserialize)]
struct Info {
    total_count: Option<usize>,
}

#[derive(Deserialize)]
struct Body<T> {
    result: T,
}

async fn body(call: &Call<'_>, mut response: Response) -> Result<String, ApiError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| call.broken(error))? {
        if bytes.len() + chunk.len() > MOST_BYTES {
            return Err(call.no_answer(format!("its answer is longer than {MOST_BYTES} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| call.no_answer("its answer is not text"))
}

/// In seconds; the API sends no dates.
fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
