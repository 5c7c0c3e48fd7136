//! Images without a base: one static program each.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use super::Lab;
use crate::process::built;

impl Lab {
    /// Gives every node an image of `testserver` that lets anyone connect and keeps nothing, under this name.
    pub async fn testserver_image(&self, tag: &str) {
        let program = static_program("swarmgate-testkit", "testserver");
        let dockerfile =
            "FROM scratch\nCOPY testserver /testserver\nENV ADDRESS=0.0.0.0\nENTRYPOINT [\"/testserver\"]\n";
        self.build_image(tag, dockerfile, &[&program]).await;
    }

    /// Builds an image on every node from a `Dockerfile` and the files that it copies.
    pub async fn build_image(&self, tag: &str, dockerfile: &str, files: &[&Path]) {
        let context = tempfile::tempdir().expect("a directory");
        fs::write(context.path().join("Dockerfile"), dockerfile).expect("a Dockerfile");
        for file in files {
            let name = file.file_name().unwrap_or_default();
            fs::copy(file, context.path().join(name)).expect("a file of the image");
        }
        for node in &self.nodes {
            let mut build = node.command("docker");
            self.run(build.args(["build", "--quiet", "--network", "none", "--tag", tag]).arg(context.path()))
                .await;
        }
    }
}

/// A program of the workspace that needs nothing but a kernel. Built on first use, apart from the other builds:
/// the standard library is linked differently.
///
/// # Panics
/// When it cannot be built.
pub fn static_program(package: &str, program: &str) -> PathBuf {
    static PROGRAMS: OnceLock<Mutex<HashMap<String, PathBuf>>> = OnceLock::new();
    let mut programs = PROGRAMS.get_or_init(Mutex::default).lock().expect("nobody panicked");
    let path = programs.entry(program.to_owned()).or_insert_with(|| {
        let machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/static");
        // With a target named, the flags are not used for what runs while building.
        built(|cargo| {
            cargo
                .env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols")
                .args(["--package", package, "--bin", program, "--target", &machine, "--target-dir"])
                .arg(target);
        })
    });
    path.clone()
}
