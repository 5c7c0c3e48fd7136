//! Protocol numbers and the releases that speak them (minecraft.wiki, Java Edition protocol version numbers).

use std::fmt;

/// A protocol number as a client or server states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub i32);

impl Protocol {
    /// The newest one known here.
    pub const LATEST: Self = Self(777);
    /// 1.20.5: a server can send a client to another one.
    pub const TRANSFER: Self = Self(766);
    /// 1.16: colours other than the sixteen named ones.
    pub const HEX_COLOURS: Self = Self(735);

    /// The protocol of a release, such as `1.20.4`.
    pub fn of_release(name: &str) -> Option<Self> {
        RELEASES.iter().find(|(_, releases)| releases.contains(&name)).map(|&(number, _)| Self(number))
    }

    /// The releases that speak it, oldest first; none if it is not known here.
    pub fn releases(self) -> &'static [&'static str] {
        RELEASES.iter().find(|(number, _)| *number == self.0).map_or(&[], |(_, releases)| releases)
    }

    pub fn is_known(self) -> bool {
        !self.releases().is_empty()
    }

    /// Snapshots since 1.16.4 count apart, with this bit set.
    pub const fn is_snapshot(self) -> bool {
        self.0 > 0 && self.0 & SNAPSHOT_BIT != 0
    }
}

impl fmt::Display for Protocol {
    /// `1.20.3-1.20.4`, or the bare number where no release is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.releases() {
            [] if self.is_snapshot() => write!(f, "snapshot protocol {}", self.0 & !SNAPSHOT_BIT),
            [] => write!(f, "protocol {}", self.0),
            [only] => f.write_str(only),
            [first, .., last] => write!(f, "{first}-{last}"),
        }
    }
}

const SNAPSHOT_BIT: i32 = 0x4000_0000;

const RELEASES: &[(i32, &[&str])] = &[
    (4, &["1.7.2", "1.7.3", "1.7.4", "1.7.5"]),
    (5, &["1.7.6", "1.7.7", "1.7.8", "1.7.9", "1.7.10"]),
    (47, &["1.8", "1.8.1", "1.8.2", "1.8.3", "1.8.4", "1.8.5", "1.8.6", "1.8.7", "1.8.8", "1.8.9"]),
    (107, &["1.9"]),
    (108, &["1.9.1"]),
    (109, &["1.9.2"]),
    (110, &["1.9.3", "1.9.4"]),
    (210, &["1.10", "1.10.1", "1.10.2"]),
    (315, &["1.11"]),
    (316, &["1.11.1", "1.11.2"]),
    (335, &["1.12"]),
    (338, &["1.12.1"]),
    (340, &["1.12.2"]),
    (393, &["1.13"]),
    (401, &["1.13.1"]),
    (404, &["1.13.2"]),
    (477, &["1.14"]),
    (480, &["1.14.1"]),
    (485, &["1.14.2"]),
    (490, &["1.14.3"]),
    (498, &["1.14.4"]),
    (573, &["1.15"]),
    (575, &["1.15.1"]),
    (578, &["1.15.2"]),
    (735, &["1.16"]),
    (736, &["1.16.1"]),
    (751, &["1.16.2"]),
    (753, &["1.16.3"]),
    (754, &["1.16.4", "1.16.5"]),
    (755, &["1.17"]),
    (756, &["1.17.1"]),
    (757, &["1.18", "1.18.1"]),
    (758, &["1.18.2"]),
    (759, &["1.19"]),
    (760, &["1.19.1", "1.19.2"]),
    (761, &["1.19.3"]),
    (762, &["1.19.4"]),
    (763, &["1.20", "1.20.1"]),
    (764, &["1.20.2"]),
    (765, &["1.20.3", "1.20.4"]),
    (766, &["1.20.5", "1.20.6"]),
    (767, &["1.21", "1.21.1"]),
    (768, &["1.21.2", "1.21.3"]),
    (769, &["1.21.4"]),
    (770, &["1.21.5"]),
    (771, &["1.21.6"]),
    (772, &["1.21.7", "1.21.8"]),
    (773, &["1.21.9", "1.21.10"]),
    (774, &["1.21.11"]),
    (775, &["26.1", "26.1.1", "26.1.2"]),
    (776, &["26.2"]),
    (777, &["26.3"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (number, shown, known) in [
            (5, "1.7.6-1.7.10", true),
            (340, "1.12.2", true),
            (765, "1.20.3-1.20.4", true),
            (777, "26.3", true),
            (778, "protocol 778", false),
            (-1, "protocol -1", false),
            (0x4000_0000 + 344, "snapshot protocol 344", false),
        ] {
            assert_eq!(
                (Protocol(number).to_string(), Protocol(number).is_known()),
                (shown.to_owned(), known)
            );
        }
    }

    #[test]
    fn every_release_names_one_protocol() {
        for (number, releases) in RELEASES {
            for release in *releases {
                assert_eq!(Protocol::of_release(release), Some(Protocol(*number)), "{release}");
            }
        }
        assert!(RELEASES.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(RELEASES.last().unwrap().0, Protocol::LATEST.0);
        assert_eq!(Protocol::of_release("1.20.7"), None);
    }
}
