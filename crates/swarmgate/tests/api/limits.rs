//! What strangers may cost: requests, guesses, bytes; and who counts as one where proxies speak for many.

use crate::common::Config;
use crate::{Ask, OPERATE, READ, Site, WRONG};

/// Nobody is trusted here.
fn strict(config: Config) -> Config {
    config.limits("opening_deadline = \"30s\"")
}

#[tokio::test]
async fn requests_are_counted_per_source_whatever_they_ask() {
    // The start of the gate itself has asked whether it is ready, nobody knows how often.
    let site = Site::with("rate = \"1/h\"\nburst = 30", strict).await;
    let mut answered = 0;
    let refused = loop {
        let paths = ["/healthz", "/v1/services", "/nonsense", "/metrics"];
        let answer = site.ask("GET", paths[answered % paths.len()]).token(READ).send().await;
        if answer.status == 429 {
            break answer;
        }
        answered += 1;
        assert!(answered <= 30, "never refused");
    };
    assert_eq!(refused.code(), "too_many_requests");
    let wait: u64 = refused.header("retry-after").expect("a time").parse().unwrap();
    assert!((1..=3600).contains(&wait), "{wait}");
    // Whoever has the control socket is no stranger.
    assert_eq!(site.gate.control("GET", "/healthz", "").await.0, 200);
}

#[tokio::test]
async fn guesses_are_counted_more_strictly_and_lock_nobody_out_who_has_a_token() {
    let site = Site::with("failure_rate = \"1/h\"\nfailure_burst = 3", strict).await;
    let ask = |token: &str| site.ask("GET", "/v1/services").token(token);
    for _ in 0..3 {
        assert_eq!(ask(READ).send().await.status, 200);
        assert_eq!(ask(WRONG).send().await.code(), "bad_token");
    }
    // As long as a header may be: no token, and no work.
    for token in [WRONG, "", &"x".repeat(9000)] {
        let refused = ask(token).send().await;
        assert_eq!((refused.status, &*refused.code()), (429, "too_many_failures"));
        assert!(refused.header("retry-after").is_some());
    }
    assert_eq!(ask(READ).send().await.status, 200, "whoever sits behind the same address");
    assert_eq!(site.ask("GET", "/healthz").send().await.status, 200);
    assert_eq!(site.ask("GET", "/v1/services").send().await.code(), "no_token", "no guess");
}

#[tokio::test]
async fn trusted_proxies_speak_for_their_clients_and_nobody_else_does() {
    let of = |header: &'static str, client: &'static str| (header, client);
    let proxied = Site::with("burst = 1\nrate = \"1/h\"\ntrusted_proxies = [\"127.0.0.0/8\"]", behind).await;
    for ((header, value), status) in [
        (of("x-forwarded-for", "192.0.2.1"), 200),
        (of("x-forwarded-for", "192.0.2.1"), 429),
        (of("x-forwarded-for", "203.0.113.5, 192.0.2.1"), 429),
        (of("x-forwarded-for", "192.0.2.2, 127.0.0.9"), 200),
        (of("forwarded", "for=192.0.2.2;proto=https"), 429),
        (of("forwarded", "for=\"[2001:db8::1]:80\""), 200),
        // One customer has the whole /64.
        (of("x-forwarded-for", "2001:db8::2"), 429),
        (of("x-forwarded-for", "2001:db8:0:1::2"), 200),
    ] {
        let answer = proxied.ask("GET", "/ping").header(header, value).send().await;
        assert_eq!(answer.status, status, "{header}: {value}");
    }

    let direct = Site::with("burst = 60\nrate = \"1/h\"", strict).await;
    let mut refused = 0;
    for n in 0..70 {
        let answer =
            direct.ask("GET", "/ping").header("x-forwarded-for", &format!("192.0.2.{n}")).send().await;
        refused += usize::from(answer.status == 429);
    }
    assert!(refused >= 10, "{refused}: a stranger's word counts for nothing");
}

/// Where the gate itself may be asked whether it is ready, as often as its start takes.
fn behind(config: Config) -> Config {
    config.limits("trusted_sources = [\"127.0.0.1\"]")
}

#[tokio::test]
async fn two_headers_that_differ_make_nobody_a_trusted_source() {
    let api = "failure_burst = 1\nfailure_rate = \"1/h\"\ntrusted_proxies = [\"127.0.0.0/8\"]";
    let site = Site::with(api, behind).await;
    let guess = || site.ask("GET", "/v1/services").token(WRONG);
    for _ in 0..3 {
        assert_eq!(guess().send().await.code(), "bad_token", "the proxy itself is trusted");
    }
    let guess = || guess().header("x-forwarded-for", "192.0.2.1").header("forwarded", "for=192.0.2.2");
    assert_eq!(guess().send().await.code(), "bad_token");
    assert_eq!(guess().send().await.code(), "too_many_failures");
    let unsaid = site.ask("GET", "/v1/services").token(WRONG).header("forwarded", "for=unknown");
    assert_eq!(unsaid.send().await.code(), "too_many_failures");
}

#[tokio::test]
async fn bodies_are_bounded_wherever_they_are_sent() {
    let site = Site::start().await;
    let large = vec![b'x'; 64 * 1024 + 1];
    for (method, path) in [
        ("POST", "/v1/services/survival/console"),
        ("POST", "/v1/services/survival/wake"),
        ("GET", "/healthz"),
        ("POST", "/nonsense"),
    ] {
        let refused = site.ask(method, path).token(OPERATE).body(large.clone()).send().await;
        assert_eq!((refused.status, &*refused.code()), (413, "too_large"), "{method} {path}");
    }
    let console: Ask = site.ask("POST", "/v1/services/survival/console").token(OPERATE);
    let refused = console.clone().body(large).chunked().send().await;
    assert_eq!((refused.status, &*refused.code()), (413, "too_large"), "no length in front");
    let fits = console.body(vec![b'x'; 64 * 1024]).send().await;
    assert_eq!(fits.code(), "no_console", "it does not run");
}
