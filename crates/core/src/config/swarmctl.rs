//! The environment variables of swarmctl, those of its first versions and those of its last, as settings of the gate.
//!
//! Most of their names are anybody's, so they count only beside `CLOUDFLARE_TUNNEL_ID`, without which no swarmctl has
//! ever started.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::overrides::Override;
use super::problem::{Fault, Place, Problem};
use super::value::nearest;

/// Beside this one the others count.
const ENTRY: &str = "CLOUDFLARE_TUNNEL_ID";
const ITS_OWN: &str = "CLOUDFLARE_";
const FILE: &str = "_FILE";

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Variable {
    pub name: &'static str,
    /// The key that it sets.
    pub key: &'static str,
    /// The key for the path of a file with it, where there is one: the file is then read again whenever it is needed.
    file_key: Option<&'static str>,
    reading: Reading,
    about: &'static str,
}

/// How a value becomes one of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    AsIs,
    Minutes,
    /// `true` in any case; anything else is no.
    OnlyTrue,
    /// Two variables make one address.
    PushoverToken,
    PushoverUser,
}

const fn plain(name: &'static str, key: &'static str, about: &'static str) -> Variable {
    Variable { name, key, file_key: None, reading: Reading::AsIs, about }
}

/// The newer of two for one key comes later.
pub const VARIABLES: &[Variable] = &[
    plain(ENTRY, "cloudflare.tunnel", ""),
    plain("CLOUDFLARE_ACCOUNT_ID", "cloudflare.account", ""),
    Variable {
        file_key: Some("api.token_file"),
        ..plain(
            "AUTH_TOKEN",
            "api.token",
            "May operate. With fewer than 24 characters it is warned about, with fewer than 8 refused.",
        )
    },
    Variable {
        file_key: Some("cloudflare.key_file"),
        ..plain(
            "CLOUDFLARE_API_KEY",
            "cloudflare.key",
            "The global key of first versions; not used beside a token.",
        )
    },
    plain("CLOUDFLARE_API_EMAIL", "cloudflare.email", "Not used beside a token."),
    Variable {
        file_key: Some("cloudflare.token_file"),
        ..plain("CLOUDFLARE_API_TOKEN", "cloudflare.token", "")
    },
    Variable {
        reading: Reading::PushoverToken,
        ..plain("PUSHOVER_API_KEY", "notify.urls", "Both together are `pushover://KEY@RECIPIENT`.")
    },
    Variable { reading: Reading::PushoverUser, ..plain("PUSHOVER_RECIPIENT", "notify.urls", "") },
    plain("NOTIFICATION_URLS", "notify.urls", "Beside Pushover's two, not instead of them."),
    plain(
        "LOG_WEBHOOK_URL",
        "notify.log_urls",
        "Named so in swarmctl's own example, which it did not read itself.",
    ),
    plain("WEBHOOK_URL", "notify.log_urls", "A webhook of Discord, for warnings and errors of the log."),
    plain("ENVIROMENT", "log.environment", "Written so in first versions."),
    plain("ENVIRONMENT", "log.environment", ""),
    Variable {
        reading: Reading::Minutes,
        ..plain(
            "SERVICE_REMOVAL_DELAY_MINUTES",
            "cloudflare.grace",
            "What is no number is an error; swarmctl took it for 30.",
        )
    },
    Variable {
        reading: Reading::OnlyTrue,
        ..plain("DELETE_DNS_ON_REMOVAL", "cloudflare.delete_dns_on_removal", "Only `true` is yes.")
    },
];

/// A variable's value.
#[derive(Clone, PartialEq, Eq)]
pub enum Given {
    Text(String),
    /// What a file holds, without the white space around it.
    File(PathBuf, String),
    /// Why the file cannot be read.
    Unreadable(PathBuf, String),
}

/// What they say, in the configuration's words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Read {
    /// The last of several for one key counts.
    pub overrides: Vec<Override>,
    /// Which variable set what.
    pub notes: Vec<String>,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

/// Whether a variable is for this page, and whether its value is the path of a file. As in swarmctl, so is every value that
/// begins with `/`: none of them does otherwise.
pub fn is_file(name: &str, value: &str) -> bool {
    name.ends_with(FILE) || value.starts_with('/')
}

/// Whether one of them may be meant.
pub fn may_be(name: &str) -> bool {
    name.starts_with(ITS_OWN) || known(name).is_some()
}

fn known(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| {
        variable.name == name || name.strip_suffix(FILE).is_some_and(|name| name == variable.name)
    })
}

/// Reads those that are set; an empty one counts as not set.
pub fn read(given: &BTreeMap<String, Given>) -> Read {
    let mut read = Read::default();
    if !given.keys().any(|name| known(name).is_some_and(|variable| variable.name == ENTRY)) {
        return read;
    }
    let has = |wanted: &str| given.keys().any(|name| known(name).is_some_and(|known| known.name == wanted));
    let has_token = has("CLOUDFLARE_API_TOKEN");
    let mut urls = Urls::default();
    for variable in VARIABLES {
        for (name, value) in
            given.iter().filter(|(name, _)| known(name).is_some_and(|known| known.name == variable.name))
        {
            if has_token && matches!(variable.key, "cloudflare.key" | "cloudflare.email") {
                read.note(format!("{name} is not used beside the token"));
                continue;
            }
            read.one(variable, name, value, &mut urls);
        }
    }
    urls.finish(&mut read);
    for name in given.keys().filter(|name| known(name).is_none()) {
        // What all of them begin with makes none of them alike.
        let rest = |name: &'static str| name.strip_prefix(ITS_OWN);
        let known = VARIABLES.iter().filter_map(|variable| rest(variable.name));
        let fix = match nearest(name.trim_start_matches(ITS_OWN), known) {
            Some(near) => format!("did you mean {ITS_OWN}{near}?"),
            None => "it changes nothing".to_owned(),
        };
        read.warnings.push(problem(name, Fault::new("is no variable of swarmctl's", fix)));
    }
    read
}

impl Read {
    fn one(&mut self, variable: &Variable, name: &str, value: &Given, urls: &mut Urls) {
        let text = match value {
            Given::Unreadable(path, why) => {
                return self.problems.push(problem(name, unreadable(name, path, why)));
            }
            Given::File(path, _) if variable.file_key.is_some() => {
                let key = variable.file_key.unwrap_or(variable.key);
                return self.set(name, key, &path.display().to_string(), false);
            }
            Given::File(_, text) | Given::Text(text) => text.trim(),
        };
        match variable.reading {
            Reading::AsIs if variable.key == "notify.urls" => urls.add(name, text),
            Reading::PushoverToken => urls.token = Some((name.to_owned(), text.to_owned())),
            Reading::PushoverUser => urls.user = Some((name.to_owned(), text.to_owned())),
            Reading::AsIs => self.set(name, variable.key, text, false),
            Reading::Minutes => match text.parse::<u32>() {
                Ok(minutes) => self.set(name, variable.key, &format!("{minutes}m"), false),
                Err(_) => {
                    let what = format!("{text:?} is not a number of minutes");
                    self.problems.push(problem(name, Fault::new(what, "write a whole number, such as 30")));
                }
            },
            Reading::OnlyTrue => {
                let is_true = text.eq_ignore_ascii_case("true");
                if !is_true && !text.eq_ignore_ascii_case("false") {
                    let what = format!("{text:?} counts as false, as it did in swarmctl");
                    self.warnings.push(problem(name, Fault::new(what, "write true or false")));
                }
                self.set(name, variable.key, &is_true.to_string(), true);
            }
        }
    }

    fn set(&mut self, name: &str, key: &str, value: &str, raw: bool) {
        self.note(format!("{name} sets {key}"));
        self.overrides.push(Override::from_other(name, key, value, raw));
    }

    fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

/// Of several variables one list.
#[derive(Default)]
struct Urls {
    list: Vec<(String, String)>,
    token: Option<(String, String)>,
    user: Option<(String, String)>,
}

impl Urls {
    fn add(&mut self, name: &str, urls: &str) {
        self.list.push((name.to_owned(), urls.to_owned()));
    }

    fn finish(mut self, read: &mut Read) {
        match (self.token.take(), self.user.take()) {
            (Some((name, token)), Some((user_name, user))) => {
                if let Some((name, _)) =
                    [(&name, &token), (&user_name, &user)].into_iter().find(|(_, part)| {
                        part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_alphanumeric())
                    })
                {
                    let fix = "write it as Pushover shows it, letters and digits only";
                    return read.problems.push(problem(name, Fault::new("is none of Pushover's keys", fix)));
                }
                self.add(&format!("{name} and {user_name}"), &format!("pushover://{token}@{user}"));
            }
            (Some((name, _)), None) => {
                let fix = "set PUSHOVER_RECIPIENT, too, or neither";
                read.problems.push(problem(&name, Fault::new("says not whom to tell", fix)));
            }
            (None, Some((name, _))) => {
                let fix = "set PUSHOVER_API_KEY, too, or neither";
                read.problems.push(problem(&name, Fault::new("says not with which key", fix)));
            }
            (None, None) => {}
        }
        let Some((last, _)) = self.list.last() else { return };
        let all: Vec<&str> = self.list.iter().map(|(_, urls)| urls.as_str()).collect();
        for (name, _) in &self.list {
            read.notes.push(format!("{name} sets notify.urls"));
        }
        read.overrides.push(Override::from_other(last, "notify.urls", &all.join("\n"), false));
    }
}

/// A value that begins with `/` may be a secret after all.
fn unreadable(name: &str, path: &Path, why: &str) -> Fault {
    if name.ends_with(FILE) {
        let what = format!("cannot read {}: {why}", path.display());
        return Fault::new(what, "write the path of a file that is there");
    }
    let what = format!("its value begins with / and so is the path of a file, which cannot be read: {why}");
    Fault::new(what, "put the value into a file, and write the path of that")
}

fn problem(name: &str, fault: Fault) -> Problem {
    Place::Override(name.to_owned()).problem("", "", fault)
}

/// The table of the page for people who come from swarmctl, Markdown.
pub fn reference() -> String {
    let mut table = "| swarmctl | here | |\n|---|---|---|\n".to_owned();
    for Variable { name, key, about, .. } in VARIABLES {
        let _ = writeln!(table, "| `{name}` | `{key}` | {about} |");
    }
    table
}

/// For values of variables whose name ends so, or that begin with `/`.
pub fn from_file(path: &Path, contents: std::io::Result<String>) -> Given {
    match contents {
        Ok(text) => Given::File(path.to_owned(), text.trim().to_owned()),
        Err(error) => Given::Unreadable(path.to_owned(), error.to_string()),
    }
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Checked, Credential, Scope, Secret, keys, parse};

    const TUNNEL: (&str, &str) = (ENTRY, "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415");
    const ACCOUNT: (&str, &str) = ("CLOUDFLARE_ACCOUNT_ID", "0da42c8d2132a9ddaf714f9e7c920711");
    const TOKEN: (&str, &str) = ("CLOUDFLARE_API_TOKEN", "t0ken");

    fn given(variables: &[(&str, &str)]) -> Read {
        let given = variables.iter().map(|(name, value)| {
            let path = PathBuf::from(value);
            let value = match *value {
                "/nowhere" => Given::Unreadable(path, "it is not there".into()),
                value if is_file(name, value) => Given::File(path, "contents".into()),
                value => Given::Text(value.to_owned()),
            };
            ((*name).to_owned(), value)
        });
        read(&given.collect())
    }

    fn configured(variables: &[(&str, &str)], file: &str) -> Checked {
        let read = given(variables);
        assert_eq!(read.problems, []);
        parse(file, &read.overrides).unwrap()
    }

    #[test]
    fn its_last_version_needs_nothing_else() {
        let Checked { config, warnings } = configured(
            &[
                TUNNEL,
                ACCOUNT,
                TOKEN,
                ("AUTH_TOKEN", "0123456789abcdef01234567"),
                ("ENVIRONMENT", "production"),
                ("NOTIFICATION_URLS", "ntfy://ntfy.sh/a, discord://t@1\npushover://a@b"),
                ("SERVICE_REMOVAL_DELAY_MINUTES", "45"),
                ("DELETE_DNS_ON_REMOVAL", "TRUE"),
            ],
            "[server.a]\naddress = \"a:1\"\nhosts = [\"a.example\"]\n[log]\nenvironment = \"test\"",
        );
        assert_eq!(warnings, []);
        let cloudflare = config.cloudflare.unwrap();
        assert_eq!((&*cloudflare.tunnel, &*cloudflare.account), (TUNNEL.1, ACCOUNT.1));
        assert_eq!(cloudflare.credential, Credential::Token(Secret::Text("t0ken".into())));
        assert_eq!(cloudflare.grace.as_secs(), 45 * 60);
        assert!(cloudflare.delete_dns);
        assert_eq!(config.notify.targets.len(), 3);
        assert_eq!(config.api.token.map(|token| token.scope), Some(Scope::Operate));
        assert_eq!(config.log.environment.as_deref(), Some("production"), "over the file");
    }

    #[test]
    fn its_first_version_is_understood_too() {
        let variables = [
            TUNNEL,
            ACCOUNT,
            ("CLOUDFLARE_API_KEY", "/run/secrets/key"),
            ("CLOUDFLARE_API_EMAIL", "ann@example.com"),
            ("PUSHOVER_API_KEY", "abc"),
            ("PUSHOVER_RECIPIENT", "def"),
            ("WEBHOOK_URL", "https://discord.com/api/webhooks/1/t"),
            ("ENVIROMENT", "staging"),
        ];
        let Checked { config, .. } = configured(&variables, "");
        let key = Secret::File("/run/secrets/key".into());
        let credential = Credential::Key { email: "ann@example.com".into(), key };
        assert_eq!(config.cloudflare.unwrap().credential, credential);
        assert_eq!((config.notify.targets.len(), config.notify.log.len()), (1, 1));
        assert_eq!(config.log.environment.as_deref(), Some("staging"));
        let with_token = [&variables[..], &[TOKEN, ("ENVIRONMENT", "production")]].concat();
        let Checked { config, .. } = configured(&with_token, "");
        assert!(
            matches!(config.cloudflare.unwrap().credential, Credential::Token(_)),
            "the token goes first"
        );
        assert_eq!(config.log.environment.as_deref(), Some("production"));
    }

    /// Nobody's players are kept out for it.
    #[test]
    fn a_short_password_is_taken_and_warned_about_and_a_file_is_read_when_it_is_needed() {
        let checked = configured(&[TUNNEL, ACCOUNT, TOKEN, ("AUTH_TOKEN", "pa$$word")], "");
        assert_eq!(checked.config.api.token.unwrap().secret, "pa$$word");
        let [warning] = checked.warnings.as_slice() else { panic!("{:?}", checked.warnings) };
        let warning = warning.to_string();
        let says = ["AUTH_TOKEN", "fewer than 24 characters", "openssl rand"];
        assert!(says.iter().all(|part| warning.contains(part)) && !warning.contains("pa$$"), "{warning}");
        for (name, value) in [("AUTH_TOKEN", "/run/secrets/t"), ("AUTH_TOKEN_FILE", "/run/secrets/t")] {
            let api = configured(&[TUNNEL, ACCOUNT, TOKEN, (name, value)], "").config.api;
            assert_eq!((api.token_file, api.token), (Some("/run/secrets/t".into()), None), "{name}");
        }
        let refused =
            parse("", &given(&[TUNNEL, ACCOUNT, TOKEN, ("AUTH_TOKEN", "short")]).overrides).unwrap_err();
        assert!(refused[0].to_string().starts_with("AUTH_TOKEN: "), "{refused:?}");
    }

    #[test]
    fn without_a_tunnel_none_of_them_counts() {
        let others = [ACCOUNT, TOKEN, ("ENVIRONMENT", "production"), ("CLOUDFLARE_ZONE_ID", "x")];
        assert_eq!(given(&others), Read::default());
    }

    #[test]
    fn files_with_secrets() {
        for (name, value) in [("CLOUDFLARE_API_TOKEN", "/run/secrets/t"), ("CLOUDFLARE_API_TOKEN_FILE", "t")]
        {
            let Checked { config, .. } = configured(&[TUNNEL, ACCOUNT, (name, value)], "");
            assert_eq!(config.cloudflare.unwrap().credential, Credential::Token(Secret::File(value.into())));
        }
        let Checked { config, .. } =
            configured(&[TUNNEL, ACCOUNT, TOKEN, ("ENVIRONMENT_FILE", "/etc/environment-name")], "");
        assert_eq!(config.log.environment.as_deref(), Some("contents"));
        // swarmctl took the path of a file that was not there for the secret.
        let read = given(&[TUNNEL, ("CLOUDFLARE_API_TOKEN_FILE", "/nowhere")]);
        assert_eq!(
            read.problems[0].to_string(),
            "CLOUDFLARE_API_TOKEN_FILE: cannot read /nowhere: it is not there; write the path of a file that is there"
        );
        for name in ["AUTH_TOKEN", "CLOUDFLARE_API_TOKEN", "PUSHOVER_API_KEY"] {
            let read = given(&[TUNNEL, (name, "/nowhere")]);
            let what = read.problems[0].to_string();
            let expected =
                format!("{name}: its value begins with / and so is the path of a file, which cannot be read");
            assert!(what.starts_with(&expected), "{what}");
            assert!(!format!("{what}{read:?}").contains("nowhere"), "{what}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_secrets() {
        for (name, value, what) in [
            ("SERVICE_REMOVAL_DELAY_MINUTES", "-5", "is not a number of minutes"),
            ("SERVICE_REMOVAL_DELAY_MINUTES", "soon", "is not a number of minutes"),
            ("PUSHOVER_API_KEY", "abc", "says not whom"),
            ("PUSHOVER_RECIPIENT", "abc", "says not with which key"),
        ] {
            let read = given(&[TUNNEL, (name, value)]);
            assert!(read.problems[0].to_string().contains(what), "{read:?}");
        }
        for (name, value, what) in [
            ("DELETE_DNS_ON_REMOVAL", "1", "counts as false"),
            ("CLOUDFLARE_API_TOKN", "x", "did you mean CLOUDFLARE_API_TOKEN?"),
            ("CLOUDFLARE_ZONE_ID", "x", "it changes nothing"),
        ] {
            let read = given(&[TUNNEL, (name, value)]);
            assert!(read.warnings[0].to_string().contains(what), "{read:?}");
        }
        let read = given(&[TUNNEL, TOKEN, ("PUSHOVER_API_KEY", "s3cret!"), ("PUSHOVER_RECIPIENT", "u")]);
        assert!(read.problems[0].key == "PUSHOVER_API_KEY");
        assert!(!format!("{read:?}").contains("s3cret") && !format!("{read:?}").contains(TOKEN.1));
    }

    #[test]
    fn our_own_names_have_the_last_word() {
        let mut overrides = given(&[TUNNEL, ACCOUNT, TOKEN, ("ENVIRONMENT", "theirs")]).overrides;
        overrides.extend(Override::from_variable("SWARMGATE_LOG_ENVIRONMENT", "ours"));
        let config = parse("", &overrides).unwrap().config;
        assert_eq!(config.log.environment.as_deref(), Some("ours"));
    }

    #[test]
    fn each_sets_a_key_that_there_is() {
        for variable in VARIABLES {
            for key in std::iter::once(variable.key).chain(variable.file_key) {
                assert!(keys::documented(key), "{key}");
            }
        }
    }
}
