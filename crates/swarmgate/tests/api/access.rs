//! Who may: no token, a wrong one, one that may only read, and one that may operate.

use serde_json::{Value, json};
use swarmgate_testkit::wait::until;

use crate::common::{Config, Gate, Home, LIMIT};
use crate::{Ask, OPERATE, READ, Site, WRONG, write_tokens};

/// Every method of every path, with a value for each part of the path, and the scope that it wants.
fn endpoints(document: &Value) -> Vec<(String, String, Option<String>)> {
    let mut endpoints = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parts = [
                ("{name}", "nobody"),
                ("{service}", "nobody"),
                ("{pin}", "none"),
                ("{serverAddress}", "nobody.example.com"),
            ];
            let path = parts.iter().fold(path.clone(), |path, (part, value)| path.replace(part, value));
            assert!(!path.contains('{'), "what does one write for that? {path}");
            let wanted = operation["security"].as_array().into_iter().flatten();
            let scopes: Vec<Option<String>> =
                wanted.map(|one| one["token"][0].as_str().map(str::to_owned)).collect();
            let scope = if scopes.contains(&None) { None } else { scopes.first().cloned().flatten() };
            endpoints.push((method.to_uppercase(), path, scope));
        }
    }
    endpoints
}

#[tokio::test]
async fn every_endpoint_wants_the_token_that_the_document_says() {
    let site = Site::start().await;
    let endpoints = endpoints(&site.get("/v1/openapi.json", READ).await);
    let count = |scope: Option<&str>| endpoints.iter().filter(|(_, _, is)| is.as_deref() == scope).count();
    assert!(count(None) >= 5 && count(Some("read")) >= 8 && count(Some("operate")) >= 4, "{endpoints:?}");
    for (method, path, scope) in &endpoints {
        let ask = site.ask(method, path);
        let context = format!("{method} {path}");
        let Some(scope) = scope else {
            assert!(![401, 403].contains(&ask.status().await), "{context}");
            continue;
        };
        let refused = ask.send().await;
        assert_eq!((refused.status, &*refused.code()), (401, "no_token"), "{context}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        for sent in [format!("Bearer {WRONG}"), format!("Basic {OPERATE}"), OPERATE.to_owned(), String::new()]
        {
            let refused = ask.clone().header("authorization", &sent).send().await;
            assert_eq!((refused.status, &*refused.code()), (401, "bad_token"), "{context} {sent}");
        }
        if scope == "operate" {
            let refused = ask.clone().token(READ).send().await;
            assert_eq!((refused.status, &*refused.code()), (403, "not_allowed"), "{context}");
        } else {
            assert!(![401, 403].contains(&ask.clone().token(READ).status().await), "{context}");
        }
        assert!(![401, 403].contains(&ask.clone().token(OPERATE).status().await), "{context}");
    }
    // The scheme may be written in any case; and the log names who operates, and shows no token.
    let ask =
        site.ask("POST", "/v1/services/nobody/wake").header("authorization", &format!("bEARER {OPERATE}"));
    assert_eq!(ask.send().await.status, 404);
    let log = site.gate.log();
    assert!(log.contains("by=\"operator\"") && log.contains("a token that the gate does not know"), "{log}");
    for secret in [READ, OPERATE, WRONG] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

#[tokio::test]
async fn without_tokens_there_is_no_api_over_tcp_and_it_says_how_to_get_one() {
    let gate = Gate::start("[server.a]\nhosts = [\"a.example.com\"]\naddress = \"127.0.0.1:1\"\n").await;
    for (path, status) in
        [("/healthz", 200), ("/readyz", 200), ("/ping", 200), ("/version", 200), ("/metrics", 200)]
    {
        assert_eq!(Ask::new(gate.http, "GET", path).send().await.status, status, "{path}");
    }
    for ask in
        [Ask::new(gate.http, "GET", "/v1/services"), Ask::new(gate.http, "POST", "/v1/services/a/wake")]
    {
        for ask in [ask.clone(), ask.token(OPERATE)] {
            let refused = ask.send().await;
            assert_eq!((refused.status, &*refused.code()), (403, "api_closed"));
            assert!(refused.body.contains("tokens_file"), "{}", refused.body);
        }
    }
    assert_eq!(gate.control("GET", "/v1/services", "").await.0, 200);
}

#[tokio::test]
async fn no_address_to_listen_on_opens_the_api() {
    let home = Home::new();
    let (players, http) = (home.address, home.http.port());
    home.write_text(&format!(
        "listen = [\"{players}\"]\nhttp = \"0.0.0.0:{http}\"\n[docker]\nswarm = \"off\"\ncontainers = \"off\"\n"
    ));
    let gate = home.start().await;
    assert_eq!(Ask::new(gate.http, "GET", "/healthz").send().await.status, 200);
    assert_eq!(Ask::new(gate.http, "GET", "/v1/services").send().await.code(), "api_closed");
}

#[tokio::test]
async fn a_bad_file_of_tokens_is_found_by_check() {
    let home = Home::new();
    write_tokens(&home, &format!("ann read {READ}\nbo operate\n"));
    home.write(&Config::of("[api]\ntokens_file = \"tokens\"\n"));
    let output = home.command(&["check"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("line 2") && said.contains("(warning)") && !said.contains(READ), "{said}");
}

#[tokio::test]
async fn metrics_may_need_a_token() {
    let site = Site::with("metrics_need_token = true", |config| config).await;
    let ask = site.ask("GET", "/metrics");
    assert_eq!(ask.send().await.code(), "no_token");
    assert_eq!(ask.token(READ).send().await.status, 200);
    for path in ["/healthz", "/readyz", "/ping", "/version"] {
        assert_eq!(site.ask("GET", path).send().await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn tokens_are_read_again_when_their_file_changes() {
    let site = Site::start().await;
    let status = async |token: &str| site.ask("GET", "/v1/services").token(token).send().await.status;
    let new = "new-0123456789abcdef0123456789";
    assert_eq!((status(READ).await, status(new).await), (200, 401));
    write_tokens(&site.home, &format!("newcomer read {new}\n"));
    until("the new token", LIMIT, async || (status(new).await == 200).then_some(())).await;
    assert_eq!((status(READ).await, status(OPERATE).await), (401, 401), "withdrawn");

    let short = "too-short-a-token";
    write_tokens(&site.home, &format!("# mine\nreader read {READ}\nother read {short}\n"));
    until("the complaint", LIMIT, async || site.gate.log().contains("line 3").then_some(())).await;
    assert_eq!((status(READ).await, status(new).await), (401, 200), "those before stay");
    write_tokens(&site.home, "# nobody\n");
    until("nobody", LIMIT, async || (status(new).await == 403).then_some(())).await;
    let log = site.gate.log();
    for secret in [new, short, READ] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    assert!(!log.contains("everybody on this machine"), "the file is the gate's alone");
}

#[tokio::test]
async fn a_file_with_one_token_is_read_again_when_it_changes() {
    let home = Home::new();
    let file = home.path().join("token");
    std::fs::write(&file, "changeme\n").unwrap();
    home.write(&Config::of("[api]\ntoken_file = \"token\"\n"));
    let gate = home.start().await;
    let status = async |token: &str| {
        Ask::new(gate.http, "POST", "/v1/services/x/wake").token(token).send().await.status
    };
    assert_eq!((status("changeme").await, status(OPERATE).await), (404, 401), "it may operate");
    let log = gate.log();
    assert!(log.contains("WARN api.token_file: the token has fewer than 24 characters"), "{log}");
    std::fs::write(&file, OPERATE).unwrap();
    until("the new token", LIMIT, async || (status(OPERATE).await == 404).then_some(())).await;
    assert_eq!(status("changeme").await, 401, "withdrawn");
    std::fs::write(&file, "").unwrap();
    until("the complaint", LIMIT, async || gate.log().contains("those before stay").then_some(())).await;
    assert_eq!(status(OPERATE).await, 404);
    assert!(!gate.log().contains(OPERATE) && !gate.log().contains("changeme"), "{}", gate.log());
}

#[tokio::test]
async fn a_file_for_all_to_read_is_warned_about_and_a_bad_one_is_no_start() {
    use std::os::unix::fs::PermissionsExt;

    let home = Home::new();
    let file = home.path().join("tokens");
    std::fs::write(&file, format!("ann read {READ}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let config = Config::of("[api]\ntokens_file = \"tokens\"\n");
    home.write(&config);
    let gate = home.start().await;
    assert!(gate.log().contains("everybody on this machine may read"), "{}", gate.log());
    drop(gate);

    std::fs::write(&file, format!("ann read {READ}\nbo {OPERATE}\n")).unwrap();
    let output = home.command(&["run"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("line 2") && said.contains("tokens") && !said.contains(OPERATE), "{said}");
}

#[tokio::test]
async fn a_token_may_stand_in_the_configuration() {
    let home = Home::new();
    home.write(&Config::of(format!("[api]\ntoken = \"{OPERATE}\"\n")));
    let gate = home.start().await;
    let ask = Ask::new(gate.http, "GET", "/v1/services").token(OPERATE);
    assert_eq!(ask.send().await.json(), json!([]));
    assert!(!gate.log().contains(OPERATE));
}

#[tokio::test]
async fn what_is_asked_is_counted_by_its_route_and_not_by_its_name() {
    let site = Site::start().await;
    for name in ["one", "two", "three"] {
        assert_eq!(site.ask("GET", &format!("/v1/services/{name}")).token(READ).status().await, 404);
        assert_eq!(site.ask("GET", &format!("/v1/services/{name}")).token(WRONG).status().await, 401);
        assert_eq!(site.ask("GET", &format!("/{name}")).status().await, 404);
    }
    let of = |endpoint: &str, status: u16| {
        format!(
            "swarmctl_http_requests_total{{method=\"GET\",endpoint=\"{endpoint}\",status_code=\"{status}\"}}"
        )
    };
    for (name, count) in [
        (of("/v1/services/{name}", 404), 3),
        (of("/v1/services/{name}", 401), 3),
        (of("unmatched", 404), 3),
        ("swarmctl_auth_failures_total".to_owned(), 3),
        ("swarmctl_rate_limited_requests_total".to_owned(), 0),
    ] {
        assert_eq!(site.gate.metric(&name).await, count, "{name}");
    }
    assert!(!site.gate.metrics().await.contains("endpoint=\"/metrics\""));
}

/// A page from elsewhere in a browser on this machine, whose name has got this machine's address.
#[tokio::test]
async fn pages_without_a_token_are_for_this_machine_by_its_own_names() {
    const OPEN: [&str; 5] = ["/healthz", "/readyz", "/ping", "/version", "/metrics"];
    let site =
        Site::with("hosts = [\"gate.example.com\"]\ntrusted_proxies = [\"127.0.0.9\"]", |config| config)
            .await;
    let asked = async |path: &str, name: &str| site.ask("GET", path).by_name(name).send().await;
    for path in OPEN {
        for name in ["localhost:9250", "127.0.0.1", "[::1]:9250", "gate.example.com"] {
            assert_eq!(asked(path, name).await.status, 200, "{path} {name}");
        }
        for name in ["evil.example.com", "evil.example.com:9250", ""] {
            let refused = asked(path, name).await;
            assert_eq!((refused.status, &*refused.code()), (421, "wrong_host"), "{path} {name:?}");
            assert!(refused.body.contains("`hosts` of `[api]`"), "{}", refused.body);
        }
    }
    // A token is nothing that such a page could have.
    let services = site.ask("GET", "/v1/services").by_name("evil.example.com");
    assert_eq!(services.clone().send().await.code(), "no_token");
    assert_eq!(services.token(READ).send().await.status, 200);
}

#[tokio::test]
async fn a_proxy_and_a_network_use_the_names_they_like() {
    let proxied = Site::with("trusted_proxies = [\"127.0.0.1\"]", |config| config).await;
    let asked = proxied.ask("GET", "/metrics").by_name("gate.example.com");
    assert_eq!(asked.send().await.status, 200);
    let site = Site::with("metrics_need_token = true", |config| config).await;
    let asked = site.ask("GET", "/metrics").by_name("gate.example.com");
    assert_eq!(asked.token(READ).send().await.status, 200);

    let home = Home::new();
    let (players, http) = (home.address, home.http.port());
    home.write_text(&format!(
        "listen = [\"{players}\"]\nhttp = \"0.0.0.0:{http}\"\n[docker]\nswarm = \"off\"\ncontainers = \"off\"\n"
    ));
    let gate = home.start().await;
    assert_eq!(Ask::new(gate.http, "GET", "/metrics").by_name("gate").send().await.status, 200);
}
