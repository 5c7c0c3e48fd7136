use super::*;
use crate::alert::Kind;
use crate::moment::Moment;
use serde_json::json;

const NOW: &str = "2026-01-01T12:00:00Z";
/// When the containers of these tests were started last.
const STARTED: &str = "2026-01-01T11:59:00Z";

fn container(state: Value, host: Value) -> Value {
    json!({"Id": "c1", "Name": "/mc", "State": state, "HostConfig": host, "RestartCount": 3,
        "Config": {"StopTimeout": 60, "Labels": {"mc-router.host": "mc.example"}},
        "NetworkSettings": {"Networks": {"games": {"NetworkID": "n1", "IPAddress": "10.9.0.2"}}}})
}

fn look(container: &Value, told: Told) -> Found {
    let clocks = Clocks { moment: Moment::START, wall: NOW.parse().unwrap() };
    let around = Surroundings {
        defaults: &Spec::default(),
        network: None,
        grace: Duration::from_secs(90),
        place: Place::Machine,
        clocks,
    };
    read(container, told, around).unwrap()
}

fn stop(at: &str) -> Told {
    Told { stop: Some(at.parse().unwrap()), ..Told::default() }
}

/// Each row of the table in `docs/states.md`.
#[test]
fn every_state_of_a_container() {
    let running = || json!({"Status": "running", "StartedAt": STARTED});
    let healthy = |status: &str, output: &str| json!({"Status": "running", "StartedAt": STARTED, "Health": {"Status": status, "Log": [{"Output": output}]}});
    let exited = |code: i64| json!({"Status": "exited", "ExitCode": code, "StartedAt": STARTED});
    let oom = json!({"Status": "exited", "ExitCode": 137, "OOMKilled": true, "StartedAt": STARTED});
    let policy = |name: &str, most: u64| json!({"RestartPolicy": {"Name": name, "MaximumRetryCount": most}});
    let no = || policy("no", 0);
    let quiet = Told::default();
    let start = Told { start: true, ..quiet };
    let (before, since, long_ago) =
        (stop("2026-01-01T11:58:00Z"), stop("2026-01-01T11:59:30Z"), stop(STARTED));
    let slow = json!({"Status": "running", "StartedAt": "2026-01-01T11:00:00Z"});
    for (state, host, told, word, says) in [
        (json!({"Status": "created"}), no(), quiet, "asleep", ""),
        (json!({"Status": "created"}), no(), start, "starting", "Docker is starting it"),
        (
            json!({"Status": "created", "ExitCode": 128, "Error": "port is already allocated"}),
            no(),
            quiet,
            "failed",
            "could not start it: port is",
        ),
        (running(), no(), quiet, "running", ""),
        (running(), no(), start, "running", ""),
        (healthy("starting", ""), no(), quiet, "starting", "health check"),
        (healthy("healthy", ""), no(), quiet, "running", ""),
        (healthy("none", ""), no(), quiet, "running", ""),
        (healthy("unhealthy", " no answer\n"), no(), quiet, "running", "its health check fails: no answer"),
        // Told to stop: this run, or the one before it.
        (running(), no(), since, "stopping", ""),
        (running(), no(), long_ago, "stopping", ""),
        (running(), no(), before, "running", ""),
        (slow.clone(), no(), stop("2026-01-01T11:58:21Z"), "stopping", ""),
        (slow, no(), stop("2026-01-01T11:58:20Z"), "running", ""),
        (
            json!({"Status": "restarting", "ExitCode": 3, "StartedAt": STARTED, "FinishedAt": "2026-01-01T11:59:59.9Z"}),
            policy("always", 0),
            quiet,
            "restarting",
            "exit code 3",
        ),
        (json!({"Status": "paused", "StartedAt": STARTED}), no(), quiet, "asleep", ""),
        (json!({"Status": "paused", "StartedAt": STARTED}), no(), since, "asleep", ""),
        // Down: meant, or not.
        (exited(0), no(), quiet, "asleep", ""),
        (exited(1), no(), start, "starting", "Docker is starting it"),
        (exited(1), no(), quiet, "failed", "it crashed: exit code 1"),
        (exited(1), no(), since, "asleep", ""),
        (exited(1), no(), before, "failed", "it crashed"),
        (exited(143), no(), quiet, "asleep", ""),
        (exited(130), no(), quiet, "asleep", ""),
        (exited(137), no(), quiet, "failed", "exit code 137: killed (SIGKILL)"),
        (exited(137), no(), since, "asleep", "killed before it finished saving"),
        (oom.clone(), no(), quiet, "failed", "ran out of memory"),
        (oom, no(), since, "asleep", "killed before it finished saving"),
        (exited(139), no(), quiet, "failed", "SIGSEGV"),
        // Docker would have started these again, so somebody stopped them.
        (exited(1), policy("unless-stopped", 0), quiet, "asleep", ""),
        (exited(137), policy("unless-stopped", 0), quiet, "asleep", "killed before it finished saving"),
        (exited(1), policy("on-failure", 0), quiet, "asleep", ""),
        (exited(1), policy("on-failure", 3), quiet, "failed", "gave up on it after 3 restarts: exit code 1"),
        (exited(1), policy("on-failure", 4), quiet, "failed", "it crashed: exit code 1"),
        (
            json!({"Status": "exited", "ExitCode": 127, "Error": "no such file"}),
            policy("unless-stopped", 0),
            quiet,
            "failed",
            "no such file",
        ),
        (json!({"Status": "dead"}), no(), quiet, "failed", "docker rm -f"),
        (json!({"Status": "hibernating"}), no(), quiet, "unknown", "hibernating"),
        (json!({}), no(), quiet, "unknown", "state \"\""),
    ] {
        let found = look(&container(state.clone(), host), told);
        let advice = found.service.problems.iter().filter(|problem| !problem.contains("unless-stopped"));
        let said =
            found.service.state.reason().into_iter().chain(advice.map(String::as_str)).collect::<String>();
        assert_eq!(found.service.state.word(), word, "{state} {told:?}");
        assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{state} {told:?}: {said}");
    }
}

#[test]
fn a_restart_comes_after_docker_s_own_delay() {
    for (started, count, millis) in [
        ("2026-01-01T11:59:59Z", 1, 100),
        ("2026-01-01T11:59:59Z", 4, 800),
        ("2026-01-01T11:59:59Z", 40, 60_000),
        ("2026-01-01T11:00:00Z", 40, 100),
    ] {
        let state = json!({"Status": "restarting", "StartedAt": started, "FinishedAt": NOW});
        let mut container = container(state, json!({}));
        container["RestartCount"] = json!(count);
        let State::Restarting { until, .. } = look(&container, Told::default()).service.state else {
            panic!()
        };
        assert_eq!(Moment::START.until(until), Duration::from_millis(millis), "{started} {count}");
    }
}

#[test]
fn what_is_done_to_wake_it_and_to_put_it_to_sleep() {
    let state = |status: &str, code: i64| json!({"Status": status, "ExitCode": code, "StartedAt": STARTED});
    let quiet = Told::default();
    let stops = Ok(Some(Act::Stop { seconds: 90 }));
    for (state, told, up, down) in [
        (state("created", 0), quiet, Ok(Some(Act::Start)), Ok(None)),
        (state("exited", 1), quiet, Ok(Some(Act::Start)), Ok(None)),
        (state("created", 0), Told { start: true, ..Told::default() }, Ok(None), stops),
        (state("paused", 0), quiet, Ok(Some(Act::Unpause)), Ok(None)),
        (state("running", 0), quiet, Ok(None), stops),
        (state("restarting", 1), quiet, Ok(None), stops),
        (state("running", 0), stop(NOW), Err("still stopping"), Ok(None)),
        (state("?", 0), quiet, Err("does not know"), Err("does not know")),
    ] {
        let found = look(&container(state.clone(), json!({})), told);
        for (done, expected) in [(found.up(), up), (found.down(), down)] {
            match (done, expected) {
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                (done, expected) => assert_eq!(done, expected.map_err(str::to_owned), "{state} {told:?}"),
            }
        }
    }
}

#[test]
fn the_longest_grace_counts() {
    for (label, own, seconds) in [
        (None, None, 90),
        (None, Some(10), 90),
        (None, Some(120), 120),
        (None, Some(-1), -1),
        (Some("45s"), Some(10), 45),
        (Some("45s"), Some(60), 60),
        (Some("5m"), None, 300),
    ] {
        let mut container = container(json!({"Status": "running"}), json!({}));
        container["Config"]["StopTimeout"] = json!(own);
        if let Some(label) = label {
            container["Config"]["Labels"]["swarmgate.grace"] = json!(label);
        }
        assert_eq!(
            look(&container, Told::default()).down(),
            Ok(Some(Act::Stop { seconds })),
            "{label:?} {own:?}"
        );
    }
}

#[test]
fn what_would_be_gone_is_not_stopped() {
    let found = look(&container(json!({"Status": "running"}), json!({"AutoRemove": true})), Told::default());
    assert!(!found.service.scalable);
    assert!(found.down().unwrap_err().contains("--rm"));
}

#[test]
fn a_running_one_is_dialled_at_its_address_and_every_start_is_another_run() {
    let mut container = container(json!({"Status": "running", "StartedAt": STARTED}), json!({}));
    let first = look(&container, Told::default());
    assert_eq!(first.service.id.to_string(), "docker/mc");
    let State::Running(running) = &first.service.state else { panic!("{:?}", first.service.state) };
    assert_eq!(
        (running.run.clone(), running.endpoints[0].to_string()),
        (first.run.clone(), "10.9.0.2:25565".into())
    );
    container["State"]["StartedAt"] = json!(NOW);
    assert_ne!(look(&container, Told::default()).run, first.run);
}

#[test]
fn what_is_not_understood_is_unknown() {
    let found = look(&container(json!(7), json!({})), Told::default());
    assert_eq!(found.service.state.word(), "unknown");
    assert!(found.up().is_err() && found.down().is_err());
}

#[test]
fn what_is_only_published_is_no_game_server() {
    let web = json!({"swarmgate.publish.host": "a.example.com", "swarmgate.publish.port": "80"});
    let mut of_a_swarm = web.clone();
    of_a_swarm["com.docker.swarm.service.id"] = json!("x");
    let list = json!([
        {"Id": "1", "Names": ["/web"], "Labels": web},
        {"Id": "2", "Names": ["/task"], "Labels": of_a_swarm},
        {"Id": "3", "Names": ["/mc"], "Labels": {"swarmgate.host": "mc.example"}},
    ]);
    assert_eq!(labelled(&list), Ok(vec!["3".to_owned()]));
    assert_eq!(published_only(&list), Ok(vec!["1".to_owned()]));
    let published = published(&list, &Settings::default()).unwrap();
    let [web] = published.as_slice() else { panic!("{published:?}") };
    assert_eq!((web.service.to_string(), web.publications.len()), ("docker/web".to_owned(), 1));
}

#[test]
fn only_plain_containers_with_labels_are_ours() {
    let one = |id: &str, name: &str, labels: Value| json!({"Id": id, "Names": [name], "Labels": labels});
    let compose = json!({"swarmgate.host": "a", "com.docker.compose.project": "p"});
    let list = json!([
        one("plain", "/mc", json!({"swarmgate.host": "a"})),
        one("router", "/mc2", json!({"mc-router.host": "a"})),
        one("composed", "/p-mc-1", compose.clone()),
        one("replacing", "/0123456789ab_p-mc-1", compose),
        one("named so", "/0123456789ab_mc", json!({"swarmgate.host": "a"})),
        one("task", "/mc.1.x", json!({"swarmgate.host": "a", "com.docker.swarm.service.id": "s"})),
        one("other", "/web", json!({"traefik.enable": "true"})),
        one("none", "/web2", json!(null)),
        json!(7),
    ]);
    assert_eq!(labelled(&list), Ok(["plain", "router", "composed", "named so"].map(str::to_owned).to_vec()));
    assert_eq!(labelled(&json!(null)), Ok(vec![]));
    assert_eq!(labelled(&json!({"message": "x"})), Err(NotAList));
}

#[test]
fn one_that_is_being_removed_is_gone() {
    let clocks = Clocks { moment: Moment::START, wall: NOW.parse().unwrap() };
    let around = Surroundings {
        defaults: &Spec::default(),
        network: None,
        grace: Duration::ZERO,
        place: Place::Machine,
        clocks,
    };
    assert_eq!(read(&container(json!({"Status": "removing"}), json!({})), Told::default(), around), None);
}

#[test]
fn of_what_is_only_published_crashes_count_and_kills_do_not() {
    let clocks = Clocks { moment: Moment::START, wall: NOW.parse().unwrap() };
    let (defaults, grace) = (Spec::default(), Duration::from_secs(60));
    let around = Surroundings { defaults: &defaults, network: None, grace, place: Place::Machine, clocks };
    let sight = |state: Value, told: Told| {
        let mut container = container(state, json!({"RestartPolicy": {"Name": "no"}}));
        container["Config"]["Labels"] = json!({"swarmgate.publish.host": "a.example.com"});
        assert_eq!(read(&container, told, around), None);
        let found = watch(&container, told, around).unwrap();
        let mut ends = ends::Ends::default();
        ends.saw(&[]);
        ends.saw(&[found]).remove(0).troubles
    };
    let exited =
        |code: i64| json!({"Status": "exited", "ExitCode": code, "StartedAt": STARTED, "FinishedAt": NOW});
    let crashed = sight(exited(1), Told::default());
    let kinds: Vec<Kind> = crashed.iter().map(|trouble| trouble.kind).collect();
    assert_eq!(kinds, [Kind::Crashed, Kind::GaveUp]);
    assert_eq!(crashed[0].what, "exit code 1, run 4");
    assert_eq!(sight(exited(137), stop(STARTED)), [], "stopped, and nothing to save");
    let running = json!({"Status": "running", "StartedAt": STARTED});
    assert_eq!(sight(running, Told::default()), [], "it listens where it likes");
    let health = json!({"Status": "unhealthy", "Log": []});
    let unhealthy = json!({"Status": "running", "StartedAt": STARTED, "Health": health});
    assert_eq!(sight(unhealthy, Told::default())[0].kind, Kind::Unhealthy);
}

#[test]
fn an_end_says_which_run_it_was() {
    for (status, policy, restarts, most, run) in [
        ("exited", "no", 0, 0, "run 1"),
        ("exited", "on-failure", 3, 3, "run 4 of 4"),
        // Docker has counted the restart that is to come.
        ("restarting", "always", 1, 0, "run 1"),
        ("restarting", "on-failure", 3, 3, "run 3 of 4"),
    ] {
        let policy = json!({"RestartPolicy": {"Name": policy, "MaximumRetryCount": most}});
        let state = json!({"Status": status, "ExitCode": 1, "StartedAt": STARTED, "FinishedAt": NOW});
        let mut container = container(state, policy);
        container["RestartCount"] = restarts.into();
        let mut ends = ends::Ends::default();
        ends.saw(&[]);
        let what = ends.saw(&[look(&container, Told::default())])[0].troubles[0].what.clone();
        assert_eq!(what, format!("exit code 1, {run}"), "{status} {restarts}");
    }
}

#[test]
fn an_end_that_nobody_asked_for_is_told_once() {
    use crate::alert::{Condition, When};

    let mut ends = ends::Ends::default();
    let mut saw = |state: Value, restarts: u64, told: Told| {
        let mut container =
            container(state, json!({"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 9}}));
        container["RestartCount"] = restarts.into();
        let sight = ends.saw(&[look(&container, told)]).remove(0);
        let since = |trouble: &crate::alert::Trouble| match trouble.when {
            When::Since(times) => Some((trouble.kind, times)),
            When::Lasting => None,
        };
        (sight.condition, sight.troubles.iter().find_map(since))
    };
    let quiet = Told::default();
    let running = || json!({"Status": "running", "StartedAt": STARTED});
    let ended = |status: &str, code: i64, at: &str, oom: bool| json!({"Status": status, "ExitCode": code, "StartedAt": STARTED, "FinishedAt": at, "OOMKilled": oom});
    let (first, second) = ("2026-01-01T11:59:10Z", "2026-01-01T11:59:20Z");
    assert_eq!(saw(ended("restarting", 1, first, false), 1, quiet), (Condition::Moving, None), "old");
    assert_eq!(saw(running(), 1, quiet), (Condition::Well, None));
    assert_eq!(saw(ended("restarting", 1, first, false), 1, quiet), (Condition::Moving, None), "still old");
    let crash = Some((Kind::Crashed, 3));
    assert_eq!(saw(ended("restarting", 1, second, false), 4, quiet), (Condition::Moving, crash));
    let third = "2026-01-01T11:59:30Z";
    let memory = Some((Kind::OutOfMemory, 1));
    assert_eq!(saw(ended("restarting", 137, third, true), 5, quiet), (Condition::Moving, memory));
    let died = |exit_code, at: &str| {
        let death = Some(Death { at: at.parse().unwrap(), exit_code });
        Told { death, ..quiet }
    };
    let up_again = |finished: &str| json!({"Status": "running", "StartedAt": NOW, "FinishedAt": finished});
    let soon = "2026-01-01T11:59:37.02Z";
    let known = saw(up_again(third), 5, died(137, third));
    assert_eq!(known, (Condition::Well, None), "told already, before it was started again");
    let quick = "2026-01-01T11:59:37Z";
    assert_eq!(saw(up_again(quick), 6, died(0, soon)), (Condition::Well, None), "it ended by itself");
    assert_eq!(saw(up_again(quick), 6, died(1, third)), (Condition::Well, None), "that was an earlier end");
    assert_eq!(
        saw(up_again(quick), 0, died(143, soon)),
        (Condition::Well, None),
        "somebody started it again"
    );
    let crash = Some((Kind::Crashed, 1));
    assert_eq!(saw(up_again(quick), 6, died(1, soon)), (Condition::Well, crash), "Docker started it at once");
    assert_eq!(saw(up_again(quick), 6, died(1, soon)), (Condition::Well, None), "once");
    let fourth = "2026-01-01T11:59:40Z";
    let told = stop("2026-01-01T11:59:30Z");
    assert_eq!(saw(ended("exited", 1, fourth, false), 5, told), (Condition::AtRest, None), "it was told to");
    assert_eq!(saw(ended("exited", 0, fourth, false), 5, quiet), (Condition::AtRest, None));
}
