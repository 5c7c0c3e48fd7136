//! Tells the program which commit it is built from.

#![allow(clippy::print_stdout, reason = "this is how a build script speaks to cargo")]

use std::env;
use std::path::Path;
use std::process::Command;

/// Whoever builds from an archive can say it.
const GIVEN: &str = "SWARMGATE_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={GIVEN}");
    // While one works on it, a commit must not mean a build.
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = env::var(GIVEN).ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| if is_release { head() } else { None });
    println!("cargo::rustc-env={GIVEN}={}", commit.as_deref().unwrap_or("unknown"));
}

/// Of this project's own checkout: an archive of it may lie in another one.
fn head() -> Option<String> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").ok()?).join("../..").canonicalize().ok()?;
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    if Path::new(&git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != root {
        return None;
    }
    // Written with every commit and every checkout.
    let log = root.join(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}
