use std::time::Duration;

use serde_json::{Value, json};
use swarmgate_core::publish::actual::NewRecord;
use swarmgate_testkit::cloudflare::{ACCOUNT, Call, EMAIL, FakeCloudflare, Fault, KEY, TOKEN, TUNNEL};

use super::error::{ApiError, Class};
use super::{Client, Credentials, Target};

fn client(api: &str, credentials: Credentials) -> Client {
    let (api, account, tunnel) = (api.to_owned(), ACCOUNT.to_owned(), TUNNEL.to_owned());
    Client::new(&Target { api, account, tunnel, credentials }).unwrap()
}

async fn site() -> (FakeCloudflare, Client) {
    let fake = FakeCloudflare::start().await;
    let client = client(&fake.url(), Credentials::Token(TOKEN.into()));
    (fake, client)
}

fn record(name: &str) -> NewRecord {
    let content = format!("{TUNNEL}.cfargotunnel.com");
    NewRecord { name: name.into(), content, proxied: true, ttl: 1, comment: "ours".into() }
}

#[tokio::test]
async fn a_configuration_goes_back_byte_for_byte() {
    let (fake, client) = site().await;
    assert_eq!(client.configuration().await.unwrap().config, None);
    let text = r#"{ "warp-routing":{"enabled" :true},"ingress":[{"service":"http://a:1","hostname":"a.example.com",
        "originRequest":{"unknown":1.50,"connectTimeout":3}}, {"service":"http_status:503"}] }"#;
    fake.with(|account| account.configure(text));
    let read = client.configuration().await.unwrap();
    assert_eq!((read.version, read.config.as_deref()), (1, Some(text)));
    let written = client.put_configuration(&read.config.unwrap()).await.unwrap();
    assert_eq!((written.version, written.config.as_deref()), (2, Some(text)));
    assert_eq!(fake.with(|account| account.tunnel.config.clone()).as_deref(), Some(text));
}

#[tokio::test]
async fn lists_are_read_to_their_end() {
    let (fake, client) = site().await;
    fake.with(|account| {
        for number in 0..120 {
            account.add_zone(&format!("z{number}.example"));
            account.add_policy(&format!("p{number}"), "allow");
            account.add_app(&format!("a{number}.example"), &json!({}));
            account.tags.insert(format!("t{number}"));
        }
        for number in 0..1001 {
            account.add_record("CNAME", &format!("r{number}.z0.example"), "elsewhere.example");
        }
    });
    let zone = &client.zones().await.unwrap()[0].id;
    let counts = (
        client.zones().await.unwrap().len(),
        client.records(zone, &[]).await.unwrap().len(),
        client.apps().await.unwrap().len(),
        client.tags().await.unwrap().len(),
        client.policies().await.unwrap().len(),
    );
    assert_eq!(counts, (120, 1001, 120, 120, 120));
    assert_eq!(client.records(zone, &[("name.exact", "r7.z0.example")]).await.unwrap().len(), 1);
    assert_eq!(client.records(zone, &[("comment.startswith", "ours & so on")]).await.unwrap(), []);
}

#[tokio::test]
async fn things_are_made_changed_and_removed() {
    let (fake, client) = site().await;
    let (zone, policy) = fake
        .with(|account| (account.add_zone("example.com").id.clone(), account.add_policy("staff", "allow")));
    let made = client.create_record(&zone, &record("app.example.com")).await.unwrap();
    let changed = NewRecord { comment: "released".into(), ..record("app.example.com") };
    let changed = client.update_record(&zone, &made.id, &changed).await.unwrap();
    assert_eq!((changed.id.as_str(), changed.comment.as_deref()), (made.id.as_str(), Some("released")));

    client.create_tag("ours").await.unwrap();
    let body = json!({"type": "self_hosted", "domain": "app.example.com", "name": "app", "policies": [policy],
        "tags": ["ours"]});
    let app = client.create_app(&body.to_string()).await.unwrap();
    assert_eq!(
        (app.policies[0].id.as_str(), app.tags.as_slice()),
        (policy.as_str(), &["ours".to_owned()][..])
    );
    let mut body: Value = serde_json::from_str(&app.raw).unwrap();
    body["policies"] = json!([{"id": policy, "precedence": 1}]);
    body["session_duration"] = "8h".into();
    let app = client.update_app(&app.id, &body.to_string()).await.unwrap();
    assert!(app.raw.contains(r#""session_duration":"8h""#), "{}", app.raw);

    for _ in 0..2 {
        client.delete_record(&zone, &made.id).await.unwrap();
        client.delete_app(&app.id).await.unwrap();
    }
    assert!(fake.with(|account| account.apps.is_empty() && account.records("app.example.com").is_empty()));
}

#[tokio::test]
async fn the_credentials_of_all_kinds_are_understood_and_never_shown() {
    let fake = FakeCloudflare::start().await;
    let key = Credentials::Key { email: EMAIL.into(), key: KEY.into() };
    let token = Credentials::Token(TOKEN.into());
    for credentials in [key, token.clone()] {
        let client = client(&fake.url(), credentials.clone());
        client.tunnel().await.unwrap();
        for shown in [format!("{client:?}"), format!("{credentials:?}")] {
            assert!(!shown.contains(TOKEN) && !shown.contains(KEY), "{shown}");
        }
    }
    let client = client(&fake.url(), token);
    for (of_account, status) in [(false, "active"), (true, "expired")] {
        fake.with(|account| (account.account_token, account.token_status) = (of_account, status));
        assert_eq!(client.token_status().await.unwrap(), status);
    }
}

#[tokio::test]
async fn a_wrong_credential_or_id_says_what_is_wrong() {
    let fake = FakeCloudflare::start().await;
    let other = TOKEN.replace("v1", "v2");
    let wrong = |account: &str, credentials| {
        let (api, account, tunnel) = (fake.url(), account.to_owned(), TUNNEL.to_owned());
        Client::new(&Target { api, account, tunnel, credentials }).unwrap()
    };
    for (account, credentials, part) in [
        (ACCOUNT, Credentials::Token(KEY.into()), "the token or key is malformed"),
        (
            ACCOUNT,
            Credentials::Key { email: EMAIL.into(), key: TOKEN.into() },
            "the token or key is malformed",
        ),
        (ACCOUNT, Credentials::Token(other), "needs the permission Account · Cloudflare Tunnel · Edit"),
        ("example.com", Credentials::Token(TOKEN.into()), "an id is wrong"),
        (&"0".repeat(32), Credentials::Token(TOKEN.into()), "needs the permission"),
    ] {
        let error = wrong(account, credentials).tunnel().await.unwrap_err();
        assert_eq!(error.class(), Class::Permanent, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let target = Target {
        api: fake.url(),
        account: ACCOUNT.into(),
        tunnel: TUNNEL.into(),
        credentials: Credentials::Token("two\nlines".into()),
    };
    assert!(Client::new(&target).unwrap_err().to_string().contains("without line breaks"));
}

#[tokio::test]
async fn every_fault_is_classed_and_the_next_call_is_well() {
    use Class::{Conflict, Permanent, Transient};
    let (fake, client) = site().await;
    for (fault, class, part) in [
        (
            Fault::Error { status: 403, code: 10000 },
            Permanent,
            "permission Account · Cloudflare Tunnel · Edit",
        ),
        (Fault::Error { status: 400, code: 81058 }, Conflict, "code 81058"),
        (Fault::Error { status: 500, code: 10013 }, Transient, "status 500"),
        (Fault::Html(502), Transient, "refused without a reason (status 502, code none)"),
        (Fault::Html(200), Transient, "not one of the API's"),
        (Fault::Html(403), Permanent, "status 403"),
        (Fault::Lost, Transient, "/configurations: "),
        (Fault::Cut, Transient, "/configurations: "),
        (Fault::Endless, Transient, "longer than"),
    ] {
        fake.fail(Call::ReadConfig, 1, fault.clone());
        let error = client.configuration().await.unwrap_err();
        assert_eq!((error.class(), error.retry_after()), (class, None), "{fault:?}: {error}");
        assert!(error.to_string().contains(part), "{fault:?}: {error}");
        client.configuration().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_limited_is_not_asked_again_before_its_time() {
    let (fake, client) = site().await;
    fake.fail(None, 1, Fault::Limited(300));
    for _ in 0..3 {
        let error = client.zones().await.unwrap_err();
        assert!(matches!(&error, ApiError::Limited { .. }), "{error}");
        let after = error.retry_after().unwrap();
        assert!(after > Duration::from_secs(290) && after <= Duration::from_secs(300), "{after:?}");
    }
    assert_eq!(fake.calls(), [Call::ListZones]);
}

/// The clock goes on by itself whenever everybody waits.
#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_is_given_up_on() {
    let (fake, client) = site().await;
    fake.fail(None, 1, Fault::Held);
    let error = client.tunnel().await.unwrap_err();
    assert_eq!(error.class(), Class::Transient, "{error}");
}

#[test]
fn what_is_called_is_one_of_few_words() {
    let called =
        |path| super::Call { method: reqwest::Method::GET, path, body: None, right: "none" }.endpoint();
    for (path, word) in [
        ("/user/tokens/verify", "tokens"),
        ("/accounts/a/tokens/verify", "tokens"),
        ("/accounts/a/cfd_tunnel/t", "tunnel"),
        ("/accounts/a/cfd_tunnel/t/configurations", "configuration"),
        ("/zones?account.id=a&page=1", "zones"),
        ("/zones/z/dns_records?name.exact=x", "dns_records"),
        ("/accounts/a/access/apps/1", "access_apps"),
        ("/accounts/a/access/tags", "access_tags"),
        ("/accounts/a/access/policies?page=1", "access_policies"),
    ] {
        assert_eq!(called(path), word, "{path}");
    }
}
