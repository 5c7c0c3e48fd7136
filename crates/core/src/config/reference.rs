//! The page `docs/configuration.md`, from the table of keys.

use std::fmt::Write as _;

use super::keys::{KEYS, Key, ONE_SERVER_ONLY, PUBLISH, SERVER};
use crate::motd::TOKENS;

/// The whole page, Markdown.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (token, meaning) in TOKENS {
        let _ = writeln!(page, "| `{{{token}}}` | {meaning} |");
    }
    page.push_str(AFTER_TOKENS);
    for (table, heading, about) in TABLES {
        let _ = write!(
            page,
            "\n## {heading}\n\n{about}\n\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n"
        );
        for (name, key) in KEYS.iter().filter_map(|key| Some((within(key, table)?, key))) {
            let default = match key.default {
                Some(default) => format!("`{default}`"),
                None => format!("not set, e.g. `{}`", key.example),
            };
            let _ = writeln!(page, "| {name} | {} | {default} | {} |", key.kind, key.about);
        }
    }
    page
}

const INTRODUCTION: &str = r#"# Configuration

<!-- Generated from the code: UPDATE_DOCS=1 cargo test -p swarmgate-core --test docs -->

One file in [TOML](https://toml.io), given as `swarmgate run --config FILE`. `swarmgate check FILE` says
everything that is wrong with it, with line, key and fix, and changes nothing. Examples:
[`minimal.toml`](../examples/minimal.toml), [`swarmgate.toml`](../examples/swarmgate.toml).

The file is read again when it changes and on SIGHUP. If the new one has a problem, all of it is reported
and the old one stays in force.

**Values**

| Type | Written as |
|---|---|
| duration | text with a unit: `"500ms"`, `"90s"`, `"15m"`, `"1h 30m"`; `"0"` needs none |
| rate | a whole number per `s`, `m` or `h`: `"10/s"`, `"6/m"` |
| network | an IP address, or a network in CIDR notation: `"192.0.2.7"`, `"10.0.0.0/8"`, `"2001:db8::/32"` |
| address | `"host:port"`; an IPv6 address in brackets: `"[2001:db8::7]:25565"` |
| path | absolute, or relative to the directory of the configuration file |
| list | `["a", "b"]`, or one text: `"a, b"`; blank parts are ignored |
| text shown to players | [MiniMessage](https://docs.advntr.dev/minimessage/format.html), `&` or `§` codes, or a JSON text component; with the tokens below |

Tokens in texts:

| Token | Stands for |
|---|---|
"#;

const AFTER_TOKENS: &str = r#"
A *source* is what limits count as one client: an IPv4 address, or an IPv6 /64.

**Environment.** A key outside `[[listener]]`, `[publish.NAME]` and `[server.NAME]` can be set by a variable: `SWARMGATE_` and the
key's path in capitals, with `_` for each dot. `SWARMGATE_LOG_LEVEL=debug` is `level` in `[log]`. Flags go before
variables, variables before the file, the file before the defaults below. [swarmctl's variables](coming-from.md#swarmctl) go
before the file, too, and the gate's own before them.
"#;

/// Table, heading, what it is.
const TABLES: [(&str, &str, &str); 13] = [
    ("", "At the top of the file", "Above every table."),
    (
        "listener",
        "`[[listener]]`",
        "A listener that stands behind a proxy such as HAProxy or nginx. May be repeated, and stand beside `listen`.",
    ),
    ("clients", "`[clients]`", "Where PROXY headers are read, this is about the address they name."),
    (
        "api",
        "`[api]`",
        "Who may ask and command the gate over HTTP; [`api.md`](api.md) says what there is. All of it may change while the gate runs.",
    ),
    ("limits", "`[limits]`", "What strangers may cost."),
    ("log", "`[log]`", "The log goes to standard error."),
    ("notify", "`[notify]`", "Changes with a restart only."),
    ("proxies", "`[proxies]`", "Velocity, BungeeCord and the like in front of the gate."),
    (
        "docker",
        "`[docker]`",
        "Where labelled services come from. `swarm`, `containers` and `host` change with a restart only.",
    ),
    ("update", "`[update]`", "What may be updated over the API."),
    (
        "cloudflare",
        "`[cloudflare]`",
        "The tunnel through which web services are published, those with [labels](labels.md) `swarmgate.publish.*` and \
         those of `[publish.NAME]`. All of it may change while the gate runs; with another tunnel or instance it begins \
         anew, and leaves what it made in the old one.",
    ),
    (
        PUBLISH,
        "`[publish.NAME]`",
        "One for each thing that is published and has no labels. NAME is yours to choose.",
    ),
    (
        SERVER,
        "`[server.NAME]` and `[defaults]`",
        "One `[server.NAME]` for each server; NAME is yours to choose, of letters, digits, `-` and `_`. `[defaults]` \
         has the same keys and speaks for every server that does not say otherwise, except for those marked †, which \
         are each server's own.",
    ),
];

/// The key's name in the table, if it is there.
fn within(key: &Key, table: &str) -> Option<String> {
    let name = match (table, key.path.split_once('.')) {
        ("", None) => key.path,
        ("", Some(_)) => return None,
        (table, _) => key.path.strip_prefix(table)?.strip_prefix('.')?,
    };
    let mark = if table == SERVER && ONE_SERVER_ONLY.contains(&name) { "` †" } else { "`" };
    Some(format!("`{name}{mark}"))
}
