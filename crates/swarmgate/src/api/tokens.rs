//! The tokens of the API: kept as digests, compared in constant time, read again when their file changes.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use swarmgate_core::config::{self, Config, Fault, Scope, Token};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::errors::chain;

/// A file of tokens that is longer than this is something else.
const LONGEST_FILE: u64 = 1024 * 1024;
/// Where an orchestrator puts secrets: for all to read, in a container of their own.
const SECRETS: &str = "/run/secrets";
/// The keys of the files.
const MANY: &str = "api.tokens_file";
const ALONE: &str = "api.token_file";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tokens(Vec<Known>);

/// A token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub name: Arc<str>,
    pub scope: Scope,
    digest: [u8; 32],
    /// What makes it easier to guess than it should be.
    weak: Option<String>,
}

/// What is wrong with the file, without any token.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    #[error("{key}: cannot read {path}")]
    Unreadable { key: &'static str, path: String, source: io::Error },
    #[error("{key}: {path} is longer than {LONGEST_FILE} bytes")]
    TooLong { key: &'static str, path: String },
    #[error("{ALONE}: {path}: {what}; {fix}")]
    BadAlone { path: String, what: String, fix: String },
    #[error("api.tokens_file: line {line} of {path}: {what}; {fix}")]
    Bad { path: String, line: usize, what: String, fix: String },
}

impl Tokens {
    /// Those of the configuration and of its files.
    ///
    /// # Errors
    /// When a file cannot be read, or a line of it is no token.
    pub fn load(api: &config::Api) -> Result<Self, TokensError> {
        let mut known: Vec<Known> = api.token.iter().map(Known::of).collect();
        if let Some(file) = &api.token_file {
            known.push(read_alone(file)?);
        }
        if let Some(file) = &api.tokens_file {
            known.extend(read_many(file)?.iter().map(Known::of));
        }
        Ok(Self(known))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose it is and what it is good for. It takes as long whichever it is, and if it is none.
    pub fn find(&self, secret: &str) -> Option<&Known> {
        let digest = digest(secret);
        let (mut found, mut index) = (Choice::from(0), 0);
        for (at, known) in (0_u32..).zip(&self.0) {
            let same = known.digest.ct_eq(&digest);
            index.conditional_assign(&at, same);
            found |= same;
        }
        self.0.get(usize::try_from(index).ok()?).filter(|_| found.into())
    }

    /// Whether this one is still good for what it was.
    pub fn has(&self, known: &Known) -> bool {
        self.0.contains(known)
    }
}

impl Known {
    fn of(token: &Token) -> Self {
        let digest = digest(&token.secret);
        Self { name: token.name.as_str().into(), scope: token.scope, digest, weak: None }
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn read(key: &'static str, file: &Path) -> Result<String, TokensError> {
    let path = file.display().to_string();
    let mut text = String::new();
    let opened = std::fs::File::open(file);
    let read = opened.and_then(|file| file.take(LONGEST_FILE + 1).read_to_string(&mut text));
    match read.map(u64::try_from) {
        Ok(Ok(length)) if length <= LONGEST_FILE => Ok(text),
        Ok(_) => Err(TokensError::TooLong { key, path }),
        Err(source) => Err(TokensError::Unreadable { key, path, source }),
    }
}

fn read_alone(file: &Path) -> Result<Known, TokensError> {
    let text = read(ALONE, file)?;
    let (token, weak) = Token::alone(ALONE, &text).map_err(|Fault { what, fix }| TokensError::BadAlone {
        path: file.display().to_string(),
        what,
        fix,
    })?;
    Ok(Known { weak: weak.map(|Fault { what, fix }| format!("{what}; {fix}")), ..Known::of(&token) })
}

fn read_many(file: &Path) -> Result<Vec<Token>, TokensError> {
    let text = read(MANY, file)?;
    let path = file.display().to_string();
    Token::parse_lines(&text).map_err(|(line, Fault { what, fix })| TokensError::Bad {
        path,
        line,
        what,
        fix,
    })
}

/// Warns of files that everybody on the machine may read, and of a token in one that is easy to guess.
pub fn warn(api: &config::Api, tokens: &Tokens) {
    const OTHERS_READ: u32 = 0o004;
    for (key, file) in [(MANY, &api.tokens_file), (ALONE, &api.token_file)] {
        let Some(file) = file else { continue };
        let readable = std::fs::metadata(file).is_ok_and(|file| file.mode() & OTHERS_READ != 0);
        if readable && !file.starts_with(SECRETS) {
            tracing::warn!(
                "{key}: everybody on this machine may read {path}; `chmod o-r {path}` keeps it from them",
                path = file.display()
            );
        }
    }
    for weak in tokens.0.iter().filter_map(|known| known.weak.as_ref()) {
        tracing::warn!("{ALONE}: {weak}");
    }
}

/// Publishes the tokens anew when their file changes, when another is named, and on SIGHUP. A bad file changes
/// nothing.
pub async fn watch(
    mut configs: watch::Receiver<Arc<Config>>,
    tokens: watch::Sender<Arc<Tokens>>,
    stop: CancellationToken,
) -> io::Result<()> {
    const LOOK_EVERY: Duration = Duration::from_secs(1);
    let mut hangup = signal(SignalKind::hangup())?;
    let mut told = None;
    loop {
        let asked = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = hangup.recv() => true,
            changed = configs.changed() => if changed.is_err() { return Ok(()) } else { false },
            () = tokio::time::sleep(LOOK_EVERY) => false,
        };
        let api = configs.borrow_and_update().api.clone();
        match tokio::task::block_in_place(|| Tokens::load(&api)) {
            Ok(new) => {
                told = None;
                let count = new.0.len();
                let changed = tokens.send_if_modified(|current| {
                    let changed = **current != new;
                    if changed {
                        *current = Arc::new(new);
                    }
                    changed
                });
                if changed {
                    tracing::info!(tokens = count, "the tokens of the API were read");
                    warn(&api, &tokens.borrow());
                }
            }
            Err(error) => {
                let what = chain(&error);
                if asked || told.as_ref() != Some(&what) {
                    tracing::error!(error = what, "the tokens of the API were not read; those before stay");
                    told = Some(what);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef01234567";

    fn tokens(lines: &[&str]) -> Tokens {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        Tokens(Token::parse_lines(&text).unwrap().iter().map(Known::of).collect())
    }

    #[test]
    fn each_token_is_found_and_no_other() {
        let tokens = tokens(&[
            &format!("a read {SECRET}1"),
            &format!("b operate {SECRET}2"),
            &format!("c read {SECRET}3"),
        ]);
        let found = |secret: &str| tokens.find(secret).map(|known| (known.name.to_string(), known.scope));
        assert_eq!(found(&format!("{SECRET}1")), Some(("a".to_owned(), Scope::Read)));
        assert_eq!(found(&format!("{SECRET}2")), Some(("b".to_owned(), Scope::Operate)));
        assert_eq!(found(&format!("{SECRET}3")), Some(("c".to_owned(), Scope::Read)));
        for other in ["", SECRET, "0123456789abcdef012345671x"] {
            assert_eq!(found(other), None, "{other}");
        }
        assert_eq!(Tokens::default().find(SECRET), None);
        assert!(!format!("{tokens:?}").contains(SECRET));
    }

    #[test]
    fn a_file_of_one_token_holds_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let api = config::Api { token_file: Some(file.clone()), ..config::Api::default() };
        assert!(chain(&Tokens::load(&api).unwrap_err()).starts_with("api.token_file: cannot read"));
        for (text, weak) in [(format!("{SECRET}\n"), false), ("changeme".to_owned(), true)] {
            std::fs::write(&file, &text).unwrap();
            let tokens = Tokens::load(&api).unwrap();
            let known = tokens.find(text.trim()).unwrap();
            assert_eq!((known.scope, known.weak.is_some()), (Scope::Operate, weak), "{text}");
            assert!(!format!("{tokens:?}").contains(text.trim()));
        }
        std::fs::write(&file, "short\n").unwrap();
        let bad = chain(&Tokens::load(&api).unwrap_err());
        assert!(bad.contains("fewer than 24 characters; `openssl") && !bad.contains("short"), "{bad}");
    }

    #[test]
    fn a_bad_file_is_named_with_its_line_and_without_its_tokens() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tokens");
        let api = config::Api { tokens_file: Some(file.clone()), ..config::Api::default() };
        let said = || chain(&Tokens::load(&api).unwrap_err());
        assert!(said().contains("cannot read"));
        std::fs::write(&file, format!("# mine\nann {SECRET}\n")).unwrap();
        let bad = said();
        assert!(bad.contains("line 2") && bad.contains("2 words"), "{bad}");
        assert!(!bad.contains(SECRET), "{bad}");
        std::fs::write(&file, vec![b'#'; 1024 * 1024 + 1]).unwrap();
        assert!(said().contains("longer"));
        std::fs::write(&file, format!("ann read {SECRET}\n")).unwrap();
        assert_eq!(Tokens::load(&api).unwrap().0.len(), 1);
    }
}
