//! `docs/configuration.md` is what the code says. After a change: `UPDATE_DOCS=1 cargo test -p swarmgate-core --test docs`.
#![allow(clippy::disallowed_methods, reason = "this test is about a file")]

use std::path::Path;

use swarmgate_core::config;

#[test]
fn the_configuration_page_matches_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let generated = config::reference();
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, &generated).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == generated, "docs/configuration.md is out of date; write it anew with UPDATE_DOCS=1");
}
