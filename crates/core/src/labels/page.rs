//! The page `docs/labels.md`, from the table of labels.

use std::fmt::Write as _;

use super::table::{Entry, LABELS, Own};

/// The whole page, Markdown.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    for entry in LABELS {
        let (kind, default, about) = described(entry);
        let _ = writeln!(page, "| `{}` | {kind} | {default} | {about} |", entry.label());
    }
    page.push_str(ALIASES);
    for (entry, alias) in LABELS.iter().filter_map(|entry| Some((entry, entry.alias()?))) {
        let _ = writeln!(page, "| `{alias}` | `{}` |", entry.label());
    }
    page
}

fn described(entry: &Entry) -> (&str, String, &str) {
    match (&entry.own, entry.key()) {
        (Some(Own { kind, default: "", about }), _) => (kind, "not set".into(), about),
        (Some(Own { kind, default, about }), _) => (kind, format!("`{default}`"), about),
        (None, Some(key)) => {
            let default = key.default.map_or_else(|| "not set".into(), |default| format!("`{default}`"));
            (key.kind, default, key.about)
        }
        (None, None) => ("", String::new(), ""),
    }
}

const INTRODUCTION: &str = r#"# Labels

<!-- Generated from the code: UPDATE_DOCS=1 cargo test -p swarmgate-core --test docs -->

A service of a Swarm tells the gate about itself by labels of the *service* (`deploy: labels:` in a stack file; labels of its
containers stay hidden from the gate, and it says so). A plain container does by its own labels.

```yaml
services:
  survival:
    image: itzg/minecraft-server
    networks: [minecraft]
    stop_grace_period: 55s
    deploy:
      labels:
        swarmgate.host: survival.example.com
        swarmgate.idle: 20m
```

For a container of compose or `docker run` the same, as its own labels:

```yaml
services:
  survival:
    image: itzg/minecraft-server
    restart: unless-stopped
    stop_grace_period: 55s
    labels:
      swarmgate.host: survival.example.com
```

A label goes before `[defaults]` in the [configuration](configuration.md), in both directions. Values are written as there, without
the quotes; lists with commas or one part a line. A label that is not known or not understood is reported in the log, by
`swarmgate services` and by `swarmgate explain`, with its fix, and counts as not written; only if it says who may connect or wake, nobody may until it is mended.

| Label | Type | Default | Meaning |
|---|---|---|---|
"#;

const ALIASES: &str = r#"
## Labels of mc-router

They work unchanged. If a service has both, the gate's own count. An empty one counts as not set; the token `{duration}` is
`{countdown}` here.

| mc-router's | is the same as |
|---|---|
"#;
