//! What is raced: how each is configured and started.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Result, bail};
use tempfile::TempDir;

use crate::{Args, Scenario, local, wire};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    pub kind: Kind,
    /// As root, whatever `--uid` says.
    pub root: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Swarmgate,
    /// The relay of Swarmgate in the shortest possible program.
    RelayOnly,
    /// No proxy.
    Direct,
    HaproxyNosplice,
    /// Splices everything, with as many pipes as it likes.
    HaproxySplice,
    /// Routes by the hostname in the handshake, through a map.
    HaproxyHost,
    /// Answers status pings by a service in Lua.
    HaproxyLua,
    Nginx,
    GoIocopy,
}

const NAMES: [(&str, Kind); 9] = [
    ("swarmgate", Kind::Swarmgate),
    ("relay-only", Kind::RelayOnly),
    ("direct", Kind::Direct),
    ("haproxy-nosplice", Kind::HaproxyNosplice),
    ("haproxy-splice", Kind::HaproxySplice),
    ("haproxy-host", Kind::HaproxyHost),
    ("haproxy-lua", Kind::HaproxyLua),
    ("nginx", Kind::Nginx),
    ("go-iocopy", Kind::GoIocopy),
];

impl FromStr for Peer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, root) = text.strip_suffix("@root").map_or((text, false), |name| (name, true));
        match NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, kind)) => Ok(Self { kind: *kind, root }),
            None => bail!("known are {}", NAMES.map(|(name, _)| name).join(", ")),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, kind)| *kind == self.kind).map_or("?", |(name, _)| name);
        f.pad(&format!("{name}{}", if self.root { "@root" } else { "" }))
    }
}

/// Whom the gates of a scenario compare with.
pub fn of_the_gates(scenario: Scenario) -> Vec<Peer> {
    let kinds: &[Kind] = match scenario {
        Scenario::Game => &[Kind::Direct, Kind::HaproxyNosplice, Kind::GoIocopy],
        Scenario::Bulk => &[Kind::HaproxySplice, Kind::HaproxyNosplice, Kind::GoIocopy],
        Scenario::Idle => &[Kind::HaproxyNosplice, Kind::Nginx, Kind::GoIocopy],
        Scenario::Connrate => &[Kind::HaproxyHost, Kind::GoIocopy],
        Scenario::Status => &[Kind::HaproxyLua, Kind::GoIocopy],
    };
    kinds.iter().map(|&kind| Peer { kind, root: false }).collect()
}

/// Where the peers find their files and each other.
pub struct Place {
    directory: TempDir,
    swarmgate: PathBuf,
    relay_only: PathBuf,
    go: PathBuf,
}

impl Place {
    /// Programs are copied to where any user may run them.
    pub fn new(args: &Args) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("swarmgate-bench-").tempdir()?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777))?;
        let copy = |from: &Path, name: &str| -> Result<PathBuf> {
            let to = directory.path().join(name);
            if from.exists() {
                fs::copy(from, &to)?;
            }
            Ok(to)
        };
        Ok(Self {
            swarmgate: copy(&args.built.join("swarmgate"), "swarmgate")?,
            relay_only: copy(&args.built.join("examples/relay_only"), "relay_only")?,
            go: copy(&args.go, "go-iocopy")?,
            directory,
        })
    }

    pub fn listen(&self) -> SocketAddr {
        local(25565)
    }

    pub fn backend(&self) -> SocketAddr {
        local(25566)
    }

    /// What the proxy under measurement says.
    pub fn log(&self) -> PathBuf {
        self.directory.path().join("stderr")
    }

    fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.directory.path().join(name);
        fs::write(&path, text)?;
        Ok(path)
    }
}

impl Peer {
    /// Why it cannot take part.
    pub fn missing(self, scenario: Scenario, place: &Place) -> Option<&'static str> {
        let answers_status = matches!(self.kind, Kind::Swarmgate | Kind::HaproxyLua | Kind::GoIocopy);
        match (scenario, self.kind) {
            (Scenario::Status, _) if !answers_status => Some("answers no status ping itself"),
            (Scenario::Game | Scenario::Bulk | Scenario::Idle | Scenario::Connrate, Kind::HaproxyLua) => {
                Some("only answers status pings")
            }
            (Scenario::Idle | Scenario::Connrate, Kind::Direct) => Some("there is no process to measure"),
            (_, Kind::Swarmgate) => {
                (!place.swarmgate.exists()).then_some("target/release/swarmgate is not built")
            }
            (_, Kind::RelayOnly) => {
                (!place.relay_only.exists()).then_some("the example relay_only is not built")
            }
            (_, Kind::GoIocopy) => (!place.go.exists()).then_some("no Go toolchain (Debian: golang-go)"),
            (_, Kind::Nginx) => (!Path::new(NGINX_STREAM).exists())
                .then_some("apt-get install nginx-light libnginx-mod-stream"),
            (_, Kind::HaproxyNosplice | Kind::HaproxySplice | Kind::HaproxyHost | Kind::HaproxyLua) => {
                (!Path::new(HAPROXY).exists()).then_some("apt-get install haproxy")
            }
            (_, Kind::Direct) => None,
        }
    }

    /// Started with its own configuration, user and CPU. `None`: there is nothing to start.
    pub fn command(self, args: &Args, place: &Place) -> Result<Option<Command>> {
        let (listen, backend) = (place.listen().to_string(), place.backend().to_string());
        let words: Vec<PathBuf> = match self.kind {
            Kind::Direct => return Ok(None),
            Kind::Swarmgate => {
                let config = place.file("swarmgate.toml", &swarmgate(place, self.user(args)))?;
                vec![place.swarmgate.clone(), "run".into(), "--config".into(), config]
            }
            Kind::RelayOnly => vec![place.relay_only.clone(), listen.into(), backend.into()],
            Kind::GoIocopy => {
                let routes = place.file("routes", &hosts().join("\n"))?;
                vec![place.go.clone(), listen.into(), backend.into(), routes]
            }
            Kind::Nginx => {
                let config = place.file("nginx.conf", &nginx(place))?;
                vec!["nginx".into(), "-e".into(), "stderr".into(), "-c".into(), config]
            }
            Kind::HaproxyNosplice | Kind::HaproxySplice | Kind::HaproxyHost | Kind::HaproxyLua => {
                let config = place.file("haproxy.cfg", &self.haproxy(place)?)?;
                vec![HAPROXY.into(), "-db".into(), "-q".into(), "-f".into(), config]
            }
        };
        let mut command = Command::new("taskset");
        command
            .arg("-c")
            .arg(args.pin.to_string())
            .args(words.iter().map(|word| -> &OsStr { word.as_ref() }));
        command.current_dir(place.directory.path()).stdout(Stdio::null());
        command.stderr(fs::File::create(place.log())?);
        if let Some(uid) = self.user(args) {
            command.uid(uid).gid(uid);
        }
        Ok(Some(command))
    }

    fn user(self, args: &Args) -> Option<u32> {
        args.uid.filter(|_| !self.root)
    }

    fn haproxy(self, place: &Place) -> Result<String> {
        let (global, defaults, frontend) = match self.kind {
            Kind::HaproxySplice => (
                "maxconn 8800\n maxpipes 1000".to_owned(),
                "option splice-request\n option splice-response",
                String::new(),
            ),
            Kind::HaproxyHost => {
                let map: Vec<_> = hosts().iter().map(|host| format!("{host} game")).collect();
                let map = place.file("hosts.map", &map.join("\n"))?;
                let rules = format!(
                    "tcp-request inspect-delay 5s\n \
                     tcp-request content accept if {{ req.payload_lv(4,1) -m found }}\n \
                     use_backend %[req.payload_lv(4,1),lower,map({})]",
                    map.display()
                );
                ("maxconn 9700\n nosplice".to_owned(), "", rules)
            }
            Kind::HaproxyLua => {
                let script = place.file("status.lua", &lua())?;
                let rules = "tcp-request inspect-delay 5s\n tcp-request content use-service lua.status";
                (format!("maxconn 9700\n lua-load {}", script.display()), "", rules.to_owned())
            }
            _ => ("maxconn 9700\n nosplice".to_owned(), "", String::new()),
        };
        let default = if self.kind == Kind::HaproxyHost { "" } else { "default_backend game" };
        Ok(format!(
            "global\n nbthread 1\n {global}\n\
             defaults\n mode tcp\n maxconn 9700\n backlog 4096\n timeout connect 5s\n timeout client 1h\n \
             timeout server 1h\n {defaults}\n\
             frontend players\n bind {}\n {frontend}\n {default}\n\
             backend game\n server game {}\n",
            place.listen(),
            place.backend()
        ))
    }
}

const HAPROXY: &str = "/usr/sbin/haproxy";
const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

fn hosts() -> Vec<String> {
    (0..wire::ROUTES).map(wire::host).collect()
}

fn swarmgate(place: &Place, user: Option<u32>) -> String {
    let hosts: Vec<_> = hosts().iter().map(|host| format!("{host:?}")).collect();
    let user = user.unwrap_or(0);
    format!(
        "listen = [\"{}\"]\ndata_dir = \"data-{user}\"\non_exit = \"stop\"\ndrain = \"0\"\n\
         [limits]\ntrusted_sources = [\"127.0.0.0/8\"]\nhalf_open_total = 10000\nconnections_total = 10000\n\
         [server.game]\nhosts = [{}]\naddress = \"{}\"\nready = \"tcp\"\nplayers = \"connections\"\n\
         [server.asleep]\nhosts = [\"{}\"]\ndirectory = \".\"\ncommand = [\"false\"]\naddress = \"127.0.0.1:25567\"\n",
        place.listen(),
        hosts.join(", "),
        place.backend(),
        wire::ASLEEP,
    )
}

fn nginx(place: &Place) -> String {
    format!(
        "load_module {NGINX_STREAM};\ndaemon off;\nmaster_process off;\npid {}/nginx.pid;\n\
         events {{ worker_connections 19800; }}\n\
         stream {{\n server {{\n listen {} backlog=4096;\n proxy_pass {};\n proxy_timeout 1h;\n }}\n}}\n",
        place.directory.path().display(),
        place.listen(),
        place.backend()
    )
}

fn lua() -> String {
    let mut script = String::new();
    let _ = write!(
        script,
        r#"local function varint(n)
  local out = ""
  while n >= 128 do
    out = out .. string.char(n % 128 + 128)
    n = n // 128
  end
  return out .. string.char(n)
end
local json = '{}'
local body = "\0" .. varint(#json) .. json
local reply = varint(#body) .. body
core.register_service("status", "tcp", function(applet)
  local function frame()
    local length = applet:receive(1)
    return length .. applet:receive(length:byte())
  end
  frame() -- the handshake
  frame() -- the request
  applet:send(reply)
  applet:send(frame()) -- the ping
end)
"#,
        wire::STATUS
    );
    script
}
