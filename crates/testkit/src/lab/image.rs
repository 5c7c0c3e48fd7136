//! Images without a base: one static program each.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use tempfile::TempDir;

use super::Lab;
use crate::process::{built, workspace};

const TESTSERVER: &str =
    "FROM scratch\nCOPY testserver /testserver\nENV ADDRESS=0.0.0.0\nENTRYPOINT [\"/testserver\"]\n";

impl Lab {
    /// Gives every node an image of `testserver` that lets anyone connect, under this name.
    pub async fn testserver_image(&self, tag: &str) {
        let program = static_program("swarmgate-testkit", "testserver");
        let context = Context::new(TESTSERVER);
        context.copy(&program, "testserver");
        self.build_image(tag, &context).await;
    }

    /// Gives every node the image of the gate, as the `Dockerfile` makes it.
    pub async fn gate_image(&self, tag: &str) {
        let program = static_program("swarmgate", "swarmgate");
        let dockerfile = fs::read_to_string(workspace().join("Dockerfile")).expect("the Dockerfile");
        let context = Context::new(&dockerfile);
        context.copy(&program, "swarmgate");
        context.copy(&workspace().join("examples/image.toml"), "swarmgate.toml");
        fs::create_dir(context.0.path().join("data")).expect("a directory");
        self.build_image(tag, &context).await;
    }

    async fn build_image(&self, tag: &str, context: &Context) {
        for node in &self.nodes {
            let mut build = node.command("docker");
            build.args(["build", "--quiet", "--network", "none", "--tag", tag]).arg(context.0.path());
            self.run(&mut build).await;
        }
    }
}

/// What an image is built from.
struct Context(TempDir);

impl Context {
    fn new(dockerfile: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("Dockerfile"), dockerfile).expect("a Dockerfile");
        Self(directory)
    }

    fn copy(&self, file: &Path, name: &str) {
        fs::copy(file, self.0.path().join(name))
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

/// A program of the workspace that needs nothing but a kernel. Built on first use, apart from the other builds:
/// it has the standard library inside.
///
/// # Panics
/// When it cannot be built.
pub fn static_program(package: &str, program: &str) -> PathBuf {
    static PROGRAMS: OnceLock<Mutex<HashMap<String, PathBuf>>> = OnceLock::new();
    let mut programs = PROGRAMS.get_or_init(Mutex::default).lock().expect("nobody panicked");
    let path = programs.entry(program.to_owned()).or_insert_with(|| {
        built(|cargo| {
            // With a target named, the flags are not used for what runs while building.
            cargo
                .env("RUSTFLAGS", "-C target-feature=+crt-static -C strip=symbols")
                .args(["--package", package, "--bin", program, "--target", "host-tuple"])
                .args(["--target-dir", "target/static"]);
        })
    });
    path.clone()
}
