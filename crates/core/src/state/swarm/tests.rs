//! Each row of the table, by its number in `docs/states.md`, and properties of the whole.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::moment::Moment;

const CHANGED: &str = "2026-01-01T12:00:00Z";

fn changed() -> Timestamp {
    CHANGED.parse().unwrap()
}

/// A moment long after the service was changed.
fn later() -> Timestamp {
    changed() + SignedDuration::from_mins(10)
}

fn service(mode: Value) -> Value {
    json!({"ID": "s", "UpdatedAt": CHANGED, "Spec": {"Mode": mode}})
}

fn replicas(count: u64) -> Value {
    service(json!({"Replicated": {"Replicas": count}}))
}

/// A task made `age` seconds after the service was changed, as `state/desired`.
fn task(id: &str, age: i64, states: &str) -> Value {
    let (state, desired) = states.split_once('/').unwrap();
    let created = (changed() + SignedDuration::from_secs(age)).to_string();
    json!({
        "ID": id, "ServiceID": "s", "NodeID": "n1", "Slot": 1, "CreatedAt": created, "UpdatedAt": created,
        "Spec": {"RestartPolicy": {"Delay": 30_000_000_000_u64}},
        "Status": {"State": state}, "DesiredState": desired,
        "NetworksAttachments": [{"Network": {"ID": "net", "Spec": {"Name": "mc"}}, "Addresses": ["10.0.1.5/24"]}],
    })
}

fn with(mut task: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().unwrap() {
        task[key] = value.clone();
    }
    task
}

fn failed(id: &str, age: i64, states: &str, err: &str, code: i64) -> Value {
    let (state, _) = states.split_once('/').unwrap();
    let status = json!({"State": state, "Err": err, "ContainerStatus": {"ExitCode": code}});
    with(task(id, age, states), json!({"Status": status}))
}

fn down(id: &str) -> Value {
    json!({"ID": id, "Status": {"State": "down"}})
}

fn see(service: &Value, tasks: &[Value], nodes: &[Value], now: Timestamp) -> Believed {
    let tasks = tasks.iter().map(|task| serde_json::from_value(task.clone()).unwrap()).collect();
    let nodes: Vec<Node> = nodes.iter().map(|node| serde_json::from_value(node.clone()).unwrap()).collect();
    of(&Answer::Got(serde_json::from_value(service.clone()).unwrap()), &Answer::Got(tasks), &nodes, now)
}

fn believe(service: &Value, tasks: &[Value]) -> Believed {
    see(service, tasks, &[], later())
}

fn refused<T>(status: u16) -> Answer<T> {
    Answer::Refused { status, message: "no".into() }
}

#[test]
fn row_1_a_service_that_is_not_found_is_removed() {
    let got = Answer::Got(Service::default());
    let nothing = Answer::Got(Vec::new());
    for (service, tasks) in [
        (refused(404), refused(404)),
        (refused(404), nothing),
        (got, refused(404)),
        (refused(404), refused(500)),
    ] {
        let believed = of(&service, &tasks, &[], later());
        assert_eq!(believed.belief, Belief::Removed);
        assert_eq!(believed.wake(), None);
        let clocks = Clocks { moment: Moment::START, wall: later() };
        assert_eq!(believed.state(Vec::new(), clocks), None);
    }
}

#[test]
fn row_2_an_error_is_not_a_state() {
    for status in [0, 400, 403, 500, 503] {
        for (service, tasks) in [
            (refused(status), Answer::Got(Vec::new())),
            (Answer::Got(Service::default()), refused(status)),
            (refused(status), refused(404)),
        ] {
            let believed = of(&service, &tasks, &[], later());
            assert_eq!((&believed.belief, believed.wake()), (&Belief::Unknown, None), "{status}");
        }
    }
}

#[test]
fn row_3_a_job_is_not_a_server() {
    for mode in ["ReplicatedJob", "GlobalJob"] {
        let believed = believe(&service(json!({mode: {}})), &[task("a", 0, "running/complete")]);
        assert_eq!((&believed.belief, believed.wake()), (&Belief::Job, None));
        assert_eq!(believed.problems.len(), 1);
    }
}

#[test]
fn row_4_a_global_service_runs_and_is_never_scaled() {
    let global = service(json!({"Global": {}}));
    let running = believe(&global, &[with(task("a", 0, "running/running"), json!({"Slot": null}))]);
    assert_eq!((&running.belief, running.replicas), (&Belief::Running, None));
    assert_eq!(running.problems.len(), 1);
    let gave_up = believe(&global, &[task("a", 0, "failed/shutdown")]);
    assert_eq!((&gave_up.belief, gave_up.wake()), (&Belief::Failed, None));
}

#[test]
fn row_5_scaled_to_zero_and_still_running_is_stopping() {
    for states in ["running/remove", "running/shutdown", "starting/remove", "ready/remove", "running/running"]
    {
        let believed = believe(&replicas(0), &[task("a", -60, states)]);
        assert_eq!((&believed.belief, believed.wake()), (&Belief::Stopping, None), "{states}");
    }
    let stopping = believe(&replicas(0), &[task("a", -60, "running/remove")]).stopping.unwrap();
    assert_eq!((stopping.tasks, stopping.on_down_nodes), (1, 0));
    assert_eq!(stopping.since, Some(changed() - SignedDuration::from_secs(60)));
}

#[test]
fn row_5_a_node_that_is_only_out_of_touch_is_not_down() {
    for state in ["unknown", "disconnected", "ready"] {
        let node = json!({"ID": "n1", "Status": {"State": state}});
        let believed = see(&replicas(0), &[task("a", -60, "running/remove")], &[node], later());
        assert_eq!(believed.belief, Belief::Stopping, "{state}");
    }
}

#[test]
fn row_6_a_copy_on_a_node_that_is_down_or_gone_may_still_run() {
    for node in [down("n1"), json!({"ID": "another", "Status": {"State": "ready"}})] {
        let believed = see(&replicas(0), &[task("a", -60, "running/remove")], &[node], later());
        assert_eq!(believed.belief, Belief::Asleep);
        assert!(believed.reason.contains("a copy may still run"));
        assert!(believed.stopping.unwrap().only_on_down_nodes());
        assert_eq!(believed.wake(), Some(Change::Up { force: false }));
    }
}

#[test]
fn row_7_scaled_to_zero_with_nothing_alive_is_asleep() {
    let cases: [(&[Value], bool); 4] = [
        (&[], false),
        (&[failed("a", -60, "failed/shutdown", "task: non-zero exit (1)", 1)], true),
        (&[task("a", -60, "shutdown/remove")], true),
        // Never placed on a node, so it never ran.
        (&[with(task("a", -60, "pending/remove"), json!({"NodeID": ""}))], false),
    ];
    for (tasks, force) in cases {
        let believed = believe(&replicas(0), tasks);
        assert_eq!((&believed.belief, believed.stopping), (&Belief::Asleep, None));
        assert_eq!(believed.wake(), Some(Change::Up { force }));
    }
}

#[test]
fn row_8_the_newest_running_task_is_the_one_to_dial() {
    let tasks = [
        task("new", 60, "running/running"),
        task("old", 0, "running/running"),
        task("older", -60, "running/shutdown"),
    ];
    let believed = believe(&replicas(1), &tasks);
    assert_eq!((&believed.belief, believed.wake()), (&Belief::Running, None));
    let instance = believed.instance.unwrap();
    assert_eq!(&*instance.task, "new");
    assert_eq!(instance.attachments[0].addresses, ["10.0.1.5"]);
    assert_eq!(believed.stopping.unwrap().tasks, 1);
}

#[test]
fn rows_9_to_12_a_task_on_its_way_up() {
    let cases = [
        ("new", Belief::Waking),
        ("allocated", Belief::Waking),
        ("pending", Belief::Waking),
        ("assigned", Belief::Starting),
        ("accepted", Belief::Starting),
        ("preparing", Belief::Starting),
        ("ready", Belief::Starting),
        ("starting", Belief::Starting),
    ];
    for (state, belief) in cases {
        let believed = believe(&replicas(1), &[task("a", 0, &format!("{state}/running"))]);
        assert_eq!((believed.belief.word(), believed.wake()), ("starting", None), "{state}");
        assert_eq!(believed.belief, belief, "{state}");
    }
}

#[test]
fn row_10_no_node_fits_in_swarms_own_words() {
    let err = "no suitable node (insufficient resources on 1 node)";
    let believed = believe(&replicas(1), &[failed("a", 0, "pending/running", err, 0)]);
    assert_eq!((believed.belief, believed.reason.as_str()), (Belief::Pending, err));
}

#[test]
fn row_12_a_health_check_is_waited_for() {
    let cases =
        [(json!({"Test": ["CMD", "true"]}), true), (json!({"Test": ["NONE"]}), false), (Value::Null, false)];
    for (check, waits) in cases {
        let mut service = replicas(1);
        service["Spec"]["TaskTemplate"] = json!({"ContainerSpec": {"Healthcheck": check}});
        let believed = believe(&service, &[task("a", 0, "starting/running")]);
        assert_eq!(believed.reason.contains("health check"), waits, "{check}");
    }
}

#[test]
fn row_13_held_back_behind_an_old_one_is_replacing_not_a_failure() {
    for held in ["assigned/ready", "ready/ready", "pending/ready"] {
        let tasks = [task("old", 0, "running/shutdown"), task("new", 60, held)];
        let believed = believe(&replicas(1), &tasks);
        assert_eq!((&believed.belief, believed.wake()), (&Belief::Replacing, None), "{held}");
    }
    let another_slot = with(task("old", 0, "running/shutdown"), json!({"Slot": 2}));
    let believed = believe(&replicas(2), &[another_slot, task("new", 60, "ready/ready")]);
    assert!(matches!(believed.belief, Belief::RestartDelay { .. }), "another slot's end says nothing");
}

#[test]
fn row_14_held_back_for_want_of_a_node_is_pending() {
    let held = failed("a", 60, "pending/ready", "no suitable node", 0);
    assert_eq!(believe(&replicas(1), &[held]).belief, Belief::Pending);
}

#[test]
fn row_15_the_ended_tasks_own_delay_counts_from_the_next_ones_creation() {
    let seconds = |delay: Value| json!({"Spec": {"RestartPolicy": {"Delay": delay}}});
    let ended = || failed("old", 0, "failed/shutdown", "task: non-zero exit (1)", 1);
    let held = || with(task("new", 60, "ready/ready"), seconds(json!(9_000_000_000_u64)));
    let cases = [
        ("the ended task's", vec![with(ended(), seconds(json!(2_000_000_000_u64))), held()], 2),
        ("zero is zero", vec![with(ended(), seconds(json!(0))), held()], 0),
        ("no policy", vec![with(ended(), json!({"Spec": {}})), held()], 5),
        ("no delay", vec![with(ended(), seconds(Value::Null)), held()], 5),
        ("no history", vec![held()], 9),
        ("no history, no policy", vec![with(held(), json!({"Spec": null}))], 5),
        (
            "rejected while held",
            vec![task("old", 0, "rejected/shutdown"), task("new", 60, "rejected/ready")],
            30,
        ),
    ];
    for (what, tasks, delay) in cases {
        let until = changed() + SignedDuration::from_secs(60 + delay);
        let believed = see(&replicas(1), &tasks, &[], changed() + SignedDuration::from_secs(61));
        assert_eq!(believed.belief, Belief::RestartDelay { until }, "{what}");
        assert_eq!(believed.wake(), None, "{what}");
    }
}

#[test]
fn row_15_lost_and_drained_nodes() {
    let now = changed() + SignedDuration::from_secs(61);
    let tasks = [task("old", 0, "running/shutdown"), task("new", 60, "ready/ready")];
    let lost = see(&replicas(1), &tasks, &[down("n1"), json!({"ID": "n2"})], now);
    assert_eq!(lost.belief, Belief::RestartDelay { until: changed() + SignedDuration::from_secs(90) });
    assert_eq!(lost.reason, "its node is down");
    let tasks = [task("old", 0, "shutdown/shutdown"), task("new", 60, "ready/ready")];
    let drained = json!({"ID": "n1", "Spec": {"Availability": "drain"}, "Status": {"State": "ready"}});
    let believed = see(&replicas(1), &tasks, &[drained], now);
    assert_eq!(believed.belief, Belief::RestartDelay { until: changed() + SignedDuration::from_secs(60) });
}

#[test]
fn row_15_becomes_a_moment_on_the_gates_clock() {
    let tasks = [task("old", 0, "failed/shutdown"), task("new", 60, "ready/ready")];
    let believed = believe(&replicas(1), &tasks);
    let moment = Moment::after_start(Duration::from_secs(1000));
    for (wall, expected) in [(70, 1020), (100, 1000)] {
        let clocks = Clocks { moment, wall: changed() + SignedDuration::from_secs(wall) };
        let Some(State::Restarting { until, .. }) = believed.state(Vec::new(), clocks) else {
            panic!("{believed:?}")
        };
        assert_eq!(until, Moment::after_start(Duration::from_secs(expected)));
    }
}

#[test]
fn row_16_an_end_that_swarm_has_not_answered_yet() {
    for state in ["failed", "complete", "rejected"] {
        let believed = believe(&replicas(1), &[task("a", 0, &format!("{state}/running"))]);
        assert_eq!((&believed.belief, believed.wake()), (&Belief::Transition, None));
    }
}

#[test]
fn row_17_only_an_old_task_left() {
    let believed = believe(&replicas(1), &[task("a", 0, "running/shutdown")]);
    assert_eq!((&believed.belief, believed.wake()), (&Belief::Replacing, None));
}

#[test]
fn row_18_a_change_that_no_task_shows_yet() {
    let soon = changed() + SignedDuration::from_secs(2);
    let old = [task("a", -60, "failed/shutdown")];
    let cases: [(&[Value], Timestamp, Belief); 4] = [
        (&[], soon, Belief::Waking),
        (&old, soon, Belief::Waking),
        (&old, changed() + SignedDuration::from_secs(3), Belief::Failed),
        // The task may be a few milliseconds older than the change it follows.
        (&[task("a", 0, "failed/shutdown")], soon, Belief::Failed),
    ];
    for (tasks, now, belief) in cases {
        assert_eq!(see(&replicas(1), tasks, &[], now).belief, belief);
    }
}

#[test]
fn row_19_ended_by_itself_is_finished_and_starts_again_by_force() {
    let tasks = [task("a", 0, "failed/shutdown"), task("b", 60, "complete/shutdown")];
    let believed = believe(&replicas(1), &tasks);
    assert_eq!((&believed.belief, believed.wake()), (&Belief::Finished, Some(Change::Force)));
}

#[test]
fn row_20_given_up_says_why() {
    let cases = [
        ("failed", "task: non-zero exit (1)", 1, "Swarm gave up on it: task: non-zero exit (1)"),
        (
            "failed",
            "task: non-zero exit (137)",
            137,
            "Swarm gave up on it: task: non-zero exit (137): killed (SIGKILL): out of memory, or not stopped \
             within its stop grace",
        ),
        ("rejected", "No such image: x:1", 0, "Swarm gave up on it: No such image: x:1"),
        ("failed", "", 3, "Swarm gave up on it: exit code 3"),
        ("orphaned", "", 0, "Swarm gave up on it: its task is orphaned"),
    ];
    for (state, err, code, reason) in cases {
        let tasks =
            [task("a", 0, "complete/shutdown"), failed("b", 60, &format!("{state}/shutdown"), err, code)];
        let believed = believe(&replicas(1), &tasks);
        assert_eq!((&believed.belief, believed.reason.as_str()), (&Belief::Failed, reason));
        assert_eq!(believed.wake(), Some(Change::Force));
    }
}

#[test]
fn row_20_a_lost_copy_does_not_hide_that_swarm_gave_up() {
    let tasks = [task("lost", 0, "running/shutdown"), task("b", 60, "failed/shutdown")];
    let nodes = [down("n1"), json!({"ID": "n2", "Status": {"State": "ready"}})];
    let tasks = [tasks[0].clone(), with(tasks[1].clone(), json!({"NodeID": "n2"}))];
    let believed = see(&replicas(1), &tasks, &nodes, later());
    assert_eq!(believed.belief, Belief::Failed);
    assert!(believed.stopping.unwrap().only_on_down_nodes());
}

#[test]
fn row_21_no_task_at_all_is_stuck() {
    for tasks in [vec![], vec![task("a", 0, "shutdown/shutdown")]] {
        let believed = believe(&replicas(1), &tasks);
        assert_eq!((&believed.belief, believed.wake()), (&Belief::Stuck, Some(Change::Force)));
    }
}

#[test]
fn row_22_running_where_nobody_can_dial_it() {
    let host = json!([{"Network": {"ID": "h", "Spec": {"Name": "host"}}}]);
    let ingress = json!([{"Network": {"ID": "i", "Spec": {"Name": "ingress", "Ingress": true}}, "Addresses": ["10.0.0.3/24"]}]);
    for (attachments, named) in [(host, "host"), (ingress, "ingress"), (Value::Null, "no network")] {
        let tasks = [with(task("a", 0, "running/running"), json!({"NetworksAttachments": attachments}))];
        let believed = believe(&replicas(1), &tasks);
        assert_eq!(believed.belief, Belief::Running);
        let spec = api::ServiceSpec::default();
        let none = network::endpoints(&believed.instance.unwrap(), &spec, network::Choice::default(), 25565);
        assert!(none.unwrap_err().contains(named));
    }
}

#[test]
fn a_mode_left_out_is_one_replica() {
    for mode in [json!({}), json!({"Replicated": {}}), json!({"Replicated": {}, "Global": null}), Value::Null]
    {
        assert_eq!(believe(&service(mode), &[]).replicas, Some(1));
    }
}

#[test]
fn words_of_a_newer_engine_are_not_guessed_at() {
    let cases = [
        (service(json!({"Elastic": {}})), vec![]),
        (service(json!({"Replicated": {"Replicas": -1}})), vec![]),
        (replicas(1), vec![task("a", 0, "frozen/running")]),
        (replicas(1), vec![task("a", 0, "running/frozen")]),
    ];
    for (service, tasks) in cases {
        let believed = believe(&service, &tasks);
        assert_eq!((&believed.belief, believed.wake()), (&Belief::Unknown, None), "{service} {tasks:?}");
    }
    let asleep = believe(&replicas(0), &[task("a", 0, "frozen/frozen")]);
    assert_eq!((&asleep.belief, asleep.wake()), (&Belief::Stopping, None), "it may still run");
}

#[test]
fn tasks_of_other_services_do_not_count() {
    let stranger = with(task("a", 0, "running/running"), json!({"ServiceID": "another"}));
    assert_eq!(believe(&replicas(0), &[stranger]).belief, Belief::Asleep);
}

#[test]
fn a_paused_update_is_part_of_the_reason() {
    let mut service = replicas(1);
    service["UpdateStatus"] = json!({"State": "paused", "Message": "update paused due to failure"});
    let believed = believe(&service, &[task("a", 0, "failed/shutdown")]);
    assert!(believed.reason.ends_with("(update paused due to failure)"), "{}", believed.reason);
    service["UpdateStatus"] = json!({"State": "completed", "Message": "update completed"});
    assert!(!believe(&service, &[task("a", 0, "failed/shutdown")]).reason.contains("update"));
}

fn any_task() -> impl Strategy<Value = (i64, String, u64, String)> {
    let states = ["new", "pending", "assigned", "preparing", "ready", "starting", "running"];
    let ends = ["complete", "shutdown", "failed", "rejected", "orphaned", "odd"];
    let state = prop::sample::select([states.as_slice(), ends.as_slice()].concat());
    let desired = prop::sample::select(vec!["ready", "running", "shutdown", "remove", "odd"]);
    let node = prop::sample::select(vec!["", "n1", "n2"]);
    (-5..5_i64, state, desired, 0..3_u64, node)
        .prop_map(|(age, state, desired, slot, node)| (age, format!("{state}/{desired}"), slot, node.into()))
}

proptest! {
    #[test]
    fn order_never_matters_and_a_wake_never_doubles(
        count in 0..3_u64,
        tasks in prop::collection::vec(any_task(), 0..6),
        seed in any::<prop::sample::Index>(),
        seconds in 0..10_i64,
    ) {
        let tasks: Vec<Value> = tasks
            .into_iter()
            .enumerate()
            .map(|(i, (age, states, slot, node))| {
                with(task(&format!("t{i}"), age, &states), json!({"Slot": slot, "NodeID": node}))
            })
            .collect();
        let mut turned = tasks.clone();
        turned.rotate_left(seed.index(tasks.len().max(1)).min(tasks.len()));
        turned.reverse();
        let now = changed() + SignedDuration::from_secs(seconds);
        let nodes = [down("n2"), json!({"ID": "n1", "Status": {"State": "ready"}})];
        let believed = see(&replicas(count), &tasks, &nodes, now);
        prop_assert_eq!(&see(&replicas(count), &turned, &nodes, now), &believed);

        // Whatever is listed: nothing is written while a task may run on a node that answers.
        if believed.wake().is_some() {
            prop_assert!(believed.stopping.is_none_or(|stopping| stopping.only_on_down_nodes()));
            let alive = |task: &Value| {
                let state: TaskState = task["Status"]["State"].as_str().unwrap().to_owned().into();
                !state.is_terminal() && task["NodeID"] == "n1"
            };
            prop_assert!(!tasks.iter().any(alive), "{:?} {:?}", believed, tasks);
        }
        prop_assert_eq!(believed.instance.is_some(), believed.belief == Belief::Running);
    }
}
