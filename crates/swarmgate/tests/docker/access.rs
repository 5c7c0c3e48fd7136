//! A gate that may do little, or nothing at all: the log says what to do about it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use swarmgate_testkit::engine::proxy::Proxy;
use swarmgate_testkit::lab::Lab;

use crate::site::Site;

/// The calls of the table for plain containers in `docs/permissions.md`.
fn documented_calls() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/permissions.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("For plain containers")).unwrap();
    let calls = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    calls.map(str::to_owned).collect()
}

async fn behind(allowed: Vec<String>) -> Option<(Proxy, Site)> {
    let lab = Lab::start(1).await?;
    lab.docker("swarm leave --force").await;
    let socket = lab.shared("proxied").join("docker.sock");
    let proxy = Proxy::start(&socket, &lab.node(1).socket(), allowed);
    let swarm_off = "swarm = \"off\"\n";
    Some((proxy, Site::at(lab, &socket, swarm_off).await))
}

#[tokio::test]
async fn the_documented_calls_are_enough_for_a_real_engine() {
    let Some((proxy, site)) = behind(documented_calls()).await else { return };
    site.container("survival", "").await;
    drop(site.play("survival").await);
    let (status, body) = site.gate.control("POST", "/v1/services/survival/sleep?force=true", "").await;
    assert!(status < 300, "{body}");
    site.until_state("survival", "asleep").await;
    assert_eq!(site.inspect("survival").await["State"]["Status"], "exited");
    drop(site.play("survival").await);
    site.lab.docker("pause survival").await;
    site.until_state("survival", "asleep").await;
    drop(site.play("survival").await);
    site.container("crash", "--env EXIT_AFTER_MS=1 --env EXIT_CODE=3").await;
    site.lab.docker("start crash").await;
    site.until_state("crash", "failed").await;
    assert_eq!(proxy.refused(), Vec::<String>::new());
    assert!(!site.gate.log().contains("the engine refuses a call"), "what it rejects, it allows");
}

#[tokio::test]
async fn each_refused_call_is_named_with_what_will_not_work() {
    for (allowed, refused) in [
        (vec![], vec![("GET /containers/json", "no plain container is known")]),
        (
            vec!["GET /containers/json".to_owned()],
            vec![
                ("GET /containers/{id}/json", "no state of a container is known"),
                ("POST /containers/{id}/start", "no container is started"),
                ("POST /containers/{id}/stop", "no container is stopped"),
                ("POST /containers/{id}/unpause", "no paused container is woken"),
                ("GET /events", "changes made by others are noticed some seconds late"),
            ],
        ),
    ] {
        let Some((_proxy, site)) = behind(allowed).await else { return };
        let labelled = "--network games --label swarmgate.host=survival.example.com";
        site.lab.docker(&format!("create --name survival {labelled} testserver")).await;
        for (call, without) in refused {
            site.lab
                .until(&format!("{call} in the log"), async || {
                    let log = site.gate.log();
                    let line = log.lines().find(|line| line.contains(&format!("call=\"{call}\"")))?;
                    assert!(line.contains("WARN") && line.contains(without), "{line}");
                    assert!(line.contains("docs/permissions.md"), "{line}");
                    Some(())
                })
                .await;
        }
    }
}

#[tokio::test]
async fn a_socket_that_is_none_or_not_for_the_gate_is_told_with_the_fix() {
    let Some(lab) = Lab::start(1).await else { return };
    lab.docker("swarm leave --force").await;
    lab.gate_image("swarmgate").await;
    let file = lab.shared("no-socket").join("file");
    fs::write(&file, "").unwrap();
    let directory = lab.shared("directory");
    let group = fs::metadata(lab.node(1).socket()).unwrap().gid();
    let at = "/var/run/docker.sock";
    let mount = |path: &Path| format!("--volume {}:{at}", path.display());
    let socket = mount(Path::new(at));
    for (name, options, told) in [
        (
            "none",
            String::new(),
            vec!["there is no such socket".to_owned(), format!("mount it (-v {at}:{at})")],
        ),
        ("file", mount(&file), vec!["this is a file, not a socket".to_owned(), format!("(-v {at}:{at})")]),
        (
            "directory",
            mount(&directory),
            vec!["this is a directory".to_owned(), "mount the socket of the machine".to_owned()],
        ),
        (
            "no-swarm",
            format!("--group-add {group} {socket}"),
            vec!["this engine is not a manager of a Swarm".to_owned(), "`docker swarm init`".to_owned()],
        ),
        (
            "group",
            socket.clone(),
            vec![
                "permission denied: the gate runs as uid 65532, gid 65532".to_owned(),
                format!("and the socket is of uid 0, gid {group}"),
                format!("--group-add {group} with docker run"),
            ],
        ),
    ] {
        let run = "run --detach --network none --env SWARMGATE_DOCKER_SWARM=on";
        lab.docker(&format!("{run} --name {name} {options} swarmgate")).await;
        lab.until(&format!("what to do about {name}"), async || {
            let logs = lab.command("docker").args(["logs", name]).output().await.unwrap();
            let logs = String::from_utf8_lossy(&[logs.stdout, logs.stderr].concat()).into_owned();
            let line = logs.lines().find(|line| line.contains("the source does not answer"))?;
            for part in &told {
                assert!(line.contains(part), "{part}: {line}");
            }
            Some(())
        })
        .await;
    }
    // And as the error says.
    let options = format!("--group-add {group} {socket}");
    lab.docker(&format!("run --detach --network none --name right {options} swarmgate")).await;
    lab.until("a healthy gate", async || {
        let right = lab.get("/containers/right/json").await;
        (right["State"]["Health"]["Status"] == "healthy").then_some(())
    })
    .await;
    let logs = lab.command("docker").args(["logs", "right"]).output().await.unwrap();
    let logs = String::from_utf8_lossy(&[logs.stdout, logs.stderr].concat()).into_owned();
    assert!(!logs.contains("the source does not answer"), "{logs}");
}
