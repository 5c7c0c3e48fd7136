//! `[update]`: which services may be given which images over the API.

use std::path::{Path, PathBuf};

use super::problem::Fault;
use super::reader::Section;
use crate::image::is_pattern;

/// `[update]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Update {
    pub services: Updatable,
    /// Patterns of names; empty: any image.
    pub images: Vec<String>,
    /// Docker's `config.json` with credentials for registries.
    pub registries_file: Option<PathBuf>,
}

/// Which services of a Swarm may be updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Updatable {
    /// Those with labels for the gate.
    #[default]
    Labelled,
    All,
}

impl Update {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let services = [("labelled", Updatable::Labelled), ("all", Updatable::All)];
        let update = Self {
            services: section.choice("services", &services).unwrap_or_default(),
            images: section.list("images", pattern).unwrap_or_default(),
            registries_file: section.path("registries_file"),
        };
        section.finish();
        update
    }

    /// With every path relative to `directory`.
    pub(super) fn beside(&mut self, directory: &Path) {
        self.registries_file = self.registries_file.take().map(|path| directory.join(path));
    }
}

fn pattern(text: &str) -> Result<String, Fault> {
    if is_pattern(text) {
        return Ok(text.to_owned());
    }
    let fix = "write a name without tag, such as \"ghcr.io/acme/web\", or \"ghcr.io/acme/*\" for all names below it";
    Err(Fault::new(format!("{text:?} is not a name of images"), fix))
}
