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

/// The rest of that page is written by hand.
#[test]
fn the_table_of_swarmctls_variables_matches_the_code() {
    const PAGE: &str = "docs/coming-from.md";
    const BEFORE: &str = "crates/core/src/config/swarmctl.rs. -->\n\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEFORE).unwrap();
    let (_, after) = rest.split_once("\n\n").unwrap();
    matches(PAGE, &format!("{before}{BEFORE}{}\n{after}", config::swarmctl::reference()));
}

/// Whoever looks up what to write instead finds something that there is.
#[test]
fn the_keys_named_instead_of_others_are_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/coming-from.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut seen = 0;
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let here = row.split('|').nth(2).unwrap();
        for key in here.split('`').skip(1).step_by(2) {
            let path = key.replacen("defaults.", "server.NAME.", 1);
            assert!(config::keys::KEYS.iter().any(|known| known.path == path), "{row}");
            seen += 1;
        }
    }
    assert!(seen > 30, "only {seen} keys were found");
}

fn matches(page: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, generated).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == generated, "{page} is out of date; write it anew with UPDATE_DOCS=1");
}
