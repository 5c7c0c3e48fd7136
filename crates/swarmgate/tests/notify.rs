//! Messages to people, over HTTP, to messengers that are strict, slow, full or broken.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use swarmgate::gateway::door::Door;
use swarmgate::metrics::{Metrics, Scene};
use swarmgate::notify::webhook::Player;
use swarmgate::notify::{Note, Notifier, Pace, Tone};
use swarmgate::telemetry;
use swarmgate_core::config::notify::Target;
use swarmgate_testkit::messengers::{Answer, Messenger, Receiver};
use swarmgate_testkit::wait::until;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const LIMIT: Duration = Duration::from_secs(20);
const QUICK: Pace = Pace {
    answer: Duration::from_millis(500),
    again: Duration::from_millis(10),
    patience: Duration::from_secs(2),
    gather: Duration::ZERO,
    drain: Duration::from_secs(2),
};

struct Lab {
    notifier: Notifier,
    metrics: Metrics,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Lab {
    fn new(receivers: &[&Receiver]) -> Self {
        Self::with(receivers.iter().map(|receiver| receiver.url()), QUICK)
    }

    fn with(urls: impl IntoIterator<Item = String>, pace: Pace) -> Self {
        let targets: Vec<Target> = urls.into_iter().map(|url| Target::parse(&url).unwrap()).collect();
        let (metrics, tasks, stop) = (Metrics::default(), TaskTracker::new(), CancellationToken::new());
        let notifier = Notifier::start(&targets, pace, &metrics, &tasks, &stop).unwrap();
        Self { notifier, metrics, tasks, stop }
    }

    /// One number of the page of metrics.
    fn metric(&self, name: &str) -> u64 {
        let limits = swarmgate_core::config::parse("", &[]).unwrap().config.limits;
        let door = Door::new(limits);
        let scene = Scene { services: &[], sources: &[], kept: None, door: &door, in_limbo: 0 };
        let page = self.metrics.encode(scene).unwrap();
        let line =
            page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
        line.map_or(0, |value| value.parse().unwrap())
    }

    fn count(&self, messenger: &str, outcome: &str) -> u64 {
        self.metric(&format!(
            "swarmgate_notifications_total{{messenger=\"{messenger}\",outcome=\"{outcome}\"}}"
        ))
    }

    async fn end(&self) -> Duration {
        let began = Instant::now();
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(LIMIT, self.tasks.wait()).await.unwrap();
        began.elapsed()
    }
}

fn alert(title: &str, text: &str) -> Note {
    Note::Message {
        tone: Tone::Bad,
        title: title.to_owned(),
        text: text.to_owned(),
        lines: vec!["[12:00:00] last words".to_owned()],
        at: Timestamp::now(),
        details: json!({"subject": "swarm/mc", "stage": "first"}),
    }
}

async fn until_text(receiver: &Receiver, parts: &[&str]) {
    until(&format!("{parts:?}"), LIMIT, async || {
        let text = receiver.text();
        parts.iter().all(|part| text.contains(part)).then_some(())
    })
    .await;
    assert_eq!(receiver.inbox().complaints, Vec::<String>::new());
}

#[tokio::test]
async fn each_messenger_takes_what_it_is_sent() {
    let kinds =
        [Messenger::Pushover, Messenger::Discord, Messenger::Slack, Messenger::Ntfy, Messenger::Webhook];
    for kind in kinds {
        let receiver = Receiver::start(kind).await;
        let lab = Lab::new(&[&receiver]);
        assert!(lab.notifier.is_on());
        lab.notifier.tell(&alert("mc crashed", "exit code 1, on node node2"));
        until_text(&receiver, &["mc crashed", "exit code 1, on node node2", "last words"]).await;
        // Longer than any of them takes, and with what mentions people.
        lab.notifier.tell(&alert("long", &format!("@everyone <!here> {}", "\u{1f480}x".repeat(30_000))));
        until(&format!("{kind:?}"), LIMIT, async || (receiver.inbox().messages.len() == 2).then_some(()))
            .await;
        assert_eq!(receiver.inbox().complaints, Vec::<String>::new(), "{kind:?}");
        lab.end().await;
    }
}

#[tokio::test]
async fn a_webhook_gets_what_programs_need() {
    let receiver = Receiver::start(Messenger::Webhook).await;
    let lab = Lab::new(&[&receiver]);
    lab.notifier.tell(&alert("mc crashed", "exit code 1"));
    until_text(&receiver, &["mc crashed"]).await;
    let message = receiver.inbox().messages[0].clone();
    assert_eq!(
        (message["source"].as_str(), message["alerts"].as_array().unwrap().len()),
        (Some("swarmgate"), 1)
    );
    let alert = &message["alerts"][0];
    assert_eq!((alert["subject"].as_str(), alert["stage"].as_str()), (Some("swarm/mc"), Some("first")));
    assert!(alert["at"].as_str().unwrap().parse::<Timestamp>().is_ok(), "{alert}");
}

#[tokio::test]
async fn forty_alerts_in_two_seconds_all_arrive_at_the_pace_of_the_messenger() {
    for kind in [Messenger::Discord, Messenger::Pushover, Messenger::Webhook] {
        let receiver = Receiver::start(kind).await;
        receiver.inbox().rate = Some((2, Duration::from_millis(400)));
        let lab = Lab::new(&[&receiver]);
        let titles: Vec<String> = (0..40).map(|number| format!("server{number:02} crashed")).collect();
        for title in &titles {
            lab.notifier.tell(&alert(title, "exit code 1"));
            tokio::task::yield_now().await;
        }
        until_text(&receiver, &titles.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let inbox = receiver.inbox();
        assert!(inbox.messages.len() < 20, "merged: {}", inbox.messages.len());
        assert!(inbox.calls <= 2 * inbox.messages.len() + 2, "{} calls", inbox.calls);
    }
}

#[tokio::test]
async fn what_fails_is_tried_again_and_what_is_refused_is_not() {
    let receiver = Receiver::start(Messenger::Discord).await;
    let lab = Lab::new(&[&receiver]);
    receiver.inbox().answers =
        [Answer::Status(500), Answer::Hang, Answer::TooMany(0.05), Answer::Status(503)].into();
    lab.notifier.tell(&alert("one", "x"));
    until_text(&receiver, &["one"]).await;
    assert_eq!(receiver.inbox().calls, 5);

    receiver.inbox().answers = [Answer::Cut].into();
    lab.notifier.tell(&alert("two", "x"));
    until_text(&receiver, &["two"]).await;

    receiver.inbox().answers = [Answer::Status(404)].into();
    lab.notifier.tell(&alert("three", "x"));
    until("a refusal", LIMIT, async || (lab.count("discord", "failed") == 1).then_some(())).await;
    lab.notifier.tell(&alert("four", "x"));
    until_text(&receiver, &["four"]).await;
    assert!(!receiver.text().contains("three"));
    until("the counts", LIMIT, async || (lab.count("discord", "sent") == 3).then_some(())).await;
    assert_eq!(receiver.inbox().calls, 8, "one for each of the last three");
    assert_eq!(lab.metric("swarmgate_notifications_queued{messenger=\"discord\"}"), 0);
}

#[tokio::test]
async fn one_that_hangs_delays_no_other_and_holds_what_fits_into_its_queue() {
    let (hangs, well) = (Receiver::start(Messenger::Discord).await, Receiver::start(Messenger::Ntfy).await);
    hangs.inbox().answers = [Answer::Hang; 100].into();
    let pace = Pace { answer: LIMIT, drain: Duration::from_millis(300), ..QUICK };
    let lab = Lab::with([hangs.url(), well.url()], pace);
    for number in 0..1000 {
        lab.notifier.tell(&alert(&format!("alert{number}"), "x"));
    }
    until_text(&well, &["alert0"]).await;
    assert!(lab.count("discord", "dropped") > 400, "a queue has an end");
    let took = lab.end().await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    let all = |outcome| lab.count("discord", outcome);
    assert_eq!(all("dropped") + all("failed") + all("sent"), 1000, "each is counted once");
    assert_eq!(lab.metric("swarmgate_notifications_queued{messenger=\"discord\"}"), 0);
}

#[tokio::test]
async fn what_waits_at_the_end_is_still_sent() {
    let receiver = Receiver::start(Messenger::Slack).await;
    let lab = Lab::with([receiver.url()], Pace { gather: LIMIT, ..QUICK });
    lab.notifier.tell(&alert("last", "x"));
    lab.end().await;
    until_text(&receiver, &["last"]).await;
}

#[tokio::test]
async fn players_are_told_to_those_who_know_mc_router_and_alerts_are_not() {
    let receiver = Receiver::start(Messenger::Webhook).await;
    let (receiver_url, other) = (receiver.url(), Receiver::start(Messenger::Webhook).await);
    let lab = Lab::with([format!("{receiver_url}#mc-router"), other.url()], QUICK);
    assert!(lab.notifier.is_on() && lab.notifier.tells_of_players());
    lab.notifier.tell(&alert("mc crashed", "x"));
    let client = "192.0.2.1:1234".parse().unwrap();
    let player =
        Player { client, server: "mc.example", name: "Alex", uuid: None, backend: Some("10.0.0.1:25565") };
    lab.notifier.tell(&player.connected());
    until_text(&receiver, &["Alex"]).await;
    until_text(&other, &["mc crashed"]).await;
    assert_eq!((receiver.inbox().messages.len(), other.text().contains("Alex")), (1, false));
    let told: Value = receiver.inbox().messages[0].clone();
    assert_eq!((told["event"].as_str(), told["backend"].as_str()), (Some("connect"), Some("10.0.0.1:25565")));
}

/// More than anybody reads, of which one line is far too long, to a messenger that does not answer at first.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_warnings_holds_nothing_up_and_arrives_merged_cut_and_counted() {
    const LINES: u64 = 5000;
    let receiver = Receiver::start(Messenger::Discord).await;
    receiver.inbox().answers = [Answer::Hang, Answer::Status(500), Answer::TooMany(0.1), Answer::Cut].into();
    let lab = Lab::with([receiver.url()], Pace { gather: Duration::from_millis(50), ..QUICK });
    // The log is the whole process's. What other tests here have to say is left out: they are no part of the gate.
    let log = "[log]\nname = \"edge\"\nenvironment = \"test\"\n";
    let log = swarmgate_core::config::parse(log, &[]).unwrap().config.log;
    tracing_subscriber::registry().with(telemetry::Mirror).init();
    telemetry::mirror(lab.notifier.clone(), &log);
    let began = Instant::now();
    tracing::warn!(target: "swarmgate::test", "{}", "long ".repeat(1000));
    for number in 1..LINES {
        tracing::warn!(target: "swarmgate::test", number, "it rains @everyone");
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "writing a log waits for nobody: {took:?}");
    let count = |outcome: &str| lab.count("discord", outcome);
    until("an end of it", LIMIT, async || {
        (count("sent") + count("dropped") + count("failed") == LINES).then_some(())
    })
    .await;
    assert!(count("dropped") > LINES / 2, "{} dropped", count("dropped"));
    assert!(count("sent") > 100 && count("failed") == 0, "{} sent", count("sent"));
    assert_eq!(receiver.inbox().complaints, Vec::<String>::new());
    let messages = u64::try_from(receiver.inbox().messages.len()).unwrap();
    assert!(messages < count("sent") / 10, "merged: {messages}");
    let text = receiver.text();
    assert!(text.contains("[edge test] WARN it rains") && text.contains("long long"), "{text}");
    assert!(text.contains("long…") || text.contains("lon…") || text.contains(" …"), "cut: {text}");
    assert!(!text.contains("a messenger"), "of its own troubles it says nothing: {text}");
    lab.end().await;
}
