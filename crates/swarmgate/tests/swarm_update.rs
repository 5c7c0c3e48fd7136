//! Updates over the API against an engine over HTTP on a socket: what is written, what is refused, and what is said of
//! how it went.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use swarmgate::alarm::Alarm;
use swarmgate::api::error::Refused;
use swarmgate::clock::Clock;
use swarmgate::engine::Engine;
use swarmgate::fleet::{Fleet, TakenSeat};
use swarmgate::provider::Source;
use swarmgate::provider::swarm::SwarmSource;
use swarmgate::provider::swarm::update::{Ask, UpdateError, Updated, Updater};
use swarmgate::store::Store;
use swarmgate_core::api_routes::{self, ApiRoutes, Claim};
use swarmgate_core::config::{Config, EngineHost, parse};
use swarmgate_core::knock::{Knock, Player, Purpose};
use swarmgate_core::ladder::Client;
use swarmgate_core::name::HostName;
use swarmgate_testkit::engine::{FakeEngine, Fault, Swarm, service};
use swarmgate_testkit::wait::until;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

const OLD: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";
const LIMIT: Duration = Duration::from_secs(20);

/// An engine with the services `web`, which is only published, and `mc`, a server; both have `acme/web:1` as it was.
struct Lab {
    _dir: tempfile::TempDir,
    engine: FakeEngine,
    updater: Updater,
    fleet: Fleet,
    source: SwarmSource,
    config: watch::Sender<Arc<Config>>,
}

impl Lab {
    fn new(replicas: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("docker.sock");
        let fake = FakeEngine::start(&socket);
        let labels = [
            ("web", json!({"cloudflared.tunnel.enabled": "true"})),
            ("mc", json!({"swarmgate.host": "mc.example"})),
            ("other", json!({"com.example": "1"})),
        ];
        fake.quietly(|swarm| {
            swarm.may_update_images = true;
            swarm.registry.insert("acme/web:1".into(), OLD.into());
            for (name, labels) in labels {
                let mut spec = service(name, replicas, &labels);
                spec["TaskTemplate"]["ContainerSpec"]["Image"] = format!("acme/web:1@{OLD}").into();
                swarm.create(spec);
                if replicas > 0 {
                    swarm.add_task(name, "running", "running");
                }
            }
        });
        let config = Arc::new(parse("", &[]).unwrap().config);
        let fleet = Fleet::new(config.policy(), Clock::start(), Store::in_memory(), TaskTracker::new());
        let (config, configs) = watch::channel(config);
        let known: Arc<OnceLock<Engine>> = Arc::default();
        let engine = Engine::new(EngineHost::Unix(socket));
        known.set(engine.clone()).unwrap();
        let updater = Updater::new(known, fleet.clone(), configs.clone());
        let source = SwarmSource::new(engine, None, configs, Alarm::off(Clock::start()));
        Self { _dir: dir, engine: fake, updater, fleet, source, config }
    }

    fn swarm<R>(&self, act: impl FnOnce(&mut Swarm) -> R) -> R {
        self.engine.quietly(act)
    }

    fn spec(&self, name: &str) -> String {
        self.swarm(|swarm| swarm.service(name)["Spec"].to_string())
    }

    fn image(&self, name: &str) -> String {
        self.swarm(|swarm| image(swarm.service(name)))
    }

    /// Has the gate look.
    async fn look(&mut self) {
        let snapshot = self.source.list(self.fleet.now()).await.unwrap();
        self.fleet.observe("swarm", snapshot);
    }

    /// Ann joins `mc`.
    fn join(&self) -> TakenSeat {
        let player = Player { name: "Ann".into(), uuid: None };
        let knock = Knock {
            host: HostName::parse("mc.example").ok(),
            purpose: Purpose::Login(player, Client::default()),
            source: [192, 0, 2, 1].into(),
            pass: None,
            account: None,
        };
        let (verdict, seat) = self.fleet.admit(&knock);
        seat.unwrap_or_else(|| panic!("{verdict:?}"))
    }

    async fn update(&self, name: &str, image: Option<&str>) -> Result<Updated, UpdateError> {
        self.updater.update(&ask(name, image)).await
    }

    async fn refused(&self, name: &str, image: Option<&str>) -> (&'static str, String) {
        let error = self.update(name, image).await.unwrap_err();
        let why = error.to_string();
        (code(error), why)
    }

    fn configure(&self, text: &str) {
        self.config.send_replace(Arc::new(parse(text, &[]).unwrap().config));
    }
}

fn ask(name: &str, image: Option<&str>) -> Ask {
    Ask { service: name.to_owned(), image: image.map(str::to_owned), force: false, wait: None }
}

fn code(error: UpdateError) -> &'static str {
    Refused::from(error).code().word()
}

fn image(service: &Value) -> String {
    service["Spec"]["TaskTemplate"]["ContainerSpec"]["Image"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_image_changes_and_nothing_else() {
    let lab = Lab::new(1);
    lab.swarm(|swarm| swarm.registry.insert("acme/web:2".into(), NEW.into()));
    let (before, version) = (lab.spec("web"), lab.swarm(|swarm| swarm.version("web")));
    let updated = lab.update("web", Some("acme/web:2")).await.unwrap();
    assert_eq!(lab.spec("web"), before.replace(&format!("acme/web:1@{OLD}"), &format!("acme/web:2@{NEW}")));
    let now = lab.swarm(|swarm| swarm.version("web"));
    assert!(now > version);
    let expected = Updated {
        success: true,
        old_version: version,
        new_version: now,
        service: "web".into(),
        old_image: format!("acme/web:1@{OLD}"),
        new_image: format!("acme/web:2@{NEW}"),
        old_digest: Some(OLD.into()),
        new_digest: Some(NEW.into()),
        state: "updating".into(),
        warnings: vec![],
    };
    assert_eq!(updated, expected);
    assert_eq!(lab.swarm(|swarm| swarm.complaints.clone()), Vec::<String>::new());
}

#[tokio::test]
async fn a_tag_that_has_moved_is_deployed_and_one_that_has_not_is_left() {
    let lab = Lab::new(1);
    for image in [None, Some("acme/web:1"), Some(&*format!("acme/web:1@{OLD}"))] {
        let updated = lab.update("web", image).await.unwrap();
        assert_eq!((&*updated.state, updated.new_version), ("unchanged", updated.old_version), "{image:?}");
    }
    // Somebody has asked for the same already, and Swarm is at it: who waits hears how that ends.
    lab.swarm(|swarm| swarm.update_status("web", "updating", "update in progress"));
    let waiting = Ask { wait: Some(Duration::ZERO), ..ask("web", None) };
    assert_eq!(code(lab.updater.update(&waiting).await.unwrap_err()), "not_converged");
    lab.swarm(|swarm| swarm.update_status("web", "completed", "update completed"));
    assert_eq!(lab.updater.update(&waiting).await.unwrap().state, "unchanged");
    // What became of an earlier update is not what is asked for.
    lab.swarm(|swarm| swarm.update_status("web", "rollback_completed", "rollback completed"));
    assert_eq!(lab.updater.update(&waiting).await.unwrap().state, "unchanged");
    lab.swarm(|swarm| swarm.reach("web", "failed"));
    assert_eq!(code(lab.updater.update(&waiting).await.unwrap_err()), "not_converged");
    assert_eq!(lab.update("web", None).await.unwrap().state, "unchanged", "nobody waits");
    lab.swarm(|swarm| swarm.reach("web", "running"));
    assert_eq!(lab.swarm(|swarm| swarm.updates.len()), 0);
    lab.swarm(|swarm| swarm.registry.insert("acme/web:1".into(), NEW.into()));
    let updated = lab.update("web", None).await.unwrap();
    assert_eq!((&*updated.state, updated.new_digest.as_deref()), ("updating", Some(NEW)));
    assert_eq!(lab.image("web"), format!("acme/web:1@{NEW}"));
    // Swarm has given up on it: whoever asks again means it.
    lab.swarm(|swarm| swarm.update_status("web", "paused", "update paused"));
    let before = lab.spec("web");
    assert_eq!(lab.update("web", None).await.unwrap().state, "updating");
    assert_eq!(lab.spec("web"), before.replace(r#""ForceUpdate":3"#, r#""ForceUpdate":4"#));
}

#[tokio::test]
async fn without_its_registry_it_is_left_to_the_nodes() {
    let lab = Lab::new(1);
    lab.swarm(|swarm| swarm.registry.clear());
    let updated = lab.update("web", None).await.unwrap();
    assert_eq!(
        (&*lab.image("web"), updated.new_digest),
        ("acme/web:1", None),
        "which node has which is open"
    );
    let warning = &updated.warnings[0];
    assert!(warning.contains("acme/web:1") && warning.contains("is denied"), "{warning}");
    let before = lab.spec("web");
    lab.update("web", Some("acme/web:1")).await.unwrap();
    assert_eq!(lab.spec("web"), before.replace(r#""ForceUpdate":3"#, r#""ForceUpdate":4"#), "started anew");
    for (call, fault) in [
        ("GET /distribution", Fault::Cut),
        ("GET /distribution", Fault::Status(500, "no such host".into())),
        ("GET /distribution", Fault::Status(403, "<html>".into())),
    ] {
        lab.swarm(|swarm| swarm.fail(call, fault));
        assert_eq!(lab.update("web", None).await.unwrap().warnings.len(), 1);
    }
}

#[tokio::test]
async fn what_is_asleep_stays_asleep() {
    let lab = Lab::new(0);
    lab.swarm(|swarm| swarm.registry.insert("acme/web:2".into(), NEW.into()));
    let ask = Ask { wait: Some(LIMIT), ..ask("mc", Some("acme/web:2")) };
    let updated = lab.updater.update(&ask).await.unwrap();
    assert_eq!(
        (&*updated.state, lab.swarm(|swarm| (swarm.replicas("mc"), swarm.tasks.len()))),
        ("asleep", (0, 0))
    );
    assert_eq!(lab.image("mc"), format!("acme/web:2@{NEW}"));
}

#[tokio::test]
async fn others_who_update_win_a_try_and_keep_what_they_wrote() {
    let lab = Lab::new(1);
    lab.swarm(|swarm| {
        swarm.registry.insert("acme/web:2".into(), NEW.into());
        swarm.interfere = 5;
    });
    lab.update("web", Some("acme/web:2")).await.unwrap();
    assert_eq!(lab.swarm(|swarm| swarm.service("web")["Spec"]["Labels"]["changed"].clone()), "again");
    let asked = |swarm: &mut Swarm| swarm.calls.iter().filter(|call| call.contains("distribution")).count();
    assert_eq!(lab.swarm(asked), 1, "the registry is asked once");
    lab.swarm(|swarm| swarm.interfere = u32::MAX);
    let (code, why) = lab.refused("web", Some("acme/web:3")).await;
    assert!(code == "out_of_sequence" && why.contains("another tool"), "{why}");
}

#[tokio::test]
async fn one_without_an_answer_is_looked_after_not_made_twice() {
    let lab = Lab::new(1);
    lab.swarm(|swarm| {
        swarm.registry.clear();
        swarm.fail("POST /services/idweb/update", Fault::Cut);
    });
    let updated = lab.update("web", None).await.unwrap();
    assert_eq!(lab.swarm(|swarm| swarm.updates.len()), 1);
    assert_eq!((&*updated.state, updated.new_version > updated.old_version), ("updating", true));
    // Nor if somebody else has changed something by then.
    lab.swarm(|swarm| {
        swarm.fail("POST /services/idweb/update", Fault::Cut);
        swarm.interfere_after_writes = 1;
    });
    let updated = lab.update("web", None).await.unwrap();
    assert_eq!(lab.swarm(|swarm| swarm.updates.len()), 2);
    assert_eq!(&*updated.state, "updating");
}

#[tokio::test]
async fn players_are_not_thrown_out() {
    let mut lab = Lab::new(1);
    lab.swarm(|swarm| swarm.registry.insert("acme/web:2".into(), NEW.into()));
    lab.look().await;
    let (code, why) = lab.refused("mc", Some("acme/web:2")).await;
    assert!(code == "unknown_players" && why.contains("force=true"), "{why}");
    let _seat = lab.join();
    let (code, why) = lab.refused("mc", Some("acme/web:2")).await;
    assert!(code == "occupied" && why.contains("1 through the gate"), "{why}");
    assert_eq!(lab.update("mc", None).await.unwrap().state, "unchanged", "nobody is disturbed by that");
    assert_eq!(lab.swarm(|swarm| swarm.updates.len()), 0);
    let ask = Ask { force: true, ..ask("mc", Some("acme/web:2")) };
    lab.updater.update(&ask).await.unwrap();
    assert_eq!(lab.swarm(|swarm| swarm.updates.len()), 1);
}

#[tokio::test]
async fn what_was_not_looked_at_is_not_empty() {
    let mut lab = Lab::new(1);
    lab.swarm(|swarm| swarm.registry.insert("acme/web:2".into(), NEW.into()));
    let (code, why) = lab.refused("mc", Some("acme/web:2")).await;
    assert!(code == "unknown_players" && why.contains("force=true"), "{why}");
    lab.swarm(|swarm| swarm.forbid("GET /tasks"));
    assert!(lab.source.list(lab.fleet.now()).await.is_err());
    assert_eq!(lab.refused("mc", Some("acme/web:2")).await.0, "unknown_players");
    assert_eq!(lab.swarm(|swarm| swarm.updates.len()), 0);
    lab.update("web", Some("acme/web:2")).await.unwrap();
    let ask = Ask { force: true, ..ask("mc", Some("acme/web:2")) };
    assert_eq!(lab.updater.update(&ask).await.unwrap().state, "updating");
}

#[tokio::test]
async fn the_gate_has_everybody_in_it() {
    let mut lab = Lab::new(1);
    lab.swarm(|swarm| swarm.registry.insert("acme/web:2".into(), NEW.into()));
    let container = lab.swarm(|swarm| swarm.task("web")["Status"]["ContainerStatus"]["ContainerID"].clone());
    lab.updater = lab.updater.clone().in_container(container.as_str().map(str::to_owned));
    lab.configure("[update]\nservices = \"all\"");
    lab.look().await;
    let seat = lab.join();
    let (code, why) = lab.refused("web", Some("acme/web:2")).await;
    assert!(code == "occupied" && why.contains("the gate itself") && why.contains("(1)"), "{why}");
    assert_eq!(lab.update("other", Some("acme/web:2")).await.unwrap().state, "updating");
    let ask = Ask { force: true, ..ask("web", Some("acme/web:2")) };
    assert_eq!(lab.updater.update(&ask).await.unwrap().state, "updating");
    drop(seat);
    assert_eq!(lab.update("web", Some("acme/web:1")).await.unwrap().state, "updating");
}

#[tokio::test]
async fn what_may_not_be_updated_says_why() {
    let lab = Lab::new(1);
    for (name, image, code, words) in [
        ("other", None, "not_labelled", "update.services"),
        ("nothing", None, "no_such_service", "there is no service called 'nothing'"),
        ("idwe", None, "no_such_service", "no service called"),
        ("web", Some("Web:1"), "bad_request", "image: \"Web\" is not a name"),
        ("web", Some(""), "bad_request", "image: the name is empty"),
    ] {
        let (found, why) = lab.refused(name, image).await;
        assert!(found == code && why.contains(words), "{name}: {found}: {why}");
    }
    lab.configure("[update]\nservices = \"all\"\nimages = [\"acme/*\", \"ghcr.io/acme/web\"]");
    assert_eq!(lab.refused("other", Some("acme-evil/web:1")).await.0, "image_not_allowed");
    assert_eq!(lab.update("other", None).await.unwrap().state, "unchanged");
    lab.swarm(|swarm| swarm.alone = true);
    assert_eq!(lab.refused("web", None).await.0, "no_swarm");
}

/// Asks for `acme/web:2` and waits, while `then` is what Swarm makes of it.
async fn waited(lab: &Lab, wait: Duration, then: impl FnOnce(&mut Swarm)) -> Result<Updated, UpdateError> {
    lab.swarm(|swarm| swarm.registry.insert("acme/web:2".into(), NEW.into()));
    let ask = Ask { wait: Some(wait), ..ask("web", Some("acme/web:2")) };
    let made = async {
        until("the update", LIMIT, async || lab.swarm(|swarm| (!swarm.updates.is_empty()).then_some(())))
            .await;
        lab.swarm(then);
    };
    tokio::join!(lab.updater.update(&ask), made).0
}

#[tokio::test]
async fn who_waits_hears_how_it_ends() {
    type Then = fn(&mut Swarm);
    let done = waited(&Lab::new(1), LIMIT, |swarm| swarm.reach("web", "running")).await.unwrap();
    assert_eq!(done.state, "converged");
    let cases: [(Then, &str, &[&str]); 3] = [
        (
            |swarm| {
                swarm.reach("web", "rejected");
                swarm.task("web")["Status"]["Err"] = "No such image: acme/web:2".into();
                swarm.update_status("web", "paused", "update paused due to failure of task task4");
            },
            "update_paused",
            &["failure of task task4", "No such image: acme/web:2"],
        ),
        (
            |swarm| swarm.update_status("web", "rollback_completed", "rollback completed"),
            "update_rolled_back",
            &["rollback completed"],
        ),
        (
            |swarm| {
                swarm.edit("web", |spec| spec["TaskTemplate"]["ContainerSpec"]["Image"] = "acme/web:9".into())
            },
            "update_superseded",
            &["it asks for acme/web:9 now"],
        ),
    ];
    for (then, expected, words) in cases {
        let error = waited(&Lab::new(1), LIMIT, then).await.unwrap_err();
        let why = error.to_string();
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
        assert_eq!(code(error), expected);
    }
    let lab = Lab::new(1);
    let asleep = waited(&lab, LIMIT, |swarm| {
        swarm.edit("web", |spec| spec["Mode"]["Replicated"]["Replicas"] = 0.into());
        swarm.tasks.clear();
    });
    assert_eq!(asleep.await.unwrap().state, "asleep");
    let error = waited(&Lab::new(1), Duration::from_secs(1), |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("after 1s: 0 of 1 tasks run it"), "{error}");
    assert_eq!(code(error), "not_converged");
}

#[tokio::test]
async fn without_a_swarm_it_says_what_the_service_is() {
    let config = Arc::new(parse("", &[]).unwrap().config);
    let fleet = Fleet::new(config.policy(), Clock::start(), Store::in_memory(), TaskTracker::new());
    let mut routes = ApiRoutes::default();
    let backend = api_routes::backend("lobby:1", &[]).unwrap();
    routes.set(Claim::Default, backend).unwrap();
    fleet.observe("api", routes.snapshot(&config.defaults));
    let updater = Updater::new(Arc::default(), fleet, watch::channel(config).1);
    for (name, expected) in [("lobby:1", "not_a_swarm_service"), ("web", "no_swarm")] {
        assert_eq!(code(updater.update(&ask(name, None)).await.unwrap_err()), expected);
    }
}

#[tokio::test]
async fn a_registry_that_wants_a_password_gets_it_and_so_do_the_nodes() {
    let lab = Lab::new(1);
    let file = lab._dir.path().join("config.json");
    lab.configure(&format!("[update]\nregistries_file = \"{}\"\n", file.display()));
    lab.swarm(|swarm| {
        swarm.registry.insert("acme/web:2".into(), NEW.into());
        swarm.password = Some("s3cret".into());
    });
    // Its file is not there yet: that is said, and the rest goes on as without.
    let updated = lab.update("web", Some("acme/web:2")).await.unwrap();
    assert_eq!(lab.image("web"), "acme/web:2");
    assert!(
        updated.warnings.iter().any(|warning| warning.contains("registries_file")),
        "{:?}",
        updated.warnings
    );
    assert_eq!(lab.swarm(|swarm| swarm.auths.clone()), Vec::<Value>::new());

    std::fs::write(
        &file,
        r#"{"auths": {"https://index.docker.io/v1/": {"username": "ann", "password": "s3cret"}}}"#,
    )
    .unwrap();
    let updated = lab.update("web", Some("acme/web:2")).await.unwrap();
    assert_eq!((lab.image("web"), updated.warnings), (format!("acme/web:2@{NEW}"), Vec::new()));
    let auth =
        json!({"username": "ann", "password": "s3cret", "serveraddress": "https://index.docker.io/v1/"});
    assert_eq!(lab.swarm(|swarm| swarm.auths.clone()), [auth]);

    // Of another registry nothing is known: what the service has stays.
    let updated = lab.update("web", Some("ghcr.io/acme/web:2")).await.unwrap();
    assert!(updated.warnings[0].contains("could not be found out"), "{:?}", updated.warnings);
    lab.swarm(|swarm| assert_eq!((swarm.auths.len(), &swarm.complaints), (1, &Vec::new())));
}
