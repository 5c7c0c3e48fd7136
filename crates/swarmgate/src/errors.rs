//! How errors are told.

/// An error with its causes, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::provider::SourceError;

    #[test]
    fn causes_are_named() {
        let source = io::Error::new(io::ErrorKind::StorageFull, "no space left");
        let error = SourceError::Io { what: "the state of a cannot be written".into(), source };
        assert_eq!(chain(&error), "the state of a cannot be written: no space left");
    }
}
