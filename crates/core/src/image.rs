//! References to images, as registries and engines write them: `ghcr.io/acme/web:1.2@sha256:…`.

use std::fmt;

/// A name, and which image of that name is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// With its registry, as written.
    name: String,
    tag: Option<String>,
    digest: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("the name is empty")]
    Empty,
    #[error("the name is {0} bytes long; {LONGEST_NAME} is the most")]
    TooLong(usize),
    #[error("it is the id of an image on one node, which the other nodes do not know")]
    Id,
    #[error("{0:?} is not a name of an image")]
    Name(String),
    #[error("{0:?} is not a tag")]
    Tag(String),
    #[error("{0:?} is not a digest")]
    Digest(String),
}

const LONGEST_NAME: usize = 255;
const LONGEST_TAG: usize = 128;
const LONGEST: usize = 600;
const HUB: &str = "docker.io";

impl Image {
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        if text.len() > LONGEST {
            return Err(ImageError::TooLong(text.len()));
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(checked(digest, is_digest, ImageError::Digest)?)),
            None => (text, None),
        };
        // A colon before the last slash is one of a registry's port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(checked(tag, is_tag, ImageError::Tag)?)),
            Some(_) | None => (rest, None),
        };
        match name.len() {
            0 => return Err(ImageError::Empty),
            1..=LONGEST_NAME => {}
            length => return Err(ImageError::TooLong(length)),
        }
        if name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) || name == "sha256" {
            return Err(ImageError::Id);
        }
        let name = checked(name, is_name, ImageError::Name)?;
        Ok(Self { name, tag, digest })
    }

    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// The reference whose newest image is looked for; `None` if it can only ever be one image. A name alone is that
    /// with the tag `latest`.
    pub fn moving(&self) -> Option<Self> {
        if self.tag.is_none() && self.digest.is_some() {
            return None;
        }
        let tag = self.tag.clone().or_else(|| Some("latest".to_owned()));
        Some(Self { name: self.name.clone(), tag, digest: None })
    }

    /// The host of its registry.
    pub fn registry(&self) -> String {
        whole(&self.name).split('/').next().unwrap_or_default().to_owned()
    }

    /// This very image of it. Anything but a digest changes nothing.
    pub fn pinned(&self, digest: &str) -> Option<Self> {
        is_digest(digest).then(|| Self { digest: Some(digest.to_owned()), ..self.clone() })
    }

    /// Whether one of `patterns` is its name, or ends in `/*` and is what its name begins with. An empty list is for all.
    pub fn is_among(&self, patterns: &[String]) -> bool {
        let name = whole(&self.name);
        patterns.is_empty()
            || patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some("") => true,
                Some(above) => name.starts_with(&whole(above)),
                None => name == whole(pattern),
            })
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// Whether it can stand in a list for [`Image::is_among`].
pub fn is_pattern(text: &str) -> bool {
    let name = text.strip_suffix("/*").unwrap_or(text);
    text == "*"
        || name.len() <= LONGEST_NAME && is_name(name)
        || text.ends_with("/*") && is_registry(name) && is_host(name)
}

/// With the registry and the directory that a short name leaves out.
fn whole(name: &str) -> String {
    match name.split_once('/') {
        Some((HUB, rest)) if !rest.is_empty() && !rest.contains('/') => format!("{HUB}/library/{rest}"),
        Some((first, _)) if is_registry(first) => name.to_owned(),
        Some(_) => format!("{HUB}/{name}"),
        None => format!("{HUB}/library/{name}"),
    }
}

fn checked(text: &str, is: fn(&str) -> bool, error: fn(String) -> ImageError) -> Result<String, ImageError> {
    if is(text) { Ok(text.to_owned()) } else { Err(error(text.chars().take(LONGEST_TAG).collect())) }
}

fn is_name(name: &str) -> bool {
    match name.split_once('/') {
        Some((first, path)) if is_registry(first) => is_host(first) && path.split('/').all(is_component),
        Some(_) | None => name.split('/').all(is_component),
    }
}

/// Whether the first part of a name is a registry, not a directory of Docker's own.
fn is_registry(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_host(first: &str) -> bool {
    let (host, port) = match first.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (first, None),
    };
    let is_address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match is_address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.split('.').all(|label| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            !label.is_empty() && label.bytes().all(plain) && !label.starts_with('-') && !label.ends_with('-')
        }),
    };
    is_host && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Runs of `a-z0-9`, with `.`, `_`, `__` or any number of `-` between two of them.
fn is_component(component: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut separators = component.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let ends = [component.bytes().next(), component.bytes().next_back()];
    ends.iter().all(|end| end.is_some_and(plain))
        && separators.all(|between| {
            matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=LONGEST_TAG).contains(&tag.len())
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || b".-".contains(&byte))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !algorithm.is_empty()
        && algorithm.bytes().all(plain)
        && (32..=128).contains(&hex.len())
        && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn references_are_kept_as_written() {
        for text in [
            "nginx",
            "nginx:1.27-alpine",
            "acme/web_app:V1",
            "ghcr.io/acme/a/b__c/d--e.f:latest",
            "localhost/web",
            "registry:5000/web:1",
            "192.0.2.1:5000/web",
            "[2001:db8::1]:5000/web:1",
            "Registry.example.com/web",
        ] {
            assert_eq!(Image::parse(text).map(|image| image.to_string()), Ok(text.to_owned()));
            let pinned = format!("{text}@{DIGEST}");
            let image = Image::parse(&pinned).unwrap();
            assert_eq!((image.to_string(), image.digest()), (pinned, Some(DIGEST)));
        }
    }

    #[test]
    fn what_is_none_says_what_of_it() {
        let (long, id) = ("a".repeat(256), "0f".repeat(32));
        for (text, error) in [
            ("", ImageError::Empty),
            (":1", ImageError::Empty),
            (long.as_str(), ImageError::TooLong(256)),
            (id.as_str(), ImageError::Id),
            (DIGEST, ImageError::Id),
            ("Nginx", ImageError::Name("Nginx".into())),
            ("a//b", ImageError::Name("a//b".into())),
            ("-a", ImageError::Name("-a".into())),
            ("a_-b", ImageError::Name("a_-b".into())),
            ("a___b", ImageError::Name("a___b".into())),
            ("http://a", ImageError::Name("http://a".into())),
            ("../a", ImageError::Name("../a".into())),
            ("a b", ImageError::Name("a b".into())),
            ("a?x=1", ImageError::Name("a?x=1".into())),
            ("a:", ImageError::Tag(String::new())),
            ("a:.1", ImageError::Tag(".1".into())),
            ("a:b\n", ImageError::Tag("b\n".into())),
            ("a@sha256:0f", ImageError::Digest("sha256:0f".into())),
            ("a@b@c", ImageError::Digest("b@c".into())),
        ] {
            assert_eq!(Image::parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn what_moves_is_looked_for_and_pinned() {
        for (text, moving) in [
            ("nginx", Some("nginx:latest")),
            ("nginx:1", Some("nginx:1")),
            (&format!("nginx:1@{DIGEST}"), Some("nginx:1")),
            (&format!("nginx@{DIGEST}"), None),
        ] {
            let found = Image::parse(text).unwrap().moving();
            assert_eq!(found.as_ref().map(ToString::to_string).as_deref(), moving, "{text}");
            if let Some(found) = found {
                assert_eq!(found.pinned(DIGEST).unwrap().to_string(), format!("{found}@{DIGEST}"));
                assert_eq!(found.pinned("latest"), None);
            }
        }
    }

    #[test]
    fn lists_of_images() {
        for (pattern, image, is) in [
            ("ghcr.io/acme/*", "ghcr.io/acme/web:1", true),
            ("ghcr.io/acme/*", "ghcr.io/acme/a/b", true),
            ("ghcr.io/acme/*", "ghcr.io/acme-evil/web", false),
            ("ghcr.io/*", "ghcr.io/acme/web", true),
            ("ghcr.io/*", "ghcr.io.evil.example/web", false),
            ("nginx", "docker.io/library/nginx:1", true),
            ("docker.io/nginx", "nginx", true),
            ("acme/*", "docker.io/acme/web", true),
            ("acme/*", "ghcr.io/acme/web", false),
            ("nginx", "nginx-evil", false),
            ("*", "anything/at:all", true),
            ("docker.io/*", "acme/web", true),
            ("registry:5000/*", "registry:5000/web", true),
        ] {
            assert!(is_pattern(pattern), "{pattern}");
            assert_eq!(Image::parse(image).unwrap().is_among(&[pattern.to_owned()]), is, "{pattern} {image}");
        }
        assert!(Image::parse("nginx").unwrap().is_among(&[]), "no list");
        for odd in ["", "/*", "acme*", "acme/web:1", "a b", "**", "*/web", "https://ghcr.io/*"] {
            assert!(!is_pattern(odd), "{odd}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_is_read_is_written(text in "\\PC{0,60}") {
            let _ = is_pattern(&text);
            if let Ok(image) = Image::parse(&text) {
                prop_assert_eq!(Image::parse(&image.to_string()), Ok(image));
            }
        }
    }
}
