//! The example of published services as a reader would deploy it, with stand-ins under the images' real names and a
//! Cloudflare of the test's own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use swarmgate_testkit::cloudflare::{ACCOUNT, Call, FakeCloudflare, TOKEN, TUNNEL, Visit};
use swarmgate_testkit::lab::request;

use crate::site::{CONFIG, ENGINE, Site};

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
    let calls: Vec<Call> = fake.writes().into_iter().skip(6).map(|(call, _)| call).collect();
    assert_eq!(
        calls,
        [Call::ReplaceRecord, Call::ReplaceRecord, Call::WriteConfig],
        "its records are released"
    );
    assert_eq!(fake.with(|account| account.visit("https://wiki.example.com/")), Visit::Login(vec![staff]));
    ten_at_once_are_one_change(&site, &fake).await;
}

#[tokio::test]
async fn a_move_a_redeploy_and_a_restart_of_the_gate_are_no_absence() {
    let Some(site) = Site::without_gate(2, 1).await else { return };
    let fake = FakeCloudflare::start_at(site.lab.node(1).address().parse().unwrap()).await;
    fake.with(|account| drop(account.add_zone("example.com").id.clone()));
    let configure = |grace: &str| {
        let api = fake.url();
        let keys = format!(
            "[cloudflare]\napi = \"{api}\"\naccount = \"{ACCOUNT}\"\ntunnel = \"{TUNNEL}\"\ntoken = \"{TOKEN}\"\nevery = \"1s\"\n"
        );
        let file = site.lab.shared("config").join("swarmgate.toml");
        fs::write(file, format!("{CONFIG}{keys}grace = \"{grace}\"\n")).unwrap();
    };
    configure("1h");
    site.start_gate(ENGINE).await;
    let visit = || fake.with(|account| account.visit("https://site.example.com/"));
    let at = |port: u16| Visit::Origin(format!("http://web_site:{port}"));
    let writes = || fake.writes().into_iter().map(|(call, _)| call).collect::<Vec<_>>();

    deploy_site(&site, 2, 80).await;
    site.lab.until("it is published", async || (visit() == at(80)).then_some(())).await;
    until_runs(&site, "web_site", "node2").await;
    until_state(&site, "published").await;
    let mut expected = vec![Call::WriteConfig, Call::CreateRecord];
    assert_eq!(writes(), expected);

    deploy_site(&site, 1, 80).await;
    until_runs(&site, "web_site", "node1").await;
    until_looks(&site, &fake).await;
    assert_eq!((visit(), writes()), (at(80), expected.clone()), "a task on another node");

    deploy_site(&site, 1, 81).await;
    site.lab.until("it has another port", async || (visit() == at(81)).then_some(())).await;
    until_state(&site, "published").await;
    expected.push(Call::WriteConfig);
    assert_eq!(writes(), expected);

    site.lab.docker("stack rm web").await;
    until_state(&site, "leaving").await;
    until_looks(&site, &fake).await;
    assert_eq!((visit(), writes()), (at(81), expected.clone()), "it may come back");
    let network = async || site.lab.docker("network ls --quiet --filter name=web_").await;
    site.lab.until("its network is gone", async || network().await.is_empty().then_some(())).await;
    deploy_site(&site, 1, 81).await;
    until_state(&site, "published").await;
    until_looks(&site, &fake).await;
    assert_eq!((visit(), writes()), (at(81), expected.clone()), "and it did");

    let label = "swarmgate.publish";
    let update = format!("service update --detach --label-rm {label}.host --label-rm {label}.port web_site");
    site.lab.docker(&update).await;
    until_state(&site, "leaving").await;
    let gate = async || site.lab.docker("ps --quiet --filter name=gate.").await;
    let before = gate().await;
    site.lab.docker("service update --detach --force gate").await;
    site.lab
        .until("another gate", async || {
            let now = gate().await;
            (now.lines().count() == 1 && now != before).then_some(())
        })
        .await;
    until_state(&site, "leaving").await;
    until_looks(&site, &fake).await;
    assert_eq!((visit(), writes()), (at(81), expected.clone()), "in the middle of its grace");
    configure("1s");
    site.lab.until("it is withdrawn", async || (visit() == Visit::Refused).then_some(())).await;
    expected.extend([Call::ReplaceRecord, Call::WriteConfig]);
    assert_eq!(writes(), expected);
    let comment = fake.with(|account| account.records("site.example.com")[0]["comment"].clone());
    assert!(comment.as_str().unwrap().starts_with("released-by=swarmgate"), "{comment}");
}

/// A stack `web` with one labelled service.
async fn deploy_site(site: &Site, node: usize, port: u16) {
    let labels = format!("{{swarmgate.publish.host: site.example.com, swarmgate.publish.port: '{port}'}}");
    let deploy = format!("{{labels: {labels}, placement: {{constraints: ['node.hostname == node{node}']}}}}");
    let file = site.lab.shared("config").join("web.yml");
    fs::write(
        &file,
        format!("services: {{site: {{image: testserver, deploy: {deploy}}}}}\nversion: '3.8'\n"),
    )
    .unwrap();
    let mut deploy = site.lab.command("docker");
    deploy.args(["stack", "deploy", "--resolve-image", "never", "--compose-file"]);
    site.lab.run(deploy.arg(file).arg("web")).await;
}

async fn until_runs(site: &Site, service: &str, node: &str) {
    let tasks = format!(
        "service ps --filter desired-state=running --format {{{{.Node}}}}:{{{{.CurrentState}}}} {service}"
    );
    site.lab
        .until(&format!("{service} runs on {node}"), async || {
            site.lab.docker(&tasks).await.starts_with(&format!("{node}:Running")).then_some(())
        })
        .await;
}

/// Until the gate says that of its only hostname.
async fn until_state(site: &Site, state: &str) {
    site.lab
        .until(&format!("the gate says {state}"), async || {
            let answer = request(&site.control, "GET", "/v1/publication", None).await.ok()?;
            (answer.body["hosts"][0]["state"] == state).then_some(())
        })
        .await;
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
