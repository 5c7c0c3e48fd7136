//! A player in the world waits for a task.

use std::time::Duration;

use serde_json::json;
use swarmgate_testkit::lab::LIMIT;
use swarmgate_testkit::player::Passport;
use swarmgate_testkit::vanilla::Sight;

use crate::site::{Site, echoes};

/// Its game has long begun to speak when its health check lets it count as running.
#[tokio::test]
async fn who_waits_sees_what_a_starting_task_says_and_gets_in() {
    const SECOND: u64 = 1_000_000_000;
    let Some(site) = Site::start(1).await else { return };
    let service = json!({
        "Name": "survival",
        "Labels": {"swarmgate.host": "survival.example.com", "swarmgate.wait": "world"},
        "TaskTemplate": {
            "ContainerSpec": {
                "Image": "testserver",
                "Env": ["BOOT_LOG=1", "READY_DELAY_MS=8000"],
                "Healthcheck": {"Test": ["CMD", "/testserver", "health"], "Interval": SECOND / 2, "Retries": 100},
            },
            "Networks": [{"Target": "minecraft"}],
        },
        "Mode": {"Replicated": {"Replicas": 0}},
    });
    site.lab.node(1).post("/services/create", &service).await.success();
    site.until_state("survival", "asleep").await;

    let passport = Passport::new(site.client(), 767, "survival.example.com", "Ann");
    let mut ann = passport.arrive(LIMIT).await.unwrap();
    ann.acknowledge().await.unwrap();
    ann.until("a word of the task", LIMIT, |game| {
        let is_it =
            |sight: &Sight| matches!(sight, Sight::Subtitle(text) if text == "Preparing spawn area: 51%");
        game.seen().sights.iter().any(is_it).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(site.lab.states("survival").await, ["starting/running"], "before its health check has passed");
    let mut playing = ann.follow(LIMIT).await.unwrap();
    playing.until_logged_in(Duration::from_secs(30)).await.unwrap();
    assert!(echoes(&mut playing.into_connection()).await);
    assert!(!site.log().contains("the engine refuses a call"), "{}", site.log());
}
