//! What commands print: for people by default, for programs with `--json`.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub json: bool,
}

impl Output {
    /// Prints `value` as JSON, or what `human` makes of it.
    pub fn print<T: Serialize>(self, value: &T, human: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
        let text = if self.json { serde_json::to_string_pretty(value)? } else { human(value) };
        line(&text);
        Ok(())
    }
}

/// Writes to standard output. A reader that has gone away (`| head`) is no error.
pub fn line(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end_matches('\n'));
}

pub fn complaint(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

pub fn fail(error: &anyhow::Error) -> ExitCode {
    complaint(&format!("swarmgate: {error:#}"));
    ExitCode::FAILURE
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

    #[test]
    fn columns_align() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
        assert_eq!(table(&[row(&["NAME", "X"]), row(&["ü", "long", "z"])]), "NAME  X\nü     long  z");
    }
}
