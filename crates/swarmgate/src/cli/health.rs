//! `health`, for a container's health check.

use std::process::ExitCode;

use clap::Args;

use super::Common;
use super::control::Control;
use super::output::Output;

#[derive(Debug, Args)]
pub struct Health {
    #[command(flatten)]
    common: Common,
}

impl Health {
    /// Exit code 0 if the running gate answers, 1 if not.
    pub async fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let answer = Control::of(&self.common)?.text("/healthz").await?;
        output.print(&answer.trim_end(), |answer| (*answer).to_owned())?;
        Ok(ExitCode::SUCCESS)
    }
}
