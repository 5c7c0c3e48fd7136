//! What becomes of a hostname that no service asks for any more.

use swarmgate_testkit::cloudflare::{Call, Visit};
use swarmgate_testkit::process::Signal;

use crate::site::{Site, origin, web};

const QUICK: &str = "every = \"1s\"\ngrace = \"2s\"";

#[tokio::test(flavor = "multi_thread")]
async fn it_goes_after_the_grace_in_the_reverse_order_and_its_record_stays_unless_asked() {
    let site = Site::new().await;
    let leaving = web("app", "access = [\"staff\"]") + &web("brief", "delete_dns_on_removal = true");
    let _gate = site.start(QUICK, &(leaving + &web("other", ""))).await;
    site.until_visit("app.example.com", &site.login()).await;
    site.until_visit("other.example.com", &origin("other")).await;
    let made = site.writes().len();
    site.protect("app.example.com");
    site.write(QUICK, &web("other", ""));
    site.until_visit("app.example.com", &Visit::Refused).await;
    site.until_visit("brief.example.com", &Visit::Unresolved).await;
    site.until_looks(2).await;
    let (record, apps) = site.fake.with(|account| {
        (account.records("app.example.com")[0].clone(), account.apps_for("app.example.com").len())
    });
    assert_eq!(apps, 0);
    assert!(record["comment"].as_str().unwrap().starts_with("released-by=swarmgate"), "{record}");
    let mut gone = site.writes().split_off(made);
    gone[..2].sort();
    let order = [Call::ReplaceRecord, Call::DeleteRecord, Call::WriteConfig, Call::DeleteApp];
    assert_eq!(gone, order, "first it is not found, then not served, then not protected");
    assert_eq!(site.visit("other.example.com"), origin("other"));
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_in_time_was_never_gone() {
    let site = Site::new().await;
    let keys = "every = \"1s\"\ngrace = \"1h\"";
    let _gate = site.start(keys, &web("app", "")).await;
    site.until_visit("app.example.com", &origin("app")).await;
    let before = site.writes();
    for tables in [String::new(), web("app", "")] {
        site.write(keys, &tables);
        site.until_looks(2).await;
        assert_eq!((site.visit("app.example.com"), site.writes()), (origin("app"), before.clone()));
    }
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_it_has_been_gone_survives_a_restart() {
    let site = Site::new().await;
    let keys = "every = \"1s\"\ngrace = \"6s\"";
    let gate = site.start(keys, &web("app", "")).await;
    site.until_visit("app.example.com", &origin("app")).await;
    site.write(keys, "");
    site.until_looks(4).await;
    assert!(gate.end(Signal::TERM).await.success());
    assert_eq!(site.visit("app.example.com"), origin("app"), "its time has not come");
    let before = site.looks();
    let _gate = site.home.start().await;
    site.until_visit("app.example.com", &Visit::Refused).await;
    // They are a second apart, at least.
    assert!(site.looks() - before < 6, "the time before the restart counts");
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_without_its_memory_first_looks_and_removes_nothing() {
    let site = Site::new().await;
    let gate = site.start(QUICK, &web("app", "")).await;
    site.until_visit("app.example.com", &origin("app")).await;
    assert!(gate.end(Signal::TERM).await.success());
    std::fs::remove_dir_all(site.home.path().join("swarmgate-data")).unwrap();
    site.write("every = \"1s\"\ngrace = \"1h\"", "");
    let _gate = site.home.start().await;
    site.until_looks(3).await;
    assert_eq!(site.visit("app.example.com"), origin("app"));
    site.assert_untouched();
}
