//! Words in URLs.

/// A word as it may stand in a path or a query.
pub fn encode(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_survive_a_url() {
        assert_eq!(encode("mc.example.com"), "mc.example.com");
        assert_eq!(encode("a b/ü?"), "a%20b%2F%C3%BC%3F");
    }
}
