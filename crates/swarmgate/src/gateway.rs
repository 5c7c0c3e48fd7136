//! The Minecraft edge: from an accepted connection to a relayed one.

pub mod relay;
