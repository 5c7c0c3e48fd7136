//! Others who write the configuration as well, an API that does not keep what it is given, and a stop in between.

use super::*;

async fn event(site: &mut Site, what: &str, is: impl Fn(&Event) -> bool) -> Event {
    until(what, LIMIT, async || site.events.recv().await.ok().filter(&is)).await
}

fn looks(site: &Site) -> usize {
    site.fake.calls().iter().filter(|call| **call == Call::ListZones).count()
}

#[tokio::test]
async fn an_api_with_words_of_its_own_is_written_once() {
    let site = Site::start(&[("every", "1s"), ("grace", "1s")]).await;
    let foreign = r#"{"ingress":[{"hostname":"Old.example.org","service":"http://old:1","zz":1.50},{"service":"http_status:503"}]}"#;
    site.fake.with(|account| {
        account.normalises = true;
        account.configure(foreign);
    });
    let b = (
        "b",
        "host=b.example.com,*.b.example.com port=81 path=^/x access=staff origin.http2=true origin.tls-timeout=7s",
    );
    site.observe(&[("a", "host=a.example.com port=80"), b]);
    site.state("b.example.com", "published").await;
    let before = written(&site.fake);
    let enough = looks(&site) + 3;
    until("three looks", LIMIT, async || (looks(&site) >= enough).then_some(())).await;
    assert_eq!(site.shown.now().await.steps, Vec::<String>::new());
    assert_eq!(written(&site.fake), before, "nothing is to be mended");
    site.observe(&[b]);
    site.visit("https://a.example.com/", Visit::Refused).await;
    site.end().await;
}

#[tokio::test]
async fn who_writes_all_the_time_is_told_and_not_written_over() {
    let mut site = Site::start(&[]).await;
    site.fake.with(|account| {
        account.configure(r#"{"ingress":[{"service":"http_status:404"}]}"#);
        account.rival_after_reads = u32::MAX;
    });
    site.observe(&[("a", "host=a.example.com port=80")]);
    let shown = site.shows("a problem", |shown| shown.problem.is_some()).await;
    assert!(shown.problem.unwrap().contains("somebody else keeps writing"));
    assert_eq!(written(&site.fake), []);
    let told = |event: &Event| matches!(event, Event::Publishing { problem: Some(_) });
    event(&mut site, "the problem", told).await;
    site.fake.with(|account| account.rival_after_reads = 0);
    // It comes right without anything new.
    site.visit("https://a.example.com/", origin("http://a:80")).await;
    event(&mut site, "its end", |event| matches!(event, Event::Publishing { problem: None })).await;
    site.end().await;
}

#[tokio::test]
async fn who_writes_at_the_same_moment_is_told() {
    let mut site = Site::start(&[]).await;
    site.fake.with(|account| account.rival_before_writes = 1);
    site.observe(&[("a", "host=a.example.com port=80")]);
    let told = event(
        &mut site,
        "the overwriting",
        |event| matches!(event, Event::Publishing { problem: Some(why) } if why.contains("at the same time")),
    )
    .await;
    assert!(format!("{told:?}").contains("version 2"), "{told:?}");
    site.state("a.example.com", "published").await;
    site.end().await;
}

#[tokio::test]
async fn a_fight_over_a_rule_is_left_and_told() {
    let site = Site::start(&[("every", "1s")]).await;
    site.observe(&[("a", "host=a.example.com port=80")]);
    site.visit("https://a.example.com/", origin("http://a:80")).await;
    let theirs =
        r#"{"ingress":[{"hostname":"a.example.com","service":"http://b:80"},{"service":"http_status:404"}]}"#;
    for _ in 0..3 {
        site.visit("https://a.example.com/", origin("http://a:80")).await;
        site.state("a.example.com", "published").await;
        site.fake.with(|account| account.configure(theirs));
    }
    let shown = site.state("a.example.com", "conflict").await;
    assert!(shown.hosts[0].problem.as_ref().unwrap().contains("somebody else keeps changing"), "{shown:?}");
    assert_eq!(site.fake.with(|account| account.visit("https://a.example.com/")), origin("http://b:80"));
    site.end().await;
}

#[tokio::test]
async fn what_is_said_to_be_done_and_is_not_is_tried_once_and_told() {
    let site = Site::start(&[]).await;
    site.fake.with(|account| {
        account.configure(r#"{"ingress":[{"service":"http_status:404"}]}"#);
        account.forgets = true;
    });
    site.observe(&[("a", "host=a.example.com port=80")]);
    let shown = site.state("a.example.com", "failed").await;
    let problem = shown.hosts[0].problem.clone().unwrap();
    assert!(problem.contains("says that it is done, and it is not"), "{problem}");
    assert_eq!(written(&site.fake), [Call::WriteConfig]);
    site.fake.with(|account| account.forgets = false);
    site.observe(&[("a", "host=a.example.com port=81")]);
    site.visit("https://a.example.com/", origin("http://a:81")).await;
    site.end().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let site = Site::start(&[]).await;
    site.fake.fail(Call::WriteConfig, 1, Fault::Held);
    site.observe(&[("a", "host=a.example.com port=80")]);
    until("the write", LIMIT, async || written(&site.fake).contains(&Call::WriteConfig).then_some(())).await;
    // The clock goes on by itself while everybody waits.
    tokio::time::pause();
    let before = tokio::time::Instant::now();
    site.end().await;
    let waited = before.elapsed().as_secs();
    assert!((9..12).contains(&waited), "{waited}");
}

/// Of the four codes with which the API refuses a record because of another, 81054 is one for records with an address,
/// which the gate makes none of.
#[tokio::test]
async fn a_record_that_somebody_makes_in_the_meantime_is_looked_at_and_left() {
    let site = Site::start(&[]).await;
    site.fake.fail(Call::WriteConfig, 1, Fault::Held);
    site.observe(&[
        ("a", "host=address.example.com,alias.example.com,same.example.com,bare.example.com,free.example.com port=80"),
    ]);
    site.fake.holds().await;
    let here = format!("{TUNNEL}.cfargotunnel.com");
    site.fake.with(|account| {
        account.add_record("A", "address.example.com", "192.0.2.1");
        account.add_record("CNAME", "alias.example.com", "elsewhere.example");
        account.add_record("CNAME", "same.example.com", &here);
        account.add_record("CNAME", "bare.example.com", &here);
        account.zones[0].records.last_mut().unwrap()["proxied"] = false.into();
    });
    site.fake.release();
    for (host, code) in [("address", 81053), ("alias", 81053), ("same", 81058), ("bare", 81057)] {
        told(&site, host, "failed", &format!("code {code}")).await;
    }
    // Nothing new happens, and each is told for what it is.
    told(&site, "address", "conflict", "there is an A record to 192.0.2.1").await;
    told(&site, "alias", "conflict", "a CNAME to elsewhere.example").await;
    told(&site, "same", "published", "somebody else made its DNS record, which leads here").await;
    told(&site, "bare", "conflict", "past Cloudflare's proxy").await;
    told(&site, "free", "published", "").await;
    let creates =
        |site: &Site| written(&site.fake).iter().filter(|call| **call == Call::CreateRecord).count();
    assert_eq!(creates(&site), 5);

    site.fake.fail(Call::CreateRecord, 1, Fault::Error { status: 400, code: 81054 });
    site.observe(&[("a", "host=odd.example.com port=80")]);
    told(&site, "odd", "failed", "code 81054").await;
    told(&site, "odd", "published", "").await;
    assert_eq!(creates(&site), 7);
    site.end().await;
}

/// What is shown of `host.example.com` says so.
async fn told(site: &Site, host: &str, state: &str, words: &str) {
    let host = format!("{host}.example.com");
    site.shows(&format!("{host} to be {state}: {words}"), |shown| {
        let host = shown.hosts.iter().find(|shown| shown.host == host);
        host.is_some_and(|host| {
            host.state == state && format!("{:?}", (&host.problem, &host.notes)).contains(words)
        })
    })
    .await;
}
