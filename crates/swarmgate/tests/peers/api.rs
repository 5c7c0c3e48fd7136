//! Schemathesis, which reads the OpenAPI document and asks for all of it, well and badly.

use std::time::Duration;

use swarmgate_testkit::peers;
use swarmgate_testkit::process::Process;

use crate::common::{Config, Home, Server, tables};

const TOKEN: &str = "operate-0123456789abcdef";

#[tokio::test]
async fn the_api_keeps_what_its_document_promises() {
    const LIMIT: Duration = Duration::from_secs(240);
    let Some(mut schemathesis) = peers::python("api.py") else { return };
    let home = Home::new();
    let survival = Server::new(&home, "survival", &[], "");
    let api = format!("[api]\ntoken = \"{TOKEN}\"\n");
    let hub = "[server.hub]\naddress = \"127.0.0.1:1\"\nhosts = [\"hub.example.com\"]\n";
    home.write(&Config::of(format!("{api}{hub}{}", tables(&[&survival]))));
    let gate = home.start().await;

    // It keeps notes where it runs.
    let notes = tempfile::tempdir().unwrap();
    schemathesis.arg(format!("http://{}", gate.http)).arg(TOKEN).current_dir(&notes);
    let mut run = Process::start(&mut schemathesis);
    let status = run.wait_exit(LIMIT).await;
    let said = run.lines().join("\n");
    assert!(status.success(), "{said}");
    let tested = said.split("Tested: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    assert!(tested.and_then(|count| count.parse().ok()).is_some_and(|count: u32| count >= 20), "{said}");
}
