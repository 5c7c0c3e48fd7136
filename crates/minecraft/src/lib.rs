//! The Minecraft Java wire, sans-IO.
