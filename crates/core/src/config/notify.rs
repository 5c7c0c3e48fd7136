//! Whom to tell of troubles: addresses of messengers, as one URL each.

use std::fmt;
use std::path::PathBuf;

use url::Url;

use super::problem::Fault;
use super::reader::Section;

/// `[notify]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notify {
    /// Who is told of troubles.
    pub targets: Vec<Target>,
    /// A file with more of them, one a line.
    pub targets_file: Option<PathBuf>,
    /// Who gets the log's warnings and errors.
    pub log: Vec<Target>,
    pub services: Watched,
    /// How many of the last lines of a server that crashed are told.
    pub lines: usize,
    /// Whether it is told that a server that was woken is ready.
    pub ready: bool,
}

/// Whose troubles are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Watched {
    /// All services of the Swarm, and everything else with labels.
    #[default]
    All,
    /// Those with labels for the gate.
    Labelled,
}

/// One messenger and the address there. It is a secret: shown and logged is only which messenger it is.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Where to post.
    pub url: Url,
    pub messenger: Messenger,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Messenger {
    Pushover { token: String, user: String, devices: Option<String> },
    Discord,
    Ntfy { topic: String, login: Option<Login> },
    Slack,
    Webhook(Format),
}

#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    Token(String),
    Password { user: String, password: String },
}

/// What a webhook is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Alerts, in the gate's own JSON.
    Alerts,
    /// Players who connect and disconnect, and routes, as mc-router tells of them; no alerts.
    McRouter,
}

impl Notify {
    /// Of a crashed server's output, as much as fits on a telephone.
    const LINES: usize = 5;

    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let notify = Self {
            targets: section.addresses("urls", Target::parse).unwrap_or_default(),
            targets_file: section.path("urls_file"),
            log: section.addresses("log_urls", Target::parse).unwrap_or_default(),
            services: section
                .choice("services", &[("all", Watched::All), ("labelled", Watched::Labelled)])
                .unwrap_or_default(),
            lines: section.number("lines", 0).unwrap_or(Self::LINES),
            ready: section.boolean("ready").unwrap_or(false),
        };
        if notify.log.iter().any(|target| target.messenger == Messenger::Webhook(Format::McRouter)) {
            let fix = "take #mc-router from its end, or write it in urls";
            section
                .problem("log_urls", Fault::new("mc-router's webhook tells of players, not of the log", fix));
        }
        section.finish();
        notify
    }
}

impl Target {
    const FIX: &'static str = "write pushover://TOKEN@USER, discord://TOKEN@ID, ntfy://HOST/TOPIC, \
                               slack://hook:A-B-C@webhook, generic+https://HOST/PATH, or the address that Discord or \
                               Slack shows for a webhook";

    /// As shoutrrr writes them, and as Discord and Slack show theirs. A fault does not repeat the text: it is a secret.
    ///
    /// # Errors
    /// What is wrong, without the address.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        let (url, generic) = match text.strip_prefix("generic+") {
            Some(rest) => (Url::parse(rest), true),
            None => match text.strip_prefix("generic://") {
                Some(rest) => (Url::parse(&format!("https://{rest}")), true),
                None => (Url::parse(text), false),
            },
        };
        let url = url.map_err(|error| fault(&format!("it is not a URL: {error}")))?;
        let is_web = matches!(url.scheme(), "http" | "https");
        match (url.scheme(), url.host_str().unwrap_or_default()) {
            _ if generic && is_web => webhook(url),
            ("pushover", user) => pushover(&url, user),
            ("discord", id) => discord(&url, id),
            ("ntfy", host) => ntfy(&url, host),
            ("slack", host) => slack(&url, host),
            ("https", "discord.com" | "discordapp.com" | "ptb.discord.com" | "canary.discord.com")
                if url.path().starts_with("/api/") && url.path().contains("/webhooks/") =>
            {
                Ok(Self { url, messenger: Messenger::Discord })
            }
            ("https", "hooks.slack.com") => Ok(Self { url, messenger: Messenger::Slack }),
            _ if is_web => Err(Fault::new(
                "it is a web address of no messenger that the gate knows",
                "for a webhook of your own, write generic+ before it",
            )),
            (scheme, _) => Err(fault(&format!("{scheme} is no messenger that the gate knows"))),
        }
    }

    /// All of a file's lines; empty ones and those that begin with `#` are left out.
    ///
    /// # Errors
    /// The number of the first line that is wrong, counted from 1, and what is wrong with it.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, (usize, Fault)> {
        let lines = text.lines().map(str::trim).enumerate();
        let written = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        written.map(|(index, line)| Self::parse(line).map_err(|fault| (index + 1, fault))).collect()
    }

    /// For logs and metric labels.
    pub const fn kind(&self) -> &'static str {
        match self.messenger {
            Messenger::Pushover { .. } => "pushover",
            Messenger::Discord => "discord",
            Messenger::Ntfy { .. } => "ntfy",
            Messenger::Slack => "slack",
            Messenger::Webhook(Format::Alerts) => "webhook",
            Messenger::Webhook(Format::McRouter) => "mc_router",
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(***)", self.kind())
    }
}

impl fmt::Debug for Messenger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

fn fault(what: &str) -> Fault {
    Fault::new(what, Target::FIX)
}

fn webhook(mut url: Url) -> Result<Target, Fault> {
    let format = match url.fragment() {
        None => Format::Alerts,
        Some("mc-router") => Format::McRouter,
        Some(_) => {
            let fix = "write #mc-router, or nothing";
            return Err(Fault::new("after # stands the format, and there is no such format", fix));
        }
    };
    url.set_fragment(None);
    Ok(Target { url, messenger: Messenger::Webhook(format) })
}

/// `pushover://TOKEN@USER` or `pushover://shoutrrr:TOKEN@USER/?devices=a,b`
fn pushover(url: &Url, user: &str) -> Result<Target, Fault> {
    let token = decoded(url.password().unwrap_or(url.username()));
    if token.is_empty() || user.is_empty() {
        return Err(fault("it needs the token of the application and the key of the user"));
    }
    Ok(Target {
        url: at(base(url, "https://api.pushover.net")?, &["1", "messages.json"])?,
        messenger: Messenger::Pushover { token, user: user.to_owned(), devices: query(url, "devices") },
    })
}

/// `discord://TOKEN@ID`
fn discord(url: &Url, id: &str) -> Result<Target, Fault> {
    let token = decoded(url.username());
    if token.is_empty() || id.is_empty() {
        return Err(fault("it needs the token and the id of the webhook"));
    }
    let mut to = at(base(url, "https://discord.com")?, &["api", "webhooks", id, &token])?;
    if let Some(thread) = query(url, "thread_id") {
        to.query_pairs_mut().append_pair("thread_id", &thread);
    }
    Ok(Target { url: to, messenger: Messenger::Discord })
}

/// `ntfy://HOST/TOPIC`, with `:TOKEN@` or `USER:PASSWORD@` before the host
fn ntfy(url: &Url, host: &str) -> Result<Target, Fault> {
    let topic = decoded(url.path().trim_matches('/'));
    if host.is_empty() || topic.is_empty() || topic.contains('/') {
        return Err(fault("it needs a host and one topic"));
    }
    let login = url.password().map(|password| match decoded(url.username()) {
        user if user.is_empty() => Login::Token(decoded(password)),
        user => Login::Password { user, password: decoded(password) },
    });
    let scheme = query(url, "scheme").unwrap_or_else(|| "https".to_owned());
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let to = web(&format!("{scheme}://{host}{port}/"))?;
    Ok(Target { url: to, messenger: Messenger::Ntfy { topic, login } })
}

/// `slack://hook:A-B-C@webhook` or `slack://A/B/C`
fn slack(url: &Url, host: &str) -> Result<Target, Fault> {
    let token = match url.password() {
        Some(token) if url.username() == "hook" => decoded(token).replace('-', "/"),
        Some(_) => return Err(fault("a bot's token is not a webhook")),
        None => format!("{host}{}", url.path().trim_end_matches('/')),
    };
    let parts: Vec<&str> = token.split('/').collect();
    if parts.len() != 3 || parts.iter().any(|part| part.is_empty()) {
        return Err(fault("the token of a webhook has three parts"));
    }
    let path: Vec<&str> = ["services"].into_iter().chain(parts).collect();
    Ok(Target { url: at(base(url, "https://hooks.slack.com")?, &path)?, messenger: Messenger::Slack })
}

/// The address of the messenger, if it is not the usual one: for proxies, and for tests.
fn base(url: &Url, usual: &str) -> Result<Url, Fault> {
    web(&query(url, "base").unwrap_or_else(|| usual.to_owned()))
}

fn web(text: &str) -> Result<Url, Fault> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| fault("its server is not one that speaks HTTP"))
}

fn at(mut base: Url, path: &[&str]) -> Result<Url, Fault> {
    base.path_segments_mut().map_err(|()| fault("its server has no paths"))?.pop_if_empty().extend(path);
    Ok(base)
}

fn query(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Target {
        Target::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
    }

    #[test]
    fn each_messenger_has_an_address_to_post_to() {
        for (text, kind, url) in [
            ("pushover://T0k@Us3r", "pushover", "https://api.pushover.net/1/messages.json"),
            (
                "pushover://shoutrrr:T0k@Us3r/?devices=a,b",
                "pushover",
                "https://api.pushover.net/1/messages.json",
            ),
            ("discord://T0-k_n@123", "discord", "https://discord.com/api/webhooks/123/T0-k_n"),
            ("discord://t@1?thread_id=7", "discord", "https://discord.com/api/webhooks/1/t?thread_id=7"),
            ("discord://t@1?base=http://127.0.0.1:8/x/", "discord", "http://127.0.0.1:8/x/api/webhooks/1/t"),
            ("https://discord.com/api/webhooks/1/t", "discord", "https://discord.com/api/webhooks/1/t"),
            ("ntfy://ntfy.sh/mc", "ntfy", "https://ntfy.sh/"),
            ("ntfy://:tk@[::1]:8080/mc?scheme=http", "ntfy", "http://[::1]:8080/"),
            ("slack://hook:A-B-C@webhook", "slack", "https://hooks.slack.com/services/A/B/C"),
            ("slack://A/B/C", "slack", "https://hooks.slack.com/services/A/B/C"),
            ("https://hooks.slack.com/services/A/B/C", "slack", "https://hooks.slack.com/services/A/B/C"),
            ("generic+https://u:p@h/x?y=1", "webhook", "https://u:p@h/x?y=1"),
            ("generic://h/x", "webhook", "https://h/x"),
            (" generic+http://h:81/x#mc-router ", "mc_router", "http://h:81/x"),
        ] {
            let target = read(text);
            assert_eq!((target.kind(), target.url.as_str()), (kind, url), "{text}");
        }
        let Messenger::Pushover { token, user, devices } =
            read("pushover://shoutrrr:T0k@Us3r/?devices=a,b").messenger
        else {
            panic!("Pushover")
        };
        assert_eq!((token.as_str(), user.as_str(), devices.as_deref()), ("T0k", "Us3r", Some("a,b")));
        let login = |text| match read(text).messenger {
            Messenger::Ntfy { login, .. } => login,
            Messenger::Pushover { .. } | Messenger::Discord | Messenger::Slack | Messenger::Webhook(_) => {
                None
            }
        };
        assert!(login("ntfy://:tk%20@h/t") == Some(Login::Token("tk ".into())));
        let (user, password) = ("u".to_owned(), "p".to_owned());
        assert!(login("ntfy://u:p@h/t") == Some(Login::Password { user, password }));
    }

    #[test]
    fn what_is_none_is_refused_without_repeating_it() {
        for (text, what) in [
            ("secret", "it is not a URL"),
            ("telegram://secret@telegram", "telegram is no messenger"),
            ("https://secret.example/x", "a web address of no messenger"),
            ("pushover://secret", "it needs the token"),
            ("discord://123", "it needs the token"),
            ("ntfy://secret", "one topic"),
            ("ntfy://h/a/secret", "one topic"),
            ("ntfy://h/a?scheme=secret", "speaks HTTP"),
            ("slack://hook:secret@webhook", "three parts"),
            ("slack://xoxb:secret@channel", "a bot's token"),
            ("generic+https://h/#secret", "no such format"),
            ("generic+ftp://secret/", "no messenger"),
        ] {
            let fault = Target::parse(text).unwrap_err();
            assert!(fault.what.contains(what), "{text}: {fault:?}");
            assert!(!format!("{fault:?}").contains("secret"), "{fault:?}");
        }
    }

    #[test]
    fn nothing_of_an_address_is_shown() {
        let target = read("pushover://secret@secret");
        assert_eq!(format!("{target:?} {:?}", target.messenger), "pushover(***) ***");
    }

    #[test]
    fn one_text_holds_some_with_commas_in_them() {
        let text = "pushover://T@U/?devices=phone,tablet, discord://t@1,generic+http://h/x?a=1,2\nntfy://h/t";
        let config =
            crate::config::parse("", &[crate::config::Override::from_flag("test", "notify.urls", text)]);
        let targets = config.unwrap().config.notify.targets;
        let kinds: Vec<&str> = targets.iter().map(Target::kind).collect();
        assert_eq!(kinds, ["pushover", "discord", "webhook", "ntfy"]);
        assert!(
            matches!(&targets[0].messenger, Messenger::Pushover { devices: Some(devices), .. } if devices == "phone,tablet")
        );
        assert_eq!(targets[2].url.as_str(), "http://h/x?a=1,2");
    }

    #[test]
    fn a_file_has_one_a_line() {
        let targets = Target::parse_lines("# mine\n\ndiscord://t@1\r\n ntfy://h/t \n").unwrap();
        assert_eq!(targets.iter().map(Target::kind).collect::<Vec<_>>(), ["discord", "ntfy"]);
        assert_eq!(Target::parse_lines("discord://t@1\n\nx").unwrap_err().0, 3);
    }
}
