//! The page `docs/labels.md`, from the table of labels.

use std::fmt::Write as _;

use super::publish;
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
    publication(&mut page);
    page
}

fn publication(page: &mut String) {
    page.push_str(PUBLICATION);
    for (name, kind, default, about) in publish::OWN {
        let default = if default.is_empty() { "not set".to_owned() } else { format!("`{default}`") };
        let _ = writeln!(page, "| `{}{name}` | {kind} | {default} | {about} |", publish::PREFIX);
    }
    for (name, key) in publish::settings() {
        let default = key.default.map_or_else(|| "not set".into(), |default| format!("`{default}`"));
        let label = name.replace('_', "-");
        let _ = writeln!(page, "| `{}{label}` | {} | {default} | {} |", publish::PREFIX, key.kind, key.about);
    }
    page.push_str(PUBLICATION_ALIASES);
    for (alias, name) in publish::ALIASES {
        let _ = writeln!(page, "| `{}{alias}` | `{}{name}` |", publish::ALIAS_PREFIX, publish::PREFIX);
    }
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

const PUBLICATION: &str = r#"
## Publication

A web service with these labels is published through the tunnel that [`[cloudflare]`](configuration.md) names. A service may
have them beside those of a game server, or alone; then the gate neither wakes it nor puts it to sleep.

```yaml
services:
  shop:
    image: nginx
    networks: [edge]            # one that cloudflared is on, too
    deploy:
      labels:
        swarmgate.publish.host: shop.example.com, www.shop.example.com
        swarmgate.publish.port: 80
```

Several publications of one service have names, of your choosing; what stands without a name then speaks for all of them, except
`host` and `path`:

```yaml
services:
  app:
    image: app
    deploy:
      labels:
        swarmgate.publish.access: staff
        swarmgate.publish.site.host: app.example.com
        swarmgate.publish.site.port: 8080
        swarmgate.publish.api.host: app.example.com
        swarmgate.publish.api.path: ^/api
        swarmgate.publish.api.port: 9000
```

A hostname that is not understood is reported, and the others go on. Of a publication with any other label that is not
understood nothing is changed until it is mended: the label could be the one that keeps strangers out.

| Label | Type | Default | Meaning |
|---|---|---|---|
"#;

const PUBLICATION_ALIASES: &str = r#"
### Labels of swarmctl

They work unchanged, if `cloudflared.tunnel.enabled` is `true`, that word and no other. If a service has both, the gate's own
count. All hostnames lead to the one port.

| swarmctl's | is the same as |
|---|---|
"#;
