//! Lines of a server's own log that tell how far its start has come.

/// What to tell those who wait, if the line is worth it: `Preparing spawn area: 42%`.
pub fn of_line(line: &str) -> Option<String> {
    const LONGEST: usize = 80;
    let message = line.split_once("]: ").map_or(line, |(_, message)| message).trim();
    if message.starts_with("Done (") {
        return Some("Done".to_owned());
    }
    let known = STEPS.iter().any(|step| message.starts_with(step));
    known.then(|| message.chars().filter(|c| !c.is_control()).take(LONGEST).collect())
}

/// How such messages begin, in the order in which a server comes to them.
const STEPS: [&str; 7] = [
    "Starting minecraft server",
    "Loading properties",
    "Preparing level",
    "Preparing start region",
    "Selecting global world spawn",
    "Loading 0 persistent chunks",
    "Preparing spawn area: ",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_servers() {
        for (line, news) in [
            ("[12:00:01] [Worker-Main-1/INFO]: Preparing spawn area: 42%", Some("Preparing spawn area: 42%")),
            ("[12:00:01 INFO]: Preparing spawn area: 0%", Some("Preparing spawn area: 0%")),
            (
                "[12:00:01] [Server thread/INFO] [minecraft/LoggerChunkProgressListener]: Preparing spawn area: 7%\r",
                Some("Preparing spawn area: 7%"),
            ),
            ("[12:00:01] [Server thread/INFO]: Preparing level \"world\"", Some("Preparing level \"world\"")),
            ("[12:00:01] [Server thread/INFO]: Done (12.345s)! For help, type \"help\"", Some("Done")),
            ("Preparing spawn area: 3%", Some("Preparing spawn area: 3%")),
            ("[12:00:01] [Server thread/INFO]: <Ann> Preparing spawn area: 99%", None),
            ("[12:00:01] [Server thread/WARN]: Can't keep up!", None),
            ("\tat java.base/java.lang.Thread.run(Thread.java:840)", None),
            ("", None),
        ] {
            assert_eq!(of_line(line).as_deref(), news, "{line}");
        }
        let long = of_line(&format!("Preparing level \"{}\u{1b}[0m\"", "x".repeat(500))).unwrap();
        assert!(long.chars().count() == 80 && !long.contains('\u{1b}'));
    }
}
