//! "Look again": inotify on the directories in which gate and keepers leave their files.

use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;

/// Watches directories for files that are replaced and for locks that are let go.
///
/// Where inotify is not to be had nothing is reported; whoever watches looks again from time to time anyway.
#[derive(Debug)]
pub struct Watch(Option<Receiver>);

impl Watch {
    /// Must be called inside a runtime.
    pub fn new() -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        // Not a pipe, but read like one.
        Self(inotify.ok().and_then(|inotify| Receiver::from_owned_fd_unchecked(inotify).ok()))
    }

    /// Watching the same directory again changes nothing.
    pub fn add(&self, dir: &Path) {
        if let Some(inotify) = &self.0 {
            // The last descriptor of a lock file is closed when its holder dies.
            let _ = inotify::add_watch(inotify, dir, WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE);
        }
    }

    /// Returns when something may have changed since the last call. Cancel-safe.
    pub async fn changed(&self) {
        let Some(inotify) = &self.0 else { return std::future::pending().await };
        let mut events = [0_u8; 4096];
        loop {
            if inotify.readable().await.is_err() {
                return std::future::pending().await;
            }
            // What is being read together is one change.
            let mut any = false;
            while inotify.try_read(&mut events).is_ok_and(|count| count > 0) {
                any = true;
            }
            if any {
                return;
            }
        }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}
