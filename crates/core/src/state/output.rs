//! What containers and tasks write, as an engine hands it over.

/// Without a terminal, output comes in pieces, each after a head of eight bytes: which stream it is of, three zeros, and
/// its length (Engine API, "Attach to a container"). What is none of that is taken as it is.
pub fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    while let Some((&[stream @ 0..=2, 0, 0, 0, a, b, c, d], rest)) = body.split_first_chunk::<8>() {
        let _ = stream;
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX).min(rest.len());
        let (piece, after) = rest.split_at(length);
        text.extend_from_slice(piece);
        body = after;
    }
    text.extend_from_slice(body);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_and_a_terminal_is_left_as_it_is() {
        let piece = |stream: u8, text: &str| {
            [&[stream, 0, 0, 0, 0, 0, 0, text.len().try_into().unwrap()], text.as_bytes()].concat()
        };
        let body = [piece(1, "one\n"), piece(2, "two\nth"), piece(1, "ree\n")].concat();
        assert_eq!(joined(&body), b"one\ntwo\nthree\n");
        assert_eq!(joined(b"plain\ntext\n"), b"plain\ntext\n");
        let cut = &body[..body.len() - 2];
        assert_eq!(joined(cut), b"one\ntwo\nthre", "cut off");
        assert_eq!(joined(b""), b"");
    }
}
