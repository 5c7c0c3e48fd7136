//! The control socket: a file whose rights say who may command the gate.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

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
    #[error("cannot make the control socket {path}")]
    Other { path: String, source: io::Error },
}

/// Binds the socket for the owner alone. A file that a crashed gate left behind is taken over.
pub fn bind_control(path: &Path) -> Result<UnixListener, ControlError> {
    let shown = path.display().to_string();
    if shown.len() >= LONGEST_PATH {
        return Err(ControlError::TooLong { length: shown.len(), path: shown });
    }
    let other = |source| ControlError::Other { path: shown.clone(), source };
    if UnixStream::connect(path).is_ok() {
        return Err(ControlError::InUse(shown));
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(other(error)),
        Ok(()) | Err(_) => {}
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(other)?;
    }
    let socket = UnixListener::bind(path).map_err(other)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(other)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_path_too_long_says_so() {
        let path = Path::new("/tmp").join("x".repeat(200));
        assert!(matches!(bind_control(&path), Err(ControlError::TooLong { length: 205, .. })));
    }
}
