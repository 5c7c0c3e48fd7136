//! What a package of the program has beside it: completions, manual pages, a unit for systemd.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use swarmgate_testkit::peers;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_swarmgate");

async fn said(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).output().await.unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a checker has to say about its standard input.
async fn complaints(mut checker: Command, input: &str) -> String {
    let mut child =
        checker.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = child.wait_with_output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    if output.status.success() { said } else { format!("{}: {said}", output.status) }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[tokio::test]
async fn the_version_names_the_commit() {
    let version = said(&["--version"]).await;
    let commit = version.strip_prefix("swarmgate 0.1.0 (").and_then(|rest| rest.strip_suffix(")\n"));
    // Of a debug build there is none, so that a commit makes no build.
    assert_eq!(commit, option_env!("SWARMGATE_COMMIT").or(Some("unknown")), "{version}");
}

#[tokio::test]
async fn every_shell_has_completions_that_it_can_read() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = said(&["completions", shell]).await;
        for command in ["services", "explain", "completions", "--json"] {
            let command = if shell == "fish" { command.trim_start_matches('-') } else { command };
            assert!(script.contains(command), "{shell}: {command}");
        }
        let as_json: Value = serde_json::from_str(&said(&["completions", shell, "--json"]).await).unwrap();
        assert_eq!(as_json["script"].as_str().unwrap().trim_end(), script.trim_end());
    }
    let script = said(&["completions", "bash"]).await;
    let mut bash = peers::installed("bash").expect("bash, as for the scripts");
    bash.arg("-n");
    assert_eq!(complaints(bash, &script).await, "");
    // And it does complete.
    let mut bash = peers::installed("bash").expect("as before");
    let ask = "\nCOMP_WORDS=(swarmgate expl) COMP_CWORD=1\n_swarmgate swarmgate expl swarmgate\n[[ ${COMPREPLY[*]} == explain ]]\n";
    bash.arg("-s");
    assert_eq!(complaints(bash, &format!("{script}{ask}")).await, "");
}

#[tokio::test]
async fn every_command_has_a_manual_page_without_a_fault() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    said(&["man", pages.to_str().unwrap()]).await;
    let mut names: Vec<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for command in swarmgate::cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("swarmgate-{}.1", command.get_name());
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    assert!(
        names.contains(&"swarmgate.1".to_owned()) && !names.iter().any(|name| name.contains("demo-server"))
    );
    let main = said(&["man"]).await;
    assert_eq!(fs::read_to_string(pages.join("swarmgate.1")).unwrap().trim_end(), main.trim_end());
    for name in names {
        let Some(mut groff) = peers::installed("groff") else { return };
        groff.args(["-man", "-ww", "-Tutf8", "-z"]);
        let page = fs::read_to_string(pages.join(&name)).unwrap();
        assert_eq!(complaints(groff, &page).await, "", "{name}");
    }
}

#[tokio::test]
async fn systemd_takes_the_unit_and_finds_it_safe() {
    let Some(mut analyze) = peers::installed("systemd-analyze") else { return };
    let unit = fs::read_to_string(root().join("examples/swarmgate.service")).unwrap();
    // The program is wherever it is here.
    let unit = unit.replace("/usr/local/bin/swarmgate", PROGRAM);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("swarmgate.service");
    fs::write(&file, unit).unwrap();
    let verified = analyze.args(["verify", "--man=no"]).arg(&file).output().await.unwrap();
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    // Of other units of this machine nothing is asked.
    let about: Vec<&str> = said.lines().filter(|line| line.contains("swarmgate")).collect();
    assert!(verified.status.success() && about.is_empty(), "{said}");
    let mut analyze = peers::installed("systemd-analyze").expect("as before");
    analyze.args(["security", "--offline=yes", "--no-pager", "--threshold=35"]).arg(&file);
    let secure = analyze.output().await.unwrap();
    assert!(secure.status.success(), "{}", String::from_utf8_lossy(&secure.stdout));
}
