use serde_json::json;
use tokio::time::timeout;

use crate::{LIMIT, Said, run, swarmgate};

const GOOD: &str = r#"
[server.lobby]
hosts = ["lobby.example.com"]
address = "127.0.0.1:25570"

[server.survival]
hosts = ["*.example.com"]
command = ["java", "-jar", "server.jar"]
directory = "survival"
address = "127.0.0.1:25566"
"#;

const BAD: &str = r#"
lisen = ["[::]:25565"]

[server.lobby]
hosts = ["lobby.example.com"]
address = "127.0.0.1:70000"
idle = "soon"
"#;

fn file(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("swarmgate.toml");
    std::fs::write(&file, text).unwrap();
    (directory, file.display().to_string())
}

#[tokio::test]
async fn all_errors_at_once() {
    let (_directory, file) = file(BAD);
    let said = run(&["check", &file]).await;
    assert_eq!((said.code, said.out.trim_end()), (1, &*format!("{file} has 3 errors")), "{}", said.err);
    for part in ["lisen", "listen", "70000", "soon"] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    let said = run(&["check", &file, "--json"]).await;
    let json = said.json();
    assert_eq!((said.code, &json["ok"]), (1, &false.into()));
    let mut keys: Vec<_> =
        json["errors"].as_array().unwrap().iter().map(|error| error["key"].clone()).collect();
    keys.sort_by_key(ToString::to_string);
    assert_eq!(json!(keys), json!(["lisen", "server.lobby.address", "server.lobby.idle"]));
    assert!(json["errors"][0]["line"].is_u64(), "{json}");
}

#[tokio::test]
async fn the_file_is_named_as_run_names_it_too() {
    let (_directory, file) = file(BAD);
    for named in [vec!["check", &file], vec!["check", "--config", &file], vec!["check", "-c", &file]] {
        let said = run(&named).await;
        assert_eq!((said.code, said.out.trim_end()), (1, &*format!("{file} has 3 errors")), "{named:?}");
    }
    for named in [vec!["run", &file], vec!["run", "-c", &file]] {
        let said = run(&named).await;
        assert!(said.code != 0 && said.err.contains("lisen"), "{named:?}: {}", said.err);
    }
}

#[tokio::test]
async fn a_good_file_and_none() {
    let (_directory, good) = file(GOOD);
    let said = run(&["check", &good, "--json"]).await;
    assert_eq!((said.code, &said.json()["ok"]), (0, &true.into()));
    let said = run(&["check", &good]).await;
    assert!(
        said.err.contains("server.survival: the directory ") && said.err.contains("(warning)"),
        "{}",
        said.err
    );
    let said = run(&["check", "/no/such/file.toml"]).await;
    assert_eq!(said.code, 1);
    assert!(said.err.contains("`--config FILE` names another"), "{}", said.err);
    assert!(said.err.contains("cannot read /no/such/file.toml"), "{}", said.err);
}

#[tokio::test]
async fn a_hostname_is_explained_from_the_file_alone() {
    let (_directory, file) = file(GOOD);
    for (host, service, matched, state) in [
        ("LOBBY.example.com.", json!("lobby"), json!("exact"), json!("running")),
        ("other.example.com", json!("survival"), json!("wildcard"), json!("asleep")),
        ("example.org", json!(null), json!(null), json!(null)),
    ] {
        let said = run(&["explain", host, "--config", &file, "--offline", "--json"]).await;
        let json = said.json();
        assert_eq!(said.code, 0);
        assert!(json["service"].as_str().unwrap_or_default().ends_with(service.as_str().unwrap_or_default()));
        assert_eq!((&json["matched"], &json["state"]), (&matched, &state), "{host}: {json}");
    }
    let said = run(&["explain", "other.example.com", "--config", &file, "--offline"]).await;
    assert!(said.out.contains("(by a wildcard)") && said.out.contains("a join"), "{}", said.out);
}

#[tokio::test]
async fn what_a_certain_visitor_would_meet() {
    let lists = "\n[clients]\ndeny = [\"192.0.2.0/24\"]\n[server.survival.wakers]\nnames = [\"Ann\"]\n";
    let (_directory, file) = file(&format!("{GOOD}{lists}"));
    for (visitor, join, only_if) in [
        (&[][..], "starts it, if the player is among its wakers;", true),
        (&["--as", "ann"], "starts it;", true),
        (&["--as", "Bo", "--source", "203.0.113.1"], "is refused: the player is not among its wakers", false),
        (&["--as", "Ann", "--source", "192.0.2.9"], "is refused: the gate's list of clients", false),
    ] {
        let asked = ["explain", "a.example.com", "--config", &file, "--offline", "--json"];
        let json = run(&[&asked, visitor].concat()).await.json();
        assert!(json["join"].as_str().unwrap().starts_with(join), "{visitor:?}: {json}");
        assert_eq!(json["only_if"].is_string(), only_if, "{visitor:?}: {json}");
    }
    let said = run(&["explain", "a.example.com", "--config", &file, "--offline"]).await;
    assert!(said.out.contains("\n  only if  the address is let in by"), "{}", said.out);
}

/// Whoever comes from swarmctl starts with the variables that are there.
#[tokio::test]
async fn swarmctls_variables_are_read_and_named() {
    let (directory, file) = file("[cloudflare]\ngrace = \"1h\"");
    let secret = directory.path().join("token");
    std::fs::write(&secret, "t0ken\n").unwrap();
    let check = async |token: &str, json: &[&str]| {
        let mut command = swarmgate();
        command.args(["check", &file]).args(json);
        for (name, value) in [
            ("CLOUDFLARE_TUNNEL_ID", "f70ff985-a4ef-4643-bbbc-4a0ed4fc8415"),
            ("CLOUDFLARE_ACCOUNT_ID", "0da42c8d2132a9ddaf714f9e7c920711"),
            ("CLOUDFLARE_API_TOKEN", token),
            ("SERVICE_REMOVAL_DELAY_MINUTES", "30"),
        ] {
            command.env(name, value);
        }
        Said::of(timeout(LIMIT, command.output()).await.expect("in time").unwrap())
    };
    let found = check(secret.to_str().unwrap(), &[]).await;
    assert_eq!(found.code, 0, "{}", found.err);
    for line in [
        "CLOUDFLARE_API_TOKEN sets cloudflare.token_file, as in swarmctl",
        "SERVICE_REMOVAL_DELAY_MINUTES sets cloudflare.grace, as in swarmctl",
    ] {
        assert!(found.out.lines().any(|known| known == line), "{}", found.out);
    }
    let found = check(secret.to_str().unwrap(), &["--json"]).await.json();
    assert_eq!(found["notes"].as_array().unwrap().len(), 4, "{found}");

    let found = check("/run/secrets/nowhere", &[]).await;
    assert_eq!(found.code, 1);
    assert!(found.err.contains("CLOUDFLARE_API_TOKEN: its value begins with /"), "{}", found.err);
    assert!(!found.err.contains("nowhere"), "it may be the secret itself: {}", found.err);
}
