//! What a person is told of publication, and what is told to nobody.

use serde_json::{Value, json};
use swarmgate_testkit::cloudflare::{Call, Fault, TOKEN, Visit};
use swarmgate_testkit::messengers::{Messenger, Receiver};
use swarmgate_testkit::wait::until;
use tokio::net::UnixStream;

use crate::common::LIMIT;
use crate::common::events::Listener;
use crate::site::{Site, origin, web};

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_it_would_do_and_the_plan_is_empty_once_it_is_done() {
    let site = Site::new().await;
    let tables = web("app", "access = [\"staff\"]") + &web("www", "");
    let gate = site.start("dry_run = true\nevery = \"1s\"", &tables).await;
    site.until_looks(2).await;
    let plan = said(&site, &["plan"]).await;
    let lines = [
        "+ access  app.example.com",
        "+ tunnel  app.example.com -> http://app:80",
        "+ dns     app.example.com CNAME",
    ];
    for line in lines {
        assert!(plan.contains(line), "{plan}");
    }
    assert!(plan.contains("conflict") && plan.contains("192.0.2.1"), "{plan}");
    assert_eq!((site.writes(), site.visit("app.example.com")), (vec![], Visit::Unresolved));

    site.write("every = \"1s\"", &tables);
    site.until_visit("app.example.com", &site.login()).await;
    site.until_looks(2).await;
    let plan = said(&site, &["plan"]).await;
    assert!(plan.contains("nothing is to be changed") && plan.contains("published"), "{plan}");
    let success = "swarmctl_cloudflare_sync_total{status=\"success\"}";
    assert!(gate.metric(success).await >= 2, "{}", gate.metrics().await);
    drop(gate);
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_may_be_replaced_in_its_file_and_is_never_told() {
    let site = Site::new().await;
    let file = site.home.path().join("token");
    let wrong = TOKEN.replace("v1", "v2");
    std::fs::write(&file, format!("{wrong}\n")).unwrap();
    let keys = format!("every = \"1s\"\ntoken_file = {:?}", file.display().to_string());
    let gate = site.start(&keys, &web("app", "")).await;
    site.until_log(&gate, "the API does not know the token").await;
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    site.until_visit("app.example.com", &origin("app")).await;
    let told = [gate.log(), gate.metrics().await, said(&site, &["plan", "--json"]).await].concat();
    assert!(!told.contains(TOKEN) && !told.contains(&wrong), "{told}");
    drop(gate);
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_and_what_the_token_may_not_do_are_told_to_people_once() {
    let site = Site::new().await;
    let people = Receiver::start(Messenger::Webhook).await;
    site.fake.with(|account| account.forbidden.insert(Call::CreateRecord));
    let tables = [web("www", ""), web("old", ""), web("app", ""), web("shop", "")].concat();
    let keys = format!("every = \"1s\"\n[notify]\nurls = [{:?}]", people.url());
    let _gate = site.start(&keys, &tables).await;
    let told = || -> Vec<[String; 3]> {
        let inbox = people.inbox();
        let alerts = inbox.messages.iter().flat_map(|message| message["alerts"].as_array().cloned().unwrap());
        let text = |alert: &Value, key: &str| alert[key].as_str().unwrap_or_default().to_owned();
        let told = alerts.map(|alert| ["title", "kind", "text"].map(|key| text(&alert, key)));
        let mut told: Vec<_> = told.collect();
        told.sort();
        told
    };
    site.until("three alerts", || told().len() >= 3).await;
    site.until_looks(3).await;
    let told = told();
    let titles: Vec<(&str, &str)> =
        told.iter().map(|[title, kind, _]| (title.as_str(), kind.as_str())).collect();
    let conflict = "is in conflict with what somebody else made";
    assert_eq!(
        titles,
        [
            ("Cloudflare refuses what the token may not do", "publication_forbidden"),
            (&*format!("old.example.com {conflict}"), "publication_conflict"),
            (&*format!("www.example.com {conflict}"), "publication_conflict"),
        ]
    );
    let [_, _, text] = &told[0];
    assert!(
        text.contains("Zone · DNS · Edit") && text.ends_with("(app.example.com, shop.example.com)"),
        "{text}"
    );
    assert!(told[2][2].contains("192.0.2.1"), "{told:?}");
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_failures_and_recoveries_are_events() {
    let site = Site::new().await;
    let gate = site.start("every = \"1s\"", "").await;
    let mut events = gate.events().await;
    site.write("every = \"1s\"", &web("www", ""));
    let event = next(&mut events, "www", "conflict").await;
    assert_eq!((&event["service"], event["event"].as_str()), (&json!("file/www"), Some("publication")));
    assert!(event["problem"].as_str().unwrap().contains("192.0.2.1"), "{event}");
    // Whoever made it takes it away.
    site.fake.with(|account| {
        let records = account.zones.iter_mut().flat_map(|zone| &mut zone.records);
        records
            .filter(|record| record["type"] == "A")
            .for_each(|record| record["name"] = "else.example.com".into());
    });
    assert_eq!(next(&mut events, "www", "published").await["problem"], json!(null));

    site.fake.fail(Call::CreateRecord, 1, Fault::Error { status: 403, code: 10000 });
    let tables = web("www", "") + &web("app", "");
    site.write("every = \"1s\"", &tables);
    let event = next(&mut events, "app", "failed").await;
    assert!(event["problem"].as_str().unwrap().contains("Zone · DNS · Edit"), "{event}");
    assert_eq!(next(&mut events, "app", "published").await["problem"], json!(null));

    site.fake.fail(Call::ListZones, 1, Fault::Error { status: 500, code: 10013 });
    let event = events.next("publishing").await;
    assert!(event["problem"].as_str().unwrap().contains("status 500"), "{event}");
    assert_eq!(events.next("publishing").await["problem"], json!(null), "it is over");

    site.fake.with(|account| {
        let changed = account.tunnel.config.as_ref().unwrap().replace("http://app:80", "http://mine:80");
        account.configure(&changed);
    });
    assert_eq!(events.next("tampered").await["rules"], json!(["app.example.com"]));

    let twice = tables.clone() + "[publish.other]\nhosts = [\"app.example.com\"]\naddress = \"other:80\"\n";
    site.write("every = \"1s\"", &twice);
    let event = events.next("problem").await;
    let problem = "app.example.com: file/app has it already and keeps it; give one of them another";
    assert_eq!((&event["service"], &event["problem"]), (&json!("file/other"), &json!(problem)));
    let shown = async || -> Value {
        let (status, body) = gate.control("GET", "/v1/publication", "").await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let standing = json!([format!("file/other: {problem}")]);
    until("the standing problem", LIMIT, async || (shown().await["problems"] == standing).then_some(()))
        .await;
    site.write("every = \"1s\"", &tables);
    until("its end", LIMIT, async || (shown().await["problems"] == json!([])).then_some(())).await;
    drop(gate);
    site.fake.assert_clean();
}

/// The next event about `name.example.com` in this state.
async fn next(events: &mut Listener<UnixStream>, name: &str, state: &str) -> Value {
    let host = format!("{name}.example.com");
    loop {
        let event = events.next("publication").await;
        if event["host"] == host && event["state"] == state {
            return event;
        }
    }
}

/// What a command prints that asks the gate.
async fn said(site: &Site, arguments: &[&str]) -> String {
    let file = site.home.file();
    let output = site.home.command(arguments).arg("--config").arg(file).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
