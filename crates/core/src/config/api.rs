//! `[api]`: who may ask and command the gate over HTTP.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;

use super::problem::Fault;
use super::reader::Section;
use super::value;
use crate::name::HostPattern;
use crate::throttle::Rate;

/// `[api]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// Who may. Without tokens nobody may, but over the control socket.
    pub tokens_file: Option<PathBuf>,
    /// One that may operate, beside those of the file.
    pub token: Option<Token>,
    /// The same in a file of its own.
    pub token_file: Option<PathBuf>,
    /// Whether the metrics need a token, too.
    pub metrics_need_token: bool,
    /// Whose word is believed about whom they speak for.
    pub trusted_proxies: Vec<IpNet>,
    /// Further names of the API on the machine's own address, for those pages that need no token.
    pub hosts: Vec<HostPattern>,
    /// Requests per source.
    pub rate: Rate,
    /// Requests per source with a token that is none.
    pub failures: Rate,
}

/// What a token is good for. Whoever may operate may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Read,
    Operate,
}

impl Scope {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }
}

/// A secret and what it is good for. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Whom the log names.
    pub name: String,
    pub scope: Scope,
    pub secret: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ***", self.name, self.scope.word())
    }
}

impl Default for Api {
    /// A web page that asks every second must not notice; a guesser must.
    fn default() -> Self {
        Self {
            tokens_file: None,
            token: None,
            token_file: None,
            metrics_need_token: false,
            trusted_proxies: Vec::new(),
            hosts: Vec::new(),
            rate: Rate { burst: 200, every: Duration::from_millis(50) },
            failures: Rate { burst: 10, every: Duration::from_secs(10) },
        }
    }
}

impl Api {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let base = Self::default();
        let token = section.text("token", |text| Token::alone("api.token", text));
        if let Some((_, Some(weak))) = &token {
            section.warning("token", weak.clone());
        }
        let api = Self {
            tokens_file: section.path("tokens_file"),
            token: token.map(|(token, _)| token),
            token_file: section.path("token_file"),
            metrics_need_token: section.boolean("metrics_need_token").unwrap_or(base.metrics_need_token),
            trusted_proxies: section.list("trusted_proxies", value::network).unwrap_or_default(),
            hosts: section.list("hosts", value::host_pattern).unwrap_or_default(),
            rate: section.rate("rate", "burst", base.rate),
            failures: section.rate("failure_rate", "failure_burst", base.failures),
        };
        if let Some(all) = api.trusted_proxies.iter().find(|network| network.prefix_len() == 0) {
            let what = format!("{all} is everybody, so anyone can claim to be any client");
            section
                .warning("trusted_proxies", Fault::new(what, "list the proxies in front of the gate only"));
        }
        if api.metrics_need_token && !api.has_tokens() {
            let fix = "write tokens_file = \"...\" with a file of tokens";
            section.warning("metrics_need_token", Fault::new("there is no token, so nobody gets them", fix));
        }
        section.finish();
        api
    }

    /// Whether anybody may ask anything over TCP, as far as the configuration says.
    pub fn has_tokens(&self) -> bool {
        self.token.is_some() || self.token_file.is_some() || self.tokens_file.is_some()
    }

    /// With every path relative to `directory`.
    pub(super) fn beside(&mut self, directory: &Path) {
        for file in [&mut self.tokens_file, &mut self.token_file] {
            *file = file.take().map(|path| directory.join(path));
        }
    }
}

impl Token {
    /// As many characters as make guessing hopeless.
    const SHORTEST: usize = 24;
    /// Of one that has come along from elsewhere.
    const SHORTEST_ALONE: usize = 8;
    const LONGEST: usize = 512;
    const MOST: usize = 1000;
    const MAKE_ONE: &'static str = "`openssl rand -hex 32` makes a good one";

    /// One that may operate and stands for itself, as swarmctl's did: it need not be as good as those of a file are, and
    /// why it is not is said.
    ///
    /// # Errors
    /// What is wrong with it, without the token.
    pub fn alone(name: &str, secret: &str) -> Result<(Self, Option<Fault>), Fault> {
        let secret = secret.trim();
        let weak = match Self::new(name, Scope::Operate, secret) {
            Ok(token) => return Ok((token, None)),
            Err(weak) => weak,
        };
        let could_be_sent = secret.bytes().all(|byte| byte.is_ascii_graphic());
        if secret.len() < Self::SHORTEST_ALONE || secret.len() > Self::LONGEST || !could_be_sent {
            return Err(weak);
        }
        let weak = Fault { what: format!("{}, and can be guessed sooner or later", weak.what), ..weak };
        Ok((Self { name: name.to_owned(), scope: Scope::Operate, secret: secret.to_owned() }, Some(weak)))
    }

    /// A fault does not repeat the secret.
    fn new(name: &str, scope: Scope, secret: &str) -> Result<Self, Fault> {
        if secret.len() < Self::SHORTEST {
            let what = format!("the token has fewer than {} characters", Self::SHORTEST);
            return Err(Fault::new(what, Self::MAKE_ONE));
        }
        if secret.len() > Self::LONGEST {
            let what = format!("the token has more than {} characters", Self::LONGEST);
            return Err(Fault::new(what, Self::MAKE_ONE));
        }
        // Those that a header of HTTP may carry as a token (RFC 6750).
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if !secret.bytes().all(fits) {
            return Err(Fault::new(
                "the token has other characters than letters, digits and -._~+/=",
                Self::MAKE_ONE,
            ));
        }
        Ok(Self { name: name.to_owned(), scope, secret: secret.to_owned() })
    }

    /// All of a file's lines, each `NAME SCOPE TOKEN`; empty ones and those that begin with `#` are left out.
    ///
    /// # Errors
    /// The number of the first line that is wrong, counted from 1, and what is wrong with it, without any token.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, (usize, Fault)> {
        let mut tokens: Vec<Self> = Vec::new();
        let lines = text.lines().map(str::trim).enumerate();
        for (index, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let token = Self::parse_line(line).and_then(|token| token.beside(&tokens));
            tokens.push(token.map_err(|fault| (index + 1, fault))?);
        }
        Ok(tokens)
    }

    fn parse_line(line: &str) -> Result<Self, Fault> {
        const FIX: &str = "write it as NAME SCOPE TOKEN, such as `grafana read 5f3c…`";
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, scope, secret] = words.as_slice() else {
            return Err(Fault::new(format!("it has {} words, not three", words.len()), FIX));
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        if name.len() > 64 || !name.chars().all(fits) {
            let fix = "write a short name of letters, digits, -, _, . and @ first";
            return Err(Fault::new("it does not begin with a name", fix));
        }
        let scope = match *scope {
            "read" => Scope::Read,
            "operate" => Scope::Operate,
            // It may be the token, in the wrong place.
            _ => return Err(Fault::new("its second word is no scope", "write read or operate there")),
        };
        Self::new(name, scope, secret)
    }

    fn beside(self, others: &[Self]) -> Result<Self, Fault> {
        if others.len() >= Self::MOST {
            return Err(Fault::new(format!("there are more than {} tokens", Self::MOST), "remove some"));
        }
        if others.iter().any(|other| other.name == self.name) {
            let what = format!("the name {} is there twice", self.name);
            return Err(Fault::new(what, "give each token a name of its own"));
        }
        match others.iter().find(|other| other.secret == self.secret) {
            Some(other) => {
                let what = format!("{} has the same token as {}", self.name, other.name);
                Err(Fault::new(what, "give each a token of its own"))
            }
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "0123456789abcdef01234567";

    #[test]
    fn a_file_of_tokens() {
        let file = format!("# who may\n\n  grafana read {GOOD}\nann@home\toperate  {GOOD}-._~+/=\n");
        let tokens = Token::parse_lines(&file).unwrap();
        assert_eq!(format!("{tokens:?}"), "[grafana read ***, ann@home operate ***]");
        assert_eq!(tokens[1].secret, format!("{GOOD}-._~+/="));
        assert_eq!(Token::parse_lines("\n# nobody\n").unwrap(), []);
    }

    #[test]
    fn one_that_comes_along_may_be_weak_and_that_is_said() {
        let long = "x".repeat(513);
        for (secret, weak, taken) in [
            (GOOD, None, true),
            ("changeme", Some("fewer than 24 characters"), true),
            ("  pa$$word!  ", Some("fewer than 24 characters"), true),
            ("0123456789abcdef0123456!", Some("other characters"), true),
            ("changem", Some("fewer than 24 characters"), false),
            ("change me now", Some("fewer than 24 characters"), false),
            ("0123456789abcdef01234567\u{e4}", Some("other characters"), false),
            (&long, Some("more than 512"), false),
        ] {
            let (token, said) = match Token::alone("me", secret) {
                Ok((token, fault)) => (Some(token), fault),
                Err(fault) => (None, Some(fault)),
            };
            assert_eq!(token.map(|token| token.secret), taken.then(|| secret.trim().to_owned()), "{secret}");
            let said = said.map(|fault| format!("{}; {}", fault.what, fault.fix));
            assert_eq!(said.is_some(), weak.is_some(), "{secret}: {said:?}");
            let said = said.unwrap_or_default();
            assert!(
                said.contains(weak.unwrap_or_default()) && !said.contains(secret.trim()),
                "{secret}: {said}"
            );
        }
    }

    #[test]
    fn a_bad_line_is_named_and_its_token_is_not() {
        let long = "x".repeat(513);
        for (line, what) in [
            (GOOD.to_owned(), "it has 1 words, not three"),
            (format!("a {GOOD}"), "it has 2 words, not three"),
            (format!("a read {GOOD} b"), "it has 4 words, not three"),
            (format!("a {GOOD} read"), "its second word is no scope"),
            (format!("a Read {GOOD}"), "its second word is no scope"),
            (format!("{GOOD}{GOOD}{GOOD} read {GOOD}"), "it does not begin with a name"),
            (format!("ä read {GOOD}"), "it does not begin with a name"),
            ("a read 0123456789abcdef0123456".to_owned(), "the token has fewer than 24 characters"),
            (format!("a read {long}"), "the token has more than 512 characters"),
            (
                format!("a read {GOOD}\u{e4}"),
                "the token has other characters than letters, digits and -._~+/=",
            ),
            (format!("first read {GOOD}1"), "the name first is there twice"),
            (format!("second read {GOOD}0"), "second has the same token as first"),
        ] {
            let (number, fault) =
                Token::parse_lines(&format!("# x\nfirst read {GOOD}0\n{line}\n")).unwrap_err();
            assert_eq!((number, fault.what.as_str()), (3, what));
            let told = format!("{} {}", fault.what, fault.fix);
            assert!(!told.contains("0123456789") && !told.contains("xxx"), "{told}");
        }
    }
}
