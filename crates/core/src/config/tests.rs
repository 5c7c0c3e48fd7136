mod messages;

use std::fmt::Write as _;

use proptest::prelude::*;

use super::keys::{KEYS, Key};
use super::*;
use crate::service::{Players, ProxyVersion, Ready, Wait};

fn problems(file: &str, overrides: &[Override]) -> Vec<String> {
    let problems = parse(file, overrides).err().unwrap_or_default();
    problems.iter().map(Problem::to_string).collect()
}

fn checked(file: &str, overrides: &[Override]) -> Checked {
    parse(file, overrides).unwrap_or_else(|problems| panic!("{problems:#?}\n{file}"))
}

fn warnings(file: &str, overrides: &[Override]) -> Vec<String> {
    checked(file, overrides).warnings.iter().map(Problem::to_string).collect()
}

#[test]
fn defaults_speak_for_the_servers_that_are_silent() {
    let file = r#"
        [defaults]
        idle = "5m"
        wait = "kick"
        proxy_protocol = "v2"
        rewrite_host = "all.example"
        grace = "3m"
        stop = "end"
        clients.deny = "192.0.2.0/24"
        texts.asleep = "Zzz"

        [server.quiet]
        hosts = "quiet.example"
        command = "java -jar server.jar nogui"
        directory = "quiet"
        address = "127.0.0.1:25566"

        [server.loud]
        hosts = ["Loud.example.", " ", "loud.example", "*.loud.example"]
        default = true
        default_wakes = true
        command = ["./run me"]
        directory = "/srv/loud"
        env = { JAVA_HOME = "/opt/java" }
        address = "127.0.0.1:25567"
        idle = "1h 30m"
        wait = "hold"
        players = "connections"
        ready = "tcp"
        proxy_protocol = "off"
        rewrite_host = ""
        stop = ""
        kill = false
        clients = { allow = "10.0.0.0/8", deny = [] }
        wakers.names = ["Alex", "sam"]
        texts.wait = "soon"
    "#;
    let Checked { config, warnings } = checked(file, &[]);
    assert_eq!(warnings, []);
    let [quiet, loud] = config.servers.as_slice() else { panic!("{:?}", config.servers) };

    let spec = &*quiet.spec;
    assert_eq!((&*quiet.name, spec.idle, spec.wait), ("quiet", Duration::from_secs(300), Wait::Kick));
    assert_eq!(
        (spec.send_proxy, spec.rewrite_host.as_deref()),
        (Some(ProxyVersion::V2), Some("all.example"))
    );
    assert_eq!((spec.clients.deny.len(), spec.texts.asleep.as_str()), (1, "Zzz"));
    let Kind::Process(process) = &quiet.kind else { panic!("{:?}", quiet.kind) };
    assert_eq!(process.command, ["java", "-jar", "server.jar", "nogui"]);
    assert_eq!(process.stop_command.as_deref(), Some("end"));
    assert_eq!((process.grace, process.kill), (Duration::from_secs(180), true));
    assert_eq!((process.name.clone(), process.spec.clone()), (quiet.name.clone(), quiet.spec.clone()));

    let spec = &*loud.spec;
    let hosts: Vec<String> = spec.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts, ["loud.example", "*.loud.example"]);
    assert_eq!((spec.idle, spec.wait), (Duration::from_secs(5400), Wait::Hold));
    assert_eq!((spec.players, spec.ready), (Players::Connections, Ready::Tcp));
    assert_eq!((spec.default, spec.default_wakes), (true, true));
    assert_eq!((spec.send_proxy, &spec.rewrite_host), (None, &None));
    assert_eq!((spec.clients.allow.len(), spec.clients.deny.len()), (1, 0));
    assert!(spec.wakers.names.contains("alex"));
    assert_eq!((spec.texts.asleep.as_str(), spec.texts.wait.as_str()), ("Zzz", "soon"));
    let Kind::Process(process) = &loud.kind else { panic!("{:?}", loud.kind) };
    assert_eq!(
        (process.command.as_slice(), &process.stop_command),
        (["./run me".to_owned()].as_slice(), &None)
    );
    assert_eq!((process.grace, process.kill), (Duration::from_secs(180), false));
    assert_eq!(process.env.get("JAVA_HOME").map(String::as_str), Some("/opt/java"));
}

#[test]
fn listeners() {
    let addresses = |file: &str| -> Vec<String> {
        let listeners = checked(file, &[]).config.listeners;
        listeners
            .iter()
            .map(|l| format!("{} {:?} {}", l.address, l.proxy_protocol, l.trusted.len()))
            .collect()
    };
    for (file, expected) in [
        ("", vec!["[::]:25565 Off 0"]),
        ("listen = '0.0.0.0:1, :2'", vec!["0.0.0.0:1 Off 0", "[::]:2 Off 0"]),
        (
            "[[listener]]\naddress = ':1'\nproxy_protocol = 'required'\ntrusted = ['10.0.0.0/8', '::1']",
            vec!["[::]:1 Required 2"],
        ),
        ("listen = ':1'\n[[listener]]\naddress = ':2'", vec!["[::]:1 Off 0", "[::]:2 Off 0"]),
    ] {
        assert_eq!(addresses(file), expected, "{file}");
    }
}

#[test]
fn no_server_is_the_gate_itself() {
    for (listen, address, ours) in [
        ("[::]:25565", "127.0.0.1", true),
        ("[::]:25565", "localhost", true),
        ("0.0.0.0:25565", "[::1]:25565", true),
        ("10.0.0.5:25565", "10.0.0.5", true),
        ("10.0.0.5:25565", "127.0.0.1", false),
        ("[::]:25565", "127.0.0.1:25566", false),
        ("[::]:25565", "10.0.0.5", false),
        ("[::]:25565", "backend", false),
    ] {
        let file = format!("listen = '{listen}'\n[server.a]\nhosts = 'a'\naddress = '{address}'");
        assert_eq!(parse(&file, &[]).is_err(), ours, "{listen} {address}");
    }
}

#[test]
fn paths_are_relative_to_the_file() {
    let servers = "[server.a]\nhosts = 'a'\ncommand = 'x'\ndirectory = 'world'\naddress = 'localhost:2'";
    for (top, data_dir, control) in [
        ("", "/etc/gate/swarmgate-data", "/etc/gate/swarmgate-data/control.sock"),
        ("data_dir = '/var/gate'\n", "/var/gate", "/var/gate/control.sock"),
        ("data_dir = 'd'\ncontrol = 'c'\n", "/etc/gate/d", "/etc/gate/c"),
        ("data_dir = './off'\n", "/etc/gate/./off", "/etc/gate/./off/control.sock"),
    ] {
        let config = checked(&format!("{top}{servers}"), &[]).config.beside(Path::new("/etc/gate"));
        assert_eq!(config.data_dir, Path::new(data_dir));
        assert_eq!(config.control, Path::new(control));
        let Kind::Process(process) = &config.servers[0].kind else { panic!("{:?}", config.servers) };
        assert_eq!(process.directory, Path::new("/etc/gate/world"));
    }
}

#[test]
fn overrides_have_the_last_word() {
    let variable = |name: &str, value: &str| Override::from_variable(name, value).unwrap();
    let file =
        "drain = '1m'\nlog.level = 'warn'\n[defaults]\nidle = '2h'\n[server.a]\nhosts = 'a'\naddress = 'a'";
    let overrides = [
        variable("SWARMGATE_LOG_LEVEL", "debug"),
        variable("SWARMGATE_LISTEN", ":1, [::1]:2"),
        variable("SWARMGATE_LIMITS_HALF_OPEN_TOTAL", "99"),
        variable("SWARMGATE_CLIENTS_DENY", "[\"192.0.2.1\"]"),
        variable("SWARMGATE_DEFAULTS_IDLE", "3h"),
        Override::from_flag("--drain", "drain", "2m"),
        Override::from_flag("--log-level", "log.level", "trace"),
    ];
    let Checked { config, warnings: none } = checked(file, &overrides);
    assert_eq!(none, []);
    assert_eq!((config.log.level, config.drain), (LogLevel::Trace, Duration::from_secs(120)));
    assert_eq!(config.listeners.len(), 2);
    assert_eq!((config.limits.half_open_total, config.clients.deny.len()), (99, 1));
    assert_eq!(config.servers[0].spec.idle, Duration::from_secs(3 * 60 * 60));

    assert_eq!(Override::from_variable("SWARMGATE_HTTP", ""), None, "empty is not set");
    assert_eq!(Override::from_variable("PATH", "/bin"), None);

    let overrides = [
        variable("SWARMGATE_LOGLEVEL", "debug"),
        variable("SWARMGATE_SERVER_A_ADDRESS", "b"),
        variable("SWARMGATE_LIMITS_WAKE_BURST", "many"),
        Override::from_flag("--drain", "drain", "soon"),
    ];
    assert_eq!(
        problems(file, &overrides),
        [
            "--drain: \"soon\" is not a length of time; write it as \"90s\", \"15m\" or \"1h 30m\"",
            "SWARMGATE_LIMITS_WAKE_BURST: is text; write a whole number, without quotes",
        ]
    );
    assert_eq!(
        warnings(file, &overrides[..2]),
        [
            "SWARMGATE_LOGLEVEL: sets no known key; did you mean SWARMGATE_LOG_LEVEL?",
            "SWARMGATE_SERVER_A_ADDRESS: sets no known key; it changes nothing",
        ]
    );
}

/// What the page says is the default is what a file gets that says nothing.
#[test]
fn the_documented_defaults_are_the_defaults() {
    let server = "[server.a]\nhosts = 'a'\ncommand = 'java'\ndirectory = 'a'\naddress = '127.0.0.1:25566'\n";
    let (top, keys, publish) = written(|key| key.default.map(|default| default.to_string()));
    let publish = publish.replace("hosts = []\n", "");
    let web = "[publish.a]\nhosts = 'a.example'\naddress = 'a:1'\n";
    let keys: Vec<&str> =
        keys.lines().filter(|line| !line.starts_with("hosts ") && !line.starts_with("default ")).collect();
    let tunnel = "cloudflare = { account = '0da42c8d2132a9ddaf714f9e7c920711', token = 'x', \
                  tunnel = 'f70ff985-a4ef-4643-bbbc-4a0ed4fc8415' }\n";
    let is_of_tunnel = |line: &&str| line.starts_with("cloudflare.");
    let (of_tunnel, top): (Vec<&str>, Vec<&str>) = top.lines().partition(is_of_tunnel);
    let of_tunnel: Vec<&str> = of_tunnel.iter().filter_map(|line| line.strip_prefix("cloudflare.")).collect();
    let of_tunnel = of_tunnel.join(", ");
    let explicit = format!(
        "{}{}\n{web}{publish}[defaults]\n{}\n{server}",
        tunnel.replace(" }", &format!(", {of_tunnel} }}")),
        top.join("\n"),
        keys.join("\n")
    );
    let silent = format!("{tunnel}{web}{server}");
    assert_eq!(checked(&explicit, &[]).config, checked(&silent, &[]).config);
}

/// Every key is taken where the page puts it.
#[test]
fn the_documented_examples_are_valid() {
    // Of these one alone can be.
    let others =
        ["api.token", "cloudflare.token_file", "cloudflare.key", "cloudflare.key_file", "cloudflare.email"];
    let (top, keys, publish) = written(|key| (!others.contains(&key.path)).then(|| key.example.to_string()));
    let publish = publish.replace("hosts = []", "hosts = 'app.example.com'");
    let mut listener = String::from("[[listener]]\n");
    for key in KEYS {
        if let Some(name) = key.path.strip_prefix("listener.") {
            let _ = writeln!(listener, "{name} = {}", key.example);
        }
    }
    let file = format!("{top}{listener}[publish.NAME]\n{publish}[server.NAME]\n{keys}");
    let Checked { config, warnings } = checked(&file, &[]);
    assert_eq!((config.servers.len(), config.published.len(), warnings), (1, 1, vec![]));
    assert!(config.cloudflare.is_some());
}

/// The keys outside of the tables with names, those of a server and those of a publication.
fn written(value: impl Fn(&Key) -> Option<String>) -> (String, String, String) {
    let (mut top, mut server, mut publish) = (String::new(), String::new(), String::new());
    for key in KEYS.iter().filter(|key| !key.path.starts_with("listener.")) {
        let Some(value) = value(key) else { continue };
        let _ = match key.path.split_once(".NAME.") {
            Some(("server", name)) => writeln!(server, "{name} = {value}"),
            Some((_, name)) => writeln!(publish, "{name} = {value}"),
            None => writeln!(top, "{} = {value}", key.path),
        };
    }
    (top, server, publish)
}

/// Lines that reach into every corner of the reader, right and wrong.
fn line() -> impl Strategy<Value = String> {
    let keys: Vec<&str> = KEYS.iter().map(|key| key.path.rsplit('.').next().unwrap_or_default()).collect();
    let values = [
        "1",
        "-1",
        "true",
        "\"\"",
        "\"a:1\"",
        "\"5m\"",
        "[]",
        "[1, \"x\"]",
        "{ a = \"b\" }",
        "1979-05-27",
        "'é'",
    ];
    let tables = [
        "[limits]",
        "[[listener]]",
        "[server.a]",
        "[server.é]",
        "[defaults]",
        "[log]",
        "[server]",
        "[clients]",
        "[cloudflare]",
        "[publish.a]",
    ];
    prop_oneof![
        4 => (prop::sample::select(keys), prop::sample::select(values.to_vec())).prop_map(|(k, v)| format!("{k} = {v}")),
        2 => prop::sample::select(tables.to_vec()).prop_map(str::to_owned),
        1 => "\\PC{0,20}",
    ]
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}", value in "\\PC{0,20}") {
        let _ = parse(&text, &[Override::from_flag("--x", "limits.wake_rate", &value)]);
    }

    #[test]
    fn no_mixture_of_keys_panics_or_fails_silently(lines in prop::collection::vec(line(), 0..30)) {
        if let Err(problems) = parse(&lines.join("\n"), &[]) {
            prop_assert!(!problems.is_empty());
        }
    }
}
