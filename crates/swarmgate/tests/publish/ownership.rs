//! What others made, and what two gates do to each other.

use serde_json::json;
use swarmgate_testkit::cloudflare::{Call, Visit};

use crate::common::Home;
use crate::site::{Site, origin, tunnel, web};

#[tokio::test(flavor = "multi_thread")]
async fn what_others_made_is_in_the_way_and_stays() {
    let site = Site::new().await;
    site.fake.with(|account| account.add_record("CNAME", "shop.example.com", "elsewhere.example"));
    site.foreign_is_now();
    let tables = [web("www", ""), web("shop", ""), web("old", ""), web("app", "")].concat();
    let gate = site.start("every = \"1s\"", &tables).await;
    site.until_visit("app.example.com", &origin("app")).await;
    site.until_looks(2).await;
    assert_eq!(site.writes(), [Call::WriteConfig, Call::CreateRecord], "of the free one alone");
    assert_eq!(site.visit("shop.example.com"), Visit::Elsewhere("elsewhere.example".into()));
    for (host, words) in [("www", "192.0.2.1"), ("shop", "elsewhere.example"), ("old", "http://old:80")] {
        let problem = site.problem(&gate, &format!("{host}.example.com")).await;
        assert!(problem.contains(words), "{problem}");
    }
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_made_is_taken_over_on_request_only() {
    let site = Site::new().await;
    site.fake.with(|account| account.add_record("CNAME", "shop.example.com", "elsewhere.example"));
    site.fake.with(|account| account.yields = true);
    let tables = web("shop", "adopt = true") + &web("old", "adopt = true\naccess = [\"staff\"]");
    let _gate = site.start("", &tables).await;
    site.until_visit("shop.example.com", &origin("shop")).await;
    site.until_visit("old.example.com", &site.login()).await;
    site.until("the adopted rule", || site.rule("old.example.com")["service"] == "http://old:80").await;
    let app = site.fake.with(|account| account.apps_for("old.example.com")[0].clone());
    assert_eq!(app["custom_deny_url"], "https://no.example", "the rest of it is kept");
    site.fake.assert_clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shadowing_rule_is_stepped_before_and_one_that_would_be_shadowed_is_not() {
    let site = Site::new().await;
    let tables = "[publish.exact]\nhosts = [\"a.wild.example.com\"]\naddress = \"exact:80\"\npath = \"^/x/y\"\n\
                  [publish.all]\nhosts = [\"*.example.com\"]\naddress = \"all:80\"\n";
    let _gate = site.start("", tables).await;
    site.until_writes(&[Call::WriteConfig, Call::CreateRecord, Call::CreateRecord]).await;
    let gets = |url: &str| site.fake.with(|account| account.visit(url));
    assert_eq!(gets("https://a.wild.example.com/x/y"), Visit::Origin("http://exact:80".into()));
    assert_eq!(
        site.rules(),
        ["old.example.com", "a.wild.example.com", "*.wild.example.com", "*.example.com", ""]
    );
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_changes_of_ours_is_made_good() {
    let site = Site::new().await;
    let gate = site.start("every = \"1s\"", &web("app", "")).await;
    site.until_visit("app.example.com", &origin("app")).await;
    site.fake.with(|account| {
        let changed = account.tunnel.config.as_ref().unwrap().replace("http://app:80", "http://mine:80");
        account.configure(&changed);
        account.zones[0].records.retain(|record| record["name"] != "app.example.com");
    });
    site.until_visit("app.example.com", &origin("app")).await;
    site.until_log(&gate, "http://mine:80").await;
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gates_with_one_hostname_do_not_fight() {
    let site = Site::new().await;
    let first = site.start("every = \"1s\"", &web("app", "")).await;
    site.until_visit("app.example.com", &origin("app")).await;
    let other = Home::new();
    let second = site
        .start_at(&other, "instance = \"second\"\nevery = \"1s\"", &web("app", "path = \"^/theirs\""))
        .await;
    site.until_looks(4).await;
    assert_eq!(site.visit("app.example.com"), origin("app"));
    assert_eq!(site.writes(), [Call::WriteConfig, Call::CreateRecord]);
    let problem = site.problem(&second, "app.example.com").await;
    assert!(problem.contains("instance=default"), "{problem}");
    drop(first);
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_given_to_the_gate_alone_loses_what_nobody_asks_for() {
    let site = Site::new().await;
    site.fake.with(|account| account.yields = true);
    let keys = "exclusive = true\nevery = \"1s\"\ngrace = \"1s\"";
    let _gate = site.start(keys, &web("app", "")).await;
    site.until_rules(&["app.example.com"]).await;
    let config = site.fake.with(|account| account.config());
    assert_eq!(config["warp-routing"], json!({"enabled": true}));
    assert_eq!(site.fake.with(|account| account.records("old.example.com")[0]["content"].clone()), tunnel());
    site.fake.assert_clean();
}
