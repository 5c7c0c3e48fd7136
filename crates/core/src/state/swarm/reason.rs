//! Why a service is where it is, in a sentence for people. Swarm's own words are kept.

use super::Belief;
use super::api::{Healthcheck, Service, Task, TaskState};

pub fn removed(message: &str) -> String {
    if message.is_empty() { "there is no such service".into() } else { message.into() }
}

pub fn refused(status: u16, message: &str) -> String {
    let message = message.trim();
    match (status, message.is_empty()) {
        (0, true) => "the engine does not answer".into(),
        (0, false) => format!("the engine does not answer: {message}"),
        (_, true) => format!("the engine answers with status {status}"),
        (_, false) => format!("the engine answers with status {status}: {message}"),
    }
}

pub fn running(task: &Task, dying: usize) -> String {
    let rest = if dying > 0 { "; an older task is still stopping" } else { "" };
    format!("task {} is running{rest}", task.id)
}

pub fn strange(task: &Task) -> String {
    format!(
        "task {} is in state {:?}, wanted {:?}: not known to this version",
        task.id,
        task.status.state.to_string(),
        task.desired_state.to_string()
    )
}

pub fn coming_up(task: &Task, service: &Service) -> String {
    if !task.status.err.is_empty() {
        return task.status.err.clone();
    }
    match task.status.state {
        TaskState::New | TaskState::Allocated | TaskState::Pending => "pending: waiting for a node".into(),
        TaskState::Assigned => "assigned to a node".into(),
        TaskState::Accepted => "accepted by its node".into(),
        TaskState::Preparing => "preparing: pulling the image, setting up networks".into(),
        TaskState::Ready => "ready: its container is created".into(),
        TaskState::Starting if has_health_check(service) => "starting: waiting for the health check".into(),
        TaskState::Starting => "starting its container".into(),
        TaskState::Running
        | TaskState::Complete
        | TaskState::Shutdown
        | TaskState::Failed
        | TaskState::Rejected
        | TaskState::Remove
        | TaskState::Orphaned
        | TaskState::Other(_) => task.status.state.to_string(),
    }
}

/// What comes next is in the belief; this is what went before.
pub fn restart(held: &Task, last: Option<&Task>) -> String {
    let failed_while_held = Some(held).filter(|task| task.status.state.is_terminal());
    match failed_while_held.or(last) {
        Some(task) if task.status.state.is_terminal() => outcome(task),
        Some(_) => "its node is down".into(),
        None => "its last task ended".into(),
    }
}

/// How a task ended: what Swarm says, and what its exit code means.
pub fn outcome(task: &Task) -> String {
    let err = task.status.err.as_str();
    let code = task.status.container_status.exit_code.filter(|code| *code != 0);
    let meaning = code.and_then(exit_code);
    match (err.is_empty(), code, meaning) {
        (false, _, Some(meaning)) => format!("{err}: {meaning}"),
        (false, _, None) => err.into(),
        (true, Some(code), Some(meaning)) => format!("exit code {code}: {meaning}"),
        (true, Some(code), None) => format!("exit code {code}"),
        (true, None, _) if task.status.state == TaskState::Complete => "exit code 0".into(),
        (true, None, _) => format!("its task is {}", task.status.state),
    }
}

/// What an exit code means by convention (Docker's `run` reference; 128 + n is signal n).
pub(in crate::state) fn exit_code(code: i64) -> Option<&'static str> {
    match code {
        126 => Some("the command cannot be executed"),
        127 => Some("the command was not found"),
        130 => Some("interrupted (SIGINT)"),
        134 => Some("aborted (SIGABRT)"),
        137 => Some("killed (SIGKILL): out of memory, or not stopped within its stop grace"),
        139 => Some("crashed (SIGSEGV)"),
        143 => Some("ended on SIGTERM"),
        _ => None,
    }
}

fn has_health_check(service: &Service) -> bool {
    let disabled = |check: &Healthcheck| check.test.first().is_some_and(|word| word == "NONE");
    service.spec.task_template.container_spec.healthcheck.as_ref().is_some_and(|check| !disabled(check))
}

/// Adds what a rolling update is doing, where it bears on the state.
pub fn with_update(why: String, belief: &Belief, service: &Service) -> String {
    let update = &service.update_status;
    let bears = match belief {
        Belief::Running
        | Belief::Waking
        | Belief::Pending
        | Belief::Starting
        | Belief::Replacing
        | Belief::RestartDelay { .. }
        | Belief::Transition
        | Belief::Failed
        | Belief::Stuck => true,
        Belief::Removed
        | Belief::Unknown
        | Belief::Job
        | Belief::Stopping
        | Belief::Asleep
        | Belief::Finished => false,
    };
    // "completed" stays until the next update, long after it says anything.
    if !bears || matches!(update.state.as_str(), "" | "completed" | "rollback_completed") {
        return why;
    }
    match update.message.as_str() {
        "" => format!("{why} (update {})", update.state),
        message => format!("{why} ({message})"),
    }
}
