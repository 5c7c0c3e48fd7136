//! `docs/api.md` is true: its table of errors, its endpoints, and every `curl` line as it stands.

use std::collections::BTreeSet;

use swarmgate::api::error::Code;
use swarmgate_testkit::process::Process;
use tokio::process::Command;

use crate::common::LIMIT;
use crate::{OPERATE, READ, Site, file, play};

#[test]
fn every_code_is_in_the_table_with_its_status_and_its_meaning() {
    let page = file("docs/api.md");
    let rows: BTreeSet<&str> =
        page.lines().filter(|line| line.starts_with("| 4") || line.starts_with("| 5")).collect();
    let codes: Vec<String> = Code::ALL
        .iter()
        .map(|code| format!("| {} | `{}` | {} |", code.status().as_u16(), code.word(), code.about()))
        .collect();
    let expected: BTreeSet<&str> = codes.iter().map(String::as_str).collect();
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn every_endpoint_is_on_the_page_and_no_other() {
    let site = Site::start().await;
    let document = site.get("/v1/openapi.json", READ).await;
    let served: BTreeSet<String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let page = file("docs/api.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let told: BTreeSet<String> = rows.filter(|row| row.contains(" /")).map(str::to_owned).collect();
    assert_eq!(told, served);
}

#[tokio::test]
async fn every_curl_line_works_as_it_stands() {
    let site = Site::start().await;
    let _player = play(site.gate.address, "hub.example.com", "Ann").await;
    let pages = file("docs/api.md") + &file("docs/coming-from.md");
    let lines: Vec<&str> = pages.lines().filter(|line| line.starts_with("curl ")).collect();
    assert!(lines.len() >= 25, "{lines:?}");
    for line in lines {
        assert!(line.contains("127.0.0.1:9250"), "{line}");
        let here = line.replace("127.0.0.1:9250", &site.gate.http.to_string());
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(here.replacen("curl ", "exec curl --silent --show-error --fail-with-body ", 1))
            .env("TOKEN", OPERATE);
        if line.contains("/v1/events") {
            // It has no end.
            Process::start(&mut shell)
                .wait_for("the stream", LIMIT, |lines| {
                    lines.iter().any(|line| line.starts_with(':')).then_some(())
                })
                .await;
            continue;
        }
        let output = shell.output().await.expect("curl");
        let said = String::from_utf8_lossy(&output.stdout);
        if line.contains("/v1/update/") {
            assert!(said.contains("\"no_swarm\""), "{line}: {said}");
            continue;
        }
        assert!(output.status.success(), "{line}: {said} {}", String::from_utf8_lossy(&output.stderr));
        if line.contains("/wake") {
            site.gate.until_state("survival", "running").await;
        }
    }
}
