//! The sentences players read: which template, and what its words in braces stand for.

use std::net::IpAddr;
use std::time::Duration;

use swarmgate_minecraft::Malformed;
use swarmgate_minecraft::limbo::{BarColour, BossBar, Scene};
use swarmgate_minecraft::status::StatusSummary;
use swarmgate_minecraft::text::Component;

use crate::knock::{Face, Refusal, Unproven};
use crate::learned::Pin;
use crate::moment::Moment;
use crate::service::{State, Texts};
use crate::span;

/// The words a template may have in braces, each with what it stands for.
pub const TOKENS: [(&str, &str); 8] = [
    ("server", "the server's name"),
    ("motd", "what the server itself last showed in the list"),
    ("state", "what it is doing, in one word"),
    (
        "eta",
        "how much longer the start usually takes, or how long it takes; before the first one was measured: a few minutes",
    ),
    ("countdown", "how long until it is started again after a crash"),
    ("duration", "the same as countdown"),
    ("reason", "why it failed, or what it is doing"),
    ("max", "how many players it takes"),
];

/// What the server list shows of a service that does not answer itself.
pub fn in_list(face: &Face, now: Moment) -> Component {
    let texts = &face.spec.texts;
    if face.learned.pin == Pin::Asleep && matches!(face.state, State::Asleep | State::Failed { .. }) {
        return Component::literal(pinned_asleep(face));
    }
    // Its owner's own words stand as they are.
    if face.state == State::Asleep && !face.wakes && texts.asleep == Texts::ASLEEP {
        return Component::literal(wake_off(face));
    }
    let template = match &face.state {
        State::Asleep => &texts.asleep,
        State::Starting { .. } => &texts.starting,
        State::Restarting { .. } => &texts.restarting,
        State::Stopping => &texts.stopping,
        State::Failed { .. } => &texts.failed,
        // It should answer and does not.
        State::Running(_) | State::Unknown { .. } => &texts.unreachable,
    };
    filled(template, face, now)
}

/// What a player reads who waited long enough, or may not wait.
pub fn on_leaving(face: &Face, now: Moment) -> Component {
    let texts = &face.spec.texts;
    let template = match &face.state {
        State::Asleep => &texts.asleep,
        State::Starting { .. } => &texts.wait,
        State::Restarting { .. } => &texts.restarting,
        State::Stopping => &texts.stopping,
        State::Failed { .. } => &texts.failed,
        State::Running(_) | State::Unknown { .. } => &texts.unreachable,
    };
    filled(template, face, now)
}

/// What a server list or a player reads when the service should be up and cannot be reached.
pub fn unreachable(face: &Face, now: Moment) -> Component {
    filled(&face.spec.texts.unreachable, face, now)
}

/// What a player sees who waits in the world.
pub fn scene(face: &Face, now: Moment) -> Scene {
    let texts = &face.spec.texts;
    let bar = BossBar { text: in_list(face, now), filled: progress(face, now), colour: colour(&face.state) };
    Scene {
        title: filled(&texts.title, face, now),
        subtitle: filled(&texts.subtitle, face, now),
        boss_bar: Some(bar),
    }
}

/// What a player reads in the chat of that world.
pub fn welcome(face: &Face, now: Moment) -> Component {
    filled(&face.spec.texts.welcome, face, now)
}

/// What a player reads who has waited and has to join again by hand.
pub fn rejoin(face: &Face, now: Moment) -> Component {
    filled(&face.spec.texts.rejoin, face, now)
}

/// What a player reads who is not let in.
pub fn refused(refusal: &Refusal, now: Moment) -> Component {
    let sentence = match refusal {
        Refusal::UnknownHost => UNKNOWN_HOST.to_owned(),
        Refusal::Denied(_) => "You may not join from your address.".to_owned(),
        Refusal::MayNotWake(face) => {
            format!("{} is not running, and you may not start it. Ask its owner.", face.service.name)
        }
        Refusal::Unproven(face, why) => {
            format!(
                "{} is not running, and only players with a verified account start it. {}",
                face.service.name,
                unproven(*why)
            )
        }
        Refusal::WakeOff(face) => wake_off(face),
        Refusal::PinnedAsleep(face) => pinned_asleep(face),
        Refusal::WakeRate { face, retry_in } => format!(
            "{} is not running, and you have started enough servers for now. Try again in {}.",
            face.service.name,
            in_seconds(*retry_in)
        ),
        Refusal::TooManyAwake(face) => format!(
            "{} is not running, and as many servers are up as this machine takes. Try again later.",
            face.service.name
        ),
        Refusal::Failed { face, retry_in } => {
            let again = format!(" It can be tried again in {}.", in_seconds(*retry_in));
            let mut component = filled(&face.spec.texts.failed, face, now);
            component.extra.push(Component::literal(again));
            return component;
        }
        Refusal::Unreachable(face) => return unreachable(face, now),
    };
    Component::literal(sentence)
}

fn wake_off(face: &Face) -> String {
    format!("{} is not running, and only its owner starts it.", face.service.name)
}

fn pinned_asleep(face: &Face) -> String {
    format!("{} is not running until its owner lets it start again.", face.service.name)
}

const fn unproven(why: Unproven) -> &'static str {
    match why {
        Unproven::Account | Unproven::Encryption => {
            "Yours could not be verified. Restart the game and its launcher, and join again."
        }
        Unproven::NoAnswer | Unproven::Busy => "That cannot be checked right now. Try again in a moment.",
        Unproven::Proxy => {
            "The proxy that you joined through is not trusted to say who you are. Tell its owner."
        }
        Unproven::Client => "Yours cannot be, in this version of the game.",
    }
}

/// What a player reads who has proven its account on a connection that does not lead into the game.
pub fn proven(face: &Face, now: Moment) -> Component {
    let mut component = Component::literal("Your account is verified. ");
    component.extra.push(match &face.state {
        State::Running(_) => rejoin(face, now),
        State::Asleep
        | State::Starting { .. }
        | State::Restarting { .. }
        | State::Stopping
        | State::Failed { .. }
        | State::Unknown { .. } => on_leaving(face, now),
    });
    component
}

/// What a player reads whose login is not what the game sends.
pub fn unreadable(why: Malformed) -> Component {
    Component::literal(format!("Your login cannot be read: {why}. Has a mod or a proxy changed it?"))
}

pub const UNKNOWN_HOST: &str = "There is no server by this name here. Check the address.";
pub const GATE_STOPPING: &str = "The gate is being restarted. Join again in a moment.";
pub const TOO_OFTEN: &str = "You are joining too often. Wait a few seconds.";

/// How much of the start is done, in percent of the time it usually takes. Past that it goes on, ever slower,
/// and is never all.
fn progress(face: &Face, now: Moment) -> u8 {
    const UNKNOWN: Duration = Duration::from_secs(60);
    const SURE: u128 = 90;
    let usual = face.learned.boot_time().unwrap_or(UNKNOWN).as_millis().max(1);
    let passed = face.started.map_or(0, |started| now.since(started).as_millis());
    let over = passed.saturating_sub(usual);
    let percent = SURE * (passed - over) / usual + (99 - SURE) * over / (over + usual);
    u8::try_from(percent).unwrap_or(99)
}

const fn colour(state: &State) -> BarColour {
    match state {
        State::Asleep | State::Unknown { .. } => BarColour::White,
        State::Starting { .. } | State::Running(_) => BarColour::Green,
        State::Restarting { .. } | State::Stopping => BarColour::Yellow,
        State::Failed { .. } => BarColour::Red,
    }
}

fn filled(template: &str, face: &Face, now: Moment) -> Component {
    // Templates are checked when they are configured; one that is not readable is shown as it is.
    let component = Component::parse(template).unwrap_or_else(|_| Component::literal(template));
    component.fill(&|token| value(token, face, now))
}

fn value(token: &str, face: &Face, now: Moment) -> Option<String> {
    let status = || face.learned.status.as_ref().map(StatusSummary::of).unwrap_or_default();
    let countdown = || match &face.state {
        State::Restarting { until, .. } => in_seconds(now.until(*until)),
        State::Asleep
        | State::Starting { .. }
        | State::Running(_)
        | State::Stopping
        | State::Failed { .. }
        | State::Unknown { .. } => "a moment".to_owned(),
    };
    Some(match token {
        "server" => face.service.name.to_string(),
        "state" => face.state.word().to_owned(),
        "eta" => match face.eta(now) {
            Some(eta) => in_seconds(eta),
            None if face.learned.boot_time().is_some() => "a moment".to_owned(),
            None => "a few minutes".to_owned(),
        },
        "countdown" | "duration" => countdown(),
        "reason" if face.state == State::Stopping => "saving the world of its last run".to_owned(),
        // How a start gets on is what the gate, or the server itself, says to those who wait for it.
        "reason" if matches!(face.state, State::Starting { .. }) => {
            face.state.reason().unwrap_or_default().to_owned()
        }
        "reason" => for_players(face.state.reason().unwrap_or_default()).to_owned(),
        "motd" => status().description,
        "max" => status().max.unwrap_or(0).to_string(),
        _ => return None,
    })
}

/// A reason without what is its owner's business: it ends before the first clause with a path, an address, the number of
/// a process or something quoted. The whole is in the log, in `swarmgate services` and in `explain`.
fn for_players(reason: &str) -> &str {
    const NOTHING: &str = "its owner can see why";
    let mut end = 0;
    for clause in reason.split_inclusive(' ').collect::<Vec<_>>().chunk_by(|word, _| !ends_clause(word)) {
        if is_private(clause) {
            let told = reason.get(..end).unwrap_or_default().trim_end_matches([':', ';', ',', ' ']);
            return if told.is_empty() { NOTHING } else { told };
        }
        end += clause.iter().map(|word| word.len()).sum::<usize>();
    }
    reason
}

fn ends_clause(word: &str) -> bool {
    word.trim_end().ends_with([':', ';', ','])
}

fn is_private(clause: &[&str]) -> bool {
    let is_number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    let says = |word: &&str| {
        let word = word.trim().trim_matches(['(', ')', ',', ';', '.']);
        let port = word.rsplit_once(':').is_some_and(|(_, port)| is_number(port));
        port || word.contains('/') || word.parse::<IpAddr>().is_ok() || word.starts_with(['"', '`', '\''])
    };
    let process = clause
        .windows(2)
        .any(|pair| pair.first() == Some(&"process ") && pair.last().is_some_and(|next| is_number(next)));
    process || clause.iter().any(says)
}

/// Rounded up to whole seconds, so that a countdown never says that nothing is left while something is.
fn in_seconds(span: Duration) -> String {
    let up = if span.subsec_nanos() > 0 { span + Duration::from_secs(1) } else { span };
    span::human(Duration::from_secs(up.as_secs().max(1)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::learned::Learned;
    use crate::service::ServiceId;
    use crate::service::tests::spec;

    fn face(state: State) -> Face {
        let mut spec = spec(&[]);
        spec.texts.restarting = "<red>{server}</red> again in {countdown}: {reason}".to_owned();
        spec.texts.wait = "{server} is {state}, {eta}, {max} places, {nonsense}".to_owned();
        let status = serde_json::json!({"players": {"max": 40}, "description": {"text": "My server"}});
        Face {
            service: ServiceId::new("process", "mc"),
            spec: Arc::new(spec),
            state,
            started: Some(at(0)),
            learned: Arc::new(Learned {
                status: Some(status),
                boots_ms: [29_100].into(),
                ..Learned::default()
            }),
            wakes: true,
        }
    }

    fn at(ms: u64) -> Moment {
        Moment::after_start(Duration::from_millis(ms))
    }

    #[test]
    fn players_read_no_paths_addresses_or_processes() {
        for (reason, told) in [
            ("exit code 137: killed, or out of memory", "exit code 137: killed, or out of memory"),
            ("Preparing spawn area: 45%", "Preparing spawn area: 45%"),
            ("no suitable node (1 node not available)", "no suitable node (1 node not available)"),
            ("task: non-zero exit (1)", "task: non-zero exit (1)"),
            ("it was not ready after 6s: 127.0.0.1:36613 refuses connections", "it was not ready after 6s"),
            ("it was not ready after 6s: mc:25565 refuses connections", "it was not ready after 6s"),
            ("No such image: registry.example/mc:latest", "No such image"),
            ("the directory /srv/mc does not exist: create it", "its owner can see why"),
            ("the program \"jaava\" is not in PATH", "its owner can see why"),
            (
                "it could not start: its directory is in use by process 10275, kept by process 1",
                "it could not start",
            ),
            ("no route to [2001:db8::7]:25565", "its owner can see why"),
            ("", ""),
        ] {
            assert_eq!(for_players(reason), told, "{reason}");
        }
    }

    #[test]
    fn what_a_server_says_of_its_start_is_told_as_it_is() {
        let news = "Preparing level \"world\"";
        let mut face = face(State::Starting { reason: news.to_owned() });
        Arc::make_mut(&mut face.spec).texts.starting = "{reason}".to_owned();
        assert_eq!(in_list(&face, at(0)).to_plain(), news);
    }

    #[test]
    fn nobody_is_asked_to_wake_what_no_join_wakes() {
        let mut face = face(State::Asleep);
        Arc::make_mut(&mut face.spec).texts.asleep = Texts::ASLEEP.to_owned();
        assert_eq!(in_list(&face, at(0)).to_plain(), "mc is asleep. Join to wake it up!");
        face.wakes = false;
        assert_eq!(in_list(&face, at(0)).to_plain(), "mc is not running, and only its owner starts it.");
        Arc::make_mut(&mut face.spec).texts.asleep = "Closed on Mondays".to_owned();
        assert_eq!(in_list(&face, at(0)).to_plain(), "Closed on Mondays");
    }

    #[test]
    fn nobody_is_asked_to_join_what_its_owner_keeps_asleep() {
        for (state, pinned) in [
            (State::Asleep, true),
            (State::Failed { reason: "because".to_owned() }, true),
            (State::Stopping, false),
        ] {
            let mut face = face(state);
            Arc::make_mut(&mut face.learned).pin = Pin::Asleep;
            let said = in_list(&face, at(0)).to_plain();
            assert_eq!(said.contains("until its owner lets it start again"), pinned, "{said}");
        }
    }

    #[test]
    fn each_state_has_its_own_sentence() {
        let reason = || "because".to_owned();
        for (state, list, leaving) in [
            (State::Asleep, "asleep", "asleep"),
            (State::Starting { reason: reason() }, "starting", "mc is starting, 30s, 40 places, {nonsense}"),
            (State::Stopping, "stopping", "stopping"),
            (State::Failed { reason: reason() }, "failed", "failed"),
            (State::Unknown { reason: reason() }, "unreachable", "unreachable"),
        ] {
            let face = face(state);
            assert_eq!(in_list(&face, at(0)).to_plain(), list);
            assert_eq!(on_leaving(&face, at(0)).to_plain(), leaving);
        }
    }

    #[test]
    fn the_countdown_moves_and_never_ends_below_a_second() {
        let face = face(State::Restarting { until: at(20_000), reason: "exit code 1 <bold>".to_owned() });
        for (now, left) in [(0, "20s"), (500, "20s"), (1_000, "19s"), (19_999, "1s"), (60_000, "1s")] {
            let text = in_list(&face, at(now)).to_plain();
            assert_eq!(text, format!("mc again in {left}: exit code 1 <bold>"));
        }
    }

    #[test]
    fn what_the_server_itself_showed_is_there_to_be_shown() {
        assert_eq!(value("motd", &face(State::Asleep), at(0)).as_deref(), Some("My server"));
    }

    #[test]
    fn progress_follows_the_usual_time_and_never_ends() {
        let mut face = face(State::Starting { reason: "loading".to_owned() });
        face.learned = Arc::new(Learned { boots_ms: [10_000].into(), ..Learned::default() });
        for (ms, percent) in [(0, 0), (5_000, 45), (10_000, 90), (20_000, 94), (10_000_000, 98)] {
            assert_eq!(progress(&face, at(ms)), percent, "{ms}");
        }
        face.learned = Arc::default();
        assert_eq!(progress(&face, at(60_000)), 90, "a minute where nothing was learned");
        face.started = None;
        assert_eq!(progress(&face, at(60_000)), 0);
    }

    #[test]
    fn who_waits_sees_what_is_going_on() {
        let face = face(State::Restarting { until: at(12_000), reason: "exit code 1".to_owned() });
        let scene = scene(&face, at(0));
        let shown = |component: &Component| component.to_plain();
        assert_eq!((shown(&scene.title), shown(&scene.subtitle)), ("title".into(), "subtitle".into()));
        let bar = scene.boss_bar.unwrap();
        assert_eq!(
            (shown(&bar.text).as_str(), bar.colour),
            ("mc again in 12s: exit code 1", BarColour::Yellow)
        );
        assert_eq!(shown(&welcome(&face, at(0))), "welcome");
        assert_eq!(shown(&rejoin(&face, at(0))), "rejoin");
        let saving = super::value("reason", &super::tests::face(State::Stopping), at(0));
        assert_eq!(saving.as_deref(), Some("saving the world of its last run"));
    }

    #[test]
    fn every_token_has_a_value() {
        for (token, _) in TOKENS {
            assert!(value(token, &face(State::Asleep), at(0)).is_some(), "{token}");
        }
    }

    #[test]
    fn every_refusal_is_a_sentence() {
        let face = || face(State::Asleep);
        let retry_in = Duration::from_secs(90);
        for (refusal, part) in [
            (Refusal::UnknownHost, "no server by this name"),
            (Refusal::Denied(face()), "may not join"),
            (Refusal::MayNotWake(face()), "Ask its owner"),
            (Refusal::WakeOff(face()), "only its owner"),
            (Refusal::PinnedAsleep(face()), "until its owner"),
            (Refusal::WakeRate { face: face(), retry_in }, "in 1m 30s"),
            (Refusal::TooManyAwake(face()), "as many servers"),
            (Refusal::Failed { face: face(), retry_in }, "again in 1m 30s"),
            (Refusal::Unreachable(face()), "unreachable"),
        ] {
            let text = refused(&refusal, at(0)).to_plain();
            assert!(text.contains(part), "{text}");
        }
    }
}
