//! minecraft-protocol and mineflayer own accounts, and wake a server that wants that proven.

use serde_json::json;
use swarmgate_testkit::sessions::{SessionServer, access_token, id};

use crate::waiting::Site;

const KEYS: &str = "wakers.verified = true\n";

/// The options of an account's owner.
fn account<'a>(sessions: &'a str, id: &'a str, token: &'a str) -> [&'a str; 8] {
    ["--name", "Ann", "--sessions", sessions, "--id", id, "--token", token]
}

#[tokio::test]
async fn whoever_owns_an_account_waits_encrypted_and_is_transferred() {
    let versions = ["1.20.6", "1.21.1", "1.21.8", "26.1"];
    let sessions = SessionServer::start().await;
    let (url, id, token) = (sessions.url(), id("Ann"), access_token("Ann"));
    let top = format!("session_server = \"{url}\"");
    for bot in [&[][..], &["--bot"]] {
        let Some(site) = Site::with(&versions, "sleep 1; ", KEYS, &top).await else { return };
        for end in site.travel(&[&account(&url, &id, &token)[..], bot].concat(), &versions).await {
            assert_eq!(end["event"], json!("joined"), "{end}");
            assert_eq!(end["transfers"].as_array().unwrap().len(), 1, "{end}");
        }
    }
    assert_eq!(sessions.state().asked.len(), 2 * versions.len());
    assert_eq!(sessions.state().faults, [""; 0]);
}

#[tokio::test]
async fn older_versions_are_verified_told_and_come_back() {
    let versions = ["1.8.9", "1.12.2", "1.16.5", "1.18.2", "1.19", "1.19.2", "1.20.1", "1.20.4"];
    let sessions = SessionServer::start().await;
    let (url, id, token) = (sessions.url(), id("Ann"), access_token("Ann"));
    let top = format!("session_server = \"{url}\"");
    let Some(site) = Site::with(&versions, "sleep 1; ", KEYS, &top).await else { return };
    for (sign, versions) in [(&[][..], &versions[..4]), (&["--sign"], &versions[4..])] {
        let options = [&account(&url, &id, &token)[..], sign].concat();
        for end in site.travel(&options, versions).await {
            assert_eq!(end["event"], json!("kicked"), "{end}");
            assert!(end["reason"].as_str().unwrap().contains("Your account is verified"), "{end}");
        }
        // The chat key is of nobody's making, which the servers would mind.
        for end in site.travel(&account(&url, &id, &token), versions).await {
            assert_eq!(end["event"], json!("joined"), "{end}");
        }
    }
    let state = sessions.state();
    assert_eq!((state.asked.len(), &state.faults), (versions.len(), &vec![]));
}

#[tokio::test]
async fn whoever_owns_none_wakes_nothing() {
    let versions = ["1.8.9", "1.19.2", "1.21.8", "26.1"];
    let sessions = SessionServer::start().await;
    let top = format!("session_server = \"{}\"", sessions.url());
    let Some(site) = Site::with(&versions, "", KEYS, &top).await else { return };
    for end in site.travel(&["--name", "Ann"], &versions).await {
        assert_eq!(end["event"], json!("kicked"), "{end}");
        assert!(end["reason"].as_str().unwrap().contains("could not be verified"), "{end}");
    }
    for version in versions {
        let service = site.gate.service(&format!("v{}", version.replace('.', "-"))).await;
        assert_eq!(service["state"], "asleep");
    }
}
