use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(written: &[(&str, &str)]) -> Published {
    let labels = written.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    parse(&labels, ServiceId::new("swarm", "shop_web"), "shop_web", &Settings::default()).unwrap()
}

/// Each as `hosts path -> scheme://target`.
fn shown(published: &Published) -> Vec<String> {
    let shown = published.publications.iter().map(|publication| {
        let hosts: Vec<String> = publication.hosts.iter().map(ToString::to_string).collect();
        let target = publication.target.as_ref().map(ToString::to_string).unwrap_or_default();
        let path = publication.settings.path.clone().unwrap_or_default();
        format!("{}{path} -> {}://{target}", hosts.join(","), publication.settings.scheme)
    });
    shown.collect()
}

#[test]
fn a_host_and_a_port_are_enough() {
    let read = read(&[
        ("swarmgate.publish.host", "App.example.com, www.example.com"),
        ("swarmgate.publish.port", "80"),
    ]);
    assert_eq!(shown(&read), ["app.example.com,www.example.com -> http://shop_web:80"]);
    assert_eq!((&read.problems, &read.publications[0].held), (&vec![], &None));
    assert_eq!(read.publications[0].settings, Settings::default());
}

#[test]
fn each_hostname_may_have_its_own_port_path_scheme_and_options() {
    let read = read(&[
        ("swarmgate.publish.port", "80"),
        ("swarmgate.publish.access", "staff, owners"),
        ("swarmgate.publish.origin.connect-timeout", "5s"),
        ("swarmgate.publish.site.host", "app.example.com"),
        ("swarmgate.publish.api.host", "app.example.com"),
        ("swarmgate.publish.api.path", "^/api"),
        ("swarmgate.publish.api.port", "9000"),
        ("swarmgate.publish.api.scheme", "https"),
        ("swarmgate.publish.api.address", "tasks.api"),
        ("swarmgate.publish.api.origin.no_tls_verify", "yes"),
        ("swarmgate.publish.api.origin.keep-alive-connections", "7"),
        ("swarmgate.publish.api.delete-dns-on-removal", "true"),
    ]);
    assert_eq!(read.problems, Vec::<String>::new());
    assert_eq!(
        shown(&read),
        ["app.example.com^/api -> https://tasks.api:9000", "app.example.com -> http://shop_web:80"]
    );
    let [api, site] = read.publications.as_slice() else { panic!("{read:?}") };
    assert_eq!((&api.settings.access, api.settings.delete_dns), (&site.settings.access, true));
    assert_eq!(site.settings.access, ["staff", "owners"]);
    let options = json!({"connectTimeout": 5, "keepAliveConnections": 7, "noTLSVerify": true});
    assert_eq!(json!(api.settings.origin.0), options);
}

#[test]
fn labels_of_swarmctl_work_unchanged() {
    let read = read(&[
        ("cloudflared.tunnel.enabled", "true"),
        ("cloudflared.tunnel.port", "8080"),
        ("cloudflared.tunnel.hostname", "a.example.com, b.example.com,"),
        ("cloudflared.tunnel.2.hostname", "c.example.com"),
        ("cloudflared.tunnel.access.policy", "f174e90a-fafe-4643-bbbc-4a0ed4fc8415"),
        ("foo.bar.hostname", "d.example.com"),
    ]);
    assert_eq!(read.problems, Vec::<String>::new());
    let hosts: BTreeSet<String> = read.publications[0].hosts.iter().map(ToString::to_string).collect();
    assert_eq!(hosts.into_iter().collect::<Vec<_>>(), ["a.example.com", "b.example.com", "c.example.com"]);
    assert_eq!(read.publications[0].target.as_ref().unwrap().to_string(), "shop_web:8080");
    assert_eq!(read.publications[0].settings.access, ["f174e90a-fafe-4643-bbbc-4a0ed4fc8415"]);
}

#[test]
fn swarmctls_switch_is_one_word_and_ours_go_first() {
    let service = || ServiceId::new("swarm", "a");
    let off: Labels =
        [("cloudflared.tunnel.enabled", "false"), ("cloudflared.tunnel.hostname", "a.example.com")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
    assert_eq!(parse(&off, service(), "a", &Settings::default()), None);
    for switch in ["True", "1", "yes"] {
        let odd =
            read(&[("cloudflared.tunnel.enabled", switch), ("cloudflared.tunnel.hostname", "a.example.com")]);
        assert!(odd.publications.is_empty() && odd.problems[0].contains("only the word true"), "{odd:?}");
    }
    let both = read(&[
        ("cloudflared.tunnel.enabled", "true"),
        ("cloudflared.tunnel.port", "1"),
        ("cloudflared.tunnel.hostname", "a.example.com"),
        ("swarmgate.publish.port", "2"),
        ("swarmgate.publish.host", "b.example.com"),
    ]);
    assert_eq!(shown(&both), ["b.example.com -> http://shop_web:2"]);
}

#[test]
fn what_is_wrong_is_said_with_its_fix_and_holds_its_own_hostnames_only() {
    for (key, value, problem) in [
        (
            "swarmgate.publish.api.prot",
            "1",
            "swarmgate.publish.api.prot: there is no such label; did you mean swarmgate.publish.api.port?",
        ),
        (
            "swarmgate.publish.api.port",
            "http",
            "swarmgate.publish.api.port: \"http\" is not a port; write a number from 1 to 65535",
        ),
        (
            "swarmgate.publish.api.path",
            "/(",
            "swarmgate.publish.api.path: \"/(\" is not a path: a '(' is not closed; write a regular expression such as \"^/api(/|$)\"",
        ),
        (
            "swarmgate.publish.api.scheme",
            "htps",
            "swarmgate.publish.api.scheme: \"htps\" is not a value of this key; did you mean \"https\"?",
        ),
        (
            "swarmgate.publish.api.dns",
            "maybe",
            "swarmgate.publish.api.dns: \"maybe\" is neither true nor false; write true or false",
        ),
        (
            "swarmgate.publish.api.origin.tls-timeout",
            "1.5s",
            "swarmgate.publish.api.origin.tls-timeout: \"1.5s\" is not a whole number of seconds; write \"1s\" or more, without a fraction",
        ),
        (
            "swarmgate.publish.api.address",
            "web:80",
            "swarmgate.publish.api.address: \"web:80\" is not where a service can be: ':' is not a character a hostname may have; write a name such as \"web\" or \"tasks.web\", or an IP address, without scheme and port",
        ),
    ] {
        let mut written = vec![
            ("swarmgate.publish.site.host", "site.example.com"),
            ("swarmgate.publish.site.port", "80"),
            ("swarmgate.publish.api.host", "api.example.com"),
            ("swarmgate.publish.api.port", "81"),
        ];
        written.retain(|(there, _)| *there != key);
        written.push((key, value));
        let read = read(&written);
        assert_eq!(read.problems, [problem]);
        let held: Vec<_> = read.publications.iter().map(|publication| publication.held.as_deref()).collect();
        assert_eq!(held, [Some(problem), None], "{key}");
    }
}

#[test]
fn an_empty_value_holds_what_it_speaks_for_and_nothing_else() {
    let nothing = "it names no policy; name one, or remove the label: then anyone may come";
    for (key, value, problem, hosts) in [
        ("access", "", nothing, 1),
        ("access", " , ", nothing, 1),
        ("host", "", "it names no hostname; write one, or remove the label", 0),
        ("host", " \t", "it names no hostname; write one, or remove the label", 0),
        ("port", "", "\"\" is not a port; write a number from 1 to 65535", 1),
        ("port", "  ", "\"\" is not a port; write a number from 1 to 65535", 1),
        ("path", "", "", 1),
        ("port", "\" 81 \"", "the quotes are part of its value; write swarmgate.publish.api.port= 81 ", 1),
        (
            "host",
            "'api.example.com'",
            "the quotes are part of its value; write swarmgate.publish.api.host=api.example.com",
            1,
        ),
    ] {
        let key = format!("swarmgate.publish.api.{key}");
        let mut written = vec![
            ("swarmgate.publish.site.host", "site.example.com"),
            ("swarmgate.publish.site.port", "80"),
            ("swarmgate.publish.api.host", "api.example.com"),
            ("swarmgate.publish.api.port", "81"),
        ];
        written.retain(|(there, _)| *there != key);
        written.push((&key, value));
        let read = read(&written);
        let problem = if problem.is_empty() { vec![] } else { vec![format!("{key}: {problem}")] };
        assert_eq!(read.problems, problem);
        let [api, site] = read.publications.as_slice() else { panic!("{read:?}") };
        assert_eq!((site.hosts.len(), &site.held), (1, &None), "{key} {value:?}");
        assert_eq!((api.hosts.len(), read.unclear), (hosts, hosts == 0), "{key} {value:?}");
        let is_held = problem.first().filter(|problem| hosts > 0 && !problem.contains("quotes"));
        assert_eq!(api.held.as_ref(), is_held, "{key} {value:?}");
    }
}

/// Without it they would be open to all, where a variable was to name the policy.
#[test]
fn an_empty_policy_for_all_hostnames_holds_those_that_name_none_themselves() {
    let empty = [
        ("swarmgate.publish.access", ""),
        ("cloudflared.tunnel.access.policy", ""),
        ("cloudflared.tunnel.access.policy", "''"),
    ];
    for (key, value) in empty {
        let read = read(&[
            ("cloudflared.tunnel.enabled", "true"),
            ("cloudflared.tunnel.hostname", "\"old.example.com\""),
            ("swarmgate.publish.port", "80"),
            ("swarmgate.publish.api.host", "api.example.com"),
            ("swarmgate.publish.api.access", "staff"),
            ("swarmgate.publish.site.host", "site.example.com"),
            (key, value),
        ]);
        let held = |host: &str| {
            let publication = read.publications.iter().find(|one| one.hosts[0].to_string() == host).unwrap();
            publication.held.clone()
        };
        let why = format!("{key}: it names no policy; name one, or remove the label: then anyone may come");
        assert_eq!(held("site.example.com"), Some(why.clone()));
        assert_eq!(held("old.example.com"), Some(why));
        assert_eq!(held("api.example.com"), None, "it goes on");
    }
}

#[test]
fn a_slip_that_could_be_about_anything_holds_everything() {
    for key in ["swarmgate.publish.acess", "cloudflared.tunnel.acces.policy", "swarmgate.publish.origin.x"] {
        let read = read(&[
            ("cloudflared.tunnel.enabled", "true"),
            ("swarmgate.publish.a.host", "a.example.com"),
            ("swarmgate.publish.b.host", "b.example.com"),
            ("swarmgate.publish.port", "80"),
            (key, "staff"),
        ]);
        assert!(read.publications.iter().all(|publication| publication.held.is_some()), "{key}");
    }
}

#[test]
fn what_is_of_no_publication_holds_them_all() {
    let whole = [
        ("swarmgate.publish.api.host", "api.example.com"),
        ("swarmgate.publish.api.port", "80"),
        ("swarmgate.publish.web.host", "web.example.com"),
        ("swarmgate.publish.web.port", "81"),
    ];
    for (key, value) in [
        ("swarmgate.publish.apii.access", "staff"),
        ("swarmgate.publish.apii.acces", "staff"),
        ("swarmgate.publish.path", "^/public"),
        ("swarmgate.publish.access", ""),
    ] {
        let written: Vec<_> = whole.into_iter().chain([(key, value)]).collect();
        let read = read(&written);
        assert!(!read.problems.is_empty(), "{key}");
        let publications = read.publications.iter().filter(|publication| !publication.hosts.is_empty());
        assert!(
            publications.clone().count() == 2 && publications.clone().all(|one| one.held.is_some()),
            "{key} {read:?}"
        );
    }
    // Swarmctl's, where a variable was to name the policy.
    let read = read(&[
        ("cloudflared.tunnel.enabled", "true"),
        ("cloudflared.tunnel.hostname", "a.example.com"),
        ("cloudflared.tunnel.port", "80"),
        ("cloudflared.tunnel.access.policy", ""),
    ]);
    assert!(read.publications[0].held.is_some());
}

#[test]
fn a_hostname_that_may_be_meant_is_not_gone() {
    for (key, value) in [
        ("swarmgate.publish.hots", "app.example.com"),
        ("swarmgate.publish.api.hots", "app.example.com"),
        ("cloudflared.tunnel.hostnam", "app.example.com"),
        ("swarmgate.publish.host", ""),
        ("swarmgate.publish.dns", "true"),
    ] {
        let read =
            read(&[("cloudflared.tunnel.enabled", "true"), ("swarmgate.publish.port", "80"), (key, value)]);
        assert!(read.unclear && !read.problems.is_empty(), "{key}: {read:?}");
    }
}

#[test]
fn good_hostnames_stay_beside_a_bad_one() {
    for bad in
        ["b c", "a.example.com:80", "http://a.example.com", "localhost", "192.0.2.1", "*", "a.*.example.com"]
    {
        let read = read(&[
            ("swarmgate.publish.host", &format!("{bad}, app.example.com")),
            ("swarmgate.publish.port", "80"),
        ]);
        let publication = &read.publications[0];
        assert_eq!((read.problems.len(), publication.hosts.len(), read.unclear), (1, 1, true), "{bad}");
        assert_eq!(publication.held, None);
    }
}

proptest! {
    #[test]
    fn no_label_panics(
        key in prop_oneof![
            prop::sample::select(known("api")),
            "(swarmgate.publish|cloudflared.tunnel)\\.\\PC{0,12}",
        ],
        value in "\\PC{0,24}",
    ) {
        let labels = [(key, value)].into();
        let _ = parse(&labels, ServiceId::new("swarm", "a"), "a", &Settings::default());
    }
}
