//! Which build this is.

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// `unknown` in a debug build, and in one from outside git that was not told.
pub const COMMIT: &str = env!("SWARMGATE_COMMIT");
/// Both, for people.
pub const BOTH: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("SWARMGATE_COMMIT"), ")");
