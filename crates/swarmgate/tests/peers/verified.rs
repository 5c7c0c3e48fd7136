//! minecraft-protocol and mineflayer own accounts, and wake a server that wants that proven.

use serde_json::json;
use swarmgate_testkit::sessions::{Mood, SessionServer, access_token, id};
use swarmgate_testkit::wait::until;

use crate::common::LIMIT;
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
    all_asleep(&site, &versions).await;
}

/// What 1.19.2 signs is not signed with the key that it shows.
#[tokio::test]
async fn a_wrong_signature_wakes_nothing() {
    let versions = ["1.19", "1.19.2"];
    let sessions = SessionServer::start().await;
    let (url, id, token) = (sessions.url(), id("Ann"), access_token("Ann"));
    let Some(site) = Site::with(&versions, "", KEYS, &format!("session_server = \"{url}\"")).await else {
        return;
    };
    let options = [&account(&url, &id, &token)[..], &["--sign", "--forge"]].concat();
    for end in site.travel(&options, &versions).await {
        assert_eq!(end["event"], "error", "{end}");
        assert!(end["error"].as_str().unwrap().starts_with("closed"), "{end}");
    }
    let refused = "swarmgate_refusals_total{kind=\"unproven_encryption\"}";
    assert_eq!(site.gate.metric(refused).await, 2);
    all_asleep(&site, &versions).await;
}

/// The ticket lets its player in once.
#[tokio::test]
async fn a_used_ticket_wakes_nothing() {
    let versions = ["1.20.4"];
    let sessions = SessionServer::start().await;
    let (url, id, token) = (sessions.url(), id("Ann"), access_token("Ann"));
    let Some(site) = Site::with(&versions, "", KEYS, &format!("session_server = \"{url}\"")).await else {
        return;
    };
    let anybody = ["--name", "Ann"];
    let travel = async |options: &[&str]| site.travel(options, &versions).await.remove(0);
    let verified = travel(&account(&url, &id, &token)).await;
    assert!(verified["reason"].as_str().unwrap().contains("is verified"), "{verified}");
    let joined = travel(&anybody).await;
    assert_eq!(joined["event"], "joined", "{joined}");
    until("a sleep that is accepted", LIMIT, async || {
        (site.gate.control("POST", "/v1/services/v1-20-4/sleep", "").await.0 == 200).then_some(())
    })
    .await;
    site.gate.until_state("v1-20-4", "asleep").await;
    let again = travel(&anybody).await;
    assert!(again["reason"].as_str().unwrap().contains("could not be verified"), "{again}");
    all_asleep(&site, &versions).await;
}

#[tokio::test]
async fn without_the_session_server_everybody_is_told_so() {
    let versions = ["1.16.5", "1.20.6", "26.1"];
    let sessions = SessionServer::start().await;
    let (url, id, token) = (sessions.url(), id("Ann"), access_token("Ann"));
    // Clients report to one that is well.
    let asked = SessionServer::start().await;
    let top = format!("session_server = \"{}\"", asked.url());
    let Some(site) = Site::with(&versions, "", KEYS, &top).await else { return };
    asked.set(Mood::Silent);
    let told = async || {
        for end in site.travel(&account(&url, &id, &token), &versions).await {
            assert_eq!(end["event"], "kicked", "{end}");
            assert!(end["reason"].as_str().unwrap().contains("cannot be checked right now"), "{end}");
        }
    };
    told().await;
    drop(asked);
    told().await;
    all_asleep(&site, &versions).await;
}

async fn all_asleep(site: &Site, versions: &[&str]) {
    for version in versions {
        let service = site.gate.service(&format!("v{}", version.replace('.', "-"))).await;
        assert_eq!(service["state"], "asleep");
    }
}
