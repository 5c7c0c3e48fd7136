//! `plan`.

use std::process::ExitCode;

use clap::Args;
use swarmgate_core::publish::plan::HostView;

use super::Common;
use super::control::Control;
use super::output::{Output, table};
use crate::cloudflare::PlanAnswer;

#[derive(Debug, Args)]
pub struct Show {
    /// As the gate found it last, without asking Cloudflare again
    #[arg(long)]
    last: bool,
    #[command(flatten)]
    common: Common,
}

impl Show {
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let path = format!("/v1/plan?last={}", self.last);
        let plan: PlanAnswer = Control::of(&self.common)?.get(&path).await?;
        output.print(&plan, human)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn human(plan: &PlanAnswer) -> String {
    if !plan.configured {
        return "the gate publishes nothing: its configuration has no [cloudflare]".to_owned();
    }
    let mut lines = Vec::new();
    if let Some(problem) = &plan.problem {
        lines.push(format!("problem: {problem}"));
        lines.push("what follows is how it was before".to_owned());
    }
    lines.extend(plan.tunnel_status.iter().map(|status| format!("tunnel: {status}")));
    lines.push(match (plan.steps.len(), plan.dry_run) {
        (0, _) => "nothing is to be changed".to_owned(),
        (_, false) => "to be changed:".to_owned(),
        (_, true) => "would be changed (dry_run = true):".to_owned(),
    });
    lines.extend(plan.steps.iter().map(|step| format!("  {step}")));
    if !plan.hosts.is_empty() {
        let heads = ["HOST", "STATE", "SERVICE"].map(str::to_owned).to_vec();
        let rows = plan.hosts.iter().map(|host| row(host, plan.dry_run));
        let rows: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
        lines.push(table(&rows));
    }
    for host in &plan.hosts {
        let told = host.problem.iter().chain(&host.notes);
        lines.extend(told.map(|what| format!("{}: {what}", host.host)));
    }
    lines.extend(plan.problems.iter().cloned());
    lines.join("\n")
}

fn row(host: &HostView, dry_run: bool) -> Vec<String> {
    let service = host.service.clone().unwrap_or_else(|| "-".to_owned());
    let state = match host.state.as_str() {
        "changing" if dry_run => "would change",
        "withdrawing" if dry_run => "would be withdrawn",
        state => state,
    };
    vec![host.host.clone(), state.to_owned(), service]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_reads_as_a_diff() {
        let host = |host: &str, state: &str, problem: Option<&str>| HostView {
            host: host.to_owned(),
            service: Some("swarm/web".to_owned()),
            state: state.to_owned(),
            problem: problem.map(str::to_owned),
            notes: Vec::new(),
        };
        let plan = PlanAnswer {
            configured: true,
            tunnel_status: Some("healthy".to_owned()),
            steps: vec!["+ tunnel  a.example.com -> http://web:80".to_owned()],
            hosts: vec![
                host("a.example.com", "changing", None),
                host("b.example.com", "conflict", Some("why")),
            ],
            problems: vec!["swarm/shop: swarmgate.publish.prot: there is no such label".to_owned()],
            ..PlanAnswer::default()
        };
        assert_eq!(
            human(&plan).lines().collect::<Vec<_>>(),
            [
                "tunnel: healthy",
                "to be changed:",
                "  + tunnel  a.example.com -> http://web:80",
                "HOST           STATE     SERVICE",
                "a.example.com  changing  swarm/web",
                "b.example.com  conflict  swarm/web",
                "b.example.com: why",
                "swarm/shop: swarmgate.publish.prot: there is no such label",
            ]
        );
        let dry = human(&PlanAnswer { dry_run: true, ..plan.clone() });
        assert!(dry.contains("a.example.com  would change  swarm/web"), "{dry}");
        let away = human(&PlanAnswer { problem: Some("no answer".to_owned()), ..plan });
        assert!(away.starts_with("problem: no answer\nwhat follows is how it was before\n"), "{away}");
        assert!(human(&PlanAnswer::default()).contains("no [cloudflare]"));
    }
}
