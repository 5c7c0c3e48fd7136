//! The session server: says whether the owner of an account is joining here.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, Response, StatusCode, header};
use serde::Deserialize;
use swarmgate_minecraft::limbo::Property;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use uuid::Uuid;

use crate::http::{self, HttpError};

/// A player waits for this, and has already waited for its own side of it.
const LIMIT: Duration = Duration::from_secs(5);
/// Questions under way at one time.
const MOST_QUESTIONS: usize = 32;
/// Room for a signed skin and cape.
const LONGEST_ANSWER: usize = 64 * 1024;
/// How long to leave a session server alone that says that it is asked too often, if it does not say.
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Sessions {
    http: Client,
    questions: Semaphore,
    paused_until: Mutex<Option<Instant>>,
}

/// A player's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uuid: Uuid,
    pub properties: Vec<Property>,
}

/// Why it is not known whose account it is.
#[derive(Debug, thiserror::Error)]
pub enum NoAccount {
    #[error("the session server does not know of this player joining here")]
    Unknown,
    #[error("as many accounts are being checked as may be at one time")]
    Busy,
    #[error("the session server has asked for a pause")]
    Paused,
    /// Without the address asked for: the player's name is in it.
    #[error("the session server does not answer")]
    Http(#[source] reqwest::Error),
    #[error("the session server answers with status {0}")]
    Status(StatusCode),
    #[error("the session server's answer is longer than any profile")]
    Long,
    #[error("the session server's answer is no profile")]
    Unreadable(#[from] serde_json::Error),
    #[error("the session server answers with the profile of somebody else")]
    SomebodyElse,
}

impl NoAccount {
    fn http(error: reqwest::Error) -> Self {
        Self::Http(error.without_url())
    }
}

impl Sessions {
    pub fn new() -> Result<Self, HttpError> {
        let http = http::client(LIMIT)?;
        Ok(Self { http, questions: Semaphore::new(MOST_QUESTIONS), paused_until: Mutex::default() })
    }

    /// Whether the player has reported `hash`, that of its connection, to the session server at `base`.
    pub async fn has_joined(&self, base: &str, name: &str, hash: &str) -> Result<Account, NoAccount> {
        let _question = self.questions.try_acquire().map_err(|_| NoAccount::Busy)?;
        if self.paused().is_some_and(|until| Instant::now() < until) {
            return Err(NoAccount::Paused);
        }
        let url = format!("{base}/session/minecraft/hasJoined");
        let answer = self.http.get(url).query(&[("username", name), ("serverId", hash)]).send();
        let answer = answer.await.map_err(NoAccount::http)?;
        match answer.status() {
            StatusCode::OK => account(&body(answer).await?, name),
            // The last two are how other session servers than Mojang's say it.
            StatusCode::NO_CONTENT | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(NoAccount::Unknown)
            }
            StatusCode::TOO_MANY_REQUESTS => {
                *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Instant::now() + pause(&answer));
                Err(NoAccount::Paused)
            }
            other => Err(NoAccount::Status(other)),
        }
    }

    fn paused(&self) -> Option<Instant> {
        *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pause(answer: &Response) -> Duration {
    let asked = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    asked.map_or(PAUSE, Duration::from_secs).min(LONGEST_PAUSE)
}

async fn body(mut answer: Response) -> Result<Vec<u8>, NoAccount> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(NoAccount::http)? {
        if body.len() + chunk.len() > LONGEST_ANSWER {
            return Err(NoAccount::Long);
        }
        body.extend(chunk);
    }
    Ok(body)
}

fn account(body: &[u8], name: &str) -> Result<Account, NoAccount> {
    let Profile { id, name: told, properties } = serde_json::from_slice(body)?;
    if !told.eq_ignore_ascii_case(name) {
        return Err(NoAccount::SomebodyElse);
    }
    let properties =
        properties.into_iter().map(|Said { name, value, signature }| Property { name, value, signature });
    Ok(Account { name: told, uuid: id, properties: properties.collect() })
}

#[derive(Deserialize)]
struct Profile {
    id: Uuid,
    name: String,
    #[serde(default)]
    properties: Vec<Said>,
}

#[derive(Deserialize)]
struct Said {
    name: String,
    value: String,
    signature: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "069a79f444e94726a5befca90e38aaf5";

    #[test]
    fn profiles() {
        let skin = r#"{"name":"textures","value":"abc","signature":"sig"}"#;
        let cape = r#"{"name":"cape","value":"def"}"#;
        let property = |name: &str, value: &str, signature: Option<&str>| Property {
            name: name.to_owned(),
            value: value.to_owned(),
            signature: signature.map(str::to_owned),
        };
        for (body, properties) in [
            (format!(r#"{{"id":"{ID}","name":"Ann"}}"#), Some(vec![])),
            (
                format!(r#"{{"id":"{ID}","name":"Ann","properties":[{skin},{cape}],"profileActions":[]}}"#),
                Some(vec![property("textures", "abc", Some("sig")), property("cape", "def", None)]),
            ),
            (format!(r#"{{"id":"{ID}","name":"Bo"}}"#), None),
            (r#"{"id":"somebody","name":"Ann"}"#.to_owned(), None),
            ("<html>down</html>".to_owned(), None),
            (String::new(), None),
        ] {
            let expected = properties.map(|properties| Account {
                name: "Ann".to_owned(),
                uuid: ID.parse().unwrap(),
                properties,
            });
            assert_eq!(account(body.as_bytes(), "aNN").ok(), expected, "{body}");
        }
    }
}
