//! What the documents show is what there is: commands parse, configurations check, links lead somewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use swarmgate_core::service::Spec;
use swarmgate_core::{config, labels};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All documents, with their paths.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for directory in [root(), root().join("docs"), root().join("docs/decisions"), root().join("bench")] {
        let entries = fs::read_dir(&directory).into_iter().flatten().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    assert!(found.len() > 10, "{found:?}");
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The contents of the fenced blocks in this language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut parts = text.split("```");
    parts.next();
    let fenced = parts.step_by(2);
    fenced.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n').map(str::to_owned)).collect()
}

/// The commands of a shell block, without their comments.
fn commands(block: &str) -> impl Iterator<Item = &str> {
    block.lines().map(|line| line.split(" #").next().unwrap_or("").trim()).filter(|line| !line.is_empty())
}

#[test]
fn every_command_shown_exists() {
    let mut seen = 0;
    for (path, text) in documents() {
        for block in blocks(&text, "sh") {
            for command in commands(&block).filter_map(|line| line.strip_prefix("swarmgate ")) {
                let words = std::iter::once("swarmgate").chain(command.split_whitespace());
                let parsed = swarmgate::cli::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{}: swarmgate {command}: {}", path.display(), parsed.unwrap_err());
                seen += 1;
            }
        }
    }
    assert!(seen >= 8, "only {seen} commands were found");
}

#[test]
fn every_configuration_shown_checks() {
    let mut seen = 0;
    for (path, text) in documents() {
        for block in blocks(&text, "toml") {
            if let Err(problems) = config::parse(&block, &[]) {
                panic!("{}: {problems:#?}\n{block}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen >= 1, "no configuration was found");
}

#[test]
fn every_label_shown_is_one() {
    let shown = documents()
        .into_iter()
        .flat_map(|(path, text)| blocks(&text, "yaml").into_iter().map(move |block| (path.clone(), block)));
    let examples = ["stack.yml", "compose.yml"].map(|name| root().join("examples").join(name));
    let examples = examples.map(|path| (path.clone(), fs::read_to_string(path).unwrap()));
    let mut seen = 0;
    for (path, text) in shown.chain(examples) {
        let file: Value =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (name, service) in file["services"].as_object().unwrap() {
            for labels in [&service["labels"], &service["deploy"]["labels"]] {
                let labels = labels.as_object().into_iter().flatten();
                let labels =
                    labels.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect();
                if let Some(labelled) = labels::parse(&labels, &Spec::default()) {
                    assert_eq!(labelled.problems, Vec::<String>::new(), "{} {name}", path.display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen >= 6, "only {seen} services with labels were found");
}

#[test]
fn every_file_and_script_named_is_there() {
    for (path, text) in documents() {
        let beside = path.parent().unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.starts_with('#') {
                continue;
            }
            let target = link.split('#').next().unwrap();
            assert!(beside.join(target).exists(), "{}: {link} leads nowhere", path.display());
        }
    }
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for command in ["cargo run --release -- demo", "./scripts/test"] {
        assert!(blocks(&readme, "sh").iter().flat_map(|block| commands(block)).any(|line| line == command));
    }
    assert!(root().join("scripts/test").exists());
    swarmgate::cli::command().try_get_matches_from(["swarmgate", "demo"]).unwrap();
}

#[test]
fn every_command_says_what_it_does() {
    swarmgate::cli::command().debug_assert();
    for command in swarmgate::cli::command().get_subcommands() {
        assert!(command.get_about().is_some() || command.is_hide_set(), "{}", command.get_name());
    }
}
