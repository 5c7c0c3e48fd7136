//! The example of published services as a reader would deploy it, with stand-ins under the images' real names and a
//! Cloudflare of the test's own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use swarmgate_testkit::cloudflare::{ACCOUNT, Call, FakeCloudflare, TOKEN, TUNNEL, Visit};

use crate::site::Site;

const FILE: &str = "../../examples/web.yml";
/// Where the API is, and everything faster.
const FAST: &str = "services: {gate: {environment: {SWARMGATE_CLOUDFLARE_API: 'API', SWARMGATE_CLOUDFLARE_EVERY: 1s, SWARMGATE_CLOUDFLARE_GRACE: 4s}}}\nversion: '3.8'\n";

#[tokio::test]
async fn the_example_of_published_services_works_as_it_stands() {
    let Some(site) = Site::without_gate(1, 1).await else { return };
    for image in ["cloudflare/cloudflared:2026.8.2", "nginx:stable-alpine"] {
        site.lab.testserver_image(image).await;
    }
    let token = site.lab.shared("config").join("token");
    fs::write(&token, TOKEN).unwrap();
    for secret in ["cloudflare_api", "cloudflare_tunnel"] {
        site.lab.docker(&format!("secret create {secret} {}", token.display())).await;
    }
    let fake = FakeCloudflare::start_at(site.lab.node(1).address().parse().unwrap()).await;
    let staff = fake.with(|account| {
        account.add_zone("example.com");
        account.protected.insert("wiki.example.com".into());
        account.add_policy("staff", "allow")
    });
    let published = || {
        let visit = |host: &str| fake.with(|account| account.visit(&format!("https://{host}.example.com/")));
        visit("shop") == Visit::Origin("http://web_shop:80".into())
            && visit("www") == Visit::Origin("http://web_shop:80".into())
            && visit("wiki") == Visit::Login(vec![staff.clone()])
    };

    deploy(&site, &fake).await;
    site.lab.until("everything is published", async || published().then_some(())).await;
    let calls: Vec<Call> = fake.writes().into_iter().map(|(call, _)| call).collect();
    let one_change = [Call::CreateTag, Call::CreateApp, Call::WriteConfig];
    assert_eq!((&calls[..3], calls.len()), (&one_change[..], 6), "{calls:?}");

    site.lab.docker("service scale --detach web_shop=0").await;
    until_looks(&site, &fake).await;
    deploy(&site, &fake).await;
    until_looks(&site, &fake).await;
    site.lab.docker("stack rm web").await;
    site.lab
        .until("no trace of it", async || {
            let services = site.lab.docker("service ls --quiet").await;
            let containers = site.lab.docker("ps --quiet").await;
            let networks = site.lab.docker("network ls --quiet --filter name=web_").await;
            (services + &containers + &networks).is_empty().then_some(())
        })
        .await;
    deploy(&site, &fake).await;
    until_looks(&site, &fake).await;
    assert!(published());
    assert_eq!(fake.writes().len(), 6, "neither zero replicas nor a deploy is an absence");

    let label = "swarmgate.publish";
    let update = format!("service update --detach --label-rm {label}.host --label-rm {label}.port web_shop");
    site.lab.docker(&update).await;
    until_looks(&site, &fake).await;
    // Another gate, in the middle of the grace.
    site.lab.docker("service update --detach --force web_gate").await;
    let refused = || fake.with(|account| account.visit("https://shop.example.com/")) == Visit::Refused;
    site.lab.until("the shop is withdrawn", async || refused().then_some(())).await;
    assert_eq!(fake.with(|account| account.visit("https://wiki.example.com/")), Visit::Login(vec![staff]));
    ten_at_once_are_one_change(&site, &fake).await;
}

async fn ten_at_once_are_one_change(site: &Site, fake: &FakeCloudflare) {
    let host = |number: usize| format!("ten{number}.example.com");
    let service = |number: usize| {
        let labels = format!("{{swarmgate.publish.host: {}, swarmgate.publish.port: '80'}}", host(number));
        format!("  s{number}: {{image: 'nginx:stable-alpine', deploy: {{replicas: 0, labels: {labels}}}}}\n")
    };
    let file = site.lab.shared("config").join("ten.yml");
    fs::write(&file, format!("services:\n{}version: '3.8'\n", (0..10).map(service).collect::<String>()))
        .unwrap();
    let changes = || fake.writes().iter().filter(|(call, _)| *call == Call::WriteConfig).count();
    let before = changes();
    let mut deploy = site.lab.command("docker");
    deploy.args(["stack", "deploy", "--resolve-image", "never", "--compose-file"]);
    site.lab.run(deploy.arg(file).arg("ten")).await;
    let is_published = |number: usize| {
        let visit = fake.with(|account| account.visit(&format!("https://{}/", host(number))));
        visit == Visit::Origin(format!("http://ten_s{number}:80"))
    };
    let all = async || (0..10).all(is_published).then_some(());
    site.lab.until("ten more are published", all).await;
    assert_eq!(changes() - before, 1);
}

/// Until the gate has once looked at everything from begin to end.
async fn until_looks(site: &Site, fake: &FakeCloudflare) {
    let looks = || fake.calls().iter().filter(|call| **call == Call::ListZones).count();
    let wanted = looks() + 2;
    site.lab.until("another look at everything", async || (looks() >= wanted).then_some(())).await;
}

async fn deploy(site: &Site, fake: &FakeCloudflare) {
    let fast = site.lab.shared("config").join("fast.yml");
    fs::write(&fast, FAST.replace("API'", &format!("{}'", fake.url()))).unwrap();
    let group = fs::metadata(site.lab.node(1).socket()).unwrap().gid();
    let mut deploy = site.lab.command("docker");
    deploy
        .env("DOCKER_GROUP", group.to_string())
        .env("CLOUDFLARE_ACCOUNT", ACCOUNT)
        .env("CLOUDFLARE_TUNNEL", TUNNEL);
    deploy.args(["stack", "deploy", "--resolve-image", "never", "--compose-file"]);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    site.lab.run(deploy.arg(file).arg("--compose-file").arg(fast).arg("web")).await;
}
