//! From what is written down to what a visitor gets.

use serde_json::json;
use swarmgate_testkit::cloudflare::{Call, Visit};

use crate::site::{Site, origin, web};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_published_once_and_nothing_else_is_changed() {
    let site = Site::new().await;
    let gate = site.start("every = \"1s\"", &web("app", "")).await;
    site.until_visit("app.example.com", &origin("app")).await;
    site.until_looks(2).await;
    assert_eq!(site.writes(), [Call::WriteConfig, Call::CreateRecord]);
    drop(gate);

    let _gate = site.home.start().await;
    site.until_looks(2).await;
    assert_eq!(site.writes(), [Call::WriteConfig, Call::CreateRecord], "a restart changes nothing");
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_service_is_never_open() {
    let site = Site::new().await;
    site.protect("app.example.com");
    let _gate = site.start("", &web("app", "access = [\"staff\"]")).await;
    site.until_visit("app.example.com", &site.login()).await;
    site.until_writes(&[Call::CreateTag, Call::CreateApp, Call::WriteConfig, Call::CreateRecord]).await;

    let owners = site.fake.with(|account| account.add_policy("owners", "allow"));
    site.write("", &web("app", &format!("access = [{owners:?}, \"staff\"]")));
    site.until_visit("app.example.com", &Visit::Login(vec![owners, site.staff.clone()])).await;
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_not_asked_for_any_more_goes() {
    let site = Site::new().await;
    let _gate = site.start("", &web("app", "access = [\"staff\"]")).await;
    site.until_visit("app.example.com", &site.login()).await;
    site.write("", &web("app", ""));
    site.until_visit("app.example.com", &origin("app")).await;
    assert_eq!(site.fake.with(|account| account.apps_for("app.example.com").len()), 0);
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_not_there_keeps_its_own_service_in_only() {
    let site = Site::new().await;
    site.protect("app.example.com");
    let tables = web("app", "access = [\"nobody\"]") + &web("open", "");
    let gate = site.start("every = \"1s\"", &tables).await;
    site.until_visit("open.example.com", &origin("open")).await;
    assert_eq!(site.visit("app.example.com"), Visit::Unresolved);
    site.until_log(&gate, "nobody").await;

    site.fake.with(|account| account.add_policy("nobody", "allow"));
    let nobody = site.fake.with(|account| account.policies[1]["id"].as_str().unwrap().to_owned());
    site.until_visit("app.example.com", &Visit::Login(vec![nobody])).await;
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_services_are_one_change_of_the_tunnel() {
    let site = Site::new().await;
    let names: Vec<String> = (0..10).map(|number| format!("app{number}")).collect();
    let _gate = site.start("", &names.iter().map(|name| web(name, "")).collect::<String>()).await;
    for name in &names {
        site.until_visit(&format!("{name}.example.com"), &origin(name)).await;
    }
    assert_eq!(site.writes().iter().filter(|call| **call == Call::WriteConfig).count(), 1);
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_option_reaches_the_connector() {
    let site = Site::new().await;
    let keys = r#"
        scheme = "https"
        path = "^/api"
        [publish.app.origin]
        connect_timeout = "5s"
        tls_timeout = "6s"
        tcp_keep_alive = "7s"
        keep_alive_timeout = "8s"
        keep_alive_connections = 9
        no_happy_eyeballs = true
        match_sni_to_host = true
        no_tls_verify = true
        disable_chunked_encoding = true
        http2 = true
        host_header = "inside.example"
        server_name = "tls.example"
        ca_pool = "/ca.pem"
        proxy_type = "socks"
    "#;
    let gate = site.start("every = \"1s\"", &web("app", keys)).await;
    site.until_writes(&[Call::WriteConfig, Call::CreateRecord]).await;
    let all = json!({"hostname": "app.example.com", "path": "^/api", "service": "https://app:80",
        "originRequest": {"connectTimeout": 5, "tlsTimeout": 6, "tcpKeepAlive": 7, "keepAliveTimeout": 8,
            "keepAliveConnections": 9, "noHappyEyeballs": true, "matchSNItoHost": true, "noTLSVerify": true,
            "disableChunkedEncoding": true, "http2Origin": true, "httpHostHeader": "inside.example",
            "originServerName": "tls.example", "caPool": "/ca.pem", "proxyType": "socks"}});
    assert_eq!(site.rule("app.example.com"), all);
    let options = swarmgate_core::config::keys::KEYS.iter();
    let options = options.filter(|key| key.path.starts_with("publish.NAME.origin.")).count();
    assert_eq!(
        all["originRequest"].as_object().map(|known| known.len()),
        Some(options),
        "there are no others"
    );
    // What is said is the same as what is there.
    site.until_looks(2).await;
    assert_eq!(site.writes(), [Call::WriteConfig, Call::CreateRecord]);
    drop(gate);
    site.assert_untouched();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_makes_the_connector_ask_for_a_login_too() {
    let site = Site::new().await;
    let _gate = site.start("team = \"example\"\nevery = \"1s\"", &web("app", "access = [\"staff\"]")).await;
    site.until_visit("app.example.com", &site.login()).await;
    let access = &site.rule("app.example.com")["originRequest"]["access"];
    let aud = site.fake.with(|account| account.apps_for("app.example.com")[0]["aud"].clone());
    assert_eq!(*access, json!({"required": true, "teamName": "example", "audTag": [aud]}));
    // Somebody removes the application: still nobody comes in, and it comes back.
    site.fake.with(|account| account.apps.retain(|app| app["domain"] != "app.example.com"));
    assert_eq!(site.visit("app.example.com"), Visit::Refused);
    site.until_visit("app.example.com", &site.login()).await;
    let back = || {
        let aud = site.fake.with(|account| account.apps_for("app.example.com")[0]["aud"].clone());
        site.rule("app.example.com")["originRequest"]["access"]["audTag"] == json!([aud])
    };
    site.until("a rule that takes the tokens of the new application", back).await;
    site.assert_untouched();
}
