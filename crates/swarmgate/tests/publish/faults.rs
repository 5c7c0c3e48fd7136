//! What goes wrong at the API, and that it comes right without anything new happening.

use swarmgate_testkit::cloudflare::{Call, Fault, Visit};
use swarmgate_testkit::process::Signal;
use swarmgate_testkit::wait::until;
use tokio::task::{JoinSet, LocalSet};

use crate::common::{LIMIT, get};
use crate::site::{Site, origin, web};

/// The timer is of no help within the limit of a test. Each has a gate of its own, since waits grow.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_fails_once_comes_right_by_itself() {
    let faults = [
        (Call::ReadConfig, Fault::Error { status: 500, code: 10013 }),
        (Call::ListZones, Fault::Html(502)),
        (Call::ListRecords, Fault::Cut),
        (Call::ListApps, Fault::Lost),
        (Call::WriteConfig, Fault::Error { status: 503, code: 10013 }),
        (Call::WriteConfig, Fault::Cut),
        (Call::CreateRecord, Fault::Limited(1)),
        (Call::CreateRecord, Fault::Cut),
        (Call::CreateApp, Fault::Html(520)),
        (Call::CreateApp, Fault::Cut),
    ];
    let (local, mut all) = (LocalSet::new(), JoinSet::new());
    for (call, fault) in faults {
        all.spawn_local_on(comes_right(call, fault), &local);
    }
    local.run_until(all.join_all()).await;
}

async fn comes_right(call: Call, fault: Fault) {
    let site = Site::new().await;
    site.protect("app.example.com");
    site.fake.fail(call, 1, fault.clone());
    let gate = site.start("", &web("app", "access = [\"staff\"]")).await;
    site.until_visit("app.example.com", &site.login()).await;
    site.until_rules(&["old.example.com", "*.wild.example.com", "app.example.com"]).await;
    let host = "app.example.com";
    let there = site.fake.with(|account| (account.apps_for(host).len(), account.records(host).len()));
    assert_eq!(there, (1, 1), "each is there once after {fault:?} for {call:?}");
    assert!(gate.end(Signal::TERM).await.success());
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn while_access_fails_a_protected_service_stays_unreachable() {
    let site = Site::new().await;
    site.protect("app.example.com");
    site.fake.fail(Call::CreateApp, u32::MAX, Fault::Error { status: 500, code: 10001 });
    let mut tables = web("app", "access = [\"staff\"]");
    let gate = site.start("", &tables).await;
    for name in ["one", "two"] {
        // A reason to try again at once.
        tables += &web(name, "");
        site.write("", &tables);
        site.until_visit(&format!("{name}.example.com"), &origin(name)).await;
        assert_eq!(site.visit("app.example.com"), Visit::Unresolved);
    }
    assert!(site.writes().iter().filter(|call| **call == Call::CreateApp).count() > 1);
    site.fake.heal();
    site.write("", &(tables + &web("three", "")));
    site.until_visit("app.example.com", &site.login()).await;
    drop(gate);
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_that_cannot_be_configured_from_here_is_refused_in_words() {
    let site = Site::new().await;
    site.fake.with(|account| account.tunnel.config_src = "local");
    let gate = site.start("every = \"1s\"", &web("app", "")).await;
    site.until_log(&gate, "is configured by a file beside its connector").await;
    assert_eq!(site.writes(), []);
    drop(gate);
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_told_to_stop_finishes_the_step_it_is_in() {
    let site = Site::new().await;
    site.fake.fail(Call::WriteConfig, 1, Fault::Held);
    let gate = site.start("", &web("app", "")).await;
    site.until_writes(&[Call::WriteConfig]).await;
    gate.process.signal(Signal::TERM);
    until("a gate that takes nobody any more", LIMIT, async || {
        get(gate.http, "/readyz").await.is_none_or(|(status, _)| status != 200).then_some(())
    })
    .await;
    assert_eq!(site.fake.waiting(), 1, "it waits for the answer");
    site.fake.release();
    assert!(gate.ended().await.success());
    assert_eq!(site.writes(), [Call::WriteConfig], "and begins no other");
    let _gate = site.home.start().await;
    site.until_visit("app.example.com", &origin("app")).await;
    assert_eq!(site.writes(), [Call::WriteConfig, Call::CreateRecord]);
    site.assert_untouched();
}
