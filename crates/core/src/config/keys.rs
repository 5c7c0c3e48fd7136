//! Every key there is: what the reader may ask for, and the page that documents it.

use std::fmt;

use crate::service::Texts;

/// One key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `limits.wake_rate`; `NAME` stands for a server's name.
    pub path: &'static str,
    pub kind: &'static str,
    /// Without one the key is not set unless it is written.
    pub default: Option<Written>,
    pub example: Written,
    pub about: &'static str,
}

/// A value in this table. Displayed as TOML.
#[derive(Debug, Clone, Copy)]
pub enum Written {
    Toml(&'static str),
    /// A text that stands in the code without quotes.
    Text(&'static str),
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toml(toml) => f.write_str(toml),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

pub(super) const DEFAULTS: &str = "defaults";
pub(super) const LISTENER: &str = "listener";
pub(super) const SERVER: &str = "server.NAME";
pub(super) const PUBLISH: &str = "publish.NAME";

/// The keys of a server that `[defaults]` has not.
pub(super) const ONE_SERVER_ONLY: [&str; 6] = ["hosts", "default", "address", "command", "directory", "env"];

const fn key(path: &'static str, kind: &'static str, default: &'static str, about: &'static str) -> Key {
    Key { path, kind, default: Some(Written::Toml(default)), example: Written::Toml(default), about }
}

const fn unset(path: &'static str, kind: &'static str, example: &'static str, about: &'static str) -> Key {
    Key { path, kind, default: None, example: Written::Toml(example), about }
}

const fn text(path: &'static str, default: &'static str, about: &'static str) -> Key {
    Key { path, kind: "text", default: Some(Written::Text(default)), example: Written::Text(default), about }
}

/// In the order of the page.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("listen", "list of addresses", r#"["[::]:25565"]"#,
        "Where players connect. `[::]` is every address of the machine, IPv4 and IPv6; a port alone means the same. Not set if there is a `[[listener]]`."),
    unset("data_dir", r#"path or `"off"`"#, r#""/var/lib/swarmgate""#,
        "Where the gate keeps what it learns and the output of its servers. Without it: `swarmgate-data`. `off`: nothing is kept, [which costs something](running.md#what-is-kept-where); servers with a `command` need a path."),
    unset("control", "path", r#""/run/swarmgate/control.sock""#,
        "The socket on which commands such as `swarmgate explain` reach the running gate. Without it: `control.sock` in `data_dir`; where that is `off`, `swarmgate.sock` beside the file."),
    key("http", r#"address or `"off"`"#, r#""127.0.0.1:9250""#,
        "Where health, metrics and, to those with a token, the [API](api.md) are served over HTTP."),
    key("on_exit", r#"`"keep"` or `"stop"`"#, r#""keep""#,
        "What happens to the servers that the gate started when it is told to stop. `keep`: they run on, and the next start of the gate finds them. `stop`: each is stopped as for a sleep, once its players are gone or `drain` is over."),
    key("drain", "duration", r#""30s""#,
        "When the gate is told to stop: how long connected players may stay. `0`: everybody is disconnected at once."),
    key("session_server", "URL", r#""https://sessionserver.mojang.com""#,
        "Who says whether an account is a player's own, for servers with `wakers.verified`."),
    key("unknown_host", r#"`"answer"` or `"close"`"#, r#""answer""#,
        "What a client that asks for an unknown hostname gets: a readable answer, or a closed connection."),

    unset("listener.address", "address", r#""[::]:25577""#,
        "Where this listener listens, as in `listen`. Required."),
    key("listener.proxy_protocol", r#"`"off"`, `"optional"` or `"required"`"#, r#""off""#,
        "Whether a PROXY protocol header (v1 or v2) comes first on each connection and names the real client. It is read from `trusted` addresses only. `optional`: a trusted address may also leave it out. `required`: whoever sends none is turned away."),
    unset("listener.trusted", "list of networks", r#"["10.0.0.0/8"]"#,
        "Who may send a PROXY header: the proxies in front of the gate. Anyone in this list can claim to be any client."),

    key("clients.allow", "list of networks", "[]",
        "Which client addresses may connect, to any server. Empty: all."),
    key("clients.deny", "list of networks", "[]",
        "Which client addresses may not connect, even if they are allowed too."),

    unset("api.tokens_file", "path", r#""/run/secrets/api-tokens""#,
        "Who may use the API over TCP: a file with a line `NAME SCOPE TOKEN` for each, with `read` or `operate` as scope. It is read again when it changes. Without tokens only health, version and metrics are served there."),
    unset("api.token", "text", r#""***""#,
        "One token that may operate, beside those of the file. Better in the file. One with fewer than 24 characters is warned about, with fewer than 8 it is refused."),
    unset("api.token_file", "path", r#""/run/secrets/auth-token""#,
        "The same in a file of its own that holds nothing else. It is read again when it changes."),
    key("api.metrics_need_token", "true or false", "false",
        "Whether `/metrics` is for those with a token only."),
    key("api.trusted_proxies", "list of networks", "[]",
        "The proxies in front of the API that say whom they speak for, by `X-Forwarded-For` or `Forwarded`. Nobody else is believed."),
    key("api.hosts", "list of names", "[]",
        "By which names, beside `localhost` and every address, the pages without a token may be asked for where `http` is an address of the machine itself only. A web page in a browser there can ask by others."),
    key("api.rate", "rate", r#""20/s""#,
        "Requests per source, in the long run."),
    key("api.burst", "number", "200",
        "Requests per source, at once."),
    key("api.failure_rate", "rate", r#""6/m""#,
        "Requests per source with a token that is none, in the long run."),
    key("api.failure_burst", "number", "10",
        "Requests per source with a token that is none, at once."),

    key("limits.opening_deadline", "duration", r#""5s""#,
        "How long a client may take to say what it wants. Connections that have not said it yet are *half-open*."),
    key("limits.half_open_per_source", "number", "64",
        "Half-open connections per source."),
    key("limits.half_open_total", "number", "2000",
        "Half-open connections of all sources."),
    key("limits.connections_total", "number", "8000",
        "Connections of all kinds, players included. Each needs up to two file descriptors."),
    key("limits.status_rate", "rate", r#""50/s""#,
        "Server list pings per source, in the long run."),
    key("limits.status_burst", "number", "200",
        "Server list pings per source, at once."),
    key("limits.login_rate", "rate", r#""5/s""#,
        "Joins per source, in the long run."),
    key("limits.login_burst", "number", "40",
        "Joins per source, at once."),
    key("limits.wake_rate", "rate", r#""6/m""#,
        "Joins per source that start a sleeping server, in the long run. Joining a running or starting server never counts."),
    key("limits.wake_burst", "number", "3",
        "Joins per source that start a sleeping server, at once."),
    key("limits.trusted_sources", "list of networks", "[]",
        "Sources to which no limit per source applies."),
    key("limits.waking_at_once", "number", "2",
        "Servers starting at the same time; further wakes wait their turn."),
    key("limits.awake_at_once", "number", "0",
        "Servers awake at the same time; while there are as many, no join starts another. Those that their owner keeps awake (a pin, `awake` hours, `swarmgate wake`) count, too, but are started all the same. `0`: any number."),
    key("limits.held_per_source", "number", "64",
        "Joins per source that wait on an open connection for a server."),
    key("limits.held_total", "number", "1000",
        "Joins of all sources that wait on an open connection for a server."),
    key("limits.limbo_per_source", "number", "64",
        "Players per source who wait in the world or the room. Those beyond are held on the open connection."),
    key("limits.limbo_total", "number", "1000",
        "Players of all sources who wait in the world or the room."),

    key("log.level", r#"`"error"`, `"warn"`, `"info"`, `"debug"` or `"trace"`"#, r#""info""#,
        "How much is logged. Names and addresses of players appear at `debug` only."),
    key("log.format", r#"`"human"` or `"json"`"#, r#""human""#,
        "For people, or one JSON object per line."),
    key("log.name", "text", r#""""#,
        "What this gate is called: on every line, in JSON as `app`. Empty: nothing."),
    key("log.environment", "text", r#""""#,
        "Where it runs, such as `production`: on every line, in JSON as `env`. Empty: nothing."),

    key("notify.urls", "list of URLs", "[]",
        "Who is told when a service crashes, cannot be started or is well again; [`alerts.md`](alerts.md) says what is told when, and how each messenger is written. They are secrets: nothing shows them."),
    unset("notify.urls_file", "path", r#""/run/secrets/notify""#,
        "A file with more of them, one a line."),
    key("notify.log_urls", "list of URLs", "[]",
        "Who gets the warnings and errors of the log, gathered and cut to what a message holds."),
    key("notify.services", r#"`"all"` or `"labelled"`"#, r#""all""#,
        "Whose troubles are told: those of all services of the Swarm, or of those with labels for the gate only. Plain containers need labels."),
    key("notify.lines", "number", "5",
        "How many of the last lines of a server that crashed are told with it, where they can be read. They may name players. `0`: none."),
    key("notify.ready", "true or false", "false",
        "Whether it is told, too, that a server that a player has woken is ready."),

    unset("proxies.addresses", "list of networks", r#"["10.0.0.5"]"#,
        "From where Velocity, BungeeCord or another proxy of the game connects to the gate. Nobody who comes from there is transferred: that would lead around the proxy. BungeeCord's forwarding is seen without this."),
    unset("proxies.velocity_secret_file", "path", r#""forwarding.secret""#,
        "The file with Velocity's `forwarding.secret`, if it forwards players in its modern way. The servers behind the gate need the secret as before; the gate uses it to know who waits, and who wakes a server with `wakers.verified`."),
    unset("proxies.bungeeguard_token_file", "path", r#""bungeeguard.token""#,
        "The file with BungeeGuard's token, if BungeeCord or Velocity forwards players with one. Whoever comes with forwarded data and without the token is not believed."),

    key("docker.swarm", r#"`"auto"`, `"on"` or `"off"`"#, r#""auto""#,
        "Whether labelled services of a Docker Swarm are routed, woken and put to sleep. `auto`: if the engine can be reached and is a manager. The labels are in [`labels.md`](labels.md), what the engine must allow in [`permissions.md`](permissions.md)."),
    key("docker.containers", r#"`"auto"`, `"on"` or `"off"`"#, r#""auto""#,
        "The same for labelled plain containers, those of `docker run` and compose, on the engine's own machine."),
    unset("docker.host", "text", r#""tcp://socket-proxy:2375""#,
        "Where the engine listens, for a Swarm that of a manager: `unix:///path` or `tcp://host:port`. Without it: what the variable `DOCKER_HOST` says, or `unix:///var/run/docker.sock`. There is no TLS."),
    unset("docker.network", "text", r#""minecraft""#,
        "The network on which tasks and containers are dialled that have no label `swarmgate.network`: an id, or a name with or without the prefix of the stack or compose project. Without it: every network that the gate is on too."),
    key("docker.grace", "duration", r#""90s""#,
        "How long a plain container may take to stop before it is killed, if it has no label `swarmgate.grace`. If its own `stop_grace_period` is longer, that counts."),

    key("update.services", r#"`"labelled"` or `"all"`"#, r#""labelled""#,
        "Which services of a Swarm `POST /v1/update/NAME` may give another image: those with labels for the gate, be it for players or for publishing, or all."),
    key("update.images", "list of names", "[]",
        "Which images: `ghcr.io/acme/web`, or `ghcr.io/acme/*` for all below it. Short names mean what they mean to Docker: `nginx` is `docker.io/library/nginx`. Empty: any."),
    unset("update.registries_file", "path", r#""/run/secrets/docker-config""#,
        "Docker's `config.json` after `docker login`, for registries that want a password. It is read at each update. Without it, and for registries that are not in it, the nodes go on with the credentials that a service was deployed with."),

    unset("cloudflare.account", "text", r#""0da42c8d2132a9ddaf714f9e7c920711""#,
        "The id of the account that the tunnel belongs to. With this and `tunnel`, labelled services are published."),
    unset("cloudflare.tunnel", "text", r#""f70ff985-a4ef-4643-bbbc-4a0ed4fc8415""#,
        "The id of the tunnel. It must be one that is configured at Cloudflare, not by a file beside the connector."),
    unset("cloudflare.token", "text", r#""***""#,
        "An API token. Better in a file, by `token_file`."),
    unset("cloudflare.token_file", "path", r#""/run/secrets/cloudflare""#,
        "A file with the API token in it, such as a secret of the Swarm. It is read again whenever it is needed."),
    unset("cloudflare.key", "text", r#""***""#,
        "Instead of a token: the global key of a user, who is named by `email`. It may do anything; a token need not."),
    unset("cloudflare.key_file", "path", r#""/run/secrets/cloudflare-key""#,
        "A file with that key in it."),
    unset("cloudflare.email", "text", r#""ann@example.com""#,
        "Whose global key it is."),
    key("cloudflare.instance", "text", r#""default""#,
        "The name of this gate, in its marks on what it makes. Gates that share an account need different ones."),
    unset("cloudflare.team", "text", r#""acme""#,
        "The name of the Zero Trust team: what stands before `.cloudflareaccess.com`. With it the connector itself refuses requests to a protected hostname that Access has not let through."),
    key("cloudflare.grace", "duration", r#""30m""#,
        "How long a service must be gone, without a break, before its hostnames are withdrawn. Time in which the gate is down does not count."),
    key("cloudflare.every", "duration", r#""5m""#,
        "How often all is compared with Cloudflare when nothing seems to have happened. A change of a service is published at once."),
    key("cloudflare.exclusive", "true or false", "false",
        "Whether the tunnel is the gate's alone: rules of the tunnel and DNS records that lead to it go if no service asks for them, whoever made them."),
    key("cloudflare.adopt", "true or false", "false",
        "Whether rules, records and applications that somebody else made for a hostname that a service asks for are taken over, for services that do not say."),
    key("cloudflare.delete_dns_on_removal", "true or false", "false",
        "Whether the DNS record is deleted when a hostname is withdrawn, for services that do not say. Without it the record stays, and its comment says that it is released."),
    key("cloudflare.max_deletions", "number", "10",
        "How many hostnames lose something within five minutes, at most. Those beyond wait."),
    key("cloudflare.dry_run", "true or false", "false",
        "Whether the gate only says what it would do at Cloudflare, by `swarmgate plan`, and changes nothing."),
    key("cloudflare.api", "text", r#""https://api.cloudflare.com/client/v4""#,
        "Where the API is."),

    key("publish.NAME.hosts", "list of hostnames", "[]",
        "The hostnames under which it is to be found. `*.example.com` is every name below `example.com`; an exact name goes first."),
    unset("publish.NAME.address", "address", r#""192.0.2.7:8080""#,
        "Where the connector finds it. Required."),
    key("publish.NAME.scheme", r#"`"http"`, `"https"`, `"ws"`, `"wss"`, `"tcp"`, `"ssh"`, `"rdp"` or `"smb"`"#, r#""http""#,
        "How the connector speaks to it."),
    key("publish.NAME.path", "text", r#""""#,
        "Only requests whose path matches this regular expression, anywhere in it unless it begins with `^`: `^/api(/|$)`. Empty: all."),
    key("publish.NAME.access", "list of policies", "[]",
        "The reusable policies of Cloudflare Access that protect the hostname, by id or name, in order. While one of them is not found, or the application cannot be made, the hostname is not published. Empty: anyone may come."),
    key("publish.NAME.dns", "true or false", "true",
        "Whether there is to be a DNS record."),
    unset("publish.NAME.zone", "text", r#""example.com""#,
        "The zone of that record. Without it: of those that the token sees, the one with the longest name that fits."),
    key("publish.NAME.adopt", "true or false", "false",
        "Whether a rule, record or application that somebody else made for the hostname is taken over. Without it that is a conflict: nothing is changed, and the gate says so. Not set: `adopt` of `[cloudflare]`."),
    key("publish.NAME.delete_dns_on_removal", "true or false", "false",
        "Whether the DNS record is deleted when the hostname is withdrawn. Not set: `delete_dns_on_removal` of `[cloudflare]`."),
    unset("publish.NAME.origin.connect_timeout", "duration", r#""30s""#,
        "How long the connector may take to connect to it; in whole seconds, as all of these."),
    unset("publish.NAME.origin.tls_timeout", "duration", r#""10s""#,
        "How long TLS with it may take to begin."),
    unset("publish.NAME.origin.tcp_keep_alive", "duration", r#""30s""#,
        "How often an idle TCP connection to it is probed."),
    unset("publish.NAME.origin.keep_alive_timeout", "duration", r#""90s""#,
        "After how long an idle connection is closed."),
    unset("publish.NAME.origin.keep_alive_connections", "number", "100",
        "How many idle connections are kept."),
    unset("publish.NAME.origin.no_happy_eyeballs", "true or false", "true",
        "Whether IPv4 is not tried while IPv6 does not answer."),
    unset("publish.NAME.origin.host_header", "text", r#""app.internal""#,
        "The `Host` that it sees instead of the one that was asked for."),
    unset("publish.NAME.origin.server_name", "text", r#""app.internal""#,
        "The name that its certificate must have."),
    unset("publish.NAME.origin.match_sni_to_host", "true or false", "true",
        "Whether that is the name which was asked for."),
    unset("publish.NAME.origin.ca_pool", "text", r#""/etc/ssl/internal.pem""#,
        "A file beside the connector with the certificate authorities that count."),
    unset("publish.NAME.origin.no_tls_verify", "true or false", "true",
        "Whether any certificate will do."),
    unset("publish.NAME.origin.http2", "true or false", "true",
        "Whether HTTP/2 is spoken to it."),
    unset("publish.NAME.origin.disable_chunked_encoding", "true or false", "true",
        "Whether requests reach it in one piece, for servers that know no other."),
    unset("publish.NAME.origin.proxy_type", r#"`"off"` or `"socks"`"#, r#""socks""#,
        "Whether the connector is a SOCKS proxy to it."),

    key("server.NAME.hosts", "list of hostnames", "[]",
        "The hostnames that lead to this server, as players type them. `*.example.com` is every name below `example.com`; an exact name goes first."),
    key("server.NAME.default", "true or false", "false",
        "Takes the players whose hostname leads nowhere, those who typed an IP address among them. One server at most."),
    unset("server.NAME.address", "address or list", r#""127.0.0.1:25566""#,
        "Where the server listens; the port is 25565 if none is written. Without `command`: required, and with several the first that answers is used. With `command`: one, and `127.0.0.1:25565` if it is not set."),
    unset("server.NAME.command", "list of words or text", r#"["java", "-Xmx4G", "-jar", "server.jar", "nogui"]"#,
        "The program that the gate starts when somebody joins, and its arguments. A text is split as a shell would, but there is no shell: nothing is expanded. Without it the server is one that runs by itself."),
    unset("server.NAME.directory", "path", r#""survival""#,
        "Where the command runs: the server's files, its world among them. Required with `command`; no two servers may share one."),
    unset("server.NAME.env", "table", r#"{ TZ = "Europe/Berlin" }"#,
        "Environment variables for the command. Of the gate's own it gets only `PATH`, `HOME`, `USER`, `LOGNAME`, `LANG`, `LC_ALL`, `TZ`, `TMPDIR` and `JAVA_HOME`."),

    key("server.NAME.wake", "true or false", "true",
        "Whether a join starts the server when it is asleep."),
    key("server.NAME.default_wakes", "true or false", "false",
        "Whether that is so for a join that got here as `default` only. Port scanners do that all day."),
    key("server.NAME.sleep", "true or false", "true",
        "Whether the server is stopped when nobody plays."),
    key("server.NAME.idle", "duration", r#""15m""#,
        "How long it must have been empty, without a break, before it is stopped."),
    key("server.NAME.awake", "list of hours", "[]",
        "Hours in which it is kept awake: started when they begin and not put to sleep before they end, as in `mon-fri 18:00-23:00 Europe/Berlin`. Hours that end before they begin go on past midnight."),
    key("server.NAME.players", r#"`"game"` or `"connections"`"#, r#""game""#,
        "Who says that it is empty. `game`: its own answer to a server list ping; one that does not answer is kept awake. `connections`: the gate's own connections, for a game that cannot be asked; players who reach it another way are not seen."),
    key("server.NAME.ready", r#"`"status"` or `"tcp"`"#, r#""status""#,
        "What shows that it takes players: it answers a server list ping, or its port is open."),
    key("server.NAME.start_timeout", "duration", r#""10m""#,
        "How long a start may take before players are told that it failed."),
    key("server.NAME.cooldown", "duration", r#""1m""#,
        "After a failed start: how long until a join may try again."),
    key("server.NAME.wait", r#"`"world"`, `"room"`, `"hold"` or `"kick"`"#, r#""world""#,
        "How a player waits for a start, at best; [`waiting.md`](waiting.md) says who gets what. `world`: in an empty world of the gate's own, as long as it takes. `room`: on a loading screen, as long as it takes. `hold`: on the open connection, and lands in the game if it is up in time. `kick`: is told at once to come back."),
    key("server.NAME.modded", r#"`"hold"` or `"room"`"#, r#""hold""#,
        "How a player waits at best whose client says in its first packet that it has Forge. `room` is not known to work with every version of it."),
    key("server.NAME.hold", "duration", r#""25s""#,
        "How long a player waits on the open connection before being told to come back. At most `28s`: the game gives up after 30."),
    key("server.NAME.public_address", "address", r#""""#,
        "Where players are sent when they have waited in the world or the room and the server is up: an address that leads to the gate. Empty: the host and port with which they came in, which is right unless something on the way changes them."),

    key("server.NAME.clients.allow", "list of networks", "[]",
        "Which client addresses may connect to this server. Empty: all that `clients` lets in."),
    key("server.NAME.clients.deny", "list of networks", "[]",
        "Which client addresses may not."),
    key("server.NAME.wakers.names", "list of player names", "[]",
        "Who may wake the server. If all three lists of `wakers` are empty, everybody who may connect; otherwise any one match is enough. A name is what the client claims: it keeps strangers from waking a server, not a liar, unless `verified` is set."),
    key("server.NAME.wakers.uuids", "list of UUIDs", "[]",
        "The same by UUID, which is a claim as well, and which clients before Minecraft 1.19 do not send unless `verified` is set."),
    key("server.NAME.wakers.addresses", "list of networks", "[]",
        "The same by client address."),
    key("server.NAME.wakers.verified", "true or false", "false",
        "Whether whoever wakes the server must prove first that the account is theirs, as on a server in online mode: the gate asks the session server. Names and UUIDs above are then those of the account. [`waiting.md`](waiting.md) says what players see of it."),

    key("server.NAME.proxy_protocol", r#"`"off"`, `"v1"` or `"v2"`"#, r#""off""#,
        "Whether the server is told the player's real address by a PROXY protocol header. It must be set up to expect one, or nobody can join."),
    key("server.NAME.rewrite_host", "text", r#""""#,
        "The hostname that the server sees instead of the one the player typed. Empty: what the client sent, byte for byte."),

    key("server.NAME.stop", "text", r#""stop""#,
        "The console command that stops the server. Empty: SIGTERM. With `command` only, as are the keys up to `restart_window`."),
    key("server.NAME.grace", "duration", r#""90s""#,
        "How long a stop may take before the next step: the console command, then SIGTERM, then SIGKILL."),
    key("server.NAME.kill", "true or false", "true",
        "Whether there is that last step. If not, the gate waits for the server as long as it takes, and says so."),
    key("server.NAME.restart_delay", "duration", r#""5s""#,
        "From a crash to the next start."),
    key("server.NAME.max_restarts", "number", "3",
        "How many crashes in a row are followed by a start before the server counts as failed."),
    key("server.NAME.restart_window", "duration", r#""10m""#,
        "A run this long forgets the crashes before it."),

    text("server.NAME.texts.asleep", Texts::ASLEEP, "In the server list while it sleeps."),
    text("server.NAME.texts.starting", Texts::STARTING, "In the server list while it starts."),
    text("server.NAME.texts.restarting", Texts::RESTARTING, "In the server list after a crash, until the next start."),
    text("server.NAME.texts.stopping", Texts::STOPPING, "In the server list while it stops."),
    text("server.NAME.texts.failed", Texts::FAILED, "In the server list, and to a player who joins, when it could not be started."),
    text("server.NAME.texts.unreachable", Texts::UNREACHABLE, "In the server list, and to a player who joins, when it should be up and does not answer."),
    text("server.NAME.texts.title", Texts::TITLE, "In large letters in the world where a player waits. The bar above it shows the text of the server list."),
    text("server.NAME.texts.subtitle", Texts::SUBTITLE, "Below that."),
    text("server.NAME.texts.welcome", Texts::WELCOME, "In the chat of that world."),
    text("server.NAME.texts.rejoin", Texts::REJOIN, "To a player behind a proxy such as Velocity who has waited in the world: the server is up, join again."),
    text("server.NAME.texts.wait", Texts::WAIT, "To a player who has waited, or may not wait, for a start: the last words before the disconnect."),
];

/// Whether there is a key with this path.
pub(super) fn documented(path: &str) -> bool {
    KEYS.iter().any(|key| key.path == path)
}

/// What may stand in the table that is documented as one and written as the other.
pub(super) fn names(documented: &str, written: &str) -> Vec<&'static str> {
    let inside = |key: &Key| match documented {
        "" => Some(key.path),
        table => key.path.strip_prefix(table)?.strip_prefix('.'),
    };
    let names =
        KEYS.iter().filter_map(inside).map(|rest| rest.split_once('.').map_or(rest, |(name, _)| name));
    let mut names: Vec<&str> = names.chain((documented.is_empty()).then_some(DEFAULTS)).collect();
    names.retain(|name| written != DEFAULTS || !ONE_SERVER_ONLY.contains(name));
    names.dedup();
    names
}

/// The keys that an environment variable can set: those that stand once in a file.
pub(super) fn overridable() -> impl Iterator<Item = String> {
    KEYS.iter().filter_map(|key| match key.path.split_once(".NAME.") {
        Some(("server", name)) if !ONE_SERVER_ONLY.contains(&name) => Some(format!("{DEFAULTS}.{name}")),
        Some(_) => None,
        None if key.path.starts_with(LISTENER) => None,
        None => Some(key.path.to_owned()),
    })
}

/// The table that has a key of this name, for people who wrote it elsewhere.
pub(super) fn home_of(name: &str) -> Option<String> {
    let (home, _) = KEYS.iter().find_map(|key| match key.path.rsplit_once('.') {
        Some((table, last)) => (last == name).then_some((table, last)),
        None => (key.path == name).then_some(("", name)),
    })?;
    Some(match home {
        "" => "the top of the file, above every table".to_owned(),
        LISTENER => "[[listener]]".to_owned(),
        SERVER if !ONE_SERVER_ONLY.contains(&name) => format!("[{SERVER}] or [{DEFAULTS}]"),
        table => format!("[{table}]"),
    })
}
