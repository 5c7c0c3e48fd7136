//! Credentials for registries, as `docker login` keeps them in its `config.json`.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde::Deserialize;
use serde_json::json;

use crate::image::Image;

/// The key of Docker Hub, for historical reasons (moby, `registry.IndexServer`).
const HUB: &str = "https://index.docker.io/v1/";

/// Who is known where, by the registry's host.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Registries(BTreeMap<String, Login>);

#[derive(Clone, PartialEq, Eq)]
struct Login {
    /// As in the file.
    server: String,
    way: Way,
}

#[derive(Clone, PartialEq, Eq)]
enum Way {
    Password {
        user: String,
        password: String,
    },
    Token(String),
    /// In a store that only a program of its own can open.
    Elsewhere,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistriesError {
    #[error("it is none of Docker's config.json: {0}")]
    NotOne(String),
    #[error("`auth` of {0} is not base64 of `user:password`")]
    BadAuth(String),
    #[error(
        "the password for {0} is in a credential store, which the gate cannot open; `docker --config DIRECTORY login {0}` \
         where none is set up writes it into the file"
    )]
    Elsewhere(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize, Default)]
struct Auth {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    identitytoken: String,
}

impl Registries {
    /// # Errors
    /// What is wrong with the file, without any password.
    pub fn parse(text: &str) -> Result<Self, RegistriesError> {
        let written: Written = serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            RegistriesError::NotOne(format!("line {line}, column {column} is not as it should be"))
        })?;
        let logins = written.auths.into_iter().map(|(server, auth)| {
            let way = auth.way().ok_or_else(|| RegistriesError::BadAuth(server.clone()))?;
            Ok((host(&server), Login { server, way }))
        });
        logins.collect::<Result<_, _>>().map(Self)
    }

    /// What the engine is sent along, for it to ask an image's registry with (Engine API, "Authentication"); `None` if the
    /// registry is not among these.
    ///
    /// # Errors
    /// When the password is somewhere else.
    pub fn header(&self, image: &Image) -> Result<Option<String>, RegistriesError> {
        let Some(Login { server, way }) = self.0.get(&image.registry()) else { return Ok(None) };
        let auth = match way {
            Way::Password { user, password } => {
                json!({"username": user, "password": password, "serveraddress": server})
            }
            Way::Token(token) => json!({"identitytoken": token, "serveraddress": server}),
            Way::Elsewhere => return Err(RegistriesError::Elsewhere(server.clone())),
        };
        Ok(Some(URL_SAFE.encode(auth.to_string())))
    }
}

impl Auth {
    fn way(self) -> Option<Way> {
        if !self.identitytoken.is_empty() {
            return Some(Way::Token(self.identitytoken));
        }
        if !self.auth.is_empty() {
            let decoded = STANDARD.decode(&self.auth).ok().and_then(|bytes| String::from_utf8(bytes).ok())?;
            let (user, password) = decoded.split_once(':')?;
            let password = password.trim_end_matches('\0').to_owned();
            return Some(Way::Password { user: user.to_owned(), password });
        }
        if self.username.is_empty() {
            return Some(Way::Elsewhere);
        }
        Some(Way::Password { user: self.username, password: self.password })
    }
}

/// `https://ghcr.io/v2/` and `ghcr.io` are one.
fn host(server: &str) -> String {
    if server == HUB {
        return "docker.io".to_owned();
    }
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or(rest);
    if host == "index.docker.io" { "docker.io".to_owned() } else { host.to_owned() }
}

impl fmt::Debug for Registries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn sent(file: &str, image: &str) -> Result<Option<Value>, RegistriesError> {
        let header = Registries::parse(file)?.header(&Image::parse(image).unwrap())?;
        Ok(header.map(|header| serde_json::from_slice(&URL_SAFE.decode(header).unwrap()).unwrap()))
    }

    #[test]
    fn an_image_is_asked_for_by_whoever_is_known_at_its_registry() {
        let basic = STANDARD.encode("ann:s3:cret?>");
        let file = json!({"auths": {
            HUB: {"auth": STANDARD.encode("hub:x")},
            "ghcr.io": {"auth": basic},
            "https://registry.example.com:5000/v2/": {"username": "bo", "password": "p"},
            "token.example.com": {"identitytoken": "t"},
            "stored.example.com": {},
        }, "HttpHeaders": {}, "credsStore": "desktop"})
        .to_string();
        let password = |user: &str, password: &str, server: &str| {
            Some(json!({"username": user, "password": password, "serveraddress": server}))
        };
        for (image, expected) in [
            ("nginx", password("hub", "x", HUB)),
            ("docker.io/acme/web:1", password("hub", "x", HUB)),
            ("ghcr.io/acme/web:1", password("ann", "s3:cret?>", "ghcr.io")),
            ("registry.example.com:5000/web", password("bo", "p", "https://registry.example.com:5000/v2/")),
            (
                "token.example.com/web",
                Some(json!({"identitytoken": "t", "serveraddress": "token.example.com"})),
            ),
            ("registry.example.com/web", None),
        ] {
            assert_eq!(sent(&file, image), Ok(expected), "{image}");
        }
        let elsewhere = sent(&file, "stored.example.com/web").unwrap_err().to_string();
        assert!(
            elsewhere.contains("credential store") && elsewhere.contains("login stored.example.com"),
            "{elsewhere}"
        );
        let shown = format!("{:?}", Registries::parse(&file).unwrap());
        assert!(shown.contains("ghcr.io") && !shown.contains("s3") && !shown.contains("ann"), "{shown}");
    }

    #[test]
    fn what_is_wrong_is_said_without_passwords() {
        for (file, what) in [
            ("secret", "line 1"),
            ("{\"auths\": {\"a.example\": {\"auth\": \"c2VjcmV0\"}}}", "`auth` of a.example"),
            ("{\"auths\": {\"a.example\": {\"auth\": \"sec ret\"}}}", "`auth` of a.example"),
            ("{\"auths\": {\"a.example\": {\"auth\": 7}}}", "line 1"),
        ] {
            let error = Registries::parse(file).unwrap_err().to_string();
            assert!(
                error.contains(what) && !error.contains("secret") && !error.contains("c2V"),
                "{file}: {error}"
            );
        }
        assert_eq!(Registries::parse("{}"), Ok(Registries::default()));
    }
}
