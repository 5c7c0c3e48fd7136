//! What packages of the program are made with: completions for shells, and manual pages.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;
use serde_json::json;

use super::output::Output;

#[derive(Debug, Args)]
pub struct Completions {
    /// For which shell
    shell: Shell,
}

impl Completions {
    pub fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "swarmgate", &mut script);
        let script = String::from_utf8(script).context("the script is not text")?;
        output.print(&json!({"shell": self.shell.to_string(), "script": script}), |_| {
            script.trim_end().to_owned()
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, Args)]
pub struct ManPages {
    /// Write a page for the program and one for each of its commands here, rather than the first of them on standard
    /// output
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl ManPages {
    pub fn run(self, output: Output) -> anyhow::Result<ExitCode> {
        let Some(directory) = self.directory else {
            let mut page = Vec::new();
            Man::new(super::command().disable_help_subcommand(true)).render(&mut page)?;
            let page = String::from_utf8(page).context("the page is not text")?;
            output.print(&json!({"page": page}), |_| page.trim_end().to_owned())?;
            return Ok(ExitCode::SUCCESS);
        };
        let shown = directory.display().to_string();
        let cannot = || format!("cannot write the manual pages to {shown}");
        std::fs::create_dir_all(&directory).with_context(cannot)?;
        clap_mangen::generate_to(super::command(), &directory).with_context(cannot)?;
        output.print(&json!({"directory": shown}), |_| format!("the manual pages are in {shown}"))?;
        Ok(ExitCode::SUCCESS)
    }
}
