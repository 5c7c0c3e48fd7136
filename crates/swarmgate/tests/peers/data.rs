use swarmgate_testkit::peers;

#[tokio::test]
async fn what_waiting_players_are_sent_is_what_minecraft_data_knows() {
    let Some(mut generate) = peers::node("../../crates/minecraft/data/limbo/generate.js") else { return };
    let checked = generate.arg("--check").output().await.unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
