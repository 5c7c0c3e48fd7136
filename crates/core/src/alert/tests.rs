use proptest::prelude::*;

use super::*;

const SWARM: SourceId = "swarm";

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn subject() -> Subject {
    Subject::Service(ServiceId::new(SWARM, "mc"))
}

fn sight(condition: Condition, troubles: Vec<Trouble>) -> Vec<Sight> {
    vec![Sight { subject: subject(), condition, troubles }]
}

fn crash() -> Vec<Sight> {
    sight(Condition::Moving, vec![Trouble::once(Kind::Crashed, "exit code 1")])
}

fn well() -> Vec<Sight> {
    sight(Condition::Well, vec![])
}

fn titles(alerts: &[Alert]) -> Vec<&str> {
    alerts.iter().map(|alert| alert.title.as_str()).collect()
}

/// Sees this each second from `from` on, as a source does, and gives back what was told, with when.
fn watch(alerts: &mut Alerts, from: u64, looks: impl IntoIterator<Item = Vec<Sight>>) -> Vec<(u64, String)> {
    let mut told = Vec::new();
    for (second, sights) in (from..).zip(looks) {
        let new = alerts.saw(SWARM, sights, at(second));
        told.extend(new.into_iter().map(|alert| (second, alert.title)));
    }
    told
}

#[test]
fn a_crash_loop_is_told_at_once_then_counted_then_over() {
    let mut alerts = Alerts::default();
    // A crash every 50 s for twenty minutes, running between.
    let looks = (0..1200).map(|second| if second % 50 == 0 { crash() } else { well() });
    let told = watch(&mut alerts, 0, looks);
    assert_eq!(told, [(0, "mc crashed".to_owned()), (600, "mc: 12 crashes in 10m".to_owned())]);
    let told = watch(&mut alerts, 1200, (0..400).map(|_| well()));
    // The last crash was at 1150 s, the peace began a second later.
    assert_eq!(told, [(1451, "mc has recovered".to_owned())]);
}

#[test]
fn what_an_alert_says() {
    let mut alerts = Alerts::default();
    let told = alerts.saw(SWARM, crash(), at(0));
    assert_eq!((told[0].stage, told[0].text.as_str()), (Stage::First(Kind::Crashed), "exit code 1"));
    alerts.saw(SWARM, crash(), at(30));
    let told = alerts.tick(at(600));
    assert_eq!(told[0].title, "mc: 1 crash in 10m");
    assert_eq!(told[0].text, "The last: exit code 1. 2 crashes since it began 10m ago.");
    alerts.saw(SWARM, well(), at(600));
    let told = alerts.tick(at(900));
    assert_eq!(told[0].text, "All has been well for 5m. Since it began 15m ago: 2 crashes.");
}

#[test]
fn each_kind_is_told_on_its_own() {
    let mut alerts = Alerts::default();
    let both = || {
        sight(
            Condition::Moving,
            vec![
                Trouble::once(Kind::Crashed, "exit code 1"),
                Trouble::lasting(Kind::GaveUp, "Swarm gave up on it"),
            ],
        )
    };
    alerts.saw(SWARM, well(), at(0));
    let told = alerts.saw(SWARM, both(), at(1));
    assert_eq!(titles(&told), ["mc crashed", "mc is down and is not started again"]);
    assert_eq!(alerts.saw(SWARM, both(), at(2)), [], "it lasts, and the crash is counted later");
}

#[test]
fn what_does_not_last_is_not_told() {
    let pending = || {
        let trouble = Trouble::lasting(Kind::CannotBePlaced, "no suitable node");
        sight(Condition::Moving, vec![trouble])
    };
    let mut alerts = Alerts::default();
    let told = watch(&mut alerts, 0, (0..20).map(|_| pending()).chain((0..600).map(|_| well())));
    assert_eq!(told, []);
    assert_eq!(alerts.cases, BTreeMap::new(), "and nothing is remembered of it");
    alerts.saw(SWARM, pending(), at(1000));
    assert_eq!(alerts.next_deadline(), Some(at(1030)));
    assert_eq!(titles(&alerts.tick(at(1030))), ["mc fits on no node"]);
}

#[test]
fn sleep_and_removal_end_a_trouble_too() {
    for end in [sight(Condition::AtRest, vec![]), vec![]] {
        let mut alerts = Alerts::default();
        alerts.saw(SWARM, crash(), at(0));
        alerts.saw(SWARM, end, at(10));
        assert_eq!(alerts.tick(at(309)), []);
        assert_eq!(titles(&alerts.tick(at(310))), ["mc is at rest"]);
    }
}

#[test]
fn minutes_that_are_lost_stay_lost() {
    let mut alerts = Alerts::default();
    alerts.saw(SWARM, well(), at(0));
    let killed = sight(Condition::AtRest, vec![Trouble::lasting(Kind::KilledSaving, "killed")]);
    assert_eq!(titles(&alerts.saw(SWARM, killed, at(0))), ["mc was killed while it was stopping"]);
    assert_eq!(watch(&mut alerts, 1, (0..1000).map(|_| well())), []);
}

#[test]
fn what_was_over_before_the_first_look_is_told_when_it_comes_again() {
    for (kind, title) in [
        (Kind::KilledSaving, "mc was killed while it was stopping"),
        (Kind::GaveUp, "mc is down and is not started again"),
    ] {
        let ended = || sight(Condition::AtRest, vec![Trouble::lasting(kind, "long ago")]);
        let mut alerts = Alerts::default();
        alerts.lost(SWARM, "no answer yet", at(0));
        assert_eq!(watch(&mut alerts, 1, (0..100).map(|_| ended())), []);
        let told = watch(&mut alerts, 101, [well()].into_iter().chain((0..100).map(|_| ended())));
        assert_eq!(told.into_iter().map(|(_, title)| title).collect::<Vec<_>>(), [title]);
    }
}

#[test]
fn a_source_that_is_gone_for_a_minute_is_told_and_nothing_in_it_recovers_meanwhile() {
    let mut alerts = Alerts::default();
    alerts.saw(SWARM, crash(), at(0));
    alerts.saw(SWARM, well(), at(1));
    let mut told = Vec::new();
    for second in 2..1000 {
        let new = alerts.lost(SWARM, "no answer", at(second));
        told.extend(new.into_iter().map(|alert| (second, alert.title)));
    }
    assert_eq!(told, [(62, "the source swarm does not answer".to_owned())]);
    let told = watch(&mut alerts, 1000, (0..400).map(|_| well()));
    assert_eq!(
        told,
        [(1060, "the source swarm answers again".to_owned()), (1300, "mc has recovered".to_owned())]
    );
}

#[test]
fn a_relapse_must_keep_the_peace_for_longer() {
    let mut alerts = Alerts::default();
    // A crash each seven minutes.
    let looks = (0..3600).map(|second| if second % 420 == 0 { crash() } else { well() });
    let told: Vec<String> = watch(&mut alerts, 0, looks).into_iter().map(|(_, title)| title).collect();
    assert_eq!(told.iter().filter(|title| *title == "mc crashed").count(), 2, "{told:?}");
    assert_eq!(told.iter().filter(|title| *title == "mc has recovered").count(), 1, "{told:?}");
    // A day of peace, and it starts from the beginning.
    watch(&mut alerts, 3600, (0..100_000).map(|_| well()));
    assert_eq!(alerts.cases, BTreeMap::new());
}

/// What may be seen of one service.
fn any_sight() -> impl Strategy<Value = Vec<Sight>> {
    let condition = prop_oneof![
        4 => Just(Condition::Well),
        1 => Just(Condition::AtRest),
        2 => Just(Condition::Moving)
    ];
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let trouble = (kind, prop_oneof![(1..4_u32).prop_map(When::Since), Just(When::Lasting)])
        .prop_map(|(kind, when)| Trouble { kind, what: "it".into(), when, run: None });
    let troubles = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(trouble, 1..3)];
    (condition, troubles).prop_map(|(condition, troubles)| sight(condition, troubles))
}

proptest! {
    /// Whatever a service does, nobody is flooded: a handful of alerts per kind and hour, and of those that it is over.
    #[test]
    fn no_history_floods(history in prop::collection::vec((any_sight(), 1..200_u64), 1..400)) {
        const MOST_AN_HOUR: usize = 10;
        let mut alerts = Alerts::default();
        let (mut now, mut told) = (0, Vec::<(u64, Option<Kind>)>::new());
        for (sights, step) in history {
            now += step;
            told.extend(alerts.saw(SWARM, sights, at(now)).iter().map(|alert| (now, kind_of(alert))));
        }
        for (start, kind) in told.clone() {
            let within = told.iter().filter(|(when, of)| *of == kind && (start..start + 3600).contains(when)).count();
            prop_assert!(within <= MOST_AN_HOUR, "{within} of {kind:?} within the hour from {start}");
        }
    }

    /// Whoever was told of a trouble that can be mended is told of its end, once.
    #[test]
    fn no_recovery_is_lost(history in prop::collection::vec((any_sight(), 1..200_u64), 1..100)) {
        let mut alerts = Alerts::default();
        let (mut now, mut open) = (0, false);
        for (sights, step) in history {
            now += step;
            for alert in alerts.saw(SWARM, sights, at(now)) {
                match alert.stage {
                    Stage::First(kind) => open |= kind.can_be_over(),
                    Stage::Again { .. } => {}
                    Stage::Over => {
                        prop_assert!(open, "over, and nothing was told: {alert:?}");
                        open = false;
                    }
                }
            }
        }
        // Peace, for as long as any relapse asks for, looked at only when something is due.
        let mut over = 0;
        over += alerts.saw(SWARM, well(), at(now)).iter().filter(|alert| alert.stage == Stage::Over).count();
        while let Some(due) = alerts.next_deadline() {
            over += alerts.tick(due).iter().filter(|alert| alert.stage == Stage::Over).count();
        }
        prop_assert_eq!(over, usize::from(open));
    }
}

fn kind_of(alert: &Alert) -> Option<Kind> {
    match alert.stage {
        Stage::First(kind) | Stage::Again { kind, .. } => Some(kind),
        Stage::Over => None,
    }
}

#[test]
fn a_conflict_of_a_publication_is_told_and_its_end_in_words_of_its_own() {
    let publication = |condition, troubles| {
        vec![Sight { subject: Subject::Publication("app.example.com".into()), condition, troubles }]
    };
    let kind = Kind::PublicationConflict;
    let conflict = || {
        publication(
            Condition::Moving,
            vec![Trouble { kind, what: "why".into(), when: When::Lasting, run: None }],
        )
    };
    for (condition, end) in
        [(Condition::Well, "has recovered"), (Condition::AtRest, "is not asked for any more")]
    {
        let mut alerts = Alerts::default();
        let told = watch(&mut alerts, 0, (0..5).map(|_| conflict()));
        assert_eq!(told, [(0, "app.example.com is in conflict with what somebody else made".to_owned())]);
        let told = watch(&mut alerts, 5, (0..70).map(|_| publication(condition, vec![])));
        assert_eq!(told, [(65, format!("app.example.com {end}"))]);
    }
}
