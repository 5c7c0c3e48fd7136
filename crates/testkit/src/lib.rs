//! Test clients and servers.
