//! What happens, told as it happens.

use std::time::Instant;

use serde_json::Value;
use swarmgate_testkit::process::Signal;
use swarmgate_testkit::wait::until;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::common::LIMIT;
use crate::common::events::Listener;
use crate::{OPERATE, READ, Site, play, write_tokens};

/// Once the gate has begun to answer, so that nothing is missed from here on.
async fn open(site: &Site, token: &str) -> Listener<TcpStream> {
    Listener::of(site.ask("GET", "/v1/events").token(token).open().await).await
}

#[tokio::test]
async fn joins_states_and_leaves_are_told_and_names_only_to_those_who_operate() {
    let site = Site::start().await;
    let (mut operator, mut reader) = (open(&site, OPERATE).await, open(&site, READ).await);
    let player = play(site.gate.address, "mc.example.com", "Ann").await;
    for (listener, name, client) in [
        (&mut operator, Value::from("Ann"), Value::from("127.0.0.1")),
        (&mut reader, Value::Null, Value::Null),
    ] {
        let opened = listener.next("session_opened").await["session"].clone();
        assert_eq!((&opened["service"], &opened["kind"]), (&"process/survival".into(), &"waiting".into()));
        assert_eq!((&opened["player"], &opened["client"]), (&name, &client));
        let moved = listener.next("session_moved").await["session"].clone();
        assert_eq!(
            (&moved["id"], &moved["kind"], &moved["player"]),
            (&opened["id"], &"playing".into(), &name)
        );
    }
    let mut late = open(&site, READ).await;
    drop(player);
    for listener in [&mut operator, &mut reader, &mut late] {
        assert_eq!(listener.next("session_closed").await["session"]["service"], "process/survival");
    }
    let sleep = site.ask("POST", "/v1/services/survival/sleep?force=true").token(OPERATE).send().await;
    assert_eq!(sleep.status, 200, "{}", sleep.body);
    for listener in [&mut operator, &mut reader, &mut late] {
        let state = listener.next("state").await;
        assert_eq!((&state["service"], &state["to"]), (&"process/survival".into(), &"stopping".into()));
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_those_who_listen() {
    let site = Site::start().await;
    let mut listeners = vec![open(&site, READ).await, open(&site, READ).await];
    let _deaf = open(&site, READ).await;
    let told = Instant::now();
    let Site { gate, .. } = site;
    assert!(gate.end(Signal::TERM).await.success());
    assert!(told.elapsed().as_secs() < 5, "{:?}", told.elapsed());
    for listener in &mut listeners {
        listener.until("0\r\n\r\n").await;
    }
}

/// Listens with a token as often as it may.
async fn crowd(site: &Site, token: &str) -> Vec<TcpStream> {
    let mut listeners = Vec::new();
    loop {
        let (answer, stream) = site.ask("GET", "/v1/events").token(token).begin().await;
        if answer.status != 200 {
            assert_eq!(answer.status, 503);
            return listeners;
        }
        listeners.push(stream);
        assert!(listeners.len() <= 100, "never refused");
    }
}

#[tokio::test]
async fn listeners_are_counted_per_token_and_in_all_and_keep_nobody_out() {
    let site = Site::start().await;
    let others = ["a", "b", "c", "d"].map(|name| (name, format!("{name}-0123456789abcdef01234567")));
    let lines: String = others.iter().map(|(name, token)| format!("{name} read {token}\n")).collect();
    write_tokens(&site.home, &format!("reader read {READ}\noperator operate {OPERATE}\n{lines}"));
    until("the new tokens", LIMIT, async || {
        (site.ask("GET", "/v1/routes").token(&others[3].1).status().await == 200).then_some(())
    })
    .await;
    let mut first = crowd(&site, READ).await;
    assert_eq!(first.len(), 8);
    let mut all = Vec::new();
    for (name, token) in &others[..3] {
        let crowd = crowd(&site, token).await;
        assert_eq!(crowd.len(), 8, "{name}");
        all.push(crowd);
    }
    for token in [READ, OPERATE, &others[3].1] {
        assert_eq!(site.ask("GET", "/v1/events").token(token).send().await.code(), "too_many_streams");
    }
    assert_eq!(site.ask("GET", "/healthz").send().await.status, 200);
    let update = site.ask("POST", "/v1/update/nobody").token(OPERATE).send().await;
    assert_eq!(update.code(), "no_swarm", "the places of updates are free");
    // Whoever goes gives both of its places back.
    drop(first.pop());
    until("a place", LIMIT, async || {
        (site.ask("GET", "/v1/events").token(READ).begin().await.0.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_token_that_is_withdrawn_or_good_for_something_else_hears_no_more() {
    let site = Site::start().await;
    let other = "other-0123456789abcdef0123456789";
    write_tokens(
        &site.home,
        &format!("reader read {READ}\noperator operate {OPERATE}\nother read {other}\n"),
    );
    until("the new token", LIMIT, async || {
        (site.ask("GET", "/v1/routes").token(other).status().await == 200).then_some(())
    })
    .await;
    let mut reader = open(&site, READ).await;
    let mut operator = open(&site, OPERATE).await;
    let mut stays = open(&site, other).await;
    // The name alone is no token: another one may have it.
    let new = "new-0123456789abcdef0123456789";
    write_tokens(&site.home, &format!("reader read {new}\noperator read {OPERATE}\nother read {other}\n"));
    for listener in [&mut reader, &mut operator] {
        timeout(LIMIT, listener.until("0\r\n\r\n")).await.expect("an end");
    }
    let _player = play(site.gate.address, "hub.example.com", "Ann").await;
    stays.next("session_opened").await;
}
