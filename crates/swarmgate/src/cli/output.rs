//! What commands print: for people by default, for programs with `--json`. Then an answer is one JSON value on
//! standard output, and an error one object on a line of its own on standard error.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ContextKind;
use serde::Serialize;
use serde_json::json;

use crate::api::ControlError;
use crate::gateway::listener::ListenError;
use crate::settings::LoadError;
use crate::store::StoreError;

#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub json: bool,
}

/// Why a command could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Stable, for programs.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// What may help.
    pub fix: Option<String>,
    pub exit: u8,
}

impl Output {
    /// Prints `value` as JSON, or what `human` makes of it.
    pub fn print<T: Serialize>(self, value: &T, human: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
        let text = if self.json { serde_json::to_string_pretty(value)? } else { human(value) };
        line(&text);
        Ok(())
    }

    /// What goes on meanwhile: for people alone.
    pub fn notice(self, text: &str) {
        if !self.json {
            complaint(text);
        }
    }

    pub fn fail(self, error: &anyhow::Error) -> ExitCode {
        self.tell(&Failure::of(error))
    }

    fn tell(self, failure: &Failure) -> ExitCode {
        let Failure { code, message, fix, exit } = failure;
        if self.json {
            let mut error = json!({ "code": code, "message": message });
            if let (Some(error), Some(fix)) = (error.as_object_mut(), fix) {
                error.insert("fix".to_owned(), fix.as_str().into());
            }
            complaint(&json!({ "error": error }).to_string());
        } else {
            complaint(&format!("swarmgate: {message}"));
            fix.iter().for_each(|fix| complaint(&format!("  {fix}")));
        }
        ExitCode::from(*exit)
    }
}

/// A command line that is none, or one that asks for help.
pub fn misunderstood(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if !error.use_stderr() || !wants_json {
        let _ = error.print();
        return ExitCode::from(exit_code(error));
    }
    let rendered = error.render().to_string();
    let message = rendered.lines().next().unwrap_or_default();
    let near = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let near = near.into_iter().find_map(|kind| error.get(kind));
    let failure = Failure {
        code: "bad_command".to_owned(),
        message: message.trim_start_matches("error: ").to_owned(),
        fix: near.map(|near| format!("Did you mean {near}?")),
        exit: exit_code(error),
    };
    Output { json: true }.tell(&failure)
}

fn exit_code(error: &clap::Error) -> u8 {
    u8::try_from(error.exit_code()).unwrap_or(1)
}

impl Failure {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), fix: None, exit: 1 }
    }

    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// What `error` is, with its causes in one sentence.
    fn of(error: &anyhow::Error) -> Self {
        let message = format!("{error:#}");
        match error.downcast_ref::<Self>() {
            Some(Self { code, fix, exit, .. }) => {
                Self { code: code.clone(), message, fix: fix.clone(), exit: *exit }
            }
            None => Self { fix: access(error), ..Self::new(code(error), message) },
        }
    }
}

/// What may help where the system says no.
fn access(error: &anyhow::Error) -> Option<String> {
    if let Some(LoadError::Unreadable { source, .. }) = error.downcast_ref()
        && source.kind() == io::ErrorKind::NotFound
    {
        return Some("Is this its directory? `--config FILE` names another.".to_owned());
    }
    let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let user = rustix::process::geteuid();
    error.chain().any(|cause| cause.downcast_ref().is_some_and(denied)).then(|| {
        format!("This runs as user {}: give that user access, or run it as one that has it.", user.as_raw())
    })
}

fn code(error: &anyhow::Error) -> &'static str {
    let known = [
        error.downcast_ref().map(LoadError::kind),
        error.downcast_ref().map(ListenError::kind),
        error.downcast_ref().map(ControlError::kind),
        error.downcast_ref().map(StoreError::kind),
    ];
    known.into_iter().flatten().next().unwrap_or("failed")
}

/// Writes to standard output. A reader that has gone away (`| head`) is no error.
pub fn line(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{}", text.trim_end_matches('\n'));
}

pub fn complaint(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Columns as wide as their widest cell.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let written = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    written.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn columns_align() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        assert_eq!(table(&[row(&["NAME", "X"]), row(&["ü", "long", "z"])]), "NAME  X\nü     long  z");
    }

    #[test]
    fn a_failure_keeps_its_code_under_what_is_said_around_it() {
        let known = || Failure::new("odd", "it is odd").fix("Make it even.");
        let source = std::io::Error::other("no such thing");
        let unreadable = LoadError::Unreadable { path: "a.toml".to_owned(), source };
        for (error, code, message, fix) in [
            (anyhow::Error::new(known()), "odd", "it is odd", Some("Make it even.")),
            (
                Err::<(), _>(known()).context("two").unwrap_err(),
                "odd",
                "two: it is odd",
                Some("Make it even."),
            ),
            (unreadable.into(), "config_unreadable", "cannot read a.toml: no such thing", None),
            (anyhow::anyhow!("new"), "failed", "new", None),
        ] {
            let failure = Failure::of(&error);
            assert_eq!((&*failure.code, &*failure.message), (code, message));
            assert_eq!(failure.fix.as_deref(), fix);
        }
    }
}
