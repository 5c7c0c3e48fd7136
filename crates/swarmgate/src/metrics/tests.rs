use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;

use swarmgate_core::fleet::Fleet;
use swarmgate_core::ladder::Rung;
use swarmgate_core::moment::Moment;
use swarmgate_core::service::{Service, Snapshot, Spec, State};
use swarmgate_testkit::peers;
use tokio::io::AsyncWriteExt;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn page(metrics: &Metrics, services: &[Report]) -> String {
    let config = swarmgate_core::config::parse("", &[]).unwrap().config;
    let door = Door::new(config.limits);
    metrics
        .encode(Scene { services, sources: &[("file", true)], kept: Some(true), door: &door, in_limbo: 2 })
        .unwrap()
}

/// Services of this many names, as the fleet reports them.
fn reports(count: usize) -> Vec<Report> {
    let mut fleet = Fleet::new(swarmgate_core::config::parse("", &[]).unwrap().config.policy());
    let service = |n| Service {
        id: id(n),
        spec: Arc::new(Spec::default()),
        state: State::Asleep,
        scalable: true,
        problems: Vec::new(),
    };
    fleet.observe("file", Snapshot::of((0..count).map(service).collect()), Moment::START);
    fleet.reports(Moment::START + SECOND)
}

fn id(n: usize) -> ServiceId {
    ServiceId::new("file", &format!("mc{n}"))
}

/// With a sample of each.
fn everything() -> String {
    let metrics = Metrics::default();
    let mut reports = reports(1);
    for report in &mut reports {
        report.online = Some(1);
        Arc::make_mut(&mut report.face.learned).booted_in(SECOND);
    }
    metrics.connected();
    metrics.opening_failed("slow");
    metrics.decided("relay");
    metrics.refused("denied");
    metrics.session_failed("unreachable");
    metrics.waits.get_or_create(&[("rung", "world")]).inc();
    metrics.rungs_refused.get_or_create(&[("rung", "world"), ("reason", "old")]).inc();
    drop(metrics.joined(&id(0)));
    drop(metrics.waiting(Rung::World));
    metrics.limbo_ended(Rung::World, "left");
    metrics.changed(&id(0), "running");
    metrics.woken(SECOND, SECOND);
    metrics.asked_engine("tasks", "ok", SECOND);
    metrics.asked_cloudflare("zones", "ok", SECOND);
    metrics.synced(true, SECOND);
    *lock(&metrics.publication) =
        Publication { hosts: [("published", 1)].into(), tunnel: Some("healthy".to_owned()) };
    metrics.messenger("pushover");
    metrics.notified("pushover", "sent", 1);
    metrics.answered("GET", Some("/v1/services"), 200, SECOND);
    metrics.service_updated(Some("web"), true, SECOND);
    metrics.service_event("update", "web");
    page(&metrics, &reports)
}

/// The rows of the documentation's table, as the page has them.
fn rows(page: &str) -> Vec<String> {
    let mut labels = BTreeMap::<&str, BTreeSet<&str>>::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (sample, _) = line.rsplit_once(' ').unwrap();
        let (name, inside) = sample.split_once('{').unwrap_or((sample, ""));
        let known = labels.entry(name).or_default();
        known.extend(inside.split("\",").filter_map(|label| Some(label.split_once("=\"")?.0)));
    }
    let help = page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let help: BTreeMap<&str, &str> = help.collect();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let row = |(name, kind): (&str, &str)| {
        let sample = if kind == "histogram" { format!("{name}_bucket") } else { name.to_owned() };
        let labels = labels[&*sample].iter().filter(|label| **label != "le");
        let labels: Vec<String> = labels.map(|label| format!("`{label}`")).collect();
        let unit = ["seconds", "bytes"].into_iter().find(|unit| name.contains(&format!("_{unit}")));
        let (labels, unit) = (labels.join(", "), unit.unwrap_or_default());
        format!("| `{name}` | {kind} | {labels} | {unit} | {} |", help[name].trim_end_matches('.'))
    };
    types.map(row).collect()
}

/// `UPDATE_DOCS=1` writes it.
#[test]
fn every_metric_is_documented_as_it_is() {
    const HEAD: &str = "| Name | Type | Labels | Unit | Meaning |\n|---|---|---|---|---|\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(HEAD).expect("a table");
    let (written, after) = rest.split_once("\n\n").expect("an end of the table");
    let rows = rows(&everything());
    assert!(rows.len() > 50, "{rows:#?}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(file, format!("{before}{HEAD}{}\n\n{after}", rows.join("\n"))).unwrap();
    }
    assert_eq!(written.lines().collect::<Vec<_>>(), rows, "UPDATE_DOCS=1 writes docs/metrics.md anew");
}

#[tokio::test]
async fn promtool_has_nothing_to_say_against_them() {
    let Some(mut promtool) = peers::installed("promtool") else { return };
    promtool.args(["check", "metrics"]);
    let mut child =
        promtool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(everything().as_bytes()).await.unwrap();
    drop(input);
    let output = child.wait_with_output().await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    // The name is swarmctl's.
    let own = "swarmctl_recent_events_count non-histogram and non-summary metrics should not have \"_count\" suffix";
    let said = String::from_utf8(said).unwrap();
    assert_eq!(said.lines().filter(|line| *line != own).collect::<Vec<_>>(), [""; 0], "{:?}", output.status);
}

#[test]
fn services_make_so_many_series_and_no_more() {
    let metrics = Metrics::default();
    let most = services::MOST;
    let all = reports(3 * most);
    for report in &all {
        drop(metrics.joined(&report.face.service));
        metrics.service_event("update", &report.face.service.name);
        metrics.service_updated(Some(&report.face.service.name), true, SECOND);
    }
    let page = page(&metrics, &all);
    let series = |name: &str| page.lines().filter(|line| line.starts_with(&format!("{name}{{"))).count();
    for (name, count) in [
        ("swarmgate_sessions_total", most + 1),
        ("swarmgate_sessions_open", most + 1),
        ("swarmgate_service_state", most),
        ("swarmctl_docker_events_total", most + 1),
        ("swarmctl_docker_service_updates_total", most + 1),
    ] {
        assert_eq!(series(name), count, "{name}");
    }
    let rest = "swarmgate_sessions_total{service=\"other\"} 2000";
    assert!(page.lines().any(|line| line == rest));
}

#[test]
fn a_service_that_is_gone_leaves_no_series_and_one_with_players_does() {
    let metrics = Metrics::default();
    let playing = metrics.joined(&id(0));
    drop(metrics.joined(&id(1)));
    metrics.changed(&id(1), "running");
    let with = |page: &str, n: usize| page.contains(&format!("service=\"file/mc{n}\""));
    let before = page(&metrics, &reports(2));
    assert!(with(&before, 0) && with(&before, 1));
    assert!(before.contains("swarmgate_sessions_open{service=\"file/mc0\"} 1\n"), "{before}");
    assert!(before.contains("swarmgate_sessions_open{service=\"file/mc1\"} 0\n"), "{before}");
    let after = page(&metrics, &[]);
    assert!(with(&after, 0) && !with(&after, 1), "{after}");
    drop(playing);
    assert!(!with(&page(&metrics, &[]), 0));
}

#[test]
fn a_name_of_the_swarm_is_forgotten_when_nothing_is_heard_of_it() {
    let swarmctl = Swarmctl::default();
    let (began, hour) = (Instant::now(), 3600 * SECOND);
    for action in ["create", "update", "remove", "something new"] {
        swarmctl.event(action, "old", began);
    }
    swarmctl.updated(Some("old"), false, SECOND, began);
    swarmctl.updated(Some("new"), true, SECOND, began + hour);
    let page = |now| {
        let mut registry = Registry::default();
        swarmctl.register(&mut registry, now);
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        page
    };
    let before = page(began + 23 * hour);
    assert!(before.contains("event_type=\"other\"") && before.contains("\"new\""), "{before}");
    let after = page(began + 24 * hour);
    assert!(!after.contains("\"old\"") && after.contains("\"new\""), "{after}");
}

#[test]
fn methods_of_strangers_are_one() {
    let metrics = Metrics::default();
    for n in 0..100 {
        metrics.answered(&format!("X{n}"), None, 405, SECOND);
    }
    let page = page(&metrics, &[]);
    let line =
        "swarmctl_http_requests_total{method=\"OTHER\",endpoint=\"unmatched\",status_code=\"405\"} 100";
    assert!(page.lines().any(|known| known == line), "{page}");
}
