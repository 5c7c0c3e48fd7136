//! Broken files, and word for word what their owners read.

use super::{problems, warnings};

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let cases: &[(&str, &[&str])] = &[
        (
            "lissten = ':1'
[servers.a]
address = 'a'",
            &[
                "1:1 lissten: there is no such key; did you mean 'listen'?",
                "2:2 servers: there is no such key; did you mean 'server'?",
            ],
        ),
        (
            "listen =
[log]
level = 'info'
level = 'info'",
            &[
                "1:9 this is not TOML: string values must be quoted, expected literal string",
                "4:1 this is not TOML: duplicate key",
            ],
        ),
        (
            "listen = ['[::]:1', 'localhost:1', 5]
http = 'on'
drain = 30
on_exit = true",
            &[
                r#"1:21 listen: "localhost:1" is not an address to listen on; write an IP address and a port, such as "[::]:25565" (every address) or "127.0.0.1:25565""#,
                "1:36 listen: is a number; write text in quotes",
                r#"2:8 http: "on" is not an address to listen on; write an IP address and a port, such as "[::]:25565" (every address) or "127.0.0.1:25565", or "off""#,
                r#"3:9 drain: 30 has no unit; write "30s" for seconds, "30m" for minutes or "30h" for hours"#,
                r#"4:11 on_exit: is true or false; write one of "keep", "stop""#,
            ],
        ),
        (
            "listener = 5
server = 1
log = []
listen = []",
            &[
                "1:12 listener: is a number where [[listener]] is expected; write each between double brackets",
                "2:10 server: is a number where a table is expected; write [server] and its keys below",
                "3:7 log: is a list where a table is expected; write [log] and its keys below",
                "4:10 listen: is empty; write at least one, or leave the key out",
            ],
        ),
        (
            "idle = '5m'
[defaults]
hosts = 'a'
idle = '0'
[log]
level = 'inof'
wake_rate = '1/s'",
            &[
                "1:1 idle: there is no such key; it belongs in [server.NAME] or [defaults]",
                "3:1 defaults.hosts: is each server's own; write it in [server.NAME]",
                r#"4:8 defaults.idle: a server that sleeps at once cannot be joined; write how long it must be empty, such as "15m", or sleep = false to keep it awake"#,
                r#"6:9 log.level: "inof" is not a value of this key; did you mean "info"?"#,
                "7:1 log.wake_rate: there is no such key; it belongs in [limits]",
            ],
        ),
        (
            "[cloudflare]
account = 'me@example.com'
tunnel = 'home'
instance = 'Home gate'
team = 'acme.example.com'
grace = '30'
max_deletions = 0
[publish.shop]
hosts = 'shop, shop.example.com:80'
address = 'http://shop'
path = '('
origin.connect_timeout = '1500ms'",
            &[
                r#"1:2 cloudflare: nothing says with which rights; write token_file = "..." with the file of an API token"#,
                r#"2:11 cloudflare.account: it is not the id of an account; write the 32 hexadecimal digits after dash.cloudflare.com/ in the dashboard's address"#,
                r#"3:10 cloudflare.tunnel: it is not the id of a tunnel; write the tunnel's UUID, such as "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415", not its name or token"#,
                r#"4:12 cloudflare.instance: "Home gate" cannot be the name of a gate; use up to 32 of a to z, 0 to 9 and '-'"#,
                r#"5:8 cloudflare.team: "acme.example.com" is not the name of a team; write what stands before .cloudflareaccess.com"#,
                r#"6:9 cloudflare.grace: 30 has no unit; write "30s" for seconds, "30m" for minutes or "30h" for hours"#,
                "7:17 cloudflare.max_deletions: 0 is out of range; write a whole number from 1 to 1000000000",
                r#"9:9 publish.shop.hosts: "shop" is not a name below a domain; write a name such as "app.example.com" or "*.example.com", without scheme, port or path"#,
                r#"9:9 publish.shop.hosts: "shop.example.com:80" is not a hostname: ':' is not a character a hostname may have; write a name such as "app.example.com" or "*.example.com", without scheme, port or path"#,
                r#"10:11 publish.shop.address: "http://shop" is not an address of a service; write it as "host:port", such as "web:8080" or "[2001:db8::7]:80""#,
                r#"11:8 publish.shop.path: "(" is not a path: a '(' is not closed; write a regular expression such as "^/api(/|$)""#,
                r#"12:26 publish.shop.origin.connect_timeout: "1500ms" is not a whole number of seconds; write "1s" or more, without a fraction"#,
            ],
        ),
        (
            "[cloudflare]
tunnel = 'f70ff985-a4ef-4643-bbbc-4a0ed4fc8415'
token = 'x'
key = 'y'
tokenfile = 'z'
[publish.shop]",
            &[
                r#"1:2 cloudflare: nothing says which account is meant; write account = "..." with the account's id"#,
                "4:7 cloudflare.key: there is a token, too; leave the token: it can do no more than it must",
                "5:1 cloudflare.tokenfile: there is no such key; did you mean 'token_file'?",
                r#"6:10 publish.shop: no hostname leads to it; write hosts = ["app.example.com"]"#,
                r#"6:10 publish.shop: nothing says where it is; write address = "host:port", as the connector reaches it"#,
            ],
        ),
        (
            "[limits]
wake_rate = '0/s'
wake_burst = 0
login_burst = '9'
half_open_total = -1
opening_deadline = '1ms'",
            &[
                r#"2:13 limits.wake_rate: "0/s" is not a rate; write a whole number from 1 up per s, m or h, such as "10/s" or "6/m""#,
                "3:14 limits.wake_burst: 0 is out of range; write a whole number from 1 to 1000000000",
                "4:15 limits.login_burst: is text; write a whole number, without quotes",
                "5:19 limits.half_open_total: -1 is out of range; write a whole number from 1 to 1000000000",
                r#"6:20 limits.opening_deadline: is too short for players far away; write "500ms" or more"#,
            ],
        ),
        (
            "[[listener]]
address = ':1'
proxy_protocol = 'optional'
[[listener]]
trusted = '10/8'
[[listener]]
address = ':1'",
            &[
                r#"1:1 listener.trusted: no address is trusted, so no PROXY header is read; write trusted = ["..."] with the addresses of the proxies in front of the gate"#,
                r#"4:1 listener: a listener needs an address; write address = "[::]:25565""#,
                r#"5:11 listener.trusted: "10/8" is not an address or network; write an IP address or a network, such as "192.0.2.7" or "10.0.0.0/8""#,
                "7:11 listener.address: [::]:1 is listened on twice; remove one of them",
            ],
        ),
        (
            "[server.a]\nhosts = 'a'\ncomand = 'x'\nmood = 1\n[log]\nmood = 1",
            &[
                r#"1:9 server.a: neither an address nor a command says where this server is; write address = "host:25565" for a server that runs by itself, or command = ["java", ...] for one that the gate starts"#,
                "3:1 server.a.comand: there is no such key; did you mean 'command'?",
                "4:1 server.a.mood: there is no such key; the keys here are hosts, default, address, command, directory, env, wake, default_wakes, sleep, idle, awake, players, ready, start_timeout, cooldown, wait, modded, hold, public_address, clients, wakers, proxy_protocol, rewrite_host, stop, grace, kill, restart_delay, max_restarts, restart_window, texts",
                "6:1 log.mood: there is no such key; the keys here are level, format, name, environment",
            ],
        ),
        (
            "[server.survival]
hosts = 'a.example, b..example'
address = '10.0.0.5:99999'
idel = '15m'
hold = '29s'
wait = 'holdd'",
            &[
                r#"2:9 server.survival.hosts: "b..example" is not a hostname: there is an empty part between two dots; write a name such as "mc.example.com" or "*.example.com", without port or path"#,
                r#"3:11 server.survival.address: "10.0.0.5:99999" is not an address to dial: "99999" is not a port from 1 to 65535; write it as "host:port", such as "127.0.0.1:25566" or "[::1]:25566""#,
                "4:1 server.survival.idel: there is no such key; did you mean 'idle'?",
                r#"5:8 server.survival.hold: the game's client itself gives up after 30 s; write "28s" or less"#,
                r#"6:8 server.survival.wait: "holdd" is not a value of this key; did you mean "hold"?"#,
            ],
        ),
        (
            "[server.a]
hosts = ['x.example']
address = 'a'
default = true
[server.b]
hosts = ['b.example', 'X.example.']
address = 'b'
default = true",
            &[
                r#"6:23 server.b.hosts: "x.example" leads to server.a already; a hostname leads to one server: remove it from one of them"#,
                "8:11 server.b.default: server.a is the default already; leave one default, or none",
            ],
        ),
        (
            r#"[server.a]
hosts = 'a'
[server.b]
hosts = 'b'
command = "java 's.jar"
[server.c]
hosts = 'c'
command = ''
directory = ''"#,
            &[
                r#"1:9 server.a: neither an address nor a command says where this server is; write address = "host:25565" for a server that runs by itself, or command = ["java", ...] for one that the gate starts"#,
                r#"3:9 server.b: a server with a command needs a directory; write directory = "...", where the server's files and its world are"#,
                "5:11 server.b.command: the quote ' is not closed; close it, or write a list of words",
                "8:11 server.c.command: the command is empty; write the program and its arguments",
                "9:13 server.c.directory: the path is empty; write a path, or leave the key out",
            ],
        ),
        (
            "[server.a]
hosts = 'a'
command = 'x'
directory = 'w'
[server.b]
hosts = 'b'
command = 'x'
directory = './w/'
address = 'localhost:2'
[server.c]
hosts = 'c'
command = 'x'
directory = 'c'
address = 'localhost:2'",
            &[
                r#"1:9 server.a.address: the gate itself listens on 127.0.0.1:25565; let the server listen on another port (server-port in server.properties) and write it here, such as address = "127.0.0.1:25566""#,
                "8:13 server.b.directory: server.a runs in it too; give each server a directory of its own, or they damage the world",
                "14:11 server.c.address: server.b listens on localhost:2 too; give each server a port of its own",
            ],
        ),
        (
            r#"[server.'a b']
hosts = 'a'
address = 'a'
env.A = 'b'
wakers.uuids = ['x']
clients.alow = []
rewrite_host = "\u0000""#,
            &[
                r#"1:9 server.a b: "a b" cannot be a server's name; use up to 63 letters, digits, '-' and '_', as in [server.survival]"#,
                "4:1 server.a b.env: means nothing for a server that the gate does not start; add a command, or remove it",
                r#"5:17 server.a b.wakers.uuids: "x" is not a player's UUID; write it as "069a79f4-44e9-4726-a5be-fca90e38aaf5""#,
                "6:9 server.a b.clients.alow: there is no such key; did you mean 'allow'?",
                r#"7:16 server.a b.rewrite_host: is not an address that a handshake can carry, at most 255 bytes; write the name the backend expects, such as "mc.example.com""#,
            ],
        ),
        (
            "[server.a]
hosts = 'a'
command = ['x', 1]
directory = 'a'
address = ['b', 'c']
env = { A = 1 }",
            &[
                "3:17 server.a.command: is a number; write text in quotes",
                "5:11 server.a.address: is a list; write text in quotes",
                r#"6:1 server.a.env: "A" is a number; write text in quotes"#,
            ],
        ),
        (
            "[server.a]\nhosts = 'a'\naddress = 'a'\ntexts = { asleep = '<gary>z', wait = '{\"text\":', failed = '<red>x</bold>' }",
            &[
                "4:20 server.a.texts.asleep: there is no tag <gary> (did you mean 'gray'?); write \\< for the sign itself",
                "4:38 server.a.texts.wait: the text begins like JSON, but is none: EOF while parsing a value at line 1 column 8",
                "4:59 server.a.texts.failed: </bold> closes nothing that is open",
            ],
        ),
    ];
    for (file, expected) in cases {
        assert_eq!(problems(file, &[]), *expected, "{file}");
    }
}

#[test]
fn what_was_probably_meant_otherwise_is_a_warning() {
    let cases: &[(&str, &[&str])] = &[
        (
            "docker.swarm = 'off'",
            &[
                "1:1 there is no server, so every hostname is unknown; add a [server.NAME] for each of your servers",
            ],
        ),
        (
            "[[listener]]
address = ':1'
trusted = '10.0.0.0/8'
[[listener]]
address = ':2'
proxy_protocol = 'required'
trusted = '::/0'
[server]
[docker]
swarm = 'off'",
            &[
                "1:1 there is no server, so every hostname is unknown; add a [server.NAME] for each of your servers",
                r#"3:11 listener.trusted: has no effect while proxy_protocol is off; add proxy_protocol = "optional" or "required""#,
                "7:11 listener.trusted: ::/0 is everybody, so anyone can claim to be any client; list the proxies in front of the gate only",
            ],
        ),
        // A gate that only publishes.
        (
            "[docker]
swarm = 'off'
[cloudflare]
account = '01a7362d577a6c3019a474fd6f485823'
tunnel = 'f70ff985-a4ef-4643-bbbc-4a0ed4fc8415'
token_file = '/x'",
            &[],
        ),
        (
            r#"[server.a]
address = 'a'
idle = '10s'
default_wakes = true
texts.asleep = '{sever} {"text": 1} {zzz} {server}'"#,
            &[
                r#"1:9 server.a: no hostname leads to this server; write hosts = ["mc.example.com"], or default = true"#,
                r#"3:8 server.a.idle: a player who only reconnects would find it asleep; write "5m" or more, unless this is a test"#,
                "3:8 server.a.idle: has no effect: the gate neither starts nor stops a server that has no command; remove it, or add a command",
                "4:17 server.a.default_wakes: has no effect without default = true; add default = true, or remove it",
                "5:16 server.a.texts.asleep: {sever} is no token and stays as it is; did you mean {server}?",
                "5:16 server.a.texts.asleep: {zzz} is no token and stays as it is; the tokens are {server}, {motd}, {state}, {eta}, {countdown}, {duration}, {reason}, {max}",
            ],
        ),
        (
            "[server.a]
default = true
command = 'a'
directory = 'a'
address = 'localhost:2'",
            &[
                "2:11 server.a.default: joins by the default route alone do not start it; write default_wakes = true, or default_wakes = false if only its owner starts it",
            ],
        ),
        (
            "[server.a]
hosts = 'a'
command = 'a && b'
directory = 'a'
address = 'localhost:2'
start_timeout = '10s'
grace = '1s'
[limits]
held_total = 1",
            &[
                r#"3:11 server.a.command: there is no shell, so "&&" would be an argument of the program; write one program and its arguments, or ["sh", "-c", "..."]"#,
                r#"6:17 server.a.start_timeout: start_timeout is shorter than hold, so a player who waits is told of a failure too early; raise start_timeout to what a slow start takes, such as "10m""#,
                r#"7:9 server.a.grace: a world that saves slowly would be cut off and damaged; write "90s" or more, or kill = false"#,
                "8:2 limits.held_per_source: 64 is more than held_total, which is 1, so it limits nothing; lower it, or raise held_total",
            ],
        ),
    ];
    for (file, expected) in cases {
        assert_eq!(warnings(file, &[]), *expected, "{file}");
    }
}
