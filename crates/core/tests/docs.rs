//! Pages that are what the code says. After a change: `UPDATE_DOCS=1 cargo test -p swarmgate-core --test docs`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "this test is about files")]

use std::path::Path;

use swarmgate_core::{config, labels};

#[test]
fn the_configuration_page_matches_the_code() {
    matches("docs/configuration.md", &config::reference());
}

#[test]
fn the_page_of_labels_matches_the_code() {
    matches("docs/labels.md", &labels::reference());
}

fn matches(page: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, generated).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == generated, "{page} is out of date; write it anew with UPDATE_DOCS=1");
}
