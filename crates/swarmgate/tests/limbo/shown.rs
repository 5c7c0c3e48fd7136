//! The journey as `swarmgate join` tells it, against the gate itself.

use std::process::Output;

use serde_json::Value;
use swarmgate_testkit::backend::{Behaviour, Login};
use swarmgate_testkit::login::LoginSuccess;
use swarmgate_testkit::wire::Body;

use crate::common::LIMIT;
use crate::rungs::{is_up_as, site, start};

/// `swarmgate join` to a server that sleeps, and comes up as soon as the player waits there.
async fn journey(protocol: &str, options: &[&str]) -> Output {
    let (home, backend, config) = site("wait = \"world\"").await;
    let gate = start(&home, &config).await;
    let address = format!("mc.example.com:{}", gate.address.port());
    let via = gate.address.to_string();
    let mut join = home.command(&["join", &address, "--via", &via, "--name", "Ann", "--protocol", protocol]);
    let join = join.args(options).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let join = join.spawn().unwrap();
    gate.until("mc", "a player who waits", |service| service["seats"] == 1).await;
    let brand = Body::new().string("minecraft:brand").string("Testkit").packet(1);
    let success = LoginSuccess { name: "Ann".into(), uuid: 7 }.packet(protocol.parse().unwrap());
    let game = [success, brand, Body::new().packet(3), Body::new().i32(1).packet(0x7e)].concat();
    is_up_as(&home, &backend, Behaviour { login: Login::Raw(game), ..Behaviour::default() }).await;
    tokio::time::timeout(LIMIT, join.wait_with_output()).await.expect("an end").unwrap()
}

#[tokio::test]
async fn a_person_reads_of_the_world_and_of_the_way_into_the_server() {
    let output = journey("775", &[]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let told =
        said.lines().map(|line| line.trim_start().split_once("s  ").unwrap_or_else(|| panic!("{said}")).1);
    // How often what is being done changes is a matter of time.
    let (subtitles, told): (Vec<&str>, Vec<&str>) = told.partition(|what| what.starts_with("subtitle: "));
    assert!(subtitles.iter().any(|what| what.contains("start")), "{said}");
    let [logged_in, world, title, bar, chat, transferred, again, game] = told[..] else { panic!("{said}") };
    assert_eq!((logged_in, world, title), ("logged in", "in a world to wait in", "title: mc"));
    assert_eq!(bar, "boss bar: mc starts, ready in a few minutes (0 %)");
    assert!(chat.starts_with("chat: mc is not up yet.") && chat.contains("press Esc"), "{chat}");
    assert!(transferred.starts_with("transferred to mc.example.com:"), "{transferred}");
    assert_eq!((again, game), ("logged in", "in the game"));
    let end = String::from_utf8(output.stdout).unwrap();
    assert!(end.starts_with("Ann joined mc.example.com:") && end.contains("Testkit"), "{end}");
}

#[tokio::test]
async fn a_program_reads_of_the_room() {
    let output = journey("776", &["--json"]).await;
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let steps: Vec<&Value> = json["steps"].as_array().unwrap().iter().collect();
    let words: Vec<&str> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(words, ["logged_in", "dialog", "transferred", "logged_in", "joined"], "{json}");
    let dialog = steps[1]["text"].as_str().unwrap();
    assert!(
        dialog.starts_with("mc · ") && dialog.ends_with(" · mc starts, ready in a few minutes"),
        "{dialog}"
    );
    assert_eq!((&json["outcome"], &json["transfers"][0]), (&"joined".into(), &steps[2]["text"]));
}
