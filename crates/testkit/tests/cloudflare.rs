//! The fake of Cloudflare's API, seen by Cloudflare's own library and by requests that nobody should send.

use std::process::Stdio;

use serde_json::{Value, json};
use swarmgate_testkit::cloudflare::{ACCOUNT, Call, FakeCloudflare, Fault, TOKEN, TUNNEL, Visit};
use swarmgate_testkit::peers;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const FOREIGN: &str = r#"{"ingress":[{"hostname":"old.example.com","service":"http://old:80","originRequest":{"bastionMode":false}},{"service":"http_status:404"}],"warp-routing":{"enabled":true}}"#;

#[tokio::test]
async fn cloudflares_own_library_understands_every_answer() {
    let fake = FakeCloudflare::start().await;
    let (zone, policy) = fake.with(|account| {
        for number in 0..7 {
            account.add_zone(&format!("z{number}.example"));
        }
        account.add_app("other.example.com", &json!({}));
        account.tags.insert("theirs".into());
        (account.add_zone("example.com").id.clone(), account.add_policy("staff", "allow"))
    });
    fake.fail(Call::VerifyAccountToken, 1, Fault::Limited(7));
    let Some(mut script) = peers::python("cloudflare_api.py") else { return };
    let script = script.args([&fake.url(), ACCOUNT, TUNNEL, TOKEN, &zone, &policy]).stderr(Stdio::inherit());
    let output = script.output().await.expect("the script runs");
    let text = String::from_utf8(output.stdout).expect("it prints text");
    let steps: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let failed: Vec<_> = steps.iter().filter(|step| step["ok"] != true).collect();
    assert!(failed.is_empty() && output.status.success(), "{failed:#?}");
    let calls: std::collections::BTreeSet<_> = fake.calls().into_iter().collect();
    assert_eq!((steps.len(), calls.len()), (35, 20), "every call, and every kind of refusal");
    let complaints = fake.take_complaints();
    assert!(complaints.len() == 1 && complaints[0].contains("\"CNAME\" was expected"), "{complaints:#?}");
}

#[tokio::test]
async fn what_no_client_should_send_is_noticed() {
    let fake = FakeCloudflare::start().await;
    let zone = fake.with(|account| account.add_zone("example.com").id.clone());
    let records = format!("/zones/{zone}/dns_records");
    let config = format!("/accounts/{ACCOUNT}/cfd_tunnel/{TUNNEL}/configurations");
    let auth = format!("authorization: Bearer {TOKEN}\r\n");
    let with_json = format!("{auth}content-type: application/json\r\n");
    let cname = json!({"type": "CNAME", "name": "a", "ttl": 1, "content": "x.example"});
    let with = |key: &str, value: Value| {
        let mut body = cname.clone();
        body[key] = value;
        body.to_string()
    };
    for (method, path, headers, body, complaint) in [
        ("GET", "/zones/all", &auth, String::new(), "no such call"),
        ("DELETE", "/zones", &auth, String::new(), "no such call"),
        ("GET", "/zones?namme=x", &auth, String::new(), "namme"),
        ("GET", "/zones?per_page=51", &auth, String::new(), "51 is greater than the maximum of 50"),
        ("GET", "/zones?page=0", &auth, String::new(), "0 is less than the minimum of 1"),
        ("GET", "/zones?page=1&page=2", &auth, String::new(), "twice"),
        ("GET", "/zones", &String::new(), String::new(), "credentials"),
        ("POST", &records, &auth, cname.to_string(), "content type"),
        ("POST", &records, &with_json, "{".into(), "not a JSON object"),
        ("POST", &records, &with_json, String::new(), "not a JSON object"),
        ("POST", &records, &with_json, with("proxyed", true.into()), "proxyed"),
        ("POST", &records, &with_json, with("ttl", 30.into()), "30 is not valid"),
        ("POST", &records, &with_json, with("comment", "x".repeat(101).into()), "longer than 100 characters"),
        ("GET", &records, &with_json, "{}".into(), "it has a body"),
        ("PUT", &config, &with_json, r#"{"config":{"ingress":[{"service":"http_status:404"}]}}"#.into(), "hostname"),
        (
            "PUT",
            &config,
            &with_json,
            r#"{"config":{"ingress":[{"hostname":"","service":"http_status:404","originRequest":{"nope":1}}]}}"#.into(),
            "nope",
        ),
    ] {
        let status = send(&fake, method, path, headers, &body).await.0;
        let complaints = fake.take_complaints();
        assert!(complaints.concat().contains(complaint), "{method} {path} {body}: {status} {complaints:?}");
    }
    for (method, path, headers, body) in [
        ("GET", "/zones?per_page=50&page=1&status=active", &auth, String::new()),
        ("POST", &records, &with_json, with("name", "b".into())),
    ] {
        assert_eq!(send(&fake, method, path, headers, &body).await.0, 200);
        fake.assert_clean();
    }
}

#[tokio::test]
async fn what_was_there_may_go_back_as_it_was_and_not_otherwise() {
    let fake = FakeCloudflare::start().await;
    fake.with(|account| account.configure(FOREIGN));
    let path = format!("/accounts/{ACCOUNT}/cfd_tunnel/{TUNNEL}/configurations");
    let headers = format!("authorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n");
    let body = |config: &str| format!(r#"{{"config":{config}}}"#);
    send(&fake, "PUT", &path, &headers, &body(FOREIGN)).await;
    fake.assert_clean();
    for changed in
        [FOREIGN.replace("false", "true"), FOREIGN.replace("\"enabled\":true", "\"enabled\":false")]
    {
        let (status, _) = send(&fake, "PUT", &path, &headers, &body(&changed)).await;
        assert_eq!(status, 200);
        assert!(!fake.take_complaints().is_empty(), "{changed}");
    }
}

#[tokio::test]
async fn a_client_that_changes_what_somebody_else_made_is_noticed() {
    let fake = FakeCloudflare::start().await;
    let (zone, record, app) = fake.with(|account| {
        account.configure(FOREIGN);
        let zone = account.add_zone("example.com").id.clone();
        let record = account.add_record("CNAME", "old.example.com", "there.example");
        (zone, record, account.add_app("old.example.com", &json!({})))
    });
    let config = format!("/accounts/{ACCOUNT}/cfd_tunnel/{TUNNEL}/configurations");
    let record = format!("/zones/{zone}/dns_records/{record}");
    let app = format!("/accounts/{ACCOUNT}/access/apps/{app}");
    let headers = format!("authorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n");
    let body =
        |rules: &str| format!(r#"{{"config":{{"ingress":[{rules}],"warp-routing":{{"enabled":true}}}}}}"#);
    let old =
        r#"{"hostname":"old.example.com","service":"http://old:80","originRequest":{"bastionMode":false}}"#;
    let (new, last) =
        (r#"{"hostname":"n.example.com","service":"http://n:80"}"#, r#"{"service":"http_status:404"}"#);
    let ours_last = r#"{"hostname":"","service":"http_status:404"}"#;
    let cname =
        json!({"type": "CNAME", "name": "old.example.com", "ttl": 1, "content": "x.example"}).to_string();
    let app_body = json!({"type": "self_hosted", "domain": "old.example.com"}).to_string();
    for (method, path, body, is_trespass) in [
        ("PUT", &config, body(&format!("{new},{old},{last}")), false),
        ("PUT", &config, body(&format!("{old},{last}")), false),
        ("PUT", &config, body(&format!("{new},{last}")), true),
        ("PUT", &config, body(&format!("{old},{ours_last}")), true),
        ("PUT", &record, cname, true),
        ("DELETE", &record, String::new(), true),
        ("PUT", &app, app_body, true),
        ("DELETE", &app, String::new(), true),
    ] {
        fake.with(|account| account.configure(FOREIGN));
        send(&fake, method, path, &headers, &body).await;
        let complaints = fake.take_complaints();
        assert_eq!(complaints.concat().contains("somebody else made"), is_trespass, "{complaints:?}");
        assert_eq!(complaints.is_empty(), !is_trespass, "{complaints:?}");
    }
}

#[tokio::test]
async fn names_are_taken_once() {
    let fake = FakeCloudflare::start().await;
    let zone = fake.with(|account| {
        let zone = account.add_zone("example.com").id.clone();
        account.add_record("A", "a.example.com", "192.0.2.1");
        account.add_record("CNAME", "c.example.com", "there.example");
        account.add_record("TXT", "t.example.com", "words");
        zone
    });
    let headers = format!("authorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n");
    for (kind, name, content, proxied, code) in [
        ("CNAME", "a.example.com", "there.example", true, 81053),
        ("CNAME", "c.example.com", "here.example", true, 81053),
        ("CNAME", "C", "there.example", true, 81058),
        ("CNAME", "c.example.com", "there.example", false, 81057),
        ("A", "c.example.com", "192.0.2.2", true, 81054),
        ("A", "a.example.com", "192.0.2.1", true, 81058),
        ("A", "a.example.com", "192.0.2.2", true, 0),
        ("CNAME", "new.example.com", "http://there", true, 1004),
        ("CNAME", "t.example.com", "there.example", true, 0),
        ("CNAME", "relative", "there.example", true, 0),
    ] {
        let body =
            json!({"type": kind, "name": name, "content": content, "ttl": 1, "proxied": proxied}).to_string();
        let (_, answer) = send(&fake, "POST", &format!("/zones/{zone}/dns_records"), &headers, &body).await;
        assert_eq!(answer["errors"][0]["code"].as_u64().unwrap_or(0), code, "{name}: {answer}");
        assert_eq!(fake.take_complaints().is_empty(), kind == "CNAME", "the gate makes no others");
    }
    assert_eq!(fake.with(|account| account.records("relative.example.com").len()), 1);
    let (status, answer) =
        send(&fake, "DELETE", &format!("/zones/{zone}/dns_records/{zone}"), &headers, "").await;
    assert_eq!((status, answer["errors"][0]["code"].as_u64()), (404, Some(81044)));
}

#[tokio::test]
async fn a_visitor_gets_what_is_published_and_an_open_door_is_noticed() {
    let fake = FakeCloudflare::start().await;
    let visit = || fake.with(|account| account.visit("https://old.example.com/"));
    fake.with(|account| {
        account.add_zone("example.com");
        account.configure(FOREIGN);
    });
    assert_eq!(visit(), Visit::Unresolved);
    fake.with(|account| {
        account.add_record("CNAME", "old.example.com", &format!("{TUNNEL}.cfargotunnel.com"))
    });
    assert_eq!(visit(), Visit::Origin("http://old:80".into()));
    fake.with(|account| account.protected.insert("old.example.com".into()));
    send(&fake, "GET", "/zones", &format!("authorization: Bearer {TOKEN}\r\n"), "").await;
    assert!(fake.take_complaints().concat().contains("without a login"));
    let policy = fake.with(|account| {
        let policy = account.add_policy("staff", "allow");
        let to =
            json!([{"type": "public", "uri": "x.example.com"}, {"type": "public", "uri": "old.example.com"}]);
        account.add_app("x.example.com", &json!({"policies": [policy], "destinations": to}));
        policy
    });
    assert_eq!(visit(), Visit::Login(vec![policy.clone()]), "it is the second that the application is for");
    // A door behind another path is a door, too.
    fake.with(|account| {
        account.apps.clear();
        account.add_app("old.example.com/admin", &json!({"policies": [policy]}));
    });
    assert_eq!(
        fake.with(|account| account.visit("https://old.example.com/admin/x")),
        Visit::Login(vec![policy])
    );
    send(&fake, "GET", "/zones", &format!("authorization: Bearer {TOKEN}\r\n"), "").await;
    assert!(fake.take_complaints().concat().contains("without a login"));
}

#[tokio::test]
async fn a_configuration_may_come_back_in_other_words() {
    let fake = FakeCloudflare::start().await;
    fake.with(|account| {
        account.normalises = true;
        account.configure(FOREIGN);
    });
    let path = format!("/accounts/{ACCOUNT}/cfd_tunnel/{TUNNEL}/configurations");
    let (_, answer) = send(&fake, "GET", &path, &format!("authorization: Bearer {TOKEN}\r\n"), "").await;
    let rule = &answer["result"]["config"]["ingress"][0];
    assert_eq!((&rule["id"], &rule["originRequest"]["noTLSVerify"]), (&json!("1"), &json!(false)));
    fake.with(|account| account.rival_after_reads = 1);
    for version in [1, 2, 2] {
        let (_, answer) = send(&fake, "GET", &path, &format!("authorization: Bearer {TOKEN}\r\n"), "").await;
        assert_eq!(answer["result"]["version"], version);
    }
}

#[tokio::test]
async fn a_fault_is_met_as_often_as_asked_and_only_by_its_call() {
    let fake = FakeCloudflare::start().await;
    let headers = format!("authorization: Bearer {TOKEN}\r\n");
    fake.fail(Call::ListZones, 2, Fault::Error { status: 500, code: 10013 });
    let mut seen = Vec::new();
    for path in ["/user/tokens/verify", "/zones", "/zones", "/zones"] {
        seen.push(send(&fake, "GET", path, &headers, "").await.0);
    }
    assert_eq!(seen, [200, 500, 500, 200]);
}

/// A request, as raw as it gets. `path` may have a query.
async fn send(fake: &FakeCloudflare, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
    let url = fake.url();
    let (host, base) = url.trim_start_matches("http://").split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host).await.expect("the fake listens");
    let length = body.len();
    let request =
        format!("{method} /{base}{path} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}
