//! Lengths of time as people write them.

use std::fmt::Write;
use std::time::Duration;

/// `1h 30m`, `90s` as `1m 30s`, `250ms`: the two largest units that matter, rounded down.
pub fn human(span: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    if span.is_zero() {
        return "0s".to_owned();
    }
    if span < Duration::from_secs(1) {
        return format!("{}ms", span.as_millis());
    }
    let mut left = span.as_secs();
    let mut text = String::new();
    let mut parts = 0;
    for (size, unit) in UNITS {
        let count = left / size;
        left %= size;
        if count > 0 && parts < 2 {
            let _ = write!(text, "{}{count}{unit}", if parts == 0 { "" } else { " " });
            parts += 1;
        } else if parts > 0 {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_write_them() {
        for (ms, text) in [
            (0, "0s"),
            (250, "250ms"),
            (1_999, "1s"),
            (60_000, "1m"),
            (90_000, "1m 30s"),
            (3_600_000, "1h"),
            (3_605_000, "1h"),
            (5_400_000, "1h 30m"),
            (90_000_000, "1d 1h"),
        ] {
            assert_eq!(human(Duration::from_millis(ms)), text);
        }
    }
}
