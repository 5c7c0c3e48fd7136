//! What the documents show is what there is: commands parse, configurations check, links lead somewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use swarmgate_core::publish::Settings;
use swarmgate_core::service::{ServiceId, Spec};
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

/// The fenced blocks, each with its language.
fn fenced(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap())
}

/// The contents of the fenced blocks in this language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    fenced(text).filter(|(named, _)| *named == language).map(|(_, block)| block.to_owned()).collect()
}

/// What is set as code within a line.
fn spans(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What the line gives to `swarmgate`, wherever that is.
fn arguments(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().take_while(|word| *word != ">").collect();
    let program = words.iter().position(|word| {
        *word == "swarmgate" || word.ends_with("/swarmgate") && !word.starts_with("crates/")
    });
    match program {
        Some(at) => Some(words[at..].to_vec()),
        None if line.starts_with("cargo run ") => {
            let at = words.iter().position(|word| *word == "--")?;
            Some([&["swarmgate"], &words[at + 1..]].concat())
        }
        None => None,
    }
}

fn parse(words: &[&str]) -> Result<clap::ArgMatches, clap::Error> {
    swarmgate::cli::command().try_get_matches_from(words)
}

/// The commands of a shell block, without their comments.
fn commands(block: &str) -> impl Iterator<Item = &str> {
    block.lines().map(|line| line.split(" #").next().unwrap_or("").trim()).filter(|line| !line.is_empty())
}

#[test]
fn every_command_shown_exists() {
    let mut seen = 0;
    let unit = fs::read_to_string(root().join("examples/swarmgate.service")).unwrap();
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    parse(&arguments(started).unwrap()).unwrap();
    for (path, text) in documents() {
        let shown = blocks(&text, "sh");
        for command in shown.iter().flat_map(|block| commands(block)) {
            let Some(words) = arguments(command) else { continue };
            let parsed = parse(&words);
            assert!(parsed.is_ok(), "{}: {command}: {}", path.display(), parsed.unwrap_err());
            seen += 1;
        }
        // In a sentence a command may lack what it is about.
        for command in spans(&text).iter().filter(|span| span.starts_with("swarmgate ")) {
            let words: Vec<&str> = command.split_whitespace().collect();
            // Not for people: the gate calls it.
            if words[1] == "keeper" {
                continue;
            }
            let error = parse(&words).err().map(|error| error.kind());
            use clap::error::ErrorKind::{DisplayVersion, MissingRequiredArgument};
            let fine = matches!(error, None | Some(MissingRequiredArgument | DisplayVersion));
            assert!(fine, "{}: {command}: {error:?}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 15, "only {seen} commands were found");
}

/// Whoever follows the README types nothing that is not there.
#[test]
fn the_readme_speaks_of_what_it_has_shown() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let file = &blocks(&readme, "toml")[0];
    let servers = config::parse(file, &[]).unwrap().config.servers;
    let hosts: Vec<String> =
        servers.iter().flat_map(|server| server.spec.hosts.iter().map(ToString::to_string)).collect();
    let mut seen = 0;
    for block in blocks(&readme, "sh") {
        for line in commands(&block) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[0] {
                "swarmgate" => match words[1] {
                    "wake" | "sleep" | "pin" | "output" | "console" => {
                        assert!(servers.iter().any(|server| &*server.name == words[2]), "{line}");
                    }
                    "explain" | "ping" | "join" => {
                        assert!(hosts.iter().any(|host| host == words[2]), "{line}")
                    }
                    "check" | "plan" | "run" | "services" => {}
                    _ => panic!("{line}"),
                },
                "cargo" => match words[1] {
                    "run" => assert!(arguments(line).is_some(), "{line}"),
                    "install" => assert!(root().join(words[3]).join("Cargo.toml").exists(), "{line}"),
                    _ => panic!("{line}"),
                },
                program => assert!(root().join(program).exists(), "{line}"),
            }
            seen += 1;
        }
    }
    assert!(seen >= 10, "only {seen} commands were found");
    let unreadable = documents().into_iter().find_map(|(path, text)| {
        let known = ["", "sh", "toml", "ini", "yaml"];
        let odd = fenced(&text).find(|(language, _)| !known.contains(language));
        odd.map(|(language, _)| format!("{}: {language}", path.display()))
    });
    assert_eq!(unreadable, None, "a language that no test here reads");
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
    let examples = ["stack.yml", "web.yml", "compose.yml"].map(|name| root().join("examples").join(name));
    let examples = examples.map(|path| (path.clone(), fs::read_to_string(path).unwrap()));
    let mut seen = 0;
    for (path, text) in shown.chain(examples) {
        let file: Value =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for (name, service) in file["services"].as_object().unwrap() {
            for labels in [&service["labels"], &service["deploy"]["labels"]] {
                let labels = labels.as_object().into_iter().flatten();
                let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let labels = labels.map(|(key, value)| (key.clone(), text(value))).collect();
                let id = ServiceId::new("swarm", name);
                let game = labels::parse(&labels, &Spec::default()).map(|labelled| labelled.problems);
                let web = labels::publish::parse(&labels, id, name, &Settings::default());
                for problems in game.into_iter().chain(web.map(|published| published.problems)) {
                    assert_eq!(problems, Vec::<String>::new(), "{} {name}", path.display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen >= 6, "only {seen} services with labels were found");
}

/// The table of them is checked against the real page by a test beside the code.
#[test]
fn every_metric_used_in_an_example_is_there_with_its_labels() {
    let table = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let mut known = std::collections::BTreeMap::new();
    for (name, rest) in rows {
        let (kind, rest) = rest.split_once(" | ").unwrap();
        let labels: Vec<String> =
            rest.split('|').next().unwrap().split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let endings: &[&str] = if kind == "histogram" { &["_bucket", "_count", "_sum"] } else { &[""] };
        known.extend(endings.iter().map(|ending| (format!("{name}{ending}"), labels.clone())));
    }
    let mut seen = 0;
    for file in ["grafana.json", "alerts.yml"] {
        let text = fs::read_to_string(root().join("examples").join(file)).unwrap();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for prefix in ["swarmgate_", "swarmctl_", "process_"] {
            for (at, _) in text.match_indices(prefix) {
                let rest = &text[at..];
                let name = rest.split(|c| !is_part(c)).next().unwrap();
                let labels = known.get(name).unwrap_or_else(|| panic!("{file}: {name}"));
                let inside = rest[name.len()..].strip_prefix('{').and_then(|rest| rest.split('}').next());
                for label in inside.into_iter().flat_map(|inside| inside.split(',')) {
                    let label = label.split(|c| !is_part(c)).next().unwrap();
                    let is_known =
                        ["instance", "job"].contains(&label) || labels.iter().any(|known| known == label);
                    assert!(is_known, "{file}: {name} has no label {label}");
                }
                seen += 1;
            }
        }
    }
    assert!(seen >= 40, "only {seen} metrics were found");
}

/// The client of Docker 20.10 takes a stack without a version for one of version 1, and refuses it.
#[test]
fn old_clients_take_the_example_stack() {
    let text = fs::read_to_string(root().join("examples/stack.yml")).unwrap();
    let stack: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(stack["version"], "3.8");
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
}

#[test]
fn every_command_says_what_it_does() {
    swarmgate::cli::command().debug_assert();
    for command in swarmgate::cli::command().get_subcommands() {
        assert!(command.get_about().is_some() || command.is_hide_set(), "{}", command.get_name());
    }
}
