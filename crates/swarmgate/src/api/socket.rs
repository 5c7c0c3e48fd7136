//! The control socket: a file whose rights say who may command the gate.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::UnixListener;

/// The longest path a Unix socket can have, its end included.
const LONGEST_PATH: usize = 108;

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("another swarmgate answers on {0}; stop it, or give this one its own data_dir")]
    InUse(String),
    #[error(
        "the path of the control socket is {length} bytes long and may have {LONGEST_PATH}: {path}; set `control` to a shorter one"
    )]
    TooLong { path: String, length: usize },
    #[error(
        "{0} is in the place of the control socket and is none; move it, or set `control` to another path"
    )]
    NotASocket(String),
    #[error("cannot make the control socket {path}; `control` may be another path")]
    Other { path: String, source: io::Error },
}

impl ControlError {
    /// A short name for programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::InUse(_) => "control_in_use",
            Self::TooLong { .. } | Self::NotASocket(_) | Self::Other { .. } => "control_unusable",
        }
    }
}

/// Binds the socket for the owner alone. A socket that a crashed gate left behind is taken over.
pub fn bind_control(path: &Path) -> Result<UnixListener, ControlError> {
    let shown = path.display().to_string();
    if shown.len() >= LONGEST_PATH {
        return Err(ControlError::TooLong { length: shown.len(), path: shown });
    }
    let other = |source| ControlError::Other { path: shown.clone(), source };
    if UnixStream::connect(path).is_ok() {
        return Err(ControlError::InUse(shown));
    }
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => std::fs::remove_file(path).map_err(other)?,
        Ok(_) => return Err(ControlError::NotASocket(shown)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(other(error)),
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(other)?;
    }
    bind_private(path).map_err(other)
}

fn bind_private(path: &Path) -> io::Result<UnixListener> {
    const BACKLOG: i32 = 128;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // Linux makes the file with the rights that the socket has, so it is never open to others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    UnixListener::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn a_stale_file_is_taken_over_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/control.sock");
        drop(bind_control(&path).unwrap());
        assert!(path.exists(), "a crash leaves the file");
        let _live = bind_control(&path).unwrap();
        assert!(matches!(bind_control(&path), Err(ControlError::InUse(_))));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        std::fs::write(&path, "dear").unwrap();
        let error = bind_control(&path).unwrap_err();
        assert!(matches!(&error, ControlError::NotASocket(named) if *named == path.display().to_string()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear");
    }

    #[tokio::test]
    async fn it_is_born_with_narrow_rights() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let _socket = bind_private(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_path_too_long_says_so() {
        let path = Path::new("/tmp").join("x".repeat(200));
        assert!(matches!(bind_control(&path), Err(ControlError::TooLong { length: 205, .. })));
    }
}
