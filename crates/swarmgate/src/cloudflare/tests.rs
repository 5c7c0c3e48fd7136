mod always;
mod rivals;

use std::sync::Arc;
use std::time::Duration;

use swarmgate_core::config::{self, Config, Override};
use swarmgate_core::event::Event;
use swarmgate_core::labels::{Labels, publish};
use swarmgate_core::publish::Settings;
use swarmgate_core::service::{ServiceId, Snapshot};
use swarmgate_testkit::cloudflare::{ACCOUNT, Call, FakeCloudflare, Fault, TOKEN, TUNNEL, Visit};
use swarmgate_testkit::wait::until;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{PlanAnswer, Publisher, Shown};
use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::fleet::Fleet;
use crate::metrics::Metrics;
use crate::store::Store;

const LIMIT: Duration = Duration::from_secs(30);

/// A gate's publishing half, and the Cloudflare it speaks to.
struct Site {
    fake: FakeCloudflare,
    fleet: Fleet,
    _configs: watch::Sender<Arc<Config>>,
    shown: Shown,
    events: broadcast::Receiver<Event>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

fn configured(fake: &FakeCloudflare, keys: &[(&str, &str)]) -> Arc<Config> {
    let given = [("account", ACCOUNT), ("tunnel", TUNNEL), ("token", TOKEN), ("every", "10m")];
    let (url, mut keys) = (fake.url(), [&given[..], keys].concat());
    keys.push(("api", &url));
    let flags: Vec<Override> = keys
        .iter()
        .map(|(key, value)| Override::from_flag("test", &format!("cloudflare.{key}"), value))
        .collect();
    Arc::new(config::parse("", &flags).unwrap().config)
}

impl Site {
    async fn start(keys: &[(&str, &str)]) -> Self {
        let fake = FakeCloudflare::start().await;
        fake.with(|account| {
            account.add_zone("example.com");
            account.add_policy("staff", "allow");
        });
        Self::on(fake, keys, Store::in_memory(), &[])
    }

    fn on(fake: FakeCloudflare, keys: &[(&str, &str)], store: Store, services: &[(&str, &str)]) -> Self {
        let config = configured(&fake, keys);
        let (send, configs) = watch::channel(Arc::clone(&config));
        let fleet = Fleet::new(config.policy(), Clock::start(), store.clone(), TaskTracker::new());
        let events = fleet.events();
        let (publisher, shown) =
            Publisher::new(fleet.clone(), Alarm::off(fleet.clock()), configs, store, Metrics::default());
        let (seen, stop) = (CancellationToken::new(), CancellationToken::new());
        observe(&fleet, services);
        seen.cancel();
        let running = tokio::spawn(publisher.run(seen, stop.clone()));
        Self { fake, fleet, _configs: send, shown, events, stop, running }
    }

    /// What a Swarm has: services by their names, with labels as `key=value key=value`.
    fn observe(&self, services: &[(&str, &str)]) {
        observe(&self.fleet, services);
    }

    async fn visit(&self, url: &str, expected: Visit) {
        until(&format!("{url} to be {expected:?}"), LIMIT, async || {
            (self.fake.with(|account| account.visit(url)) == expected).then_some(())
        })
        .await;
    }

    async fn shows(&self, what: &str, is: impl Fn(&PlanAnswer) -> bool) -> PlanAnswer {
        until(what, LIMIT, async || Some(self.shown.latest()).filter(&is)).await
    }

    async fn state(&self, host: &str, state: &str) -> PlanAnswer {
        self.shows(&format!("{host} to be {state}"), |shown| {
            shown.hosts.iter().any(|shown| shown.host == host && shown.state == state)
        })
        .await
    }

    async fn end(self) -> FakeCloudflare {
        self.stop.cancel();
        self.running.await.unwrap();
        self.fake
    }
}

fn observe(fleet: &Fleet, services: &[(&str, &str)]) {
    let published = services.iter().filter_map(|(name, labels)| {
        let labels: Labels = labels
            .split_whitespace()
            .filter_map(|label| label.split_once('='))
            .map(|(key, value)| (format!("swarmgate.publish.{key}"), value.to_owned()))
            .collect();
        publish::parse(&labels, ServiceId::new("swarm", name), name, &Settings::default())
    });
    fleet.observe("swarm", Snapshot { services: Vec::new(), published: published.collect() });
}

fn origin(service: &str) -> Visit {
    Visit::Origin(service.to_owned())
}

fn written(fake: &FakeCloudflare) -> Vec<Call> {
    fake.writes().into_iter().map(|(call, _)| call).collect()
}

#[tokio::test]
async fn services_are_published_in_order_with_one_write_and_no_call_after() {
    let site = Site::start(&[]).await;
    site.fake.with(|account| account.protected.insert("b.example.com".into()));
    site.observe(&[
        ("a", "host=a.example.com port=80"),
        ("b", "host=b.example.com port=81 access=staff"),
        ("c", "host=*.example.com port=82"),
    ]);
    site.visit("https://a.example.com/", origin("http://a:80")).await;
    site.visit("https://x.example.com/", origin("http://c:82")).await;
    site.state("b.example.com", "published").await;
    let policy = site.fake.with(|account| account.policies[0]["id"].as_str().unwrap().to_owned());
    site.visit("https://b.example.com/", Visit::Login(vec![policy])).await;
    use Call::{CreateApp, CreateRecord, CreateTag, WriteConfig};
    let order = [CreateTag, CreateApp, WriteConfig, CreateRecord, CreateRecord, CreateRecord];
    assert_eq!(written(&site.fake), order);
    let calls = site.fake.calls().len();
    site.fleet.lost("swarm", "it is away");
    site.observe(&[
        ("a", "host=a.example.com port=80"),
        ("b", "host=b.example.com port=81 access=staff"),
        ("c", "host=*.example.com port=82"),
    ]);
    // A plan is asked for, so the loop has seen what came before.
    assert_eq!(site.shown.now().await.steps, Vec::<String>::new());
    let asked = site.fake.calls().len();
    assert_eq!(site.shown.now().await.problem, None);
    assert_eq!(asked - calls, site.fake.calls().len() - asked, "nothing but what the questions asked for");
    site.end().await;
}

#[tokio::test]
async fn a_write_of_somebody_else_is_neither_lost_nor_fought() {
    let mut site = Site::start(&[]).await;
    site.observe(&[("a", "host=a.example.com port=80")]);
    site.state("a.example.com", "published").await;
    // Between the look and the write.
    let theirs =
        r#"{"ingress":[{"hostname":"x.example.org","service":"http://x:1"},{"service":"http_status:404"}]}"#;
    site.fake.fail(Call::ListZones, 1, Fault::Held);
    site.observe(&[("a", "host=a.example.com port=81")]);
    until("the next round", LIMIT, async || {
        (site.fake.calls().iter().filter(|call| **call == Call::ListZones).count() > 1).then_some(())
    })
    .await;
    site.fake.with(|account| account.configure(theirs));
    site.fake.release();
    site.visit("https://a.example.com/", origin("http://a:81")).await;
    let rules = site.fake.with(|account| account.rules());
    assert!(rules.iter().any(|rule| rule.contains("x.example.org")), "{rules:?}");
    let tampered = until("an event", LIMIT, async || match site.events.recv().await {
        Ok(Event::Tampered { rules }) => Some(rules),
        _ => None,
    })
    .await;
    assert_eq!(tampered, ["a.example.com"]);
    site.end().await;
}

#[tokio::test]
async fn faults_that_pass_are_waited_out_and_others_are_told() {
    let site = Site::start(&[]).await;
    site.fake.fail(Call::CreateRecord, 1, Fault::Error { status: 403, code: 10000 });
    site.observe(&[("a", "host=a.example.com port=80"), ("b", "host=b.example.com port=80")]);
    let shown = site.state("a.example.com", "failed").await;
    let problem = shown.hosts[0].problem.clone().unwrap();
    assert!(problem.contains("DNS"), "{problem}");
    site.visit("https://b.example.com/", origin("http://b:80")).await;
    // A new service is a reason to look again.
    site.observe(&[("a", "host=a.example.com port=80")]);
    site.state("a.example.com", "published").await;

    site.fake.with(|account| account.forbidden.insert(Call::ReadConfig));
    site.observe(&[("a", "host=a.example.com port=82")]);
    let shown = site.shows("a problem", |shown| shown.problem.is_some()).await;
    assert!(shown.problem.unwrap().contains("Cloudflare Tunnel"), "the permission that lacks");
    site.fake.with(|account| account.forbidden.clear());
    site.observe(&[("a", "host=a.example.com port=83")]);
    site.visit("https://a.example.com/", origin("http://a:83")).await;
    site.shows("no problem", |shown| shown.problem.is_none()).await;
    site.end().await;
}

#[tokio::test]
async fn what_is_refused_for_good_keeps_nothing_else_from_being_withdrawn() {
    let site = Site::start(&[("every", "1s"), ("grace", "1s")]).await;
    site.fake.with(|account| account.forbidden.insert(Call::CreateRecord));
    site.observe(&[("a", "host=a.example.com port=80"), ("b", "host=b.example.com port=80")]);
    site.state("a.example.com", "failed").await;
    site.observe(&[("a", "host=a.example.com port=80")]);
    until("b to be withdrawn", LIMIT, async || {
        let rules = site.fake.with(|account| account.rules());
        (!rules.iter().any(|rule| rule.contains("b.example.com"))).then_some(())
    })
    .await;
    let rules = site.fake.with(|account| account.rules());
    assert!(rules.iter().any(|rule| rule.contains("a.example.com")), "{rules:?}");
    site.end().await;
}

#[tokio::test]
async fn while_access_fails_nothing_is_public() {
    let site = Site::start(&[]).await;
    site.observe(&[("a", "host=a.example.com port=80")]);
    site.visit("https://a.example.com/", origin("http://a:80")).await;
    site.fake.fail(Call::CreateApp, 99, Fault::Error { status: 500, code: 1 });
    site.observe(&[("a", "host=a.example.com port=80 access=staff")]);
    site.visit("https://a.example.com/", Visit::Refused).await;
    site.state("a.example.com", "failed").await;
    site.fake.heal();
    let policy = site.fake.with(|account| account.policies[0]["id"].as_str().unwrap().to_owned());
    site.visit("https://a.example.com/", Visit::Login(vec![policy])).await;
    site.state("a.example.com", "published").await;
    site.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_service_is_shown_while_it_is_so_and_told_when_it_comes_back() {
    let mut site = Site::start(&[]).await;
    let (wrong, right) = ([("a", "hots=a.example.com port=80")], [("a", "host=a.example.com port=80")]);
    for _ in 0..2 {
        site.observe(&wrong);
        let shown = site.shows("a problem", |shown| !shown.problems.is_empty()).await;
        let named = "swarm/a: swarmgate.publish.hots: there is no such label";
        assert!(shown.problems.iter().any(|problem| problem.starts_with(named)), "{shown:?}");
        until("an event", LIMIT, async || {
            site.events.recv().await.ok().filter(|event| matches!(event, Event::Problem { .. }))
        })
        .await;
        site.observe(&right);
        site.shows("no problem", |shown| shown.problems.is_empty()).await;
    }
    site.end().await;
}
