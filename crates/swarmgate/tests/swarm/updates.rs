//! Updates over the API on a real Swarm: what is changed, what stays, and what is said when it does not work. The nodes
//! reach no registry.

use serde_json::Value;
use swarmgate_testkit::lab::{Answer, LIMIT, container, request};

use crate::site::Site;

#[tokio::test]
async fn a_service_gets_its_image_and_keeps_everything_else() {
    let Some(site) = Site::start(1).await else { return };
    site.lab.testserver_image("web:1").await;
    another_image(&site, "web:2", "2").await;
    tokio::join!(changes_nothing_else(&site), goes_back(&site), stays_asleep(&site));
}

/// Published only: what is no game has no players to ask.
async fn changes_nothing_else(site: &Site) {
    create(
        site,
        "web",
        "--env A=1 --mount type=tmpfs,dst=/tmp --limit-memory 200M --update-order start-first",
    )
    .await;
    let before = site.lab.service("web").await;
    let answer = update(site, "web", "image=web:2&wait=true&timeout=90s").await.success();
    assert_eq!(answer["state"], "converged", "{answer}");
    assert_eq!((&answer["oldImage"], &answer["newImage"]), (&"web:1".into(), &"web:2".into()));
    assert!(answer["warnings"][0].as_str().unwrap().contains("web:2"), "{answer}");
    let after = site.lab.service("web").await;
    let mut expected = before["Spec"].clone();
    expected["TaskTemplate"]["ContainerSpec"]["Image"] = "web:2".into();
    assert_eq!(after["Spec"], expected);
    assert_eq!(before["Version"]["Index"], answer["oldVersion"]);
    assert_eq!(image_that_runs(site, "web").await, image(site, "web:2").await);

    // The tag is another image now.
    another_image(site, "web:2", "3").await;
    let answer = update(site, "web", "wait=true&timeout=90s").await.success();
    assert_eq!((&answer["state"], &answer["newImage"]), (&"converged".into(), &"web:2".into()), "{answer}");
    let mut expected = after["Spec"].clone();
    let force = &mut expected["TaskTemplate"]["ForceUpdate"];
    *force = (force.as_u64().unwrap() + 1).into();
    assert_eq!(site.lab.service("web").await["Spec"], expected);
    assert_eq!(image_that_runs(site, "web").await, image(site, "web:2").await);

    // What cannot be had.
    let answer = update(site, "web", "image=web:none&wait=true&timeout=90s").await;
    assert_refused(&answer, 409, "update_paused", &["paused", "No such image: web:none"]);
    let answer = update(site, "web", "image=web:1&wait=true&timeout=90s").await.success();
    assert_eq!(answer["state"], "converged", "{answer}");
    for (name, code) in [("gate", "not_labelled"), ("nothing", "no_such_service")] {
        let refused = update(site, name, "image=web:1").await;
        assert_eq!(refused.body["error"]["code"], code, "{refused:?}");
    }
}

async fn goes_back(site: &Site) {
    create(site, "careful", "--update-failure-action rollback").await;
    let before = site.lab.service("careful").await;
    let answer = update(site, "careful", "image=web:none&wait=true&timeout=90s").await;
    assert_refused(&answer, 409, "update_rolled_back", &["rolled back"]);
    assert_eq!(site.lab.service("careful").await["Spec"], before["Spec"]);
}

async fn stays_asleep(site: &Site) {
    site.service("mc", "").await;
    let before = site.lab.service("mc").await;
    let answer = update(site, "mc", "image=web:2&wait=true").await.success();
    assert_eq!(answer["state"], "asleep", "{answer}");
    let after = site.lab.service("mc").await;
    let mut expected = before["Spec"].clone();
    expected["TaskTemplate"]["ContainerSpec"]["Image"] = "web:2".into();
    assert_eq!((&after["Spec"], site.lab.states("mc").await), (&expected, vec![]));
    let player = site.play("mc").await;
    let task = site.lab.until_running("mc").await;
    assert_eq!(task["Spec"]["ContainerSpec"]["Image"], "web:2");

    // Nobody who plays is thrown out for it.
    let answer = update(site, "mc", "image=web:1").await;
    assert_refused(&answer, 409, "occupied", &["1 through the gate", "force=true"]);
    let answer = update(site, "mc", "image=web:1&force=true&wait=true&timeout=90s").await.success();
    assert_eq!(answer["state"], "converged", "{answer}");
    drop(player);
}

/// Awake, and only published.
async fn create(site: &Site, name: &str, options: &str) {
    site.lab
        .docker(&format!(
            "service create --detach --no-resolve-image --name {name} --restart-delay 200ms --update-monitor 2s \
             --label swarmgate.publish.host={name}.example.com --label swarmgate.publish.port=80 {options} web:1"
        ))
        .await;
    site.lab.until_running(name).await;
}

async fn update(site: &Site, name: &str, query: &str) -> Answer {
    let path = format!("/v1/update/{name}?{query}");
    let asked = request(&site.control, "POST", &path, None);
    tokio::time::timeout(2 * LIMIT, asked).await.unwrap().unwrap()
}

/// The same program in an image of its own, under this name.
async fn another_image(site: &Site, name: &str, version: &str) {
    let made = site.lab.docker("create web:1").await;
    let mut commit = site.lab.command("docker");
    commit.args(["commit", "--change", &format!("LABEL version={version}"), made.trim(), name]);
    site.lab.run(&mut commit).await;
    site.lab.docker(&format!("rm {made}")).await;
}

async fn image(site: &Site, name: &str) -> String {
    site.lab.docker(&format!("image inspect --format {{{{.Id}}}} {name}")).await
}

async fn image_that_runs(site: &Site, service: &str) -> String {
    let task = site.lab.until_running(service).await;
    site.lab.docker(&format!("inspect --format {{{{.Image}}}} {}", container(&task))).await
}

fn assert_refused(answer: &Answer, status: u16, code: &str, words: &[&str]) {
    let Value::String(message) = &answer.body["error"]["message"] else { panic!("{answer:?}") };
    assert_eq!((answer.status, &answer.body["error"]["code"]), (status, &code.into()), "{message}");
    for word in words {
        assert!(message.contains(word), "{word}: {message}");
    }
}
