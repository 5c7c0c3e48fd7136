//! Every label there is: what the reader understands, and the page that documents it.

use crate::config::keys::{KEYS, Key};

pub const PREFIX: &str = "swarmgate.";
pub const ALIAS_PREFIX: &str = "mc-router.";

/// One label.
#[derive(Debug)]
pub struct Entry {
    /// After the prefix, with `_` where the label has `-`: the key of `[defaults]` unless it is `own`.
    pub name: &'static str,
    /// mc-router's label for the same, after its prefix.
    pub alias: Option<&'static str>,
    /// What a label says that is no key of the configuration.
    pub own: Option<Own>,
}

#[derive(Debug)]
pub struct Own {
    pub kind: &'static str,
    pub default: &'static str,
    pub about: &'static str,
}

const fn own(name: &'static str, kind: &'static str, default: &'static str, about: &'static str) -> Entry {
    Entry { name, alias: Some(name), own: Some(Own { kind, default, about }) }
}

const fn unaliased(
    name: &'static str,
    kind: &'static str,
    default: &'static str,
    about: &'static str,
) -> Entry {
    Entry { alias: None, ..own(name, kind, default, about) }
}

const fn key(name: &'static str) -> Entry {
    Entry { name, alias: None, own: None }
}

const fn aliased(name: &'static str, alias: &'static str) -> Entry {
    Entry { name, alias: Some(alias), own: None }
}

/// In the order of the page.
#[rustfmt::skip]
pub const LABELS: &[Entry] = &[
    own("host", "list of hostnames", "",
        "The hostnames that lead to this server, as players type them. `*.example.com` is every name below `example.com`; an exact name goes first."),
    own("port", "number", "25565",
        "The port its game listens on, inside the container."),
    own("network", "text", "",
        "The network on which the gate dials it: an id, a name with or without the stack's prefix, or an alias of the service on it. Without it: every network that the gate is on too."),
    own("default", "true or false", "false",
        "Takes the players whose hostname leads nowhere, those who typed an IP address among them. One server at most."),
    aliased("wake", "auto-scale-up"),
    key("default_wakes"),
    aliased("sleep", "auto-scale-down"),
    key("idle"),
    key("awake"),
    unaliased("grace", "duration", "",
        "For a plain container only: how long it may take to stop before it is killed. Without it: `grace` of `[docker]`. If the container's own `stop_grace_period` is longer, that counts. In a Swarm, `stop_grace_period` alone does."),
    key("players"),
    key("ready"),
    aliased("start_timeout", "auto-scale-wait-timeout"),
    key("cooldown"),
    key("wait"),
    key("modded"),
    key("hold"),
    key("public_address"),
    key("clients.allow"),
    key("clients.deny"),
    key("wakers.names"),
    key("wakers.uuids"),
    key("wakers.addresses"),
    key("wakers.verified"),
    key("proxy_protocol"),
    key("rewrite_host"),
    aliased("texts.asleep", "auto-scale-asleep-motd"),
    aliased("texts.starting", "auto-scale-loading-motd"),
    aliased("texts.restarting", "auto-scale-restart-delay-motd"),
    key("texts.stopping"),
    aliased("texts.failed", "auto-scale-failed-motd"),
    key("texts.unreachable"),
    key("texts.title"),
    key("texts.subtitle"),
    key("texts.welcome"),
    key("texts.rejoin"),
    key("texts.wait"),
];

impl Entry {
    /// `swarmgate.start-timeout`
    pub fn label(&self) -> String {
        format!("{PREFIX}{}", self.name.replace('_', "-"))
    }

    /// `mc-router.auto-scale-up`
    pub fn alias(&self) -> Option<String> {
        self.alias.map(|alias| format!("{ALIAS_PREFIX}{alias}"))
    }

    /// The key of the configuration that it sets.
    pub fn key(&self) -> Option<&'static Key> {
        let is_it = |key: &&Key| key.path.strip_prefix("server.NAME.") == Some(self.name);
        KEYS.iter().find(is_it).filter(|_| self.own.is_none())
    }

    pub fn is_truth(&self) -> bool {
        self.key().is_some_and(|key| key.kind == "true or false")
    }
}

/// The entry that a label names. In the gate's own, `_` is as good as `-`.
pub fn entry(label: &str) -> Option<&'static Entry> {
    if let Some(name) = label.strip_prefix(PREFIX) {
        let name = name.replace('-', "_");
        return LABELS.iter().find(|entry| entry.name == name);
    }
    let alias = label.strip_prefix(ALIAS_PREFIX)?;
    LABELS.iter().find(|entry| entry.alias == Some(alias))
}

/// Every label, for whoever mistyped one.
pub fn known() -> Vec<String> {
    LABELS.iter().flat_map(|entry| [Some(entry.label()), entry.alias()]).flatten().collect()
}
