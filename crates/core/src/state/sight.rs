use super::{KILLED_BEGINS, UNHEALTHY_BEGINS};
use crate::alert::{Condition, Kind, Sight, Subject, Trouble};
use crate::service::{Service, State};

/// What a service's state says to those who are told of troubles, beside the `ends` that it has come to since the last
/// look.
pub fn sight(service: &Service, ends: impl IntoIterator<Item = Trouble>) -> Sight {
    let condition = match service.state {
        State::Running(_) => Condition::Well,
        State::Asleep => Condition::AtRest,
        State::Starting { .. }
        | State::Restarting { .. }
        | State::Stopping
        | State::Failed { .. }
        | State::Unknown { .. } => Condition::Moving,
    };
    let failed = match &service.state {
        State::Failed { reason } => Some(Trouble::lasting(Kind::GaveUp, reason.clone())),
        State::Running(_)
        | State::Asleep
        | State::Starting { .. }
        | State::Restarting { .. }
        | State::Stopping
        | State::Unknown { .. } => None,
    };
    let troubles = ends.into_iter().chain(failed).chain(of_problems(&service.problems));
    Sight { subject: Subject::Service(service.id.clone()), condition, troubles: troubles.collect() }
}

/// Most problems are advice. These are not.
pub(super) fn of_problems(problems: &[String]) -> impl Iterator<Item = Trouble> {
    problems.iter().filter_map(|problem| {
        let kinds = [(KILLED_BEGINS, Kind::KilledSaving), (UNHEALTHY_BEGINS, Kind::Unhealthy)];
        let (_, kind) = kinds.into_iter().find(|(begins, _)| problem.starts_with(begins))?;
        Some(Trouble::lasting(kind, problem.clone()))
    })
}
