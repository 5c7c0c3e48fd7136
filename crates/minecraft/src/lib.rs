//! The Minecraft Java wire, sans-IO: bytes in, values out. Nothing here reads a socket, a clock or a file.
//!
//! Three habits hold everywhere. *Incomplete* (`Ok(None)`) is never *malformed* (`Err`). Nothing is allocated
//! by the size somebody claims, only by the bytes that are there. No input panics.

pub mod address;
pub mod client;
pub mod field;
pub mod frame;
pub mod handshake;
mod ids;
pub mod knock;
pub mod legacy;
pub mod limbo;
pub mod login;
mod malformed;
pub mod nbt;
pub mod proxy_header;
pub mod srv;
pub mod status;
pub mod text;
pub mod varint;
pub mod version;

pub use malformed::Malformed;
