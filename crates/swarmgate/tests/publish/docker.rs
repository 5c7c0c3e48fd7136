//! Services of a Swarm, by their labels.

use serde_json::{Value, json};
use swarmgate_testkit::cloudflare::{Call, Visit};
use swarmgate_testkit::engine::{FakeEngine, service};
use swarmgate_testkit::process::Signal;

use crate::common::{Config, Gate};
use crate::site::{Site, origin};

/// A site beside a Swarm.
struct Lab {
    site: Site,
    engine: FakeEngine,
    gate: Gate,
}

impl Lab {
    async fn start(keys: &str) -> Self {
        let site = Site::new().await;
        let socket = site.home.path().join("docker.sock");
        let engine = FakeEngine::start(&socket);
        let docker = format!("swarm = \"on\"\ncontainers = \"off\"\nhost = \"unix://{}\"", socket.display());
        site.home.write(&Config { docker, ..site.config(keys, "") });
        let gate = site.home.start().await;
        Self { site, engine, gate }
    }

    /// As `docker service create`, with its event.
    fn create(&self, name: &str, labels: &Value) {
        self.engine.quietly(|swarm| swarm.create(service(name, 1, labels)));
        self.tell("create", name);
    }

    fn remove(&self, name: &str) {
        self.engine.quietly(|swarm| swarm.remove(name));
        self.tell("remove", name);
    }

    fn tell(&self, action: &str, name: &str) {
        let actor = json!({"ID": format!("id{name}"), "Attributes": {"name": name}});
        self.engine.tell(json!({"Type": "service", "Action": action, "Actor": actor}));
    }

    fn end(self) {
        drop(self.gate);
        self.site.assert_untouched();
        assert_eq!(self.engine.quietly(|swarm| swarm.complaints.clone()), Vec::<String>::new());
    }
}

fn labels(name: &str) -> Value {
    json!({"swarmgate.publish.host": format!("{name}.example.com"), "swarmgate.publish.port": "80"})
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_publish_and_their_removal_withdraws() {
    let lab = Lab::start("every = \"1s\"\ngrace = \"1s\"").await;
    lab.create("web", &labels("web"));
    lab.site.until_visit("web.example.com", &origin("web")).await;
    lab.engine.update("web", |swarm| swarm.edit("web", |spec| spec["Labels"] = json!({})));
    lab.site.until_visit("web.example.com", &Visit::Refused).await;
    lab.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_labels_of_swarmctl_publish() {
    let lab = Lab::start("").await;
    lab.site.protect("two.example.com");
    let labels = json!({"cloudflared.tunnel.enabled": "true", "cloudflared.tunnel.port": "80",
        "cloudflared.tunnel.hostname": "one.example.com, two.example.com", "cloudflared.tunnel.x.hostname": "x.other.example",
        "cloudflared.tunnel.access.policy": lab.site.staff});
    lab.create("web", &labels);
    for host in ["one.example.com", "two.example.com", "x.other.example"] {
        lab.site.until_visit(host, &lab.site.login()).await;
    }
    lab.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_services_at_once_are_one_change_of_the_tunnel() {
    let lab = Lab::start("").await;
    let names: Vec<String> = (0..10).map(|number| format!("web{number}")).collect();
    for name in &names {
        lab.create(name, &labels(name));
    }
    for name in &names {
        lab.site.until_visit(&format!("{name}.example.com"), &origin(name)).await;
    }
    let changes = lab.site.writes().iter().filter(|call| **call == Call::WriteConfig).count();
    assert_eq!(changes, 1);
    lab.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redeploy_and_a_scale_to_zero_change_nothing() {
    let lab = Lab::start("every = \"1s\"").await;
    lab.create("web", &labels("web"));
    lab.site.until_visit("web.example.com", &origin("web")).await;
    let before = lab.site.writes();
    lab.engine
        .update("web", |swarm| swarm.edit("web", |spec| spec["Mode"]["Replicated"]["Replicas"] = 0.into()));
    lab.site.until_looks(2).await;
    lab.remove("web");
    lab.create("web", &labels("web"));
    lab.site.until_looks(2).await;
    assert_eq!((lab.site.visit("web.example.com"), lab.site.writes()), (origin("web"), before));
    lab.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_in_a_gap_between_events_is_followed() {
    let lab = Lab::start("every = \"1s\"\ngrace = \"1s\"").await;
    lab.create("goes", &labels("goes"));
    lab.site.until_visit("goes.example.com", &origin("goes")).await;
    lab.engine.quietly(|swarm| swarm.create(service("comes", 1, &labels("comes"))));
    lab.engine.quietly(|swarm| swarm.remove("goes"));
    lab.engine.cut_streams();
    lab.site.until_visit("comes.example.com", &origin("comes")).await;
    lab.site.until_visit("goes.example.com", &Visit::Refused).await;
    lab.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swarm_that_does_not_answer_takes_nothing_away() {
    let mut lab = Lab::start("every = \"1s\"\ngrace = \"1s\"").await;
    lab.create("web", &labels("web"));
    lab.site.until_visit("web.example.com", &origin("web")).await;
    let before = lab.site.writes();
    lab.engine.stop();
    lab.site.until_looks(4).await;
    assert_eq!((lab.site.visit("web.example.com"), lab.site.writes()), (origin("web"), before));
    lab.engine.listen();
    lab.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swarm_that_does_not_answer_after_a_restart_takes_nothing_away() {
    let keys = "every = \"1s\"\ngrace = \"3s\"";
    let mut lab = Lab::start(keys).await;
    lab.create("web", &labels("web"));
    lab.site.until_visit("web.example.com", &origin("web")).await;
    // In the middle of its grace, and made anew while nobody looks.
    lab.remove("web");
    lab.site.until_looks(1).await;
    lab.engine.stop();
    assert!(lab.gate.end(Signal::TERM).await.success());
    let before = lab.site.writes();
    let gate = lab.site.home.start().await;
    lab.site.until_looks(5).await;
    assert_eq!((lab.site.visit("web.example.com"), lab.site.writes()), (origin("web"), before.clone()));
    lab.engine.quietly(|swarm| swarm.create(service("web", 1, &labels("web"))));
    lab.engine.listen();
    lab.site.until_log(&gate, "the source answers again").await;
    lab.site.until_looks(2).await;
    assert_eq!((lab.site.visit("web.example.com"), lab.site.writes()), (origin("web"), before));
    Lab { gate, ..lab }.end();
}
