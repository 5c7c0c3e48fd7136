//! Containers with labels of publication, on a real engine, and a Cloudflare of the test's own in its network.

use swarmgate_testkit::cloudflare::{ACCOUNT, Call, FakeCloudflare, TOKEN, TUNNEL, Visit};

use crate::site::Site;

const LABELS: &str = "--label swarmgate.publish.host=shop.example.com --label swarmgate.publish.port=80";

#[tokio::test]
async fn labelled_containers_are_published_kept_over_a_redeploy_and_withdrawn() {
    let Some(site) = Site::start().await else { return };
    let fake = FakeCloudflare::start().await;
    fake.with(|account| {
        account.add_zone("example.com");
        account.configure(r#"{"ingress":[{"hostname":"old.example.com","service":"http://old:1"},{"service":"http_status:503"}]}"#);
    });
    site.reconfigure(&format!(
        "[cloudflare]\napi = \"{}\"\naccount = \"{ACCOUNT}\"\ntunnel = \"{TUNNEL}\"\ntoken = \"{TOKEN}\"\nevery = \"1s\"\ngrace = \"8s\"\n",
        fake.url()
    ));
    let create = async || {
        site.lab.docker(&format!("run --detach --name shop --network games {LABELS} testserver")).await;
    };
    let shop = || fake.with(|account| account.visit("https://shop.example.com/"));
    let origin = Visit::Origin("http://shop:80".to_owned());
    create().await;
    site.lab.until("the shop is published", async || (shop() == origin).then_some(())).await;
    let before = fake.writes().len();

    // Made anew, and stopped: it is still a container that asks for it.
    site.lab.docker("rm --force shop").await;
    until_looks(&site, &fake).await;
    create().await;
    site.lab.docker("stop --time 0 shop").await;
    until_looks(&site, &fake).await;
    assert_eq!((shop(), fake.writes().len()), (origin, before));

    site.lab.docker("rm --force shop").await;
    site.lab.until("the shop is withdrawn", async || (shop() == Visit::Refused).then_some(())).await;
    let rules = fake.with(|account| account.rules());
    assert!(rules.len() == 2 && rules[0].contains("old.example.com"), "{rules:?}");
    fake.assert_clean();
}

/// Until the gate has once looked at everything from begin to end.
async fn until_looks(site: &Site, fake: &FakeCloudflare) {
    let looks = || fake.calls().iter().filter(|call| **call == Call::ListZones).count();
    let wanted = looks() + 2;
    site.lab.until("another look at everything", async || (looks() >= wanted).then_some(())).await;
}
