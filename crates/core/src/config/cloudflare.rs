//! `[cloudflare]`: through which tunnel services are published, and with which rights.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::problem::Fault;
use super::reader::Section;
use super::value;
use crate::publish::Settings;

/// `[cloudflare]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cloudflare {
    /// 32 hexadecimal digits.
    pub account: String,
    /// A UUID, in lower case.
    pub tunnel: String,
    pub credential: Credential,
    /// Where its API is, without a slash at the end.
    pub api: String,
    /// Tells apart the gates that share an account.
    pub instance: String,
    /// The name of the Zero Trust team; with it the connector refuses requests that Access has not let through.
    pub team: Option<String>,
    /// How long a service must be gone, continuously, before its hostnames are withdrawn.
    pub grace: Duration,
    /// How often all of it is compared when nothing seems to have happened.
    pub every: Duration,
    /// The tunnel is the gate's alone: what no service asks for goes, whoever made it.
    pub exclusive: bool,
    /// Of services that do not say.
    pub adopt: bool,
    pub delete_dns: bool,
    /// So many hostnames are withdrawn at a time.
    pub max_deletions: usize,
    /// What would be done is told, and not done.
    pub dry_run: bool,
}

/// What the API is told to believe who asks. Never shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// A token with the rights that `docs/a-services-publication.md` names.
    Token(Secret),
    /// The global key of a user, which may do anything.
    Key { email: String, key: Secret },
}

#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    Text(String),
    /// In a file, and read from there when it is needed.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("***"),
            Self::File(path) => write!(f, "*** in {}", path.display()),
        }
    }
}

pub const API: &str = "https://api.cloudflare.com/client/v4";
const LONGEST_INSTANCE: usize = 32;
/// What alone says that the gate is to publish anything.
const IDENTIFYING: [&str; 7] = ["account", "tunnel", "token", "token_file", "key", "key_file", "email"];

impl Cloudflare {
    /// `None` if there is nothing that names a tunnel or an account.
    pub(super) fn read(mut section: Section<'_, '_>) -> Option<Self> {
        let account = section.text("account", account);
        let tunnel = section.text("tunnel", tunnel);
        let token = secret(&mut section, "token", "token_file");
        let key = secret(&mut section, "key", "key_file");
        let email = section.text("email", |text| Ok(text.to_owned()));
        let wanted = IDENTIFYING.iter().any(|key| section.has(key));
        let credential = credential(&section, token, key, email, wanted);
        let api = section.text("api", api).unwrap_or_else(|| API.to_owned());
        let instance = section.text("instance", instance).unwrap_or_else(|| "default".to_owned());
        let team = section.text("team", team);
        let grace = section.text("grace", value::duration).unwrap_or(Duration::from_secs(30 * 60));
        let every = section.text("every", every).unwrap_or(Duration::from_secs(5 * 60));
        let exclusive = section.boolean("exclusive").unwrap_or(false);
        let adopt = section.boolean("adopt").unwrap_or(false);
        let delete_dns = section.boolean("delete_dns_on_removal").unwrap_or(false);
        let max_deletions = section.number("max_deletions", 1).unwrap_or(10);
        let dry_run = section.boolean("dry_run").unwrap_or(false);
        for (key, example) in [("account", "the account's id"), ("tunnel", "the tunnel's id, a UUID")] {
            if wanted && !section.has(key) {
                let fix = format!("write {key} = \"...\" with {example}");
                section.problem("", Fault::new(format!("nothing says which {key} is meant"), fix));
            }
        }
        section.finish();
        Some(Self {
            account: account?,
            tunnel: tunnel?,
            credential: credential?,
            api,
            instance,
            team,
            grace,
            every,
            exclusive,
            adopt,
            delete_dns,
            max_deletions,
            dry_run,
        })
    }

    /// What a service is taken to ask for that does not say.
    pub fn defaults(&self) -> Settings {
        Settings { adopt: self.adopt, delete_dns: self.delete_dns, ..Settings::default() }
    }

    /// With every path relative to `directory`.
    pub(super) fn beside(&mut self, directory: &Path) {
        let (Credential::Token(secret) | Credential::Key { key: secret, .. }) = &mut self.credential;
        if let Secret::File(path) = secret {
            *path = directory.join(&path);
        }
    }
}

fn secret(section: &mut Section<'_, '_>, plain: &'static str, file: &'static str) -> Option<Secret> {
    let text = section.text(plain, |text| match text.trim() {
        "" => Err(Fault::new("is empty", "write it out, or leave the key out")),
        text => Ok(Secret::Text(text.to_owned())),
    });
    let path = section.path(file).map(Secret::File);
    if text.is_some() && path.is_some() {
        section.problem(file, Fault::new(format!("{plain} says it already"), "leave one of them"));
    }
    text.or(path)
}

fn credential(
    section: &Section<'_, '_>,
    token: Option<Secret>,
    key: Option<Secret>,
    email: Option<String>,
    wanted: bool,
) -> Option<Credential> {
    let none_written = !["token", "token_file", "key", "key_file"].iter().any(|key| section.has(key));
    match (token, key, email) {
        (Some(_), Some(_), _) => {
            let fix = "leave the token: it can do no more than it must";
            section.problem("key", Fault::new("there is a token, too", fix));
            None
        }
        (Some(token), None, _) => Some(Credential::Token(token)),
        (None, Some(key), Some(email)) => Some(Credential::Key { email, key }),
        (None, Some(_), None) => {
            let fix = "write email = \"...\" beside it, or better use a token";
            section.problem("key", Fault::new("a global key needs the email of its user", fix));
            None
        }
        (None, None, _) => {
            if wanted && none_written {
                let fix = "write token_file = \"...\" with the file of an API token";
                section.problem("", Fault::new("nothing says with which rights", fix));
            }
            None
        }
    }
}

fn account(text: &str) -> Result<String, Fault> {
    let text = text.trim().to_ascii_lowercase();
    if text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text);
    }
    let fix = "write the 32 hexadecimal digits after dash.cloudflare.com/ in the dashboard's address";
    // What stands there may be a secret.
    Err(Fault::new("it is not the id of an account", fix))
}

fn tunnel(text: &str) -> Result<String, Fault> {
    match text.trim().parse::<uuid::Uuid>() {
        Ok(id) => Ok(id.hyphenated().to_string()),
        Err(_) => {
            let fix = "write the tunnel's UUID, such as \"f70ff985-a4ef-4643-bbbc-4a0ed4fc8415\", not its name or token";
            Err(Fault::new("it is not the id of a tunnel", fix))
        }
    }
}

fn api(text: &str) -> Result<String, Fault> {
    let text = text.trim().trim_end_matches('/');
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains(char::is_whitespace) => Ok(text.to_owned()),
        Some(_) | None => {
            Err(Fault::new(format!("{text:?} is not where an API can be"), format!("write {API:?}")))
        }
    }
}

fn instance(text: &str) -> Result<String, Fault> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=LONGEST_INSTANCE).contains(&text.len()) && text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    let fix = format!("use up to {LONGEST_INSTANCE} of a to z, 0 to 9 and '-'");
    Err(Fault::new(format!("{text:?} cannot be the name of a gate"), fix))
}

fn team(text: &str) -> Result<String, Fault> {
    let name = text.strip_suffix(".cloudflareaccess.com").unwrap_or(text);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !name.is_empty() && name.bytes().all(plain) {
        return Ok(name.to_owned());
    }
    let fix = "write what stands before .cloudflareaccess.com";
    Err(Fault::new(format!("{text:?} is not the name of a team"), fix))
}

fn every(text: &str) -> Result<Duration, Fault> {
    const LEAST: Duration = Duration::from_secs(1);
    let every = value::duration(text)?;
    if every < LEAST {
        return Err(Fault::new(format!("{text:?} is too often for the API"), "write \"1m\" or more"));
    }
    Ok(every)
}
